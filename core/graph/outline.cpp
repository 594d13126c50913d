// Making composites: see outline.hpp. Ops and values that become a body go; what is left is renumbered in its old
// order.
#include "core/graph/outline.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <unordered_map>
#include <utility>

#include "core/graph/meaning.hpp"
#include "core/graph/queries.hpp"
#include "core/graph/view.hpp"

namespace crucible::graph {
namespace {

bool same_bits(double a, double b) { return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b); }

bool same(const Scalar& a, const Scalar& b) {
  return a.slot == b.slot && a.is_integer == b.is_integer && a.integer == b.integer && same_bits(a.real, b.real);
}

bool same(const Attributes& a, const Attributes& b) {
  const auto pairs = [&](auto field) { return std::ranges::equal(a.*field, b.*field); };
  return a.dims == b.dims && a.index == b.index && same_bits(a.alpha, b.alpha) && a.region == b.region &&
         a.groups == b.groups && a.pieces == b.pieces && pairs(&Attributes::kernel) && pairs(&Attributes::stride) &&
         pairs(&Attributes::padding) && pairs(&Attributes::dilation);
}

bool same(const CompositeAttribute& a, const CompositeAttribute& b) {
  return a.name == b.name && a.is_list == b.is_list &&
         std::ranges::equal(a.numbers, b.numbers, [](const Scalar& x, const Scalar& y) { return same(x, y); });
}

/// A checksum of numbers: what differs in it differs, what agrees is compared.
class Checksum {
 public:
  void add(std::uint64_t number) {
    sum_ = (sum_ ^ number) * 0x9e3779b97f4a7c15u;
    sum_ ^= sum_ >> 29;
  }
  void add(const View& view) {
    add(static_cast<std::uint64_t>(view.offset));
    for (const std::int64_t size : view.sizes) add(static_cast<std::uint64_t>(size));
    for (const std::int64_t stride : view.strides) add(static_cast<std::uint64_t>(stride));
  }
  std::uint64_t sum() const { return sum_; }

 private:
  std::uint64_t sum_ = 0;
};

class Outliner {
 public:
  explicit Outliner(Program& program)
      : program_(program),
        reads_(read_counts(program)),
        local_(program.values.size(), kNone),
        is_gone_(program.values.size(), false) {}

  std::uint32_t run(std::vector<Outline>& outlines) {
    std::ranges::sort(outlines, {}, &Outline::first);
    // In place: what is left is never behind where it stood, and the memory behind it is there when bodies come back.
    std::vector<Op>& ops = program_.ops;
    OpId next = 0, left = 0;
    std::uint32_t made = 0;
    const auto keep_until = [&](OpId end) {
      for (; next < end; ++next, ++left) {
        if (left != next) ops[left] = std::move(ops[next]);
      }
    };
    for (const Outline& outline : outlines) {
      if (outline.first < next || outline.end <= outline.first || outline.end > ops.size() || !gather(outline))
        continue;
      keep_until(outline.first);
      ops[left++] = composite_op(outline);
      next = outline.end;
      ++made;
    }
    if (made == 0) return 0;
    keep_until(static_cast<OpId>(ops.size()));
    ops.resize(left);
    renumber();
    return made;
  }

 private:
  /// What one outline reads and makes. False where it cannot become a composite.
  bool gather(const Outline& outline) {
    made_.clear();
    bool fits = true;
    for (OpId id = outline.first; id < outline.end; ++id) {
      const Op& op = program_.ops[id];
      fits = fits && static_cast<int>(op.kind) < kOpKindCount && op.source == program_.ops[outline.first].source;
      for (const Operand& out : op.outputs) made_.push_back(out.value);
    }
    for (const ValueId value : made_) local_[value] = 0;  // made here
    used_.assign(outline.inputs.size(), false);
    slots_.clear();
    for (const Role& role : outline.inputs) {  // numbers that differ between iterations, whether the body reads them or
                                               // what follows from them
      if (role.operand.is_scalar() && role.operand.scalar.slot != kNone) add_slot(role.operand.scalar);
    }
    choices_.clear();
    for (OpId id = outline.first; id < outline.end && fits; ++id) {
      for (const Operand& input : program_.ops[id].inputs) {
        if (!(fits = gather_read(outline, input))) break;
      }
    }
    if (fits) gather_results(outline);
    fits = fits && !results_.empty();
    for (const ValueId value : made_) local_[value] = kNone;
    return fits;
  }

