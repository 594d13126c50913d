// Puts functions together: see ptx.hpp.
#include <algorithm>

#include "tests/emulators/ptx/emit.hpp"
#include "tests/emulators/ptx/ptx.hpp"

extern "C" const char crucible_ptx_kernel_abi[], crucible_ptx_memory[], crucible_ptx_observation[],
    crucible_ptx_arithmetic[], crucible_ptx_conversion[], crucible_ptx_matrix[];

namespace crucible::emulators::ptx {
namespace {

/// Statements of a function beyond which clang's optimizer takes minutes (23,000 of them, an LSTM's: more than two, and
/// eleven seconds without).
constexpr std::size_t kMostOptimized = 10'000;

/// 64-bit words that matrix.h keeps for a thread, which checks the number.
constexpr std::uint32_t kKeptWords = 137;

std::string text(std::uint64_t number) { return std::to_string(number); }

class Translator {
 public:
  Translator(std::string_view ptx, Telling telling) : module_(parse(ptx)) { result_.telling = telling; }

  Translation run() {
    result_.target = module_.target;
    for (const char* part :
         {crucible_ptx_kernel_abi, crucible_ptx_memory, crucible_ptx_arithmetic, crucible_ptx_conversion}) {
      result_.text += part;
    }
    if (result_.telling.any()) result_.text += crucible_ptx_observation;
    if (any_keeps()) result_.text += "#define EMU_KEPT_WORDS " + text(kKeptWords) + "\n" + crucible_ptx_matrix;
    declare_variables();
    declare_functions();
    for (std::size_t i = 0; i < module_.functions.size(); ++i) {
      const Function& function = module_.functions[i];
      if (!function.has_body) continue;
      if (function.is_entry) {
        kernel(function);
      } else {
        called_function(function);
      }
    }
    return std::move(result_);
  }

 private:
  bool any_keeps() const {
    return std::ranges::any_of(module_.functions, [](const Function& function) {
      return std::ranges::any_of(function.body, [](const Item& item) {
        return item.kind == Item::Kind::kInstruction && keeps(item.instruction);
      });
    });
  }

  void declare_variables() {
    for (const Variable& variable : module_.variables) {
      const std::uint64_t size = size_of_type(variable.type, variable.line), align = std::max(variable.align, size);
      if (variable.space == "shared") {
        if (variable.is_unsized) {
          symbols_[variable.name] = {Symbol::Kind::kDynamicShared, 0, "", false};
          continue;
        }
        shared_bytes_ = (shared_bytes_ + align - 1) / align * align;
        symbols_[variable.name] = {Symbol::Kind::kShared, shared_bytes_, "", false};
        shared_bytes_ += variable.count * size;
        continue;
      }
      if (variable.is_external || variable.is_unsized)
        throw Error(variable.line, "the variable " + variable.name + " is in another module");
      Global global = {variable.name, "emu_global_" + text(result_.globals.size()), variable.count * size};
      result_.text += "u" + text(8 * size) + " " + global.c_name + "[" + text(variable.count) +
                      "] __attribute__((aligned(" + text(std::max<std::uint64_t>(align, 16)) + "))) = {";
      for (const std::uint64_t value : variable.initial)
        result_.text += "(u" + text(8 * size) + ")" + text(value) + "ull, ";
      result_.text += variable.initial.empty() ? "0};\n" : "};\n";
      symbols_[variable.name] = {Symbol::Kind::kGlobal, 0, global.c_name, false};
      result_.globals.push_back(std::move(global));
    }
  }

  void declare_functions() {
    for (std::size_t i = 0; i < module_.functions.size(); ++i) {
      const Function& function = module_.functions[i];
      if (function.is_entry) continue;
      Symbol& symbol = symbols_[function.name];
      if (symbol.has_body) continue;
      symbol = {Symbol::Kind::kFunction, i, "", function.has_body};
    }
    for (const Function& function : module_.functions) {
      if (function.is_entry || !function.has_body) continue;
      result_.text += head(function) + ";\n";
      const FunctionCode code = emit(function, symbols_, shared_bytes_, of_called());
      frames_bytes_ += frame_bytes(code);
      functions_keep_ |= code.keeps;
    }
  }

  std::string head(const Function& function) const {
    std::string head = "static int emu_function_" + text(symbols_.find(function.name)->second.at) +
                       "(EmuBlock* b, EmuThread* t, const u32 shared_static, char* const local, const u32 frame, const "
                       "u32 local_limit";
    for (std::size_t i = 0; i < function.results.size(); ++i) head += ", char* result" + text(i);
    for (std::size_t i = 0; i < function.parameters.size(); ++i) head += ", char* argument" + text(i);
    return head + ")";
  }

  static std::uint64_t frame_bytes(const FunctionCode& code) { return (code.local_bytes + 15) / 16 * 16; }

