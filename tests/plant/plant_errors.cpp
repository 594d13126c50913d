// How many wrong ops `--verify` finds. For one op of a recording at a time, in all iterations, what the CPU plugin
// computes is multiplied by 1.001, and the replay is judged as `crucible replay --verify` judges it: at once, then by
// runs one rounding apart, by the reference interpreter, and op by op. A run that is verified at once is looked at op
// by op where it is further from the recording than roundings explain.
//
//     plant_errors FILE.crtrace... [--ops N] [--factor F] [--closely] [--list]
//
// --ops: as many ops, evenly spread over the program (default: all). Each op is one of
//   found     the verdict is "no"; of them "by op": its end alone did not tell, the op checked by itself did
//   absorbed  the replay ends where it ends without the error, to within what one rounding of its start changes: a
//   factor before a
//             normalisation, a term that another one cancels. No comparison of ends could find it
//   missed    the end is another one, and the verdict "yes"
// --closely: as `crucible replay --verify --closely`, which checks each op on the operands that the device had: so all
// ops are wrong at once, and the first iteration is checked. Each is found, missed, or absorbed: of zeros, or of
// numbers of bf16 that are moved, which a factor does not change.
// --list names the absorbed and the missed ones with their lines. Exit code 1 when less than nine in ten of what is not
// absorbed is found.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/graph/op_table.hpp"
#include "runtime/judge/compare.hpp"
#include "runtime/judge/explain.hpp"
#include "runtime/judge/noise.hpp"
#include "runtime/judge/side_by_side.hpp"
#include "core/trace/trace_file.hpp"
#include "frontends/aten/lower.hpp"
#include "plugins/loader/backend.hpp"

namespace crucible {
namespace {

using graph::OpId;
using graph::Program;
using graph::ValueId;
using runtime::Session;

enum class Fate : std::uint8_t { kFound, kFoundByOp, kAbsorbed, kMissed };
constexpr const char* kFates[] = {"found", "found by op", "absorbed", "missed"};

struct Settings {
  std::vector<std::string> files;
  std::size_t ops = 0;
  double factor = 1.001;
  bool list = false, closely = false;
};

/// Whether `op` can leave its result of bf16 unrounded, in f32. The others move numbers of bf16, or change their signs:
/// those are round already.
bool can_widen(const Program& program, const graph::Op& op) {
  if (program.values[op.outputs[0].value].dtype != DType::kBF16) return false;
  const bool is_from_bf16 =
      !op.inputs.empty() && !op.inputs[0].is_scalar() && program.values[op.inputs[0].value].dtype == DType::kBF16;
  if (is_from_bf16 &&
      (op.kind == graph::OpKind::kCopy || op.kind == graph::OpKind::kNegate || op.kind == graph::OpKind::kAbsolute))
    return false;
  switch (graph::info(op.kind).op_class) {
    case graph::OpClass::kConversion:
    case graph::OpClass::kArithmetic:
    case graph::OpClass::kFloating:
      return true;
    case graph::OpClass::kReduction:
      return op.kind == graph::OpKind::kReduceSum;
    case graph::OpClass::kContraction:
      return std::ranges::all_of(
          op.inputs, [&](const graph::Operand& input) { return program.values[input.value].dtype == DType::kBF16; });
    default:
      return false;
  }
}

/// `wrong` in which result 0 of `op` is multiplied by `factor` before anything else sees it; a number of bf16
/// times 1.001 rounds to itself, so what is rounded to bf16 is multiplied before.
Program planted(Program wrong, OpId op, double factor) {
  const graph::ValueId right = wrong.ops[op].outputs[0].value;
  const auto moved = static_cast<graph::ValueId>(wrong.values.size());
  wrong.values.push_back(wrong.values[right]);
  wrong.values.back().name.clear();
  const auto replace = [&](graph::ValueId& value) { value = value == right ? moved : value; };
  for (graph::Op& other : wrong.ops) {
    for (graph::Operand& input : other.inputs) replace(input.value);
  }
  for (graph::Output& output : wrong.outputs) replace(output.operand.value);
  for (graph::State& state : wrong.states) replace(state.end);
  graph::Operand whole, number, result;
  const std::uint32_t source = wrong.ops[op].source;
  const bool is_wide = can_widen(wrong, wrong.ops[op]);
  ValueId scaled = moved;
  if (is_wide) {
    wrong.values[right].dtype = DType::kF32;
    scaled = static_cast<ValueId>(wrong.values.size());
    wrong.values.push_back(wrong.values[right]);
    wrong.values.back().name.clear();
  }
  whole.value = right, result.value = scaled;
  whole.view = result.view = graph::View::contiguous({wrong.values[right].elements});
  number.scalar.real = factor;
  graph::Op multiply{.kind = graph::OpKind::kMultiply,
                     .inputs = {whole, number},
                     .outputs = {result},
                     .attributes = {},
                     .source = source};
  wrong.ops.insert(wrong.ops.begin() + op + 1, std::move(multiply));
  if (is_wide) {
    graph::Operand narrow = result;
    narrow.value = moved;
    wrong.ops.insert(
        wrong.ops.begin() + op + 2,
        {.kind = graph::OpKind::kCopy, .inputs = {result}, .outputs = {narrow}, .attributes = {}, .source = source});
  }
  for (OpId id = 0; id < wrong.ops.size(); ++id) {
    for (const graph::Operand& output : wrong.ops[id].outputs) wrong.values[output.value].producer = id;
  }
  return wrong;
}

/// A program on the device, run to its end.
struct Run {
  std::unique_ptr<Session> session;
  std::vector<runtime::IterationResult> results;
  runtime::RunEnd end;
};

class Planter {
 public:
  Planter(const Settings& settings, std::shared_ptr<backend::Device> device)
      : settings_(settings), device_(std::move(device)) {}

