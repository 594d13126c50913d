// Types, definitions and bounds of a kernel: see kernel_verify.hpp. Integer expressions carry the interval of their
// values; what intervals cannot know (correlated indices) must be stated by an assumption in the IR; data is guarded, nothing is assumed of it.
#include "core/kernel/ir/kernel_verify.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <string>

#include "core/kernel/ir/data_indices.hpp"

namespace crucible::kernel {
namespace {

struct Interval {
  std::int64_t low = std::numeric_limits<std::int64_t>::min();
  std::int64_t high = std::numeric_limits<std::int64_t>::max();
};

__extension__ typedef __int128 Wide;

Interval clamped(Wide low, Wide high) {
  const Wide least = std::numeric_limits<std::int64_t>::min(), most = std::numeric_limits<std::int64_t>::max();
  if (low < least || high > most) return {};
  return {static_cast<std::int64_t>(low), static_cast<std::int64_t>(high)};
}

bool is_comparison(Operation operation) { return operation >= Operation::kLess && operation <= Operation::kNotEqual; }
bool is_computable(DType type) {
  return type == DType::kBool || is_integral(type) || type == DType::kF32 || type == DType::kF64;
}

class Verifier {
 public:
  Verifier(const KernelIr& kernel, std::span<const std::int64_t> buffer_elements, std::int64_t grid)
      : kernel_(kernel),
        buffer_elements_(buffer_elements),
        grid_(grid),
        defined_(kernel.variables.size(), false),
        range_(kernel.variables.size()) {}

  Result<void> run() {
    if (buffer_elements_.size() != kernel_.buffers.size()) {
      return broken(fmt::format("{} buffer sizes for {} buffers", buffer_elements_.size(), kernel_.buffers.size()));
    }
    for (ExprId id = 0; id < kernel_.exprs.size(); ++id) CRUCIBLE_TRY_VOID(check_types(id));
    CRUCIBLE_TRY_VOID(check_block(kernel_.body));
    if (grids_ != 1) return broken(fmt::format("the kernel has {} grid loops, needs 1", grids_));
    if (const auto assumed = DataNumbers(kernel_).assumption_about_data())
      return broken(fmt::format("expression {} assumes that a number from memory or from the launch lies in [{}, {}]: guard it", *assumed, at(*assumed).integer, at(*assumed).high));
    return {};
  }

 private:
  Error broken(const std::string& what) const { return Error{ErrorCode::kInternal, "kernel IR: " + what}; }

  const Expr& at(ExprId id) const { return kernel_.exprs[id]; }

