// Rewrites a finished module: see ordered_loops.hpp.
#include "plugins/spirv/ordered_loops.hpp"

#include <cstddef>

namespace crucible::spirv {
namespace {

constexpr std::size_t kHeader = 5, kBound = 3;  // words of the header; the word that all ids are below
constexpr std::uint32_t kVolatile = 1, kSubgroupScope = 3;
constexpr auto kFunctionStorage = static_cast<std::uint32_t>(Storage::kFunction);

/// Calls `visit` with each instruction: its opcode, its words, how many.
template <class Visit>
void each(const Words& module, const Visit& visit) {
  for (std::size_t at = kHeader; at < module.size(); at += module[at] >> 16) {
    if (module[at] >> 16 == 0) return;
    visit(static_cast<Op>(module[at] & 0xffff), at, module[at] >> 16);
  }
}

}  // namespace

Words with_ordered_loops(const Words& module) {
  Id u32 = 0, pointer = 0, subgroup = 0, next = module[kBound];
  each(module, [&](Op op, std::size_t at, std::size_t) {
    if (op == Op::kTypeInt && module[at + 2] == 32) u32 = module[at + 1];
    if (op == Op::kConstant && u32 != 0 && module[at + 1] == u32 && module[at + 3] == kSubgroupScope)
      subgroup = module[at + 2];
    if (op == Op::kTypePointer && module[at + 2] == kFunctionStorage && u32 != 0 && module[at + 3] == u32)
      pointer = module[at + 1];
  });
  Words result(module.begin(), module.begin() + kHeader), function;
  bool in_function = false, has_types = false;
  Id variable = 0;
  std::size_t first_block = 0;  // where in `function` its variables may begin
  each(module, [&](Op op, std::size_t at, std::size_t count) {
    if (op == Op::kFunction && !has_types) {
      if (u32 == 0) append(result, Op::kTypeInt, {u32 = next++, 32, 0});
      if (pointer == 0) append(result, Op::kTypePointer, {pointer = next++, kFunctionStorage, u32});
      has_types = true;
    }
    if (op == Op::kFunction) {
      in_function = true;
      function.clear();
      first_block = 0;
      variable = 0;
    }
    Words& to = in_function ? function : result;
    if (op == Op::kLoopMerge) {
      if (variable == 0) variable = next++;
      append(to, Op::kLoad, {u32, next++, variable, kVolatile});
    }
    if (op == Op::kControlBarrier && module[at + 1] == subgroup)
      return append(to, Op::kMemoryBarrier, {module[at + 2], module[at + 3]});
    to.insert(to.end(), module.begin() + static_cast<std::ptrdiff_t>(at),
              module.begin() + static_cast<std::ptrdiff_t>(at + count));
    if (op == Op::kLabel && first_block == 0) first_block = function.size();
    if (op != Op::kFunctionEnd) return;
    in_function = false;
    Words variables;
    if (variable != 0) append(variables, Op::kVariable, {pointer, variable, kFunctionStorage});
    function.insert(function.begin() + static_cast<std::ptrdiff_t>(first_block), variables.begin(), variables.end());
    result.insert(result.end(), function.begin(), function.end());
  });
  result[kBound] = next;
  return result;
}

}  // namespace crucible::spirv
