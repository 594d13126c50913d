// The emulated driver under faults and misuse, called by its functions as a plugin calls them.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "backends/intel/level_zero.hpp"

namespace crucible_intel {
namespace {

/// Death tests: the environment's rules are read once per process.
class EmulatedLevelZero : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("CRUCIBLE_INTEL_OPENCL") == nullptr)
      GTEST_SKIP() << "CRUCIBLE_INTEL_OPENCL does not name Intel's OpenCL driver (ci/test sets it)";
    ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  }
  static Functions open(const char* faults) {
    setenv("CRUCIBLE_EMU_FAULTS", faults, 1);
    void* const library = dlopen(CRUCIBLE_EMULATED_LEVEL_ZERO, RTLD_NOW | RTLD_LOCAL);
    Functions functions;
    if (library == nullptr) return functions;
#define CRUCIBLE_TEST_FIND(name) functions.name = reinterpret_cast<decltype(functions.name)>(dlsym(library, #name));
    CRUCIBLE_LEVEL_ZERO_FUNCTIONS(CRUCIBLE_TEST_FIND)
    CRUCIBLE_LEVEL_ZERO_OPTIONAL_FUNCTIONS(CRUCIBLE_TEST_FIND)
#undef CRUCIBLE_TEST_FIND
    return functions;
  }
  struct Opened {
    ze_driver_handle_t driver = nullptr;
    ze_device_handle_t device = nullptr;
    ze_context_handle_t context = nullptr;
  };
  static Opened start(const Functions& ze) {
    Opened opened;
    std::uint32_t one = 1;
    const auto description = typed<ze_context_desc_t>(ZE_STRUCTURE_TYPE_CONTEXT_DESC);
    if (ze.zeInit(0) != ZE_RESULT_SUCCESS) return opened;
    ze.zeDriverGet(&one, &opened.driver);
    ze.zeDeviceGet(opened.driver, &one, &opened.device);
    ze.zeContextCreate(opened.driver, &description, &opened.context);
    return opened;
  }
};

/// Ends the process with 0 when `holds`, so that each case has rules of its own.
#define EXPECT_IN_CHILD(faults, body)                     \
  EXPECT_EXIT(                                            \
      {                                                   \
        const Functions ze = open(faults);                \
        [[maybe_unused]] const Opened opened = start(ze); \
        const auto holds = [&]() -> bool { body };        \
        _exit(holds() ? 0 : 1);                           \
      },                                                  \
      ::testing::ExitedWithCode(0), "")

TEST_F(EmulatedLevelZero, StartsOrSaysThatItDoesNot) {
  EXPECT_IN_CHILD("", return opened.context != nullptr;);
  EXPECT_IN_CHILD("fail@init", return opened.context == nullptr && ze.zeInit(0) == ZE_RESULT_ERROR_UNINITIALIZED;);
}

TEST_F(EmulatedLevelZero, TheThirdAllocationFails) {
  EXPECT_IN_CHILD("oom@alloc#3", {
    const auto description = typed<ze_device_mem_alloc_desc_t>(ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC);
    void* memory = nullptr;
    for (int i = 1; i <= 4; ++i) {
      const ze_result_t code = ze.zeMemAllocDevice(opened.context, &description, 100, 64, opened.device, &memory);
      if (code != (i == 3 ? ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY : ZE_RESULT_SUCCESS)) return false;
    }
    return true;
  });
}

TEST_F(EmulatedLevelZero, ALostDeviceStaysLost) {
  EXPECT_IN_CHILD("lost@sync#1", {
    const auto description = typed<ze_command_queue_desc_t>(ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC);
    ze_command_queue_handle_t queue = nullptr;
    if (ze.zeCommandQueueCreate(opened.context, opened.device, &description, &queue) != ZE_RESULT_SUCCESS) return false;
    const auto memory_description = typed<ze_device_mem_alloc_desc_t>(ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC);
    void* memory = nullptr;
    return ze.zeCommandQueueSynchronize(queue, UINT64_MAX) == ZE_RESULT_ERROR_DEVICE_LOST &&
           ze.zeCommandQueueSynchronize(queue, UINT64_MAX) == ZE_RESULT_ERROR_DEVICE_LOST &&
           ze.zeMemAllocDevice(opened.context, &memory_description, 100, 64, opened.device, &memory) ==
               ZE_RESULT_ERROR_DEVICE_LOST;
  });
}