  Result<void> check_types(ExprId id) {
    const Expr& e = at(id);
    std::size_t operands = 0;
    if (e.operation >= Operation::kConvert) operands = 1;
    if (e.operation >= Operation::kAdd) operands = 2;
    if (e.operation == Operation::kSelect || e.operation == Operation::kFma) operands = 3;
    if (e.operation == Operation::kCall) {
      if (e.id >= kFunctions.size()) return broken(fmt::format("function {} of {}", e.id, kFunctions.size()));
      operands = static_cast<std::size_t>(kFunctions[e.id].operands);
    }
    if (e.operation == Operation::kLoad || e.operation == Operation::kElement) operands = 1;
    for (std::size_t i = 0; i < 3; ++i) {
      if (i < operands && (e.in[i] == kNoId || e.in[i] >= id))
        return broken(fmt::format("expression {} uses an operand that does not stand before it", id));
      if (i >= operands && e.in[i] != kNoId)
        return broken(fmt::format("expression {} has more than {} operands", id, operands));
    }
    const auto wants = [&](bool fits, std::string_view rule) -> Result<void> {
      if (fits) return {};
      return broken(fmt::format("expression {} of type {}: {}", id, name(e.type), rule));
    };
    switch (e.operation) {
      case Operation::kVariable:
        if (e.id >= kernel_.variables.size())
          return broken(fmt::format("variable {} of {}", e.id, kernel_.variables.size()));
        return wants(e.type == kernel_.variables[e.id].type, "is not its variable's type");
      case Operation::kScalar:
        if (e.id >= kernel_.scalars.size()) return broken(fmt::format("scalar {} of {}", e.id, kernel_.scalars.size()));
        return {};
      case Operation::kLoad:
        if (e.id >= kernel_.buffers.size()) return broken(fmt::format("buffer {} of {}", e.id, kernel_.buffers.size()));
        CRUCIBLE_TRY_VOID(wants(e.type == kernel_.buffers[e.id].type, "is not its buffer's type"));
        return wants(at(e.in[0]).type == DType::kI64, "is indexed by something else than i64");
      case Operation::kElement:
        if (e.id >= kernel_.arrays.size()) return broken(fmt::format("array {} of {}", e.id, kernel_.arrays.size()));
        CRUCIBLE_TRY_VOID(wants(e.type == kernel_.arrays[e.id].type, "is not its array's type"));
        return wants(at(e.in[0]).type == DType::kI64, "is indexed by something else than i64");
      case Operation::kInteger:
        return wants(e.type == DType::kBool || is_integral(e.type), "an integer constant needs an integer type");
      case Operation::kReal:
        return wants(e.type == DType::kF32 || e.type == DType::kF64, "a real constant needs f32 or f64");
      case Operation::kConvert:
        return {};
      case Operation::kAssume:
        return wants(e.type == DType::kI64 && at(e.in[0]).type == DType::kI64, "only i64 is assumed");
      case Operation::kIsNan:
        return wants(is_floating(at(e.in[0]).type) && e.type == DType::kBool, "is a question about floats");
      case Operation::kNot:
        return wants(at(e.in[0]).type == DType::kBool && e.type == DType::kBool, "needs bool");
      case Operation::kOrderKey:
        return wants(e.type == order_key_type(at(e.in[0]).type) && is_floating(at(e.in[0]).type), "is no key type");
      case Operation::kFromOrderKey:
        return wants(at(e.in[0]).type == order_key_type(e.type) && is_floating(e.type), "is no key's float");
      case Operation::kSelect:
        return wants(at(e.in[0]).type == DType::kBool && at(e.in[1]).type == e.type && at(e.in[2]).type == e.type,
                     "a choice needs bool and two values of its type");
      case Operation::kFma:
        return wants((e.type == DType::kF32 || e.type == DType::kF64) && at(e.in[0]).type == e.type && at(e.in[1]).type == e.type && at(e.in[2]).type == e.type,
                     "fuses three values of f32 or f64");
      default:
        return check_arithmetic(id, operands);
    }
  }

  Result<void> check_arithmetic(ExprId id, std::size_t operands) {
    const Expr& e = at(id);
    const DType type = at(e.in[0]).type;
    if (!is_computable(type)) return broken(fmt::format("expression {} computes in {}", id, name(type)));
    if (operands == 2 && at(e.in[1]).type != type) {
      return broken(
          fmt::format("expression {} has operands of types {} and {}", id, name(type), name(at(e.in[1]).type)));
    }
    const bool logic = e.operation == Operation::kAnd || e.operation == Operation::kOr;
    const DType wanted = is_comparison(e.operation) || logic ? DType::kBool : type;
    if (e.type != wanted)
      return broken(fmt::format("expression {} is {}, its operands make it {}", id, name(e.type), name(wanted)));
    if (logic && type != DType::kBool) return broken(fmt::format("expression {} joins {} by logic", id, name(type)));
    if (e.operation == Operation::kCall) {
      const FunctionInfo& function = kFunctions[e.id];
      if (function.of_floats ? is_floating(type) : is_integral(type)) return {};
      return broken(fmt::format("expression {}: {} of {}", id, function.name, name(type)));
    }
    const bool integers_too = is_comparison(e.operation) || logic || e.operation == Operation::kNegate ||
                              e.operation == Operation::kAbsolute ||
                              (e.operation >= Operation::kAdd && e.operation <= Operation::kMinimum);
    if (!is_floating(type) && !integers_too)
      return broken(fmt::format("expression {} needs a float, has {}", id, name(type)));
    if (e.operation == Operation::kRemainder && is_floating(type))
      return broken(fmt::format("expression {}: remainder of floats", id));
    return {};
  }

