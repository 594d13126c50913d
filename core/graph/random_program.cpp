// Random programs: see random_program.hpp. A pool of tensors grows op by op; every tensor carries a bound of its
// magnitude and whether its numbers are exact (untouched by rounding), which decides what may be done with it. What all
// steps use is in random_builder.hpp, what index programs are made of in random_index.cpp.
#include "core/graph/random_program.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/graph/bitcast.hpp"
#include "core/graph/random_index.hpp"
#include "core/graph/view.hpp"

namespace crucible::graph {
namespace {

class Generator : public RandomIndexSteps {
 public:
  using RandomIndexSteps::RandomIndexSteps;

  RandomProgram run() {
    result_.program.iterations = 1;
    for (int i = 0; i < 4; ++i) pool_.push_back(outside(ValueKind::kInput, random_sizes()));
    for (int i = 0; i < 2; ++i) pool_.push_back(outside(ValueKind::kConstant, random_sizes()));
    for (int i = 0; i < 3; ++i) pool_.push_back(outside(ValueKind::kState, random_sizes()));
    for (int i = 0; i < 2; ++i) {
      result_.program.slots.push_back({"slot", {real(-1, 1)}});
      result_.slots.push_back(result_.program.slots.back().values[0]);
    }
    while (result_.program.ops.size() < options_.ops) step();
    for (std::size_t s = 0; s < result_.program.states.size(); ++s) end_state(s);
    output();
    return std::move(result_);
  }

 private:
  void step() {
    if (options_.generators && integer(0, 1) == 0) return generated();
    switch (integer(0, 12)) {
      case 0:
      case 1:
        unary();
        break;
      case 2:
      case 3:
      case 4:
        binary();
        break;
      case 5:
        select();
        break;
      case 6:
        reduce();
        break;
      case 7:
        normalize_rows();
        break;
      case 8:
        chain();
        break;
      case 9:
        options_.contractions ? matmul() : binary();
        break;
      case 10:
        options_.indexed ? indexed() : unary();
        break;
      case 11:
        options_.indexed ? along() : reduce();
        break;
      default:
        options_.indexed ? update() : select();
        break;
    }
  }

  void unary() {
    const Tensor t = tamed(viewed(pick()));
    const Sizes& sizes = t.operand.view.sizes;
    constexpr OpKind kExactKinds[] = {OpKind::kCopy, OpKind::kNegate, OpKind::kAbsolute};
    constexpr OpKind kBoundedKinds[] = {OpKind::kTanh, OpKind::kErf, OpKind::kSigmoid,
                                        OpKind::kSin,  OpKind::kCos, OpKind::kAtan};
    constexpr OpKind kPositiveKinds[] = {OpKind::kLog, OpKind::kSqrt, OpKind::kReciprocalSqrt, OpKind::kReciprocal};
    switch (integer(0, 3)) {
      case 0:
        pool_.push_back({emit(kExactKinds[integer(0, 2)], {t.operand}, sizes), t.bound, t.exact});
        break;
      case 1:
        pool_.push_back({emit(kBoundedKinds[integer(0, 5)], {t.operand}, sizes), 1.6, false});
        break;
      case 2: {
        const Tensor small = tamed(t, 3);
        pool_.push_back({emit(OpKind::kExp, {small.operand}, sizes), std::exp(3.0), false});
        break;
      }
      default: {  // |x| + 1 keeps these away from their singularities
        const Operand size = emit(OpKind::kAbsolute, {t.operand}, sizes);
        const Operand positive = emit(OpKind::kAdd, {size, fixed(1)}, sizes);
        pool_.push_back({emit(kPositiveKinds[integer(0, 3)], {positive}, sizes), t.bound + 1, false});
      }
    }
  }

  void binary() {
    const Tensor a = tamed(viewed(pick()));
    const Sizes sizes = a.operand.view.sizes;
    Tensor b = tamed(matching(sizes));
    if (integer(0, 3) == 0) b = {scalar(real(-2, 2)), 2, false};
    constexpr OpKind kKinds[] = {OpKind::kAdd, OpKind::kSubtract, OpKind::kMaximum, OpKind::kMinimum,
                                 OpKind::kMultiply};
    const OpKind kind = kKinds[integer(0, 4)];
    const double bound = kind == OpKind::kMultiply ? a.bound * b.bound : a.bound + b.bound;
    const bool exact = a.exact && b.exact && (kind == OpKind::kMaximum || kind == OpKind::kMinimum);
    const bool swap = integer(0, 1) == 0;
    pool_.push_back({emit(kind, swap ? std::vector{b.operand, a.operand} : std::vector{a.operand, b.operand}, sizes),
                     bound, exact});
  }

