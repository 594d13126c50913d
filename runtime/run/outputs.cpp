// What an iteration gave back, read from the arena or the interpreter's buffers: losses as numbers, tensors to be
// compared with the recorded ones. Judging is in verify.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "core/graph/bounds.hpp"
#include "core/graph/queries.hpp"
#include "core/graph/view.hpp"
#include "runtime/judge/compare.hpp"
#include "runtime/judge/result_hash.hpp"
#include "runtime/run/session_state.hpp"

namespace crucible::runtime {

/// The bytes of an output: all that lies between its first element and its last.
ByteRange Session::State::range_of(const graph::Output& output) const {
  const graph::View& view = output.operand.view;
  const std::uint64_t size = size_bytes(program->values[output.operand.value].dtype);
  if (view.elements() == 0) return {};
  const auto last = static_cast<std::uint64_t>(graph::last_index(view).value_or(view.offset));
  return {static_cast<std::uint64_t>(view.offset) * size, (last + 1) * size};
}

/// Units: bytes of inputs. A thread that is woken to run an iteration takes as long as writing some of this does.
constexpr std::uint64_t kWorthStarting = 16 << 10;

void Session::State::find_near_places() {
  std::vector<ByteRange> numbers, tensors, states;
  for (const graph::Output& output : program->outputs) {
    if (output.operand.is_scalar() || schedule.on_host(output.operand.value)) continue;
    const std::uint64_t at = offset_of(output.operand.value);
    const ByteRange range = range_of(output);
    (output.is_tensor() ? tensors : numbers).push_back({at + range.begin, at + range.end});
  }
  const auto keep = [&](graph::ValueId value) {
    if (placement.buffer_of[value] != graph::kNone && !schedule.on_host(value)) kept_begins.push_back(offset_of(value));
  };
  for (const graph::State& state : program->states) {
    keep(state.start);
    if (schedule.on_host(state.start)) continue;
    const std::uint64_t at = offset_of(state.start);
    states.push_back({at, at + bytes_of(program->values[state.start])});
  }
  std::uint64_t input_bytes = 0;
  for (const graph::Input& input : program->inputs) {
    keep(input.value);
    if (!placement.has_two_places() || placement.second_of[input.value] == graph::kNone) continue;
    kept_begins.push_back(placement.plan.offsets[placement.second_of[input.value]]);
    input_bytes += bytes_of(program->values[input.value]);
  }
  if (const KeptPlaces* const all = options.memory.kept_in_zones.get();
      all != nullptr) {  // those of other variants too
    kept_begins.insert(kept_begins.end(), all->states.begin(), all->states.end());
    for (const auto& [constant, offset] : all->constants) kept_begins.push_back(offset);
  }
  all_begins = kept_begins;
  is_worth_starting = !options.poison && input_bytes >= kWorthStarting;
  for (std::size_t buffer = 0; buffer < placement.buffers.size(); ++buffer) {
    if (placement.buffers[buffer].size_bytes > 0) all_begins.push_back(placement.plan.offsets[buffer]);
  }
  std::ranges::sort(all_begins);
  for (const graph::Constant& constant : program->constants) keep(constant.value);
  std::ranges::sort(kept_begins);
  near_numbers = near_ranges(std::move(numbers));
  near_tensors = near_ranges(std::move(tensors));
  near_states = near_ranges(std::move(states));
}

NearReads Session::State::reads_of(std::span<const ByteRange> near) const {
  return NearReads(near,
                   [this](std::uint64_t offset, std::span<std::byte> bytes) { return arena->read(offset, bytes); });
}

Result<void> Session::State::read_range(graph::ValueId value, const ByteRange& range, std::span<std::byte> bytes,
                                        NearReads& reads) const {
  if (interpreted || bytes.empty() || schedule.on_host(value)) return read_bytes(value, range.begin, bytes);
  return reads.read(offset_of(value) + range.begin, bytes);
}

Result<double> Session::State::read_output(const graph::Output& output, NearReads& reads) const {
  if (output.operand.is_scalar()) {
    return output.operand.scalar.is_integer ? static_cast<double>(output.operand.scalar.integer)
                                            : output.operand.scalar.real;
  }
  const DType dtype = program->values[output.operand.value].dtype;
  std::vector<std::byte> bytes(size_bytes(dtype));
  CRUCIBLE_TRY_VOID(read_range(output.operand.value, range_of(output), bytes, reads));
  return element_as_double(dtype, bytes);
}

/// What the iteration that ran says about an index that eager would have refused. Errors: those of reading.
Result<std::optional<Error>> Session::State::index_outside(NearReads& reads) const {
  for (const graph::Output& output : program->outputs) {
    if (!output.is_bounds()) continue;
    CRUCIBLE_TRY(const std::vector<std::byte> bytes, read_tensor(output, reads));
    std::vector<std::int64_t> extrema(bytes.size() / sizeof(std::int64_t));
    std::memcpy(extrema.data(), bytes.data(), extrema.size() * sizeof(std::int64_t));
    if (const Result<void> inside = graph::check_bounds(*program, output, extrema); !inside)
      return std::optional<Error>(inside.error());
  }
  return std::optional<Error>();
}

/// The elements of a tensor, dense and row-major: what lies between its first and its last one is read, and picked
/// from.
Result<std::vector<std::byte>> Session::State::read_tensor(const graph::Output& output, NearReads& reads) const {
  const graph::View& view = output.operand.view;
  const std::size_t size = size_bytes(program->values[output.operand.value].dtype);
  const auto elements = static_cast<std::size_t>(view.elements());
  std::vector<std::byte> dense(elements * size);
  if (elements == 0) return dense;
  const ByteRange range = range_of(output);
  std::vector<std::byte> lying(range.end - range.begin);
  CRUCIBLE_TRY_VOID(read_range(output.operand.value, range, lying, reads));
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

Result<OutputDifference> Session::State::compare_output(const graph::Output& output, std::uint32_t iteration,
                                                        NearReads& reads) const {
  const DType dtype = program->values[output.operand.value].dtype;
  CRUCIBLE_TRY(const std::vector<std::byte> expected, blobs->load(output.blobs[iteration]));
  CRUCIBLE_TRY(const std::vector<std::byte> actual, read_tensor(output, reads));
  const Result<TensorDifference> difference = compare(dtype, actual, expected);
  if (!difference) {
    return Error{difference.error().code,
                 fmt::format("output {} of iteration {}: {}", output.name, iteration, difference.error().message)};
  }
  OutputDifference found{output.name,
                         iteration,
                         dtype,
                         difference->max_rel_diff,
                         output_tolerance(dtype),
                         difference->bit_equal,
                         hash_of_elements(dtype, actual)};
  if (!found.is_within()) found.words = words_of_difference(dtype, actual, expected);
  return found;
}

Result<std::vector<std::byte>> Session::output_bytes(std::size_t index) const {
  NearReads reads = state_->reads_of({});
  return state_->read_tensor(state_->program->outputs.at(index), reads);
}

Result<std::vector<OutputDifference>> Session::compare_outputs() const {
  if (next_ == 0) return Error{ErrorCode::kUsage, "outputs are compared after an iteration has run"};
  const std::uint32_t iteration = turns_[next_ - 1].index;
  const graph::OutputTensors shown = graph::output_tensors(*state_->program);
  NearReads reads = state_->reads_of(state_->near_tensors);
  std::map<std::pair<std::size_t, std::uint32_t>, std::size_t>
      compared;  // by first_alike and recorded blob: the first place that has both
  std::vector<OutputDifference> differences;
  for (std::size_t place = 0; place < shown.outputs.size(); ++place) {
    const graph::Output& output = *shown.outputs[place];
    const auto [first, is_new] = compared.try_emplace({shown.first_alike[place], output.blobs[iteration]}, place);
    if (is_new) {
      CRUCIBLE_TRY(OutputDifference difference, state_->compare_output(output, iteration, reads));
      differences.push_back(std::move(difference));
    } else {
      differences.push_back(differences[first->second]);
      differences.back().name = output.name;
    }
    differences.back().place = place;
    differences.back().iteration = next_ - 1;
  }
  return differences;
}

}  // namespace crucible::runtime