  Result<void> check_block(const std::vector<Stmt>& body) {
    std::vector<VariableId> mine;
    for (const Stmt& stmt : body) CRUCIBLE_TRY_VOID(check_stmt(stmt, mine));
    for (VariableId id : mine) defined_[id] = false;  // out of scope
    return {};
  }

  Result<void> define(VariableId id, Interval range, std::vector<VariableId>& mine) {
    if (id >= defined_.size()) return broken(fmt::format("variable {} of {}", id, defined_.size()));
    if (defined_[id]) return broken(fmt::format("variable {} is defined twice", id));
    defined_[id] = true;
    range_[id] = range;
    mine.push_back(id);
    known_.clear();
    return {};
  }

  Result<void> check_stmt(const Stmt& stmt, std::vector<VariableId>& mine) {
    if (stmt.a != kNoId) CRUCIBLE_TRY_VOID(check_uses(stmt.a));
    if (stmt.b != kNoId) CRUCIBLE_TRY_VOID(check_uses(stmt.b));
    switch (stmt.kind) {
      case StmtKind::kLet: {
        if (stmt.id >= kernel_.variables.size())
          return broken(fmt::format("variable {} of {}", stmt.id, kernel_.variables.size()));
        const Variable& variable = kernel_.variables[stmt.id];
        if (variable.type != at(stmt.a).type)
          return broken(
              fmt::format("variable {} is {}, its value {}", stmt.id, name(variable.type), name(at(stmt.a).type)));
        return define(stmt.id, variable.is_mutable ? Interval{} : interval(stmt.a), mine);
      }
      case StmtKind::kSet:
        if (stmt.id >= defined_.size() || !defined_[stmt.id] || !kernel_.variables[stmt.id].is_mutable) {
          return broken(fmt::format("variable {} is set but not a mutable one in scope", stmt.id));
        }
        if (kernel_.variables[stmt.id].type != at(stmt.a).type)
          return broken(fmt::format("variable {} is set to another type", stmt.id));
        return {};
      case StmtKind::kStore:
        return check_store(stmt);
      case StmtKind::kElement:
        if (stmt.id >= kernel_.arrays.size() || kernel_.arrays[stmt.id].type != at(stmt.b).type) {
          return broken(fmt::format("array {} is stored to with {}", stmt.id, name(at(stmt.b).type)));
        }
        return check_index(stmt.a, kernel_.arrays[stmt.id].size, fmt::format("array {}", stmt.id));
      case StmtKind::kIf:
        if (at(stmt.a).type != DType::kBool) return broken("a condition is not bool");
        return check_guarded(stmt);
      case StmtKind::kFor: {
        const Interval from = interval(stmt.a), to = interval(stmt.b);
        if (to.high <= from.low) return {};  // never runs
        return check_loop(stmt, {from.low, to.high - 1});
      }
      case StmtKind::kGrid:
        ++grids_;
        if (grid_ <= 0) return {};
        return check_loop(stmt, {0, grid_ - 1});
      case StmtKind::kTile:
        return check_tile(stmt);
      case StmtKind::kPrefetch:
        if (stmt.id >= kernel_.buffers.size()) return broken(fmt::format("buffer {} of {}", stmt.id, kernel_.buffers.size()));
        return check_index(stmt.a, buffer_elements_[stmt.id], fmt::format("buffer {}", stmt.id));
      case StmtKind::kTranspose:
        return check_transpose(stmt);
    }
    return {};
  }

  /// Inside of it variables lie where the condition says, data too: that is a guard, not an assumption.
  Result<void> check_guarded(const Stmt& stmt) {
    const std::vector<Interval> outside = range_;
    narrow(stmt.a);
    known_.clear();
    CRUCIBLE_TRY_VOID(check_block(stmt.body));
    range_ = outside;
    known_.clear();
    return {};
  }

