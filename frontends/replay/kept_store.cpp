#include "frontends/replay/kept_store.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <utility>

#include "frontends/replay/remote_settings.hpp"

namespace crucible::replay {

std::filesystem::path store_folder(const config::Settings& settings) {
  if (const std::string set = settings.text("store.folder"); !set.empty()) return set;
  if (const char* const xdg = std::getenv("XDG_CACHE_HOME"); xdg != nullptr && *xdg == '/')
    return std::filesystem::path(xdg) / "crucible/store";
  if (const char* const home = std::getenv("HOME"); home != nullptr && *home == '/')
    return std::filesystem::path(home) / ".cache/crucible/store";
  return std::filesystem::path("/tmp") / fmt::format("crucible-{}", getuid()) / "store";
}

Result<std::shared_ptr<store::Store>> kept_store(const config::Settings& settings, const Observer& observer) {
  if (!settings.flag("store.enabled")) return std::shared_ptr<store::Store>();
  static std::mutex mutex;
  static std::map<std::filesystem::path, std::shared_ptr<store::Store>> opened;  // null: it could not be
  const std::lock_guard lock(mutex);
  const std::filesystem::path folder = store_folder(settings);
  if (const auto at = opened.find(folder); at != opened.end()) return at->second;
  store::StoreOptions options;
  options.folder = folder;
  // What the power takes away with the last writes is compiled again: waiting for the disk would cost every first run.
  options.is_durable = false;
  options.tell = [observer](const std::string& words) { observer.tell(Notice::Level::kWarning, words); };
  // A process that is shut in (docs/sandbox.md) reaches no server.
  if (std::getenv(kShutIn) == nullptr) CRUCIBLE_TRY_VOID(store::add_remotes(remote_settings(settings), options));
  Result<std::unique_ptr<store::Store>> store = store::Store::open(std::move(options));
  if (!store)
    observer.tell(Notice::Level::kWarning, fmt::format("nothing is kept for later runs: {}", store.error().message));
  std::shared_ptr<store::Store>& kept = opened[folder];
  if (store) kept = *std::move(store);
  return kept;
}

}  // namespace crucible::replay
