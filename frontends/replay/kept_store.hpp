// The store of the configuration, where everything that is worth keeping between runs is: compiled kernels, verdicts,
// choices.
#pragma once

#include <filesystem>
#include <memory>

#include "frontends/config/settings.hpp"
#include "frontends/replay/observer.hpp"
#include "store/store.hpp"

namespace crucible::replay {

/// The variable that a process has which is shut in: its store asks no server.
inline constexpr const char* kShutIn = "CRUCIBLE_SHUT_IN";

/// Key store.folder; where it is empty, crucible/store in $XDG_CACHE_HOME or ~/.cache, else in a folder of this user's
/// in /tmp.
std::filesystem::path store_folder(const config::Settings& settings);

/// Opened once per process and folder, with the servers of key store.remote behind it, and made where it is missing.
/// Null where key store.enabled is false, or where it cannot be opened: then the observer is told, once, and nothing is
/// kept. Threads: any. Errors: kUsage, kBadInput: of the keys about servers, which nobody else would notice.
Result<std::shared_ptr<store::Store>> kept_store(const config::Settings& settings, const Observer& observer);

}  // namespace crucible::replay
