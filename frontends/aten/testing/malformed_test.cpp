// Every operator of the lowering table with arguments that no framework recorded: the lowering gives a program that the
// verifier accepts and the interpreter runs, or an error with a sentence. schemas.txt has the operators' schemas.
// CRUCIBLE_MALFORMED says how many calls of each (6 where it is not set), CRUCIBLE_MALFORMED_SEED the first one's seed,
// CRUCIBLE_MALFORMED_ONLY a part of the names of those that are tried.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <span>
#include <sstream>

#include "core/base/hash.hpp"
#include "core/graph/reference.hpp"
#include "core/graph/reference_composite.hpp"
#include "core/trace/validate.hpp"
#include "frontends/aten/call/preconditions.hpp"
#include "frontends/aten/lower.hpp"
#include "frontends/aten/lower_table.hpp"
#include "frontends/aten/testing/arbitrary_op.hpp"

namespace crucible::aten {
namespace {

std::vector<Signature> signatures() {
  std::vector<Signature> all;
  std::ifstream file(CRUCIBLE_SCHEMAS);
  for (std::string line; std::getline(file, line);) all.push_back(parse_signature(line));
  return all;
}

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

bool is_small(const graph::Program& program) {
  std::int64_t elements = 0;
  for (const graph::Value& value : program.values) {
    if (value.elements > 4096) return false;
    elements += value.elements;
  }
  for (const graph::Op& op : program.ops) {
    for (const graph::Operand& input : op.inputs) {
      if (!input.is_scalar() && input.view.elements() > 4096) return false;
    }
  }
  return elements < 100000;
}

/// What lowering a call gave; results that were guessed wrongly are recorded as the lowering wants them.
struct Attempt {
  bool lowered = false, ran = false, by_verifier = false;
  std::string problem;  // a broken promise, or ""
};

/// Composites of what can be lowered: valid, and run by the interpreter's own implementations without a crash. "" for
/// no problem.
std::string problem_of_composites(const trace::Trace& trace, bool is_run) {
  const auto whole = lower(trace, Opaques::kRefuse, graph::reference_keeps);
  if (!whole) return "with composites: " + whole.error().message;
  if (auto valid = graph::verify(*whole); !valid) return "with composites: " + valid.error().message;
  if (!whole->composites.empty() && is_run) (void)graph::replay_reference(*whole, *trace.blob_store, whole->iterations);
  return "";
}

/// The same as a live program, which watches more of what it is given. "" for no problem.
std::string problem_of_live(const trace::Trace& trace) {
  const auto live = lower_live(trace);
  if (!live) return live.error().message.find("pass ") != std::string::npos ? live.error().message : "";
  for (const auto& program : live->programs) {
    if (auto valid = graph::verify(*program); !valid) return "live: " + valid.error().message;
  }
  return "";
}

Attempt try_call(const Signature& signature, Choices choices) {
  Attempt attempt;
  ResultSizes known;
  for (int i = 0; i < 8; ++i) {
    TraceBuilder builder;
    record_arbitrary(builder, signature, choices, known);
    const trace::Trace& trace = builder.trace();
    if (auto valid = trace::validate(trace); !valid) return attempt;
    auto program = lower(trace);
    attempt.problem = problem_of_live(trace);
    if (!program) {
      const Error& error = program.error();
      // The verifier's refusal of what was lowered is an answer too; a pass never breaks what the verifier accepted.
      attempt.by_verifier = error.code == ErrorCode::kInternal;
      if (error.message.find("pass ") != std::string::npos) attempt.problem = error.message;
      if (error.message.size() < 15) attempt.problem = "an error without a sentence: " + error.message;
      std::size_t result = 0;
      std::vector<std::int64_t> sizes;
      if (!read_wanted_sizes(error.message, result, sizes) || known.contains(result)) return attempt;
      known[result] = sizes;
      continue;
    }
    attempt.lowered = true;
    if (program->ops.size() > 100000) attempt.problem = "a program of " + std::to_string(program->ops.size()) + " ops";
    if (auto valid = graph::verify(*program); !valid) attempt.problem = valid.error().message;
    if (attempt.problem.empty() && is_small(*program)) {
      attempt.ran = static_cast<bool>(graph::replay_reference(*program, *trace.blob_store, program->iterations));
    }
    if (attempt.problem.empty()) attempt.problem = problem_of_composites(trace, is_small(*program));
    return attempt;
  }
  return attempt;
}

void replace_integers(trace::Arg& arg, std::int64_t number) {
  if (arg.kind == trace::Arg::Kind::kInt) arg.integer = number;
  for (trace::Arg& item : arg.list) replace_integers(item, number);
}

/// The call's argument `missing` is nothing, and every whole number far away: what one of them alone would be refused
/// for must not be looked at with the other.
void try_call_without(const Signature& signature, Choices choices, std::size_t missing, std::int64_t number) {
  TraceBuilder builder;
  record_arbitrary(builder, signature, choices, {});
  trace::Trace trace = builder.trace();
  trace::Op& op = trace.ops.back();
  if (missing >= op.args.size()) return;
  op.args[missing] = {};
  for (trace::Arg& arg : op.args) replace_integers(arg, number);
  if (!trace::validate(trace)) return;
  (void)lower(trace);
  (void)lower_live(trace);
}

/// What became of the calls of one operator.
struct Tally {
  std::uint64_t calls = 0, lowered = 0, ran = 0, by_verifier = 0;
  std::string problems;
};

/// Runs in a process of its own, so that a crash is a failure that names its call and hides no other one.
void make_calls(const Signature& signature, std::uint64_t first, std::uint64_t count, int to) {
  // By the schema, so that a seed means the same call when the table has grown.
  const std::uint64_t base = checksum64(std::as_bytes(std::span(signature.text)));
  const auto say = [&](const std::string& text) {
    return write(to, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  };
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    if (!say("seed " + std::to_string(seed) + " ")) return;
    Attempt attempt = try_call(signature, Choices(base + seed));
    std::ranges::replace(attempt.problem, '\n', ' ');
    if (!say(std::to_string(attempt.lowered) + " " + std::to_string(attempt.ran) + " " +
             std::to_string(attempt.by_verifier) + " " + attempt.problem + "\n")) {
      return;
    }
  }
  // A file's schemas may call arguments otherwise than the framework does.
  for (std::size_t i = 0; i < signature.arguments.size(); ++i) {
    Signature renamed = signature;
    const std::string name = " " + signature.arguments[i].name;
    const std::size_t at = renamed.text.find(name, renamed.text.find('('));
    if (at == std::string::npos) continue;
    renamed.text.insert(at + name.size(), "_");
    renamed.arguments[i].name += "_";
    if (!say("seed without " + signature.arguments[i].name + " ")) return;
    (void)try_call(renamed, Choices(base + i));
    if (!say("0 0 0 \n")) return;
  }
  for (std::size_t i = 0; i < signature.arguments.size(); ++i) {
    for (const std::int64_t number : {std::int64_t{1} << 40, -(std::int64_t{1} << 36), std::int64_t{5}}) {
      if (!say("seed without " + signature.arguments[i].name + ", numbers " + std::to_string(number) + " ")) return;
      try_call_without(signature, Choices(base + i), i, number);
      if (!say("0 0 0 \n")) return;
    }
  }
}

Tally tally_calls(const Signature& signature, std::uint64_t first, std::uint64_t count) {
  Tally tally;
  int ends[2];
  if (pipe(ends) != 0) return {0, 0, 0, 0, "no pipe"};
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    const rlimit none{0, 0};
    setrlimit(RLIMIT_CORE, &none);
    const rlimit a_minute{60, 60};  // sizes are only numbers: nothing may take time in proportion to them
    setrlimit(RLIMIT_CPU, &a_minute);
    make_calls(signature, first, count, ends[1]);
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t n = 0; (n = read(ends[0], buffer, sizeof(buffer))) > 0;)
    text.append(buffer, static_cast<std::size_t>(n));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string word, seed, problem;
    std::uint64_t lowered = 0, ran = 0, by_verifier = 0;
    words >> word >> seed;
    if (seed == "without") continue;
    words >> lowered >> ran >> by_verifier;
    ++tally.calls;
    tally.lowered += lowered;
    tally.ran += ran;
    tally.by_verifier += by_verifier;
    std::getline(words >> std::ws, problem);
    if (!problem.empty()) tally.problems += "seed " + seed + ": " + problem + "\n";
  }
  if (status != 0) tally.problems += text.substr(text.find_last_of('\n') + 1) + "crashed or ran for a minute\n";
  return tally;
}

