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
    if (std::getenv("CRUCIBLE_INTEL_OPENCL") == nullptr) GTEST_SKIP() << "CRUCIBLE_INTEL_OPENCL does not name Intel's OpenCL driver (ci/test sets it)";
    ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  }
  static ze::Functions open(const char* faults) {
    setenv("CRUCIBLE_EMU_FAULTS", faults, 1);
    void* const library = dlopen(CRUCIBLE_EMULATED_LEVEL_ZERO, RTLD_NOW | RTLD_LOCAL);
    ze::Functions functions;
    if (library == nullptr) return functions;
    using namespace ze;
#define CRUCIBLE_TEST_FIND(name, ...) functions.name = reinterpret_cast<decltype(functions.name)>(dlsym(library, #name));
    CRUCIBLE_LEVEL_ZERO_FUNCTIONS(CRUCIBLE_TEST_FIND)
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
        const Opened opened = start(ze);                       \
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
    return ze.zeCommandQueueSynchronize(queue, UINT64_MAX) == Result::kDeviceLost && ze.zeCommandQueueSynchronize(queue, UINT64_MAX) == Result::kDeviceLost &&
           ze.zeMemAllocDevice(opened.context, &memory_description, 100, 64, opened.device, &memory) == Result::kDeviceLost;
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
    if (ze.zeCommandQueueExecuteCommandLists(queue, 1, &list, nullptr) != Result::kInvalidArgument) return false;  // not closed
    ze.zeCommandListClose(list);
    return ze.zeCommandListAppendBarrier(list, nullptr, 0, nullptr) == Result::kInvalidArgument;
  });
}

}  // namespace
}  // namespace crucible_intel
