// Prints the kernel IR as C: see print_c.hpp.
#include "core/kernel/emit/print_c.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/kernel/ir/data_indices.hpp"

namespace crucible::kernel {
namespace {

std::string_view c_type(DType type) {
  switch (type) {
    case DType::kBool:
      return "_Bool";
    case DType::kU8:
      return "uint8_t";
    case DType::kI8:
      return "int8_t";
    case DType::kI16:
      return "int16_t";
    case DType::kI32:
      return "int32_t";
    case DType::kI64:
      return "int64_t";
    case DType::kF16:
      return "crucible_f16";
    case DType::kBF16:
      return "crucible_bf16";
    case DType::kF32:
      return "float";
    case DType::kF64:
      return "double";
    case DType::kC64:
    case DType::kC128:
    case DType::kOther:
      return "void";  // refused by the verifier
  }
  return "void";
}

/// A bool lies in memory as one byte that may hold any non-zero value.
std::string_view memory_type(DType type) { return type == DType::kBool ? "uint8_t" : c_type(type); }

std::string integer_text(std::int64_t value) {
  if (value == std::numeric_limits<std::int64_t>::min()) return "(-9223372036854775807ll - 1)";
  const bool wide = value > 2147483647 || value < -2147483647;
  const std::string_view suffix = wide ? "ll" : "";
  return value < 0 ? fmt::format("({}{})", value, suffix) : fmt::format("{}{}", value, suffix);
}

std::string real_text(double value, DType type) {
  const bool single = type == DType::kF32;
  if (std::isnan(value)) return single ? "__builtin_nanf(\"\")" : "__builtin_nan(\"\")";
  if (std::isinf(value)) return fmt::format("({}__builtin_inf{}())", value < 0 ? "-" : "", single ? "f" : "");
  if (single) value = static_cast<double>(static_cast<float>(value));
  if (std::isinf(value)) return real_text(value, type);
  const bool negative = std::signbit(value);
  return fmt::format("{}{:a}{}{}", negative ? "(" : "", value, single ? "f" : "", negative ? ")" : "");
}

/// Which integer a float becomes before it is cut to one of this type: the prelude has two.
std::string_view integer_of_floats(DType type) { return type == DType::kI64 || type == DType::kU8 ? "i64" : "i32"; }

class Printer {
 public:
  explicit Printer(const KernelIr& kernel) : kernel_(kernel), numbers_(kernel) {}

  std::string run(std::string_view name) {
    out_ = fmt::format("void {}(void* const* buffers, const double* scalars, int64_t begin, int64_t end) {{\n", name);
    for (std::size_t i = 0; i < kernel_.buffers.size(); ++i) {
      const IrBuffer& buffer = kernel_.buffers[i];
      const std::string_view constant = buffer.written ? "" : "const ";
      out_ += fmt::format("  {}{}* {}b{} = ({}{}*)buffers[{}];\n", constant, memory_type(buffer.type),
                          buffer.may_alias ? "" : "restrict ", i, constant, memory_type(buffer.type), i);
    }
    for (std::size_t i = 0; i < kernel_.arrays.size(); ++i) {
      out_ +=
          fmt::format("  _Alignas(64) {} a{}[{}];\n", memory_type(kernel_.arrays[i].type), i, std::max<std::int64_t>(kernel_.arrays[i].size, 1));  // C knows no empty arrays
    }
    print_block(kernel_.body, 1);
    out_ += "}\n";
    return std::move(out_);
  }

 private:
  void line(int indent, std::string_view text) {
    out_.append(static_cast<std::size_t>(indent) * 2, ' ');
    out_ += text;
    out_ += '\n';
  }

  void print_block(const std::vector<Stmt>& body, int indent) {
    for (const Stmt& stmt : body) print_stmt(stmt, indent);
  }

