// What plans, buffers and a vendor's objects do without a word of the plugin: checks by the device's addresses, giving
// back, a device that is suspect.
#include "plugins/sdk/plan_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <memory>
#include <stdexcept>

#include "plugins/sdk/memory_table.hpp"
#include "plugins/sdk/owned.hpp"
#include "plugins/sdk/queue_table.hpp"
#include "plugins/sdk/signal_guard.hpp"
#include "plugins/sdk/watchdog.hpp"

struct crucible_kernel {
  std::string name;
  std::uint32_t buffer_count = 0, scalar_count = 0;
};

namespace crucible::sdk {
namespace {

using ::testing::HasSubstr;

struct Facts {
  std::string id = "acme:7";
  std::uint64_t memory_bytes = 1000, largest_buffer_bytes = 600;
};
struct Device : QueueOwner {
  Facts facts;
  AddressMap addresses;
  Watchdog watchdog;
};
struct Launch {
  std::shared_ptr<int> object;
  bool has_slots = false;
};
struct Plan : ListedPlan<Device> {
  std::vector<Launch> launches;
};
struct Plans {
  static void describe(const Plan&, crucible_kv_sink, void*) {}
};
using Functions = PlanFunctions<Device, Plan, Plans>;

/// "" of a call that succeeded.
std::string words_of(crucible_status status) {
  if (status == nullptr) return "";
  const std::string words = to_string(status->table->message(status));
  status->table->destroy(status);
  return words;
}

crucible_op fill_of(const std::uint64_t& address) {
  crucible_op op = {};
  op.struct_size = sizeof(op);
  op.kind = CRUCIBLE_OP_FILL;
  op.buffers = &address;
  op.buffer_count = 1;
  op.size = 1;
  return op;
}

TEST(SdkPlanTable, ChecksByTheAddressesOfTheDevice) {
  Device device;
  device.addresses.add(4096, 64);
  Plan* plan = nullptr;
  std::uint64_t address = 4096;
  crucible_op op = fill_of(address);
  EXPECT_EQ(words_of(Functions::build(&device, &op, 1, 0, &plan)), "");
  EXPECT_EQ(words_of(Functions::destroy_plan(plan)), "");
  address = 16;
  EXPECT_THAT(words_of(Functions::build(&device, &op, 1, 0, &plan)), HasSubstr("buffers of acme:7"));
}

TEST(SdkPlanTable, APlanOfASuspectDeviceIsNotGivenBack) {
  for (const bool is_suspect : {false, true}) {
    Device device;
    device.watchdog.start(is_suspect ? "acme:8" : "acme:7", 1);
    Plan* plan = nullptr;
    ASSERT_EQ(words_of(Functions::build(&device, nullptr, 0, 0, &plan)), "");
    const auto object = std::make_shared<int>(1);
    plan->launches.push_back({object});
    if (is_suspect) {
      EXPECT_THROW(device.watchdog.give_up("queue.submit"), Failure);
    }
    EXPECT_EQ(words_of(Functions::destroy_plan(plan)), "");
    EXPECT_EQ(object.use_count(), is_suspect ? 2 : 1);
  }
}

TEST(SdkPlanTable, WhatWasMadeBeforeAFailureIsThePlans) {
  OpList list;
  list.ops.resize(3);
  for (ListedOp& op : list.ops) op.kind = CRUCIBLE_OP_LAUNCH;
  list.ops[1].kind = CRUCIBLE_OP_COPY;
  list.slot_uses = {{0, 2, 0}};
  const auto make = [](std::size_t i) { return Launch{std::make_shared<int>(static_cast<int>(i))}; };
  std::vector<Launch> launches;
  make_launches(list, launches, make);
  ASSERT_EQ(launches.size(), 3u);
  EXPECT_EQ(launches[1].object, nullptr);
  EXPECT_EQ(*launches[2].object, 2);
  EXPECT_TRUE(launches[2].has_slots && !launches[0].has_slots);
  std::vector<Launch> some;
  const auto fails = [&](std::size_t i) { return i == 2 ? throw std::runtime_error("no memory") : make(i); };
  EXPECT_THROW(make_launches(list, some, fails), std::runtime_error);
  EXPECT_EQ(some.size(), 2u);
}

/// What a stream was told, in order: sizes of ops, and 0 for each wait.
struct Stream : Device {
  std::vector<std::uint64_t> told;
  std::uint64_t fails_at = UINT64_MAX;
  bool wait_fails = false;
};
struct StreamPlan : ListedPlan<Stream> {};
void begin_op(Stream& stream, const ListedOp& op) {
  if (op.size == stream.fails_at) throw std::runtime_error("the queue is full");
  stream.told.push_back(op.size);
}
void finish(Stream& stream) {
  stream.told.push_back(0);
  if (stream.wait_fails) throw std::runtime_error("the device is gone");
}
using StreamRuns = StreamPlans<Stream, StreamPlan, begin_op, finish>;

TEST(SdkStreamPlans, QueueAllOpsAndWaitOnce) {
  Stream stream;
  StreamPlan plan;
  plan.device = &stream;
  for (const std::uint64_t size : {3, 5, 7}) {
    plan.list.ops.emplace_back();
    plan.list.ops.back().kind = CRUCIBLE_OP_FILL;
    plan.list.ops.back().size = size;
  }
  StreamRuns::run(plan);
  EXPECT_THAT(stream.told, ::testing::ElementsAre(3, 5, 7, 0));
  stream.told.clear();
  EXPECT_EQ(StreamRuns::times(plan).size(), 3u);
  EXPECT_THAT(stream.told, ::testing::ElementsAre(3, 0, 5, 0, 7, 0));
}

TEST(SdkStreamPlans, WaitForWhatWasQueuedBeforeAFailureWhichIsTold) {
  Stream stream;
  stream.fails_at = 5;
  StreamPlan plan;
  plan.device = &stream;
  for (const std::uint64_t size : {3, 5}) {
    plan.list.ops.emplace_back();
    plan.list.ops.back().kind = CRUCIBLE_OP_FILL;
    plan.list.ops.back().size = size;
  }
  for (const bool wait_fails : {false, true}) {
    stream.wait_fails = wait_fails;
    stream.told.clear();
    try {
      StreamRuns::run(plan);
      ADD_FAILURE() << "the failure is lost";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "the queue is full");
    }
    EXPECT_THAT(stream.told, ::testing::ElementsAre(3, 0));
  }
}

struct Memory {
  std::uint64_t address() const { return 4096; }
};
struct Memories {
  static std::shared_ptr<Memory> allocate(Device&, std::uint64_t, std::uint64_t) { return std::make_shared<Memory>(); }
};

TEST(SdkMemoryTable, AsksTheFactsOfTheDeviceAndTheMemoryForItsAddress) {
  Device device;
  EXPECT_EQ((make_memory<Memories>(device, 600, 8192).second), 4096u) << "to the next multiple";
  try {
    make_memory<Memories>(device, 601, 64);
    ADD_FAILURE() << "more than in one piece";
  } catch (const Failure& failure) {
    EXPECT_THAT(failure.what(), HasSubstr("cannot have 601 bytes on acme:7: it has 1000, gives at most 600"));
  }
}

struct Library {
  void (*release)(int*) = [](int* count) { ++*count; };
};

TEST(SdkOwned, IsGivenBackOnce) {
  const Library library;
  int first = 0, second = 0;
  {
    Owned<Library, int*, &Library::release> object(library, &first), other(library, &second);
    auto moved = std::move(object);
    EXPECT_EQ(object.get(), nullptr);
    moved = std::move(other);
    EXPECT_EQ(moved.get(), &second);
  }
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 1);
}

TEST(SdkSignalGuard, PutsHandlersBack) {
  struct sigaction before = {}, after = {};
  sigaction(SIGUSR2, nullptr, &before);
  {
    const SignalGuard guard;
    std::signal(SIGUSR2, SIG_IGN);
  }
  sigaction(SIGUSR2, nullptr, &after);
  EXPECT_EQ(after.sa_handler, before.sa_handler);
  EXPECT_NE(after.sa_handler, SIG_IGN);
}

}  // namespace
}  // namespace crucible::sdk
