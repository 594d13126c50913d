// Boost.DLL's defaults are wrong for plugins, so each is set here: load now and not lazily, absolute names only, no
// decorations, the throwing overload (the other one drops the text of dlerror), and libraries that are never destroyed.
#include "plugins/loader/library.hpp"

#include <fmt/format.h>

#include <boost/dll/shared_library.hpp>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string_view>
#include <utility>
#include <vector>

namespace crucible::backend {
namespace {

struct Registry {
  std::mutex mutex;
  std::vector<std::unique_ptr<boost::dll::shared_library>> objects;  // all that were loaded, plugins or not
  std::map<std::filesystem::path, std::unique_ptr<Library>> libraries;
};

/// Never destroyed: plugins stay mapped, and their threads may call the host's services until the process ends.
Registry& registry() {
  static Registry* const instance = new Registry;
  return *instance;
}

std::string_view view(crucible_str text) { return text.data == nullptr ? "" : std::string_view(text.data, text.size); }

/// Only what the user should act upon: level 2 is a warning, 3 an error.
void log_to_stderr(void* ctx, std::uint32_t level, crucible_str component, crucible_str text) {
  if (level < 2) return;
  const auto* library = static_cast<const Library*>(ctx);
  const std::string line = fmt::format("crucible: {}: {} ({}): {}\n", level == 2 ? "warning" : "error", library->name,
                                       view(component), view(text));
  std::fwrite(line.data(), 1, line.size(), stderr);
}

std::uint32_t get_option(void* ctx, crucible_str key, crucible_str* out) {
  auto* library = static_cast<Library*>(ctx);
  const auto found = library->options.find(std::string(view(key)));
  if (found == library->options.end() || found->second.empty()) return 0;
  const std::string& value = found->second;
  static std::mutex* const mutex = new std::mutex;  // devices may be opened by several threads
  const std::lock_guard lock(*mutex);
  for (const std::string& answer : library->answers) {
    if (answer == value) return *out = {answer.data(), answer.size()}, 1;
  }
  const std::string& answer = library->answers.emplace_back(value);
  *out = {answer.data(), answer.size()};
  return 1;
}

/// What dlerror said, out of the sentence that Boost.DLL builds around it.
std::string loader_words(const std::string& what) {
  constexpr std::string_view kStart = "(dlerror system message: ";
  const std::size_t start = what.find(kStart), end = what.rfind("): ");
  if (start == std::string::npos || end == std::string::npos || end < start) return what;
  return what.substr(start + kStart.size(), end - start - kStart.size());
}

/// Loads the object for good and finds the query. Errors: kUnavailable, kBadInput.
Result<crucible_plugin_query_fn> load_query(const std::filesystem::path& path) {
  using boost::dll::shared_library;
  using namespace boost::dll::load_mode;
  std::vector<std::unique_ptr<shared_library>>& objects = registry().objects;
  try {
    objects.push_back(std::make_unique<shared_library>(path, rtld_now | rtld_local));
  } catch (const std::exception& error) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("plugin {} cannot be loaded: {}", path.string(), loader_words(error.what()))};
  }
  const shared_library& library = *objects.back();
  if (!library.has(CRUCIBLE_QUERY_SYMBOL)) {
    return Error{ErrorCode::kBadInput,
                 fmt::format("{} is not a Crucible plugin: it exports no {}", path.string(), CRUCIBLE_QUERY_SYMBOL)};
  }
  try {
    return &library.get<int32_t(const crucible_query_in*, crucible_query_out*)>(CRUCIBLE_QUERY_SYMBOL);
  } catch (const std::exception& error) {
    return Error{ErrorCode::kUnavailable, fmt::format("plugin {}: {}", path.string(), error.what())};
  }
}

/// Everything that must hold before the answer's pointers may be followed. Errors: kBadInput, kUnavailable.
Result<void> check_answer(const std::filesystem::path& path, std::int32_t code, const crucible_query_out& out) {
  if (code != 0) {
    const std::string_view reason(out.reject_reason, strnlen(out.reject_reason, sizeof(out.reject_reason)));
    return Error{ErrorCode::kUnavailable, fmt::format("plugin {} refuses this host (code {}): {}", path.string(), code,
                                                      reason.empty() ? "it gave no reason" : reason)};
  }
  if (out.magic != CRUCIBLE_MAGIC) {
    return Error{ErrorCode::kBadInput, fmt::format("plugin {} answers magic {:#010x}, expected {:#010x}: it was built "
                                                   "against another header",
                                                   path.string(), out.magic, CRUCIBLE_MAGIC)};
  }
  if (out.abi_major != CRUCIBLE_ABI_MAJOR) {
    return Error{
        ErrorCode::kUnavailable,
        fmt::format("plugin {} speaks ABI {}.{}, this host {}.{}: major numbers must be equal, so use a plugin "
                    "built for this host",
                    path.string(), out.abi_major, out.abi_minor, CRUCIBLE_ABI_MAJOR, CRUCIBLE_ABI_MINOR)};
  }
  if (out.struct_size < offsetof(crucible_query_out, reject_reason) || out.api == nullptr || out.name.data == nullptr) {
    return Error{ErrorCode::kBadInput,
                 fmt::format("plugin {}: its query leaves name or table of functions empty "
                             "({} bytes written, {} are the least)",
                             path.string(), out.struct_size, offsetof(crucible_query_out, reject_reason))};
  }
  return {};
}

Result<std::unique_ptr<Library>> query_library(const std::filesystem::path& path) {
  CRUCIBLE_TRY(const crucible_plugin_query_fn query, load_query(path));
  const crucible_query_in in = {sizeof(in), CRUCIBLE_MAGIC, CRUCIBLE_ABI_MAJOR, CRUCIBLE_ABI_MINOR};
  crucible_query_out out{};
  out.struct_size = sizeof(out);
  const std::int32_t code = query(&in, &out);
  CRUCIBLE_TRY_VOID(check_answer(path, code, out));
  auto library = std::make_unique<Library>();
  library->path = path;
  library->name = view(out.name);
  library->vendor = view(out.vendor);
  library->version = view(out.version);
  library->api = copy_api(out.api);
  CRUCIBLE_TRY(library->tables, copy_tables(library->api, library->name));
  library->host = {sizeof(crucible_host_api), CRUCIBLE_ABI_MINOR, library.get(), log_to_stderr, get_option};
  return library;
}

}  // namespace

std::mutex& library_mutex() { return registry().mutex; }

Result<Library*> open_library(const std::filesystem::path& path) {
  std::unique_ptr<Library>& entry = registry().libraries[path];
  if (entry == nullptr) {
    CRUCIBLE_TRY(entry, query_library(path));
  }
  return entry.get();
}

}  // namespace crucible::backend
