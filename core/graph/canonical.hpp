// A part of a program in a form that depends on nothing but what it computes: not on the numbers of values and ops, on
// names, sources, nor on the order of independent ops. Equal forms are equal computations. The identity of a program
// (program_hash.hpp) and the hashes of its regions (core/merkle) are SHA-256 over it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/hash.hpp"
#include "core/graph/program.hpp"

namespace crucible::graph {

/// Some ops of a program in canonical form.
struct CanonicalForm {
  std::vector<OpId> order;        // the ops: definitions before uses, else by what they compute and what becomes of it
  std::vector<ValueId> operands;  // what comes from outside of them, in the order of first use
  std::vector<ValueId> results;   // what is read outside of them or wanted at the end, in the order of the ops
  std::vector<ValueId> numbered;  // all that the ops name: place = the number that stands for it in `bytes`
  std::vector<SlotId> slots;      // in the order of first use
  std::vector<std::byte> bytes;   // everything below, unambiguous and the same on every machine
};

/// What the values that come from outside of the ops are known by.
enum class Roles : std::uint8_t {
  kPorts,   // by dtype and size alone, constants by their content too: a region, wherever it stands
  kProgram  // states, inputs and drawn numbers differ, too: a whole program
};

/// Writes parts of one program in canonical form. What ops are without their neighbours is found once; each form then
/// costs its own ops times their logarithm. The form covers the ops' kinds, attributes, dtypes, shapes, views, fixed
/// numbers, wiring by place, slots as slots, which results leave the part, and which state each of them becomes.
///
/// Ops that colours do not tell apart keep the order of the program: a part that is symmetric in a way that colours do
/// not see through may have two forms.
/// Lifetime: refers to the program, which must not change. Threads: one at a time.
class Canonical {
 public:
  /// `constants`: the content hash of each blob number that Program::constants names; numbers beyond it count as
  /// unknown content, and two unknowns as equal.
  Canonical(const Program& program, std::span<const ContentHash> constants);

  /// `ops`: distinct ops, in any order; no path may leave them and come back.
  CanonicalForm form(std::span<const OpId> ops, Roles roles);

 private:
  using Colour = std::uint64_t;

  struct Port {
    ValueId value = kNone;
    SlotId slot = kNone;  // neither: a fixed number, which is in the op's own form
  };

  std::span<const Port> inputs(OpId op) const;
  std::span<const ValueId> outputs(OpId op) const;
  void describe_ops();
  void enter(std::span<const OpId> ops, Roles roles);
  Colour outside(ValueId value, Roles roles) const;
  void colour_forward();
  void colour_uses(Roles roles);
  void sort(CanonicalForm& form);
  void write(CanonicalForm& form, Roles roles);

  const Program& program_;
  std::span<const ContentHash> constants_;
  std::vector<ContentHash> forms_;      // distinct descriptions of ops
  std::vector<std::uint32_t> form_of_;  // per op
  std::vector<Port> inputs_;            // of all ops, one after the other
  std::vector<ValueId> outputs_;
  std::vector<std::uint32_t> first_input_, first_output_;  // per op, and one more
  std::vector<std::uint32_t> constant_of_;                 // per value: its blob
  std::vector<bool> is_draw_;                              // per value
  std::vector<std::uint32_t> ends_state_;                  // per value: the state that it becomes
  std::vector<std::uint32_t> read_counts_;                 // per value, with its wants at the end

  // Of the ops that are being written. `place_` and `number_` are of all ops and values and clean between calls.
  std::vector<OpId> ops_;
  std::vector<std::uint32_t> place_;         // op -> index in ops_
  std::vector<std::uint32_t> number_;        // value -> index in values_
  std::vector<ValueId> values_;              // all that they name
  std::vector<Colour> leaf_, value_, uses_;  // per index in values_
  std::vector<Colour> op_;                   // per index in ops_
  std::vector<std::uint32_t> read_inside_;   // per index in values_
};

}  // namespace crucible::graph
