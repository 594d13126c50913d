// Prints kernels in a dialect of C: see c_dialect.hpp. It only spells: nothing is decided here.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <string>

#include "plugins/sdk/c_dialect.hpp"
#include "plugins/kernel_ir/data_numbers.hpp"

namespace crucible::sdk {
namespace {

std::string text(std::uint64_t number) { return std::to_string(number); }

/// Statements of a loop's body from which unrolling it saves nothing and costs code and registers.
constexpr std::size_t kLongBody = 64;

class Printer {
 public:
  Printer(const Kernel& kernel, const Dialect& dialect, const Team& team)
      : kernel_(kernel), dialect_(dialect), team_(team), numbers_(kernel) {}

  std::string run(std::string_view name) {
    out_ = std::string(dialect_.kernel) + std::string(name) + "(" + parameters() + ") {\n";
    for (std::size_t i = 0; dialect_.packed_arguments && i < kernel_.buffers.size(); ++i) {
      line(1, pointer(i) + "b" + text(i) + " = (" + pointee(i) + "*)buffers[" + text(i) + "];");
    }
    is_team() ? print_team(1) : print_arrays(1);
    const std::uint32_t alignment = assumed_alignment(kernel_, dialect_);
    for (std::size_t i = 0; alignment > 1 && i < kernel_.buffers.size(); ++i)
      line(1, "crucible_assume_aligned(b" + text(i) + ", " + text(alignment) + ");");
    print_block(kernel_.body, 1);
    return out_ + "}\n";
  }

 private:
  std::string type_name(Type type) const {
    switch (type) {
      case Type::kBool:
        return std::string(dialect_.bool_type);
      case Type::kU8:
        return "uint8_t";
      case Type::kI8:
        return "int8_t";
      case Type::kI16:
        return "int16_t";
      case Type::kI32:
        return "int32_t";
      case Type::kI64:
        return "int64_t";
      case Type::kF16:
        return "crucible_f16";
      case Type::kBF16:
        return "crucible_bf16";
      case Type::kF32:
        return "float";
      case Type::kF64:
        return "double";
      case Type::kC64:
      case Type::kC128:
      case Type::kOther:
        break;  // no kernel computes with them
    }
    return "void";
  }
  /// A bool lies in memory as one byte that may hold any non-zero value.
  std::string memory_type(Type type) const { return type == Type::kBool ? "uint8_t" : type_name(type); }

  /// Of an array that has none (a product without steps), one: the languages know no empty arrays.
  std::string elements(std::size_t i) const {
    return std::to_string(std::max<std::int64_t>(kernel_.arrays[i].size, 1));
  }

  std::string pointee(std::size_t i) const {
    return (kernel_.buffers[i].written ? "" : "const ") + memory_type(kernel_.buffers[i].type);
  }
  std::string pointer(std::size_t i) const {
    return pointee(i) + "* " + (kernel_.buffers[i].may_alias ? "" : std::string(dialect_.restrict_));
  }

  std::string parameters() const {
    if (dialect_.packed_arguments) return "void* const* buffers, const double* scalars, int64_t begin, int64_t end";
    std::string list;
    for (std::size_t i = 0; i < kernel_.buffers.size(); ++i)
      list += std::string(dialect_.global) + pointer(i) + "b" + text(i) + ", ";
    for (std::uint32_t i = 0; i < kernel_.scalars.size(); ++i)
      list += std::string(scalar_type(kernel_.scalars[i])) + " s" + text(i) + ", ";
    return list + "int64_t begin, int64_t end";
  }

  void line(int indent, std::string_view what) {
    out_.append(static_cast<std::size_t>(indent) * 2, ' ');
    out_ += what;
    out_ += '\n';
  }

  void print_block(const std::vector<Stmt>& body, int indent) {
    for (const Stmt& stmt : body) print_stmt(stmt, indent);
  }

  void print_arrays(int indent) {
    for (std::size_t i = 0; i < kernel_.arrays.size(); ++i)
      line(indent, std::string(dialect_.align_array) + memory_type(kernel_.arrays[i].type) + " a" + text(i) + "[" +
                       elements(i) + "];");
  }

  bool is_team() const { return team_.lanes > 1; }

