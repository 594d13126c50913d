// What an iteration gave back, read from the arena or the interpreter's buffers: losses as numbers, tensors to be compared
// with the recorded ones. Judging is in verify.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/graph/bounds.hpp"
#include "core/graph/view.hpp"
#include "core/runtime/compare.hpp"
#include "core/runtime/result_hash.hpp"
#include "core/runtime/session_state.hpp"

namespace crucible::runtime {

Result<double> Session::State::read_output(const graph::Output& output) const {
  if (output.operand.is_scalar()) {
    return output.operand.scalar.is_integer ? static_cast<double>(output.operand.scalar.integer)
                                            : output.operand.scalar.real;
  }
  const DType dtype = program->values[output.operand.value].dtype;
  std::vector<std::byte> bytes(size_bytes(dtype));
  const std::uint64_t at = static_cast<std::uint64_t>(output.operand.view.offset) * bytes.size();
  CRUCIBLE_TRY_VOID(read_bytes(output.operand.value, at, bytes));
  return element_as_double(dtype, bytes);
}

/// What the iteration that ran says about an index that eager would have refused. Errors: those of reading.
Result<std::optional<Error>> Session::State::index_outside() const {
  for (const graph::Output& output : program->outputs) {
    if (!output.is_bounds()) continue;
    CRUCIBLE_TRY(const std::vector<std::byte> bytes, read_tensor(output));
    std::vector<std::int64_t> extrema(bytes.size() / sizeof(std::int64_t));
    std::memcpy(extrema.data(), bytes.data(), extrema.size() * sizeof(std::int64_t));
    if (const Result<void> inside = graph::check_bounds(*program, output, extrema); !inside) return std::optional<Error>(inside.error());
  }
  return std::optional<Error>();
}

/// The elements of a tensor, dense and row-major: what lies between its first and its last one is read, and picked from.
Result<std::vector<std::byte>> Session::State::read_tensor(const graph::Output& output) const {
  const graph::View& view = output.operand.view;
  const std::size_t size = size_bytes(program->values[output.operand.value].dtype);
  const auto elements = static_cast<std::size_t>(view.elements());
  std::vector<std::byte> dense(elements * size);
  if (elements == 0) return dense;
  const std::int64_t last = graph::last_index(view).value_or(view.offset);
  std::vector<std::byte> lying(static_cast<std::size_t>(last - view.offset + 1) * size);
  const std::uint64_t at = static_cast<std::uint64_t>(view.offset) * size;
  CRUCIBLE_TRY_VOID(read_bytes(output.operand.value, at, lying));
  if (view.is_contiguous()) return lying;
  std::vector<std::int64_t> index(view.sizes.size(), 0);
  std::int64_t from = 0;
  for (std::size_t to = 0; to < elements; ++to) {
    std::memcpy(&dense[to * size], &lying[static_cast<std::size_t>(from) * size], size);
    for (std::size_t d = index.size(); d-- > 0;) {
      from += view.strides[d];
      if (++index[d] < view.sizes[d]) break;
      from -= view.strides[d] * view.sizes[d];
      index[d] = 0;
    }
  }
  return dense;
}

Result<OutputDifference> Session::State::compare_output(const graph::Output& output, std::uint32_t iteration) const {
  const DType dtype = program->values[output.operand.value].dtype;
  CRUCIBLE_TRY(const std::vector<std::byte> expected, blobs->load(output.blobs[iteration]));
  CRUCIBLE_TRY(const std::vector<std::byte> actual, read_tensor(output));
  const Result<TensorDifference> difference = compare(dtype, actual, expected);
  if (!difference) {
    return Error{difference.error().code,
                 fmt::format("output {} of iteration {}: {}", output.name, iteration, difference.error().message)};
  }
  OutputDifference found{output.name, iteration, dtype, difference->max_rel_diff, output_tolerance(dtype), difference->bit_equal,
                         hash_of_elements(dtype, actual)};
  if (!found.is_within()) found.words = words_of_difference(dtype, actual, expected);
  return found;
}

Result<std::vector<std::byte>> Session::output_bytes(std::size_t index) const {
  return state_->read_tensor(state_->program->outputs.at(index));
}

Result<std::vector<OutputDifference>> Session::compare_outputs() const {
  if (state_->next_iteration == 0) return Error{ErrorCode::kUsage, "outputs are compared after an iteration has run"};
  std::vector<OutputDifference> differences;
  for (const graph::Output& output : state_->program->outputs) {
    if (!output.is_tensor()) continue;
    CRUCIBLE_TRY(OutputDifference difference, state_->compare_output(output, state_->next_iteration - 1));
    difference.place = differences.size();
    differences.push_back(std::move(difference));
  }
  return differences;
}

}  // namespace crucible::runtime
