// What is known of a kernel's integers before it runs: how an index changes from turn to turn of a loop, what it is a
// multiple of, where it lies. From this follow accesses of several neighbouring elements at once (wide_loops.hpp), and
// which integers of a text are 32 bits wide.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plugins/sdk/kernel_ir.hpp"

namespace crucible::sdk {

/// Both ends belong to it.
struct Span32 {
  std::int64_t low = 0, high = 0;
};

class Indices {
 public:
  /// The kernel outlives this. It is one of read_kernel(), so that a variable is defined once and before it is used.
  explicit Indices(const Kernel& kernel);

  /// The integer that an expression is.
  std::optional<std::int64_t> constant(std::uint32_t id) const;

  /// The turns of a loop from 0 to a number; else nothing. Of the grid: nothing.
  std::optional<std::int64_t> turns(const Stmt& loop) const;

  /// What the expression grows by from a turn of `loop` to the next one in groups of `width` turns that begin at
  /// multiples of it; nothing when that is no one number. `width` is a power of two.
  std::optional<std::int64_t> step(std::uint32_t id, const Stmt& loop, std::int64_t width) const;

  /// The largest power of two up to 16 that the value at a group's first turn is known to be a multiple of.
  std::int64_t divisor(std::uint32_t id, const Stmt& loop, std::int64_t width) const;

  /// Whether the expression can be written before the body of `loop`: variables that the body defines are made of
  /// others, and of no loads.
  bool is_known_before(std::uint32_t id, const Stmt& loop) const;

  /// Whether it is never negative.
  bool is_natural(std::uint32_t id) const;

  /// Where an i64 lies that is made of loops' turns and integers alone, if 32 bits hold it and all that it is made of.
  std::optional<Span32> narrow(std::uint32_t id) const { return narrow_[id]; }

  /// The same for a variable: a loop's, or one that is defined as such an expression.
  std::optional<Span32> narrow_variable(std::uint32_t id) const;

  /// Of an immutable variable of a let: what it is; kNoId for others.
  std::uint32_t definition(std::uint32_t variable) const { return definitions_[variable]; }

 private:
  struct Group {
    const std::vector<bool>& inner;  // variables that the loop's body defines or sets, and its own
    std::uint32_t variable;
    std::int64_t width;
  };
  void visit(const std::vector<Stmt>& body);
  static void note_inner(const std::vector<Stmt>& body, std::vector<bool>& inner);
  std::vector<bool> inner_of(const Stmt& loop) const;
  std::optional<std::int64_t> step(std::uint32_t id, const Group& group, int depth) const;
  std::int64_t divisor(std::uint32_t id, const Group& group, int depth) const;
  bool is_known_before(std::uint32_t id, const Group& group, int depth) const;
  bool is_natural(std::uint32_t id, int depth) const;
  std::optional<Span32> compute_narrow(const Expr& e) const;

  const Kernel& kernel_;
  std::vector<std::uint32_t> definitions_;
  std::vector<const Stmt*> loops_;  // of each variable, the loop that counts with it
  std::vector<std::optional<Span32>> narrow_;
};

}  // namespace crucible::sdk
