// Device, Buffer, Module and Plan: owners of the plugin's handles. A destructor cannot report, so it drops the plugin's
// status after destroying it.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "plugins/abi/stubs.hpp"
#include "plugins/loader/backend.hpp"
#include "plugins/loader/capability.hpp"

namespace crucible::backend {
namespace {

void drop(crucible_status status) { (void)static_cast<bool>(to_result(status, "release")); }

crucible_str borrow(std::string_view text) { return {text.data(), text.size()}; }

/// Reads an error object without taking it.
CompileRefusal refusal_in(crucible_status status) {
  CompileRefusal refusal;
  if (status == nullptr || status->table == nullptr) return refusal;
  const crucible_error_table functions = abi::error_functions(status);
  refusal.unsupported = functions.code(status) == CRUCIBLE_E_UNSUPPORTED;
  crucible_str key = {}, value = {};
  for (std::uint32_t i = 0; functions.payload(status, i, &key, &value) == 1; ++i) {
    if (std::string_view(key.data, key.size) == "kernel") refusal.kernel.assign(value.data, value.size);
  }
  return refusal;
}

Properties& as_properties(void* user) { return *static_cast<Properties*>(user); }

void collect(void* user, const crucible_kv* items, std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i) {
    const crucible_kv& item = items[i];
    as_properties(user).emplace_back(
        std::string(item.key.data, item.key.size),
        item.type == CRUCIBLE_V_STR ? std::string(item.s.data, item.s.size) : std::to_string(item.u));
  }
}

std::optional<std::string> value_of(const Properties& items, std::string_view key) {
  const auto item = std::ranges::find(items, key, [](const auto& pair) { return std::string_view(pair.first); });
  return item == items.end() ? std::nullopt : std::optional(item->second);
}

}  // namespace

Device::Device(std::shared_ptr<Backend> backend, DeviceInfo info, crucible_device* handle)
    : backend_(std::move(backend)), info_(std::move(info)), handle_(handle) {}

Result<void> Device::take(crucible_status status, std::string_view what) {
  if (status == nullptr) return {};
  std::optional<LostDevice> lost;
  // The first answer counts, unless a later one knows where the device was lost: a write beside a plan meets it, too.
  const bool may_know_more = !lost_ || (lost_->kernel.empty() && lost_->op.empty());
  if (may_know_more && status->table != nullptr) {
    const crucible_error_table functions = abi::error_functions(status);
    if ((functions.code(status) & 0xff) == CRUCIBLE_E_DEVICE_LOST) lost.emplace();
    crucible_str key = {}, value = {};
    for (std::uint32_t i = 0; lost && functions.payload(status, i, &key, &value) == 1; ++i) {
      const std::string_view name(key.data, key.size), text(value.data, value.size);
      if (name == "kernel") lost->kernel = text;
      if (name == "op") lost->op = text;
    }
  }
  Result<void> result = to_result(status, what);
  if (lost && lost_ && lost->kernel.empty() && lost->op.empty()) return result;
  if (lost) {
    lost->reason = result.error().message;
    lost_ = std::move(lost);
  }
  return result;
}

Device::~Device() {
  if (handle_ != nullptr) drop(backend_->device_table().close(handle_));
}

Result<Properties> Device::properties() const {
  Properties properties;
  CRUCIBLE_TRY_VOID(to_result(backend_->device_table().properties(handle_, collect, &properties),
                              fmt::format("asking device {} for its properties", info_.id)));
  return properties;
}

Result<std::uint64_t> Device::peak_bytes() const {
  Properties statistics;
  CRUCIBLE_TRY_VOID(to_result(backend_->memory_table().stats(handle_, collect, &statistics),
                              fmt::format("asking device {} for its memory statistics", info_.id)));
  for (const auto& [key, value] : statistics) {
    if (key == "peak_bytes") return std::uint64_t{std::stoull(value)};
  }
  return Error{ErrorCode::kInternal, fmt::format("device {} reports no peak_bytes", info_.id)};
}

