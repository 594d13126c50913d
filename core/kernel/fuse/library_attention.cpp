// Which ops are an attention that a library may do: see library_attention.hpp.
#include "core/kernel/fuse/library_attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "core/graph/view.hpp"

namespace crucible::kernel {
namespace {

using graph::kNone;
using graph::Op;
using graph::Operand;
using graph::OpId;
using graph::OpKind;
using graph::Program;
using graph::ValueId;
using graph::View;
using Sizes = std::vector<std::int64_t>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool is_narrow(DType type) { return type == DType::kF16 || type == DType::kBF16; }

View swapped(View view) {
  const std::size_t rank = view.sizes.size();
  std::swap(view.sizes[rank - 1], view.sizes[rank - 2]);
  std::swap(view.strides[rank - 1], view.strides[rank - 2]);
  return view;
}

/// One walk from the product of probabilities and values back to queries and keys.
class Walk {
 public:
  Walk(const Program& program, const graph::IdLists& readers, const std::vector<bool>& kept)
      : program_(program), readers_(readers), kept_(kept) {}

  FoundAttention run(OpId product) {
    if (!find_softmax(product)) return {why_};
    found_.last = product;
    if (!divisor_ && !divide_later()) return {why_};
    if (!is_total(*divisor_)) return {why_};
    if (!find_scores()) return {why_};
    why_ = describe(product);
    if (why_ != NotCalled::kDeclined) return {why_};
    return {why_, std::move(found_)};
  }

 private:
  bool fail(NotCalled why) {
    why_ = why;
    return false;
  }
  OpId producer_of(const Operand& x) const { return x.is_scalar() ? kNone : program_.values[x.value].producer; }
  /// The op that makes all of an operand, in the order in which the operand has it; kNone for others.
  OpId whole(const Operand& x) const {
    const OpId id = producer_of(x);
    if (id == kNone || program_.ops[id].outputs.size() != 1) return kNone;
    const auto same = graph::reshaped(program_.ops[id].outputs[0].view, x.view.sizes);
    return same && graph::same_map(*same, x.view) ? id : kNone;
  }
  OpId whole(const Operand& x, OpKind kind) const {
    const OpId id = whole(x);
    return id != kNone && program_.ops[id].kind == kind ? id : kNone;
  }
  const Op& take(OpId id) {
    own_.insert(id);
    return program_.ops[id];
  }
  /// Behind copies from one floating dtype to another.
  Operand unrounded(Operand x) {
    for (OpId id = whole(x, OpKind::kCopy); id != kNone; id = whole(x, OpKind::kCopy)) {
      const Operand& from = program_.ops[id].inputs[0];
      const DType made = program_.values[x.value].dtype;
      if (from.is_scalar() || !is_floating(made) || !is_floating(program_.values[from.value].dtype)) break;
      if (is_narrow(made)) rounded_to_ = made;
      x = take(id).inputs[0];
    }
    return x;
  }
  /// What is broadcast along the last dimension, with a size of 1 there.
  static std::optional<Operand> per_row(Operand x) {
    if (x.is_scalar() || x.view.sizes.empty() || (x.view.strides.back() != 0 && x.view.sizes.back() != 1))
      return std::nullopt;
    x.view.sizes.back() = 1;
    return x;
  }

  bool find_softmax(OpId product) {
    const Op& outer = program_.ops[product];
    if (outer.kind != OpKind::kMatMul || outer.attributes.alpha != 1) return false;
    take(product);
    Operand x = unrounded(outer.inputs[0]);
    if (const OpId id = whole(x, OpKind::kDivide); id != kNone && !program_.ops[id].inputs[1].is_scalar()) {
      divisor_ = take(id).inputs[1];
      x = unrounded(program_.ops[id].inputs[0]);
    }
    const OpId exp = whole(x, OpKind::kExp);
    if (exp == kNone) return fail(changes_powers(x) ? NotCalled::kChanged : NotCalled::kNoAttention);
    powers_ = take(exp).outputs[0];
    const OpId difference = whole(unrounded(program_.ops[exp].inputs[0]), OpKind::kSubtract);
    if (difference == kNone) return false;
    seen_ = take(difference).inputs[0];
    return is_top(program_.ops[difference].inputs[1]);
  }

