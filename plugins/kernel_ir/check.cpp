// Types and scopes of a kernel: see check_types() in check.hpp.
#include "plugins/kernel_ir/check.hpp"

#include <algorithm>
#include <string_view>

#include "plugins/kernel_ir/data_numbers.hpp"
#include "plugins/kernel_ir/words.hpp"

namespace crucible::kernel {
namespace {

constexpr std::uint32_t kDeepestExpr = 1000;                   // walkers recurse
constexpr std::uint64_t kLargestTree = 1u << 20;               // shared operands are written out once per use
constexpr std::uint32_t kMostScalars = 4096;                   // a text names each
constexpr std::int64_t kLargestStep = std::int64_t{1} << 40;
constexpr std::int64_t kLargestArray = std::int64_t{1} << 24;  // elements of one work item's scratch

std::size_t operand_count(const Expr& e) {
  const Operation operation = e.operation;
  if (operation == Operation::kCall)
    return e.id < kFunctions.size() ? static_cast<std::size_t>(kFunctions[e.id].operands) : 0;
  if (operation == Operation::kLoad || operation == Operation::kElement) return 1;
  if (operation == Operation::kSelect || operation == Operation::kFma) return 3;
  if (operation >= Operation::kAdd) return 2;
  return operation >= Operation::kConvert ? 1 : 0;
}

bool is_comparison(Operation operation) { return operation >= Operation::kLess && operation <= Operation::kNotEqual; }
bool is_wide_float(DType type) { return type == DType::kF32 || type == DType::kF64; }
bool computes(DType type) { return type == DType::kBool || is_integral(type) || is_wide_float(type); }

/// Each check is true when its rule holds; the first one that does not says so, and nothing is looked at behind it.
class Checker {
 public:
  explicit Checker(const KernelIr& kernel) : kernel_(kernel), defined_(kernel.variables.size(), false) {}

  std::string run() {
    if (check_declarations() && check_exprs() && check_block(kernel_.body, true) && check_grids()) check_assumptions();
    return std::move(fault_);
  }

 private:
  template <class... Parts>
  bool broken(const Parts&... parts) {
    if (fault_.empty()) fault_ = words(parts...);
    return false;
  }
  template <class... Parts>
  bool holds(bool rule, const Parts&... parts) {
    return rule || broken(parts...);
  }
  bool below(std::uint32_t id, std::size_t count, std::string_view what) {
    return holds(id < count, what, " ", id, " of ", count);
  }

  bool check_declarations() {
    if (kernel_.scalars.size() > kMostScalars) return broken(kernel_.scalars.size(), " scalars");
    for (const DType type : kernel_.scalars) {
      if (type != DType::kF64 && type != DType::kI64) return broken("a scalar of ", name(type), ", it is f64 or i64");
    }
    for (const IrArray& array : kernel_.arrays) {
      if (array.size < 0 || array.size > kLargestArray) return broken("an array of ", array.size, " elements");
    }
    return true;
  }

  bool check_exprs() {
    for (ExprId id = 0; id < kernel_.exprs.size(); ++id) {
      if (!check_expr(id, kernel_.exprs[id])) return false;
    }
    return true;
  }

  bool check_grids() { return holds(grids_ == 1, "the kernel has ", grids_, " grid loops, needs 1"); }

  bool check_assumptions() {
    const std::optional<ExprId> assumed = DataNumbers(kernel_).assumption_about_data();
    if (!assumed) return true;
    const Expr& e = kernel_.exprs[*assumed];
    return broken("expression ", *assumed, " assumes that a number from memory or from the launch lies in [", e.integer,
                  ", ", e.high, "]: guard it");
  }

  /// A rule about expression `at_`.
  template <class... Parts>
  bool need(bool rule, const Parts&... parts) {
    return rule || broken("expression ", at_, " of type ", name(kernel_.exprs[at_].type), ": ", parts...);
  }

