// How many wrong ops `--verify` finds. For one op of a recording at a time, in all iterations, what the CPU plugin
// computes is multiplied by 1.001, and the replay is judged as `crucible replay --verify` judges it: at once, then by
// runs one rounding apart, by the reference interpreter, and op by op. A run that is verified at once is looked at op
// by op where it is further from the recording than roundings explain.
//
//     plant_errors FILE.crtrace... [--ops N] [--factor F] [--closely] [--list]
//
// Of a recording of several variants an op is one of one variant, wrong in that one alone.
// --ops: as many ops, evenly spread over the programs (default: all). Each op is one of
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
#include "core/trace/trace_file.hpp"
#include "frontends/aten/lower.hpp"
#include "plugins/loader/backend.hpp"
#include "plugins/loader/testing/kept.hpp"
#include "runtime/judge/compare.hpp"
#include "runtime/judge/explain.hpp"
#include "runtime/judge/noise.hpp"
#include "runtime/judge/side_by_side.hpp"

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

/// An op of one variant.
struct Place {
  std::uint32_t variant = 0;
  OpId op = 0;
  auto operator<=>(const Place&) const = default;
};

/// The same in one variant alone.
graph::Variants planted(graph::Variants wrong, const Place& place, double factor) {
  auto& program = wrong.programs[place.variant];
  program = std::make_shared<const Program>(planted(*program, place.op, factor));
  return wrong;
}