  /// The lane of this thread, and where its team's arrays lie.
  void print_team(int indent) {
    const std::string lanes = text(team_.lanes), teams = "[" + text(team_.most) + "][";
    const auto share = [&](const std::string& type, const std::string& name, const std::string& size) {
      line(indent, std::string(dialect_.shared) + type + " all_" + name + teams + size + "];");
      line(indent,
           type + "* const " + name + " = all_" + name + "[" + std::string(dialect_.thread) + " / " + lanes + "];");
    };
    line(indent, "const int lane = " + std::string(dialect_.thread) + " % " + lanes + ";");
    for (std::size_t i = 0; i < kernel_.arrays.size(); ++i)
      share(memory_type(kernel_.arrays[i].type), "a" + text(i), elements(i));
    for (const Type type : team_.joined) share(memory_type(type), exchange(type), lanes);
  }
  /// A number of threads, as a number of teams.
  std::string of_team(std::string_view threads) const {
    return is_team() ? "(" + std::string(threads) + ") / " + text(team_.lanes) : std::string(threads);
  }
  static std::string exchange(Type type) { return "lanes_" + std::string(name(type)); }

  /// Where the lanes of a team wait for each other. Two in a row are one.
  void meet(int indent) {
    const std::string what = std::string(dialect_.meet) + "\n";
    if (!out_.ends_with(what)) line(indent, dialect_.meet);
  }

  void print_stmt(const Stmt& stmt, int indent) {
    if (!is_team() || is_dealt_ || stmt.kind == StmtKind::kGrid) return print_plain(stmt, indent);
    const bool meets = team_.meets.contains(&stmt);
    if (meets) meet(indent);
    if (const auto dealt = team_.dealt.find(&stmt); dealt != team_.dealt.end()) {
      is_dealt_ = true;
      print_dealt(stmt, dealt->second, indent);
      is_dealt_ = false;
    } else if (stmt.kind == StmtKind::kStore || stmt.kind == StmtKind::kElement) {
      line(indent, "if (lane == 0) {");
      print_plain(stmt, indent + 1);
      line(indent, "}");
    } else {
      print_plain(stmt, indent);
    }
    if (meets) meet(indent);
  }

  /// The turns of one loop: the first lane has the first, and goes on with the old value of what all turns update.
  void print_dealt(const Stmt& stmt, const std::vector<TeamReduction>& reductions, int indent) {
    for (const TeamReduction& reduction : reductions) {
      const Type type = kernel_.variables[reduction.variable].type;
      if (reduction.op != Op::kAdd && reduction.op != Op::kMultiply)
        continue;  // the largest of two equal numbers is that number
      const std::string neutral =
          is_floating(type) ? real(reduction.op == Op::kAdd ? 0 : 1, type) : integer(reduction.op == Op::kAdd ? 0 : 1);
      line(indent, "if (lane != 0) v" + text(reduction.variable) + " = " + neutral + ";");
    }
    const std::string v = "v" + text(stmt.id), begin = expr(stmt.a) + " + lane; ", end = v + " < " + expr(stmt.b);
    line(indent, has_loop(stmt.body) || stmt.body.size() > kLongBody ? dialect_.outer_loop : dialect_.inner_loop);
    line(indent, "for (int64_t " + v + " = " + begin + end + "; " + v + " += " + text(team_.lanes) + ") {");
    print_block(stmt.body, indent + 1);
    line(indent, "}");
    for (const TeamReduction& reduction : reductions) print_join(reduction, indent);
  }

  /// The lanes' values of one variable become one, halving the lanes, which all get it.
  void print_join(const TeamReduction& reduction, int indent) {
    const Type type = kernel_.variables[reduction.variable].type;
    const std::string v = "v" + text(reduction.variable), all = exchange(type);
    line(indent, all + "[lane] = " + v + ";");
    meet(indent);
    line(indent, "for (int width = " + text(team_.lanes / 2) + "; width > 0; width /= 2) {");
    line(indent + 1, "if (lane < width) " + all +
                         "[lane] = " + combined(reduction.op, type, all + "[lane]", all + "[lane + width]") + ";");
    meet(indent + 1);
    line(indent, "}");
    line(indent, v + " = " + all + "[0];");
    meet(indent);
  }

  std::string combined(Op op, Type type, const std::string& a, const std::string& b) const {
    if (op == Op::kAdd) return arithmetic("+", type, a, b);
    if (op == Op::kMultiply) return arithmetic("*", type, a, b);
    return extremum(op, type, a, b);
  }

