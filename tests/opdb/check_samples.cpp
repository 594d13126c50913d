// check_samples FILE [--plugin FILE]: lowers every sample of a recording of record_samples.py by itself, runs it on the
// reference interpreter and, with --plugin, all that agree together on that plugin; prints one JSON object per sample:
//   {"sample": 3, "outcome": "passed", "reference": 1.2e-7, "plugin": 1.3e-7}
//   {"sample": 4, "outcome": "unsupported", "reason": "no lowering: aten::_linalg_svd"}
// With --lowered instead of a file: reads names of overloads from standard input and prints those that have a lowering.
// "ulps": of each result of f16 or bf16 whose float64 numbers are known (FILE's neighbour .exact.json) how far the
// reference's and eager's largest errors are, in units in the last place - 0.5 is rounded once - and how many recorded
// ops round on the way to it. "roundings": recorded ops whose lowering rounds and computes on. Outcomes: passed, failed
// (a result differs, or a stage refuses what an earlier one gave), unsupported (not lowered).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "core/graph/composite.hpp"
#include "core/graph/program.hpp"
#include "core/graph/reference.hpp"
#include "core/trace/trace_file.hpp"
#include "frontends/aten/algebra/rounding.hpp"
#include "frontends/aten/lower.hpp"
#include "frontends/aten/lower_table.hpp"
#include "plugins/loader/backend.hpp"
#include "plugins/loader/testing/kept.hpp"
#include "runtime/judge/compare.hpp"
#include "runtime/run/session.hpp"
#include "tests/opdb/join_programs.hpp"
#include "tests/opdb/sample_traces.hpp"

namespace crucible {
namespace {

using Json = nlohmann::ordered_json;

/// How far a result may be from eager's, over the tensor's largest element; eager itself rounds differently in long
/// sums, and its f16 and bf16 kernels round intermediate results where ours do not or the other way round.
double tolerance(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return 1e-10;
    case DType::kF32:
      return 2e-5;
    case DType::kF16:
      return 2e-3;
    case DType::kBF16:
      return 1.6e-2;
    default:
      return 0;
  }
}

/// Below this a difference counts as none: results that are zero but for rounding (the gradient of a norm of one
/// element).
double absolute_tolerance(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return 1e-12;
    case DType::kF32:
      return 1e-6;
    case DType::kF16:
    case DType::kBF16:
      return 1e-4;
    default:
      return 0;
  }
}

/// What FILE's neighbour FILE without .crtrace + .errors.json says: how far eager's own results are from those of
/// float64, by name. Twice that is a rounding that ours may have otherwise. Nothing where there is no such file.
using EagerErrors = std::map<std::string, double>;

Result<EagerErrors> read_eager_errors(const std::string& path) {
  std::ifstream file(std::filesystem::path(path).replace_extension(".errors.json"));
  if (!file) return EagerErrors{};
  const auto json = Json::parse(file, nullptr, false);
  if (!json.is_object())
    return Error{ErrorCode::kBadInput, "the file of eager's errors beside " + path + " is no JSON object"};
  EagerErrors errors;
  for (const auto& [name, error] : json.items()) {
    if (error.is_number()) errors[name] = error.get<double>();
  }
  return errors;
}

/// FILE's neighbour FILE without .crtrace + .exact.json: results that eager computed of the same numbers in float64, by
/// name; null where no finite one.
Json read_exact(const std::string& path) {
  std::ifstream file(std::filesystem::path(path).replace_extension(".exact.json"));
  return file ? Json::parse(file, nullptr, false) : Json();
}

void note(std::optional<double>& worst, double difference) { worst = std::max(worst.value_or(0), difference); }

/// The largest distance from the exact numbers, in units in the last place of theirs; nothing where no number counts,
/// as when all are NaN. Numbers that the dtype has not as normal ones do not count.
std::optional<double> ulps_of(DType dtype, const std::vector<std::byte>& bytes, const Json& exact) {
  const int precision = dtype == DType::kF16 ? 11 : 8;
  const double least = dtype == DType::kF16 ? 0x1p-14 : 0x1p-126, most = dtype == DType::kF16 ? 65504 : 3e38;
  const std::size_t width = size_bytes(dtype);
  if (!exact.is_array() || exact.size() * width != bytes.size()) return std::nullopt;
  std::optional<double> worst;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    if (!exact[i].is_number()) continue;
    const double want = exact[i].get<double>(),
                 got = runtime::element_as_double(dtype, std::span(bytes).subspan(i * width, width));
    if (std::fabs(want) < least || std::fabs(want) > most || !std::isfinite(got)) continue;
    note(worst, std::fabs(got - want) / std::ldexp(1.0, std::ilogb(want) - precision + 1));
  }
  return worst;
}

