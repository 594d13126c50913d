// Buffers of the CPU plugin, through the loader: contents, alignment, ranges, what happens when the machine has too
// little.
#include <gmock/gmock.h>

#include "backends/cpu/testing.hpp"

namespace crucible::backend {
namespace {

using testing::HasSubstr;

class CpuMemory : public CpuTest {};

TEST_F(CpuMemory, StartsAsZerosAndKeepsWhatIsWritten) {
  const auto device = open();
  for (const std::uint64_t size : {std::uint64_t{1}, std::uint64_t{4097}, std::uint64_t{5} << 20}) {
    Buffer buffer = make_buffer(device, size);
    EXPECT_EQ(download<std::uint8_t>(buffer, size), std::vector<std::uint8_t>(size, 0));
    std::vector<std::uint8_t> bytes(size);
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::uint8_t>(i * 7 + 3);
    CRUCIBLE_ASSERT_OK(buffer.write(0, std::as_bytes(std::span(bytes))));
    EXPECT_EQ(download<std::uint8_t>(buffer, size), bytes);
  }
}

TEST_F(CpuMemory, AlignsAsAskedForAndNamesItsAddress) {
  const auto device = open();
  for (const std::uint64_t align : {64u, 4096u, 1u << 21, 1u << 22}) {
    const Buffer buffer = take(Buffer::allocate(device, 100, align));
    EXPECT_EQ(buffer.address() % align, 0u) << align;
  }
  Buffer buffer = make_buffer(device, 4);
  std::memcpy(reinterpret_cast<void*>(buffer.address()), "abcd", 4);
  EXPECT_EQ(download<char>(buffer, 4), (std::vector<char>{'a', 'b', 'c', 'd'}));
}

TEST_F(CpuMemory, FillsTheRangeAndNothingElse) {
  const auto device = open();
  Buffer buffer = make_buffer(device, 8);
  CRUCIBLE_ASSERT_OK(buffer.fill(2, 3, 0xff));
  EXPECT_EQ(download<std::uint8_t>(buffer, 8), (std::vector<std::uint8_t>{0, 0, 255, 255, 255, 0, 0, 0}));
}

TEST_F(CpuMemory, RefusesRangesOutsideTheBuffer) {
  const auto device = open();
  Buffer buffer = make_buffer(device, 8);
  std::vector<std::byte> bytes(5);
  const auto write = buffer.write(4, bytes);
  ASSERT_FALSE(write);
  EXPECT_THAT(write.error().message, HasSubstr("bytes 4 and 5 on are not inside a buffer of 8"));
  EXPECT_FALSE(buffer.read(~std::uint64_t{0}, bytes));  // offset + size overflows
  EXPECT_FALSE(buffer.fill(9, 0, 1));
}

TEST_F(CpuMemory, RefusesMoreThanTheMachineHas) {
  const auto device = open();
  for (const std::uint64_t size : {std::uint64_t{1} << 46, ~std::uint64_t{0}}) {
    const auto buffer = Buffer::allocate(device, size, 64);
    ASSERT_FALSE(buffer);
    EXPECT_EQ(buffer.error().code, ErrorCode::kUnavailable);
    EXPECT_THAT(buffer.error().message, HasSubstr("cannot have " + std::to_string(size) + " bytes"));
    EXPECT_THAT(buffer.error().message, HasSubstr("the machine has"));
  }
}

TEST_F(CpuMemory, AdoptsMemoryWhereItLies) {
  const auto device = open();
  std::vector<int> ours = {1, 2, 3, 4};
  {
    Buffer buffer = take(Buffer::adopt(device, ours.data(), 16));
    EXPECT_EQ(buffer.address(), reinterpret_cast<std::uint64_t>(ours.data()));
    ours[1] = 20;
    EXPECT_EQ(download<int>(buffer, 4), (std::vector<int>{1, 20, 3, 4}));
    const int seven = 7;
    CRUCIBLE_ASSERT_OK(buffer.write(8, std::as_bytes(std::span(&seven, 1))));
    EXPECT_FALSE(buffer.fill(12, 8, 0));  // beyond what was adopted
  }
  EXPECT_EQ(ours, (std::vector<int>{1, 20, 7, 4}));  // free leaves it as it is
  EXPECT_EQ(take(device->peak_bytes()), 0u);         // and it is not the device's
  EXPECT_FALSE(Buffer::adopt(device, nullptr, 16));
}

TEST_F(CpuMemory, CountsThePeak) {
  const auto device = open();
  {
    const Buffer a = make_buffer(device, 1000);
    const Buffer b = make_buffer(device, 500);
  }
  const Buffer c = make_buffer(device, 700);
  EXPECT_EQ(take(device->peak_bytes()), 1500u);
}

}  // namespace
}  // namespace crucible::backend
