// What random ops drew: recorded values that enter the program as inputs, one per iteration.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "frontends/aten/algebra/emitter.hpp"
#include "frontends/aten/recording/align.hpp"

namespace crucible::aten {

class Draws {
 public:
  Draws(const trace::Trace& trace, const Alignment& alignment, Emitter& emitter);

  /// True when result `k` of the op at `position` was drawn and recorded in iteration 0.
  bool has(std::uint32_t position, std::uint32_t k) const;
  /// The drawn elements, dense and row-major, as an input of the program. Fails the emitter when an iteration lacks
  /// them.
  Term read(std::uint32_t position, std::uint32_t k, const trace::Tensor& tensor);

  /// Notes that a storage holds what was read, for ops that are given it later.
  void keep(trace::StorageId storage, const Term& term) { behind_.insert_or_assign(storage, term); }
  std::optional<Term> kept(trace::StorageId storage) const {
    const auto found = behind_.find(storage);
    return found == behind_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  trace::BlobId blob(std::size_t iteration, std::uint32_t position, std::uint32_t k) const;

  const Alignment& alignment_;
  Emitter& emitter_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, trace::BlobId> blobs_;  // (op in the trace, result)
  std::map<trace::StorageId, Term> behind_;
};

}  // namespace crucible::aten