  void print_stmt(const Stmt& stmt, int indent) {
    switch (stmt.kind) {
      case StmtKind::kLet: {
        const Variable& variable = kernel_.variables[stmt.id];
        line(indent, fmt::format("{}{} v{} = {};", variable.is_mutable ? "" : "const ", c_type(variable.type), stmt.id,
                                 expr(stmt.a)));
        return;
      }
      case StmtKind::kSet:
        line(indent, fmt::format("v{} = {};", stmt.id, expr(stmt.a)));
        return;
      case StmtKind::kStore:
        line(indent, fmt::format("b{}[{}] = {};", stmt.id, expr(stmt.a), expr(stmt.b)));
        return;
      case StmtKind::kElement:
        line(indent, fmt::format("a{}[{}] = {};", stmt.id, expr(stmt.a), expr(stmt.b)));
        return;
      case StmtKind::kIf:
        line(indent, fmt::format("if ({}) {{", expr(stmt.a)));
        print_block(stmt.body, indent + 1);
        line(indent, "}");
        return;
      case StmtKind::kFor:
        print_loop(stmt, expr(stmt.a), expr(stmt.b), indent);
        return;
      case StmtKind::kGrid:
        print_loop(stmt, "begin", "end", indent);
        return;
      case StmtKind::kTile:
        print_tile(kernel_.tiles[stmt.id], expr(stmt.a), indent);
        return;
      case StmtKind::kPrefetch:
        line(indent, fmt::format("crucible_prefetch(b{} + {});", stmt.id, expr(stmt.a)));
        return;
      case StmtKind::kTranspose:
        print_transpose(kernel_.transposes[stmt.id], expr(stmt.a), indent);
        return;
    }
  }

  void print_loop(const Stmt& stmt, const std::string& begin, const std::string& end, int indent) {
    if (stmt.mode == LoopMode::kVector) {
      line(indent, fmt::format("#pragma clang loop vectorize(assume_safety) interleave(enable){}",
                               mixes_widths(stmt.body) ? " vectorize_width(16)" : ""));
    } else if (stmt.mode == LoopMode::kUnrolled) {
      line(indent, "#pragma clang loop unroll(full)");
    }
    line(indent, fmt::format("for (int64_t v{} = {}; v{} < {}; ++v{}) {{", stmt.id, begin, stmt.id, end, stmt.id));
    print_block(stmt.body, indent + 1);
    line(indent, "}");
  }

  void print_transpose(const Transpose& copy, const std::string& steps, int indent) {
    line(indent, fmt::format("crucible_transpose_{}(a{} + {}, {}, b{} + {}, {}, {}, {});", name(kernel_.arrays[copy.to].type),
                             copy.to, expr(copy.to_base), copy.to_step, copy.from, expr(copy.from_base), copy.from_step,
                             copy.columns, steps));
  }

  /// One vector variable per 64 bytes of the tile, so that the sums stay in registers through the loop.
  void print_tile(const Tile& tile, const std::string& steps, int indent) {
    const bool is_double = kernel_.arrays[tile.sums].type == DType::kF64;
    const std::uint32_t lanes = is_double ? 8 : 16, parts = tile.columns / lanes;
    const std::string_view type = is_double ? "f64x8" : "f32x16", zero = is_double ? "0x0p+0" : "0x0p+0f";
    const auto memory = [](const TileOperand& operand) {
      return fmt::format("{}{}", operand.is_array ? 'a' : 'b', operand.id);
    };
    line(indent, "{");
    line(indent + 1, fmt::format("const int64_t left = {}, right = {}, sums = {};", expr(tile.left.base), expr(tile.right.base),
                                 tile.base == kNoId ? "0" : expr(tile.base)));
    for (std::uint32_t i = 0; i < tile.rows; ++i) {
      for (std::uint32_t p = 0; p < parts; ++p) {
        const std::string start =
            tile.start == TileStart::kGoOn
                ? fmt::format("crucible_load_{}(a{} + sums + {})", type, tile.sums, i * tile.columns + p * lanes)
                : fmt::format("crucible_splat_{}({})", type, zero);
        line(indent + 1, fmt::format("crucible_{} t{}_{} = {};", type, i, p, start));
      }
    }
    line(indent + 1, fmt::format("for (int64_t q = 0; q < {}; ++q) {{", steps));
    for (std::uint32_t p = 0; p < parts; ++p) {
      line(indent + 2, fmt::format("const crucible_{0} y{1} = crucible_load_{0}({2} + right + q * {3} + {4});", type, p,
                                   memory(tile.right), tile.right.step, p * lanes));
    }
    for (std::uint32_t i = 0; i < tile.rows; ++i) {
      line(indent + 2, fmt::format("const crucible_{0} x{1} = crucible_splat_{0}({2}[left + {3} + q * {4}]);", type, i,
                                   memory(tile.left), i * tile.left.row_step, tile.left.step));
      for (std::uint32_t p = 0; p < parts; ++p)
        line(indent + 2, fmt::format("t{0}_{1} = crucible_fma_{2}(x{0}, y{1}, t{0}_{1});", i, p, type));
    }
    line(indent + 1, "}");
    for (std::uint32_t i = 0; i < tile.rows; ++i) {
      for (std::uint32_t p = 0; p < parts; ++p) {
        const std::string to = fmt::format("a{} + sums + {}", tile.sums, i * tile.columns + p * lanes);
        const std::string sum = fmt::format("t{}_{}", i, p);
        line(indent + 1, tile.start == TileStart::kAdd
                             ? fmt::format("crucible_store_{0}({1}, crucible_add_{0}(crucible_load_{0}({1}), {2}));", type, to, sum)
                             : fmt::format("crucible_store_{}({}, {});", type, to, sum));
      }
    }
    line(indent, "}");
  }

