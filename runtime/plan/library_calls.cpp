// Conversion of library calls to the plugin ABI, and the memory of what was claimed.
#include "runtime/plan/library_calls.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>

#include "plugins/abi/sized_launch.hpp"

namespace crucible::runtime {
namespace {

std::uint32_t abi_kind(kernel::LibraryKind kind) {
  switch (kind) {
    case kernel::LibraryKind::kMatMul:
      return CRUCIBLE_LIB_MATMUL;
    case kernel::LibraryKind::kConv2d:
      return CRUCIBLE_LIB_CONV2D;
    case kernel::LibraryKind::kConv2dBackwardInput:
      return CRUCIBLE_LIB_CONV2D_BACKWARD_INPUT;
    case kernel::LibraryKind::kConv2dBackwardWeight:
      return CRUCIBLE_LIB_CONV2D_BACKWARD_WEIGHT;
    case kernel::LibraryKind::kAttention:
      return CRUCIBLE_LIB_ATTENTION;
    case kernel::LibraryKind::kAttentionForward:
      return CRUCIBLE_LIB_ATTENTION_FORWARD;
    case kernel::LibraryKind::kAttentionBackward:
      return CRUCIBLE_LIB_ATTENTION_BACKWARD;
  }
  return CRUCIBLE_LIB_MATMUL;
}

std::uint32_t abi_epilogue(kernel::LibraryEpilogue epilogue) {
  switch (epilogue) {
    case kernel::LibraryEpilogue::kNone:
      return CRUCIBLE_EPILOGUE_NONE;
    case kernel::LibraryEpilogue::kBias:
      return CRUCIBLE_EPILOGUE_BIAS;
    case kernel::LibraryEpilogue::kBiasRelu:
      return CRUCIBLE_EPILOGUE_BIAS_RELU;
    case kernel::LibraryEpilogue::kBiasGelu:
      return CRUCIBLE_EPILOGUE_BIAS_GELU;
  }
  return CRUCIBLE_EPILOGUE_NONE;
}

Result<void> describe(const graph::View& view, DType dtype, crucible_view& out) {
  if (view.sizes.size() > CRUCIBLE_MAX_RANK || view.sizes.size() != view.strides.size()) {
    return Error{ErrorCode::kBadInput,
                 fmt::format("a library call has a view of {} sizes and {} strides; at most {} fit", view.sizes.size(),
                             view.strides.size(), CRUCIBLE_MAX_RANK)};
  }
  out.rank = static_cast<std::uint32_t>(view.sizes.size());
  out.dtype = static_cast<std::uint32_t>(dtype);
  out.offset = view.offset;
  std::copy(view.sizes.begin(), view.sizes.end(), out.sizes);
  std::copy(view.strides.begin(), view.strides.end(), out.strides);
  return {};
}

}  // namespace

Result<crucible_library_desc> describe(const kernel::LibraryCall& call) {
  crucible_library_desc desc;
  std::memset(&desc, 0, sizeof desc);  // padding too: the bytes are the key of the answers
  desc.struct_size = sizeof desc;
  desc.kind = abi_kind(call.kind);
  for (int i = 0; i < 3; ++i) {
    CRUCIBLE_TRY_VOID(describe(call.views[i], i == 2 && call.keeps_f32 ? DType::kF32 : call.dtype, desc.views[i]));
  }
  desc.epilogue = abi_epilogue(call.epilogue);
  if (kernel::is_attention(call.kind) || call.epilogue != kernel::LibraryEpilogue::kNone) {
    CRUCIBLE_TRY_VOID(describe(call.extra, call.dtype, desc.extra));
    desc.mask = call.is_causal ? CRUCIBLE_MASK_CAUSAL : CRUCIBLE_MASK_NONE;
  }
  if (call.more.size() > std::size(desc.more)) return Error{ErrorCode::kInternal, "a library call has too many views"};
  for (std::size_t i = 0; i < call.more.size(); ++i)  // the first are logarithms, which are f32 whatever the rest is
    CRUCIBLE_TRY_VOID(describe(call.more[i], i == 0 ? DType::kF32 : call.dtype, desc.more[i]));
  const graph::Attributes& attributes = call.attributes;
  desc.alpha_f64_bits = std::bit_cast<std::uint64_t>(attributes.alpha);
  for (int i = 0; i < 2; ++i) {
    desc.stride[i] = attributes.stride[i];
    desc.padding[i] = attributes.padding[i];
    desc.dilation[i] = attributes.dilation[i];
  }
  desc.groups = attributes.groups;
  return desc;
}

kernel::DeviceShape shape_of(const backend::Device& device) {
  kernel::DeviceShape shape;
  const Result<backend::Properties> properties = device.properties();
  if (!properties) return shape;
  for (const auto& [name, value] : *properties) {
    const char* const end = value.data() + value.size();
    if (name == "threads") std::from_chars(value.data(), end, shape.workers);
    if (name == "lanes") std::from_chars(value.data(), end, shape.lanes);
    if (name == "register_bytes") std::from_chars(value.data(), end, shape.register_bytes);
  }
  return shape;
}

bool wants_buffer_bytes(const backend::Device& device) {
  const Result<backend::Properties> properties = device.properties();
  if (!properties) return false;
  return std::ranges::find(*properties, backend::Properties::value_type(abi::kSizedLaunchesProperty, "1")) !=
         properties->end();
}

crucible_scalar buffer_bytes(std::uint64_t bytes, bool may_write) {
  return {.bits = abi::buffer_bits(bytes, may_write), .slot = abi::kBufferBytesSlot, .type = CRUCIBLE_SCALAR_I64};
}

const LibraryClaims::Answer& LibraryClaims::answer(const kernel::LibraryCall& call) {
  static const Answer kDeclined;
  const Result<crucible_library_desc> desc = describe(call);
  if (!desc) return kDeclined;
  std::string key(reinterpret_cast<const char*>(&*desc), sizeof *desc);
  const auto [entry, is_new] = answers_.try_emplace(std::move(key));
  if (!is_new) return entry->second;
  const crucible_if_library& table = device_->backend().library_table();
  crucible_status status = table.claim(device_->handle(), &*desc, &entry->second.scratch_bytes);
  if (status == nullptr) {
    entry->second.taken = true;
    return entry->second;
  }
  entry->second.scratch_bytes = 0;
  const crucible_code code = status->table->code(status);
  const Result<void> result = backend::to_result(status, "claiming a library call");
  const bool expected =
      code == CRUCIBLE_E_UNSUPPORTED || code == CRUCIBLE_E_UNIMPLEMENTED || code == CRUCIBLE_E_UNAVAILABLE;
  if (!expected && failure_.empty() && !result) failure_ = result.error().message;
  return entry->second;
}

}  // namespace crucible::runtime
