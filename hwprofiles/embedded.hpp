// The device profiles of this folder, compiled in, so that a program needs none of the files. See README.md.
#pragma once

#include <span>
#include <string_view>

namespace crucible::hwprofiles {

struct File {
  std::string_view name, text;  // "l4.toml", the whole file
};

/// By name.
std::span<const File> files();

}  // namespace crucible::hwprofiles
