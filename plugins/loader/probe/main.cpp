// crucible-probe: looks at one plugin in a process of its own, so that whatever the plugin does happens here and not in
// the host. Started by plugins/loader/probe.cpp alone:
//   crucible-probe PATH MEMORY_BYTES CPU_SECONDS query|devices [OPTION=VALUE...]
// with the plugin's file open as descriptor 4. Each step is a line of JSON on descriptor 3 (probe_record.hpp); standard
// output and error are the plugin's, and the host shows them when something goes wrong.
#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <clocale>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/terminal.hpp"
#include "plugins/loader/dependency.hpp"
#include "plugins/loader/inspect.hpp"
#include "plugins/loader/mapped.hpp"
#include "plugins/loader/probe/snapshot.hpp"
#include "plugins/loader/probe_record.hpp"
#include "plugins/loader/query.hpp"
#include "plugins/loader/sealed.hpp"
#include "plugins/loader/stopwatch.hpp"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CRUCIBLE_SANITIZED 1
#else
#define CRUCIBLE_SANITIZED 0
#endif

// The host names the signal that ended a probe: a sanitizer must not turn it into an exit, nor look for leaks.
extern "C" const char* __asan_default_options() {
  return "handle_segv=0:handle_abort=0:handle_sigill=0:handle_sigbus=0:handle_sigfpe=0:detect_leaks=0";
}
extern "C" const char* __tsan_default_options() {
  return "handle_segv=0:handle_abort=0:handle_sigill=0:handle_sigbus=0:handle_sigfpe=0";
}

