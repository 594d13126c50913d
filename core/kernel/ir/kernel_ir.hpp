// The kernel IR: one kernel as typed expressions and structured statements. Schedulers (emit_*.cpp) build it, the
// verifier (kernel_verify.hpp) checks types, definitions and bounds, and a printer per dialect (print_c.hpp) writes it
// out.
//
// A kernel does the work items [begin, end) of a grid; items are independent. Expressions are pure and stand in one
// array, operands before users; loads are bound to variables by statements, so that their order is explicit. The IR
// knows buffers and scalars by position, no values, no addresses and no vendor.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/dtype.hpp"
#include "core/kernel/math/functions.hpp"

namespace crucible::kernel {

using ExprId = std::uint32_t;
using VariableId = std::uint32_t;
using BufferId = std::uint32_t;
using ArrayId = std::uint32_t;
inline constexpr std::uint32_t kNoId = 0xffffffffu;

enum class Operation : std::uint8_t {
  // leaves
  kInteger,   // `integer`, as any type but f16 and bf16
  kReal,      // `real`
  kScalar,    // the kernel's scalar number `id`, converted from KernelIr::scalars to `type`
  kVariable,  // variable `id`
  kLoad,      // buffer `id` at index in[0]
  kElement,   // array `id` at index in[0]
  // one operand
  kConvert,
  kAssume,  // kAssume: in[0], which lies in [integer, high] for a reason that intervals cannot see; no number from memory
  kNegate,
  kAbsolute,
  kSqrt,
  kFloor,
  kIsNan,
  kNot,
  kExp,
  kLog,
  kTanh,
  kErf,
  kSigmoid,
  kReciprocal,
  kReciprocalSqrt,
  kSin,
  kCos,
  kOrderKey,      // a float's rank as an integer of its width: NaN above +inf, -0 below +0
  kFromOrderKey,  // and back; `type` is the float
  // two operands of equal type
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kRemainder,
  kMaximum,
  kMinimum,
  kPower,
  kLess,
  kLessEqual,
  kEqual,
  kNotEqual,
  kAnd,
  kOr,
  // three operands: condition, value if true, value if false
  kSelect,
  // one or two operands of equal type, and of that type: the function with number `id`
  kCall,
  // three operands of one float type: a * b + c, rounded once
  kFma,
};

struct Expr {
  Operation operation = Operation::kInteger;
  DType type = DType::kI64;
  std::array<ExprId, 3> in{kNoId, kNoId, kNoId};
  std::uint32_t id = 0;
  std::int64_t integer = 0, high = 0;
  double real = 0;
  bool operator==(const Expr&) const = default;
};

/// How the items of a loop may run. kVector promises that no item reads what another writes, except for the variables
/// that all of them update by one associative operation (a sum's order is then free).
enum class LoopMode : std::uint8_t { kSerial, kVector, kUnrolled };

enum class StmtKind : std::uint8_t {
  kLet,      // defines variable `id` as a
  kSet,      // variable `id` = a (mutable variables only)
  kStore,    // buffer `id` at index a = b
  kElement,  // array `id` at index a = b
  kFor,      // for variable `id` from a to b, b excluded
  kIf,       // when a
  kGrid,     // for variable `id` over the work items; the outermost statement besides hoisted kLets, exactly once
  kTile,     // the product tiles[id] over a steps
  kTranspose,  // the copy transposes[id] of a steps
  kPrefetch,   // element a of buffer `id` will be written soon: nothing that anyone computes
};

struct Stmt {
  StmtKind kind = StmtKind::kLet;
  std::uint32_t id = 0;
  ExprId a = kNoId, b = kNoId;
  LoopMode mode = LoopMode::kSerial;
  std::vector<Stmt> body;
};

struct Variable {
  DType type = DType::kI64;
  bool is_mutable = false;
};

struct IrBuffer {
  DType type = DType::kF32;
  bool written = false;
  bool may_alias = false;  // may be placed on another may_alias buffer of the kernel, element on element
};

struct IrArray {
  DType type = DType::kF32;
  std::int64_t size = 0;
};

/// Where a tile reads one of its operands: element base + i * row_step + q * step of a buffer that the kernel does not
/// write, or of an array.
struct TileOperand {
  bool is_array = false;
  std::uint32_t id = 0;
  ExprId base = kNoId;
  std::int64_t row_step = 0, step = 0;
  bool operator==(const TileOperand&) const = default;
};

inline constexpr std::uint32_t kMostTileRows = 64, kMostTileColumns = 256;

/// Where a tile's chains start, and what becomes of the array: kZero overwrites it, kGoOn starts with what it holds, kAdd starts
/// at zero and adds the finished sums to what it holds.
enum class TileStart : std::uint8_t { kZero, kGoOn, kAdd };

/// A block of a product of matrices that fits into registers: for q from 0 to the statement's `a`, in this order, and all
/// i, j: sum(i, j) = fma(left(i, q), right(q) + j, sum(i, j)), kept in sums[base + i * columns + j]. One rounding per step,
/// one chain per element. All three have one type, f32 or f64; columns is a multiple of 64 bytes.
struct Tile {
  ArrayId sums = 0;
  ExprId base = kNoId;  // none: 0
  std::uint32_t rows = 0, columns = 0;
  TileStart start = TileStart::kZero;
  TileOperand left, right;  // right: columns lie side by side, row_step is 0
  bool operator==(const Tile&) const = default;
};

/// Rows of a buffer copied into the columns of an array: for q from 0 to the statement's `a`, and all j below `columns`:
/// to[to_base + q * to_step + j] = from[from_base + j * from_step + q]. Both have one type, f32 or f64, and the kernel does
/// not write the buffer.
struct Transpose {
  ArrayId to = 0;
  BufferId from = 0;
  std::uint32_t columns = 0;
  ExprId to_base = kNoId, from_base = kNoId;
  std::int64_t to_step = 0, from_step = 0;
  bool operator==(const Transpose&) const = default;
};

struct KernelIr {
  std::vector<IrBuffer> buffers;
  std::vector<DType> scalars;   // the type in which the launch hands each over: f64 or i64
  std::vector<IrArray> arrays;  // scratch of one work item, uninitialised at its start
  std::vector<Variable> variables;
  std::vector<Expr> exprs;
  std::vector<Tile> tiles;
  std::vector<Transpose> transposes;
  std::vector<Stmt> body;
};

/// The integer type of an order key: i32 for f32 (and narrower floats computed as f32), i64 for f64.
constexpr DType order_key_type(DType type) { return type == DType::kF64 ? DType::kI64 : DType::kI32; }

/// Writes a KernelIr statement by statement. Blocks nest: open_* starts one, close() ends it. Equal expressions are one
/// expression, and arithmetic on integer constants is folded.
class IrBuilder {
 public:
  IrBuilder();

