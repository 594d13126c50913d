// From the configuration to what the loader obeys.
#pragma once

#include "frontends/config/settings.hpp"
#include "plugins/loader/policy.hpp"

namespace crucible::config {

/// The keys plugins.* as the loader's policy; what is not set keeps the loader's own default.
backend::LoadPolicy load_policy(const Settings& settings);

}  // namespace crucible::config