  void print_plain(const Stmt& stmt, int indent) {
    switch (stmt.kind) {
      case StmtKind::kLet: {
        const Variable& variable = kernel_.variables[stmt.id];
        return line(indent, (variable.is_mutable ? "" : "const ") + type_name(variable.type) + " v" + text(stmt.id) +
                                " = " + expr(stmt.a) + ";");
      }
      case StmtKind::kSet:
        return line(indent, "v" + text(stmt.id) + " = " + expr(stmt.a) + ";");
      case StmtKind::kStore:
        return line(indent, "b" + text(stmt.id) + "[" + expr(stmt.a) + "] = " + expr(stmt.b) + ";");
      case StmtKind::kElement:
        return line(indent, "a" + text(stmt.id) + "[" + expr(stmt.a) + "] = " + expr(stmt.b) + ";");
      case StmtKind::kIf:
        line(indent, "if (" + expr(stmt.a) + ") {");
        print_block(stmt.body, indent + 1);
        return line(indent, "}");
      case StmtKind::kFor:
        return print_loop(stmt, expr(stmt.a), expr(stmt.b), "", indent);
      case StmtKind::kGrid:
        if (dialect_.first_item.empty()) return print_loop(stmt, "begin", "end", "", indent);
        return print_loop(stmt, "begin + " + of_team(dialect_.first_item), "end", of_team(dialect_.item_step), indent);
      case StmtKind::kTile:
        return print_tile(kernel_.tiles[stmt.id], expr(stmt.a), indent);
      case StmtKind::kPrefetch:
        return line(indent, "crucible_prefetch(b" + text(stmt.id) + " + " + expr(stmt.a) + ");");
      case StmtKind::kTranspose:
        return print_transpose(kernel_.transposes[stmt.id], expr(stmt.a), indent);
    }
  }

  void print_loop(const Stmt& stmt, const std::string& begin, const std::string& end, std::string_view step,
                  int indent) {
    std::string_view before;
    if (stmt.mode == LoopMode::kVector)
      before = mixes_widths(stmt.body) ? dialect_.wide_vector_loop : dialect_.vector_loop;
    if (stmt.mode == LoopMode::kUnrolled) before = dialect_.unrolled_loop;
    if (stmt.mode == LoopMode::kSerial && stmt.kind == StmtKind::kFor && updates_float(stmt.body))
      before = dialect_.ordered_loop;
    if (before.empty())
      before = stmt.kind == StmtKind::kGrid || has_loop(stmt.body) || stmt.body.size() > kLongBody
                   ? dialect_.outer_loop
                   : dialect_.inner_loop;
    if (!before.empty()) line(indent, before);
    const std::string v = "v" + text(stmt.id);
    const std::string next = step.empty() ? "++" + v : v + " += " + std::string(step);
    line(indent, "for (int64_t " + v + " = " + begin + "; " + v + " < " + end + "; " + next + ") {");
    print_block(stmt.body, indent + 1);
    line(indent, "}");
  }

  static std::string memory(const TileOperand& operand) { return (operand.is_array ? "a" : "b") + text(operand.id); }

  void print_transpose(const Transpose& copy, const std::string& steps, int indent) {
    line(indent, "crucible_transpose_" + std::string(name(kernel_.arrays[copy.to].type)) + "(a" + text(copy.to) +
                     " + " + expr(copy.to_base) + ", " + std::to_string(copy.to_step) + ", b" + text(copy.from) +
                     " + " + expr(copy.from_base) + ", " + std::to_string(copy.from_step) + ", " + text(copy.columns) +
                     ", " + steps + ");");
  }

