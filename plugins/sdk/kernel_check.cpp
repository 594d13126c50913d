// What a kernel must satisfy before it may be walked or printed: see check_kernel() in kernel_ir.hpp. Types and scopes;
// the host has also proved bounds, for which it knows the sizes.
#include <algorithm>
#include <string>

#include "plugins/sdk/error.hpp"
#include "plugins/sdk/kernel_ir.hpp"

namespace crucible::sdk {
namespace {

constexpr std::uint32_t kDeepestExpr = 1000;                   // walkers recurse
constexpr std::uint64_t kLargestTree = 1u << 20;               // shared operands are written out once per use
constexpr std::uint32_t kMostScalars = 4096;  // a text names each
constexpr std::uint32_t kMostTileRows = 64, kMostTileColumns = 256;
constexpr std::int64_t kLargestStep = std::int64_t{1} << 40;
constexpr std::int64_t kLargestArray = std::int64_t{1} << 24;  // elements of one work item's scratch

[[noreturn]] void broken(const std::string& what) { throw Failure(CRUCIBLE_E_DATA_CORRUPT, "kernel IR: " + what); }

void need(bool holds, std::size_t expr, const char* rule) {
  if (!holds) broken("expression " + std::to_string(expr) + ": " + rule);
}

void below(std::uint32_t id, std::size_t count, const char* what) {
  if (id >= count) broken(std::string(what) + " " + std::to_string(id) + " of " + std::to_string(count));
}

std::size_t operand_count(const Expr& e) {
  const Op op = e.op;
  if (op == Op::kCall) return e.id < functions().size() ? static_cast<std::size_t>(functions()[e.id].operands) : 0;
  if (op == Op::kLoad || op == Op::kElement) return 1;
  if (op == Op::kSelect || op == Op::kFma) return 3;
  if (op >= Op::kAdd) return 2;
  return op >= Op::kConvert ? 1 : 0;
}

bool is_comparison(Op op) { return op >= Op::kLess && op <= Op::kNotEqual; }
Type key_type(Type type) { return type == Type::kF64 ? Type::kI64 : Type::kI32; }
bool computes(Type type) { return type != Type::kF16 && type != Type::kBF16; }

class Checker {
 public:
  explicit Checker(const Kernel& kernel) : kernel_(kernel), defined_(kernel.variables.size(), false) {}

  void run() {
    if (kernel_.scalars.size() > kMostScalars) broken(std::to_string(kernel_.scalars.size()) + " scalars");
    for (const ArrayInfo& array : kernel_.arrays) {
      if (array.size < 0 || array.size > kLargestArray)
        broken("an array of " + std::to_string(array.size) + " elements");
    }
    for (std::size_t i = 0; i < kernel_.exprs.size(); ++i) check_expr(i);
    check_block(kernel_.body, true);
    if (grids_ != 1) broken(std::to_string(grids_) + " grid loops, needs 1");
  }

 private:
  void check_expr(std::size_t i) {
    const Expr& e = kernel_.exprs[i];
    if (e.op == Op::kCall) below(e.id, functions().size(), "function");
    const std::size_t operands = operand_count(e);
    std::uint64_t tree = 1;
    std::uint32_t depth = 1;
    for (std::size_t k = 0; k < 3; ++k) {
      if (k >= operands) {
        need(e.in[k] == kNoId, i, "it has too many operands");
        continue;
      }
      need(e.in[k] < i, i, "an operand does not stand before it");
      tree += tree_[e.in[k]];
      depth = std::max(depth, depth_[e.in[k]] + 1);
    }
    need(tree <= kLargestTree && depth <= kDeepestExpr, i, "it is too large to be written out");
    tree_.push_back(tree);
    depth_.push_back(depth);
    check_types(i, e);
  }

  Type in(const Expr& e, std::size_t k) const { return kernel_.exprs[e.in[k]].type; }

