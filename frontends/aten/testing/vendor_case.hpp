// Test support: one op in a trace written by hand, for ops that only a device's build of the framework runs. They are
// compared with the flavour that tests/aten compares with the framework.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/graph/composite.hpp"
#include "frontends/aten/testing/trace_builder.hpp"

namespace crucible::aten {

using B = TraceBuilder;
using Ids = std::vector<trace::TensorId>;
using Args = std::vector<trace::Arg>;
using Shape = std::vector<std::int64_t>;

/// One op on inputs of these sizes. Each result is copied into a state, so that it counts.
struct Case {
  std::string schema;
  std::vector<Shape> inputs;
  std::function<Args(const Ids&)> arguments;
  std::vector<Shape> results;
  std::vector<Shape> ignored = {};       // i64 results behind them that nobody reads
  std::vector<std::size_t> states = {};  // inputs that the op writes
  bool integers = false;                 // inputs and results are i32, their content the bits of the floats
};

Case with_schema(Case test, std::string schema, std::function<Args(const Ids&)> arguments);

/// What element k of input i is.
float content_of(std::size_t i, std::size_t k);

/// The program of it; an empty one where the test has failed.
graph::Program lowered(const Case& test, const graph::KeepsComposite& keeps = nullptr);

/// The text of the program without what names its source.
std::string program_of(const Case& test);

/// Why the lowering refuses; fails the test when it does not.
std::string refusal_of(const Case& test);

/// All states at the end by name: "result 0", and "input 3" where the op writes that.
std::map<std::string, std::vector<float>> numbers_of(const Case& test, const graph::KeepsComposite& keeps = nullptr);

/// Within 2e-6 of the larger of 1 and the wanted number.
void expect_near(const std::vector<float>& a, const std::vector<float>& wanted);

inline trace::Arg t(trace::TensorId id) { return B::tensor(id); }
inline trace::Arg list(const Shape& values) { return B::integers(values); }

}  // namespace crucible::aten
