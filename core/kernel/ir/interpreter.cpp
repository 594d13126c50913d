// The walk over statements and expressions: see interpreter.hpp.
#include "core/kernel/ir/interpreter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <string>

#include "core/kernel/ir/interpreter_fills.hpp"
#include "core/kernel/ir/interpreter_lanes.hpp"
#include "core/kernel/ir/interpreter_numbers.hpp"
#include "core/kernel/ir/interpreter_tiles.hpp"
#include "core/kernel/ir/sampled_columns.hpp"
#include "core/kernel/ir/sampled_loops.hpp"
#include "core/kernel/math/native_math.hpp"

namespace crucible::kernel {

using namespace interpreter;

namespace {

std::string_view function_of(Operation operation) {
  switch (operation) {
    case Operation::kAbsolute:
      return "abs";
    case Operation::kSqrt:
      return "sqrt";
    case Operation::kFloor:
      return "floor";
    case Operation::kExp:
      return "exp";
    case Operation::kLog:
      return "log";
    case Operation::kTanh:
      return "tanh";
    case Operation::kErf:
      return "erf";
    case Operation::kSigmoid:
      return "sigmoid";
    case Operation::kReciprocalSqrt:
      return "rsqrt";
    case Operation::kSin:
      return "sin";
    case Operation::kCos:
      return "cos";
    case Operation::kPower:
      return "pow";
    case Operation::kMaximum:
      return "max";
    case Operation::kMinimum:
      return "min";
    default:
      return "";
  }
}

// Where the processor has it, fma is an instruction; else a function with the same bits. The thread sanitizer is not
// there yet when the loader asks which of the two it is.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__SANITIZE_THREAD__)
#define CRUCIBLE_WITH_FMA __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define CRUCIBLE_WITH_FMA
#endif

/// One row of a tile: sums[j] = fma(left[q * left_step], right[q * right_step + j], sums[j]) for q < steps and j <
/// columns.
template <class T>
struct TileRow {
  const T* left;
  const T* right;
  std::int64_t left_step, right_step, steps, columns;
  T* sums;
};

/// Columns go by blocks of kBlock, whose sums stay in registers.
template <class T>
[[gnu::always_inline]] inline void add_products(const TileRow<T>& row) {
  constexpr std::int64_t kBlock = 128 / sizeof(T);
  std::int64_t j = 0;
  for (; j + kBlock <= row.columns; j += kBlock) {
    T block[kBlock];
    std::copy_n(row.sums + j, kBlock, block);
    for (std::int64_t q = 0; q < row.steps; ++q) {
      const T a = row.left[q * row.left_step];
      const T* const right = row.right + q * row.right_step + j;
      for (std::int64_t i = 0; i < kBlock; ++i) block[i] = std::fma(a, right[i], block[i]);
    }
    std::copy_n(block, kBlock, row.sums + j);
  }
  for (; j < row.columns; ++j) {
    for (std::int64_t q = 0; q < row.steps; ++q)
      row.sums[j] = std::fma(row.left[q * row.left_step], row.right[q * row.right_step + j], row.sums[j]);
  }
}
CRUCIBLE_WITH_FMA void add_row(const TileRow<float>& row) { add_products(row); }
CRUCIBLE_WITH_FMA void add_row(const TileRow<double>& row) { add_products(row); }

}  // namespace

class InterpreterRun {
 public:
  InterpreterRun(const KernelIr& kernel, std::span<const InterpretedBuffer> buffers,
                 std::span<const std::uint64_t> scalars, const PassNumbers& passes, std::uint64_t budget)
      : kernel_(kernel),
        buffers_(buffers),
        scalars_(scalars),
        before_(passes.before),
        pass_(*passes.present),
        variables_(kernel.variables.size()),
        functions_(kernel.exprs.size()),
        budget_(budget) {}