Result<Buffer> Buffer::allocate(std::shared_ptr<Device> device, std::uint64_t size_bytes, std::uint64_t alignment) {
  Buffer buffer;
  const crucible_if_memory& table = device->backend().memory_table();
  CRUCIBLE_TRY_VOID(device->take(table.alloc(device->handle(), size_bytes, alignment, &buffer.handle_),
                                 fmt::format("allocating {} bytes on device {}", size_bytes, device->info().id)));
  buffer.device_ = std::move(device);
  buffer.size_bytes_ = size_bytes;
  CRUCIBLE_TRY_VOID(to_result(table.address(buffer.handle_, &buffer.address_), "asking for a buffer's address"));
  return buffer;
}

Result<Buffer> Buffer::adopt(std::shared_ptr<Device> device, void* memory, std::uint64_t size_bytes) {
  Buffer buffer;
  const crucible_if_memory& table = device->backend().memory_table();
  CRUCIBLE_TRY_VOID(device->take(table.adopt(device->handle(), memory, size_bytes, &buffer.handle_),
                                 fmt::format("adopting {} bytes on device {}", size_bytes, device->info().id)));
  buffer.device_ = std::move(device);
  buffer.size_bytes_ = size_bytes;
  CRUCIBLE_TRY_VOID(to_result(table.address(buffer.handle_, &buffer.address_), "asking for a buffer's address"));
  return buffer;
}

