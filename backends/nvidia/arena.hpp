// One range of addresses of a device, into which memory is mapped where it is needed: large buffers lie side by side in
// it. It grows without moving what is there, and memory that no buffer uses is kept for the next one, or given back.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "backends/nvidia/cuda_types.hpp"

struct crucible_device;

namespace crucible_nvidia {

struct Cuda;

/// Threads: the caller serialises; the context must be current. Addresses are multiples of the granularity, 2 MiB on
/// today's devices.
class Arena {
 public:
  /// Reserves addresses, twice as many as the device has memory, and maps nothing. Check is_usable(). Not `wanted`:
  /// does nothing.
  Arena(crucible_device& device, bool wanted);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// False when the device or the driver has no virtual memory management; why_not() says what.
  bool is_usable() const { return base_ != 0; }
  const std::string& why_not() const { return why_not_; }
  std::uint64_t granularity() const { return granularity_; }

  /// Addresses with memory behind them, or the driver's code: CUDA_ERROR_OUT_OF_MEMORY leaves everything as it was.
  CUresult allocate(std::uint64_t size, CUdeviceptr& out);
  /// The memory stays mapped until trim().
  void free(CUdeviceptr address);
  /// Unmaps and gives back memory that lies wholly in no buffer, until at most `keep` bytes of it are left. Bytes that
  /// were given back.
  std::uint64_t trim(std::uint64_t keep);

  std::uint64_t mapped_bytes() const { return mapped_bytes_; }
  /// Of mapped memory: what no buffer uses.
  std::uint64_t idle_bytes() const { return mapped_bytes_ - used_bytes_; }

 private:
  struct Chunk {
    std::uint64_t size = 0;
    CUmemGenericAllocationHandle handle = 0;
  };
  using Ranges = std::map<std::uint64_t, std::uint64_t>;  // offset to size
  Ranges::iterator choose(std::uint64_t size);
  bool is_mapped(std::uint64_t begin, std::uint64_t end) const;
  CUresult map(std::uint64_t begin, std::uint64_t end);
  CUresult map_chunk(std::uint64_t offset, std::uint64_t size);
  void unmap(std::map<std::uint64_t, Chunk>::iterator chunk);

  crucible_device& device_;
  const Cuda& cuda_;
  std::string why_not_;
  CUdeviceptr base_ = 0;
  std::uint64_t size_ = 0, granularity_ = 0, mapped_bytes_ = 0, used_bytes_ = 0;
  std::map<std::uint64_t, Chunk> chunks_;  // mapped memory, by offset
  Ranges free_, used_;
};

}  // namespace crucible_nvidia
