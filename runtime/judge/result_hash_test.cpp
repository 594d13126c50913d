// The hash of a replay's results: other bits of anything in any iteration give another one, and nothing gives none.
#include "runtime/judge/result_hash.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <set>

#include "runtime/testing/test_programs.hpp"

namespace crucible::runtime {
namespace {

using graph::OpKind;
using ::testing::HasSubstr;

constexpr std::uint32_t kIterations = 3;

Result<std::optional<std::string>> hash_of(const Recording& recording) {
  CRUCIBLE_TRY(const auto session,
               Session::create_reference(std::make_shared<const graph::Program>(recording.program), recording.blobs));
  std::vector<IterationResult> results;
  for (std::uint32_t i = 0; i < recording.program.iterations; ++i) {
    CRUCIBLE_TRY(IterationResult result, session->run(i));
    CRUCIBLE_TRY(result.outputs, session->compare_outputs());
    results.push_back(std::move(result));
  }
  return result_sha256(*session, recording.program, results);
}

/// Inference without states: two tensors of each iteration are given back, one of them through a transposed view.
graph::Program inference() {
  ProgramBuilder b;
  const graph::ValueId x = b.input("x", {2, 3}), y = b.input("y", {4});
  b.output("first", b.transposed(b.op(OpKind::kNegate, {b.whole(x)}, {2, 3})));
  b.output("second", b.whole(b.op(OpKind::kNegate, {b.whole(y)}, {4})));
  return std::move(b.program);
}

/// The recording with element `element` of an input one unit in the last place further in one iteration.
Recording nudged(Recording recording, std::size_t input, std::uint32_t iteration, std::size_t element) {
  std::uint32_t& blob = recording.program.inputs[input].blobs[iteration];
  std::vector<std::byte> bytes = *recording.blobs->load(blob);
  auto* const bits = reinterpret_cast<std::uint32_t*>(bytes.data()) + element;
  ++*bits;
  blob = recording.blobs->add(bytes);
  return recording;
}

TEST(ResultHash, CoversEveryElementOfEveryOutputInEveryIteration) {
  const Recording recording = record(inference(), kIterations, 1);
  ASSERT_TRUE(recording.program.states.empty());
  std::set<std::string> hashes;
  const auto plain = hash_of(recording);
  ASSERT_TRUE(plain) << plain.error().message;
  ASSERT_TRUE(plain->has_value());
  EXPECT_EQ((*plain)->size(), 64u);
  EXPECT_EQ(**hash_of(recording), **plain);
  hashes.insert(**plain);
  for (std::uint32_t iteration = 0; iteration < kIterations; ++iteration) {
    for (std::size_t element = 0; element < 6; ++element)
      hashes.insert(**hash_of(nudged(recording, 0, iteration, element)));
    for (std::size_t element = 0; element < 4; ++element)
      hashes.insert(**hash_of(nudged(recording, 1, iteration, element)));
  }
  EXPECT_EQ(hashes.size(), 1 + kIterations * 10u);
}

/// Two results that change places are other results: names belong to what is hashed.
TEST(ResultHash, KnowsWhoseBytesTheyAre) {
  const Recording recording = record(inference(), kIterations, 1);
  Recording renamed = recording;
  std::swap(renamed.program.outputs[0].name, renamed.program.outputs[1].name);
  EXPECT_NE(**hash_of(recording), **hash_of(renamed));
}

/// Devices make NaN of either sign and any payload; infinities and zeros have their signs.
TEST(ResultHash, OneNanIsLikeAnother) {
  const auto hash = [](DType dtype, auto word) {
    return hash_of_elements(dtype, std::as_bytes(std::span(&word, 1))).hex();
  };
  EXPECT_EQ(hash(DType::kF32, 0x7fc00000u), hash(DType::kF32, 0xffc00000u));
  EXPECT_EQ(hash(DType::kF32, 0x7fc00000u), hash(DType::kF32, 0x7f800001u));
  EXPECT_EQ(hash(DType::kF16, std::uint16_t{0x7e00}), hash(DType::kF16, std::uint16_t{0xfe01}));
  EXPECT_EQ(hash(DType::kBF16, std::uint16_t{0x7fc0}), hash(DType::kBF16, std::uint16_t{0xffff}));
  EXPECT_EQ(hash(DType::kF64, std::uint64_t{0x7ff8000000000000}), hash(DType::kF64, std::uint64_t{0xfff8000000000000}));
  EXPECT_NE(hash(DType::kF32, 0x7f800000u), hash(DType::kF32, 0xff800000u));
  EXPECT_NE(hash(DType::kF32, 0x00000000u), hash(DType::kF32, 0x80000000u));
  EXPECT_NE(hash(DType::kI32, 0x7fc00000u), hash(DType::kI32, 0xffc00000u));
}

TEST(ResultHash, CoversLossesAndStates) {
  const Recording recording = record(training_step(), kIterations, 1);
  const auto plain = hash_of(recording);
  ASSERT_TRUE(plain) << plain.error().message;
  EXPECT_EQ(**hash_of(recording), **plain);
  Recording without = recording;
  without.program.outputs.clear();
  const auto states_alone = hash_of(without);
  ASSERT_TRUE(states_alone && states_alone->has_value());
  EXPECT_NE(**states_alone, **plain);
  Recording shorter = without;
  shorter.program.iterations = kIterations - 1;
  EXPECT_NE(**hash_of(shorter), **states_alone);

  const auto session =
      *Session::create_reference(std::make_shared<const graph::Program>(recording.program), recording.blobs);
  const auto with_loss = [&](double loss) {
    std::vector<double> losses(recording.program.outputs.size(), loss);
    return **result_sha256(*session, recording.program, {{.losses = losses, .recorded_losses = {}}});
  };
  EXPECT_NE(with_loss(1.0), with_loss(std::nextafter(1.0, 2.0)));
}

TEST(ResultHash, OfNothingThereIsNone) {
  Recording recording = record(inference(), kIterations, 1);
  recording.program.outputs.clear();
  const auto none = hash_of(recording);
  ASSERT_TRUE(none) << none.error().message;
  EXPECT_FALSE(none->has_value());
}

TEST(ResultHash, IsRefusedWhereOutputsWereNotCompared) {
  const Recording recording = record(inference(), kIterations, 1);
  const auto session =
      *Session::create_reference(std::make_shared<const graph::Program>(recording.program), recording.blobs);
  const auto result = session->run(0);
  ASSERT_TRUE(result);
  const auto hash = result_sha256(*session, recording.program, {*result});
  ASSERT_FALSE(hash);
  EXPECT_THAT(hash.error().message, HasSubstr("covers 2 outputs of iteration 0, 0 were compared"));
}

}  // namespace
}  // namespace crucible::runtime
