// Memory, streams and events of the test device, and what the framework asks of them. The ops are in device_ops.cpp.
#include "device.hpp"

#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/Storage.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>

namespace crucible::test_device {

namespace {

struct Block {
  std::size_t size = 0;
  int opened = 0;
};
struct Memory {
  std::mutex mutex;
  std::map<char*, Block> blocks;
};
Memory& memory() {
  static auto* all = new Memory;  // never destroyed: tensors are freed late
  return *all;
}

void free_block(void* address) {
  Memory& all = memory();
  const std::lock_guard lock(all.mutex);
  const auto block = all.blocks.find(static_cast<char*>(address));
  munmap(block->first, block->second.size);
  all.blocks.erase(block);
}

class ClosedMemory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t size) override {
    const c10::Device device(kType, current_device());
    if (size == 0) return {nullptr, nullptr, &free_block, device};
    const std::size_t whole = (size + 4095) / 4096 * 4096;
    void* address = mmap(nullptr, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    TORCH_CHECK(address != MAP_FAILED, "apart: out of memory");
    Memory& all = memory();
    const std::lock_guard lock(all.mutex);
    all.blocks[static_cast<char*>(address)] = {whole, 0};
    return {address, address, &free_block, device};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_block; }
  void copy_data(void* target, const void* source, std::size_t size) const override {
    const Opened to(target), from(source);
    std::memcpy(target, source, size);
  }
};

ClosedMemory the_allocator;
REGISTER_ALLOCATOR(kType, &the_allocator);

/// One stream. Threads: who holds its device's mutex.
struct Queue {
  std::deque<std::function<void()>> work;
  std::uint64_t given = 0, done = 0;
  bool captures = false, is_broken = false;
  std::vector<std::function<void()>> captured;
};
struct Streams {
  std::recursive_mutex mutex;
  std::map<std::pair<c10::DeviceIndex, c10::StreamId>, Queue> queues;
  std::exception_ptr error;  // of work that was done for somebody who could not be told
  c10::StreamId last = 0;
};
Streams& streams() {
  static auto* all = new Streams;
  return *all;
}
Queue& queue(const c10::Stream& stream) { return streams().queues[{stream.device_index(), stream.id()}]; }

c10::Stream stream_of(c10::DeviceIndex device, c10::StreamId id) {
  return c10::Stream(c10::Stream::UNSAFE, {kType, device}, id);
}

std::atomic<bool> is_everything_late{false};
thread_local c10::DeviceIndex this_device = 0;
thread_local c10::StreamId this_stream[kDevices] = {};

void drain(Queue& all, std::uint64_t until) {
  while (all.done < until && !all.work.empty()) {
    const std::function<void()> next = std::move(all.work.front());
    all.work.pop_front();
    ++all.done;
    try {
      next();
    } catch (...) {
      if (!streams().error) streams().error = std::current_exception();
    }
  }
}

void tell_error() {
  if (streams().error) std::rethrow_exception(std::exchange(streams().error, nullptr));
}

struct Event {
  c10::Stream stream;
  std::uint64_t given = 0;
};

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kType; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = getDevice();
    set_device(device.index());
    return before;
  }
  c10::Device getDevice() const override { return {kType, current_device()}; }
  void setDevice(c10::Device device) const override { set_device(device.index()); }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    this_device = std::max<c10::DeviceIndex>(device.index(), 0);
  }
  c10::Stream getStream(c10::Device device) const override { return current_stream(device.index()); }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return stream_of(device.has_index() ? device.index() : current_device(), 0);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override { return new_stream(device.index()); }
  c10::Stream getNewStream(c10::Device device, int) const override { return new_stream(device.index()); }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const c10::Stream before = current_stream(stream.device_index());
    set_stream(stream);
    return before;
  }
  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex, const c10::EventFlag) const override {
    delete static_cast<Event*>(*event);
    *event = new Event{stream, given(stream)};
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event == nullptr) return;
    const Event seen = *static_cast<Event*>(event);
    enqueue(stream, [seen] {
      const std::lock_guard lock(streams().mutex);
      drain(queue(seen.stream), seen.given);
    });
  }
  bool queryEvent(void* event) const override {
    return event == nullptr || has_reached(static_cast<Event*>(event)->stream, static_cast<Event*>(event)->given);
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override { delete static_cast<Event*>(event); }
  void synchronizeEvent(void* event) const override {
    if (event != nullptr) wait_until(static_cast<Event*>(event)->stream, static_cast<Event*>(event)->given);
  }
  c10::DeviceIndex deviceCount() const noexcept override { return kDevices; }
  bool queryStream(const c10::Stream& stream) const override { return is_done(stream); }
  void synchronizeStream(const c10::Stream& stream) const override { wait_for(stream); }
  void synchronizeDevice(const c10::DeviceIndex device) const override { wait_for_device(device); }
  double elapsedTime(void*, void*, const c10::DeviceIndex) const override { return 1; }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

class Hooks final : public at::PrivateUse1HooksInterface {
 public:
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return kDevices; }
  c10::DeviceIndex getCurrentDevice() const override { return current_device(); }
  void setCurrentDevice(c10::DeviceIndex device) const override { set_device(device); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    const c10::DeviceIndex before = current_device();
    set_device(device);
    return before;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override { return exchangeDevice(device); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, std::size_t size) const override {
    wait_for(current_stream(storage.device().index()));
    const c10::DeviceIndex before = exchangeDevice(storage.device().index());
    c10::DataPtr grown = the_allocator.allocate(size);
    if (const std::size_t kept = std::min(size, storage.nbytes()); kept != 0)
      the_allocator.copy_data(grown.get(), storage.data(), kept);
    storage.unsafeGetStorageImpl()->set_data_ptr(std::move(grown));
    storage.unsafeGetStorageImpl()->set_nbytes(size);
    set_device(before);
  }
};
[[maybe_unused]] const bool has_hooks = [] {
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  return true;
}();

}  // namespace

