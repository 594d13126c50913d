// Kernels of the kernel IR (docs/kernel-ir.md) as SPIR-V, written instruction by instruction: no compiler, no text in between.
//
// A kernel becomes an entry point that any number of work-items may be started on: each begins at `begin` plus its number and goes on by the
// number of all. Buffers are arguments, pointers to global memory; a kernel with more of them than a device takes gets their addresses in a
// table. Scalars come in the types that the kernel computes with, converted on the host, so that f64 is asked for only where it is used.
//
// What a driver must promise for strict numerics: add, multiply, fma and conversions rounded to nearest even; f32 division and sqrt correctly
// rounded (SPIR-V has no word for it: drivers take the build option -cl-fp32-correctly-rounded-divide-sqrt); subnormals
// kept. Contraction is off (execution mode ContractionOff), and nothing carries a fast-math flag.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backends/intel/prelude_functions.hpp"
#include "backends/intel/spirv_module.hpp"
#include "plugins/sdk/kernel_ir.hpp"

namespace crucible_intel {

enum class ParameterKind : std::uint8_t {
  kBuffer,  // a pointer to buffer `index`
  kTable,   // a pointer to the addresses of all buffers, u64 each
  kScalar,  // scalar `index` as `type`: f32, f64 or i64
  kBegin,   // i64
  kEnd,     // i64
};

struct Parameter {
  ParameterKind kind = ParameterKind::kBuffer;
  std::uint32_t index = 0;
  crucible::sdk::Type type = crucible::sdk::Type::kI64;
  bool is_truth = false;  // of a scalar: 1 when it is not 0, else 0
  bool operator==(const Parameter&) const = default;
  /// Bytes of the argument.
  std::uint32_t size() const { return kind == ParameterKind::kScalar && type == crucible::sdk::Type::kF32 ? 4 : 8; }
};

/// The bits of a scalar's argument; the low 32 of them for f32.
std::uint64_t scalar_bits(const Parameter& parameter, double value);

/// How a kernel gets its buffers.
enum class Buffers : std::uint8_t { kArguments, kTable };

/// One module with any number of kernels, which share the functions that they call.
class KernelModule {
 public:
  /// Borrows the prelude.
  explicit KernelModule(const PreludeText& prelude) : functions_(prelude, module_) {}

  /// Writes a kernel that read_kernel() took, and returns its parameters in order. Names are unique in a module. Threads: one at a time.
  /// Errors: Failure INCOMPATIBLE for a prelude without a function that it calls, UNSUPPORTED for operations that have no meaning
  /// (arithmetic of bools, a scalar as f16).
  std::vector<Parameter> add(const crucible::sdk::Kernel& kernel, std::string_view name, Buffers buffers = Buffers::kArguments);

  /// The module's binary form.
  Words words() const { return module_.words(); }

 private:
  SpirvModule module_;
  PreludeFunctions functions_;
};

}  // namespace crucible_intel