  /// What stands before the statements of each function.
  void open_body(const FunctionCode& code) {
    result_.text +=
        "  const u32 shared_limit = shared_static + b->dynamic_shared_bytes, frame_end = frame + " +
        text(frame_bytes(code)) +
        ";\n  u32 carry = 0;\n  (void)shared_limit, (void)local, (void)local_limit, (void)frame_end, (void)carry;\n";
    for (const std::string& bytes : code.bytes) result_.text += "  " + bytes + "\n";
    for (std::size_t i = 0; i < code.registers.size(); ++i) {
      result_.text +=
          (i % 8 == 0 ? "  " : " ") + code.registers[i] + " r" + text(i) + " = 0;" + (i % 8 == 7 ? "\n" : "");
    }
    result_.text += "\n";
  }

  /// To a warp, a call is one instruction.
  Telling of_called() const {
    Telling telling = result_.telling;
    telling.warps = false;
    return telling;
  }

  void called_function(const Function& function) {
    const FunctionCode code = emit(function, symbols_, shared_bytes_, of_called());
    if (code.meetings != 0) {
      throw Error(function.line, "threads meet in " + function.name +
                                     ", which is called: the emulator translates that only where it is inlined");
    }
    if (code.shared_bytes > shared_bytes_)
      throw Error(function.line, function.name + " is called and has shared variables of its own");
    result_.text += head(function) + " {\n";
    open_body(code);
    for (const Statement& statement : code.statements) plain(statement);
    result_.text += "  return 0;\n}\n";
  }

  void plain(const Statement& statement) {
    if (statement.label >= 0) {
      result_.text += " L" + std::to_string(statement.label) + ":;\n";
      return;
    }
    result_.text +=
        "  " + (statement.guard.empty() ? "" : "if (" + statement.guard + ") ") + "{ " + statement.before + " }";
    if (!statement.guard.empty() && statement.step.tells != 0)
      result_.text += " else { " + nothing_told(statement) + "}";
    result_.text += "\n";
  }

  /// What a lane tells whose guard is false.
  static std::string nothing_told(const Statement& statement) {
    std::string words;
    for (int i = 0; i < statement.step.tells; ++i) words += "tell(b, t, 0); ";
    return words;
  }

  /// Basic blocks: they begin at labels and behind jumps.
  static WarpProgram warp_program(const FunctionCode& code, std::vector<bool>& begins) {
    WarpProgram program;
    begins.assign(code.statements.size(), false);
    bool begin = true;
    for (std::size_t i = 0; i < code.statements.size(); ++i) {
      const Statement& statement = code.statements[i];
      if (statement.label >= 0) {
        begin = true;
        continue;
      }
      if (begin) program.blocks.push_back(static_cast<std::uint32_t>(program.steps.size()));
      begins[i] = begin;
      begin = statement.step.kind == WarpStep::Kind::kBranch;
      WarpStep step = statement.step;
      step.read = statement.read;
      step.written = statement.written;
      program.steps.push_back(std::move(step));
    }
    program.blocks.push_back(static_cast<std::uint32_t>(program.steps.size()));
    program.registers = static_cast<std::uint32_t>(code.registers.size());
    // Addresses, what is in flight, and what ptxas keeps for itself.
    constexpr std::uint32_t kBeside = 10;
    program.live_registers = std::min(255u, std::max(16u, most_live(code) + kBeside));
    return program;
  }

  void kernel(const Function& function) {
    const FunctionCode code = emit(function, symbols_, shared_bytes_, result_.telling);
    const std::string number = text(result_.kernels.size());
    Kernel kernel;
    kernel.name = function.name;
    kernel.required_block = function.required_block;
    const std::vector<std::uint64_t> offsets = parameter_offsets(function);
    for (std::size_t i = 0; i < function.parameters.size(); ++i) {
      const Variable& parameter = function.parameters[i];
      kernel.parameters.push_back({offsets[i], parameter.count * size_of_type(parameter.type, parameter.line)});
    }
    kernel.parameter_bytes = offsets.back();
    kernel.shared_bytes =
        static_cast<std::uint32_t>((code.shared_bytes + 15) / 16 * 16);  // the dynamic part is aligned to 16
    // Called functions have their frames behind the kernel's, in any order once; those that call themselves may run
    // out.
    kernel.local_bytes = static_cast<std::uint32_t>(frame_bytes(code) + (code.calls ? frames_bytes_ : 0));
    kernel.registers = static_cast<std::uint32_t>(code.registers.size());
    kernel.meetings = static_cast<std::uint32_t>(code.meetings);
    for (const auto& bounds : {function.max_block, function.required_block}) {
      if (bounds[0] != 0)
        kernel.max_threads =
            static_cast<std::uint32_t>(std::min<std::uint64_t>(1024, bounds[0] * bounds[1] * bounds[2]));
    }
    const bool keeps = code.keeps || (code.calls && functions_keep_);
    kernel.resumable = code.meetings != 0 || keeps;
    kernel.save_words = keeps ? kKeptWords : 0;
    std::string kind = kernel.resumable ? "" : "SI";  // one that is resumed is looked up by its name
    if (code.statements.size() > kMostOptimized) kind = "__attribute__((optnone, noinline))";
    result_.text += "/* " + function.name + " */\n" + kind + " int emu_thread_" + number +
                    "(EmuBlock* b, EmuThread* t) {\n  char* const local = t->local;\n  const u32 shared_static = " +
                    text(kernel.shared_bytes) + ", frame = 0, local_limit = " + text(kernel.local_bytes) + ";\n";
    open_body(code);
    if (keeps) result_.text += "  if (t->pc == 0) keep_nothing(t);\n";
    statements(code, kernel);
    result_.text += "  return EMU_DONE;\n}\n";
    if (!kernel.resumable) block_loop(code, number);
    result_.kernels.push_back(std::move(kernel));
  }