  /// One vector variable per 64 bytes of the tile, so that the sums stay in registers through the loop.
  void print_tile(const Tile& tile, const std::string& steps, int indent) {
    const bool is_double = kernel_.arrays[tile.sums].type == Type::kF64;
    const std::uint32_t lanes = is_double ? 8 : 16, parts = tile.columns / lanes;
    const std::string type = is_double ? "f64x8" : "f32x16";
    line(indent, "{");
    line(indent + 1, "const int64_t left = " + expr(tile.left.base) + ", right = " + expr(tile.right.base) +
                         ", sums = " + (tile.base == kNoId ? "0" : expr(tile.base)) + ";");
    for (std::uint32_t i = 0; i < tile.rows; ++i) {
      for (std::uint32_t p = 0; p < parts; ++p) {
        const std::string from = "a" + text(tile.sums) + " + sums + " + text(i * tile.columns + p * lanes);
        const std::string zero = "crucible_splat_" + type + (is_double ? "(0x0p+0)" : "(0x0p+0f)");
        line(indent + 1, "crucible_" + type + " t" + text(i) + "_" + text(p) + " = " +
                             (tile.start == TileStart::kGoOn ? "crucible_load_" + type + "(" + from + ")" : zero) +
                             ";");
      }
    }
    if (!dialect_.outer_loop.empty()) line(indent + 1, dialect_.outer_loop);
    line(indent + 1, "for (int64_t q = 0; q < " + steps + "; ++q) {");
    for (std::uint32_t p = 0; p < parts; ++p) {
      line(indent + 2, "const crucible_" + type + " y" + text(p) + " = crucible_load_" + type + "(" +
                           memory(tile.right) + " + right + q * " + std::to_string(tile.right.step) + " + " +
                           text(p * lanes) + ");");
    }
    for (std::uint32_t i = 0; i < tile.rows; ++i) {
      line(indent + 2, "const crucible_" + type + " x" + text(i) + " = crucible_splat_" + type + "(" +
                           memory(tile.left) + "[left + " + std::to_string(i * tile.left.row_step) + " + q * " +
                           std::to_string(tile.left.step) + "]);");
      for (std::uint32_t p = 0; p < parts; ++p) {
        const std::string sum = "t" + text(i) + "_" + text(p);
        line(indent + 2, sum + " = crucible_fma_" + type + "(x" + text(i) + ", y" + text(p) + ", " + sum + ");");
      }
    }
    line(indent + 1, "}");
    for (std::uint32_t i = 0; i < tile.rows; ++i) {
      for (std::uint32_t p = 0; p < parts; ++p) {
        const std::string to = "a" + text(tile.sums) + " + sums + " + text(i * tile.columns + p * lanes);
        const std::string sum = "t" + text(i) + "_" + text(p);
        const bool adds = tile.start == TileStart::kAdd;
        line(indent + 1,
             "crucible_store_" + type + "(" + to + ", " +
                 (adds ? "crucible_add_" + type + "(crucible_load_" + type + "(" + to + "), " + sum + ")" : sum) +
                 ");");
      }
    }
    line(indent, "}");
  }

  static bool has_loop(const std::vector<Stmt>& body) {
    for (const Stmt& stmt : body) {
      if (stmt.kind == StmtKind::kFor || stmt.kind == StmtKind::kTile || stmt.kind == StmtKind::kTranspose) return true;
      if (has_loop(stmt.body)) return true;
    }
    return false;
  }

  /// Whether a float outlives one turn of the loop, other than in a buffer.
  bool updates_float(const std::vector<Stmt>& body) const {
    for (const Stmt& stmt : body) {
      if (stmt.kind == StmtKind::kSet && is_floating(kernel_.variables[stmt.id].type)) return true;
      if (stmt.kind == StmtKind::kElement && is_floating(kernel_.arrays[stmt.id].type)) return true;
      if (updates_float(stmt.body)) return true;
    }
    return false;
  }

  /// 4-byte and 8-byte data in one loop: clang would then choose the width of the 8-byte data.
  bool mixes_widths(const std::vector<Stmt>& body) const {
    bool narrow = false, wide = false;
    for (const Stmt& stmt : body) {
      Type type = Type::kI64;
      if (stmt.kind == StmtKind::kLet || stmt.kind == StmtKind::kSet) type = kernel_.variables[stmt.id].type;
      if (stmt.kind == StmtKind::kStore) type = kernel_.buffers[stmt.id].type;
      if (stmt.kind == StmtKind::kElement) type = kernel_.arrays[stmt.id].type;
      narrow |= size_bytes(type) <= 4;
      wide |= size_bytes(type) == 8;
    }
    return narrow && wide;
  }

  std::string integer(std::int64_t value) const {
    const std::string suffix(dialect_.wide_suffix);
    if (value == std::numeric_limits<std::int64_t>::min()) return "(-9223372036854775807" + suffix + " - 1)";
    const std::string digits = std::to_string(value) + (value > 2147483647 || value < -2147483647 ? suffix : "");
    return value < 0 ? "(" + digits + ")" : digits;
  }