TEST_F(EmulatedLevelZero, MisuseIsRefused) {
  EXPECT_IN_CHILD("", {
    const auto wrong = typed<ze_context_desc_t>(ZE_STRUCTURE_TYPE_COMMAND_LIST_DESC);
    ze_context_handle_t context = nullptr;
    if (ze.zeContextCreate(opened.driver, &wrong, &context) != ZE_RESULT_ERROR_INVALID_ARGUMENT) return false;
    const auto list_description = typed<ze_command_list_desc_t>(ZE_STRUCTURE_TYPE_COMMAND_LIST_DESC);
    const auto queue_description = typed<ze_command_queue_desc_t>(ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC);
    ze_command_list_handle_t list = nullptr;
    ze_command_queue_handle_t queue = nullptr;
    ze.zeCommandListCreate(opened.context, opened.device, &list_description, &list);
    ze.zeCommandQueueCreate(opened.context, opened.device, &queue_description, &queue);
    if (ze.zeCommandQueueExecuteCommandLists(queue, 1, &list, nullptr) != ZE_RESULT_ERROR_INVALID_ARGUMENT)
      return false;  // not closed
    ze.zeCommandListClose(list);
    return ze.zeCommandListAppendBarrier(list, nullptr, 0, nullptr) == ZE_RESULT_ERROR_INVALID_ARGUMENT;
  });
}

/// What the emulator has beside the functions that the plugin calls.
template <class Function>
Function more(const char* name) {
  void* const library = dlopen(CRUCIBLE_EMULATED_LEVEL_ZERO, RTLD_NOW | RTLD_LOCAL);
  return reinterpret_cast<Function>(dlsym(library, name));
}

ze_command_list_handle_t make_list(const Functions& ze, ze_context_handle_t context, ze_device_handle_t device,
                                   bool is_mutable) {
  const auto behind = typed<ze_mutable_command_list_exp_desc_t>(ZE_STRUCTURE_TYPE_MUTABLE_COMMAND_LIST_EXP_DESC);
  auto description = typed<ze_command_list_desc_t>(ZE_STRUCTURE_TYPE_COMMAND_LIST_DESC);
  if (is_mutable) description.pNext = &behind;
  ze_command_list_handle_t list = nullptr;
  ze.zeCommandListCreate(context, device, &description, &list);
  return list;
}

ze_event_handle_t make_event(const Functions& ze, ze_context_handle_t context, ze_device_handle_t device) {
  auto pool_description = typed<ze_event_pool_desc_t>(ZE_STRUCTURE_TYPE_EVENT_POOL_DESC);
  pool_description.flags = ZE_EVENT_POOL_FLAG_HOST_VISIBLE | ZE_EVENT_POOL_FLAG_KERNEL_TIMESTAMP;
  pool_description.count = 1;
  ze_event_pool_handle_t pool = nullptr;
  ze_event_handle_t event = nullptr;
  const auto description = typed<ze_event_desc_t>(ZE_STRUCTURE_TYPE_EVENT_DESC);
  ze.zeEventPoolCreate(context, &pool_description, 1, &device, &pool);
  ze.zeEventCreate(pool, &description, &event);
  return event;
}

void* allocate(const Functions& ze, ze_context_handle_t context, ze_device_handle_t device, std::size_t size) {
  const auto description = typed<ze_device_mem_alloc_desc_t>(ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC);
  void* memory = nullptr;
  ze.zeMemAllocDevice(context, &description, size, 64, device, &memory);
  return memory;
}