  Result<InterpretedWork> run(std::int64_t begin, std::int64_t end) {
    CRUCIBLE_TRY_VOID(prepare());
    begin_ = begin;
    end_ = end;
    run_block(kernel_.body);
    if (!failure_.empty()) return Error{ErrorCode::kInternal, "kernel interpreter: " + failure_};
    return work_;
  }

 private:
  friend class LaneLoops<InterpreterRun>;
  friend class TileSampler<InterpreterRun>;
  friend class TileFills<InterpreterRun>;
  struct Array {
    std::vector<std::byte> bytes;  // operator new aligns it for any element
    MemoryWatch watch;
  };
  /// Memory in which element `i` of a buffer or an array lies.
  struct Place {
    std::byte* at = nullptr;
    MemoryWatch::Cell* cell = nullptr;
  };
  /// Passes of an open loop (items are the outermost): which of them came before the present one.
  struct Passes {
    std::uint64_t first = 0, present = 0;
  };

  Result<void> prepare() {
    if (buffers_.size() != kernel_.buffers.size() || scalars_.size() < kernel_.scalars.size()) {
      return Error{ErrorCode::kInternal,
                   fmt::format("kernel interpreter: {} buffers and {} scalars for a kernel of {} and {}",
                               buffers_.size(), scalars_.size(), kernel_.buffers.size(), kernel_.scalars.size())};
    }
    for (ExprId id = 0; id < kernel_.exprs.size(); ++id) {
      const Expr& e = kernel_.exprs[id];
      if (const std::string name = function_name(e); !name.empty()) {
        functions_[id] = native_function(name);
        if (functions_[id] == nullptr)
          return Error{ErrorCode::kInternal, fmt::format("kernel interpreter: there is no {}", name)};
      }
    }
    for (const InterpretedBuffer& buffer : buffers_) is_watched_ |= buffer.watch != nullptr;
    for (const IrArray& array : kernel_.arrays) {
      arrays_.push_back({std::vector<std::byte>(static_cast<std::size_t>(array.size) * size_bytes(array.type)),
                         MemoryWatch(is_watched_ ? array.size : 0, false)});
    }
    if (is_watched_ || budget_ == 0) return {};
    tiles_.prepare(budget_ * kTileShare);
    columns_.emplace(kernel_);
    // Of an item that costs more than its budget, so many columns as are within it.
    has_columns_ = !columns_->empty() && columns_->cost() > budget_;
    return {};
  }

  /// Of what the interpreter does not compute itself; "" for the rest.
  std::string function_name(const Expr& e) const {
    const DType from = e.in[0] == kNoId ? e.type : kernel_.exprs[e.in[0]].type;
    const bool is_extremum = e.operation == Operation::kMaximum || e.operation == Operation::kMinimum;
    if (e.operation == Operation::kConvert) return fmt::format("{}_from_{}", name(e.type), name(from));
    if (e.operation == Operation::kOrderKey) return fmt::format("order_key_{}", name(from));
    if (e.operation == Operation::kFromOrderKey) return fmt::format("from_order_key_{}", name(e.type));
    if (e.operation == Operation::kCall) return fmt::format("{}_{}", kFunctions[e.id].name, name(from));
    if (is_extremum && !is_floating(e.type)) return "";
    const std::string_view function = function_of(e.operation);
    return function.empty() ? "" : fmt::format("{}_{}", function, name(from));
  }

  // ---- memory ----

  void fail(std::string what) {
    if (failure_.empty()) failure_ = std::move(what);
  }
  void fail_assumption(const Expr& e, std::int64_t value) {
    fail(fmt::format("{} is assumed to lie in [{}, {}]{}", value, e.integer, e.high, here()));
  }
  std::string here() const { return fmt::format(" (item {})", item_); }

