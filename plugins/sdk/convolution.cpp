// Reading and checking convolutions: see convolution.hpp.
#include "plugins/sdk/convolution.hpp"

#include <algorithm>
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

[[noreturn]] void decline(const std::string& reason) {
  throw Failure(CRUCIBLE_E_UNSUPPORTED, "convolution: " + reason);
}

/// From the innermost stride outwards, each steps over all that lies below it.
bool overlaps_itself(const ConvolutionTensor& tensor) {
  std::array<std::size_t, 4> order = {0, 1, 2, 3};
  std::ranges::sort(order, {}, [&](std::size_t i) { return std::pair(tensor.strides[i], tensor.sizes[i]); });
  std::int64_t extent = 1;
  for (const std::size_t i : order) {
    if (tensor.sizes[i] == 1) continue;
    if (tensor.strides[i] < extent) return true;
    extent += (tensor.sizes[i] - 1) * tensor.strides[i];
  }
  return false;
}

ConvolutionTensor read_tensor(const crucible_view& view, int index) {
  if (view.rank != 4) decline("only tensors of four dimensions");
  if (view.offset < 0 || view.offset > (std::int64_t{1} << 48)) decline("an offset that no buffer has");
  ConvolutionTensor tensor;
  tensor.view = index;
  tensor.offset = view.offset;
  for (std::size_t i = 4; i-- > 0;) {
    if (view.sizes[i] < 1) decline("an empty tensor");
    if (view.sizes[i] > kMost) decline("a size of more than 31 bits");
    if (view.sizes[i] > 1 && view.strides[i] < 1) decline("a stride below 1");
    tensor.sizes[i] = view.sizes[i];
    // Of one element the stride says nothing, and libraries want a sensible one.
    tensor.strides[i] = view.sizes[i] > 1 ? view.strides[i] : i == 3 ? 1 : tensor.sizes[i + 1] * tensor.strides[i + 1];
    if (tensor.strides[i] > kMost) decline("a stride of more than 31 bits");
  }
  if (overlaps_itself(tensor)) decline("a tensor overlaps itself");
  return tensor;
}

void check_geometry(const Convolution& c) {
  if (c.groups < 1 || c.x.sizes[1] % c.groups != 0 || c.weight.sizes[0] % c.groups != 0)
    decline("channels do not divide");
  if (c.x.sizes[1] / c.groups != c.weight.sizes[1] || c.y.sizes[1] != c.weight.sizes[0] || c.x.sizes[0] != c.y.sizes[0])
    decline("channels or batch do not match");
  for (std::size_t i = 0; i < 2; ++i) {
    for (const std::int64_t number : {c.stride[i], c.dilation[i], c.padding[i] + 1}) {
      if (number < 1 || number > kMost) decline("stride, dilation or padding");
    }
    if (c.dilation[i] > kMost / c.weight.sizes[2 + i]) decline("a dilation of more than 31 bits");
    const std::int64_t room = c.x.sizes[2 + i] + 2 * c.padding[i] - ((c.weight.sizes[2 + i] - 1) * c.dilation[i] + 1);
    if (room < 0 || c.y.sizes[2 + i] != room / c.stride[i] + 1) decline("the result's size does not fit");
  }
}

std::string text_of(const auto& numbers) {
  std::string text;
  for (const std::int64_t number : numbers) text += (text.empty() ? "" : "x") + std::to_string(number);
  return text;
}

}  // namespace

bool is_convolution(const crucible_library_desc* theirs) {
  require(theirs != nullptr && theirs->struct_size >= kSmallestDescription,
          "library.claim: the description is too short");
  return theirs->kind == CRUCIBLE_LIB_CONV2D || theirs->kind == CRUCIBLE_LIB_CONV2D_BACKWARD_INPUT ||
         theirs->kind == CRUCIBLE_LIB_CONV2D_BACKWARD_WEIGHT;
}

