// How long each pass from a program to a placement takes at several sizes, in seconds of this process's processor:
//
//     scale_bench [--no-fuse] [--strict] [--objective fastest|balanced|least-memory] [--shape NAME] SIZE...
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "core/graph/passes.hpp"
#include "core/kernel/fuse/recompute_scores.hpp"
#include "core/kernel/fuse/rematerialize.hpp"
#include "core/kernel/schedule_check.hpp"
#include "runtime/plan/arrange.hpp"
#include "tests/scale/shapes.hpp"

namespace crucible::scale {
namespace {

double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

template <class Work>
auto timed(double& seconds, Work work) {
  const double start = processor_seconds();
  auto result = work();
  seconds = processor_seconds() - start;
  return result;
}

template <class Value>
Value checked(Result<Value> result) {
  if (result) return *std::move(result);
  std::printf("  error: %s\n", result.error().message.c_str());
  std::exit(1);
}
void check(const Result<void>& result) {
  if (result) return;
  std::printf("  error: %s\n", result.error().message.c_str());
  std::exit(1);
}

void measure(const Shape& shape, std::size_t size, const kernel::Options& options, runtime::Objective objective) {
  graph::Program program = shape.make(size);
  double verify = 0, passes = 0, units = 0, prepare = 0, check_steps = 0, order = 0, place = 0, arrange = 0;
  const std::size_t ops = program.ops.size();
  check(timed(verify, [&] { return graph::verify(program); }));
  check(timed(passes, [&] { return graph::run_passes(program, {}); }));
  if (options.fuse) (void)timed(units, [&] { return kernel::make_units(program, true, options.numerics); });
  kernel::Prepared prepared = checked(timed(prepare, [&] { return kernel::prepare(program, options); }));
  const auto planned =
      std::make_shared<const graph::Program>(prepared.program ? *std::move(prepared.program) : program);
  check(timed(check_steps, [&] { return kernel::check_schedule(*planned, prepared.schedule); }));
  const std::vector<std::uint64_t> scratch(prepared.schedule.steps.size(), 0);
  (void)timed(order, [&] {
    budget::Line line = budget::make_line(*planned, prepared.schedule, scratch, 256, {});
    return budget::measure(line).peak;
  });
  (void)checked(timed(place, [&] { return runtime::place(*planned, prepared.schedule, scratch); }));
  std::size_t text = 0;
  for (const kernel::Kernel& kernel : prepared.schedule.kernels) text += kernel.ir.size();
  const std::size_t steps = prepared.schedule.steps.size(), kernels = prepared.schedule.kernels.size();
  const runtime::MemoryOptions memory{.objective = objective};
  (void)checked(timed(arrange, [&] {
    return runtime::arrange(
        planned, std::move(prepared.schedule), [](const kernel::Step&) { return std::uint64_t{0}; }, memory);
  }));
  std::printf("%-12s %8zu %8zu %7zu %8.1f | %7.2f %7.2f %7.2f %7.2f %7.2f %7.2f %7.2f %7.2f | %8.2f\n",
              std::string(shape.name).c_str(), ops, steps, kernels, static_cast<double>(text) / 1e6, verify, passes,
              units, prepare, check_steps, order, place, arrange, passes + prepare + check_steps + arrange);
  std::fflush(stdout);
}

int run(const std::vector<std::string>& arguments) {
  kernel::Options options;
  runtime::Objective objective = runtime::Objective::kBalanced;
  std::string only;
  std::vector<std::size_t> sizes;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "--no-fuse") options.fuse = false;
    else if (argument == "--strict") options.numerics = kernel::Numerics::kStrict;
    else if (argument == "--shape" && i + 1 < arguments.size()) only = arguments[++i];
    else if (argument == "--objective" && i + 1 < arguments.size())
      objective = arguments[++i] == "fastest"  ? runtime::Objective::kFastest
                  : arguments[i] == "balanced" ? runtime::Objective::kBalanced
                                               : runtime::Objective::kLeastMemory;
    else sizes.push_back(std::stoul(argument));
  }
  std::printf("%-12s %8s %8s %7s %8s | %7s %7s %7s %7s %7s %7s %7s %7s | %8s\n", "shape", "ops", "steps", "kernels",
              "text_MB", "verify", "passes", "units", "prepare", "check", "line", "place", "arrange", "total_s");
  for (const Shape& shape : shapes()) {
    if (!only.empty() && only != shape.name) continue;
    for (const std::size_t size : sizes) measure(shape, size, options, objective);
  }
  return 0;
}

}  // namespace
}  // namespace crucible::scale

int main(int argc, char** argv) { return crucible::scale::run({argv + 1, argv + argc}); }