  Place place(bool is_array, std::uint32_t id, std::int64_t index) {
    const DType type = is_array ? kernel_.arrays[id].type : kernel_.buffers[id].type;
    const std::int64_t elements = is_array ? kernel_.arrays[id].size : buffers_[id].elements;
    if (index < 0 || index >= elements) {
      fail(fmt::format("{} {} of {} elements is reached at {}{}", is_array ? "array" : "buffer", id, elements, index,
                       here()));
      return {};
    }
    MemoryWatch* watch = !is_watched_ ? nullptr : is_array ? &arrays_[id].watch : buffers_[id].watch;
    std::byte* data = is_array ? arrays_[id].bytes.data() : buffers_[id].data;
    if (!is_array && buffers_[id].touched != nullptr)
      buffers_[id].touched->touch(static_cast<std::uint64_t>(index) * size_bytes(type));
    return {data + static_cast<std::size_t>(index) * size_bytes(type),
            watch == nullptr ? nullptr : &watch->cells_[static_cast<std::size_t>(index)]};
  }

  /// True when another pass of a loop that is still open, besides the present one, has number `stamp`. Items have
  /// arrays of their own.
  bool is_of_another_pass(std::uint64_t stamp, bool is_array) const {
    for (std::size_t i = is_array ? 1 : 0; i < open_.size(); ++i) {
      if (stamp >= open_[i].first && stamp < open_[i].present) return true;
    }
    return false;
  }

  const std::byte* read(bool is_array, std::uint32_t id, std::int64_t index) {
    const Place place_of = place(is_array, id, index);
    ++work_.loads;
    if (place_of.cell == nullptr) return place_of.at == nullptr ? kNothing.bytes : place_of.at;
    MemoryWatch::Cell& cell = *place_of.cell;
    const auto what = [&] { return fmt::format("element {} of {} {}", index, is_array ? "array" : "buffer", id); };
    const bool is_defined = is_array ? cell.writer >= item_pass_ : cell.is_defined;
    if (!is_defined) fail(fmt::format("{} is read before anything was written there{}", what(), here()));
    if (is_of_another_pass(cell.writer, is_array))
      fail(fmt::format("{} is read, which another item or pass wrote{}", what(), here()));
    if (cell.reader != pass_) cell.reader_before = cell.reader;
    cell.reader = pass_;
    return place_of.at;
  }

  void write(bool is_array, std::uint32_t id, std::int64_t index, const Word& value, std::size_t size) {
    const Place place_of = place(is_array, id, index);
    if (place_of.at == nullptr) return;
    ++work_.stores;
    std::memcpy(place_of.at, value.bytes, size);
    if (!is_array && buffers_[id].touched != nullptr)
      buffers_[id].touched->note_write(static_cast<std::uint64_t>(index) * size);
    if (place_of.cell == nullptr) return;
    MemoryWatch::Cell& cell = *place_of.cell;
    for (const std::uint64_t stamp : {cell.writer, cell.reader, cell.reader_before}) {
      if (!is_of_another_pass(stamp, is_array)) continue;
      fail(fmt::format("element {} of {} {} is written, which another item or pass {}{}", index,
                       is_array ? "array" : "buffer", id, stamp == cell.writer ? "wrote" : "read", here()));
    }
    cell.is_defined = true;
    cell.writer = pass_;
  }

  // ---- statements ----

  std::int64_t integer(ExprId id) { return eval(id).as<std::int64_t>(); }

  void run_block(const std::vector<Stmt>& body) {
    for (const Stmt& stmt : body) {
      if (!failure_.empty()) return;
      run_stmt(stmt);
    }
  }

