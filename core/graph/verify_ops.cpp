// Rules of single ops: see verify_ops.hpp. What must hold is the table of op_rules.cpp; here an op is held against its
// line. Operands are known to exist and to lie inside their values.
#include "core/graph/verify_ops.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "core/graph/bitcast.hpp"
#include "core/graph/composite.hpp"
#include "core/graph/op_rules.hpp"
#include "core/graph/opaque.hpp"
#include "core/graph/rule_language.hpp"
#include "core/graph/view.hpp"

namespace crucible::graph {
namespace {

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
  const Sizes& out_sizes(std::size_t i = 0) const { return op.outputs[i].view.sizes; }
  DType out_dtype(std::size_t i = 0) const { return program.values[op.outputs[i].value].dtype; }
};

/// An operand or a result, put into words only where a rule is broken.
struct Place {
  const Op& op;
  bool is_result;
  std::size_t number;
  std::string text() const {
    if (is_result && op.outputs.size() == 1) return "the result";
    return fmt::format("{} {}", is_result ? "result" : "operand", number);
  }
};

Result<void> expect_sizes(const Rule& rule, const Place& place, const Sizes& sizes, const Sizes& wanted) {
  if (sizes == wanted) return {};
  return rule.broken("{} has sizes [{}], needs [{}]", place.text(), fmt::join(sizes, ", "), fmt::join(wanted, ", "));
}

Result<void> check_dims(const Rule& rule, bool is_one, std::size_t rank) {
  const auto& dims = rule.op.attributes.dims;
  const std::size_t least = is_one ? 1 : 0, most = is_one ? 1 : rank;
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

/// Holds the sizes of operands and results against a line's patterns; the first use of a name binds it.
class Shapes {
 public:
  Shapes(const Rule& rule, const ReadRule& line) : rule_(rule), line_(line), bindings_{rule.op.attributes} {}

  /// What the names stand for, once everything fits.
  Result<Bindings> match() {
    CRUCIBLE_TRY_VOID(match_all(line_.operands, rule_.op.inputs, false));
    CRUCIBLE_TRY_VOID(match_all(line_.results, rule_.op.outputs, true));
    if (line_.dims_of) CRUCIBLE_TRY_VOID(check_dims_once());
    return bindings_;
  }

 private:
  Result<void> match_all(const std::vector<ShapePattern>& patterns, const std::vector<Operand>& operands,
                         bool is_result) {
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const Place place{rule_.op, is_result, i};
      const ShapePattern& pattern = patterns[std::min(i, patterns.size() - 1)];
      if (operands[i].is_scalar()) {
        if (pattern.is_number) continue;
        if (pattern.is_tensor) return rule_.broken("{}: must be a tensor", place.text());
      } else if (!pattern.is_tensor && pattern.is_number) {
        return rule_.broken("{}: must be a scalar", place.text());
      }
      if (pattern.is_tensor) CRUCIBLE_TRY_VOID(match(pattern, operands[i].view.sizes, place));
    }
    return {};
  }

  Result<void> match(const ShapePattern& pattern, const Sizes& sizes, const Place& place) {
    if (pattern.is_kept) CRUCIBLE_TRY_VOID(check_dims_once());
    const std::size_t fixed = pattern.before.size() + pattern.after.size();
    const std::size_t length = pattern.run ? sizes.size() - fixed : 0;  // of the run
    bool fits = pattern.run ? sizes.size() >= fixed : sizes.size() == fixed;
    for (std::size_t d = 0; fits && d < sizes.size(); ++d) {
      if (pattern.run && d >= pattern.before.size() && d < pattern.before.size() + length) continue;
      fits = is_extent(
          d < pattern.before.size() ? pattern.before[d] : pattern.after[d - pattern.before.size() - length], sizes[d]);
    }
    if (fits && (!pattern.run || is_run(pattern, std::span(sizes).subspan(pattern.before.size(), length)))) return {};
    return rule_.broken("{} has sizes [{}], needs [{}]", place.text(), fmt::join(sizes, ", "), wanted(pattern));
  }

  bool is_extent(NameId name, std::int64_t size) {
    auto& bound = bindings_.extents[name];
    if (!bound) bound = size;
    return *bound == size;
  }

  bool is_run(const ShapePattern& pattern, std::span<const std::int64_t> sizes) {
    auto& bound = bindings_.runs[*pattern.run];
    if (!bound) bound = sizes;
    if (bound->size() != sizes.size()) return false;
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      if (sizes[d] != run_extent(pattern, d)) return false;
    }
    return true;
  }

  std::int64_t run_extent(const ShapePattern& pattern, std::size_t d) const {
    const auto& dims = rule_.op.attributes.dims;
    if (pattern.is_kept && std::find(dims.begin(), dims.end(), static_cast<std::int64_t>(d)) != dims.end()) return 1;
    return (*bindings_.runs[*pattern.run])[d];
  }