  bool gather_read(const Outline& outline, const Operand& input) {
    if (input.is_scalar()) {
      if (input.scalar.slot != kNone) add_slot(input.scalar);
      return true;
    }
    if (local_[input.value] != kNone) {
      ++local_[input.value];  // so often read inside
      return true;
    }
    const std::size_t role = role_of(outline, input);
    if (role == kNone) return false;
    used_[role] = true;
    choices_.push_back(role);
    return true;
  }

  void add_slot(const Scalar& scalar) {
    if (std::ranges::find(slots_, scalar.slot, &Scalar::slot) == slots_.end()) slots_.push_back(scalar);
  }

  /// What the body calls a slot.
  const std::string& slot_name(const Outline& outline, SlotId slot) const {
    const auto is_it = [&](const Role& role) { return role.operand.is_scalar() && role.operand.scalar.slot == slot; };
    const auto role = std::ranges::find_if(outline.inputs, is_it);
    return role == outline.inputs.end() ? program_.slots[slot].name : role->name;
  }

  /// The role whose elements `read` looks at, where one value has several: the one with its ends, else the only one
  /// that holds them.
  static std::size_t role_of(const Outline& outline, const Operand& read) {
    std::size_t only = kNone, same = kNone, holding = kNone;
    int count = 0, holders = 0;
    const auto last = last_index(read.view).value_or(-1);
    for (std::size_t i = 0; i < outline.inputs.size(); ++i) {
      const Operand& role = outline.inputs[i].operand;
      if (role.is_scalar() || role.value != read.value) continue;
      ++count;
      only = i;
      const auto role_last = last_index(role.view).value_or(-1);
      if (same == kNone && role.view.offset == read.view.offset && role_last == last) same = i;
      if (role.view.offset <= read.view.offset && last <= role_last) {
        holding = i;
        ++holders;
      }
    }
    if (count <= 1) return only;
    return same != kNone ? same : holders == 1 ? holding : kNone;
  }

  /// Values that somebody outside reads, in the order in which they are made.
  void gather_results(const Outline& outline) {
    results_.clear();
    for (OpId id = outline.first; id < outline.end; ++id) {
      for (const Operand& out : program_.ops[id].outputs) {
        if (reads_[out.value] == local_[out.value]) continue;  // all of them inside
        Role result{"", out};
        for (const Role& role : outline.outputs) {
          if (role.operand.value != out.value) continue;
          result.name = role.name;
          if (covers(role.operand.view, program_.values[out.value].elements)) result.operand.view = role.operand.view;
          break;
        }
        results_.push_back(std::move(result));
      }
    }
    // In the order of the outline; those that it does not name stand last.
    const auto rank = [&](const Role& result) {
      const auto is_it = [&](const Role& role) { return role.operand.value == result.operand.value; };
      return std::ranges::find_if(outline.outputs, is_it) - outline.outputs.begin();
    };
    std::ranges::stable_sort(results_, {}, rank);
    // Inner values that have names would lose them.
    const auto is_result = [&](ValueId value) {
      return std::ranges::any_of(results_, [&](const Role& role) { return role.operand.value == value; });
    };
    for (const ValueId value : made_) {
      if (program_.values[value].name.empty() || is_result(value)) continue;
      results_.clear();
      return;
    }
  }

  Op composite_op(const Outline& outline) {
    number_values(outline);
    Op op;
    op.kind = OpKind::kComposite;
    op.source = program_.ops[outline.first].source;
    op.attributes.index = static_cast<std::int64_t>(entry_of(outline));
    for (std::size_t i = 0; i < outline.inputs.size(); ++i) {
      if (used_[i]) op.inputs.push_back(outline.inputs[i].operand);
    }
    for (const Scalar& slot : slots_) op.inputs.push_back(Operand{kNone, {}, Scalar{slot.slot, slot.is_integer, 0, 0}});
    for (const Role& result : results_) op.outputs.push_back(result.operand);
    for (const ValueId value : made_) {
      local_[value] = kNone;
      is_gone_[value] = true;
    }
    for (const Role& result : results_) is_gone_[result.operand.value] = false;
    return op;
  }

  /// Values of the body in the order of the program's, so that expand_composites() puts them back where they were.
  void number_values(const Outline& outline) {
    order_.clear();
    role_local_.assign(outline.inputs.size(), kNone);
    for (std::size_t i = 0; i < outline.inputs.size(); ++i) {
      if (used_[i]) order_.emplace_back(outline.inputs[i].operand.value, static_cast<std::uint32_t>(i));
    }
    for (const ValueId value : made_) order_.emplace_back(value, kNone);
    if (!std::ranges::is_sorted(order_)) std::ranges::sort(order_);
    for (std::uint32_t i = 0; i < order_.size(); ++i) {
      (order_[i].second == kNone ? local_[order_[i].first] : role_local_[order_[i].second]) = i;
    }
  }

