// Where a device's memory comes from (option `memory`): large buffers from the arena of mapped memory, the others from
// a pool of the driver, and where a driver or device has neither, from cuMemAlloc. What was freed is kept up to a
// limit, and given back when memory runs out.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

#include "backends/nvidia/arena.hpp"
#include "backends/nvidia/cuda_types.hpp"

namespace crucible_nvidia {

/// Threads: any. The context must be current.
class Allocator {
 public:
  enum class Source { kNone, kPlain, kPool, kArena };
  struct Block {
    CUdeviceptr address = 0;
    Source source = Source::kNone;
  };

  /// Reads the options. Errors: INCOMPATIBLE when `memory` demands virtual memory and the device has none.
  explicit Allocator(crucible_device& device);
  ~Allocator();
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;

  /// At least one byte, at a multiple of 256. Out of memory is tried once more when something could be given back.
  /// Errors: OUT_OF_MEMORY with what is wanted, free and there in all; others of the driver.
  Block allocate(std::uint64_t size);
  /// Nothing that uses it may be running.
  void free(Block block);
  /// Gives back everything that is kept. Bytes, as far as the driver tells them.
  std::uint64_t trim();

  /// "virtual and pools", "pools", "plain (...)".
  std::string describe() const;
  std::uint64_t mapped_bytes();
  std::uint64_t kept_bytes();

 private:
  CUresult try_allocate(std::uint64_t size, Block& block);
  std::uint64_t pool_number(int attribute) const;

  crucible_device& device_;
  const bool is_plain_;
  std::mutex mutex_;  // of the arena
  Arena arena_;
  CUmemoryPool pool_ = nullptr;
  std::string why_no_pool_;
  std::uint64_t keep_bytes_ = 0;
};

/// A block that goes back by itself. The context must be current then.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(Allocator& allocator, Allocator::Block block) : allocator_(&allocator), block_(block) {}
  DeviceMemory(DeviceMemory&& other) noexcept : allocator_(other.allocator_), block_(std::exchange(other.block_, {})) {}
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(allocator_, other.allocator_);
    std::swap(block_, other.block_);
    return *this;
  }
  ~DeviceMemory() {
    if (block_.address != 0) allocator_->free(block_);
  }
  CUdeviceptr get() const { return block_.address; }

 private:
  Allocator* allocator_ = nullptr;
  Allocator::Block block_;
};

}  // namespace crucible_nvidia
