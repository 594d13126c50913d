// Last uses decide: see in_place.hpp.
#include "core/kernel/fuse/in_place.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace crucible::kernel {
namespace {

using graph::Program;
using graph::ValueId;
using graph::ValueKind;

std::vector<std::uint32_t> last_uses(const Program& program, const std::vector<Step>& steps) {
  std::vector<std::uint32_t> last_use(program.values.size(), 0);
  for (std::uint32_t s = 0; s < steps.size(); ++s) {
    for (const BufferArgument& argument : steps[s].buffers) last_use[argument.value] = s;
  }
  return last_use;
}

}  // namespace

std::vector<InPlace> choose_in_place(const Program& program, const std::vector<Step>& steps,
                                     const std::vector<InPlace>& aliases) {
  const std::vector<std::uint32_t> last_use = last_uses(program, steps);
  std::vector<bool> kept(program.values.size(), false);  // needed after the last step, or never to be overwritten
  std::map<ValueId, ValueId> end_of;
  for (const auto& state : program.states) {
    kept[state.end] = true;
    end_of[state.start] = state.end;
  }
  for (const auto& output : program.outputs) {
    if (!output.operand.is_scalar()) kept[output.operand.value] = true;
  }
  const auto is_home = [&](const InPlace& pair) {
    const auto found = end_of.find(pair.operand);
    return found != end_of.end() && found->second == pair.result;
  };
  std::vector<InPlace> candidates = aliases;
  std::erase_if(candidates, [&](const InPlace& pair) {
    const ValueKind kind = program.values[pair.operand].kind;
    const bool allowed = kind == ValueKind::kTemporary || (kind == ValueKind::kState && is_home(pair));
    return !allowed || kept[pair.operand] || last_use[pair.operand] != pair.step;
  });
  std::ranges::stable_sort(candidates, [&](const InPlace& a, const InPlace& b) {
    if (is_home(a) != is_home(b)) return is_home(a);
    const auto bytes = [&](const InPlace& pair) {
      return program.values[pair.result].elements * size_bytes(program.values[pair.result].dtype);
    };
    return bytes(a) > bytes(b);
  });
  std::vector<InPlace> chosen;
  std::set<std::pair<std::uint32_t, ValueId>> taken;
  for (const InPlace& pair : candidates) {
    if (taken.contains({pair.step, pair.operand}) || taken.contains({pair.step, pair.result})) continue;
    taken.insert({pair.step, pair.operand});
    taken.insert({pair.step, pair.result});
    chosen.push_back(pair);
  }
  return chosen;
}

}  // namespace crucible::kernel