  void check_types(std::size_t i, const Expr& e) {
    switch (e.op) {
      case Op::kInteger:
        return need(e.type == Type::kBool || is_integer(e.type), i, "an integer needs an integer type");
      case Op::kReal:
        return need(e.type == Type::kF32 || e.type == Type::kF64, i, "a real needs f32 or f64");
      case Op::kScalar:
        return below(e.id, kernel_.scalars.size(), "scalar");
      case Op::kVariable:
        below(e.id, kernel_.variables.size(), "variable");
        return need(e.type == kernel_.variables[e.id].type, i, "it has another type than its variable");
      case Op::kLoad:
        below(e.id, kernel_.buffers.size(), "buffer");
        need(in(e, 0) == Type::kI64, i, "an index must be i64");
        return need(e.type == kernel_.buffers[e.id].type, i, "it has another type than its buffer");
      case Op::kElement:
        below(e.id, kernel_.arrays.size(), "array");
        need(in(e, 0) == Type::kI64, i, "an index must be i64");
        return need(e.type == kernel_.arrays[e.id].type, i, "it has another type than its array");
      case Op::kConvert:
        return;
      case Op::kAssume:
        return need(e.type == Type::kI64 && in(e, 0) == Type::kI64, i, "only i64 is assumed");
      case Op::kIsNan:
        return need(e.type == Type::kBool && is_float(in(e, 0)), i, "it asks about a float");
      case Op::kNot:
        return need(e.type == Type::kBool && in(e, 0) == Type::kBool, i, "it needs bool");
      case Op::kOrderKey:
        return need(is_float(in(e, 0)) && e.type == key_type(in(e, 0)), i, "that is no key");
      case Op::kFromOrderKey:
        return need(is_float(e.type) && in(e, 0) == key_type(e.type), i, "that is no key");
      case Op::kSelect:
        return need(in(e, 0) == Type::kBool && in(e, 1) == e.type && in(e, 2) == e.type, i,
                    "a choice needs bool and two values of its type");
      case Op::kFma:
        return need((e.type == Type::kF32 || e.type == Type::kF64) && in(e, 0) == e.type && in(e, 1) == e.type && in(e, 2) == e.type, i,
                    "it fuses three values of f32 or f64");
      default:
        return check_arithmetic(i, e);
    }
  }

  void check_arithmetic(std::size_t i, const Expr& e) {
    const Type type = in(e, 0);
    need(computes(type), i, "it computes in a storage type");
    need(operand_count(e) == 1 || in(e, 1) == type, i, "its operands have two types");
    const bool logic = e.op == Op::kAnd || e.op == Op::kOr;
    need(e.type == (logic || is_comparison(e.op) ? Type::kBool : type), i, "its type is not what its operands make it");
    need(!logic || type == Type::kBool, i, "logic needs bool");
    if (e.op == Op::kCall) {
      return need(functions()[e.id].of_floats ? is_float(type) : is_integer(type), i, "its function has other types");
    }
    const bool integers_too = is_comparison(e.op) || logic || e.op == Op::kNegate || e.op == Op::kAbsolute ||
                              (e.op >= Op::kAdd && e.op <= Op::kMinimum);
    need(is_float(type) || integers_too, i, "it needs a float");
    need(e.op != Op::kRemainder || !is_float(type), i, "a remainder of floats");
  }

  /// Every variable of the expression is in scope.
  void check_use(std::uint32_t id) {
    if (id >= kernel_.exprs.size())
      broken("statement with expression " + std::to_string(id) + " of " + std::to_string(kernel_.exprs.size()));
    const Expr& e = kernel_.exprs[id];
    if (e.op == Op::kVariable && !defined_[e.id])
      broken("variable " + std::to_string(e.id) + " is used outside its block");
    for (std::size_t k = 0; k < operand_count(e); ++k) check_use(e.in[k]);
  }

  Type type_of(std::uint32_t id) {
    check_use(id);
    return kernel_.exprs[id].type;
  }

  void define(std::uint32_t id, std::vector<std::uint32_t>& mine) {
    below(id, defined_.size(), "variable");
    if (defined_[id]) broken("variable " + std::to_string(id) + " is defined twice");
    defined_[id] = true;
    mine.push_back(id);
  }

  void check_block(const std::vector<Stmt>& body, bool outermost) {
    std::vector<std::uint32_t> mine;
    for (const Stmt& stmt : body) check_stmt(stmt, mine, outermost);
    for (const std::uint32_t id : mine) defined_[id] = false;
  }

  void check_loop(const Stmt& stmt) {
    std::vector<std::uint32_t> mine;
    define(stmt.id, mine);
    if (kernel_.variables[stmt.id].type != Type::kI64) broken("a loop's variable must be i64");
    check_block(stmt.body, false);
    defined_[stmt.id] = false;
  }

