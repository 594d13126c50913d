// Keys, entries and measurements of choices: see choices.hpp.
#include "runtime/measure/choices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <chrono>
#include <cstring>
#include <random>
#include <utility>

#include "core/base/hash.hpp"
#include "runtime/run/device_identity.hpp"
#include "runtime/run/small_run.hpp"
#include "store/store.hpp"

namespace crucible::runtime {
namespace {

constexpr std::string_view kMaker = "crucible choice 3";  // grows when candidates are measured another way
constexpr const char* kRounds = "rounds";                 // in the evidence, beside the candidates

graph::OpKind op_kind(kernel::LibraryKind kind) {
  switch (kind) {
    case kernel::LibraryKind::kMatMul:
      return graph::OpKind::kMatMul;
    case kernel::LibraryKind::kConv2d:
      return graph::OpKind::kConv2d;
    case kernel::LibraryKind::kConv2dBackwardInput:
      return graph::OpKind::kConv2dBackwardInput;
    case kernel::LibraryKind::kConv2dBackwardWeight:
      return graph::OpKind::kConv2dBackwardWeight;
    case kernel::LibraryKind::kAttention:
    case kernel::LibraryKind::kAttentionForward:
    case kernel::LibraryKind::kAttentionBackward:
      break;  // of many ops: takes() leaves it out
  }
  return graph::OpKind::kMatMul;
}

std::string bytes_of(const kernel::LibraryCall& call) {
  const Result<crucible_library_desc> desc = describe(call);
  return desc ? std::string(reinterpret_cast<const char*>(&*desc), sizeof *desc) : std::string();
}

/// Numbers of ordinary size: zeros, subnormals and NaN are faster or slower than those.
Result<void> fill(SmallRun& candidate, const graph::Program& program) {
  std::minstd_rand generator(1);
  std::uniform_real_distribution<float> distribution(-1, 1);
  for (const graph::Input& input : program.inputs) {
    const graph::Value& value = program.values[input.value];
    std::vector<std::byte> bytes(static_cast<std::size_t>(value.elements) * size_bytes(value.dtype));
    for (std::size_t at = 0; at + sizeof(float) <= bytes.size(); at += sizeof(float)) {
      std::uint32_t word = std::bit_cast<std::uint32_t>(distribution(generator));
      // As halves: exponents in the middle, for f16 and for bf16.
      if (size_bytes(value.dtype) == 2) word = (static_cast<std::uint32_t>(generator()) & 0x03ff03ff) | 0x38003800;
      std::memcpy(bytes.data() + at, &word, sizeof word);
    }
    CRUCIBLE_TRY_VOID(candidate.write(input.value, bytes));
  }
  return {};
}

/// Units: nanoseconds.
Result<std::uint64_t> time_of(SmallRun& candidate) {
  const auto start = std::chrono::steady_clock::now();
  CRUCIBLE_TRY_VOID(candidate.run());
  const auto taken = std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count();
  return static_cast<std::uint64_t>(std::max<std::int64_t>(taken, 1));
}

/// As store::Tuning does it.
std::uint64_t median(std::vector<std::uint64_t>& times) {
  std::ranges::sort(times);
  return (times[(times.size() - 1) / 2] + times[times.size() / 2]) / 2;
}

std::uint64_t number(const std::string& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : 0;
}

}  // namespace

graph::Program program_of(const kernel::LibraryCall& call) {
  graph::Program program;
  program.iterations = 1;
  graph::Op op;
  op.kind = op_kind(call.kind);
  op.attributes = call.attributes;
  for (int i = 0; i < 3; ++i) {
    const graph::View& view = call.views[i];
    graph::Value value;
    value.kind = i < 2 ? graph::ValueKind::kInput : graph::ValueKind::kTemporary;
    value.dtype = i == 2 && call.keeps_f32 ? DType::kF32 : call.dtype;
    value.elements = view.elements() == 0 ? 0 : view.offset + 1;
    for (std::size_t d = 0; d < view.sizes.size() && value.elements > 0; ++d)
      value.elements += (view.sizes[d] - 1) * view.strides[d];
    if (i == 2) value.producer = 0;
    program.values.push_back(value);
    graph::Operand operand;
    operand.value = static_cast<graph::ValueId>(i);
    operand.view = view;
    (i < 2 ? op.inputs : op.outputs).push_back(operand);
    if (i < 2) program.inputs.push_back({operand.value, {0}, false});
  }
  program.outputs.push_back({.name = "result", .operand = op.outputs[0], .recorded = {}, .blobs = {0}});
  program.ops.push_back(std::move(op));
  return program;
}

Result<std::vector<kernel::LibraryCall>> products_of(const graph::Program& program, LibraryClaims& claims, bool fuse,
                                                     kernel::Numerics numerics) {
  kernel::Options options;
  options.fuse = fuse;
  options.numerics = numerics;
  options.claims = [&claims](const kernel::LibraryCall& call) { return claims.takes(call); };
  CRUCIBLE_TRY(const kernel::Schedule schedule, kernel::schedule(program, options));
  std::vector<kernel::LibraryCall> calls;
  std::map<std::string, bool> seen;
  for (const kernel::Step& step : schedule.steps) {
    if (step.kind == kernel::StepKind::kLibrary && kernel::is_attention(step.library.kind))
      continue;  // nothing to choose: see takes()
    for (const graph::OpId op : step.ops) {
      const auto call = kernel::library_call_of(program, program.ops[op]);
      if (call && call->views[2].elements() > 0 && seen.try_emplace(bytes_of(*call), true).second)
        calls.push_back(*call);
    }
  }
  return calls;
}

std::string words(const kernel::ProductCut& cut) {
  return fmt::format("{} x {} tiles, items of {} x {}", cut.tile_rows, cut.tile_columns, cut.item_rows,
                     cut.item_columns);
}

void ask(kernel::Options& options, LibraryClaims& claims, Choices* choices) {
  options.claims = [&claims, choices](const kernel::LibraryCall& call) {
    // Measured is the product alone, and it is the library's where an epilogue is asked for.
    if (call.epilogue != kernel::LibraryEpilogue::kNone) return claims.takes(call);
    return choices != nullptr ? choices->takes(claims, call) : claims.takes(call);
  };
  if (choices != nullptr) options.cut = [choices](const kernel::LibraryCall& call) { return choices->cut(call); };
}

std::size_t Choice::best_cut() const {
  return static_cast<std::size_t>(std::ranges::min_element(generated_ns) - generated_ns.begin());
}

Choices::Choices(std::shared_ptr<backend::Device> device, kernel::Numerics numerics)
    : device_(std::move(device)),
      numerics_(numerics),
      store_(device_->backend().store()),
      about_(key_about(*device_, "choice", numerics)) {
  about_.toolchain += fmt::format(", {}", kMaker);
}

std::string Choices::name_of(const std::vector<kernel::ProductCut>& cuts, std::size_t cut) {
  return cut < cuts.size() ? words(cuts[cut]) : "generated";
}

Choices::Entry& Choices::entry_of(const kernel::LibraryCall& call) {
  const std::string bytes = bytes_of(call);
  const auto [found, is_new] = entries_.try_emplace(bytes);
  Entry& entry = found->second;
  if (!is_new) return entry;
  const graph::Program program = program_of(call);
  const Result<kernel::Schedule> generated =
      kernel::schedule(program, {.claims = nullptr, .numerics = numerics_, .device = shape_of(*device_)});
  std::string text = bytes;
  if (generated) {
    for (const kernel::Kernel& kernel : generated->kernels) text += "\n" + kernel.name;
    for (const kernel::Step& step : generated->steps)
      entry.cuts.insert(entry.cuts.end(), step.cuts.begin(), step.cuts.end());
  }
  for (const kernel::ProductCut& cut : entry.cuts) text += "\n" + words(cut);
  entry.key = about_;
  entry.key.region = sha256(std::as_bytes(std::span(text)));
  return entry;
}

const Choice* Choices::find(const kernel::LibraryCall& call) {
  Entry& entry = entry_of(call);
  if (!std::exchange(entry.is_looked_for, true)) {
    entry.choice = look_for(entry);
  }
  return entry.choice ? &*entry.choice : nullptr;
}

std::optional<Choice> Choices::look_for(const Entry& entry) const {
  const std::optional<store::Statement> kept = store_ ? store_->get(entry.key) : std::nullopt;
  if (!kept) return std::nullopt;
  std::map<std::string, std::uint64_t> medians;
  for (const auto& [name, text] : kept->evidence) medians.emplace(name, number(text));
  // What was measured here counts all samples, those of later runs too.
  if (const Result<store::Tuning*> tuning = store_->tuning()) {
    if (const auto all = (*tuning)->candidates(store::hash_of(entry.key), device_->info().name)) {
      for (const store::Best& one : *all) medians[one.candidate] = static_cast<std::uint64_t>(one.median_ns);
    }
  }
  Choice choice;
  choice.library_ns = medians[kLibrary];
  choice.rounds = static_cast<std::uint32_t>(medians[kRounds]);
  for (std::size_t cut = 0; cut < std::max<std::size_t>(entry.cuts.size(), 1); ++cut) {
    choice.generated_ns.push_back(medians[name_of(entry.cuts, cut)]);
    if (choice.generated_ns.back() == 0) return std::nullopt;
  }
  return choice.rounds > 0 ? std::optional(std::move(choice)) : std::nullopt;
}

bool Choices::takes(LibraryClaims& claims, const kernel::LibraryCall& call) {
  if (!claims.takes(call)) return false;
  if (kernel::is_attention(call.kind)) return true;
  const Choice* const choice = find(call);
  return choice == nullptr || !choice->is_generated();
}

std::size_t Choices::cut(const kernel::LibraryCall& call) {
  const Choice* const choice = find(call);
  return choice != nullptr ? choice->best_cut() : 0;
}

Choices::Summary Choices::summary() const {
  Summary summary;
  for (const auto& [bytes, entry] : entries_) {
    ++summary.calls;
    if (!entry.choice) continue;
    ++summary.measured;
    if (!entry.choice->is_generated()) continue;
    ++summary.generated;
    if (entry.choice->best_cut() > 0) ++summary.recut;
  }
  return summary;
}

Result<Choice> Choices::measure(LibraryClaims& claims, const kernel::LibraryCall& call) {
  constexpr std::uint32_t kWarmRounds = 3, kFewestRounds = 7, kMostRounds = 101;
  constexpr auto kLong = std::chrono::milliseconds(100);
  const graph::Program program = program_of(call);
  Entry& entry = entry_of(call);
  const bool has_library = numerics_ == kernel::Numerics::kFast && claims.takes(call);
  std::vector<SmallRun> candidates;  // the library last
  const std::size_t cuts = std::max<std::size_t>(entry.cuts.size(), 1);
  for (std::size_t cut = 0; cut < cuts + (has_library ? 1 : 0); ++cut) {
    CRUCIBLE_TRY(SmallRun candidate,
                 SmallRun::make(device_, program, numerics_, {.by_library = cut == cuts, .cut = cut}));
    CRUCIBLE_TRY_VOID(fill(candidate, program));
    candidates.push_back(std::move(candidate));
  }
  std::vector<std::vector<std::uint64_t>> times(candidates.size());
  const auto start = std::chrono::steady_clock::now();
  for (std::uint32_t round = 0; round < kMostRounds; ++round) {
    if (round >= kWarmRounds + kFewestRounds && std::chrono::steady_clock::now() - start > kLong) break;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      CRUCIBLE_TRY(const std::uint64_t time, time_of(candidates[i]));
      if (round >= kWarmRounds) times[i].push_back(time);
    }
  }
  const std::vector<std::vector<std::uint64_t>> samples = times;
  Choice choice;
  choice.rounds = static_cast<std::uint32_t>(times[0].size());
  if (has_library) {
    choice.library_ns = median(times.back());
    times.pop_back();
  }
  for (auto& of_one : times) choice.generated_ns.push_back(median(of_one));
  entry.is_looked_for = true;
  entry.choice = choice;
  if (const Result<void> kept = keep(entry, samples); !kept) failure_ = kept.error().message;
  return choice;
}

