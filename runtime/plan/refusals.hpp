// Which kernels a device refuses: it takes all that it can in one module, and the others are named with their reasons.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "plugins/loader/backend.hpp"

namespace crucible::runtime {

struct Refusal {
  std::string kernel, reason;
};

/// Kernels that came out wrong and were compiled again, with less optimisation: these are the ones to use.
struct CarefulKernels {
  backend::Module module;
  std::vector<std::string> names;
};

struct AcceptedKernels {
  std::optional<backend::Module> module;  // nothing when no kernel was accepted
  std::optional<CarefulKernels> careful;
  std::vector<Refusal> refused;
};

/// Compiles `kernels` (of distinct names) without those that the device answers UNSUPPORTED for. A plugin that does not
/// say which kernel it means is asked for halves, down to single kernels. Errors: every other failure of the compiler;
/// then `failed`, if given, has the kernels that the plugin names, separated by ", ".
Result<AcceptedKernels> compile_accepted(const std::shared_ptr<backend::Device>& device,
                                         std::span<const backend::KernelSource> kernels, std::string* failed = nullptr);

}  // namespace crucible::runtime
