// See attention_call.hpp.
#include "core/kernel/fuse/attention_call.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>

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

/// False where one is missing.
bool find_roles(const Meaning& meaning, const Role* (*find)(const Meaning&, std::string_view),
                std::initializer_list<const char*> names, std::vector<Operand>& found) {
  for (const char* name : names) {
    const Role* const role = find(meaning, name);
    if (role == nullptr) return false;
    found.push_back(role->operand);
  }
  return true;
}

double scale_of(const Meaning& meaning) { return graph::number_of(meaning, "scale", 1); }

/// Places in the order of a gradient's buffers.
enum Place : std::size_t { kQ, kK, kV, kO, kL, kDO };

bool fits(LibraryKind kind, const std::vector<Operand>& operands, const std::vector<Operand>& results) {
  const auto all_of_four = [](const std::vector<Operand>& some) {
    return std::ranges::all_of(some, [](const Operand& x) { return x.view.sizes.size() == 4; });
  };
  if (!all_of_four(operands) || !all_of_four(results)) return false;
  const bool is_backward = kind == LibraryKind::kAttentionBackward;
  const auto &q = operands[kQ].view.sizes, &k = operands[kK].view.sizes, &v = operands[kV].view.sizes;
  const auto& o = is_backward ? operands[kO].view.sizes : results[0].view.sizes;
  const std::vector<std::int64_t> rows{q[0], q[1], q[2], 1};
  if (k[0] != q[0] || k[1] != q[1] || k[3] != q[3] || v[0] != q[0] || v[1] != q[1] || v[2] != k[2] ||
      o != std::vector{q[0], q[1], q[2], v[3]} || operands[kQ].view.elements() == 0 ||
      operands[kV].view.elements() == 0)
    return false;
  if (kind == LibraryKind::kAttentionForward) return results[1].view.sizes == rows;
  return !is_backward || (operands[kL].view.sizes == rows && operands[kDO].view.sizes == o &&
                          results[0].view.sizes == q && results[1].view.sizes == k && results[2].view.sizes == v);
}

}  // namespace

std::optional<AttentionRoles> attention_roles(const Meaning& meaning) {
  AttentionRoles roles;
  if (meaning.name == "attention") {
    if (!find_roles(meaning, graph::find_input, {"query", "key", "value"}, roles.operands) ||
        !find_roles(meaning, graph::find_output, {"output"}, roles.results))
      return std::nullopt;
    if (find_roles(meaning, graph::find_output, {kRowLogSum}, roles.results))
      roles.kind = LibraryKind::kAttentionForward;
    return roles;
  }
  if (meaning.name != "attention_backward" ||
      !find_roles(meaning, graph::find_input, {"query", "key", "value", "out", kRowLogSum, "grad_out"},
                  roles.operands) ||
      !find_roles(meaning, graph::find_output, {"grad_query", "grad_key", "grad_value"}, roles.results))
    return std::nullopt;
  roles.kind = LibraryKind::kAttentionBackward;
  return roles;
}

AttentionRegion region_of(const Program& program, const std::vector<Role>& operands,
                          const std::vector<Operand>& results) {
  AttentionRegion region;
  std::set<ValueId> ends;
  for (const Role& role : operands) {
    for (std::optional<Operand> at = role.operand; at; at = graph::copied_from(program, *at)) ends.insert(at->value);
  }
  std::vector<OpId> stack, last;
  for (const Operand& result : results) {
    const OpId producer = program.values[result.value].producer;
    if (producer == kNone || ends.contains(result.value)) return {};
    stack.push_back(producer);
  }
  last = stack;
  while (!stack.empty()) {
    const OpId id = stack.back();
    stack.pop_back();
    if (!region.between.insert(id).second) continue;
    for (const Operand& input : program.ops[id].inputs) {
      if (input.is_scalar()) continue;
      if (ends.contains(input.value)) {
        region.read.insert(input.value);
      } else if (const OpId producer = program.values[input.value].producer; producer != kNone) {
        stack.push_back(producer);
      }
    }
  }
  std::set<OpId> casts;  // copies of an operand
  for (const OpId id : region.between) {
    const Op& op = program.ops[id];
    const auto is_read = [&](const Operand& x) { return !x.is_scalar() && region.read.contains(x.value); };
    const auto follows = [&](const Operand& x) {
      return !x.is_scalar() && !is_read(x) && region.body.contains(program.values[x.value].producer);
    };
    const auto is_cast = [&](const Operand& x) {
      return !x.is_scalar() && !is_read(x) && casts.contains(program.values[x.value].producer);
    };
    if (op.kind == OpKind::kCopy && !std::ranges::count(last, id) && (is_read(op.inputs[0]) || is_cast(op.inputs[0]))) {
      casts.insert(id);
    } else if (std::ranges::any_of(op.inputs,
                                   [&](const Operand& x) { return is_read(x) || is_cast(x) || follows(x); })) {
      region.body.insert(id);
    }
  }
  region.is_whole = std::ranges::all_of(last, [&](OpId id) { return region.body.contains(id); });
  return region;
}

NotCalled judge_attention(const Program& program, const Meaning& meaning, LibraryKind kind,
                          const std::vector<Operand>& operands, const std::vector<Operand>& results) {
  for (const char* limit : {"left", "right", "shift"}) {
    if (graph::find_attribute(meaning, limit) != nullptr) return NotCalled::kMask;
  }
  if (graph::find_input(meaning, "mask") != nullptr) return NotCalled::kMask;
  const DType dtype = program.values[results[0].value].dtype;
  const auto has = [&](const Operand& x, DType type) { return program.values[x.value].dtype == type; };
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (!has(operands[i], i == kL ? DType::kF32 : dtype)) return NotCalled::kTypes;
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    const bool is_log_sum = kind == LibraryKind::kAttentionForward && i == 1;
    if (!has(results[i], is_log_sum ? DType::kF32 : dtype)) return NotCalled::kTypes;
  }
  if (!fits(kind, operands, results)) return NotCalled::kLayout;
  const double scale = scale_of(meaning);
  return scale > 0 && std::isfinite(scale) ? NotCalled::kDeclined : NotCalled::kNoAttention;
}

LibraryCall attention_call(const Program& program, const Meaning& meaning, LibraryKind kind,
                           const std::vector<Operand>& operands, const std::vector<Operand>& results) {
  LibraryCall call;
  call.kind = kind;
  call.dtype = program.values[results[0].value].dtype;
  call.attributes.alpha = scale_of(meaning);
  call.is_causal = graph::number_of(meaning, "causal", 0) != 0;
  for (std::size_t i = 0; i < 3; ++i) call.views[i] = graph::normalized(operands[i].view);
  std::vector<Operand> others(operands.begin() + 3, operands.end());
  others.insert(others.end(), results.begin(), results.end());
  call.extra = graph::normalized(others[0].view);
  for (std::size_t i = 1; i < others.size(); ++i) call.more.push_back(graph::normalized(others[i].view));
  return call;
}

}  // namespace crucible::kernel
