// crucible_reference FILE [--iterations N | --composites]: lowers a recording, replays it with the reference
// interpreter and prints how far losses, outputs and final states are from the recorded ones, as JSON. With
// --composites they stay whole, and the interpreter's own implementations run. With --names: every op that has a
// lowering. With --support: what is known of each name of standard input; with --refusals: what the refusals name. The
// yardstick of tests/aten; not installed.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "core/graph/program.hpp"
#include "core/graph/reference.hpp"
#include "core/graph/reference_composite.hpp"
#include "core/trace/trace_file.hpp"
#include "frontends/aten/call/refusals.hpp"
#include "frontends/aten/lower.hpp"
#include "frontends/aten/lower_table.hpp"

namespace crucible {
namespace {

using Json = nlohmann::ordered_json;

/// Largest |a - b| over the largest |b|, NaN equal to NaN only.
double relative_difference(const graph::Numbers& a, const graph::Numbers& b) {
  double difference = 0, largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double x = a.as_real(i), y = b.as_real(i);
    if (std::isnan(x) && std::isnan(y)) continue;
    if (x == y) {
      if (std::isfinite(y)) largest = std::max(largest, std::fabs(y));
      continue;
    }
    if (!std::isfinite(x) || !std::isfinite(y)) return HUGE_VAL;
    difference = std::max(difference, std::fabs(x - y));
    largest = std::max(largest, std::fabs(y));
  }
  return difference == 0 ? 0 : difference / std::max(largest, 1e-30);
}

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(fmt::format("{}", value)); }

Result<Json> compare(const std::string& path, std::uint32_t iterations, bool is_whole) {
  CRUCIBLE_TRY(const auto trace, trace::read_file(path));
  const graph::KeepsComposite keeps = is_whole ? graph::KeepsComposite(graph::reference_keeps) : nullptr;
  CRUCIBLE_TRY(const auto program, aten::lower(trace, aten::Opaques::kRefuse, keeps));
  iterations = std::min(iterations, program.iterations);
  const auto begin = std::chrono::steady_clock::now();
  CRUCIBLE_TRY(const auto replay, graph::replay_reference(program, *trace.blob_store, iterations));
  Json json{{"iterations", iterations},
            {"ops", program.ops.size()},
            {"composites", std::ranges::count(program.ops, graph::OpKind::kComposite, &graph::Op::kind)},
            {"slots", program.slots.size()},
            {"inputs", program.inputs.size()},
            {"constants", program.constants.size()}};
  json["seconds"] = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  json["losses"] = Json::array();
  for (std::uint32_t i = 0; i < iterations; ++i) {
    for (std::size_t k = 0; k < replay.outputs[i].size(); ++k) {
      const double recorded = program.outputs[k].recorded[i], replayed = replay.outputs[i][k];
      json["losses"].push_back(
          {{"recorded", number(recorded)},
           {"replayed", number(replayed)},
           {"rel_diff", number(std::fabs(replayed - recorded) / std::max(std::fabs(recorded), 1e-30))}});
    }
  }
  json["outputs"] = Json::array();
  json["left_out"] = program.left_out;
  for (std::uint32_t i = 0; i < iterations; ++i) {
    for (std::size_t k = 0; k < replay.tensors[i].size(); ++k) {
      const graph::Output& output = program.outputs[replay.outputs[i].size() + k];
      const DType dtype = program.values[output.operand.value].dtype;
      CRUCIBLE_TRY(const auto recorded, trace.blob_store->load(output.blobs[i]));
      const auto view = graph::View::contiguous({output.operand.view.elements()});
      const auto a = graph::load(*replay.tensors[i][k], dtype, view), b = graph::load(recorded, dtype, view);
      json["outputs"].push_back({{"iteration", i},
                                 {"name", output.name},
                                 {"dtype", name(dtype)},
                                 {"rel_diff", number(relative_difference(a, b))}});
    }
  }
  json["states"] = Json::array();
  for (std::size_t s = 0; iterations == program.iterations && s < program.states.size(); ++s) {
    const graph::State& state = program.states[s];
    if (state.final_blob == graph::kNone) continue;
    CRUCIBLE_TRY(const auto recorded, trace.blob_store->load(state.final_blob));
    const graph::Value& value = program.values[state.start];
    const auto view = graph::View::contiguous({value.elements});
    const auto a = graph::load(replay.states[s], value.dtype, view), b = graph::load(recorded, value.dtype, view);
    json["states"].push_back({{"name", value.name},
                              {"dtype", name(value.dtype)},
                              {"elements", value.elements},
                              {"written", state.end != state.start},
                              {"rel_diff", number(relative_difference(a, b))}});
  }
  return json;
}

/// "NAME<tab>lowered", or "NAME<tab>refused<tab>PATTERN<tab>why", or "NAME<tab>unknown".
std::string support_of(const std::string& name) {
  for (const aten::Operands operands : {aten::Operands::kReal, aten::Operands::kComplex, aten::Operands::kSparse}) {
    if (aten::find_entry(name, operands) != nullptr) return name + "\tlowered";
  }
  const aten::Refusal* refusal = aten::find_refusal(name);
  if (refusal == nullptr) return name + "\tunknown";
  return name + "\trefused\t" + std::string(refusal->names) + "\t" + aten::refusal_text(name);
}

}  // namespace
}  // namespace crucible

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "--refusals") {
    for (const auto& refusal : crucible::aten::refusals()) std::puts(std::string(refusal.names).c_str());
    return 0;
  }
  if (argc == 2 && std::string(argv[1]) == "--support") {
    for (std::string name; std::getline(std::cin, name);) std::puts(crucible::support_of(name).c_str());
    return 0;
  }
  if (argc == 2 && std::string(argv[1]) == "--names") {
    for (const auto name : crucible::aten::lowered_names()) std::puts(std::string(name).c_str());
    return 0;
  }
  const bool is_whole = argc == 3 && std::string(argv[2]) == "--composites";
  if (argc != 2 && !is_whole && !(argc == 4 && std::string(argv[2]) == "--iterations")) {
    std::fputs(
        "usage: crucible_reference FILE [--iterations N | --composites] | --names | --support <NAMES | --refusals\n",
        stderr);
    return 2;
  }
  const auto iterations = argc == 4 ? static_cast<std::uint32_t>(std::strtoul(argv[3], nullptr, 10)) : 1u << 30;
  auto json = crucible::compare(argv[1], iterations, is_whole);
  if (!json) {
    std::fprintf(stderr, "crucible_reference: %s\n", json.error().message.c_str());
    return 3;
  }
  std::puts(json->dump(1).c_str());
  return 0;
}
