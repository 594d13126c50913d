#include "runtime/plan/refusals.hpp"

#include <algorithm>

namespace crucible::runtime {
namespace {

class Asker {
 public:
  explicit Asker(const std::shared_ptr<backend::Device>& device) : device_(device) {}

  /// Adds to `refused` every kernel of the span that is refused when it is alone.
  Result<void> find(std::span<const backend::KernelSource> kernels, std::vector<Refusal>& refused) {
    if (kernels.empty()) return {};
    backend::CompileRefusal refusal;
    const Result<backend::Module> module = backend::Module::compile(device_, kernels, &refusal);
    if (module) return {};
    if (!refusal.unsupported) return module.error();
    if (kernels.size() == 1) {
      refused.push_back({kernels[0].name, module.error().message});
      return {};
    }
    const std::size_t half = kernels.size() / 2;
    CRUCIBLE_TRY_VOID(find(kernels.first(half), refused));
    return find(kernels.subspan(half), refused);
  }

 private:
  const std::shared_ptr<backend::Device>& device_;
};

}  // namespace

Result<AcceptedKernels> compile_accepted(const std::shared_ptr<backend::Device>& device,
                                         std::span<const backend::KernelSource> kernels, std::string* failed) {
  AcceptedKernels accepted;
  std::vector<backend::KernelSource> left(kernels.begin(), kernels.end());
  while (!left.empty()) {  // each round refuses one kernel at least
    backend::CompileRefusal refusal;
    Result<backend::Module> module = backend::Module::compile(device, left, &refusal);
    if (module) {
      accepted.module.emplace(*std::move(module));
      break;
    }
    if (!refusal.unsupported) {
      if (failed != nullptr) *failed = refusal.kernel;
      return module.error();
    }
    std::vector<Refusal> found;
    if (std::ranges::find(left, refusal.kernel, &backend::KernelSource::name) != left.end()) {
      found.push_back({refusal.kernel, module.error().message});
    } else {
      CRUCIBLE_TRY_VOID(Asker(device).find(left, found));
    }
    if (found.empty()) return module.error();  // each alone is taken, all together are not: nothing to route around
    const auto is_refused = [&](const backend::KernelSource& source) {
      return std::ranges::find(found, source.name, &Refusal::kernel) != found.end();
    };
    std::erase_if(left, is_refused);
    std::ranges::move(found, std::back_inserter(accepted.refused));
  }
  return accepted;
}

}  // namespace crucible::runtime
