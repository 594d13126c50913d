// Bias corrections of step counters, beyond the recorded iterations; testing/passes/counters.program has the rest.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "core/graph/passes.hpp"
#include "core/graph/reference.hpp"

namespace crucible::graph {
namespace {

/// Blob k is the k-th list of bytes.
struct Blobs : trace::BlobStore {
  std::vector<Bytes> bytes;
  Result<std::vector<std::byte>> load(trace::BlobId id) const override { return bytes.at(id); }
  void add(float number) {
    bytes.emplace_back(sizeof(number));
    std::memcpy(bytes.back().data(), &number, sizeof(number));
  }
};

Operand number(double real) { return {kNone, {}, {kNone, false, real, 0}}; }
Operand slot(SlotId id) { return {kNone, {}, {id, false, 0, 0}}; }
Operand one(ValueId value) { return {value, View::contiguous({}), {}}; }

constexpr double kRate = 3e-4, kFirst = 0.9, kSecond = 0.999;

/// Two weights with a counter each: w += slot 0 * (w * 0.1) / slot 1, where slot 0 is -rate / (1 - 0.9^t) and slot 1
/// the root of 1 - 0.999^t; 0.999 is a number of the program beside the 0.1.
struct Training {
  Program program;
  Blobs blobs;
  Training() {
    program.iterations = 4;
    for (const float x : {0.0F, 0.0F, 1.5F, -2.5F}) blobs.add(x);
    const auto state = [&](const char* name) {
      program.values.push_back({ValueKind::kState, DType::kF32, 1, name, kNone});
      return static_cast<ValueId>(program.values.size() - 1);
    };
    const auto op = [&](OpKind kind, Operand a, Operand b) {
      const auto result = static_cast<ValueId>(program.values.size());
      program.values.push_back({ValueKind::kTemporary, DType::kF32, 1, "", static_cast<OpId>(program.ops.size())});
      program.ops.push_back({kind, {a, b}, {one(result)}, {}, kNone});
      return result;
    };
    program.slots = {{"step size", {}}, {"root", {}}};
    for (int i = 1; i <= 4; ++i) {
      program.slots[0].values.push_back(-(kRate / (1 - std::pow(kFirst, i))));
      program.slots[1].values.push_back(std::pow(1 - std::pow(kSecond, i), 0.5));
    }
    for (std::uint32_t k = 0; k < 2; ++k) {
      const ValueId count = state("step"), weight = state("w");
      const ValueId counted = op(OpKind::kAdd, one(count), number(1));
      const ValueId moment = op(OpKind::kMultiply, one(weight), number(1 - kFirst));
      const ValueId square = op(OpKind::kMultiply, one(moment), number(kSecond));
      const ValueId divisor = op(OpKind::kDivide, one(square), slot(1));
      const ValueId scaled = op(OpKind::kMultiply, one(divisor), slot(0));
      const ValueId end = op(OpKind::kAdd, one(weight), one(scaled));
      program.states.push_back({count, counted, k, kNone});
      program.states.push_back({weight, end, 2 + k, kNone});
    }
  }

  std::vector<Bytes> states_after(std::uint32_t iterations) const {
    auto replay = replay_reference(program, blobs, iterations);
    EXPECT_TRUE(replay) << replay.error().message;
    return replay->states;
  }
  void run() {
    const PassContext context{&blobs};
    auto done = run_passes(program, context);
    ASSERT_TRUE(done) << done.error().message;
  }
};

TEST(Counters, CorrectionsGoOnAfterTheRecordedIterations) {
  Training recorded, longer;
  recorded.run();
  ASSERT_TRUE(recorded.program.slots.empty());
  recorded.program.iterations = 9;
  longer.program.iterations = 9;
  for (int i = 5; i <= 9; ++i) {
    longer.program.slots[0].values.push_back(-(kRate / (1 - std::pow(kFirst, i))));
    longer.program.slots[1].values.push_back(std::pow(1 - std::pow(kSecond, i), 0.5));
  }
  EXPECT_EQ(recorded.states_after(9), longer.states_after(9));
}

}  // namespace
}  // namespace crucible::graph
