// lower_shapes <LINES: lowers single calls of ops of which only dtypes, sizes and strides are known. One JSON object
// per line,
//   {"schema": "aten::relu(Tensor self) -> Tensor", "storages": [["f32", 12]], "tensors": [[storage, [3, 4], [4, 1],
//   offset, "f32"]],
//    "args": [ARG...], "results": [ARG...], "draws": [0]}
// with ARG one of null, true, 3, 2.5, "text", ["tensor", number], ["number", "-inf"], ["dtype", "f32"], ["list",
// ARG...], ["none"], and "draws" the results that a random op drew. Prints one object per line: {"outcome": "lowered",
// "ops": 3} or {"outcome": "unsupported", "reason": ...}. A program that verify() refuses is "broken", and so is a line
// that cannot be read; exit code 1 then.
#include <fmt/format.h>

#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "frontends/aten/lower.hpp"
#include "frontends/aten/testing/trace_builder.hpp"

namespace crucible {
namespace {

using Json = nlohmann::ordered_json;
using aten::TraceBuilder;
using Ids = std::vector<trace::TensorId>;

DType dtype_named(const std::string& text) {
  for (int k = 0; k < 12; ++k) {
    const auto dtype = static_cast<DType>(k);
    if (name(dtype) == text) return dtype;
  }
  return DType::kF32;
}

trace::Arg argument(const Json& json, const Ids& tensors) {
  trace::Arg arg;
  if (json.is_boolean()) return TraceBuilder::boolean(json.get<bool>());
  if (json.is_number_integer()) return TraceBuilder::integer(json.get<std::int64_t>());
  if (json.is_number()) return TraceBuilder::number(json.get<double>());
  if (json.is_string()) {
    arg.kind = trace::Arg::Kind::kString;
    arg.text = json.get<std::string>();
    return arg;
  }
  if (!json.is_array() || json.empty()) return TraceBuilder::none();
  const std::string what = json[0].get<std::string>();
  if (what == "number")
    return TraceBuilder::number(std::stod(json[1].get<std::string>()));  // one that JSON does not have
  if (what == "tensor") return TraceBuilder::tensor(tensors.at(json[1].get<std::size_t>()));
  if (what == "dtype") {
    arg.kind = trace::Arg::Kind::kDType;
    arg.integer = static_cast<std::int64_t>(dtype_named(json[1].get<std::string>()));
    return arg;
  }
  if (what == "list") {
    std::vector<trace::Arg> items;
    for (std::size_t k = 1; k < json.size(); ++k) items.push_back(argument(json[k], tensors));
    return TraceBuilder::list(std::move(items));
  }
  return TraceBuilder::none();
}

/// Every storage that is no result enters with bytes of its own; results end in nothing, so that no pass matters.
Json outcome_of(const Json& line) {
  TraceBuilder b;
  std::vector<trace::StorageId> storages;
  std::vector<bool> enters(line["storages"].size(), true);
  for (const Json& storage : line["storages"]) {
    storages.push_back(b.storage(storage[1].get<std::int64_t>(), dtype_named(storage[0].get<std::string>())));
  }
  Ids tensors;
  for (const Json& tensor : line["tensors"]) {
    tensors.push_back(b.view(storages.at(tensor[0].get<std::size_t>()), tensor[1].get<std::vector<std::int64_t>>(),
                             tensor[2].get<std::vector<std::int64_t>>(), tensor[3].get<std::int64_t>(),
                             dtype_named(tensor[4].get<std::string>())));
  }
  for (const Json& made : line["made"]) enters.at(made.get<std::size_t>()) = false;
  for (std::size_t k = 0; k < storages.size(); ++k) {
    const std::string name = fmt::format("input {}", k);
    if (enters[k]) b.external_bytes(storages[k], std::as_bytes(std::span(name)), trace::Role::kInput, name);
  }
  std::vector<trace::Arg> arguments, results;
  for (const Json& arg : line["args"]) arguments.push_back(argument(arg, tensors));
  for (const Json& arg : line["results"]) results.push_back(argument(arg, tensors));
  const auto op = b.op(line["schema"].get<std::string>(), arguments, results);
  for (const Json& draw : line["draws"]) b.draw(op, draw.get<std::uint32_t>(), {draw.get<float>()});
  b.end_iteration();
  // Nobody reads the bytes; only how many they are must be right.
  trace::Trace trace = b.trace();
  for (const trace::External& external : trace.externals) {
    trace.blobs[external.blob].size_bytes = trace.storages[external.storage].size_bytes;
  }
  for (const trace::Draw& draw : trace.draws) {
    const trace::Tensor& drawn = trace.tensors[trace.ops[op].outputs.at(draw.output).tensor];
    trace.blobs[draw.blob].size_bytes = graph::View::contiguous(drawn.sizes).elements() * size_bytes(drawn.dtype);
  }
  const auto program = aten::lower_without_passes(trace);
  if (program) return {{"outcome", "lowered"}, {"ops", program->ops.size()}};
  const bool ours = program.error().code == ErrorCode::kInternal;
  return {{"outcome", ours ? "broken" : "unsupported"}, {"reason", program.error().message}};
}

}  // namespace
}  // namespace crucible

int main(int argc, char**) {
  if (argc != 1) {
    std::fputs("usage: lower_shapes <LINES\n", stderr);
    return 2;
  }
  bool broken = false;
  for (std::string text; std::getline(std::cin, text);) {
    crucible::Json outcome;
    try {
      outcome = crucible::outcome_of(crucible::Json::parse(text));
    } catch (const std::exception& error) {
      outcome = {{"outcome", "broken"}, {"reason", error.what()}};
    }
    broken = broken || outcome["outcome"] == "broken";
    fmt::print("{}\n", outcome.dump(-1, ' ', false, crucible::Json::error_handler_t::replace));
  }
  return broken ? 1 : 0;
}
