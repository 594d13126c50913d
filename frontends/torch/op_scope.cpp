// Items of the log and the life of a record: begun, filled, kept or dropped.
#include "frontends/torch/op_scope.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/Layout.h>

#include <algorithm>

namespace crucible::recorder {

namespace {

/// Tensors whose values are not simply those at their offset, sizes and strides.
std::uint64_t unusual_keys() {
  using K = c10::DispatchKey;
  std::uint64_t keys = 0;
  for (const K key : {K::Sparse, K::SparseCsr, K::NestedTensor, K::Quantized, K::Conjugate, K::Negative, K::ZeroTensor}) {
    keys |= c10::DispatchKeySet(key).raw_repr();
  }
  return keys;
}

const std::uint64_t kUnusualKeys = unusual_keys();

std::uint64_t device_word(const c10::Device& device) {
  return static_cast<std::uint64_t>(static_cast<std::uint8_t>(device.type())) |
         static_cast<std::uint64_t>(static_cast<std::uint16_t>(device.index() + 1)) << 8;
}

}  // namespace

DType dtype_of(c10::ScalarType type) {
  switch (type) {
    case c10::ScalarType::Bool: return DType::kBool;
    case c10::ScalarType::Byte: return DType::kU8;
    case c10::ScalarType::Char: return DType::kI8;
    case c10::ScalarType::Short: return DType::kI16;
    case c10::ScalarType::Int: return DType::kI32;
    case c10::ScalarType::Long: return DType::kI64;
    case c10::ScalarType::Half: return DType::kF16;
    case c10::ScalarType::BFloat16: return DType::kBF16;
    case c10::ScalarType::Float: return DType::kF32;
    case c10::ScalarType::Double: return DType::kF64;
    case c10::ScalarType::ComplexFloat: return DType::kC64;
    case c10::ScalarType::ComplexDouble: return DType::kC128;
    default: return DType::kOther;
  }
}

void Encoder::unusual_tensor(const at::Tensor& tensor) {
  const auto keys = tensor.key_set();
  if (keys.has(c10::DispatchKey::NestedTensor)) {
    unusual_ = "nested tensors";
  } else if (tensor.layout() != c10::kStrided) {
    unusual_ = "sparse tensors";
  } else if (keys.has(c10::DispatchKey::Quantized)) {
    unusual_ = "quantized tensors";
  } else if (tensor.is_conj() || tensor.is_neg() || tensor._is_zerotensor()) {
    unusual_ = "conjugate, negative or zero tensors";
  } else {
    unusual_ = "tensors without a storage";
  }
  const bool has_sizes = !keys.has(c10::DispatchKey::NestedTensor);
  const std::size_t dimensions = has_sizes ? static_cast<std::size_t>(tensor.dim()) : 0;
  log_.reserve(1 + 2 * dimensions);
  const std::uint64_t flags = static_cast<std::uint64_t>(tensor.requires_grad() ? kRequiresGrad : 0) | kWide;
  log_.put(static_cast<std::uint64_t>(Tag::kTensor) | static_cast<std::uint64_t>(dtype_of(tensor.scalar_type())) << 8 |
           flags << 16 | static_cast<std::uint64_t>(dimensions) << 24 | static_cast<std::uint64_t>(kNothing) << 32);
  for (std::size_t i = 0; i < dimensions; ++i) log_.put(static_cast<std::uint64_t>(tensor.size(static_cast<std::int64_t>(i))));
  for (std::size_t i = 0; i < dimensions; ++i) log_.put(0);
}

void Encoder::tensor(const at::Tensor& tensor, Access access) {
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  if (impl == c10::UndefinedTensorImpl::singleton()) {
    log_.reserve(1);
    log_.put(Tag::kUndefinedTensor);
    return;
  }
  if (impl->is_meta() || impl->has_symbolic_sizes_strides()) [[unlikely]] {
    is_abstract_ = true;
    return;
  }
  if ((impl->key_set().raw_repr() & kUnusualKeys) != 0 || !impl->has_storage()) [[unlikely]] {
    unusual_tensor(tensor);
    return;
  }
  const auto sizes = impl->sizes();
  const auto strides = impl->strides();
  const std::size_t dimensions = sizes.size();
  const std::uint64_t offset = static_cast<std::uint64_t>(impl->storage_offset());
  std::uint64_t all_bits = 0, expected = 1;
  bool dense = true;
  for (std::size_t i = dimensions; i-- > 0;) {
    const std::uint64_t size = static_cast<std::uint64_t>(sizes[i]), stride = static_cast<std::uint64_t>(strides[i]);
    dense &= stride == expected;
    all_bits |= size | stride;
    expected *= std::max<std::uint64_t>(size, 1);
  }
  c10::StorageImpl* storage = impl->unsafe_storage().unsafeGetStorageImpl();
  const std::uint32_t id = access == Access::kResult ? recorder_.output_storage(storage)
                                                     : recorder_.input_storage(storage, access == Access::kWrite);
  const bool wide = all_bits >> 32 != 0;
  const bool requires_grad = impl->autograd_meta() != nullptr && impl->requires_grad();
  const std::uint64_t flags = static_cast<std::uint64_t>((requires_grad ? kRequiresGrad : 0) |
                                                         (impl->is_wrapped_number() ? kWrappedNumber : 0) |
                                                         (dense ? kDense : 0) | (offset != 0 ? kHasOffset : 0) | (wide ? kWide : 0));
  log_.reserve(2 + 2 * dimensions);
  log_.put(static_cast<std::uint64_t>(Tag::kTensor) |
           static_cast<std::uint64_t>(dtype_of(c10::typeMetaToScalarType(impl->dtype()))) << 8 | flags << 16 |
           static_cast<std::uint64_t>(dimensions) << 24 | static_cast<std::uint64_t>(id) << 32);
  if (offset != 0) log_.put(offset);
  const auto whole = [&](c10::IntArrayRef numbers) {
    for (const std::int64_t number : numbers) log_.put(static_cast<std::uint64_t>(number));
  };
  if (wide) {
    whole(sizes);
    if (!dense) whole(strides);
    return;
  }
  // Halves of words in one row: the sizes, then the strides where they are not those of a dense tensor.
  std::uint64_t low = 0;
  bool is_half = false;
  const auto halves = [&](c10::IntArrayRef numbers) {
    for (const std::int64_t number : numbers) {
      if (is_half) log_.put(low | static_cast<std::uint64_t>(number) << 32);
      low = static_cast<std::uint64_t>(number);
      is_half = !is_half;
    }
  };
  halves(sizes);
  if (!dense) halves(strides);
  if (is_half) log_.put(low);
}

void Encoder::storage(const c10::Storage& storage, Access access) {
  // A storage argument is kept as a tensor of its bytes: the format needs no further kind, and replay sees what is read.
  c10::StorageImpl* impl = storage.unsafeGetStorageImpl();
  if (impl == nullptr) return none();
  if (impl->device().is_meta()) {
    is_abstract_ = true;
    return;
  }
  const std::uint64_t id = recorder_.input_storage(impl, access == Access::kWrite);
  log_.reserve(2);
  log_.put(static_cast<std::uint64_t>(Tag::kTensor) | static_cast<std::uint64_t>(DType::kU8) << 8 |
           static_cast<std::uint64_t>(kDense | kWide) << 16 | std::uint64_t{1} << 24 | id << 32);
  log_.put(impl->nbytes());
}

void Encoder::scalar(const c10::Scalar& value) {
  if (value.isSymbolic()) return opaque("symbolic scalar");
  if (value.isBoolean()) return boolean(value.toBool());
  if (value.isComplex()) {
    const auto number = value.toComplexDouble();
    log_.put(Tag::kComplex);
    log_.put(std::bit_cast<std::uint64_t>(number.real()));
    log_.put(std::bit_cast<std::uint64_t>(number.imag()));
    return;
  }
  if (value.isIntegral(false)) return integer(value.toLong());
  real(value.toDouble());
}

void Encoder::device(const c10::Device& device) { log_.put(Tag::kDevice, device_word(device)); }

void Encoder::generator(const at::Generator& generator) {
  if (!generator.defined()) return none();
  // Only the CPU's default generator can be told without asking a device's library; the others are named by device.
  const bool is_default = generator.device().is_cpu() && generator == at::detail::getDefaultCPUGenerator();
  log_.put(Tag::kGenerator, device_word(generator.device()) | (is_default ? std::uint64_t{1} << 24 : 0));
}

void Encoder::integers(c10::ArrayRef<std::int64_t> values) {
  log_.reserve(1 + values.size());
  log_.put(Tag::kIntList, values.size());
  for (const std::int64_t value : values) log_.put(static_cast<std::uint64_t>(value));
}

void Encoder::symbolic(const c10::SymInt& value) {
  if (const auto number = value.maybe_as_int()) return integer(*number);
  is_abstract_ = true;
  none();
}

void Encoder::symbolic_list(c10::ArrayRef<c10::SymInt> values) {
  log_.reserve(1 + values.size());
  log_.put(Tag::kIntList, values.size());
  for (const c10::SymInt& value : values) {
    const auto number = value.maybe_as_int();
    is_abstract_ |= !number.has_value();
    log_.put(static_cast<std::uint64_t>(number.value_or(-1)));
  }
}

OpScope::OpScope(const Operator& op)
    : recorder_(Recorder::instance()), op_(op), thread_(recorder_.thread()), encoder_(recorder_, thread_.log) {
  if (--thread_.until_sample == 0) [[unlikely]] {
    sampled_ = true;
    started_ns_ = now_ns();
    copied_before_ns_ = recorder_.state().snapshots.copy_ns();
  }
  const trace::Phase phase = recorder_.phase();
  const CallSite call = thread_.call_sites.find(recorder_.call_sites(), phase == trace::Phase::kForward);
  header_.operator_id = op.id;
  header_.site = call.site;
  header_.module = call.module;
  header_.phase = static_cast<std::uint64_t>(phase);
  recorder_.lock().lock();
  locked_ = true;
  header_.sequence = recorder_.take_sequence();
  thread_.log.begin_record();
}

void OpScope::before_run() {
  if (encoder_.is_abstract()) return abandon();
  recorder_.lock().unlock();
  locked_ = false;
  if (sampled_) [[unlikely]] spent_ns_ = now_ns() - started_ns_;
}

bool OpScope::after_run() {
  if (!open_) return false;
  if (sampled_) [[unlikely]] started_ns_ = now_ns();
  recorder_.lock().lock();
  locked_ = true;
  thread_.log.reserve(1);
  thread_.log.put(Tag::kOutputs);
  return true;
}

void OpScope::finish() {
  if (encoder_.is_abstract()) return abandon();
  if (encoder_.unusual() != nullptr) [[unlikely]] {
    recorder_.count_not_recorded(std::string(encoder_.unusual()) + " in " + op_.full_name(), header_.site);
  }
  thread_.log.finish_record(header_);
  recorder_.lock().unlock();
  open_ = locked_ = false;
  if (!sampled_) return;
  const std::uint64_t copying_ns = recorder_.state().snapshots.copy_ns() - copied_before_ns_;
  const std::uint64_t all_ns = spent_ns_ + now_ns() - started_ns_;
  thread_.sampled_ns += all_ns - std::min(all_ns, copying_ns);
  ++thread_.sampled_ops;
  thread_.random ^= thread_.random << 13, thread_.random ^= thread_.random >> 7, thread_.random ^= thread_.random << 17;
  thread_.until_sample = 8 + static_cast<std::uint32_t>(thread_.random & 15);
}

void OpScope::abandon() {
  thread_.log.drop_record();
  if (locked_) recorder_.lock().unlock();
  open_ = locked_ = false;
  if (sampled_) thread_.until_sample = 1;
}

}  // namespace crucible::recorder
