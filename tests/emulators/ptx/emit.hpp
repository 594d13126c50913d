// One PTX function as C statements: names resolved, instructions filled into their rows' texts. translate.cpp puts the
// statements together, because only there is it known what has to survive a meeting.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/emulators/ptx/ptx.hpp"
#include "tests/emulators/ptx/syntax.hpp"

namespace crucible::emulators::ptx {

/// What a name stands for.
struct Symbol {
  enum class Kind { kRegister, kShared, kDynamicShared, kLocal, kParameter, kBytes, kGlobal, kFunction };
  Kind kind = Kind::kRegister;
  std::uint64_t at = 0;  // register: its number; shared, local, parameter: its offset; function: its number
  std::string c_name;    // kBytes: a char*; kGlobal: an array
  bool has_body = false;
};
using Symbols = std::map<std::string, Symbol, std::less<>>;

struct Statement {
  int label = -1;      // a place to jump to, nothing else
  std::string guard;   // "r3", "!r3" or ""
  std::string before;  // the whole text, or what comes before the meeting
  std::string after;   // what comes after it
  const char* meeting = nullptr;
  std::vector<int> written, read;  // registers, the guard's among the read ones
  std::vector<int> jumps;          // labels
  bool goes_on = true;             // to the next statement; a guarded one always may
  WarpStep step;                   // what it is to a warp, of Telling::warps; its registers are those above
};

struct FunctionCode {
  std::vector<std::string> registers;  // C types, by number
  std::vector<std::string> bytes;      // arrays for the parameters of calls, as declarations
  std::vector<Statement> statements;
  std::uint64_t shared_bytes = 0;  // with what the module declares, when it uses that
  std::uint64_t local_bytes = 0;
  std::size_t meetings = 0;
  bool calls = false, traps = false, has_atomics = false;
  bool keeps = false;  // its threads have what matrix.h keeps
};

/// `module` are the names outside; its shared variables take `module_shared_bytes`. Errors: throws Error. Threads: any.
FunctionCode emit(const Function& function, const Symbols& module, std::uint64_t module_shared_bytes, Telling telling);

/// 32-bit registers that are needed at once where most are.
std::uint32_t most_live(const FunctionCode& code);

/// Whether an instruction needs matrix.h: matrices and asynchronous copies.
bool keeps(const Instruction& instruction);

/// "b->observer->operations[EMU_F32] += 2; " before an instruction that computes with floats of `type`; "" before
/// others. Comparisons, conversions, and what chooses or changes a sign are none, as where operations of devices are
/// counted.
std::string counted_operations(const Instruction& instruction, const std::string& type);

/// A special register as C; null when the name is none.
const char* special_register(const std::string& name);

/// Where each parameter of a kernel lies; the last element is the size of all. Errors: throws Error.
std::vector<std::uint64_t> parameter_offsets(const Function& function);

/// By statement: the registers that have to survive its meeting; empty for others.
std::vector<std::vector<int>> live_over_meetings(const FunctionCode& code);

}  // namespace crucible::emulators::ptx
