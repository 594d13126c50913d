// `crucible trace diff|trim|optimize|export|merge` as a user meets them: output, exit codes and messages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "core/trace/trace_file.hpp"
#include "core/trace/trace_maker.hpp"
#include "core/trace/trace_samples.hpp"
#include "tests/cli/run_command.hpp"

namespace crucible::trace {
namespace {

using samples::TrainingOptions;
using samples::training_trace;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class TraceTools : public ::testing::Test {
 protected:
  TraceTools() { EXPECT_TRUE(write_file(training_trace(), in("a.crtrace"))); }

  std::string in(const std::string& name) const { return (folder_ / name).string(); }
  CommandOutcome run(const std::string& arguments) const { return run_command("trace " + arguments); }
  nlohmann::json json(const std::string& arguments) const {
    const CommandOutcome outcome = run(arguments + " --json");
    const auto document = nlohmann::json::parse(outcome.out, nullptr, false);
    EXPECT_FALSE(document.is_discarded()) << outcome.out << outcome.err;
    return document;
  }
  void write(const std::string& name, const TrainingOptions& options) const {
    EXPECT_TRUE(write_file(training_trace(options), in(name)));
  }
  /// One of `world` ranks that calls one allreduce per iteration.
  void write_rank(const std::string& name, std::uint32_t rank, std::uint32_t world, std::int64_t size = 32,
                  int iterations = 2) const {
    samples::TraceMaker maker;
    maker.trace.metadata.rank = rank;
    maker.trace.metadata.world_size = world;
    Arg group;
    group.kind = Arg::Kind::kOpaque;
    group.text = "process group 'default_pg' rank " + std::to_string(rank) + " of " + std::to_string(world);
    for (int i = 0; i < iterations; ++i) {
      maker.begin_iteration();
      maker.op("c10d::allreduce_(Tensor[] tensors, ProcessGroup process_group) -> Tensor[]",
               {samples::list_of({samples::tensor_of(maker.tensor({size}))}), group}, {});
    }
    EXPECT_TRUE(write_file(maker.take(), in(name)));
  }

  samples::Folder folder_;
};

// --- diff ---

TEST_F(TraceTools, DiffOfEqualFiles) {
  write("b.crtrace", {});
  const CommandOutcome outcome = run("diff " + in("a.crtrace") + " " + in("b.crtrace"));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "equal: 4 iterations, 24 ops\n");
  const auto document = json("diff " + in("a.crtrace") + " " + in("b.crtrace"));
  EXPECT_EQ(document["equal"], true);
  EXPECT_EQ(document["count"], 0);
  EXPECT_EQ(document["differences"].size(), 0u);
}

TEST_F(TraceTools, DiffInWords) {
  TrainingOptions other;
  other.rate = 0.2;
  write("b.crtrace", other);
  const CommandOutcome outcome = run("diff " + in("a.crtrace") + " " + in("b.crtrace") + " --limit 2");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.out,
            "iteration 0, op 5 aten::add_.Tensor (train.py:15), argument alpha: -0.1 against -0.2\n"
            "iteration 1, op 5 aten::add_.Tensor (train.py:15), argument alpha: -0.1 against -0.2\n"
            "4 differences, 2 of them shown; --limit 0 shows all\n");
  const auto document = json("diff " + in("a.crtrace") + " " + in("b.crtrace") + " --limit 0");
  EXPECT_EQ(document["count"], 4);
  ASSERT_EQ(document["differences"].size(), 4u);
  const auto& first = document["differences"][0];
  EXPECT_EQ(first["kind"], "argument");
  EXPECT_EQ(first["iteration"], 0);
  EXPECT_EQ(first["op"], 5);
  EXPECT_EQ(first["other_op"], 5);
  EXPECT_EQ(first["schema"], "aten::add_.Tensor");
  EXPECT_EQ(first["site"], "train.py:15");
  EXPECT_EQ(first["argument"], "alpha");
  EXPECT_EQ(first["what"], "-0.1 against -0.2");
}

TEST_F(TraceTools, DiffOfWhatIsNotThere) {
  const CommandOutcome outcome = run("diff " + in("a.crtrace") + " " + in("none.crtrace"));
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.err, HasSubstr("none.crtrace: No such file or directory; check the path"));
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(run("diff " + in("a.crtrace")).code, 2);
}