Result<void> Choices::keep(const Entry& entry, const std::vector<std::vector<std::uint64_t>>& times) const {
  if (!store_) return Error{ErrorCode::kUnavailable, "there is no store in which it could be kept"};
  std::map<std::string, std::string> evidence = {{kRounds, std::to_string(entry.choice->rounds)}};
  const std::int64_t now = std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
  std::vector<store::Sample> samples;
  for (std::size_t i = 0; i < times.size(); ++i) {
    const bool is_library = i == entry.choice->generated_ns.size();
    const std::string name = is_library ? kLibrary : name_of(entry.cuts, i);
    evidence[name] = std::to_string(is_library ? entry.choice->library_ns : entry.choice->generated_ns[i]);
    for (const std::uint64_t time : times[i]) {
      samples.push_back({.id = "",
                         .action = store::hash_of(entry.key),
                         .candidate = name,
                         .device = device_->info().name,
                         .time_ns = static_cast<double>(time),
                         .maker = std::string(kMaker),
                         .made_ns = now});
    }
  }
  CRUCIBLE_TRY(store::Tuning* const tuning, store_->tuning());
  CRUCIBLE_TRY([[maybe_unused]] const std::uint64_t added, tuning->add(std::move(samples)));
  return store_->put(entry.key, {}, std::string(kMaker), evidence);
}

}  // namespace crucible::runtime
