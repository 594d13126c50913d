// What the program calls an attention, as a call of a library: see named_attention.hpp.
#include "core/kernel/fuse/named_attention.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "core/graph/meaning.hpp"
#include "core/kernel/fuse/attention_call.hpp"

namespace crucible::kernel {
namespace {

using graph::kNone;
using graph::Meaning;
using graph::Op;
using graph::Operand;
using graph::OpId;
using graph::Program;
using graph::ValueId;

class Finder {
 public:
  Finder(const Program& program, const graph::IdLists& readers, const std::vector<bool>& kept, const Meaning& meaning)
      : program_(program), readers_(readers), kept_(kept), meaning_(meaning) {}

  NamedAttention run() {
    auto roles = attention_roles(meaning_);
    if (!roles) return {};
    kind_ = roles->kind;
    operands_ = std::move(roles->operands);
    results_ = std::move(roles->results);
    AttentionRegion region = region_of(program_, meaning_.inputs, results_);
    if (!region.is_whole || !find_operands(region)) return {};
    between_ = std::move(region.between);
    body_ = std::move(region.body);
    NamedAttention found;
    found.body.assign(body_.begin(), body_.end());
    found.why = judge();
    if (found.why == NotCalled::kDeclined) found.attention = call();
    return found;
  }

 private:
  /// The values that the body reads, of those that an operand lies in.
  bool find_operands(const AttentionRegion& region) {
    for (Operand& operand : operands_) {
      while (!region.read.contains(operand.value)) {
        const auto source = graph::copied_from(program_, operand);
        if (!source) return false;
        operand = *source;
      }
    }
    return true;
  }

  /// kDeclined when nothing speaks against it.
  NotCalled judge() const {
    const auto is_last = [&](OpId id) {
      return std::ranges::any_of(results_, [&](const Operand& x) { return program_.values[x.value].producer == id; });
    };
    const NotCalled why = judge_attention(program_, meaning_, kind_, operands_, results_);
    if (why == NotCalled::kMask || why == NotCalled::kTypes) return why;
    if (!std::ranges::all_of(body_, [&](OpId id) { return is_last(id) || is_inside(id, body_); }))
      return NotCalled::kWanted;
    return why;
  }

  bool is_inside(OpId id, const std::set<OpId>& ops) const {
    return std::ranges::all_of(program_.ops[id].outputs, [&](const Operand& made) {
      return !kept_[made.value] &&
             std::ranges::all_of(readers_[made.value], [&](OpId reader) { return ops.contains(reader); });
    });
  }

  /// Casts of operands, and what makes the mask, are done by the call where nobody else needs them.
  LibraryAttention call() const {
    LibraryAttention found;
    std::set<OpId> own = body_;
    for (auto id = between_.rbegin(); id != between_.rend(); ++id) {
      if (!own.contains(*id) && is_inside(*id, own)) own.insert(*id);
    }
    found.ops.assign(own.begin(), own.end());
    for (const Operand& operand : operands_) found.operands.push_back(operand.value);
    for (const Operand& result : results_) found.results.push_back(result.value);
    found.call = attention_call(program_, meaning_, kind_, operands_, results_);
    return found;
  }

  const Program& program_;
  const graph::IdLists& readers_;
  const std::vector<bool>& kept_;
  const Meaning& meaning_;
  LibraryKind kind_ = LibraryKind::kAttention;
  std::vector<Operand> operands_, results_;
  std::set<OpId> between_, body_;
};

/// What each attention does leaves its units for one of its own, right before the first of those that make its results.
/// It is an order: whatever made the operands stands before a product, a unit of its own, and whatever reads results
/// after it. Logarithms of sums do not count: they are made early, and only the gradient reads them.
void take_out(const Program& program, std::vector<Unit>& units, const std::vector<LibraryAttention>& attentions) {
  const std::vector<std::uint32_t> unit_of = units_of_ops(program, units);
  std::vector<bool> is_taken(program.ops.size(), false);
  std::vector<std::vector<std::uint32_t>> before(units.size());  // per unit: attentions
  for (std::uint32_t index = 0; index < attentions.size(); ++index) {
    std::uint32_t first = kNone;
    for (const ValueId result : attentions[index].results) {
      const bool counts =
          attentions[index].call.kind == LibraryKind::kAttentionBackward || result == attentions[index].results.front();
      if (counts) first = std::min(first, unit_of[program.values[result].producer]);
    }
    before[first].push_back(index);
    for (const OpId op : attentions[index].ops) is_taken[op] = true;
  }
  std::vector<Unit> all;
  for (std::size_t u = 0; u < units.size(); ++u) {
    for (const std::uint32_t index : before[u]) {
      Unit made;
      made.ops = attentions[index].ops;
      made.library_attention = index;
      all.push_back(std::move(made));
    }
    std::erase_if(units[u].ops, [&](OpId op) { return is_taken[op]; });
    std::erase_if(units[u].group.members, [&](const Member& member) { return is_taken[member.op]; });
    if (!units[u].ops.empty()) all.push_back(std::move(units[u]));
  }
  units = std::move(all);
}

}  // namespace

std::string_view words(NotCalled why) {
  switch (why) {
    case NotCalled::kNoAttention:
      return "";
    case NotCalled::kMask:
      return "it has a mask besides the causal one";
    case NotCalled::kWanted:
      return "its scores, or what is made of them, are wanted elsewhere, too";
    case NotCalled::kTypes:
      return "queries, keys, values and the result are not of one dtype";
    case NotCalled::kLayout:
      return "its heads share keys";
    case NotCalled::kDeclined:
      return "the device's library does not take it, or was not asked";
  }
  return "";
}

std::vector<NamedAttention> named_attentions(const Program& program) {
  std::vector<NamedAttention> found;
  if (std::ranges::none_of(program.meanings, [](const Meaning& m) { return attention_roles(m).has_value(); }))
    return found;
  const graph::IdLists readers = graph::readers(program);
  const std::vector<bool> kept = graph::wanted_at_end(program);
  for (const Meaning& meaning : program.meanings) {
    if (attention_roles(meaning)) found.push_back(Finder(program, readers, kept, meaning).run());
  }
  return found;
}

std::vector<LibraryAttention> claim_attentions(const Program& program, std::vector<Unit>& units,
                                               const std::function<bool(const LibraryCall&)>& claims) {
  std::vector<LibraryAttention> claimed;
  std::vector<bool> is_taken(program.ops.size(), false);
  for (NamedAttention& found : named_attentions(program)) {
    if (!found.attention || std::ranges::any_of(found.attention->ops, [&](OpId own) { return is_taken[own]; }))
      continue;
    if (!claims(found.attention->call)) continue;
    for (const OpId own : found.attention->ops) is_taken[own] = true;
    claimed.push_back(*std::move(found.attention));
  }
  if (!claimed.empty()) take_out(program, units, claimed);
  return claimed;
}

}  // namespace crucible::kernel
