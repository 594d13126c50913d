// Reading contents: in place where they are dense on the CPU, through the framework's own copy elsewhere.
#include "frontends/torch/op_hashes.hpp"

#include <ATen/Functions.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <span>
#include <string_view>

#include "core/base/hash.hpp"
#include "frontends/torch/device_bytes.hpp"
#include "frontends/torch/recorder.hpp"

namespace crucible::recorder {

namespace {

/// Operators that return a workspace for their backward, not all of which they fill: its place among the results.
constexpr std::pair<std::string_view, std::size_t> kScratch[] = {
    {"aten::mkldnn_rnn_layer", 3}, {"aten::_cudnn_rnn", 3}, {"aten::miopen_rnn", 3}, {"aten::_cudnn_ctc_loss", 1}};

/// Keys of tensors whose elements are not simply those at offset, sizes and strides.
bool is_readable(const at::Tensor& tensor) {
  using K = c10::DispatchKey;
  const auto keys = tensor.key_set();
  return tensor.defined() && tensor.has_storage() && !tensor.is_meta() &&
         !keys.has_any(c10::DispatchKeySet({K::Sparse, K::SparseCsr, K::NestedTensor, K::Quantized, K::Conjugate,
                                            K::Negative, K::ZeroTensor, K::Python}));
}

std::uint64_t written_in_schema(const c10::FunctionSchema& schema) {
  std::uint64_t written = 0;
  const auto& arguments = schema.arguments();
  for (std::size_t i = 0; i < arguments.size() && i < 64; ++i) {
    if (arguments[i].alias_info() != nullptr && arguments[i].alias_info()->isWrite()) written |= std::uint64_t{1} << i;
  }
  return written;
}

}  // namespace

std::uint64_t hash_elements(const at::Tensor& tensor) {
  if (!is_readable(tensor)) return 0;
  if (tensor.numel() == 0) return checksum64({});
  const PlainOps plain;
  const at::Tensor here =
      tensor.is_cpu() && tensor.is_contiguous() ? tensor : tensor.detach().to(at::kCPU).contiguous();
  const void* data = here.const_data_ptr();
  if (data == nullptr) return 0;
  return checksum64(
      {static_cast<const std::byte*>(data), static_cast<std::size_t>(here.numel()) * here.element_size()});
}

void OpHashTable::keep(std::uint64_t sequence, std::vector<std::uint64_t> hashes) {
  const std::lock_guard lock(mutex_);
  hashes_[sequence] = std::move(hashes);
}

bool OpHashTable::empty() const {
  const std::lock_guard lock(mutex_);
  return hashes_.empty();
}

std::vector<std::uint64_t> OpHashTable::find(std::uint64_t sequence) const {
  const std::lock_guard lock(mutex_);
  const auto found = hashes_.find(sequence);
  return found == hashes_.end() ? std::vector<std::uint64_t>{} : found->second;
}

void OpHashTable::set_filled(std::uint32_t storage, bool filled) {
  const std::lock_guard lock(mutex_);
  if (filled) {
    unfilled_.erase(storage);
  } else {
    unfilled_.insert(storage);
  }
}

bool OpHashTable::is_filled(std::uint32_t storage) const {
  const std::lock_guard lock(mutex_);
  return !unfilled_.contains(storage);
}

OpHasher::OpHasher(const Operator& op)
    : written_(written_in_schema(op.handle.schema())),
      is_view_(op.viewed_arguments != 0 && op.written_arguments == 0),
      unfilled_(op.unfilled) {
  for (const auto& [name, place] : kScratch) {
    if (op.name == name) scratch_ = place;
  }
}

void OpHasher::keep_written(at::ArrayRef<at::IValue> arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (writes(i)) kept_.push_back(arguments[i]);
  }
}

std::vector<std::uint64_t> OpHasher::hash(at::ArrayRef<at::IValue> results) {
  for (const at::IValue& result : results) add(result);
  forget_scratch();
  written_part_ = true;
  for (const at::IValue& written : kept_) add(written);
  return std::move(hashes_);
}

void OpHasher::forget_scratch() {
  if (scratch_ < hashes_.size()) hashes_[scratch_] = 0;
}

void OpHasher::add(const at::Tensor& tensor) {
  Recorder& recorder = Recorder::instance();
  const bool nothing = unfilled_ || (is_view_ && !recorder.is_filled(tensor));
  hashes_.push_back(nothing ? 0 : hash_elements(tensor));
  if (written_part_ && tensor.defined() && tensor.has_storage() && tensor.nbytes() == tensor.storage().nbytes()) {
    recorder.note_filled(tensor);
  }
}

void OpHasher::add(const at::IValue& value) {
  if (value.isTensor()) return add(value.toTensor());
  if (!value.isList()) return;
  for (const at::IValue& element : value.toListRef()) add(element);
}

void OpHasher::add(at::TensorList tensors) {
  for (const at::Tensor& tensor : tensors) add(tensor);
}

void OpHasher::add(const at::ITensorListRef& tensors) {
  for (const at::Tensor& tensor : tensors) add(tensor);
}

void OpHasher::add(const c10::List<std::optional<at::Tensor>>& tensors) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::optional<at::Tensor> tensor = tensors.get(i);
    add(tensor);
  }
}

}  // namespace crucible::recorder
