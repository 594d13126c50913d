// Choosing where memory comes from: see allocator.hpp.
#include "backends/nvidia/allocator.hpp"

#include <algorithm>

#include "backends/nvidia/device.hpp"
#include "backends/nvidia/options.hpp"
#include "plugins/sdk/error.hpp"

namespace crucible_nvidia {

using namespace crucible;

namespace {

[[noreturn]] void out_of_memory(crucible_device& device, std::uint64_t size, std::uint64_t given_back) {
  std::size_t free = 0, total = device.facts.memory_bytes;
  (void)device.driver->cuMemGetInfo(&free, &total);  // an error leaves the total, and nothing free
  const std::string again =
      given_back == 0 ? "" : ", after " + std::to_string(given_back) + " bytes that were kept had been given back";
  throw sdk::Failure(CRUCIBLE_E_OUT_OF_MEMORY,
                     "cannot have " + std::to_string(size) + " bytes on " + device.facts.id + again + ": " +
                         std::to_string(free) + " of " + std::to_string(total) + " are free, and this plugin has " +
                         std::to_string(device.ledger.of("buffer").live_bytes) +
                         "; use a smaller batch or a memory budget, or end other programs on the device",
                     {{"requested", std::to_string(size)}, {"available", std::to_string(free)}});
}

}  // namespace

Allocator::Allocator(crucible_device& device)
    : device_(device), is_plain_(options().get_text("memory") == "plain"), arena_(device, !is_plain_) {
  const Cuda& cuda = *device.driver;
  keep_bytes_ = options().get_u64("memory_keep_mib") << 20;
  if (options().get_text("memory") == "virtual" && !arena_.is_usable())
    throw sdk::Failure(CRUCIBLE_E_INCOMPATIBLE, "the option memory demands virtual memory, and " + arena_.why_not() +
                                                    ": set it to auto or plain");
  int has = 0;
  if (cuda.cuDeviceGetAttribute(&has, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, device.facts.device) !=
          CUDA_SUCCESS ||
      has == 0) {
    why_no_pool_ = device.facts.id + " has no memory pools";
    return;
  }
  if (is_plain_) return;
  // A pool of our own: the default one is the process's, and its limits are not ours to set.
  CUmemPoolProps properties = {};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device.facts.device};
  CUresult code = cuda.cuMemPoolCreate(&pool_, &properties);
  if (code == CUDA_SUCCESS) code = cuda.cuMemPoolSetAttribute(pool_, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep_bytes_);
  if (code == CUDA_SUCCESS) return;
  why_no_pool_ = "cuMemPoolCreate: " + error_text(cuda, code);
  if (pool_ != nullptr) (void)cuda.cuMemPoolDestroy(std::exchange(pool_, nullptr));
}

Allocator::~Allocator() {
  if (pool_ != nullptr) (void)device_.driver->cuMemPoolDestroy(pool_);
}

CUresult Allocator::try_allocate(std::uint64_t size, Block& block) {
  const Cuda& cuda = *device_.driver;
  if (!is_plain_ && arena_.is_usable() && size >= arena_.granularity()) {
    const std::lock_guard lock(mutex_);
    block.source = Source::kArena;
    return arena_.allocate(size, block.address);
  }
  if (pool_ != nullptr) {
    block.source = Source::kPool;
    CUstream const stream = device_.stream.get();
    if (const CUresult code = cuda.cuMemAllocFromPoolAsync(&block.address, size, pool_, stream); code != CUDA_SUCCESS)
      return code;
    // Every stream may use it once this one has come to it.
    const CUresult code = cuda.cuStreamSynchronize(stream);
    if (code != CUDA_SUCCESS) free(std::exchange(block, {}));
    return code;
  }
  block.source = Source::kPlain;
  return cuda.cuMemAlloc(&block.address, size);
}

Allocator::Block Allocator::allocate(std::uint64_t size) {
  if (size > device_.facts.memory_bytes) out_of_memory(device_, size, 0);
  const std::uint64_t bytes = std::max<std::uint64_t>(size, 1);
  Block block;
  std::uint64_t given_back = 0;
  const CUresult code = sdk::ask_twice(
      device_.facts.id, size, [&] { return try_allocate(bytes, block); },
      [](CUresult answer) { return answer == CUDA_ERROR_OUT_OF_MEMORY; },
      [&] {
        device_.synchronize(device_.stream.get(), "memory.alloc");
        given_back = trim();
      });
  if (code == CUDA_ERROR_OUT_OF_MEMORY) out_of_memory(device_, size, given_back);
  device_.check(code, "memory of " + std::to_string(size) + " bytes (" + describe() + ")");
  return block;
}

void Allocator::free(Block block) {
  const Cuda& cuda = *device_.driver;
  // A lost device refuses, and has nothing left to give back.
  if (block.source == Source::kPlain) (void)cuda.cuMemFree(block.address);
  if (block.source == Source::kPool) (void)cuda.cuMemFreeAsync(block.address, device_.stream.get());
  if (block.source != Source::kArena) return;
  const std::lock_guard lock(mutex_);
  arena_.free(block.address);
  if (arena_.idle_bytes() > keep_bytes_) (void)arena_.trim(keep_bytes_);
}

std::uint64_t Allocator::pool_number(int attribute) const {
  std::uint64_t value = 0;
  if (pool_ == nullptr || device_.driver->cuMemPoolGetAttribute(pool_, attribute, &value) != CUDA_SUCCESS) return 0;
  return value;
}

std::uint64_t Allocator::trim() {
  std::uint64_t bytes = 0;
  {
    const std::lock_guard lock(mutex_);
    bytes = arena_.trim(0);
  }
  if (pool_ == nullptr) return bytes;
  // What was freed last has come through the stream then.
  (void)device_.driver->cuStreamSynchronize(device_.stream.get());
  const std::uint64_t before = pool_number(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
  (void)device_.driver->cuMemPoolTrimTo(pool_, 0);
  return bytes + before - std::min(before, pool_number(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
}

std::string Allocator::describe() const {
  if (is_plain_) return "plain";
  const std::string pools = pool_ != nullptr ? "pools" : "plain (" + why_no_pool_ + ")";
  return arena_.is_usable() ? "virtual and " + pools : pools + "; " + arena_.why_not();
}

std::uint64_t Allocator::mapped_bytes() {
  const std::lock_guard lock(mutex_);
  return arena_.mapped_bytes();
}

std::uint64_t Allocator::kept_bytes() {
  // What was freed last has come through the stream then; of a suspect device it never does.
  if (!device_.watchdog.is_suspect()) (void)device_.driver->cuStreamSynchronize(device_.stream.get());
  const std::uint64_t reserved = pool_number(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT),
                      used = pool_number(CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
  const std::lock_guard lock(mutex_);
  return arena_.idle_bytes() + reserved - std::min(reserved, used);
}

}  // namespace crucible_nvidia