  /// An op of two operands, one of which is a softmax.
  bool changes_powers(const Operand& x) {
    const OpId id = whole(x);
    if (id == kNone || !graph::is_elementwise(program_.ops[id].kind)) return false;
    return std::ranges::any_of(program_.ops[id].inputs, [&](const Operand& input) {
      const Operand from = input.is_scalar() ? input : unrounded(input);
      const OpId divided = whole(from, OpKind::kDivide);
      return whole(from, OpKind::kExp) != kNone ||
             (divided != kNone && whole(unrounded(program_.ops[divided].inputs[0]), OpKind::kExp) != kNone);
    });
  }

  /// Rows that see nothing have `instead` for `marked`: without any such row it is the same.
  Operand unguarded(Operand x, double marked, double instead) {
    const OpId id = whole(x, OpKind::kSelect);
    if (id == kNone) return x;
    const Op& select = program_.ops[id];
    const OpId asked = whole(select.inputs[0], OpKind::kEqual);
    if (asked == kNone || !graph::is_number(select.inputs[1], instead) ||
        !graph::is_number(program_.ops[asked].inputs[1], marked))
      return x;
    if (program_.ops[asked].inputs[0].value != select.inputs[2].value) return x;
    if (!graph::same_map(program_.ops[asked].inputs[0].view, select.inputs[2].view)) return x;
    take(asked);
    return take(id).inputs[2];
  }

  /// A reduction over the last dimension of exactly `of`.
  bool reduces(const Operand& x, OpKind kind, const Operand& of) {
    const OpId id = whole(x, kind);
    if (id == kNone) return false;
    const Operand& input = program_.ops[id].inputs[0];
    const auto last = static_cast<std::int64_t>(input.view.sizes.size()) - 1;
    if (input.value != of.value || !graph::same_map(input.view, of.view) ||
        program_.ops[id].attributes.dims != Sizes{last})
      return false;
    take(id);
    return true;
  }

  bool is_top(const Operand& x) {
    const auto row = per_row(x);
    return row && reduces(unrounded(unguarded(unrounded(*row), -kInfinity, 0)), OpKind::kReduceMax, seen_);
  }
  bool is_total(const Operand& x) {
    const auto row = per_row(x);
    return row && reduces(unrounded(unguarded(unrounded(*row), 0, 1)), OpKind::kReduceSum, powers_);
  }

  OpId only_reader(OpId id) const {
    const ValueId made = program_.ops[id].outputs[0].value;
    return readers_[made].size() == 1 && !kept_[made] ? readers_[made][0] : kNone;
  }

  /// The sum divides the product.
  bool divide_later() {
    const OpId reader = only_reader(found_.last);
    if (reader == kNone || program_.ops[reader].kind != OpKind::kDivide ||
        whole(program_.ops[reader].inputs[0]) != found_.last)
      return false;
    divisor_ = take(reader).inputs[1];
    found_.last = reader;
    return true;
  }

  /// From masked scores to the product of queries and keys.
  bool find_scores() {
    Operand x = seen_;
    for (;;) {
      x = unrounded(x);
      const OpId id = whole(x);
      if (id == kNone) return fail(NotCalled::kNoAttention);
      const Op& op = program_.ops[id];
      if (op.kind == OpKind::kMatMul) {
        inner_ = id;
        scale_ *= take(id).attributes.alpha;
        return true;
      }
      if (op.kind == OpKind::kAdd) return fail(NotCalled::kMask);
      const bool is_scaled = op.kind == OpKind::kMultiply || op.kind == OpKind::kDivide;
      if (op.kind == OpKind::kSelect) {
        if (!is_causal(op)) return fail(NotCalled::kMask);
        found_.call.is_causal = true;
        x = graph::fixed_number(op.inputs[2]) ? op.inputs[1] : op.inputs[2];
      } else if (const auto factor = is_scaled ? graph::fixed_number(op.inputs[1]) : std::nullopt) {
        scale_ *= op.kind == OpKind::kMultiply ? *factor : 1 / *factor;
        x = op.inputs[0];
      } else {
        return fail(NotCalled::kNoAttention);
      }
      take(id);
    }
  }

