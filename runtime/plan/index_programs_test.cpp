// Random programs of fills, counted places, marks, lists of what is marked and slices that are written: scheduled fused
// and unfused, fast and strict, arranged for every objective, judged by the verifier of programs and the checkers of
// schedules and placements, and run by the interpreter of the kernel IR against the reference interpreter of programs.
#include <gtest/gtest.h>

#include <cstdlib>

#include "core/graph/passes.hpp"
#include "core/graph/random_program.hpp"
#include "core/graph/reference.hpp"
#include "core/kernel/run_schedule.hpp"
#include "core/kernel/schedule_check.hpp"
#include "core/kernel/testing/test_program.hpp"
#include "runtime/plan/arrange.hpp"

namespace crucible::runtime {
namespace {

/// A way to schedule and arrange.
struct Way {
  bool fuse = true;
  kernel::Numerics numerics = kernel::Numerics::kFast;
  Objective objective = Objective::kBalanced;
  double host_bytes_per_ns = 0;
};

std::vector<Way> ways() {
  std::vector<Way> all;
  for (const bool fuse : {true, false}) {
    for (const kernel::Numerics numerics : {kernel::Numerics::kFast, kernel::Numerics::kStrict}) {
      for (const Objective objective : {Objective::kFastest, Objective::kBalanced, Objective::kLeastMemory})
        all.push_back({fuse, numerics, objective});
    }
    all.push_back({fuse, kernel::Numerics::kFast, Objective::kLeastMemory, 20});
  }
  return all;
}

/// The interpreter of kernels adds a fast sum's terms one by one.
constexpr double kSerialSums = 8;

/// "" or what went wrong. `strict`: the ends of states of the first strict run, which the others repeat to the bit.
std::string failure(const graph::RandomProgram& random, const std::vector<graph::Bytes>& want, const Way& way,
                    std::vector<graph::Bytes>& strict) {
  Result<kernel::Prepared> prepared = kernel::prepare(random.program, {.fuse = way.fuse, .numerics = way.numerics});
  if (!prepared) return prepared.error().message;
  const auto program =
      std::make_shared<const graph::Program>(prepared->program ? *std::move(prepared->program) : random.program);
  if (auto checked = kernel::check_schedule(*program, prepared->schedule); !checked) return checked.error().message;
  const MemoryOptions memory{.objective = way.objective, .costs = {.host_bytes_per_ns = way.host_bytes_per_ns}};
  const Result<Arranged> arranged =
      arrange(program, std::move(prepared->schedule), [](const kernel::Step&) { return std::uint64_t{0}; }, memory);
  if (!arranged) return arranged.error().message;
  if (auto checked = kernel::check_schedule(*arranged->program, arranged->schedule); !checked)
    return checked.error().message;
  std::vector<graph::Bytes> values = random.values;
  values.resize(arranged->program->values.size());
  if (arranged->report.transfers >
      0) {  // the interpreter of kernels has no transfers: that of programs judges what was made of it
    const auto got = graph::run_iteration(*arranged->program, values, random.slots);
    if (!got) return got.error().message;
    for (std::size_t i = 0; i < random.program.states.size(); ++i) {
      if ((*got)[arranged->program->states[i].end] != want[random.program.states[i].end])
        return "another state than without transfers";
    }
    return "";
  }
  const auto interpreter = kernel::ScheduleInterpreter::create(*arranged->program, arranged->schedule);
  if (!interpreter) return interpreter.error().message;
  const auto got =
      interpreter->run(*arranged->program, arranged->schedule, values, random.slots, {.in_place = true}, true);
  if (!got) return got.error().message;
  const auto compare = [&](graph::ValueId now, graph::ValueId then) {
    return kernel::difference(random.program, then, (*got)[now], want[then], kSerialSums,
                              kernel::size_of_terms(random.program, then, want));
  };
  for (std::size_t i = 0; i < random.program.states.size(); ++i) {
    if (std::string different = compare(arranged->program->states[i].end, random.program.states[i].end);
        !different.empty())
      return "state: " + different;
  }
  if (way.numerics == kernel::Numerics::kStrict) {
    std::vector<graph::Bytes> ends;
    for (const graph::State& state : arranged->program->states) ends.push_back((*got)[state.end]);
    if (strict.empty()) strict = ends;
    if (ends != strict) return "other bits than the first strict run";
  }
  for (std::size_t i = 0; i < random.program.outputs.size(); ++i) {
    if (std::string different =
            compare(arranged->program->outputs[i].operand.value, random.program.outputs[i].operand.value);
        !different.empty())
      return "output: " + different;
  }
  return "";
}

std::uint64_t environment(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

/// The program of a seed, in all ways.
void try_program(std::uint64_t seed) {
  static const std::vector<Way> all = ways();
  graph::RandomProgram random = graph::random_program(
      {.seed = seed, .ops = 8 + static_cast<std::uint32_t>(seed % 40), .largest_side = 5, .generators = true});
  if (seed % 2 == 0) graph::merge_generators(random.program);
  if (seed % 4 == 0) graph::merge_equal(random.program);
  const auto want = graph::run_iteration(random.program, random.values, random.slots);
  ASSERT_TRUE(want) << "seed " << seed << ": " << want.error().message;
  std::vector<graph::Bytes> strict;
  for (std::size_t w = 0; w < all.size(); ++w) {
    const std::string wrong = failure(random, *want, all[w], strict);
    ASSERT_EQ(wrong, "") << "seed " << seed << ", way " << w;
  }
}

/// CRUCIBLE_INDEX_PROGRAMS is how many, CRUCIBLE_INDEX_FIRST the first seed.
TEST(IndexPrograms, AreArrangedForEveryObjectiveAndComputeTheSame) {
  const std::uint64_t first = environment("CRUCIBLE_INDEX_FIRST", 0),
                      count = environment("CRUCIBLE_INDEX_PROGRAMS", 400);
  for (std::uint64_t seed = first; seed < first + count && !HasFatalFailure(); ++seed) try_program(seed);
}

/// Of these the checker of schedules said that a product's only row, read as a vector, is another row.
TEST(IndexPrograms, OneRowMayBeReadAsAVector) {
  for (const std::uint64_t seed : {20445, 21012, 26838}) try_program(seed);
}

}  // namespace
}  // namespace crucible::runtime