// --- trim ---

TEST_F(TraceTools, TrimKeepsTheFirstIterations) {
  const CommandOutcome outcome = run("trim " + in("a.crtrace") + " --iterations 0-1 -o " + in("b.crtrace"));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("b.crtrace: 2 iterations of 4, 12 ops, 4 externals, "));
  EXPECT_THAT(outcome.out, HasSubstr("without 1 of 2 final states: they are those of the last iteration\n"));
  EXPECT_EQ(run("check " + in("b.crtrace")).code, 0);
  const auto document = json("info " + in("b.crtrace"));
  EXPECT_EQ(document["iterations"], 2);
  EXPECT_THAT(document["incomplete_reason"].get<std::string>(), StartsWith("trimmed to iterations 0-1 of 4"));
}

TEST_F(TraceTools, TrimRefusesStatesThatItDoesNotHave) {
  const CommandOutcome outcome = run("trim " + in("a.crtrace") + " --iterations 1-2 -o " + in("b.crtrace"));
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.err, HasSubstr("a.crtrace: cannot begin with iteration 1: dropped iterations wrote 1 storage"));
  EXPECT_THAT(outcome.err, HasSubstr("fc.weight (parameter)"));
  EXPECT_FALSE(std::filesystem::exists(in("b.crtrace")));
}

TEST_F(TraceTools, TrimOfBadRanges) {
  for (const char* range : {"x", "1-", "-1", "2-1", "0-9", "99999999999", ""}) {
    const CommandOutcome outcome =
        run("trim " + in("a.crtrace") + " --iterations=" + std::string(range) + " -o " + in("b.crtrace"));
    EXPECT_EQ(outcome.code, 2) << range;
    EXPECT_NE(outcome.err, "") << range;
  }
  EXPECT_THAT(run("trim " + in("a.crtrace") + " --iterations 0-9 -o " + in("b.crtrace")).err,
              HasSubstr("there is no iteration 9: the recording has 4, counted from 0"));
  EXPECT_EQ(run("trim " + in("a.crtrace") + " -o " + in("b.crtrace")).code, 2);
}

TEST_F(TraceTools, OutputThatIsThereIsKept) {
  for (const char* command : {"trim --iterations 0-1 ", "optimize ", "export --format jsonl "}) {
    samples::write_bytes(in("b.crtrace"), std::vector<std::byte>(5));
    const std::string line = std::string(command) + in("a.crtrace") + " -o " + in("b.crtrace");
    const CommandOutcome outcome = run(line);
    EXPECT_EQ(outcome.code, 2) << command;
    EXPECT_THAT(outcome.err, HasSubstr("b.crtrace is there already: choose another name, or --force to replace it"));
    EXPECT_EQ(std::filesystem::file_size(in("b.crtrace")), 5u);
    EXPECT_EQ(run(line + " --force").code, 0) << command;
    EXPECT_GT(std::filesystem::file_size(in("b.crtrace")), 5u);
  }
}

TEST_F(TraceTools, OutputWhereNothingCanBeWritten) {
  for (const char* command : {"trim --iterations 0-1 ", "optimize ", "export --format chrome "}) {
    const CommandOutcome missing = run(std::string(command) + in("a.crtrace") + " -o " + in("no/b.crtrace"));
    EXPECT_EQ(missing.code, 3) << command;
    EXPECT_NE(missing.err, "") << command;
    EXPECT_EQ(run(std::string(command) + in("none.crtrace") + " -o " + in("b.crtrace")).code, 3) << command;
    const CommandOutcome device = run(std::string(command) + in("a.crtrace") + " --force -o /dev/full");
    EXPECT_EQ(device.code, 3) << command;
    EXPECT_THAT(device.err, HasSubstr("not a regular file")) << command;
  }
}

// --- optimize and blob folders ---

TEST_F(TraceTools, OptimizeSaysWhatItDid) {
  const CommandOutcome outcome = run("optimize " + in("a.crtrace") + " -o " + in("b.crtrace"));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, StartsWith("section "));
  EXPECT_THAT(outcome.out, HasSubstr("\nfile "));
  EXPECT_EQ(run("diff " + in("a.crtrace") + " " + in("b.crtrace") + " --all").code, 0);
  EXPECT_EQ(run("optimize " + in("a.crtrace") + " --level 20 -o " + in("c.crtrace")).code, 2);
}