TEST_F(EmulatedLevelZero, ADriverWithoutMutableListsDoesNotListThem) {
  EXPECT_IN_CHILD("", {
    std::uint32_t count = 0;
    return ze.zeDriverGetExtensionProperties(opened.driver, &count, nullptr) == ZE_RESULT_SUCCESS && count == 1;
  });
  EXPECT_IN_CHILD("fail@query(ZE_experimental_mutable_command_list)", {
    std::uint32_t count = 9;
    return ze.zeDriverGetExtensionProperties(opened.driver, &count, nullptr) == ZE_RESULT_SUCCESS && count == 0;
  });
}

TEST_F(EmulatedLevelZero, MisuseOfMutableListsIsRefused) {
  EXPECT_IN_CHILD("", {
    const auto id_description = typed<ze_mutable_command_id_exp_desc_t>(ZE_STRUCTURE_TYPE_MUTABLE_COMMAND_ID_EXP_DESC);
    std::uint64_t id = 0;
    const ze_command_list_handle_t plain = make_list(ze, opened.context, opened.device, false);
    if (ze.zeCommandListGetNextCommandIdExp(plain, &id_description, &id) != ZE_RESULT_ERROR_INVALID_ARGUMENT)
      return false;
    const ze_command_list_handle_t list = make_list(ze, opened.context, opened.device, true);
    if (ze.zeCommandListGetNextCommandIdExp(list, &id_description, &id) != ZE_RESULT_SUCCESS || id != 1) return false;
    if (ze.zeCommandListGetNextCommandIdExp(list, &id_description, &id) != ZE_RESULT_ERROR_INVALID_ARGUMENT)
      return false;  // nothing was appended
    auto change = typed<ze_mutable_kernel_argument_exp_desc_t>(ZE_STRUCTURE_TYPE_MUTABLE_KERNEL_ARGUMENT_EXP_DESC);
    change.commandId = id;
    auto all = typed<ze_mutable_commands_exp_desc_t>(ZE_STRUCTURE_TYPE_MUTABLE_COMMANDS_EXP_DESC);
    all.pNext = &change;
    if (ze.zeCommandListUpdateMutableCommandsExp(list, &all) != ZE_RESULT_ERROR_INVALID_ARGUMENT)
      return false;  // not closed
    ze.zeCommandListClose(list);
    return ze.zeCommandListUpdateMutableCommandsExp(list, &all) ==
           ZE_RESULT_ERROR_INVALID_ARGUMENT;  // no launch has the number
  });
}

TEST_F(EmulatedLevelZero, ACommandWaitsForEventsAndTheHostToo) {
  EXPECT_IN_CHILD("", {
    const auto description = typed<ze_command_queue_desc_t>(ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC);
    ze_command_queue_handle_t queue = nullptr;
    ze.zeCommandQueueCreate(opened.context, opened.device, &description, &queue);
    ze_event_handle_t before = make_event(ze, opened.context, opened.device);
    const ze_event_handle_t after = make_event(ze, opened.context, opened.device);
    char* const memory = static_cast<char*>(allocate(ze, opened.context, opened.device, 8));
    memory[0] = 1;
    const char two = 2;
    ze_command_list_handle_t list = make_list(ze, opened.context, opened.device, false);
    ze.zeCommandListAppendMemoryFill(list, memory, &two, 1, 8, after, 1, &before);
    ze.zeCommandListClose(list);
    ze.zeCommandQueueExecuteCommandLists(queue, 1, &list, nullptr);
    const auto synchronize = more<ze_result_t (*)(ze_event_handle_t, std::uint64_t)>("zeEventHostSynchronize");
    const auto query = more<ze_result_t (*)(ze_event_handle_t)>("zeEventQueryStatus");
    const auto reset = more<ze_result_t (*)(ze_event_handle_t)>("zeEventHostReset");
    if (synchronize(after, 20'000'000) != ZE_RESULT_NOT_READY || query(after) != ZE_RESULT_NOT_READY || memory[0] != 1)
      return false;
    more<ze_result_t (*)(ze_event_handle_t)>("zeEventHostSignal")(before);
    if (synchronize(after, UINT64_MAX) != ZE_RESULT_SUCCESS || memory[0] != 2 || query(after) != ZE_RESULT_SUCCESS)
      return false;
    return reset(after) == ZE_RESULT_SUCCESS && query(after) == ZE_RESULT_NOT_READY;
  });
}

