#include "runtime/judge/result_hash.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/base/nan_bits.hpp"

namespace crucible::runtime {
namespace {

/// One line per result: what it is, whose, and the hash of its elements. Names are lengthened by their length, so that
/// no name can look like the beginning of another line.
class Lines {
 public:
  void add(std::string_view kind, std::size_t iteration, std::string_view name, DType dtype,
           const ContentHash& elements) {
    const std::string line =
        fmt::format("{} {} {}:{} {} {}\n", kind, iteration, name.size(), name, crucible::name(dtype), elements.hex());
    hash_.update(std::as_bytes(std::span(line)));
    is_empty_ = false;
  }
  std::optional<std::string> finish() {
    if (is_empty_) return std::nullopt;
    return hash_.finish().hex();
  }

 private:
  Sha256 hash_;
  bool is_empty_ = true;
};

}  // namespace

ContentHash hash_of_elements(DType dtype, std::span<const std::byte> elements) {
  std::vector<std::byte> storage;
  return sha256(with_canonical_nan(dtype, elements, storage));
}

Result<std::optional<std::string>> result_sha256(const Session& session, const graph::Program& program,
                                                 const std::vector<IterationResult>& results) {
  Lines lines;
  for (std::uint32_t iteration = 0; iteration < results.size(); ++iteration) {
    const IterationResult& result = results[iteration];
    // Arranging it in memory may change a program, not what is watched of it.
    const graph::Program& own = session.variants() > 1 ? session.program_of(iteration) : program;
    const auto tensors = static_cast<std::size_t>(std::ranges::count_if(own.outputs, &graph::Output::is_tensor));
    for (std::size_t k = 0; k < result.losses.size(); ++k) {
      const std::span loss(&result.losses[k], 1);
      lines.add("loss", iteration, own.outputs[k].name, DType::kF64,
                hash_of_elements(DType::kF64, std::as_bytes(loss)));
    }
    if (result.outputs.size() != tensors) {
      return Error{ErrorCode::kUsage,
                   fmt::format("the hash of the results covers {} outputs of iteration {}, {} were compared", tensors,
                               iteration, result.outputs.size())};
    }
    for (const OutputDifference& output : result.outputs)
      lines.add("output", iteration, output.name, output.dtype, output.elements);
  }
  const graph::Program& last = session.variants() > 1 ? session.program() : program;
  for (const graph::State& state : last.states) {
    const graph::Value& value = last.values[state.start];
    CRUCIBLE_TRY(const std::vector<std::byte> bytes, session.state_bytes(state));
    lines.add("state", results.size(), value.name, value.dtype, hash_of_elements(value.dtype, bytes));
  }
  return lines.finish();
}

}  // namespace crucible::runtime