  /// The sizes that the pattern asks for; names that nothing has bound yet as such.
  std::string wanted(const ShapePattern& pattern) const {
    std::vector<std::string> list;
    const auto extent = [&](NameId name) {
      const auto& bound = bindings_.extents[name];
      list.push_back(bound ? std::to_string(*bound) : std::string(line_.names[name]));
    };
    for (const NameId name : pattern.before) extent(name);
    if (pattern.run && !bindings_.runs[*pattern.run]) list.push_back(fmt::format("{}...", line_.names[*pattern.run]));
    if (pattern.run && bindings_.runs[*pattern.run]) {
      for (std::size_t d = 0; d < bindings_.runs[*pattern.run]->size(); ++d)
        list.push_back(std::to_string(run_extent(pattern, d)));
    }
    for (const NameId name : pattern.after) extent(name);
    return fmt::format("{}", fmt::join(list, ", "));
  }

  Result<void> check_dims_once() {
    if (has_checked_dims_) return {};
    has_checked_dims_ = true;
    return check_dims(rule_, line_.is_one_dim, bindings_.runs[*line_.dims_of]->size());
  }

  const Rule& rule_;
  const ReadRule& line_;
  Bindings bindings_;
  bool has_checked_dims_ = false;
};

/// Holds the dtypes of operands and results against a line's patterns.
Result<void> check_dtypes(const Rule& rule, const ReadRule& line) {
  std::optional<DType> same;
  const auto check = [&](const std::vector<DTypePattern>& patterns, const std::vector<Operand>& operands,
                         bool is_result) -> Result<void> {
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (operands[i].is_scalar()) continue;
      const DTypePattern& pattern = patterns[std::min(i, patterns.size() - 1)];
      const DType dtype = rule.program.values[operands[i].value].dtype;
      const Place place{rule.op, is_result, i};
      if (!pattern.classes.empty() && !is_of(dtype, pattern.classes)) {
        return rule.broken("{} is {}, needs {}", place.text(), name(dtype), names_of_dtypes(pattern.classes));
      }
      if (!pattern.is_same) continue;
      if (!same) same = dtype;
      // f16 and bf16 may keep the f32 in which they are summed, for what comes before the one rounding (a bias).
      const bool is_wider =
          pattern.may_be_wider && dtype == DType::kF32 && (*same == DType::kF16 || *same == DType::kBF16);
      if (dtype != *same && !is_wider) return rule.broken("{} is {}, needs {}", place.text(), name(dtype), name(*same));
    }
    return {};
  };
  CRUCIBLE_TRY_VOID(check(line.operand_dtypes, rule.op.inputs, false));
  return check(line.result_dtypes, rule.op.outputs, true);
}

Result<void> check_conditions(const Rule& rule, const ReadRule& line, const Bindings& bindings) {
  for (const Condition& condition : line.conditions) {
    const std::optional<bool> held = holds(condition, bindings);
    if (held && *held) continue;
    const std::string words = condition.words.empty() ? std::string() : fmt::format("{}: ", condition.words);
    return rule.broken("{}{} must hold, where {}", words, condition.text, numbers_of(condition, bindings));
  }
  return {};
}

/// One list of another dtype: its bytes.
Result<void> check_bitcast(const Rule& rule) {
  if (rule.sizes(0).size() != 1) return rule.broken("operand 0 has {} dimensions, needs 1", rule.sizes(0).size());
  const std::int64_t from = size_bytes(rule.dtype(0)), to = size_bytes(rule.out_dtype()), count = rule.sizes(0)[0];
  if (rule.out_dtype() == DType::kBool)
    return rule.broken("the result must not be bool");  // a byte may be neither 0 nor 1
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(count, from, &bytes) || bytes % to != 0) {
    return rule.broken("{} elements of {} are no whole number of {}", count, name(rule.dtype(0)),
                       name(rule.out_dtype()));
  }
  CRUCIBLE_TRY_VOID(expect_sizes(rule, Place{rule.op, true, 0}, rule.out_sizes(), {bytes / to}));
  const std::int64_t index = rule.op.attributes.index;
  if (index != -1 && index != kNamesNans)
    return rule.broken("attribute index is {}, needs {} where NaN is named, else -1", index, kNamesNans);
  if (index == kNamesNans && !is_floating(rule.dtype(0)))
    return rule.broken("attribute index names NaN, of which {} has none", name(rule.dtype(0)));
  if (!same_map(rule.op.outputs[0].view, View::contiguous({bytes / to})))
    return rule.broken("the result must be written row-major");
  return {};
}

