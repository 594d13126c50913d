// From a program to a list of steps: which ops became one kernel, which are library calls, in which order they run.
//
// The scheduler fuses element-wise ops and reductions into kernels and writes each kernel in the kernel IR
// (kernel_ir.hpp), which plugins print or compile. A step names buffers by value; addresses come from the memory plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/graph/program.hpp"
#include "core/kernel/emit/device_shape.hpp"
#include "core/kernel/ir/numerics.hpp"

namespace crucible::kernel {

struct Stamps;

/// One kernel, which does the work items [begin, end) of a step's grid; work items are independent of each other.
/// Kernels with equal IR are one kernel. What a plugin makes of it may call the functions of math_prelude().
struct Kernel {
  std::string name;             // "k_" and the first 16 digits of the SHA-256 of `ir`, or "o_" and those of `opaque`
  std::vector<std::byte> ir{};  // serialised (plugins/kernel_ir/serialize.hpp)
  std::string opaque{};         // graph::opaque_kernel() of a kernel that is an opaque op; there is no IR then
  bool is_opaque() const { return !opaque.empty(); }
};

/// A transfer copies a whole value between the device and the host; core/budget puts them in, the scheduler makes none.
enum class StepKind : std::uint8_t { kLaunch, kLibrary, kTransfer };

enum class LibraryKind : std::uint8_t {
  kMatMul,
  kConv2d,
  kConv2dBackwardInput,
  kConv2dBackwardWeight,
  kAttention,
  kAttentionForward,   // of training: the gradient gets the logarithms of its rows' sums
  kAttentionBackward,  // its gradient
};
inline bool is_attention(LibraryKind kind) {
  return kind == LibraryKind::kAttention || kind == LibraryKind::kAttentionForward ||
         kind == LibraryKind::kAttentionBackward;
}

/// What a matrix product does to each element before it stores it: CRUCIBLE_EPILOGUE_* of the ABI.
enum class LibraryEpilogue : std::uint8_t { kNone, kBias, kBiasRelu, kBiasGelu };

/// A call that a backend's library may claim. Views are of the step's buffers: for kMatMul a, b, c; for the
/// convolutions the operands in the order of the op, then the result; for kAttention q, k, v, then `extra`, the result,
/// each [batch, heads, rows, width]; kAttentionForward has l, f32 [batch, heads, rows, 1], behind it (`more`), and
/// kAttentionBackward l, do and the results dq, dk, dv; behind the views of a product `extra`, what its epilogue reads.
/// Sizes and strides in elements.
struct LibraryCall {
  LibraryKind kind = LibraryKind::kMatMul;
  DType dtype = DType::kF32;
  bool keeps_f32 =
      false;  // of f16 and bf16: the result is not rounded yet, since something is added to it before it is (a bias)
  graph::View views[3];
  graph::Attributes
      attributes;          // alpha for products and attentions; stride, padding, dilation, groups for convolutions
  graph::View extra = {};  // of attentions; of kMatMul with an epilogue: a number for each column of c
  std::vector<graph::View> more = {};                 // of attentions in training
  bool is_causal = false;                             // of attentions: query i sees keys 0 to i
  LibraryEpilogue epilogue = LibraryEpilogue::kNone;  // kMatMul
};

struct BufferArgument {
  graph::ValueId value = graph::kNone;
  bool written = false;
};

struct Step {
  StepKind kind = StepKind::kLaunch;
  std::uint32_t kernel = graph::kNone;  // kLaunch: index in Schedule::kernels
  LibraryCall library;                  // kLibrary
  std::vector<BufferArgument> buffers;  // in the kernel's order; a buffer may be read and written (in place)
  std::vector<graph::Scalar> scalars;   // kLaunch: the kernel's scalars, in order
  std::int64_t grid = 1;                // kLaunch: number of work items
  std::int64_t grain = 1;               // fewest work items that are worth a thread of their own
  std::uint64_t flops = 0, bytes = 0;   // estimates, for reports
  std::vector<graph::OpId> ops;         // what it computes
  std::vector<ProductCut> cuts;         // kLaunch of a product by tiles: the ways to cut it, best score first
};

/// Two values that may share one buffer: `result` is written by a step that reads `operand` for the last time, at equal
/// indices only. The planner may place them at one offset.
struct InPlace {
  std::uint32_t step = 0;
  graph::ValueId operand = graph::kNone;
  graph::ValueId result = graph::kNone;
};

struct Schedule {
  Numerics numerics = Numerics::kFast;
  bool epilogues = false;  // whether products could have them
  std::vector<Kernel> kernels;
  std::vector<Step> steps;  // in execution order
  std::vector<InPlace>
      aliases;  // what the kernels allow: the operand is read at the indices at which the result is written
  std::vector<InPlace> in_place;   // of these, what the order of the steps allows, best first (in_place.hpp)
  std::vector<bool> materialized;  // per value of the program: it needs a buffer (fused-away temporaries do not)
  std::vector<bool>
      is_on_host;  // per value: it lies in the host's memory, where only transfers reach it; empty: none does
  bool on_host(graph::ValueId value) const { return value < is_on_host.size() && is_on_host[value]; }
};

struct Options {
  /// True when the backend's library takes this call; what it declines becomes generated kernels. Null: it declines
  /// all.
  std::function<bool(const LibraryCall&)> claims = nullptr;
  bool fuse = true;  // false: one kernel per op, for debugging and for the tests that compare the two
  /// kStrict: no claim is made, each sum has its named order, and ops without one (opaque ones) are errors.
  Numerics numerics = Numerics::kFast;
  /// Of products (epilogue.hpp); without `fuse` there are none. Off until they are measured to be no slower on large
  /// updates.
  bool epilogues = false;
  /// Products are cut into work items and tiles that suit it.
  DeviceShape device = {};
  /// Which way to cut the generated kernel of a call (ProductCut), 0: the one with the best score. Null: 0 for all. No
  /// bit depends on it.
  std::function<std::size_t(const LibraryCall&)> cut = nullptr;
  /// Decisions and kernels that are used again where they were found out before, and counted (stamps.hpp). Null: of
  /// this schedule alone. No step depends on it.
  Stamps* stamps = nullptr;
};

/// The call that a library would be asked for in place of this op; nothing for ops that no library is asked for.
std::optional<LibraryCall> library_call_of(const graph::Program& program, const graph::Op& op);

/// Errors: kBadInput when the program has an op that no kernel can be generated for, kUsage when it has one that cannot
/// be strict; with its source.
Result<Schedule> schedule(const graph::Program& program, const Options& options);

/// A schedule, and the program that it is of where that is not the one that was given.
struct Prepared {
  std::optional<graph::Program> program;
  Schedule schedule;
};

/// The program with its long reductions in parts (graph::SplitFor::kLanes), where the numerics are strict, for whose
/// results the parts are named, or the device runs threads in step, which would else have nothing to do. None: it stays
/// as it is.
std::optional<graph::Program> in_parts(const graph::Program& program, const Options& options);

/// As schedule(), of the program in_parts(), with its products as threads in step want them (turn_operands.hpp,
/// split_products.hpp) and, only with fusion, as rematerialize() changes it and state_trained_attentions() (fuse/);
/// values keep their numbers, and new ones come after them.
Result<Prepared> prepare(const graph::Program& program, const Options& options);

}  // namespace crucible::kernel
