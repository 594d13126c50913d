// See trained_attention.hpp.
#include "core/kernel/fuse/trained_attention.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "core/graph/meaning.hpp"
#include "core/graph/opaque.hpp"
#include "core/graph/queries.hpp"
#include "core/graph/view.hpp"
#include "core/kernel/fuse/attention_call.hpp"

namespace crucible::kernel {
namespace {

using graph::kNone;
using graph::Meaning;
using graph::Op;
using graph::Operand;
using graph::OpId;
using graph::OpKind;
using graph::Program;
using graph::Role;
using graph::ValueId;
using graph::ValueKind;
using graph::View;
using Sizes = std::vector<std::int64_t>;

/// Both directions of an attention, by their places in Program::meanings.
struct Pair {
  std::size_t forward = 0, backward = 0;
  std::vector<Operand> operands = {};   // q, k, v, o, do
  std::vector<Operand> gradients = {};  // dq, dk, dv
  OpId makes_output = kNone;            // in whose place the forward pass is stated
  OpId makes_gradient = kNone;          // the first of the three
  std::vector<OpId> body = {};          // what computes with the operands now
  DType dtype = DType::kF32;
  double scale = 1;
  bool is_causal = false;
};

/// What the operand is, where it is a copy of something.
Operand root_of(const Program& program, Operand operand) {
  while (auto source = graph::copied_from(program, operand)) operand = *std::move(source);
  return operand;
}

bool is_same(const Operand& a, const Operand& b) { return a.value == b.value && graph::same_map(a.view, b.view); }

class Finder {
 public:
  Finder(const Program& program, const std::function<bool(const LibraryCall&)>& claims)
      : program_(program), claims_(claims) {}

  std::vector<Pair> run() {
    // By the value that they make: of as many layers, each finds its own without a look at the others.
    std::map<ValueId, std::vector<std::size_t>> forward;
    for (std::size_t f = 0; f < program_.meanings.size(); ++f) {
      if (program_.meanings[f].name != "attention") continue;
      if (const Role* const output = graph::find_output(program_.meanings[f], "output"))
        forward[root_of(program_, output->operand).value].push_back(f);
    }
    std::vector<Pair> found;
    for (std::size_t b = 0; b < program_.meanings.size(); ++b) {
      if (program_.meanings[b].name != "attention_backward") continue;
      const Role* const out = graph::find_input(program_.meanings[b], "out");
      const auto made = out != nullptr ? forward.find(root_of(program_, out->operand).value) : forward.end();
      if (made == forward.end()) continue;
      for (const std::size_t f : made->second) {
        auto pair = pair_of(f, b);
        if (!pair) continue;
        found.push_back(*std::move(pair));
        break;
      }
    }
    // A value is stated once: of pairs that share results, as a file may have them, only the first is one.
    std::set<ValueId> made;
    std::erase_if(found, [&](const Pair& pair) {
      std::set<ValueId> results = {pair.operands[3].value};
      for (const Operand& gradient : pair.gradients) results.insert(gradient.value);
      if (std::ranges::any_of(results, [&](ValueId value) { return made.contains(value); })) return true;
      made.merge(results);
      return false;
    });
    return found;
  }