  /// True when a loop handles 4-byte and 8-byte data: clang would then choose the width of the 8-byte data.
  bool mixes_widths(const std::vector<Stmt>& body) const {
    bool narrow = false, wide = false;
    for (const Stmt& stmt : body) {
      DType type = DType::kI64;
      if (stmt.kind == StmtKind::kLet || stmt.kind == StmtKind::kSet) type = kernel_.variables[stmt.id].type;
      if (stmt.kind == StmtKind::kStore) type = kernel_.buffers[stmt.id].type;
      if (stmt.kind == StmtKind::kElement) type = kernel_.arrays[stmt.id].type;
      narrow |= size_bytes(type) <= 4;
      wide |= size_bytes(type) == 8;
    }
    return narrow && wide;
  }

  std::string call(std::string_view function, const Expr& e) {
    const DType type = kernel_.exprs[e.in[0]].type;
    if (e.in[1] == kNoId) return fmt::format("crucible_{}_{}({})", function, name(type), expr(e.in[0]));
    return fmt::format("crucible_{}_{}({}, {})", function, name(type), expr(e.in[0]), expr(e.in[1]));
  }

  /// Arithmetic on types narrower than int is cut back to its type.
  std::string infix(std::string_view sign, const Expr& e) {
    std::string text = fmt::format("({} {} {})", expr(e.in[0]), sign, expr(e.in[1]));
    const bool narrow = is_integral(e.type) && size_bytes(e.type) < 4;
    return narrow ? fmt::format("({}){}", c_type(e.type), text) : text;
  }

  static bool may_overflow(DType type) { return type == DType::kI32 || type == DType::kI64; }

  /// Numbers of data wrap as the reference's do. In C they would be undefined: the unsigned types wrap.
  static std::string wrapping(std::string_view sign, DType type, std::string_view a, std::string_view b) {
    const std::string_view whole = c_type(type);
    return fmt::format("({0})((u{0}){1} {2} (u{0}){3})", whole, a, sign, b);
  }
  std::string arithmetic(std::string_view sign, ExprId id) {
    const Expr& e = kernel_.exprs[id];
    return may_overflow(e.type) && numbers_.is_data(id) ? wrapping(sign, e.type, expr(e.in[0]), expr(e.in[1])) : infix(sign, e);
  }

  std::string convert(const Expr& e) {
    const DType from = kernel_.exprs[e.in[0]].type;
    const std::string a = expr(e.in[0]);
    if (e.type == DType::kBool) return fmt::format("({} != 0)", a);
    if (from == DType::kBF16) return fmt::format("crucible_bf16_to_f32({})", a);
    if (e.type == DType::kBF16) return fmt::format("crucible_f32_to_bf16({})", a);
    if (is_floating(from) && is_integral(e.type)) {
      return fmt::format("({})crucible_{}_to_{}({})", c_type(e.type), name(from), integer_of_floats(e.type), a);
    }
    return fmt::format("({}){}", c_type(e.type), a);
  }

