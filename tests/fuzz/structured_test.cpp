// Programs as a stranger may write them, by seed: valid ones whose fields were changed. Each is refused as a bad input,
// or runs in every executor with the same results. CRUCIBLE_STRUCTURED says how many are interpreted (1900 where it is
// not set), CRUCIBLE_STRUCTURED_COMPILED how many are compiled too (100), CRUCIBLE_STRUCTURED_FIRST the first seed,
// CRUCIBLE_STRUCTURED_KEEP a folder for what is found: its bytes for the tests, and its program as text.
#include <gtest/gtest.h>
#include <sys/time.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <span>

#include "core/graph/print.hpp"
#include "core/trace/trace_samples.hpp"
#include "plugins/loader/testing/kept.hpp"
#include "tests/fuzz/judge.hpp"

namespace crucible::fuzz {
namespace {

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

char running[64] = "no seed";

/// A crash or a hang says at least which seed it was.
void name_seed(int signal) {
  const ssize_t written = write(STDERR_FILENO, running, sizeof running);
  std::signal(signal, SIG_DFL);
  if (written >= 0) raise(signal);
}

class SeedWatch {
 public:
  SeedWatch() {
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGVTALRM}) std::signal(signal, name_seed);
  }
  ~SeedWatch() {
    set_limit(0);
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGVTALRM}) std::signal(signal, SIG_DFL);
  }
  void begin(std::uint64_t seed) {
    std::snprintf(running, sizeof running, "while seed %llu ran\n", static_cast<unsigned long long>(seed));
    set_limit(120);
  }

 private:
  static void set_limit(long seconds) {
    const itimerval limit = {{0, 0}, {seconds, 0}};
    setitimer(ITIMER_VIRTUAL, &limit, nullptr);
  }
};

std::shared_ptr<backend::Device> open_device(const std::filesystem::path& cache) {
  const auto path = backend::find_backend("cpu");
  if (!path) return nullptr;
  const auto plugin = backend::Backend::load(*path, {{"sanitize", "true"}, {"threads", "2"}, {"library", "none"}},
                                             backend::keep_in(cache));
  if (!plugin) return nullptr;
  const auto device = (*plugin)->open("");
  return device ? *device : nullptr;
}

bool has_clang() { return access("/usr/bin/clang-19", X_OK) == 0 || std::getenv("CRUCIBLE_CLANG") != nullptr; }

struct Count {
  std::size_t cases = 0, valid = 0, run = 0, compiled = 0, findings = 0;
};

/// Where it was asked for, a finding stays as a file.
void keep(const Recorded& recorded, std::uint64_t seed) {
  const char* const folder = std::getenv("CRUCIBLE_STRUCTURED_KEEP");
  if (folder == nullptr) return;
  const std::filesystem::path file = std::filesystem::path(folder) / ("seed_" + std::to_string(seed));
  trace::samples::write_bytes(file, to_bytes(recorded));
  const std::string text = graph::to_text(recorded.program);
  trace::samples::write_bytes(file.string() + ".txt", std::as_bytes(std::span(text)));
}

void add(Count& count, const Case& made, const Judgement& judgement, std::uint64_t seed) {
  ++count.cases;
  count.valid += judgement.is_valid;
  count.run += judgement.is_run;
  count.compiled += judgement.is_compiled;
  const std::string finding = made.finding.empty() ? judgement.finding : made.finding;
  if (finding.empty()) return;
  keep(made.recorded, seed);
  if (++count.findings <= 200) ADD_FAILURE() << "seed " << seed << " (" << made.what << "): " << finding;
}

void report(const Count& count) {
  std::printf("%zu programs: %zu valid, %zu run, %zu compiled, %zu findings\n", count.cases, count.valid, count.run,
              count.compiled, count.findings);
}

TEST(Structured, InterpretedProgramsAreRefusedOrRun) {
  const std::uint64_t first = setting("CRUCIBLE_STRUCTURED_FIRST", 0), count = setting("CRUCIBLE_STRUCTURED", 1900);
  Count done;
  SeedWatch watch;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    watch.begin(seed);
    const Case made = make_case(Draw(seed));
    add(done, made, judge(made.recorded), seed);
  }
  report(done);
  if (count >= 1000) {
    EXPECT_GT(done.run, done.cases / 5);
  }
}

TEST(Structured, CompiledProgramsEndAsInterpretedOnes) {
  if (!has_clang()) GTEST_SKIP() << "no clang on this machine";
  const trace::samples::Folder folder;
  const auto device = open_device(folder / "cache");
  ASSERT_NE(device, nullptr);
  const std::uint64_t first = setting("CRUCIBLE_STRUCTURED_FIRST", 0) + (std::uint64_t{1} << 40),
                      count = setting("CRUCIBLE_STRUCTURED_COMPILED", 100);
  constexpr std::uint64_t kTogether = 25;
  Count done;
  SeedWatch watch;
  for (std::uint64_t seed = first; seed < first + count;) {
    std::vector<std::uint64_t> seeds;
    std::vector<Case> cases;
    std::vector<Recorded> programs;
    for (; seed < first + count && cases.size() < kTogether; ++seed) {
      watch.begin(seed);
      seeds.push_back(seed);
      cases.push_back(make_case(Draw(seed)));
      programs.push_back(cases.back().recorded);
    }
    compile_ahead(programs, device);
    for (std::size_t i = 0; i < cases.size(); ++i) {
      watch.begin(seeds[i]);
      add(done, cases[i], judge(cases[i].recorded, device), seeds[i]);
    }
  }
  report(done);
}

TEST(Structured, WhatWasFoundStaysMended) {
  const trace::samples::Folder folder;
  const auto device = has_clang() ? open_device(folder / "cache") : nullptr;
  std::vector<Recorded> programs;
  std::vector<std::string> names;
  for (const auto& file :
       std::filesystem::directory_iterator(std::filesystem::path(CRUCIBLE_FUZZ_CORPUS) / "structured")) {
    const auto recorded = from_bytes(trace::samples::read_bytes(file.path()));
    if (!recorded) continue;  // is refused by now
    programs.push_back(*recorded);
    names.push_back(file.path().filename());
  }
  if (device) compile_ahead(programs, device);
  SeedWatch watch;
  for (std::size_t i = 0; i < programs.size(); ++i) EXPECT_EQ(judge(programs[i], device).finding, "") << names[i];
}

}  // namespace
}  // namespace crucible::fuzz