 private:
  std::optional<Pair> pair_of(std::size_t forward, std::size_t backward) {
    const Meaning &f = program_.meanings[forward], &b = program_.meanings[backward];
    Pair pair{.forward = forward, .backward = backward};
    pair.scale = graph::number_of(f, "scale", 1);
    pair.is_causal = graph::number_of(f, "causal", 0) != 0;
    if (pair.scale != graph::number_of(b, "scale", 1) || pair.is_causal != (graph::number_of(b, "causal", 0) != 0) ||
        f.attributes.size() != b.attributes.size())
      return std::nullopt;
    for (const char* name : {"query", "key", "value"}) {
      const Role *const here = graph::find_input(f, name), *const there = graph::find_input(b, name);
      if (here == nullptr || there == nullptr) return std::nullopt;
      pair.operands.push_back(root_of(program_, here->operand));
      if (!is_same(pair.operands.back(), root_of(program_, there->operand))) return std::nullopt;
    }
    const Role *const output = graph::find_output(f, "output"), *const out = graph::find_input(b, "out"),
                      *const gradient = graph::find_input(b, "grad_out");
    if (output == nullptr || out == nullptr || gradient == nullptr) return std::nullopt;
    const Operand o = root_of(program_, output->operand);
    if (!is_same(o, root_of(program_, out->operand))) return std::nullopt;
    pair.operands.push_back(o);
    pair.operands.push_back(root_of(program_, gradient->operand));
    for (const char* name : {"grad_query", "grad_key", "grad_value"}) {
      const Role* const role = graph::find_output(b, name);
      if (role == nullptr) return std::nullopt;
      pair.gradients.push_back(root_of(program_, role->operand));
    }
    pair.dtype = program_.values[o.value].dtype;
    if (!can_state(pair, f, b) || !find_body(pair, f, b)) return std::nullopt;
    return is_claimed(pair, f, b) ? std::optional(std::move(pair)) : std::nullopt;
  }

  /// Each result is all of its value, made by an op of its own, and what is read stands before.
  bool can_state(Pair& pair, const Meaning& f, const Meaning& b) const {
    if (f.inputs.size() != 3 || b.outputs.size() != 3) return false;
    const bool is_half = pair.dtype == DType::kF16 || pair.dtype == DType::kBF16;
    if (!is_half && pair.dtype != DType::kF32) return false;
    const auto producer = [&](const Operand& x) { return program_.values[x.value].producer; };
    std::set<OpId> makers;
    std::vector<const Operand*> results = {&pair.operands[3]};
    for (const Operand& gradient : pair.gradients) results.push_back(&gradient);
    for (const Operand* result : results) {
      const OpId id = producer(*result);
      if (id == kNone || program_.ops[id].outputs.size() != 1 || !makers.insert(id).second ||
          result->view.elements() != program_.values[result->value].elements || result->view.offset != 0)
        return false;
    }
    pair.makes_output = producer(pair.operands[3]);
    pair.makes_gradient =
        std::min({producer(pair.gradients[0]), producer(pair.gradients[1]), producer(pair.gradients[2])});
    const auto stands_before = [&](const Operand& x, OpId id) { return producer(x) == kNone || producer(x) < id; };
    return std::ranges::all_of(pair.operands.begin(), pair.operands.begin() + 3,
                               [&](const Operand& x) { return stands_before(x, pair.makes_output); }) &&
           std::ranges::all_of(pair.operands, [&](const Operand& x) { return stands_before(x, pair.makes_gradient); });
  }

  bool find_body(Pair& pair, const Meaning& f, const Meaning& b) const {
    const AttentionRegion forward = region_of(program_, f.inputs, {pair.operands[3]}),
                          backward = region_of(program_, b.inputs, pair.gradients);
    if (!forward.is_whole || !backward.is_whole) return false;
    pair.body.assign(forward.body.begin(), forward.body.end());
    pair.body.insert(pair.body.end(), backward.body.begin(), backward.body.end());
    return true;
  }

