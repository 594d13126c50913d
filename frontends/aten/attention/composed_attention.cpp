// Composed attention: see composed_attention.hpp. A softmax is found by its quotient; from there products, scales,
// masks and the gradient's ops are followed through copies of other layouts. New ops are written behind the program and
// then moved to where the old results stood.
#include "frontends/aten/attention/composed_attention.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/graph/queries.hpp"
#include "core/graph/view.hpp"
#include "frontends/aten/attention/attention.hpp"

namespace crucible::aten {
namespace {

using graph::kNone;
using graph::Op;
using graph::Operand;
using graph::OpId;
using graph::OpKind;
using graph::Program;
using graph::ValueId;
using graph::View;

/// The parts of one attention, as its softmax shows them. Ops that are not there are kNone.
struct Found {
  Operand query, key, value, gradient;  // [b, h, rows, width]
  std::optional<Operand> mask;          // [b, h, queries, keys]
  bool is_causal = false;
  double scale = 1;
  Sizes sizes;                                                                // b, h, queries, keys
  OpId output = kNone;                                                        // the product with the values
  OpId value_gradient = kNone, query_gradient = kNone, key_gradient = kNone;  // the last two behind their scale
};

class Finder {
 public:
  explicit Finder(const Program& program)
      : program_(program),
        readers_(program.values.size()),
        ends_(program.values.size(), false),
        watched_(program.values.size(), false) {
    for (OpId id = 0; id < program.ops.size(); ++id) {
      for (const Operand& input : program.ops[id].inputs) {
        if (!input.is_scalar() && (readers_[input.value].empty() || readers_[input.value].back() != id))
          readers_[input.value].push_back(id);
      }
    }
    for (const graph::State& state : program.states) ends_[state.end] = watched_[state.end] = true;
    for (const graph::Output& output : program.outputs) watched_[output.operand.value] = true;
  }

  /// The attention whose softmax divides by `quotient`.
  std::optional<Found> find(OpId quotient) const {
    Found found;
    const auto softmax = softmax_of(quotient);
    if (!softmax || !find_scores(softmax->scores, found) || !find_readers(softmax->probabilities, found))
      return std::nullopt;
    return found;
  }

 private:
  struct Softmax {
    Operand scores;
    ValueId probabilities = kNone;
  };

  const Op* producer(ValueId value, OpKind kind) const {
    const OpId id = value == kNone ? kNone : program_.values[value].producer;
    return id != kNone && program_.ops[id].kind == kind ? &program_.ops[id] : nullptr;
  }
  const Op* producer(const Operand& operand, OpKind kind) const { return producer(operand.value, kind); }

  /// All of a row-major value.
  bool is_whole(const Operand& operand) const {
    return !operand.is_scalar() && operand.view.offset == 0 && operand.view.is_contiguous() &&
           operand.view.elements() == program_.values[operand.value].elements;
  }

