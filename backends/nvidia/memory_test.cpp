// Where device memory comes from, through the loader: large buffers side by side in one range, small ones from a pool,
// what is kept and what is given back; the same on devices that lack the one or the other.
#include <cstdio>
#include <functional>
#include <optional>

#include "backends/nvidia/testing.hpp"

namespace crucible::backend {
namespace {

using ::testing::HasSubstr;

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DevicePlugin);  // those are nvidia_test's

constexpr std::uint64_t kMib = 1 << 20;

std::map<std::string, std::uint64_t> stats_of(const std::shared_ptr<Device>& device) {
  std::map<std::string, std::uint64_t> told;
  const auto sink = [](void* user, const crucible_kv* items, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i)
      (*static_cast<std::map<std::string, std::uint64_t>*>(user))[std::string(items[i].key.data, items[i].key.size)] =
          items[i].u;
  };
  EXPECT_TRUE(to_result(device->backend().tables().memory.stats(device->handle(), sink, &told), "memory.stats"));
  return told;
}

Result<Buffer> have(const std::shared_ptr<Device>& device, std::uint64_t bytes) {
  return Buffer::allocate(device, bytes, 64);
}

class NvidiaMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(CRUCIBLE_TEST_CUDA))
      GTEST_SKIP() << "no emulated driver was built (crucible_emulated_cuda)";
  }
  /// `body` in a process of its own, under these settings of the emulator; it returns "" or what is wrong.
  static void run(const std::map<std::string, std::string>& settings, const Options& options,
                  const std::function<std::string(Result<std::shared_ptr<Device>>)>& body) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(
        {
          for (const auto& [name, value] : settings) setenv(name.c_str(), value.c_str(), 1);
          const std::string wrong = body(try_open(emulated_nvidia(options)));
          std::fprintf(stderr, "wrong: %s\n", wrong.c_str());
          std::_Exit(wrong.empty() && !HasFailure() ? 0 : 1);
        },
        ::testing::ExitedWithCode(0), "wrong: \n");
  }
};

TEST_F(NvidiaMemory, LargeBuffersLieInOneRangeAndSmallOnesDoNot) {
  const auto device = take(try_open(emulated_nvidia()));
  EXPECT_EQ(property(device, "memory"), "virtual and pools");
  const std::uint64_t before = stats_of(device)["mapped_bytes"];
  const Buffer a = take(have(device, 3 * kMib)), b = take(have(device, 5 * kMib)), c = take(have(device, 100));
  EXPECT_EQ(b.address() - a.address(), 4 * kMib);  // in steps of 2 MiB
  EXPECT_EQ(stats_of(device)["mapped_bytes"] - before, 10 * kMib);
  EXPECT_TRUE(c.address() < a.address() || c.address() >= b.address() + 6 * kMib);
}

TEST_F(NvidiaMemory, GrowthMovesNothingAndWhatWasFreedIsUsedAgain) {
  const auto device = take(try_open(emulated_nvidia()));
  Buffer first = take(have(device, 4 * kMib));
  ASSERT_TRUE(first.fill(0, 4 * kMib, 0x5a));
  std::optional<Buffer> second = take(have(device, 150 * kMib));  // several pieces of memory
  const std::uint64_t address = second->address();
  ASSERT_TRUE(second->fill(0, 150 * kMib, 0x3c));  // across all of them
  std::vector<std::byte> bytes(16);
  EXPECT_TRUE(second->read(64 * kMib - 8, bytes));
  EXPECT_EQ(bytes, std::vector<std::byte>(16, std::byte{0x3c}));
  EXPECT_TRUE(first.read(4 * kMib - 16, bytes));
  EXPECT_EQ(bytes, std::vector<std::byte>(16, std::byte{0x5a}));
  const std::uint64_t mapped = stats_of(device)["mapped_bytes"];
  EXPECT_EQ(mapped, 154 * kMib);
  second.reset();
  EXPECT_EQ(stats_of(device)["kept_bytes"], 150 * kMib);
  second = take(have(device, 149 * kMib));
  EXPECT_EQ(second->address(), address);
  EXPECT_TRUE(second->read(0, bytes));
  EXPECT_EQ(bytes, std::vector<std::byte>(16, std::byte{0}));  // fresh buffers are zero, also on memory that was used
  EXPECT_EQ(stats_of(device)["mapped_bytes"], mapped);
}

TEST_F(NvidiaMemory, NoMoreIsKeptThanTheOptionSays) {
  const auto device = take(try_open(emulated_nvidia({{"memory_keep_mib", "64"}})));
  std::optional<Buffer> a = take(have(device, 128 * kMib)), b = take(have(device, 2 * kMib));
  a.reset();
  EXPECT_EQ(stats_of(device)["kept_bytes"], 64 * kMib);
  b.reset();
  EXPECT_LE(stats_of(device)["kept_bytes"], 64 * kMib);
}

