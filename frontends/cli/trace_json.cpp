// One function per thing; the kinds of arguments are told apart here.
#include "frontends/cli/trace_json.hpp"

#include <cmath>
#include <string>
#include <vector>

#include "core/trace/summary.hpp"
#include "core/trace/text.hpp"

namespace crucible::cli {

using nlohmann::ordered_json;
using trace::Arg;
using trace::Op;
using trace::Trace;

ordered_json number_json(double number) {
  if (std::isfinite(number)) return number;
  return trace::double_text(number);
}

ordered_json arg_json(const Trace& trace, const Arg& arg) {
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
      return trace::arg_text(trace, arg);
    case Arg::Kind::kTensor: {
      const trace::Tensor& tensor = trace.tensors[arg.tensor];
      ordered_json storage = tensor.storage == trace::kNone ? ordered_json(nullptr) : ordered_json(tensor.storage);
      return {{"tensor", arg.tensor},      {"dtype", name(tensor.dtype)}, {"sizes", tensor.sizes},
              {"strides", tensor.strides}, {"offset", tensor.offset},     {"storage", std::move(storage)}};
    }
    case Arg::Kind::kList: {
      ordered_json list = ordered_json::array();
      for (const Arg& element : arg.list) list.push_back(arg_json(trace, element));
      return list;
    }
  }
  return nullptr;
}

ordered_json op_json(const Trace& trace, std::size_t iteration, std::uint32_t index) {
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
    document["args"].push_back({{"name", i < names.size() ? names[i] : ""}, {"value", arg_json(trace, op.args[i])}});
  }
  document["outputs"] = ordered_json::array();
  for (const Arg& output : op.outputs) document["outputs"].push_back(arg_json(trace, output));
  return document;
}

}  // namespace crucible::cli
