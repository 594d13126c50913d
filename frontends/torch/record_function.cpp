// An op above autograd is one call with all its arguments; composites, autocast and Python make others out of it, which
// come by themselves. So each call is either recorded with all that happens in it, or let through to what it calls.
#include "frontends/torch/record_function.hpp"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <vector>

#include "frontends/torch/boxed_values.hpp"
#include "frontends/torch/op_scope.hpp"

namespace crucible::recorder {

namespace {

bool observing = false;  // which path is installed; changed under the GIL, between recordings
thread_local at::CallbackHandle callback = at::INVALID_CALLBACK_HANDLE;
thread_local bool inside_recorded_op = false;

/// An op that runs: from its start callback to its end callback.
struct Observed final : at::ObserverContext {
  Observed(const Operator& observed_op, int exceptions)
      : op(observed_op), exceptions_before(exceptions), scope(observed_op) {
    inside_recorded_op = true;
  }
  ~Observed() override { inside_recorded_op = false; }
  const Operator& op;
  int exceptions_before;
  OpScope scope;
};

void collect_keys(const c10::IValue& value, c10::DispatchKeySet& keys) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) keys = keys | value.toTensor().key_set();
  } else if (value.isTensorList() || value.isOptionalTensorList() || value.isList()) {
    for (const c10::IValue& element : value.toListRef()) collect_keys(element, keys);
  }
}

/// True when the call is handed on as other calls: those are recorded, not this one.
bool is_handed_on(const Operator& op, c10::ArrayRef<const c10::IValue> inputs) {
  using K = c10::DispatchKey;
  c10::DispatchKeySet keys;
  for (const c10::IValue& input : inputs) collect_keys(input, keys);
  keys = (keys | c10::impl::tls_local_dispatch_key_set().included_) - c10::impl::tls_local_dispatch_key_set().excluded_;
  if (keys.has(K::Python) || keys.has(K::PythonTLSSnapshot) || keys.has(K::FuncTorchDynamicLayerFrontMode) ||
      keys.has(K::Functionalize) || keys.has(K::FuncTorchBatched) || keys.has(K::FuncTorchGradWrapper)) {
    return true;
  }
  for (const K autocast : {K::AutocastCPU, K::AutocastCUDA}) {
    if (keys.has(autocast) && op.handle.hasKernelForDispatchKey(autocast)) return true;
  }
  if (!op.composite) return false;
  const c10::DispatchKeySet backend = keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, K::ADInplaceOrView);
  return !op.handle.hasKernelForDispatchKey(backend.highestPriorityTypeId());
}

std::unique_ptr<at::ObserverContext> op_starts(const at::RecordFunction& function) {
  Recorder& recorder = Recorder::instance();
  if (inside_recorded_op || !recorder.is_recording()) return nullptr;
  if (c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::Fake)) return nullptr;  // the recorder's own op
  const auto name = function.operator_name();
  const auto handle = name.has_value() ? c10::Dispatcher::singleton().findSchema(*name) : std::nullopt;
  if (!handle.has_value()) return nullptr;
  const Operator& op = recorder.operators().find_or_add(*handle);
  if (op.control || is_handed_on(op, function.inputs())) return nullptr;
  auto observed = std::make_unique<Observed>(op, std::uncaught_exceptions());
  if (!observed->scope.is_open()) return nullptr;
  const std::vector<c10::IValue> inputs(function.inputs().begin(), function.inputs().end());
  encode_arguments(observed->scope, handle->schema(), inputs);
  observed->scope.before_run();
  return observed;
}

/// Results as an op below autograd returns them: fresh ones require no gradient yet.
std::vector<c10::IValue> below_autograd(const c10::FunctionSchema& schema, const std::vector<c10::IValue>& outputs) {
  const std::size_t count = schema.returns().size();
  std::vector<c10::IValue> results(outputs.end() - static_cast<std::ptrdiff_t>(std::min(count, outputs.size())),
                                   outputs.end());
  for (std::size_t i = 0; i < results.size(); ++i) {
    const auto* alias = schema.returns()[i].alias_info();
    const bool is_argument = alias != nullptr && alias->isWrite();
    if (is_argument || !results[i].isTensor() || !results[i].toTensor().defined() ||
        !results[i].toTensor().requires_grad())
      continue;
    results[i] = results[i].toTensor().tensor_data();
  }
  return results;
}

void op_ends(const at::RecordFunction& function, at::ObserverContext* context) {
  if (context == nullptr) return;
  auto& observed = *static_cast<Observed*>(context);
  if (std::uncaught_exceptions() > observed.exceptions_before) return;  // it threw: the scope leaves no record
  const c10::FunctionSchema& schema = observed.op.handle.schema();
  const std::vector<c10::IValue> results = below_autograd(schema, function.outputs());
  if (!observed.scope.after_run()) return;
  encode_results(observed.scope, schema, results);
  observed.scope.finish();
}

}  // namespace

void use_observers(bool observe) { observing = observe; }

const char* unseen_by_observers() {
  return observing ? "copies that autograd makes inside an op (observers see ops from above autograd)" : nullptr;
}

void switch_thread(bool on) {
  if (!observing) return c10::impl::tls_set_dispatch_key_included(c10::DispatchKey::Fake, on);
  if (callback != at::INVALID_CALLBACK_HANDLE) at::removeCallback(callback);
  callback = at::INVALID_CALLBACK_HANDLE;
  if (!on) return;
  callback = at::addThreadLocalCallback(at::RecordFunctionCallback(&op_starts, &op_ends)
                                            .needsInputs(true)
                                            .needsOutputs(true)
                                            .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
}

bool is_thread_on() {
  if (observing) return callback != at::INVALID_CALLBACK_HANDLE;
  return c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::Fake);
}

}  // namespace crucible::recorder
