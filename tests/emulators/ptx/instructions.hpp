// The instructions that the translator knows, as one table in the notation of NVIDIA's manual: which modifiers an
// instruction takes, what its operands are, and the C text that does the same. What is not here is refused by name.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tests/emulators/ptx/syntax.hpp"

namespace crucible::emulators::ptx {

/// One row. A class that stands twice in a pattern is the same word both times.
///   pattern   add{.RND}{.ftz}.f32 : words in capitals are classes (see instructions.cpp), {} may be left out
///   operands  d register that is written      q register, or register|register
///             v value   a address   p predicate   D, V registers or a vector of them (D4, V2: of so many)   t text   *
///             any number of anything v:u32, v:w (twice as wide) and v:b32 say a type other than the instruction's
///   text      C. $0 to $5 the operands; @CLASS what the class matched; @T the instruction's type, @n its bits,
///             @w twice its bits, @h a half's type of a packed one; @ftz( @sat( @relu( a call when that modifier is
///             there; @red and @phase
///             the place and the turn of barriers that reduce, @place a number of this instruction alone; $v1 the
///             values of a vector in braces;
///             [[0:x]] and [[P:x]] give x to the first register and to the one behind '|', [[V:x]] the elements of x to
///             the first vector. Without [[ ]] and with a 'd' first, the text is the value. "!name" is done by
///             emit.cpp.
///   meeting   the kind of meeting, when threads wait here; `text` comes before it
///   after     what comes after it
struct Row {
  const char* pattern;
  const char* operands;
  const char* text;
  const char* meeting = nullptr;
  const char* after = nullptr;
};

struct Match {
  const Row* row = nullptr;
  std::map<std::string, std::string, std::less<>> classes;  // by name; flags in lower case map to themselves
  std::vector<std::string> operands;                        // the row's, one word each
  std::string type;                                         // the last modifier that is a type; "" when there is none
};

/// The row for an instruction. Errors: throws Error that names the instruction, and what is wrong when only the number
/// of its operands is. Threads: any.
Match match_instruction(const Instruction& instruction);

}  // namespace crucible::emulators::ptx
