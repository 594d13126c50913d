// The identity of a program: see program_hash.hpp. Its ops in canonical form, then what it shows and which values are
// states.
#include "core/graph/program_hash.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "core/graph/byte_writer.hpp"
#include "core/graph/canonical.hpp"

namespace crucible::graph {
namespace {

CanonicalForm whole(const Program& program, std::span<const ContentHash> constants) {
  std::vector<OpId> ops(program.ops.size());
  std::iota(ops.begin(), ops.end(), OpId{0});
  return Canonical(program, constants).form(ops, Roles::kProgram);
}

/// Gives numbers to values that no op names, where an output or a state does.
class Numbers {
 public:
  Numbers(const Program& program, const CanonicalForm& form)
      : program_(program),
        number_(program.values.size(), kNone),
        is_draw_(program.values.size(), false),
        next_(static_cast<std::uint32_t>(form.numbered.size())) {
    for (std::uint32_t k = 0; k < next_; ++k) number_[form.numbered[k]] = k;
    for (const Input& input : program.inputs) is_draw_[input.value] = input.is_draw;
    for (std::uint32_t k = 0; k < form.slots.size(); ++k) slots_.emplace_back(form.slots[k], k);
  }

  void write(ByteWriter& bytes, const Operand& operand) {
    if (!operand.is_scalar()) {
      const bool is_new = number_[operand.value] == kNone;
      if (is_new) number_[operand.value] = next_++;
      bytes.number(number_[operand.value]);
      if (is_new) {
        const Value& value = program_.values[operand.value];
        bytes.number(static_cast<std::int64_t>(value.kind) * 2 + is_draw_[operand.value]);
        bytes.value(value);
      }
      return bytes.view(operand.view);
    }
    const Scalar& scalar = operand.scalar;
    bytes.number(-1);
    bytes.number(scalar.is_integer);
    if (scalar.slot == kNone) {
      bytes.number(-1);
      return bytes.number(scalar.is_integer ? scalar.integer : std::bit_cast<std::int64_t>(scalar.real));
    }
    const auto known = std::ranges::find(slots_, scalar.slot, &std::pair<SlotId, std::uint32_t>::first);
    bytes.number(known != slots_.end() ? known->second : static_cast<std::int64_t>(slots_.size()));
    if (known == slots_.end()) slots_.emplace_back(scalar.slot, static_cast<std::uint32_t>(slots_.size()));
  }

  std::uint32_t of(ValueId value) const { return number_[value]; }

 private:
  const Program& program_;
  std::vector<std::uint32_t> number_;  // per value; kNone where nothing names it
  std::vector<bool> is_draw_;
  std::vector<std::pair<SlotId, std::uint32_t>> slots_;
  std::uint32_t next_;
};

}  // namespace

std::vector<OpId> canonical_order(const Program& program, std::span<const ContentHash> constants) {
  return whole(program, constants).order;
}

ContentHash program_hash(const Program& program, std::span<const ContentHash> constants) {
  const CanonicalForm form = whole(program, constants);
  Numbers numbers(program, form);
  std::vector<std::byte> rest;
  ByteWriter bytes(rest);
  bytes.text("outputs");
  for (const Output& output : program.outputs) numbers.write(bytes, output.operand);
  // States by the number of what they hold; those that no op touches, and that do not change, say nothing.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> states;
  for (const State& state : program.states) {
    const auto start = numbers.of(state.start), end = numbers.of(state.end);
    if (start != kNone || end != kNone) states.emplace_back(start, end);
  }
  std::ranges::sort(states);
  bytes.text("states");
  for (const auto& [start, end] : states) {
    bytes.number(start);
    bytes.number(end);
  }
  std::vector<std::byte> head;
  ByteWriter(head).text("crucible program 2");
  ByteWriter(head).number(static_cast<std::int64_t>(form.bytes.size()));
  Sha256 hash;
  hash.update(head);
  hash.update(form.bytes);
  hash.update(rest);
  return hash.finish();
}

}  // namespace crucible::graph
