// Kernels of the kernel IR (docs/kernel-ir.md) as SPIR-V, written instruction by instruction: no compiler, no text in
// between.
//
// A kernel becomes an entry point that any number of work-items may be started on: each begins at `begin` plus its
// number and goes on by the number of all, or does a chunk of neighbours, or a group does an item together (Form).
// Buffers are arguments, pointers to global memory; a kernel with more of them than a device takes gets their addresses
// in a table. Scalars come in the types that the kernel computes with, converted on the host, so that f64 is asked for
// only where it is used.
//
// What a driver must promise for strict numerics: add, multiply, fma and conversions rounded to nearest even; f32
// division and sqrt correctly rounded (SPIR-V has no word for it: drivers take the build option
// -cl-fp32-correctly-rounded-divide-sqrt); subnormals kept. Contraction is off (execution mode ContractionOff), and
// nothing carries a fast-math flag.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/sdk/kernel_ir.hpp"
#include "plugins/sdk/team_kernel.hpp"
#include "plugins/spirv/prelude_functions.hpp"
#include "plugins/spirv/spirv_module.hpp"

namespace crucible::spirv {

enum class ParameterKind : std::uint8_t {
  kBuffer,  // a pointer to buffer `index`, or with kOffset behind it to the memory that it lies in
  kOffset,  // where it begins there, in bytes: i64
  kMemory,  // a pointer to memory `index` of those that the table numbers
  kTable,   // a pointer to the addresses of all buffers, or to their memories and offsets in turn; u64 each
  kScalar,  // scalar `index` as `type`: f32, f64 or i64
  kBegin,   // i64
  kEnd,     // i64
  kChunk,   // i64: the items of one work-item
};

struct Parameter {
  ParameterKind kind = ParameterKind::kBuffer;
  std::uint32_t index = 0;
  crucible::sdk::Type type = crucible::sdk::Type::kI64;
  bool is_truth = false;                                  // of a scalar: 1 when it is not 0, else 0
  crucible::sdk::Type given = crucible::sdk::Type::kF64;  // of a scalar: the type in which a launch has it, f64 or i64
  bool operator==(const Parameter&) const = default;
  /// Bytes of the argument.
  std::uint32_t size() const { return kind == ParameterKind::kScalar && type == crucible::sdk::Type::kF32 ? 4 : 8; }
};

/// The bits of a scalar's argument, from those that a launch has; the low 32 of them for f32.
std::uint64_t scalar_bits(const Parameter& parameter, std::uint64_t given);

/// How a kernel gets its buffers: kOffsets and kMemoryTable where a driver hands over memories (cl_mem) and no
/// addresses.
enum class Buffers : std::uint8_t { kArguments, kOffsets, kTable, kMemoryTable };
inline constexpr std::uint32_t kTableMemories = 8;

/// How a kernel gets its buffers and its items.
struct Form {
  Buffers buffers = Buffers::kArguments;
  bool by_chunks =
      false;  // a work-item, alone in its group, does `chunk` neighbours: processors, whose work-items are loops
  // team->lanes work-items do an item together; null, or a team of one: each work-item does its own. Of plan_team() for
  // this kernel, borrowed for the call; not by chunks.
  const crucible::sdk::Team* team = nullptr;
  // A team is a sub-group, whose size the kernel demands, and a group has up to team->most of them: for plan_team()
  // with joins by shuffles. false: a group is one team.
  bool by_subgroups = false;
};

/// One module with any number of kernels, which share the functions that they call.
class KernelModule {
 public:
  /// Borrows the prelude.
  explicit KernelModule(const PreludeText& prelude = sdk_prelude()) : functions_(prelude, module_) {}

  /// Writes a kernel that read_kernel() took, and returns its parameters in order. Names are unique in a module.
  /// Threads: one at a time. Errors: Failure INTERNAL for a prelude without a function that it calls, UNSUPPORTED
  /// for operations that have no meaning (arithmetic of bools, a scalar as f16).
  std::vector<Parameter> add(const crucible::sdk::Kernel& kernel, std::string_view name, Form form = {});

  /// The module's binary form.
  Words words() const { return module_.words(); }

 private:
  SpirvModule module_;
  PreludeFunctions functions_;
};

}  // namespace crucible::spirv
