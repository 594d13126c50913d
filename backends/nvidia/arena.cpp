// Reserving, mapping and giving back: see arena.hpp.
#include "backends/nvidia/arena.hpp"

#include <algorithm>
#include <iterator>
#include <vector>

#include "backends/nvidia/device.hpp"

namespace crucible_nvidia {

namespace {

// What is mapped, and later given back, in one piece: a buffer of gigabytes must not be all or nothing.
constexpr std::uint64_t kMostChunk = std::uint64_t{64} << 20;

CUmemAllocationProp properties_of(const DeviceFacts& facts) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, facts.device};
  return properties;
}

}  // namespace

Arena::Arena(crucible_device& device, bool wanted) : device_(device), cuda_(*device.driver) {
  if (!wanted) return;
  int has = 0;
  const int which = CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
  if (cuda_.cuDeviceGetAttribute(&has, which, device.facts.device) != CUDA_SUCCESS || has == 0) {
    why_not_ = device.facts.id + " has no virtual memory management";
    return;
  }
  const CUmemAllocationProp properties = properties_of(device.facts);
  std::size_t granularity = 0;
  CUresult code = cuda_.cuMemGetAllocationGranularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  if (code != CUDA_SUCCESS || granularity == 0) {
    why_not_ = "cuMemGetAllocationGranularity: " + error_text(cuda_, code);
    return;
  }
  granularity_ = granularity;
  // Twice: free ranges between buffers cost addresses, not memory.
  size_ = (2 * device.facts.memory_bytes + granularity_ - 1) / granularity_ * granularity_;
  code = cuda_.cuMemAddressReserve(&base_, size_, 0, 0, 0);
  if (code != CUDA_SUCCESS) {
    base_ = 0;
    why_not_ = "cuMemAddressReserve of " + std::to_string(size_) + " bytes: " + error_text(cuda_, code);
    return;
  }
  free_[0] = size_;
}

Arena::~Arena() {
  if (base_ == 0) return;
  // Buffers are gone, or their device is lost: nothing that is left can be used.
  while (!chunks_.empty()) unmap(chunks_.begin());
  (void)cuda_.cuMemAddressFree(base_, size_);
}

bool Arena::is_mapped(std::uint64_t begin, std::uint64_t end) const {
  auto chunk = chunks_.upper_bound(begin);
  if (chunk == chunks_.begin()) return false;
  for (--chunk; begin < end; ++chunk) {
    if (chunk == chunks_.end() || chunk->first > begin || chunk->first + chunk->second.size <= begin) return false;
    begin = chunk->first + chunk->second.size;
  }
  return true;
}

/// The smallest free range whose beginning has memory already, else the first that is long enough.
Arena::Ranges::iterator Arena::choose(std::uint64_t size) {
  auto best = free_.end(), first = free_.end();
  for (auto range = free_.begin(); range != free_.end(); ++range) {
    if (range->second < size) continue;
    if (first == free_.end()) first = range;
    if (is_mapped(range->first, range->first + size) && (best == free_.end() || range->second < best->second))
      best = range;
  }
  return best != free_.end() ? best : first;
}

CUresult Arena::map_chunk(std::uint64_t offset, std::uint64_t size) {
  const CUmemAllocationProp properties = properties_of(device_.facts);
  Chunk chunk = {size, 0};
  if (const CUresult code = cuda_.cuMemCreate(&chunk.handle, size, &properties, 0); code != CUDA_SUCCESS) return code;
  CUresult code = cuda_.cuMemMap(base_ + offset, size, 0, chunk.handle, 0);
  if (code == CUDA_SUCCESS) {
    const CUmemAccessDesc access = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    code = cuda_.cuMemSetAccess(base_ + offset, size, &access, 1);
    if (code != CUDA_SUCCESS) (void)cuda_.cuMemUnmap(base_ + offset, size);
  }
  if (code != CUDA_SUCCESS) {
    (void)cuda_.cuMemRelease(chunk.handle);
    return code;
  }
  chunks_[offset] = chunk;
  mapped_bytes_ += size;
  return CUDA_SUCCESS;
}

void Arena::unmap(std::map<std::uint64_t, Chunk>::iterator chunk) {
  (void)cuda_.cuMemUnmap(base_ + chunk->first, chunk->second.size);
  (void)cuda_.cuMemRelease(chunk->second.handle);
  mapped_bytes_ -= chunk->second.size;
  chunks_.erase(chunk);
}

/// Memory for what of [begin, end) has none. What was mapped before a failure is taken back.
CUresult Arena::map(std::uint64_t begin, std::uint64_t end) {
  std::map<std::uint64_t, std::uint64_t> gaps;
  std::uint64_t at = begin;
  auto chunk = chunks_.upper_bound(begin);
  if (chunk != chunks_.begin()) at = std::max(at, std::prev(chunk)->first + std::prev(chunk)->second.size);
  for (; at < end; ++chunk) {
    const std::uint64_t next = chunk == chunks_.end() ? end : std::min(end, chunk->first);
    if (next > at) gaps[at] = next - at;
    if (chunk == chunks_.end()) break;
    at = chunk->first + chunk->second.size;
  }
  std::vector<std::uint64_t> made;
  for (const auto& [offset, size] : gaps) {
    for (std::uint64_t done = 0; done < size; done += kMostChunk) {
      const CUresult code = map_chunk(offset + done, std::min(kMostChunk, size - done));
      if (code == CUDA_SUCCESS) {
        made.push_back(offset + done);
        continue;
      }
      for (const std::uint64_t one : made) unmap(chunks_.find(one));
      return code;
    }
  }
  return CUDA_SUCCESS;
}

CUresult Arena::allocate(std::uint64_t size, CUdeviceptr& out) {
  size = (std::max<std::uint64_t>(size, 1) + granularity_ - 1) / granularity_ * granularity_;
  const auto range = choose(size);
  if (range == free_.end()) return CUDA_ERROR_OUT_OF_MEMORY;
  const std::uint64_t offset = range->first, left = range->second - size;
  if (const CUresult code = map(offset, offset + size); code != CUDA_SUCCESS) return code;
  free_.erase(range);
  if (left != 0) free_[offset + size] = left;
  used_[offset] = size;
  used_bytes_ += size;
  out = base_ + offset;
  return CUDA_SUCCESS;
}

void Arena::free(CUdeviceptr address) {
  const auto used = used_.find(address - base_);
  if (used == used_.end()) return;
  used_bytes_ -= used->second;
  auto range = free_.emplace(used->first, used->second).first;
  used_.erase(used);
  if (const auto next = std::next(range); next != free_.end() && range->first + range->second == next->first) {
    range->second += next->second;
    free_.erase(next);
  }
  if (range == free_.begin()) return;
  const auto before = std::prev(range);
  if (before->first + before->second != range->first) return;
  before->second += range->second;
  free_.erase(range);
}

std::uint64_t Arena::trim(std::uint64_t keep) {
  const std::uint64_t before = mapped_bytes_;
  for (auto chunk = chunks_.begin(); chunk != chunks_.end() && idle_bytes() > keep;) {
    const auto current = chunk++;
    const std::uint64_t begin = current->first, end = begin + current->second.size;
    const auto after = free_.upper_bound(begin);
    const bool is_idle = after != free_.begin() && std::prev(after)->first + std::prev(after)->second >= end;
    if (is_idle) unmap(current);
  }
  return before - mapped_bytes_;
}

}  // namespace crucible_nvidia