  void run_stmt(const Stmt& stmt) {
    switch (stmt.kind) {
      case StmtKind::kLet:
      case StmtKind::kSet:
        variables_[stmt.id] = eval(stmt.a);
        return;
      case StmtKind::kStore: {
        const std::int64_t index = integer(stmt.a);
        write(false, stmt.id, index, eval(stmt.b), size_bytes(kernel_.buffers[stmt.id].type));
        return;
      }
      case StmtKind::kElement: {
        const std::int64_t index = integer(stmt.a);
        write(true, stmt.id, index, eval(stmt.b), size_bytes(kernel_.arrays[stmt.id].type));
        return;
      }
      case StmtKind::kFor:
        run_loop(stmt, integer(stmt.a), integer(stmt.b), stmt.mode == LoopMode::kVector);
        return;
      case StmtKind::kGrid:
        run_loop(stmt, begin_, end_, true);
        return;
      case StmtKind::kIf:
        if (eval(stmt.a).as<bool>()) run_block(stmt.body);
        return;
      case StmtKind::kTile: {
        const Tile& tile = kernel_.tiles[stmt.id];
        const bool is_double = kernel_.arrays[tile.sums].type == DType::kF64;
        if (tiles_.is_on())
          return is_double ? tiles_.run_tile<double>(tile, integer(stmt.a))
                           : tiles_.run_tile<float>(tile, integer(stmt.a));
        return is_double ? run_tile<double>(tile, integer(stmt.a)) : run_tile<float>(tile, integer(stmt.a));
      }
      case StmtKind::kTranspose: {
        const Transpose& copy = kernel_.transposes[stmt.id];
        return tiles_.takes(copy) ? tiles_.run_transpose(copy, integer(stmt.a)) : run_transpose(copy, integer(stmt.a));
      }
      case StmtKind::kPrefetch:
        return;
    }
  }

  /// `is_free`: its passes may run in any order, so they have to leave each other's memory alone.
  void run_loop(const Stmt& loop, std::int64_t begin, std::int64_t end, bool is_free) {
    if (loop.kind == StmtKind::kFor && !is_watched_) {
      if (tiles_.is_on() && tiles_.run_loop(loop, begin, end)) return;
      if (has_columns_ && columns_->may_sample(loop) && run_columns(loop, begin, end)) return;
      if (!tiles_.is_on() && budget_ > 0 && end - begin > kFewPasses && samples_.may_sample(loop))
        return sample(loop, begin, end);
      if (lanes_.run(loop, begin, end)) return;
    }
    if (is_free) open_.push_back({loop.kind == StmtKind::kGrid ? before_ + 1 : pass_ + 1, 0});
    for (std::int64_t i = begin; i < end && failure_.empty(); ++i) {
      if (is_free) open_.back().present = ++pass_;
      if (loop.kind == StmtKind::kGrid) start_item(i);
      variables_[loop.id] = Word::of(i);
      if (loop.kind == StmtKind::kGrid && tiles_.is_on()) tiles_.choose(loop);
      run_block(loop.body);
    }
    if (is_free) open_.pop_back();
    ++pass_;  // what comes after the loop may read what any pass wrote
  }

  /// The first passes and the last one, as many as what is left of the item's budget pays for; loops within share it.
  void sample(const Stmt& loop, std::int64_t begin, std::int64_t end) {
    const std::uint64_t whole = allowance_, before = work_.cost();
    const auto run = [&](std::int64_t from, std::int64_t to) {
      if (lanes_.run(loop, from, to)) return;
      for (std::int64_t i = from; i < to && failure_.empty(); ++i) {
        variables_[loop.id] = Word::of(i);
        run_block(loop.body);
      }
    };
    allowance_ = whole / 3;
    run(begin, begin + kFewPasses);
    const std::uint64_t each = std::max<std::uint64_t>((work_.cost() - before) / kFewPasses, 1);
    // The last ones come last, and keep their share.
    const std::uint64_t spent = work_.cost() - before + each * kFewPasses;
    const auto more = static_cast<std::int64_t>(whole > spent ? (whole - spent) / each : 0);
    const std::int64_t next = std::min(begin + kFewPasses + more, end - kFewPasses);
    if (next > begin + kFewPasses) run(begin + kFewPasses, next);
    const std::int64_t last = std::max(next, end - kFewPasses);
    work_.is_sampled |= last > next;
    run(std::max(last, begin + kFewPasses), end);
    allowance_ = whole;
  }

