// Rules of single ops, by class: see verify_ops.hpp. Operands are known to exist and to lie inside their values here.
#include "core/graph/verify_ops.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/graph/bitcast.hpp"
#include "core/graph/composite.hpp"
#include "core/graph/op_table.hpp"
#include "core/graph/opaque.hpp"
#include "core/graph/view.hpp"

namespace crucible::graph {
namespace {

using Sizes = std::vector<std::int64_t>;

constexpr std::int64_t kMostSide = std::int64_t{1} << 31;  // of images, windows and their steps: products of two of them fit

/// What every rule looks at, with short names.
struct Rule {
  const Program& program;
  OpId index;
  const Op& op;

  template <class... Args>
  Error broken(fmt::format_string<Args...> text, Args&&... args) const {
    return Error{ErrorCode::kInternal,
                 describe_op(program, index) + ": " + fmt::format(text, std::forward<Args>(args)...)};
  }
  const Sizes& sizes(std::size_t i) const { return op.inputs[i].view.sizes; }
  DType dtype(std::size_t i) const { return program.values[op.inputs[i].value].dtype; }
  bool is_scalar(std::size_t i) const { return op.inputs[i].is_scalar(); }
  const Sizes& out_sizes(std::size_t i = 0) const { return op.outputs[i].view.sizes; }
  DType out_dtype(std::size_t i = 0) const { return program.values[op.outputs[i].value].dtype; }
};

Result<void> all_tensors(const Rule& rule) {
  for (std::size_t i = 0; i < rule.op.inputs.size(); ++i) {
    if (rule.is_scalar(i)) return rule.broken("operand {}: must be a tensor", i);
  }
  return {};
}

Result<void> same_dtypes(const Rule& rule) {
  for (std::size_t i = 0; i < rule.op.inputs.size(); ++i) {
    if (rule.dtype(i) != rule.out_dtype()) {
      return rule.broken("operand {}: is {}, the result is {}", i, name(rule.dtype(i)), name(rule.out_dtype()));
    }
  }
  return {};
}

Result<void> expect_sizes(const Rule& rule, std::string_view what, const Sizes& sizes, const Sizes& wanted) {
  if (sizes == wanted) return {};
  return rule.broken("{} has sizes [{}], needs [{}]", what, fmt::join(sizes, ", "), fmt::join(wanted, ", "));
}

Result<void> expect_rank(const Rule& rule, std::size_t operand, std::size_t rank) {
  if (rule.sizes(operand).size() == rank) return {};
  return rule.broken("operand {}: has {} dimensions, needs {}", operand, rule.sizes(operand).size(), rank);
}

Result<void> expect_ids(const Rule& rule, std::size_t operand) {
  if (rule.dtype(operand) == DType::kI64 || rule.dtype(operand) == DType::kI32) return {};
  return rule.broken("operand {}: ids are {}, need i64 or i32", operand, name(rule.dtype(operand)));
}

Result<void> check_dims(const Rule& rule, std::size_t rank, std::size_t least, std::size_t most) {
  const auto& dims = rule.op.attributes.dims;
  if (dims.size() < least || dims.size() > most) {
    return rule.broken("attribute dims has {} entries, needs {} to {}", dims.size(), least, most);
  }
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 0 || dims[i] >= static_cast<std::int64_t>(rank)) {
      return rule.broken("attribute dims names dimension {} of {}", dims[i], rank);
    }
    if (i > 0 && dims[i] <= dims[i - 1]) return rule.broken("attribute dims must be ascending without repetition");
  }
  return {};
}

