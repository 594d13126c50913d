// The identity of a program: see program_hash.hpp. First colours (64-bit checksums) say what each op computes from what
// and who uses it; they only order the ops. Then everything is written out in that order and hashed.
#include "core/graph/program_hash.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <queue>
#include <string_view>

#include "core/graph/composite.hpp"
#include "core/graph/opaque.hpp"
#include "core/graph/queries.hpp"
#include "core/graph/view.hpp"

namespace crucible::graph {
namespace {

using Colour = std::uint64_t;

/// Numbers and texts as unambiguous bytes, little-endian.
class Bytes64 {
 public:
  void add(std::int64_t number) {
    bytes_.resize(bytes_.size() + 8);
    put(bytes_.data() + bytes_.size() - 8, number);
  }
  static void put(std::byte* where, std::int64_t number) {
    const auto bits = static_cast<std::uint64_t>(number);
    for (int i = 0; i < 8; ++i) where[i] = static_cast<std::byte>(bits >> (8 * i));
  }
  void add_colour(Colour colour) { add(std::bit_cast<std::int64_t>(colour)); }
  void add(std::string_view text) {
    add(static_cast<std::int64_t>(text.size()));
    for (const char c : text) bytes_.push_back(static_cast<std::byte>(c));
  }
  void add(const std::vector<std::int64_t>& numbers) {
    add(static_cast<std::int64_t>(numbers.size()));
    for (const auto number : numbers) add(number);
  }
  /// As normalized() has it, without a copy of its own.
  void add(const View& view) {
    if (view.elements() == 0) {
      const View plain = normalized(view);
      add(plain.offset);
      add(plain.sizes);
      return add(plain.strides);
    }
    add(view.offset);
    add(view.sizes);
    add(view.strides);
    std::int64_t inner = 1;  // what a dimension of size 1 has as its stride
    for (std::size_t d = view.sizes.size(); d-- > 0;) {
      const std::int64_t stride = view.sizes[d] == 1 ? inner : view.strides[d];
      if (view.sizes[d] == 1) put(bytes_.data() + bytes_.size() - 8 * (view.sizes.size() - d), stride);
      inner = view.sizes[d] * stride;
    }
  }
  void add(const ContentHash& hash) {
    for (const auto byte : hash.bytes) bytes_.push_back(static_cast<std::byte>(byte));
  }
  void clear() { bytes_.clear(); }
  const std::vector<std::byte>& bytes() const { return bytes_; }
  Colour colour() const { return checksum64(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

/// Per entry of Program::composites what it computes.
std::vector<ContentHash> identities(const Program& program) {
  std::vector<ContentHash> hashes;
  for (const auto& composite : program.composites) {
    Sha256 hash;
    const std::string text = identity(*composite);
    hash.update(std::as_bytes(std::span(text)));
    hashes.push_back(hash.finish());
  }
  return hashes;
}

/// The number of an entry says nothing: its content is written instead.
void add_attributes(Bytes64& bytes, const Program& program, const std::vector<ContentHash>& composites, const Op& op) {
  const Attributes& a = op.attributes;
  bytes.add(a.dims);
  if (op.kind == OpKind::kOpaque) {
    bytes.add(to_json(opaque_of(program, op)));
  } else if (op.kind == OpKind::kComposite) {
    bytes.add(composites[static_cast<std::size_t>(a.index)]);
  } else {
    bytes.add(a.index);
  }
  bytes.add(std::bit_cast<std::int64_t>(a.alpha));
  bytes.add(a.region);
  for (const auto* pair : {a.kernel, a.stride, a.padding, a.dilation}) {
    bytes.add(pair[0]);
    bytes.add(pair[1]);
  }
  bytes.add(a.groups);
  if (a.pieces != 0) bytes.add(a.pieces);  // programs of files have none
}

/// A fixed number; for a slot `slot` stands for which one it is.
void add_scalar(Bytes64& bytes, const Scalar& scalar, std::int64_t slot) {
  bytes.add(scalar.slot == kNone ? -1 : slot);
  bytes.add(scalar.is_integer);
  if (scalar.slot == kNone) bytes.add(scalar.is_integer ? scalar.integer : std::bit_cast<std::int64_t>(scalar.real));
}

void add_value(Bytes64& bytes, const Value& value) {
  bytes.add(static_cast<std::int64_t>(value.kind));
  bytes.add(name(value.dtype));
  bytes.add(value.elements);
}

class Colouring {
 public:
  Colouring(const Program& program, std::span<const ContentHash> constants)
      : program_(program),
        composites_(identities(program)),
        leaf_(program.values.size()),
        value_(program.values.size()),
        op_(program.ops.size()) {
    colour_leaves(constants);
    // A leaf is known by what it holds, then by who uses it, then by who uses its users' results.
    for (int round = 0; round < 2; ++round) {
      forward();
      refine_leaves();
    }
    forward();
    colour_uses();
  }

  /// What the op computes, and what becomes of it.
  Colour priority(OpId op) const {
    Colour uses = 0;
    for (const Operand& output : program_.ops[op].outputs) uses += uses_[output.value];
    return mix(op_[op], uses);
  }

 private:
  static Colour mix(Colour a, Colour b) {
    std::array<std::byte, 16> bytes;
    Bytes64::put(bytes.data(), std::bit_cast<std::int64_t>(a));
    Bytes64::put(bytes.data() + 8, std::bit_cast<std::int64_t>(b));
    return checksum64(bytes);
  }

  void colour_leaves(std::span<const ContentHash> constants) {
    Bytes64 bytes;
    for (ValueId v = 0; v < program_.values.size(); ++v) {
      bytes.clear();
      add_value(bytes, program_.values[v]);
      leaf_[v] = bytes.colour();
    }
    for (const Constant& constant : program_.constants) {
      if (constant.blob >= constants.size()) continue;
      bytes.clear();
      bytes.add_colour(leaf_[constant.value]);
      bytes.add(constants[constant.blob]);
      leaf_[constant.value] = bytes.colour();
    }
    for (const Input& input : program_.inputs) leaf_[input.value] = mix(leaf_[input.value], input.is_draw);
  }

  void forward() {
    value_ = leaf_;
    Bytes64 bytes;
    for (OpId id = 0; id < program_.ops.size(); ++id) {
      const Op& op = program_.ops[id];
      bytes.clear();
      bytes.add(name(op.kind));
      for (const Operand& input : op.inputs) {
        if (input.is_scalar()) {
          add_scalar(bytes, input.scalar, 0);
        } else {
          bytes.add_colour(value_[input.value]);
          bytes.add(input.view);
        }
      }
      for (const Operand& output : op.outputs) {
        add_value(bytes, program_.values[output.value]);
        bytes.add(output.view);
      }
      add_attributes(bytes, program_, composites_, op);
      op_[id] = bytes.colour();
      for (std::size_t k = 0; k < op.outputs.size(); ++k) value_[op.outputs[k].value] = mix(op_[id], k);
    }
  }

  /// Sums over users do not depend on their order.
  void colour_uses() {
    uses_.assign(program_.values.size(), 0);
    for (OpId id = 0; id < program_.ops.size(); ++id) {
      const Op& op = program_.ops[id];
      for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        if (!op.inputs[i].is_scalar()) uses_[op.inputs[i].value] += mix(op_[id], i + 16);
      }
    }
    for (const State& state : program_.states) {
      uses_[state.end] += mix(leaf_[state.start], 1);
      uses_[state.start] += mix(value_[state.end], 2);
    }
    for (std::size_t k = 0; k < program_.outputs.size(); ++k) {
      if (!program_.outputs[k].operand.is_scalar()) uses_[program_.outputs[k].operand.value] += mix(k, 3);
    }
  }

  void refine_leaves() {
    colour_uses();
    for (ValueId v = 0; v < program_.values.size(); ++v) {
      if (program_.values[v].producer == kNone) leaf_[v] = mix(leaf_[v], uses_[v]);
    }
  }

  const Program& program_;
  std::vector<ContentHash> composites_;
  std::vector<Colour> leaf_, value_, uses_;  // per value
  std::vector<Colour> op_;
};

/// Writes values and slots as numbers in the order in which they appear.
class Writer {
 public:
  Writer(const Program& program, std::span<const ContentHash> constants)
      : program_(program), blob_of_(program.values.size(), kNone), is_draw_(program.values.size(), false),
        value_number_(program.values.size(), kNone), slot_number_(program.slots.size(), kNone), constants_(constants) {
    for (const Constant& constant : program.constants) blob_of_[constant.value] = constant.blob;
    for (const Input& input : program.inputs) is_draw_[input.value] = input.is_draw;
  }

  void write(Bytes64& bytes, const Operand& operand) {
    if (operand.is_scalar()) {
      bytes.add(std::int64_t{-1});
      return add_scalar(bytes, operand.scalar,
                        operand.scalar.slot == kNone ? 0 : number(slot_number_, operand.scalar.slot, slots_));
    }
    write_value(bytes, operand.value);
    bytes.add(operand.view);
  }

  void write_value(Bytes64& bytes, ValueId value) {
    const bool is_new = value_number_[value] == kNone;
    bytes.add(number(value_number_, value, values_));
    if (!is_new) return;
    add_value(bytes, program_.values[value]);
    bytes.add(is_draw_[value]);
    const std::uint32_t blob = blob_of_[value];
    if (blob != kNone && blob < constants_.size()) bytes.add(constants_[blob]);
  }

  /// Values that nobody has named yet have the number kNone.
  std::uint32_t number_of(ValueId value) const { return value_number_[value]; }

 private:
  static std::int64_t number(std::vector<std::uint32_t>& numbers, std::uint32_t id, std::uint32_t& next) {
    if (numbers[id] == kNone) numbers[id] = next++;
    return numbers[id];
  }

  const Program& program_;
  std::vector<std::uint32_t> blob_of_;
  std::vector<bool> is_draw_;
  std::vector<std::uint32_t> value_number_, slot_number_;
  std::uint32_t values_ = 0, slots_ = 0;
  std::span<const ContentHash> constants_;
};

}  // namespace

std::vector<OpId> canonical_order(const Program& program, std::span<const ContentHash> constants) {
  const Colouring colours(program, constants);
  const Dependences order_of = dependences(program);
  std::vector<std::size_t> waiting(program.ops.size());  // producers that have not been placed
  for (OpId id = 0; id < program.ops.size(); ++id) waiting[id] = order_of.before[id].size();
  using Entry = std::pair<Colour, OpId>;  // the smallest first; the old order between equals
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  for (OpId id = 0; id < program.ops.size(); ++id) {
    if (waiting[id] == 0) ready.emplace(colours.priority(id), id);
  }
  std::vector<OpId> order;
  order.reserve(program.ops.size());
  while (!ready.empty()) {
    const OpId id = ready.top().second;
    ready.pop();
    order.push_back(id);
    for (const OpId user : order_of.after[id]) {
      if (--waiting[user] == 0) ready.emplace(colours.priority(user), user);
    }
  }
  return order;
}

ContentHash program_hash(const Program& program, std::span<const ContentHash> constants) {
  Sha256 hash;
  Bytes64 bytes;
  const auto flush = [&] {
    hash.update(bytes.bytes());
    bytes.clear();
  };
  bytes.add("crucible program 1");
  Writer writer(program, constants);
  const std::vector<ContentHash> composites = identities(program);
  for (const OpId id : canonical_order(program, constants)) {
    const Op& op = program.ops[id];
    bytes.add(name(op.kind));
    bytes.add(static_cast<std::int64_t>(op.inputs.size()));
    for (const Operand& input : op.inputs) writer.write(bytes, input);
    bytes.add(static_cast<std::int64_t>(op.outputs.size()));
    for (const Operand& output : op.outputs) writer.write(bytes, output);
    add_attributes(bytes, program, composites, op);
    flush();
  }
  bytes.add("outputs");
  for (const Output& output : program.outputs) writer.write(bytes, output.operand);
  // States by the canonical number of what they hold; those that no op touches, and that do not change, say nothing.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> states;
  for (const State& state : program.states) {
    const auto start = writer.number_of(state.start), end = writer.number_of(state.end);
    if (start != kNone || end != kNone) states.emplace_back(start, end);
  }
  std::ranges::sort(states);
  bytes.add("states");
  for (const auto& [start, end] : states) {
    bytes.add(start);
    bytes.add(end);
  }
  flush();
  return hash.finish();
}

}  // namespace crucible::graph