  /// Whether enough was found.
  Result<bool> plant(const std::string& file) {
    CRUCIBLE_TRY(const trace::Trace trace, trace::read_file(file));
    CRUCIBLE_TRY(program_, aten::lower(trace, aten::Opaques::kMissing));
    blobs_ = trace.blob_store;
    ends_.reset();
    spread_ = {};
    CRUCIBLE_TRY(Run right, run(program_));
    if (settings_.closely) return plant_closely(file);
    CRUCIBLE_TRY_VOID(judge_right(right));
    CRUCIBLE_TRY(right, run(program_));
    CRUCIBLE_TRY_VOID(right.session->start_spread(right.results, spread_));
    while (spread_.runs < kRuns) CRUCIBLE_TRY_VOID(right.session->widen_spread(spread_));
    std::map<OpId, Fate> fates;
    for (const OpId op : chosen()) {
      CRUCIBLE_TRY(fates[op], fate_of(op));
    }
    return report(file, fates);
  }

 private:
  static constexpr std::uint32_t kRuns = 3, kMostRuns = 10;

  /// Whether enough was found.
  bool report(const std::string& file, const std::map<OpId, Fate>& fates) const {
    const std::size_t all = candidates().size();
    std::map<Fate, std::size_t> count;
    std::string list;
    for (const auto& [op, fate] : fates) {
      ++count[fate];
      if (fate == Fate::kAbsorbed || fate == Fate::kMissed)
        list += fmt::format("  {:<9} {}\n", kFates[static_cast<int>(fate)], op_text(op));
    }
    const std::size_t found = count[Fate::kFound] + count[Fate::kFoundByOp],
                      counted = fates.size() - count[Fate::kAbsorbed];
    fmt::print(
        "{:<28}{:>7}{:>8}{:>8}{:>8}{:>9}{:>8}{:>8}\n", std::filesystem::path(file).stem().string(), all, fates.size(),
        found, count[Fate::kFoundByOp], count[Fate::kAbsorbed], count[Fate::kMissed],
        counted == 0 ? "-" : fmt::format("{:.1f}%", 100.0 * static_cast<double>(found) / static_cast<double>(counted)));
    if (settings_.list) fmt::print("{}", list);
    std::fflush(stdout);
    return found * 10 >= counted * 9;
  }