TEST_F(TraceTools, ABlobFolderAndBack) {
  const auto document =
      json("optimize " + in("a.crtrace") + " -o " + in("b.crtrace") + " --blob-folder " + in("blobs"));
  EXPECT_EQ(document["blob_folder"], in("blobs"));
  EXPECT_EQ(document["sections"][0]["name"], "blobs");
  EXPECT_EQ(document["sections"][0]["stored_bytes_after"], 0);
  EXPECT_EQ(run("check " + in("b.crtrace")).code, 0);
  EXPECT_EQ(run("diff " + in("a.crtrace") + " " + in("b.crtrace")).code, 0);
  EXPECT_EQ(json("info " + in("b.crtrace"))["blob_folder"], "blobs");
  // What is made of it keeps the folder, until it is told otherwise.
  EXPECT_EQ(run("trim " + in("b.crtrace") + " --iterations 0 -o " + in("c.crtrace")).code, 0);
  EXPECT_EQ(json("info " + in("c.crtrace"))["blob_folder"], "blobs");
  EXPECT_EQ(run("optimize " + in("b.crtrace") + " -o " + in("d.crtrace") + " --embed").code, 0);
  std::filesystem::rename(in("blobs"), in("elsewhere"));
  EXPECT_EQ(run("check " + in("d.crtrace")).code, 0);
  const CommandOutcome missing = run("check " + in("b.crtrace"));
  EXPECT_EQ(missing.code, 3);
  EXPECT_THAT(missing.err, HasSubstr("b.crtrace: blob 0: " + in("blobs")));
  EXPECT_THAT(missing.err, HasSubstr(" is missing; put the blob folder "));
  EXPECT_EQ(run("optimize " + in("a.crtrace") + " -o " + in("e.crtrace") + " --embed --blob-folder x").code, 2);
}

TEST_F(TraceTools, ADamagedBlobInAFolder) {
  ASSERT_EQ(run("optimize " + in("a.crtrace") + " -o " + in("b.crtrace") + " --blob-folder " + in("blobs")).code, 0);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(in("blobs"))) {
    if (!entry.is_regular_file()) continue;
    auto bytes = samples::read_bytes(entry.path());
    bytes.back() ^= std::byte{1};
    samples::write_bytes(entry.path(), bytes);
    break;
  }
  const CommandOutcome outcome = run("check " + in("b.crtrace"));
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.err, HasSubstr("is damaged: its content has another SHA-256 than its name"));
  samples::write_bytes(in("file"), {});
  EXPECT_THAT(run("optimize " + in("a.crtrace") + " -o " + in("c.crtrace") + " --blob-folder " + in("file")).err,
              HasSubstr("cannot make the folder"));
}

// --- export ---

TEST_F(TraceTools, JsonLines) {
  const CommandOutcome outcome = run("export " + in("a.crtrace") + " --format jsonl");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  std::istringstream lines(outcome.out);
  std::vector<nlohmann::json> documents;
  for (std::string line; std::getline(lines, line);) documents.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(documents.size(), 25u);
  EXPECT_EQ(documents[0]["format"], "crucible-trace-jsonl");
  EXPECT_EQ(documents[0]["version"], 1);
  EXPECT_EQ(documents[0]["iterations"].size(), 4u);
  EXPECT_EQ(documents[0]["iterations"][1]["first_op"], 6);
  EXPECT_EQ(documents[0]["iterations"][1]["losses"][0]["value"], 1.5);
  EXPECT_EQ(documents[0]["schemas"]["aten::relu"], "aten::relu(Tensor self) -> Tensor");
  const auto ops = json("ops " + in("a.crtrace") + " --all")["ops"];
  ASSERT_EQ(ops.size(), 24u);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    for (const char* key : {"op", "iteration", "phase", "thread", "module", "site", "schema"})
      EXPECT_EQ(documents[i + 1][key], ops[i][key]) << key;
    EXPECT_EQ(documents[i + 1]["args"].size(), ops[i]["args"].size());
  }
  const auto& first = documents[1];
  const auto& tensor = first["args"][1]["value"];
  EXPECT_EQ(tensor["device"], "cpu");
  EXPECT_EQ(tensor["storage_bytes"], 32);
  EXPECT_EQ(tensor["requires_grad"], false);
  EXPECT_EQ(tensor["is_wrapped_number"], false);
  ASSERT_EQ(first["externals"].size(), 2u);
  EXPECT_EQ(first["externals"][1]["name"], "fc.weight");
  EXPECT_EQ(first["externals"][1]["role"], "parameter");
  EXPECT_EQ(first["externals"][1]["bytes"], 32);
  EXPECT_EQ(first["externals"][1]["sha256"].get<std::string>().size(), 64u);
}

