#include "frontends/aten/algebra/index_bounds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/graph/bounds.hpp"
#include "core/graph/reference_numbers.hpp"
#include "core/graph/view.hpp"
#include "frontends/aten/algebra/emitter.hpp"

namespace crucible::aten {
namespace {

using graph::Op;
using graph::OpKind;
using graph::Operand;
using graph::Program;

using Interval = std::optional<IndexInterval>;

constexpr int kDeepest = 16;  // ops that are followed back: a proof is short or none
constexpr std::int64_t kLargest = std::int64_t{1} << 40;  // beyond that no arithmetic is followed: it might wrap

Interval united(const Interval& a, const Interval& b) {
  if (!a || !b) return std::nullopt;
  return IndexInterval{std::min(a->low, b->low), std::max(a->high, b->high)};
}

bool is_small(const Interval& a) { return a && a->low >= -kLargest && a->high <= kLargest; }

Interval of_dtype(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return IndexInterval{0, 1};
    case DType::kU8:
      return IndexInterval{0, 255};
    default:
      return std::nullopt;
  }
}

std::int64_t size_of(const Operand& operand, std::int64_t dim) {
  const auto& sizes = operand.view.sizes;
  return dim >= 0 && dim < static_cast<std::int64_t>(sizes.size()) ? sizes[static_cast<std::size_t>(dim)] : 0;
}

class Prover {
 public:
  explicit Prover(const Program& program) : program_(program) {}

  Interval of(const Operand& operand, int depth) const {
    if (operand.is_scalar()) return of(operand.scalar);
    if (operand.value >= program_.values.size() || depth > kDeepest) return std::nullopt;
    const graph::Value& value = program_.values[operand.value];
    if (!is_integral(value.dtype) && value.dtype != DType::kBool) return std::nullopt;
    Interval found;
    if (value.producer != graph::kNone) found = of(program_.ops[value.producer], operand.value, depth + 1);
    return found ? found : of_dtype(value.dtype);
  }

 private:
  Interval of(const graph::Scalar& scalar) const {
    if (!scalar.is_integer) return std::nullopt;
    if (scalar.slot == graph::kNone) return IndexInterval{scalar.integer, scalar.integer};
    Interval all;
    for (const graph::Number& number : program_.slots[scalar.slot].values) {
      if (!number.is_integer()) return std::nullopt;
      const IndexInterval one{number.integer(), number.integer()};
      all = all ? united(all, one) : one;
    }
    return all;
  }

  Interval of(const Op& op, graph::ValueId value, int depth) const {
    const auto in = [&](std::size_t i) { return i < op.inputs.size() ? of(op.inputs[i], depth) : Interval(); };
    const std::int64_t dim = op.attributes.dims.empty() ? -1 : op.attributes.dims[0];
    const bool is_second = op.outputs.size() > 1 && op.outputs[1].value == value;
    switch (op.kind) {
      case OpKind::kFill:
        return in(0);
      case OpKind::kCopy:
        return copied(op, value, in(0));
      case OpKind::kCoordinate:
        return places(size_of(op.outputs[0], dim));
      case OpKind::kArgMax:
      case OpKind::kArgMin:
        return places(op.inputs.empty() ? 0 : size_of(op.inputs[0], dim));
      case OpKind::kScanMax:
      case OpKind::kScanMin:
      case OpKind::kSortAscending:
      case OpKind::kSortDescending:
        return is_second && !op.inputs.empty() ? places(size_of(op.inputs[0], dim)) : in(0);
      case OpKind::kMaxPool2d:
        return is_second && !op.inputs.empty() ? places(size_of(op.inputs[0], 2) * size_of(op.inputs[0], 3)) : in(0);
      case OpKind::kReduceMax:
      case OpKind::kReduceMin:
        return in(0);
      case OpKind::kMaximum:
      case OpKind::kMinimum:
        return bounded(op.kind == OpKind::kMaximum, in(0), in(1));
      case OpKind::kSelect:
        return united(in(1), in(2));
      case OpKind::kAdd:
      case OpKind::kSubtract:
      case OpKind::kMultiply:
        return computed(op.kind, in(0), in(1));
      case OpKind::kRemainder:
        return remainder(in(0), in(1));
      case OpKind::kConcat: {
        if (op.inputs.empty() || op.inputs[0].is_scalar() ||
            program_.values[op.inputs[0].value].dtype != program_.values[value].dtype)
          return std::nullopt;  // bits of another dtype
        Interval all = in(0);
        for (std::size_t i = 1; i < op.inputs.size(); ++i) all = united(all, in(i));
        return all;
      }
      case OpKind::kTake:
        return united(in(0), IndexInterval{0, 0});
      case OpKind::kGatherRows:
        return in(0);
      case OpKind::kUpdate:
        return united(in(0), in(1));
      case OpKind::kPutSet:
      case OpKind::kPutMax:
      case OpKind::kPutMin:
        return united(in(0), in(2));
      default:
        return std::nullopt;
    }
  }

  static Interval places(std::int64_t count) { return IndexInterval{0, std::max<std::int64_t>(0, count - 1)}; }

  /// A conversion between integers keeps what fits into both.
  Interval copied(const Op& op, graph::ValueId value, const Interval& from) const {
    if (!from) return std::nullopt;
    switch (program_.values[value].dtype) {
      case DType::kI64:
        return from;
      case DType::kI32:
        if (from->low >= std::numeric_limits<std::int32_t>::min() &&
            from->high <= std::numeric_limits<std::int32_t>::max())
          return from;
        return std::nullopt;
      default:
        return std::nullopt;
    }
  }