  /// By what holds wherever the condition does: comparisons of a variable that nothing sets, joined by "and".
  void narrow(ExprId condition) {
    const Expr& e = at(condition);
    if (e.operation == Operation::kAnd) {
      narrow(e.in[0]);
      narrow(e.in[1]);
    }
    if (e.operation != Operation::kLess && e.operation != Operation::kLessEqual) return;
    const std::int64_t apart = e.operation == Operation::kLess ? 1 : 0;
    const auto range_of = [&](ExprId id) -> Interval* {
      const Expr& operand = at(id);
      const bool stays = operand.operation == Operation::kVariable && operand.type == DType::kI64 && !kernel_.variables[operand.id].is_mutable;
      return stays ? &range_[operand.id] : nullptr;
    };
    const Interval less = interval(e.in[0]), more = interval(e.in[1]);
    if (Interval* const range = range_of(e.in[0])) range->high = std::min(range->high, clamped(more.low, Wide{more.high} - apart).high);
    if (Interval* const range = range_of(e.in[1])) range->low = std::max(range->low, clamped(Wide{less.low} + apart, less.high).low);
  }

  Result<void> check_loop(const Stmt& stmt, Interval range) {
    std::vector<VariableId> mine;
    CRUCIBLE_TRY_VOID(define(stmt.id, range, mine));
    CRUCIBLE_TRY_VOID(check_block(stmt.body));
    defined_[stmt.id] = false;
    return {};
  }

  Result<void> check_tile(const Stmt& stmt) {
    if (stmt.id >= kernel_.tiles.size()) return broken(fmt::format("tile {} of {}", stmt.id, kernel_.tiles.size()));
    const Tile& tile = kernel_.tiles[stmt.id];
    if (tile.sums >= kernel_.arrays.size())
      return broken(fmt::format("array {} of {}", tile.sums, kernel_.arrays.size()));
    const IrArray& sums = kernel_.arrays[tile.sums];
    const std::uint32_t lanes = sums.type == DType::kF64 ? 8 : 16;
    if (sums.type != DType::kF32 && sums.type != DType::kF64)
      return broken(fmt::format("a tile's sums are {}", name(sums.type)));
    if (tile.rows == 0 || tile.rows > kMostTileRows || tile.columns == 0 || tile.columns % lanes != 0 ||
        tile.columns > kMostTileColumns || std::int64_t{tile.rows} * tile.columns > sums.size) {
      return broken(fmt::format("a tile of {} x {} with {} sums", tile.rows, tile.columns, sums.size));
    }
    if (tile.base != kNoId) {
      if (tile.base >= kernel_.exprs.size() || at(tile.base).type != DType::kI64) return broken("a tile's sums begin nowhere");
      CRUCIBLE_TRY_VOID(check_uses(tile.base));
      const Interval base = interval(tile.base);
      if (base.low < 0 || Wide{base.high} + Wide{tile.rows} * tile.columns > sums.size)
        return broken(fmt::format("a tile's sums reach beyond the {} elements of array {}", sums.size, tile.sums));
    }
    if (at(stmt.a).type != DType::kI64) return broken("a tile's steps are not i64");
    const Interval steps = interval(stmt.a);
    if (steps.high > (std::int64_t{1} << 40)) return broken("a tile's steps have no bound");
    CRUCIBLE_TRY_VOID(check_tile_operand(tile, tile.left, sums.type, tile.rows, 1, steps.high));
    if (tile.right.row_step != 0) return broken("a tile's right operand has rows");
    return check_tile_operand(tile, tile.right, sums.type, 1, tile.columns, steps.high);
  }

