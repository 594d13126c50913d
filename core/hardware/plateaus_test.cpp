#include "core/hardware/plateaus.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace crucible::hardware {
namespace {

std::vector<CurvePoint> curve_of(const std::vector<double>& rates) {
  std::vector<CurvePoint> curve;
  double bytes = 8192;
  for (const double rate : rates) curve.push_back({bytes, rate}), bytes *= 2;
  return curve;
}

TEST(Plateaus, FindsTheStepsOfACurve) {
  const auto plateaus = find_plateaus(curve_of({400, 410, 405, 150, 155, 152, 60, 61, 58, 20, 20, 20}));
  ASSERT_EQ(plateaus.size(), 4u);
  EXPECT_EQ(plateaus[0].end, 3u);
  EXPECT_EQ(plateaus[1].end, 6u);
  EXPECT_EQ(plateaus[2].end, 9u);
  EXPECT_EQ(plateaus[3].end, 12u);
  EXPECT_EQ(plateaus[3].bytes_per_second, 20);
}

TEST(Plateaus, AFlatCurveIsOneLevel) {
  EXPECT_TRUE(find_plateaus({}).empty());
  EXPECT_EQ(find_plateaus(curve_of({7})).size(), 1u);
  const auto plateaus = find_plateaus(curve_of({100, 101, 99, 102, 98}));
  ASSERT_EQ(plateaus.size(), 1u);
  EXPECT_EQ(plateaus[0].end, 5u);
}

TEST(Plateaus, WhatDoesNotFallIsOneLevel) {
  for (const auto& plateau :
       {find_plateaus(curve_of({10, 10, 10, 100, 100, 100})), find_plateaus(curve_of({50, 50, 5, 5, 50, 50}))}) {
    for (std::size_t i = 1; i < plateau.size(); ++i)
      EXPECT_LT(plateau[i].bytes_per_second, plateau[i - 1].bytes_per_second);
    EXPECT_EQ(plateau.front().begin, 0u);
    EXPECT_EQ(plateau.back().end, 6u);
  }
}

TEST(Plateaus, CoverEveryCurveWithoutGaps) {
  std::mt19937 random(7);
  for (int round = 0; round < 500; ++round) {
    std::vector<double> rates(1 + random() % 20);
    for (double& rate : rates) rate = std::exp(std::uniform_real_distribution<double>(0, 10)(random));
    const auto plateaus = find_plateaus(curve_of(rates));
    ASSERT_FALSE(plateaus.empty());
    std::size_t at = 0;
    for (const Plateau& plateau : plateaus) {
      EXPECT_EQ(plateau.begin, at);
      EXPECT_GT(plateau.end, plateau.begin);
      at = plateau.end;
    }
    EXPECT_EQ(at, rates.size());
    for (std::size_t i = 1; i < plateaus.size(); ++i)
      EXPECT_LT(plateaus[i].bytes_per_second, plateaus[i - 1].bytes_per_second);
  }
}

}  // namespace
}  // namespace crucible::hardware