  std::vector<OpId> chosen() const {
    std::vector<OpId> ops = candidates();
    const std::size_t all = ops.size();
    if (settings_.ops == 0 || settings_.ops >= all) return ops;
    for (std::size_t i = 0; i < settings_.ops; ++i) ops[i] = ops[i * all / settings_.ops];
    ops.resize(settings_.ops);
    return ops;
  }

  /// The right program has to be right in each op; then all chosen ones are wrong at once.
  Result<bool> plant_closely(const std::string& file) {
    const std::vector<OpId> ops = chosen();
    std::map<OpId, Fate> fates;
    for (const bool is_wrong : {false, true}) {
      Program watched = runtime::with_every_result(program_);
      for (std::size_t i = ops.size(); is_wrong && i > 0; --i)
        watched = planted(std::move(watched), ops[i - 1], settings_.factor);
      CRUCIBLE_TRY(const std::unique_ptr<Session> session,
                   Session::create(std::make_shared<const Program>(std::move(watched)), blobs_, device_, {}));
      const runtime::ExplainOptions how{.seconds = std::numeric_limits<double>::infinity(),
                                        .differences = is_wrong ? program_.ops.size() : 1,
                                        .iterations = 1};
      CRUCIBLE_TRY(const runtime::OpCheck check, runtime::check_ops(program_, *blobs_, *session, how));
      if (!is_wrong && check.first() != nullptr) {
        return Error{ErrorCode::kCheckFailed,
                     "without any error an op is not right: " + runtime::in_words(program_, *check.first())};
      }
      if (!is_wrong) continue;
      std::size_t output = program_.outputs.size();
      std::map<OpId, std::size_t> output_of;
      for (OpId op = 0; op < program_.ops.size(); output += program_.ops[op++].outputs.size()) output_of[op] = output;
      for (const OpId op : ops) {
        CRUCIBLE_TRY(const graph::Bytes bytes, session->output_bytes(output_of[op]));
        const DType dtype = program_.values[program_.ops[op].outputs[0].value].dtype;
        const bool is_same = is_zero(dtype, bytes) || (dtype == DType::kBF16 && !can_widen(program_, program_.ops[op]));
        fates[op] = is_same ? Fate::kAbsorbed : Fate::kMissed;
      }
      for (const runtime::OpDifference& difference : check.differences) fates[difference.op] = Fate::kFoundByOp;
    }
    return report(file, fates);
  }

  /// Whether a factor changes nothing.
  static bool is_zero(DType dtype, const graph::Bytes& bytes) {
    const std::size_t size = size_bytes(dtype);
    for (std::size_t at = 0; at + size <= bytes.size(); at += size) {
      const double element = runtime::element_as_double(dtype, std::span(bytes).subspan(at, size));
      if (element != 0 && std::isfinite(element)) return false;
    }
    return true;
  }

  Result<Run> run(const Program& program) const {
    Run run;
    const auto shared = std::make_shared<const Program>(program);
    CRUCIBLE_TRY(run.session, Session::create(shared, blobs_, device_, {}));
    for (std::uint32_t i = 0; i < program.iterations; ++i) {
      CRUCIBLE_TRY(runtime::IterationResult result, run.session->run(i));
      CRUCIBLE_TRY(result.outputs, run.session->compare_outputs());
      run.results.push_back(std::move(result));
    }
    CRUCIBLE_TRY(run.end, run.session->end_of_run(run.results));
    return run;
  }

  /// The recording as it is has to be verified: else whatever is planted is found.
  Result<void> judge_right(Run& right) {
    CRUCIBLE_TRY(runtime::Verification verdict, right.session->verify(right.results));
    CRUCIBLE_TRY_VOID(explain(right, verdict));
    if (settings_.list) fmt::print("  the right program: {}\n", verdict.verdict);
    for (const std::string& note : verdict.notes) {
      if (settings_.list) fmt::print("  {}\n", note);
    }
    if (verdict.verified && settings_.list) {
      CRUCIBLE_TRY(const bool is_far, is_far_for_roundings(right, verdict));
      fmt::print("  the right program: {}\n",
                 is_far ? "further from the recording than roundings explain" : "as near as roundings");
    }
    if (verdict.verified) return {};
    return Error{ErrorCode::kCheckFailed, "without any error it is not verified: " + verdict.reason};
  }

