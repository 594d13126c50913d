// What random texts, ops and descriptions look like.
#include "plugins/fuzz/random_arguments.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "plugins/kernel_ir/serialize.hpp"

namespace crucible::fuzz {
namespace {

crucible_str str(std::string_view text) { return {text.data(), text.size()}; }

constexpr std::string_view kWords[] = {
    "", "cpu:0", "k", "k2", "fuzz", "cycles", "%s%n", "../../etc/passwd", "a name with spaces"};
/// Kernels that touch no buffer, so that they may be launched with any: "k" does nothing, "k2" computes a number.
const std::vector<std::byte>& ir_of(std::size_t which) {
  using namespace crucible::kernel;
  static const auto kKernels = [] {
    KernelIr k;
    k.variables = {{DType::kI64, false}};
    k.body = {{.kind = StmtKind::kGrid, .id = 0}};
    KernelIr k2 = k;
    k2.exprs = {{.operation = Operation::kInteger, .type = DType::kI64, .integer = 7}};
    k2.variables.push_back({DType::kI64, false});
    k2.body[0].body = {{.kind = StmtKind::kLet, .id = 1, .a = 0}};
    return std::array{serialize_ir(k), serialize_ir(k2)};
  }();
  return kKernels[which];
}

constexpr std::string_view kOpaqueOps[] = {"{}", "this is no op", ""};

}  // namespace

crucible_str RandomArguments::text() { return str(kWords[below(std::size(kWords))]); }

void RandomArguments::died(std::string_view kind, const void* handle) {
  std::erase(live_[std::string(kind)], handle);
  if (kind == "module") live_["kernel"].clear();  // borrowed from it, or from another: asked for again
}

void RandomArguments::done(const char* function, crucible_status status) {
  Count& count = counts_[function];
  last_success_ = status == nullptr ? function : "";
  if (status == nullptr) {
    ++count.succeeded;
  } else {
    ++count.failed;
    const auto functions = abi::error_functions(status);
    const crucible_str message = functions.message(status);
    if (message.size == 0 || functions.code(status) == CRUCIBLE_OK) mute_errors_.emplace_back(function);
    crucible_str key = {}, value = {};
    for (std::uint32_t i = 0; i < 100 && functions.payload(status, i, &key, &value) != 0; ++i) {
    }
    functions.destroy(status);
  }
  kept_.clear(), scalars_.clear(), descs_.clear();
}

template <>
std::uint64_t RandomArguments::value<std::uint64_t>() {
  return number<std::uint64_t>();
}

template <>
crucible_str RandomArguments::value<crucible_str>() {
  return str(kWords[below(std::size(kWords))]);
}

template <>
crucible_kv RandomArguments::value<crucible_kv>() {
  return {str(one_in(2) ? "peak_bytes" : "ops"), number<std::uint32_t>() % 7, 0, number<std::uint64_t>(), str("text")};
}

template <>
crucible_point RandomArguments::value<crucible_point>() {
  return {handle<crucible_timeline>("timeline"), below(50)};
}

template <>
crucible_rebinding RandomArguments::value<crucible_rebinding>() {
  crucible_rebinding rebinding = {static_cast<std::uint32_t>(below(4)), static_cast<std::uint32_t>(below(4)), 0};
  if (!ranges_.empty() && !one_in(6)) rebinding.address = ranges_[below(ranges_.size())].address;
  return rebinding;
}

template <>
crucible_kernel_source RandomArguments::value<crucible_kernel_source>() {
  const std::size_t which = below(2);  // a name and its kernel belong together more often than not
  const std::vector<std::byte>& ir = ir_of(one_in(6) ? 1 - which : which);
  crucible_kernel_source source = {sizeof(source), CRUCIBLE_FORM_KERNEL_IR, str(which == 0 ? "k" : "k2"), ir.data(),
                                   ir.size()};
  if (one_in(6)) source.size = below(ir.size());
  if (one_in(6)) source.data = bytes(), source.size = below(64);
  if (one_in(6)) {
    const crucible_str op = str(kOpaqueOps[below(std::size(kOpaqueOps))]);
    source.data = op.data, source.size = op.size;
    source.form = CRUCIBLE_FORM_OPAQUE_OP;
  }
  if (one_in(12)) source.form = number<std::uint32_t>() % 5;
  if (one_in(12)) source.name = value<crucible_str>();
  return source;
}

template <>
crucible_library_desc RandomArguments::value<crucible_library_desc>() {
  crucible_library_desc desc = {};
  desc.struct_size = one_in(8) ? number<std::uint32_t>() % 2 * 8 : sizeof(desc);
  desc.kind = static_cast<std::uint32_t>(below(9));
  const auto random_view = [&](crucible_view& view) {
    view.rank = static_cast<std::uint32_t>(one_in(10) ? number<std::uint32_t>() : 2 + 2 * below(2));
    view.dtype = static_cast<std::uint32_t>(below(12));
    for (int i = 0; i < 8; ++i)
      view.sizes[i] = static_cast<std::int64_t>(one_in(10) ? number<std::uint64_t>() : below(9));
    for (int i = 0; i < 8; ++i)
      view.strides[i] = static_cast<std::int64_t>(one_in(10) ? number<std::uint64_t>() : below(9));
  };
  for (crucible_view& view : desc.views) random_view(view);
  if (one_in(2)) {  // of attentions
    random_view(desc.extra);
    for (crucible_view& view : desc.more) random_view(view);
  }
  desc.alpha_f64_bits = std::bit_cast<std::uint64_t>(1.0);
  for (int i = 0; i < 2; ++i) desc.stride[i] = desc.dilation[i] = static_cast<std::int64_t>(below(3));
  desc.groups = static_cast<std::int64_t>(below(3));
  return desc;
}

std::uint64_t* RandomArguments::keep(std::vector<std::uint64_t> numbers) {
  return kept_.emplace_back(std::make_unique<std::vector<std::uint64_t>>(std::move(numbers)))->data();
}

/// What runs must stay inside live buffers: a device address outside is the host's fault, and no plugin can check it.
/// What is only built may be anything.
template <>
crucible_op RandomArguments::value<crucible_op>() {
  crucible_op op = {};
  op.struct_size = sizeof(op);
  op.kind = static_cast<std::uint32_t>(below(6));
  op.grid = static_cast<std::int64_t>(one_in(10) ? number<std::uint64_t>() >> 40 : below(100));
  op.grain = static_cast<std::int64_t>(below(3));
  op.pattern = number<std::uint32_t>() % 300;
  op.kernel = handle<crucible_kernel>("kernel");
  if (!ranges_.empty()) {
    const Range to = ranges_[below(ranges_.size())], from = ranges_[below(ranges_.size())];
    op.buffers = keep({to.address, from.address, to.address, to.address});
    op.buffer_count = 4;
    op.size = std::min(to.size, from.size);
    if (op.size != 0) op.size = below(op.size + 1);
    if (op.kind == CRUCIBLE_OP_COPY && to.address == from.address) op.size = 0;  // may not overlap
  }
  if (op.buffers == nullptr || one_in(20)) op.buffer_count = 0;
  if (one_in(3)) {
    scalars_.push_back(std::make_unique<crucible_scalar>(
        crucible_scalar{1, one_in(2) ? CRUCIBLE_SLOT_NONE : static_cast<std::uint32_t>(below(4)),
                        static_cast<std::uint32_t>(below(3))}));
    op.scalars = scalars_.back().get();
    op.scalar_count = 1;
  }
  if (op.kind == CRUCIBLE_OP_LIBRARY) {
    descs_.push_back(std::make_unique<crucible_library_desc>(value<crucible_library_desc>()));
    descs_.back()->kind = 99;  // refused, after it was read: its views do not fit the buffers
    op.library = one_in(6) ? nullptr : descs_.back().get();
  }
  return op;
}

}  // namespace crucible::fuzz