  /// One known side is enough for one end: the other is that of the type.
  static Interval bounded(bool is_maximum, const Interval& a, const Interval& b) {
    constexpr IndexInterval kAll{std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()};
    if (!a && !b) return std::nullopt;
    const IndexInterval x = a.value_or(kAll), y = b.value_or(kAll);
    if (is_maximum) return IndexInterval{std::max(x.low, y.low), std::max(x.high, y.high)};
    return IndexInterval{std::min(x.low, y.low), std::min(x.high, y.high)};
  }

  static Interval computed(OpKind kind, const Interval& a, const Interval& b) {
    if (!is_small(a) || !is_small(b)) return std::nullopt;
    if (kind == OpKind::kAdd) return IndexInterval{a->low + b->low, a->high + b->high};
    if (kind == OpKind::kSubtract) return IndexInterval{a->low - b->high, a->high - b->low};
    constexpr std::int64_t kFactor = std::int64_t{1} << 20;
    if (a->low < -kFactor || a->high > kFactor || b->low < -kFactor || b->high > kFactor) return std::nullopt;
    const auto [low, high] = std::minmax({a->low * b->low, a->low * b->high, a->high * b->low, a->high * b->high});
    return IndexInterval{low, high};
  }

  static Interval remainder(const Interval& a, const Interval& b) {
    if (!b || b->low <= 0 || b->high > kLargest) return std::nullopt;
    return IndexInterval{a && a->low >= 0 ? 0 : 1 - b->high, b->high - 1};
  }

  const Program& program_;
};

bool lies_in(const Interval& found, const IndexInterval& within) {
  return found && found->low >= within.low && found->high <= within.high;
}

/// The least (largest) of all elements, [1] of i64.
Term extremum(Emitter& e, OpKind kind, const Term& index) {
  Term wide = e.cast(index, DType::kI64);
  if (wide.rank() == 0) return e.reshape(wide, {1});
  wide.operand.view = graph::normalized(std::move(wide.operand.view));
  graph::Attributes attributes;
  attributes.dims.resize(wide.sizes().size());
  std::iota(attributes.dims.begin(), attributes.dims.end(), 0);
  return e.reshape(e.emit(kind, {wide}, Sizes(wide.sizes().size(), 1), DType::kI64, attributes), {1});
}

std::string outside(const graph::Source& source, const IndexInterval& found, const IndexInterval& within) {
  const std::int64_t index = found.low < within.low ? found.low : found.high;
  return graph::index_outside(&source, index, {within.low, within.high, graph::kNone});
}

}  // namespace

std::optional<IndexInterval> proven_interval(const Program& program, const Operand& operand) {
  return Prover(program).of(operand, 0);
}

void IndexBounds::emit(Emitter& e) {
  for (Expected& expected : std::exchange(expected_, {})) {
    if (expected.index.is_number() ? false : expected.index.elements() == 0) continue;
    const Interval proven = proven_interval(e.program(), expected.index.operand);
    if (lies_in(proven, expected.within)) {
      ++proven_;
      continue;
    }
    if (expected.index.is_number()) {  // numbers are known
      e.fail(proven ? outside(e.program().sources[expected.source], *proven, expected.within)
                    : "a number that is no integer is an index");
      return;
    }
    const Operand& operand = expected.index.operand;
    const Key key{operand.value,       operand.view.offset,  operand.view.sizes, operand.view.strides,
                  expected.within.low, expected.within.high, expected.except};
    if (!known_.try_emplace(key, emitted_.size()).second) continue;
    const graph::Bound bound{expected.within.low, expected.within.high, expected.source};
    Term counted = expected.index;
    if (expected.except) {
      counted = e.cast(counted, DType::kI64);
      const Term counts = e.binary(OpKind::kNotEqual, counted, Term::integer(*expected.except));
      counted = e.select(counts, counted, Term::integer(expected.within.low));
    }
    const Term least = extremum(e, OpKind::kReduceMin, counted), most = extremum(e, OpKind::kReduceMax, counted);
    emitted_.push_back({bound, expected.except, expected.index, least, most});
  }
}

Result<void> IndexBounds::finish(Emitter& e, const trace::BlobStore& blobs) {
  Program& program = e.program();
  std::map<graph::ValueId, std::uint32_t> blob_of;
  for (const graph::Constant& constant : program.constants) blob_of.emplace(constant.value, constant.blob);
  graph::Output output{.name = "indices", .operand = {}, .recorded = {}, .blobs = {}, .bounds = {}};
  std::vector<Term> pieces;
  for (const Emitted& emitted : emitted_) {
    const Operand& operand = emitted.index.operand;
    if (const auto constant = blob_of.find(operand.value); constant != blob_of.end()) {
      const DType dtype = program.values[operand.value].dtype;
      const auto bytes = blobs.load(constant->second);
      if (bytes &&
          bytes->size() >= static_cast<std::size_t>(program.values[operand.value].elements) * size_bytes(dtype)) {
        IndexInterval found{std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()};
        for (const std::int64_t at : graph::indices(operand.view)) {
          const std::int64_t index =
              graph::load_integer(dtype, bytes->data() + static_cast<std::size_t>(at) * size_bytes(dtype));
          if (index != emitted.except) found = {std::min(found.low, index), std::max(found.high, index)};
        }
        const IndexInterval within{emitted.bound.low, emitted.bound.high};
        if (found.low <= found.high && !lies_in(found, within))
          return Error{ErrorCode::kBadInput, outside(program.sources[emitted.bound.source], found, within)};
        ++proven_;
        continue;
      }
    }
    output.bounds.push_back(emitted.bound);
    pieces.push_back(emitted.least);
    pieces.push_back(emitted.most);
  }
  if (pieces.empty()) return {};
  e.set_source(graph::kNone);
  output.operand = e.concat(pieces, 0).operand;
  program.outputs.push_back(std::move(output));
  return {};
}

}  // namespace crucible::aten
