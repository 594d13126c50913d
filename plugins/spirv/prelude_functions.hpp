// Functions of the prelude as functions of one SPIR-V module: each is written when a kernel first asks for it, with
// those that it calls.
//
// Roundings stay where the text has them: an operator is one instruction, fma is OpenCL's fma (rounded once by
// definition), and both sides of a choice are computed. Constants are folded in the type that they have, by the host's
// arithmetic, which rounds as the device's.
#pragma once

#include <string_view>
#include <unordered_map>

#include "plugins/spirv/prelude_text.hpp"
#include "plugins/spirv/spirv_module.hpp"

namespace crucible::spirv {

class PreludeFunctions {
 public:
  /// Borrows both.
  PreludeFunctions(const PreludeText& text, SpirvModule& module) : text_(text), module_(module) {}

  /// The function's id. Threads: one at a time. Errors: Failure INTERNAL when the prelude has no such function, or
  /// one whose text has something that is not known here.
  Id get(std::string_view name);

  Id type_id(const CType& type);

 private:
  static constexpr int kDeepest = 64;  // calls inside of each other; SPIR-V has no recursion
  const PreludeText& text_;
  SpirvModule& module_;
  std::unordered_map<std::string_view, Id> written_;  // by the name in the text
  int depth_ = 0;
};

}  // namespace crucible::spirv