TEST_F(TraceTools, ChromeSlicesAreNested) {
  Trace trace = training_trace();
  trace.modules = {"blocks.0.norm", "blocks.0", "head"};
  trace.ops[0].module = 0;
  trace.ops[1].module = 1;
  trace.ops[2].module = 2;
  trace.ops[3].thread = 1;
  ASSERT_TRUE(write_file(trace, in("b.crtrace")));
  const CommandOutcome outcome = run("export " + in("b.crtrace") + " --format chrome -o " + in("b.json"));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  const auto bytes = samples::read_bytes(in("b.json"));
  const auto document = nlohmann::json::parse(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  EXPECT_EQ(document["otherData"]["note"], "positions are op numbers, not time: a recording has no times");
  std::map<int, std::vector<std::string>> open;
  std::map<std::string, std::vector<std::string>> around;  // by op number: the slices that it lies in
  std::size_t names_say_it = 0;
  for (const auto& event : document["traceEvents"]) {
    const std::string kind = event["ph"];
    if (kind == "M") names_say_it += event["args"]["name"].get<std::string>().find("not time") != std::string::npos;
    if (kind == "B") open[event["tid"]].push_back(event["name"]);
    if (kind == "E") {
      ASSERT_EQ(open[event["tid"]].back(), event["name"]);
      open[event["tid"]].pop_back();
    }
    if (kind == "X") around[std::to_string(event["ts"].get<int>())] = open[event["tid"]];
  }
  EXPECT_EQ(names_say_it, 3u) << "the process and two threads";
  for (const auto& [thread, slices] : open) EXPECT_TRUE(slices.empty());
  EXPECT_EQ(around.size(), 24u);
  EXPECT_EQ(around["0"], (std::vector<std::string>{"iteration 0", "forward", "blocks", "blocks.0", "blocks.0.norm"}));
  EXPECT_EQ(around["1"], (std::vector<std::string>{"iteration 0", "forward", "blocks", "blocks.0"}));
  EXPECT_EQ(around["2"], (std::vector<std::string>{"iteration 0", "forward", "head"}));
  EXPECT_EQ(around["3"], (std::vector<std::string>{"iteration 0", "forward"}));
  EXPECT_EQ(around["5"], (std::vector<std::string>{"iteration 0", "optimizer"}));
  EXPECT_EQ(around["6"], (std::vector<std::string>{"iteration 1", "forward"}));
}

TEST_F(TraceTools, ExportToAFullDisk) {
  const int status = std::system((std::string(CRUCIBLE_COMMAND) + " trace export " + in("a.crtrace") +
                                  " --format jsonl >/dev/full 2>" + in("err")).c_str());
  EXPECT_EQ(WEXITSTATUS(status), 3);
  const auto err = samples::read_bytes(in("err"));
  EXPECT_THAT(std::string(reinterpret_cast<const char*>(err.data()), err.size()),
              HasSubstr("cannot write to standard output: No space left on device; write to a file with -o"));
  EXPECT_EQ(run("export " + in("a.crtrace") + " --format xml").code, 2);
}

// --- merge ---

TEST_F(TraceTools, RanksAreMergedListedAndChecked) {
  write_rank("r0.crtrace", 0, 2);
  write_rank("r1.crtrace", 1, 2);
  const CommandOutcome outcome = run("merge " + in("r1.crtrace") + " " + in("r0.crtrace") + " -o " + in("m.crtraces"));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, in("m.crtraces") + ": 2 ranks, 2 iterations\n");
  const CommandOutcome info = run("info " + in("m.crtraces"));
  EXPECT_EQ(info.code, 0) << info.err;
  EXPECT_THAT(info.out, HasSubstr("\nrank  ops  bytes  sha256        file\n"));
  EXPECT_THAT(info.out, HasSubstr("  r0.crtrace\n"));
  const auto document = json("info " + in("m.crtraces"));
  EXPECT_EQ(document["world_size"], 2);
  EXPECT_EQ(document["ranks"][1]["file"], "r1.crtrace");
  EXPECT_EQ(document["ranks"][1]["rank"], 1);
  EXPECT_EQ(document["ranks"][1]["content_hash"].get<std::string>().size(), 64u);
  EXPECT_THAT(run("check " + in("m.crtraces")).out, HasSubstr("ok: 2 ranks"));
  EXPECT_EQ(json("info " + in("r1.crtrace"))["rank"], 1);
  write_rank("r1.crtrace", 1, 2, 33);
  const CommandOutcome changed = run("check " + in("m.crtraces"));
  EXPECT_EQ(changed.code, 3);
  EXPECT_THAT(changed.err, HasSubstr("r1.crtrace is not the file that "));
  std::filesystem::remove(in("r1.crtrace"));
  EXPECT_EQ(run("check " + in("m.crtraces")).code, 3);
  EXPECT_EQ(run("merge " + in("r0.crtrace") + " -o " + in("m.crtraces")).code, 2) << "it is there already";
}

