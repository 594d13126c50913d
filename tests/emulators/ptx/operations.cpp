// What instructions count as operations of floats, for texts that tell of their work: see emit.hpp.
#include <map>

#include "tests/emulators/ptx/emit.hpp"

namespace crucible::emulators::ptx {
namespace {

/// A lane's part of mma.sync.aligned.m16n8kDEPTH.row.col.d.a.b.c: 16 rows and 8 columns. Those of integers cost
/// nothing.
std::string counted_product(const Instruction& instruction) {
  static const std::map<std::string, const char*, std::less<>> kUnits = {
      {"f16", "EMU_MATRIX_F16"}, {"bf16", "EMU_MATRIX_BF16"}, {"tf32", "EMU_MATRIX_TF32"}};
  const auto unit = kUnits.find(instruction.modifiers.at(7));
  if (unit == kUnits.end()) return "";
  const int operations = 2 * 16 * 8 / 32 * std::stoi(instruction.modifiers[3].substr(6));
  return std::string("b->observer->operations[") + unit->second + "] += " + std::to_string(operations) + "; ";
}

}  // namespace

std::string counted_operations(const Instruction& instruction, const std::string& type) {
  static const std::map<std::string, int, std::less<>> kOperations = {
      {"add", 1},   {"sub", 1}, {"mul", 1}, {"fma", 2}, {"mad", 2}, {"div", 1},  {"rcp", 1},  {"sqrt", 1},
      {"rsqrt", 1}, {"ex2", 1}, {"lg2", 1}, {"sin", 1}, {"cos", 1}, {"tanh", 1}, {"atom", 1}, {"red", 1}};
  static const std::map<std::string, std::pair<const char*, int>, std::less<>> kFormats = {
      {"f64", {"EMU_F64", 1}},   {"f32", {"EMU_F32", 1}},   {"f16", {"EMU_F16", 1}},
      {"bf16", {"EMU_BF16", 1}}, {"f16x2", {"EMU_F16", 2}}, {"bf16x2", {"EMU_BF16", 2}}};
  if (instruction.modifiers[0] == "mma") return counted_product(instruction);
  const auto operation = kOperations.find(instruction.modifiers[0]);
  const auto format = kFormats.find(type);
  if (operation == kOperations.end() || format == kFormats.end()) return "";
  const auto& [name, lanes] = format->second;
  return std::string("b->observer->operations[") + name + "] += " + std::to_string(operation->second * lanes) + "; ";
}

}  // namespace crucible::emulators::ptx