  bool is_claimed(const Pair& pair, const Meaning& f, const Meaning& b) {
    // The logarithms are no value yet: all that counts here is what they will look like.
    const Sizes& q = pair.operands[0].view.sizes;
    if (q.size() != 4) return false;
    Program& scratch = with_logs_;
    if (scratch.values.empty()) scratch.values = program_.values;
    const Operand logs{static_cast<ValueId>(program_.values.size()), View::contiguous({q[0], q[1], q[2], 1}), {}};
    scratch.values.resize(program_.values.size());
    scratch.values.push_back({.kind = ValueKind::kTemporary,
                              .dtype = DType::kF32,
                              .elements = q[0] * q[1] * q[2],
                              .name = "",
                              .producer = kNone});
    const auto& x = pair.operands;
    const auto asks = [&](const Meaning& meaning, LibraryKind kind, const std::vector<Operand>& operands,
                          const std::vector<Operand>& results) {
      return judge_attention(scratch, meaning, kind, operands, results) == NotCalled::kDeclined &&
             claims_(attention_call(scratch, meaning, kind, operands, results));
    };
    return asks(f, LibraryKind::kAttentionForward, {x[0], x[1], x[2]}, {x[3], logs}) &&
           asks(b, LibraryKind::kAttentionBackward, {x[0], x[1], x[2], x[3], logs, x[4]}, pair.gradients);
  }

  const Program& program_;
  const std::function<bool(const LibraryCall&)>& claims_;
  Program with_logs_;  // the values, and one more; made once
};

View turned(View view) {
  std::swap(view.sizes[2], view.sizes[3]);
  std::swap(view.strides[2], view.strides[3]);
  return view;
}
Operand turned(Operand x) {
  x.view = turned(std::move(x.view));
  return x;
}
Operand scalar(double number) { return {kNone, {}, {kNone, false, number, 0}}; }

/// Writes ops behind those of a program.
class Writer {
 public:
  explicit Writer(Program& program) : out_(program) {}

  std::uint32_t source = kNone;

  Operand op(OpKind kind, std::vector<Operand> inputs, const Sizes& sizes, DType dtype = DType::kF32,
             graph::Attributes attributes = {}) {
    Operand result{static_cast<ValueId>(out_.values.size()), View::contiguous(sizes), {}};
    out_.values.push_back({.kind = ValueKind::kTemporary,
                           .dtype = dtype,
                           .elements = result.view.elements(),
                           .name = "",
                           .producer = static_cast<OpId>(out_.ops.size())});
    out_.ops.push_back({kind, std::move(inputs), {result}, std::move(attributes), source});
    return result;
  }
  /// A product that ends in a value that is there.
  void product_into(const Operand& a, const Operand& b, const Operand& result) {
    out_.values[result.value].producer = static_cast<OpId>(out_.ops.size());
    out_.ops.push_back({OpKind::kMatMul, {a, b}, {result}, {}, source});
  }
  /// Over the last of four dimensions.
  Operand reduced(OpKind kind, const Operand& x) {
    graph::Attributes attributes;
    attributes.dims = {3};
    Sizes sizes = x.view.sizes;
    sizes[3] = 1;
    Operand result = op(kind, {x}, sizes, DType::kF32, std::move(attributes));
    out_.ops.back().outputs[0].view.strides[3] = 0;
    return result;
  }
  Operand cast(const Operand& x, DType dtype) {
    return out_.values[x.value].dtype == dtype ? x : op(OpKind::kCopy, {x}, x.view.sizes, dtype);
  }

 private:
  Program& out_;
};

Operand along_rows(Operand x, const Sizes& sizes) {
  x.view.sizes = sizes;
  x.view.strides[3] = 0;
  return x;
}

class Rewriter {
 public:
  Rewriter(const Program& program, const std::vector<Pair>& pairs) : program_(program), pairs_(pairs), write_(out_) {}