  /// exp(x - max x) / sum of it along the last of four dimensions, and 0 where all x are -infinity if the framework
  /// asks so.
  std::optional<Softmax> softmax_of(OpId quotient) const {
    const Op& divide = program_.ops[quotient];
    const auto dtype = program_.values[divide.outputs[0].value].dtype;
    if (divide.inputs[0].is_scalar() || divide.inputs[1].is_scalar() || divide.outputs[0].view.sizes.size() != 4 ||
        (dtype != DType::kF32 && dtype != DType::kF64)) {
      return std::nullopt;
    }
    const Op* exp = producer(divide.inputs[0], OpKind::kExp);
    const Op* total = producer(divide.inputs[1], OpKind::kReduceSum);
    if (exp == nullptr || total == nullptr || total->inputs[0].value != exp->outputs[0].value ||
        total->attributes.dims != std::vector<std::int64_t>{3}) {
      return std::nullopt;
    }
    const Op* difference = producer(exp->inputs[0], OpKind::kSubtract);
    if (difference == nullptr || difference->inputs[0].is_scalar() || difference->inputs[1].is_scalar())
      return std::nullopt;
    const Op* top = producer(difference->inputs[1], OpKind::kReduceMax);
    if (top == nullptr || top->inputs[0].value != difference->inputs[0].value ||
        top->attributes.dims != std::vector<std::int64_t>{3})
      return std::nullopt;
    for (const Operand* part :
         {&divide.inputs[0], &exp->inputs[0], &difference->inputs[0], &total->inputs[0], &top->inputs[0]}) {
      if (!is_whole(*part) || part->view.sizes != divide.outputs[0].view.sizes) return std::nullopt;
    }
    Softmax result{difference->inputs[0], divide.outputs[0].value};
    const auto& readers = readers_[result.probabilities];
    const Op* choice = readers.size() == 1 ? &program_.ops[readers[0]] : nullptr;
    if (choice != nullptr && choice->kind == OpKind::kSelect && choice->inputs[2].value == result.probabilities) {
      const Op* empty = producer(choice->inputs[0], OpKind::kEqual);
      const Op* zero = producer(choice->inputs[1], OpKind::kFill);
      const bool is_safe =
          empty != nullptr && empty->inputs[0].value == top->outputs[0].value &&
          graph::is_number(empty->inputs[1], -std::numeric_limits<double>::infinity()) &&
          (graph::is_number(choice->inputs[1], 0) || (zero != nullptr && graph::is_number(zero->inputs[0], 0)));
      if (!is_safe || !is_whole(choice->inputs[2])) return std::nullopt;
      result.probabilities = choice->outputs[0].value;
    }
    return result;
  }

  /// The tensor that the operand is a copy of, as a view of these sizes; nothing when no strides can express that.
  std::optional<Operand> resolve(Operand operand, const Sizes& sizes) const {
    while (const Op* copy = producer(operand, OpKind::kCopy)) {
      const Operand& source = copy->inputs[0];
      if (program_.values[source.value].dtype != program_.values[operand.value].dtype) break;
      const auto view = graph::relaid(operand.view, copy->outputs[0].view, source.view);
      if (!view || !graph::reshaped(*view, sizes)) break;
      operand = {.value = source.value, .view = *view, .scalar = {}};
    }
    const auto view = graph::reshaped(operand.view, sizes);
    if (!view) return std::nullopt;
    operand.view = *view;
    return operand;
  }

  /// What the operand is a fixed multiple of, as a view of these sizes, and the factor.
  std::optional<std::pair<Operand, double>> factor_of(const Operand& operand, const Sizes& sizes) const {
    const auto product = resolve(operand, sizes);
    const Op* multiply = product ? producer(*product, OpKind::kMultiply) : nullptr;
    if (multiply == nullptr || multiply->inputs[0].is_scalar() || !multiply->inputs[1].is_scalar()) return std::nullopt;
    const graph::Scalar& factor = multiply->inputs[1].scalar;
    const auto moved = graph::relaid(product->view, multiply->outputs[0].view, multiply->inputs[0].view);
    const auto view = moved ? graph::reshaped(*moved, sizes) : std::nullopt;
    if (factor.slot != kNone || factor.is_integer || !view) return std::nullopt;
    return std::pair{Operand{.value = multiply->inputs[0].value, .view = *view, .scalar = {}}, factor.real};
  }

  /// The number whose root is `root`, as somebody may have written it: one over the root of the width, or few digits.
  static double scale_of(double root, std::int64_t width) {
    const double usual = 1 / std::sqrt(static_cast<double>(width));
    if (std::sqrt(usual) == root) return usual;
    for (int digits = 1; digits < 17; ++digits) {
      char text[40];
      std::snprintf(text, sizeof text, "%.*e", digits - 1, root * root);
      const double scale = std::strtod(text, nullptr);
      if (std::sqrt(scale) == root) return scale;
    }
    return root * root;
  }