/// `relative` is what runtime::compare says of the recorded bytes: a share of their largest element.
bool agrees(DType dtype, double relative, const std::vector<std::byte>& recorded, double eager_error) {
  if (relative <= tolerance(dtype)) return true;
  double largest = 0;
  const std::size_t width = size_bytes(dtype);
  for (std::size_t at = 0; at + width <= recorded.size(); at += width) {
    const double element = std::fabs(runtime::element_as_double(dtype, std::span(recorded).subspan(at, width)));
    if (std::isfinite(element)) largest = std::max(largest, element);
  }
  return relative * largest <= std::max(absolute_tolerance(dtype), 2 * eager_error);
}

struct Sample {
  std::uint32_t number = 0;
  std::string outcome = "passed", reason;
  std::optional<double> reference, plugin;
  std::optional<graph::Program> program;
  std::size_t results = 0;  // tensors with elements that the sample left behind
  EagerErrors eager_errors;
  Json ulps = Json::object();    // by result: the reference's and eager's
  std::set<std::string> roundings;  // recorded ops
  std::map<std::string, std::size_t> rounding_ops;  // by state: how many recorded ops round on the way to it

  double eager_error(const std::string& result) const {
    const auto found = eager_errors.find(result);
    return found == eager_errors.end() ? 0 : found->second;
  }

  void fail(std::string why) {
    outcome = "failed";
    reason = std::move(why);
  }
};

/// "aten::sort, aten::svd" of the error that lists ops without a lowering, else the error.
std::string short_reason(const std::string& error) {
  if (error.find("no lowering:") == std::string::npos) return error;
  std::string names;
  std::size_t line = error.find('\n');
  while (line != std::string::npos) {
    const std::size_t begin = error.find_first_not_of(' ', line + 1);
    const std::size_t end = error.find(": ", begin);
    if (begin == std::string::npos || end == std::string::npos) break;
    names += (names.empty() ? "" : ", ") + error.substr(begin, end - begin);
    line = error.find('\n', end);
  }
  return "no lowering: " + names;
}

/// Compares the final states of a program with the recorded ones; `bytes_of` gives state number s.
template <class BytesOf>
void judge(Sample& sample, const trace::BlobStore& blobs, std::optional<double>& worst, const char* where,
           BytesOf bytes_of) {
  const graph::Program& program = *sample.program;
  std::size_t compared = 0;
  for (std::size_t s = 0; s < program.states.size(); ++s) {
    const graph::State& state = program.states[s];
    const graph::Value& value = program.values[state.start];
    if (state.final_blob == graph::kNone || state.end == state.start || value.elements == 0) continue;
    const auto recorded = blobs.load(state.final_blob);
    if (!recorded) return sample.fail(recorded.error().message);
    const auto difference = runtime::compare(value.dtype, bytes_of(s), *recorded);
    if (!difference) return sample.fail(difference.error().message);
    note(worst, difference->max_rel_diff);
    if (!agrees(value.dtype, difference->max_rel_diff, *recorded, sample.eager_error(value.name)) &&
        sample.outcome == "passed") {
      sample.fail(
          fmt::format("{}: {} ({}) differs by {:.3g}", where, value.name, name(value.dtype), difference->max_rel_diff));
    }
    ++compared;
  }
  if (compared < sample.results && sample.outcome == "passed")
    sample.fail(fmt::format("{}: {} of {} results were replayed", where, compared, sample.results));
}

/// Of equal numbers other ones were named than by eager: their gradients stand elsewhere.
bool names_others(const Sample& sample, const trace::BlobStore& blobs,
                  const std::vector<std::vector<std::byte>>& states) {
  for (std::size_t s = 0; s < states.size(); ++s) {
    const graph::State& state = sample.program->states[s];
    if (!is_integral(sample.program->values[state.start].dtype) || state.end == state.start ||
        state.final_blob == graph::kNone)
      continue;
    if (const auto recorded = blobs.load(state.final_blob); recorded && *recorded != states[s]) return true;
  }
  return false;
}

