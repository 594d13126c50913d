// Items of the log and the life of a record: begun, filled, kept or dropped.
#include "frontends/torch/op_scope.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/Layout.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "frontends/torch/compound_tensor.hpp"

namespace crucible::recorder {

namespace {

/// Tensors whose values are not simply those at their offset, sizes and strides, or that have none (meta tensors).
constexpr c10::DispatchKeySet unusual_keys() {
  using K = c10::DispatchKey;
  c10::DispatchKeySet keys(c10::BackendComponent::MetaBit);
  for (const K key :
       {K::Sparse, K::SparseCsr, K::NestedTensor, K::Quantized, K::Conjugate, K::Negative, K::ZeroTensor}) {
    keys = keys | c10::DispatchKeySet(key);
  }
  return keys;
}

constexpr c10::DispatchKeySet kUnusualKeys = unusual_keys();

/// dtype_of as a table, for the hot path.
constexpr std::array<std::uint8_t, static_cast<std::size_t>(c10::ScalarType::NumOptions)> kDTypes = [] {
  std::array<std::uint8_t, static_cast<std::size_t>(c10::ScalarType::NumOptions)> table{};
  for (std::size_t i = 0; i < table.size(); ++i)
    table[i] = static_cast<std::uint8_t>(dtype_of(static_cast<c10::ScalarType>(i)));
  return table;
}();

/// A storage's bytes and device in one word, as kNewSize says.
std::uint64_t size_word(const c10::StorageImpl& storage, std::uint64_t size_bytes) {
  const c10::Device device = storage.device();
  return (size_bytes & 0xffffffffffffull) | static_cast<std::uint64_t>(static_cast<std::uint8_t>(device.type())) << 48 |
         static_cast<std::uint64_t>(static_cast<std::uint8_t>(device.index() + 1)) << 56;
}

/// Whether numbers, joined by or, all are non-negative and below 2^32.
bool fits(std::int64_t numbers) { return static_cast<std::uint64_t>(numbers) >> 32 == 0; }

/// Sizes, and strides where they are not those of a dense tensor; adds to `flags` how. Returns where the next word
/// goes.
[[gnu::noinline]] std::uint64_t* put_shape(std::uint64_t* next, c10::IntArrayRef sizes, c10::IntArrayRef strides,
                                           std::uint64_t& flags) {
  const std::size_t dimensions = sizes.size();
  std::int64_t all_bits = 0, expected = 1;
  bool dense = true;
  for (std::size_t i = dimensions; i-- > 0;) {
    dense &= strides[i] == expected;
    all_bits |= sizes[i] | strides[i];
    expected *= sizes[i] == 0 ? 1 : sizes[i];
  }
  flags |= dense ? kDense : 0;
  if (!fits(all_bits)) {
    flags |= kWide;
    for (const std::int64_t number : sizes) *next++ = static_cast<std::uint64_t>(number);
    if (dense) return next;
    for (const std::int64_t number : strides) *next++ = static_cast<std::uint64_t>(number);
    return next;
  }
  // Halves of words in one row.
  std::size_t halves = 0;
  const auto put = [next, &halves](std::int64_t number) {
    if (halves % 2 == 0) {
      next[halves / 2] = static_cast<std::uint64_t>(number);
    } else {
      next[halves / 2] |= static_cast<std::uint64_t>(number) << 32;
    }
    ++halves;
  };
  for (const std::int64_t number : sizes) put(number);
  if (!dense) {
    for (const std::int64_t number : strides) put(number);
  }
  return next + (halves + 1) / 2;
}

inline bool requires_grad(const c10::TensorImpl& impl) {
  // The framework's own class, whose fields are the answer but for views: those ask their base, through the interface.
  const auto* meta = static_cast<const torch::autograd::AutogradMeta*>(impl.autograd_meta());
  return meta != nullptr &&
         (meta->requires_grad_ || meta->grad_fn_ != nullptr || (meta->is_view_ && meta->requires_grad()));
}

std::uint64_t device_word(const c10::Device& device) {
  return static_cast<std::uint64_t>(static_cast<std::uint8_t>(device.type())) |
         static_cast<std::uint64_t>(static_cast<std::uint16_t>(device.index() + 1)) << 8;
}

}  // namespace

void Encoder::other_tensor(const at::Tensor& tensor, Access access) {
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  if (impl == c10::UndefinedTensorImpl::singleton()) {
    log_.reserve(1);
    log_.put(Tag::kUndefinedTensor);
  } else if (impl->is_meta() || impl->has_symbolic_sizes_strides()) {
    is_abstract_ = true;
  } else {
    unusual_ = encode_compound(*this, tensor, access);
  }
}

void Encoder::tensor(const at::Tensor& tensor, Access access) {
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  c10::StorageImpl* storage = impl->unsafe_storage().unsafeGetStorageImpl();  // none where the tensor is undefined
  if (storage == nullptr || !(impl->key_set() & kUnusualKeys).empty() || impl->has_symbolic_sizes_strides())
      [[unlikely]] {
    return other_tensor(tensor, access);
  }
  std::uint64_t flags = requires_grad(*impl) ? kRequiresGrad : 0;
  StorageTable::Slot& slot = access == Access::kResult
                                 ? recorder_.output_storage(storage)
                                 : recorder_.input_storage(storage, access == Access::kWrite, access == Access::kRead);
  if (recorder_.looks()) [[unlikely]]
    recorder_.look_at(slot, storage, access);
  const auto sizes = impl->sizes();
  const std::size_t dimensions = sizes.size();
  log_.reserve(3 + 2 * dimensions);
  std::uint64_t* const head = log_.next();
  std::uint64_t* next = head + 1;
  flags |= impl->is_wrapped_number() ? kWrappedNumber : 0;
  if (const std::uint64_t offset = static_cast<std::uint64_t>(impl->storage_offset()); offset != 0) {
    flags |= kHasOffset;
    *next++ = offset;
  }
  if (slot.size_bytes == kUntold || may_grow_) {
    const std::uint64_t size_bytes = storage->nbytes();
    if (slot.size_bytes == kUntold || size_bytes > slot.size_bytes) {
      flags |= kNewSize;
      slot.size_bytes = size_bytes;
      has_news_ = true;
      *next++ = size_word(*storage, size_bytes);
    }
  }
  // Most tensors have two dimensions or fewer and are small: one word, or two where they are transposed.
  const auto strides = impl->strides();
  const std::int64_t* const size = sizes.data();
  const std::int64_t* const stride = strides.data();
  if (dimensions == 2 && fits(size[0] | size[1] | stride[0] | stride[1])) {
    *next++ = static_cast<std::uint64_t>(size[0]) | static_cast<std::uint64_t>(size[1]) << 32;
    if (stride[1] == 1 && stride[0] == size[1] + (size[1] == 0)) {
      flags |= kDense;
    } else {
      *next++ = static_cast<std::uint64_t>(stride[0]) | static_cast<std::uint64_t>(stride[1]) << 32;
    }
  } else if (dimensions == 0) {
    flags |= kDense;
  } else if (dimensions == 1 && stride[0] == 1 && fits(size[0])) {
    flags |= kDense;
    *next++ = static_cast<std::uint64_t>(size[0]);
  } else {
    std::uint64_t how = 0;  // of its own: what a call may write is in memory from then on
    next = put_shape(next, sizes, strides, how);
    flags |= how;
  }
  *head = static_cast<std::uint64_t>(Tag::kTensor) |
          static_cast<std::uint64_t>(kDTypes[static_cast<std::size_t>(c10::typeMetaToScalarType(impl->dtype()))]) << 8 |
          flags << 16 | static_cast<std::uint64_t>(dimensions) << 24 | static_cast<std::uint64_t>(slot.id) << 32;
  log_.written(next);
}

void Encoder::storage(const c10::Storage& storage, Access access) {
  // A storage argument is kept as a tensor of its bytes: the format needs no further kind, and replay sees what is
  // read.
  c10::StorageImpl* impl = storage.unsafeGetStorageImpl();
  if (impl == nullptr) return none();
  if (impl->device().is_meta()) {
    is_abstract_ = true;
    return;
  }
  StorageTable::Slot& slot = recorder_.input_storage(impl, access == Access::kWrite, access == Access::kRead);
  log_.reserve(3);
  log_.put(static_cast<std::uint64_t>(Tag::kTensor) | static_cast<std::uint64_t>(DType::kU8) << 8 |
           static_cast<std::uint64_t>(kDense | kWide | kNewSize) << 16 | std::uint64_t{1} << 24 |
           std::uint64_t{slot.id} << 32);
  slot.size_bytes = impl->nbytes();
  has_news_ = true;
  log_.put(size_word(*impl, slot.size_bytes));
  log_.put(slot.size_bytes);
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
    : recorder_(Recorder::instance()),
      op_(op),
      thread_(recorder_.thread()),
      recording_(thread_.recording),
      encoder_(recorder_, thread_.log, op.written_arguments != 0) {
  if (--thread_.until_sample == 0) [[unlikely]]
    begin_sample();
  const trace::Phase phase = recorder_.phase();
  CallSite call = thread_.call_sites.find(recorder_.call_sites(), phase == trace::Phase::kForward);
  if (call.site == kNoSite && phase == trace::Phase::kBackward) [[unlikely]]
    call.site = recorder_.backward_site();
  lock();
  if (!takes()) [[unlikely]] {
    unlock();
    return;
  }
  open_ = true;
  if (sampled_) [[unlikely]]
    recorder_.maybe_look();
  if (sampled_) [[unlikely]]
    copied_before_ns_ = recorder_.state().snapshots.copy_ns();
  sequence_ = recorder_.take_sequence();
  thread_.log.begin_record(op.id, call.site, call.module, sequence_, static_cast<std::uint64_t>(phase));
}

void OpScope::before_run() {
  if (encoder_.is_abstract()) [[unlikely]]
    return abandon();
  unlock();
  if (sampled_) [[unlikely]]
    spent_ns_ = now_ns() - started_ns_;
}

bool OpScope::after_run() {
  if (!open_) [[unlikely]]
    return false;
  if (sampled_) [[unlikely]]
    started_ns_ = now_ns();
  lock();
  if (!takes()) [[unlikely]] {
    abandon();
    return false;
  }
  thread_.log.reserve(1);
  thread_.log.put(Tag::kOutputs);
  return true;
}

void OpScope::note_result(std::uint32_t output, const at::Tensor& tensor) {
  if (op_.random && op_.is_drawn(output)) recorder_.add_draw(sequence_, output, tensor);
  if (op_.tells_draws(output) && tensor.defined()) recorder_.add_draw(sequence_, output, tensor);
  if (op_.unfilled) recorder_.note_unfilled(tensor);
}

void OpScope::finish() {
  if (encoder_.is_abstract()) [[unlikely]]
    return abandon();
  if (encoder_.unusual() != nullptr) [[unlikely]] {
    recorder_.count_not_recorded(
        std::string(encoder_.unusual()) + " in " + op_.full_name() + " (kept as their parts; not replayed)",
        thread_.log.header().site);
  }
  thread_.log.finish_record();
  if (sampled_) [[unlikely]]
    end_sample();
  open_ = false;
  unlock();
}

void OpScope::keep_hashes(std::vector<std::uint64_t> hashes) {
  if (!open_) return;
  lock();
  if (takes()) recorder_.add_hashes(sequence_, std::move(hashes));
  unlock();
}

void OpScope::begin_sample() {
  sampled_ = true;
  started_ns_ = now_ns();
}

void OpScope::end_sample() {
  const std::uint64_t copying_ns = recorder_.state().snapshots.copy_ns() - copied_before_ns_;
  const std::uint64_t all_ns = spent_ns_ + now_ns() - started_ns_;
  thread_.sampled_ns += all_ns - std::min(all_ns, copying_ns);
  ++thread_.sampled_ops;
  thread_.random ^= thread_.random << 13, thread_.random ^= thread_.random >> 7, thread_.random ^= thread_.random << 17;
  thread_.until_sample = 32 + static_cast<std::uint32_t>(thread_.random & 63);
}

void OpScope::abandon() {
  if (!locked_) lock();
  open_ = false;
  if (recorder_.is_present(recording_)) {
    if (encoder_.has_news()) {
      // The storages that it made known stay known: their sizes are read from here.
      thread_.log.set_operator(kDroppedRecord);
      thread_.log.finish_record();
    } else {
      thread_.log.drop_record();
    }
    if (sampled_) thread_.until_sample = 1;
  }
  unlock();
}

}  // namespace crucible::recorder
