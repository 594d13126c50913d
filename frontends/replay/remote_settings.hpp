// The settings `store.remote` and those beside it, as a store takes them.
#pragma once

#include "frontends/config/settings.hpp"
#include "store/remote/remote.hpp"

namespace crucible::replay {

/// Pass it to store::add_remotes(), which opens the places that it names.
store::RemoteSettings remote_settings(const config::Settings& settings);

}  // namespace crucible::replay
