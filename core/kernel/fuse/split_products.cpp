// Products in pieces: see split_products.hpp.
#include "core/kernel/fuse/split_products.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/kernel/emit/conv_tiles.hpp"
#include "core/kernel/emit/emit.hpp"
#include "core/kernel/emit/window.hpp"

namespace crucible::kernel {
namespace {

using graph::kNone;
using graph::kStepsOfPiece;
using graph::Op;
using graph::OpId;
using graph::OpKind;
using graph::Program;
using graph::ValueId;

constexpr std::int64_t kFewResults = 24;  // for each worker: with more, threads have enough to do while others wait
constexpr std::int64_t kManySteps = 2 * kStepsOfPiece;  // fewer take no longer than the launch that adds up the pieces
constexpr int kUsualWorkers = 4096;
constexpr std::int64_t kMostBytes = std::int64_t{64} << 20;  // of all pieces of a product

/// The steps of the phase that has most, where the gradient of x is done in phases.
std::int64_t steps_of_input(const Op& op) {
  const graph::View &weight = op.inputs[1].view, &x = op.outputs[0].view;
  const graph::Attributes& a = op.attributes;
  std::int64_t steps = weight.sizes[0] / a.groups;
  const bool in_phases = has_phases(a.stride, x.sizes[2], x.sizes[3]);
  for (const std::size_t d : {0u, 1u}) {
    const std::int64_t taps = weight.sizes[2 + d];
    std::int64_t most = in_phases ? 0 : taps;
    for (std::int64_t phase = 0; in_phases && phase < a.stride[d]; ++phase)
      most = std::max(most, taps_of_phase(a.stride[d], a.dilation[d], a.padding[d], taps, phase).count);
    steps *= most;
  }
  return steps;
}

/// How many steps each result takes; 0 for what is no product by tiles.
std::int64_t steps_of(const Op& op) {
  const auto product = [](const graph::View& view, std::initializer_list<std::size_t> dims) {
    std::int64_t count = 1;
    for (const std::size_t d : dims) count *= view.sizes[d];
    return count;
  };
  switch (op.kind) {
    case OpKind::kMatMul:
      return op.inputs[0].view.sizes.back();
    case OpKind::kConv2d:
      return fits_tiles(op, ConvResult::kForward) ? product(op.inputs[1].view, {1, 2, 3}) : 0;
    case OpKind::kConv2dBackwardInput:
      return fits_tiles(op, ConvResult::kInput) ? steps_of_input(op) : 0;
    case OpKind::kConv2dBackwardWeight:
      return fits_tiles(op, ConvResult::kWeight) ? product(op.inputs[0].view, {0, 2, 3}) : 0;
    default:
      return 0;
  }
}

class Split {
 public:
  Split(const Program& program, const Options& options) : program_(program), options_(options) {}

  std::int64_t pieces(const Op& op) const {
    const std::int64_t steps = steps_of(op), results = steps == 0 ? 0 : op.outputs[0].view.elements();
    const DType type = program_.values[op.outputs[0].value].dtype;
    if (results < 2 || !is_floating(type) || op.attributes.pieces != 0) return 0;
    const std::int64_t count = pieces_of(results, steps, options_.device);
    const bool is_large = count > 0 && results > kMostBytes / size_bytes(compute_type(type)) / count;
    return is_large || is_claimed(op) ? 0 : count;
  }

  Program run() {
    Program split = program_;
    split.ops.clear();
    std::vector<OpId> now(program_.ops.size(), kNone);
    for (OpId id = 0; id < program_.ops.size(); ++id) {
      const Op& op = program_.ops[id];
      if (const std::int64_t count = pieces(op); count > 0) {
        append(split, op, count);
      } else {
        split.ops.push_back(op);
      }
      now[id] = static_cast<OpId>(split.ops.size() - 1);
    }
    for (ValueId v = 0; v < program_.values.size(); ++v) {
      if (split.values[v].producer != kNone) split.values[v].producer = now[split.values[v].producer];
    }
    return split;
  }