  std::string expr(ExprId id) {
    const Expr& e = kernel_.exprs[id];
    switch (e.operation) {
      case Operation::kInteger:
        return integer_text(e.integer);
      case Operation::kReal:
        return real_text(e.real, e.type);
      case Operation::kScalar:
        if (kernel_.scalars[e.id] == DType::kI64) return fmt::format("({})((const crucible_i64_scalar*)scalars)[{}]", c_type(e.type), e.id);
        return fmt::format("({})scalars[{}]", c_type(e.type), e.id);
      case Operation::kVariable:
        return fmt::format("v{}", e.id);
      case Operation::kLoad: {
        const std::string text = fmt::format("b{}[{}]", e.id, expr(e.in[0]));
        return e.type == DType::kBool ? "(" + text + " != 0)" : text;
      }
      case Operation::kElement:
        return fmt::format("a{}[{}]", e.id, expr(e.in[0]));
      case Operation::kConvert:
        return convert(e);
      case Operation::kAssume:  // for readers; and kernels that rely on different things are different kernels
        return fmt::format("{} /* in [{}, {}] */", expr(e.in[0]), e.integer, e.high);
      case Operation::kNegate:
        if (may_overflow(e.type) && numbers_.is_data(id)) return wrapping("-", e.type, "0", expr(e.in[0]));
        return fmt::format("({})-{}", c_type(e.type), expr(e.in[0]));
      case Operation::kNot:
        return fmt::format("(!{})", expr(e.in[0]));
      case Operation::kIsNan:
        return fmt::format("({0} != {0})", expr(e.in[0]));
      case Operation::kAbsolute:
        return call("abs", e);
      case Operation::kSqrt:
        return call("sqrt", e);
      case Operation::kFloor:
        return call("floor", e);
      case Operation::kExp:
        return call("exp", e);
      case Operation::kLog:
        return call("log", e);
      case Operation::kTanh:
        return call("tanh", e);
      case Operation::kErf:
        return call("erf", e);
      case Operation::kSigmoid:
        return call("sigmoid", e);
      case Operation::kReciprocal:
        return fmt::format("({} / {})", real_text(1, e.type), expr(e.in[0]));
      case Operation::kReciprocalSqrt:
        return call("rsqrt", e);
      case Operation::kSin:
        return call("sin", e);
      case Operation::kCos:
        return call("cos", e);
      case Operation::kOrderKey:
        return call("order_key", e);
      case Operation::kFromOrderKey:
        return fmt::format("crucible_from_order_key_{}({})", name(e.type), expr(e.in[0]));
      case Operation::kAdd:
        return arithmetic("+", id);
      case Operation::kSubtract:
        return arithmetic("-", id);
      case Operation::kMultiply:
        return arithmetic("*", id);
      case Operation::kDivide:
        return infix("/", e);
      case Operation::kRemainder:
        return infix("%", e);
      case Operation::kMaximum:
      case Operation::kMinimum:
        return extremum(e);
      case Operation::kPower:
        return call("pow", e);
      case Operation::kLess:
        return infix("<", e);
      case Operation::kLessEqual:
        return infix("<=", e);
      case Operation::kEqual:
        return infix("==", e);
      case Operation::kNotEqual:
        return infix("!=", e);
      case Operation::kAnd:
        return infix("&", e);
      case Operation::kOr:
        return infix("|", e);
      case Operation::kSelect:
        return fmt::format("({} ? {} : {})", expr(e.in[0]), expr(e.in[1]), expr(e.in[2]));
      case Operation::kCall:
        return call(kFunctions[e.id].name, e);
      case Operation::kFma:
        return fmt::format("__builtin_fma{}({}, {}, {})", e.type == DType::kF32 ? "f" : "", expr(e.in[0]), expr(e.in[1]), expr(e.in[2]));
    }
    return {};
  }

  std::string extremum(const Expr& e) {
    const bool is_max = e.operation == Operation::kMaximum;
    if (is_floating(e.type)) return call(is_max ? "max" : "min", e);
    if (e.type == DType::kBool) return infix(is_max ? "|" : "&", e);
    const std::string a = expr(e.in[0]), b = expr(e.in[1]);
    return fmt::format("({} {} {} ? {} : {})", a, is_max ? ">" : "<", b, a, b);
  }

  const KernelIr& kernel_;
  const DataNumbers numbers_;
  std::string out_;
};

}  // namespace

std::string print_c(const KernelIr& kernel, std::string_view name) { return Printer(kernel).run(name); }

}  // namespace crucible::kernel
