// What lies behind the handles of the emulated driver: one process-wide Driver with its devices and memory, and the
// objects that an application holds. The entry points are in the .cpp files by subject; all of them are cuda.h's own
// declarations, so that the compiler checks every signature against the real header.
#pragma once

#pragma GCC visibility push(default)
#include <cuda.h>
#pragma GCC visibility pop

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "tests/emulators/core/activity.hpp"
#include "tests/emulators/core/device.hpp"
#include "tests/emulators/core/graph.hpp"
#include "tests/emulators/core/memory.hpp"
#include "tests/emulators/nvidia/warp_report.hpp"
#include "tests/emulators/ptx/load.hpp"

/// The primary context of a device; there are no others.
struct CUctx_st {
  crucible::emulator::Device* device = nullptr;
  int ordinal = 0;
  int references = 0;
  std::atomic<std::uint32_t> reached = 0;  // devices whose memory its kernels may use, a bit each by index
};
struct CUstream_st {
  crucible::emulator::DeviceStream* stream = nullptr;
  crucible::emulator::Device* device = nullptr;
  unsigned flags = 0;
  CUgraph capturing = nullptr;  // into which graph, between cuStreamBeginCapture and cuStreamEndCapture
  CUgraphNode last_captured = nullptr;
};
struct CUevent_st {
  crucible::emulator::Event event;
  bool has_time = true;
};

namespace crucible::emulators::nvidia {

/// A kernel of a loaded module. Launches keep what they need of it alive.
struct KernelOfModule {
  std::shared_ptr<const ptx::Library> library;
  emulator::KernelCode code;
  std::uint32_t index = 0;
  std::uint32_t most_dynamic_shared = 0;             // beside the static part
  std::shared_ptr<TellingModule> telling = nullptr;  // where warps are counted
  const ptx::Kernel& kernel() const { return library->translation().kernels[index]; }
};

}  // namespace crucible::emulators::nvidia

struct CUfunc_st {
  crucible::emulators::nvidia::KernelOfModule kernel;
  CUmod_st* module = nullptr;
};
struct CUmod_st {
  std::shared_ptr<const crucible::emulators::ptx::Library> library;
  std::map<std::string, CUfunc_st, std::less<>> functions;
};
struct CUgraphNode_st {
  CUgraph graph = nullptr;
  crucible::emulator::NodeId id = 0;
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  crucible::emulator::NodeWork work;
};
struct CUgraph_st {
  crucible::emulator::Graph graph;
  std::deque<CUgraphNode_st> nodes;
  crucible::emulator::Device* device = nullptr;
};
struct CUgraphExec_st {
  crucible::emulator::ExecutableGraph graph;
  std::map<CUgraphNode, std::pair<crucible::emulator::NodeId, CUgraphNodeType>> nodes;
  std::vector<CUgraphNodeType> types;
  std::uint32_t number = 0;  // among those of the process, from 1
};

namespace crucible::emulators::nvidia {

/// What a generation of devices has.
struct Generation {
  int capability;  // 90
  int multiprocessors, kilohertz, memory_kilohertz, bus_bits;
  int threads_per_multiprocessor, blocks_per_multiprocessor;
  int shared_per_multiprocessor, most_shared_per_block, l2_bytes;
};

/// One emulated device.
struct DeviceRecord {
  explicit DeviceRecord(unsigned index) : device(index) {}
  emulator::Device device;
  CUctx_st context;
  Generation generation = {};
  std::optional<CUresult> lost_code;  // that a fault asked for
};

/// Handles that an application holds, so that a wrong one is refused and not followed.
template <typename T>
class Handles {
 public:
  T* add(std::unique_ptr<T> object) {
    const std::lock_guard lock(mutex_);
    T* const handle = object.get();
    objects_[handle] = std::move(object);
    return handle;
  }
  bool has(const T* handle) const {
    const std::lock_guard lock(mutex_);
    return objects_.contains(const_cast<T*>(handle));
  }
  /// Null when it is none.
  std::unique_ptr<T> take(T* handle) {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(handle);
    if (found == objects_.end()) return nullptr;
    std::unique_ptr<T> object = std::move(found->second);
    objects_.erase(found);
    return object;
  }

