// The store of the configuration, where everything that is worth keeping between runs is: compiled kernels, verdicts,
// choices.
#pragma once

#include <filesystem>
#include <memory>

#include "frontends/config/settings.hpp"
#include "store/store.hpp"

namespace crucible::replay {

/// Key store.folder; where it is empty, crucible/store in $XDG_CACHE_HOME or ~/.cache, else in a folder of this user's
/// in /tmp.
std::filesystem::path store_folder(const config::Settings& settings);

/// Opened once per process and folder, and made where it is missing. Null where key store.enabled is false, or where it
/// cannot be opened: then a warning is told, once, and nothing is kept. Threads: any.
std::shared_ptr<store::Store> kept_store(const config::Settings& settings);

}  // namespace crucible::replay