  Result<void> check_transpose(const Stmt& stmt) {
    if (stmt.id >= kernel_.transposes.size())
      return broken(fmt::format("transposed copy {} of {}", stmt.id, kernel_.transposes.size()));
    const Transpose& copy = kernel_.transposes[stmt.id];
    if (copy.to >= kernel_.arrays.size() || copy.from >= kernel_.buffers.size())
      return broken(fmt::format("a transposed copy from buffer {} to array {}", copy.from, copy.to));
    const IrArray& to = kernel_.arrays[copy.to];
    const IrBuffer& from = kernel_.buffers[copy.from];
    if (from.type != to.type || (to.type != DType::kF32 && to.type != DType::kF64))
      return broken(fmt::format("a transposed copy from {} to {}", name(from.type), name(to.type)));
    if (from.written) return broken(fmt::format("a transposed copy reads buffer {}, which is written", copy.from));
    if (copy.columns == 0 || copy.columns > kMostTileColumns || copy.to_step < copy.columns)
      return broken(fmt::format("a transposed copy of {} columns, {} apart", copy.columns, copy.to_step));
    constexpr std::int64_t kFar = std::int64_t{1} << 40;
    if (copy.from_step < 0 || copy.from_step > kFar || copy.to_step > kFar)
      return broken("a transposed copy's steps lead backwards or too far");
    if (at(stmt.a).type != DType::kI64) return broken("a transposed copy's steps are not i64");
    for (const ExprId base : {copy.to_base, copy.from_base}) {
      if (base >= kernel_.exprs.size() || at(base).type != DType::kI64) return broken("a transposed copy begins nowhere");
      CRUCIBLE_TRY_VOID(check_uses(base));
    }
    const Interval steps = interval(stmt.a), to_base = interval(copy.to_base), from_base = interval(copy.from_base);
    if (steps.high > kFar) return broken("a transposed copy's steps have no bound");
    if (steps.high <= 0) return {};  // copies nothing
    const Wide last_to = Wide{to_base.high} + Wide{copy.to_step} * (steps.high - 1) + copy.columns - 1;
    const Wide last_from = Wide{from_base.high} + Wide{copy.from_step} * (copy.columns - 1) + steps.high - 1;
    if (to_base.low < 0 || last_to >= to.size)
      return broken(fmt::format("a transposed copy reaches beyond the {} elements of array {}", to.size, copy.to));
    if (from_base.low < 0 || last_from >= buffer_elements_[copy.from]) {
      return broken(fmt::format("a transposed copy reaches beyond the {} elements of buffer {}", buffer_elements_[copy.from],
                                copy.from));
    }
    return {};
  }

  Result<void> check_tile_operand(const Tile& tile, const TileOperand& operand, DType type, std::int64_t rows,
                                  std::int64_t columns, std::int64_t steps) {
    if (operand.id >= (operand.is_array ? kernel_.arrays.size() : kernel_.buffers.size()))
      return broken(fmt::format("a tile reads {} {}", operand.is_array ? "array" : "buffer", operand.id));
    if (operand.is_array && operand.id == tile.sums) return broken("a tile reads its own sums");
    if (!operand.is_array && kernel_.buffers[operand.id].written)
      return broken(fmt::format("a tile reads buffer {}, which is written", operand.id));
    const DType found = operand.is_array ? kernel_.arrays[operand.id].type : kernel_.buffers[operand.id].type;
    if (found != type) return broken(fmt::format("a tile of {} reads {}", name(type), name(found)));
    constexpr std::int64_t kFar = std::int64_t{1} << 40;
    if (operand.row_step < 0 || operand.step < 0 || operand.row_step > kFar || operand.step > kFar)
      return broken("a tile's steps lead backwards or too far");
    if (operand.base == kNoId || operand.base >= kernel_.exprs.size() || at(operand.base).type != DType::kI64)
      return broken("a tile's operand begins nowhere");
    CRUCIBLE_TRY_VOID(check_uses(operand.base));
    if (steps <= 0) return {};  // never reads
    const Interval base = interval(operand.base);
    const Wide last = Wide{base.high} + Wide{operand.row_step} * (rows - 1) + Wide{operand.step} * (steps - 1) + columns - 1;
    const std::int64_t size = operand.is_array ? kernel_.arrays[operand.id].size : buffer_elements_[operand.id];
    if (base.low >= 0 && last < size) return {};
    return broken(fmt::format("a tile reaches {} {} of {} elements from [{}, {}], {} beyond", operand.is_array ? "array" : "buffer",
                              operand.id, size, base.low, base.high, static_cast<std::int64_t>(last - base.high)));
  }

