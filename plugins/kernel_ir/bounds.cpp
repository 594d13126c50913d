// Bounds of a kernel: see check_bounds() in check.hpp. Integer expressions carry the interval of their values; what
// intervals cannot know (correlated indices) must be stated by an assumption in the IR; data is guarded, nothing is
// assumed of it.
#include <algorithm>
#include <limits>
#include <map>

#include "plugins/kernel_ir/check.hpp"
#include "plugins/kernel_ir/words.hpp"

namespace crucible::kernel {
namespace {

struct Interval {
  std::int64_t low = std::numeric_limits<std::int64_t>::min();
  std::int64_t high = std::numeric_limits<std::int64_t>::max();
};

__extension__ typedef __int128 Wide;

constexpr std::int64_t kMostSteps = std::int64_t{1} << 40;

Interval clamped(Wide low, Wide high) {
  const Wide least = std::numeric_limits<std::int64_t>::min(), most = std::numeric_limits<std::int64_t>::max();
  if (low < least || high > most) return {};
  return {static_cast<std::int64_t>(low), static_cast<std::int64_t>(high)};
}

/// Each check is true when all is in bounds; the first that is not says so, and nothing is looked at behind it.
class Bounds {
 public:
  Bounds(const KernelIr& kernel, std::span<const std::int64_t> buffer_elements, std::int64_t grid)
      : kernel_(kernel), buffer_elements_(buffer_elements), grid_(grid), range_(kernel.variables.size()) {}

  std::string run() {
    if (buffer_elements_.size() != kernel_.buffers.size()) {
      broken(buffer_elements_.size(), " buffer sizes for ", kernel_.buffers.size(), " buffers");
    } else {
      check_block(kernel_.body);
    }
    return std::move(fault_);
  }

 private:
  template <class... Parts>
  bool broken(const Parts&... parts) {
    if (fault_.empty()) fault_ = words(parts...);
    return false;
  }

  const Expr& at(ExprId id) const { return kernel_.exprs[id]; }

  bool check_block(const std::vector<Stmt>& body) {
    return std::ranges::all_of(body, [&](const Stmt& stmt) { return check_stmt(stmt); });
  }

  void define(VariableId id, Interval range) {
    range_[id] = range;
    known_.clear();
  }

  bool check_stmt(const Stmt& stmt) {
    if (!check_uses(stmt.a) || !check_uses(stmt.b)) return false;
    switch (stmt.kind) {
      case StmtKind::kLet:
        define(stmt.id, kernel_.variables[stmt.id].is_mutable ? Interval{} : interval(stmt.a));
        return true;
      case StmtKind::kSet:
        return true;
      case StmtKind::kStore:
      case StmtKind::kPrefetch:
        return check_index(stmt.a, false, stmt.id);
      case StmtKind::kElement:
        return check_index(stmt.a, true, stmt.id);
      case StmtKind::kIf:
        return check_guarded(stmt);
      case StmtKind::kFor: {
        const Interval from = interval(stmt.a), to = interval(stmt.b);
        if (to.high <= from.low) return true;  // never runs
        define(stmt.id, {from.low, to.high - 1});
        return check_block(stmt.body);
      }
      case StmtKind::kGrid:
        if (grid_ <= 0) return true;
        define(stmt.id, {0, grid_ - 1});
        return check_block(stmt.body);
      case StmtKind::kTile:
        return check_tile(kernel_.tiles[stmt.id], interval(stmt.a));
      case StmtKind::kTranspose:
        return check_transpose(kernel_.transposes[stmt.id], interval(stmt.a));
    }
    return true;
  }

  /// Inside of it variables lie where the condition says, data too: that is a guard, not an assumption.
  bool check_guarded(const Stmt& stmt) {
    const std::vector<Interval> outside = range_;
    narrow(stmt.a);
    known_.clear();
    const bool fits = check_block(stmt.body);
    range_ = outside;
    known_.clear();
    return fits;
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
      const bool stays = operand.operation == Operation::kVariable && operand.type == DType::kI64 &&
                         !kernel_.variables[operand.id].is_mutable;
      return stays ? &range_[operand.id] : nullptr;
    };
    const Interval less = interval(e.in[0]), more = interval(e.in[1]);
    if (Interval* const range = range_of(e.in[0]))
      range->high = std::min(range->high, clamped(more.low, Wide{more.high} - apart).high);
    if (Interval* const range = range_of(e.in[1]))
      range->low = std::max(range->low, clamped(Wide{less.low} + apart, less.high).low);
  }