TEST(MalformedCalls, AreRefusedOrLowered) {
  const std::uint64_t count = setting("CRUCIBLE_MALFORMED", 6), first = setting("CRUCIBLE_MALFORMED_SEED", 0);
  const char* only = std::getenv("CRUCIBLE_MALFORMED_ONLY");
  const auto all = signatures();
  ASSERT_GT(all.size(), 600u) << "no schemas in " << CRUCIBLE_SCHEMAS;
  Tally total;
  std::uint64_t reached = 0, which = 0;
  for (const Signature& signature : all) {
    ++which;
    if (only != nullptr && signature.text.find(only) == std::string::npos) continue;
    const Tally tally = tally_calls(signature, first, count);
    total.calls += tally.calls;
    total.lowered += tally.lowered;
    total.ran += tally.ran;
    total.by_verifier += tally.by_verifier;
    reached += tally.lowered > 0;
    if (!tally.problems.empty()) ADD_FAILURE() << signature.text << "\n" << tally.problems;
  }
  std::printf(
      "%llu calls of %llu operators: %llu lowered (of %llu operators), %llu of them run, %llu refused by the "
      "verifier\n",
      static_cast<unsigned long long>(total.calls), static_cast<unsigned long long>(which),
      static_cast<unsigned long long>(total.lowered), static_cast<unsigned long long>(reached),
      static_cast<unsigned long long>(total.ran), static_cast<unsigned long long>(total.by_verifier));
  if (only == nullptr) {
    EXPECT_GT(total.lowered * 20, total.calls) << "hardly any call gets past the first check";
  }
}

