// Every command of the program, found by its own --help, where its output cannot be written: onto a full device,
// against a file size limit, into a pipe that nobody reads. A new command needs a row in kRows, or the first test says
// so.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "core/trace/content_hash.hpp"
#include "core/trace/stream_writer.hpp"
#include "core/trace/trace_file.hpp"
#include "core/trace/trace_samples.hpp"
#include "frontends/aten/testing/trace_builder.hpp"
#include "frontends/runlog/log.hpp"
#include "store/store.hpp"

namespace crucible {
namespace {

using aten::TraceBuilder;
using ::testing::HasSubstr;

const store::ActionKey kKept = {
    .kind = "kernel", .region = {}, .target = {}, .numerics = {}, .toolchain = {}, .options = {}, .specialisation = {}};

/// Arguments with which a command prints something; {d} is the test's folder, where a.crtrace and the other files are,
/// {k} the key of the entry in its store, {r} the hash of a region of a.crtrace, {c} that of its content, which is also
/// in the store of recordings.
struct Row {
  std::string arguments;
  bool prints = true;  // false: on standard output only with --json
};

const std::map<std::string, Row> kRows = {
    {"record", {"-o {d}/recorded.crtrace -- true", false}},
    {"trace info", {"{d}/a.crtrace"}},
    {"trace ops", {"{d}/a.crtrace"}},
    {"trace check", {"{d}/a.crtrace"}},
    {"trace recover", {"{d}/ended.crtrace -o {d}/recovered.crtrace"}},
    {"trace diff", {"{d}/a.crtrace {d}/a.crtrace"}},
    {"trace trim", {"{d}/a.crtrace --iterations 0 -o {d}/trimmed.crtrace --force"}},
    {"trace optimize", {"{d}/a.crtrace -o {d}/small.crtrace --force"}},
    {"trace strip", {"{d}/a.crtrace {d}/stripped.crtrace --force"}},
    {"trace export", {"{d}/a.crtrace --format jsonl"}},
    {"trace merge", {"{d}/rank0.crtrace {d}/rank1.crtrace -o {d}/both.crtraces --force"}},
    {"replay", {"{d}/a.crtrace"}},
    {"compare", {"{d}/a.crtrace --backends cpu,reference"}},
    {"bench", {"{d}/a.crtrace --backends cpu --rounds 1"}},
    {"plan", {"{d}/a.crtrace"}},
    {"memplan", {"{d}/a.csv"}},
    {"graph", {"{d}/a.crtrace"}},
    {"diff", {"{d}/a.crtrace {d}/a.crtrace"}},
    {"show", {"{r} {d}/a.crtrace"}},
    {"log", {"{d}/runs.crlog"}},
    {"kernels", {"{d}/a.crtrace"}},
    {"store list", {"--store {d}/store"}},
    {"store stats", {"--store {d}/store"}},
    {"store explain", {"{k} --store {d}/store"}},
    {"store add", {"{d}/a.crtrace --store {d}/recordings"}},
    {"store take", {"{c} -o {d}/taken.crtrace --store {d}/recordings"}},
    {"store push", {"--store {d}/empty --remote http://127.0.0.1:1 --trust off"}},
    {"store pull", {"--store {d}/empty --remote http://127.0.0.1:1 --trust off"}},
    {"store verify", {"--store {d}/store"}},
    {"store gc", {"--limit 1GiB --store {d}/store"}},
    {"store export", {"{d}/again.crstore --store {d}/store"}},
    {"store import", {"{d}/kept.crstore --store {d}/store"}},
    {"devices", {""}},
    {"health", {"--backend cpu"}},
    {"doctor", {""}},
    {"plugin explain", {"cpu"}},
    {"plugin check", {"--list " CRUCIBLE_CPU_PLUGIN}},
    {"plugin list", {""}},
    {"plugin options", {"cpu"}},
    {"plugin new", {"acme --folder {d}/acme --force"}},
    {"config", {""}},
    {"config trust", {"--list"}},
};

/// loss = sum(x * w), w += -0.1 x, twice.
trace::Trace recording() {
  TraceBuilder b;
  const trace::TensorId w = b.fresh({4});
  for (int iteration = 0; iteration < 2; ++iteration) {
    const trace::TensorId x = b.fresh({4}), product = b.fresh({4}), sum = b.fresh({});
    b.external(b.storage_of(x), std::vector<float>{1, 2, 3, static_cast<float>(iteration)}, trace::Role::kInput, "x");
    if (iteration == 0)
      b.external(b.storage_of(w), std::vector<float>{1, 0, 1, 0}, trace::Role::kParameter, "layer.weight");
    b.op(aten::kMul, {b.tensor(x), b.tensor(w)}, {b.tensor(product)});
    b.op(aten::kSum, {b.tensor(product), b.none()}, {b.tensor(sum)});
    b.op(aten::kAddInPlace, {b.tensor(w), b.tensor(x), b.number(-0.1)}, {b.tensor(w)}, trace::Phase::kOptimizer);
    b.loss(sum, 4);
    b.end_iteration();
  }
  return b.trace();
}

struct Outcome {
  int code = -1;  // 128 + the signal that ended it
  std::string err;
};

/// Where standard output goes.
enum class Sink { kFull, kLimited, kClosedPipe, kClosedPipeIgnored, kFile };

class EveryCommand : public ::testing::Test {
 protected:
  EveryCommand() {
    const trace::Trace whole = recording();
    write(whole, "a.crtrace");
    trace::Trace rank = whole;
    rank.metadata.world_size = 2;
    for (const std::uint32_t number : {0u, 1u}) {
      rank.metadata.rank = number;
      write(rank, number == 0 ? "rank0.crtrace" : "rank1.crtrace");
    }
    store::StoreOptions options;
    options.folder = folder_ / "store";
    const auto kept = store::Store::open(std::move(options));
    EXPECT_TRUE(kept && (*kept)->put(kKept, {{"a", "bytes"}}, "test"));
    EXPECT_TRUE(kept && (*kept)->export_to(folder_ / "kept.crstore"));
    std::FILE* const log = std::fopen((folder_ / "runs.crlog").c_str(), "w");
    std::fputs(runlog::sealed({{}, runlog::RunBegin{}}, std::nullopt).c_str(), log);
    std::fclose(log);
    const std::string add = std::string(CRUCIBLE_COMMAND) + " store add " + (folder_ / "a.crtrace").string() +
                            " --store " + (folder_ / "recordings").string() + " > /dev/null";
    EXPECT_EQ(std::system(add.c_str()), 0);
    store::StoreOptions empty;
    empty.folder = folder_ / "empty";
    EXPECT_TRUE(store::Store::open(std::move(empty)));
    std::FILE* csv = std::fopen((folder_ / "a.csv").c_str(), "w");
    std::fputs("id,lower,upper,size\na,0,2,16\nb,1,3,16\n", csv);
    std::fclose(csv);
  }