  std::string real(double value, Type type) const {
    const bool single = type == Type::kF32;
    if (single) value = static_cast<double>(static_cast<float>(value));
    if (std::isnan(value)) return std::string(single ? dialect_.nan_f32 : dialect_.nan_f64);
    if (std::isinf(value)) {
      return std::string("(") + (value < 0 ? "-" : "") + std::string(single ? dialect_.inf_f32 : dialect_.inf_f64) +
             ")";
    }
    char digits[64];
    const auto [end, error] = std::to_chars(digits, digits + sizeof(digits), std::fabs(value), std::chars_format::hex);
    const std::string magnitude = "0x" + std::string(digits, end) + (single ? "f" : "");
    return std::signbit(value) ? "(-" + magnitude + ")" : magnitude;
  }

  Type operand_type(const Expr& e) const { return kernel_.exprs[e.in[0]].type; }

  std::string call(std::string_view function, const Expr& e) const {
    std::string result =
        "crucible_" + std::string(function) + "_" + std::string(name(operand_type(e))) + "(" + expr(e.in[0]);
    if (e.in[1] != kNoId) result += ", " + expr(e.in[1]);
    return result + ")";
  }

  /// Arithmetic on types narrower than int is cut back to its type.
  std::string infix(std::string_view sign, Type type, const std::string& a, const std::string& b) const {
    const std::string result = "(" + a + " " + std::string(sign) + " " + b + ")";
    const bool narrow = is_integral(type) && size_bytes(type) < 4;
    return narrow ? "(" + type_name(type) + ")" + result : result;
  }
  std::string infix(std::string_view sign, const Expr& e) const {
    return infix(sign, e.type, expr(e.in[0]), expr(e.in[1]));
  }

  static bool may_overflow(Type type) { return type == Type::kI32 || type == Type::kI64; }

  /// Numbers of data wrap as the reference's do. In C they would be undefined: the unsigned types wrap.
  std::string arithmetic(std::string_view sign, Type type, const std::string& a, const std::string& b) const {
    if (!may_overflow(type)) return infix(sign, type, a, b);
    const std::string whole = "(u" + type_name(type) + ")";
    return "(" + type_name(type) + ")(" + whole + a + " " + std::string(sign) + " " + whole + b + ")";
  }
  std::string arithmetic(std::string_view sign, std::uint32_t id) const {
    const Expr& e = kernel_.exprs[id];
    return numbers_.is_data(id) ? arithmetic(sign, e.type, expr(e.in[0]), expr(e.in[1])) : infix(sign, e);
  }

  std::string convert(const Expr& e) const {
    Type from = operand_type(e);
    std::string a = expr(e.in[0]);
    if (dialect_.f16_is_bits && from == Type::kF16) {
      if (e.type == Type::kF16) return a;
      a = "crucible_f16_to_f32(" + a + ")";
      from = Type::kF32;
      if (e.type == Type::kF32) return a;
    }
    if (dialect_.f16_is_bits && e.type == Type::kF16) {
      if (from == Type::kF64) return "crucible_f64_to_f16(" + a + ")";
      return "crucible_f32_to_f16(" + (from == Type::kBF16 ? "crucible_bf16_to_f32(" + a + ")" : a) + ")";
    }
    if (e.type == Type::kBool) return "(" + a + " != 0)";
    if (from == Type::kBF16) return "crucible_bf16_to_f32(" + a + ")";
    if (e.type == Type::kBF16) return "crucible_f32_to_bf16(" + a + ")";
    if (is_floating(from) && is_integral(e.type))
      return "(" + type_name(e.type) + ")crucible_" + std::string(name(from)) +
             (e.type == Type::kI64 || e.type == Type::kU8 ? "_to_i64(" : "_to_i32(") + a + ")";
    return "(" + type_name(e.type) + ")" + a;
  }

  std::string extremum(Op op, Type type, const std::string& a, const std::string& b) const {
    const bool is_max = op == Op::kMaximum;
    if (is_floating(type))
      return std::string("crucible_") + (is_max ? "max_" : "min_") + std::string(name(type)) + "(" + a + ", " + b + ")";
    if (type == Type::kBool) return infix(is_max ? "|" : "&", type, a, b);
    return "(" + a + (is_max ? " > " : " < ") + b + " ? " + a + " : " + b + ")";
  }