  bool check_tile(const Tile& tile, Interval steps) {
    const std::int64_t sums = kernel_.arrays[tile.sums].size;
    if (tile.base != kNoId) {
      if (!check_uses(tile.base)) return false;
      const Interval base = interval(tile.base);
      if (base.low < 0 || Wide{base.high} + Wide{tile.rows} * tile.columns > sums)
        return broken("a tile's sums reach beyond the ", sums, " elements of array ", tile.sums);
    }
    if (steps.high > kMostSteps) return broken("a tile's steps have no bound");
    return check_tile_operand(tile.left, tile.rows, 1, steps.high) &&
           check_tile_operand(tile.right, 1, tile.columns, steps.high);
  }

  bool check_tile_operand(const TileOperand& operand, std::int64_t rows, std::int64_t columns, std::int64_t steps) {
    if (!check_uses(operand.base)) return false;
    if (steps <= 0) return true;  // never reads
    const Interval base = interval(operand.base);
    const Wide last =
        Wide{base.high} + Wide{operand.row_step} * (rows - 1) + Wide{operand.step} * (steps - 1) + columns - 1;
    const std::int64_t size = size_of(operand.is_array, operand.id);
    if (base.low >= 0 && last < size) return true;
    return broken("a tile reaches ", kind_of(operand.is_array), operand.id, " of ", size, " elements from [", base.low,
                  ", ", base.high, "], ", static_cast<std::int64_t>(last - base.high), " beyond");
  }

  bool check_transpose(const Transpose& copy, Interval steps) {
    if (!check_uses(copy.to_base) || !check_uses(copy.from_base)) return false;
    if (steps.high > kMostSteps) return broken("a transposed copy's steps have no bound");
    if (steps.high <= 0) return true;  // copies nothing
    const Interval to_base = interval(copy.to_base), from_base = interval(copy.from_base);
    const Wide last_to = Wide{to_base.high} + Wide{copy.to_step} * (steps.high - 1) + copy.columns - 1;
    const Wide last_from = Wide{from_base.high} + Wide{copy.from_step} * (copy.columns - 1) + steps.high - 1;
    const std::int64_t to = size_of(true, copy.to), from = size_of(false, copy.from);
    if (to_base.low < 0 || last_to >= to)
      return broken("a transposed copy reaches beyond the ", to, " elements of array ", copy.to);
    if (from_base.low < 0 || last_from >= from)
      return broken("a transposed copy reaches beyond the ", from, " elements of buffer ", copy.from);
    return true;
  }

  std::int64_t size_of(bool is_array, std::uint32_t id) const {
    return is_array ? kernel_.arrays[id].size : buffer_elements_[id];
  }
  static std::string_view kind_of(bool is_array) { return is_array ? "array " : "buffer "; }

  bool check_index(ExprId index, bool is_array, std::uint32_t id) {
    const Interval range = interval(index);
    const std::int64_t size = size_of(is_array, id);
    if (range.low >= 0 && range.high < size) return true;
    return broken(kind_of(is_array), id, " of ", size, " elements is reached at [", range.low, ", ", range.high, "]");
  }

  /// Every load in the expression is in bounds.
  bool check_uses(ExprId id) {
    if (id == kNoId) return true;
    const Expr& e = at(id);
    if (!std::ranges::all_of(e.in, [&](ExprId in) { return check_uses(in); })) return false;
    const bool is_array = e.operation == Operation::kElement;
    return (!is_array && e.operation != Operation::kLoad) || check_index(e.in[0], is_array, e.id);
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
  std::vector<Interval> range_;  // per variable
  std::map<ExprId, Interval> known_;
  std::string fault_;
};

}  // namespace

std::string check_bounds(const KernelIr& kernel, std::span<const std::int64_t> buffer_elements, std::int64_t grid) {
  return Bounds(kernel, buffer_elements, grid).run();
}

}  // namespace crucible::kernel