/// How often a result of f16 or bf16 was rounded shows in its distance from the float64 one.
void measure(Sample& sample, const trace::BlobStore& blobs, const std::vector<std::vector<std::byte>>& states,
             const Json& exact) {
  if (!exact.is_object() || names_others(sample, blobs, states)) return;
  for (std::size_t s = 0; s < states.size(); ++s) {
    const graph::State& state = sample.program->states[s];
    const graph::Value& value = sample.program->values[state.start];
    const auto numbers = exact.find(value.name);
    if ((value.dtype != DType::kF16 && value.dtype != DType::kBF16) || numbers == exact.end() ||
        state.final_blob == graph::kNone)
      continue;
    const auto recorded = blobs.load(state.final_blob);
    const auto ours = ulps_of(value.dtype, states[s], *numbers),
               theirs = recorded ? ulps_of(value.dtype, *recorded, *numbers) : std::nullopt;
    if (ours && theirs)
      sample.ulps[value.name.substr(value.name.find('.') + 1)] = {*ours, *theirs, sample.rounding_ops[value.name]};
  }
}

void find_roundings(Sample& sample, const trace::Trace& part) {
  auto program = aten::lower_without_passes(part);
  if (!program) return;
  graph::expand_composites(*program);
  for (const aten::MiddleRounding& rounding : aten::middle_roundings(*program))
    sample.roundings.insert(program->sources[rounding.source].op);
  for (const graph::State& state : program->states) {
    if (state.end != state.start)
      sample.rounding_ops[program->values[state.start].name] = aten::rounding_ops(*program, state.end).size();
  }
}

void run_reference(Sample& sample, const trace::BlobStore& blobs, const Json& exact) {
  const auto replay = graph::replay_reference(*sample.program, blobs, sample.program->iterations);
  if (!replay) return sample.fail("reference: " + replay.error().message);
  judge(sample, blobs, sample.reference, "reference",
        [&](std::size_t s) -> const std::vector<std::byte>& { return replay->states[s]; });
  measure(sample, blobs, replay->states, exact);
}

/// One session for all `samples`; an error when the stages refuse the joined program.
Result<void> run_plugin(const std::vector<Sample*>& samples, const trace::Trace& trace,
                        const std::shared_ptr<backend::Device>& device) {
  graph::Program joined;
  for (const Sample* sample : samples) opdb::append(joined, *sample->program);
  const auto program = std::make_shared<const graph::Program>(std::move(joined));
  CRUCIBLE_TRY_VOID(graph::verify(*program));
  CRUCIBLE_TRY(const auto session, runtime::Session::create(program, trace.blob_store, device, {}));
  std::vector<runtime::IterationResult> results;
  for (std::uint32_t i = 0; i < program->iterations; ++i) {
    CRUCIBLE_TRY(auto result, session->run(i));
    results.push_back(std::move(result));
  }
  CRUCIBLE_TRY(const runtime::Verification verdict, session->verify(results));
  std::map<std::string, double> difference_of;
  for (const auto& state : verdict.states) difference_of[state.name] = state.max_rel_diff;
  for (Sample* sample : samples) {
    for (const graph::State& state : sample->program->states) {
      const graph::Value& value = sample->program->values[state.start];
      const auto found = difference_of.find(value.name);
      if (state.end == state.start || found == difference_of.end()) continue;
      note(sample->plugin, found->second);
      CRUCIBLE_TRY(const auto recorded, trace.blob_store->load(state.final_blob));
      if (!agrees(value.dtype, found->second, recorded, sample->eager_error(value.name)) &&
          sample->outcome == "passed") {
        sample->fail(fmt::format("plugin: {} ({}) differs by {:.3g}", value.name, name(value.dtype), found->second));
      }
    }
  }
  return {};
}

