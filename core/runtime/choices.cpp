// Keys, files and measurements of choices: see choices.hpp.
#include "core/runtime/choices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "core/base/hash.hpp"
#include "core/runtime/device_identity.hpp"
#include "core/runtime/small_run.hpp"
#include "core/trace/output_file.hpp"

namespace crucible::runtime {
namespace {

constexpr std::string_view kFormat = "crucible choice 1";

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
  }
  return graph::OpKind::kMatMul;
}

std::string bytes_of(const kernel::LibraryCall& call) {
  const Result<crucible_library_desc> desc = describe(call);
  return desc ? std::string(reinterpret_cast<const char*>(&*desc), sizeof *desc) : std::string();
}

std::string hash_of(const std::string& text) { return sha256(std::as_bytes(std::span(text))).hex(); }

/// Numbers of ordinary size: zeros, subnormals and NaN are faster or slower than those.
Result<void> fill(SmallRun& candidate, const graph::Program& program) {
  std::minstd_rand generator(1);
  std::uniform_real_distribution<float> distribution(-1, 1);
  for (const graph::Input& input : program.inputs) {
    const graph::Value& value = program.values[input.value];
    std::vector<float> numbers(static_cast<std::size_t>(value.elements) * size_bytes(value.dtype) / sizeof(float));
    for (float& number : numbers) number = distribution(generator);
    CRUCIBLE_TRY_VOID(candidate.write(input.value, std::as_bytes(std::span(numbers))));
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

std::uint64_t median(std::vector<std::uint64_t>& times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::ranges::nth_element(times, middle);
  return *middle;
}

std::optional<Choice> read_choice(const std::filesystem::path& file) {
  std::ifstream stream(file);
  if (!stream) return std::nullopt;
  const nlohmann::json document = nlohmann::json::parse(stream, nullptr, false);
  if (!document.is_object() || !document.contains("format") || document["format"] != kFormat) return std::nullopt;
  const auto number = [&](const char* name) -> std::uint64_t {
    const auto found = document.find(name);
    return found != document.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
  };
  const Choice choice{number("library_ns"), number("generated_ns"), static_cast<std::uint32_t>(number("rounds"))};
  if (choice.library_ns == 0 || choice.generated_ns == 0 || choice.rounds == 0) return std::nullopt;
  return choice;
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
    value.dtype = call.dtype;
    value.elements = view.elements() == 0 ? 0 : view.offset + 1;
    for (std::size_t d = 0; d < view.sizes.size() && value.elements > 0; ++d) value.elements += (view.sizes[d] - 1) * view.strides[d];
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

Result<std::vector<kernel::LibraryCall>> library_calls_of(const graph::Program& program, LibraryClaims& claims, bool fuse) {
  kernel::Options options;
  options.fuse = fuse;
  options.claims = [&claims](const kernel::LibraryCall& call) { return claims.takes(call); };
  CRUCIBLE_TRY(const kernel::Schedule schedule, kernel::schedule(program, options));
  std::vector<kernel::LibraryCall> calls;
  std::map<std::string, bool> seen;
  for (const kernel::Step& step : schedule.steps) {
    if (step.kind == kernel::StepKind::kLibrary && seen.try_emplace(bytes_of(step.library), true).second) calls.push_back(step.library);
  }
  return calls;
}

Choices::Choices(std::filesystem::path folder, std::shared_ptr<backend::Device> device)
    : folder_(std::move(folder)), device_(std::move(device)), identity_(std::string(kFormat) + "\n" + identity_of(*device_)) {}

std::string Choices::key_of(const kernel::LibraryCall& call) {
  const std::string bytes = bytes_of(call);
  const auto [entry, is_new] = keys_.try_emplace(bytes);
  if (!is_new) return entry->second;
  const Result<kernel::Schedule> generated = kernel::schedule(program_of(call), {.claims = nullptr, .device = shape_of(*device_)});
  std::string text = identity_ + "\n" + bytes;
  if (generated) {
    for (const kernel::Kernel& kernel : generated->kernels) text += "\n" + kernel.name;
  }
  return entry->second = hash_of(text);
}

const Choice* Choices::find(const kernel::LibraryCall& call) {
  const std::string key = key_of(call);
  const auto [entry, is_new] = known_.try_emplace(key);
  if (is_new) entry->second = read_choice(file_of(call));
  return entry->second ? &*entry->second : nullptr;
}

bool Choices::takes(LibraryClaims& claims, const kernel::LibraryCall& call) {
  if (!claims.takes(call)) return false;
  const Choice* const choice = find(call);
  return choice == nullptr || !choice->is_generated();
}

Choices::Summary Choices::summary() const {
  Summary summary;
  for (const auto& [key, choice] : known_) {
    ++summary.calls;
    if (!choice) continue;
    ++summary.measured;
    if (choice->is_generated()) ++summary.generated;
  }
  return summary;
}

Result<Choice> Choices::measure(const kernel::LibraryCall& call) {
  constexpr std::uint32_t kWarmRounds = 3, kFewestRounds = 7, kMostRounds = 101;
  constexpr auto kLong = std::chrono::milliseconds(100);
  const graph::Program program = program_of(call);
  CRUCIBLE_TRY(SmallRun library, SmallRun::make(device_, program, kernel::Numerics::kFast, true));
  CRUCIBLE_TRY(SmallRun generated, SmallRun::make(device_, program, kernel::Numerics::kFast, false));
  CRUCIBLE_TRY_VOID(fill(library, program));
  CRUCIBLE_TRY_VOID(fill(generated, program));
  std::vector<std::uint64_t> library_ns, generated_ns;
  const auto start = std::chrono::steady_clock::now();
  for (std::uint32_t round = 0; round < kMostRounds; ++round) {
    if (round >= kWarmRounds + kFewestRounds && std::chrono::steady_clock::now() - start > kLong) break;
    CRUCIBLE_TRY(const std::uint64_t first, time_of(library));
    CRUCIBLE_TRY(const std::uint64_t second, time_of(generated));
    if (round < kWarmRounds) continue;
    library_ns.push_back(first);
    generated_ns.push_back(second);
  }
  const Choice choice{median(library_ns), median(generated_ns), static_cast<std::uint32_t>(library_ns.size())};
  known_[key_of(call)] = choice;
  if (const Result<void> kept = keep(file_of(call), choice); !kept) failure_ = kept.error().message;
  return choice;
}

Result<void> Choices::keep(const std::filesystem::path& file_name, const Choice& choice) const {
  const nlohmann::ordered_json document = {{"format", kFormat},
                                           {"library_ns", choice.library_ns},
                                           {"generated_ns", choice.generated_ns},
                                           {"rounds", choice.rounds},
                                           {"device", device_->info().name}};
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  const std::string text = document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  CRUCIBLE_TRY(trace::OutputFile file, trace::OutputFile::create(file_name));
  CRUCIBLE_TRY_VOID(file.append(std::as_bytes(std::span(text))));
  return file.commit();
}

}  // namespace crucible::runtime
