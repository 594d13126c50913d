// Options of plugins as keys: from the schema that a plugin tells of itself before it is started.
#pragma once

#include <vector>

#include "frontends/config/key.hpp"
#include "plugins/loader/facts.hpp"

namespace crucible::config {

/// One key per option. A type that we do not know (a newer plugin's) is taken as text, for the plugin to judge.
std::vector<Key> keys_of(const std::vector<backend::OptionSchema>& options);

/// The variables that are handed on to a plugin that cannot tell its options (ABI 0.1), as they always were.
const std::vector<Key>& keys_of_old_plugins();

}  // namespace crucible::config