/// Halves what is refused until the sample that is to blame stands alone.
void run_plugin_apart(const std::vector<Sample*>& samples, const trace::Trace& trace,
                      const std::shared_ptr<backend::Device>& device) {
  if (samples.empty()) return;
  const auto done = run_plugin(samples, trace, device);
  if (done) return;
  if (samples.size() == 1) return samples[0]->fail("plugin: " + done.error().message);
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  run_plugin_apart({samples.begin(), middle}, trace, device);
  run_plugin_apart({middle, samples.end()}, trace, device);
}

Result<std::shared_ptr<backend::Device>> open(const std::string& plugin, bool is_sanitized) {
  std::map<std::string, std::string> options = {{"threads", "1"}};
  if (is_sanitized) options["sanitize"] = "true";
  CRUCIBLE_TRY(const auto backend, backend::Backend::load(plugin, options, backend::shared_store()));
  return backend->open("");
}

/// True for what a sample only reads: the weights of a module. A result that happens to end as it began is not missed
/// by the count.
bool is_unchanged(const trace::Trace& part, const trace::FinalState& state) {
  return std::ranges::any_of(part.externals, [&](const trace::External& external) {
    return external.storage == state.storage && part.blobs[external.blob].hash == part.blobs[state.blob].hash;
  });
}

Result<int> check(const std::string& path, const std::string& plugin, bool is_sanitized) {
  CRUCIBLE_TRY(const trace::Trace trace, trace::read_file(path));
  CRUCIBLE_TRY(const EagerErrors eager_errors, read_eager_errors(path));
  const Json exact = read_exact(path);
  std::vector<Sample> samples;
  for (const std::uint32_t number : opdb::sample_numbers(trace)) {
    Sample sample;
    sample.number = number;
    sample.eager_errors = eager_errors;
    const trace::Trace part = opdb::cut_sample(trace, number);
    sample.results =
        static_cast<std::size_t>(std::ranges::count_if(part.final_states, [&](const trace::FinalState& state) {
          return trace.blobs[state.blob].size_bytes > 0 && !is_unchanged(part, state);
        }));
    auto program = aten::lower(part);
    if (program) {
      sample.program = *std::move(program);
      find_roundings(sample, part);
      run_reference(sample, *trace.blob_store, exact);
    } else {
      sample.outcome = "unsupported";
      sample.reason = short_reason(program.error().message);
    }
    samples.push_back(std::move(sample));
  }
  if (!plugin.empty()) {
    CRUCIBLE_TRY(const auto device, open(plugin, is_sanitized));
    std::vector<Sample*> agreeing;
    for (Sample& sample : samples) {
      if (sample.outcome == "passed") agreeing.push_back(&sample);
    }
    constexpr std::size_t kTogether = 60;
    for (std::size_t at = 0; at < agreeing.size(); at += kTogether) {
      const auto begin = agreeing.begin() + static_cast<std::ptrdiff_t>(at);
      run_plugin_apart({begin, begin + static_cast<std::ptrdiff_t>(std::min(kTogether, agreeing.size() - at))}, trace,
                       device);
    }
  }
  for (const Sample& sample : samples) {
    Json line{{"sample", sample.number}, {"outcome", sample.outcome}};
    if (!sample.reason.empty()) line["reason"] = sample.reason;
    if (sample.reference) line["reference"] = *sample.reference;
    if (sample.plugin) line["plugin"] = *sample.plugin;
    if (!sample.ulps.empty()) line["ulps"] = sample.ulps;
    if (!sample.roundings.empty()) line["roundings"] = sample.roundings;
    fmt::print("{}\n", line.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  return 0;
}

}  // namespace
}  // namespace crucible

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "--lowered") {
    for (std::string name; std::getline(std::cin, name);) {
      if (crucible::aten::find_entry(name)) fmt::print("{}\n", name);
    }
    return 0;
  }
  const bool is_sanitized = argc == 5 && std::string(argv[4]) == "--sanitize";
  const bool with_plugin = (argc == 4 || is_sanitized) && std::string(argv[2]) == "--plugin";
  if (argc != 2 && !with_plugin) {
    std::fputs("usage: check_samples FILE [--plugin FILE [--sanitize]] | --lowered <NAMES\n", stderr);
    return 2;
  }
  const auto done = crucible::check(argv[1], with_plugin ? argv[3] : "", is_sanitized);
  if (!done) {
    std::fprintf(stderr, "check_samples: %s\n", done.error().message.c_str());
    return 3;
  }
  return *done;
}
