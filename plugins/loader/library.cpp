// Boost.DLL's defaults are wrong for plugins, so each is set here: load now and not lazily, absolute names only, no
// decorations, the throwing overload (the other one drops the text of dlerror), and libraries that are never destroyed.
#include "plugins/loader/library.hpp"

#include <fmt/format.h>

#include <boost/dll/shared_library.hpp>
#include <exception>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/terminal.hpp"
#include "plugins/loader/inspect.hpp"
#include "plugins/loader/mapped.hpp"
#include "plugins/loader/query.hpp"
#include "plugins/loader/sealed.hpp"
#include "plugins/loader/stopwatch.hpp"

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

/// What dlerror said, out of the sentence that Boost.DLL builds around it.
std::string loader_words(const std::string& what) {
  constexpr std::string_view kStart = "(dlerror system message: ";
  const std::size_t start = what.find(kStart), end = what.rfind("): ");
  if (start == std::string::npos || end == std::string::npos || end < start) return what;
  return what.substr(start + kStart.size(), end - start - kStart.size());
}

/// Loads the object for good and finds the query. Errors: kUnavailable, kBadInput.
Result<crucible_plugin_query_fn> load_query(const OpenFile& file) {
  const std::filesystem::path& path = file.path();
  const Error changed = {
      ErrorCode::kUnavailable,
      fmt::format("plugin {} is another file now than when it was examined: load it again", path.string())};
  if (!file.is_current()) return changed;
  using boost::dll::shared_library;
  using namespace boost::dll::load_mode;
  std::vector<std::unique_ptr<shared_library>>& objects = registry().objects;
  try {
    if (is_sealed(file.descriptor())) load_neighbours(inspect_file(file.descriptor()), path.parent_path());
    objects.push_back(std::make_unique<shared_library>(loadable_path(file.descriptor(), path), rtld_now | rtld_local));
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
    const crucible_plugin_query_fn query =
        &library.get<int32_t(const crucible_query_in*, crucible_query_out*)>(CRUCIBLE_QUERY_SYMBOL);
    if (!is_mapped_from(reinterpret_cast<const void*>(query), file.descriptor())) return changed;
    return query;
  } catch (const std::exception& error) {
    return Error{ErrorCode::kUnavailable, fmt::format("plugin {}: {}", path.string(), error.what())};
  }
}

/// Writes the decisions of the steps that run in this process.
class Decide {
 public:
  Decide(const Candidate& candidate, DecisionLog& log) : candidate_(candidate), log_(log) {}
  void operator()(Step step, std::string reason, const Stopwatch& time) const {
    log_.add({step, Outcome::kPassed, candidate_.name, candidate_.path, std::move(reason), time.ns()});
  }
  Error operator()(Step step, const Error& error, const Stopwatch& time) const {
    log_.add({step, Outcome::kRefused, candidate_.name, candidate_.path, error.message, time.ns()});
    return error;
  }

 private:
  const Candidate& candidate_;
  DecisionLog& log_;
};

/// Loads the object and asks it. Errors: kUnavailable, kBadInput, with a decision for the step that failed.
Result<std::unique_ptr<Library>> make_library(const Examined& plugin, const Decide& decide) {
  const std::filesystem::path& path = plugin.file.path();
  const Stopwatch loading;
  const Result<crucible_plugin_query_fn> query = load_query(plugin.file);
  if (!query) return decide(Step::kLoad, query.error(), loading);
  decide(Step::kLoad, "loaded for good, all symbols bound, none visible to others", loading);
  const Stopwatch asking;
  const Result<QueryAnswer> answer = ask(*query, path);
  if (!answer) return decide(Step::kQuery, answer.error(), asking);
  const PluginFacts& facts = answer->facts;
  decide(Step::kQuery, fmt::format("{} {}, ABI {}.{}", facts.name, facts.version, facts.abi_major, facts.abi_minor),
         asking);
  const Stopwatch filling;
  const Result<Tables> tables = take_tables(*answer, path);
  if (!tables) return decide(Step::kFill, tables.error(), filling);
  decide(Step::kFill, "its tables are copied; what they lack answers \"unimplemented\"", filling);
  const Stopwatch checking;
  if (plugin.probed && (facts.name != plugin.facts.name || facts.version != plugin.facts.version)) {
    return decide(Step::kCheck,
                  Error{ErrorCode::kBadInput,
                        fmt::format("plugin {} called itself {} {} when it was probed and {} {} now", path.string(),
                                    plugin.facts.name, plugin.facts.version, facts.name, facts.version)},
                  checking);
  }
  decide(Step::kCheck, "the mandatory tables are there, and it is what it was when it was probed", checking);
  auto library = std::make_unique<Library>();
  library->path = path;
  library->name = facts.name;
  library->vendor = facts.vendor;
  library->version = facts.version;
  library->api = answer->api;
  library->tables = *tables;
  library->host = host_services(library.get());
  return library;
}

/// Doubts that do not keep a plugin from being loaded are told once.
void print_warnings(const Examined& plugin) {
  for (const std::string& warning : plugin.warnings) tell("crucible: warning: {}\n", warning);
}

}  // namespace

std::mutex& library_mutex() { return registry().mutex; }

Result<Library*> open_library(const Examined& plugin, DecisionLog& log) {
  const Decide decide(plugin.candidate, log);
  std::unique_ptr<Library>& entry = registry().libraries[plugin.file.path()];
  if (entry != nullptr) {
    log.add({Step::kLoad, Outcome::kSkipped, plugin.candidate.name, plugin.candidate.path, "loaded already", 0});
    return entry.get();
  }
  print_warnings(plugin);
  CRUCIBLE_TRY(entry, make_library(plugin, decide));
  return entry.get();
}

}  // namespace crucible::backend