constexpr std::int64_t kFar = std::int64_t{1} << 62;
constexpr const char* kBeyondMemory = "beyond what any memory holds";

/// A file writes its schemas itself: what it calls a Scalar is computed with all the same.
TEST(MalformedCalls, NumbersAreHeldAgainstMemoryWhateverTypeASchemaGivesThem) {
  for (const auto* type : {"int", "SymInt[1]", "Scalar", "float"}) {
    TraceBuilder b;
    const trace::TensorId x = b.fresh({2, 3}), y = b.fresh({2, 3});
    b.op(fmt::format("aten::unfold_copy(Tensor self, int dimension, {} size, int step) -> Tensor", type),
         {b.tensor(x), b.integer(0), b.integer(kFar), b.integer(1)}, {b.tensor(y)});
    b.external(b.storage_of(x), std::vector<float>(6, 1));
    b.end_iteration();
    const auto program = lower(b.trace());
    ASSERT_FALSE(program) << type;
    EXPECT_NE(program.error().message.find(type == std::string("SymInt[1]") ? "argument size" : kBeyondMemory),
              std::string::npos)
        << type << ": " << program.error().message;
  }
}

/// What the framework calls a Scalar or a float is a value, which memory has nothing to do with, whatever its name.
TEST(MalformedCalls, NoValueIsHeldAgainstMemory) {
  std::size_t values = 0, lowered = 0;
  for (const Signature& signature : signatures()) {
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      TraceBuilder builder;
      record_arbitrary(builder, signature, Choices(seed), {});
      trace::Trace trace = builder.trace();
      std::set<std::string, std::less<>> values_of;  // names
      trace::Op& op = trace.ops.back();
      for (std::size_t i = 0; i < op.args.size() && i < signature.arguments.size(); ++i) {
        const Parameter& parameter = signature.arguments[i];
        if (parameter.type != "Scalar" && parameter.type != "float") continue;
        const auto make_far = [&](trace::Arg& arg) {
          if (arg.kind != trace::Arg::Kind::kInt && arg.kind != trace::Arg::Kind::kDouble) return;
          arg.kind = trace::Arg::Kind::kInt;
          arg.integer = kFar;
          values_of.insert(parameter.name);
        };
        make_far(op.args[i]);
        for (trace::Arg& item : op.args[i].list) make_far(item);
      }
      if (values_of.empty()) continue;
      ++values;
      const auto program = lower(trace);
      lowered += program ? 1 : 0;
      const std::string message = program ? "" : program.error().message;
      for (const std::string& name : values_of) {
        EXPECT_EQ(message.find(fmt::format("argument {} is {}, {}", name, kFar, kBeyondMemory)), std::string::npos)
            << signature.text << "\n"
            << message;
      }
    }
  }
  EXPECT_GT(values, 300u);
  EXPECT_GT(lowered * 10, values) << "hardly any call gets so far";
}

TEST(MalformedCalls, SchemasCoverTheTable) {
  std::set<std::string, std::less<>> names;
  for (const Signature& signature : signatures()) {
    const std::string name = signature.text.substr(0, signature.text.find('('));
    names.insert(name);
    EXPECT_NE(find_entry(name), nullptr) << name << " has no lowering: take it from schemas.txt";
  }
  for (const auto name : lowered_names()) EXPECT_TRUE(names.contains(name)) << name << " is not in schemas.txt";
}

TEST(Parameters, OfASchema) {
  const Signature s = parse_signature(
      "aten::x.out(Tensor?[] a, SymInt[2]? b=None, *, str c=\", )\", Tensor(a!) out) -> (Tensor(a!), Tensor[] rest, "
      "int)");
  ASSERT_EQ(s.arguments.size(), 4u);
  EXPECT_TRUE(s.arguments[0].has_optional_items && s.arguments[0].is_list);
  EXPECT_EQ(s.arguments[0].name, "a");
  EXPECT_EQ(s.arguments[1].length, 2);
  EXPECT_TRUE(s.arguments[1].is_optional);
  EXPECT_EQ(s.arguments[1].type, "int");
  EXPECT_EQ(s.arguments[2].name, "c");
  EXPECT_EQ(s.arguments[3].alias, "a!");
  ASSERT_EQ(s.results.size(), 3u);
  EXPECT_EQ(s.results[0].alias, "a!");
  EXPECT_TRUE(s.results[1].is_list);
  EXPECT_EQ(s.results[2].type, "int");
}

TEST(ArbitraryOp, WantedSizesOfAnError) {
  std::size_t result = 9;
  std::vector<std::int64_t> sizes;
  ASSERT_TRUE(read_wanted_sizes("op 0: result 1 was recorded as [2], its lowering makes [2, 3]", result, sizes));
  EXPECT_EQ(result, 1u);
  EXPECT_EQ(sizes, (std::vector<std::int64_t>{2, 3}));
  EXPECT_FALSE(read_wanted_sizes("argument dim is not there", result, sizes));
}

}  // namespace
}  // namespace crucible::aten
