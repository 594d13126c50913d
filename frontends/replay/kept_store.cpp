#include "frontends/replay/kept_store.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <utility>

#include "core/base/terminal.hpp"

namespace crucible::replay {

std::filesystem::path store_folder(const config::Settings& settings) {
  if (const std::string set = settings.text("store.folder"); !set.empty()) return set;
  if (const char* const xdg = std::getenv("XDG_CACHE_HOME"); xdg != nullptr && *xdg == '/')
    return std::filesystem::path(xdg) / "crucible/store";
  if (const char* const home = std::getenv("HOME"); home != nullptr && *home == '/')
    return std::filesystem::path(home) / ".cache/crucible/store";
  return std::filesystem::path("/tmp") / fmt::format("crucible-{}", getuid()) / "store";
}

std::shared_ptr<store::Store> kept_store(const config::Settings& settings) {
  if (!settings.flag("store.enabled")) return nullptr;
  static std::mutex mutex;
  static std::map<std::filesystem::path, std::shared_ptr<store::Store>> opened;  // null: it could not be
  const std::lock_guard lock(mutex);
  const auto [at, is_new] = opened.try_emplace(store_folder(settings));
  if (!is_new) return at->second;
  store::StoreOptions options;
  options.folder = at->first;
  // What the power takes away with the last writes is compiled again: waiting for the disk would cost every first run.
  options.is_durable = false;
  options.tell = [](const std::string& words) { tell("crucible: warning: {}\n", words); };
  Result<std::unique_ptr<store::Store>> store = store::Store::open(std::move(options));
  if (!store) {
    tell("crucible: warning: nothing is kept for later runs: {}\n", store.error().message);
    return nullptr;
  }
  at->second = *std::move(store);
  return at->second;
}

}  // namespace crucible::replay