Result<void> check_elementwise(const Rule& rule, OpClass op_class) {
  for (std::size_t i = 0; i < rule.op.inputs.size(); ++i) {
    if (rule.is_scalar(i) || rule.sizes(i) == rule.out_sizes()) continue;  // before the words that an error needs
    CRUCIBLE_TRY_VOID(expect_sizes(rule, fmt::format("operand {}", i), rule.sizes(i), rule.out_sizes()));
  }
  const DType out = rule.out_dtype();
  switch (op_class) {
    case OpClass::kArithmetic:
      if (out == DType::kBool) return rule.broken("the result must not be bool");
      break;
    case OpClass::kFloating:
      if (!is_floating(out)) return rule.broken("the result must be floating-point, is {}", name(out));
      break;
    case OpClass::kInteger:
      if (!is_integral(out)) return rule.broken("the result must be an integer, is {}", name(out));
      break;
    case OpClass::kTest:
    case OpClass::kComparison:
    case OpClass::kLogic:
      if (out != DType::kBool) return rule.broken("the result must be bool, is {}", name(out));
      if (rule.is_scalar(0)) return rule.broken("operand 0: must be a tensor");
      break;
    case OpClass::kSelection:
      if (rule.is_scalar(0)) return rule.broken("operand 0: the condition must be a tensor");
      if (rule.dtype(0) != DType::kBool) return rule.broken("operand 0: the condition is {}", name(rule.dtype(0)));
      break;
    default:
      break;  // conversions take every dtype; the other classes are not element-wise
  }
  return {};
}

Result<void> check_generator(const Rule& rule) {
  if (rule.op.kind == OpKind::kFill) {
    if (!rule.is_scalar(0)) return rule.broken("operand 0: must be a scalar");
    return {};
  }
  return check_dims(rule, rule.out_sizes().size(), 1, 1);
}

Result<void> check_reduction(const Rule& rule) {
  CRUCIBLE_TRY_VOID(all_tensors(rule));
  const std::size_t rank = rule.sizes(0).size();
  CRUCIBLE_TRY_VOID(check_dims(rule, rank, 0, rank));
  Sizes kept = rule.sizes(0);
  std::int64_t reduced = 1;
  for (auto dim : rule.op.attributes.dims) {
    reduced *= kept[static_cast<std::size_t>(dim)] == 0 ? 0 : 1;
    kept[static_cast<std::size_t>(dim)] = 1;
  }
  CRUCIBLE_TRY_VOID(expect_sizes(rule, "the result", rule.out_sizes(), kept));
  if (rule.op.kind == OpKind::kReduceMax || rule.op.kind == OpKind::kReduceMin) {
    CRUCIBLE_TRY_VOID(same_dtypes(rule));
    const char* what = rule.op.kind == OpKind::kReduceMax ? "maximum" : "minimum";
    if (reduced == 0) return rule.broken("the {} of no elements is not defined", what);
  } else if (rule.out_dtype() == DType::kBool) {
    return rule.broken("a {} must not be bool", rule.op.kind == OpKind::kReduceSum ? "sum" : "product");
  }
  return {};
}

/// Index of the largest element, running sums, sorting: one operand, one dimension, the last result an i64 index
/// where the op has one.
Result<void> check_along(const Rule& rule, OpClass op_class) {
  CRUCIBLE_TRY_VOID(all_tensors(rule));
  CRUCIBLE_TRY_VOID(check_dims(rule, rule.sizes(0).size(), 1, 1));
  if (op_class == OpClass::kArgReduction) {
    Sizes kept = rule.sizes(0);
    auto& along = kept[static_cast<std::size_t>(rule.op.attributes.dims[0])];
    if (along == 0) return rule.broken("the place of an extremum among no elements is not defined");
    along = 1;
    if (rule.out_dtype() != DType::kI64) return rule.broken("the result: the index is i64");
    return expect_sizes(rule, "the result", rule.out_sizes(), kept);
  }
  CRUCIBLE_TRY_VOID(same_dtypes(rule));
  CRUCIBLE_TRY_VOID(expect_sizes(rule, "result 0", rule.out_sizes(), rule.sizes(0)));
  if (rule.op.outputs.size() == 2) {
    if (rule.out_dtype(1) != DType::kI64) return rule.broken("result 1: the index is i64");
    return expect_sizes(rule, "result 1", rule.out_sizes(1), rule.sizes(0));
  }
  if (rule.out_dtype() == DType::kBool) return rule.broken("a running sum or product must not be bool");
  return {};
}