  /// The same columns of every loop with these bounds, as many as the budget pays for, spread from the first one to the
  /// last. False where those are all.
  bool run_columns(const Stmt& loop, std::int64_t begin, std::int64_t end) {
    constexpr std::int64_t kFewest = 5, kMost = 64;
    const auto paid = static_cast<std::int64_t>(static_cast<double>(end - begin) * static_cast<double>(budget_) /
                                                static_cast<double>(columns_->cost()));
    const std::int64_t count = std::clamp(paid, kFewest, kMost);
    if (count >= end - begin) return false;
    std::int64_t passes[kMost];
    for (std::int64_t i = 0; i < count; ++i) passes[i] = begin + i * (end - begin - 1) / (count - 1);
    work_.is_sampled = true;
    if (lanes_.run(loop, std::span(passes, static_cast<std::size_t>(count)))) return true;
    for (std::int64_t i = 0; i < count; ++i) {
      variables_[loop.id] = Word::of(passes[i]);
      run_block(loop.body);
    }
    return true;
  }

  void start_item(std::int64_t item) {
    allowance_ = budget_;
    item_ = item;
    item_pass_ = pass_;
    ++work_.items;
  }

  template <class T>
  T read_as(bool is_array, std::uint32_t id, std::int64_t index) {
    T value;
    std::memcpy(&value, read(is_array, id, index), sizeof value);
    return value;
  }

  /// sums[c] = fma(row[q], factors[q * columns + c], sums[c]) for all q.
  template <class T>
  void add_products_of(const std::vector<T>& row, const std::vector<T>& factors, std::vector<T>& sums) {
    const auto columns = static_cast<std::int64_t>(sums.size());
    add_row({row.data(), factors.data(), 1, columns, std::ssize(row), columns, sums.data()});
  }

  /// One step of one row of a tile, each access checked.
  template <class T>
  void run_step(const Tile& tile, std::int64_t left, std::int64_t right, std::vector<T>& sums) {
    const T a = read_as<T>(tile.left.is_array, tile.left.id, left);
    for (std::size_t j = 0; j < sums.size(); ++j)
      sums[j] =
          std::fma(a, read_as<T>(tile.right.is_array, tile.right.id, right + static_cast<std::int64_t>(j)), sums[j]);
  }

  /// All steps of a row of a tile. Indices go by even steps: where the ends lie inside, all do.
  template <class T>
  void run_row(const Tile& tile, std::int64_t left, std::int64_t right, std::int64_t steps, std::vector<T>& sums) {
    if (steps <= 0) return;
    const auto columns = static_cast<std::int64_t>(sums.size());
    const std::byte* const from_left = reach(tile.left, left, (steps - 1) * tile.left.step, 1);
    const std::byte* const from_right = reach(tile.right, right, (steps - 1) * tile.right.step, columns);
    if (from_left == nullptr || from_right == nullptr) return;
    add_row({reinterpret_cast<const T*>(from_left), reinterpret_cast<const T*>(from_right), tile.left.step,
             tile.right.step, steps, columns, sums.data()});
    work_.loads += static_cast<std::uint64_t>(steps);  // of the right side, those of a row serve a vector
  }

  /// Where element `first` of an operand lies, when it and what lies `span` on, each with `count` elements, is inside;
  /// else nullptr, and a failure. What lies between is there then.
  const std::byte* reach(const TileOperand& operand, std::int64_t first, std::int64_t span, std::int64_t count) {
    const std::int64_t low = first + std::min<std::int64_t>(span, 0),
                       high = first + std::max<std::int64_t>(span, 0) + count - 1;
    if (place(operand.is_array, operand.id, low).at == nullptr ||
        place(operand.is_array, operand.id, high).at == nullptr)
      return nullptr;
    if (!operand.is_array && buffers_[operand.id].touched != nullptr) {
      const std::size_t size = size_bytes(kernel_.buffers[operand.id].type);
      buffers_[operand.id].touched->touch_range(static_cast<std::uint64_t>(low) * size,
                                                static_cast<std::uint64_t>(high + 1) * size);
    }
    return place(operand.is_array, operand.id, first).at;
  }

