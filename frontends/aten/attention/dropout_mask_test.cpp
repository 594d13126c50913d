// The masks of attention with dropout, against a generator and a numbering of scores written here once more, one score
// at a time.
#include "frontends/aten/attention/dropout_mask.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>

#include "frontends/aten/testing/lowered_trace.hpp"
#include "frontends/aten/testing/vendor_case.hpp"

namespace crucible::aten {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Words = std::array<std::uint32_t, 4>;

Words drawn(Words counter, std::uint64_t seed, int rounds) {
  std::uint32_t low = static_cast<std::uint32_t>(seed), high = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < rounds; ++round, low += 0x9E3779B9, high += 0xBB67AE85) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * counter[0], b = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ low, static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ high, static_cast<std::uint32_t>(a)};
  }
  return counter;
}

/// The numbers that the generator's authors publish with it.
TEST(Philox, KnownAnswers) {
  EXPECT_THAT(drawn({0, 0, 0, 0}, 0, 10), ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  EXPECT_THAT(drawn({0, 0, 0, 0}, 0, 7), ElementsAre(0x5f6fb709, 0x0d893f64, 0x4f121f81, 0x4f730a48));
  EXPECT_THAT(drawn({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0x299f31d0a4093822, 10),
              ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
}

constexpr std::uint64_t kSeed = 0xF123456789ABCDEF, kOffset = 0x2FFFFFFF0;  // the offset's low word runs over
constexpr std::int64_t kBatch = 2, kHeads = 3, kQueries = 21, kKeys = 37;
constexpr double kDropout = 0.3;

bool efficient_keeps(std::int64_t plane, std::int64_t q, std::int64_t k) {
  const std::uint64_t at = kOffset + static_cast<std::uint64_t>((plane * kQueries + q) * kKeys + k);
  const std::uint64_t counter = at / 4;
  const Words words =
      drawn({static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32), 0, 0}, kSeed, 10);
  return static_cast<float>(words[at % 4]) * 0x1p-32F + 0x1p-33F > static_cast<float>(kDropout);
}

bool flash_keeps(std::int64_t plane, std::int64_t q, std::int64_t k) {
  const std::int64_t lane = q % 8 * 4 + k % 8 / 2;
  const std::uint64_t offset = kOffset + static_cast<std::uint64_t>(plane * 32 + lane);
  const Words words = drawn({static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(offset >> 32),
                             static_cast<std::uint32_t>(q / 16), static_cast<std::uint32_t>(k / 32)},
                            kSeed, 7);
  std::array<std::uint8_t, 16> bytes{};
  std::memcpy(bytes.data(), words.data(), 16);
  const auto byte = static_cast<std::size_t>(k % 32 / 8 * 4 + q % 16 / 8 * 2 + k % 2);
  return bytes[byte] <= static_cast<std::uint8_t>(std::floor((1.0F - static_cast<float>(kDropout)) * 255.0));
}

Floats halves(std::uint64_t number) {
  const auto parts = std::bit_cast<std::array<float, 2>>(number);
  return {parts.begin(), parts.end()};
}

constexpr const char* kEfficient =
    "aten::_scaled_dot_product_efficient_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_bias, bool "
    "compute_log_sumexp, float dropout_p=0., bool is_causal=False, *, float? scale=None) -> (Tensor output, Tensor "
    "log_sumexp, Tensor philox_seed, Tensor philox_offset)";
constexpr const char* kFlash =
    "aten::_scaled_dot_product_flash_attention(Tensor query, Tensor key, Tensor value, float dropout_p=0., bool "
    "is_causal=False, bool return_debug_mask=False, *, float? scale=None) -> (Tensor output, Tensor logsumexp, Tensor "
    "cum_seq_q, Tensor cum_seq_k, SymInt max_q, SymInt max_k, Tensor rng_state, Tensor unused, Tensor "
    "debug_attn_mask)";

/// One op of queries that are 0, so that all scores are equal, and values of which each is one key's own: its result
/// shows which scores were kept.
TraceBuilder shown(bool is_flash, bool has_seed = true) {
  TraceBuilder b;
  const auto query = b.fresh({kBatch, kHeads, kQueries, 4}), key = b.fresh({kBatch, kHeads, kKeys, 4});
  const auto value = b.fresh({kBatch, kHeads, kKeys, kKeys}), out = b.fresh({kBatch, kHeads, kQueries, kKeys});
  const auto state = b.fresh({kBatch, kHeads, kQueries, kKeys}), log = b.fresh({kBatch, kHeads, kQueries});
  b.external(b.storage_of(query), Floats(kBatch * kHeads * kQueries * 4, 0));
  b.external(b.storage_of(key), Floats(kBatch * kHeads * kKeys * 4, 1));
  Floats ones(kBatch * kHeads * kKeys * kKeys, 0);
  for (std::int64_t row = 0; row < kBatch * kHeads * kKeys; ++row)
    ones[static_cast<std::size_t>(row * kKeys + row % kKeys)] = kKeys;
  b.external(b.storage_of(value), ones);
  b.external(b.storage_of(state), Floats(kBatch * kHeads * kQueries * kKeys, 0), trace::Role::kParameter, "state");
  b.final_state(b.storage_of(state), Floats(kBatch * kHeads * kQueries * kKeys, 0), "state");
  const auto T = [](trace::TensorId id) { return B::tensor(id); };
  Floats both = halves(kSeed);
  for (const float half : halves(kOffset)) both.push_back(half);
  if (is_flash) {
    const auto rng = b.fresh({2}, DType::kOther), unused = b.fresh({0}, DType::kOther);
    const auto op = b.op(
        kFlash, {T(query), T(key), T(value), B::number(kDropout), B::boolean(false), B::boolean(false), B::none()},
        {T(out), T(log), B::none(), B::none(), B::integer(kQueries), B::integer(kKeys), T(rng), T(unused), B::none()});
    if (has_seed) b.draw(op, 6, both);
  } else {
    const auto seed = b.fresh({}, DType::kI64), offset = b.fresh({}, DType::kI64);
    const auto op = b.op(
        kEfficient,
        {T(query), T(key), T(value), B::none(), B::boolean(false), B::number(kDropout), B::boolean(false), B::none()},
        {T(out), T(log), T(seed), T(offset)});
    if (has_seed) b.draw(op, 2, halves(kSeed));
    if (has_seed) b.draw(op, 3, halves(kOffset));
  }
  b.op(kCopyInPlace, {T(state), T(out), B::boolean(false)}, {T(state)});
  b.end_iteration();
  return b;
}

TEST(DropoutMask, EveryScoreIsKeptOrDroppedAsItsKernelDoes) {
  for (const bool is_flash : {false, true}) {
    SCOPED_TRACE(is_flash ? "flash" : "efficient");
    TraceBuilder b = shown(is_flash);
    const Floats found = final_state(b, lowered(b));
    ASSERT_EQ(found.size(), static_cast<std::size_t>(kBatch * kHeads * kQueries * kKeys));
    std::size_t at = 0, wrong = 0, dropped = 0;
    for (std::int64_t plane = 0; plane < kBatch * kHeads; ++plane) {
      for (std::int64_t q = 0; q < kQueries; ++q) {
        for (std::int64_t k = 0; k < kKeys; ++k, ++at) {
          const bool keeps = is_flash ? flash_keeps(plane, q, k) : efficient_keeps(plane, q, k);
          dropped += keeps ? 0 : 1;
          wrong += std::abs(found[at] - (keeps ? 1 / 0.7F : 0)) < 1e-5F ? 0 : 1;
        }
      }
    }
    EXPECT_EQ(wrong, 0u);
    EXPECT_NEAR(static_cast<double>(dropped) / static_cast<double>(at), kDropout, 0.03);
  }
}

TEST(DropoutMask, ThresholdsAreThoseOfTheKernelsFloats) {
  EXPECT_EQ(least_kept(0), 0);
  for (const double p : {0.1, 0.3, 0.5, 0.9, 1e-9, 0.99999999}) {
    SCOPED_TRACE(p);
    const auto keeps = [p](std::int64_t word) {
      return static_cast<float>(static_cast<std::uint32_t>(word)) * 0x1p-32F + 0x1p-33F > static_cast<float>(p);
    };
    const std::int64_t least = least_kept(p);
    EXPECT_TRUE(least == std::int64_t{1} << 32 || keeps(least));
    EXPECT_TRUE(least == 0 || !keeps(least - 1));
  }
}

TEST(DropoutMask, WithoutASeedItIsRefusedWithAWayOut) {
  for (const bool is_flash : {false, true}) {
    TraceBuilder b = shown(is_flash, false);
    EXPECT_THAT(refusal(b), AllOf(HasSubstr("its seed is not in the recording"), HasSubstr("SDPBackend.MATH")));
  }
}

TEST(DropoutMask, OtherBuildsDrawInAnotherWay) {
  TraceBuilder b = shown(true);
  trace::Trace recorded = b.trace();
  recorded.metadata.framework = "torch 2.11.0+rocm7.0";
  const auto program = lower(recorded);
  ASSERT_FALSE(program);
  EXPECT_THAT(program.error().message, HasSubstr("AMD's devices"));
}

}  // namespace
}  // namespace crucible::aten