Result<void> check_gather(const Rule& rule) {
  CRUCIBLE_TRY_VOID(expect_rank(rule, 0, 2));
  CRUCIBLE_TRY_VOID(expect_ids(rule, 1));
  if (rule.dtype(0) != rule.out_dtype()) {
    return rule.broken("the table is {}, the result is {}", name(rule.dtype(0)), name(rule.out_dtype()));
  }
  if (rule.sizes(0)[0] == 0 && rule.op.inputs[1].view.elements() > 0) return rule.broken("rows are taken from a table without rows");
  Sizes wanted = rule.sizes(1);
  wanted.push_back(rule.sizes(0)[1]);
  return expect_sizes(rule, "the result", rule.out_sizes(), wanted);
}

Result<void> check_scatter(const Rule& rule) {
  CRUCIBLE_TRY_VOID(expect_rank(rule, 0, 2));
  CRUCIBLE_TRY_VOID(expect_rank(rule, 1, 1));
  CRUCIBLE_TRY_VOID(expect_ids(rule, 1));
  if (rule.dtype(0) != rule.out_dtype() || rule.out_dtype() == DType::kBool) {
    return rule.broken("the rows are {}, the result is {}", name(rule.dtype(0)), name(rule.out_dtype()));
  }
  CRUCIBLE_TRY_VOID(expect_sizes(rule, "operand 1", rule.sizes(1), {rule.sizes(0)[0]}));
  if (rule.out_sizes().size() != 2) return rule.broken("the result needs 2 dimensions");
  if (rule.op.attributes.index < -1 || rule.op.attributes.index >= rule.out_sizes()[0]) {
    return rule.broken("attribute index {} is no row of {}", rule.op.attributes.index, rule.out_sizes()[0]);
  }
  return expect_sizes(rule, "the result", rule.out_sizes(), {rule.out_sizes()[0], rule.sizes(0)[1]});
}

/// One list of another dtype: its bytes.
Result<void> check_bitcast(const Rule& rule) {
  CRUCIBLE_TRY_VOID(expect_rank(rule, 0, 1));
  CRUCIBLE_TRY_VOID(check_dims(rule, 1, 1, 1));
  const std::int64_t from = size_bytes(rule.dtype(0)), to = size_bytes(rule.out_dtype()), count = rule.sizes(0)[0];
  if (rule.out_dtype() == DType::kBool) return rule.broken("the result must not be bool");  // a byte may be neither 0 nor 1
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(count, from, &bytes) || bytes % to != 0) {
    return rule.broken("{} elements of {} are no whole number of {}", count, name(rule.dtype(0)), name(rule.out_dtype()));
  }
  CRUCIBLE_TRY_VOID(expect_sizes(rule, "the result", rule.out_sizes(), {bytes / to}));
  const std::int64_t index = rule.op.attributes.index;
  if (index != -1 && index != kNamesNans) return rule.broken("attribute index is {}, needs {} where NaN is named, else -1", index, kNamesNans);
  if (index == kNamesNans && !is_floating(rule.dtype(0))) return rule.broken("attribute index names NaN, of which {} has none", name(rule.dtype(0)));
  if (!same_map(rule.op.outputs[0].view, View::contiguous({bytes / to}))) return rule.broken("the result must be written row-major");
  return {};
}

