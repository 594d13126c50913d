// Prints kernels in a dialect of C: see c_dialect.hpp. It only spells: nothing is decided here.
#include <algorithm>
#include <string>

#include "plugins/sdk/kernel_printer.hpp"
#include "plugins/sdk/wide_loops.hpp"

namespace crucible::sdk {
namespace {

/// Statements of a loop's body from which unrolling it saves nothing and costs code and registers.
constexpr std::size_t kLongBody = 64;

std::size_t statements(const std::vector<Stmt>& body) {
  std::size_t count = body.size();
  for (const Stmt& stmt : body) count += statements(stmt.body);
  return count;
}

std::string memory(const TileOperand& operand) { return (operand.is_array ? "a" : "b") + text(operand.id); }

}  // namespace

std::string Printer::run(std::string_view name) {
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

std::string Printer::elements(std::size_t i) const {
  return std::to_string(std::max<std::int64_t>(kernel_.arrays[i].size, 1));
}

std::string Printer::pointee(std::size_t i) const {
  return (kernel_.buffers[i].written ? "" : "const ") + memory_type(kernel_.buffers[i].type);
}
std::string Printer::pointer(std::size_t i) const {
  return pointee(i) + "* " + (kernel_.buffers[i].may_alias ? "" : std::string(dialect_.restrict_));
}

std::string Printer::parameters() const {
  if (dialect_.packed_arguments) return "void* const* buffers, const double* scalars, int64_t begin, int64_t end";
  std::string list;
  if (!declares_shared()) {
    for (const SharedArray& array : shared_arrays()) {
      const std::size_t row = array.size.find(']') + 1;  // a pointer to what the first dimension counts
      list += std::string(dialect_.local) + array.type + " (*" + array.name + ")" + array.size.substr(row) + ", ";
    }
  }
  for (std::size_t i = 0; i < kernel_.buffers.size(); ++i)
    list += std::string(dialect_.global) + pointer(i) + "b" + text(i) + ", ";
  for (std::uint32_t i = 0; i < kernel_.scalars.size(); ++i)
    list += std::string(scalar_type(kernel_.scalars[i])) + " s" + text(i) + ", ";
  return list + "int64_t begin, int64_t end";
}

void Printer::print_arrays(int indent) {
  for (std::size_t i = 0; i < kernel_.arrays.size(); ++i)
    line(indent, std::string(dialect_.align_array) + memory_type(kernel_.arrays[i].type) + " a" + text(i) + "[" +
                     elements(i) + "];");
}

void Printer::print_plain(const Stmt& stmt, int indent) {
  switch (stmt.kind) {
    case StmtKind::kLet: {
      const bool is_mutable = kernel_.variables[stmt.id].is_mutable;
      return line(indent, (is_mutable ? "" : "const ") + variable_type(stmt.id) + " v" + text(stmt.id) + " = " +
                              expr(stmt.a) + ";");
    }
    case StmtKind::kSet:
      return line(indent, "v" + text(stmt.id) + " = " + expr(stmt.a) + ";");
    case StmtKind::kStore: {
      const auto given = stores_.find(&stmt);
      return line(indent, (given == stores_.end() ? at(stmt.id, stmt.a) : given->second) + " = " + expr(stmt.b) + ";");
    }
    case StmtKind::kElement:
      return line(indent, element(stmt.id, stmt.a) + " = " + expr(stmt.b) + ";");
    case StmtKind::kIf:
      line(indent, "if (" + expr(stmt.a) + ") {");
      print_block(stmt.body, indent + 1);
      return line(indent, "}");
    case StmtKind::kFor:
      return print_loop(stmt, expr(stmt.a), expr(stmt.b), "", indent);
    case StmtKind::kGrid:
      return print_grid(stmt, indent);
    case StmtKind::kTile:
      return print_tile(kernel_.tiles[stmt.id], expr(stmt.a), indent);
    case StmtKind::kPrefetch:
      return line(indent, "crucible_prefetch(b" + text(stmt.id) + " + " + expr(stmt.a) + ");");
    case StmtKind::kTranspose:
      return print_transpose(kernel_.transposes[stmt.id], expr(stmt.a), indent);
  }
}

void Printer::print_grid(const Stmt& stmt, int indent) {
  if (dialect_.first_item.empty()) return print_loop(stmt, "begin", "end", "", indent);
  const auto wide = team_.wide.find(&stmt);
  if (wide != team_.wide.end()) return print_wide_grid(stmt, wide->second, indent);
  print_loop(stmt, "begin + " + of_team(dialect_.first_item), "end", of_team(dialect_.item_step), indent);
}

void Printer::print_loop(const Stmt& stmt, const std::string& begin, const std::string& end, std::string_view step,
                         int indent) {
  std::string_view before;
  if (stmt.mode == LoopMode::kVector)
    before = mixes_widths(stmt.body) ? dialect_.wide_vector_loop : dialect_.vector_loop;
  if (stmt.mode == LoopMode::kUnrolled) before = dialect_.unrolled_loop;
  if (stmt.mode == LoopMode::kSerial && stmt.kind == StmtKind::kFor && updates_float(stmt.body))
    before = dialect_.ordered_loop;
  if (before.empty())
    before = stmt.kind == StmtKind::kGrid || has_loop(stmt.body) || is_long(stmt.body) ? dialect_.outer_loop
                                                                                       : dialect_.inner_loop;
  if (!before.empty()) line(indent, before);
  const std::string v = "v" + text(stmt.id);
  const std::string next = step.empty() ? "++" + v : v + " += " + std::string(step);
  line(indent,
       "for (" + variable_type(stmt.id) + " " + v + " = " + begin + "; " + v + " < " + end + "; " + next + ") {");
  print_block(stmt.body, indent + 1);
  line(indent, "}");
}

void Printer::print_transpose(const Transpose& copy, const std::string& steps, int indent) {
  line(indent, "crucible_transpose_" + std::string(name(kernel_.arrays[copy.to].type)) + "(a" + text(copy.to) + " + " +
                   expr(copy.to_base) + ", " + std::to_string(copy.to_step) + ", b" + text(copy.from) + " + " +
                   expr(copy.from_base) + ", " + std::to_string(copy.from_step) + ", " + text(copy.columns) + ", " +
                   steps + ");");
}

/// One vector variable per 64 bytes of the tile, so that the sums stay in registers through the loop.
void Printer::print_tile(const Tile& tile, const std::string& steps, int indent) {
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
                           (tile.start == TileStart::kGoOn ? "crucible_load_" + type + "(" + from + ")" : zero) + ";");
    }
  }
  if (!dialect_.outer_loop.empty()) line(indent + 1, dialect_.outer_loop);
  line(indent + 1, "for (int64_t q = 0; q < " + steps + "; ++q) {");
  for (std::uint32_t p = 0; p < parts; ++p) {
    line(indent + 2, "const crucible_" + type + " y" + text(p) + " = crucible_load_" + type + "(" + memory(tile.right) +
                         " + right + q * " + std::to_string(tile.right.step) + " + " + text(p * lanes) + ");");
  }
  for (std::uint32_t i = 0; i < tile.rows; ++i) {
    line(indent + 2, "const crucible_" + type + " x" + text(i) + " = crucible_splat_" + type + "(" + memory(tile.left) +
                         "[left + " + std::to_string(i * tile.left.row_step) + " + q * " +
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
               (adds ? "crucible_add_" + type + "(crucible_load_" + type + "(" + to + "), " + sum + ")" : sum) + ");");
    }
  }
  line(indent, "}");
}