  bool check_expr(ExprId id, const Expr& e) {
    at_ = id;
    if (e.operation == Operation::kCall && !below(e.id, kFunctions.size(), "function")) return false;
    const std::size_t operands = operand_count(e);
    std::uint64_t tree = 1;
    std::uint32_t depth = 1;
    for (std::size_t k = 0; k < 3; ++k) {
      if (k >= operands) {
        if (!need(e.in[k] == kNoId, "it has more than ", operands, " operands")) return false;
        continue;
      }
      if (!need(e.in[k] < id, "an operand does not stand before it")) return false;
      tree += tree_[e.in[k]];
      depth = std::max(depth, depth_[e.in[k]] + 1);
    }
    tree_.push_back(tree);
    depth_.push_back(depth);
    return need(tree <= kLargestTree && depth <= kDeepestExpr, "it is too large to be written out") && check_types(e);
  }

  DType in(const Expr& e, std::size_t k) const { return kernel_.exprs[e.in[k]].type; }

  bool check_types(const Expr& e) {
    switch (e.operation) {
      case Operation::kInteger:
        return need(e.type == DType::kBool || is_integral(e.type), "an integer constant needs an integer type");
      case Operation::kReal:
        return need(is_wide_float(e.type), "a real constant needs f32 or f64");
      case Operation::kScalar:
        return below(e.id, kernel_.scalars.size(), "scalar");
      case Operation::kVariable:
        return below(e.id, kernel_.variables.size(), "variable") &&
               need(e.type == kernel_.variables[e.id].type, "it has another type than its variable");
      case Operation::kLoad:
        return below(e.id, kernel_.buffers.size(), "buffer") && need(in(e, 0) == DType::kI64, "an index must be i64") &&
               need(e.type == kernel_.buffers[e.id].type, "it has another type than its buffer");
      case Operation::kElement:
        return below(e.id, kernel_.arrays.size(), "array") && need(in(e, 0) == DType::kI64, "an index must be i64") &&
               need(e.type == kernel_.arrays[e.id].type, "it has another type than its array");
      case Operation::kConvert:
        return true;
      case Operation::kAssume:
        return need(e.type == DType::kI64 && in(e, 0) == DType::kI64, "only i64 is assumed");
      case Operation::kIsNan:
        return need(e.type == DType::kBool && is_floating(in(e, 0)), "it asks about a float");
      case Operation::kNot:
        return need(e.type == DType::kBool && in(e, 0) == DType::kBool, "it needs bool");
      case Operation::kOrderKey:
        return need(is_floating(in(e, 0)) && e.type == order_key_type(in(e, 0)), "that is no key");
      case Operation::kFromOrderKey:
        return need(is_floating(e.type) && in(e, 0) == order_key_type(e.type), "that is no key's float");
      case Operation::kSelect:
        return need(in(e, 0) == DType::kBool && in(e, 1) == e.type && in(e, 2) == e.type,
                    "a choice needs bool and two values of its type");
      case Operation::kFma:
        return need(is_wide_float(e.type) && in(e, 0) == e.type && in(e, 1) == e.type && in(e, 2) == e.type,
                    "it fuses three values of f32 or f64");
      default:
        return check_arithmetic(e);
    }
  }

  bool check_arithmetic(const Expr& e) {
    const DType type = in(e, 0);
    if (!need(computes(type), "it computes in ", name(type))) return false;
    if (operand_count(e) == 2 &&
        !need(in(e, 1) == type, "it has operands of types ", name(type), " and ", name(in(e, 1))))
      return false;
    const bool logic = e.operation == Operation::kAnd || e.operation == Operation::kOr;
    const DType wanted = logic || is_comparison(e.operation) ? DType::kBool : type;
    if (!need(e.type == wanted, "its operands make it ", name(wanted)) ||
        !need(!logic || type == DType::kBool, "logic needs bool"))
      return false;
    if (e.operation == Operation::kCall) {
      const FunctionInfo& function = kFunctions[e.id];
      return need(function.of_floats ? is_floating(type) : is_integral(type), function.name, " of ", name(type));
    }
    const bool integers_too = is_comparison(e.operation) || logic || e.operation == Operation::kNegate ||
                              e.operation == Operation::kAbsolute ||
                              (e.operation >= Operation::kAdd && e.operation <= Operation::kMinimum);
    return need(is_floating(type) || integers_too, "it needs a float") &&
           need(e.operation != Operation::kRemainder || !is_floating(type), "a remainder of floats");
  }

