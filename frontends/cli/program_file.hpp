// Files that are programs, or recordings of some: what `graph`, `diff` and `show` read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/result.hpp"
#include "core/graph/program.hpp"
#include "core/merkle/region.hpp"

namespace crucible::cli {

/// The program that the file is, in text or binary form; nothing where it begins as neither, as recordings do.
/// Errors: those of parse_program() and from_binary(), with the file's name.
Result<std::optional<graph::Program>> read_program(const std::string& path);

/// The regions of a recording, of all its variants or of one, or of a program in a file. A program in a file has no
/// bytes: its constants count as unknown.
/// Errors: those of reading and lowering; kUsage for a variant that is not there.
Result<merkle::RegionTree> read_regions(const std::string& path, std::optional<std::uint32_t> variant);

}  // namespace crucible::cli