  template <class T>
  void run_tile(const Tile& tile, std::int64_t steps) {
    const std::int64_t base = tile.base == kNoId ? 0 : integer(tile.base), left = integer(tile.left.base),
                       right = integer(tile.right.base);
    std::vector<T> sums(tile.columns);
    for (std::int64_t i = 0; i < tile.rows && failure_.empty(); ++i) {
      const std::int64_t row = base + i * tile.columns;
      for (std::size_t j = 0; j < sums.size(); ++j)
        sums[j] =
            tile.start == TileStart::kGoOn ? read_as<T>(true, tile.sums, row + static_cast<std::int64_t>(j)) : T{0};
      if (!is_watched_) run_row(tile, left + i * tile.left.row_step, right, steps, sums);
      for (std::int64_t q = 0; is_watched_ && q < steps && failure_.empty(); ++q)
        run_step(tile, left + i * tile.left.row_step + q * tile.left.step, right + q * tile.right.step, sums);
      for (std::size_t j = 0; j < sums.size(); ++j) {
        const std::int64_t at = row + static_cast<std::int64_t>(j);
        const T sum = tile.start == TileStart::kAdd ? read_as<T>(true, tile.sums, at) + sums[j] : sums[j];
        write(true, tile.sums, at, Word::of(sum), sizeof sum);
      }
    }
    work_.multiply_adds += static_cast<std::uint64_t>(std::max<std::int64_t>(steps, 0)) * tile.rows * tile.columns;
  }

  void run_transpose(const Transpose& copy, std::int64_t steps) {
    const std::int64_t to = integer(copy.to_base), from = integer(copy.from_base);
    const std::size_t size = size_bytes(kernel_.arrays[copy.to].type);
    for (std::int64_t q = 0; q < steps && failure_.empty(); ++q) {
      for (std::int64_t j = 0; j < copy.columns; ++j) {
        Word value;
        std::memcpy(value.bytes, read(false, copy.from, from + j * copy.from_step + q), size);
        write(true, copy.to, to + q * copy.to_step + j, value, size);
      }
    }
  }

  // ---- expressions ----

  Word eval(ExprId id) {
    const Expr& e = kernel_.exprs[id];
    switch (e.operation) {
      case Operation::kInteger:
        return with_type(e.type, [&]<class T>(T) { return Word::of(static_cast<T>(e.integer)); });
      case Operation::kReal:
        return with_type(e.type, [&]<class T>(T) { return Word::of(static_cast<T>(e.real)); });
      case Operation::kScalar:
        return with_type(e.type, [&]<class T>(T) {
          const std::uint64_t bits = scalars_[e.id];
          if (kernel_.scalars[e.id] == DType::kI64) return Word::of(static_cast<T>(static_cast<std::int64_t>(bits)));
          return Word::of(static_cast<T>(std::bit_cast<double>(bits)));
        });
      case Operation::kVariable:
        return variables_[e.id];
      case Operation::kLoad:
      case Operation::kElement:
        return load(e);
      case Operation::kAssume:
        return assume(e);
      case Operation::kSelect:
        return eval(e.in[0]).as<bool>() ? eval(e.in[1]) : eval(e.in[2]);
      case Operation::kFma:
        return e.type == DType::kF64 ? fused<double>(e) : fused<float>(e);
      default:
        break;
    }
    const DType type = kernel_.exprs[e.in[0]].type;
    const Word a = eval(e.in[0]), b = e.in[1] == kNoId ? Word{} : eval(e.in[1]);
    if (is_floating(type)) ++work_.arithmetic;
    if (functions_[id] != nullptr) {
      Word result;
      functions_[id](a.bytes, b.bytes, result.bytes);
      return result;
    }
    return compute(e, type, a, b);
  }

