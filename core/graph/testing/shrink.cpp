// Smaller failing programs: see shrink.hpp. Each step makes a candidate; Shrinker::accept keeps those that still fail.
#include "core/graph/testing/shrink.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "core/graph/reference.hpp"
#include "core/graph/view.hpp"

namespace crucible::graph {
namespace {

template <class Visit>
void for_each_read(Program& p, Visit visit) {
  for (Op& op : p.ops) {
    for (Operand& input : op.inputs) {
      if (!input.is_scalar()) visit(input);
    }
  }
  for (Output& output : p.outputs) visit(output.operand);
}

void become_input(RandomProgram& r, ValueId v, Bytes bytes) {
  r.program.values[v].kind = ValueKind::kInput;
  r.program.values[v].producer = kNone;
  r.program.inputs.push_back({v, std::vector<std::uint32_t>(r.program.iterations, 0), false});
  r.values[v] = std::move(bytes);
}

/// Drops values that nothing names, and renumbers the others in their order. (Not by a pass: it may be the broken one.)
void drop_unused_values(RandomProgram& r) {
  Program& p = r.program;
  std::vector<bool> used(p.values.size(), false);
  for (const Op& op : p.ops) {
    for (const Operand& output : op.outputs) used[output.value] = true;
  }
  for_each_read(p, [&](const Operand& o) { used[o.value] = true; });
  for (const State& state : p.states) {
    if (state.end != state.start) used[state.start] = true;
  }
  std::vector<ValueId> renamed(p.values.size(), kNone);
  std::vector<Value> values;
  std::vector<Bytes> bytes;
  for (ValueId v = 0; v < p.values.size(); ++v) {
    if (!used[v]) continue;
    renamed[v] = static_cast<ValueId>(values.size());
    values.push_back(p.values[v]);
    bytes.push_back(r.values[v]);
  }
  p.values = std::move(values);
  r.values = std::move(bytes);
  for (Op& op : p.ops) {
    for (Operand& output : op.outputs) output.value = renamed[output.value];
  }
  for_each_read(p, [&](Operand& o) { o.value = renamed[o.value]; });
  std::erase_if(p.states, [&](const State& s) { return renamed[s.start] == kNone; });
  std::erase_if(p.inputs, [&](const Input& i) { return renamed[i.value] == kNone; });
  std::erase_if(p.constants, [&](const Constant& c) { return renamed[c.value] == kNone; });
  for (State& s : p.states) s.start = renamed[s.start], s.end = renamed[s.end];
  for (Input& i : p.inputs) i.value = renamed[i.value];
  for (Constant& c : p.constants) c.value = c.blob = renamed[c.value];
}

/// `view` with `from` replaced by `to` among its sizes, and dense strides in the order of the old ones; dimensions that
/// repeat the same elements still do.
View resized(View view, std::int64_t from, std::int64_t to, std::int64_t old_elements, std::int64_t elements) {
  if (view.sizes.size() == 1 && view.sizes[0] == old_elements && old_elements != from) {
    return View::contiguous({elements});
  }
  for (auto& size : view.sizes) size = size == from ? to : size;
  std::vector<std::size_t> order(view.sizes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::reverse(order);
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return view.strides[a] < view.strides[b]; });
  std::int64_t step = 1;
  for (const std::size_t d : order) {
    if (view.strides[d] == 0) continue;
    view.strides[d] = step;
    step *= view.sizes[d];
  }
  view.offset = 0;
  return view;
}

class Shrinker {
 public:
  Shrinker(RandomProgram failing, const std::function<bool(const RandomProgram&)>& fails)
      : best_(std::move(failing)), fails_(fails) {}

  RandomProgram run() {
    bool smaller = true;
    while (smaller) {
      smaller = false;
      smaller = drop_outputs() || smaller;
      smaller = simplify_outputs() || smaller;
      smaller = look_further_back() || smaller;
      smaller = drop_states() || smaller;
      smaller = drop_ops() || smaller;
      smaller = shrink_sizes() || smaller;
      smaller = simplify_operands() || smaller;
      smaller = simplify_data() || smaller;
    }
    return std::move(best_);
  }

 private:
  bool accept(RandomProgram candidate) {
    drop_unused_values(candidate);
    if (!verify(candidate.program) || !run_iteration(candidate.program, candidate.values, candidate.slots))
      return false;
    if (!fails_(candidate)) return false;
    best_ = std::move(candidate);
    return true;
  }

  /// The interpreter's buffers of the best program; it runs, so there are some.
  std::vector<Bytes> values() const { return *run_iteration(best_.program, best_.values, best_.slots); }

