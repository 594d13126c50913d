// Allocations between guard pages: see memory.hpp.
#include "tests/emulators/core/memory.hpp"

#include <sys/mman.h>

#include <atomic>
#include <cstring>
#include <string>

#include "tests/emulators/core/faults.hpp"

namespace crucible::emulator {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kAlignment = 256;
constexpr std::size_t kFreedKept = 256;
constexpr int kFresh = 0xCD;
constexpr unsigned char kSlack = 0xA5;  // between an allocation and its guard page

std::atomic<std::uint64_t> lowest = ~0ull;
std::atomic<std::uint64_t> highest = 0;

std::uint64_t round_up(std::uint64_t value, std::uint64_t step) { return (value + step - 1) / step * step; }

void widen_window(std::uint64_t begin, std::uint64_t end) {
  std::uint64_t low = lowest.load();
  while (begin < low && !lowest.compare_exchange_weak(low, begin)) {
  }
  std::uint64_t high = highest.load();
  while (end > high && !highest.compare_exchange_weak(high, end)) {
  }
}

/// Bytes of the region before and behind the allocation that hold the slack pattern.
template <class Visit>
void each_slack(char* first, std::uint64_t bytes, char* begin, std::uint64_t size, Visit visit) {
  visit(first, static_cast<std::uint64_t>(begin - first));
  visit(begin + size, static_cast<std::uint64_t>(first + bytes - (begin + size)));
}

}  // namespace

bool near_device_memory(std::uint64_t address) {
  return address + kPage >= lowest.load(std::memory_order_relaxed) &&
         address <= highest.load(std::memory_order_relaxed) + kPage;
}

Memory::Memory(unsigned devices, std::uint64_t limit, bool guard_at_end)
    : used_(devices, 0), limit_(limit), guard_at_end_(guard_at_end) {}

Memory::~Memory() {
  for (const auto& [address, region] : regions_) munmap(region.pages, region.page_bytes);
  while (!freed_.empty()) forget_oldest();
}

std::expected<std::uint64_t, MemoryError> Memory::allocate(unsigned device, std::uint64_t size) {
  if (size == 0) size = 1;
  {
    const std::lock_guard lock(mutex_);
    if (size > limit_ || used_[device] > limit_ - size) return std::unexpected(MemoryError::kOutOfMemory);
    used_[device] += size;
  }
  const std::uint64_t usable = round_up(size, kPage);
  Region region = {.allocation = {.size = size, .device = device}, .page_bytes = usable + 2 * kPage};
  void* const mapped = mmap(nullptr, region.page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED || mprotect(static_cast<char*>(mapped) + kPage, usable, PROT_READ | PROT_WRITE) != 0) {
    if (mapped != MAP_FAILED) munmap(mapped, region.page_bytes);
    const std::lock_guard lock(mutex_);
    used_[device] -= size;
    return std::unexpected(MemoryError::kOutOfMemory);
  }
  region.pages = static_cast<char*>(mapped);
  char* const first = region.pages + kPage;
  char* const begin = guard_at_end_ ? first + usable - round_up(size, kAlignment) : first;
  std::memset(begin, kFresh, size);
  each_slack(first, usable, begin, size, [](char* at, std::uint64_t bytes) { std::memset(at, kSlack, bytes); });
  const std::uint64_t host = reinterpret_cast<std::uint64_t>(begin);
  widen_window(host, host + size);
  region.allocation.address = host | EMU_TAG;
  const std::lock_guard lock(mutex_);
  regions_[region.allocation.address] = region;
  return region.allocation.address;
}

std::expected<void, MemoryError> Memory::free(std::uint64_t address) {
  const std::lock_guard lock(mutex_);
  const auto found = regions_.find(address);
  if (found == regions_.end()) {
    if (holding(address) != nullptr) return std::unexpected(MemoryError::kInside);
    return std::unexpected(was_freed(address) ? MemoryError::kAlreadyFreed : MemoryError::kNotAllocated);
  }
  release(found->second);
  regions_.erase(found);
  return {};
}

void Memory::free_all(unsigned device) {
  const std::lock_guard lock(mutex_);
  for (auto it = regions_.begin(); it != regions_.end();) {
    if (it->second.allocation.device != device) {
      ++it;
      continue;
    }
    release(it->second);
    it = regions_.erase(it);
  }
}

/// The pages are given back to the system, their addresses are not.
void Memory::release(const Region& region) {
  char* const first = region.pages + kPage;
  bool written = false;
  each_slack(first, region.page_bytes - 2 * kPage, host_address(region.allocation.address), region.allocation.size,
             [&](const char* at, std::uint64_t bytes) {
               for (std::uint64_t i = 0; i < bytes; ++i) written |= static_cast<unsigned char>(at[i]) != kSlack;
             });
  if (written) {
    faults().note("overrun: bytes beside an allocation of " + std::to_string(region.allocation.size) +
                  " bytes were written");
  }
  mmap(region.pages, region.page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  used_[region.allocation.device] -= region.allocation.size;
  freed_.push_back({region.pages, region.page_bytes, region.allocation});
  if (freed_.size() > kFreedKept) forget_oldest();
}

void Memory::forget_oldest() {
  munmap(freed_.front().pages, freed_.front().page_bytes);
  freed_.pop_front();
}

const Memory::Region* Memory::holding(std::uint64_t address) const {
  auto after = regions_.upper_bound(address);
  if (after == regions_.begin()) return nullptr;
  const Region& region = std::prev(after)->second;
  return address < region.allocation.address + region.allocation.size ? &region : nullptr;
}

bool Memory::was_freed(std::uint64_t address) const {
  for (const Freed& freed : freed_) {
    if (address >= freed.allocation.address && address < freed.allocation.address + freed.allocation.size) return true;
  }
  return false;
}

std::expected<Allocation, MemoryError> Memory::check(std::uint64_t address, std::uint64_t size) const {
  const std::lock_guard lock(mutex_);
  const Region* const region = holding(address);
  if (region == nullptr) {
    return std::unexpected(was_freed(address) ? MemoryError::kAlreadyFreed : MemoryError::kNotAllocated);
  }
  const std::uint64_t left = region->allocation.address + region->allocation.size - address;
  if (size > left) return std::unexpected(MemoryError::kOutOfRange);
  return region->allocation;
}

std::uint64_t Memory::used(unsigned device) const {
  const std::lock_guard lock(mutex_);
  return used_[device];
}

}  // namespace crucible::emulator
