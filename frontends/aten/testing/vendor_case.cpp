// One op in a trace written by hand: see vendor_case.hpp.
#include "frontends/aten/testing/vendor_case.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/graph/program.hpp"
#include "frontends/aten/lower.hpp"

namespace crucible::aten {
namespace {

void build(const Case& test, TraceBuilder& b) {
  Ids inputs;
  for (std::size_t i = 0; i < test.inputs.size(); ++i) {
    inputs.push_back(b.fresh(test.inputs[i], test.integers ? DType::kI32 : DType::kF32));
    std::vector<float> content(static_cast<std::size_t>(graph::View::contiguous(test.inputs[i]).elements()));
    for (std::size_t k = 0; k < content.size(); ++k) {
      content[k] = content_of(i, k);
    }
    const bool state = std::ranges::count(test.states, i) > 0;
    b.external(b.storage_of(inputs.back()), content, state ? trace::Role::kBuffer : trace::Role::kInput,
               "input " + std::to_string(i));
  }
  Args outputs;
  Ids results;
  for (const Shape& sizes : test.results) {
    results.push_back(b.fresh(sizes, test.integers ? DType::kI32 : DType::kF32));
    outputs.push_back(B::tensor(results.back()));
  }
  for (const Shape& sizes : test.ignored) outputs.push_back(B::tensor(b.fresh(sizes, DType::kI64)));
  b.op(test.schema, test.arguments(inputs), outputs);
  for (std::size_t k = 0; k < results.size(); ++k) {
    const auto state = b.fresh(test.results[k]);
    const auto size = static_cast<std::size_t>(graph::View::contiguous(test.results[k]).elements());
    b.external(b.storage_of(state), std::vector<float>(size, 77), trace::Role::kBuffer, "result " + std::to_string(k));
    b.final_state(b.storage_of(state), std::vector<float>(size, 0), "result " + std::to_string(k));
    b.op(kCopyInPlace, {B::tensor(state), B::tensor(results[k]), B::boolean(false)}, {B::tensor(state)});
  }
  b.end_iteration();
}

}  // namespace

float content_of(std::size_t i, std::size_t k) {
  return std::sin(static_cast<float>(k * (2 * i + 3) + i)) + (i > 2 ? 1.5f : 0.25f);
}

Case with_schema(Case test, std::string schema, std::function<Args(const Ids&)> arguments) {
  test.schema = std::move(schema);
  test.arguments = std::move(arguments);
  return test;
}

graph::Program lowered(const Case& test, const graph::KeepsComposite& keeps) {
  TraceBuilder b;
  build(test, b);
  auto program = lower(b.trace(), Opaques::kRefuse, keeps);
  EXPECT_TRUE(program) << test.schema << ": " << program.error().message;
  return program ? *std::move(program) : graph::Program{};
}

std::string program_of(const Case& test) {
  graph::Program program = lowered(test);
  program.sources.clear();  // which name the vendors' ops
  for (graph::Op& op : program.ops) op.source = graph::kNone;
  return graph::to_text(program);
}

std::string refusal_of(const Case& test) {
  TraceBuilder b;
  build(test, b);
  const auto program = lower(b.trace());
  EXPECT_FALSE(program) << test.schema;
  return program ? "" : program.error().message;
}

std::map<std::string, std::vector<float>> numbers_of(const Case& test, const graph::KeepsComposite& keeps) {
  TraceBuilder b;
  build(test, b);
  const auto program = lower(b.trace(), Opaques::kRefuse, keeps);
  EXPECT_TRUE(program) << test.schema << ": " << program.error().message;
  if (!program) return {};
  const auto replay = graph::replay_reference(*program, *b.trace().blob_store, 1);
  EXPECT_TRUE(replay) << replay.error().message;
  std::map<std::string, std::vector<float>> result;
  for (std::size_t s = 0; replay && s < program->states.size(); ++s) {
    result[program->values[program->states[s].start].name] = floats(replay->states[s]);
  }
  return result;
}

void expect_near(const std::vector<float>& a, const std::vector<float>& wanted) {
  ASSERT_EQ(a.size(), wanted.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_NEAR(a[i], wanted[i], 2e-6f * std::max(1.0f, std::fabs(wanted[i]))) << i;
}

}  // namespace crucible::aten
