// What the fuzzers call with bytes of anybody's making. Checksums are made to fit first, so that the decoders behind
// them are reached. A finding is a crash, a sanitizer's report, or an abort when something is taken that must not be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace crucible::fuzz {

/// First byte 0: the rest is a whole .crtrace file. 1 to 18: the rest is the content of the section with that id, in a
/// small good file. Everything that was read is walked: text, summary, content hash, blobs.
void fuzz_trace(std::span<const std::byte> input);

/// A journal as a recording leaves it.
void fuzz_journal(std::span<const std::byte> input);

/// A program, in binary form where it begins so, else as text.
void fuzz_program(std::span<const std::byte> input);

/// First byte 0: the rest is a problem of the memory planner in bytes. Else: an instance of it as CSV.
void fuzz_instance(std::span<const std::byte> input);

/// Inputs that reach every decoder: what the corpus is made of.
std::vector<std::vector<std::byte>> trace_seeds();
std::vector<std::vector<std::byte>> journal_seeds();
std::vector<std::vector<std::byte>> program_seeds();
std::vector<std::vector<std::byte>> instance_seeds();

}  // namespace crucible::fuzz
