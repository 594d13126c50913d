// Recordings of random index programs (programs.py) in every way to schedule and arrange them, against what eager gave:
//
//     replay_index FOLDER FIRST COUNT [--keep-going]
//
// Each FOLDER/SEED.crtrace is lowered, scheduled fused and unfused, fast and strict, arranged for every objective and,
// with a link to a host, with waiting there; the verifier of programs and the checkers of schedules and placements
// judge what comes out, and the interpreter of the kernel IR runs it, iteration by iteration, against the recorded
// losses and states. One line per failure; exit code 1 if there is one.
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "core/graph/reference.hpp"
#include "core/kernel/run_schedule.hpp"
#include "core/kernel/schedule_check.hpp"
#include "runtime/plan/arrange.hpp"
#include "core/trace/trace_file.hpp"
#include "frontends/aten/lower.hpp"

namespace crucible::index_programs {
namespace {

using graph::Bytes;
using graph::Program;

struct Way {
  bool fuse = true;
  kernel::Numerics numerics = kernel::Numerics::kFast;
  runtime::Objective objective = runtime::Objective::kBalanced;
  double host_bytes_per_ns = 0;
  std::string text() const {
    constexpr const char* kObjectives[] = {"least-memory", "balanced", "fastest"};
    return fmt::format("{}{}, {}{}", fuse ? "fused" : "unfused",
                       numerics == kernel::Numerics::kStrict ? ", strict" : "",
                       kObjectives[static_cast<int>(objective)], host_bytes_per_ns > 0 ? ", with a host" : "");
  }
};

std::vector<Way> ways() {
  std::vector<Way> all;
  for (const bool fuse : {true, false}) {
    for (const kernel::Numerics numerics : {kernel::Numerics::kFast, kernel::Numerics::kStrict}) {
      for (const runtime::Objective objective :
           {runtime::Objective::kFastest, runtime::Objective::kBalanced, runtime::Objective::kLeastMemory})
        all.push_back({fuse, numerics, objective});
    }
    all.push_back({fuse, kernel::Numerics::kFast, runtime::Objective::kLeastMemory, 20});
  }
  return all;
}

/// What a run of all iterations gives: the numbers among the outputs, and the ends of the states.
struct Outcome {
  std::vector<double> losses;
  std::vector<Bytes> states;
};

Result<Bytes> load(const Program& program, const trace::BlobStore& blobs, graph::ValueId value, std::uint32_t blob) {
  if (blob != graph::kNone) return blobs.load(blob);
  return Bytes(static_cast<std::size_t>(program.values[value].elements) * size_bytes(program.values[value].dtype),
               std::byte{0});
}

using RunIteration = std::function<Result<std::vector<Bytes>>(std::vector<Bytes>, const std::vector<graph::Number>&)>;

Result<Outcome> run(const Program& program, const trace::BlobStore& blobs, const RunIteration& iteration) {
  Outcome outcome;
  for (const graph::State& state : program.states) {
    CRUCIBLE_TRY(auto bytes, load(program, blobs, state.start, state.initial_blob));
    outcome.states.push_back(std::move(bytes));
  }
  for (std::uint32_t i = 0; i < program.iterations; ++i) {
    std::vector<Bytes> values(program.values.size());
    for (std::size_t s = 0; s < program.states.size(); ++s) values[program.states[s].start] = outcome.states[s];
    for (const graph::Input& input : program.inputs) {
      CRUCIBLE_TRY(values[input.value], load(program, blobs, input.value, input.blobs[i]));
    }
    for (const graph::Constant& constant : program.constants) {
      CRUCIBLE_TRY(values[constant.value], load(program, blobs, constant.value, constant.blob));
    }
    std::vector<graph::Number> slots;
    for (const graph::Slot& slot : program.slots) slots.push_back(slot.values[i]);
    CRUCIBLE_TRY(values, iteration(std::move(values), slots));
    for (const graph::Output& output : program.outputs) {
      if (output.is_number()) outcome.losses.push_back(graph::read_output(program, output, values));
    }
    for (std::size_t s = 0; s < program.states.size(); ++s) outcome.states[s] = values[program.states[s].end];
  }
  return outcome;
}

double distance(const Program& program, graph::ValueId value, const Bytes& a, const Bytes& b) {
  if (a == b) return 0;
  const DType dtype = program.values[value].dtype;
  const graph::View all = graph::View::contiguous({program.values[value].elements});
  const graph::Numbers x = graph::load(a, dtype, all), y = graph::load(b, dtype, all);
  if (x.real.empty()) return 1;  // whole numbers agree or do not
  double most = 0, largest = 1e-3;
  for (std::size_t i = 0; i < x.real.size(); ++i) {
    if (std::isnan(x.real[i]) != std::isnan(y.real[i])) return 1;
    if (!std::isnan(x.real[i])) most = std::max(most, std::abs(x.real[i] - y.real[i]));
    largest = std::max(largest, std::abs(y.real[i]));
  }
  return most / largest;
}

/// "" or what differs from the recording.
std::string different(const Program& program, const trace::BlobStore& blobs, const Outcome& outcome) {
  constexpr double kTolerance = 2e-4;
  std::size_t at = 0;
  for (std::uint32_t i = 0; i < program.iterations; ++i) {
    for (const graph::Output& output : program.outputs) {
      if (!output.is_number()) continue;
      const double got = outcome.losses[at++], want = output.recorded[i];
      if (!(std::abs(got - want) <= kTolerance * std::max(1.0, std::abs(want))))
        return fmt::format("{} of iteration {} is {}, recorded {}", output.name, i, got, want);
    }
  }
  for (std::size_t s = 0; s < program.states.size(); ++s) {
    const graph::State& state = program.states[s];
    if (state.end == state.start || state.final_blob == graph::kNone) continue;
    const auto recorded = blobs.load(state.final_blob);
    if (!recorded) return recorded.error().message;
    if (const double far = distance(program, state.start, outcome.states[s], *recorded); far > kTolerance)
      return fmt::format("state {} is off by {}", program.values[state.start].name, far);
  }
  return "";
}

std::string failure(const Program& given, const trace::BlobStore& blobs, const Way& way, const Outcome& reference) {
  Result<kernel::Prepared> prepared = kernel::prepare(given, {.fuse = way.fuse, .numerics = way.numerics});
  if (!prepared) return prepared.error().message;
  const auto planned = std::make_shared<const Program>(prepared->program ? *std::move(prepared->program) : given);
  if (auto checked = kernel::check_schedule(*planned, prepared->schedule); !checked) return checked.error().message;
  const runtime::MemoryOptions memory{.objective = way.objective,
                                      .costs = {.host_bytes_per_ns = way.host_bytes_per_ns}};
  const auto arranged = runtime::arrange(
      planned, std::move(prepared->schedule), [](const kernel::Step&) { return std::uint64_t{0}; }, memory);
  if (!arranged) return arranged.error().message;
  const Program& program = *arranged->program;
  if (auto checked = kernel::check_schedule(program, arranged->schedule); !checked) return checked.error().message;
  if (arranged->report.transfers > 0) {  // the interpreter of kernels has none: that of programs judges, bit by bit
    const auto outcome = run(program, blobs, [&](std::vector<Bytes> values, const std::vector<graph::Number>& slots) {
      return graph::run_iteration(program, std::move(values), slots);
    });
    if (!outcome) return outcome.error().message;
    return outcome->states == reference.states ? "" : "other states than without transfers";
  }
  const auto interpreter = kernel::ScheduleInterpreter::create(program, arranged->schedule);
  if (!interpreter) return interpreter.error().message;
  const auto outcome = run(program, blobs, [&](std::vector<Bytes> values, const std::vector<graph::Number>& slots) {
    return interpreter->run(program, arranged->schedule, std::move(values), slots, {.in_place = true}, true);
  });
  return outcome ? different(program, blobs, *outcome) : outcome.error().message;
}

/// The number of failures.
int replay(const std::filesystem::path& path) {
  int failures = 0;
  const auto say = [&](const std::string& text) {
    std::printf("%s: %s\n", path.stem().c_str(), text.c_str());
    ++failures;
  };
  const auto trace = trace::read_file(path);
  if (!trace) return say(trace.error().message), failures;
  const auto program = aten::lower(*trace);
  if (!program) return say("lowering: " + program.error().message), failures;
  const trace::BlobStore& blobs = *trace->blob_store;
  const auto reference = run(*program, blobs, [&](std::vector<Bytes> values, const std::vector<graph::Number>& slots) {
    return graph::run_iteration(*program, std::move(values), slots);
  });
  if (!reference) return say("reference: " + reference.error().message), failures;
  if (const std::string wrong = different(*program, blobs, *reference); !wrong.empty()) say("reference: " + wrong);
  for (const Way& way : ways()) {
    if (const std::string wrong = failure(*program, blobs, way, *reference); !wrong.empty())
      say(way.text() + ": " + wrong);
  }
  return failures;
}

int main_of(const std::vector<std::string>& arguments) {
  if (arguments.size() < 3) return std::fprintf(stderr, "replay_index FOLDER FIRST COUNT\n"), 2;
  const std::uint64_t first = std::stoull(arguments[1]), count = std::stoull(arguments[2]);
  int failures = 0;
  std::uint64_t replayed = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const std::filesystem::path path = std::filesystem::path(arguments[0]) / (std::to_string(seed) + ".crtrace");
    if (!std::filesystem::exists(path)) continue;
    failures += replay(path);
    ++replayed;
  }
  std::printf("%llu programs, %zu ways each, %d failures\n", static_cast<unsigned long long>(replayed), ways().size(),
              failures);
  return failures > 0 ? 1 : 0;
}

}  // namespace
}  // namespace crucible::index_programs

int main(int argc, char** argv) { return crucible::index_programs::main_of({argv + 1, argv + argc}); }