  void select() {
    const Tensor a = exact_tensor();
    const Sizes sizes = a.operand.view.sizes;
    constexpr OpKind kKinds[] = {OpKind::kLess, OpKind::kLessEqual, OpKind::kGreater, OpKind::kGreaterEqual,
                                 OpKind::kNotEqual};
    Operand condition;
    if (integer(0, 1) == 0) {
      condition = emit(kKinds[integer(0, 4)], {a.operand, fixed(0.25)}, sizes, DType::kBool);
    } else {
      Attributes dims;
      dims.dims = {integer(0, static_cast<std::int64_t>(sizes.size()) - 1)};
      const Operand index = emit(OpKind::kCoordinate, {}, sizes, DType::kI64, dims);
      Operand limit;
      limit.scalar.is_integer = true;
      limit.scalar.integer = integer(0, 3);
      condition = emit(kKinds[integer(0, 4)], {index, limit}, sizes, DType::kBool);
    }
    if (integer(0, 2) == 0) condition = emit(OpKind::kLogicalNot, {condition}, sizes, DType::kBool);
    const Tensor x = matching(sizes), y = matching(sizes);
    pool_.push_back({emit(OpKind::kSelect, {condition, x.operand, y.operand}, sizes), std::max(x.bound, y.bound),
                     x.exact && y.exact});
  }

  /// Reduces random dimensions; the result keeps them with size 1.
  Tensor reduced(OpKind kind, const Tensor& t) {
    Attributes a;
    Sizes sizes = t.operand.view.sizes;
    double count = 1;
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      if (integer(0, 1) == 0 && !(a.dims.empty() && d + 1 == sizes.size())) continue;
      a.dims.push_back(static_cast<std::int64_t>(d));
      count *= static_cast<double>(sizes[d]);
      sizes[d] = 1;
    }
    const bool sum = kind == OpKind::kReduceSum;
    return {emit(kind, {t.operand}, sizes, DType::kF32, a), sum ? t.bound * count : t.bound, !sum && t.exact};
  }

  void reduce() {
    constexpr OpKind kKinds[] = {OpKind::kReduceSum, OpKind::kReduceSum, OpKind::kReduceMax, OpKind::kReduceMin};
    pool_.push_back(reduced(kKinds[integer(0, 3)], tamed(viewed(pick()))));
  }

  /// exp(x - max(x)) / sum(exp(x - max(x))): the shape of softmax and of every normalisation.
  void normalize_rows() {
    const Tensor x = tamed(viewed(pick()), 8);
    const Sizes sizes = x.operand.view.sizes;
    Operand top = reduced(OpKind::kReduceMax, x).operand;
    top.view = *broadcast(top.view, sizes);
    const Operand shifted = emit(OpKind::kSubtract, {x.operand, top}, sizes);
    const Operand powers = emit(OpKind::kExp, {shifted}, sizes);
    Attributes a = result_.program.ops[result_.program.values[top.value].producer].attributes;
    Sizes kept = sizes;
    for (auto dim : a.dims) kept[static_cast<std::size_t>(dim)] = 1;
    Operand total = emit(OpKind::kReduceSum, {powers}, kept, DType::kF32, a);
    total.view = *broadcast(total.view, sizes);
    pool_.push_back({emit(OpKind::kDivide, {powers, total}, sizes), 1, false});
  }

  /// Several element-wise ops in a row on one tensor, as in-place updates of an optimizer are.
  void chain() {
    Tensor t = tamed(pick());
    const Sizes sizes = t.operand.view.sizes;
    for (std::int64_t n = integer(2, 5); n > 0; --n) {
      const Tensor other = tamed(matching(sizes));
      const Operand scaled = emit(OpKind::kMultiply, {other.operand, scalar(real(-1, 1))}, sizes);
      t = tamed({emit(OpKind::kAdd, {t.operand, scaled}, sizes), t.bound + 2 * other.bound, false});
    }
    pool_.push_back(t);
  }