Buffer::Buffer(Buffer&& other) noexcept
    : device_(std::move(other.device_)),
      handle_(std::exchange(other.handle_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)),
      address_(std::exchange(other.address_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(handle_, other.handle_);
  std::swap(size_bytes_, other.size_bytes_);
  std::swap(address_, other.address_);
  return *this;
}

Buffer::~Buffer() {
  if (handle_ != nullptr) drop(device_->backend().memory_table().free(handle_));
}

Result<void> Buffer::write(std::uint64_t offset, std::span<const std::byte> data) {
  return device_->take(device_->backend().memory_table().write(handle_, offset, data.data(), data.size()),
                       fmt::format("writing {} bytes at {} of a buffer of {}", data.size(), offset, size_bytes_));
}

Result<void> Buffer::read(std::uint64_t offset, std::span<std::byte> data) const {
  return device_->take(device_->backend().memory_table().read(handle_, offset, data.data(), data.size()),
                       fmt::format("reading {} bytes at {} of a buffer of {}", data.size(), offset, size_bytes_));
}

Result<void> Buffer::fill(std::uint64_t offset, std::uint64_t size, std::uint8_t byte) {
  return device_->take(device_->backend().memory_table().fill(handle_, offset, size, byte),
                       fmt::format("filling {} bytes at {} of a buffer of {}", size, offset, size_bytes_));
}

bool Device::takes_opaque() const { return has_capability(backend(), info().id, "compile.opaque"); }

Result<Module> Module::compile(std::shared_ptr<Device> device, std::span<const KernelSource> kernels,
                               CompileRefusal* refusal, bool is_careful) {
  const crucible_if_compile& table = device->backend().compile_table();
  Module module;
  module.info_.struct_size = sizeof(module.info_);
  const auto count = static_cast<std::uint32_t>(kernels.size());
  const std::string what = fmt::format("compiling {} kernels for device {}", count, device->info().id);
  std::vector<crucible_kernel_source> sources;
  for (const KernelSource& kernel : kernels) {
    crucible_kernel_source& source = sources.emplace_back();
    source.struct_size = sizeof(source);
    source.name = borrow(kernel.name);
    const bool is_opaque = kernel.ir.empty();
    source.form = is_opaque ? CRUCIBLE_FORM_OPAQUE_OP : CRUCIBLE_FORM_KERNEL_IR;
    source.data = is_opaque ? static_cast<const void*>(kernel.opaque.data()) : kernel.ir.data();
    source.size = is_opaque ? kernel.opaque.size() : kernel.ir.size();
  }
  const crucible_status status =
      table.compile(device->handle(), sources.data(), count, is_careful ? CRUCIBLE_COMPILE_CAREFUL : 0, &module.handle_,
                    &module.info_);
  if (refusal != nullptr) *refusal = refusal_in(status);
  CRUCIBLE_TRY_VOID(device->take(status, what));
  module.device_ = std::move(device);
  for (const KernelSource& kernel : kernels) module.names_.push_back(kernel.name);
  return module;
}

Module::Module(Module&& other) noexcept
    : device_(std::move(other.device_)),
      handle_(std::exchange(other.handle_, nullptr)),
      info_(other.info_),
      names_(std::move(other.names_)) {}

Module& Module::operator=(Module&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(handle_, other.handle_);
  std::swap(info_, other.info_);
  std::swap(names_, other.names_);
  return *this;
}

Module::~Module() {
  if (handle_ != nullptr) drop(device_->backend().compile_table().unload(handle_));
}

Result<crucible_kernel*> Module::kernel(std::string_view name) const {
  crucible_kernel* kernel = nullptr;
  CRUCIBLE_TRY_VOID(to_result(device_->backend().compile_table().kernel(handle_, borrow(name), &kernel),
                              fmt::format("looking up kernel {}", name)));
  return kernel;
}

std::optional<CompileCounts> Module::counts() const {
  CompileCounts counts;
  for (const std::string& name : names_) {
    const Result<crucible_kernel*> found = kernel(name);
    Properties items;
    if (!found || !to_result(device_->backend().compile_table().kernel_info(*found, collect, &items), ""))
      return std::nullopt;
    const std::optional<std::string> cached = value_of(items, "from_cache");
    if (!cached) return std::nullopt;
    ++(*cached == "0" ? counts.compiled : counts.from_cache);
  }
  return counts;
}

Result<Plan> Plan::build(std::shared_ptr<Device> device, std::span<const crucible_op> ops, std::uint32_t slot_count) {
  Plan plan;
  plan.op_count_ = static_cast<std::uint32_t>(ops.size());
  CRUCIBLE_TRY_VOID(device->take(
      device->backend().plan_table().build(device->handle(), ops.data(), plan.op_count_, slot_count, &plan.handle_),
      fmt::format("building a plan of {} ops", plan.op_count_)));
  plan.device_ = std::move(device);
  return plan;
}

Plan::Plan(Plan&& other) noexcept
    : device_(std::move(other.device_)),
      handle_(std::exchange(other.handle_, nullptr)),
      op_count_(std::exchange(other.op_count_, 0)),
      runs_(other.runs_),
      lane_(std::exchange(other.lane_, std::nullopt)) {}

Plan& Plan::operator=(Plan&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(handle_, other.handle_);
  std::swap(op_count_, other.op_count_);
  std::swap(runs_, other.runs_);
  std::swap(lane_, other.lane_);
  return *this;
}

Plan::~Plan() {
  lane_.reset();  // nothing that was submitted names the plan any more
  if (handle_ != nullptr) drop(device_->backend().plan_table().destroy(handle_));
}

Result<void> Plan::set_slots(std::span<const std::uint64_t> values) {
  return device_->take(
      device_->backend().plan_table().set_slots(handle_, values.data(), static_cast<std::uint32_t>(values.size())),
      "setting the slots of a plan");
}

Result<void> Plan::rebind(std::span<const crucible_rebinding> rebindings) {
  return device_->take(device_->backend().plan_table().rebind(handle_, rebindings.data(),
                                                              static_cast<std::uint32_t>(rebindings.size())),
                       "rebinding buffers of a plan");
}

Result<void> Plan::replay() {
  if (!lane_) {
    CRUCIBLE_TRY(Queue queue, Queue::create(device_));
    CRUCIBLE_TRY(Timeline done, Timeline::create(device_));
    runs_ = 0;
    lane_.emplace(Lane{std::move(done), std::move(queue)});
  }
  const crucible_point end = lane_->done.at(++runs_);
  Result<void> ran = lane_->queue.submit(*this, {}, {&end, 1});
  if (ran) ran = lane_->done.wait(end.value);
  if (!ran) lane_.reset();
  return ran;
}

Result<std::vector<std::uint64_t>> Plan::profile() {
  std::vector<std::uint64_t> nanoseconds(op_count_);
  CRUCIBLE_TRY_VOID(device_->take(device_->backend().plan_table().profile(handle_, nanoseconds.data(), op_count_),
                                  "profiling a plan"));
  return nanoseconds;
}

Properties Plan::facts() const {
  Properties items;
  if (!to_result(device_->backend().plan_table().describe(handle_, collect, &items), "")) return {};
  return items;
}

std::string Plan::times_from() const { return value_of(facts(), "times").value_or(""); }

}  // namespace crucible::backend
