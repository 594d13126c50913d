// Hashes of what iterations of one group have in common.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/hash.hpp"
#include "core/trace/trace.hpp"

namespace crucible::aten {

/// Of everything in which iterations of one group are alike, but for who shares memory with whom: the names of ops, the
/// sizes and types of their tensors, everything among their arguments that is no number. Keeps a reference to the
/// trace. Threads: one.
class Signatures {
 public:
  explicit Signatures(const trace::Trace& trace) : trace_(trace), names_(trace.schemas.size()) {}

  /// Of an iteration's ops, indices in Trace::ops: equal for ops of several threads in whatever order the threads came.
  std::uint64_t of(const std::vector<std::uint32_t>& ops);
  /// Of one op.
  std::uint64_t of(const trace::Op& op);
  /// Of one argument or result.
  std::uint64_t of(const trace::Arg& arg) const;

 private:
  std::uint64_t name_of(trace::SchemaId schema);
  void add(Checksum64& sum, const trace::Op& op);
  void add(Checksum64& sum, const trace::Arg& arg) const;
  void add(Checksum64& sum, const trace::Tensor& tensor) const;

  const trace::Trace& trace_;
  std::vector<std::optional<std::uint64_t>> names_;  // by schema
};

}  // namespace crucible::aten