Result<void> check_concat(const Rule& rule) {
  if (is_bitcast(rule.program, rule.op)) return check_bitcast(rule);
  CRUCIBLE_TRY_VOID(same_dtypes(rule));
  if (rule.op.attributes.index != -1) return rule.broken("attribute index is of bitcasts alone");
  const std::size_t rank = rule.out_sizes().size();
  CRUCIBLE_TRY_VOID(check_dims(rule, rank, 1, 1));
  const auto dim = static_cast<std::size_t>(rule.op.attributes.dims[0]);
  std::int64_t total = 0;
  for (std::size_t i = 0; i < rule.op.inputs.size(); ++i) {
    Sizes wanted = rule.out_sizes();
    CRUCIBLE_TRY_VOID(expect_rank(rule, i, rank));
    wanted[dim] = rule.sizes(i)[dim];
    CRUCIBLE_TRY_VOID(expect_sizes(rule, fmt::format("operand {}", i), rule.sizes(i), wanted));
    if (__builtin_add_overflow(total, rule.sizes(i)[dim], &total)) return rule.broken("the pieces have more along dimension {} than fits in 63 bits", dim);
  }
  if (total != rule.out_sizes()[dim]) {
    return rule.broken("the pieces have {} along dimension {}, the result {}", total, dim, rule.out_sizes()[dim]);
  }
  return {};
}

Result<void> check_update(const Rule& rule) {
  CRUCIBLE_TRY_VOID(same_dtypes(rule));
  const std::int64_t elements = rule.program.values[rule.op.outputs[0].value].elements;
  const std::int64_t base_elements = rule.program.values[rule.op.inputs[0].value].elements;
  if (base_elements != elements || !same_map(rule.op.inputs[0].view, View::contiguous({elements}))) {
    return rule.broken("operand 0: the base must be read whole, as [{}]", elements);
  }
  if (!same_map(rule.op.outputs[0].view, View::contiguous({elements}))) {
    return rule.broken("the result must be written whole, as [{}]", elements);
  }
  const View& region = rule.op.attributes.region;
  auto last = last_index(region);
  if (!last || *last >= elements) return rule.broken("attribute region is outside the {} elements", elements);
  if (!is_injective(region)) return rule.broken("attribute region names an element twice");
  return expect_sizes(rule, "operand 1", rule.sizes(1), region.sizes);
}

Result<void> check_take(const Rule& rule) {
  CRUCIBLE_TRY_VOID(expect_rank(rule, 0, 1));
  CRUCIBLE_TRY_VOID(expect_ids(rule, 1));
  if (rule.dtype(0) != rule.out_dtype()) {
    return rule.broken("operand 0: is {}, the result is {}", name(rule.dtype(0)), name(rule.out_dtype()));
  }
  return expect_sizes(rule, "the result", rule.out_sizes(), rule.sizes(1));
}

Result<void> check_put(const Rule& rule) {
  CRUCIBLE_TRY_VOID(expect_rank(rule, 0, 1));
  CRUCIBLE_TRY_VOID(expect_ids(rule, 1));
  for (const std::size_t i : {std::size_t{0}, std::size_t{2}}) {
    if (rule.dtype(i) != rule.out_dtype()) {
      return rule.broken("operand {}: is {}, the result is {}", i, name(rule.dtype(i)), name(rule.out_dtype()));
    }
  }
  const bool arithmetic = rule.op.kind == OpKind::kPutAdd || rule.op.kind == OpKind::kPutMultiply;
  if (arithmetic && rule.out_dtype() == DType::kBool) return rule.broken("the result must not be bool");
  CRUCIBLE_TRY_VOID(expect_sizes(rule, "operand 2", rule.sizes(2), rule.sizes(1)));
  return expect_sizes(rule, "the result", rule.out_sizes(), rule.sizes(0));
}

Result<void> check_indexed(const Rule& rule) {
  CRUCIBLE_TRY_VOID(all_tensors(rule));
  if (rule.op.kind == OpKind::kGatherRows) return check_gather(rule);
  if (rule.op.kind == OpKind::kScatterAddRows) return check_scatter(rule);
  if (rule.op.kind == OpKind::kConcat) return check_concat(rule);
  if (rule.op.kind == OpKind::kTake) return check_take(rule);
  if (is_put(rule.op.kind)) return check_put(rule);
  return check_update(rule);
}

