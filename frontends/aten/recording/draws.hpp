// What random ops drew: recorded values that enter the program as inputs, one per iteration.
#pragma once

#include <cstdint>
#include <map>
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

 private:
  trace::BlobId blob(std::size_t iteration, std::uint32_t position, std::uint32_t k) const;

  const Alignment& alignment_;
  Emitter& emitter_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, trace::BlobId> blobs_;  // (op in the trace, result)
};

}  // namespace crucible::aten
