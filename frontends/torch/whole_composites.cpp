// The composites that write memory by themselves: see whole_composites.hpp.
#include "frontends/torch/whole_composites.hpp"

#include <ATen/TensorSubclassLikeUtils.h>
#include <ATen/core/stack.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <optional>
#include <string_view>

namespace crucible::recorder {

namespace {

/// The framework takes its loop for a plain CPU tensor from which no gradient is wanted; of all others it calls
/// max_pool1d_with_indices, and of quantized ones an operator of theirs.
bool pools_by_itself(c10::ArrayRef<c10::IValue> arguments) {
  if (arguments.empty() || !arguments[0].isTensor()) return false;
  const at::Tensor& input = arguments[0].toTensor();
  return input.defined() && input.device().is_cpu() && input.layout() == c10::kStrided && !input.is_quantized() &&
         !(input.requires_grad() && c10::GradMode::is_enabled()) && !input._fw_grad(0).defined() && !at::isTensorSubclassLike(input);
}

struct WholeComposite {
  std::string_view name;
  bool (*writes)(c10::ArrayRef<c10::IValue> arguments);
};

constexpr WholeComposite kWholeComposites[] = {
    {"aten::max_pool1d", pools_by_itself},
};

/// Stands above autograd, where the dispatcher would run the composite kernel at once: goes on to the recorder's key, which lies
/// below, for calls that write by themselves. All others, and all while nothing is recorded, run as without it.
void from_autograd(const c10::OperatorHandle& handle, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const auto local = c10::impl::tls_local_dispatch_key_set();
  if (local.included_.has(c10::DispatchKey::Fake) && !local.excluded_.has(c10::DispatchKey::Fake)) {
    const auto arguments = torch::jit::last(*stack, handle.schema().arguments().size());
    for (const WholeComposite& composite : kWholeComposites) {
      if (composite.name != handle.schema().name() || !composite.writes(arguments)) continue;
      return handle.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, c10::DispatchKey::ADInplaceOrView), stack);
    }
  }
  handle.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);  // it has no kernel there but the composite one
}

}  // namespace

bool writes_by_itself(const Operator& op, c10::ArrayRef<c10::IValue> arguments) {
  for (const WholeComposite& composite : kWholeComposites) {
    if (composite.name == op.name) return composite.writes(arguments);
  }
  return false;
}

void register_whole_composites(std::vector<c10::RegistrationHandleRAII>& handles) {
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const WholeComposite& composite : kWholeComposites) {
    const c10::OperatorName name(std::string(composite.name), "");
    const auto op = dispatcher.findSchema(name);
    // A version in which it is an operator like others needs nothing, and one with a kernel of its own there is left alone.
    if (!op.has_value() || !op->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) ||
        op->hasKernelForDispatchKey(c10::DispatchKey::AutogradCPU) || op->hasKernelForDispatchKey(c10::DispatchKey::CPU)) {
      continue;
    }
    handles.push_back(dispatcher.registerImpl(name, c10::DispatchKey::AutogradCPU,
                                              c10::KernelFunction::makeFromBoxedFunction<&from_autograd>(), std::nullopt, nullptr,
                                              "crucible recorder"));
  }
}

}  // namespace crucible::recorder
