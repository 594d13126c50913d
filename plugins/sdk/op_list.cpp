// Reading and checking lists of ops: see op_list.hpp.
#include "plugins/sdk/op_list.hpp"

#include "plugins/abi/sized_launch.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/text.hpp"

namespace crucible::sdk {

void refuse_op(std::size_t index, const std::string& what) {
  throw Failure(CRUCIBLE_E_INVALID_ARGUMENT, "plan.build: op " + std::to_string(index) + ": " + what,
                {{"op", std::to_string(index)}});
}

void require_alignment(std::size_t index, const ListedOp& launch, const std::string& kernel, std::uint32_t bytes) {
  for (std::size_t b = 0; b < launch.addresses.size(); ++b) {
    if (launch.addresses[b] % bytes == 0) continue;
    refuse_op(index, "buffer " + std::to_string(b) + " of kernel " + kernel +
                         " lies at an address that is no multiple of " + std::to_string(bytes) +
                         " bytes, as its accesses of several elements need it: place it so");
  }
}

namespace {

void check_shape(std::uint32_t index, const crucible_op& op, const ListedOp& read, const KernelShape& shape) {
  if (op.buffer_count == shape.buffer_count && read.scalars.size() == shape.scalar_count) return;
  refuse_op(index, "kernel " + shape.name + " has " + std::to_string(shape.buffer_count) + " buffers and " +
                       std::to_string(shape.scalar_count) + " scalars, it got " + std::to_string(op.buffer_count) +
                       " and " + std::to_string(read.scalars.size()));
}

void read_launch(OpList& list, std::uint32_t index, const crucible_op& op, ListedOp& result, const OpChecks& checks) {
  if (op.kernel == nullptr) refuse_op(index, "a launch without a kernel");
  if (op.grid < 0) refuse_op(index, "a grid of " + std::to_string(op.grid) + " work items");
  if (op.scalar_count != 0 && op.scalars == nullptr) refuse_op(index, "its scalars are missing");
  result.kernel = op.kernel;
  result.grid = op.grid;
  result.grain = op.grain;
  for (std::uint32_t i = 0; i < op.scalar_count; ++i) {
    const crucible_scalar& scalar = op.scalars[i];
    if (checks.takes_sizes && scalar.slot == abi::kBufferBytesSlot) {
      result.sizes.push_back(scalar.bits);
      continue;
    }
    if (scalar.type > CRUCIBLE_SCALAR_I64)
      refuse_op(index, "scalar " + std::to_string(i) + " is of type " + std::to_string(scalar.type));
    result.scalars.push_back(scalar.bits);
    if (scalar.slot == CRUCIBLE_SLOT_NONE) continue;
    if (scalar.slot >= list.slot_count) {
      refuse_op(index, "slot " + std::to_string(scalar.slot) + " of " + std::to_string(list.slot_count));
    }
    list.slot_uses.push_back({scalar.slot, index, i});
  }
  if (checks.shape_of) check_shape(index, op, result, checks.shape_of(*op.kernel));
}

/// Buffer `i` holds so many bytes, where places are looked up.
void need_bytes(std::uint32_t index, const ListedOp& op, std::uint32_t i, std::uint64_t bytes) {
  if (op.places.empty() || op.places[i].left >= bytes) return;
  refuse_op(index, std::to_string(bytes) + " bytes, where buffer " + std::to_string(i) + " has " +
                       std::to_string(op.places[i].left) + " left");
}

void keep(ListedOp& op, std::uint32_t count) {
  op.addresses.resize(count);
  if (!op.places.empty()) op.places.resize(count);
}

/// The first `count` buffers hold `size` bytes each.
void read_places(std::uint32_t index, const crucible_op& op, ListedOp& result, std::uint32_t count) {
  if (op.buffer_count < count) {
    refuse_op(index, "it has " + std::to_string(op.buffer_count) + " buffers and needs " + std::to_string(count));
  }
  for (std::uint32_t i = 0; i < count; ++i) need_bytes(index, result, i, op.size);
  keep(result, count);
  result.size = op.size;
}

[[noreturn]] void take_none(std::uint32_t index, const char* what) {
  throw Failure(CRUCIBLE_E_UNSUPPORTED,
                "plan.build: op " + std::to_string(index) + " is " + what + ", and this plugin claims none",
                {{"op", std::to_string(index)}});
}

std::uint64_t extent_bytes(const ListedOp& op, std::uint32_t operand) {
  if (op.attention != nullptr) return attention_extent_bytes(*op.attention, operand);
  const int view = static_cast<int>(operand);
  return op.product != nullptr ? gemm_extent_bytes(*op.product, view) : convolution_extent_bytes(*op.convolution, view);
}

/// Each operand lies in its buffer, and the scratch has what is said.
void read_library_call(std::uint32_t index, const crucible_op& op, ListedOp& result, const OpChecks& checks) {
  if (op.library == nullptr) refuse_op(index, "a library call without a description");
  result.library = op.library;
  result.scratch_bytes = op.scratch_bytes;
  if (checks.takes_all_calls) return;
  if (is_convolution(op.library)) {
    if (!checks.takes_convolutions) take_none(index, "a convolution");
    result.convolution = std::make_unique<const Convolution>(read_convolution(op.library));
  } else if (is_attention(op.library)) {
    if (!checks.takes_attentions) take_none(index, "an attention");
    result.attention = std::make_unique<const Attention>(read_attention(op.library));
  } else {
    result.product = std::make_unique<const Gemm>(read_gemm(op.library, checks.epilogues));
  }
  const std::uint32_t described = result.product != nullptr     ? result.product->buffers()
                                  : result.attention != nullptr ? static_cast<std::uint32_t>(result.attention->count())
                                                                : 3;
  const std::uint32_t needed = described + (op.scratch_bytes == 0 ? 0 : 1);
  if (op.buffer_count < needed) {
    refuse_op(index, "it has " + std::to_string(op.buffer_count) + " buffers and needs " + std::to_string(needed));
  }
  for (std::uint32_t i = 0; i < needed; ++i)
    need_bytes(index, result, i, i == described ? op.scratch_bytes : extent_bytes(result, i));
  keep(result, needed);
}

void read_op(OpList& list, std::uint32_t index, const crucible_op& op, const OpChecks& checks) {
  if (op.struct_size < sizeof(crucible_op)) {
    refuse_op(index, "its struct_size is " + std::to_string(op.struct_size) + ", it needs " +
                         std::to_string(sizeof(crucible_op)));
  }
  if (op.buffer_count != 0 && op.buffers == nullptr) refuse_op(index, "its buffers are missing");
  if (op.kind == CRUCIBLE_OP_LIBRARY && !checks.takes_products && !checks.takes_all_calls)
    take_none(index, "a library call");
  if (op.kind != CRUCIBLE_OP_LAUNCH && op.kind != CRUCIBLE_OP_COPY && op.kind != CRUCIBLE_OP_FILL &&
      op.kind != CRUCIBLE_OP_LIBRARY)
    refuse_op(index, "kind " + std::to_string(op.kind) + " is not known");
  ListedOp& result = list.ops.emplace_back();
  result.kind = op.kind;
  for (std::uint32_t i = 0; i < op.buffer_count; ++i) {
    if (checks.find) result.places.push_back(checks.find(op.buffers[i]));
    result.addresses.push_back(op.buffers[i]);
  }
  if (op.kind == CRUCIBLE_OP_LAUNCH) return read_launch(list, index, op, result, checks);
  if (op.kind == CRUCIBLE_OP_LIBRARY) return read_library_call(index, op, result, checks);
  if (op.kind == CRUCIBLE_OP_COPY) return read_places(index, op, result, 2);
  if (op.pattern > 255) refuse_op(index, "the pattern " + std::to_string(op.pattern) + " is not a byte");
  result.pattern = static_cast<std::uint8_t>(op.pattern);
  read_places(index, op, result, 1);
}

}  // namespace

OpList read_ops(const crucible_op* ops, std::uint32_t count, std::uint32_t slot_count, const OpChecks& checks) {
  require(count == 0 || ops != nullptr, "plan.build: the ops are missing");
  OpList list;
  list.slot_count = slot_count;
  list.ops.reserve(count);
  const SizedArray<crucible_op> all(ops);  // of an older or newer host
  for (std::uint32_t i = 0; i < count; ++i) read_op(list, i, all[i], checks);
  return list;
}

void check_rebindings(const OpList& list, std::span<const crucible_rebinding> rebindings, const OpChecks& checks) {
  for (const crucible_rebinding& each : rebindings) {
    if (each.op >= list.ops.size()) {
      throw Failure(CRUCIBLE_E_INVALID_ARGUMENT, "plan.rebind: op " + std::to_string(each.op) + " of " +
                                                     std::to_string(list.ops.size()));
    }
    const ListedOp& op = list.ops[each.op];
    if (each.buffer >= op.addresses.size()) {
      throw Failure(CRUCIBLE_E_INVALID_ARGUMENT, "plan.rebind: buffer " + std::to_string(each.buffer) + " of op " +
                                                     std::to_string(each.op) + ", which has " +
                                                     std::to_string(op.addresses.size()));
    }
    if (!checks.find) continue;
    const Place place = checks.find(each.address);
    const std::uint64_t needed = op.kind == CRUCIBLE_OP_COPY || op.kind == CRUCIBLE_OP_FILL ? op.size : 0;
    if (place.left < needed) {
      throw Failure(CRUCIBLE_E_INVALID_ARGUMENT, "plan.rebind: op " + std::to_string(each.op) + " uses " +
                                                     std::to_string(needed) + " bytes, and " +
                                                     std::to_string(place.left) + " are there");
    }
  }
}

}  // namespace crucible::sdk
