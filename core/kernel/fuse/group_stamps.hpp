// What is decided of groups once for all that are equal. A model of ninety layers asks the same questions ninety times:
// may these two groups be one, and what does it look like? The answer depends on the two groups and on which values
// they share, not on what these are called; so it is found once, and renamed for the others. Exactly: a question that
// differs in anything that the answer could depend on is another question.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/graph/program.hpp"
#include "core/kernel/fuse/content_words.hpp"
#include "core/kernel/fuse/fusion.hpp"
#include "core/kernel/fuse/nest.hpp"

namespace crucible::kernel {

/// A group but for the names of its values and ops: the number of its content, and what its values are here.
struct GroupStamp {
  std::uint32_t content = graph::kNone;  // kNone: no group
  std::vector<graph::ValueId> values = {};
};

/// How two groups stand to each other. Both are of one program and have their ops ascending.
struct StampPair {
  const GroupStamp& a;
  std::span<const graph::OpId> ops_a;
  const GroupStamp& b;
  std::span<const graph::OpId> ops_b;
};

/// An answer: why the two stay apart, or what they are as one.
struct StampedJoint {
  Apart apart = Apart::kNot;
  std::uint32_t content = graph::kNone;    // of the one, where nothing is in the way
  std::vector<std::uint32_t> values = {};  // places of its values: of the first group's values, then of the second's
};

/// What was decided so far. Of programs that may differ; but for numerics, which are the same for all.
/// Threads: one at a time.
class GroupStamps {
 public:
  /// With `reuse` false each question is answered by work: for tests, which compare.
  explicit GroupStamps(bool reuse = true) : reuse_(reuse) {}

  struct Counts {
    std::uint64_t asked = 0, decided = 0;  // questions; those that no equal one had answered before
    std::uint64_t contents = 0;            // different groups that were met on the way
  };
  Counts counts() const { return {asked_, decided_, contents_.size()}; }

  /// What the group is but for names. It must be one of make_group()'s, or joined of such.
  GroupStamp describe(const graph::Program& program, const Group& group);
  /// The group of this content whose members are these ops, ascending.
  Group group(const graph::Program& program, std::uint32_t content, std::span<const graph::OpId> ops) const;
  const Group& content(std::uint32_t content) const { return contents_[content]; }

  /// The answer to an equal question; null where there was none.
  const StampedJoint* find(const StampPair& pair);
  /// Keeps the answer to what find() was asked last. `joined`: the group that the two are, for Apart::kNot.
  const StampedJoint& keep(const graph::Program& program, const StampPair& pair, Apart apart, const Group* joined);
  /// The values of two groups that became one.
  static std::vector<graph::ValueId> values_of(const StampedJoint& joint, const StampPair& pair);

 private:
  bool reuse_;
  std::uint64_t asked_ = 0, decided_ = 0;
  std::vector<Group> contents_;  // values and ops by their places
  ByWords<std::uint32_t> content_of_;
  ByWords<StampedJoint> joints_;
  Words words_;          // of what is written now
  Numbering numbering_;  // of values; clean between calls
};

}  // namespace crucible::kernel