  /// The expression is there and every variable in it is in scope.
  bool check_use(ExprId id) {
    if (!below(id, kernel_.exprs.size(), "a statement with expression")) return false;
    const Expr& e = kernel_.exprs[id];
    if (e.operation == Operation::kVariable && !defined_[e.id])
      return broken("variable ", e.id, " is used outside its block");
    return std::ranges::all_of(e.in, [&](ExprId in) { return in == kNoId || check_use(in); });
  }

  /// A use as a number of elements or a place.
  bool check_whole(ExprId id, std::string_view what) {
    return check_use(id) && holds(kernel_.exprs[id].type == DType::kI64, what, " must be i64");
  }

  bool define(VariableId id, std::vector<VariableId>& mine) {
    if (!below(id, defined_.size(), "variable") || !holds(!defined_[id], "variable ", id, " is defined twice"))
      return false;
    defined_[id] = true;
    mine.push_back(id);
    return true;
  }

  bool check_block(const std::vector<Stmt>& body, bool outermost, std::vector<VariableId> mine = {}) {
    for (const Stmt& stmt : body) {
      if (!check_stmt(stmt, mine, outermost)) return false;
    }
    for (const VariableId id : mine) defined_[id] = false;  // out of scope
    return true;
  }

  bool check_loop(const Stmt& stmt) {
    std::vector<VariableId> mine;
    return define(stmt.id, mine) &&
           holds(kernel_.variables[stmt.id].type == DType::kI64, "a loop's variable must be i64") &&
           check_block(stmt.body, false, std::move(mine));
  }

  bool check_value(const Stmt& stmt, std::string_view what, DType type) {
    return check_whole(stmt.a, "a store's index") && check_use(stmt.b) &&
           holds(kernel_.exprs[stmt.b].type == type, what, " ", stmt.id, " of ", name(type), " is stored to with ",
                 name(kernel_.exprs[stmt.b].type));
  }

  bool check_form(const Stmt& stmt) {
    const StmtKind kind = stmt.kind;
    const bool is_block = kind == StmtKind::kFor || kind == StmtKind::kIf || kind == StmtKind::kGrid;
    const bool takes_b = kind == StmtKind::kStore || kind == StmtKind::kElement || kind == StmtKind::kFor;
    return holds(is_block || stmt.body.empty(), "a statement without a block has one") &&
           holds((takes_b || stmt.b == kNoId) && (kind != StmtKind::kGrid || stmt.a == kNoId),
                 "a statement has an expression that it does not use");
  }

  bool check_stmt(const Stmt& stmt, std::vector<VariableId>& mine, bool outermost) {
    if (!check_form(stmt)) return false;
    switch (stmt.kind) {
      case StmtKind::kLet: {
        if (!check_use(stmt.a) || !below(stmt.id, kernel_.variables.size(), "variable")) return false;
        const DType type = kernel_.variables[stmt.id].type, found = kernel_.exprs[stmt.a].type;
        return holds(type == found, "variable ", stmt.id, " is ", name(type), ", its value ", name(found)) &&
               define(stmt.id, mine);
      }
      case StmtKind::kSet:
        return below(stmt.id, kernel_.variables.size(), "variable") && check_use(stmt.a) &&
               holds(defined_[stmt.id] && kernel_.variables[stmt.id].is_mutable, "variable ", stmt.id,
                     " is set but not a mutable one in scope") &&
               holds(kernel_.variables[stmt.id].type == kernel_.exprs[stmt.a].type, "variable ", stmt.id,
                     " is set to another type");
      case StmtKind::kStore:
        return below(stmt.id, kernel_.buffers.size(), "buffer") &&
               holds(kernel_.buffers[stmt.id].written, "buffer ", stmt.id, " is stored to but not marked as written") &&
               check_value(stmt, "buffer", kernel_.buffers[stmt.id].type);
      case StmtKind::kElement:
        return below(stmt.id, kernel_.arrays.size(), "array") &&
               check_value(stmt, "array", kernel_.arrays[stmt.id].type);
      case StmtKind::kIf:
        return check_use(stmt.a) && holds(kernel_.exprs[stmt.a].type == DType::kBool, "a condition is not bool") &&
               check_block(stmt.body, false);
      case StmtKind::kFor:
        return check_whole(stmt.a, "a loop's first turn") && check_whole(stmt.b, "a loop's end") && check_loop(stmt);
      case StmtKind::kGrid:
        ++grids_;
        return holds(outermost, "the grid loop is inside another block") && check_loop(stmt);
      case StmtKind::kTile:
        return below(stmt.id, kernel_.tiles.size(), "tile") && check_whole(stmt.a, "a tile's steps") &&
               check_tile(kernel_.tiles[stmt.id]);
      case StmtKind::kPrefetch:
        return below(stmt.id, kernel_.buffers.size(), "buffer") && check_whole(stmt.a, "a hint's index");
      case StmtKind::kTranspose:
        return below(stmt.id, kernel_.transposes.size(), "transposed copy") &&
               check_whole(stmt.a, "a transposed copy's steps") && check_transpose(kernel_.transposes[stmt.id]);
    }
    return true;
  }

