// Differential tests: random programs scheduled with and without fusion, with and without in-place reuse, against the
// reference interpreter.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <deque>

#include "core/graph/random_program.hpp"
#include "core/graph/reference.hpp"
#include "core/kernel/host_executor.hpp"
#include "core/kernel/schedule.hpp"

namespace crucible::kernel {
namespace {

using graph::Bytes;
using graph::ValueId;

/// "" when `got` agrees with `want`, else what differs. The bound is relative to the buffer's largest number.
std::string difference(const graph::Program& program, ValueId v, const Bytes& got, const Bytes& want) {
  const graph::Value& value = program.values[v];
  const auto view = graph::View::contiguous({value.elements});
  const auto a = graph::load(got, value.dtype, view), b = graph::load(want, value.dtype, view);
  double largest = 1e-3;
  for (std::size_t i = 0; i < b.size(); ++i) {
    if (std::isfinite(b.as_real(i))) largest = std::max(largest, std::fabs(b.as_real(i)));
  }
  const double unit = value.dtype == DType::kF64 ? 1e-9 : value.dtype == DType::kF32 ? 2e-4 : value.dtype == DType::kF16 ? 2e-2 : 1e-1;
  const double bound = a.is_integer ? 0 : unit * largest;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double x = a.as_real(i), y = b.as_real(i);
    if (x == y || (std::isnan(x) && std::isnan(y)) || std::fabs(x - y) <= bound) continue;
    return fmt::format("value %{} ({}), element {} of {}: {} instead of {}", v, name(value.dtype), i, a.size(), x, y);
  }
  return "";
}

struct Case {
  graph::RandomProgram random;
  Schedule fused, plain;
};

void compare(const Case& test, const Schedule& schedule, const HostKernels& kernels, const HostOptions& options,
             const std::vector<Bytes>& want, const std::string& what) {
  auto got = run_on_host(test.random.program, schedule, kernels, test.random.values, test.random.slots, options);
  ASSERT_TRUE(got) << got.error().message;
  const auto check = [&](ValueId v) {
    EXPECT_EQ(difference(test.random.program, v, (*got)[v], want[v]), "") << what << "\n" << graph::to_text(test.random.program);
  };
  for (const auto& state : test.random.program.states) check(state.end);
  for (const auto& output : test.random.program.outputs) check(output.operand.value);
  if (options.in_place) return;  // inner values may be overwritten
  for (ValueId v = 0; v < want.size(); ++v) {
    if (schedule.materialized[v]) check(v);
    if (::testing::Test::HasFailure()) return;
  }
}

class RandomPrograms : public ::testing::TestWithParam<int> {};

TEST_P(RandomPrograms, AgreeWithTheInterpreter) {
  if (HostKernels::compiler().empty()) GTEST_SKIP() << "no clang";
  constexpr int kPrograms = 12;
  std::deque<Case> cases;
  std::vector<const Schedule*> schedules;
  for (int i = 0; i < kPrograms; ++i) {
    graph::RandomOptions options;
    options.seed = static_cast<std::uint64_t>(GetParam() * kPrograms + i);
    options.ops = 10 + static_cast<std::uint32_t>(i) * 6;
    Case& test = cases.emplace_back();
    test.random = graph::random_program(options);
    auto fused = schedule(test.random.program, {.claims = {}, .fuse = true});
    auto plain = schedule(test.random.program, {.claims = {}, .fuse = false});
    ASSERT_TRUE(fused) << "seed " << options.seed << ": " << fused.error().message << "\n" << graph::to_text(test.random.program);
    ASSERT_TRUE(plain) << "seed " << options.seed << ": " << plain.error().message << "\n" << graph::to_text(test.random.program);
    test.fused = *std::move(fused);
    test.plain = *std::move(plain);
    schedules.push_back(&test.fused);
    schedules.push_back(&test.plain);
  }
  auto kernels = HostKernels::compile(schedules);
  ASSERT_TRUE(kernels) << kernels.error().message;
  for (int i = 0; i < kPrograms; ++i) {
    const Case& test = cases[static_cast<std::size_t>(i)];
    auto want = graph::run_iteration(test.random.program, test.random.values, test.random.slots);
    ASSERT_TRUE(want) << want.error().message;
    const std::string seed = fmt::format("seed {}", GetParam() * kPrograms + i);
    compare(test, test.plain, *kernels, {}, *want, seed + ", one kernel per op");
    compare(test, test.plain, *kernels, {.in_place = true, .pieces = 2}, *want, seed + ", one kernel per op, in place");
    compare(test, test.fused, *kernels, {}, *want, seed + ", fused");
    compare(test, test.fused, *kernels, {.in_place = true, .pieces = 3}, *want, seed + ", fused, in place");
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomPrograms, ::testing::Range(0, 8));

}  // namespace
}  // namespace crucible::kernel
