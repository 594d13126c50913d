// The kernel IR: one kernel as typed expressions and structured statements (docs/kernel-ir.md has a line for each). The
// host's emitters build it (core/kernel/ir/ir_builder.hpp), it crosses the plugin boundary as bytes (serialize.hpp),
// plugins walk it or print it (plugins/sdk/c_dialect.hpp). The numbers of all enumerators are those of the format.
//
// A kernel does the work items [begin, end) of a grid; items are independent. Expressions are pure and stand in one
// array, operands before users; loads are bound to variables by statements, so that their order is explicit. The IR
// knows buffers and scalars by position, no values, no addresses and no vendor.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "plugins/kernel_ir/dtype.hpp"
#include "plugins/kernel_ir/functions.hpp"

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
  kAssume,  // kAssume: in[0], which lies in [integer, high] for a reason that intervals cannot see; no number from
            // memory
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
  LoopMode mode = LoopMode::kSerial;
  std::uint32_t id = 0;
  ExprId a = kNoId, b = kNoId;
  std::vector<Stmt> body{};
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

/// Where a tile's chains start, and what becomes of the array: kZero overwrites it, kGoOn starts with what it holds,
/// kAdd starts at zero and adds the finished sums to what it holds.
enum class TileStart : std::uint8_t { kZero, kGoOn, kAdd };

/// A block of a product of matrices that fits into registers: for q from 0 to the statement's `a`, in this order, and
/// all i, j: sum(i, j) = fma(left(i, q), right(q) + j, sum(i, j)), kept in sums[base + i * columns + j]. One rounding
/// per step, one chain per element. All three have one type, f32 or f64; columns is a multiple of 64 bytes.
struct Tile {
  ArrayId sums = 0;
  ExprId base = kNoId;  // none: 0
  std::uint32_t rows = 0, columns = 0;
  TileStart start = TileStart::kZero;
  TileOperand left, right;  // right: columns lie side by side, row_step is 0
  bool operator==(const Tile&) const = default;
};

/// Rows of a buffer copied into the columns of an array: for q from 0 to the statement's `a`, and all j below
/// `columns`: to[to_base + q * to_step + j] = from[from_base + j * from_step + q]. Both have one type, f32 or f64, and
/// the kernel does not write the buffer.
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
  std::vector<Stmt> body{};
};

/// The integer type of an order key: i32 for f32 (and narrower floats computed as f32), i64 for f64.
constexpr DType order_key_type(DType type) { return type == DType::kF64 ? DType::kI64 : DType::kI32; }

}  // namespace crucible::kernel
