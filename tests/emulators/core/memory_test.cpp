// Addresses that fault, guard pages, the pattern of fresh memory, the limit, and each kind of misuse.
#include "tests/emulators/core/memory.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/emulators/core/access_guard.hpp"
#include "tests/emulators/core/settings.hpp"

namespace crucible::emulator {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

bool faults_at(volatile char* address) {
  const AccessGuard::Handler handler;
  return !AccessGuard::run([&] { *address = *address; });
}

TEST(EmulatorMemory, FreshMemoryIsNotZeroAndAligned) {
  Memory memory(1, kMiB, false);
  const std::uint64_t address = memory.allocate(0, 1000).value();
  EXPECT_TRUE(is_device_address(address));
  EXPECT_EQ(address % 256, 0u);
  const char* const bytes = host_address(address);
  EXPECT_TRUE(std::all_of(bytes, bytes + 1000, [](char c) { return c == static_cast<char>(0xCD); }));
  EXPECT_TRUE(near_device_memory(reinterpret_cast<std::uint64_t>(bytes)));
}

TEST(EmulatorMemoryDeathTest, AHostThatFollowsAnAddressFaults) {
  Memory memory(1, kMiB, false);
  const std::uint64_t address = memory.allocate(0, 16).value();
  EXPECT_EXIT(*reinterpret_cast<volatile char*>(address) = 1, ::testing::KilledBySignal(SIGSEGV), "");
}

TEST(EmulatorMemory, GuardPagesFault) {
  for (const bool at_end : {false, true}) {
    Memory memory(1, kMiB, at_end);
    char* const first = host_address(memory.allocate(0, 4096).value());
    EXPECT_FALSE(faults_at(first));
    EXPECT_FALSE(faults_at(first + 4095));
    EXPECT_TRUE(faults_at(first - 1));
    EXPECT_TRUE(faults_at(first + 4096));
    char* const small = host_address(memory.allocate(0, 256).value());
    EXPECT_EQ(faults_at(small - 1), !at_end);
    EXPECT_EQ(faults_at(small + 256), at_end);
  }
}

TEST(EmulatorMemory, UseAfterFreeFaults) {
  Memory memory(1, kMiB, false);
  const std::uint64_t address = memory.allocate(0, 100).value();
  EXPECT_TRUE(memory.free(address));
  EXPECT_TRUE(faults_at(host_address(address)));
}

TEST(EmulatorMemory, TheLimitIsPerDeviceAndGivenBack) {
  Memory memory(2, kMiB, false);
  const std::uint64_t half = memory.allocate(0, kMiB / 2).value();
  EXPECT_EQ(memory.used(0), kMiB / 2);
  EXPECT_EQ(memory.allocate(0, kMiB / 2 + 1).error(), MemoryError::kOutOfMemory);
  EXPECT_EQ(memory.allocate(0, ~0ull).error(), MemoryError::kOutOfMemory);
  EXPECT_TRUE(memory.allocate(1, kMiB));
  EXPECT_TRUE(memory.free(half));
  EXPECT_EQ(memory.used(0), 0u);
  EXPECT_TRUE(memory.allocate(0, kMiB));
  memory.free_all(0);
  EXPECT_EQ(memory.used(0), 0u);
  EXPECT_EQ(memory.used(1), kMiB);
}

TEST(EmulatorMemory, EachMisuseHasItsKind) {
  Memory memory(1, kMiB, false);
  const std::uint64_t address = memory.allocate(0, 100).value();
  EXPECT_EQ(memory.check(address, 100)->size, 100u);
  EXPECT_TRUE(memory.check(address + 99, 1));
  EXPECT_EQ(memory.check(address + 1, 100).error(), MemoryError::kOutOfRange);
  EXPECT_EQ(memory.check(address, ~0ull).error(), MemoryError::kOutOfRange);
  EXPECT_EQ(memory.check(address + 100, 0).error(), MemoryError::kNotAllocated);
  EXPECT_EQ(memory.check(1234, 1).error(), MemoryError::kNotAllocated);
  EXPECT_EQ(memory.free(address + 4).error(), MemoryError::kInside);
  EXPECT_EQ(memory.free(77).error(), MemoryError::kNotAllocated);
  EXPECT_TRUE(memory.free(address));
  EXPECT_EQ(memory.free(address).error(), MemoryError::kAlreadyFreed);
  EXPECT_EQ(memory.check(address + 5, 1).error(), MemoryError::kAlreadyFreed);
}

TEST(EmulatorMemory, BytesWrittenBehindAnAllocationAreNoted) {
  const std::filesystem::path log =
      std::filesystem::temp_directory_path() / ("crucible-emulator-overrun-" + std::to_string(getpid()));
  setenv("CRUCIBLE_EMU_LOG", log.c_str(), 1);
  reload_environment();
  {
    Memory memory(1, kMiB, false);
    const std::uint64_t clean = memory.allocate(0, 100).value(), bad = memory.allocate(0, 101).value();
    host_address(clean)[99] = 1;
    host_address(bad)[101] = 1;
    EXPECT_TRUE(memory.free(clean));
    EXPECT_TRUE(memory.free(bad));
  }
  unsetenv("CRUCIBLE_EMU_LOG");
  reload_environment();
  std::ifstream stream(log);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(stream), {}),
            "overrun: bytes beside an allocation of 101 bytes were written\n");
  std::filesystem::remove(log);
}

}  // namespace
}  // namespace crucible::emulator
