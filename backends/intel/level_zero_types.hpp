// The part of Level Zero that this plugin uses, as the specification (https://oneapi-src.github.io/level-zero-spec)
// lays it out in memory: structs, numbers and the types of functions. The vendor's headers are not needed to build;
// where they are installed, a test compares.
#pragma once

#include <cstddef>
#include <cstdint>

namespace crucible_intel::ze {

using Driver = struct DriverObject*;
using Device = struct DeviceObject*;
using Context = struct ContextObject*;
using Queue = struct QueueObject*;
using List = struct ListObject*;
using Module = struct ModuleObject*;
using BuildLog = struct BuildLogObject*;
using Kernel = struct KernelObject*;
using EventPool = struct EventPoolObject*;
using Event = struct EventObject*;
using Fence = struct FenceObject*;

enum class Result : std::uint32_t {
  kSuccess = 0,
  kNotReady = 1,
  kDeviceLost = 0x70000001,
  kNotAvailable = 0x70010001,
  kOutOfHostMemory = 0x70000002,
  kOutOfDeviceMemory = 0x70000003,
  kModuleBuildFailure = 0x70000004,
  kDeviceRequiresReset = 0x70000006,
  kInsufficientPermissions = 0x70010000,
  kDependencyUnavailable = 0x70020000,
  kUninitialized = 0x78000001,
  kUnsupportedVersion = 0x78000002,
  kUnsupportedFeature = 0x78000003,
  kInvalidArgument = 0x78000004,
  kUnsupportedSize = 0x78000009,
  kUnsupportedAlignment = 0x7800000a,
  kInvalidNativeBinary = 0x7800000f,
};

enum class Structure : std::uint32_t {
  kDriverProperties = 0x1,
  kModuleProperties = 0x5,
  kComputeProperties = 0x4,
  kQueueGroupProperties = 0x6,
  kMemoryProperties = 0x7,
  kContextDesc = 0xd,
  kQueueDesc = 0xe,
  kListDesc = 0xf,
  kEventPoolDesc = 0x10,
  kEventDesc = 0x11,
  kDeviceMemoryDesc = 0x15,
  kModuleDesc = 0x1b,
  kKernelDesc = 0x1d,
  kMutableListProperties =
      0x00020015,  // this and the next four: ZE_experimental_mutable_command_list, of interface 1.9
  kMutableListDesc = 0x00020016,
  kMutableCommandIdDesc = 0x00020017,
  kMutableCommandsDesc = 0x00020018,
  kMutableArgumentDesc = 0x00020019,
  kDeviceProperties12 = 0x00020006,  // timer_resolution is cycles per second, not nanoseconds per cycle
};

inline constexpr std::uint32_t kGpu = 1, kCpu = 2;                                 // DeviceProperties::type
inline constexpr std::uint32_t kModuleFp16 = 1, kModuleFp64 = 2;                   // ModuleProperties::flags
inline constexpr std::uint32_t kDenormals = 1, kRoundedDivideSqrt = 0x40;          // ModuleProperties::fp32_flags
inline constexpr std::uint32_t kGroupComputes = 1;                                 // QueueGroupProperties::flags
inline constexpr std::uint32_t kSynchronous = 1, kAsynchronous = 2;                // QueueDesc::mode
inline constexpr std::uint32_t kHostVisible = 1, kKernelTimestamp = 4;             // EventPoolDesc::flags
inline constexpr std::uint32_t kScopeHost = 4;                                     // EventDesc::signal
inline constexpr std::uint32_t kSpirv = 0, kNative = 1;                            // ModuleDesc::format
inline constexpr std::uint32_t kIndirectDevice = 2;                                // zeKernelSetIndirectAccess
inline constexpr std::uint32_t kMutableArguments =
    1;  // MutableListProperties::command_flags, MutableCommandIdDesc::flags
inline constexpr std::uint32_t kHandleOfList = 4;                                  // zelLoaderTranslateHandle
inline constexpr const char* kMutableListExtension = "ZE_experimental_mutable_command_list";

struct DriverProperties {
  Structure type = Structure::kDriverProperties;
  void* next = nullptr;
  std::uint8_t uuid[16] = {};
  std::uint32_t version = 0;
};
struct DeviceProperties {
  Structure structure = Structure::kDeviceProperties12;
  void* next = nullptr;
  std::uint32_t type = 0, vendor_id = 0, device_id = 0, flags = 0, subdevice_id = 0, core_clock_rate = 0;
  std::uint64_t max_alloc_size = 0;
  std::uint32_t max_contexts = 0, max_queue_priority = 0, threads_per_eu = 0, simd_width = 0, eus_per_subslice = 0,
                subslices_per_slice = 0, slices = 0;
  std::uint64_t timer_resolution = 0;
  std::uint32_t timestamp_bits = 0, kernel_timestamp_bits = 0;
  std::uint8_t uuid[16] = {};
  char name[256] = {};
};
struct ComputeProperties {
  Structure type = Structure::kComputeProperties;
  void* next = nullptr;
  std::uint32_t max_group_size = 0, max_group_x = 0, max_group_y = 0, max_group_z = 0, max_count_x = 0, max_count_y = 0,
                max_count_z = 0;
  std::uint32_t local_memory = 0, subgroup_size_count = 0, subgroup_sizes[8] = {};
};
struct ModuleProperties {
  Structure type = Structure::kModuleProperties;
  void* next = nullptr;
  std::uint32_t spirv_version = 0, flags = 0, fp16_flags = 0, fp32_flags = 0, fp64_flags = 0, max_arguments_size = 0,
                printf_size = 0;
  std::uint8_t native_kernels[16] = {};
};
struct QueueGroupProperties {
  Structure type = Structure::kQueueGroupProperties;
  void* next = nullptr;
  std::uint32_t flags = 0;
  std::size_t max_fill_pattern = 0;
  std::uint32_t queues = 0;
};
struct MemoryProperties {
  Structure type = Structure::kMemoryProperties;
  void* next = nullptr;
  std::uint32_t flags = 0, max_clock_rate = 0, max_bus_width = 0;
  std::uint64_t total_size = 0;
  char name[256] = {};
};
struct ContextDesc {
  Structure type = Structure::kContextDesc;
  const void* next = nullptr;
  std::uint32_t flags = 0;
};
struct QueueDesc {
  Structure type = Structure::kQueueDesc;
  const void* next = nullptr;
  std::uint32_t ordinal = 0, index = 0, flags = 0, mode = kAsynchronous, priority = 0;
};
struct ListDesc {
  Structure type = Structure::kListDesc;
  const void* next = nullptr;
  std::uint32_t ordinal = 0, flags = 0;
};
struct DeviceMemoryDesc {
  Structure type = Structure::kDeviceMemoryDesc;
  const void* next = nullptr;
  std::uint32_t flags = 0, ordinal = 0;
};
struct ModuleDesc {
  Structure type = Structure::kModuleDesc;
  const void* next = nullptr;
  std::uint32_t format = kSpirv;
  std::size_t size = 0;
  const std::uint8_t* bytes = nullptr;
  const char* flags = nullptr;
  const void* constants = nullptr;
};
struct KernelDesc {
  Structure type = Structure::kKernelDesc;
  const void* next = nullptr;
  std::uint32_t flags = 0;
  const char* name = nullptr;
};
struct EventPoolDesc {
  Structure type = Structure::kEventPoolDesc;
  const void* next = nullptr;
  std::uint32_t flags = kHostVisible | kKernelTimestamp, count = 0;
};
struct EventDesc {
  Structure type = Structure::kEventDesc;
  const void* next = nullptr;
  std::uint32_t index = 0, signal = kScopeHost, wait = 0;
};
struct KernelTimestamp {
  std::uint64_t global_start = 0, global_end = 0, context_start = 0, context_end = 0;
};
struct GroupCount {
  std::uint32_t x = 1, y = 1, z = 1;
};
struct ExtensionProperties {
  char name[256] = {};
  std::uint32_t version = 0;
};
struct MutableListProperties {  // behind DeviceProperties::next
  Structure type = Structure::kMutableListProperties;
  void* next = nullptr;
  std::uint32_t list_flags = 0, command_flags = 0;
};
struct MutableListDesc {  // behind ListDesc::next
  Structure type = Structure::kMutableListDesc;
  const void* next = nullptr;
  std::uint32_t flags = 0;
};
struct MutableCommandIdDesc {
  Structure type = Structure::kMutableCommandIdDesc;
  const void* next = nullptr;
  std::uint32_t flags = kMutableArguments;
};
struct MutableCommandsDesc {  // what changes is a chain behind `next`
  Structure type = Structure::kMutableCommandsDesc;
  const void* next = nullptr;
  std::uint32_t flags = 0;
};
struct MutableArgumentDesc {
  Structure type = Structure::kMutableArgumentDesc;
  const void* next = nullptr;
  std::uint64_t command = 0;
  std::uint32_t index = 0;
  std::size_t size = 0;
  const void* value = nullptr;
};

// All functions that are called always: name, parameters. Everything is in version 1.0.
#define CRUCIBLE_LEVEL_ZERO_FUNCTIONS(X)                                                                             \
  X(zeInit, std::uint32_t)                                                                                           \
  X(zeDriverGet, std::uint32_t*, Driver*)                                                                            \
  X(zeDriverGetApiVersion, Driver, std::uint32_t*)                                                                   \
  X(zeDriverGetProperties, Driver, DriverProperties*)                                                                \
  X(zeDriverGetExtensionProperties, Driver, std::uint32_t*, ExtensionProperties*)                                    \
  X(zeDeviceGet, Driver, std::uint32_t*, Device*)                                                                    \
  X(zeDeviceGetProperties, Device, DeviceProperties*)                                                                \
  X(zeDeviceGetComputeProperties, Device, ComputeProperties*)                                                        \
  X(zeDeviceGetModuleProperties, Device, ModuleProperties*)                                                          \
  X(zeDeviceGetMemoryProperties, Device, std::uint32_t*, MemoryProperties*)                                          \
  X(zeDeviceGetCommandQueueGroupProperties, Device, std::uint32_t*, QueueGroupProperties*)                           \
  X(zeContextCreate, Driver, const ContextDesc*, Context*)                                                           \
  X(zeContextDestroy, Context)                                                                                       \
  X(zeMemAllocDevice, Context, const DeviceMemoryDesc*, std::size_t, std::size_t, Device, void**)                    \
  X(zeMemFree, Context, void*)                                                                                       \
  X(zeCommandQueueCreate, Context, Device, const QueueDesc*, Queue*)                                                 \
  X(zeCommandQueueDestroy, Queue)                                                                                    \
  X(zeCommandQueueExecuteCommandLists, Queue, std::uint32_t, List*, Fence)                                           \
  X(zeCommandQueueSynchronize, Queue, std::uint64_t)                                                                 \
  X(zeCommandListCreate, Context, Device, const ListDesc*, List*)                                                    \
  X(zeCommandListCreateImmediate, Context, Device, const QueueDesc*, List*)                                          \
  X(zeCommandListDestroy, List)                                                                                      \
  X(zeCommandListClose, List)                                                                                        \
  X(zeCommandListAppendBarrier, List, Event, std::uint32_t, Event*)                                                  \
  X(zeCommandListAppendMemoryCopy, List, void*, const void*, std::size_t, Event, std::uint32_t, Event*)              \
  X(zeCommandListAppendMemoryFill, List, void*, const void*, std::size_t, std::size_t, Event, std::uint32_t, Event*) \
  X(zeCommandListAppendLaunchKernel, List, Kernel, const GroupCount*, Event, std::uint32_t, Event*)                  \
  X(zeEventPoolCreate, Context, const EventPoolDesc*, std::uint32_t, Device*, EventPool*)                            \
  X(zeEventPoolDestroy, EventPool)                                                                                   \
  X(zeEventCreate, EventPool, const EventDesc*, Event*)                                                              \
  X(zeEventDestroy, Event)                                                                                           \
  X(zeEventQueryKernelTimestamp, Event, KernelTimestamp*)                                                            \
  X(zeModuleCreate, Context, Device, const ModuleDesc*, Module*, BuildLog*)                                          \
  X(zeModuleDestroy, Module)                                                                                         \
  X(zeModuleBuildLogGetString, BuildLog, std::size_t*, char*)                                                        \
  X(zeModuleBuildLogDestroy, BuildLog)                                                                               \
  X(zeModuleGetNativeBinary, Module, std::size_t*, std::uint8_t*)                                                    \
  X(zeKernelCreate, Module, const KernelDesc*, Kernel*)                                                              \
  X(zeKernelDestroy, Kernel)                                                                                         \
  X(zeKernelSetGroupSize, Kernel, std::uint32_t, std::uint32_t, std::uint32_t)                                       \
  X(zeKernelSetIndirectAccess, Kernel, std::uint32_t)                                                                \
  X(zeKernelSetArgumentValue, Kernel, std::uint32_t, std::size_t, const void*)

// What newer loaders have beside: a loader without them does.
#define CRUCIBLE_LEVEL_ZERO_OPTIONAL_FUNCTIONS(X)                               \
  X(zeDriverGetExtensionFunctionAddress, Driver, const char*, void**)           \
  X(zelLoaderTranslateHandle, std::uint32_t, void*, void**)                     \
  X(zeDeviceGetGlobalTimestamps, Device, std::uint64_t*, std::uint64_t*)        \
  X(zeCommandListGetNextCommandIdExp, List, const MutableCommandIdDesc*, std::uint64_t*) \
  X(zeCommandListUpdateMutableCommandsExp, List, const MutableCommandsDesc*)

}  // namespace crucible_intel::ze
