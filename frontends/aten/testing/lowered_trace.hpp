// For tests: the program of a hand-made trace, its refusal, and its last states.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/graph/reference.hpp"
#include "frontends/aten/lower.hpp"
#include "frontends/aten/testing/trace_builder.hpp"

namespace crucible::aten {

using Floats = std::vector<float>;

inline graph::Program lowered(TraceBuilder& b) {
  auto program = lower(b.trace());
  EXPECT_TRUE(program) << program.error().message;
  return program ? *std::move(program) : graph::Program{};
}

inline std::string refusal(TraceBuilder& b) {
  auto program = lower(b.trace());
  EXPECT_FALSE(program);
  if (program) return "";
  EXPECT_EQ(program.error().code, ErrorCode::kBadInput);
  return program.error().message;
}

/// How the second variant of a recording differs from the first; "" where there are not two.
inline std::string difference(TraceBuilder& b) {
  const auto variants = lower_variants(b.trace());
  EXPECT_TRUE(variants) << variants.error().message;
  if (!variants) return "";
  EXPECT_EQ(variants->programs.size(), 2u);
  return variants->programs.size() == 2 ? variants->differences[1] : "";
}

/// The last state after replaying all iterations.
inline Floats final_state(TraceBuilder& b, const graph::Program& program, std::size_t index = 0) {
  auto replay = graph::replay_reference(program, *b.trace().blob_store, program.iterations);
  EXPECT_TRUE(replay) << replay.error().message;
  return replay && index < replay->states.size() ? floats(replay->states[index]) : Floats{};
}

}  // namespace crucible::aten
