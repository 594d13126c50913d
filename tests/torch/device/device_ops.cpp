// Ops of the test device: the processor's own kernels on opened memory. Also its Python module, `_apart`.
#include <ATen/EmptyTensor.h>
#include <ATen/Functions.h>
#include <ATen/InferSize.h>
#include <ATen/TensorOperators.h>
#include <ATen/TensorUtils.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/library.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "device.hpp"

namespace crucible::test_device {

namespace {

/// What runs under it is the processor's: neither recorded nor differentiated.
struct OnProcessor {
  c10::impl::ExcludeDispatchKeyGuard guard{
      c10::DispatchKeySet({c10::DispatchKey::Fake, c10::DispatchKey::Python, c10::DispatchKey::ADInplaceOrView}) |
      c10::autograd_dispatch_keyset};
};

bool is_here(const at::Tensor& tensor) { return tensor.defined() && tensor.device().type() == kType; }

/// The same memory as a tensor of the processor; it is to be opened before anyone looks.
at::Tensor as_host(const at::Tensor& tensor) {
  if (!is_here(tensor)) return tensor;
  at::Tensor host = at::from_blob(tensor.unsafeGetTensorImpl()->mutable_data(), tensor.sizes(), tensor.strides(),
                                  at::TensorOptions().dtype(tensor.dtype()).device(at::kCPU));
  if (tensor.is_conj()) host._set_conj(true);
  if (tensor.is_neg()) host._set_neg(true);
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) host.unsafeGetTensorImpl()->set_wrapped_number(true);
  return host;
}

at::Tensor make_view(const at::Tensor& of, c10::IntArrayRef sizes, c10::IntArrayRef strides, std::int64_t offset,
                     caffe2::TypeMeta dtype) {
  at::Tensor view =
      at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(of.storage()), of.key_set(), dtype);
  view.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, offset);
  return view;
}

at::Tensor empty_here(c10::DeviceIndex device, c10::IntArrayRef sizes, c10::IntArrayRef strides, c10::ScalarType type) {
  const c10::DeviceIndex before = current_device();
  set_device(device);
  at::Tensor made = at::detail::empty_strided_generic(sizes, strides, allocator(),
                                                      c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), type);
  set_device(before);
  return made;
}