  /// As SpreadRun::consider() of `crucible replay`, before it looks at single ops.
  Result<void> explain(Run& run, runtime::Verification& verdict) {
    runtime::Spread spread;
    const bool with_outputs = std::ranges::any_of(verdict.outputs, &runtime::OutputDifference::is_bad);
    if (!verdict.differs()) return {};
    CRUCIBLE_TRY_VOID(run.session->start_spread(run.results, spread, with_outputs));
    const auto start = std::chrono::steady_clock::now();
    while (verdict.differs() && spread.runs < kMostRuns &&
           (spread.runs < kRuns || std::chrono::steady_clock::now() - start < std::chrono::seconds(30))) {
      CRUCIBLE_TRY_VOID(run.session->widen_spread(spread));
      runtime::consider_spread(verdict, spread);
    }
    if (verdict.differs() && 3 * runtime::reference_seconds(program_) * program_.iterations < 90) {
      if (!ends_) {
        CRUCIBLE_TRY(ends_, runtime::run_reference(program_, *blobs_, {.seconds = 30}));
      }
      CRUCIBLE_TRY_VOID(runtime::consider_reference(verdict, program_, *blobs_, run.end, *ends_));
    }
    return {};
  }

  /// Ops with a result that an error of a thousandth changes: not of integers. In bf16 numbers are further apart: there
  /// only a closer look can tell.
  std::vector<OpId> candidates() const {
    std::vector<OpId> ops;
    for (OpId op = 0; op < program_.ops.size(); ++op) {
      const graph::Value& value = program_.values[program_.ops[op].outputs[0].value];
      if (is_floating(value.dtype) && (settings_.closely || value.dtype != DType::kBF16) && value.elements > 0)
        ops.push_back(op);
    }
    return ops;
  }

  std::string op_text(OpId op) const {
    const graph::Op& its = program_.ops[op];
    std::string text = fmt::format("op {} ({})", op, graph::name(its.kind));
    if (its.source >= program_.sources.size()) return text;
    const graph::Source& source = program_.sources[its.source];
    return text + fmt::format(", {} at {} ({})", source.op, source.site, source.module);
  }

  /// Whether the planted run ends where the right one does, to within what one rounding of its start changes.
  Result<bool> is_absorbed(const Run& wrong) const {
    CRUCIBLE_TRY(const runtime::Noise noise,
                 runtime::Noise::find(program_, *blobs_, runtime::tolerances_of(program_).noise));
    constexpr double kRounding = 1e-6;
    for (std::size_t i = 0; i < spread_.first.losses.size(); ++i) {
      for (std::size_t output = 0; output < spread_.first.losses[i].size(); ++output) {
        const double far = runtime::relative_difference(wrong.end.losses[i][output], spread_.first.losses[i][output]);
        if (far > std::max(kRounding, runtime::kSpreads * spread_.losses[i][output])) return false;
      }
    }
    for (std::size_t i = 0; i < program_.states.size(); ++i) {
      const DType dtype = program_.values[program_.states[i].start].dtype;
      if (wrong.end.states[i] == spread_.first.states[i]) continue;
      if (!runtime::is_explained(noise.gap(i, dtype, wrong.end.states[i], spread_.first.states[i]), kRounding,
                                 spread_.states[i]))
        return false;
    }
    return std::ranges::all_of(wrong.results, [](const auto& result) {
      return std::ranges::all_of(result.outputs, [](const auto& output) { return output.max_rel_diff <= kRounding; });
    });
  }