Result<void> check_matmul(const Rule& rule) {
  const std::size_t rank = rule.out_sizes().size();
  if (rank < 2) return rule.broken("the result needs 2 dimensions or more, has {}", rank);
  CRUCIBLE_TRY_VOID(expect_rank(rule, 0, rank));
  CRUCIBLE_TRY_VOID(expect_rank(rule, 1, rank));
  Sizes a = rule.out_sizes(), b = rule.out_sizes();
  a[rank - 1] = rule.sizes(0)[rank - 1];
  b[rank - 2] = rule.sizes(0)[rank - 1];
  CRUCIBLE_TRY_VOID(expect_sizes(rule, "operand 0", rule.sizes(0), a));
  return expect_sizes(rule, "operand 1", rule.sizes(1), b);
}

/// Sizes of x, weight and result must agree, whichever of them the op computes.
Result<void> check_convolution(const Rule& rule, const Sizes& x, const Sizes& weight, const Sizes& y) {
  const Attributes& a = rule.op.attributes;
  if (x.size() != 4 || weight.size() != 4 || y.size() != 4) {
    return rule.broken("x, weight and result need 4 dimensions, have {}, {} and {}", x.size(), weight.size(), y.size());
  }
  std::int64_t channels = 0;
  if (a.groups < 1 || __builtin_mul_overflow(weight[1], a.groups, &channels) || x[1] != channels || weight[0] % a.groups != 0) {
    return rule.broken("{} groups do not fit {} channels and weight [{}]", a.groups, x[1], fmt::join(weight, ", "));
  }
  if (x[2] >= kMostSide || x[3] >= kMostSide || weight[2] >= kMostSide || weight[3] >= kMostSide) {
    return rule.broken("an image or window side is {} or more", kMostSide);
  }
  Sizes wanted = {x[0], weight[0], 0, 0};
  for (std::size_t d = 0; d < 2; ++d) {
    const std::int64_t span = x[2 + d] + 2 * a.padding[d] - a.dilation[d] * (weight[2 + d] - 1) - 1;
    wanted[2 + d] = span < 0 ? 0 : span / a.stride[d] + 1;
  }
  return expect_sizes(rule, "the convolution's result", y, wanted);
}

Result<void> check_strides(const Rule& rule) {
  const Attributes& a = rule.op.attributes;
  for (int d = 0; d < 2; ++d) {
    const bool positive = a.stride[d] >= 1 && a.dilation[d] >= 1 && a.kernel[d] >= 1 && a.padding[d] >= 0;
    const bool sane = a.stride[d] < kMostSide && a.dilation[d] < kMostSide && a.kernel[d] < kMostSide && a.padding[d] < kMostSide;
    if (!positive || !sane) return rule.broken("a stride, dilation, padding or kernel is out of range");
  }
  return {};
}

/// f16 and bf16 may keep the f32 in which they are summed, for what comes before the one rounding (a bias).
Result<void> check_contraction_dtypes(const Rule& rule) {
  const bool is_narrow = rule.dtype(0) == DType::kF16 || rule.dtype(0) == DType::kBF16;
  if (!is_narrow || rule.dtype(1) != rule.dtype(0) || rule.out_dtype() != DType::kF32) return same_dtypes(rule);
  return {};
}

Result<void> check_contraction(const Rule& rule) {
  CRUCIBLE_TRY_VOID(all_tensors(rule));
  CRUCIBLE_TRY_VOID(check_contraction_dtypes(rule));
  if (!is_floating(rule.out_dtype())) return rule.broken("the result must be floating-point");
  if (!std::isfinite(rule.op.attributes.alpha)) return rule.broken("attribute alpha must be finite");
  CRUCIBLE_TRY_VOID(check_strides(rule));
  if (rule.op.kind == OpKind::kConv2d) {
    return check_convolution(rule, rule.sizes(0), rule.sizes(1), rule.out_sizes());
  }
  if (rule.op.kind == OpKind::kConv2dBackwardInput) {
    // Each phase of the strides is a product of its own.
    constexpr std::int64_t kMostPhases = 1 << 14;
    if (rule.op.attributes.stride[0] * rule.op.attributes.stride[1] > kMostPhases) {
      return rule.broken("strides {} and {} have more than {} phases", rule.op.attributes.stride[0], rule.op.attributes.stride[1], kMostPhases);
    }
    return check_convolution(rule, rule.out_sizes(), rule.sizes(1), rule.sizes(0));
  }
  if (rule.op.kind == OpKind::kConv2dBackwardWeight) {
    return check_convolution(rule, rule.sizes(1), rule.out_sizes(), rule.sizes(0));
  }
  return check_matmul(rule);
}