  std::uint32_t local_slot(SlotId slot) const {
    return static_cast<std::uint32_t>(std::ranges::find(slots_, slot, &Scalar::slot) - slots_.begin());
  }

  /// Visits what each operand of the body is: (op, operand, value or kNone).
  template <class Visit>
  void for_each_input(const Op& op, std::size_t& read, Visit visit) const {
    for (const Operand& input : op.inputs) {
      if (input.is_scalar()) {
        visit(input, kNone);
      } else if (const ValueId inner = local_[input.value]; inner != kNone) {
        visit(input, inner);
      } else {
        visit(input, role_local_[choices_[read++]]);
      }
    }
  }

  Scalar local_scalar(const Scalar& scalar) const {
    return scalar.slot == kNone ? scalar : Scalar{local_slot(scalar.slot), scalar.is_integer, 0, 0};
  }

  std::uint64_t checksum(const Outline& outline) const {
    Checksum sum;
    sum.add(outline.attributes.size());
    for (const auto& [value, role] : order_) {
      sum.add(role);
      sum.add(static_cast<std::uint64_t>(program_.values[value].elements));
    }
    std::size_t read = 0;
    for (OpId id = outline.first; id < outline.end; ++id) {
      const Op& op = program_.ops[id];
      sum.add(static_cast<std::uint64_t>(op.kind));
      for_each_input(op, read, [&](const Operand& input, ValueId local) {
        sum.add(local);
        local == kNone ? sum.add(std::bit_cast<std::uint64_t>(input.scalar.real)) : sum.add(input.view);
      });
      for (const Operand& out : op.outputs) sum.add(out.view);
    }
    return sum.sum();
  }

  /// Whether composite() would make this one.
  bool is_it(const Outline& outline, const Composite& composite) const {
    const Program& body = composite.body;
    const auto as_read = [](const CompositeAttribute& x, const CompositeAttribute& y) { return same(x, y); };
    if (composite.name != outline.name || !std::ranges::equal(composite.attributes, outline.attributes, as_read))
      return false;
    if (body.values.size() != order_.size() || body.ops.size() != outline.end - outline.first) return false;
    if (body.slots.size() != slots_.size() || body.outputs.size() != results_.size()) return false;
    for (std::size_t i = 0; i < order_.size(); ++i) {
      const auto& [value, role] = order_[i];
      const Value &old = program_.values[value], &local = body.values[i];
      if (old.dtype != local.dtype || old.elements != local.elements ||
          (role == kNone) != (local.kind == ValueKind::kTemporary))
        return false;
      if (role != kNone && outline.inputs[role].name != local.name) return false;
    }
    std::size_t next = 0;
    for (std::size_t i = 0; i < outline.inputs.size(); ++i) {
      if (used_[i] && (next >= body.inputs.size() || body.inputs[next++].value != role_local_[i])) return false;
    }
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      if (body.slots[i].name != slot_name(outline, slots_[i].slot) || body.slots[i].is_integer != slots_[i].is_integer)
        return false;
    }
    for (std::size_t i = 0; i < results_.size(); ++i) {
      const Output& output = body.outputs[i];
      const Operand& result = results_[i].operand;
      if (output.name != results_[i].name || output.operand.value != local_[result.value] ||
          output.operand.view != result.view)
        return false;
    }
    std::size_t read = 0;
    for (OpId id = outline.first; id < outline.end; ++id) {
      if (!is_op(program_.ops[id], body.ops[id - outline.first], read)) return false;
    }
    return true;
  }

  bool is_op(const Op& op, const Op& local, std::size_t& read) const {
    if (op.kind != local.kind || op.inputs.size() != local.inputs.size() || op.outputs.size() != local.outputs.size())
      return false;
    if (!same(op.attributes, local.attributes)) return false;
    std::size_t i = 0;
    bool fits = true;
    for_each_input(op, read, [&](const Operand& input, ValueId value) {
      const Operand& other = local.inputs[i++];
      fits = fits && other.value == value &&
             (value == kNone ? same(local_scalar(input.scalar), other.scalar) : other.view == input.view);
    });
    for (std::size_t k = 0; k < op.outputs.size() && fits; ++k) {
      fits = local_[op.outputs[k].value] == local.outputs[k].value && op.outputs[k].view == local.outputs[k].view;
    }
    return fits;
  }