  Result<void> check_store(const Stmt& stmt) {
    if (stmt.id >= kernel_.buffers.size())
      return broken(fmt::format("buffer {} of {}", stmt.id, kernel_.buffers.size()));
    const IrBuffer& buffer = kernel_.buffers[stmt.id];
    if (!buffer.written) return broken(fmt::format("buffer {} is stored to but not marked as written", stmt.id));
    if (buffer.type != at(stmt.b).type)
      return broken(
          fmt::format("buffer {} of {} is stored to with {}", stmt.id, name(buffer.type), name(at(stmt.b).type)));
    return check_index(stmt.a, buffer_elements_[stmt.id], fmt::format("buffer {}", stmt.id));
  }

  Result<void> check_index(ExprId index, std::int64_t size, const std::string& what) {
    const Interval range = interval(index);
    if (range.low >= 0 && range.high < size) return {};
    return broken(fmt::format("{} of {} elements is reached at [{}, {}]", what, size, range.low, range.high));
  }

  /// Every variable in the expression is in scope, every load in bounds.
  Result<void> check_uses(ExprId id) {
    const Expr& e = at(id);
    if (e.operation == Operation::kVariable && !defined_[e.id])
      return broken(fmt::format("variable {} is used outside its block", e.id));
    for (ExprId in : e.in) {
      if (in != kNoId) CRUCIBLE_TRY_VOID(check_uses(in));
    }
    if (e.operation == Operation::kLoad)
      return check_index(e.in[0], buffer_elements_[e.id], fmt::format("buffer {}", e.id));
    if (e.operation == Operation::kElement)
      return check_index(e.in[0], kernel_.arrays[e.id].size, fmt::format("array {}", e.id));
    return {};
  }

  Interval interval(ExprId id) {
    const Expr& e = at(id);
    if (e.operation == Operation::kInteger) return {e.integer, e.integer};
    if (e.operation == Operation::kVariable) return range_[e.id];
    if (e.operation == Operation::kAssume) return {e.integer, e.high};
    if (e.type != DType::kI64) return {};
    if (auto found = known_.find(id); found != known_.end()) return found->second;
    return known_[id] = compute_interval(e);
  }

  Interval compute_interval(const Expr& e) {
    if (e.operation < Operation::kAdd || e.operation > Operation::kMinimum) return {};
    const Interval a = interval(e.in[0]), b = interval(e.in[1]);
    const Wide al = a.low, ah = a.high, bl = b.low, bh = b.high;
    switch (e.operation) {
      case Operation::kAdd:
        return clamped(al + bl, ah + bh);
      case Operation::kSubtract:
        return clamped(al - bh, ah - bl);
      case Operation::kMultiply: {
        if (std::max({al < 0 ? -al : al, ah, bl < 0 ? -bl : bl, bh}) > (Wide{1} << 62)) return {};
        const auto [low, high] = std::minmax({al * bl, al * bh, ah * bl, ah * bh});
        return clamped(low, high);
      }
      case Operation::kDivide:
        return b.low == b.high && bl > 0 ? clamped(al / bl, ah / bl) : Interval{};
      case Operation::kRemainder:
        if (b.low != b.high || bl <= 0) return {};
        if (al >= 0 && ah < bl) return a;
        return al >= 0 ? clamped(0, bl - 1) : clamped(1 - bl, bl - 1);
      case Operation::kMaximum:
        return clamped(std::max(al, bl), std::max(ah, bh));
      case Operation::kMinimum:
        return clamped(std::min(al, bl), std::min(ah, bh));
      default:
        return {};
    }
  }

  const KernelIr& kernel_;
  std::span<const std::int64_t> buffer_elements_;
  const std::int64_t grid_;
  std::vector<bool> defined_;
  std::vector<Interval> range_;  // per variable
  std::map<ExprId, Interval> known_;
  int grids_ = 0;
};

}  // namespace

Result<void> verify_kernel(const KernelIr& kernel, std::span<const std::int64_t> buffer_elements, std::int64_t grid) {
  return Verifier(kernel, buffer_elements, grid).run();
}

}  // namespace crucible::kernel