  /// scores = (root q) (root k)^T, with a mask added or not.
  bool find_scores(Operand scores, Found& found) const {
    const Sizes& plane = scores.view.sizes;
    found.sizes = plane;
    if (const Op* add = producer(scores, OpKind::kAdd)) {
      if (add->inputs[0].is_scalar() || add->inputs[1].is_scalar() || !is_whole(add->inputs[0])) return false;
      found.is_causal = is_causal(add->inputs[1]);
      if (!found.is_causal) found.mask = add->inputs[1];
      scores = add->inputs[0];
    }
    const Op* product = producer(scores, OpKind::kMatMul);
    if (product == nullptr || !is_plain_product(*product) || !is_whole(scores) || !is_whole(product->outputs[0]))
      return false;
    const std::int64_t width = product->inputs[0].view.sizes.back();
    const auto query = factor_of(product->inputs[0], {plane[0], plane[1], plane[2], width});
    const auto key = factor_of(product->inputs[1], {plane[0], plane[1], width, plane[3]});
    if (!query || !key || query->second != key->second || !(query->second > 0)) return false;
    found.query = query->first;
    found.key = transposed(key->first);
    found.scale = scale_of(query->second, width);
    return true;
  }

  static Operand transposed(Operand operand) {
    std::swap(operand.view.sizes[2], operand.view.sizes[3]);
    std::swap(operand.view.strides[2], operand.view.strides[3]);
    return operand;
  }

  /// 0 where the key's place is at most the query's, else -infinity, for all planes: as `ones().tril()` makes it.
  bool is_causal(const Operand& mask) const {
    const View& view = mask.view;
    if (view.sizes.size() != 4 || view.strides[0] != 0 || view.strides[1] != 0 || view.offset != 0) return false;
    if (!graph::same_map({0, {view.sizes[2], view.sizes[3]}, {view.strides[2], view.strides[3]}},
                         View::contiguous({view.sizes[2], view.sizes[3]})))
      return false;
    const Op* choice = producer(mask, OpKind::kSelect);
    return choice != nullptr && is_filled(choice->inputs[1], 0) &&
           is_filled(choice->inputs[2], -std::numeric_limits<double>::infinity()) && is_triangle(choice->inputs[0]);
  }

  bool is_filled(const Operand& operand, double number) const {
    const Op* fill = producer(operand, OpKind::kFill);
    return graph::is_number(operand, number) || (fill != nullptr && graph::is_number(fill->inputs[0], number));
  }

  bool is_triangle(Operand seen) const {
    while (const Op* copy = producer(seen, OpKind::kCopy)) {
      if (!is_whole(seen) || !is_whole(copy->inputs[0])) return false;
      seen = copy->inputs[0];
    }
    if (!is_whole(seen) || seen.view.sizes.size() != 2) return false;
    const Op* choice = producer(seen, OpKind::kSelect);
    if (choice != nullptr && is_filled(choice->inputs[1], 1) && is_filled(choice->inputs[2], 0))
      return is_whole(choice->inputs[0]) && is_triangle(choice->inputs[0]);
    const Op* less = producer(seen, OpKind::kLessEqual);
    return less != nullptr && is_coordinate(less->inputs[0], 1) && is_coordinate(less->inputs[1], 0);
  }

  bool is_coordinate(const Operand& operand, std::int64_t dim) const {
    if (operand.is_scalar() || !is_whole(operand)) return false;
    if (const Op* add = producer(operand, OpKind::kAdd); add != nullptr && graph::is_number(add->inputs[1], 0))
      return is_coordinate(add->inputs[0], dim);
    const Op* coordinate = producer(operand, OpKind::kCoordinate);
    return coordinate != nullptr && coordinate->attributes.dims == std::vector<std::int64_t>{dim};
  }

  /// The one reader of a value that nothing else watches, or null.
  const Op* only_reader(ValueId value, OpKind kind) const {
    if (watched_[value] || readers_[value].size() != 1 || program_.ops[readers_[value][0]].kind != kind) return nullptr;
    return &program_.ops[readers_[value][0]];
  }

  static bool same(const Operand& a, const Operand& b) { return a.value == b.value && graph::same_map(a.view, b.view); }

  /// Whether `operand` is all of `value`, a row-major tensor of `sizes`; `is_turned`: with its last two dimensions in
  /// turn.
  static bool is_matrices(const Operand& operand, ValueId value, const Sizes& sizes, bool is_turned = false) {
    Operand all{.value = value, .view = View::contiguous(sizes), .scalar = {}};
    if (is_turned) all = transposed(std::move(all));
    const auto view = operand.value == value ? graph::reshaped(operand.view, all.view.sizes) : std::nullopt;
    return view && graph::same_map(*view, all.view);
  }