/// One op on the processor: arguments in, results out, memory open meanwhile.
class HostCall {
 public:
  HostCall(const c10::OperatorHandle& op, torch::jit::Stack arguments) : op_(op), device_(-1) {
    given_ = arguments;
    const auto& schema = op_.schema();
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const auto* alias = schema.arguments()[i].alias_info();
      is_written_ = alias != nullptr && alias->isWrite();
      is_out_ = schema.arguments()[i].is_out();
      stack_.push_back(convert(arguments[i]));
    }
    if (device_ < 0) device_ = current_device();
  }
  c10::DeviceIndex device() const { return device_; }

  torch::jit::Stack run() {
    torch::jit::Stack stack = stack_;  // a captured call runs again and again
    {
      Opened opened;
      for (const auto& [here, host] : pairs_) opened.add(here.unsafeGetTensorImpl()->storage().data());
      const OnProcessor plain;
      op_.callBoxed(&stack);
      for (auto& [here, host] : outs_) {
        if (here.sizes() != host.sizes()) here.resize_(host.sizes());
        if (host.numel() == 0) continue;
        Opened target(here.unsafeGetTensorImpl()->storage().data());
        as_host(here).copy_(host);
      }
    }
    torch::jit::Stack results;
    for (const c10::IValue& value : stack) results.push_back(back(value));
    return results;
  }

  static c10::IValue written(const c10::FunctionSchema& schema, const torch::jit::Stack& arguments) {
    std::size_t i = 0;
    while (schema.arguments()[i].alias_info() == nullptr || !schema.arguments()[i].alias_info()->isWrite()) ++i;
    return arguments[i];
  }

  /// What comes back is known before it runs: the arguments that it writes.
  static bool writes_in_place(const c10::FunctionSchema& schema, const torch::jit::Stack& arguments) {
    if (schema.returns().size() > 1 || schema.name().starts_with("aten::resize") ||
        schema.name().starts_with("aten::set_")) {
      return false;
    }
    std::size_t written = 0;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const auto* alias = schema.arguments()[i].alias_info();
      if (alias == nullptr || !alias->isWrite()) continue;
      // The framework runs many in-place ops as ones into an `out` that is an argument, too: of that the size is known.
      const auto is_it = [&](const c10::IValue& other) {
        return &other != &arguments[i] && other.isTensor() && other.toTensor().is_same(arguments[i].toTensor());
      };
      if (schema.arguments()[i].is_out() && !(arguments[i].isTensor() && std::ranges::any_of(arguments, is_it)))
        return false;
      ++written;
    }
    return written == 1 && (schema.returns().empty() || (schema.returns()[0].alias_info() != nullptr &&
                                                         schema.returns()[0].alias_info()->isWrite()));
  }

 private:
  at::Tensor convert(const at::Tensor& tensor) {
    if (!is_here(tensor)) return tensor;
    if (device_ < 0 && tensor.dim() > 0) device_ = tensor.device().index();
    if (is_out_) {  // it may be of another size
      at::Tensor host = at::empty({0}, at::TensorOptions().dtype(tensor.dtype()));
      outs_.emplace_back(tensor, host);
      return host;
    }
    for (const auto& [here, host] : pairs_) {
      if (here.is_same(tensor)) return host;
    }
    at::Tensor host = as_host(tensor);
    pairs_.emplace_back(tensor, host);
    return host;
  }

  c10::IValue convert(const c10::IValue& value) {
    if (value.isTensor()) return convert(value.toTensor());
    if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& element : value.toTensorVector()) list.push_back(convert(element));
      return list;
    }
    if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const std::optional<at::Tensor>& element : value.toOptionalTensorVector())
        list.push_back(element.has_value() ? std::optional(convert(*element)) : std::nullopt);
      return list;
    }
    if (value.isDevice() && value.toDevice().type() == kType) {
      device_ = value.toDevice().has_index() ? value.toDevice().index() : current_device();
      return c10::Device(c10::kCPU);
    }
    return value;
  }

  at::Tensor back(const at::Tensor& host) {
    if (!host.defined()) return host;
    for (const auto& list : {&pairs_, &outs_}) {
      for (const auto& [here, known] : *list) {
        if (known.is_same(host)) return here;
      }
    }
    const char* at = static_cast<const char*>(host.unsafeGetTensorImpl()->data());
    for (const auto& [here, known] : pairs_) {
      const char* base = static_cast<const char*>(here.unsafeGetTensorImpl()->storage().data());
      if (base == nullptr || at < base || at >= base + here.unsafeGetTensorImpl()->storage().nbytes()) continue;
      return make_view(here, host.sizes(), host.strides(), (at - base) / static_cast<std::int64_t>(host.itemsize()),
                       host.dtype());
    }
    if (host.layout() != c10::kStrided) return host;
    at::Tensor made = empty_here(device_, host.sizes(), host.strides(), host.scalar_type());
    if (host.numel() != 0) {
      const Opened target(made.unsafeGetTensorImpl()->data());
      const OnProcessor plain;
      as_host(made).copy_(host);
    }
    if (host.unsafeGetTensorImpl()->is_wrapped_number()) made.unsafeGetTensorImpl()->set_wrapped_number(true);
    return made;
  }

  c10::IValue back(const c10::IValue& value) {
    if (value.isTensor()) return back(value.toTensor());
    if (!value.isTensorList()) return value;
    c10::List<at::Tensor> list;
    for (const at::Tensor& element : value.toTensorVector()) list.push_back(back(element));
    return list;
  }

  c10::OperatorHandle op_;
  c10::DeviceIndex device_;
  torch::jit::Stack given_, stack_;
  std::vector<std::pair<at::Tensor, at::Tensor>> pairs_, outs_;
  bool is_written_ = false, is_out_ = false;
};

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const std::size_t count = op.schema().arguments().size();
  torch::jit::Stack arguments(stack->end() - static_cast<std::ptrdiff_t>(count), stack->end());
  const auto call = std::make_shared<HostCall>(op, arguments);
  const c10::Stream stream = current_stream(call->device());
  torch::jit::Stack results;
  if ((is_late() || is_capturing()) && HostCall::writes_in_place(op.schema(), arguments)) {
    enqueue(stream, [call] { (void)call->run(); });
    if (!op.schema().returns().empty()) results.push_back(HostCall::written(op.schema(), arguments));
  } else {
    wait_for(stream);
    results = call->run();
  }
  torch::jit::drop(*stack, count);
  stack->insert(stack->end(), results.begin(), results.end());
}

