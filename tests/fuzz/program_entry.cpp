// fuzz_program: a program in binary or text form through its reader, and what was read through the writers and back.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/base/hash.hpp"
#include "core/graph/binary.hpp"
#include "core/graph/parse.hpp"
#include "core/graph/print.hpp"
#include "core/graph/program_hash.hpp"
#include "core/graph/random_outline.hpp"
#include "core/graph/random_program.hpp"
#include "tests/fuzz/entries.hpp"

namespace crucible::fuzz {

namespace {

constexpr std::size_t kChecksumBytes = 8;

/// Makes the checksum at the end that of the bytes before it.
void seal(std::vector<std::byte>& bytes) {
  if (bytes.size() < kChecksumBytes) return;
  const std::size_t end = bytes.size() - kChecksumBytes;
  const std::uint64_t sum = checksum64(std::span(bytes).first(end));
  for (std::size_t i = 0; i < kChecksumBytes; ++i) bytes[end + i] = static_cast<std::byte>(sum >> (8 * i));
}

/// What was taken is valid and survives both forms.
void use(const graph::Program& program) {
  if (!graph::verify(program)) std::abort();
  const auto bytes = graph::to_binary(program);
  const auto back = graph::from_binary(bytes);
  if (!back || graph::to_binary(*back) != bytes) std::abort();
  const std::string text = graph::to_text(program);
  const auto parsed = program.opaques.empty() ? graph::parse_program(text) : back;
  if (!parsed || graph::to_text(*parsed) != text) std::abort();
  if (graph::program_hash(program, {}) != graph::program_hash(*parsed, {})) std::abort();
}

}  // namespace

void fuzz_program(std::span<const std::byte> input) {
  std::vector<std::byte> bytes(input.begin(), input.end());
  if (graph::is_binary_program(bytes)) {
    (void)graph::from_binary(bytes);
    seal(bytes);
    const auto program = graph::from_binary(bytes);
    return program ? use(*program) : void();
  }
  const auto program = graph::parse_program({reinterpret_cast<const char*>(input.data()), input.size()});
  if (program) use(*program);
}

std::vector<std::vector<std::byte>> program_seeds() {
  std::vector<std::vector<std::byte>> seeds;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    auto program = graph::random_program({.seed = seed, .ops = 6}).program;
    if (seed >= 6) graph::outline_randomly(program, seed);
    const std::string text = graph::to_text(program);
    const auto bytes = std::as_bytes(std::span(text));
    seeds.emplace_back(bytes.begin(), bytes.end());
    seeds.push_back(graph::to_binary(program));
  }
  return seeds;
}

}  // namespace crucible::fuzz
