// Names, operands and the filling of texts: see emit.hpp and instructions.hpp.
#include "tests/emulators/ptx/emit.hpp"

#include <algorithm>
#include <functional>
#include <optional>

#include "tests/emulators/ptx/instructions.hpp"

namespace crucible::emulators::ptx {
namespace {

using Kind = Operand::Kind;

std::string text(std::uint64_t number) { return std::to_string(number); }
std::uint64_t round_up(std::uint64_t value, std::uint64_t step) { return (value + step - 1) / step * step; }
std::string bits_of(std::string_view type, int line) {
  return type == "pred" ? "32" : text(8 * size_of_type(type, line));
}
std::string unsigned_of(std::string_view type, int line) { return "u" + bits_of(type, line); }

class Emitter {
 public:
  Emitter(const Function& function, const Symbols& module, std::uint64_t module_shared_bytes, Telling telling)
      : function_(function), module_(module), telling_(telling) {
    scopes_.push_back({0, {}});
    if (uses_module_shared()) code_.shared_bytes = module_shared_bytes;
  }

  FunctionCode run() {
    declare_parameters();
    number_labels();
    for (const Item& item : function_.body) {
      switch (item.kind) {
        case Item::Kind::kOpen:
          scopes_.push_back({++last_scope_, {}});
          break;
        case Item::Kind::kClose:
          scopes_.pop_back();
          break;
        case Item::Kind::kVariable:
          declare(item.variable);
          break;
        case Item::Kind::kLabel:
          if (item.targets.empty()) code_.statements.emplace_back().label = label(item.label, function_.line);
          break;
        case Item::Kind::kInstruction:
          instruction(item.instruction);
          break;
      }
    }
    return std::move(code_);
  }

 private:
  struct Scope {
    int id;
    Symbols symbols;
  };

  bool uses_module_shared() const {
    const auto is_shared = [&](const std::string& name) {
      const auto found = module_.find(name);
      return found != module_.end() &&
             (found->second.kind == Symbol::Kind::kShared || found->second.kind == Symbol::Kind::kFunction);
    };
    const std::function<bool(const Operand&)> uses = [&](const Operand& operand) {
      return is_shared(operand.text) || std::ranges::any_of(operand.parts, uses);
    };
    return std::ranges::any_of(function_.body, [&](const Item& item) {
      return item.kind == Item::Kind::kInstruction && std::ranges::any_of(item.instruction.operands, uses);
    });
  }

  // ---- names ----
  void declare_parameters() {
    if (function_.is_entry) {
      const std::vector<std::uint64_t> offsets = parameter_offsets(function_);
      for (std::size_t i = 0; i < function_.parameters.size(); ++i) {
        add(function_.parameters[i].name, {Symbol::Kind::kParameter, offsets[i], "", false});
      }
      return;
    }
    for (const auto& [list, prefix] :
         {std::pair(&function_.results, "result"), std::pair(&function_.parameters, "argument")}) {
      for (std::size_t i = 0; i < list->size(); ++i) {
        if ((*list)[i].space != "param")
          throw Error((*list)[i].line, function_.name + " takes registers, not parameters");
        add((*list)[i].name, {Symbol::Kind::kBytes, 0, prefix + text(i), false});
      }
    }
  }

  void add(const std::string& name, Symbol symbol) { scopes_.back().symbols.insert_or_assign(name, std::move(symbol)); }