  bool check_transpose(const Transpose& copy) {
    if (copy.to >= kernel_.arrays.size() || copy.from >= kernel_.buffers.size())
      return broken("a transposed copy from buffer ", copy.from, " to array ", copy.to, " of ", kernel_.arrays.size());
    const DType from = kernel_.buffers[copy.from].type, to = kernel_.arrays[copy.to].type;
    return holds(from == to && is_wide_float(to), "a transposed copy from ", name(from), " to ", name(to)) &&
           holds(!kernel_.buffers[copy.from].written, "a transposed copy reads buffer ", copy.from,
                 ", which is written") &&
           holds(copy.columns != 0 && copy.columns <= kMostTileColumns && copy.to_step >= copy.columns,
                 "a transposed copy of ", copy.columns, " columns, ", copy.to_step, " apart") &&
           holds(copy.from_step >= 0 && copy.from_step <= kLargestStep && copy.to_step <= kLargestStep,
                 "a transposed copy's steps lead backwards or too far") &&
           check_whole(copy.to_base, "where a transposed copy begins") &&
           check_whole(copy.from_base, "where a transposed copy begins");
  }

  bool check_tile(const Tile& tile) {
    if (!below(tile.sums, kernel_.arrays.size(), "array")) return false;
    const IrArray& sums = kernel_.arrays[tile.sums];
    if (!holds(is_wide_float(sums.type), "a tile's sums are ", name(sums.type))) return false;
    const std::uint32_t lanes = sums.type == DType::kF64 ? 8 : 16;
    if (tile.rows == 0 || tile.rows > kMostTileRows || tile.columns == 0 || tile.columns > kMostTileColumns ||
        tile.columns % lanes != 0 || std::int64_t{tile.rows} * tile.columns > sums.size) {
      return broken("a tile of ", tile.rows, " x ", tile.columns, " with ", sums.size, " sums");
    }
    return (tile.base == kNoId || check_whole(tile.base, "where a tile's sums begin")) &&
           check_tile_operand(tile, tile.left, sums.type) &&
           holds(tile.right.row_step == 0, "a tile's right operand has rows") &&
           check_tile_operand(tile, tile.right, sums.type);
  }

  bool check_tile_operand(const Tile& tile, const TileOperand& operand, DType type) {
    const std::string_view what = operand.is_array ? "a tile reads array" : "a tile reads buffer";
    if (!below(operand.id, operand.is_array ? kernel_.arrays.size() : kernel_.buffers.size(), what)) return false;
    const DType found = operand.is_array ? kernel_.arrays[operand.id].type : kernel_.buffers[operand.id].type;
    return holds(!operand.is_array || operand.id != tile.sums, "a tile reads its own sums") &&
           holds(operand.is_array || !kernel_.buffers[operand.id].written, "a tile reads buffer ", operand.id,
                 ", which is written") &&
           holds(found == type, "a tile of ", name(type), " reads ", name(found)) &&
           holds(operand.row_step >= 0 && operand.step >= 0 && operand.row_step <= kLargestStep &&
                     operand.step <= kLargestStep,
                 "a tile's steps lead backwards or too far") &&
           check_whole(operand.base, "where a tile's operand begins");
  }

  const KernelIr& kernel_;
  std::vector<bool> defined_;
  std::vector<std::uint64_t> tree_;
  std::vector<std::uint32_t> depth_;
  ExprId at_ = 0;
  int grids_ = 0;
  std::string fault_;
};

}  // namespace

std::string check_types(const KernelIr& kernel) { return Checker(kernel).run(); }

}  // namespace crucible::kernel
