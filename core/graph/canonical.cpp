// Colours (64-bit mixtures) say what each op computes from what and who uses it; they only order the ops. Then
// everything is written out in that order.
#include "core/graph/canonical.hpp"

#include <algorithm>
#include <bit>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "core/graph/byte_writer.hpp"
#include "core/graph/composite.hpp"
#include "core/graph/opaque.hpp"
#include "core/graph/queries.hpp"

namespace crucible::graph {
namespace {

/// A bijective mixture of 64 bits (the finalizer of SplitMix64), so that no two numbers become one.
constexpr std::uint64_t scramble(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}
constexpr std::uint64_t mix(std::uint64_t a, std::uint64_t b) { return scramble(scramble(a) ^ b); }

/// The first bytes of a hash as a colour.
std::uint64_t colour_of(const ContentHash& hash) {
  std::uint64_t colour = 0;
  for (int i = 0; i < 8; ++i) colour |= std::uint64_t{hash.bytes[static_cast<std::size_t>(i)]} << (8 * i);
  return colour;
}

// What colours of other things begin with.
constexpr std::uint64_t kFixed = 1, kSlot = 2, kState = 3, kBecomes = 4, kLeaves = 5, kShown = 6, kOperand = 16;

struct BytesHash {
  std::size_t operator()(const std::string& bytes) const {
    return checksum64(std::as_bytes(std::span(bytes.data(), bytes.size())));
  }
};

}  // namespace

Canonical::Canonical(const Program& program, std::span<const ContentHash> constants)
    : program_(program),
      constants_(constants),
      constant_of_(program.values.size(), kNone),
      is_draw_(program.values.size(), false),
      ends_state_(program.values.size(), kNone),
      read_counts_(graph::read_counts(program)),
      place_(program.ops.size(), kNone),
      number_(program.values.size(), kNone) {
  for (const Constant& constant : program.constants) constant_of_[constant.value] = constant.blob;
  for (const Input& input : program.inputs) is_draw_[input.value] = input.is_draw;
  for (std::uint32_t k = 0; k < program.states.size(); ++k) {
    const State& state = program.states[k];
    if (state.start != state.end) ends_state_[state.end] = k;
  }
  describe_ops();
}

std::span<const Canonical::Port> Canonical::inputs(OpId op) const {
  return std::span(inputs_).subspan(first_input_[op], first_input_[op + 1] - first_input_[op]);
}

std::span<const ValueId> Canonical::outputs(OpId op) const {
  return std::span(outputs_).subspan(first_output_[op], first_output_[op + 1] - first_output_[op]);
}

/// Everything about an op but which values and slots it names. The number of an entry of composites or opaques says
/// nothing: its content is written instead.
void Canonical::describe_ops() {
  std::vector<ContentHash> composites;
  for (const auto& composite : program_.composites) {
    const std::string text = identity(*composite);
    composites.push_back(sha256(std::as_bytes(std::span(text))));
  }
  std::unordered_map<std::string, std::uint32_t, BytesHash> known;
  std::vector<std::byte> bytes;
  ByteWriter write(bytes);
  form_of_.reserve(program_.ops.size());
  for (const Op& op : program_.ops) {
    first_input_.push_back(static_cast<std::uint32_t>(inputs_.size()));
    first_output_.push_back(static_cast<std::uint32_t>(outputs_.size()));
    bytes.clear();
    write.text(name(op.kind));
    write.number(static_cast<std::int64_t>(op.inputs.size()));
    for (const Operand& input : op.inputs) {
      inputs_.push_back({input.value, input.is_scalar() ? input.scalar.slot : kNone});
      if (!input.is_scalar()) {
        write.number(0);
        write.value(program_.values[input.value]);
        write.view(input.view);
      } else if (input.scalar.slot != kNone) {
        write.number(1);
        write.number(input.scalar.is_integer);
      } else {
        write.number(2);
        write.number(input.scalar.is_integer);
        write.number(input.scalar.is_integer ? input.scalar.integer : std::bit_cast<std::int64_t>(input.scalar.real));
      }
    }
    write.number(static_cast<std::int64_t>(op.outputs.size()));
    for (const Operand& output : op.outputs) {
      outputs_.push_back(output.value);
      write.value(program_.values[output.value]);
      write.view(output.view);
    }
    const Attributes& a = op.attributes;
    write.numbers(a.dims);
    if (op.kind == OpKind::kOpaque) {
      write.text(to_json(opaque_of(program_, op)));
    } else if (op.kind == OpKind::kComposite) {
      write.hash(composites[static_cast<std::size_t>(a.index)]);
    } else {
      write.number(a.index);
    }
    write.number(std::bit_cast<std::int64_t>(a.alpha));
    write.view(a.region);
    for (const auto* pair : {a.kernel, a.stride, a.padding, a.dilation}) {
      write.number(pair[0]);
      write.number(pair[1]);
    }
    write.number(a.groups);
    if (a.pieces != 0) write.number(a.pieces);  // programs of files have none
    const std::string key(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const auto [entry, is_new] = known.try_emplace(key, static_cast<std::uint32_t>(forms_.size()));
    if (is_new) forms_.push_back(sha256(bytes));
    form_of_.push_back(entry->second);
  }
  first_input_.push_back(static_cast<std::uint32_t>(inputs_.size()));
  first_output_.push_back(static_cast<std::uint32_t>(outputs_.size()));
}

Canonical::Colour Canonical::outside(ValueId value, Roles roles) const {
  const Value& it = program_.values[value];
  Colour colour = mix(static_cast<Colour>(it.dtype), static_cast<Colour>(it.elements));
  const std::uint32_t blob = constant_of_[value];
  if (blob != kNone) colour = mix(colour, blob < constants_.size() ? colour_of(constants_[blob]) : kFixed);
  if (roles == Roles::kProgram) colour = mix(colour, static_cast<Colour>(it.kind) * 2 + is_draw_[value]);
  return colour;
}

/// Numbers the ops and what they name. The ops are taken in the program's order, in which definitions come before uses.
void Canonical::enter(std::span<const OpId> ops, Roles roles) {
  ops_.assign(ops.begin(), ops.end());
  if (!std::ranges::is_sorted(ops_)) std::ranges::sort(ops_);
  values_.clear();
  const auto meet = [&](ValueId value) {
    if (number_[value] != kNone) return;
    number_[value] = static_cast<std::uint32_t>(values_.size());
    values_.push_back(value);
  };
  for (std::uint32_t i = 0; i < ops_.size(); ++i) {
    place_[ops_[i]] = i;
    for (const Port& input : inputs(ops_[i])) {
      if (input.value != kNone) meet(input.value);
    }
    for (const ValueId output : outputs(ops_[i])) meet(output);
  }
  leaf_.assign(values_.size(), 0);
  value_.assign(values_.size(), 0);
  uses_.assign(values_.size(), 0);
  op_.assign(ops_.size(), 0);
  read_inside_.assign(values_.size(), 0);
  for (std::size_t v = 0; v < values_.size(); ++v) {
    const OpId producer = program_.values[values_[v]].producer;
    if (producer == kNone || place_[producer] == kNone) leaf_[v] = outside(values_[v], roles);
  }
  for (const OpId op : ops_) {
    for (const Port& input : inputs(op)) {
      if (input.value != kNone) ++read_inside_[number_[input.value]];
    }
  }
}

void Canonical::colour_forward() {
  for (std::size_t v = 0; v < values_.size(); ++v) value_[v] = leaf_[v];
  for (std::size_t i = 0; i < ops_.size(); ++i) {
    const OpId op = ops_[i];
    Colour colour = colour_of(forms_[form_of_[op]]);
    for (const Port& input : inputs(op)) {
      colour = mix(colour, input.value != kNone ? value_[number_[input.value]] : input.slot != kNone ? kSlot : kFixed);
    }
    op_[i] = colour;
    Colour place = 0;
    for (const ValueId output : outputs(op)) value_[number_[output]] = mix(colour, place++);
  }
}

/// Sums over users do not depend on their order.
void Canonical::colour_uses(Roles roles) {
  std::ranges::fill(uses_, Colour{0});
  for (std::size_t i = 0; i < ops_.size(); ++i) {
    Colour place = kOperand;
    for (const Port& input : inputs(ops_[i])) {
      if (input.value != kNone) uses_[number_[input.value]] += mix(op_[i], place);
      ++place;
    }
  }
  for (std::size_t v = 0; v < values_.size(); ++v) {
    const ValueId value = values_[v];
    // Of an operand it says nothing of the part that others read it, too.
    if (leaf_[v] == 0 && read_counts_[value] > read_inside_[v]) uses_[v] += kLeaves;
    const std::uint32_t state = ends_state_[value];
    if (state == kNone) continue;
    const std::uint32_t start = number_[program_.states[state].start];
    uses_[v] += mix(start == kNone ? 0 : leaf_[start], kState);
    if (start != kNone) uses_[start] += mix(value_[v], kBecomes);
  }
  if (roles != Roles::kProgram) return;
  for (std::size_t k = 0; k < program_.outputs.size(); ++k) {
    const Operand& shown = program_.outputs[k].operand;
    if (!shown.is_scalar() && number_[shown.value] != kNone) uses_[number_[shown.value]] += mix(k, kShown);
  }
}

void Canonical::sort(CanonicalForm& form) {
  std::vector<std::uint32_t> waiting(ops_.size(), 0);  // operands whose producers have not been placed
  std::vector<std::uint32_t> first(values_.size() + 1, 0), users;
  for (const OpId op : ops_) {
    for (const Port& input : inputs(op)) {
      if (input.value != kNone) ++first[number_[input.value] + 1];
    }
  }
  for (std::size_t v = 0; v < values_.size(); ++v) first[v + 1] += first[v];
  users.resize(first.back());
  std::vector<std::uint32_t> next(first.begin(), first.end() - 1);
  for (std::uint32_t i = 0; i < ops_.size(); ++i) {
    for (const Port& input : inputs(ops_[i])) {
      if (input.value == kNone) continue;
      users[next[number_[input.value]]++] = i;
      const OpId producer = program_.values[input.value].producer;
      waiting[i] += producer != kNone && place_[producer] != kNone;
    }
  }
  std::vector<Colour> priority(ops_.size());
  for (std::size_t i = 0; i < ops_.size(); ++i) {
    Colour uses = 0;
    for (const ValueId output : outputs(ops_[i])) uses += uses_[number_[output]];
    priority[i] = mix(op_[i], uses);
  }
  // Between ops of one colour those numbers decide that their operands have got so far, so that of several equal
  // chains each is followed alike, whichever comes first; the program's order only where that is the same, too.
  using Entry = std::tuple<Colour, Colour, std::uint32_t>;
  std::set<Entry> ready;
  std::vector<Colour> tie(ops_.size(), 0);
  std::vector<std::uint32_t> given(values_.size(), kNone);
  std::uint32_t numbers = 0;
  const auto enter = [&](std::uint32_t i) {
    tie[i] = 0;
    for (const Port& input : inputs(ops_[i])) {
      if (input.value != kNone) tie[i] = mix(tie[i], given[number_[input.value]]);
    }
    ready.emplace(priority[i], tie[i], i);
  };
  for (std::uint32_t i = 0; i < ops_.size(); ++i) {
    if (waiting[i] == 0) enter(i);
  }
  form.order.reserve(ops_.size());
  while (!ready.empty()) {
    const std::uint32_t i = std::get<2>(*ready.begin());
    ready.erase(ready.begin());
    form.order.push_back(ops_[i]);
    waiting[i] = kNone;
    for (const Port& input : inputs(ops_[i])) {
      if (input.value == kNone || given[number_[input.value]] != kNone) continue;
      const std::uint32_t v = number_[input.value];
      given[v] = numbers++;
      for (std::uint32_t at = first[v]; at < first[v + 1]; ++at) {
        if (waiting[users[at]] != 0 || ready.erase({priority[users[at]], tie[users[at]], users[at]}) == 0) continue;
        enter(users[at]);
      }
    }
    for (const ValueId output : outputs(ops_[i])) {
      const std::uint32_t v = number_[output];
      given[v] = numbers++;
      for (std::uint32_t at = first[v]; at < first[v + 1]; ++at) {
        if (--waiting[users[at]] == 0) enter(users[at]);
      }
    }
  }
}

void Canonical::write(CanonicalForm& form, Roles roles) {
  ByteWriter write(form.bytes);
  std::vector<std::uint32_t> given(values_.size(), kNone);  // numbers in the form
  std::unordered_map<SlotId, std::uint32_t> slots;
  const auto number_next = [&](ValueId value) {
    const auto number = static_cast<std::uint32_t>(form.numbered.size());
    given[number_[value]] = number;
    form.numbered.push_back(value);
    return number;
  };
  form.bytes.reserve(ops_.size() * 64);
  for (const OpId op : form.order) {
    write.hash(forms_[form_of_[op]]);
    for (const Port& input : inputs(op)) {
      if (input.value == kNone) {
        if (input.slot == kNone) continue;
        const auto [entry, is_new] = slots.try_emplace(input.slot, static_cast<std::uint32_t>(slots.size()));
        if (is_new) form.slots.push_back(input.slot);
        write.small(entry->second);
        continue;
      }
      if (const std::uint32_t number = given[number_[input.value]]; number != kNone) {
        write.small(number);
        continue;
      }
      write.small(number_next(input.value));
      form.operands.push_back(input.value);
      const std::uint32_t blob = constant_of_[input.value];
      if (roles == Roles::kProgram) {
        write.small(static_cast<std::uint32_t>(program_.values[input.value].kind) * 2 + is_draw_[input.value]);
      } else {
        write.small(blob != kNone);
      }
      if (blob != kNone && blob < constants_.size()) write.hash(constants_[blob]);
    }
    for (const ValueId output : outputs(op)) {
      number_next(output);
      const bool leaves = read_counts_[output] > read_inside_[number_[output]];
      if (leaves) form.results.push_back(output);
      write.small(leaves);
    }
  }
  // Which operand each result takes the place of when the iteration ends.
  for (const ValueId result : form.results) {
    const std::uint32_t state = ends_state_[result];
    if (state == kNone) continue;
    const std::uint32_t start = number_[program_.states[state].start];
    write.small(given[number_[result]]);
    write.small(start == kNone ? kNone : given[start]);
  }
}

CanonicalForm Canonical::form(std::span<const OpId> ops, Roles roles) {
  enter(ops, roles);
  // What comes from outside is known by what it is, then by who uses it, then by who uses its users' results.
  for (int round = 0; round < 2; ++round) {
    colour_forward();
    colour_uses(roles);
    for (std::size_t v = 0; v < values_.size(); ++v) {
      if (leaf_[v] != 0) leaf_[v] = mix(leaf_[v], uses_[v]);
    }
  }
  colour_forward();
  colour_uses(roles);
  CanonicalForm form;
  sort(form);
  write(form, roles);
  for (const OpId op : ops_) place_[op] = kNone;
  for (const ValueId value : values_) number_[value] = kNone;
  return form;
}

}  // namespace crucible::graph