  bool drop_outputs() {
    bool any = false;
    for (std::size_t o = best_.program.outputs.size(); o-- > 0;) {
      RandomProgram candidate = best_;
      candidate.program.outputs.erase(candidate.program.outputs.begin() + static_cast<std::ptrdiff_t>(o));
      any = accept(std::move(candidate)) || any;
    }
    return any;
  }

  /// Outputs become what an op wrote, seen as it wrote it.
  bool simplify_outputs() {
    bool any = false;
    for (std::size_t o = 0; o < best_.program.outputs.size(); ++o) {
      const Operand& output = best_.program.outputs[o].operand;
      const OpId producer = best_.program.values[output.value].producer;
      if (producer == kNone) continue;
      for (const Operand& written : best_.program.ops[producer].outputs) {
        if (written.value != output.value || written.view == output.view) continue;
        RandomProgram candidate = best_;
        candidate.program.outputs[o] = {"tensor", written, {}, std::vector<std::uint32_t>(best_.program.iterations, 0)};
        any = accept(std::move(candidate)) || any;
        break;
      }
    }
    return any;
  }

  /// Outputs become what their op reads, so that a wrong number is watched where it comes from.
  bool look_further_back() {
    bool any = false;
    for (std::size_t o = 0; o < best_.program.outputs.size(); ++o) {
      const OpId producer = best_.program.values[best_.program.outputs[o].operand.value].producer;
      if (producer == kNone) continue;
      const std::vector<Operand> reads = best_.program.ops[producer].inputs;
      for (const Operand& read : reads) {
        if (read.is_scalar()) continue;
        RandomProgram candidate = best_;
        candidate.program.outputs[o] = {"tensor", read, {}, std::vector<std::uint32_t>(best_.program.iterations, 0)};
        if (!accept(std::move(candidate))) continue;
        any = true;
        break;
      }
    }
    return any;
  }

  bool drop_states() {
    bool any = false;
    for (std::size_t s = best_.program.states.size(); s-- > 0;) {
      if (s >= best_.program.states.size()) continue;
      RandomProgram candidate = best_;
      State& state = candidate.program.states[s];
      if (state.end == state.start) {  // a state that is only read may as well be an input
        const ValueId start = state.start;
        candidate.program.states.erase(candidate.program.states.begin() + static_cast<std::ptrdiff_t>(s));
        become_input(candidate, start, best_.values[start]);
      } else {
        state.end = state.start;
      }
      any = accept(std::move(candidate)) || any;
    }
    return any;
  }

  /// Without an op its results are inputs that hold what it computed.
  bool drop_ops() {
    bool any = false;
    for (std::size_t i = best_.program.ops.size(); i-- > 0;) {
      if (i >= best_.program.ops.size()) continue;
      const auto computed = values();
      RandomProgram candidate = best_;
      Program& p = candidate.program;
      const Op op = p.ops[i];
      p.ops.erase(p.ops.begin() + static_cast<std::ptrdiff_t>(i));
      for (Value& value : p.values) {
        if (value.producer != kNone && value.producer > i) --value.producer;
      }
      for (const Operand& output : op.outputs) {
        become_input(candidate, output.value, computed[output.value]);
        for (State& state : p.states) {
          if (state.end == output.value) state.end = state.start;
        }
      }
      any = accept(std::move(candidate)) || any;
    }
    return any;
  }

  /// A dimension's size, wherever it stands in the program, becomes a smaller one.
  bool shrink_sizes() {
    std::set<std::int64_t> sizes;
    for (const Op& op : best_.program.ops) {
      for (const auto* operands : {&op.inputs, &op.outputs}) {
        for (const Operand& o : *operands) sizes.insert(o.view.sizes.begin(), o.view.sizes.end());
      }
    }
    bool any = false;
    for (const std::int64_t size : sizes) {
      for (const std::int64_t to : {std::int64_t{1}, size / 2, size - 1}) {
        if (to < 1 || to >= size || !accept(with_size(size, to))) continue;
        any = true;
        break;
      }
    }
    return any;
  }