  /// The number of the outline's entry, an old one or a new one.
  std::size_t entry_of(const Outline& outline) {
    const std::uint64_t sum = checksum(outline);
    const auto [begin, end] = entries_.equal_range(sum);
    for (auto entry = begin; entry != end; ++entry) {
      if (is_it(outline, *program_.composites[entry->second])) return entry->second;
    }
    program_.composites.push_back(std::make_shared<const Composite>(composite(outline)));
    entries_.emplace(sum, program_.composites.size() - 1);
    return program_.composites.size() - 1;
  }

  Composite composite(const Outline& outline) const {
    Composite composite{outline.name, outline.attributes, {}};
    Program& body = composite.body;
    body.iterations = 1;
    for (const auto& [value, role] : order_) {
      const Value& old = program_.values[value];
      const bool is_input = role != kNone;
      body.values.push_back({is_input ? ValueKind::kInput : ValueKind::kTemporary, old.dtype, old.elements,
                             is_input ? outline.inputs[role].name : "", kNone});
    }
    for (std::size_t i = 0; i < outline.inputs.size(); ++i) {
      if (used_[i]) body.inputs.push_back({role_local_[i], {kNone}, false});
    }
    for (const Scalar& slot : slots_) {
      body.slots.push_back(
          {slot_name(outline, slot.slot), {slot.is_integer ? Number(std::int64_t{0}) : Number(0.0)}, slot.is_integer});
    }
    std::size_t read = 0;
    for (OpId id = outline.first; id < outline.end; ++id) {
      const Op& old = program_.ops[id];
      Op op;
      op.kind = old.kind;
      op.attributes = old.attributes;
      for_each_input(old, read, [&](const Operand& input, ValueId local) {
        op.inputs.push_back(local == kNone ? Operand{kNone, {}, local_scalar(input.scalar)}
                                           : Operand{local, input.view, {}});
      });
      for (const Operand& out : old.outputs) {
        op.outputs.push_back({local_[out.value], out.view, {}});
        body.values[local_[out.value]].producer = static_cast<OpId>(body.ops.size());
      }
      body.ops.push_back(std::move(op));
    }
    for (const Role& result : results_) {
      body.outputs.push_back({result.name, {local_[result.operand.value], result.operand.view, {}}, {}, {kNone}});
    }
    return composite;
  }

  void renumber() {
    std::erase_if(program_.meanings, [&](const Meaning& meaning) {
      const auto is_inside = [&](const Role& role) { return is_gone_[role.operand.value]; };
      return std::ranges::any_of(meaning.inputs, is_inside) || std::ranges::any_of(meaning.outputs, is_inside);
    });
    std::vector<ValueId> renamed(program_.values.size(), kNone);
    ValueId next = 0;
    for (ValueId v = 0; v < program_.values.size(); ++v) {
      if (is_gone_[v]) continue;
      renamed[v] = next;
      if (next != v) program_.values[next] = std::move(program_.values[v]);
      ++next;
    }
    program_.values.resize(next);
    for (OpId id = 0; id < program_.ops.size(); ++id) {
      for (Operand& input : program_.ops[id].inputs) {
        if (!input.is_scalar()) input.value = renamed[input.value];
      }
      for (Operand& out : program_.ops[id].outputs) {
        out.value = renamed[out.value];
        program_.values[out.value].producer = id;
      }
    }
    for (State& state : program_.states) {
      state.start = renamed[state.start];
      state.end = renamed[state.end];
    }
    for (Input& input : program_.inputs) input.value = renamed[input.value];
    for (Constant& constant : program_.constants) constant.value = renamed[constant.value];
    for (Output& output : program_.outputs) output.operand.value = renamed[output.operand.value];
    for_each_meant(program_, [&](Operand& operand) { operand.value = renamed[operand.value]; });
  }

  Program& program_;
  std::vector<std::uint32_t> reads_;  // per value, by operands, ends of states and outputs
  std::vector<std::uint32_t> local_;  // per value: its number in the body, before that how often it is read there;
                                      // kNone where the outline does not make it
  std::vector<bool> is_gone_;         // per value: inside a body
  std::unordered_multimap<std::uint64_t, std::size_t> entries_;  // by checksum

  // Of the outline at hand.
  std::vector<ValueId> made_;
  std::vector<bool> used_;            // per input role: the body reads it
  std::vector<std::size_t> choices_;  // per read of a value from outside: its role
  std::vector<Scalar> slots_;         // those that the body reads
  std::vector<Role> results_;
  std::vector<std::pair<ValueId, std::uint32_t>> order_;  // the body's values: the program's, and the role of an input
  std::vector<std::uint32_t> role_local_;                 // per input role: its number in the body
};

}  // namespace

std::uint32_t outline(Program& program, std::vector<Outline> outlines) { return Outliner(program).run(outlines); }

}  // namespace crucible::graph