c10::Allocator* allocator() { return &the_allocator; }

void Opened::add(const void* address) {
  Memory& all = memory();
  const std::lock_guard lock(all.mutex);
  auto block = all.blocks.upper_bound(static_cast<char*>(const_cast<void*>(address)));
  if (address == nullptr || block == all.blocks.begin()) return;
  --block;
  if (static_cast<const char*>(address) >= block->first + block->second.size) return;
  if (block->second.opened++ == 0) mprotect(block->first, block->second.size, PROT_READ | PROT_WRITE);
  blocks_.push_back(block->first);
}

Opened::~Opened() {
  Memory& all = memory();
  const std::lock_guard lock(all.mutex);
  for (char* address : blocks_) {
    const auto block = all.blocks.find(address);
    if (block != all.blocks.end() && --block->second.opened == 0) mprotect(address, block->second.size, PROT_NONE);
  }
}

c10::DeviceIndex current_device() { return this_device; }

void set_device(c10::DeviceIndex device) {
  if (device < 0) return;
  TORCH_CHECK(device < kDevices, "apart: there are ", static_cast<int>(kDevices), " devices, not ",
              static_cast<int>(device) + 1);
  this_device = device;
}

c10::Stream current_stream(c10::DeviceIndex device) {
  if (device < 0) device = this_device;
  return stream_of(device, this_stream[device]);
}

void set_stream(const c10::Stream& stream) { this_stream[stream.device_index()] = stream.id(); }

c10::Stream new_stream(c10::DeviceIndex device) {
  const std::lock_guard lock(streams().mutex);
  return stream_of(device < 0 ? this_device : device, ++streams().last);
}

void enqueue(const c10::Stream& stream, std::function<void()> work) {
  const std::lock_guard lock(streams().mutex);
  Queue& all = queue(stream);
  if (all.captures) return all.captured.push_back(std::move(work));
  ++all.given;
  all.work.push_back(std::move(work));
  if (!is_everything_late) {
    drain(all, all.given);
    tell_error();
  }
}

void wait_until(const c10::Stream& stream, std::uint64_t given) {
  const std::lock_guard lock(streams().mutex);
  Queue& all = queue(stream);
  ++counts().waits;
  if (all.captures) {
    all.is_broken = true;
    TORCH_CHECK(false, "apart: operation not permitted when stream is capturing");
  }
  drain(all, given);
  tell_error();
}

void wait_for(const c10::Stream& stream) { wait_until(stream, given(stream)); }

void wait_for_device(c10::DeviceIndex device) {
  const std::lock_guard lock(streams().mutex);
  if (device < 0) device = this_device;
  for (const auto& [name, unused] : std::map(streams().queues)) {
    if (name.first == device) wait_for(stream_of(device, name.second));
  }
}

std::uint64_t given(const c10::Stream& stream) {
  const std::lock_guard lock(streams().mutex);
  return queue(stream).given;
}

bool has_reached(const c10::Stream& stream, std::uint64_t given) {
  const std::lock_guard lock(streams().mutex);
  return queue(stream).done >= given;
}

bool is_done(const c10::Stream& stream) { return has_reached(stream, given(stream)); }

void set_late(bool late) { is_everything_late = late; }
bool is_late() { return is_everything_late; }

void begin_capture() {
  const std::lock_guard lock(streams().mutex);
  Queue& all = queue(current_stream(-1));
  all.captures = true;
  all.is_broken = false;
  all.captured.clear();
}

std::vector<std::function<void()>> end_capture() {
  const std::lock_guard lock(streams().mutex);
  Queue& all = queue(current_stream(-1));
  all.captures = false;
  TORCH_CHECK(!all.is_broken, "apart: operation failed due to a previous error during capture");
  return std::move(all.captured);
}

bool is_capturing() {
  const std::lock_guard lock(streams().mutex);
  return queue(current_stream(-1)).captures;
}

Counts& counts() {
  static Counts all;
  return all;
}

}  // namespace crucible::test_device