  /// Whether something is further from the recording than eight times what one rounding of the start changes.
  Result<bool> is_far_for_roundings(Run& run, const runtime::Verification& verdict) const {
    runtime::Spread spread;
    CRUCIBLE_TRY_VOID(run.session->start_spread(run.results, spread, true));
    while (spread.runs < kRuns) CRUCIBLE_TRY_VOID(run.session->widen_spread(spread));
    return runtime::is_far_for_roundings(verdict, run.results, spread);
  }

  Result<Fate> fate_of(OpId op) {
    CRUCIBLE_TRY(Run wrong, run(planted(program_, op, settings_.factor)));
    CRUCIBLE_TRY(runtime::Verification verdict, wrong.session->verify(wrong.results));
    bool is_far = !verdict.verified;
    if (verdict.verified) {
      CRUCIBLE_TRY(is_far, is_far_for_roundings(wrong, verdict));
    }
    if (!is_far) {
      CRUCIBLE_TRY(const bool absorbed, is_absorbed(wrong));
      return absorbed ? Fate::kAbsorbed : Fate::kMissed;
    }
    CRUCIBLE_TRY_VOID(explain(wrong, verdict));
    if (verdict.differs()) return Fate::kFound;
    // The error is the device's: what it computes of each op is compared with what the op is.
    const auto watched =
        std::make_shared<const Program>(planted(runtime::with_every_result(program_), op, settings_.factor));
    CRUCIBLE_TRY(const std::unique_ptr<Session> session, Session::create(watched, blobs_, device_, {}));
    CRUCIBLE_TRY(const runtime::OpCheck check, runtime::check_ops(program_, *blobs_, *session, {}));
    if (check.first() != nullptr) return Fate::kFoundByOp;
    CRUCIBLE_TRY(const bool absorbed, is_absorbed(wrong));
    return absorbed ? Fate::kAbsorbed : Fate::kMissed;
  }

  const Settings& settings_;
  std::shared_ptr<backend::Device> device_;
  Program program_;
  std::shared_ptr<const trace::BlobStore> blobs_;
  runtime::Spread spread_;  // of the right program
  std::optional<runtime::ReferenceEnds> ends_;
};

std::optional<Settings> parse(int count, char** words) {
  Settings settings;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (word == "--list") settings.list = true;
    else if (word == "--closely") settings.closely = true;
    else if ((word == "--ops" || word == "--factor") && i + 1 < count)
      (word == "--ops" ? void(settings.ops = std::strtoul(words[++i], nullptr, 10))
                       : void(settings.factor = std::strtod(words[++i], nullptr)));
    else if (word.starts_with("--")) return std::nullopt;
    else settings.files.push_back(word);
  }
  if (settings.files.empty()) return std::nullopt;
  return settings;
}

Result<bool> plant_all(const Settings& settings) {
  const std::string cache = (std::filesystem::temp_directory_path() / "crucible_plant_errors").string();
  CRUCIBLE_TRY(const auto cpu, backend::Backend::load(CRUCIBLE_PLANT_CPU_PLUGIN, {{"cache_dir", cache}}));
  CRUCIBLE_TRY(const auto device, cpu->open(""));
  fmt::print("{:<28}{:>7}{:>8}{:>8}{:>8}{:>9}{:>8}{:>8}\n", "recording", "ops", "planted", "found", "by op", "absorbed",
             "missed", "found");
  bool is_enough = true;
  for (const std::string& file : settings.files) {
    Planter planter(settings, device);
    CRUCIBLE_TRY(const bool found, planter.plant(file));
    is_enough = is_enough && found;
  }
  return is_enough;
}

}  // namespace
}  // namespace crucible

int main(int count, char** words) {
  const auto settings = crucible::parse(count, words);
  if (!settings) {
    fmt::print(stderr, "usage: plant_errors FILE.crtrace... [--ops N] [--factor F] [--closely] [--list]\n");
    return 2;
  }
  const crucible::Result<bool> enough = crucible::plant_all(*settings);
  if (!enough) fmt::print(stderr, "plant_errors: {}\n", enough.error().message);
  return !enough ? 2 : *enough ? 0 : 1;
}