  void declare(const Variable& variable) {
    const std::uint64_t size = size_of_type(variable.type, variable.line);
    if (variable.space == "reg") {
      const std::string type = variable.type == "pred" ? "u8" : unsigned_of(variable.type, variable.line);
      for (std::uint64_t i = 0; i < variable.count; ++i) {
        add(variable.is_range ? variable.name + text(i) : variable.name,
            {Symbol::Kind::kRegister, code_.registers.size(), "", false});
        code_.registers.push_back(type);
      }
    } else if (variable.space == "shared" && variable.is_unsized) {
      add(variable.name, {Symbol::Kind::kDynamicShared, 0, "", false});
    } else if (variable.space == "shared" || variable.space == "local") {
      std::uint64_t& used = variable.space == "shared" ? code_.shared_bytes : code_.local_bytes;
      used = round_up(used, std::max(variable.align, size));
      add(variable.name, {variable.space == "shared" ? Symbol::Kind::kShared : Symbol::Kind::kLocal, used, "", false});
      used += variable.count * size;
    } else if (variable.space == "param") {
      const std::string name = "param" + text(code_.bytes.size());
      code_.bytes.push_back("char " + name + "[" + text(std::max<std::uint64_t>(variable.count * size, 8)) +
                            "] __attribute__((aligned(16)));");
      add(variable.name, {Symbol::Kind::kBytes, 0, name, false});
    } else {
      throw Error(variable.line, "a variable in ." + variable.space + " inside a function is not translated");
    }
  }

  const Symbol* find(const std::string& name) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      if (const auto found = scope->symbols.find(name); found != scope->symbols.end()) return &found->second;
    }
    const auto found = module_.find(name);
    return found == module_.end() ? nullptr : &found->second;
  }

