// What is found out once for equal layers, and what is done for each: recordings that differ in their number of layers,
// from the program to its memory plan. A row per recording:
//
//     stamping_bench RECORDING... [--strict] [--json]
//
// The schedule is made three times. Alone; again with all that the first one found out, which leaves the bookkeeping
// (renaming, hashing, the order of units); and with everything found out anew for each layer. Times are the shortest of
// several runs, in milliseconds of this process's processor: run it on an idle machine. `ci/bench stamping` makes the
// recordings and runs it.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/kernel/stamps.hpp"
#include "core/merkle/region.hpp"
#include "core/trace/trace_file.hpp"
#include "frontends/aten/lower.hpp"
#include "runtime/plan/arrange.hpp"

namespace crucible {
namespace {

constexpr int kRuns = 5;

double processor_ms() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
}

/// The shortest of several runs of `work`, which returns a Result; its error otherwise.
template <class Work>
Result<double> shortest_ms(Work work) {
  double shortest = 0;
  for (int run = 0; run < kRuns; ++run) {
    const double start = processor_ms();
    CRUCIBLE_TRY_VOID(work());
    const double taken = processor_ms() - start;
    shortest = run == 0 ? taken : std::min(shortest, taken);
  }
  return shortest;
}

struct Row {
  std::string file;
  std::size_t ops = 0, steps = 0, regions = 0, distinct_regions = 0, kernels = 0;
  std::uint64_t asked = 0, decided = 0, units = 0, written = 0;
  double schedule_ms = 0, bookkeeping_ms = 0, anew_ms = 0, plan_ms = 0;
};

Result<Row> measure(const std::string& file, kernel::Numerics numerics) {
  Row row{.file = file.substr(file.rfind('/') + 1)};
  CRUCIBLE_TRY(const trace::Trace trace, trace::read_file(file));
  CRUCIBLE_TRY(const graph::Variants variants, aten::lower_variants(trace, aten::Opaques::kMissing));
  CRUCIBLE_TRY(const std::shared_ptr<const graph::Program> program, graph::choose_variant(variants, std::nullopt));
  const merkle::RegionTree tree = merkle::regions_of(program, {});
  row.ops = program->ops.size();
  row.regions = tree.regions.size();
  row.distinct_regions = merkle::distinct(tree).size();

  kernel::Options options{.claims = {}, .numerics = numerics, .device = {}};
  const auto prepare = [&](kernel::Stamps& stamps) {
    options.stamps = &stamps;
    return kernel::prepare(*program, options);
  };
  kernel::Stamps known;
  CRUCIBLE_TRY(const kernel::Prepared prepared, prepare(known));
  row.steps = prepared.schedule.steps.size();
  row.kernels = prepared.schedule.kernels.size();
  row.asked = known.groups.counts().asked;
  row.decided = known.groups.counts().decided;
  row.units = known.launches.counts().asked;
  row.written = known.launches.counts().written;
  CRUCIBLE_TRY(row.schedule_ms, shortest_ms([&]() -> Result<void> {
                 kernel::Stamps none;
                 CRUCIBLE_TRY_VOID(prepare(none));
                 return {};
               }));
  CRUCIBLE_TRY(row.bookkeeping_ms, shortest_ms([&]() -> Result<void> {
                 CRUCIBLE_TRY_VOID(prepare(known));
                 return {};
               }));
  CRUCIBLE_TRY(row.anew_ms, shortest_ms([&]() -> Result<void> {
                 kernel::Stamps nothing(false);
                 CRUCIBLE_TRY_VOID(prepare(nothing));
                 return {};
               }));
  const auto planned = prepared.program ? std::make_shared<const graph::Program>(*prepared.program) : program;
  CRUCIBLE_TRY(row.plan_ms, shortest_ms([&]() -> Result<void> {
                 CRUCIBLE_TRY_VOID(runtime::arrange(planned, prepared.schedule,
                                                    [](const kernel::Step&) { return std::uint64_t{0}; }, {}));
                 return {};
               }));
  return row;
}

void print(const Row& row) {
  fmt::print("{:<22} {:>7} {:>6} {:>5}/{:<3} {:>7} {:>8}/{:<5} {:>6}/{:<4} {:>8.1f} {:>8.1f} {:>8.1f} {:>8.1f}\n",
             row.file, row.ops, row.steps, row.regions, row.distinct_regions, row.kernels, row.asked, row.decided,
             row.units, row.written, row.schedule_ms, row.bookkeeping_ms, row.anew_ms, row.plan_ms);
}

nlohmann::ordered_json to_json(const Row& row) {
  return {{"file", row.file},
          {"ops", row.ops},
          {"steps", row.steps},
          {"regions", row.regions},
          {"distinct_regions", row.distinct_regions},
          {"kernels", row.kernels},
          {"asked", row.asked},
          {"decided", row.decided},
          {"units", row.units},
          {"written", row.written},
          {"schedule_ms", row.schedule_ms},
          {"bookkeeping_ms", row.bookkeeping_ms},
          {"anew_ms", row.anew_ms},
          {"plan_ms", row.plan_ms}};
}

int run(const std::vector<std::string>& arguments) {
  kernel::Numerics numerics = kernel::Numerics::kFast;
  bool is_json = false;
  std::vector<std::string> files;
  for (const std::string& argument : arguments) {
    if (argument == "--strict")
      numerics = kernel::Numerics::kStrict;
    else if (argument == "--json")
      is_json = true;
    else
      files.push_back(argument);
  }
  if (files.empty() || files.front() == "--help") {
    fmt::print(
        "usage: stamping_bench RECORDING... [--strict] [--json]\n\nexample: stamping_bench gpt12.crtrace "
        "gpt96.crtrace\n");
    return files.empty() ? 2 : 0;
  }
  if (!is_json) {
    fmt::print("{:<22} {:>7} {:>6} {:>9} {:>7} {:>14} {:>11} {:>8} {:>8} {:>8} {:>8}\n", "recording", "ops", "steps",
               "regions", "kernels", "asked/decided", "units/texts", "schedule", "renamed", "anew", "plan");
  }
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const std::string& file : files) {
    const Result<Row> row = measure(file, numerics);
    if (!row) {
      fmt::print(stderr, "error: {}: {}\n", file, row.error().message);
      return 1;
    }
    if (is_json) {
      rows.push_back(to_json(*row));
    } else {
      print(*row);
    }
    std::fflush(stdout);
  }
  if (is_json) fmt::print("{}\n", rows.dump(2));
  return 0;
}

}  // namespace
}  // namespace crucible

int main(int argc, char** argv) { return crucible::run({argv + 1, argv + argc}); }