  /// Keeps scores where the key's number is at most the query's, and has -infinity elsewhere.
  bool is_causal(const Op& select) {
    const Sizes &sizes = select.outputs[0].view.sizes, &wanted = seen_.view.sizes;
    if (sizes.size() < 2 || wanted.size() < 2 || !std::equal(sizes.end() - 2, sizes.end(), wanted.end() - 2))
      return false;  // rows of several heads as one
    const bool keeps_true = graph::is_number(select.inputs[2], -kInfinity);
    if (!keeps_true && !graph::is_number(select.inputs[1], -kInfinity)) return false;
    const auto told = compare(select.inputs[0]);
    return told && *told == keeps_true;
  }

  /// True for key <= query, false for key > query, of the last two dimensions; nothing for other conditions.
  std::optional<bool> compare(const Operand& condition) {
    const OpId id = producer_of(condition);
    if (id == kNone) return std::nullopt;
    const Op& op = program_.ops[id];
    const auto plain = graph::broadcast(op.outputs[0].view, condition.view.sizes);
    if (!plain || !graph::same_map(*plain, condition.view)) return std::nullopt;
    seen_through_.push_back(id);
    if (op.kind == OpKind::kLogicalNot) {
      const auto told = compare(op.inputs[0]);
      return told ? std::optional(!*told) : std::nullopt;
    }
    if (op.inputs.size() != 2) return std::nullopt;
    const int first = axis(op.inputs[0]), second = axis(op.inputs[1]);
    if (std::min(first, second) != 1 || std::max(first, second) != 2) return std::nullopt;
    const bool key_first = first == 1;
    if (op.kind == (key_first ? OpKind::kLessEqual : OpKind::kGreaterEqual)) return true;
    if (op.kind == (key_first ? OpKind::kGreater : OpKind::kLess)) return false;
    return std::nullopt;
  }

  /// Of an operand that is the index along one of its dimensions: which one, counted from the last, beginning with 1;
  /// else 0.
  int axis(const Operand& x) {
    const OpId id = producer_of(x);
    if (id == kNone || program_.ops[id].kind != OpKind::kCoordinate || x.view.offset != 0) return 0;
    const View& made = program_.ops[id].outputs[0].view;
    const auto along = static_cast<std::size_t>(program_.ops[id].attributes.dims[0]);
    int found = 0;
    for (std::size_t d = 0; d < x.view.sizes.size(); ++d) {
      if (x.view.sizes[d] == 1 || x.view.strides[d] == 0) continue;
      std::size_t same = 0;  // the dimension that this one walks
      while (same < made.sizes.size() &&
             (made.sizes[same] != x.view.sizes[d] || made.strides[same] != x.view.strides[d]))
        ++same;
      if (same == made.sizes.size()) return 0;
      if (same != along) continue;
      if (found != 0) return 0;
      found = static_cast<int>(x.view.sizes.size() - d);
    }
    seen_through_.push_back(id);
    return found;
  }

  /// Behind a copy from a narrow dtype to a wide one: the views and dtype of what lies in memory.
  Operand source(const Operand& x) {
    const OpId id = producer_of(x);
    if (id == kNone || program_.ops[id].kind != OpKind::kCopy) return x;
    const Operand& from = program_.ops[id].inputs[0];
    if (from.is_scalar() || !is_narrow(program_.values[from.value].dtype) ||
        program_.values[x.value].dtype != DType::kF32)
      return x;
    auto view = graph::relaid(x.view, program_.ops[id].outputs[0].view, from.view);
    if (!view) return x;
    seen_through_.push_back(id);
    return {from.value, *std::move(view), {}};
  }