  /// Labels belong to their braces, and are used before they are met.
  void number_labels() {
    std::vector<int> open = {0};
    int last = 0, next = 0;
    for (const Item& item : function_.body) {
      if (item.kind == Item::Kind::kOpen) open.push_back(++last);
      if (item.kind == Item::Kind::kClose) open.pop_back();
      if (item.kind != Item::Kind::kLabel) continue;
      labels_[{open.back(), item.label}] = next++;
      if (!item.targets.empty()) tables_[{open.back(), item.label}] = item.targets;
    }
  }
  int label(const std::string& name, int line) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      if (const auto found = labels_.find({scope->id, name}); found != labels_.end()) return found->second;
    }
    throw Error(line, "there is no label " + name);
  }

  // ---- operands ----
  static std::optional<std::uint64_t> immediate(const Operand& operand, int line) {
    if (operand.kind != Kind::kNumber) return std::nullopt;
    return number_bits(operand.text, line);
  }

  std::string number(std::uint64_t bits, std::string_view type) const {
    if (type == "pred") return bits != 0 ? "1u" : "0u";
    const std::uint64_t size = size_of_type(type, line_);
    if (size == 8) return text(bits) + "ull";
    return "(u" + text(8 * size) + ")" + text(bits & ((1ull << 8 * size) - 1)) + "u";
  }

  /// The bits of an operand in the unsigned type of `type`.
  std::string value(const Operand& operand, std::string_view type) {
    if (const auto bits = immediate(operand, line_)) return number(*bits, type);
    if (operand.kind != Kind::kName)
      throw Error(line_, opcode_ + ": an operand is a list or an address where a value is wanted");
    const std::string wanted = unsigned_of(type, line_);
    const std::string sign = operand.negated ? "!" : "";
    if (const char* special = special_register(operand.text)) return "(" + wanted + ")" + special;
    const Symbol* const symbol = find(operand.text);
    if (symbol == nullptr) throw Error(line_, opcode_ + ": unknown operand " + operand.text);
    switch (symbol->kind) {
      case Symbol::Kind::kRegister: {
        statement_.read.push_back(static_cast<int>(symbol->at));
        const std::string name = "r" + text(symbol->at);
        return sign.empty() && code_.registers[symbol->at] == wanted ? name : "(" + wanted + ")" + sign + name;
      }
      case Symbol::Kind::kShared:
        return "(" + wanted + ")" + text(symbol->at) + "u";
      case Symbol::Kind::kLocal:
        return "(" + wanted + ")(frame + " + text(symbol->at) + "u)";
      case Symbol::Kind::kDynamicShared:
        return "(" + wanted + ")shared_static";
      case Symbol::Kind::kParameter:
        return "generic(b->arguments + " + text(symbol->at) + ")";
      case Symbol::Kind::kBytes:
      case Symbol::Kind::kGlobal:
        return "generic(" + symbol->c_name + ")";
      case Symbol::Kind::kFunction:
        break;
    }
    throw Error(line_, "the emulator has no pointers to functions (" + operand.text + ")");
  }

  std::string address(const Operand& operand, std::string_view space) {
    if (operand.kind != Kind::kAddress) throw Error(line_, opcode_ + ": an operand is no address");
    const std::string offset = text(static_cast<std::uint64_t>(operand.offset)) + "ull";
    const Symbol* const symbol = find(operand.text);
    if (symbol != nullptr && symbol->kind == Symbol::Kind::kParameter)
      return "((char*)b->arguments + " + text(symbol->at) + " + " + offset + ")";
    if (symbol != nullptr && (symbol->kind == Symbol::Kind::kBytes || symbol->kind == Symbol::Kind::kGlobal)) {
      return "((char*)" + symbol->c_name + " + " + offset + ")";
    }
    Operand base;
    base.kind = std::isdigit(static_cast<unsigned char>(operand.text[0])) ? Kind::kNumber : Kind::kName;
    base.text = operand.text;
    if (space == "shared") return "inside(b->shared, " + value(base, "u32") + " + (u32)" + offset + ", shared_limit)";
    if (space == "local") return "inside(local, " + value(base, "u32") + " + (u32)" + offset + ", local_limit)";
    return "at(" + value(base, "u64") + " + " + offset + ")";
  }

  std::string_view space_of(const Instruction& instruction) const {
    for (const std::string& modifier : instruction.modifiers) {
      for (const std::string_view space : {"param", "shared", "local", "global", "const"}) {
        if (modifier == space || modifier.starts_with(std::string(space) + "::")) return space;
      }
    }
    return "generic";
  }

  /// "r5 = (u32)(x);", or nothing for '_'.
  std::string assignment(const Operand& operand, const std::string& x) {
    if (operand.kind != Kind::kName) throw Error(line_, opcode_ + ": a result is no register");
    if (operand.text == "_") return "";
    const Symbol* const symbol = find(operand.text);
    if (symbol == nullptr || symbol->kind != Symbol::Kind::kRegister)
      throw Error(line_, opcode_ + ": " + operand.text + " is no register");
    statement_.written.push_back(static_cast<int>(symbol->at));
    return "r" + text(symbol->at) + " = (" + code_.registers[symbol->at] + ")(" + x + ");";
  }

  // ---- telling ----
  bool tells_of(std::string_view space) const {
    if (space == "param" || space == "local") return false;
    if (space == "shared") return telling_.shared;
    return space == "generic" ? telling_.work || telling_.shared : telling_.work;
  }

  /// An address that tells of the access to it, where the text does.
  std::string observed(const std::string& address, std::string_view space, std::uint64_t bytes,
                       std::string_view kind) const {
    return tells_of(space) ? "observe(b, t, " + address + ", " + text(bytes) + ", " + std::string(kind) + ")" : address;
  }

  /// What a row of the table does at an address: asynchronous copies read here and write there, ldmatrix reads, all
  /// others are atomic.
  static std::string_view row_access(const Instruction& instruction, bool shared) {
    if (instruction.modifiers[0] == "cp") return shared ? "EMU_WRITE" : "EMU_READ";
    return instruction.modifiers[0] == "ldmatrix" ? "EMU_READ" : "EMU_READ | EMU_WRITE | EMU_ATOMIC";
  }
  std::uint64_t row_bytes(const Match& match, const Instruction& instruction) const {
    if (instruction.modifiers[0] == "ldmatrix") return 16;
    if (instruction.modifiers[0] != "cp") return size_of_type(match.type, line_);
    const bool is_cg = instruction.modifiers[2] == "cg";
    const std::string& bytes = instruction.operands[2].text;
    if (bytes != "16" && (is_cg || (bytes != "4" && bytes != "8")))
      throw Error(line_, opcode_ + " copies " + (is_cg ? "16" : "4, 8 or 16") + " bytes, not " + bytes);
    return number_bits(bytes, line_);
  }

  // ---- texts ----
  std::string operand_type(const Match& match, std::size_t i) const {
    const std::string& word = match.operands[i];
    if (word[0] == 'p') return "pred";
    const std::size_t colon = word.find(':');
    if (colon == std::string::npos) return match.type.empty() ? "u32" : match.type;
    const std::string type = word.substr(colon + 1);
    if (type == "w") return "u" + text(16 * size_of_type(match.type, line_));
    const auto found = match.classes.find(type);
    return found == match.classes.end() ? type : found->second;
  }

  /// A vector's parts, as many as the row says.
  std::vector<Operand> counted_parts(const Match& match, const Instruction& instruction, std::size_t i) const {
    std::vector<Operand> parts = parts_of(instruction.operands[i]);
    const auto wanted = static_cast<std::size_t>(match.operands[i][1] - '0');
    if (parts.size() == wanted) return parts;
    throw Error(
        line_, opcode_ + ": operand " + text(i + 1) + " has " + text(parts.size()) + " registers, not " + text(wanted));
  }
  std::string vector_values(const Match& match, const Instruction& instruction, std::size_t i) {
    std::string values;
    for (const Operand& part : counted_parts(match, instruction, i))
      values += (values.empty() ? "" : ", ") + value(part, operand_type(match, i));
    return "{" + values + "}";
  }

  /// Fills a row's text in.
  std::string fill(std::string_view row, const Match& match, const Instruction& instruction) {
    std::string filled;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string_view rest = row.substr(i);
      if (rest.starts_with("[[")) {
        const std::size_t end = row.find("]]", i);
        const Operand& result = instruction.operands[0];
        const std::string x = fill(row.substr(i + 4, end - i - 4), match, instruction);
        if (rest[2] == '0') filled += assignment(result, x);
        if (rest[2] == 'V') {
          const std::vector<Operand> parts = counted_parts(match, instruction, 0);
          for (std::size_t k = 0; k < parts.size(); ++k) filled += assignment(parts[k], x + "[" + text(k) + "]");
        }
        if (rest[2] == 'P' && !result.parts.empty()) filled += assignment(result.parts[0], x);
        i = end + 1;
      } else if (rest.starts_with("$a")) {
        const bool shared = rest.substr(3).starts_with('s'), global = rest.substr(3).starts_with('g');
        const auto space = shared   ? std::string_view("shared")
                           : global ? std::string_view("global")
                                    : space_of(instruction);
        const std::string place = address(instruction.operands[static_cast<std::size_t>(rest[2] - '0')], space);
        filled += observed(place, space, row_bytes(match, instruction), row_access(instruction, shared));
        i += shared || global ? 3 : 2;
      } else if (rest.starts_with("$v")) {
        filled += vector_values(match, instruction, static_cast<std::size_t>(rest[2] - '0'));
        i += 2;
      } else if (rest[0] == '$') {
        const auto k = static_cast<std::size_t>(rest[1] - '0');
        filled += match.operands[k] == "t" ? instruction.operands[k].text
                                           : value(instruction.operands[k], operand_type(match, k));
        ++i;
      } else if (rest[0] == '@') {
        const std::size_t end = std::min(row.find_first_not_of(std::islower(static_cast<unsigned char>(rest[1]))
                                                                   ? "abcdefghijklmnopqrstuvwxyz"
                                                                   : "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789",
                                                               i + 1),
                                         row.size());
        std::string_view name = row.substr(i + 1, end - i - 1);
        i = end - 1;
        if (name == "place") {
          filled += text(code_.statements.size() + 1);
        } else {
          filled += name == "red" || name == "phase" ? reduction(name == "phase") : word(name, row, i, match);
        }
      } else {
        filled += rest[0];
      }
    }
    return filled;
  }

  /// The counts of barriers that reduce lie behind the other shared variables; each thread knows whose turn it is.
  std::string reduction(bool is_phase) {
    if (reduction_at_ < 0) {
      code_.shared_bytes = round_up(code_.shared_bytes, 4);
      reduction_at_ = static_cast<int>(code_.shared_bytes);
      code_.shared_bytes += 24;
      phase_ = static_cast<int>(code_.registers.size());
      code_.registers.push_back("u32");
    }
    if (!is_phase) return std::to_string(reduction_at_);
    statement_.read.push_back(phase_);
    return "r" + std::to_string(phase_);
  }

  /// What @name stands for; `i` moves over ":type" behind it.
  std::string word(std::string_view name, std::string_view row, std::size_t& i, const Match& match) const {
    const auto bits = [&] { return 8 * size_of_type(match.type, line_); };
    if (name == "T") return match.type;
    if (name == "n") return text(bits());
    if (name == "w") return text(2 * bits());
    if (name == "h") return match.classes.contains("H2") ? half(match.classes.find("H2")->second) : half(match.type);
    if (name != "ftz" && name != "sat") {
      const auto found = match.classes.find(name);
      if (found == match.classes.end()) throw Error(line_, "the row of " + opcode_ + " has no @" + std::string(name));
      return found->second;
    }
    std::string type = match.type;
    if (row.substr(i + 1).starts_with(':')) {
      const std::size_t end = row.find('(', i);
      type = row.substr(i + 2, end - i - 2);
      if (const auto found = match.classes.find(type); found != match.classes.end()) type = found->second;
      i = end - 1;
    }
    if (!match.classes.contains(name)) return "";
    return (name == "ftz" ? "flush_" : "saturate_") + type;
  }
  static std::string half(const std::string& packed) { return packed.substr(0, packed.find("x2")); }

  // ---- instructions ----
  void instruction(const Instruction& instruction) {
    line_ = instruction.line;
    opcode_ = instruction.opcode;
    statement_ = {};
    const Match match = match_instruction(instruction);
    if (!instruction.guard.empty()) {
      Operand guard;
      guard.text = instruction.guard;
      guard.negated = instruction.guard_negated;
      statement_.guard = value(guard, "pred");
    }
    code_.keeps |= keeps(instruction);
    const std::string_view row = match.row->text;
    if (row.starts_with('!')) {
      by_name(row.substr(1), match, instruction);
    } else {
      const bool is_value = !match.operands.empty() && match.operands[0] == "d" &&
                            row.find("[[") == std::string_view::npos && match.row->meeting == nullptr;
      if (telling_.work) statement_.before = counted_operations(instruction, match.type);
      statement_.before +=
          is_value ? assignment(instruction.operands[0], fill(row, match, instruction)) : fill(row, match, instruction);
      if (match.row->meeting != nullptr) {
        statement_.meeting = match.row->meeting;
        statement_.after = fill(match.row->after, match, instruction);
        ++code_.meetings;
      }
      code_.has_atomics |= instruction.modifiers[0] == "atom" || instruction.modifiers[0] == "red";
      if (row.starts_with("return ")) {
        code_.traps = true;
        statement_.goes_on = false;
      }
    }
    if (telling_.warps) tell_warp(instruction);
    code_.statements.push_back(std::move(statement_));
  }

  /// The addresses that a lane tells of stand before what it does with them, which may overwrite their registers.
  void tell_warp(const Instruction& instruction) {
    statement_.step = warp_step(instruction);
    std::string words;
    int left = statement_.step.tells;
    for (const Operand& operand : instruction.operands) {
      if (operand.kind != Kind::kAddress || left == 0) continue;
      // cp.async names a place in shared memory and one in global memory.
      const std::string_view space = statement_.step.tells == 1 ? space_of(instruction)
                                     : left == 2                ? "shared"
                                                                : "global";
      words += "tell(b, t, (u64)(uintptr_t)" + address(operand, space) + "); ";
      --left;
    }
    statement_.before = words + statement_.before;
  }

  void by_name(std::string_view name, const Match& match, const Instruction& instruction) {
    if (name == "load") return load(match, instruction);
    if (name == "store") return store(match, instruction);
    if (name == "move") return move(match, instruction);
    if (name == "call") return call(instruction);
    if (name == "branch") {
      const int to = label(instruction.operands[0].text, line_);
      statement_.jumps = {to};
      statement_.goes_on = false;
      statement_.before = "goto L" + text(static_cast<std::uint64_t>(to)) + ";";
    } else if (name == "branch_table") {
      branch_table(instruction);
    } else if (name != "return" && name != "exit") {
      throw Error(line_, "the row of " + opcode_ + " asks for '" + std::string(name) + "', which is nothing");
    } else {
      statement_.goes_on = false;
      // The end of a thread inside a called function is told to its caller.
      statement_.before = function_.is_entry ? "return EMU_DONE;" : name == "exit" ? "return 4;" : "return 0;";
    }
  }

  void branch_table(const Instruction& instruction) {
    const std::string& name = instruction.operands[1].text;
    const std::vector<std::string>* targets = nullptr;
    for (auto scope = scopes_.rbegin(); targets == nullptr && scope != scopes_.rend(); ++scope) {
      if (const auto found = tables_.find({scope->id, name}); found != tables_.end()) targets = &found->second;
    }
    if (targets == nullptr) throw Error(line_, name + " is no list of labels");
    statement_.before = "switch (" + value(instruction.operands[0], "u32") + ") {";
    for (std::size_t i = 0; i < targets->size(); ++i) {
      statement_.jumps.push_back(label((*targets)[i], line_));
      statement_.before += " case " + text(i) + ": goto L" + std::to_string(statement_.jumps.back()) + ";";
    }
    statement_.before += " default: return EMU_TRAP; }";
    statement_.goes_on = false;
    code_.traps = true;
  }

  static const std::vector<Operand> parts_of(const Operand& operand) {
    return operand.kind == Kind::kVector ? operand.parts : std::vector<Operand>{operand};
  }
  static bool is_ordered(const Match& match) {
    const auto found = match.classes.find("ORDER");
    return found != match.classes.end() && found->second != "weak";
  }

  /// The address of a load or store.
  std::string accessed(const Match& match, const Instruction& instruction, const Operand& place, std::uint64_t bytes,
                       std::string kind) {
    const std::string_view space = space_of(instruction);
    if (is_ordered(match)) kind += " | EMU_ATOMIC";
    std::string where = address(place, space);
    if (match.classes.contains("VEC")) where = "aligned(" + where + ", " + text(bytes) + ")";
    return observed(where, space, bytes, kind);
  }

  void load(const Match& match, const Instruction& instruction) {
    const std::uint64_t size = size_of_type(match.type, line_);
    const std::string type = (match.type[0] == 's' ? "ms" : "mu") + text(8 * size);
    const std::vector<Operand> parts = parts_of(instruction.operands[0]);
    // The address first: a register of it may be among the results.
    statement_.before =
        "char* p_ = " + accessed(match, instruction, instruction.operands[1], parts.size() * size, "EMU_READ") + ";";
    std::uint64_t offset = 0;
    for (const Operand& part : parts) {
      const std::string from = "(" + type + "*)(p_ + " + text(offset) + ")";
      statement_.before +=
          " " + assignment(part, is_ordered(match) ? "__atomic_load_n(" + from + ", __ATOMIC_ACQUIRE)" : "*" + from);
      offset += size;
    }
  }

  void store(const Match& match, const Instruction& instruction) {
    const std::uint64_t size = size_of_type(match.type, line_);
    const std::string type = "mu" + text(8 * size);
    const std::vector<Operand> parts = parts_of(instruction.operands[1]);
    statement_.before =
        "char* p_ = " + accessed(match, instruction, instruction.operands[0], parts.size() * size, "EMU_WRITE") + ";";
    std::uint64_t offset = 0;
    for (const Operand& part : parts) {
      const std::string to = "(" + type + "*)(p_ + " + text(offset) + ")", x = value(part, match.type);
      statement_.before += is_ordered(match)
                               ? " __atomic_store_n(" + to + ", (u" + text(8 * size) + ")" + x + ", __ATOMIC_RELEASE);"
                               : " *" + to + " = " + x + ";";
      offset += size;
    }
  }

  void move(const Match& match, const Instruction& instruction) {
    const Operand &to = instruction.operands[0], &from = instruction.operands[1];
    if (to.kind != Kind::kVector && from.kind != Kind::kVector) {
      statement_.before = assignment(to, value(from, match.type));
      return;
    }
    const std::vector<Operand> parts = parts_of(to.kind == Kind::kVector ? to : from);
    const std::uint64_t width = 8 * size_of_type(match.type, line_) / parts.size();
    const std::string narrow = "u" + text(width), wide = unsigned_of(match.type, line_);
    std::string joined = "0";
    if (to.kind == Kind::kVector) statement_.before = wide + " x_ = " + value(from, match.type) + ";";
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (to.kind == Kind::kVector) {
        statement_.before += " " + assignment(parts[i], "(" + narrow + ")(x_ >> " + text(i * width) + ")");
      } else {
        joined += " | (" + wide + ")" + value(parts[i], narrow) + " << " + text(i * width);
      }
    }
    if (from.kind == Kind::kVector) statement_.before = assignment(to, joined);
  }

  void call(const Instruction& instruction) {
    std::size_t i = 0;
    const auto& operands = instruction.operands;
    std::string arguments;
    const auto pass = [&](const Operand& group) {
      for (const Operand& part : group.parts) {
        const Symbol* const symbol = find(part.text);
        if (symbol == nullptr || symbol->kind != Symbol::Kind::kBytes)
          throw Error(line_, part.text + " is no parameter of a call");
        arguments += ", " + symbol->c_name;
      }
    };
    if (i < operands.size() && operands[i].kind == Kind::kGroup) pass(operands[i++]);
    if (i >= operands.size()) throw Error(line_, "the call names no function");
    const std::string& name = operands[i].text;
    const Symbol* const symbol = find(name);
    if (symbol == nullptr || symbol->kind != Symbol::Kind::kFunction)
      throw Error(line_, "the emulator has no calls through pointers (" + name + ")");
    if (!symbol->has_body) {
      throw Error(line_, "the kernel calls " + name + (name == "vprintf" ? " (printf)" : "") +
                             ", which the emulator does not have");
    }
    if (i + 1 < operands.size() && operands[i + 1].kind == Kind::kGroup) pass(operands[i + 1]);
    code_.calls = true;
    statement_.before = "int c_ = emu_function_" + text(symbol->at) +
                        "(b, t, shared_static, local, frame_end, local_limit" + arguments + "); if (c_) return " +
                        (function_.is_entry ? "c_ == EMU_TRAP ? EMU_TRAP : EMU_DONE;" : "c_;");
  }

  const Function& function_;
  const Symbols& module_;
  const Telling telling_;
  FunctionCode code_;
  std::vector<Scope> scopes_;
  int last_scope_ = 0;
  std::map<std::pair<int, std::string>, int> labels_;
  std::map<std::pair<int, std::string>, std::vector<std::string>> tables_;
  Statement statement_;
  int line_ = 0, reduction_at_ = -1, phase_ = -1;
  std::string opcode_;
};

}  // namespace

FunctionCode emit(const Function& function, const Symbols& module, std::uint64_t module_shared_bytes, Telling telling) {
  return Emitter(function, module, module_shared_bytes, telling).run();
}

}  // namespace crucible::emulators::ptx