  static bool is_plain_product(const Op& op) { return op.kind == OpKind::kMatMul && op.attributes.alpha == 1; }

  /// The products that read the probabilities, forward and backward; false when anything else does.
  bool find_readers(ValueId probabilities, Found& found) const {
    if (watched_[probabilities]) return false;
    const Sizes& s = found.sizes;
    std::vector<OpId> others;
    for (const OpId id : readers_[probabilities]) {
      const Op& op = program_.ops[id];
      const bool is_product = is_plain_product(op) && is_whole(op.outputs[0]);
      if (is_product && found.output == kNone && is_matrices(op.inputs[0], probabilities, s)) {
        found.output = id;
      } else if (is_product && found.value_gradient == kNone && is_matrices(op.inputs[0], probabilities, s, true)) {
        found.value_gradient = id;
      } else {
        others.push_back(id);
      }
    }
    if (found.output == kNone || ends_[program_.ops[found.output].outputs[0].value]) return false;
    const Operand& values = program_.ops[found.output].inputs[1];
    const auto value = resolve(values, {s[0], s[1], s[3], values.view.sizes.back()});
    if (!value) return false;
    found.value = *value;
    if (found.value_gradient == kNone) return others.empty();
    if (ends_[program_.ops[found.value_gradient].outputs[0].value]) return false;
    const Operand& gradients = program_.ops[found.value_gradient].inputs[1];
    const auto gradient = resolve(gradients, {s[0], s[1], s[2], gradients.view.sizes.back()});
    if (!gradient) return false;
    found.gradient = *gradient;
    return others.size() == 2 && find_slopes(probabilities, others[0], others[1], found);
  }

  /// p (dp - sum(dp p)), where dp = gradient v^T, and its products with keys and queries.
  bool find_slopes(ValueId probabilities, OpId first, OpId second, Found& found) const {
    const Op &weighted = program_.ops[first], &slopes = program_.ops[second];
    if (weighted.kind != OpKind::kMultiply || slopes.kind != OpKind::kMultiply ||
        weighted.inputs[1].value != probabilities || slopes.inputs[0].value != probabilities)
      return false;
    if (weighted.inputs[0].is_scalar() || slopes.inputs[1].is_scalar()) return false;
    const Op* total = only_reader(weighted.outputs[0].value, OpKind::kReduceSum);
    if (total == nullptr || total->attributes.dims != std::vector<std::int64_t>{3}) return false;
    const Op* difference = only_reader(total->outputs[0].value, OpKind::kSubtract);
    if (difference == nullptr || difference->inputs[1].value != total->outputs[0].value ||
        difference->inputs[0].value != weighted.inputs[0].value)
      return false;
    if (only_reader(difference->outputs[0].value, OpKind::kMultiply) != &slopes) return false;
    for (const Operand* part : {&weighted.inputs[0], &weighted.inputs[1], &slopes.inputs[0], &slopes.inputs[1],
                                &difference->inputs[0], &total->inputs[0]}) {
      if (!is_whole(*part) || part->view.sizes != found.sizes) return false;
    }
    const Sizes& s = found.sizes;
    const std::int64_t width = found.value.view.sizes[3];
    const Op* product = producer(weighted.inputs[0], OpKind::kMatMul);
    if (product == nullptr || !is_plain_product(*product) || readers_[weighted.inputs[0].value].size() != 2 ||
        watched_[weighted.inputs[0].value])
      return false;
    const auto gradient = resolve(product->inputs[0], {s[0], s[1], s[2], width}),
               value = resolve(product->inputs[1], {s[0], s[1], width, s[3]});
    return gradient && value && same(*gradient, found.gradient) && same(transposed(*value), found.value) &&
           find_gradients(slopes.outputs[0].value, found);
  }

