// An op without a lowering becomes an opaque op of the program: its schema and recorded arguments, its tensors as
// operands, and as results what it returned in storages of its own and what it wrote in place. What it returned as a
// view of an argument needs nothing: reading it reads the argument's storage.
#include "core/graph/opaque.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "frontends/aten/call/op_call.hpp"
#include "frontends/aten/call/schema.hpp"

namespace crucible::aten {
namespace {

using Kind = trace::Arg::Kind;
using Out = graph::OpaqueArg::Kind;

/// Ops that draw numbers say so by an argument of this type; a few have it inside.
bool draws(std::string_view schema, std::string_view name) {
  return schema.find("Generator") != std::string_view::npos || name.find("dropout") != std::string_view::npos ||
         name.find("rand") != std::string_view::npos || name.find("bernoulli") != std::string_view::npos;
}

/// An argument without tensors and numbers that differ.
graph::OpaqueArg literal(Out kind, const trace::Arg& arg) {
  graph::OpaqueArg out;
  out.kind = kind;
  switch (kind) {
    case Out::kReal:
      out.real = arg.real;
      break;
    case Out::kComplex:
      out.real = arg.real;
      out.imaginary = arg.imaginary;
      break;
    case Out::kText:
    case Out::kDevice:
    case Out::kGenerator:
      out.text = arg.text;
      break;
    default:
      out.integer = arg.integer;
  }
  return out;
}

}  // namespace

graph::OpaqueArg OpCall::opaque_number(Term term, std::vector<Term>& operands) {
  graph::OpaqueArg out;
  out.kind = Out::kNumber;
  out.operand = static_cast<std::uint32_t>(operands.size());
  operands.push_back(std::move(term));
  return out;
}

graph::OpaqueArg OpCall::opaque_arg(const trace::Arg& arg, const ArgumentPath& path, int depth,
                                    std::vector<Term>& operands) {
  const std::string name = path.argument < names_.size() ? names_[path.argument] : std::to_string(path.argument);
  switch (arg.kind) {
    case Kind::kNone:
    case Kind::kUndefinedTensor:
      return {};
    case Kind::kBool:
      return literal(Out::kBool, arg);
    case Kind::kInt:
    case Kind::kDouble: {
      if (depth > 1 || !alignment_.differing.contains(path)) {
        return literal(arg.kind == Kind::kInt ? Out::kInteger : Out::kReal, arg);
      }
      return opaque_number(number(arg, path, name), operands);
    }
    case Kind::kComplex:
      return literal(Out::kComplex, arg);
    case Kind::kString:
      return literal(Out::kText, arg);
    case Kind::kDType:
      if (arg.integer == static_cast<std::int64_t>(DType::kOther)) break;
      return literal(Out::kDType, arg);
    case Kind::kDevice:
      return literal(Out::kDevice, arg);
    case Kind::kLayout:
      return literal(Out::kLayout, arg);
    case Kind::kMemoryFormat:
      return literal(Out::kMemoryFormat, arg);
    case Kind::kGenerator:
      return literal(Out::kGenerator, arg);
    case Kind::kTensor: {
      graph::OpaqueArg out = opaque_number(storages_.read(arg.tensor), operands);
      out.kind = Out::kTensor;
      return out;
    }
    case Kind::kList: {
      graph::OpaqueArg out;
      out.kind = Out::kList;
      for (std::size_t i = 0; i < arg.list.size(); ++i) {
        const ArgumentPath item = {path.position, path.argument, static_cast<std::int32_t>(i)};
        out.items.push_back(opaque_arg(arg.list[i], item, depth + 1, operands));
      }
      return out;
    }
    case Kind::kOpaque:
      break;
  }
  emitter_.fail(fmt::format("argument {} ({}) was not recorded with its content, so nothing can run the op", name,
                            arg.text.empty() ? "a dtype without a name" : arg.text));
  return {};
}

void OpCall::lower_opaque(std::string reason) {
  graph::Opaque opaque;
  opaque.schema = trace_.schemas[op_.schema].text;
  opaque.reason = std::move(reason);
  std::vector<Term> operands;
  std::vector<std::pair<Sizes, DType>> made;
  std::vector<std::pair<std::size_t, trace::TensorId>> written;  // by result: what is written in place
  const std::vector<bool> is_written = written_arguments(opaque.schema);
  for (std::uint32_t a = 0; a < op_.args.size(); ++a) {
    const std::size_t first = operands.size();
    opaque.args.push_back(opaque_arg(op_.args[a], {position_, a, -1}, 0, operands));
    if (a >= is_written.size() || !is_written[a]) continue;
    std::size_t operand = first;
    for (const trace::TensorId tensor : tensors_in({op_.args[a]})) {
      written.emplace_back(made.size(), tensor);
      opaque.results.push_back({static_cast<std::uint32_t>(operand++), graph::kNone});
      made.emplace_back(trace_.tensors[tensor].sizes, trace_.tensors[tensor].dtype);
    }
  }
  const std::vector<trace::TensorId> arguments = tensors_in(op_.args);
  const auto is_view = [&](trace::TensorId result) {
    return std::ranges::any_of(arguments, [&](trace::TensorId arg) { return storages_.same_storage(arg, result); });
  };
  std::vector<std::pair<std::size_t, std::size_t>> returned;  // by result: which recorded one
  bool any_drawn = false;
  for (std::size_t k = 0; k < results_.size(); ++k) {
    if (!wants(k) || is_view(results_[k])) continue;
    any_drawn |= is_drawn(k);
    if (is_drawn(k)) {
      set(k, drawn(k));
      continue;
    }
    returned.emplace_back(made.size(), k);
    opaque.results.push_back({graph::kNone, static_cast<std::uint32_t>(k)});
    made.emplace_back(result(k).sizes, result(k).dtype);
  }
  const bool is_own = full_name_.starts_with("aten::") || full_name_.starts_with("prims::");
  opaque.effect = !is_own                                          ? graph::OpaqueEffect::kUnknown
                  : any_drawn || draws(opaque.schema, full_name_) ? graph::OpaqueEffect::kRandom
                                                                   : graph::OpaqueEffect::kPure;
  if (!emitter_.failure().empty()) return;
  if (made.empty() && opaque.effect != graph::OpaqueEffect::kUnknown) return;  // views alone, or drawn results
  graph::Attributes attributes;
  attributes.index = static_cast<std::int64_t>(emitter_.program().opaques.size());
  emitter_.program().opaques.push_back(std::make_shared<const graph::Opaque>(std::move(opaque)));
  const std::vector<Term> terms = emitter_.emit_many(graph::OpKind::kOpaque, operands, made, std::move(attributes));
  for (const auto& [index, tensor] : written) writes_.emplace_back(tensor, terms[index]);
  for (const auto& [index, k] : returned) set(k, terms[index]);
}

}  // namespace crucible::aten