  /// Fills in the call; kDeclined when it is whole.
  NotCalled describe(OpId product) {
    const Op& inner = program_.ops[inner_];
    const View& scores = inner.outputs[0].view;
    const View& left = program_.ops[product].inputs[0].view;
    const bool keeps_matrices = scores.sizes.back() == left.sizes.back() &&
                                scores.sizes[scores.sizes.size() - 2] == left.sizes[left.sizes.size() - 2] &&
                                seen_.view.sizes.size() >= 2 &&
                                seen_.view.sizes[seen_.view.sizes.size() - 2] == left.sizes[left.sizes.size() - 2] &&
                                seen_.view.sizes.back() == left.sizes.back() && scores.elements() > 0;
    if (!keeps_matrices || !(scale_ > 0) || !std::isfinite(scale_)) return NotCalled::kNoAttention;
    Operand key = inner.inputs[1];
    key.view = swapped(key.view);
    const Operand operands[3] = {source(inner.inputs[0]), source(key), source(program_.ops[product].inputs[1])};
    const DType dtype = program_.values[operands[0].value].dtype;
    round_result(dtype);
    const Operand& result = program_.ops[found_.last].outputs[0];
    for (const Operand& operand : {operands[1], operands[2], result}) {
      if (program_.values[operand.value].dtype != dtype) return NotCalled::kTypes;
    }
    if (rounded_to_ && *rounded_to_ != dtype) return NotCalled::kTypes;
    if (!is_own()) return NotCalled::kWanted;
    LibraryCall& call = found_.call;
    call.kind = LibraryKind::kAttention;
    call.dtype = dtype;
    call.attributes.alpha = scale_;
    if (!lay_out({operands[0].view, operands[1].view, operands[2].view, result.view}, scores))
      return NotCalled::kLayout;
    for (int i = 0; i < 3; ++i) found_.operands[i] = operands[i].value;
    return NotCalled::kDeclined;
  }

  /// The product is rounded to the operands' dtype after its division.
  void round_result(DType dtype) {
    const OpId reader =
        program_.values[program_.ops[found_.last].outputs[0].value].dtype == dtype ? kNone : only_reader(found_.last);
    if (reader == kNone || program_.ops[reader].kind != OpKind::kCopy ||
        whole(program_.ops[reader].inputs[0]) != found_.last)
      return;
    if (program_.values[program_.ops[reader].outputs[0].value].dtype != dtype) return;
    take(reader);
    found_.last = reader;
  }

  /// Nobody else reads what lies between; what is seen through is done by the call where nobody else needs it.
  bool is_own() {
    const auto is_inside = [&](OpId id) {
      const ValueId made = program_.ops[id].outputs[0].value;
      return !kept_[made] && std::ranges::all_of(readers_[made], [&](OpId reader) { return own_.contains(reader); });
    };
    for (const OpId id : own_) {
      if (id != found_.last && !is_inside(id)) return false;
    }
    std::ranges::sort(seen_through_, std::greater<>());
    for (const OpId id : seen_through_) {
      if (is_inside(id)) own_.insert(id);
    }
    found_.ops.assign(own_.begin(), own_.end());
    return true;
  }

  /// All four as [batch, heads, rows, width]: with the dimensions of the scores before the last two, or with those that
  /// one of them has.
  bool lay_out(const std::vector<View>& views, const View& scores) {
    std::vector<View> patterns = views;
    patterns.insert(patterns.begin(), scores);
    return std::ranges::any_of(patterns, [&](const View& pattern) { return lay_out_as(views, pattern); });
  }
  bool lay_out_as(const std::vector<View>& views, const View& pattern) {
    const std::size_t rank = pattern.sizes.size();
    if (rank < 2 || rank > 4) return false;
    for (std::size_t i = 0; i < 4; ++i) {
      const std::size_t own = views[i].sizes.size();
      Sizes sizes(4 - rank, 1);
      sizes.insert(sizes.end(), pattern.sizes.begin(), pattern.sizes.end() - 2);
      sizes.insert(sizes.end(), {views[i].sizes[own - 2], views[i].sizes[own - 1]});
      auto view = graph::reshaped(views[i], sizes);
      if (!view) return false;
      (i < 3 ? found_.call.views[i] : found_.call.extra) = graph::normalized(*std::move(view));
    }
    return true;
  }