  void write(const trace::Trace& trace, const char* name) {
    const Result<void> written = trace::write_file(trace, folder_ / name);
    ASSERT_TRUE(written) << written.error().message;
  }

  /// What a recording leaves that was ended; `trace recover` takes it away.
  void end_a_recording() {
    auto writer = trace::StreamWriter::create(folder_ / "ended.crtrace", {});
    ASSERT_TRUE(writer) << writer.error().message;
    trace::samples::stream(trace::samples::small_trace(), **writer);
  }

  /// Of the whole iteration: the first word of twelve digits.
  std::string region() {
    EXPECT_EQ(run("graph --regions " + (folder_ / "a.crtrace").string(), Sink::kFile).code, 0);
    std::istringstream words(out());
    for (std::string word; words >> word;) {
      if (word.size() == 12 && word.find_first_not_of("0123456789abcdef") == std::string::npos) return word;
    }
    ADD_FAILURE() << "no hash in " << out();
    return {};
  }

  std::string filled(std::string text) {
    for (std::size_t at; (at = text.find("{d}")) != std::string::npos;) text.replace(at, 3, folder_.path().string());
    if (const std::size_t at = text.find("{c}"); at != std::string::npos)
      text.replace(at, 3, trace::hash_content(recording()).content.hex());
    if (const std::size_t at = text.find("{r}"); at != std::string::npos) text.replace(at, 3, region());
    if (const std::size_t at = text.find("{k}"); at != std::string::npos) text.replace(at, 3, hash_of(kKept).hex());
    return text;
  }

