// The composites that write memory by themselves: see whole_composites.hpp.
#include "frontends/torch/whole_composites.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/TensorSubclassLikeUtils.h>
#include <ATen/core/Reduction.h>
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
         !(input.requires_grad() && c10::GradMode::is_enabled()) && !input._fw_grad(0).defined() &&
         !at::isTensorSubclassLike(input);
}

struct WholeComposite {
  std::string_view name;
  bool (*writes)(c10::ArrayRef<c10::IValue> arguments);
};

constexpr WholeComposite kWholeComposites[] = {
    {"aten::max_pool1d", pools_by_itself},
};

bool is_recording() {
  const auto local = c10::impl::tls_local_dispatch_key_set();
  return local.included_.has(c10::DispatchKey::Fake) && !local.excluded_.has(c10::DispatchKey::Fake);
}

/// Stands above autograd, where the dispatcher would run the composite kernel at once: goes on to the recorder's key,
/// which lies below, for calls that write by themselves. All others, and all while nothing is recorded, run as without
/// it.
void from_autograd(const c10::OperatorHandle& handle, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  if (is_recording()) {
    const auto arguments = torch::jit::last(*stack, handle.schema().arguments().size());
    for (const WholeComposite& composite : kWholeComposites) {
      if (composite.name != handle.schema().name() || !composite.writes(arguments)) continue;
      return handle.redispatchBoxed(
          keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, c10::DispatchKey::ADInplaceOrView), stack);
    }
  }
  handle.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU),
                         stack);  // it has no kernel there but the composite one
}

/// Numbers of a list as a tensor, by operators: at::tensor() writes them below all of them.
at::Tensor tensor_of(const std::vector<std::int64_t>& numbers, const at::TensorOptions& options) {
  if (numbers.empty()) return at::zeros({0}, options);
  std::vector<at::Tensor> parts;
  for (const std::int64_t number : numbers) parts.push_back(at::full({}, number, options));
  return at::stack(parts);
}

/// ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity): the mean divides by a
/// tensor that the framework fills with the targets' lengths by itself. Here the losses come from the composite without
/// reduction, and the mean is made of them as the framework makes it (LossCTC.cpp), with lengths that operators made.
void ctc_loss(const c10::OperatorHandle& handle, c10::DispatchKeySet to_composite, torch::jit::Stack* stack) {
  constexpr std::size_t kArguments = 7, kTargetLengths = 3, kReduction = 5;
  const auto composite = [&] { handle.redispatchBoxed(to_composite, stack); };
  const bool is_mean = torch::jit::peek(*stack, kReduction, kArguments).toInt() == at::Reduction::Mean;
  const c10::IValue lengths = torch::jit::peek(*stack, kTargetLengths, kArguments);
  const at::Tensor& scores = torch::jit::peek(*stack, 0, kArguments).toTensor();
  if (!is_recording() || !is_mean || !scores.is_cpu() ||
      (lengths.isTensor() && !at::isIntegralType(lengths.toTensor().scalar_type(), false)))
    return composite();
  torch::jit::peek(*stack, kReduction, kArguments) = c10::IValue(static_cast<std::int64_t>(at::Reduction::None));
  composite();
  const at::Tensor losses = torch::jit::pop(*stack).toTensor();
  const at::Tensor counts =
      lengths.isTensor() ? lengths.toTensor().to(losses.options()) : tensor_of(lengths.toIntVector(), losses.options());
  torch::jit::push(*stack, (losses / counts.clamp_min(1)).mean());
}

/// _pad_packed_sequence(data, batch_sizes, batch_first, padding_value, total_length): the composite fills the lengths
/// that it returns by itself. Here they are what operators count of the batches.
void pad_packed(const c10::OperatorHandle& handle, c10::DispatchKeySet to_composite, torch::jit::Stack* stack) {
  constexpr std::size_t kArguments = 5, kBatchSizes = 1, kBatchFirst = 2;
  const at::Tensor batch_sizes = torch::jit::peek(*stack, kBatchSizes, kArguments).toTensor();
  const bool batch_first = torch::jit::peek(*stack, kBatchFirst, kArguments).toBool();
  handle.redispatchBoxed(to_composite, stack);
  if (!is_recording()) return;
  torch::jit::drop(*stack, 1);
  const std::int64_t sequences = torch::jit::peek(*stack, 0, 1).toTensor().size(batch_first ? 0 : 1);
  torch::jit::push(*stack, batch_sizes.unsqueeze(1).gt(at::arange(sequences, batch_sizes.options())).sum(0));
}

void pad_packed_from_autograd(const c10::OperatorHandle& handle, c10::DispatchKeySet, torch::jit::Stack* stack) {
  pad_packed(handle, c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
}

void ctc_loss_from_autograd(const c10::OperatorHandle& handle, c10::DispatchKeySet, torch::jit::Stack* stack) {
  ctc_loss(handle, c10::DispatchKeySet(c10::DispatchKey::CPU), stack);  // it has no kernel there but the composite one
}

}  // namespace

bool writes_by_itself(const Operator& op, c10::ArrayRef<c10::IValue> arguments) {
  for (const WholeComposite& composite : kWholeComposites) {
    if (composite.name == op.name) return composite.writes(arguments);
  }
  return false;
}

bool run_by_operators(const c10::OperatorHandle& handle, c10::DispatchKeySet below, torch::jit::Stack* stack) {
  const std::string& name = handle.schema().name();
  if (name == "aten::ctc_loss") {
    ctc_loss(handle, below, stack);
  } else if (name == "aten::_pad_packed_sequence") {
    pad_packed(handle, below, stack);
  } else {
    return false;
  }
  return true;
}

void register_whole_composites(std::vector<c10::RegistrationHandleRAII>& handles) {
  auto& dispatcher = c10::Dispatcher::singleton();
  const auto stand_above = [&](const c10::OperatorName& name, c10::KernelFunction kernel) {
    const auto op = dispatcher.findSchema(name);
    // A version in which it is an operator like others needs nothing, and one with a kernel of its own there is left
    // alone.
    if (!op.has_value() || !op->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) ||
        op->hasKernelForDispatchKey(c10::DispatchKey::AutogradCPU) ||
        op->hasKernelForDispatchKey(c10::DispatchKey::CPU)) {
      return;
    }
    handles.push_back(dispatcher.registerImpl(name, c10::DispatchKey::AutogradCPU, std::move(kernel), std::nullopt,
                                              nullptr, "crucible recorder"));
  };
  for (const WholeComposite& composite : kWholeComposites)
    stand_above({std::string(composite.name), ""}, c10::KernelFunction::makeFromBoxedFunction<&from_autograd>());
  for (const char* overload : {"IntList", "Tensor"})
    stand_above({"aten::ctc_loss", overload}, c10::KernelFunction::makeFromBoxedFunction<&ctc_loss_from_autograd>());
  stand_above({"aten::_pad_packed_sequence", ""},
              c10::KernelFunction::makeFromBoxedFunction<&pad_packed_from_autograd>());
}

}  // namespace crucible::recorder
