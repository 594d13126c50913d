// What a file of a recording or a capsule says once its bytes are decoded: a program and the bytes that it names. The
// structure-aware fuzzer starts from valid ones, changes fields (mutate.hpp) and judges what becomes of them
// (judge.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/graph/program.hpp"
#include "core/trace/trace.hpp"
#include "tests/fuzz/draw.hpp"

namespace crucible::fuzz {

struct Recorded {
  graph::Program program;
  std::vector<std::vector<std::byte>> blobs;  // by number
};

/// The blobs as a session asks for them.
class ListStore final : public trace::BlobStore {
 public:
  explicit ListStore(std::vector<std::vector<std::byte>> blobs) : blobs_(std::move(blobs)) {}
  Result<std::vector<std::byte>> load(trace::BlobId id) const override;

 private:
  std::vector<std::vector<std::byte>> blobs_;
};

/// A valid one: a random program, a network with its gradients, or one op of some kind, with data.
Recorded make_recorded(Draw& draw);

/// One call of an operator as a recording has it, with fields of the trace changed, lowered; nothing where the trace
/// was refused as it should be. A refusal with a code that says it is our own fault goes to `finding`.
std::optional<Recorded> make_lowered(Draw& draw, std::string& finding);

/// A finding as a file, and back. Nothing for bytes that are no such file.
std::vector<std::byte> to_bytes(const Recorded& recorded);
std::optional<Recorded> from_bytes(std::span<const std::byte> bytes);

/// About how many elements are touched and multiplied in one iteration; at most 2^62.
std::uint64_t work_of(const graph::Program& program);
/// Bytes of all values.
std::uint64_t bytes_of(const graph::Program& program);

}  // namespace crucible::fuzz
