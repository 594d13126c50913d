// Prints everything in a .crtrace file as one JSON document, for the recorder's tests. It is a test tool: `crucible
// trace` is the command for people.
#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/trace/trace_file.hpp"

namespace {

using namespace crucible;
using nlohmann::ordered_json;
using trace::Arg;

ordered_json id(std::uint32_t number) { return number == trace::kNone ? ordered_json(nullptr) : ordered_json(number); }

ordered_json to_json(const Arg& arg) {
  switch (arg.kind) {
    case Arg::Kind::kNone: return nullptr;
    case Arg::Kind::kBool: return arg.integer != 0;
    case Arg::Kind::kInt: return arg.integer;
    case Arg::Kind::kDouble: return {{"double", fmt::format("{:a}", arg.real)}};
    case Arg::Kind::kComplex: return {{"complex", {arg.real, arg.imaginary}}};
    case Arg::Kind::kString: return arg.text;
    case Arg::Kind::kDType: return {{"dtype", std::string(name(static_cast<DType>(arg.integer)))}};
    case Arg::Kind::kDevice: return {{"device", arg.text}};
    case Arg::Kind::kLayout: return {{"layout", arg.integer}};
    case Arg::Kind::kMemoryFormat: return {{"memory_format", arg.integer}};
    case Arg::Kind::kGenerator: return {{"generator", arg.text}};
    case Arg::Kind::kTensor: return {{"tensor", arg.tensor}};
    case Arg::Kind::kUndefinedTensor: return "undefined";
    case Arg::Kind::kList: {
      ordered_json list = ordered_json::array();
      for (const Arg& element : arg.list) list.push_back(to_json(element));
      return list;
    }
    case Arg::Kind::kOpaque: return {{"opaque", arg.text}};
  }
  return nullptr;
}

ordered_json to_json(const std::vector<Arg>& args) {
  ordered_json list = ordered_json::array();
  for (const Arg& arg : args) list.push_back(to_json(arg));
  return list;
}

/// Hash and size of a blob, and its bytes in hexadecimal when they are few.
ordered_json blob(const trace::Trace& trace, trace::BlobId number) {
  const trace::Blob& known = trace.blobs[number];
  ordered_json document = {{"hash", known.hash.hex()}, {"size", known.size_bytes}};
  if (known.size_bytes <= 8192) {
    const auto bytes = trace.blob_store->load(number);
    if (!bytes) return {{"error", bytes.error().message}};
    std::string text;
    for (const std::byte byte : *bytes) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
    document["hex"] = text;
  }
  return document;
}

ordered_json dump(const trace::Trace& trace) {
  ordered_json document;
  document["metadata"] = {{"framework", trace.metadata.framework},
                           {"precision", trace.metadata.precision},
                          {"frontend", trace.metadata.frontend},
                          {"device", trace.metadata.device},
                          {"command", trace.metadata.command},
                          {"incomplete_reason", trace.metadata.incomplete_reason},
                          {"warmup", trace.metadata.warmup_iterations},
                          {"overhead", trace.metadata.overhead_ns_per_op}};
  for (const auto& storage : trace.storages)
    document["storages"].push_back({{"size", storage.size_bytes}, {"device", storage.device}});
  for (const auto& tensor : trace.tensors) {
    document["tensors"].push_back({{"storage", id(tensor.storage)}, {"dtype", std::string(name(tensor.dtype))},
                                   {"requires_grad", tensor.requires_grad}, {"wrapped", tensor.is_wrapped_number},
                                   {"offset", tensor.offset}, {"sizes", tensor.sizes}, {"strides", tensor.strides}});
  }
  for (const auto& op : trace.ops) {
    const auto& schema = trace.schemas[op.schema];
    document["ops"].push_back(
        {{"name", schema.full_name()},
         {"schema", schema.text},
         {"site", trace.site_text(op.site)},
         {"function", op.site == trace::kNone ? "" : trace.sites[op.site].function},
         {"module", op.module == trace::kNone ? ordered_json(nullptr) : ordered_json(trace.modules[op.module])},
         {"phase", static_cast<int>(op.phase)},
         {"thread", op.thread},
         {"args", to_json(op.args)},
         {"outputs", to_json(op.outputs)}});
  }
  for (const auto& iteration : trace.iterations) {
    ordered_json losses = ordered_json::array();
    for (const auto& loss : iteration.losses) losses.push_back({{"tensor", loss.tensor}, {"value", loss.value}});
    document["iterations"].push_back({{"first_op", iteration.first_op}, {"op_count", iteration.op_count},
                                      {"complete", iteration.complete}, {"losses", losses}});
  }
  for (const char* key : {"externals", "draws", "final_states", "not_recorded", "generators", "outputs", "compounds"})
    document[key] = ordered_json::array();
  for (const auto& external : trace.externals) {
    document["externals"].push_back({{"storage", external.storage},
                                     {"iteration", external.iteration},
                                     {"op", external.op},
                                     {"role", static_cast<int>(external.role)},
                                     {"name", external.name},
                                     {"blob", blob(trace, external.blob)}});
  }
  for (const auto& draw : trace.draws)
    document["draws"].push_back({{"op", draw.op}, {"output", draw.output}, {"blob", blob(trace, draw.blob)}});
  for (const auto& state : trace.final_states) {
    document["final_states"].push_back({{"storage", state.storage},
                                        {"role", static_cast<int>(state.role)},
                                        {"name", state.name},
                                        {"blob", blob(trace, state.blob)}});
  }
  for (const auto& item : trace.not_recorded) {
    document["not_recorded"].push_back(
        {{"what", item.what}, {"count", item.count}, {"site", trace.site_text(item.site)}});
  }
  for (const auto& state : trace.generators) {
    document["generators"].push_back(
        {{"iteration", state.iteration}, {"device", state.device}, {"blob", blob(trace, state.blob)}});
  }
  for (const auto& output : trace.outputs) {
    document["outputs"].push_back({{"iteration", output.iteration}, {"name", output.name}, {"tensor", output.tensor},
                                    {"blob", blob(trace, output.blob)}});
  }
  for (const auto& compound : trace.compounds) {
    ordered_json parts = ordered_json::array();
    for (const auto& [name, part] : compound.parts) parts.push_back({{"name", name}, {"value", to_json(part)}});
    document["compounds"].push_back({{"tensor", compound.tensor}, {"kind", compound.kind}, {"parts", parts}});
  }
  document["op_hashes"] = ordered_json::array();
  for (const auto& hashes : trace.op_hashes) {
    ordered_json texts = ordered_json::array();
    for (const std::uint64_t hash : hashes) texts.push_back(fmt::format("{:016x}", hash));
    document["op_hashes"].push_back(texts);
  }
  return document;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: dump_trace FILE\n");
    return 2;
  }
  const auto trace = trace::read_file(argv[1]);
  if (!trace) {
    fmt::print(stderr, "dump_trace: {}\n", trace.error().message);
    return 3;
  }
  std::puts(dump(*trace).dump().c_str());
  return 0;
}
