// A TOML file as entries with their places. The only folder that sees toml++.
#pragma once

#include <string>
#include <vector>

#include "frontends/config/value.hpp"

namespace crucible::config {

/// What one file says, in its order, not yet checked against keys.
struct FileContent {
  std::vector<Entry> entries;
  std::vector<Problem> problems;  // a syntax error: TOML has one at most, and then there are no entries
};

/// Reads `text`, which came from the file `path` of the layer. Tables become dotted keys; `[backend] name` is the key
/// "backend". Floats, dates and lists of anything but texts become Foreign values, which every key refuses by name.
FileContent read_toml(const std::string& text, Layer layer, const std::string& path);

}  // namespace crucible::config