  /// root (slopes (root k)) and root ((root q)^T slopes), the only readers of the slopes.
  bool find_gradients(ValueId slopes, Found& found) const {
    if (watched_[slopes]) return false;
    const Sizes& s = found.sizes;
    const std::int64_t width = found.query.view.sizes[3];
    for (const OpId id : readers_[slopes]) {
      const Op& product = program_.ops[id];
      if (!is_plain_product(product) || !is_whole(product.outputs[0])) return false;
      const bool of_query = is_matrices(product.inputs[0], slopes, s);
      if (!of_query && !is_matrices(product.inputs[1], slopes, s)) return false;
      const auto other = of_query ? factor_of(product.inputs[1], {s[0], s[1], s[3], width})
                                  : factor_of(product.inputs[0], {s[0], s[1], width, s[2]});
      if (!other || scale_of(other->second, width) != found.scale ||
          !same(of_query ? other->first : transposed(other->first), of_query ? found.key : found.query)) {
        return false;
      }
      const Op* scaled = only_reader(product.outputs[0].value, OpKind::kMultiply);
      if (scaled == nullptr || !is_whole(scaled->inputs[0]) || !is_whole(scaled->outputs[0]) ||
          !graph::is_number(scaled->inputs[1], other->second))
        return false;
      OpId& gradient = of_query ? found.query_gradient : found.key_gradient;
      if (gradient != kNone || ends_[scaled->outputs[0].value]) return false;
      gradient = readers_[product.outputs[0].value][0];
    }
    return found.query_gradient != kNone && found.key_gradient != kNone;
  }

  const Program& program_;
  std::vector<std::vector<OpId>> readers_;  // per value, each op once
  std::vector<bool> ends_, watched_;        // per value: a state ends in it; that, or it is an output
};

/// Writes the ops of attention.hpp for what was found, and hands their results to the readers of the old ones.
class Writer {
 public:
  explicit Writer(Program& program) : program_(program), emitter_(program), old_ops_(emitter_.next_op()) {}

  void replace(const Found& found) {
    Attention a;
    a.query = term(found.query);
    a.key = term(found.key);
    a.value = term(found.value);
    if (found.mask) a.mask = term(*found.mask);
    if (found.is_causal) a.right = 0;
    a.scale = found.scale;
    begin(found.output);
    const Term output = by_rows(attend(emitter_, a).output);
    add_outline("attention", a, {}, {{"output", output.operand}});
    hand_over(found.output, output);
    if (found.value_gradient != kNone) {
      begin(std::min({found.value_gradient, found.query_gradient, found.key_gradient}));
      const AttentionGradient gradient = attend_backward(emitter_, a, term(found.gradient), output);
      const Term value = by_rows(gradient.value), query = by_rows(gradient.query), key = by_rows(gradient.key);
      add_outline("attention_backward", a, {{"grad_out", found.gradient}, {"out", output.operand}},
                  {{"grad_query", query.operand}, {"grad_key", key.operand}, {"grad_value", value.operand}});
      hand_over(found.value_gradient, value);
      hand_over(found.query_gradient, query);
      hand_over(found.key_gradient, emitter_.transpose(key, 2, 3));
    }
    chunks_.back().end = emitter_.next_op();
  }

  /// Moves the new ops to where the old results stood, and turns readers of those to the new ones.
  void finish(std::vector<graph::Outline>& outlines) {
    for (Op& op : program_.ops) {
      for (Operand& input : op.inputs) rename(input);
    }
    for (graph::Output& output : program_.outputs) rename(output.operand);
    outlines.insert(outlines.end(), outlines_.begin(), outlines_.end());
    for (graph::Outline& outline : outlines) {
      for (graph::Role& role : outline.inputs) rename(role.operand);
    }
    std::ranges::stable_sort(chunks_, {}, &Chunk::at);
    std::vector<Op> ops;
    ops.reserve(program_.ops.size());
    std::vector<OpId> moved(program_.ops.size());
    const auto place = [&](OpId id) {
      moved[id] = static_cast<OpId>(ops.size());
      for (const Operand& out : program_.ops[id].outputs)
        program_.values[out.value].producer = static_cast<OpId>(ops.size());
      ops.push_back(std::move(program_.ops[id]));
    };
    auto chunk = chunks_.begin();
    for (OpId id = 0; id < old_ops_; ++id) {
      for (; chunk != chunks_.end() && chunk->at == id; ++chunk) {
        for (OpId each = chunk->first; each < chunk->end; ++each) place(each);
      }
      place(id);
    }
    program_.ops = std::move(ops);
    std::erase_if(outlines, [&](graph::Outline& outline) {
      const OpId length = outline.end - outline.first,
                 last = outline.first == outline.end ? kNone : moved[outline.end - 1];
      if (last == kNone || last + 1 - moved[outline.first] != length) return true;  // new ops stand between its own
      outline.first = moved[outline.first];
      outline.end = last + 1;
      return false;
    });
  }

