// PTX text as a tree: what the parser gives to the translator. Names are as spelt, types too; nothing is resolved here.
#pragma once

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace crucible::emulators::ptx {

/// What is wrong with a text, with its line.
class Error : public std::runtime_error {
 public:
  Error(int line, const std::string& message)
      : std::runtime_error(line > 0 ? "PTX line " + std::to_string(line) + ": " + message : message) {}
};

struct Operand {
  enum class Kind { kName, kNumber, kAddress, kVector, kGroup };
  Kind kind = Kind::kName;
  std::string text;            // kName, kNumber: as spelt; kAddress: its base, a name or a number
  bool negated = false;        // !p
  std::int64_t offset = 0;     // kAddress
  std::vector<Operand> parts;  // kVector, kGroup; kName: the name behind '|', if any
};

struct Instruction {
  int line = 0;
  std::string guard;  // the predicate of @p, or ""
  bool guard_negated = false;
  std::string opcode;                  // whole: ld.global.nc.v4.f32
  std::vector<std::string> modifiers;  // its parts, the first is the operation
  std::vector<Operand> operands;
};

struct Variable {
  int line = 0;
  std::string space;  // reg, shared, local, param, global, const
  std::string type;   // u32, b8, pred, ...
  std::string name;
  std::uint64_t align = 0;  // 0: not given
  std::uint64_t count = 1;  // elements; for registers the N of %r<N>
  bool is_range = false;    // %r<N>
  bool is_unsized = false;  // name[]
  bool is_external = false;
  std::vector<std::uint64_t> initial;
};

struct Item {
  enum class Kind { kInstruction, kVariable, kLabel, kOpen, kClose };
  Kind kind = Kind::kInstruction;
  Instruction instruction;
  Variable variable;
  std::string label;
  std::vector<std::string> targets;  // of a label with .branchtargets
};

struct Function {
  int line = 0;
  std::string name;
  bool is_entry = false, has_body = false;
  std::vector<Variable> results, parameters;
  std::array<std::uint64_t, 3> max_block = {0, 0, 0};       // .maxntid; 0: not given
  std::array<std::uint64_t, 3> required_block = {0, 0, 0};  // .reqntid
  std::vector<Item> body;
};

struct Module {
  std::string version, target;
  std::vector<Variable> variables;
  std::vector<Function> functions;
};

/// Bytes of a type: 4 for u32 and f16x2, 1 for pred. Errors: throws Error for what is no type.
std::uint64_t size_of_type(std::string_view type, int line);
/// The value of a number as spelt in PTX: 12, -1, 0x1fU, 0f3F800000 and 0d... as bits. Errors: throws Error.
std::uint64_t number_bits(std::string_view text, int line);

/// Errors: throws Error with the line and what was expected there. Threads: any.
Module parse(std::string_view text);

}  // namespace crucible::emulators::ptx