TEST_F(NvidiaMemory, OutOfMemoryGivesBackWhatIsKeptAndIsTriedOnceMore) {
  run({{"CRUCIBLE_EMU_MEMORY_MIB", "64"}}, {}, [](const auto& opened) {
    const auto device = take(opened);
    {
      std::vector<Buffer> small;
      for (int i = 0; i < 30; ++i) small.push_back(take(have(device, kMib)));
    }
    if (stats_of(device)["kept_bytes"] != 30 * kMib) return std::string("the pool does not keep 30 MiB");
    {
      const auto large = have(device, 50 * kMib);  // the pool is trimmed for it
      if (!large) return large.error().message;
    }
    if (stats_of(device)["kept_bytes"] != 50 * kMib) return std::string("the arena does not keep 50 MiB");
    std::vector<Buffer> small;
    for (int i = 0; i < 60; ++i) {  // the arena is trimmed for the fifteenth
      auto one = have(device, kMib);
      if (!one) return one.error().message;
      small.push_back(std::move(*one));
    }
    return std::string();
  });
}

TEST_F(NvidiaMemory, TooLittleIsToldWithWhatIsFreeAndWhatWasGivenBack) {
  run({{"CRUCIBLE_EMU_MEMORY_MIB", "64"}}, {}, [](const auto& opened) {
    const auto device = take(opened);
    const Buffer used = take(have(device, 20 * kMib));
    {
      const Buffer kept = take(have(device, 10 * kMib));
    }
    const auto refused = have(device, 50 * kMib);
    if (refused) return std::string("50 of 44 MiB were given out");
    EXPECT_THAT(refused.error().message,
                HasSubstr("cannot have 52428800 bytes on nvidia:0, after 10485760 bytes that were kept had been given "
                          "back: 46137344 of 67108864 are free, and this plugin has 20971520"));
    return have(device, 40 * kMib) ? std::string() : std::string("40 MiB that are free are refused");
  });
}

/// The third piece is refused, and so it is when the whole buffer is asked for once more.
TEST_F(NvidiaMemory, AFailureInTheMiddleOfABufferLeavesNothingMapped) {
  run({{"CRUCIBLE_EMU_FAULTS", "oom@alloc(cuMemCreate)#3;oom@alloc(cuMemCreate)#6"}}, {}, [](const auto& opened) {
    const auto device = take(opened);
    if (const auto refused = have(device, 200 * kMib)) return std::string("the third piece was not refused");
    if (stats_of(device)["mapped_bytes"] != 0) return std::string("something stays mapped");
    return have(device, 200 * kMib) ? std::string() : std::string("the device does not go on");
  });
}

TEST_F(NvidiaMemory, DevicesThatLackOneOrBothAreServedByTheOther) {
  const auto works = [](const std::string& source) {
    return [source](const auto& opened) {
      const auto device = take(opened);
      EXPECT_EQ(property(device, "memory"), source);
      for (const std::uint64_t size : {std::uint64_t{100}, 5 * kMib}) {
        Buffer buffer = take(have(device, size));
        EXPECT_TRUE(buffer.fill(0, size, 7));
      }
      return stats_of(device)["mapped_bytes"] == (source.starts_with("virtual") ? 6 * kMib : 0) ? std::string()
                                                                                                : std::string("mapped");
    };
  };
  run({{"CRUCIBLE_EMU_WITHOUT", "virtual"}}, {}, works("pools; nvidia:0 has no virtual memory management"));
  run({{"CRUCIBLE_EMU_WITHOUT", "pools"}}, {}, works("virtual and plain (nvidia:0 has no memory pools)"));
  run({{"CRUCIBLE_EMU_WITHOUT", "virtual,pools"}}, {},
      works("plain (nvidia:0 has no memory pools); nvidia:0 has no virtual memory management"));
  run({}, {{"memory", "plain"}}, works("plain"));
  run({}, {{"memory", "virtual"}}, works("virtual and pools"));
}

TEST_F(NvidiaMemory, VirtualMemoryThatIsDemandedAndAbsentIsRefused) {
  run({{"CRUCIBLE_EMU_WITHOUT", "virtual"}}, {{"memory", "virtual"}}, [](const auto& opened) {
    if (opened) return std::string("it was opened");
    EXPECT_THAT(opened.error().message,
                HasSubstr("the option memory demands virtual memory, and nvidia:0 has no virtual memory management: "
                          "set it to auto or plain"));
    return std::string();
  });
}

/// What copies of 2 GiB and more are to a device: longer than a row may be.
TEST_F(NvidiaMemory, CopiesThatAreLongerThanARowAreWhole) {
  run({{"CRUCIBLE_EMU_PITCH", "96"}}, {}, [](const auto& opened) {
    const auto device = take(opened);
    for (const std::uint64_t size : {1, 95, 96, 97, 128, 192, 193, 1000}) {
      Buffer memory = take(Buffer::allocate(device, 4096, 256));
      std::vector<std::byte> bytes(4096);
      for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 256);
      EXPECT_TRUE(memory.write(0, bytes));
      const std::vector<std::uint64_t> places = {memory.address() + 2049, memory.address() + 3};
      crucible_op op = {};
      op.struct_size = sizeof(op);
      op.kind = CRUCIBLE_OP_COPY;
      op.buffers = places.data();
      op.buffer_count = 2;
      op.size = size;
      Plan plan = take(Plan::build(device, std::span(&op, 1), 0));
      EXPECT_TRUE(plan.replay());
      std::copy_n(bytes.begin() + 3, size, bytes.begin() + 2049);
      std::vector<std::byte> seen(4096);
      EXPECT_TRUE(memory.read(0, seen));
      if (seen != bytes) return "a copy of " + std::to_string(size) + " bytes is not whole";
    }
    return std::string();
  });
}

}  // namespace
}  // namespace crucible::backend
