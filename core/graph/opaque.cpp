// Opaque ops: their identity, their rules, and what users are told of them. See opaque.hpp.
#include "core/graph/opaque.hpp"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "core/base/words.hpp"
#include "core/graph/op_table.hpp"
#include "core/graph/verify_ops.hpp"
#include "core/trace/text.hpp"

namespace crucible::graph {
namespace {

using Json = nlohmann::ordered_json;
using Kind = OpaqueArg::Kind;

/// JSON has no infinities, and its decimal numbers are read in as many ways as there are readers: C's %a form is exact.
std::string exact(double number) { return fmt::format("{:a}", number); }

Json arg_json(const OpaqueArg& arg) {
  switch (arg.kind) {
    case Kind::kNone: return nullptr;
    case Kind::kBool: return arg.integer != 0;
    case Kind::kInteger: return arg.integer;
    case Kind::kReal: return Json::object({{"real", exact(arg.real)}});
    case Kind::kComplex: return Json::object({{"complex", Json::array({exact(arg.real), exact(arg.imaginary)})}});
    case Kind::kText: return Json::object({{"text", arg.text}});
    case Kind::kDType: return Json::object({{"dtype", name(static_cast<DType>(arg.integer))}});
    case Kind::kDevice: return Json::object({{"device", arg.text}});
    case Kind::kLayout: return Json::object({{"layout", arg.integer}});
    case Kind::kMemoryFormat: return Json::object({{"memory_format", arg.integer}});
    case Kind::kGenerator: return Json::object({{"generator", arg.text}});
    case Kind::kTensor: return Json::object({{"tensor", arg.operand}});
    case Kind::kNumber: return Json::object({{"number", arg.operand}});
    case Kind::kList: break;
  }
  Json items = Json::array();
  for (const OpaqueArg& item : arg.items) items.push_back(arg_json(item));
  return items;
}

std::string_view effect_name(OpaqueEffect effect) {
  return effect == OpaqueEffect::kPure ? "pure" : effect == OpaqueEffect::kRandom ? "random" : "unknown";
}

Json id_json(std::uint32_t id) { return id == kNone ? Json(nullptr) : Json(id); }

Json opaque_json(const Opaque& opaque) {
  Json json = {{"schema", opaque.schema}, {"effect", effect_name(opaque.effect)}};
  json["args"] = Json::array();
  for (const OpaqueArg& arg : opaque.args) json["args"].push_back(arg_json(arg));
  json["results"] = Json::array();
  for (const OpaqueResult& result : opaque.results) {
    json["results"].push_back({{"written", id_json(result.written)}, {"returned", id_json(result.returned)}});
  }
  return json;
}

std::string dumped(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string arg_text(const OpaqueArg& arg) {
  if (arg.kind == Kind::kTensor || arg.kind == Kind::kNumber) return fmt::format("operand {}", arg.operand);
  if (arg.kind == Kind::kReal) return fmt::format("{}", arg.real);
  if (arg.kind == Kind::kList) {
    std::vector<std::string> items;
    for (const OpaqueArg& item : arg.items) items.push_back(arg_text(item));
    return fmt::format("[{}]", fmt::join(items, ", "));
  }
  if (arg.kind == Kind::kDType) return std::string(name(static_cast<DType>(arg.integer)));
  return arg.kind == Kind::kNone ? "none" : dumped(arg_json(arg));
}

/// What the rules of one op have seen so far.
class Checker {
 public:
  Checker(const Program& program, OpId index) : program_(program), index_(index), op_(program.ops[index]) {}

  Result<void> run() {
    const std::int64_t entry = op_.attributes.index;
    if (entry < 0 || static_cast<std::size_t>(entry) >= program_.opaques.size()) {
      return broken("names opaque op {}; there are {}", entry, program_.opaques.size());
    }
    if (!program_.opaques[static_cast<std::size_t>(entry)]) return broken("opaque op {} is empty", entry);
    const Opaque& opaque = opaque_of(program_, op_);
    if (opaque.name().empty()) return broken("the schema '{}' names no op", opaque.schema);
    if (opaque.effect > OpaqueEffect::kUnknown) return broken("unknown effect {}", static_cast<int>(opaque.effect));
    named_.assign(op_.inputs.size(), false);
    is_tensor_.assign(op_.inputs.size(), false);
    for (const OpaqueArg& arg : opaque.args) CRUCIBLE_TRY_VOID(check_arg(arg, 0));
    for (std::size_t i = 0; i < named_.size(); ++i) {
      if (!named_[i]) return broken("operand {}: no argument names it", i);
    }
    return check_results(opaque);
  }

 private:
  template <class... Args>
  Error broken(fmt::format_string<Args...> text, Args&&... args) const {
    return Error{ErrorCode::kInternal,
                 describe_op(program_, index_) + ": " + fmt::format(text, std::forward<Args>(args)...)};
  }

  Result<void> check_arg(const OpaqueArg& arg, int depth) {
    if (arg.kind > Kind::kList) return broken("unknown kind {} of an argument", static_cast<int>(arg.kind));
    if (depth > 8) return broken("arguments are nested too deep");
    const bool is_operand = arg.kind == Kind::kTensor || arg.kind == Kind::kNumber;
    if (!is_operand && arg.operand != kNone)
      return broken("an argument that is no operand names operand {}", arg.operand);
    if (arg.kind != Kind::kList && !arg.items.empty()) return broken("an argument that is no list has items");
    for (const OpaqueArg& item : arg.items) CRUCIBLE_TRY_VOID(check_arg(item, depth + 1));
    if (!is_operand) return {};
    if (arg.operand >= op_.inputs.size())
      return broken("an argument names operand {} of {}", arg.operand, op_.inputs.size());
    if (arg.kind == Kind::kNumber && !op_.inputs[arg.operand].is_scalar()) {
      return broken("operand {}: is a tensor where the argument is a number", arg.operand);
    }
    if (named_[arg.operand]) return broken("operand {}: two arguments name it", arg.operand);
    named_[arg.operand] = true;
    is_tensor_[arg.operand] = arg.kind == Kind::kTensor;
    return {};
  }

  Result<void> check_results(const Opaque& opaque) const {
    if (opaque.results.size() != op_.outputs.size()) {
      return broken("has {} results, its entry {}", op_.outputs.size(), opaque.results.size());
    }
    for (std::size_t i = 0; i < opaque.results.size(); ++i) {
      const OpaqueResult& result = opaque.results[i];
      if ((result.written == kNone) == (result.returned == kNone)) {
        return broken("result {}: must be either an argument written in place or a returned tensor", i);
      }
      for (std::size_t other = 0; other < i; ++other) {
        if (opaque.results[other].written == result.written && opaque.results[other].returned == result.returned) {
          return broken("results {} and {} come from one place", other, i);
        }
      }
      if (result.written == kNone) continue;
      if (result.written >= op_.inputs.size() || !is_tensor_[result.written] ||
          op_.inputs[result.written].is_scalar()) {
        return broken("result {}: operand {}, which it overwrites, is no tensor argument", i, result.written);
      }
      const Operand& before = op_.inputs[result.written];
      if (before.view.sizes != op_.outputs[i].view.sizes ||
          program_.values[before.value].dtype != program_.values[op_.outputs[i].value].dtype) {
        return broken("result {}: has other sizes or another dtype than operand {}, which it overwrites", i,
                      result.written);
      }
    }
    return {};
  }

  const Program& program_;
  OpId index_;
  const Op& op_;
  std::vector<bool> named_, is_tensor_;  // per operand
};

Json tensor_json(const Program& program, const Operand& operand) {
  return Json{{"dtype", name(program.values[operand.value].dtype)},
              {"sizes", operand.view.sizes},
              {"strides", operand.view.strides},
              {"offset", operand.view.offset}};
}

}  // namespace

std::string Opaque::name() const { return schema.substr(0, schema.find('(')); }

const Opaque& opaque_of(const Program& program, const Op& op) {
  return *program.opaques[static_cast<std::size_t>(op.attributes.index)];
}

bool has_effects(const Program& program, const Op& op) {
  return op.kind == OpKind::kOpaque && opaque_of(program, op).effect != OpaqueEffect::kPure;
}

std::string to_json(const Opaque& opaque) { return dumped(opaque_json(opaque)); }

std::string arguments_text(const Opaque& opaque) {
  std::vector<std::string> args;
  for (const OpaqueArg& arg : opaque.args) args.push_back(arg_text(arg));
  return fmt::format("{}", fmt::join(args, ", "));
}

Result<void> verify_opaque(const Program& program, OpId index) { return Checker(program, index).run(); }

std::vector<OpaqueUse> opaque_uses(const Program& program) {
  std::map<std::string, OpaqueUse> uses;
  for (const Op& op : program.ops) {
    if (op.kind != OpKind::kOpaque) continue;
    const std::string name = printable(opaque_of(program, op).name());
    OpaqueUse& use = uses[name];
    if (use.count++ > 0) continue;
    use.name = name;
    use.reason = opaque_of(program, op).reason;
    if (op.source >= program.sources.size()) continue;
    use.module = program.sources[op.source].module;
    use.site = program.sources[op.source].site;
  }
  std::vector<OpaqueUse> list;
  for (auto& [name, use] : uses) list.push_back(std::move(use));
  return list;
}

std::string opaque_list(const Program& program) {
  const std::vector<OpaqueUse> uses = opaque_uses(program);
  std::string text = fmt::format("{} {} no lowering:", uses.size(), uses.size() == 1 ? "op has" : "ops have");
  for (const OpaqueUse& use : uses) {
    text += fmt::format("\n  {}: {} per iteration, first {}{}{}at {}", use.name, use.count,
                        use.module.empty() ? "" : "in ", use.module, use.module.empty() ? "" : " ", use.site);
    if (!use.reason.empty()) text += fmt::format(" ({})", use.reason);
  }
  return text;
}

std::string opaque_kernel(const Program& program, const Op& op) {
  // Operands by what a launch passes: tensors as buffers in their order, numbers as scalars in theirs, results behind.
  Json json = opaque_json(opaque_of(program, op));
  json["operands"] = Json::array();
  std::uint32_t buffers = 0, scalars = 0;
  for (const Operand& input : op.inputs) {
    if (input.is_scalar()) {
      json["operands"].push_back({{"scalar", scalars++}, {"is_integer", input.scalar.is_integer}});
      continue;
    }
    Json tensor = tensor_json(program, input);
    tensor["buffer"] = buffers++;
    json["operands"].push_back(std::move(tensor));
  }
  for (std::size_t i = 0; i < op.outputs.size(); ++i) {
    json["results"][i].update(tensor_json(program, op.outputs[i]));
    json["results"][i]["buffer"] = buffers++;
  }
  return dumped(json);
}

}  // namespace crucible::graph