  void matmul() {
    const Tensor a = tamed(viewed(pick()), 10);
    View left = a.operand.view;
    if (left.sizes.size() < 2) left = *reshaped(left, {1, left.elements()});
    const std::size_t rank = left.sizes.size();
    const std::int64_t k = left.sizes[rank - 1], n = integer(1, options_.largest_side);
    Sizes right = left.sizes;
    right[rank - 2] = n;  // stored transposed, read as [k, n]
    Tensor b = outside(ValueKind::kConstant, right);
    std::swap(b.operand.view.sizes[rank - 2], b.operand.view.sizes[rank - 1]);
    std::swap(b.operand.view.strides[rank - 2], b.operand.view.strides[rank - 1]);
    Sizes sizes = left.sizes;
    sizes[rank - 1] = n;
    Attributes attributes;
    if (integer(0, 1) == 0) attributes.alpha = 0.5;
    pool_.push_back({emit(OpKind::kMatMul, {{a.operand.value, left, {}}, b.operand}, sizes, DType::kF32, attributes),
                     a.bound * static_cast<double>(k), false});
  }

  /// Running sums; of exact numbers also running maxima, sorting, and where elements stood.
  void along() {
    const bool sums = integer(0, 1) == 0;
    const Tensor t = sums ? tamed(viewed(pick())) : exact_tensor();
    Sizes sizes = t.operand.view.sizes;
    Attributes a;
    a.dims = {integer(0, static_cast<std::int64_t>(sizes.size()) - 1)};
    auto& length = sizes[static_cast<std::size_t>(a.dims[0])];
    const auto count = static_cast<double>(length);
    if (sums) {
      pool_.push_back({emit(OpKind::kScanSum, {t.operand}, sizes, DType::kF32, a), t.bound * count, false});
      return;
    }
    constexpr OpKind kKinds[] = {OpKind::kScanMax, OpKind::kScanMin, OpKind::kSortAscending, OpKind::kSortDescending};
    Operand places;
    if (integer(0, 2) == 0) {
      length = 1;
      places = emit(OpKind::kArgMax, {t.operand}, sizes, DType::kI64, a);
    } else {
      pool_.push_back({emit(kKinds[integer(0, 3)], {t.operand}, sizes, DType::kF32, a), t.bound, true});
      const View view = View::contiguous(sizes);
      places = {value(ValueKind::kTemporary, DType::kI64, view.elements()), view, {}};
      Program& program = result_.program;
      program.values[places.value].producer = static_cast<OpId>(program.ops.size() - 1);
      program.ops.back().outputs.push_back(places);
    }
    pool_.push_back({emit(OpKind::kCopy, {places}, sizes), count, true});
  }

  void indexed() {
    Tensor t = tamed(viewed(pick()));
    const std::int64_t width = t.operand.view.sizes.back();
    auto table = reshaped(t.operand.view, {t.operand.view.elements() / width, width});
    if (!table) {
      pool_.push_back({emit(OpKind::kCopy, {t.operand}, t.operand.view.sizes), t.bound, t.exact});
      return;
    }
    const Operand rows{t.operand.value, *table, {}};
    if (integer(0, 1) == 0) {
      places(t);
    } else if (integer(0, 2) == 0) {
      const std::int64_t count = integer(1, 12);
      pool_.push_back(
          {emit(OpKind::kGatherRows, {rows, ids(count, table->sizes[0])}, {count, width}), t.bound, t.exact});
    } else if (integer(0, 1) == 0) {
      const std::int64_t count = integer(1, 12);
      Attributes a;
      if (integer(0, 1) == 0) a.index = integer(0, count - 1);
      pool_.push_back(
          {emit(OpKind::kScatterAddRows, {rows, ids(table->sizes[0], count)}, {count, width}, DType::kF32, a),
           t.bound * static_cast<double>(table->sizes[0]), false});
    } else {
      Attributes a;
      a.dims = {0};
      const Operand head{rows.value, {table->offset, {1, width}, table->strides}, {}};
      pool_.push_back({emit(OpKind::kConcat, {rows, head, rows}, {2 * table->sizes[0] + 1, width}, DType::kF32, a),
                       t.bound, t.exact});
    }
  }

