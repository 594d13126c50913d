// Kernels as the host hands them over (compile.compile_sources): typed expressions and structured statements, read from
// the bytes of docs/kernel-ir.md. A plugin walks this, or prints it with c_dialect.hpp.
//
// A kernel does the work items [begin, end) of a grid; items are independent. Expressions stand in one array, operands
// before users, and are pure; loads happen where the statement that uses them stands.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace crucible::sdk {

inline constexpr std::uint32_t kNoId = 0xffffffffu;

/// Element types; the numbers are those of the format.
enum class Type : std::uint8_t { kBool, kU8, kI8, kI16, kI32, kI64, kF16, kBF16, kF32, kF64 };
/// "bool", "u8", ..., "f64".
std::string_view name(Type type);
std::uint32_t size_bytes(Type type);
constexpr bool is_float(Type type) { return type >= Type::kF16; }
constexpr bool is_integer(Type type) { return type >= Type::kU8 && type <= Type::kI64; }

/// What an expression does; docs/kernel-ir.md has a line for each. The numbers are those of the format.
enum class Op : std::uint8_t {
  kInteger,
  kReal,
  kScalar,
  kVariable,
  kLoad,
  kElement,
  kConvert,
  kAssume,
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
  kOrderKey,
  kFromOrderKey,
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
  kSelect,
  kCall,
  kFma,
};

/// What Op::kCall calls, by its field `id`.
struct Function {
  std::string_view name;  // the prelude has crucible_NAME_TYPE
  int operands = 1;
  bool of_floats = true;  // else of integers
};
/// All of them, in the order of their numbers.
const std::vector<Function>& functions();

struct Expr {
  Op op = Op::kInteger;
  Type type = Type::kI64;
  std::array<std::uint32_t, 3> in{kNoId, kNoId, kNoId};
  std::uint32_t id = 0;  // of a scalar, variable, buffer, array or function
  std::int64_t integer = 0, high = 0;
  double real = 0;
};

/// kVector: items do not depend on each other, but for sums into one variable, whose order is free.
enum class LoopMode : std::uint8_t { kSerial, kVector, kUnrolled };

enum class StmtKind : std::uint8_t {
  kLet,      // defines variable `id` as a
  kSet,      // variable `id` = a
  kStore,    // buffer `id` at index a = b
  kElement,  // array `id` at index a = b
  kFor,      // variable `id` from a to b, b excluded
  kIf,       // when a
  kGrid,     // variable `id` over the work items [begin, end)
  kTile,     // the product tiles[id] over a steps
  kTranspose,  // the copy transposes[id] of a steps
  kPrefetch,   // element a of buffer `id` will be written soon: a hint
};

struct Stmt {
  StmtKind kind = StmtKind::kLet;
  LoopMode mode = LoopMode::kSerial;
  std::uint32_t id = 0, a = kNoId, b = kNoId;
  std::vector<Stmt> body;
};

struct BufferInfo {
  Type type = Type::kF32;
  bool written = false, may_alias = false;  // may_alias: may be the same memory as another may_alias buffer
};
struct ArrayInfo {
  Type type = Type::kF32;
  std::int64_t size = 0;  // elements
};
struct VariableInfo {
  Type type = Type::kI64;
  bool is_mutable = false;
};

/// Element base + i * row_step + q * step of a buffer that the kernel does not write, or of an array.
struct TileOperand {
  bool is_array = false;
  std::uint32_t id = 0, base = kNoId;
  std::int64_t row_step = 0, step = 0;
};

/// Where a tile's chains start: at zero, with what the array holds, or at zero and added to what it holds in the end.
enum class TileStart : std::uint8_t { kZero, kGoOn, kAdd };

/// For q in order, all i and j: sum(i, j) = fma(left(i, q), right(q) + j, sum(i, j)), kept in sums[base + i * columns + j].
/// One type, f32 or f64; columns is a multiple of 64 bytes; no base: 0.
struct Tile {
  std::uint32_t sums = 0, base = kNoId, rows = 0, columns = 0;
  TileStart start = TileStart::kZero;
  TileOperand left, right;
};

/// For q below the statement's `a`, and j below columns: to[to_base + q * to_step + j] = from[from_base + j * from_step + q],
/// an array and a buffer of one type, f32 or f64.
struct Transpose {
  std::uint32_t to = 0, from = 0, columns = 0, to_base = kNoId, from_base = kNoId;
  std::int64_t to_step = 0, from_step = 0;
};

struct Kernel {
  std::vector<BufferInfo> buffers;
  std::vector<Type> scalars;  // the type in which a launch hands each over: f64 or i64
  std::vector<ArrayInfo> arrays;   // scratch of one work item, uninitialised
  std::vector<VariableInfo> variables;
  std::vector<Expr> exprs;
  std::vector<Tile> tiles;
  std::vector<Transpose> transposes;
  std::vector<Stmt> body;
};

/// Reads and checks the bytes of one kernel; what comes back can be printed or walked without further questions: ids
/// are in range, operands stand before their users and have the types that the operation wants, variables are used
/// where they are defined, there is one grid loop, and no expression is larger than a compiler takes. Bounds of loads
/// and stores depend on the sizes of buffers, which only the host knows and has checked. Errors: throws Failure,
/// DATA_CORRUPT or (another version of the format) INCOMPATIBLE with have and need.
Kernel read_kernel(const void* data, std::uint64_t size);

/// The second half of read_kernel(), for kernels made or changed here. Errors: throws Failure DATA_CORRUPT.
void check_kernel(const Kernel& kernel);

}  // namespace crucible::sdk