 private:
  mutable std::mutex mutex_;
  std::map<T*, std::unique_ptr<T>> objects_;
};

/// Memory outside core's Memory: pinned host memory, variables of modules, mapped address ranges.
struct Range {
  std::uint64_t size = 0;
  enum class Kind { kPinned, kRegistered, kModule, kMapped } kind = Kind::kPinned;
  unsigned device = 0;
  std::uint32_t reached_by = 0;  // kMapped: devices that cuMemSetAccess gave leave, a bit each by index
};

struct Driver {
  std::mutex mutex;  // of what has no lock of its own
  bool initialised = false;
  std::vector<std::unique_ptr<DeviceRecord>> devices;  // those that CUDA_VISIBLE_DEVICES shows
  std::unique_ptr<emulator::Memory> memory;
  std::map<std::uint64_t, Range> ranges;  // by first address, as the application knows it
  std::uint64_t created_bytes = 0;        // by cuMemCreate
  Handles<CUstream_st> streams;
  Handles<CUevent_st> events;
  Handles<CUmod_st> modules;
  Handles<CUgraph_st> graphs;
  Handles<CUgraphExec_st> executables;
};

/// Never destroyed: an application's last calls may come from its destructors.
Driver& driver();

/// The context that is current in this thread, or null.
CUcontext current_context();

/// What an entry point asks first: cuInit was called; with `context`, one is current and its device works.
CUresult ready();
CUresult ready(CUcontext* context);
/// What has happened to a device, as a code that stays.
CUresult state_code(const emulator::Device& device);
/// The code that a rule names, else `usual`.
CUresult code_of(const emulator::Rule& rule, CUresult usual);
/// Asks the faults at a place before anything is done: what the entry point answers, if any.
std::optional<CUresult> fault_at(CUcontext context, emulator::Site site, std::string_view name, CUresult usual);

/// The stream behind a handle of the current context. Errors: null.
emulator::DeviceStream* stream_of(CUcontext context, CUstream handle);

/// Where [address, address + size) is in this process. Errors: nothing, when it is no memory of the driver's.
std::optional<char*> resolve(CUdeviceptr address, std::size_t size);
/// Puts memory of a pool back in the order of the stream. False when the address is of no pool.
bool free_into_pool(CUdeviceptr address, emulator::DeviceStream& stream);
/// True for a feature that CRUCIBLE_EMU_WITHOUT takes away: "virtual" or "pools".
bool lacks(std::string_view feature);
/// True for host memory that the driver has pinned.
bool is_pinned(const void* address, std::size_t size);

/// Bytes of a kernel's arguments. Errors: nothing, when they are missing or too few.
std::optional<std::vector<char>> pack_arguments(const ptx::Kernel& kernel, void** parameters, void** extra);
/// The same, as they are when the kernel runs: pointers to memory that the device may not use become such that fault.
/// Pointers that a kernel reads from memory are not looked at.
std::vector<char> reachable_arguments(const emulator::Device& device, const ptx::Kernel& kernel,
                                      std::vector<char> arguments);
/// Whether a launch is possible.
CUresult check_launch(const DeviceRecord& device, const KernelOfModule& kernel, const emulator::Launch& launch);
/// The work of a launch.
emulator::NodeWork kernel_work(emulator::Device& device, const CUfunc_st& function, const emulator::Launch& launch,
                               std::vector<char> arguments);

/// Adds a node behind the one that was captured last.
CUresult capture(CUstream stream, CUgraphNodeType type, emulator::NodeWork work);

/// Copies with the faults of the site "copy". Threads: a stream's.
void copy_now(emulator::Device& device, char* to, const char* from, std::size_t size, const char* direction);
/// The name of a copy at the site "copy": d2h, h2d, d2d, or p2p from one device to another.
const char* copy_direction(CUdeviceptr to, bool to_host, CUdeviceptr from, bool from_host);
/// What a copy takes in the model of times: "d2d" reads and writes the device's memory, all others use the link.
/// Threads: a stream's.
void spend_copy(emulator::Device& device, std::size_t size, std::string_view direction);
/// Writes `count` elements of 1, 2 or 4 bytes.
void fill_now(char* to, unsigned value, unsigned element_size, std::size_t count);

DeviceRecord* record_of(CUdevice device);
inline DeviceRecord& record_of(const CUcontext context) {
  return *driver().devices[static_cast<std::size_t>(context->ordinal)];
}

}  // namespace crucible::emulators::nvidia
