// Reading and checking attentions: see attention.hpp.
#include "plugins/sdk/attention.hpp"

#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>

#include "plugins/sdk/error.hpp"
#include "plugins/sdk/text.hpp"

namespace crucible::sdk {
namespace {

constexpr std::size_t kSmallestDescription = offsetof(crucible_library_desc, epilogue);  // of ABI 0.1
constexpr std::uint32_t kF16 = 6, kBF16 = 7, kF32 = 8;  // DType; the numbers are part of the ABI
constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
constexpr std::uint64_t kMostAlignment = 16;  // of what libraries load at once

[[noreturn]] void decline(const std::string& reason) { throw Failure(CRUCIBLE_E_UNSUPPORTED, "attention: " + reason); }

AttentionTensor read_tensor(const crucible_view& view) {
  if (view.rank != 4) decline("only tensors of four dimensions");
  if (view.offset < 0 || view.offset > (std::int64_t{1} << 48)) decline("an offset that no buffer has");
  AttentionTensor tensor;
  tensor.offset = view.offset;
  for (std::size_t i = 4; i-- > 0;) {
    if (view.sizes[i] < 1) decline("an empty tensor");
    if (view.sizes[i] > kMost) decline("a size of more than 31 bits");
    if (view.sizes[i] > 1 && view.strides[i] < 1) decline("a stride below 1");
    tensor.sizes[i] = view.sizes[i];
    tensor.strides[i] = view.sizes[i] > 1 ? view.strides[i] : i == 3 ? 1 : tensor.sizes[i + 1] * tensor.strides[i + 1];
    if (tensor.strides[i] > kMost) decline("a stride of more than 31 bits");
  }
  if (tensor.strides[3] != 1) decline("the elements of a row do not lie side by side");
  return tensor;
}

void check_sizes(const Attention& a) {
  const auto &q = a.tensors[0].sizes, &k = a.tensors[1].sizes, &v = a.tensors[2].sizes, &o = a.tensors[3].sizes;
  for (const std::size_t i : {0u, 1u}) {
    if (k[i] != q[i] || v[i] != q[i] || o[i] != q[i]) decline("batches or heads do not match");
  }
  if (k[3] != q[3] || v[2] != k[2] || o[2] != q[2] || o[3] != v[3]) decline("rows or widths do not match");
  if (a.part == AttentionPart::kAlone) return;
  if (a.tensors[kLogSums].sizes != std::array<std::int64_t, 4>{q[0], q[1], q[2], 1})
    decline("its logarithms of sums are not one for each row");
  if (a.part == AttentionPart::kForward) return;
  if (a.tensors[kDO].sizes != o || a.tensors[kDQ].sizes != q || a.tensors[kDK].sizes != k || a.tensors[kDV].sizes != v)
    decline("gradients have other sizes than what they are of");
}

std::string text_of(const std::array<std::int64_t, 4>& numbers) {
  std::string text;
  for (const std::int64_t number : numbers) text += (text.empty() ? "" : "x") + std::to_string(number);
  return text;
}

}  // namespace

bool is_attention(const crucible_library_desc* theirs) {
  require(theirs != nullptr && theirs->struct_size >= kSmallestDescription,
          "library.claim: the description is too short");
  return theirs->kind == CRUCIBLE_LIB_ATTENTION || theirs->kind == CRUCIBLE_LIB_ATTENTION_FORWARD ||
         theirs->kind == CRUCIBLE_LIB_ATTENTION_BACKWARD;
}

Attention read_attention(const crucible_library_desc* theirs) {
  const crucible_library_desc desc = read_sized(theirs);
  Attention a;
  if (desc.kind == CRUCIBLE_LIB_ATTENTION_FORWARD) a.part = AttentionPart::kForward;
  if (desc.kind == CRUCIBLE_LIB_ATTENTION_BACKWARD) a.part = AttentionPart::kBackward;
  a.dtype = desc.views[0].dtype;
  if (a.dtype != kF16 && a.dtype != kBF16 && a.dtype != kF32) decline("only f16, bf16 and f32");
  a.scale = std::bit_cast<double>(desc.alpha_f64_bits);
  if (!(a.scale > 0) || !std::isfinite(a.scale)) decline("a scale that is no positive number");
  if (desc.mask > CRUCIBLE_MASK_CAUSAL) decline("mask " + std::to_string(desc.mask) + " is not known");
  a.is_causal = desc.mask == CRUCIBLE_MASK_CAUSAL;
  const crucible_view* const views[] = {&desc.views[0], &desc.views[1], &desc.views[2], &desc.extra,  &desc.more[0],
                                        &desc.more[1],  &desc.more[2],  &desc.more[3],  &desc.more[4]};
  static_assert(std::size(views) == kMostAttentionTensors);
  for (std::size_t i = 0; i < a.count(); ++i) {
    a.tensors[i] = read_tensor(*views[i]);
    if (views[i]->dtype != (i == kLogSums ? kF32 : a.dtype)) decline("operands of different types");
  }
  check_sizes(a);
  return a;
}

std::string Attention::shape() const {
  const char* const types[] = {"f16", "bf16", "f32"};
  const char* const parts[] = {"attention ", "attention_forward ", "attention_backward "};
  std::string text = std::string(parts[static_cast<int>(part)]) + types[dtype - kF16] + (is_causal ? " causal" : "");
  for (std::size_t i = 0; i < count(); ++i)
    text += " " + text_of(tensors[i].sizes) + " by " + text_of(tensors[i].strides);
  return text + " scale " + std::to_string(scale);
}

std::uint64_t attention_alignment(const Attention& attention, std::size_t tensor, std::uint64_t address) {
  const std::uint64_t bits =
      (address + static_cast<std::uint64_t>(attention.tensors[tensor].offset) * attention.element_bytes(tensor)) |
      kMostAlignment;
  return bits & (~bits + 1);
}

std::uint64_t attention_extent_bytes(const Attention& attention, std::size_t tensor) {
  const AttentionTensor& t = attention.tensors[tensor];
  std::int64_t last = t.offset;
  for (std::size_t i = 0; i < 4; ++i) last += (t.sizes[i] - 1) * t.strides[i];
  return static_cast<std::uint64_t>(last + 1) * attention.element_bytes(tensor);
}

}  // namespace crucible::sdk