  template <class T>
  Word fused(const Expr& e) {
    const T a = eval(e.in[0]).as<T>(), b = eval(e.in[1]).as<T>(), c = eval(e.in[2]).as<T>();
    ++work_.multiply_adds;
    return Word::of(std::fma(a, b, c));
  }

  Word load(const Expr& e) {
    const std::byte* from = read(e.operation == Operation::kElement, e.id, integer(e.in[0]));
    Word word;
    std::memcpy(word.bytes, from, size_bytes(e.type));
    return e.type == DType::kBool ? Word::of(word.bytes[0] != std::byte{0}) : word;
  }

  Word assume(const Expr& e) {
    const std::int64_t value = integer(e.in[0]);
    if (value < e.integer || value > e.high) fail_assumption(e, value);
    return Word::of(value);
  }

  Word compute(const Expr& e, DType type, const Word& a, const Word& b) {
    return with_type(type, [&]<class T>(T) {
      const T x = a.as<T>(), y = b.as<T>();
      switch (e.operation) {
        case Operation::kNegate:
          if constexpr (kIsFloat<T>) return Word::of<T>(-x);
          return arithmetic<T>(Operation::kSubtract, T{0}, x);
        case Operation::kIsNan:
          return Word::of(x != x);
        case Operation::kNot:
          return Word::of(x == T{0});
        case Operation::kReciprocal:
          return arithmetic<T>(Operation::kDivide, T{1}, x);
        case Operation::kMaximum:
          return Word::of<T>(x > y ? x : y);
        case Operation::kMinimum:
          return Word::of<T>(x < y ? x : y);
        case Operation::kLess:
        case Operation::kLessEqual:
        case Operation::kEqual:
        case Operation::kNotEqual:
          return Word::of(holds(e.operation, x, y));
        default:
          break;
      }
      const bool divides = e.operation == Operation::kDivide || e.operation == Operation::kRemainder;
      if (divides && !kIsFloat<T> && y == T{0}) {
        fail(fmt::format("an integer is divided by 0{}", here()));
        return Word{};
      }
      return arithmetic<T>(e.operation, x, y);
    });
  }

  static constexpr Word kNothing{};

  const KernelIr& kernel_;
  const std::span<const InterpretedBuffer> buffers_;
  const std::span<const std::uint64_t> scalars_;
  const std::uint64_t before_;
  std::uint64_t& pass_;
  std::vector<Word> variables_;
  std::vector<NativeFunction> functions_;  // per expression; null: computed here
  std::vector<Array> arrays_;
  std::vector<Passes> open_;
  std::int64_t begin_ = 0, end_ = 0, item_ = -1;
  std::uint64_t item_pass_ = 0;  // the number of the present item
  bool is_watched_ = false;
  InterpretedWork work_;
  std::string failure_;
  static constexpr std::int64_t kFewPasses = 2;
  LaneLoops<InterpreterRun> lanes_{*this};
  SampledLoops samples_{kernel_};
  std::optional<SampledColumns> columns_;
  bool has_columns_ = false;  // and an item costs more than its budget
  static constexpr std::uint64_t kTileShare =
      24;  // of a tile's operands so many elements are had for a unit of the budget
  TileSampler<InterpreterRun> tiles_{*this};
  std::uint64_t budget_ = 0, allowance_ = 0;  // of an item; of what is left of it for the present loop
};

Result<InterpretedWork> interpret(const KernelIr& kernel, std::span<const InterpretedBuffer> buffers,
                                  std::span<const std::uint64_t> scalars, std::int64_t begin, std::int64_t end,
                                  const PassNumbers& passes, std::uint64_t budget) {
  return InterpreterRun(kernel, buffers, scalars, passes, budget).run(begin, end);
}

}  // namespace crucible::kernel