at::Tensor empty(c10::IntArrayRef sizes, std::optional<c10::ScalarType> dtype, std::optional<c10::Layout>,
                 std::optional<c10::Device> device, std::optional<bool>, std::optional<c10::MemoryFormat> format) {
  const c10::DeviceIndex before = current_device();
  if (device.has_value()) set_device(device->index());
  at::Tensor made = at::detail::empty_generic(sizes, allocator(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                              c10::dtype_or_default(dtype), format);
  set_device(before);
  return made;
}

at::Tensor empty_strided(c10::IntArrayRef sizes, c10::IntArrayRef strides, std::optional<c10::ScalarType> dtype,
                         std::optional<c10::Layout>, std::optional<c10::Device> device, std::optional<bool>) {
  const bool is_said = device.has_value() && device->has_index();
  return empty_here(is_said ? device->index() : current_device(), sizes, strides, c10::dtype_or_default(dtype));
}

at::Tensor copy_from(const at::Tensor& source, const at::Tensor& target, bool) {
  if (source.numel() == 0) return target;
  const auto copy = [](const at::Tensor& from, const at::Tensor& to) {
    Opened opened(is_here(from) ? from.unsafeGetTensorImpl()->storage().data() : nullptr);
    if (is_here(to)) opened.add(to.unsafeGetTensorImpl()->storage().data());
    const OnProcessor plain;
    as_host(to).copy_(as_host(from));
  };
  if (!is_here(target)) {
    ++counts().copies_to_host;
    wait_for(current_stream(source.device().index()));
    copy(source, target);
    return target;
  }
  if (is_here(source)) {
    if (source.device() != target.device()) wait_for(current_stream(source.device().index()));
    enqueue(current_stream(target.device().index()), [copy, source, target] { copy(source, target); });
    return target;
  }
  ++counts().copies_to_device;
  const OnProcessor plain;
  const at::Tensor kept = is_late() || is_capturing() ? source.clone() : source;
  enqueue(current_stream(target.device().index()), [copy, kept, target] { copy(kept, target); });
  return target;
}

at::Tensor copy_from_and_resize(const at::Tensor& source, const at::Tensor& target) {
  if (target.numel() != source.numel()) target.resize_(source.sizes());
  return copy_from(source, target, false);
}

at::Tensor as_strided(const at::Tensor& tensor, c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides,
                      std::optional<c10::SymInt> offset) {
  return make_view(tensor, C10_AS_INTARRAYREF_SLOW(sizes), C10_AS_INTARRAYREF_SLOW(strides),
                   offset ? offset->expect_int() : tensor.storage_offset(), tensor.dtype());
}

at::Tensor reshape_alias(const at::Tensor& tensor, c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides) {
  return as_strided(tensor, sizes, strides, std::nullopt);
}

at::Tensor view(const at::Tensor& tensor, c10::SymIntArrayRef sizes) {
  const auto inferred = at::infer_size_dv(C10_AS_INTARRAYREF_SLOW(sizes), tensor.numel());
  const auto strides = at::detail::computeStride(tensor.sizes(), tensor.strides(), inferred);
  TORCH_CHECK(strides.has_value(), "view size is not compatible with input tensor's size and stride");
  return make_view(tensor, inferred, *strides, tensor.storage_offset(), tensor.dtype());
}

at::Tensor& set_storage(at::Tensor& tensor, c10::Storage storage) {
  const auto elements = static_cast<std::int64_t>(storage.nbytes() / tensor.itemsize());
  tensor.unsafeGetTensorImpl()->set_storage_keep_dtype(std::move(storage));
  tensor.unsafeGetTensorImpl()->set_storage_offset(0);
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous({elements});
  return tensor;
}

at::Tensor& set_part(at::Tensor& tensor, c10::Storage storage, c10::SymInt offset, c10::SymIntArrayRef sizes,
                     c10::SymIntArrayRef strides) {
  tensor.unsafeGetTensorImpl()->set_storage_keep_dtype(std::move(storage));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(C10_AS_INTARRAYREF_SLOW(sizes), C10_AS_INTARRAYREF_SLOW(strides),
                                                      offset.expect_int());
  return tensor;
}

at::Tensor& set_tensor(at::Tensor& tensor, const at::Tensor& source) {
  tensor.unsafeGetTensorImpl()->set_storage_keep_dtype(source.storage());
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(source.sizes(), source.strides(), source.storage_offset());
  return tensor;
}

at::Tensor& set_nothing(at::Tensor& tensor) {
  return set_storage(tensor, c10::Storage(c10::Storage::use_byte_size_t(), 0, allocator(), true));
}

const at::Tensor& resize(const at::Tensor& tensor, c10::SymIntArrayRef sizes, std::optional<c10::MemoryFormat> format) {
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(C10_AS_INTARRAYREF_SLOW(sizes));
  if (format.has_value() && *format != c10::MemoryFormat::Preserve)
    tensor.unsafeGetTensorImpl()->empty_tensor_restride(*format);
  const std::size_t needed = static_cast<std::size_t>(tensor.numel() + tensor.storage_offset()) * tensor.itemsize();
  if (tensor.storage().nbytes() < needed)
    at::detail::getPrivateUse1Hooks().resizePrivateUse1Bytes(tensor.storage(), needed);
  return tensor;
}

at::Scalar local_scalar(const at::Tensor& tensor) {
  ++counts().copies_to_host;
  wait_for(current_stream(tensor.device().index()));
  const Opened opened(tensor.unsafeGetTensorImpl()->storage().data());
  const OnProcessor plain;
  return at::_local_scalar_dense(as_host(tensor));
}

void record_stream(at::Tensor&, c10::Stream) {}

std::int64_t choose_attention(const at::Tensor&, const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
                              double, bool, std::optional<double>, bool) {
  return static_cast<std::int64_t>(sdp::SDPBackend::math);
}

/// The framework gives cells of recurrent layers to a device whole.
std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell(const at::Tensor& of_input, const at::Tensor& of_hidden,
                                                         const at::Tensor& cell, const std::optional<at::Tensor>& bias,
                                                         const std::optional<at::Tensor>& other_bias) {
  at::Tensor gates = of_input + of_hidden;
  for (const auto& added : {bias, other_bias}) {
    if (added.has_value() && added->defined()) gates = gates + *added;
  }
  const auto parts = gates.chunk(4, 1);
  const at::Tensor in = parts[0].sigmoid(), forget = parts[1].sigmoid(), next = parts[2].tanh(),
                   out = parts[3].sigmoid();
  const at::Tensor after = forget * cell + in * next;
  return {out * after.tanh(), after, at::cat({in, forget, next, out}, 1)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell_backward(const std::optional<at::Tensor>& of_hidden,
                                                                  const std::optional<at::Tensor>& of_cell,
                                                                  const at::Tensor& before, const at::Tensor& after,
                                                                  const at::Tensor& kept, bool has_bias) {
  const auto parts = kept.chunk(4, 1);
  const at::Tensor in = parts[0], forget = parts[1], next = parts[2], out = parts[3], bent = after.tanh();
  const at::Tensor hidden = of_hidden.has_value() && of_hidden->defined() ? *of_hidden : at::zeros_like(after);
  at::Tensor cell = hidden * out * (1 - bent * bent);
  if (of_cell.has_value() && of_cell->defined()) cell = cell + *of_cell;
  const at::Tensor gates = at::cat({cell * next * in * (1 - in), cell * before * forget * (1 - forget),
                                    cell * in * (1 - next * next), hidden * bent * out * (1 - out)},
                                   1);
  return {gates, cell * forget, has_bias ? gates.sum(0) : at::Tensor()};
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", empty);
  library.impl("empty_strided", empty_strided);
  library.impl("_copy_from", copy_from);
  library.impl("_copy_from_and_resize", copy_from_and_resize);
  library.impl("as_strided", as_strided);
  library.impl("_reshape_alias", reshape_alias);
  library.impl("view", view);
  library.impl("set_", set_nothing);
  library.impl("set_.source_Storage", set_storage);
  library.impl("set_.source_Storage_storage_offset", set_part);
  library.impl("set_.source_Tensor", set_tensor);
  library.impl("resize_", resize);
  library.impl("_local_scalar_dense", local_scalar);
  library.impl("record_stream", record_stream);
  library.impl("_fused_sdp_choice", choose_attention);
  library.impl("_thnn_fused_lstm_cell", lstm_cell);
  library.impl("_thnn_fused_lstm_cell_backward_impl", lstm_cell_backward);
  // The framework would divide these further by a device's name.
  for (const char* name :
       {"convolution", "convolution_backward", "_convolution", "native_batch_norm", "_native_multi_head_attention"})
    library.impl(name, torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

/// A kernel that is no op: multiplies what is there by `factor`, on the current stream.
void poke(const at::Tensor& tensor, double factor) {
  enqueue(current_stream(tensor.device().index()), [tensor, factor] {
    const Opened opened(tensor.unsafeGetTensorImpl()->storage().data());
    const OnProcessor plain;
    as_host(tensor).mul_(factor);
  });
}

void fail_later() {
  enqueue(current_stream(-1), [] { TORCH_CHECK(false, "apart: an illegal memory access was encountered"); });
}

/// What a stream was given while it captured.
class Graph {
 public:
  void capture_begin() { begin_capture(); }
  void capture_end() { work_ = end_capture(); }
  void replay() {
    for (const auto& work : work_) enqueue(current_stream(-1), work);
  }

 private:
  std::vector<std::function<void()>> work_;
};

}  // namespace

PYBIND11_MODULE(_apart, module) {
  module.def("poke", &poke);
  module.def("fail_later", &fail_later);
  module.def("late", &set_late);
  module.def("is_current_stream_capturing", &is_capturing);
  module.def("current_device", [] { return static_cast<int>(current_device()); });
  module.def("set_device", [](int device) { set_device(static_cast<c10::DeviceIndex>(device)); });
  module.def("device_count", [] { return static_cast<int>(kDevices); });
  module.def(
      "synchronize", [](int device) { wait_for_device(static_cast<c10::DeviceIndex>(device)); },
      pybind11::arg("device") = -1, pybind11::call_guard<pybind11::gil_scoped_release>());
  module.def("counts", [] {
    pybind11::dict all;
    all["to_host"] = counts().copies_to_host;
    all["to_device"] = counts().copies_to_device;
    all["waits"] = counts().waits;
    return all;
  });
  pybind11::class_<Graph>(module, "Graph")
      .def(pybind11::init())
      .def("capture_begin", &Graph::capture_begin)
      .def("capture_end", &Graph::capture_end)
      .def("replay", &Graph::replay);
}

}  // namespace crucible::test_device