  BufferId add_buffer(DType type, bool written);
  std::uint32_t add_scalar(DType type = DType::kF64) {
    ir_.scalars.push_back(type);
    return static_cast<std::uint32_t>(ir_.scalars.size() - 1);
  }
  ArrayId add_array(DType type, std::int64_t size);

  ExprId integer(std::int64_t value, DType type = DType::kI64);
  ExprId real(double value, DType type);
  ExprId scalar(std::uint32_t index, DType type);
  ExprId variable(VariableId id);
  ExprId load(BufferId buffer, ExprId index);
  ExprId element(ArrayId array, ExprId index);
  ExprId convert(ExprId a, DType type);
  /// `a`, which lies in [low, high] by arithmetic that intervals cannot follow (loop variables that move together). Never what comes
  /// from memory or from the launch: the verifier refuses that.
  ExprId assume(ExprId a, std::int64_t low, std::int64_t high);
  /// `a` where it lies in [low, high], else the nearer end: what every index that comes from data passes through before it reaches
  /// memory. Whether it lay inside is the program's own question (graph::Bound).
  ExprId guard(ExprId a, std::int64_t low, std::int64_t high);
  ExprId unary(Operation operation, ExprId a);
  ExprId from_order_key(ExprId a, DType type);
  ExprId binary(Operation operation, ExprId a, ExprId b);
  ExprId call(Function function, ExprId a, ExprId b = kNoId);
  ExprId fma(ExprId a, ExprId b, ExprId c);
  ExprId select(ExprId condition, ExprId if_true, ExprId if_false);
  ExprId add(ExprId a, ExprId b) { return binary(Operation::kAdd, a, b); }
  ExprId multiply(ExprId a, std::int64_t b) { return binary(Operation::kMultiply, a, integer(b)); }

  /// Defines a constant variable in block `depth` (0 is the kernel's outermost; default the innermost) and returns it.
  ExprId let(ExprId value) { return let_at(depth(), value); }
  ExprId let_at(std::size_t depth, ExprId value);
  VariableId declare(ExprId initial);  // a mutable variable
  void set(VariableId variable, ExprId value);
  void store(BufferId buffer, ExprId index, ExprId value);
  void store_element(ArrayId array, ExprId index, ExprId value);
  void tile(const Tile& tile, ExprId steps);
  void transpose(const Transpose& transpose, ExprId steps);
  void prefetch(BufferId buffer, ExprId index);
  ExprId open_for(ExprId begin, ExprId end, LoopMode mode);
  void open_if(ExprId condition);
  ExprId open_grid(LoopMode mode);
  void close();
  /// Number of open blocks besides the kernel's own.
  std::size_t depth() const { return open_.size() - 1; }

  const Expr& at(ExprId id) const { return ir_.exprs[id]; }
  DType type(ExprId id) const { return ir_.exprs[id].type; }
  KernelIr& ir() { return ir_; }
  /// The finished kernel; all blocks must be closed.
  KernelIr finish();

 private:
  ExprId intern(const Expr& expr);
  bool is_integer_constant(ExprId id, std::int64_t* value) const;
  VariableId add_variable(DType type, bool is_mutable);
  KernelIr ir_;
  std::vector<Stmt> open_;  // headers of open blocks with their bodies so far; [0] holds the kernel's body
  std::unordered_map<std::uint64_t, std::vector<ExprId>> interned_;
};

}  // namespace crucible::kernel
