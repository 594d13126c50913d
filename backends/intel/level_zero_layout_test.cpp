// The own declarations of Level Zero beside the vendor's header, where that is installed (Debian: libze-dev): sizes,
// offsets, numbers.
#include <gtest/gtest.h>
#include <level_zero/ze_api.h>

#include <cstddef>

#include "backends/intel/level_zero_types.hpp"

namespace crucible_intel::ze {
namespace {

#define EXPECT_SAME_PLACE(ours, our_member, theirs, their_member)              \
  EXPECT_EQ(offsetof(ours, our_member), offsetof(theirs, their_member));       \
  EXPECT_EQ(sizeof(ours::our_member), sizeof(theirs::their_member)) << #theirs "." #their_member

TEST(LevelZeroLayout, StructsAreTheVendors) {
  EXPECT_EQ(sizeof(DriverProperties), sizeof(ze_driver_properties_t));
  EXPECT_SAME_PLACE(DriverProperties, version, ze_driver_properties_t, driverVersion);
  EXPECT_EQ(sizeof(DeviceProperties), sizeof(ze_device_properties_t));
  EXPECT_SAME_PLACE(DeviceProperties, core_clock_rate, ze_device_properties_t, coreClockRate);
  EXPECT_SAME_PLACE(DeviceProperties, max_alloc_size, ze_device_properties_t, maxMemAllocSize);
  EXPECT_SAME_PLACE(DeviceProperties, simd_width, ze_device_properties_t, physicalEUSimdWidth);
  EXPECT_SAME_PLACE(DeviceProperties, slices, ze_device_properties_t, numSlices);
  EXPECT_SAME_PLACE(DeviceProperties, timer_resolution, ze_device_properties_t, timerResolution);
  EXPECT_SAME_PLACE(DeviceProperties, kernel_timestamp_bits, ze_device_properties_t, kernelTimestampValidBits);
  EXPECT_SAME_PLACE(DeviceProperties, uuid, ze_device_properties_t, uuid);
  EXPECT_SAME_PLACE(DeviceProperties, name, ze_device_properties_t, name);
  EXPECT_EQ(sizeof(ComputeProperties), sizeof(ze_device_compute_properties_t));
  EXPECT_SAME_PLACE(ComputeProperties, max_count_x, ze_device_compute_properties_t, maxGroupCountX);
  EXPECT_EQ(sizeof(ModuleProperties), sizeof(ze_device_module_properties_t));
  EXPECT_SAME_PLACE(ModuleProperties, fp32_flags, ze_device_module_properties_t, fp32flags);
  EXPECT_SAME_PLACE(ModuleProperties, max_arguments_size, ze_device_module_properties_t, maxArgumentsSize);
  EXPECT_EQ(sizeof(QueueGroupProperties), sizeof(ze_command_queue_group_properties_t));
  EXPECT_SAME_PLACE(QueueGroupProperties, flags, ze_command_queue_group_properties_t, flags);
  EXPECT_EQ(sizeof(MemoryProperties), sizeof(ze_device_memory_properties_t));
  EXPECT_SAME_PLACE(MemoryProperties, total_size, ze_device_memory_properties_t, totalSize);
  EXPECT_EQ(sizeof(ContextDesc), sizeof(ze_context_desc_t));
  EXPECT_EQ(sizeof(QueueDesc), sizeof(ze_command_queue_desc_t));
  EXPECT_SAME_PLACE(QueueDesc, mode, ze_command_queue_desc_t, mode);
  EXPECT_EQ(sizeof(ListDesc), sizeof(ze_command_list_desc_t));
  EXPECT_SAME_PLACE(ListDesc, ordinal, ze_command_list_desc_t, commandQueueGroupOrdinal);
  EXPECT_EQ(sizeof(DeviceMemoryDesc), sizeof(ze_device_mem_alloc_desc_t));
  EXPECT_EQ(sizeof(ModuleDesc), sizeof(ze_module_desc_t));
  EXPECT_SAME_PLACE(ModuleDesc, bytes, ze_module_desc_t, pInputModule);
  EXPECT_SAME_PLACE(ModuleDesc, flags, ze_module_desc_t, pBuildFlags);
  EXPECT_EQ(sizeof(KernelDesc), sizeof(ze_kernel_desc_t));
  EXPECT_SAME_PLACE(KernelDesc, name, ze_kernel_desc_t, pKernelName);
  EXPECT_EQ(sizeof(EventPoolDesc), sizeof(ze_event_pool_desc_t));
  EXPECT_SAME_PLACE(EventPoolDesc, count, ze_event_pool_desc_t, count);
  EXPECT_EQ(sizeof(EventDesc), sizeof(ze_event_desc_t));
  EXPECT_SAME_PLACE(EventDesc, signal, ze_event_desc_t, signal);
  EXPECT_EQ(sizeof(KernelTimestamp), sizeof(ze_kernel_timestamp_result_t));
  EXPECT_EQ(sizeof(GroupCount), sizeof(ze_group_count_t));
}

TEST(LevelZeroLayout, ExtensionsAreTheVendors) {
  EXPECT_EQ(sizeof(ExtensionProperties), sizeof(ze_driver_extension_properties_t));
  EXPECT_SAME_PLACE(ExtensionProperties, version, ze_driver_extension_properties_t, version);
#ifdef ZE_MUTABLE_COMMAND_LIST_EXP_NAME  // headers of 1.9 or newer
  EXPECT_STREQ(kMutableListExtension, ZE_MUTABLE_COMMAND_LIST_EXP_NAME);
  EXPECT_EQ(sizeof(MutableListProperties), sizeof(ze_mutable_command_list_exp_properties_t));
  EXPECT_SAME_PLACE(MutableListProperties, command_flags, ze_mutable_command_list_exp_properties_t,
                    mutableCommandFlags);
  EXPECT_EQ(sizeof(MutableListDesc), sizeof(ze_mutable_command_list_exp_desc_t));
  EXPECT_EQ(sizeof(MutableCommandIdDesc), sizeof(ze_mutable_command_id_exp_desc_t));
  EXPECT_EQ(sizeof(MutableCommandsDesc), sizeof(ze_mutable_commands_exp_desc_t));
  EXPECT_EQ(sizeof(MutableArgumentDesc), sizeof(ze_mutable_kernel_argument_exp_desc_t));
  EXPECT_SAME_PLACE(MutableArgumentDesc, command, ze_mutable_kernel_argument_exp_desc_t, commandId);
  EXPECT_SAME_PLACE(MutableArgumentDesc, index, ze_mutable_kernel_argument_exp_desc_t, argIndex);
  EXPECT_SAME_PLACE(MutableArgumentDesc, size, ze_mutable_kernel_argument_exp_desc_t, argSize);
  EXPECT_SAME_PLACE(MutableArgumentDesc, value, ze_mutable_kernel_argument_exp_desc_t, pArgValue);
  EXPECT_EQ(static_cast<std::uint32_t>(Structure::kMutableListProperties),
            std::uint32_t{ZE_STRUCTURE_TYPE_MUTABLE_COMMAND_LIST_EXP_PROPERTIES});
  EXPECT_EQ(static_cast<std::uint32_t>(Structure::kMutableArgumentDesc),
            std::uint32_t{ZE_STRUCTURE_TYPE_MUTABLE_KERNEL_ARGUMENT_EXP_DESC});
#endif
}

#define EXPECT_NUMBER(ours, theirs) \
  EXPECT_EQ(static_cast<std::uint32_t>(ours), static_cast<std::uint32_t>(theirs)) << #theirs

TEST(LevelZeroLayout, NumbersAreTheVendors) {
  EXPECT_NUMBER(Structure::kDriverProperties, ZE_STRUCTURE_TYPE_DRIVER_PROPERTIES);
  EXPECT_NUMBER(Structure::kDeviceProperties12, ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES_1_2);
  EXPECT_NUMBER(Structure::kComputeProperties, ZE_STRUCTURE_TYPE_DEVICE_COMPUTE_PROPERTIES);
  EXPECT_NUMBER(Structure::kModuleProperties, ZE_STRUCTURE_TYPE_DEVICE_MODULE_PROPERTIES);
  EXPECT_NUMBER(Structure::kQueueGroupProperties, ZE_STRUCTURE_TYPE_COMMAND_QUEUE_GROUP_PROPERTIES);
  EXPECT_NUMBER(Structure::kMemoryProperties, ZE_STRUCTURE_TYPE_DEVICE_MEMORY_PROPERTIES);
  EXPECT_NUMBER(Structure::kContextDesc, ZE_STRUCTURE_TYPE_CONTEXT_DESC);
  EXPECT_NUMBER(Structure::kQueueDesc, ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC);
  EXPECT_NUMBER(Structure::kListDesc, ZE_STRUCTURE_TYPE_COMMAND_LIST_DESC);
  EXPECT_NUMBER(Structure::kEventPoolDesc, ZE_STRUCTURE_TYPE_EVENT_POOL_DESC);
  EXPECT_NUMBER(Structure::kEventDesc, ZE_STRUCTURE_TYPE_EVENT_DESC);
  EXPECT_NUMBER(Structure::kDeviceMemoryDesc, ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC);
  EXPECT_NUMBER(Structure::kModuleDesc, ZE_STRUCTURE_TYPE_MODULE_DESC);
  EXPECT_NUMBER(Structure::kKernelDesc, ZE_STRUCTURE_TYPE_KERNEL_DESC);
  EXPECT_NUMBER(kGpu, ZE_DEVICE_TYPE_GPU);
  EXPECT_NUMBER(kCpu, ZE_DEVICE_TYPE_CPU);
  EXPECT_NUMBER(kModuleFp64, ZE_DEVICE_MODULE_FLAG_FP64);
  EXPECT_NUMBER(kDenormals, ZE_DEVICE_FP_FLAG_DENORM);
  EXPECT_NUMBER(kRoundedDivideSqrt, ZE_DEVICE_FP_FLAG_ROUNDED_DIVIDE_SQRT);
  EXPECT_NUMBER(kGroupComputes, ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COMPUTE);
  EXPECT_NUMBER(kSynchronous, ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS);
  EXPECT_NUMBER(kAsynchronous, ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS);
  EXPECT_NUMBER(kHostVisible, ZE_EVENT_POOL_FLAG_HOST_VISIBLE);
  EXPECT_NUMBER(kKernelTimestamp, ZE_EVENT_POOL_FLAG_KERNEL_TIMESTAMP);
  EXPECT_NUMBER(kScopeHost, ZE_EVENT_SCOPE_FLAG_HOST);
  EXPECT_NUMBER(kSpirv, ZE_MODULE_FORMAT_IL_SPIRV);
  EXPECT_NUMBER(kNative, ZE_MODULE_FORMAT_NATIVE);
  EXPECT_NUMBER(kIndirectDevice, ZE_KERNEL_INDIRECT_ACCESS_FLAG_DEVICE);
  EXPECT_NUMBER(Result::kDeviceLost, ZE_RESULT_ERROR_DEVICE_LOST);
  EXPECT_NUMBER(Result::kOutOfHostMemory, ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY);
  EXPECT_NUMBER(Result::kOutOfDeviceMemory, ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY);
  EXPECT_NUMBER(Result::kModuleBuildFailure, ZE_RESULT_ERROR_MODULE_BUILD_FAILURE);
  EXPECT_NUMBER(Result::kDeviceRequiresReset, ZE_RESULT_ERROR_DEVICE_REQUIRES_RESET);
  EXPECT_NUMBER(Result::kInsufficientPermissions, ZE_RESULT_ERROR_INSUFFICIENT_PERMISSIONS);
  EXPECT_NUMBER(Result::kDependencyUnavailable, ZE_RESULT_ERROR_DEPENDENCY_UNAVAILABLE);
  EXPECT_NUMBER(Result::kUninitialized, ZE_RESULT_ERROR_UNINITIALIZED);
  EXPECT_NUMBER(Result::kUnsupportedVersion, ZE_RESULT_ERROR_UNSUPPORTED_VERSION);
  EXPECT_NUMBER(Result::kUnsupportedFeature, ZE_RESULT_ERROR_UNSUPPORTED_FEATURE);
  EXPECT_NUMBER(Result::kInvalidArgument, ZE_RESULT_ERROR_INVALID_ARGUMENT);
  EXPECT_NUMBER(Result::kUnsupportedSize, ZE_RESULT_ERROR_UNSUPPORTED_SIZE);
  EXPECT_NUMBER(Result::kUnsupportedAlignment, ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT);
  EXPECT_NUMBER(Result::kInvalidNativeBinary, ZE_RESULT_ERROR_INVALID_NATIVE_BINARY);
}

}  // namespace
}  // namespace crucible_intel::ze