  void statements(const FunctionCode& code, Kernel& kernel) {
    if (code.meetings != 0) {
      result_.text += "  switch (t->pc) {";
      for (std::size_t i = 1; i <= code.meetings; ++i) result_.text += " case " + text(i) + ": goto R" + text(i) + ";";
      result_.text += " }\n";
    }
    const std::vector<std::vector<int>> live = live_over_meetings(code);
    std::vector<bool> begins;
    if (result_.telling.warps) kernel.warps = warp_program(code, begins);
    std::uint64_t block = 0;
    std::uint64_t place = 0;
    const std::uint32_t first = kernel.save_words;
    for (std::size_t i = 0; i < code.statements.size(); ++i) {
      const Statement& statement = code.statements[i];
      if (!begins.empty() && begins[i]) result_.text += "  tell(b, t, 1ull << 63 | " + text(block++) + "u);\n";
      if (statement.meeting == nullptr) {
        plain(statement);
        continue;
      }
      const std::string here = text(++place);
      if (!statement.guard.empty()) {
        result_.text += "  if (!(" + statement.guard + ")) { " + nothing_told(statement) + "goto N" + here + "; }\n";
      }
      result_.text += "  { " + statement.before + " }\n  ";
      for (std::size_t j = 0; j < live[i].size(); ++j)
        result_.text += "t->save[" + text(first + j) + "] = r" + std::to_string(live[i][j]) + "; ";
      result_.text += "t->pc = " + here + "; return " + statement.meeting + ";\n R" + here + ":;\n  ";
      for (std::size_t j = 0; j < live[i].size(); ++j) {
        const int r = live[i][j];
        result_.text += "r" + std::to_string(r) + " = (" + code.registers[static_cast<std::size_t>(r)] + ")t->save[" +
                        text(first + j) + "]; ";
      }
      result_.text += "\n  { " + statement.after + " }\n N" + here + ":;\n";
      kernel.save_words = std::max(kernel.save_words, first + static_cast<std::uint32_t>(live[i].size()));
    }
  }

  /// All threads of a block in one loop. The pragma promises that threads do not depend on each other, which holds
  /// where they share no memory but the global one.
  void block_loop(const FunctionCode& code, const std::string& number) {
    const bool can_stop = code.traps || code.calls;
    const bool is_parallel =
        !result_.telling.any() && !can_stop && code.local_bytes == 0 && !code.has_atomics && code.shared_bytes == 0;
    result_.text += "void emu_block_" + number +
                    "(EmuBlock* b, EmuThread* first) {\n  u32 l = 0;\n"
                    "  for (u32 z = 0; z < b->nz; z++) for (u32 y = 0; y < b->ny; y++) {\n";
    if (is_parallel) result_.text += "#pragma clang loop vectorize(assume_safety)\n";
    result_.text +=
        "    for (u32 x = 0; x < b->nx; x++) {\n"
        "      EmuThread t = {.x = x, .y = y, .z = z, .linear = l + x, .local = first->local};\n      ";
    result_.text += can_stop ? "if (emu_thread_" + number + "(b, &t) == EMU_TRAP) { b->trapped = 1; return; }\n"
                             : "emu_thread_" + number + "(b, &t);\n";
    result_.text += "    }\n    l += b->nx;\n  }\n}\n";
  }

  Module module_;
  Translation result_;
  Symbols symbols_;
  std::uint64_t shared_bytes_ = 0, frames_bytes_ = 0;
  bool functions_keep_ = false;
};

}  // namespace

Translation translate(std::string_view ptx, Telling telling) { return Translator(ptx, telling).run(); }

bool keeps(const Instruction& instruction) {
  const std::string& operation = instruction.modifiers[0];
  return operation == "mma" || operation == "ldmatrix" || operation == "cp";
}

std::vector<std::uint64_t> parameter_offsets(const Function& function) {
  std::vector<std::uint64_t> offsets;
  std::uint64_t end = 0;
  for (const Variable& parameter : function.parameters) {
    const std::uint64_t size = size_of_type(parameter.type, parameter.line);
    const std::uint64_t step = std::max(parameter.align, size);
    end = (end + step - 1) / step * step;
    offsets.push_back(end);
    end += size * parameter.count;
  }
  offsets.push_back(end);
  return offsets;
}

}  // namespace crucible::emulators::ptx
