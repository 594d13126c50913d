// The JSON form of ops and arguments, which `crucible trace ops --json` and `crucible trace export` share.
// docs/crtrace.md has the keys.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/trace/trace.hpp"

namespace crucible::cli {

/// A number as JSON; NaN and the infinities, which JSON lacks, as texts.
nlohmann::ordered_json number_json(double number);

/// For tensors whole: finds what a compound tensor consists of. The trace must outlive it.
class TensorDetail {
 public:
  explicit TensorDetail(const trace::Trace& trace);
  /// Of that tensor, or nullptr.
  const trace::CompoundTensor* compound(trace::TensorId tensor) const;

 private:
  const trace::Trace& trace_;
  std::vector<std::uint32_t> compound_of_;  // by tensor: index in trace.compounds, or kNone
};

/// A tensor has "tensor", "dtype", "sizes", "strides", "offset" and "storage" (null: has none); with `detail` also
/// "requires_grad", "is_wrapped_number", "device" and "storage_bytes" (null without a storage), and "compound" where it is
/// one: "kind" and "parts", an object of arguments.
nlohmann::ordered_json arg_json(const trace::Trace& trace, const trace::Arg& arg, const TensorDetail* detail = nullptr);

/// The op with index `index` in trace.ops, which belongs to iteration `iteration`.
nlohmann::ordered_json op_json(const trace::Trace& trace, std::size_t iteration, std::uint32_t index,
                               const TensorDetail* detail = nullptr);

}  // namespace crucible::cli