Result<void> check_max_pool(const Rule& rule) {
  const Attributes& a = rule.op.attributes;
  CRUCIBLE_TRY_VOID(check_strides(rule));
  CRUCIBLE_TRY_VOID(expect_rank(rule, 0, 4));
  if (rule.sizes(0)[2] >= kMostSide || rule.sizes(0)[3] >= kMostSide) return rule.broken("an image side is {} or more", kMostSide);
  CRUCIBLE_TRY_VOID(same_dtypes(rule));
  if (rule.out_dtype(1) != DType::kI64) return rule.broken("result 1: the index is i64");
  Sizes wanted = rule.out_sizes(0);
  if (wanted.size() != 4) return rule.broken("the result needs 4 dimensions");
  CRUCIBLE_TRY_VOID(expect_sizes(rule, "result 1", rule.out_sizes(1), wanted));
  wanted[0] = rule.sizes(0)[0];
  wanted[1] = rule.sizes(0)[1];
  CRUCIBLE_TRY_VOID(expect_sizes(rule, "result 0", rule.out_sizes(0), wanted));
  // No program that ran did as much in one op: a file asks for it.
  constexpr double kMostTaps = 0x1p40;
  const double taps = static_cast<double>(rule.op.outputs[0].view.elements()) * static_cast<double>(a.kernel[0]) * static_cast<double>(a.kernel[1]);
  if (taps > kMostTaps) return rule.broken("{:.3g} elements of windows are looked at, the limit is {:.3g}", taps, kMostTaps);
  for (std::size_t d = 0; d < 2; ++d) {
    const std::int64_t size = rule.sizes(0)[2 + d], reach = a.dilation[d] * (a.kernel[d] - 1);
    const std::int64_t span = size + 2 * a.padding[d] - reach - 1;
    const std::int64_t floor = span < 0 ? 0 : span / a.stride[d] + 1;
    const std::int64_t count = wanted[2 + d];
    if (count != floor && count != floor + 1) {
      return rule.broken("result 0: {} windows along dimension {}, needs {} or {}", count, 2 + d, floor, floor + 1);
    }
    if (2 * a.padding[d] > reach + 1) return rule.broken("padding {} is more than half a window", a.padding[d]);
    if (count > 0 && (count - 1) * a.stride[d] >= size + a.padding[d]) {
      return rule.broken("the last window along dimension {} has no element", 2 + d);
    }
    // A window that begins in the padding: its first tap behind that may lie behind the last element where taps are far apart.
    if (size >= a.dilation[d]) continue;
    const std::int64_t early = std::min(count, (a.padding[d] + a.stride[d] - 1) / a.stride[d]);
    constexpr std::int64_t kMostEarly = 1 << 16;
    if (early > kMostEarly) return rule.broken("{} windows along dimension {} begin in the padding", early, 2 + d);
    for (std::int64_t window = 0; window < early; ++window) {
      const std::int64_t missing = a.padding[d] - window * a.stride[d];
      const std::int64_t first = (a.dilation[d] - missing % a.dilation[d]) % a.dilation[d];
      if (first >= size) return rule.broken("window {} along dimension {} has no element", window, 2 + d);
    }
  }
  return {};
}

