// The walk over statements and expressions: see interpreter.hpp.
#include "core/kernel/interpreter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>

#include "core/kernel/native_math.hpp"

namespace crucible::kernel {
namespace {

/// A number of any type, in its own bytes.
struct Word {
  alignas(8) std::byte bytes[8] = {};
  template <class T>
  T as() const {
    T value;
    std::memcpy(&value, bytes, sizeof value);
    return value;
  }
  template <class T>
  static Word of(T value) {
    Word word;
    std::memcpy(word.bytes, &value, sizeof value);
    return word;
  }
};

/// `body` with a number of the C++ type that holds a DType; f16 and bf16 are bits that nothing computes with.
template <class Body>
Word with_type(DType type, const Body& body) {
  switch (type) {
    case DType::kBool:
      return body(bool{});
    case DType::kU8:
      return body(std::uint8_t{});
    case DType::kI8:
      return body(std::int8_t{});
    case DType::kI16:
      return body(std::int16_t{});
    case DType::kI32:
      return body(std::int32_t{});
    case DType::kI64:
      return body(std::int64_t{});
    case DType::kF16:
    case DType::kBF16:
      return body(std::uint16_t{});
    case DType::kF32:
      return body(float{});
    default:
      return body(double{});
  }
}

template <class T>
constexpr bool kIsFloat = std::is_floating_point_v<T>;

/// Integers wrap around, as kernels are compiled.
template <class T>
Word arithmetic(Operation operation, T a, T b) {
  if constexpr (kIsFloat<T>) {
    switch (operation) {
      case Operation::kAdd:
        return Word::of<T>(a + b);
      case Operation::kSubtract:
        return Word::of<T>(a - b);
      case Operation::kMultiply:
        return Word::of<T>(a * b);
      default:
        return Word::of<T>(a / b);
    }
  } else {
    const auto x = static_cast<std::uint64_t>(a), y = static_cast<std::uint64_t>(b);
    switch (operation) {
      case Operation::kAdd:
        return Word::of<T>(static_cast<T>(x + y));
      case Operation::kSubtract:
        return Word::of<T>(static_cast<T>(x - y));
      case Operation::kMultiply:
        return Word::of<T>(static_cast<T>(x * y));
      case Operation::kAnd:
        return Word::of<T>(static_cast<T>(x & y));
      case Operation::kOr:
        return Word::of<T>(static_cast<T>(x | y));
      default:
        break;
    }
    const bool negates = std::is_signed_v<T> && static_cast<std::int64_t>(b) == -1;  // of the least number: wraps around
    if (operation == Operation::kRemainder) return Word::of<T>(negates ? T{0} : static_cast<T>(a % b));
    return Word::of<T>(negates ? static_cast<T>(0 - x) : static_cast<T>(a / b));
  }
}

template <class T>
bool holds(Operation operation, T a, T b) {
  switch (operation) {
    case Operation::kLess:
      return a < b;
    case Operation::kLessEqual:
      return a <= b;
    case Operation::kEqual:
      return a == b;
    default:
      return a != b;
  }
}

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

// Where the processor has it, fma is an instruction; else a function with the same bits.
#if defined(__x86_64__) && defined(__GNUC__)
#define CRUCIBLE_WITH_FMA __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define CRUCIBLE_WITH_FMA
#endif

/// sums[j] = fma(a, right[j], sums[j]) for j < n
CRUCIBLE_WITH_FMA void add_products(float a, const float* right, float* sums, std::int64_t n) {
  for (std::int64_t j = 0; j < n; ++j) sums[j] = std::fma(a, right[j], sums[j]);
}
CRUCIBLE_WITH_FMA void add_products(double a, const double* right, double* sums, std::int64_t n) {
  for (std::int64_t j = 0; j < n; ++j) sums[j] = std::fma(a, right[j], sums[j]);
}

}  // namespace

class InterpreterRun {
 public:
  InterpreterRun(const KernelIr& kernel, std::span<const InterpretedBuffer> buffers, std::span<const double> scalars, const PassNumbers& passes)
      : kernel_(kernel), buffers_(buffers), scalars_(scalars), before_(passes.before), pass_(*passes.present), variables_(kernel.variables.size()), functions_(kernel.exprs.size()) {}

  Result<InterpretedWork> run(std::int64_t begin, std::int64_t end) {
    CRUCIBLE_TRY_VOID(prepare());
    begin_ = begin;
    end_ = end;
    run_block(kernel_.body);
    if (!failure_.empty()) return Error{ErrorCode::kInternal, "kernel interpreter: " + failure_};
    return work_;
  }

 private:
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
    if (buffers_.size() != kernel_.buffers.size() || scalars_.size() < kernel_.scalar_count) {
      return Error{ErrorCode::kInternal, fmt::format("kernel interpreter: {} buffers and {} scalars for a kernel of {} and {}", buffers_.size(),
                                                     scalars_.size(), kernel_.buffers.size(), kernel_.scalar_count)};
    }
    for (ExprId id = 0; id < kernel_.exprs.size(); ++id) {
      const Expr& e = kernel_.exprs[id];
      if (const std::string name = function_name(e); !name.empty()) {
        functions_[id] = native_function(name);
        if (functions_[id] == nullptr) return Error{ErrorCode::kInternal, fmt::format("kernel interpreter: there is no {}", name)};
      }
    }
    for (const InterpretedBuffer& buffer : buffers_) is_watched_ |= buffer.watch != nullptr;
    for (const IrArray& array : kernel_.arrays) {
      arrays_.push_back({std::vector<std::byte>(static_cast<std::size_t>(array.size) * size_bytes(array.type)), MemoryWatch(is_watched_ ? array.size : 0, false)});
    }
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
  std::string here() const { return fmt::format(" (item {})", item_); }