  std::string expr(std::uint32_t id) const {
    const Expr& e = kernel_.exprs[id];
    switch (e.operation) {
      case Op::kInteger:
        return integer(e.integer);
      case Op::kReal:
        return real(e.real, e.type);
      case Op::kScalar:
        if (!dialect_.packed_arguments) return "(" + type_name(e.type) + ")s" + text(e.id);
        return "(" + type_name(e.type) + ")" +
               (kernel_.scalars[e.id] == Type::kI64 ? "((const crucible_i64_scalar*)scalars)[" : "scalars[") +
               text(e.id) + "]";
      case Op::kVariable:
        return "v" + text(e.id);
      case Op::kLoad: {
        const std::string value = "b" + text(e.id) + "[" + expr(e.in[0]) + "]";
        return e.type == Type::kBool ? "(" + value + " != 0)" : value;
      }
      case Op::kElement:
        return "a" + text(e.id) + "[" + expr(e.in[0]) + "]";
      case Op::kConvert:
        return convert(e);
      case Op::kAssume:
        return expr(e.in[0]) + " /* in [" + text(e.integer) + ", " + text(e.high) + "] */";
      case Op::kNegate:
        if (may_overflow(e.type) && numbers_.is_data(id)) return arithmetic("-", e.type, "0", expr(e.in[0]));
        return "(" + type_name(e.type) + ")-" + expr(e.in[0]);
      case Op::kNot:
        return "(!" + expr(e.in[0]) + ")";
      case Op::kIsNan: {
        std::string a = expr(e.in[0]);
        if (dialect_.f16_is_bits && operand_type(e) == Type::kF16) a = "crucible_f16_to_f32(" + a + ")";
        return "(" + a + " != " + a + ")";
      }
      case Op::kAbsolute:
        return call("abs", e);
      case Op::kSqrt:
        return call("sqrt", e);
      case Op::kFloor:
        return call("floor", e);
      case Op::kExp:
        return call("exp", e);
      case Op::kLog:
        return call("log", e);
      case Op::kTanh:
        return call("tanh", e);
      case Op::kErf:
        return call("erf", e);
      case Op::kSigmoid:
        return call("sigmoid", e);
      case Op::kReciprocal:
        return "(" + real(1, e.type) + " / " + expr(e.in[0]) + ")";
      case Op::kReciprocalSqrt:
        return call("rsqrt", e);
      case Op::kSin:
        return call("sin", e);
      case Op::kCos:
        return call("cos", e);
      case Op::kOrderKey:
        return call("order_key", e);
      case Op::kFromOrderKey:
        return "crucible_from_order_key_" + std::string(name(e.type)) + "(" + expr(e.in[0]) + ")";
      case Op::kAdd:
        return arithmetic("+", id);
      case Op::kSubtract:
        return arithmetic("-", id);
      case Op::kMultiply:
        return arithmetic("*", id);
      case Op::kDivide:
        return infix("/", e);
      case Op::kRemainder:
        return infix("%", e);
      case Op::kMaximum:
      case Op::kMinimum:
        return extremum(e.operation, e.type, expr(e.in[0]), expr(e.in[1]));
      case Op::kPower:
        return call("pow", e);
      case Op::kLess:
        return infix("<", e);
      case Op::kLessEqual:
        return infix("<=", e);
      case Op::kEqual:
        return infix("==", e);
      case Op::kNotEqual:
        return infix("!=", e);
      case Op::kAnd:
        return infix("&", e);
      case Op::kOr:
        return infix("|", e);
      case Op::kSelect:
        return "(" + expr(e.in[0]) + " ? " + expr(e.in[1]) + " : " + expr(e.in[2]) + ")";
      case Op::kCall:
        return call(kFunctions[e.id].name, e);
      case Op::kFma:
        return std::string("__builtin_fma") + (e.type == Type::kF32 ? "f(" : "(") + expr(e.in[0]) + ", " +
               expr(e.in[1]) + ", " + expr(e.in[2]) + ")";
    }
    return {};
  }

  const Kernel& kernel_;
  const Dialect& dialect_;
  const Team& team_;
  const kernel::DataNumbers numbers_;
  bool is_dealt_ = false;  // inside of a loop whose turns the lanes share
  std::string out_;
};

}  // namespace

std::uint32_t assumed_alignment(const Kernel& kernel, const Dialect& dialect) {
  const bool multiplies = std::ranges::any_of(kernel.exprs, [](const Expr& e) { return e.operation == Op::kFma; });
  return multiplies ? dialect.alignment : 1;
}

std::string_view scalar_type(Type type) { return type == Type::kI64 ? "int64_t" : "double"; }

std::string print_kernel(const Kernel& kernel, const Dialect& dialect, std::string_view name, const Team& team) {
  return Printer(kernel, dialect, team).run(name);
}

}  // namespace crucible::sdk