Convolution read_convolution(const crucible_library_desc* theirs) {
  if (!is_convolution(theirs)) decline("kind " + std::to_string(theirs->kind) + " is none");
  const crucible_library_desc desc = read_sized(theirs);
  if (desc.epilogue != CRUCIBLE_EPILOGUE_NONE) decline("epilogues are not taken");
  Convolution c;
  c.kind = desc.kind;
  c.dtype = desc.views[0].dtype;
  if (c.dtype != kF16 && c.dtype != kBF16 && c.dtype != kF32) decline("only f16, bf16 and f32");
  c.keeps_f32 = desc.views[2].dtype == kF32 && c.dtype != kF32;
  if (desc.views[1].dtype != c.dtype || desc.views[2].dtype != c.dtype_of(2)) decline("the tensors' types differ");
  const bool is_forward = desc.kind == CRUCIBLE_LIB_CONV2D;
  const int x = is_forward                                        ? 0
                : desc.kind == CRUCIBLE_LIB_CONV2D_BACKWARD_INPUT ? 2
                                                                  : 1,
            y = is_forward ? 2 : 0, weight = 3 - x - y;
  c.x = read_tensor(desc.views[x], x);
  c.weight = read_tensor(desc.views[weight], weight);
  c.y = read_tensor(desc.views[y], y);
  for (std::size_t i = 0; i < 2; ++i) {
    c.stride[i] = desc.stride[i];
    c.padding[i] = desc.padding[i];
    c.dilation[i] = desc.dilation[i];
  }
  c.groups = desc.groups;
  check_geometry(c);
  return c;
}

std::string Convolution::shape() const {
  const char* const types[] = {"f16", "bf16", "f32"};
  std::string text = kind == CRUCIBLE_LIB_CONV2D                  ? "conv2d "
                     : kind == CRUCIBLE_LIB_CONV2D_BACKWARD_INPUT ? "conv2d_backward_input "
                                                                  : "conv2d_backward_weight ";
  text += types[dtype - kF16];
  if (keeps_f32) text += " to f32";
  for (const ConvolutionTensor* tensor : {&x, &weight, &y})
    text += " " + text_of(tensor->sizes) + " by " + text_of(tensor->strides);
  text += " stride " + text_of(stride) + " padding " + text_of(padding) + " dilation " + text_of(dilation);
  return text + " groups " + std::to_string(groups);
}

std::uint64_t convolution_alignment(const Convolution& convolution, int view, std::uint64_t address) {
  const std::uint64_t bits =
      (address + static_cast<std::uint64_t>(convolution.tensor(view).offset) * convolution.element_bytes(view)) |
      kMostAlignment;
  return bits & (~bits + 1);
}

std::uint64_t convolution_extent_bytes(const Convolution& convolution, int view) {
  const ConvolutionTensor& tensor = convolution.tensor(view);
  std::int64_t last = tensor.offset;
  for (std::size_t i = 0; i < 4; ++i) last += (tensor.sizes[i] - 1) * tensor.strides[i];
  return static_cast<std::uint64_t>(last + 1) * convolution.element_bytes(view);
}

std::array<std::int64_t, 4> dense_strides(const std::array<std::int64_t, 4>& sizes, DenseLayout layout) {
  using Order = std::array<std::size_t, 4>;  // innermost first
  std::array<std::int64_t, 4> strides = {};
  std::int64_t stride = 1;
  for (const std::size_t i : layout == DenseLayout::kChannelsLast ? Order{1, 3, 2, 0} : Order{3, 2, 1, 0}) {
    strides[i] = stride;
    stride *= sizes[i];
  }
  return strides;
}

DenseLayout dense_layout(const Convolution& convolution) {
  for (const DenseLayout layout : {DenseLayout::kChannelsFirst, DenseLayout::kChannelsLast}) {
    const auto fits = [layout](const ConvolutionTensor& tensor) {
      const auto strides = dense_strides(tensor.sizes, layout);
      for (std::size_t i = 0; i < 4; ++i) {
        if (tensor.sizes[i] > 1 && tensor.strides[i] != strides[i]) return false;
      }
      return true;
    };
    if (fits(convolution.x) && fits(convolution.weight) && fits(convolution.y)) return layout;
  }
  return DenseLayout::kNone;
}

}  // namespace crucible::sdk