  const Program& program_;
  const graph::IdLists& readers_;
  const std::vector<bool>& kept_;
  LibraryAttention found_;
  NotCalled why_ = NotCalled::kNoAttention;
  std::set<OpId> own_;                // what the call does
  std::vector<OpId> seen_through_;    // whose operands it reads instead: casts, and what makes the mask
  Operand seen_, powers_;             // masked scores, and their exponentials
  std::optional<Operand> divisor_;
  std::optional<DType> rounded_to_;   // on the way
  OpId inner_ = kNone;                // the product of queries and keys
  double scale_ = 1;
};

/// What each attention does leaves its units for one of its own, right before that of the last of its ops. It is an
/// order: whatever made q, k and v stands before a product, a unit of its own, and whatever reads the result after it.
void take_out(const Program& program, std::vector<Unit>& units, const std::vector<LibraryAttention>& attentions) {
  const std::vector<std::uint32_t> unit_of = units_of_ops(program, units);
  std::vector<bool> is_taken(program.ops.size(), false);
  std::vector<std::vector<std::uint32_t>> before(units.size());  // per unit: attentions
  for (std::uint32_t index = 0; index < attentions.size(); ++index) {
    before[unit_of[attentions[index].last]].push_back(index);
    for (const OpId op : attentions[index].ops) is_taken[op] = true;
  }
  std::vector<Unit> all;
  for (std::size_t u = 0; u < units.size(); ++u) {
    for (const std::uint32_t index : before[u]) {
      Unit made;
      made.ops = attentions[index].ops;
      made.library_attention = index;
      all.push_back(std::move(made));
    }
    std::erase_if(units[u].ops, [&](OpId op) { return is_taken[op]; });
    std::erase_if(units[u].group.members, [&](const Member& member) { return is_taken[member.op]; });
    if (!units[u].ops.empty()) all.push_back(std::move(units[u]));
  }
  units = std::move(all);
}

}  // namespace

std::string_view words(NotCalled why) {
  switch (why) {
    case NotCalled::kNoAttention:
      return "";
    case NotCalled::kMask:
      return "its mask is not shown to be the causal one";
    case NotCalled::kChanged:
      return "its probabilities are changed before they meet the values, as a dropout does";
    case NotCalled::kWanted:
      return "its scores, or what is made of them, are wanted elsewhere, too";
    case NotCalled::kTypes:
      return "queries, keys, values and the result are not of one dtype";
    case NotCalled::kLayout:
      return "its operands do not lie as [batch, heads, rows, width], or heads share keys";
    case NotCalled::kDeclined:
      return "the device's library does not take it, or was not asked";
  }
  return "";
}

AttentionForms::AttentionForms(const Program& program)
    : program_(program), readers_(graph::readers(program)), kept_(graph::wanted_at_end(program)) {}

FoundAttention AttentionForms::at(OpId product) const { return Walk(program_, readers_, kept_).run(product); }

std::vector<LibraryAttention> claim_attentions(const Program& program, std::vector<Unit>& units,
                                               const std::function<bool(const LibraryCall&)>& claims) {
  std::vector<LibraryAttention> claimed;
  std::vector<bool> is_taken(program.ops.size(), false);
  const AttentionForms forms(program);
  for (OpId op = 0; op < program.ops.size(); ++op) {
    if (program.ops[op].kind != OpKind::kMatMul) continue;
    FoundAttention found = forms.at(op);
    if (!found.attention || std::ranges::any_of(found.attention->ops, [&](OpId own) { return is_taken[own]; }))
      continue;
    if (!claims(found.attention->call)) continue;
    for (const OpId own : found.attention->ops) is_taken[own] = true;
    claimed.push_back(*std::move(found.attention));
  }
  if (!claimed.empty()) take_out(program, units, claimed);
  return claimed;
}

}  // namespace crucible::kernel
