// The emulated rocprofiler-sdk by itself: what it refuses. What it tells of kernels and counts is amd_profile_test's,
// through the plugin.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

struct Id {
  std::uint64_t handle = 0;
};
constexpr int kSuccess = 0, kContextNotFound = 2, kCounterNotFound = 8, kContextInvalid = 10, kLocked = 16,
              kIncompatible = 18, kInvalid = 19, kNotStarted = 1;

template <class Function>
Function* function(const char* name) {
  static void* const library = dlopen(CRUCIBLE_EMULATED_ROCPROFILER, RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(library, nullptr) << dlerror();
  auto* const found = reinterpret_cast<Function*>(dlsym(library, name));
  EXPECT_NE(found, nullptr) << name;
  return found;
}

struct Client {
  const char* name;
  std::uint32_t handle;
};
struct Tool {
  std::size_t size = sizeof(Tool);
  int (*initialize)(void*, void*) = nullptr;
  void (*finalize)(void*) = nullptr;
  void* data = nullptr;
} tool;
Id context, buffer;
std::vector<int> answers;

Tool* configure(std::uint32_t version, const char*, std::uint32_t, Client*) {
  EXPECT_EQ(version, 10000u);
  return &tool;
}

void ignore(Id, Id, void**, std::size_t, void*, std::uint64_t) {}
void choose(Id, Id, int (*)(Id, Id), void*) {}

int initialize(void*, void*) {
  auto* const count = function<int(Id, Id, Id, void (*)(Id, Id, int (*)(Id, Id), void*), void*)>(
      "rocprofiler_configure_device_counting_service");
  answers.push_back(function<int(Id*)>("rocprofiler_create_context")(&context));
  answers.push_back(
      function<int(Id, std::size_t, std::size_t, int, void (*)(Id, Id, void**, std::size_t, void*, std::uint64_t),
                   void*, Id*)>("rocprofiler_create_buffer")(context, 4096, 0, 2, ignore, nullptr, &buffer));
  answers.push_back(count(context, buffer, {100}, choose, nullptr));
  answers.push_back(count(context, buffer, {100}, choose, nullptr));
  return 0;
}

int take_agents(int, const void**, std::size_t count, void* user) {
  *static_cast<std::size_t*>(user) = count;
  return kSuccess;
}

int force() {
  tool.initialize = initialize;
  return function<int(Tool * (*)(std::uint32_t, const char*, std::uint32_t, Client*))>("rocprofiler_force_configure")(
      configure);
}

TEST(EmulatedRocprofiler, IsConfiguredOnceAndThenLocked) {
  EXPECT_EQ(force(), kSuccess);
  EXPECT_EQ(answers, (std::vector<int>{kSuccess, kSuccess, kSuccess, kInvalid})) << "one counting service in a context";
  EXPECT_EQ(force(), kLocked);
  Id late;
  EXPECT_EQ(function<int(Id*)>("rocprofiler_create_context")(&late), kLocked);
}

TEST(EmulatedRocprofiler, AnAgentThatIsLargerThanItsOwnIsRefused) {
  std::size_t count = 0;
  auto* const query = function<int(int, int (*)(int, const void**, std::size_t, void*), std::size_t, void*)>(
      "rocprofiler_query_available_agents");
  EXPECT_EQ(query(1, take_agents, 120, &count), kSuccess);
  EXPECT_EQ(count, 2u) << "a GPU and the processor";
  EXPECT_EQ(query(1, take_agents, 4096, &count), kIncompatible);
  EXPECT_EQ(query(2, take_agents, 120, &count), kInvalid);
}

TEST(EmulatedRocprofiler, UnknownCountersAndContextsThatWereNotStartedAreRefused) {
  if (context.handle == 0) {
    EXPECT_EQ(force(), kSuccess);
  }
  Id counter{999}, config;
  EXPECT_EQ(function<int(Id, Id*, std::size_t, Id*)>("rocprofiler_create_counter_config")({100}, &counter, 1, &config),
            kCounterNotFound);
  std::byte records[4096];
  std::size_t count = 10;
  auto* const sample =
      function<int(Id, std::uint64_t, int, void*, std::size_t*)>("rocprofiler_sample_device_counting_service");
  EXPECT_EQ(sample(context, 0, 0, records, &count), kNotStarted);
  EXPECT_EQ(sample({12345}, 0, 0, records, &count), kContextInvalid);
  EXPECT_EQ(function<int(Id)>("rocprofiler_start_context")({12345}), kContextNotFound);
}

}  // namespace