Result<void> check_pooling(const Rule& rule) {
  CRUCIBLE_TRY_VOID(all_tensors(rule));
  if (rule.dtype(0) == DType::kBool) return rule.broken("operand 0: must not be bool");
  if (rule.op.kind == OpKind::kMaxPool2d) return check_max_pool(rule);
  CRUCIBLE_TRY_VOID(expect_rank(rule, 0, 4));
  CRUCIBLE_TRY_VOID(expect_sizes(rule, "operand 1", rule.sizes(1), rule.sizes(0)));
  if (rule.dtype(1) != DType::kI64) return rule.broken("operand 1: the index is i64");
  if (rule.dtype(0) != rule.out_dtype()) return rule.broken("the result must be {}", name(rule.dtype(0)));
  if (rule.out_sizes().size() != 4) return rule.broken("the result needs 4 dimensions");
  Sizes wanted = rule.out_sizes();
  wanted[0] = rule.sizes(0)[0];
  wanted[1] = rule.sizes(0)[1];
  return expect_sizes(rule, "the result", rule.out_sizes(), wanted);
}

/// Lists in the last dimension.
Result<void> check_permutation(const Rule& rule) {
  if (rule.dtype(0) != DType::kI64 || rule.out_dtype() != DType::kI64) return rule.broken("pivots and permutations are i64");
  if (rule.sizes(0).empty()) return rule.broken("operand 0: has no dimension");
  Sizes wanted = rule.sizes(0);
  const std::int64_t steps = wanted.back(), rows = rule.out_sizes().empty() ? -1 : rule.out_sizes().back();
  if (rows < steps) return rule.broken("{} steps do not fit {} rows", steps, rows);
  wanted.back() = rows;
  return expect_sizes(rule, "the result", rule.out_sizes(), wanted);
}

/// Matrices in the last two dimensions; what stands before them is the same in operands and results.
Result<void> check_factorization(const Rule& rule) {
  CRUCIBLE_TRY_VOID(all_tensors(rule));
  if (rule.op.kind == OpKind::kPivotsToPermutation) return check_permutation(rule);
  CRUCIBLE_TRY_VOID(same_dtypes(rule));
  if (rule.out_dtype() != DType::kF32 && rule.out_dtype() != DType::kF64) {
    return rule.broken("matrices of {} have no factorization, only f32 and f64", name(rule.out_dtype()));
  }
  if (rule.sizes(0).size() < 2) return rule.broken("operand 0: has {} dimensions, needs 2 or more", rule.sizes(0).size());
  const Sizes batch(rule.sizes(0).begin(), rule.sizes(0).end() - 2);
  const std::int64_t rows = rule.sizes(0)[batch.size()], columns = rule.sizes(0)[batch.size() + 1];
  const auto of = [&](std::initializer_list<std::int64_t> sizes) {
    Sizes all = batch;
    all.insert(all.end(), sizes);
    return all;
  };
  const auto results = [&](std::initializer_list<Sizes> wanted) -> Result<void> {
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      CRUCIBLE_TRY_VOID(expect_sizes(rule, fmt::format("result {}", i), rule.out_sizes(i), wanted.begin()[i]));
      const DType dtype = rule.op.kind == OpKind::kLu && i == 1 ? DType::kI64 : rule.out_dtype();
      if (rule.out_dtype(i) != dtype) return rule.broken("result {}: is {}, needs {}", i, name(rule.out_dtype(i)), name(dtype));
    }
    return {};
  };
  const OpKind kind = rule.op.kind;
  const bool square = kind == OpKind::kCholesky || kind == OpKind::kTriangularSolve || kind == OpKind::kEigenSymmetric;
  if (square && rows != columns) return rule.broken("operand 0: a matrix of {} x {} is not square", rows, columns);
  const std::int64_t least = std::min(rows, columns);
  switch (kind) {
    case OpKind::kCholesky:
      return results({of({rows, rows})});
    case OpKind::kTriangularSolve: {
      if (rule.op.attributes.index < 0 || rule.op.attributes.index > 3) {
        return rule.broken("attribute index {} is not 0 to 3", rule.op.attributes.index);
      }
      CRUCIBLE_TRY_VOID(expect_rank(rule, 1, batch.size() + 2));
      const std::int64_t sides = rule.sizes(1).back();
      CRUCIBLE_TRY_VOID(expect_sizes(rule, "operand 1", rule.sizes(1), of({rows, sides})));
      return results({of({rows, sides})});
    }
    case OpKind::kLu:
    case OpKind::kHouseholderQr:
      return results({of({rows, columns}), of({least})});
    case OpKind::kHouseholderProduct: {
      CRUCIBLE_TRY_VOID(expect_sizes(rule, "operand 1", rule.sizes(1), of({columns})));
      const std::int64_t wanted = rule.out_sizes().empty() ? -1 : rule.out_sizes().back();
      if (columns > wanted || wanted > rows) {
        return rule.broken("{} reflectors of {} rows do not give {} columns", columns, rows, wanted);
      }
      return results({of({rows, wanted})});
    }
    case OpKind::kEigenSymmetric:
      return results({of({rows}), of({rows, rows})});
    default:
      if (rows < columns) return rule.broken("operand 0: {} x {} has more columns than rows", rows, columns);
      return results({of({rows, columns}), of({columns}), of({columns, columns})});
  }
}

