// The primitive encodings at their edges.
#include "core/trace/byte_stream.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <limits>

namespace crucible::trace {
namespace {

TEST(ByteStream, VarintsRoundTripAndHaveTheirSize) {
  const std::pair<std::uint64_t, std::size_t> cases[] = {{0, 1},     {127, 1},         {128, 2},         {16383, 2},
                                                         {16384, 3}, {0xffffffffu, 5}, {1ull << 63, 10}, {~0ull, 10}};
  for (const auto& [number, size] : cases) {
    ByteWriter out;
    out.varint(number);
    EXPECT_EQ(out.size(), size) << number;
    ByteReader in(out.bytes());
    EXPECT_EQ(in.varint(), number);
    EXPECT_TRUE(in.ok());
    EXPECT_EQ(in.remaining(), 0u);
  }
}

TEST(ByteStream, ZigzagRoundTrips) {
  for (const std::int64_t number :
       {std::int64_t{0}, std::int64_t{-1}, std::int64_t{1}, std::int64_t{-64}, std::int64_t{63},
        std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()}) {
    ByteWriter out;
    out.zigzag(number);
    ByteReader in(out.bytes());
    EXPECT_EQ(in.zigzag(), number);
    EXPECT_LE(out.size(), number >= -64 && number <= 63 ? 1u : 10u);
  }
}

TEST(ByteStream, FixedNumbersAreLittleEndian) {
  ByteWriter out;
  out.u32(0x01020304);
  EXPECT_EQ(out.bytes()[0], std::byte{4});
  EXPECT_EQ(out.bytes()[3], std::byte{1});
  ByteReader in(out.bytes());
  EXPECT_EQ(in.u32(), 0x01020304u);
}

TEST(ByteStream, NoIdIsZero) {
  ByteWriter out;
  out.id(0xffffffffu);
  out.id(0xfffffffeu);
  EXPECT_EQ(out.bytes()[0], std::byte{0});
  ByteReader in(out.bytes());
  EXPECT_EQ(in.id(), 0xffffffffu);
  EXPECT_EQ(in.id(), 0xfffffffeu);
}

TEST(ByteStream, DoublesKeepTheirBits) {
  for (const std::uint64_t bits : {0x7ff8dead'beef1234ull, 0xfff00000'00000001ull, 0x80000000'00000000ull, 1ull}) {
    ByteWriter out;
    out.f64(std::bit_cast<double>(bits));
    ByteReader in(out.bytes());
    EXPECT_EQ(std::bit_cast<std::uint64_t>(in.f64()), bits);
  }
}

TEST(ByteStream, NumbersThatAreTooLongAreRefused) {
  const std::vector<std::byte> eleven(11, std::byte{0x80});
  ByteReader endless(eleven);
  endless.varint();
  EXPECT_FALSE(endless.ok());
  std::vector<std::byte> sixty_five_bits(10, std::byte{0xff});
  sixty_five_bits[9] = std::byte{2};
  ByteReader wide(sixty_five_bits);
  wide.varint();
  EXPECT_EQ(wide.problem(), "a number before byte 10 has more than 64 bits");
  ByteWriter out;
  out.varint(1ull << 32);
  ByteReader in(out.bytes());
  in.varint32();
  EXPECT_EQ(in.problem(), "the number 4294967296 before byte 5 has more than 32 bits");
}

TEST(ByteStream, LengthsAndCountsAreComparedWithWhatIsLeft) {
  ByteWriter out;
  out.varint(1ull << 60);
  out.u64(0);
  ByteReader text(out.bytes());
  EXPECT_EQ(text.text(), "");
  EXPECT_EQ(text.problem(), "a text of 1152921504606846976 bytes at byte 9, but only 8 are left");
  ByteReader count(out.bytes());
  EXPECT_EQ(count.count(1), 0u);
  EXPECT_FALSE(count.ok());
}

TEST(ByteStream, AfterAProblemEverythingIsZeroAndTheFirstProblemStays) {
  const std::vector<std::byte> two(2, std::byte{1});
  ByteReader in(two);
  EXPECT_EQ(in.u64(), 0u);
  const std::string first = in.problem();
  EXPECT_EQ(in.u8(), 0u);
  EXPECT_EQ(in.text(), "");
  EXPECT_EQ(in.problem(), first);
}

}  // namespace
}  // namespace crucible::trace
