// Runs single PTX instructions over awkward operands and compares each result with one computed on the host. All cases
// of a group are one module, because a compiler's start costs more than its work.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace crucible::emulators::ptx::testing {

struct Case {
  /// Instructions on %a, %b, %c that leave a result in %d. Free for use: %q0 to %q3 (pred), %h, %t and %u (b16, b32 and
  /// b64, 0 to 7).
  std::string text;
  unsigned bits = 32;                         // of %d
  std::array<unsigned, 3> operand_bits = {};  // of %a, %b, %c; 0: as %d
  std::function<std::uint64_t(std::uint64_t a, std::uint64_t b, std::uint64_t c)> wanted;
};

/// Runs every case on all pairs of `values` for %a and %b, with %c walking through them. Fails the running test for
/// each case with a wrong result, with its first one.
void expect_cases(const std::vector<Case>& cases, const std::vector<std::uint64_t>& values);

/// Operands at the edges of the formats.
std::vector<std::uint64_t> integers32();
std::vector<std::uint64_t> integers64();
std::vector<std::uint64_t> floats32();
std::vector<std::uint64_t> floats64();
std::vector<std::uint64_t> halves();
std::vector<std::uint64_t> bfloats();

}  // namespace crucible::emulators::ptx::testing
