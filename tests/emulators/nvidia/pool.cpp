// Memory pools: what is freed into one is kept for the next allocation of the same size, as far as its release
// threshold allows, and counts as used memory of the device until it is trimmed. The default pool of a device keeps
// nothing.
#include "tests/emulators/nvidia/driver.hpp"

using namespace crucible::emulators::nvidia;
using crucible::emulator::Site;

struct CUmemPoolHandle_st {
  std::mutex mutex;
  unsigned device = 0;
  cuuint64_t threshold = 0, kept_bytes = 0, live_bytes = 0;
  std::multimap<std::uint64_t, CUdeviceptr> kept;  // by size
};

namespace crucible::emulators::nvidia {
namespace {

// Shared with work in streams: a pool may be destroyed while frees are on their way.
using Pool = std::shared_ptr<CUmemPoolHandle_st>;
struct Tables {
  std::mutex mutex;
  std::map<CUmemoryPool, Pool> pools;
  std::map<CUdeviceptr, std::pair<Pool, std::uint64_t>> live;  // of pools, with their sizes
};
Tables& tables() {
  static Tables& all = *new Tables;
  return all;
}

Pool find(CUmemoryPool handle) {
  const std::lock_guard lock(tables().mutex);
  const auto found = tables().pools.find(handle);
  return found == tables().pools.end() ? nullptr : found->second;
}

/// Gives back what is kept beyond `most`. The pool's lock is held.
void trim(CUmemPoolHandle_st& pool, cuuint64_t most) {
  while (pool.kept_bytes > most && !pool.kept.empty()) {
    const auto last = std::prev(pool.kept.end());
    (void)driver().memory->free(last->second);
    pool.kept_bytes -= last->first;
    pool.kept.erase(last);
  }
}

void give_back(const Pool& pool, CUdeviceptr address, std::uint64_t size) {
  const std::lock_guard lock(pool->mutex);
  pool->kept.emplace(size, address);
  pool->kept_bytes += size;
  pool->live_bytes -= size;
  trim(*pool, pool->threshold);
}

}  // namespace

bool free_into_pool(CUdeviceptr address, emulator::DeviceStream& stream) {
  Pool pool;
  std::uint64_t size = 0;
  {
    const std::lock_guard lock(tables().mutex);
    const auto found = tables().live.find(address);
    if (found == tables().live.end()) return false;
    std::tie(pool, size) = found->second;
    tables().live.erase(found);
  }
  stream.push([pool, address, size] { give_back(pool, address, size); });
  return true;
}

}  // namespace crucible::emulators::nvidia

CUresult cuMemPoolCreate(CUmemoryPool* handle, const CUmemPoolProps* properties) {
  CUcontext context = nullptr;
  if (const CUresult code = ready(&context)) return code;
  if (handle == nullptr || properties == nullptr || properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
      properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE || record_of(properties->location.id) == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  if (lacks("pools")) return CUDA_ERROR_NOT_SUPPORTED;
  auto pool = std::make_shared<CUmemPoolHandle_st>();
  pool->device = record_of(properties->location.id)->device.index();
  *handle = pool.get();
  const std::lock_guard lock(tables().mutex);
  tables().pools[*handle] = std::move(pool);
  return CUDA_SUCCESS;
}

CUresult cuMemPoolDestroy(CUmemoryPool handle) {
  if (const CUresult code = ready()) return code;
  Pool pool;
  {
    const std::lock_guard lock(tables().mutex);
    const auto found = tables().pools.find(handle);
    if (found == tables().pools.end()) return CUDA_ERROR_INVALID_VALUE;
    pool = found->second;
    tables().pools.erase(found);
  }
  const std::lock_guard lock(pool->mutex);
  pool->threshold = 0;  // what is still out goes back for good when it is freed
  trim(*pool, 0);
  return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void* value) {
  if (const CUresult code = ready()) return code;
  const Pool pool = find(handle);
  if (pool == nullptr || value == nullptr || attribute != CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
    return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(pool->mutex);
  pool->threshold = *static_cast<cuuint64_t*>(value);
  return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void* value) {
  if (const CUresult code = ready()) return code;
  const Pool pool = find(handle);
  if (pool == nullptr || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(pool->mutex);
  const std::map<CUmemPool_attribute, cuuint64_t> values = {
      {CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, pool->threshold},
      {CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, pool->kept_bytes + pool->live_bytes},
      {CU_MEMPOOL_ATTR_USED_MEM_CURRENT, pool->live_bytes}};
  const auto found = values.find(attribute);
  if (found == values.end()) return CUDA_ERROR_INVALID_VALUE;
  *static_cast<cuuint64_t*>(value) = found->second;
  return CUDA_SUCCESS;
}

CUresult cuMemPoolTrimTo(CUmemoryPool handle, std::size_t least) {
  CUcontext context = nullptr;
  if (const CUresult code = ready(&context)) return code;
  const Pool pool = find(handle);
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(pool->mutex);
  trim(*pool, least > pool->live_bytes ? least - pool->live_bytes : 0);
  return CUDA_SUCCESS;
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr* address, std::size_t size, CUmemoryPool handle, CUstream stream_handle) {
  CUcontext context = nullptr;
  if (const CUresult code = ready(&context)) return code;
  auto* const stream = stream_of(context, stream_handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const Pool pool = find(handle);
  if (pool == nullptr || address == nullptr || size == 0) return CUDA_ERROR_INVALID_VALUE;
  {
    const std::lock_guard lock(pool->mutex);
    if (const auto kept = pool->kept.find(size); kept != pool->kept.end()) {
      *address = kept->second;
      pool->kept.erase(kept);
      pool->kept_bytes -= size;
      stream->push([to = crucible::emulator::host_address(*address), size] { fill_now(to, 0xCD, 1, size); });
    } else {
      *address = 0;
    }
  }
  if (*address == 0) {
    CUdeviceptr made = 0;
    if (const CUresult code = cuMemAlloc(&made, size)) return code;
    *address = made;
  }
  {
    const std::lock_guard lock(pool->mutex);
    pool->live_bytes += size;
  }
  const std::lock_guard lock(tables().mutex);
  tables().live[*address] = {pool, size};
  return CUDA_SUCCESS;
}