/// Attributes that a kind does not use must be as they were made, so that equal ops are equal structures.
Result<void> check_unused_attributes(const Rule& rule) {
  const Attributes fresh;
  const Attributes& a = rule.op.attributes;
  const auto uses = info(rule.op.kind).attributes;
  const auto same2 = [](const std::int64_t(&x)[2], const std::int64_t(&y)[2]) { return std::equal(x, x + 2, y); };
  if (!(uses & kUsesDims) && !a.dims.empty()) return rule.broken("attribute dims is not used");
  if (!(uses & kUsesIndex) && a.index != fresh.index) return rule.broken("attribute index is not used");
  if (!(uses & kUsesAlpha) && a.alpha != fresh.alpha) return rule.broken("attribute alpha is not used");
  if (!(uses & kUsesRegion) && a.region != fresh.region) return rule.broken("attribute region is not used");
  if (!(uses & kUsesWindow) && !same2(a.kernel, fresh.kernel)) return rule.broken("attribute kernel is not used");
  if (!(uses & kUsesGroups) && a.groups != fresh.groups) return rule.broken("attribute groups is not used");
  if (!(uses & kUsesConvolution) &&
      !(same2(a.stride, fresh.stride) && same2(a.padding, fresh.padding) && same2(a.dilation, fresh.dilation))) {
    return rule.broken("attributes stride, padding and dilation are not used");
  }
  return {};
}

}  // namespace

std::string describe_op(const Program& program, OpId index) {
  const Op& op = program.ops[index];
  const std::string kind = op_name(program, op);
  if (op.source >= program.sources.size()) return fmt::format("op {} ({})", index, kind);
  const Source& source = program.sources[op.source];
  return fmt::format("op {} ({}, {} at {})", index, kind, source.op, source.site);
}

Result<void> verify_op(const Program& program, OpId index) {
  const Rule rule{program, index, program.ops[index]};
  CRUCIBLE_TRY_VOID(check_unused_attributes(rule));
  switch (const OpClass op_class = info(rule.op.kind).op_class) {
    case OpClass::kConversion:
    case OpClass::kArithmetic:
    case OpClass::kFloating:
    case OpClass::kInteger:
    case OpClass::kTest:
    case OpClass::kComparison:
    case OpClass::kLogic:
    case OpClass::kSelection:
      return check_elementwise(rule, op_class);
    case OpClass::kGenerator:
      return check_generator(rule);
    case OpClass::kReduction:
      return check_reduction(rule);
    case OpClass::kArgReduction:
    case OpClass::kScan:
    case OpClass::kSort:
      return check_along(rule, op_class);
    case OpClass::kIndexed:
      return check_indexed(rule);
    case OpClass::kContraction:
      return check_contraction(rule);
    case OpClass::kPooling:
      return check_pooling(rule);
    case OpClass::kFactorization:
      return check_factorization(rule);
    case OpClass::kOpaque:
      return verify_opaque(program, index);
    case OpClass::kComposite:
      return verify_composite(program, index);
  }
  return {};
}

}  // namespace crucible::graph