/// A loop whose turns are one each of a team's lanes is none.
bool Printer::is_loop(const Stmt& stmt) const {
  if (stmt.kind == StmtKind::kTile || stmt.kind == StmtKind::kTranspose) return true;
  if (stmt.kind != StmtKind::kFor) return false;
  const auto turns = indices_.turns(stmt);
  return !counts_in_32_bits() || !team_.dealt.contains(&stmt) || !turns || *turns > team_.lanes;
}

bool Printer::has_loop(const std::vector<Stmt>& body) const {
  return std::ranges::any_of(body, [&](const Stmt& stmt) { return is_loop(stmt) || has_loop(stmt.body); });
}

bool Printer::is_long(const std::vector<Stmt>& body) const {
  return (is_team() ? statements(body) : body.size()) > kLongBody;
}

/// Whether a float outlives one turn of the loop, other than in a buffer.
bool Printer::updates_float(const std::vector<Stmt>& body) const {
  for (const Stmt& stmt : body) {
    if (stmt.kind == StmtKind::kSet && is_floating(kernel_.variables[stmt.id].type)) return true;
    if (stmt.kind == StmtKind::kElement && is_floating(kernel_.arrays[stmt.id].type)) return true;
    if (updates_float(stmt.body)) return true;
  }
  return false;
}

/// 4-byte and 8-byte data in one loop: clang would then choose the width of the 8-byte data.
bool Printer::mixes_widths(const std::vector<Stmt>& body) const {
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

std::uint32_t assumed_alignment(const Kernel& kernel, const Dialect& dialect, const Team& team) {
  const bool multiplies = std::ranges::any_of(kernel.exprs, [](const Expr& e) { return e.operation == Op::kFma; });
  const bool is_wide = team.lanes > 1 && std::ranges::any_of(team.wide, [](const auto& loop) {
                         return loop.second.width > 1;  // a thread that does items alone looks at the addresses itself
                       });
  return std::max(multiplies ? dialect.alignment : 1, is_wide ? kWideBytes : 1);
}

std::string_view scalar_type(Type type) { return type == Type::kI64 ? "int64_t" : "double"; }

std::vector<SharedArray> shared_arrays(const Kernel& kernel, const Dialect& dialect, const Team& team) {
  return Printer(kernel, dialect, team).shared_arrays();
}

std::string print_kernel(const Kernel& kernel, const Dialect& dialect, std::string_view name, const Team& team) {
  return Printer(kernel, dialect, team).run(name);
}

}  // namespace crucible::sdk
