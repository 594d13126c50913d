// A replay inside a program of one's own: what `crucible replay FILE --backend auto --iterations 3` does, from C++. It
// opens the recording that is its argument on the device that the command would choose, replays three iterations and
// prints what they computed.
//
// It links crucible::replay alone. docs/embedding.md explains each call.
#include <cstdio>
#include <string>

#include "frontends/replay/replay.hpp"

namespace replay = crucible::replay;

namespace {

int fail(const crucible::Error& error) {
  std::fprintf(stderr, "embed_replay: %s\n", error.message.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return fail({crucible::ErrorCode::kUsage, "give one recording, or a capsule"});
  replay::Observer observer;  // the library itself prints nothing
  observer.notice = [](const replay::Notice& notice) {
    std::fprintf(stderr, "embed_replay: %s\n", notice.text.c_str());
  };
  replay::Replay run({.file = argv[1], .device = {.backend = "auto"}}, observer);

  if (const crucible::Result<void> opened = run.open(); !opened) return fail(opened.error());
  for (const replay::Candidate& candidate : run.opened().candidates) {
    std::printf("%s %s: %s\n", candidate.chosen ? "chosen" : "passed over",
                (candidate.device.empty() ? candidate.plugin : candidate.device).c_str(), candidate.reason.c_str());
  }
  if (const crucible::Result<void> ran = run.run(3); !ran) return fail(ran.error());
  for (std::size_t i = 0; i < run.results().size(); ++i) {
    const crucible::runtime::IterationResult& result = run.results()[i];
    if (!result.losses.empty())
      std::printf("iteration %zu: loss %.17g, recorded %.17g\n", i, result.losses[0], result.recorded_losses[0]);
  }
  const crucible::Result<replay::ReplayReport> report = run.report();
  if (!report) return fail(report.error());
  std::printf("%.0f ns per iteration on %s\n", report->time_ns(), report->device->info().id.c_str());
  return 0;
}