  /// Elements at places some of which are outside, read or written.
  void places(const Tensor& t) {
    const std::int64_t elements = t.operand.view.elements();
    const auto flat = reshaped(t.operand.view, {elements});
    if (!flat) return;
    const Operand row{t.operand.value, *flat, {}};
    if (options_.seed % 8 == 5 && t.exact) return bits(t, row);  // bits have no tolerance
    const Sizes sizes = {integer(1, 5), integer(1, 5)};
    Operand index = ids(sizes[0] * sizes[1], elements + 2);
    index.view = View::contiguous(sizes);
    if (integer(0, 1) == 0) {  // computed, so that it fuses
      index = emit(OpKind::kSubtract, {index, scalar_integer(1)}, sizes, DType::kI64);
    }
    if (integer(0, 1) == 0) {
      pool_.push_back({emit(OpKind::kTake, {row, index}, sizes), t.bound, t.exact});
      return;
    }
    constexpr OpKind kKinds[] = {OpKind::kPutSet, OpKind::kPutAdd, OpKind::kPutMax, OpKind::kPutMin};
    const OpKind kind = kKinds[integer(0, 3)];
    const Tensor source = matching(sizes);
    const double bound = t.bound + source.bound * (kind == OpKind::kPutAdd ? 25 : 1);
    pool_.push_back({emit(kind, {row, index, source.operand}, {elements}), bound,
                     kind != OpKind::kPutAdd && t.exact && source.exact});
  }

  /// The same numbers, by way of another dtype that has their bits.
  void bits(const Tensor& t, const Operand& row) {
    constexpr DType kOthers[] = {DType::kU8, DType::kI16, DType::kBF16, DType::kI32, DType::kI64, DType::kF64};
    const DType other = kOthers[integer(0, 5)];
    const std::int64_t elements = row.view.sizes[0], bytes = elements * 4, size = size_bytes(other);
    if (bytes % size != 0) return;
    Attributes a;
    a.dims = {0};
    if (size < 4) a.index = kNamesNans;  // a NaN stays one
    const Operand moved =
        emit(OpKind::kConcat, {row}, {bytes / size}, other, a);  // a bitcast (bitcast.hpp), as the dtypes differ
    a.index = -1;
    pool_.push_back({emit(OpKind::kConcat, {moved}, {elements}, DType::kF32, a), t.bound, t.exact});
  }

  /// Writes a random tensor into a random region of another one's buffer.
  void update() {
    const Tensor base = pick();
    const std::int64_t elements = result_.program.values[base.operand.value].elements;
    const Sizes whole = {elements};
    Tensor part = base;
    for (int tries = 0; tries < 3; ++tries) {
      const Tensor next = viewed(part);
      if (is_injective(next.operand.view)) part = next;
    }
    if (!is_injective(part.operand.view)) return;
    const Tensor source = matching(part.operand.view.sizes);
    Attributes a;
    a.region = part.operand.view;
    const Operand all{base.operand.value, View::contiguous(whole), {}};
    pool_.push_back({emit(OpKind::kUpdate, {all, source.operand}, whole, DType::kF32, a),
                     std::max(base.bound, source.bound), base.exact && source.exact});
  }

  void end_state(std::size_t index) {
    const ValueId start = result_.program.states[index].start;
    const Sizes sizes = {result_.program.values[start].elements};
    const Operand old{start, View::contiguous(sizes), {}};
    const Tensor source = tamed(matching(sizes));
    const Operand scaled = emit(OpKind::kMultiply, {source.operand, scalar(0.1)}, sizes);
    result_.program.states[index].end = emit(OpKind::kAdd, {old, scaled}, sizes).value;
  }

  /// The last tensors are watched through their sums, so that none of the program is dead weight.
  void output() {
    Operand total;
    for (std::size_t i = pool_.size() - std::min<std::size_t>(pool_.size(), 8); i < pool_.size(); ++i) {
      const Tensor t = tamed(pool_[i]);
      Attributes a;
      Sizes ones;
      for (std::size_t d = 0; d < t.operand.view.sizes.size(); ++d) {
        a.dims.push_back(static_cast<std::int64_t>(d));
        ones.push_back(1);
      }
      Operand sum = emit(OpKind::kReduceSum, {t.operand}, ones, DType::kF32, a);
      sum.view = View::contiguous({});
      total = total.is_scalar() ? sum : emit(OpKind::kAdd, {total, sum}, {});
    }
    result_.program.outputs.push_back({"loss", total, {0.0}});
  }
};

}  // namespace

RandomProgram random_program(const RandomOptions& options) { return Generator(options).run(); }

}  // namespace crucible::graph