 private:
  /// From the ops of the chunk that has been begun.
  void add_outline(std::string name, const Attention& a, std::vector<graph::Role> more,
                   std::vector<graph::Role> results) {
    graph::Outline outline;
    outline.first = chunks_.back().first;
    outline.end = emitter_.next_op();
    outline.name = std::move(name);
    outline.attributes = attributes_of(a);
    outline.inputs = {{"query", a.query.operand}, {"key", a.key.operand}, {"value", a.value.operand}};
    if (a.mask) outline.inputs.push_back({"mask", a.mask->operand});
    outline.inputs.insert(outline.inputs.end(), more.begin(), more.end());
    outline.outputs = std::move(results);
    outlines_.push_back(std::move(outline));
  }

  struct Chunk {
    OpId at, first, end;  // ops first to end go before `at`
  };
  struct Successor {
    View old_layout;  // of the old value, with the sizes of `next`
    Term next;
    ValueId copy = kNone;  // `next` in the old layout, for readers that no strides serve
  };

  Term term(const Operand& operand) const {
    return {.operand = operand, .dtype = program_.values[operand.value].dtype};
  }

  void begin(OpId at) {
    if (!chunks_.empty()) chunks_.back().end = emitter_.next_op();
    chunks_.push_back({at, emitter_.next_op(), emitter_.next_op()});
    emitter_.set_source(program_.ops[at].source);
  }

  /// [b, h, rows, width], written as [b, rows, h, width]: as kernels lay out their results.
  Term by_rows(Term x) {
    const Sizes sizes = x.sizes();
    View layout = View::contiguous({sizes[0], sizes[2], sizes[1], sizes[3]});
    std::swap(layout.sizes[1], layout.sizes[2]);
    std::swap(layout.strides[1], layout.strides[2]);
    if (emitter_.relay(x, layout, chunks_.back().first)) x.operand.view = std::move(layout);
    return x;
  }

  void hand_over(OpId old, const Term& next) {
    const ValueId value = program_.ops[old].outputs[0].value;
    successors_.insert_or_assign(value,
                                 Successor{View::contiguous(next.sizes()), next, emitter_.copy(next).operand.value});
  }

  void rename(Operand& reader) const {
    const auto found = reader.is_scalar() ? successors_.end() : successors_.find(reader.value);
    if (found == successors_.end()) return;
    const Successor& successor = found->second;
    const auto moved = graph::relaid(reader.view, successor.old_layout, successor.next.operand.view);
    const auto view = moved ? graph::reshaped(*moved, reader.view.sizes) : std::nullopt;
    reader.value = view ? successor.next.operand.value : successor.copy;
    if (view) reader.view = *view;
  }

  Program& program_;
  Emitter emitter_;
  OpId old_ops_;
  std::vector<Chunk> chunks_;
  std::vector<graph::Outline> outlines_;
  std::map<ValueId, Successor> successors_;  // by old value
};

}  // namespace

int recognize_composed_attention(graph::Program& program, std::vector<graph::Outline>* outlines) {
  std::vector<Found> all;
  {
    std::optional<Finder> finder;  // most programs have no softmax, and need no lists of readers
    for (OpId id = 0; id < program.ops.size(); ++id) {
      if (program.ops[id].kind != OpKind::kDivide) continue;
      if (!finder) finder.emplace(program);
      if (auto found = finder->find(id)) all.push_back(std::move(*found));
    }
  }
  if (all.empty()) return 0;
  Writer writer(program);
  for (const Found& found : all) writer.replace(found);
  std::vector<graph::Outline> unasked;
  writer.finish(outlines != nullptr ? *outlines : unasked);
  return static_cast<int>(all.size());
}

}  // namespace crucible::aten