namespace crucible::backend {
namespace {

constexpr int kAnswers = 3, kFile = 4;

void say(std::string line) {
  line += '\n';
  std::size_t written = 0;
  while (written < line.size()) {
    const ssize_t count = write(kAnswers, line.data() + written, line.size() - written);
    if (count <= 0) return;  // the host then sees that the answer has no end
    written += static_cast<std::size_t>(count);
  }
}

void pass(Step step, std::string reason, const Stopwatch& time) {
  say(step_line({step, Outcome::kPassed, std::move(reason), ErrorCode::kUnavailable, false, time.ns()}));
}

[[noreturn]] void finish() {
  say(finished_line());
  _exit(0);  // without the plugin's destructors: the host never unmaps a plugin either
}

[[noreturn]] void refuse(Step step, std::string reason, ErrorCode code, bool only_of_the_file, const Stopwatch& time) {
  say(step_line({step, Outcome::kRefused, std::move(reason), code, only_of_the_file, time.ns()}));
  finish();
}

void limit(int resource, std::uint64_t value) {
  const rlimit both = {value, value};
  setrlimit(static_cast<__rlimit_resource>(resource), &both);
}

/// Steps kInspect and kDependency.
void look_at_file(const std::filesystem::path& path) {
  const Stopwatch inspecting;
  const Inspection inspection = inspect_file(kFile);
  const std::string name = path.string();
  if (!inspection.problem.empty()) {
    refuse(Step::kInspect, fmt::format("plugin {} cannot be loaded: {}", name, inspection.problem),
           ErrorCode::kUnavailable, true, inspecting);
  }
  if (!inspection.exports_symbol(CRUCIBLE_QUERY_SYMBOL)) {
    refuse(Step::kInspect, fmt::format("{} is not a Crucible plugin: it exports no {}", name, CRUCIBLE_QUERY_SYMBOL),
           ErrorCode::kBadInput, true, inspecting);
  }
  if (const std::size_t others = inspection.exports.size() - 1; others != 0) {
    const std::string& other = inspection.exports[inspection.exports[0] == CRUCIBLE_QUERY_SYMBOL ? 1 : 0];
    say(step_line({Step::kInspect, Outcome::kWarned,
                   fmt::format("it exports {} more name{} than the query, such as {}: link it with a version script",
                               others, others == 1 ? "" : "s", other),
                   ErrorCode::kUnavailable, true, inspecting.ns()}));
  } else {
    pass(Step::kInspect, "a shared object for this machine that exports the query and nothing else", inspecting);
  }
  const Stopwatch searching;
  std::string missing;
  for (const std::string& library : missing_libraries(inspection, path.parent_path())) {
    missing += fmt::format("{}{}", missing.empty() ? "" : ", ", describe_missing(library));
  }
  if (!missing.empty()) {
    refuse(Step::kDependency, fmt::format("plugin {} cannot be loaded: {}", name, missing), ErrorCode::kUnavailable,
           false, searching);
  }
  pass(Step::kDependency, fmt::format("the {} libraries that it needs are here", inspection.needed.size()), searching);
}

crucible_plugin_query_fn load(const std::filesystem::path& path, const Stopwatch& time) {
  const std::string name = path.string();
  say(doing_line("loading it"));
  if (is_sealed(kFile)) load_neighbours(inspect_file(kFile), path.parent_path());
  void* const library = dlopen(loadable_path(kFile, path).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const words = dlerror();
    const std::string reason = words == nullptr ? "the dynamic loader gave no reason" : words;
    const std::string missing = library_in_message(reason);
    refuse(Step::kProbe,
           fmt::format("plugin {} cannot be loaded: {}{}", name, reason,
                       missing.empty() || package_of(missing).empty() ? "" : ": " + describe_missing(missing)),
           ErrorCode::kUnavailable, false, time);
  }
  void* const symbol = dlsym(library, CRUCIBLE_QUERY_SYMBOL);
  if (symbol == nullptr) {
    refuse(Step::kProbe, fmt::format("{} is not a Crucible plugin: it exports no {}", name, CRUCIBLE_QUERY_SYMBOL),
           ErrorCode::kBadInput, true, time);
  }
  if (!is_mapped_from(symbol, kFile)) {
    refuse(Step::kProbe, fmt::format("plugin {} is another file now than when it was looked at: try again", name),
           ErrorCode::kUnavailable, false, time);
  }
  return reinterpret_cast<crucible_plugin_query_fn>(symbol);
}

template <class T>
T need(Result<T> result, Step step, const Stopwatch& time) {
  if (!result) refuse(step, result.error().message, result.error().code, false, time);
  return *std::move(result);
}

using Options = std::map<std::string, std::string, std::less<>>;

/// The plugin's options, out of the words behind the mode.
Options options_of(std::span<char* const> words) {
  Options options;
  for (const std::string_view word : words) {
    const std::size_t equals = word.find('=');
    if (equals != std::string_view::npos) options.emplace(word.substr(0, equals), word.substr(equals + 1));
  }
  return options;
}

/// host.get_option: as in the host, a value that is empty is none.
std::uint32_t get_option(void* ctx, crucible_str key, crucible_str* out) {
  const auto& options = *static_cast<const Options*>(ctx);
  const auto found = options.find(key.data == nullptr ? std::string_view() : std::string_view(key.data, key.size));
  if (found == options.end() || found->second.empty()) return 0;
  *out = {found->second.data(), found->second.size()};
  return 1;
}

/// Step kInit: starts the plugin with its options, lists its devices, stops it.
void list_devices(const QueryAnswer& plugin, const Tables& tables, Options options) {
  const Stopwatch time;
  static crucible_host_api host = {};
  host.struct_size = sizeof(host);
  host.abi_minor = CRUCIBLE_ABI_MINOR;
  host.ctx = new Options(std::move(options));  // never deleted: the plugin may ask until the process ends
  host.log = [](void*, std::uint32_t, crucible_str, crucible_str) {};
  host.get_option = get_option;
  host.alloc = [](void*, std::uint64_t size, std::uint64_t align) {
    return std::aligned_alloc(align, (size + align - 1) / align * align);
  };
  host.free = [](void*, void* memory, std::uint64_t, std::uint64_t) { std::free(memory); };
  host.metric = [](void*, const crucible_kv*, std::uint32_t) {};
  say(doing_line("starting it"));
  if (const auto started = to_result(plugin.api.init(&host), fmt::format("starting plugin {}", plugin.facts.name));
      !started) {
    refuse(Step::kInit, started.error().message, started.error().code, false, time);
  }
  say(doing_line("listing its devices"));
  const auto devices = enumerate_devices(tables.device, plugin.facts.name);
  if (!devices) refuse(Step::kInit, devices.error().message, devices.error().code, false, time);
  for (const DeviceInfo& device : *devices) say(device_line(device));
  say(doing_line("stopping it"));
  (void)static_cast<bool>(to_result(plugin.api.shutdown(), "shutdown"));
  pass(Step::kInit, fmt::format("it starts and has {} device{}", devices->size(), devices->size() == 1 ? "" : "s"),
       time);
}

int run(const std::filesystem::path& path, const std::string& mode, Options options) {
  if (mode == "query") look_at_file(path);  // otherwise it has been looked at before
  const Stopwatch time;
  const Snapshot before = Snapshot::take();
  const crucible_plugin_query_fn query = load(path, time);
  say(doing_line("asking who it is"));
  const QueryAnswer answer = need(ask(query, path), Step::kProbe, time);
  say(doing_line("asking for its tables"));
  const Tables tables = need(take_tables(answer, path), Step::kProbe, time);
  say(doing_line("asking for its options"));
  PluginFacts facts = answer.facts;
  facts.options = need(ask_options(answer, path), Step::kProbe, time);
  std::string changes;
  for (const std::string& change : before.changes_until(Snapshot::take())) {
    changes += fmt::format("{}{}", changes.empty() ? "" : "; ", change);
  }
  std::setlocale(LC_ALL, "C");  // for our own output
  if (!changes.empty()) {
    refuse(Step::kProbe, fmt::format("plugin {}: loading and asking it {}", path.string(), changes),
           ErrorCode::kBadInput, false, time);
  }
  say(facts_line(facts));
  pass(Step::kProbe,
       fmt::format("{} {} by {}, ABI {}.{}, {} options", facts.name, facts.version,
                   facts.vendor.empty() ? "nobody" : facts.vendor, facts.abi_major, facts.abi_minor,
                   facts.options.size()),
       time);
  if (mode == "devices") list_devices(answer, tables, std::move(options));
  finish();
}

}  // namespace
}  // namespace crucible::backend

int main(int argc, char** argv) {
  using namespace crucible::backend;
  if (argc < 5 || fcntl(kAnswers, F_GETFD) < 0 || fcntl(kFile, F_GETFD) < 0) {
    crucible::tell("crucible-probe: started by Crucible's loader, not by hand: see `crucible plugin explain`\n");
    return 2;
  }
  fcntl(kAnswers, F_SETFD, FD_CLOEXEC);  // programs that the plugin starts do not answer for it
  fcntl(kFile, F_SETFD, FD_CLOEXEC);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_CPU, std::strtoull(argv[3], nullptr, 10));
  // A sanitizer reserves more addresses than any limit allows.
  if (!CRUCIBLE_SANITIZED) limit(RLIMIT_AS, std::strtoull(argv[2], nullptr, 10));
  return run(argv[1], argv[4], options_of(std::span<char* const>(argv + 5, argv + argc)));
}
