// One function per thing; the kinds of arguments are told apart here.
#include "frontends/cli/trace_json.hpp"

#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/trace/summary.hpp"
#include "core/trace/text.hpp"

namespace crucible::cli {

using nlohmann::ordered_json;
using trace::Arg;
using trace::Compounds;
using trace::Op;
using trace::Trace;

ordered_json number_json(double number) {
  if (std::isfinite(number)) return number;
  return trace::double_text(number);
}

void JsonMembers::add(const std::string& name, ordered_json value) {
  const auto [place, is_new] = places_.try_emplace(name, members_.size());
  if (is_new) {
    members_.push_back({name, std::move(value)});
  } else {
    std::next(members_.begin(), static_cast<std::ptrdiff_t>(place->second))->second = std::move(value);
  }
}

namespace {

constexpr int kDeepest = 32;  // compound tensors of a damaged file could contain themselves

ordered_json value_json(const Compounds& compounds, const Arg& arg, bool is_whole, int depth);

ordered_json tensor_json(const Compounds& compounds, trace::TensorId id, bool is_whole, int depth) {
  const Trace& trace = compounds.trace();
  const trace::Tensor& tensor = trace.tensors[id];
  const bool has_storage = tensor.storage != trace::kNone;
  ordered_json document =
      ordered_json::object();  // a list of pairs would be copied twice: recordings have millions of these
  document["tensor"] = id;
  document["dtype"] = name(tensor.dtype);
  document["sizes"] = tensor.sizes;
  document["strides"] = tensor.strides;
  document["offset"] = tensor.offset;
  document["storage"] = has_storage ? ordered_json(tensor.storage) : ordered_json(nullptr);
  if (!is_whole) return document;
  document["requires_grad"] = tensor.requires_grad;
  document["is_wrapped_number"] = tensor.is_wrapped_number;
  document["device"] = has_storage ? ordered_json(trace.storages[tensor.storage].device) : ordered_json(nullptr);
  document["storage_bytes"] =
      has_storage ? ordered_json(trace.storages[tensor.storage].size_bytes) : ordered_json(nullptr);
  const trace::CompoundTensor* compound = compounds.find(id);
  if (compound == nullptr || depth > kDeepest) return document;
  JsonMembers parts;
  for (const auto& [part, value] : compound->parts) parts.add(part, value_json(compounds, value, is_whole, depth + 1));
  ordered_json& whole = document["compound"];
  whole["kind"] = compound->kind;
  whole["parts"] = parts.take();
  return document;
}

ordered_json value_json(const Compounds& compounds, const Arg& arg, bool is_whole, int depth) {
  switch (arg.kind) {
    case Arg::Kind::kNone:
    case Arg::Kind::kUndefinedTensor:
      return nullptr;
    case Arg::Kind::kBool:
      return arg.integer != 0;
    case Arg::Kind::kInt:
      return arg.integer;
    case Arg::Kind::kDouble:
      return number_json(arg.real);
    case Arg::Kind::kComplex:
      return {{"real", number_json(arg.real)}, {"imaginary", number_json(arg.imaginary)}};
    case Arg::Kind::kString:
      return arg.text;
    case Arg::Kind::kDType:
    case Arg::Kind::kDevice:
    case Arg::Kind::kLayout:
    case Arg::Kind::kMemoryFormat:
    case Arg::Kind::kGenerator:
    case Arg::Kind::kOpaque:
      return trace::arg_text(compounds, arg);
    case Arg::Kind::kTensor:
      return tensor_json(compounds, arg.tensor, is_whole, depth);
    case Arg::Kind::kList: {
      ordered_json list = ordered_json::array();
      for (const Arg& element : arg.list) list.push_back(value_json(compounds, element, is_whole, depth + 1));
      return list;
    }
  }
  return nullptr;
}

}  // namespace

ordered_json arg_json(const Compounds& compounds, const Arg& arg, bool is_whole) {
  return value_json(compounds, arg, is_whole, 0);
}

ordered_json op_json(const Compounds& compounds, std::size_t iteration, std::uint32_t index, bool is_whole) {
  const Trace& trace = compounds.trace();
  const Op& op = trace.ops[index];
  const trace::Schema& schema = trace.schemas[op.schema];
  const std::vector<std::string> names = trace::argument_names(schema.text);
  ordered_json document = {{"op", index},
                           {"iteration", iteration},
                           {"phase", name(op.phase)},
                           {"thread", op.thread},
                           {"module", op.module == trace::kNone ? "" : trace.modules[op.module]},
                           {"site", trace.site_text(op.site)},
                           {"schema", schema.full_name()}};
  document["args"] = ordered_json::array();
  for (std::size_t i = 0; i < op.args.size(); ++i) {
    document["args"].push_back(
        {{"name", i < names.size() ? names[i] : ""}, {"value", arg_json(compounds, op.args[i], is_whole)}});
  }
  document["outputs"] = ordered_json::array();
  for (const Arg& output : op.outputs) document["outputs"].push_back(arg_json(compounds, output, is_whole));
  return document;
}

}  // namespace crucible::cli