  Program run() {
    out_ = program_;
    out_.ops.clear();
    std::vector<OpId> new_id(program_.ops.size());
    std::vector<Operand> logs(pairs_.size());
    std::set<ValueId> restated;
    std::multimap<OpId, std::size_t> of_op;
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
      of_op.emplace(pairs_[i].makes_output, i);
      if (pairs_[i].makes_gradient != pairs_[i].makes_output) of_op.emplace(pairs_[i].makes_gradient, i);
    }
    for (OpId id = 0; id < program_.ops.size(); ++id) {
      const auto [first, last] = of_op.equal_range(id);
      for (auto at = first; at != last; ++at) {
        const std::size_t i = at->second;
        write_.source = program_.ops[id].source;
        if (pairs_[i].makes_output == id) {
          logs[i] = forward(pairs_[i]);
          restated.insert(pairs_[i].operands[3].value);
        }
        if (pairs_[i].makes_gradient == id) {
          backward(pairs_[i], logs[i]);
          for (const Operand& gradient : pairs_[i].gradients) restated.insert(gradient.value);
        }
      }
      Op op = program_.ops[id];
      // What made a result makes a value that nobody reads.
      if (!op.outputs.empty() && restated.contains(op.outputs[0].value)) {
        Operand& made = op.outputs[0];
        const ValueId result = made.value;
        made.value = static_cast<ValueId>(out_.values.size());
        out_.values.push_back(program_.values[result]);
        out_.values.back().producer = static_cast<OpId>(out_.ops.size());
        out_.values.back().name.clear();
      }
      new_id[id] = static_cast<OpId>(out_.ops.size());
      out_.ops.push_back(std::move(op));
    }
    for (ValueId value = 0; value < program_.values.size(); ++value) {
      OpId& producer = out_.values[value].producer;
      if (producer != kNone && !restated.contains(value)) producer = new_id[producer];
    }
    for (std::size_t i = 0; i < pairs_.size(); ++i) name(pairs_[i], logs[i]);
    return std::move(out_);
  }

 private:
  Operand scores(const Pair& pair) {
    const Operand &q = pair.operands[0], &k = pair.operands[1];
    const Sizes sizes{q.view.sizes[0], q.view.sizes[1], q.view.sizes[2], k.view.sizes[2]};
    graph::Attributes scale;
    scale.alpha = pair.scale;
    const Operand s = write_.op(OpKind::kMatMul, {q, turned(k)}, sizes, DType::kF32, std::move(scale));
    if (!pair.is_causal) return s;
    graph::Attributes rows, keys;
    rows.dims = {0}, keys.dims = {1};
    const Sizes plane{sizes[2], sizes[3]};
    const Operand i = write_.op(OpKind::kCoordinate, {}, plane, DType::kI32, std::move(rows)),
                  j = write_.op(OpKind::kCoordinate, {}, plane, DType::kI32, std::move(keys));
    Operand seen = write_.op(OpKind::kLessEqual, {j, i}, plane, DType::kBool);
    seen.view = {0, sizes, {0, 0, sizes[3], 1}};
    return write_.op(OpKind::kSelect, {seen, s, scalar(-std::numeric_limits<double>::infinity())}, sizes);
  }

  /// The logarithms, [batch, heads, rows, 1].
  Operand forward(const Pair& pair) {
    const Operand s = scores(pair);
    const Sizes& sizes = s.view.sizes;
    const Operand top = write_.reduced(OpKind::kReduceMax, s);
    const Operand less = write_.op(OpKind::kSubtract, {s, along_rows(top, sizes)}, sizes);
    const Operand powers = write_.op(OpKind::kExp, {less}, sizes);
    const Operand total = write_.reduced(OpKind::kReduceSum, powers);
    const Operand logs =
        write_.op(OpKind::kAdd, {top, write_.op(OpKind::kLog, {total}, total.view.sizes)}, total.view.sizes);
    const Operand p = write_.op(OpKind::kDivide, {powers, along_rows(total, sizes)}, sizes);
    write_.product_into(write_.cast(p, pair.dtype), pair.operands[2], pair.operands[3]);
    return logs;
  }

