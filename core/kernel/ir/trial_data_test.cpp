// The numbers that kernels are tried on: the same each time, of all kinds, and with the constants of the kernel among
// them.
#include "core/kernel/ir/trial_data.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/graph/reference_numbers.hpp"

namespace crucible::kernel {
namespace {

constexpr std::size_t kPieces = 512;

class TrialFloats : public testing::TestWithParam<DType> {
 protected:
  static std::vector<std::byte> filled(const TouchedMemory::Fill& fill) {
    std::vector<std::byte> bytes(kPieces * TouchedMemory::kPiece);
    for (std::size_t at = 0; at < bytes.size(); at += TouchedMemory::kPiece)
      fill(at, std::span(bytes).subspan(at, TouchedMemory::kPiece));
    return bytes;
  }
  static std::vector<double> numbers(const std::vector<std::byte>& bytes) {
    std::vector<double> numbers;
    for (std::size_t at = 0; at < bytes.size(); at += size_bytes(GetParam()))
      numbers.push_back(graph::load_real(GetParam(), bytes.data() + at));
    return numbers;
  }
  static std::uint64_t bits_of(double number) {
    std::uint64_t bits = 0;
    graph::store_real(GetParam(), number, reinterpret_cast<std::byte*>(&bits));
    return bits;
  }
};

TEST_P(TrialFloats, AreTheSameEachTimeAndOthersInAnotherMemory) {
  const std::vector<std::byte> once = filled(trial_numbers(GetParam(), 1, TrialNumbers::kModerate, {}));
  EXPECT_EQ(once, filled(trial_numbers(GetParam(), 1, TrialNumbers::kModerate, {})));
  std::set<std::string> pieces;
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    const std::vector<std::byte> bytes = filled(trial_numbers(GetParam(), seed, TrialNumbers::kModerate, {}));
    for (std::size_t at = 0; at < bytes.size(); at += TouchedMemory::kPiece)
      pieces.emplace(reinterpret_cast<const char*>(bytes.data()) + at, TouchedMemory::kPiece);
  }
  EXPECT_GT(pieces.size(), 3 * kPieces / 2) << "memory repeats itself";
}

TEST_P(TrialFloats, HaveTheKindThatIsAskedFor) {
  std::map<std::string, int> seen;
  for (const double x : numbers(filled(trial_numbers(GetParam(), 7, TrialNumbers::kModerate, {})))) {
    EXPECT_TRUE(std::abs(x) >= 0.125 && std::abs(x) < 4) << x;
    ++seen[x < 0 ? "negative" : "positive"];
  }
  for (const double x : numbers(filled(trial_numbers(GetParam(), 7, TrialNumbers::kPositive, {}))))
    EXPECT_TRUE(x >= 0.125 && x < 4) << x;
  for (const double x : numbers(filled(trial_numbers(GetParam(), 7, TrialNumbers::kSpecial, {})))) {
    if (std::isnan(x)) ++seen["nan"];
    if (std::isinf(x)) ++seen["infinite"];
    if (x == 0) ++seen["zero"];
  }
  for (const char* const kind : {"negative", "positive", "nan", "infinite", "zero"}) EXPECT_GT(seen[kind], 4) << kind;
}

TEST_P(TrialFloats, OneOfSixteenIsAConstantOfTheKernelAndEachComesAsOften) {
  const std::vector<double> constants = {100, 200, 300, 400, 500};  // no number is by itself
  std::vector<std::uint64_t> bits;
  for (const double constant : constants) bits.push_back(bits_of(constant));
  std::map<double, std::size_t> seen;
  std::set<std::size_t> places;
  const std::vector<double> made = numbers(filled(trial_numbers(GetParam(), 3, TrialNumbers::kModerate, {}, bits)));
  for (std::size_t i = 0; i < made.size(); ++i) {
    if (made[i] < 50) continue;
    ++seen[std::round(made[i] / 100) * 100];
    places.insert(i % 16);
  }
  const std::size_t expected = made.size() / 16 / constants.size();
  for (const double constant : constants) {
    EXPECT_GT(seen[constant], expected / 2) << constant;
    EXPECT_LT(seen[constant], 2 * expected) << constant;
  }
  EXPECT_EQ(places.size(), 16u);
}

INSTANTIATE_TEST_SUITE_P(Types, TrialFloats, testing::Values(DType::kF16, DType::kBF16, DType::kF32, DType::kF64),
                         [](const auto& info) { return std::string(name(info.param)); });

}  // namespace
}  // namespace crucible::kernel