/// Of concat.
Result<void> check_pieces(const Rule& rule) {
  for (std::size_t i = 0; i < rule.op.inputs.size(); ++i) {
    if (rule.op.inputs[i].is_scalar()) return rule.broken("operand {}: must be a tensor", i);
  }
  if (is_bitcast(rule.program, rule.op)) return check_bitcast(rule);
  if (rule.op.attributes.index != -1) return rule.broken("attribute index is of bitcasts alone");
  const auto dim = static_cast<std::size_t>(rule.op.attributes.dims[0]);
  std::int64_t total = 0;
  for (std::size_t i = 0; i < rule.op.inputs.size(); ++i) {
    if (rule.dtype(i) != rule.out_dtype())
      return rule.broken("operand {} is {}, needs {}", i, name(rule.dtype(i)), name(rule.out_dtype()));
    Sizes wanted = rule.out_sizes();
    if (dim < rule.sizes(i).size()) wanted[dim] = rule.sizes(i)[dim];
    CRUCIBLE_TRY_VOID(expect_sizes(rule, Place{rule.op, false, i}, rule.sizes(i), wanted));
    if (__builtin_add_overflow(total, rule.sizes(i)[dim], &total))
      return rule.broken("the pieces have more along dimension {} than fits in 63 bits", dim);
  }
  if (total != rule.out_sizes()[dim]) {
    return rule.broken("the pieces have {} along dimension {}, the result {}", total, dim, rule.out_sizes()[dim]);
  }
  return {};
}

/// Of update.
Result<void> check_region(const Rule& rule) {
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
  return expect_sizes(rule, Place{rule.op, false, 1}, rule.sizes(1), region.sizes);
}

/// A window that begins in the padding: its first tap behind that may lie behind the last element where taps are far
/// apart.
Result<void> check_windows(const Rule& rule) {
  const Attributes& a = rule.op.attributes;
  for (std::size_t d = 0; d < 2; ++d) {
    const std::int64_t size = rule.sizes(0)[2 + d], count = rule.out_sizes()[2 + d];
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

Result<void> check_also(const Rule& rule, OpCheck check) {
  switch (check) {
    case OpCheck::kNone:
      return {};
    case OpCheck::kPieces:
      return check_pieces(rule);
    case OpCheck::kRegion:
      return check_region(rule);
    case OpCheck::kFiniteAlpha:
      if (!std::isfinite(rule.op.attributes.alpha)) return rule.broken("attribute alpha must be finite");
      return {};
    case OpCheck::kWindowsHaveElements:
      return check_windows(rule);
  }
  return {};
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
  if (!(uses & kUsesPieces) && a.pieces != 0) return rule.broken("attribute pieces is not used");
  if (!(uses & kUsesConvolution) &&
      !(same2(a.stride, fresh.stride) && same2(a.padding, fresh.padding) && same2(a.dilation, fresh.dilation))) {
    return rule.broken("attributes stride, padding and dilation are not used");
  }
  return {};
}

/// A product in pieces gives sums as they are, and its pieces are added up in the type that they have.
Result<void> check_pieces_of_sum(const Rule& rule) {
  const Attributes& a = rule.op.attributes;
  if (a.pieces == 0) return {};
  if (a.pieces < 0) return rule.broken("attribute pieces must not be negative");
  const Operand& result = rule.op.outputs[0];
  const DType type = rule.program.values[result.value].dtype;
  if (type != DType::kF32 && type != DType::kF64) return rule.broken("pieces are of f32 or f64");
  if (result.view.elements() < 2) return rule.broken("pieces are of more than one element");
  if (rule.op.kind != OpKind::kReduceSum) {
    if (a.alpha != 1) return rule.broken("pieces are not scaled");
    for (const Operand& input : rule.op.inputs) {
      if (input.view.elements() == 0) return rule.broken("pieces are of products with steps");
    }
    return {};
  }
  const Operand& terms = rule.op.inputs[0];
  if (a.dims != std::vector<std::int64_t>{0} || terms.view.sizes[0] != a.pieces ||
      rule.program.values[terms.value].dtype != type)
    return rule.broken("pieces are the terms along dimension 0, in the type of their sum");
  return {};
}

/// The table, read once.
const std::vector<ReadRule>& lines() {
  static const std::vector<ReadRule> list = [] {
    std::vector<ReadRule> read;
    for (const OpRule& rule : op_rules()) read.push_back(read_rule(rule));
    return read;
  }();
  return list;
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
  if (rule.op.kind == OpKind::kOpaque) return verify_opaque(program, index);
  if (rule.op.kind == OpKind::kComposite) return verify_composite(program, index);
  const ReadRule& line = lines()[rule_of(rule.op.kind)];
  CRUCIBLE_TRY_VOID(check_dtypes(rule, line));
  CRUCIBLE_TRY(const Bindings bindings, Shapes(rule, line).match());
  CRUCIBLE_TRY_VOID(check_conditions(rule, line, bindings));
  if (info(rule.op.kind).attributes & kUsesPieces) CRUCIBLE_TRY_VOID(check_pieces_of_sum(rule));
  return check_also(rule, line.also);
}

}  // namespace crucible::graph