  Place place(bool is_array, std::uint32_t id, std::int64_t index) {
    const DType type = is_array ? kernel_.arrays[id].type : kernel_.buffers[id].type;
    const std::int64_t elements = is_array ? kernel_.arrays[id].size : buffers_[id].elements;
    if (index < 0 || index >= elements) {
      fail(fmt::format("{} {} of {} elements is reached at {}{}", is_array ? "array" : "buffer", id, elements, index, here()));
      return {};
    }
    MemoryWatch* watch = !is_watched_ ? nullptr : is_array ? &arrays_[id].watch : buffers_[id].watch;
    std::byte* data = is_array ? arrays_[id].bytes.data() : buffers_[id].data;
    return {data + static_cast<std::size_t>(index) * size_bytes(type), watch == nullptr ? nullptr : &watch->cells_[static_cast<std::size_t>(index)]};
  }

  /// True when another pass of a loop that is still open, besides the present one, has number `stamp`. Items have arrays of their own.
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
    if (is_of_another_pass(cell.writer, is_array)) fail(fmt::format("{} is read, which another item or pass wrote{}", what(), here()));
    if (cell.reader != pass_) cell.reader_before = cell.reader;
    cell.reader = pass_;
    return place_of.at;
  }

  void write(bool is_array, std::uint32_t id, std::int64_t index, const Word& value, std::size_t size) {
    const Place place_of = place(is_array, id, index);
    if (place_of.at == nullptr) return;
    ++work_.stores;
    std::memcpy(place_of.at, value.bytes, size);
    if (place_of.cell == nullptr) return;
    MemoryWatch::Cell& cell = *place_of.cell;
    for (const std::uint64_t stamp : {cell.writer, cell.reader, cell.reader_before}) {
      if (!is_of_another_pass(stamp, is_array)) continue;
      fail(fmt::format("element {} of {} {} is written, which another item or pass {}{}", index, is_array ? "array" : "buffer", id,
                       stamp == cell.writer ? "wrote" : "read", here()));
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
      case StmtKind::kTile:
        kernel_.arrays[kernel_.tiles[stmt.id].sums].type == DType::kF64 ? run_tile<double>(kernel_.tiles[stmt.id], integer(stmt.a))
                                                                        : run_tile<float>(kernel_.tiles[stmt.id], integer(stmt.a));
        return;
      case StmtKind::kTranspose:
        run_transpose(kernel_.transposes[stmt.id], integer(stmt.a));
        return;
      case StmtKind::kPrefetch:
        return;
    }
  }

  /// `is_free`: its passes may run in any order, so they have to leave each other's memory alone.
  void run_loop(const Stmt& loop, std::int64_t begin, std::int64_t end, bool is_free) {
    if (is_free) open_.push_back({loop.kind == StmtKind::kGrid ? before_ + 1 : pass_ + 1, 0});
    for (std::int64_t i = begin; i < end && failure_.empty(); ++i) {
      if (is_free) open_.back().present = ++pass_;
      if (loop.kind == StmtKind::kGrid) start_item(i);
      variables_[loop.id] = Word::of(i);
      run_block(loop.body);
    }
    if (is_free) open_.pop_back();
    ++pass_;  // what comes after the loop may read what any pass wrote
  }

  void start_item(std::int64_t item) {
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

  /// One step of one row of a tile. Unwatched, the first and the last of the indices, which ascend, are checked.
  template <class T>
  void run_step(const Tile& tile, std::int64_t left, std::int64_t right, std::vector<T>& sums) {
    const T a = read_as<T>(tile.left.is_array, tile.left.id, left);
    if (is_watched_) {
      for (std::size_t j = 0; j < sums.size(); ++j)
        sums[j] = std::fma(a, read_as<T>(tile.right.is_array, tile.right.id, right + static_cast<std::int64_t>(j)), sums[j]);
      return;
    }
    const auto columns = static_cast<std::int64_t>(sums.size());
    const std::byte* last = place(tile.right.is_array, tile.right.id, right + columns - 1).at;
    const std::byte* first = place(tile.right.is_array, tile.right.id, right).at;
    if (first == nullptr || last == nullptr) return;
    add_products(a, reinterpret_cast<const T*>(first), sums.data(), columns);
    work_.loads += sums.size();
  }

  template <class T>
  void run_tile(const Tile& tile, std::int64_t steps) {
    const std::int64_t base = tile.base == kNoId ? 0 : integer(tile.base), left = integer(tile.left.base), right = integer(tile.right.base);
    std::vector<T> sums(tile.columns);
    for (std::int64_t i = 0; i < tile.rows && failure_.empty(); ++i) {
      const std::int64_t row = base + i * tile.columns;
      for (std::size_t j = 0; j < sums.size(); ++j)
        sums[j] = tile.start == TileStart::kGoOn ? read_as<T>(true, tile.sums, row + static_cast<std::int64_t>(j)) : T{0};
      for (std::int64_t q = 0; q < steps && failure_.empty(); ++q)
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
        return with_type(e.type, [&]<class T>(T) { return Word::of(static_cast<T>(scalars_[e.id])); });
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
    if (value < e.integer || value > e.high) fail(fmt::format("{} is assumed to lie in [{}, {}]{}", value, e.integer, e.high, here()));
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
  const std::span<const double> scalars_;
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
};

Result<InterpretedWork> interpret(const KernelIr& kernel, std::span<const InterpretedBuffer> buffers, std::span<const double> scalars,
                                  std::int64_t begin, std::int64_t end, const PassNumbers& passes) {
  return InterpreterRun(kernel, buffers, scalars, passes).run(begin, end);
}

}  // namespace crucible::kernel
