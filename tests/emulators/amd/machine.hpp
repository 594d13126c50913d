// The emulated machine behind libamdhip64: its devices, its memory, and the handles that were given out. What every
// entry point needs: the current device, the last error, and where faults become HIP's errors.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/emulators/amd/code_object.hpp"
#include "tests/emulators/amd/hip_api.h"
#include "tests/emulators/core/activity.hpp"
#include "tests/emulators/core/device.hpp"
#include "tests/emulators/core/graph.hpp"
#include "tests/emulators/core/memory.hpp"

struct ihipEvent_t {
  crucible::emulator::Event event;
  bool timed = true;
};

struct ihipModuleSymbol_t {
  std::shared_ptr<const crucible::emulator::LoadedCode> code;  // the kernel may run when its module is gone
  const crucible::emulator::LoadedKernel* kernel = nullptr;
};

struct ihipModule_t {
  std::shared_ptr<const crucible::emulator::LoadedCode> code;
  std::map<std::string, std::unique_ptr<ihipModuleSymbol_t>> functions;
};

namespace crucible::emulator {

inline constexpr std::uint32_t kMostThreads = kMaximumBlockThreads;
inline constexpr std::uint32_t kSharedBytes = 64 << 10;

/// A device with what AMD adds to it.
struct AmdDevice {
  AmdDevice(unsigned ordinal, unsigned physical_, std::string arch_, std::uint32_t wave_)
      : device(ordinal), physical(physical_), arch(std::move(arch_)), wave(wave_) {}
  /// The error that all calls answer while the device does not work; hipSuccess when it does.
  hipError_t error() const;
  /// It stops working with this error.
  void fail(hipError_t with);

  Device device;
  unsigned physical;  // before HIP_VISIBLE_DEVICES
  std::string arch;
  std::uint32_t wave;
  std::atomic<int> own_error = hipSuccess;  // of a rule with a code
  std::atomic<std::uint32_t> reached = 0;   // devices whose memory its kernels may use, a bit each by `physical`
};

template <class T>
class Handles {
 public:
  T* add(std::unique_ptr<T> object) {
    const std::lock_guard lock(mutex_);
    T* const handle = object.get();
    all_[handle] = std::move(object);
    return handle;
  }
  bool has(const T* handle) const {
    const std::lock_guard lock(mutex_);
    return all_.contains(const_cast<T*>(handle));
  }
  /// Null when there is no such.
  std::unique_ptr<T> take(T* handle) {
    const std::lock_guard lock(mutex_);
    const auto found = all_.find(handle);
    if (found == all_.end()) return nullptr;
    std::unique_ptr<T> object = std::move(found->second);
    all_.erase(found);
    return object;
  }

 private:
  mutable std::mutex mutex_;
  std::map<T*, std::unique_ptr<T>> all_;
};

struct PinnedRange {
  std::size_t size = 0;
  bool own = false;  // of hipHostMalloc, not hipHostRegister
};

/// Memory of the host that devices may use.
class Pinned {
 public:
  bool add(const void* pointer, PinnedRange range);
  /// False when no range of that kind begins there.
  bool remove(const void* pointer, bool own);
  bool holds(const void* pointer, std::size_t size) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::uintptr_t, PinnedRange> ranges_;
};

struct Machine {
  Machine();
  std::vector<std::unique_ptr<AmdDevice>> devices;
  std::unique_ptr<Memory> memory;
  Pinned pinned;
  Handles<ihipEvent_t> events;
  Handles<ihipModule_t> modules;
  Handles<::ihipGraph> graphs;
  Handles<::hipGraphExec> executables;
};

/// Made at the first call.
Machine& machine();
/// The calling thread's, or null when the machine has none.
AmdDevice* current_device();
hipError_t set_current_device(int ordinal);
int current_ordinal();

/// Keeps what an entry point answers as the thread's last error.
hipError_t remember(hipError_t error);
hipError_t last_error(bool forget);

/// Runs the body of an entry point: nothing thrown leaves it.
template <class Body>
hipError_t answer(Body body) noexcept {
  try {
    return remember(body());
  } catch (const std::bad_alloc&) {
    return remember(hipErrorOutOfMemory);
  } catch (const std::exception&) {
    return remember(hipErrorUnknown);
  }
}

/// As answer(), with the current device, which works.
template <class Body>
hipError_t answer_on_device(Body body) noexcept {
  return answer([&] {
    AmdDevice* const device = current_device();
    if (device == nullptr) return hipErrorNoDevice;
    if (const hipError_t broken = device->error()) return broken;
    return body(*device);
  });
}

/// Asks the faults at a place of an entry point that answers at once: oom and fail are its answer (`usual` unless the
/// rule names a code), lost and trap are the device's from now on.
hipError_t fault_at(AmdDevice& device, Site site, std::string_view name, hipError_t usual, std::uint64_t bytes = 0);
/// The same in a stream: whatever fires is the device's. Returns the rule for flip.
std::optional<Rule> fault_in_stream(AmdDevice& device, Site site, std::string_view name, std::uint64_t bytes = 0);

struct Target {
  AmdDevice* device = nullptr;  // whose stream it is
  DeviceStream* stream = nullptr;
};
/// The stream of a handle: null, 1 and 2 are the default stream of `device`. All null when it is no stream.
Target target_of(AmdDevice& device, hipStream_t handle);

/// As answer_on_device(), with a stream.
template <class Body>
hipError_t answer_on_stream(hipStream_t handle, Body body) noexcept {
  return answer_on_device([&](AmdDevice& device) {
    const Target target = target_of(device, handle);
    if (target.stream == nullptr) return hipErrorInvalidHandle;
    if (const hipError_t broken = target.device->error()) return broken;
    return body(target);
  });
}

// Work for streams and graphs.
/// Errors: what the call that asks for it answers.
hipError_t check_copy(const void* to, const void* from, std::size_t size, hipMemcpyKind kind);
bool is_device_pointer(const void* pointer);
NodeWork copy_work(AmdDevice& device, void* to, const void* from, std::size_t size);
hipError_t check_fill(const void* to, std::size_t bytes);
NodeWork fill_work(AmdDevice& device, const hipMemsetParams& params);

struct LaunchShape {
  dim3 grid, block;
  unsigned shared = 0;
};
hipError_t check_launch(const AmdDevice& device, const ihipModuleSymbol_t* function, const LaunchShape& shape,
                        void** parameters, void** extra);
/// Copies the parameters. Only after check_launch().
NodeWork launch_work(AmdDevice& device, const ihipModuleSymbol_t& function, const LaunchShape& shape, void** parameters,
                     void** extra);

}  // namespace crucible::emulator