  void check_stmt(const Stmt& stmt, std::vector<std::uint32_t>& mine, bool outermost) {
    const bool is_block = stmt.kind == StmtKind::kFor || stmt.kind == StmtKind::kIf || stmt.kind == StmtKind::kGrid;
    if (!is_block && !stmt.body.empty()) broken("a statement without a block has one");
    switch (stmt.kind) {
      case StmtKind::kLet: {
        const Type type = type_of(stmt.a);
        below(stmt.id, kernel_.variables.size(), "variable");
        if (kernel_.variables[stmt.id].type != type)
          broken("variable " + std::to_string(stmt.id) + " and its value have two types");
        return define(stmt.id, mine);
      }
      case StmtKind::kSet:
        below(stmt.id, kernel_.variables.size(), "variable");
        if (!defined_[stmt.id] || !kernel_.variables[stmt.id].is_mutable ||
            kernel_.variables[stmt.id].type != type_of(stmt.a)) {
          broken("variable " + std::to_string(stmt.id) + " is set but is not a mutable one of that type in scope");
        }
        return;
      case StmtKind::kStore:
        below(stmt.id, kernel_.buffers.size(), "buffer");
        if (!kernel_.buffers[stmt.id].written)
          broken("buffer " + std::to_string(stmt.id) + " is stored to but not marked as written");
        if (type_of(stmt.a) != Type::kI64 || type_of(stmt.b) != kernel_.buffers[stmt.id].type)
          broken("a store's index or value has the wrong type");
        return;
      case StmtKind::kElement:
        below(stmt.id, kernel_.arrays.size(), "array");
        if (type_of(stmt.a) != Type::kI64 || type_of(stmt.b) != kernel_.arrays[stmt.id].type)
          broken("a store's index or value has the wrong type");
        return;
      case StmtKind::kIf:
        if (type_of(stmt.a) != Type::kBool) broken("a condition is not bool");
        return check_block(stmt.body, false);
      case StmtKind::kFor:
        if (type_of(stmt.a) != Type::kI64 || type_of(stmt.b) != Type::kI64) broken("a loop's bounds must be i64");
        return check_loop(stmt);
      case StmtKind::kGrid:
        if (!outermost) broken("the grid loop is inside another block");
        ++grids_;
        return check_loop(stmt);
      case StmtKind::kTile:
        below(stmt.id, kernel_.tiles.size(), "tile");
        if (type_of(stmt.a) != Type::kI64) broken("a tile's steps must be i64");
        return check_tile(kernel_.tiles[stmt.id]);
      case StmtKind::kPrefetch:
        below(stmt.id, kernel_.buffers.size(), "buffer");
        if (type_of(stmt.a) != Type::kI64) broken("a hint's index has the wrong type");
        return;
      case StmtKind::kTranspose:
        below(stmt.id, kernel_.transposes.size(), "transposed copy");
        if (type_of(stmt.a) != Type::kI64) broken("a transposed copy's steps must be i64");
        return check_transpose(kernel_.transposes[stmt.id]);
    }
  }

  void check_transpose(const Transpose& copy) {
    below(copy.to, kernel_.arrays.size(), "array");
    below(copy.from, kernel_.buffers.size(), "buffer");
    const Type type = kernel_.arrays[copy.to].type;
    if (kernel_.buffers[copy.from].type != type || (type != Type::kF32 && type != Type::kF64))
      broken("a transposed copy needs one type, f32 or f64");
    if (kernel_.buffers[copy.from].written) broken("a transposed copy reads what its kernel writes");
    if (copy.columns == 0 || copy.columns > kMostTileColumns || copy.to_step < copy.columns || copy.to_step > kLargestStep ||
        copy.from_step < 0 || copy.from_step > kLargestStep) {
      broken("a transposed copy of " + std::to_string(copy.columns) + " columns, " + std::to_string(copy.to_step) + " apart");
    }
    if (type_of(copy.to_base) != Type::kI64 || type_of(copy.from_base) != Type::kI64)
      broken("a transposed copy must begin at an i64");
  }

  void check_tile(const Tile& tile) {
    below(tile.sums, kernel_.arrays.size(), "array");
    const ArrayInfo& sums = kernel_.arrays[tile.sums];
    if (sums.type != Type::kF32 && sums.type != Type::kF64) broken("a tile's sums must be f32 or f64");
    const std::uint32_t lanes = sums.type == Type::kF64 ? 8 : 16;
    if (tile.rows == 0 || tile.rows > kMostTileRows || tile.columns == 0 || tile.columns > kMostTileColumns ||
        tile.columns % lanes != 0 || std::int64_t{tile.rows} * tile.columns > sums.size) {
      broken("a tile of " + std::to_string(tile.rows) + " x " + std::to_string(tile.columns) + " with " +
             std::to_string(sums.size) + " sums");
    }
    if (tile.base != kNoId && type_of(tile.base) != Type::kI64) broken("a tile's sums must begin at an i64");
    for (const TileOperand* operand : {&tile.left, &tile.right}) {
      below(operand->id, operand->is_array ? kernel_.arrays.size() : kernel_.buffers.size(), "a tile's operand");
      const Type type = operand->is_array ? kernel_.arrays[operand->id].type : kernel_.buffers[operand->id].type;
      if (type != sums.type) broken("a tile's operands have other types than its sums");
      if (operand->is_array ? operand->id == tile.sums : kernel_.buffers[operand->id].written)
        broken("a tile reads what its kernel writes");
      if (operand->row_step < 0 || operand->step < 0 || operand->row_step > kLargestStep || operand->step > kLargestStep)
        broken("a tile's steps lead backwards or too far");
      if (type_of(operand->base) != Type::kI64) broken("a tile's operand must begin at an i64");
    }
    if (tile.right.row_step != 0) broken("a tile's right operand has rows");
  }

  const Kernel& kernel_;
  std::vector<bool> defined_;
  std::vector<std::uint64_t> tree_;
  std::vector<std::uint32_t> depth_;
  int grids_ = 0;
};

}  // namespace

void check_kernel(const Kernel& kernel) { Checker(kernel).run(); }

}  // namespace crucible::sdk
