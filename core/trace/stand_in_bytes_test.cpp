// Noise has the statistics that it promises, and nothing of what it stands in for.
#include "core/trace/stand_in_bytes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <set>

#include "core/trace/element_difference.hpp"

namespace crucible::trace {
namespace {

template <class T>
std::vector<T> noise(const std::vector<T>& from, DType dtype, StandInUse use = {}, std::uint64_t seed = 1) {
  const std::vector<std::byte> made = stand_in(std::as_bytes(std::span(from)), dtype, use, seed);
  std::vector<T> to(from.size());
  EXPECT_EQ(made.size(), from.size() * sizeof(T));
  std::memcpy(to.data(), made.data(), made.size());
  return to;
}

struct Moments {
  double mean = 0, deviation = 0, least = 0, largest = 0;
};

template <class T>
Moments moments(const std::vector<T>& of) {
  Moments found{.least = static_cast<double>(*std::ranges::min_element(of)),
                .largest = static_cast<double>(*std::ranges::max_element(of))};
  for (const T number : of) found.mean += static_cast<double>(number) / static_cast<double>(of.size());
  for (const T number : of)
    found.deviation += std::pow(static_cast<double>(number) - found.mean, 2) / static_cast<double>(of.size());
  found.deviation = std::sqrt(found.deviation);
  return found;
}

template <class T>
void expect_alike(const std::vector<T>& a, const std::vector<T>& b, double share) {
  const Moments one = moments(a), other = moments(b);
  const double range = one.largest - one.least;
  EXPECT_NEAR(one.mean, other.mean, share * range);
  EXPECT_NEAR(one.deviation, other.deviation, share * range);
  EXPECT_NEAR(one.least, other.least, 0.002 * range);
  EXPECT_NEAR(one.largest, other.largest, 0.002 * range);
  EXPECT_GE(other.least, one.least);
  EXPECT_LE(other.largest, one.largest);
}

template <class T>
std::size_t equal_places(const std::vector<T>& a, const std::vector<T>& b) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) count += a[i] == b[i];
  return count;
}

TEST(StandIn, RealNumbersKeepTheirStatistics) {
  std::mt19937_64 random(3);
  for (const std::size_t count : {200u, 5000u, 200000u}) {
    std::normal_distribution<float> bell(0.3f, 0.02f);
    std::gamma_distribution<float> skewed(0.3f);
    std::vector<float> weights(count), squares(count);
    for (float& number : weights) number = bell(random);
    for (float& number : squares) number = skewed(random);
    for (const auto& from : {weights, squares}) {
      const std::vector<float> to = noise(from, DType::kF32);
      expect_alike(from, to, count < 1000 ? 0.05 : 0.02);
      EXPECT_EQ(equal_places(from, to), 0u);
      EXPECT_EQ(noise(from, DType::kF32), to) << "the same seed";
      EXPECT_NE(noise(from, DType::kF32, {}, 2), to);
    }
  }
}

TEST(StandIn, LabelsStayWholeAndMasksKeepTheirShare) {
  std::vector<float> labels(3000), mask(3000);
  for (std::size_t i = 0; i < labels.size(); ++i)
    labels[i] = static_cast<float>(i * 7 % 10), mask[i] = i % 5 == 0 ? 1.25f : 0.0f;
  const std::vector<float> others = noise(labels, DType::kF32), dropped = noise(mask, DType::kF32);
  EXPECT_TRUE(std::ranges::all_of(others, [](float number) { return number == std::trunc(number); }));
  expect_alike(labels, others, 0.03);
  EXPECT_EQ(std::ranges::count(dropped, 1.25f), 600);
  EXPECT_EQ(std::ranges::count(dropped, 0.0f), 2400);
  EXPECT_NE(dropped, mask);
}

TEST(StandIn, SpecialNumbersAreAsManyElsewhere) {
  std::vector<double> from(1000, 0.0);
  for (std::size_t i = 0; i < 300; ++i) from[i] = -std::numeric_limits<double>::infinity();
  from[999] = std::nan("");
  const std::vector<double> to = noise(from, DType::kF64);
  EXPECT_EQ(std::ranges::count(to, -std::numeric_limits<double>::infinity()), 300);
  EXPECT_EQ(std::ranges::count_if(to, [](double number) { return std::isnan(number); }), 1);
  EXPECT_NE(std::memcmp(to.data(), from.data(), 8000), 0);
}

