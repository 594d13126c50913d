// Operators of a C++ extension, as programs bring them along, and two switches that no Python call has. Loaded by the
// recorder's tests with torch.ops.load_library.
#include <ATen/ATen.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/custom_class.h>
#include <torch/library.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

namespace {

struct Box final : torch::CustomClassHolder {
  explicit Box(double number) : value(number) {}
  double value;
};

at::Tensor scale(const at::Tensor& x, double by) { return at::mul(x, by); }

at::Tensor& accumulate_(at::Tensor& x, const at::Tensor& y) { return x.add_(y); }

std::tuple<at::Tensor, std::vector<at::Tensor>> several(const at::Tensor& x, at::TensorList others,
                                                        c10::string_view name, at::OptionalIntArrayRef sizes,
                                                        const at::Scalar& number) {
  std::vector<at::Tensor> results;
  for (const at::Tensor& other : others) results.push_back(at::add(other, number));
  return {sizes.has_value() ? x.reshape(*sizes).clone() : at::add(x, static_cast<double>(name.size())), results};
}

at::Tensor unbox(const at::Tensor& x, const c10::intrusive_ptr<Box>& box) { return at::mul(x, box->value); }

at::Tensor sum_of(const at::Tensor& first, c10::Dict<std::string, at::Tensor> tensors) {
  at::Tensor sum = first.clone();
  for (const auto& entry : tensors) sum = at::add(sum, entry.value());
  return sum;
}

/// Memory that no allocator of the framework owns.
at::Tensor from_memory(double first) {
  static float memory[3];
  for (int i = 0; i < 3; ++i) memory[i] = static_cast<float>(first) + static_cast<float>(i);
  return at::from_blob(memory, {3}, at::kFloat);
}

/// Switches the recorder's dispatch key on behind its back, as a mode of the framework would.
void switch_key(bool on) { c10::impl::tls_set_dispatch_key_included(c10::DispatchKey::Fake, on); }

std::int64_t use_count(const at::Tensor& x) {
  return static_cast<std::int64_t>(x.storage().use_count()) * 1000 + static_cast<std::int64_t>(x.use_count());
}

}  // namespace

TORCH_LIBRARY(crucible_test, library) {
  library.class_<Box>("Box").def(torch::init<double>());
  library.def("scale(Tensor x, float by) -> Tensor");
  library.def("accumulate_(Tensor(a!) x, Tensor y) -> Tensor(a!)");
  library.def("several(Tensor x, Tensor[] others, str name, int[]? sizes, Scalar number) -> (Tensor, Tensor[])");
  library.def("unbox(Tensor x, __torch__.torch.classes.crucible_test.Box box) -> Tensor");
  library.def("sum_of(Tensor first, Dict(str, Tensor) tensors) -> Tensor");
  library.def("from_memory(float first) -> Tensor", &from_memory);
  library.def("switch_key(bool on) -> ()", &switch_key);
  library.def("use_count(Tensor x) -> int");
}

TORCH_LIBRARY_IMPL(crucible_test, CPU, library) {
  library.impl("scale", &scale);
  library.impl("accumulate_", &accumulate_);
  library.impl("several", &several);
  library.impl("unbox", &unbox);
  library.impl("sum_of", &sum_of);
  library.impl("use_count", &use_count);
}
