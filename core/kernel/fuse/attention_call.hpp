// What an attention's name says, as the call that a library is asked for, and the ops between its operands and results.
// named_attention.hpp and trained_attention.hpp are made of it.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "core/graph/program.hpp"
#include "core/kernel/fuse/named_attention.hpp"
#include "core/kernel/schedule.hpp"

namespace crucible::kernel {

/// The roles by which trained attentions are known: an attention's result, and what its gradient reads.
inline constexpr const char* kRowLogSum = "row_log_sum";

/// In the order of the call's buffers.
struct AttentionRoles {
  LibraryKind kind = LibraryKind::kAttention;
  std::vector<graph::Operand> operands, results;
};
/// Nothing for what is no attention, and for a gradient that reads no logarithms of sums.
std::optional<AttentionRoles> attention_roles(const graph::Meaning& meaning);

/// Ops by which results depend on what has these roles, or what that is a copy of.
struct AttentionRegion {
  bool is_whole = false;               // each result is made by the body
  std::set<graph::OpId> between;       // results and operands
  std::set<graph::OpId> body;          // of these: what computes with operands; the rest makes masks and casts
  std::set<graph::ValueId> read = {};  // of what operands lie in
};
AttentionRegion region_of(const graph::Program& program, const std::vector<graph::Role>& operands,
                          const std::vector<graph::Operand>& results);

/// kDeclined when nothing speaks against a call but that the library has not been asked.
NotCalled judge_attention(const graph::Program& program, const graph::Meaning& meaning, LibraryKind kind,
                          const std::vector<graph::Operand>& operands, const std::vector<graph::Operand>& results);

/// Operands and results in the order of AttentionRoles.
LibraryCall attention_call(const graph::Program& program, const graph::Meaning& meaning, LibraryKind kind,
                           const std::vector<graph::Operand>& operands, const std::vector<graph::Operand>& results);

}  // namespace crucible::kernel
