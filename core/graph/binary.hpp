// The binary form of programs: every field, opaque ops too, in a third of the text's size, with a checksum.
// docs/graph.md describes it.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/base/result.hpp"
#include "core/graph/program.hpp"

namespace crucible::graph {

/// Whether the bytes begin as to_binary()'s do.
bool is_binary_program(std::span<const std::byte> bytes);

/// The program as bytes: the same program gives the same bytes, on every machine. The program must pass verify().
std::vector<std::byte> to_binary(const Program& program);

/// The program whose to_binary() the bytes are: every field comes back, doubles to the bit. Blob numbers mean those of
/// the recording that the program was made from. Errors: kBadInput: no program, another version, a checksum that does
/// not fit, a kind of op that this version does not have, an end that comes too early, or the rule of verify() that the
/// program breaks.
Result<Program> from_binary(std::span<const std::byte> bytes);

}  // namespace crucible::graph