  /// Runs `crucible LINE` with an environment of its own and standard output as told.
  Outcome run(const std::string& line, Sink sink) {
    if (line.starts_with("trace recover") && line.find("--help") == std::string::npos) end_a_recording();
    std::error_code ignored;
    std::filesystem::remove_all(folder_ / "acme", ignored);  // a new plugin is not written over an older one
    int ends[2], errors[2];
    if (pipe(ends) != 0 || pipe(errors) != 0) return {};
    const pid_t child = fork();
    if (child == 0) {
      close(ends[0]);
      signal(SIGPIPE, sink == Sink::kClosedPipeIgnored ? SIG_IGN : SIG_DFL);
      const bool is_pipe = sink == Sink::kClosedPipe || sink == Sink::kClosedPipeIgnored;
      const int out = is_pipe ? ends[1]
                              : open(sink == Sink::kFull ? "/dev/full" : (folder_ / "out").c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC, 0600);
      dup2(out, STDOUT_FILENO);
      dup2(errors[1], STDERR_FILENO);
      const std::string limit = sink == Sink::kLimited ? "ulimit -f 0; " : "";
      const std::string command =
          limit + "cd " + folder_.path().string() +
          " && exec env -i PATH=/usr/bin:/bin CRUCIBLE_STORE_DIR=" + (folder_ / "cache").string() +
          " XDG_CONFIG_HOME=" + folder_.path().string() + " " CRUCIBLE_COMMAND " " + line;
      execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      _exit(127);
    }
    close(ends[0]);
    close(ends[1]);
    close(errors[1]);
    Outcome outcome;
    char buffer[4096];
    for (ssize_t size; (size = read(errors[0], buffer, sizeof buffer)) > 0;)
      outcome.err.append(buffer, static_cast<std::size_t>(size));
    close(errors[0]);
    int status = 0;
    waitpid(child, &status, 0);
    outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return outcome;
  }
  std::string out() const {
    const std::vector<std::byte> bytes = trace::samples::read_bytes(folder_ / "out");
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  std::string help_of(const std::string& command) {
    const Outcome outcome = run(command + " --help", Sink::kFile);
    EXPECT_EQ(outcome.code, 0) << command << ": " << outcome.err;
    return out();
  }

  /// Calls `visit` with each command that can be run, found by walking the help from the top, and with its help.
  void each_command(const std::function<void(const std::string&, const std::string&)>& visit,
                    const std::string& command = "") {
    const std::string help = help_of(command);
    const std::string usage =
        help.substr(help.find("Usage:"), help.find('\n', help.find("Usage:")) - help.find("Usage:"));
    const bool is_group = usage.ends_with(" SUBCOMMAND");
    if (!is_group) visit(command, help);
    std::istringstream lines(help);
    bool lists = false;
    for (std::string text; std::getline(lines, text);) {
      if (text == "Subcommands:") {
        lists = true;
      } else if (lists && text.starts_with("  ") && text.size() > 2 && text[2] != ' ') {
        each_command(visit, (command.empty() ? "" : command + " ") + text.substr(2, text.find(' ', 2) - 2));
      } else if (text.empty()) {
        lists = false;
      }
    }
  }

  /// Calls `visit` with each line that prints: a command's arguments, the same with --json where there is that, and
  /// --help.
  void each_line(const std::function<void(const std::string&)>& visit) {
    std::set<std::string> met;
    each_command([&](const std::string& command, const std::string& help) {
      visit(command + " --help");
      const auto row = kRows.find(command);
      if (row == kRows.end()) {
        ADD_FAILURE() << "crucible " << command << " has no row in kRows";
        return;
      }
      met.insert(command);
      const std::string line = command + " " + filled(row->second.arguments);
      if (row->second.prints) visit(line);
      if (help.find("--json") != std::string::npos) visit(command + " --json " + filled(row->second.arguments));
    });
    EXPECT_EQ(met.size(), kRows.size()) << "kRows has a command that is not there";
  }

  trace::samples::Folder folder_;
};

// That the lines of the other tests print where they can.
TEST_F(EveryCommand, PrintsSomething) {
  each_line([this](const std::string& line) {
    const Outcome outcome = run(line, Sink::kFile);
    EXPECT_LE(outcome.code, line.starts_with("record") ? 4 : 1) << line << ": " << outcome.err;
    const bool is_refused = line.starts_with("record --json") && outcome.code == 4;  // the recorder was not built
    EXPECT_EQ(out() == "", is_refused) << line;
  });
}

TEST_F(EveryCommand, EndsWithAnErrorWhereTheOutputIsFull) {
  each_line([this](const std::string& line) {
    const Outcome outcome = run(line, Sink::kFull);
    if (line.starts_with("record --json") && outcome.code == 4) return;
    EXPECT_EQ(outcome.code, 3) << line;
    EXPECT_THAT(outcome.err, HasSubstr("crucible: error: cannot write to standard output: No space left on device; "))
        << line;
    EXPECT_EQ(outcome.err.find("standard output"), outcome.err.rfind("standard output"))
        << "told once: " << outcome.err;
  });
}

// Kernels, lock files and the like cannot be written either: whatever fails first is said in words.
TEST_F(EveryCommand, EndsWithAnErrorAtAFileSizeLimit) {
  each_line([this](const std::string& line) {
    const Outcome outcome = run(line, Sink::kLimited);
    EXPECT_NE(outcome.code, 0) << line;
    EXPECT_LE(outcome.code, 4) << line << ": ended by a signal, or called a fault of ours: " << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("crucible: error: ")) << line;
    EXPECT_EQ(out(), "") << line;
  });
}

TEST_F(EveryCommand, EndsQuietlyWhereNobodyReads) {
  each_line([this](const std::string& line) {
    for (const Sink sink : {Sink::kClosedPipe, Sink::kClosedPipeIgnored}) {
      const Outcome outcome = run(line, sink);
      if (line.starts_with("record --json")) continue;  // tells that nothing was recorded, whoever reads
      EXPECT_EQ(outcome.code, 128 + SIGPIPE) << line << ": " << outcome.err;
      EXPECT_EQ(outcome.err, "") << line;
    }
  });
}

TEST_F(EveryCommand, AClosedStandardOutputIsNoFileThatIsOpenedNext) {
  const Outcome outcome = run("trace optimize " + filled("{d}/a.crtrace -o {d}/small.crtrace >&-"), Sink::kFile);
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.err, HasSubstr("cannot write to standard output: Bad file descriptor"));
  EXPECT_TRUE(trace::check_file(folder_ / "small.crtrace")) << "the text went into the recording";
}

}  // namespace
}  // namespace crucible