TEST(StandIn, OneValueChangesALittleAndZeroStays) {
  EXPECT_EQ(noise(std::vector<float>(64, 0.0f), DType::kF32), std::vector<float>(64, 0.0f));
  for (const float number : noise(std::vector<float>(64, 3.0f), DType::kF32))
    EXPECT_TRUE(number >= 2.84f && number < 2.98f) << number;
  for (const float number : noise(std::vector<float>(64, 0.0f), DType::kF32, {.is_compared_only = true}))
    EXPECT_GE(number, 0.5f);
  for (const std::int64_t number : noise(std::vector<std::int64_t>(9, 0), DType::kI64, {.is_compared_only = true}))
    EXPECT_GE(number, 1);
}

TEST(StandIn, NarrowTypesStayInTheirRange) {
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    std::vector<std::uint16_t> from;  // 1.0 to 1.99 and their negatives, as bits
    for (std::uint16_t i = 0; i < 1000; ++i)
      from.push_back(
          static_cast<std::uint16_t>((dtype == DType::kF16 ? 0x3c00 + i : 0x3f80 + i % 128) | (i % 2) << 15));
    const std::vector<std::uint16_t> to = noise(from, dtype);
    const std::uint16_t largest = dtype == DType::kF16 ? 0x3c00 + 999 : 0x3fff;
    double sum = 0;
    for (const std::uint16_t bits : to) {
      EXPECT_LE(bits & 0x7fff, largest);
      sum += (bits & 0x8000) != 0 ? -1 : 1;
    }
    EXPECT_LT(std::fabs(sum), 150);
  }
}

TEST(StandIn, IndicesStayIndices) {
  std::vector<std::int64_t> tokens(4000), labels(400);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int64_t>(100 + i * i * 31 % 50000);
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = i % 4 == 0 ? -100 : static_cast<std::int64_t>(i % 7);
  const auto others = noise(tokens, DType::kI64), classes = noise(labels, DType::kI64);
  expect_alike(tokens, others, 0.03);
  EXPECT_LT(equal_places(tokens, others), 20u);
  EXPECT_EQ(std::ranges::count(classes, -100), 100);
  EXPECT_TRUE(
      std::ranges::all_of(classes, [](std::int64_t label) { return label == -100 || (label >= 0 && label < 7); }));
  for (const std::int64_t one : noise(std::vector<std::int64_t>(32, 50256), DType::kI64))
    EXPECT_TRUE(one >= 1 && one < 50256);
  std::vector<std::int32_t> order(500);
  std::iota(order.begin(), order.end(), 10);
  auto shuffled = noise(order, DType::kI32);
  EXPECT_NE(shuffled, order);
  std::ranges::sort(shuffled);
  EXPECT_EQ(shuffled, order) << "each once";
}

TEST(StandIn, OffsetsGoOnAscending) {
  const std::vector<std::int64_t> offsets = {0, 3, 3, 10, 12, 40, 41, 77};
  const auto others = noise(offsets, DType::kI64, {.keeps_order = true});
  EXPECT_TRUE(std::ranges::is_sorted(others));
  EXPECT_EQ(others.front(), 0);
  EXPECT_EQ(others.back(), 77);
  EXPECT_NE(others, offsets);
}

TEST(StandIn, TruthsAreAsMany) {
  std::vector<std::uint8_t> from(1000, 0);
  for (std::size_t i = 0; i < 333; ++i) from[i] = 1;
  const auto to = noise(from, DType::kBool);
  EXPECT_EQ(std::ranges::count(to, 1), 333);
  EXPECT_EQ(std::ranges::count(to, 0), 667);
  EXPECT_NE(to, from);
}

TEST(StandIn, OddEndsAndNothingAtAll) {
  EXPECT_TRUE(stand_in({}, DType::kF32, {}, 1).empty());
  const std::vector<std::byte> odd(7, std::byte{0x41});
  const auto made = stand_in(odd, DType::kF32, {}, 1);
  ASSERT_EQ(made.size(), 7u);
  EXPECT_EQ(made[6], std::byte{0});
  for (const DType dtype : {DType::kC64, DType::kC128, DType::kOther, DType::kI16, DType::kI8})
    EXPECT_EQ(stand_in(odd, dtype, {}, 1).size(), 7u);
}

}  // namespace
}  // namespace crucible::trace
