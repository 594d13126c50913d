// Questions that later stages ask about a program, each answered by one walk over it: who reads a value, which op waits
// for which, how long a value lives, which operands look at the same elements, how much work an op is.
//
// Programs are pure: a state's end, an input and what was drawn are values like any other, so that the only order
// between ops is that of definitions before uses. Nothing here changes or keeps a program; answers hold until it
// changes. All functions: the program must be one that verify() accepts. Threads: any.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/graph/program.hpp"

namespace crucible::graph {

/// A list of ids for each index, all in one array (compressed sparse rows).
struct IdLists {
  std::vector<std::uint32_t> begins;  // one more than there are lists
  std::vector<std::uint32_t> ids;
  std::span<const std::uint32_t> operator[](std::size_t index) const {
    return std::span(ids).subspan(begins[index], begins[index + 1] - begins[index]);
  }
  std::size_t size() const { return begins.size() - 1; }
};

/// Per value: the ops that read it, ascending, each once.
IdLists readers(const Program& program);

/// Per value: how many operands read it, plus one for each state that ends with it and each output that shows it.
std::vector<std::uint32_t> read_counts(const Program& program);

/// Per value: whether it is wanted after the last op, as a state's end or an output.
std::vector<bool> wanted_at_end(const Program& program);

/// The tensors among Program::outputs. Many may show the same elements, which are then read, kept and compared once.
struct OutputTensors {
  std::vector<const Output*> outputs;    // by place; they are the program's
  std::vector<std::size_t>
      first_alike;  // by place: the first one that shows the same elements, itself where none stands before it
};
OutputTensors output_tensors(const Program& program);

/// The number of a scalar operand that is no slot; nothing for others.
std::optional<double> fixed_number(const Operand& operand);
/// Whether it is that number.
inline bool is_number(const Operand& operand, double number) { return fixed_number(operand) == number; }

/// Per op, ascending and each once: the ops whose results it reads (`before`), and those that read its results
/// (`after`).
struct Dependences {
  IdLists before, after;
};
Dependences dependences(const Program& program);

/// From which op to which a value's elements are needed. Values from outside are there from op 0 on; ends of states,
/// states that are not changed, and outputs stay until after the last op (last == the number of ops).
struct Lifetime {
  OpId first = 0;
  OpId last = 0;  // the last op that reads it; `first` where nobody does
  bool operator==(const Lifetime&) const = default;
};
std::vector<Lifetime> lifetimes(const Program& program);

/// Per op: the bytes of all values that live while it runs. Its largest entry is a lower bound for the memory of any
/// schedule in this order that gives no op the place of its own operand.
std::vector<std::uint64_t> live_bytes(const Program& program);

/// A tensor operand: inputs[input] of `op`.
struct Use {
  OpId op = kNone;
  std::uint32_t input = 0;
  bool operator==(const Use&) const = default;
};

/// Operands of one value whose views meet: each shares an element with another one of the set, perhaps through others.
struct AliasSet {
  ValueId value = kNone;
  std::vector<Use> uses;  // in program order; a set may be of one
};
/// All sets, by value and then by their first use: every tensor operand stands in exactly one. A pair of uses in
/// different sets shares no element (of views that may_overlap() cannot tell apart it is assumed that they do).
std::vector<AliasSet> alias_sets(const Program& program);

/// False when no element of one view is an element of the other. Exact for views that are blocks of one array (slices,
/// rows, columns, tiles and their permutations); true where that is not easily known.
bool may_overlap(const View& a, const View& b);

/// What an op moves and computes, from its shapes alone.
struct Work {
  std::uint64_t bytes_read = 0;     // distinct elements of the operands; a broadcast element counts once
  std::uint64_t bytes_written = 0;  // elements of the results
  std::uint64_t flops = 0;  // arithmetic, comparisons and functions count 1 each, a product that is added 2; moving 0
};
Work work(const Program& program, OpId op);
std::uint64_t flops(const Op& op);  // Work::flops alone

/// The chain of ops, each reading a result of the one before it, with the largest sum of weights; the first of equal
/// ones in program order. Empty without ops. `weights`: one per op, not negative; empty: 1 each.
struct CriticalPath {
  std::vector<OpId> ops;
  double weight = 0;
};
CriticalPath critical_path(const Program& program, std::span<const double> weights = {});

/// The weights with which critical_path() counts flops.
std::vector<double> flop_weights(const Program& program);

}  // namespace crucible::graph
