// Costs of instructions: see warp_program.hpp.
#include "tests/emulators/ptx/warp_program.hpp"

#include <algorithm>
#include <string_view>

namespace crucible::emulators::ptx {
namespace {

struct Words {
  const Instruction& instruction;
  std::string_view operation = instruction.modifiers[0];
  std::string_view type = instruction.modifiers.back();
  bool has(std::string_view word) const {
    return std::ranges::find(instruction.modifiers, word) != instruction.modifiers.end();
  }
  bool is_any(std::initializer_list<std::string_view> words) const {
    return std::ranges::find(words, operation) != words.end();
  }
  bool is_whole_64() const { return type == "s64" || type == "u64"; }
};

/// m16n8kK: a scheduler's matrix unit does 1067 products of halves a cycle when it is fed by wgmma, and about 0.62 of
/// that by mma; half as many of tf32.
double matrix_weight(const Words& words) {
  const double depth = std::stoi(words.instruction.modifiers[3].substr(6));
  const std::string& factor = words.instruction.modifiers[7];
  const double rate = 512 * 0.62 * (factor == "tf32" ? 0.5 : factor == "s8" || factor == "u8" ? 2 : 1);
  return 16 * 8 * depth / rate;
}

double weight_of(const Words& w) {
  if (w.is_any({"mov", "cvta", "ret"})) return 0;
  if (w.operation == "mma") return matrix_weight(w);
  if (w.operation == "cvt") {
    if (w.has("f64")) return 4;
    const std::string_view to = w.instruction.modifiers[1];
    return w.type == "u32" && (to == "u64" || to == "s64") ? 0 : 1;
  }
  if (w.is_whole_64()) {
    if (w.is_any({"add", "sub", "shr"})) return 1.6;
    if (w.operation == "setp") return 2;
    if (w.operation == "mul" && w.has("lo")) return 4;
    if (w.operation == "mad" && w.has("lo")) return 5;
    if (w.operation == "mul" && w.has("hi")) return 9;
    if (w.is_any({"div", "rem"})) return 70;
  }
  if (w.type == "b64") {
    if (w.operation == "shl") return 0.8;
    if (w.is_any({"and", "or", "xor", "not", "selp"})) return 1.6;
  }
  if (w.is_any({"div", "rem"}) && (w.type == "s32" || w.type == "u32")) return 18;
  if (w.type == "f32" && !w.has("approx")) {
    if (w.operation == "div") return 10;
    if (w.operation == "sqrt") return 9;
    if (w.operation == "rcp") return 6;
  }
  if (w.type == "f64") {
    if (w.operation == "div") return 40;
    if (w.is_any({"sqrt", "rcp"})) return 30;
    return w.is_any({"ld", "st"}) ? 1 : 2;
  }
  if (w.operation == "call") return 40;  // a slow path; what is in it is not counted
  return 1;
}

double latency_of(const Words& w) {
  constexpr double kAlu = 4.5, kRoot = 45, kDivision = 45, kDouble = 12, kSpecial = 18, kMatrix = 33, kCall = 150;
  const bool is_double = w.has("f64");
  if (w.is_any({"mov", "cvta"})) return 0;
  if (w.operation == "mma") return kMatrix;
  if (w.operation == "call") return kCall;
  if (w.has("approx")) return kSpecial;
  if (w.operation == "div") return is_double ? 3 * kDivision : kDivision;
  if (w.is_any({"sqrt", "rcp"})) return kRoot;
  if (is_double) return kDouble;
  if (w.operation == "mul" && w.is_whole_64()) return 12;
  return w.is_whole_64() || w.type == "b64" ? 6 : kAlu;
}

std::size_t elements(const Operand& operand) {
  return operand.kind == Operand::Kind::kVector ? operand.parts.size() : 1;
}

/// Parameters and constants come through a cache of their own, as operands of instructions.
bool is_memory(const Words& w) { return !w.has("param") && !w.has("const"); }

WarpStep::Kind kind_of(const Words& w) {
  using Kind = WarpStep::Kind;
  if (w.is_any({"ld", "ldu"})) return is_memory(w) ? Kind::kLoad : Kind::kCompute;
  if (w.operation == "st") return is_memory(w) ? Kind::kStore : Kind::kCompute;
  if (w.is_any({"atom", "red"})) return Kind::kAtomic;
  if (w.operation == "ldmatrix") return Kind::kMatrixLoad;
  if (w.operation == "cp" && (w.has("shared") || w.has("shared::cta"))) return Kind::kCopy;
  // With groups left in flight, the older one has come long ago.
  if (w.has("wait_all") || (w.has("wait_group") && w.instruction.operands[0].text == "0")) return Kind::kCopyWait;
  if (w.operation == "cp") return Kind::kCompute;
  if (w.is_any({"shfl", "redux", "match"})) return Kind::kShuffle;
  if (w.operation == "bar" && w.has("warp")) return Kind::kWarpBarrier;
  if (w.is_any({"bar", "barrier"})) return Kind::kBarrier;
  return w.is_any({"bra", "brx", "ret", "exit", "trap", "brkpt"}) ? Kind::kBranch : Kind::kCompute;
}

}  // namespace

WarpStep warp_step(const Instruction& instruction) {
  using Kind = WarpStep::Kind;
  const Words words{instruction};
  WarpStep step;
  step.kind = kind_of(words);
  step.weight = weight_of(words);
  const auto size = [&](std::size_t at) {
    return static_cast<std::uint32_t>(size_of_type(words.type, instruction.line) * elements(instruction.operands[at]));
  };
  switch (step.kind) {
    case Kind::kLoad:
      step.tells = 1;
      step.bytes = size(0);
      step.is_constant = words.has("nc") || words.operation == "ldu";
      break;
    case Kind::kStore:
      step.tells = 1;
      step.bytes = size(1);
      break;
    case Kind::kAtomic:
      step.tells = 1;
      step.bytes = static_cast<std::uint32_t>(size_of_type(words.type, instruction.line));
      break;
    case Kind::kCopy:
      step.tells = 2;
      step.bytes = static_cast<std::uint32_t>(number_bits(instruction.operands[2].text, instruction.line));
      break;
    case Kind::kMatrixLoad:
      step.tells = 1;
      step.bytes = 16;
      break;
    case Kind::kCompute:
      // A parameter is a constant operand.
      step.latency = words.is_any({"ld"}) ? 0 : latency_of(words);
      break;
    case Kind::kCopyWait:
    case Kind::kShuffle:
    case Kind::kWarpBarrier:
    case Kind::kBarrier:
    case Kind::kBranch:
      break;
  }
  return step;
}

}  // namespace crucible::emulators::ptx