TEST_F(TraceTools, RanksThatDoNotFit) {
  write_rank("r0.crtrace", 0, 2);
  write_rank("r1.crtrace", 1, 2);
  write_rank("other.crtrace", 1, 3);
  write_rank("shape.crtrace", 1, 2, 64);
  write_rank("long.crtrace", 1, 2, 32, 3);
  const auto refusal = [&](const std::string& files, int code) {
    const CommandOutcome outcome = run("merge " + files + " -o " + in("m.crtraces"));
    EXPECT_EQ(outcome.code, code) << files;
    EXPECT_FALSE(std::filesystem::exists(in("m.crtraces")));
    return outcome.err;
  };
  EXPECT_THAT(refusal(in("r0.crtrace"), 1), HasSubstr("1 of 2 ranks are here; missing: 1"));
  EXPECT_THAT(refusal(in("r0.crtrace") + " " + in("r0.crtrace"), 1), HasSubstr("are both rank 0"));
  EXPECT_THAT(refusal(in("r0.crtrace") + " " + in("other.crtrace"), 1), HasSubstr("they are not of one program"));
  EXPECT_THAT(refusal(in("r0.crtrace") + " " + in("long.crtrace"), 1),
              HasSubstr("rank 0 has 2 iterations, rank 1 has 3"));
  EXPECT_THAT(
      refusal(in("r0.crtrace") + " " + in("shape.crtrace"), 1),
      HasSubstr(
          "the ranks disagree: collective 0 of process group 'default_pg' of 2 is allreduce_ (f32[32]) on rank 0 "));
  EXPECT_THAT(refusal(in("r0.crtrace") + " " + in("a.crtrace"), 3), HasSubstr("a.crtrace is not one of several ranks"));
  EXPECT_EQ(refusal(in("none.crtrace"), 3).empty(), false);
  EXPECT_EQ(run("merge " + in("r0.crtrace") + " " + in("r1.crtrace") + " -o " + in("m.json")).code, 2);
}

TEST_F(TraceTools, ManifestsThatAreNone) {
  const auto refusal = [&](const std::string& text) {
    samples::write_bytes(in("m.crtraces"), std::as_bytes(std::span(text)));
    const CommandOutcome outcome = run("info " + in("m.crtraces"));
    EXPECT_EQ(outcome.code, 3) << text;
    return outcome.err;
  };
  EXPECT_THAT(refusal("{"), HasSubstr("it is not a manifest of ranks"));
  EXPECT_THAT(refusal(""), HasSubstr("it is not a manifest of ranks"));
  EXPECT_THAT(refusal("{\"format\": \"other\"}"), HasSubstr("it is not a manifest of ranks"));
  const std::string start = "{\"format\": \"crucible-ranks\", ";
  EXPECT_THAT(refusal(start + "\"format_version\": 2}"), HasSubstr("its version 2 is newer than 1"));
  EXPECT_THAT(refusal(start + "\"format_version\": 1}"), HasSubstr("it has no iterations or no ranks"));
  EXPECT_THAT(refusal(start + "\"format_version\": 1, \"iterations\": 1, \"ranks\": [7]}"),
              HasSubstr("its entry 0 lacks rank"));
  EXPECT_THAT(refusal(start + "\"format_version\": 1, \"iterations\": 1, \"ranks\": [{\"rank\": 1, \"file\": \"a\", "
                              "\"sha256\": \"b\", \"file_bytes\": 1, \"ops\": 1, \"content_hash\": \"c\"}]}"),
              HasSubstr("its entry 0 is rank 1"));
}

