// The emulated driver under faults and misuse, called by its functions as a plugin calls them.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "backends/intel/level_zero.hpp"

namespace crucible_intel {
namespace {

using ze::Result;

/// Death tests: the environment's rules are read once per process.
class EmulatedLevelZero : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("CRUCIBLE_INTEL_OPENCL") == nullptr)
      GTEST_SKIP() << "CRUCIBLE_INTEL_OPENCL does not name Intel's OpenCL driver (ci/test sets it)";
    ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  }
  static ze::Functions open(const char* faults) {
    setenv("CRUCIBLE_EMU_FAULTS", faults, 1);
    void* const library = dlopen(CRUCIBLE_EMULATED_LEVEL_ZERO, RTLD_NOW | RTLD_LOCAL);
    ze::Functions functions;
    if (library == nullptr) return functions;
    using namespace ze;
#define CRUCIBLE_TEST_FIND(name, ...) \
  functions.name = reinterpret_cast<decltype(functions.name)>(dlsym(library, #name));
    CRUCIBLE_LEVEL_ZERO_FUNCTIONS(CRUCIBLE_TEST_FIND)
    CRUCIBLE_LEVEL_ZERO_OPTIONAL_FUNCTIONS(CRUCIBLE_TEST_FIND)
#undef CRUCIBLE_TEST_FIND
    return functions;
  }
  struct Opened {
    ze::Driver driver = nullptr;
    ze::Device device = nullptr;
    ze::Context context = nullptr;
  };
  static Opened start(const ze::Functions& ze) {
    Opened opened;
    std::uint32_t one = 1;
    const ze::ContextDesc description;
    if (ze.zeInit(0) != Result::kSuccess) return opened;
    ze.zeDriverGet(&one, &opened.driver);
    ze.zeDeviceGet(opened.driver, &one, &opened.device);
    ze.zeContextCreate(opened.driver, &description, &opened.context);
    return opened;
  }
};

/// Ends the process with 0 when `holds`, so that each case has rules of its own.
#define EXPECT_IN_CHILD(faults, body)                          \
  EXPECT_EXIT(                                                 \
      {                                                        \
        const ze::Functions ze = open(faults);                 \
        [[maybe_unused]] const Opened opened = start(ze);      \
        const auto holds = [&]() -> bool { body };             \
        _exit(holds() ? 0 : 1);                                \
      },                                                       \
      ::testing::ExitedWithCode(0), "")

TEST_F(EmulatedLevelZero, StartsOrSaysThatItDoesNot) {
  EXPECT_IN_CHILD("", return opened.context != nullptr;);
  EXPECT_IN_CHILD("fail@init", return opened.context == nullptr && ze.zeInit(0) == Result::kUninitialized;);
}

TEST_F(EmulatedLevelZero, TheThirdAllocationFails) {
  EXPECT_IN_CHILD("oom@alloc#3", {
    const ze::DeviceMemoryDesc description;
    void* memory = nullptr;
    for (int i = 1; i <= 4; ++i) {
      const Result code = ze.zeMemAllocDevice(opened.context, &description, 100, 64, opened.device, &memory);
      if (code != (i == 3 ? Result::kOutOfDeviceMemory : Result::kSuccess)) return false;
    }
    return true;
  });
}

TEST_F(EmulatedLevelZero, ALostDeviceStaysLost) {
  EXPECT_IN_CHILD("lost@sync#1", {
    const ze::QueueDesc description;
    ze::Queue queue = nullptr;
    if (ze.zeCommandQueueCreate(opened.context, opened.device, &description, &queue) != Result::kSuccess) return false;
    const ze::DeviceMemoryDesc memory_description;
    void* memory = nullptr;
    return ze.zeCommandQueueSynchronize(queue, UINT64_MAX) == Result::kDeviceLost &&
           ze.zeCommandQueueSynchronize(queue, UINT64_MAX) == Result::kDeviceLost &&
           ze.zeMemAllocDevice(opened.context, &memory_description, 100, 64, opened.device, &memory) ==
               Result::kDeviceLost;
  });
}

TEST_F(EmulatedLevelZero, MisuseIsRefused) {
  EXPECT_IN_CHILD("", {
    ze::ContextDesc wrong;
    wrong.type = ze::Structure::kListDesc;
    ze::Context context = nullptr;
    if (ze.zeContextCreate(opened.driver, &wrong, &context) != Result::kInvalidArgument) return false;
    const ze::ListDesc list_description;
    const ze::QueueDesc queue_description;
    ze::List list = nullptr;
    ze::Queue queue = nullptr;
    ze.zeCommandListCreate(opened.context, opened.device, &list_description, &list);
    ze.zeCommandQueueCreate(opened.context, opened.device, &queue_description, &queue);
    if (ze.zeCommandQueueExecuteCommandLists(queue, 1, &list, nullptr) != Result::kInvalidArgument)
      return false;  // not closed
    ze.zeCommandListClose(list);
    return ze.zeCommandListAppendBarrier(list, nullptr, 0, nullptr) == Result::kInvalidArgument;
  });
}

/// What the emulator has beside the functions that the plugin calls.
template <class Function>
Function more(const char* name) {
  void* const library = dlopen(CRUCIBLE_EMULATED_LEVEL_ZERO, RTLD_NOW | RTLD_LOCAL);
  return reinterpret_cast<Function>(dlsym(library, name));
}

ze::List make_list(const ze::Functions& ze, ze::Context context, ze::Device device, bool is_mutable) {
  const ze::MutableListDesc behind;
  ze::ListDesc description;
  if (is_mutable) description.next = &behind;
  ze::List list = nullptr;
  ze.zeCommandListCreate(context, device, &description, &list);
  return list;
}

ze::Event make_event(const ze::Functions& ze, ze::Context context, ze::Device device) {
  ze::EventPoolDesc pool_description;
  pool_description.count = 1;
  ze::EventPool pool = nullptr;
  ze::Event event = nullptr;
  const ze::EventDesc description;
  ze.zeEventPoolCreate(context, &pool_description, 1, &device, &pool);
  ze.zeEventCreate(pool, &description, &event);
  return event;
}

void* allocate(const ze::Functions& ze, ze::Context context, ze::Device device, std::size_t size) {
  const ze::DeviceMemoryDesc description;
  void* memory = nullptr;
  ze.zeMemAllocDevice(context, &description, size, 64, device, &memory);
  return memory;
}

TEST_F(EmulatedLevelZero, ADriverWithoutMutableListsDoesNotListThem) {
  EXPECT_IN_CHILD("", {
    std::uint32_t count = 0;
    return ze.zeDriverGetExtensionProperties(opened.driver, &count, nullptr) == Result::kSuccess && count == 1;
  });
  EXPECT_IN_CHILD("fail@query(ZE_experimental_mutable_command_list)", {
    std::uint32_t count = 9;
    return ze.zeDriverGetExtensionProperties(opened.driver, &count, nullptr) == Result::kSuccess && count == 0;
  });
}

TEST_F(EmulatedLevelZero, MisuseOfMutableListsIsRefused) {
  EXPECT_IN_CHILD("", {
    const ze::MutableCommandIdDesc id_description;
    std::uint64_t id = 0;
    const ze::List plain = make_list(ze, opened.context, opened.device, false);
    if (ze.zeCommandListGetNextCommandIdExp(plain, &id_description, &id) != Result::kInvalidArgument) return false;
    const ze::List list = make_list(ze, opened.context, opened.device, true);
    if (ze.zeCommandListGetNextCommandIdExp(list, &id_description, &id) != Result::kSuccess || id != 1) return false;
    if (ze.zeCommandListGetNextCommandIdExp(list, &id_description, &id) != Result::kInvalidArgument)
      return false;  // nothing was appended
    ze::MutableArgumentDesc change;
    change.command = id;
    ze::MutableCommandsDesc all;
    all.next = &change;
    if (ze.zeCommandListUpdateMutableCommandsExp(list, &all) != Result::kInvalidArgument) return false;  // not closed
    ze.zeCommandListClose(list);
    return ze.zeCommandListUpdateMutableCommandsExp(list, &all) ==
           Result::kInvalidArgument;  // no launch has the number
  });
}

TEST_F(EmulatedLevelZero, ACommandWaitsForEventsAndTheHostToo) {
  EXPECT_IN_CHILD("", {
    const ze::QueueDesc description;
    ze::Queue queue = nullptr;
    ze.zeCommandQueueCreate(opened.context, opened.device, &description, &queue);
    ze::Event before = make_event(ze, opened.context, opened.device);
    const ze::Event after = make_event(ze, opened.context, opened.device);
    char* const memory = static_cast<char*>(allocate(ze, opened.context, opened.device, 8));
    memory[0] = 1;
    const char two = 2;
    ze::List list = make_list(ze, opened.context, opened.device, false);
    ze.zeCommandListAppendMemoryFill(list, memory, &two, 1, 8, after, 1, &before);
    ze.zeCommandListClose(list);
    ze.zeCommandQueueExecuteCommandLists(queue, 1, &list, nullptr);
    const auto synchronize = more<Result (*)(ze::Event, std::uint64_t)>("zeEventHostSynchronize");
    const auto query = more<Result (*)(ze::Event)>("zeEventQueryStatus");
    const auto reset = more<Result (*)(ze::Event)>("zeEventHostReset");
    if (synchronize(after, 20'000'000) != Result::kNotReady || query(after) != Result::kNotReady || memory[0] != 1)
      return false;
    more<Result (*)(ze::Event)>("zeEventHostSignal")(before);
    if (synchronize(after, UINT64_MAX) != Result::kSuccess || memory[0] != 2 || query(after) != Result::kSuccess)
      return false;
    return reset(after) == Result::kSuccess && query(after) == Result::kNotReady;
  });
}

TEST_F(EmulatedLevelZero, AWaitOnALostDeviceEnds) {
  EXPECT_IN_CHILD("lost@submit#1", {
    const ze::QueueDesc description;
    ze::Queue queue = nullptr;
    ze.zeCommandQueueCreate(opened.context, opened.device, &description, &queue);
    ze::Event never = make_event(ze, opened.context, opened.device);
    ze::List list = make_list(ze, opened.context, opened.device, false);
    ze.zeCommandListAppendBarrier(list, nullptr, 1, &never);
    ze.zeCommandListClose(list);
    ze.zeCommandQueueExecuteCommandLists(queue, 1, &list, nullptr);
    return ze.zeCommandQueueSynchronize(queue, UINT64_MAX) == Result::kDeviceLost;
  });
}

TEST_F(EmulatedLevelZero, DevicesCopyToEachOtherAndNotPastAnEnd) {
  setenv("CRUCIBLE_EMU_DEVICES", "2", 1);
  EXPECT_IN_CHILD("", {
    std::uint32_t two = 2;
    ze::Device devices[2] = {};
    if (ze.zeDeviceGet(opened.driver, &two, devices) != Result::kSuccess || two != 2) return false;
    std::uint8_t reaches = 0;
    more<Result (*)(ze::Device, ze::Device, std::uint8_t*)>("zeDeviceCanAccessPeer")(devices[0], devices[1], &reaches);
    ze::QueueDesc description;
    description.mode = ze::kSynchronous;
    ze::List now = nullptr;
    ze.zeCommandListCreateImmediate(opened.context, devices[0], &description, &now);
    void* const here = allocate(ze, opened.context, devices[0], 64);
    void* const there = allocate(ze, opened.context, devices[1], 64);
    const char seven = 7;
    ze.zeCommandListAppendMemoryFill(now, here, &seven, 1, 64, nullptr, 0, nullptr);
    if (ze.zeCommandListAppendMemoryCopy(now, there, here, 64, nullptr, 0, nullptr) != Result::kSuccess) return false;
    if (reaches != 1 || static_cast<char*>(there)[63] != 7) return false;
    if (ze.zeCommandListAppendMemoryCopy(now, there, here, 65, nullptr, 0, nullptr) != Result::kInvalidArgument)
      return false;
    ze.zeMemFree(opened.context, there);
    return ze.zeCommandListAppendMemoryCopy(now, there, here, 64, nullptr, 0, nullptr) == Result::kInvalidArgument;
  });
  unsetenv("CRUCIBLE_EMU_DEVICES");
}

TEST_F(EmulatedLevelZero, TablesForALoaderOfAnotherMajorAreRefused) {
  EXPECT_IN_CHILD("", {
    void* table[18] = {};
    const auto get = more<Result (*)(std::uint32_t, void**)>("zeGetDeviceProcAddrTable");
    if (get(2 << 16, table) != Result::kUnsupportedVersion || get(1 << 16 | 3, table) != Result::kUnsupportedVersion ||
        table[0] != nullptr)
      return false;
    if (get(1 << 16 | 4, nullptr) != Result::kInvalidArgument) return false;
    return get(1 << 16 | 4, table) == Result::kSuccess && table[0] == reinterpret_cast<void*>(ze.zeDeviceGet) &&
           table[2] == reinterpret_cast<void*>(ze.zeDeviceGetProperties) && table[9] == nullptr;
  });
}

}  // namespace
}  // namespace crucible_intel
