// What the framework's own things look like: tensors, and the settings that decide which ops run. The only file of the
// guards that includes the framework's headers.
#include <ATen/Context.h>
#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/SavedTensorHooks.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/functorch/DynamicLayer.h>
#include <Python.h>
#include <c10/core/AutogradState.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include <algorithm>
#include <cstring>
#include <memory>

#include "frontends/accelerate/guards.hpp"

namespace crucible::accelerate {

namespace {

const THPVariable* variable(PyObject* tensor) { return reinterpret_cast<const THPVariable*>(tensor); }

bool has_entries(PyObject* hooks) {
  return hooks != nullptr && hooks != Py_None && (!PyDict_Check(hooks) || PyDict_GET_SIZE(hooks) > 0);
}

const torch::autograd::AutogradMeta* autograd(const c10::TensorImpl& impl) {
  return static_cast<const torch::autograd::AutogradMeta*>(const_cast<c10::TensorImpl&>(impl).autograd_meta());
}

/// Whether a hook would run in a backward that reaches the tensor. One that was removed leaves an empty table behind.
bool has_hooks(PyObject* tensor, const torch::autograd::AutogradMeta* meta) {
  if (has_entries(variable(tensor)->backward_hooks) || has_entries(variable(tensor)->post_accumulate_grad_hooks)) {
    return true;
  }
  if (meta == nullptr) return false;
  if (meta->cpp_hooks_list_ != nullptr) return true;
  // A table in Python keeps one entry here even when it is empty.
  if (meta->hooks_.size() > (variable(tensor)->backward_hooks == nullptr ? 0U : 1U)) return true;
  if (meta->grad_accumulator_.use_count() == 0) return false;
  const std::shared_ptr<torch::autograd::Node> accumulator = meta->grad_accumulator_.lock();
  return accumulator != nullptr && (!accumulator->post_hooks().empty() || !accumulator->pre_hooks().empty());
}

}  // namespace

TensorLook TensorLook::of(PyObject* tensor) {
  TensorLook look;
  const c10::TensorImpl& impl = *variable(tensor)->cdata.unsafeGetTensorImpl();
  look.impl = &impl;
  look.keys = impl.key_set().raw_repr();
  look.dtype = static_cast<std::uint16_t>(c10::typeMetaToScalarType(impl.dtype()));
  if (impl.has_storage()) {
    const c10::StorageImpl* storage = impl.unsafe_storage().unsafeGetStorageImpl();
    look.storage = storage;
    look.data = storage->data();
    look.storage_bytes = storage->sym_nbytes().is_heap_allocated() ? 0 : storage->nbytes();
  }
  if (!impl.has_symbolic_sizes_strides()) {
    look.offset = impl.storage_offset();
    const c10::IntArrayRef sizes = impl.sizes();
    const bool strided = impl.layout() == c10::kStrided;
    look.dims = static_cast<std::uint16_t>(sizes.size());
    std::vector<std::int64_t> shape(sizes.begin(), sizes.end());
    if (strided) shape.insert(shape.end(), impl.strides().begin(), impl.strides().end());
    if (sizes.size() > kInlineDims) {
      look.long_shape = std::move(shape);
    } else {
      std::copy(shape.begin(), shape.end(), look.shape);
    }
  }
  const torch::autograd::AutogradMeta* meta = autograd(impl);
  look.meta = meta;
  look.requires_grad = impl.requires_grad();
  look.leaf = meta == nullptr || meta->grad_fn_ == nullptr;
  look.retains_grad = meta != nullptr && meta->retains_grad_;
  look.hooks = has_hooks(tensor, meta);
  return look;
}

bool TensorLook::holds(PyObject* tensor) const {
  const c10::TensorImpl& now = *variable(tensor)->cdata.unsafeGetTensorImpl();
  if (&now != impl || now.key_set().raw_repr() != keys) return false;
  if (storage == nullptr || dims > kInlineDims || now.has_symbolic_sizes_strides()) return difference(tensor).empty();
  if (!now.has_storage() || now.unsafe_storage().unsafeGetStorageImpl() != storage) return false;
  const c10::StorageImpl& bytes = *static_cast<const c10::StorageImpl*>(storage);
  if (bytes.data() != data || bytes.nbytes() != storage_bytes) return false;
  const c10::IntArrayRef sizes = now.sizes();
  if (now.storage_offset() != offset || sizes.size() != dims ||
      static_cast<std::uint16_t>(c10::typeMetaToScalarType(now.dtype())) != dtype) {
    return false;
  }
  const c10::IntArrayRef strides = now.strides();
  for (std::size_t i = 0; i < dims; ++i) {
    if (sizes[i] != shape[i] || strides[i] != shape[dims + i]) return false;
  }
  const torch::autograd::AutogradMeta* meta = autograd(now);
  if (meta == nullptr) return !requires_grad && leaf && !retains_grad && hooks == has_hooks(tensor, nullptr);
  return (meta->requires_grad_ || meta->grad_fn_ != nullptr) == requires_grad && (meta->grad_fn_ == nullptr) == leaf &&
         meta->retains_grad_ == retains_grad && has_hooks(tensor, meta) == hooks;
}

std::string TensorLook::difference(PyObject* tensor) const {
  const TensorLook now = of(tensor);
  if (now.impl != impl) return "is another tensor";
  if (now.dims != dims || std::memcmp(now.shape, shape, sizeof shape) != 0 || now.long_shape != long_shape) {
    return "has other sizes or strides";
  }
  if (now.dtype != dtype) return "has another dtype";
  if (now.storage != storage || now.data != data || now.offset != offset || now.storage_bytes != storage_bytes) {
    return "lies in other memory";
  }
  if (now.requires_grad != requires_grad) return now.requires_grad ? "requires a gradient now" : "requires no gradient";
  if (now.leaf != leaf) return now.leaf ? "is a leaf now" : "is the result of a graph now";
  if (now.hooks != hooks) return now.hooks ? "has a hook now" : "has no hook any more";
  if (now.retains_grad != retains_grad) return "keeps its gradient, or does not any more";
  if (now.keys != keys) return "has other dispatch keys (a conjugate, a negative, an inference tensor, another layout)";
  return "";
}

namespace {

constexpr const char* kSettings[TorchState::kCount] = {
    "grad mode",
    "inference mode",
    "autocast on the CPU",
    "autocast's dtype on the CPU",
    "autocast on CUDA",
    "autocast's dtype on CUDA",
    "autocast's cache",
    "the default dtype",
    "the deterministic flag",
    "the deterministic flag's warn_only",
    "torch.utils.deterministic.fill_uninitialized_memory",
    "anomaly mode",
    "anomaly mode's check of NaN",
    "the number of dispatch modes",
    "the number of function modes (torch.set_default_device is one)",
    "the state of __torch_function__",
    "the number of saved_tensors_hooks",
    "the included dispatch keys (functorch, recording)",
    "the excluded dispatch keys",
    "the precision of float32 matrix products",
    "torch.backends.mkldnn.enabled",
    "the flash kernel of attention",
    "the memory-efficient kernel of attention",
    "the math kernel of attention",
    "flushing of denormals",
    "the number of functorch's levels",
    "forward-mode gradients",
    "view replay",
    "multithreaded backward",
};

}  // namespace

TorchState TorchState::now() {
  const at::Context& context = at::globalContext();
  const c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  TorchState state;
  std::size_t next = 0;
  const auto add = [&](auto value) { state.values[next++] = static_cast<std::int64_t>(value); };
  add(at::GradMode::is_enabled());
  add(c10::InferenceMode::is_enabled());
  add(at::autocast::is_autocast_enabled(at::kCPU));
  add(at::autocast::get_autocast_dtype(at::kCPU));
  add(at::autocast::is_autocast_enabled(at::kCUDA));
  add(at::autocast::get_autocast_dtype(at::kCUDA));
  add(at::autocast::is_autocast_cache_enabled());
  add(c10::typeMetaToScalarType(c10::get_default_dtype()));
  add(context.deterministicAlgorithms());
  add(context.deterministicAlgorithmsWarnOnly());
  add(context.deterministicFillUninitializedMemory());
  add(torch::autograd::AnomalyMode::is_enabled());
  add(torch::autograd::AnomalyMode::should_check_nan());
  add(c10::impl::TorchDispatchModeTLS::stack_len());
  add(at::impl::PythonTorchFunctionTLS::stack_len());
  add(at::impl::PythonTorchFunctionTLS::get_disabled_state());
  add(at::SavedTensorDefaultHooks::get_tls_state().stack.size());
  // Without the recorder's own key: calls are observed with it.
  add(keys.included_.remove(c10::DispatchKey::Fake).raw_repr());
  add(keys.excluded_.raw_repr());
  add(context.float32MatmulPrecision());
  add(context.userEnabledMkldnn());
  add(context.userEnabledFlashSDP());
  add(context.userEnabledMemEfficientSDP());
  add(context.userEnabledMathSDP());
#if defined(__x86_64__)
  add(_mm_getcsr() & 0x8040U);
#else
  add(0);
#endif
  add(at::functorch::getDynamicLayerStack().size());
  add(c10::AutogradState::get_tls_state().get_fw_grad_mode());
  add(c10::AutogradState::get_tls_state().get_view_replay_enabled());
  add(c10::AutogradState::get_tls_state().get_multithreading_enabled());
  return state;
}

std::optional<std::string> TorchState::difference(const TorchState& then) const {
  for (std::size_t i = 0; i < kCount; ++i) {
    if (values[i] == then.values[i]) continue;
    return std::string(kSettings[i]) + ": was " + std::to_string(then.values[i]) + ", is " + std::to_string(values[i]);
  }
  return std::nullopt;
}

bool Guards::watch_tensor(PyObject* tensor, const char* path) {
  if (!THPVariable_Check(tensor)) {
    PyErr_Format(PyExc_TypeError, "%s is no tensor but a %s", path, Py_TYPE(tensor)->tp_name);
    return false;
  }
  Py_INCREF(tensor);
  tensors_.push_back({.tensor = tensor, .type = Py_TYPE(tensor), .look = TensorLook::of(tensor)});
  tensor_paths_.emplace_back(path);
  return true;
}

}  // namespace crucible::accelerate