  void backward(const Pair& pair, const Operand& logs) {
    const Operand &q = pair.operands[0], &k = pair.operands[1], &v = pair.operands[2], &o = pair.operands[3],
                  &gradient = pair.operands[4];
    const Operand both =
        write_.op(OpKind::kMultiply, {write_.cast(gradient, DType::kF32), write_.cast(o, DType::kF32)}, o.view.sizes);
    const Operand inner = write_.reduced(OpKind::kReduceSum, both);
    const Operand s = scores(pair);
    const Sizes& sizes = s.view.sizes;
    const Operand p =
        write_.op(OpKind::kExp, {write_.op(OpKind::kSubtract, {s, along_rows(logs, sizes)}, sizes)}, sizes);
    Operand ds = write_.op(OpKind::kMatMul, {gradient, turned(v)}, sizes);
    ds = write_.op(OpKind::kSubtract, {ds, along_rows(inner, sizes)}, sizes);
    ds = write_.op(OpKind::kMultiply, {ds, p}, sizes);
    ds = write_.op(OpKind::kMultiply, {ds, scalar(pair.scale)}, sizes);
    ds = write_.cast(ds, pair.dtype);
    const Operand rounded = write_.cast(p, pair.dtype);
    write_.product_into(ds, k, pair.gradients[0]);
    write_.product_into(turned(ds), q, pair.gradients[1]);
    write_.product_into(turned(rounded), gradient, pair.gradients[2]);
  }

  /// What the names say of roots is what was stated.
  void name(const Pair& pair, const Operand& logs) {
    Meaning &f = out_.meanings[pair.forward], &b = out_.meanings[pair.backward];
    const char* const operands[] = {"query", "key", "value", "out", "grad_out"};
    const char* const gradients[] = {"grad_query", "grad_key", "grad_value"};
    std::erase_if(f.outputs, [](const Role& role) { return role.name != "output"; });
    for (std::size_t i = 0; i < 3; ++i) f.inputs[i] = {operands[i], pair.operands[i]};
    f.outputs[0].operand = pair.operands[3];
    f.outputs.push_back({kRowLogSum, logs});
    b.inputs.clear(), b.outputs.clear();
    for (std::size_t i = 0; i < 5; ++i) b.inputs.push_back({operands[i], pair.operands[i]});
    b.inputs.push_back({kRowLogSum, logs});
    for (std::size_t i = 0; i < 3; ++i) b.outputs.push_back({gradients[i], pair.gradients[i]});
  }

  const Program& program_;
  const std::vector<Pair>& pairs_;
  Program out_;
  Writer write_;
};

/// Per op: whether anything that is wanted depends on it.
std::vector<bool> live_ops(const Program& program) {
  std::vector<bool> live(program.ops.size(), false), wanted = graph::wanted_at_end(program);
  for (OpId id = static_cast<OpId>(program.ops.size()); id-- > 0;) {
    const Op& op = program.ops[id];
    live[id] =
        has_effects(program, op) || std::ranges::any_of(op.outputs, [&](const Operand& x) { return wanted[x.value]; });
    if (!live[id]) continue;
    for (const Operand& input : op.inputs) {
      if (!input.is_scalar()) wanted[input.value] = true;
    }
  }
  return live;
}

/// Of what the pair was, something is still computed.
bool is_wanted_elsewhere(const Program& program, const Program& changed, const std::vector<bool>& live,
                         const Pair& pair) {
  return std::ranges::any_of(pair.body, [&](OpId id) {
    if (id == pair.makes_output) return false;  // restated, and so the three gradients
    const ValueId made = program.ops[id].outputs[0].value;
    if (std::ranges::any_of(pair.gradients, [&](const Operand& x) { return x.value == made; })) return false;
    return static_cast<bool>(live[changed.values[made].producer]);
  });
}

}  // namespace

std::optional<Program> state_trained_attentions(const Program& program,
                                                const std::function<bool(const LibraryCall&)>& claims) {
  std::vector<Pair> pairs = Finder(program, claims).run();
  while (!pairs.empty()) {
    Program changed = Rewriter(program, pairs).run();
    const std::vector<bool> live = live_ops(changed);
    const auto left =
        std::erase_if(pairs, [&](const Pair& pair) { return is_wanted_elsewhere(program, changed, live, pair); });
    if (left == 0) return changed;
  }
  return std::nullopt;
}

}  // namespace crucible::kernel