/// Programs on the device, run to their end.
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
    CRUCIBLE_TRY(variants_, aten::lower_variants(trace, aten::Opaques::kMissing));
    blobs_ = trace.blob_store;
    ends_.reset();
    spread_ = {};
    CRUCIBLE_TRY(Run right, run(variants_));
    if (settings_.closely) return plant_closely(file);
    CRUCIBLE_TRY_VOID(judge_right(right));
    CRUCIBLE_TRY(right, run(variants_));
    CRUCIBLE_TRY_VOID(right.session->start_spread(right.results, spread_));
    while (spread_.runs < kRuns) CRUCIBLE_TRY_VOID(right.session->widen_spread(spread_));
    std::map<Place, Fate> fates;
    for (const Place& place : chosen()) {
      CRUCIBLE_TRY(fates[place], fate_of(place));
    }
    return report(file, fates);
  }

 private:
  static constexpr std::uint32_t kRuns = 3, kMostRuns = 10;

  /// Whether enough was found.
  bool report(const std::string& file, const std::map<Place, Fate>& fates) const {
    const std::size_t all = candidates().size();
    std::map<Fate, std::size_t> count;
    std::string list;
    for (const auto& [place, fate] : fates) {
      ++count[fate];
      if (fate == Fate::kAbsorbed || fate == Fate::kMissed)
        list += fmt::format("  {:<9} {}\n", kFates[static_cast<int>(fate)], op_text(place));
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

  std::vector<Place> chosen() const {
    std::vector<Place> ops = candidates();
    const std::size_t all = ops.size();
    if (settings_.ops == 0 || settings_.ops >= all) return ops;
    for (std::size_t i = 0; i < settings_.ops; ++i) ops[i] = ops[i * all / settings_.ops];
    ops.resize(settings_.ops);
    return ops;
  }

  /// The right programs have to be right in each op; then all chosen ones are wrong at once. Of each variant the first
  /// iteration is checked.
  Result<bool> plant_closely(const std::string& file) {
    const std::vector<Place> ops = chosen();
    std::map<Place, Fate> fates;
    std::size_t all_ops = 0;
    std::uint32_t iterations = 0;  // until all variants have run
    for (std::uint32_t k = 0; k < variants_.turns.size(); ++k) {
      if (variants_.turns[k].index == 0) iterations = k + 1;
      all_ops += program(variants_.turns[k].variant).ops.size();
    }
    for (const bool is_wrong : {false, true}) {
      graph::Variants watched = runtime::with_every_result(variants_);
      for (std::size_t i = ops.size(); is_wrong && i > 0; --i)
        watched = planted(std::move(watched), ops[i - 1], settings_.factor);
      const auto shared = std::make_shared<const graph::Variants>(std::move(watched));
      CRUCIBLE_TRY(const std::unique_ptr<Session> session, Session::create(shared, blobs_, device_, {}));
      const runtime::ExplainOptions how{.seconds = std::numeric_limits<double>::infinity(),
                                        .differences = is_wrong ? all_ops : 1,
                                        .iterations = iterations};
      CRUCIBLE_TRY(const runtime::OpCheck check, runtime::check_ops(variants_, *blobs_, *session, how));
      if (!is_wrong && check.first() != nullptr) {
        return Error{ErrorCode::kCheckFailed,
                     "without any error an op is not right: " + runtime::in_words(variants_, *check.first())};
      }
      if (!is_wrong) continue;
      CRUCIBLE_TRY_VOID(session->reset());
      for (std::uint32_t k = 0; k < iterations; ++k) {
        CRUCIBLE_TRY_VOID(session->run(k));
        if (variants_.turns[k].index == 0)
          CRUCIBLE_TRY_VOID(note_absorbed(variants_.turns[k].variant, ops, *session, fates));
      }
      for (const runtime::OpDifference& difference : check.differences)
        fates[{difference.variant, difference.op}] = Fate::kFoundByOp;
    }
    return report(file, fates);
  }

  /// Of the variant that `session` has just run: which of the ops' results a factor leaves as they are.
  Result<void> note_absorbed(std::uint32_t variant, const std::vector<Place>& ops, const Session& session,
                             std::map<Place, Fate>& fates) const {
    const Program& its = program(variant);
    std::size_t output = its.outputs.size();
    std::map<OpId, std::size_t> output_of;
    for (OpId op = 0; op < its.ops.size(); output += its.ops[op++].outputs.size()) output_of[op] = output;
    for (const Place& place : ops) {
      if (place.variant != variant) continue;
      CRUCIBLE_TRY(const graph::Bytes bytes, session.output_bytes(output_of[place.op]));
      const graph::Op& op = its.ops[place.op];
      const DType dtype = its.values[op.outputs[0].value].dtype;
      const bool is_same = is_zero(dtype, bytes) || (dtype == DType::kBF16 && !can_widen(its, op));
      fates[place] = is_same ? Fate::kAbsorbed : Fate::kMissed;
    }
    return {};
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

  const Program& program(std::uint32_t variant) const { return *variants_.programs[variant]; }

  Result<Run> run(const graph::Variants& variants) const {
    Run run;
    const auto shared = std::make_shared<const graph::Variants>(variants);
    CRUCIBLE_TRY(run.session, Session::create(shared, blobs_, device_, {}));
    for (std::uint32_t i = 0; i < variants.turns.size(); ++i) {
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
    if (verdict.differs() && 3 * runtime::reference_seconds(variants_) < 90) {
      if (!ends_) {
        CRUCIBLE_TRY(ends_, runtime::run_reference(variants_, *blobs_, {.seconds = 30}));
      }
      CRUCIBLE_TRY_VOID(runtime::consider_reference(verdict, variants_, *blobs_, run.end, *ends_));
    }
    return {};
  }

  /// Ops with a result that an error of a thousandth changes: not of integers. In bf16 numbers are further apart: there
  /// only a closer look can tell.
  std::vector<Place> candidates() const {
    std::vector<Place> ops;
    for (std::uint32_t variant = 0; variant < variants_.programs.size(); ++variant) {
      const Program& its = program(variant);
      for (OpId op = 0; op < its.ops.size(); ++op) {
        const graph::Value& value = its.values[its.ops[op].outputs[0].value];
        if (is_floating(value.dtype) && (settings_.closely || value.dtype != DType::kBF16) && value.elements > 0)
          ops.push_back({variant, op});
      }
    }
    return ops;
  }

  std::string op_text(const Place& place) const {
    const Program& of = program(place.variant);
    const graph::Op& its = of.ops[place.op];
    std::string text = variants_.programs.size() == 1 ? "" : fmt::format("variant {}, ", place.variant);
    text += fmt::format("op {} ({})", place.op, graph::name(its.kind));
    if (its.source >= of.sources.size()) return text;
    const graph::Source& source = of.sources[its.source];
    return text + fmt::format(", {} at {} ({})", source.op, source.site, source.module);
  }

  /// Whether the planted run ends where the right one does, to within what one rounding of its start changes.
  Result<bool> is_absorbed(const Run& wrong) const {
    CRUCIBLE_TRY(const runtime::Noise noise,
                 runtime::Noise::find(program(0), *blobs_, runtime::tolerances_of(variants_).noise));
    constexpr double kRounding = 1e-6;
    for (std::size_t i = 0; i < spread_.first.losses.size(); ++i) {
      for (std::size_t output = 0; output < spread_.first.losses[i].size(); ++output) {
        const double far = runtime::relative_difference(wrong.end.losses[i][output], spread_.first.losses[i][output]);
        if (far > std::max(kRounding, runtime::kSpreads * spread_.losses[i][output])) return false;
      }
    }
    for (std::size_t i = 0; i < program(0).states.size(); ++i) {
      const DType dtype = program(0).values[program(0).states[i].start].dtype;
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

  Result<Fate> fate_of(const Place& place) {
    CRUCIBLE_TRY(Run wrong, run(planted(variants_, place, settings_.factor)));
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
    const auto watched = std::make_shared<const graph::Variants>(
        planted(runtime::with_every_result(variants_), place, settings_.factor));
    CRUCIBLE_TRY(const std::unique_ptr<Session> session, Session::create(watched, blobs_, device_, {}));
    CRUCIBLE_TRY(const runtime::OpCheck check, runtime::check_ops(variants_, *blobs_, *session, {}));
    if (check.first() != nullptr) return Fate::kFoundByOp;
    CRUCIBLE_TRY(const bool absorbed, is_absorbed(wrong));
    return absorbed ? Fate::kAbsorbed : Fate::kMissed;
  }

  const Settings& settings_;
  std::shared_ptr<backend::Device> device_;
  graph::Variants variants_;
  std::shared_ptr<const trace::BlobStore> blobs_;
  runtime::Spread spread_;  // of the right program
  std::optional<runtime::ReferenceEnds> ends_;
};

std::optional<Settings> parse(int count, char** words) {
  Settings settings;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (word == "--list")
      settings.list = true;
    else if (word == "--closely")
      settings.closely = true;
    else if ((word == "--ops" || word == "--factor") && i + 1 < count)
      (word == "--ops" ? void(settings.ops = std::strtoul(words[++i], nullptr, 10))
                       : void(settings.factor = std::strtod(words[++i], nullptr)));
    else if (word.starts_with("--"))
      return std::nullopt;
    else
      settings.files.push_back(word);
  }
  if (settings.files.empty()) return std::nullopt;
  return settings;
}

Result<bool> plant_all(const Settings& settings) {
  CRUCIBLE_TRY(const auto cpu, backend::Backend::load(CRUCIBLE_PLANT_CPU_PLUGIN, {}, backend::shared_store()));
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
