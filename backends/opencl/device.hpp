// The devices of all platforms, and one that is open. One object per open(); buffers, modules and plans point to it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "backends/opencl/command_buffer.hpp"
#include "backends/opencl/memory_kind.hpp"
#include "backends/opencl/opencl.hpp"
#include "plugins/abi/crucible_plugin.h"
#include "plugins/sdk/address_map.hpp"
#include "plugins/sdk/queue_table.hpp"
#include "plugins/sdk/watchdog.hpp"

namespace crucible_opencl {

/// How the work items of a launch become work-items of OpenCL.
enum class Mapping : std::uint8_t {
  kChunks,  // each does a range of its own in a loop: processors, whose compilers vectorise that loop
  kItems,   // neighbours do neighbouring items, each going on a grid's width further: everything else
};

/// How work-items do a kernel's item together (plugins/sdk/team_kernel.hpp).
enum class Teams : std::uint8_t { kNone, kGroups, kSubgroups };
std::string_view name(Teams teams);

/// In which language a device is given its kernels.
enum class Language : std::uint8_t { kC, kSpirv };

/// What a device says of itself.
struct DeviceFacts {
  std::string id;  // opencl:N, N counting over all platforms
  cl_platform_id platform = nullptr;
  cl_device_id device = nullptr;
  std::string platform_name, name, vendor, version, driver, extensions;
  std::string uuid, pci;     // "" where the driver does not tell
  std::string intermediate;  // languages between text and machine code that it takes: "SPIR-V_1.0 SPIR-V_1.2"
  cl_device_type type = 0;
  std::uint64_t units = 1, megahertz = 0, memory_bytes = 0, largest_buffer_bytes = 0, parameter_bytes = 0;
  std::uint64_t register_bytes = 0;               // of a processor's vector registers; 0: unknown
  std::uint64_t group_size = 1, local_bytes = 0;  // most work-items of a group, and the memory that they share
  std::uint64_t in_step = 0;                      // work-items that go in step by the vendor's own word; 0: it has none
  std::vector<std::size_t> subgroup_sizes;        // those that a kernel may demand, with shuffles; empty: none
  bool has_compiler = false, rounds_division = false;
  cl_device_svm_capabilities shared_memory = 0;  // shared virtual memory; 0: none

  bool is_processor() const { return (type & CL_DEVICE_TYPE_CPU) != 0; }
  /// Lanes that a launch is shared among, and those of them that go in step: OpenCL does not say how wide a unit is, so
  /// what is usual.
  std::uint64_t threads() const { return is_processor() ? units : units * 64; }
  std::uint64_t lanes() const { return is_processor() ? 1 : std::max<std::uint64_t>(in_step, 32); }
  bool has(std::string_view extension) const;
  /// 0 where the driver does not tell: before OpenCL 3.0.
  cl_version version_of(const Functions& cl, std::string_view extension) const;
  bool has_f64() const { return has("cl_khr_fp64"); }
  bool has_spirv() const { return intermediate.find("SPIR-V_1.") != std::string::npos; }
};

/// In the order of the platforms. Threads: any. Errors: UNAVAILABLE when there is no library or no device at all.
std::vector<DeviceFacts> list_devices(const Functions& cl);
/// "" is the first. Errors: UNAVAILABLE naming those that there are.
DeviceFacts find_device(const Functions& cl, crucible_str device_id);

}  // namespace crucible_opencl

struct crucible_device : crucible::sdk::QueueOwner {
  const crucible_opencl::Functions* cl = nullptr;
  crucible_opencl::DeviceFacts facts;
  crucible_opencl::Mapping mapping = crucible_opencl::Mapping::kItems;
  crucible_opencl::Language language = crucible_opencl::Language::kC;
  crucible_opencl::Teams teams = crucible_opencl::Teams::kNone;
  std::uint32_t team_lanes = 1;                               // work-items of a team that is one sub-group, or as wide
  decltype(&::clCreateProgramWithIL) create_spirv = nullptr;  // with Language::kSpirv
  crucible_opencl::Context context;
  crucible_opencl::Queue queue;  // in order, with profiling: plans, and what the host writes and reads
  crucible_opencl::DeviceMemory memory;
  crucible_opencl::CommandBufferFunctions command_buffers;
  bool only_command_buffers = false;  // the option `plans` asks for them: a plan that cannot be one is an error
  crucible::sdk::Watchdog watchdog;

  crucible::sdk::AddressMap addresses;  // pointers, or numbers that only this plugin gives a meaning
  std::mutex run_mutex;                 // one plan runs at a time

  bool has_teams() const { return teams != crucible_opencl::Teams::kNone; }
  std::uint64_t lanes() const { return has_teams() ? team_lanes : facts.lanes(); }
  std::uint64_t threads() const { return has_teams() ? facts.units * 64 : facts.threads(); }
};

namespace crucible_opencl {

/// "opencl" or "spirv", for ever.
std::string_view dialect_name(Language language);

/// Waits until everything on a queue is done; with the option timeout_s no longer than that. Errors: `what` with
/// the driver's code; DEVICE_LOST when the time is over: the device is suspect from then on.
void finish(crucible_device& device, const Queue& queue, std::string_view what);

}  // namespace crucible_opencl