// --- info ---

TEST_F(TraceTools, InfoShowsValuesThatLeft) {
  const CommandOutcome outcome = run("info " + in("a.crtrace"));
  EXPECT_THAT(outcome.out,
              HasSubstr("values left   aten::_local_scalar_dense     4  train.py:14      forward   differ\n"
                        "              values differ between iterations, the op sequence does not\n"));
  const auto document = json("info " + in("a.crtrace"));
  EXPECT_EQ(document["sequence_depends"], false);
  ASSERT_EQ(document["values_left"].size(), 1u);
  EXPECT_EQ(document["values_left"][0]["schema"], "aten::_local_scalar_dense");
  EXPECT_EQ(document["values_left"][0]["site"], "train.py:14");
  EXPECT_EQ(document["values_left"][0]["count"], 4);
  EXPECT_EQ(document["values_left"][0]["values_differ"], true);
  EXPECT_TRUE(document["rank"].is_null());
}

TEST_F(TraceTools, InfoShowsWhatTheNewerFormatHas) {
  Trace trace = training_trace();
  trace.generators = {{0, "cpu", 0}, {1, "cpu", 0}};
  trace.outputs = {{0, "logits", 0, 0}};
  trace.tensors.push_back({kNone, DType::kF32, false, false, 0, {2}, {1}});
  trace.compounds = {{static_cast<TensorId>(trace.tensors.size() - 1), "sparse_coo", {}}};
  trace.op_hashes.assign(trace.ops.size(), {1});
  trace.metadata.rank = 1;
  trace.metadata.world_size = 4;
  ASSERT_TRUE(write_file(trace, in("b.crtrace")));
  const CommandOutcome outcome = run("info " + in("b.crtrace"));
  for (const char* line :
       {"compounds     1 sparse_coo\n", "outputs       1 (logits)\n", "generators    2 states (of cpu)\n",
        "hashes        of the results of every op\n", "rank          1 of 4\n"})
    EXPECT_THAT(outcome.out, HasSubstr(line));
  const auto document = json("info " + in("b.crtrace"));
  EXPECT_EQ(document["compounds"]["sparse_coo"], 1);
  EXPECT_EQ(document["outputs"], 1);
  EXPECT_EQ(document["generators"], std::vector<std::string>{"cpu"});
  EXPECT_EQ(document["op_hashes"], true);
  EXPECT_EQ(document["world_size"], 4);
}

TEST_F(TraceTools, TablesFitIntoEightyColumns) {
  Trace trace = training_trace();
  trace.sites[4].file = "/somewhere/a_script_with_a_very_long_name_indeed.py";
  trace.schemas[4].name = "custom_namespace::an_operator_with_a_very_long_name_that_returns_a_number";
  ASSERT_TRUE(write_file(trace, in("b.crtrace")));
  const CommandOutcome outcome = run("info " + in("b.crtrace"));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("custom_name...ns_a_number"));
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("file ")) continue;  // the path is as long as it is
    EXPECT_LE(line.size(), 80u) << line;
  }
}

TEST_F(TraceTools, EveryCommandHasHelpWithAnExample) {
  for (const char* command : {"diff", "trim", "optimize", "export", "merge", "info", "check", "ops"}) {
    const CommandOutcome outcome = run(std::string(command) + " --help");
    EXPECT_EQ(outcome.code, 0) << command;
    EXPECT_THAT(outcome.out, HasSubstr("Example:\n  crucible trace " + std::string(command))) << command;
  }
}

}  // namespace
}  // namespace crucible::trace