 private:
  bool is_claimed(const Op& op) const {
    if (options_.numerics == Numerics::kStrict || !options_.claims) return false;
    const auto call = library_call_of(program_, op);
    return call && options_.claims(*call);
  }

  static graph::Operand made(Program& split, DType type, std::int64_t elements, const graph::View& view) {
    const auto value = static_cast<ValueId>(split.values.size());
    split.values.push_back({.kind = graph::ValueKind::kTemporary,
                            .dtype = type,
                            .elements = elements,
                            .name = "",
                            .producer = static_cast<OpId>(split.ops.size())});
    return {.value = value, .view = view, .scalar = {}};
  }

  /// The pieces, their sum, and what becomes of it before it is stored: the product's factor, its narrower type.
  void append(Program& split, const Op& op, std::int64_t count) const {
    const graph::Operand& result = op.outputs[0];
    const DType type = program_.values[result.value].dtype, wide = compute_type(type);
    const std::int64_t elements = result.view.elements();
    const double alpha = op.attributes.alpha;

    Op product = op;
    product.attributes.pieces = count;
    product.attributes.alpha = 1;
    product.outputs[0] = made(split, wide, count * elements, result.view);
    graph::View terms = result.view, sum = result.view;
    terms.sizes.insert(terms.sizes.begin(), count);
    terms.strides.insert(terms.strides.begin(), elements);
    sum.sizes.insert(sum.sizes.begin(), 1);
    sum.strides.insert(sum.strides.begin(), 0);
    const graph::Operand pieces{.value = product.outputs[0].value, .view = std::move(terms), .scalar = {}};
    split.ops.push_back(std::move(product));

    Op total{.kind = OpKind::kReduceSum, .inputs = {pieces}, .outputs = {}, .attributes = {}, .source = op.source};
    total.attributes.dims = {0};
    total.attributes.pieces = count;
    const bool is_last = alpha == 1 && type == wide;
    graph::Operand now = is_last ? result : made(split, wide, elements, result.view);
    total.outputs = {{.value = now.value, .view = std::move(sum), .scalar = {}}};
    split.ops.push_back(std::move(total));
    const auto go_on = [&](OpKind kind, std::vector<graph::Operand> inputs, bool ends) {
      graph::Operand next = ends ? result : made(split, wide, elements, result.view);
      split.ops.push_back(
          {.kind = kind, .inputs = std::move(inputs), .outputs = {next}, .attributes = {}, .source = op.source});
      now = std::move(next);
    };
    if (alpha != 1) {
      graph::Operand factor;
      factor.scalar.real = alpha;
      go_on(OpKind::kMultiply, {now, factor}, type == wide);
    }
    if (type != wide) go_on(OpKind::kCopy, {now}, true);
  }

  const Program& program_;
  const Options& options_;
};

}  // namespace

std::int64_t pieces_of(std::int64_t results, std::int64_t steps, const DeviceShape& device) {
  const std::int64_t workers = device.workers > 0 ? device.workers : kUsualWorkers;
  if (device.lanes <= 1 || steps < kManySteps || results >= workers * kFewResults) return 0;
  // A few empty ones make it a number that can be added up several at once.
  std::int64_t count = (steps + kStepsOfPiece - 1) / kStepsOfPiece;
  constexpr std::int64_t kFewAtOnce = 3;
  while (count > kPiecesAtOnce && divisor_below(count, kPiecesAtOnce) < kFewAtOnce) ++count;
  return count;
}

std::optional<Program> split_products(const Program& program, const Options& options) {
  if (options.device.lanes <= 1) return std::nullopt;
  Split split(program, options);
  if (std::ranges::none_of(program.ops, [&](const Op& op) { return split.pieces(op) > 0; })) return std::nullopt;
  return split.run();
}

}  // namespace crucible::kernel
