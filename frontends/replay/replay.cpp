// The stages of a replay, one after the other: see replay.hpp.
#include "frontends/replay/replay.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <utility>

#include "core/graph/reference_composite.hpp"
#include "frontends/replay/stripped.hpp"
#include "frontends/replay/unrecorded.hpp"
#include "frontends/replay/workload.hpp"
#include "runtime/judge/result_hash.hpp"

namespace crucible::replay {

namespace {

/// Adds its lifetime to a number of nanoseconds.
class Stopwatch {
 public:
  explicit Stopwatch(std::uint64_t& sum) : sum_(sum) {}
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  ~Stopwatch() {
    sum_ += static_cast<std::uint64_t>(std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin_).count());
  }

 private:
  std::uint64_t& sum_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace

Replay::Replay(ReplayOptions options, Observer observer)
    : options_(std::move(options)), observer_(std::move(observer)) {}

Result<void> Replay::check() {
  const config::Settings settings = load_unchecked_settings(options_.device, observer_);
  CRUCIBLE_TRY_VOID(settings.check());
  // The reference interpreter takes composites whole; kernels are made for what they are made of, and so is what two
  // backends have in common.
  keeps_composites_ = settings.text("backend") == kReferenceBackend &&
                      numerics_of(settings) == kernel::Numerics::kFast && options_.sensitivity.backend.empty();
  return {};
}

Result<void> Replay::read() {
  if (work_) return {};
  if (!keeps_composites_) CRUCIBLE_TRY_VOID(check());  // before a large file is read
  observer_.say("reading " + options_.file);
  const Stopwatch time(start_.read);
  const graph::KeepsComposite keeps = *keeps_composites_ ? graph::KeepsComposite(graph::reference_keeps) : nullptr;
  CRUCIBLE_TRY(work_, read_work(options_.file, options_.opaques, keeps));
  return {};
}

Result<void> Replay::open() {
  if (is_open_) return {};
  CRUCIBLE_TRY_VOID(read());
  const Stopwatch time(start_.open);
  const auto workload = [this] { return workload_of(variants(), options_.fuse); };
  CRUCIBLE_TRY(opened_, open_device(options_.device, observer_, workload, true));
  is_open_ = true;
  return {};
}

Result<void> Replay::start() {
  CRUCIBLE_TRY_VOID(open());
  if (run_) return {};
  const Stopwatch time(start_.prepare);
  run_.emplace(ReplayWork{.variants = work_->variants,
                          .blobs = work_->trace.blob_store,
                          .fuse = options_.fuse,
                          .compare_outputs = options_.verify || options_.hash,
                          .memory = options_.memory,
                          .tune = options_.tune,
                          .busy = options_.busy},
               opened_, options_.device, observer_);
  CRUCIBLE_TRY_VOID(run_->start());
  start_.states = session().states_ns();
  return {};
}

Result<void> Replay::ask(const std::function<Result<void>(runtime::Session&)>& what) { return run_->run().ask(what); }

Result<void> Replay::run(std::uint32_t iterations) {
  CRUCIBLE_TRY_VOID(open());
  if (iterations > this->iterations()) {
    return Error{ErrorCode::kUsage, fmt::format("{} iterations: the recording has {} complete iterations", iterations,
                                                this->iterations())};
  }
  CRUCIBLE_TRY_VOID(start());
  return run_->run().run(iterations == 0 ? this->iterations() : iterations);
}

Result<ReplayReport> Replay::report() {
  if (!run_) CRUCIBLE_TRY_VOID(run());
  runtime::ReroutedRun& run = run_->run();
  std::optional<runtime::Verification> verification;
  std::optional<std::string> result_sha256;
  if (options_.verify) {
    if (run.results().size() != iterations()) {
      return Error{ErrorCode::kUsage,
                   fmt::format("a verification compares the state after the last iteration: {} of {} have run",
                               run.results().size(), iterations())};
    }
    const auto verify = [&](runtime::Session& session) { return session.verify(run.results()); };
    CRUCIBLE_TRY(verification, run.ask(verify));
  }
  if (options_.verify || options_.hash) {
    const auto hash = [&](runtime::Session& session) {
      return runtime::result_sha256(session, *variants().programs[0], run.results());
    };
    CRUCIBLE_TRY(result_sha256, run.ask(hash));
  }
  ReplayReport report{.file = options_.file,
                      .trace = work_->trace,
                      .variants = variants(),
                      .device = opened_.device.get(),
                      .session = run.session(),
                      .opened = opened_,
                      .options = run_->options(),
                      .measured_now = run_->measured_now(),
                      .results = run.results(),
                      .verification = std::move(verification),
                      .result_sha256 = std::move(result_sha256),
                      .losses = run_->losses(),
                      .passed_over = run_->passed_over(),
                      .kept = run.kept(),
                      .keep_every = run_->keep_every(),
                      .start = start_};
  // Of the device that the report is about: what ran on a lost one is no time of this one.
  for (std::size_t i = run.first_here(); i < report.results.size(); ++i)
    report.times_ns.push_back(report.results[i].time_ns);
  if (report.device != nullptr) {
    if (const Result<std::uint64_t> peak = report.device->peak_bytes(); peak) report.peak_bytes = *peak;
  }
  if (report.verification) CRUCIBLE_TRY_VOID(judge(report));
  return report;
}

/// What the verification of the session is worth: what the recording lacks, and what explains the differences.
Result<void> Replay::judge(ReplayReport& report) {
  report.unrecorded = trace::unrecorded_writes(work_->trace);
  judge_unrecorded(*report.verification, work_->trace, report.unrecorded);
  const bool is_stripped = judge_stripped(*report.verification, work_->trace);
  // Where work is missing, or there is nothing to agree with, runs that explain differences would explain nothing.
  if (!report.unrecorded.empty() || is_stripped || options_.sensitivity.is_off()) return {};
  const ReplayWork work{
      .variants = work_->variants, .blobs = work_->trace.blob_store, .fuse = options_.fuse, .tune = options_.tune};
  SpreadRun spread(options_.sensitivity, work, options_.device, observer_);
  const Judged judged{session(), report.results, opened_.device, run_->options()};
  if (const Result<void> considered = spread.consider(judged, *report.verification); !considered) {
    return measuring_error(session(), considered.error());
  }
  return {};
}

Result<void> Replay::repeat(std::uint32_t rounds, ReplayReport& report) {
  if (rounds > 0) report.times_ns.clear();
  const std::size_t iterations = report.results.size();
  for (std::uint32_t round = 0; round < rounds; ++round) {
    CRUCIBLE_TRY_VOID(session().reset());
    for (std::uint32_t iteration = 0; iteration < iterations; ++iteration) {
      observer_.say(fmt::format("replaying iteration {} of {} again", iteration + 1, iterations));
      CRUCIBLE_TRY(const runtime::IterationResult result, session().run(iteration));
      report.times_ns.push_back(result.time_ns);
    }
  }
  return {};
}

}  // namespace crucible::replay
