#include "runtime/plan/near_transfers.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace crucible::runtime {
namespace {

using Ranges = std::vector<ByteRange>;

TEST(NearReads, WhatLiesNearIsReadTogetherAndWhatIsAloneOrLargeIsNot) {
  EXPECT_EQ(near_ranges({}), Ranges{});
  EXPECT_EQ(near_ranges({{0, 4}}), Ranges{}) << "alone";
  EXPECT_EQ(near_ranges({{0, 4}, {256, 260}}), (Ranges{{0, 260}}));
  EXPECT_EQ(near_ranges({{8, 12}, {0, 4}, {8, 12}, {8, 12}}), (Ranges{{0, 12}}))
      << "the same element, often, and in any order";
  EXPECT_EQ(near_ranges({{0, 4}, {100'000, 100'004}}), Ranges{}) << "far apart";
  EXPECT_EQ(near_ranges({{0, 4}, {4, 50'000}}), Ranges{}) << "one is large";
  EXPECT_EQ(near_ranges({{4, 4}, {4, 4}}), Ranges{}) << "without bytes";
}

/// Whatever is asked for, the bytes are those of the arena; each range is read once.
TEST(NearReads, GivesTheBytesThatLieThereOfRandomPlaces) {
  std::mt19937 random(7);
  const auto below = [&](std::uint64_t end) {
    return std::uniform_int_distribution<std::uint64_t>(0, end - 1)(random);
  };
  std::vector<std::byte> arena(300'000);
  for (std::byte& byte : arena) byte = static_cast<std::byte>(below(256));
  for (int round = 0; round < 200; ++round) {
    Ranges wanted;
    const std::uint64_t spread = 1 + below(arena.size() - 10'000), longest = 1 + below(round % 4 == 0 ? 9'000 : 64);
    for (std::uint64_t count = below(400); wanted.size() < count;) {
      const std::uint64_t begin = below(spread);
      wanted.push_back({begin, begin + below(longest)});
    }
    const Ranges near = near_ranges(wanted);
    std::size_t reads = 0;
    NearReads reader(near, [&](std::uint64_t offset, std::span<std::byte> bytes) -> Result<void> {
      ++reads;
      std::ranges::copy(std::span(arena).subspan(offset, bytes.size()), bytes.begin());
      return {};
    });
    std::size_t alone = 0;  // wanted in no range
    for (const ByteRange& range : wanted) {
      alone += std::ranges::none_of(
          near, [&](const ByteRange& of) { return of.begin <= range.begin && range.end <= of.end; });
      std::vector<std::byte> bytes(range.end - range.begin);
      ASSERT_TRUE(reader.read(range.begin, bytes));
      ASSERT_TRUE(std::ranges::equal(bytes, std::span(arena).subspan(range.begin, bytes.size())))
          << range.begin << " to " << range.end;
    }
    EXPECT_LE(reads, near.size() + alone);
  }
}

TEST(NearReads, AFailedReadIsToldAndTriedAgain) {
  const Ranges near = near_ranges({{0, 4}, {8, 12}});
  bool is_lost = true;
  NearReads reader(near, [&](std::uint64_t, std::span<std::byte>) -> Result<void> {
    if (is_lost) return Error{ErrorCode::kUnavailable, "lost"};
    return {};
  });
  std::vector<std::byte> bytes(4);
  EXPECT_EQ(reader.read(8, bytes).error().message, "lost");
  is_lost = false;
  EXPECT_TRUE(reader.read(8, bytes));
}

/// Pieces of an arena in which every byte is one that is kept, one of the pieces, or nobody's.
TEST(NearWrites, WriteEveryPieceAndNothingThatIsKept) {
  std::mt19937 random(11);
  const auto below = [&](std::uint64_t end) {
    return std::uniform_int_distribution<std::uint64_t>(0, end - 1)(random);
  };
  for (int round = 0; round < 60; ++round) {
    std::vector<std::byte> arena(50'000, std::byte{0xee}), wanted = arena;
    std::vector<bool> is_kept(arena.size(), false);
    std::vector<std::uint64_t> kept;
    std::vector<std::pair<std::uint64_t, std::vector<std::byte>>> pieces;
    const std::uint64_t gap = 1 + below(round % 3 == 0 ? 3'000 : 70);
    for (std::uint64_t at = below(gap); at < arena.size();) {
      const std::uint64_t size = std::min<std::uint64_t>(1 + below(round % 5 == 0 ? 4'096 : 64), arena.size() - at);
      kept.push_back(at);
      std::fill_n(is_kept.begin() + static_cast<std::ptrdiff_t>(at), size, true);
      if (below(4) != 0) {
        std::vector<std::byte> bytes(size);
        for (std::byte& byte : bytes) byte = static_cast<std::byte>(below(256));
        std::ranges::copy(bytes, wanted.begin() + static_cast<std::ptrdiff_t>(at));
        pieces.emplace_back(at, std::move(bytes));
      }
      at += size + below(gap);
    }
    std::ranges::shuffle(pieces, random);
    NearWrites writes(kept);
    for (auto& [offset, bytes] : pieces) writes.add(offset, bytes);
    std::size_t count = 0;
    const auto done = writes.flush([&](std::uint64_t offset, std::span<const std::byte> bytes) -> Result<void> {
      ++count;
      std::ranges::copy(bytes, arena.begin() + static_cast<std::ptrdiff_t>(offset));
      return {};
    });
    ASSERT_TRUE(done);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < arena.size(); ++i) wrong += is_kept[i] && arena[i] != wanted[i];
    ASSERT_EQ(wrong, 0u) << "round " << round;
    EXPECT_LE(count, pieces.size());
    EXPECT_TRUE(gap > 50 || pieces.size() < 100 || count < pieces.size()) << "nothing was joined";
  }
}

TEST(NearWrites, AFailedWriteIsTold) {
  NearWrites writes({});
  writes.add(0, std::vector<std::byte>(4));
  EXPECT_EQ(writes
                .flush([](std::uint64_t, std::span<const std::byte>) -> Result<void> {
                  return Error{ErrorCode::kUnavailable, "lost"};
                })
                .error()
                .message,
            "lost");
}

}  // namespace
}  // namespace crucible::runtime
