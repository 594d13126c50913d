#include "frontends/runlog/again.hpp"

#include <fmt/format.h>

#include <utility>

#include "core/graph/reference_composite.hpp"
#include "frontends/replay/read_work.hpp"
#include "frontends/runlog/run_recorder.hpp"

namespace crucible::runlog {
namespace {

std::string option(const RunData& run, const char* name) {
  const auto found = run.begin.options.find(name);
  return found == run.begin.options.end() ? "" : found->second;
}

aten::Opaques opaques_of(const RunData& run) {
  return option(run, "opaque") == "all" ? aten::Opaques::kAll : aten::Opaques::kMissing;
}

}  // namespace

Result<std::string> fault_of_recording(const RunData& run, const std::string& file) {
  // The reference interpreter takes composites whole (Replay::check()).
  const bool keeps = run.begin.machine.backend == replay::kReferenceBackend && run.begin.numerics == "fast";
  CRUCIBLE_TRY(const replay::Work work,
               replay::read_work(file, opaques_of(run),
                                 keeps ? graph::KeepsComposite(graph::reference_keeps) : graph::KeepsComposite()));
  const Source source = source_of(file, work.trace);
  if (source.content != run.begin.source.content) {
    return fmt::format("run {} is of another recording: {} ({}), and {} is {}", run.name,
                       run.begin.source.content.hex().substr(0, 12), run.begin.source.file, file,
                       source.content.hex().substr(0, 12));
  }
  const ProgramName program = program_name(work.trace, *work.variants);
  if (program != run.begin.program) {
    return fmt::format("run {} ran the program {}, and this version of crucible makes {} of the same recording",
                       run.name, run.begin.program.hash.hex().substr(0, 12), program.hash.hex().substr(0, 12));
  }
  return std::string();
}

Result<RunData> run_again(const RunData& run, const std::string& file, replay::DeviceChoice choice,
                          const replay::Observer& observer) {
  choice.numerics = run.begin.numerics;
  // The log does not choose: it may be a stranger's, and on which backend a file is run decides about its sandbox.
  const std::string& ran_on = run.begin.machine.backend;
  if (const std::string backend = replay::chosen_backend(replay::read_settings(choice));
      run.begin.numerics != "strict" && backend != ran_on && backend != "auto") {
    return Error{
        ErrorCode::kUsage,
        fmt::format("run {} ran on {} in fast numerics, which no other backend has the bits of, and this would "
                    "run it on {}: add --backend {}",
                    run.name, ran_on, backend, ran_on)};
  }
  replay::Replay replay({.file = file,
                         .device = choice,
                         .opaques = opaques_of(run),
                         .fuse = option(run, "fuse") != "false",
                         .tune = option(run, "tune") == "off" ? "off" : "kept"},
                        observer);
  CRUCIBLE_TRY_VOID(replay.read());
  std::uint64_t iterations = run.begin.iterations;
  if (run.end) iterations = run.end->iterations;
  if (!run.end) iterations = run.iterations.empty() ? 0 : run.iterations.back().index + 1;
  if (iterations == 0 || iterations > replay.iterations()) {
    return Error{ErrorCode::kBadInput,
                 fmt::format("run {} logged {} iterations, and {} has {}: there is nothing to run again", run.name,
                             iterations, file, replay.iterations())};
  }
  RunData again{.name = "again", .begin = {}, .iterations = {}, .end = {}};
  RunRecorder recorder([&again](const Record& record) {
    if (const auto* const begin = std::get_if<RunBegin>(&record.content)) again.begin = *begin;
    if (const auto* const iteration = std::get_if<IterationRecord>(&record.content))
      again.iterations.push_back(*iteration);
    if (const auto* const end = std::get_if<RunEnd>(&record.content)) again.end = *end;
  });
  CRUCIBLE_TRY_VOID(recorder.begin(replay, {.file = file,
                                            .options = run.begin.options,
                                            .iterations = static_cast<std::uint32_t>(iterations),
                                            .every = static_cast<std::uint32_t>(run.begin.every)}));
  CRUCIBLE_TRY(const int signal, recorder.run(replay, [] { return 0; }));
  if (signal == 0) recorder.done(std::nullopt);
  return again;
}

bool is_again(const Comparison& comparison, const RunData& run) {
  const bool ends_alike = !run.end || !run.end->state || comparison.state.has_value();
  return comparison.same_program && comparison.same_start && !comparison.parting && ends_alike;
}

}  // namespace crucible::runlog
