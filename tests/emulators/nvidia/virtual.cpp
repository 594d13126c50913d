// Virtual memory management: address ranges, memory without an address, and its mapping into them. Memory is a file
// without a name, so that it can be mapped twice, as on a device.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "tests/emulators/nvidia/driver.hpp"

using namespace crucible::emulators::nvidia;
using crucible::emulator::host_address;

namespace {

constexpr std::size_t kGranularity = 2 << 20;

struct Created {
  int file = -1;
  std::size_t size = 0;
};
struct Reserved {
  std::size_t size = 0;
};
struct Tables {
  std::mutex mutex;
  std::map<CUmemGenericAllocationHandle, Created> created;
  std::map<CUdeviceptr, Reserved> reserved;
  CUmemGenericAllocationHandle next = 1;
};
Tables& tables() {
  static Tables& all = *new Tables;
  return all;
}

bool is_reserved(CUdeviceptr address, std::size_t size) {
  auto after = tables().reserved.upper_bound(address);
  if (after == tables().reserved.begin()) return false;
  const auto& [base, range] = *--after;
  return address + size <= base + range.size;
}

}  // namespace

CUresult cuMemGetAllocationGranularity(std::size_t* granularity, const CUmemAllocationProp* properties,
                                       CUmemAllocationGranularity_flags) {
  if (const CUresult code = ready()) return code;
  if (granularity == nullptr || properties == nullptr || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED)
    return CUDA_ERROR_INVALID_VALUE;
  *granularity = kGranularity;
  return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr* address, std::size_t size, std::size_t alignment, CUdeviceptr,
                             unsigned long long flags) {
  if (const CUresult code = ready()) return code;
  if (lacks("virtual")) return CUDA_ERROR_NOT_SUPPORTED;
  if (address == nullptr || size == 0 || size % kGranularity != 0 || flags != 0 || (alignment & (alignment - 1)) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  const std::size_t step = std::max(alignment, kGranularity);
  void* const mapped = mmap(nullptr, size + step, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  // The rest of the pages stays as it is: a guard.
  *address = ((reinterpret_cast<CUdeviceptr>(mapped) + step - 1) / step * step) | EMU_TAG;
  const std::lock_guard lock(tables().mutex);
  tables().reserved[*address] = {size};
  return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr address, std::size_t size) {
  if (const CUresult code = ready()) return code;
  const std::lock_guard lock(tables().mutex);
  const auto found = tables().reserved.find(address);
  if (found == tables().reserved.end() || found->second.size != size) return CUDA_ERROR_INVALID_VALUE;
  munmap(host_address(address), size);
  tables().reserved.erase(found);
  return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, std::size_t size, const CUmemAllocationProp* properties,
                     unsigned long long flags) {
  CUcontext context = nullptr;
  if (const CUresult code = ready(&context)) return code;
  if (handle == nullptr || properties == nullptr || flags != 0 || size == 0 || size % kGranularity != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (properties->type != CU_MEM_ALLOCATION_TYPE_PINNED || properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
    return CUDA_ERROR_INVALID_VALUE;
  if (record_of(properties->location.id) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (const auto fault = fault_at(context, crucible::emulator::Site::kAlloc, "cuMemCreate", CUDA_ERROR_OUT_OF_MEMORY))
    return *fault;
  Driver& the = driver();
  const std::lock_guard lock(the.mutex);
  if (the.memory->used(context->device->index()) + the.created_bytes + size > the.memory->limit())
    return CUDA_ERROR_OUT_OF_MEMORY;
  const int file = memfd_create("crucible-emulated-memory", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(size)) != 0) {
    if (file >= 0) close(file);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  // Fresh memory is nobody's.
  if (void* const fresh = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0); fresh != MAP_FAILED) {
    std::memset(fresh, 0xCD, size);
    munmap(fresh, size);
  }
  the.created_bytes += size;
  const std::lock_guard table_lock(tables().mutex);
  *handle = tables().next++;
  tables().created[*handle] = {file, size};
  return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  if (const CUresult code = ready()) return code;
  Driver& the = driver();
  const std::lock_guard lock(the.mutex);
  const std::lock_guard table_lock(tables().mutex);
  const auto found = tables().created.find(handle);
  if (found == tables().created.end()) return CUDA_ERROR_INVALID_VALUE;
  close(found->second.file);  // mappings keep the memory itself
  the.created_bytes -= found->second.size;
  tables().created.erase(found);
  return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr address, std::size_t size, std::size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
  if (const CUresult code = ready()) return code;
  Driver& the = driver();
  const std::lock_guard lock(the.mutex);
  const std::lock_guard table_lock(tables().mutex);
  const auto found = tables().created.find(handle);
  const bool fits =
      found != tables().created.end() && offset + size <= found->second.size && is_reserved(address, size);
  if (!fits || flags != 0 || size == 0 || size % kGranularity != 0 || offset % kGranularity != 0 ||
      address % kGranularity != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (the.ranges.contains(address)) return CUDA_ERROR_INVALID_VALUE;
  // Nobody may touch it before cuMemSetAccess.
  void* const mapped = mmap(host_address(address), size, PROT_NONE, MAP_SHARED | MAP_FIXED, found->second.file,
                            static_cast<off_t>(offset));
  if (mapped == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  the.ranges[address] = {size, Range::Kind::kMapped, 0};
  return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr address, std::size_t size, const CUmemAccessDesc* access, std::size_t count) {
  if (const CUresult code = ready()) return code;
  if (access == nullptr || count == 0 || !resolve(address, 1)) return CUDA_ERROR_INVALID_VALUE;
  int protection = PROT_NONE;
  std::uint32_t granted = 0, withdrawn = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const DeviceRecord* const record =
        access[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE ? record_of(access[i].location.id) : nullptr;
    if (record == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    (access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE ? withdrawn : granted) |= 1u << record->device.index();
    if (access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READ) protection |= PROT_READ;
    if (access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE) protection |= PROT_READ | PROT_WRITE;
  }
  const std::lock_guard lock(driver().mutex);
  bool is_used = false;  // by a device that is not named
  for (auto& [begin, range] : driver().ranges) {
    if (range.kind != Range::Kind::kMapped || begin + range.size <= address || begin >= address + size) continue;
    range.reached_by = (range.reached_by | granted) & ~withdrawn;
    is_used |= (range.reached_by & ~granted) != 0;
  }
  if (is_used) protection = PROT_READ | PROT_WRITE;
  return mprotect(host_address(address), size, protection) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemUnmap(CUdeviceptr address, std::size_t size) {
  CUcontext context = nullptr;
  if (const CUresult code = ready(&context)) return code;
  context->device->synchronize();
  const std::lock_guard lock(driver().mutex);
  const auto found = driver().ranges.find(address);
  if (found == driver().ranges.end() || found->second.kind != Range::Kind::kMapped || found->second.size != size)
    return CUDA_ERROR_INVALID_VALUE;
  mmap(host_address(address), size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  driver().ranges.erase(found);
  return CUDA_SUCCESS;
}
