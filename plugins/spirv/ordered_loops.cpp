// Rewrites a finished module: see ordered_loops.hpp.
#include "plugins/spirv/ordered_loops.hpp"

#include <cstddef>
#include <iterator>

namespace crucible::spirv {
namespace {

constexpr std::size_t kHeader = 5, kBound = 3;  // words of the header; the word that all ids are below
constexpr std::uint32_t kVolatile = 1, kSubgroupScope = 3, kLinkage = 5, kLinkageAttributes = 41, kImport = 1;
constexpr auto kFunctionStorage = static_cast<std::uint32_t>(Storage::kFunction);

/// Calls `visit` with each instruction: its opcode, its words, how many.
template <class Visit>
void each(const Words& module, const Visit& visit) {
  for (std::size_t at = kHeader; at < module.size(); at += module[at] >> 16) {
    if (module[at] >> 16 == 0) return;
    visit(static_cast<Op>(module[at] & 0xffff), at, module[at] >> 16);
  }
}

/// "_Z17sub_group_barrierj" as words: sub_group_barrier(uint) of OpenCL C.
constexpr std::uint32_t kBarrierName[] = {0x37315a5f, 0x5f627573, 0x756f7267, 0x61625f70, 0x65697272, 0x00006a72};

/// Barriers of sub-groups as calls of the driver's own function.
Words with_called_barriers(const Words& module) {
  Id u32 = 0, none = 0, scope = 0;
  bool has_barriers = false;
  each(module, [&](Op op, std::size_t at, std::size_t) {
    if (op == Op::kTypeInt && module[at + 2] == 32) u32 = module[at + 1];
    if (op == Op::kTypeVoid) none = module[at + 1];
    if (op == Op::kConstant && module[at + 1] == u32 && module[at + 3] == kSubgroupScope) scope = module[at + 2];
    has_barriers |= op == Op::kControlBarrier && module[at + 1] == scope;
  });
  if (!has_barriers) return module;
  const Id function = module[kBound], type = function + 1, parameter = function + 2;
  Id next = function + 3;
  Words result(module.begin(), module.begin() + kHeader);
  append(result, Op::kCapability, {kLinkage});
  bool is_decorated = false, is_declared = false;
  each(module, [&](Op op, std::size_t at, std::size_t count) {
    if (op == Op::kDecorate && !is_decorated) {
      Words linkage = {function, kLinkageAttributes};
      linkage.insert(linkage.end(), std::begin(kBarrierName), std::end(kBarrierName));
      linkage.push_back(kImport);
      append(result, Op::kDecorate, linkage);
      is_decorated = true;
    }
    if (op == Op::kFunction && !is_declared) {
      append(result, Op::kTypeFunction, {type, none, u32});
      append(result, Op::kFunction, {none, function, 0, type});
      append(result, Op::kFunctionParameter, {u32, parameter});
      append(result, Op::kFunctionEnd, {});
      is_declared = true;
    }
    // The number of the scope is that of both kinds of memory, too.
    if (op == Op::kControlBarrier && module[at + 1] == scope)
      return append(result, Op::kFunctionCall, {none, next++, function, scope});
    result.insert(result.end(), module.begin() + static_cast<std::ptrdiff_t>(at),
                  module.begin() + static_cast<std::ptrdiff_t>(at + count));
  });
  result[kBound] = next;
  return result;
}

}  // namespace

Words with_ordered_loops(const Words& given) {
  const Words module = with_called_barriers(given);
  Id u32 = 0, pointer = 0, next = module[kBound];
  each(module, [&](Op op, std::size_t at, std::size_t) {
    if (op == Op::kTypeInt && module[at + 2] == 32) u32 = module[at + 1];
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