  RandomProgram with_size(std::int64_t from, std::int64_t to) const {
    RandomProgram candidate = best_;
    Program& p = candidate.program;
    const std::vector<Value> old = p.values;
    for (Value& value : p.values) {
      if (value.kind != ValueKind::kTemporary) value.elements = 0;  // as much as is read
    }
    const auto change = [&](Operand& o) {
      Value& value = p.values[o.value];
      o.view = resized(o.view, from, to, old[o.value].elements, value.elements);
      if (value.kind != ValueKind::kTemporary)
        value.elements = std::max(value.elements, last_index(o.view).value_or(0) + 1);
    };
    for (Op& op : p.ops) {
      for (Operand& input : op.inputs) {
        if (!input.is_scalar()) change(input);
      }
      for (Operand& output : op.outputs) {
        change(output);
        p.values[output.value].elements = output.view.elements();
      }
      if (op.kind == OpKind::kUpdate) {
        op.attributes.region = resized(op.attributes.region, from, to, old[op.outputs[0].value].elements,
                                       p.values[op.outputs[0].value].elements);
      }
    }
    for (Output& output : p.outputs) change(output.operand);
    for (const State& state : p.states) p.values[state.start].elements = p.values[state.end].elements;
    for (ValueId v = 0; v < p.values.size(); ++v) {
      if (p.values[v].kind == ValueKind::kTemporary) continue;
      candidate.values[v].resize(static_cast<std::size_t>(std::max<std::int64_t>(p.values[v].elements, 0)) *
                                 size_bytes(p.values[v].dtype));
    }
    return candidate;
  }

  /// Operands become numbers, or inputs that are read row-major.
  bool simplify_operands() {
    bool any = false;
    for (std::size_t i = 0; i < best_.program.ops.size(); ++i) {
      for (std::size_t k = 0; k < best_.program.ops[i].inputs.size(); ++k) {
        const Operand operand = best_.program.ops[i].inputs[k];
        if (operand.is_scalar()) continue;
        RandomProgram candidate = best_;
        Operand one;
        one.scalar.real = 1;
        candidate.program.ops[i].inputs[k] = one;
        if (accept(std::move(candidate))) {
          any = true;
          continue;
        }
        const Value& value = best_.program.values[operand.value];
        const bool is_plain = value.kind == ValueKind::kInput && operand.view == View::contiguous(operand.view.sizes) &&
                              operand.view.elements() == value.elements;
        if (!is_plain) any = accept(with_fresh_input(i, k)) || any;
      }
    }
    return any;
  }

  RandomProgram with_fresh_input(std::size_t op, std::size_t k) const {
    RandomProgram candidate = best_;
    Program& p = candidate.program;
    Operand& operand = p.ops[op].inputs[k];
    const auto fresh = static_cast<ValueId>(p.values.size());
    Bytes bytes = read_tensor(p, Output{"", operand, {}, {}}, values());
    p.values.push_back({ValueKind::kTemporary, p.values[operand.value].dtype, operand.view.elements(), "", kNone});
    candidate.values.emplace_back();
    become_input(candidate, fresh, std::move(bytes));
    operand = {fresh, View::contiguous(operand.view.sizes), {}};
    return candidate;
  }

  bool simplify_data() {
    bool any = false;
    for (ValueId v = 0; v < best_.program.values.size(); ++v) {
      const Value value = best_.program.values[v];
      if (value.kind == ValueKind::kTemporary || value.elements == 0) continue;
      for (const std::int64_t plain : {0, 1}) {
        Numbers numbers = Numbers::zeros(value.dtype, static_cast<std::size_t>(value.elements));
        std::ranges::fill(numbers.real, static_cast<double>(plain));
        std::ranges::fill(numbers.integer, plain);
        RandomProgram candidate = best_;
        store(numbers, value.dtype, View::contiguous({value.elements}), candidate.values[v]);
        if (candidate.values[v] == best_.values[v]) break;  // as plain as it gets
        if (!accept(std::move(candidate))) continue;
        any = true;
        break;
      }
    }
    return any;
  }

  RandomProgram best_;
  const std::function<bool(const RandomProgram&)>& fails_;
};

}  // namespace

RandomProgram shrink(RandomProgram failing, const std::function<bool(const RandomProgram&)>& fails) {
  return Shrinker(std::move(failing), fails).run();
}

std::string with_data(const RandomProgram& random) {
  constexpr std::size_t kMost = 8;
  std::string text = to_text(random.program);
  for (ValueId v = 0; v < random.program.values.size(); ++v) {
    const Value& value = random.program.values[v];
    if (value.kind == ValueKind::kTemporary) continue;
    const Numbers numbers = load(random.values[v], value.dtype, View::contiguous({value.elements}));
    text += fmt::format("%{} holds", v);
    for (std::size_t i = 0; i < std::min(numbers.size(), kMost); ++i) {
      text += numbers.is_integer ? fmt::format(" {}", numbers.integer[i]) : fmt::format(" {}", numbers.real[i]);
    }
    text += numbers.size() > kMost ? " ...\n" : "\n";
  }
  for (std::size_t s = 0; s < random.slots.size(); ++s) {
    const Number& number = random.slots[s];
    text += number.is_integer() ? fmt::format("slot {} holds {}\n", s, number.integer())
                                : fmt::format("slot {} holds {}\n", s, number.real());
  }
  return text;
}

}  // namespace crucible::graph