TEST_F(EmulatedLevelZero, AWaitOnALostDeviceEnds) {
  EXPECT_IN_CHILD("lost@submit#1", {
    const auto description = typed<ze_command_queue_desc_t>(ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC);
    ze_command_queue_handle_t queue = nullptr;
    ze.zeCommandQueueCreate(opened.context, opened.device, &description, &queue);
    ze_event_handle_t never = make_event(ze, opened.context, opened.device);
    ze_command_list_handle_t list = make_list(ze, opened.context, opened.device, false);
    ze.zeCommandListAppendBarrier(list, nullptr, 1, &never);
    ze.zeCommandListClose(list);
    ze.zeCommandQueueExecuteCommandLists(queue, 1, &list, nullptr);
    return ze.zeCommandQueueSynchronize(queue, UINT64_MAX) == ZE_RESULT_ERROR_DEVICE_LOST;
  });
}

TEST_F(EmulatedLevelZero, DevicesCopyToEachOtherAndNotPastAnEnd) {
  setenv("CRUCIBLE_EMU_DEVICES", "2", 1);
  EXPECT_IN_CHILD("", {
    std::uint32_t two = 2;
    ze_device_handle_t devices[2] = {};
    if (ze.zeDeviceGet(opened.driver, &two, devices) != ZE_RESULT_SUCCESS || two != 2) return false;
    std::uint8_t reaches = 0;
    more<ze_result_t (*)(ze_device_handle_t, ze_device_handle_t, std::uint8_t*)>("zeDeviceCanAccessPeer")(
        devices[0], devices[1], &reaches);
    auto description = typed<ze_command_queue_desc_t>(ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC);
    description.mode = ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS;
    ze_command_list_handle_t now = nullptr;
    ze.zeCommandListCreateImmediate(opened.context, devices[0], &description, &now);
    void* const here = allocate(ze, opened.context, devices[0], 64);
    void* const there = allocate(ze, opened.context, devices[1], 64);
    const char seven = 7;
    ze.zeCommandListAppendMemoryFill(now, here, &seven, 1, 64, nullptr, 0, nullptr);
    if (ze.zeCommandListAppendMemoryCopy(now, there, here, 64, nullptr, 0, nullptr) != ZE_RESULT_SUCCESS) return false;
    if (reaches != 1 || static_cast<char*>(there)[63] != 7) return false;
    if (ze.zeCommandListAppendMemoryCopy(now, there, here, 65, nullptr, 0, nullptr) != ZE_RESULT_ERROR_INVALID_ARGUMENT)
      return false;
    ze.zeMemFree(opened.context, there);
    return ze.zeCommandListAppendMemoryCopy(now, there, here, 64, nullptr, 0, nullptr) ==
           ZE_RESULT_ERROR_INVALID_ARGUMENT;
  });
  unsetenv("CRUCIBLE_EMU_DEVICES");
}

TEST_F(EmulatedLevelZero, TablesForALoaderOfAnotherMajorAreRefused) {
  EXPECT_IN_CHILD("", {
    void* table[18] = {};
    const auto get = more<ze_result_t (*)(std::uint32_t, void**)>("zeGetDeviceProcAddrTable");
    if (get(2 << 16, table) != ZE_RESULT_ERROR_UNSUPPORTED_VERSION ||
        get(1 << 16 | 3, table) != ZE_RESULT_ERROR_UNSUPPORTED_VERSION || table[0] != nullptr)
      return false;
    if (get(1 << 16 | 4, nullptr) != ZE_RESULT_ERROR_INVALID_ARGUMENT) return false;
    return get(1 << 16 | 4, table) == ZE_RESULT_SUCCESS && table[0] == reinterpret_cast<void*>(ze.zeDeviceGet) &&
           table[2] == reinterpret_cast<void*>(ze.zeDeviceGetProperties) && table[9] == nullptr;
  });
}

}  // namespace
}  // namespace crucible_intel
