// What the program calls an attention, as a call of a library: see named_attention.hpp.
#include "core/kernel/fuse/named_attention.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "core/graph/meaning.hpp"
#include "core/graph/view.hpp"

namespace crucible::kernel {
namespace {

using graph::kNone;
using graph::Meaning;
using graph::Op;
using graph::Operand;
using graph::OpId;
using graph::OpKind;
using graph::Program;
using graph::Role;
using graph::ValueId;

class Finder {
 public:
  Finder(const Program& program, const graph::IdLists& readers, const std::vector<bool>& kept, const Meaning& meaning)
      : program_(program), readers_(readers), kept_(kept), meaning_(meaning) {}

  NamedAttention run() {
    const Role* result = graph::find_output(meaning_, "output");
    if (result == nullptr) return {};
    result_ = result->operand;
    last_ = program_.values[result_.value].producer;
    for (std::size_t i = 0; i < 3; ++i) {
      const Role* role = graph::find_input(meaning_, kRoles[i]);
      if (role == nullptr) return {};
      operands_[i] = role->operand;
    }
    if (last_ == kNone || !walk_back() || !find_operands()) return {};
    NamedAttention found;
    found.body.assign(body_.begin(), body_.end());
    found.why = judge();
    if (found.why == NotCalled::kDeclined) found.attention = call();
    return found;
  }

 private:
  static constexpr std::string_view kRoles[] = {"query", "key", "value"};

  /// Everything between the result and the operands, or what these are copies of.
  bool walk_back() {
    std::set<ValueId> ends;
    for (const Role& role : meaning_.inputs) {
      for (std::optional<Operand> at = role.operand; at; at = graph::copied_from(program_, *at)) ends.insert(at->value);
    }
    if (ends.contains(result_.value)) return false;
    std::vector<OpId> stack = {last_};
    while (!stack.empty()) {
      const OpId id = stack.back();
      stack.pop_back();
      if (!between_.insert(id).second) continue;
      for (const Operand& input : program_.ops[id].inputs) {
        if (input.is_scalar()) continue;
        if (ends.contains(input.value)) {
          read_.insert(input.value);
        } else if (const OpId producer = program_.values[input.value].producer; producer != kNone) {
          stack.push_back(producer);
        }
      }
    }
    for (const OpId id : between_) {
      const Op& op = program_.ops[id];
      const auto is_read = [&](const Operand& x) { return !x.is_scalar() && read_.contains(x.value); };
      const auto follows = [&](const Operand& x) {
        return !x.is_scalar() && !is_read(x) && body_.contains(program_.values[x.value].producer);
      };
      const auto is_cast = [&](const Operand& x) {
        return !x.is_scalar() && !is_read(x) && casts_.contains(program_.values[x.value].producer);
      };
      if (op.kind == OpKind::kCopy && id != last_ && (is_read(op.inputs[0]) || is_cast(op.inputs[0]))) {
        casts_.insert(id);
      } else if (std::ranges::any_of(op.inputs,
                                     [&](const Operand& x) { return is_read(x) || is_cast(x) || follows(x); })) {
        body_.insert(id);
      }
    }
    return body_.contains(last_);
  }

  /// The values that the body reads, of those that an operand lies in.
  bool find_operands() {
    for (Operand& operand : operands_) {
      while (!read_.contains(operand.value)) {
        const auto source = graph::copied_from(program_, operand);
        if (!source) return false;
        operand = *source;
      }
    }
    return true;
  }

  /// kDeclined when nothing speaks against it.
  NotCalled judge() const {
    for (const char* limit : {"left", "right", "shift"}) {
      if (graph::find_attribute(meaning_, limit) != nullptr) return NotCalled::kMask;
    }
    if (graph::find_input(meaning_, "mask") != nullptr) return NotCalled::kMask;
    const DType dtype = program_.values[result_.value].dtype;
    const auto is_other = [&](const Operand& x) { return program_.values[x.value].dtype != dtype; };
    if (std::ranges::any_of(operands_, is_other)) return NotCalled::kTypes;
    if (!std::ranges::all_of(body_, [&](OpId id) { return id == last_ || is_inside(id, body_); }))
      return NotCalled::kWanted;
    const auto &q = operands_[0].view.sizes, &k = operands_[1].view.sizes, &v = operands_[2].view.sizes,
               &o = result_.view.sizes;
    const bool fits = q.size() == 4 && k.size() == 4 && v.size() == 4 && k[0] == q[0] && k[1] == q[1] && k[3] == q[3] &&
                      v[0] == q[0] && v[1] == q[1] && v[2] == k[2] && o == std::vector{q[0], q[1], q[2], v[3]};
    if (!fits || operands_[0].view.elements() == 0 || operands_[2].view.elements() == 0) return NotCalled::kLayout;
    const double scale = scale_of();
    return scale > 0 && std::isfinite(scale) ? NotCalled::kDeclined : NotCalled::kNoAttention;
  }

  double scale_of() const { return graph::number_of(meaning_, "scale", 1); }

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
    found.last = last_;
    found.call.kind = LibraryKind::kAttention;
    found.call.dtype = program_.values[result_.value].dtype;
    found.call.attributes.alpha = scale_of();
    found.call.is_causal = graph::number_of(meaning_, "causal", 0) != 0;
    found.call.extra = graph::normalized(result_.view);
    for (std::size_t i = 0; i < 3; ++i) {
      found.operands[i] = operands_[i].value;
      found.call.views[i] = graph::normalized(operands_[i].view);
    }
    return found;
  }

  const Program& program_;
  const graph::IdLists& readers_;
  const std::vector<bool>& kept_;
  const Meaning& meaning_;
  Operand operands_[3], result_;
  OpId last_ = kNone;
  std::set<OpId> between_;  // the result and the operands
  std::set<OpId> casts_;    // of these: copies of an operand
  std::set<OpId> body_;     // and what computes with operands; the rest makes masks
  std::set<ValueId> read_;  // of what operands lie in
};

/// What each attention does leaves its units for one of its own, right before that of the last of its ops. It is an
/// order: whatever made q, k and v stands before a product, a unit of its own, and whatever reads the result after it.
void take_out(const Program& program, std::vector<Unit>& units, const std::vector<LibraryAttention>& attentions) {
  const std::vector<std::uint32_t> unit_of = units_of_ops(program, units);
  std::vector<bool> is_taken(program.ops.size(), false);
  std::vector<std::vector<std::uint32_t>> before(units.size());  // per unit: attentions
  for (std::uint32_t index = 0; index < attentions.size(); ++index) {
    before[unit_of[attentions[index].last]].push_back(index);
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
  if (std::ranges::none_of(program.meanings, [](const Meaning& m) { return m.name == "attention"; })) return found;
  const graph::IdLists readers = graph::readers(program);
  const std::vector<bool> kept = graph::wanted_at_end(program);
  for (const Meaning& meaning : program.meanings) {
    if (meaning.name == "attention") found.push_back(Finder(program, readers, kept, meaning).run());
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
