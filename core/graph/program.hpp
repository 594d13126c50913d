// One training iteration as a functional, vendor-neutral SSA program: what frontends/aten makes from a trace, and what
// memory planning, kernel scheduling and the runtime read. It knows no framework, no vendor and no addresses.
//
// A value is a flat buffer of elements, written once. An operand is a strided view of a value, so permutes, expands,
// slices and reshapes are not ops: they are index maps on reads. In-place writes of the recording have become new
// values; memory reuse is the planner's business.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/dtype.hpp"
#include "core/base/result.hpp"
#include "core/graph/number.hpp"

namespace crucible::graph {

using ValueId = std::uint32_t;
using OpId = std::uint32_t;
using SlotId = std::uint32_t;
inline constexpr std::uint32_t kNone = 0xffffffffu;

/// A strided view: element (i0, i1, ...) is at offset + sum(i * stride). All in elements; strides may be 0, never
/// negative.
struct View {
  std::int64_t offset = 0;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;
  bool operator==(const View&) const = default;
  std::int64_t elements() const;  // product of sizes
  bool is_contiguous() const;     // offset 0 is not required; row-major and dense
  static View contiguous(std::vector<std::int64_t> sizes);
};

enum class ValueKind : std::uint8_t {
  kTemporary,  // produced by an op, dies in the iteration
  kState,      // parameter, buffer or optimizer state: carried from one iteration to the next
  kInput,      // differs between iterations: data, drawn random values
  kConstant,   // the same bytes in every iteration, never written
};

struct Value {
  ValueKind kind = ValueKind::kTemporary;
  DType dtype = DType::kF32;
  std::int64_t elements = 0;
  std::string name;       // "blocks.0.norm1.weight" where known, else ""
  OpId producer = kNone;  // kNone unless kTemporary
};

/// A number known before the iteration starts: fixed, or a slot filled per iteration (learning rate, bias correction).
struct Scalar {
  SlotId slot = kNone;      // kNone: the number below
  bool is_integer = false;  // which of the two holds the number; of a slot as Slot::is_integer
  double real = 0;
  std::int64_t integer = 0;
  bool operator==(const Scalar&) const = default;
};

struct Operand {
  ValueId value = kNone;  // kNone: `scalar` is meant
  View view;
  Scalar scalar;
  bool is_scalar() const { return value == kNone; }
};

/// Every kind of op. Element-wise ops: all tensor operands are views of the result's sizes (stride 0 where broadcast);
/// arithmetic happens in the result's dtype (f16 and bf16: in f32, rounded once on store), comparisons in the first
/// operand's, and operands of other dtypes are converted first. The table in op_table.hpp has names, arity and
/// attributes.
// clang-format off: grouped by arity, with the comments that say what each group shares
enum class OpKind : std::uint8_t {
  // element-wise, one operand
  kCopy,        // also converts between dtypes
  kNegate, kAbsolute, kExp, kLog, kSqrt, kReciprocalSqrt, kReciprocal, kTanh, kErf, kSigmoid, kSin, kCos, kFloor,
  kCeil, kTruncate, kRound,   // round: half to even
  kExp2, kExpm1, kLog1p, kLog2, kLog10, kTan, kAsin, kAcos, kAtan, kSinh, kCosh, kAsinh, kAcosh, kAtanh,
  kErfc, kErfInverse, kLogGamma, kDigamma,   // log_gamma: of the magnitude of gamma; digamma of -0 is inf, of 0 -inf
  kBitNot,      // integers
  kIsNan, kLogicalNot,   // result bool
  // element-wise, two operands
  kAdd, kSubtract, kMultiply, kDivide, kMaximum, kMinimum,   // maximum and minimum: NaN if any operand is NaN
  kPower,       // integers too: they wrap; a negative exponent gives 0 but for bases 1 and -1
  kAtan2,       // (y, x): the angle of the point (x, y), signed zeros and infinities as IEEE 754 has them
  kRemainder,   // a - b * (a / b rounded towards zero), exact, with a's sign; of integers by zero 0
  kDivideInteger,   // integers: a / b rounded towards zero; by zero 0
  kBitAnd, kBitOr, kBitXor,   // integers
  kShiftLeft, kShiftRight,    // integers; right keeps the sign. By less than 0 or all bits: 0, a negative
                              // number right -1
  kLess, kLessEqual, kGreater, kGreaterEqual, kEqual, kNotEqual, kLogicalAnd, kLogicalOr,   // result bool
  // element-wise, three operands
  kSelect,      // (condition, if_true, if_false)
  // element-wise without tensor operands
  kFill,        // (scalar)
  kCoordinate,  // the index along `dims[0]`, as the result's dtype
  // reductions over `dims`; the result's view keeps those dims with size 1 (stride 0)
  // max and min: NaN if any element is NaN; sums and products of f32 accumulate in f32 or better
  kReduceSum, kReduceMax, kReduceMin, kReduceProduct,
  // along dims[0]; the result keeps that dim with size 1
  kArgMax, kArgMin,         // x -> i64 index of the first largest (smallest) element, or of the first NaN
  // along dims[0]; results of x's sizes
  kScanSum, kScanProduct,   // x -> sum (product) of the elements so far; floats accumulate in f32 or better
  kScanMax, kScanMin,       // x -> largest (smallest) element so far, i64 index of its last occurrence; from the first
                            // NaN on NaN, and the index of the last one
  kSortAscending,           // x -> elements in ascending order, NaN last; i64 indices where they stood; stable
  kSortDescending,          // the same in descending order, NaN first; stable, too
  // indexed
  kGatherRows,      // (table [r, w], ids [...]) -> [..., w]; an id outside [0, r) reads the first row or the last one,
                    // or is refused
  kScatterAddRows,  // (rows [n, w], ids [n]) -> [r, w], zero where no id points; rows whose id is `index` are skipped
                    // (-1: none)
  kConcat,          // (pieces...) along dims[0]; one piece of another dtype than the result: its bytes, see bitcast.hpp
                    // for `index`
  kUpdate,          // (base, source) attr `region`: a copy of base (read whole as [elements], written whole as
                    // [elements])
                    // in which the elements of the view `region` are source's; all of one dtype
  kTake,            // (x [n], index S) -> S: the element of x at each index, 0 where the index is outside [0, n)
  kPutSet, kPutAdd, kPutMultiply, kPutMax, kPutMin,
                    // (base [n], index S, source S) -> [n]: base, in which each element that an index names is set to
                    // source's, or joined with it (rounded each time; max and min: NaN wins), in row-major order of S;
                    // indices outside [0, n) are skipped. All of one dtype; add and multiply not bool
  // contractions
  kMatMul,          // ([batch..., m, k], [batch..., k, n]) -> [batch..., m, n], times `alpha`
  kConv2d,                // (x [n, c, h, w], weight [o, c / groups, kh, kw]) -> [n, o, oh, ow]; no bias
  kConv2dBackwardInput,   // (gradient of the result, weight) -> gradient of x
  kConv2dBackwardWeight,  // (gradient of the result, x) -> gradient of weight
  // pooling
  kMaxPool2d,             // (x [n, c, h, w]) -> values [n, c, oh, ow], i64 index h * w_size + w of the first maximum
  kMaxPool2dBackward,     // (gradient of values, index) -> gradient of x; an index outside of its plane as an id of
                          // gather_rows
  // factorizations of matrices, the last two dimensions, in f32 or f64; the others are batches, equal in all operands
  kCholesky,          // (x [..., n, n], its lower triangle) -> l [..., n, n] lower: x = l l'; NaN from where x is not
                      // positive definite
  kTriangularSolve,   // (a [..., n, n], b [..., n, k]) -> x: a x = b; `index`: 1 (a is upper, else lower) + 2 (its
                      // diagonal is of ones)
  kLu,                // x [..., m, n] -> l below and u on and above the diagonal, i64 [..., min(m, n)]: the row below
                      // that row i
                      // changed places with in step i, the first with the largest magnitude
  kPivotsToPermutation,  // pivots i64 [..., k] as of kLu -> i64 [..., m]: the row of x that stands in each row after
                         // these k steps
  kHouseholderQr,     // x [..., m, n] -> r on and above the diagonal with the reflectors below, their factors [...,
                      // min(m, n)]
                      // as LAPACK's geqrf has them: h = 1 - factor v v' with v = 1 on the diagonal
  kHouseholderProduct,  // (reflectors [..., m, k], factors [..., k]) -> the first n columns of h_1 ... h_k, [..., m, n]
  kEigenSymmetric,    // (x [..., n, n], its lower triangle) -> values [..., n], ascending, vectors [..., n, n] in
                      // columns
  kSingularValues,    // x [..., m, n] with m >= n -> u [..., m, n], s [..., n], descending, v [..., n, n]: x = u s v',
                      // columns
                      // orthonormal. Both: the sum of v's column weighted by 1 / (row + golden ratio) is not negative
  // not neutral
  kOpaque,                // what only the framework can run: attribute `index` names its entry in Program::opaques
                          // (opaque.hpp)
  kComposite,             // a name with a decomposition: attribute `index` names its entry in Program::composites
                          // (composite.hpp)
};
// clang-format on
inline constexpr int kOpKindCount = static_cast<int>(OpKind::kOpaque);  // neutral kinds: those that every backend runs

/// Attributes; each kind uses those that its row in the op table names, the others stay as they are here.
struct Attributes {
  std::vector<std::int64_t> dims;
  std::int64_t index = -1;
  double alpha = 1.0;
  View region;
  std::int64_t kernel[2] = {1, 1}, stride[2] = {1, 1}, padding[2] = {0, 0}, dilation[2] = {1, 1};
  std::int64_t groups = 1;
  std::int64_t pieces = 0;  // of products and sums: kUsesPieces (op_table.hpp)
};
inline constexpr std::int64_t kStepsOfPiece = 256;  // of a product: what strict numerics sum up in one chain

enum class Phase : std::uint8_t { kForward = 0, kBackward = 1, kOptimizer = 2 };

/// Where an op came from, kept through every pass.
struct Source {
  std::string op;      // "aten::native_layer_norm"
  std::string module;  // "blocks.0.norm1"
  std::string site;    // "train.py:31"
  Phase phase = Phase::kForward;
  std::uint32_t trace_op = kNone;  // index in the recording
};

struct Opaque;     // opaque.hpp
struct Composite;  // composite.hpp

struct Op {
  OpKind kind = OpKind::kCopy;
  std::vector<Operand> inputs;
  std::vector<Operand> outputs;  // tensors only; each value is written by exactly one output, whose view covers the
                                 // whole buffer: a dense permutation of it (row-major unless the recording's was not)
  Attributes attributes;
  std::uint32_t source = kNone;  // index in Program::sources
};

/// A named number per iteration, of one type in all of them.
struct Slot {
  std::string name;            // "lr-like: aten::addcdiv_.value of blocks.0.norm1.weight"
  std::vector<Number> values;  // one per recorded iteration
  bool is_integer = false;     // i64 (truth values: 0 and 1), else f64; so is each of the values
};

/// A state value at the start of the iteration, and the value that holds it at the end.
struct State {
  ValueId start = kNone;
  ValueId end = kNone;  // == start when the iteration only reads it; else a temporary that ends no other state
  std::uint32_t initial_blob = kNone;  // its bytes before the first iteration (whole buffer)
  std::uint32_t final_blob = kNone;    // its recorded bytes after the last one
};

struct Input {
  ValueId value = kNone;
  std::vector<std::uint32_t> blobs;  // one per recorded iteration, whole buffer
  bool is_draw = false;              // values that a random op drew
};

struct Constant {
  ValueId value = kNone;
  std::uint32_t blob = kNone;
};

/// Where indices that an op took from data have to lie, both ends included: elsewhere the framework raises an error.
struct Bound {
  std::int64_t low = 0, high = 0;
  std::uint32_t source = kNone;  // index in Program::sources
  bool operator==(const Bound&) const = default;
};

/// A result that the user watches: a number (a loss), or a tensor that the iteration gives back. Numbers stand first.
/// Or what the runtime watches: the least and the largest index of each bound, an i64 list of two elements for each
/// (bounds.hpp).
struct Output {
  std::string name;                       // "loss", "logits"
  Operand operand;                        // of a number: a view of one element; of a tensor: any view
  std::vector<double> recorded = {};      // of a number: one per recorded iteration
  std::vector<std::uint32_t> blobs = {};  // of a tensor: its elements, dense and row-major, one per recorded iteration
  std::vector<Bound> bounds = {};
  bool is_tensor() const { return !blobs.empty(); }
  bool is_bounds() const { return !bounds.empty(); }
  bool is_number() const { return !is_tensor() && !is_bounds(); }
};

/// What an implementation needs to know besides the operands: one fixed number, or a list of them.
struct CompositeAttribute {
  std::string name;  // "eps", "dims"
  bool is_list = false;
  std::vector<Scalar> numbers;  // exactly one where it is no list
};

/// A value as a composite's operand or result: under which name, through which view.
struct Role {
  std::string name;
  Operand operand;
};

/// What values are by name, said beside the ops that compute them (meaning.hpp).
struct Meaning {
  std::string name;  // of a composite: "attention"
  std::vector<CompositeAttribute> attributes;
  std::vector<Role> inputs, outputs;
};

/// Ops stand in an order that respects definitions before uses. Blob numbers are those of the trace's BlobStore.
struct Program {
  std::vector<Value> values;
  std::vector<Op> ops;
  std::vector<Source> sources;
  std::vector<Slot> slots;
  std::vector<State> states;
  std::vector<Input> inputs;
  std::vector<Constant> constants;
  std::vector<Output> outputs;
  std::vector<std::shared_ptr<const Opaque>> opaques;  // shared: copies of a program have the same, which never change
  std::vector<std::shared_ptr<const Composite>> composites;  // likewise
  std::vector<Meaning> meanings;
  std::vector<std::string> left_out;  // recorded outputs that the program cannot give, each with the reason
  std::uint32_t iterations = 0;
  /// One of several programs over the same states, or one whose states are given anew in between (variants.hpp): it
  /// keeps those that it does not touch, and how they move is not known from its own iterations alone.
  bool is_variant = false;
  /// The recording computed products or convolutions of f32 among these with 10 bits (TF32): its numbers are as near as
  /// that. A replay computes them in f32.
  bool was_tf32 = false;
};

std::string_view name(OpKind kind);  // "add", "reduce_sum", "matmul"
bool is_elementwise(OpKind kind);    // kCopy .. kCoordinate
bool is_reduction(OpKind kind);
bool is_put(OpKind kind);  // kPutSet .. kPutMin

/// Checks everything that the comments above promise: definitions before uses, each value written once, views inside
/// their values, sizes that agree, dtypes, attributes, scalars within slots. Errors: kInternal, naming op, operand and
/// rule.
Result<void> verify(const Program& program);

/// Deterministic text, one op a line:
///   %12: f32[512, 256] = add(%3[512, 256], %4[512, 256]{0, 1})  ; aten::add.Tensor blocks.0 gpt.py:41
std::string to_text(const Program& program);

}  // namespace crucible::graph
