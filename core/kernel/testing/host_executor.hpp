// Test support: compiles the kernels of schedules with clang and runs the steps on plain host buffers, one thread, or
// the grid cut into pieces. It has no plan, no plugin and no cache; library calls are not for it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/graph/program.hpp"
#include "core/graph/reference_numbers.hpp"
#include "core/kernel/run_schedule.hpp"
#include "core/kernel/schedule.hpp"

namespace crucible::kernel {

using KernelFunction = void (*)(void* const* buffers, const double* scalars, std::int64_t begin, std::int64_t end);

/// The compiled kernels of any number of schedules, by name.
class HostKernels {
 public:
  /// The clang that the tests use, or "" when there is none.
  static std::string compiler();
  /// Errors: kUnavailable with clang's own words.
  static Result<HostKernels> compile(const std::vector<const Schedule*>& schedules);
  /// Compiles a whole C text behind the prelude and hands out its functions by name.
  static Result<HostKernels> compile_text(const std::string& text);
  void* symbol(const std::string& name) const;
  HostKernels(HostKernels&& other) noexcept;
  HostKernels& operator=(HostKernels&& other) noexcept;
  ~HostKernels();

 private:
  HostKernels() = default;
  void* handle_ = nullptr;
};

/// Runs one iteration. `values` as for graph::run_iteration. Returns all buffers.
/// Errors: kInternal when a step is a library call or names what does not exist.
Result<std::vector<graph::Bytes>> run_on_host(const graph::Program& program, const Schedule& schedule,
                                              const HostKernels& kernels, std::vector<graph::Bytes> values,
                                              const std::vector<graph::Number>& slots, const RunOptions& options);

}  // namespace crucible::kernel
