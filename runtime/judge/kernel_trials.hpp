// Each compiled kernel is tried once before it is used (trial.hpp). What passed is noted in the store, under the
// plugin, the device, the kernel and the very binary, so that the next start tries nothing; another binary is tried
// again. What is wrong is compiled again with less optimisation and tried again; what is wrong then is refused, as if
// the device could not compile it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "plugins/loader/backend.hpp"
#include "runtime/judge/trial_references.hpp"
#include "runtime/plan/refusals.hpp"

namespace crucible::runtime {

class VerdictsByDevice;  // trial_verdicts.hpp

struct TrialOptions {
  bool is_on = true;
  /// What is known of its devices, shared by the programs of a session; null: it is looked up anew.
  std::shared_ptr<VerdictsByDevice> verdicts = nullptr;
};

/// A kernel that its compiler got wrong.
struct WrongKernel {
  std::string kernel;
  std::uint32_t step = 0;  // the first that launches it
  std::string what;        // what was found, in words
  bool is_mended = false;  // with less optimisation it is right; else it was refused
};

struct TrialReport {
  bool is_on = false;
  std::size_t kernels = 0;         // of the program
  std::size_t tried = 0;           // now; what is left passed before
  std::uint64_t time_ns = 0;       // for which the program waited
  std::uint64_t processor_ns = 0;  // of all threads, that beside the compiler too
  std::vector<WrongKernel> wrong;
  std::vector<Refusal> untried;  // kernels that the interpreter cannot run on numbers of ours, each with the reason
};

/// Tries the kernels of `accepted.module` among `sources`. Those that are wrong move to `accepted.careful`, or to
/// `accepted.refused`. Adds to the report. `references`: of the place. Errors: the device was lost or gives no memory.
Result<void> try_kernels(const TrialPlace& place, const TrialOptions& options,
                         std::span<const backend::KernelSource> sources, TrialReferences& references,
                         AcceptedKernels& accepted, TrialReport& report);

}  // namespace crucible::runtime
