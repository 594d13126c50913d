// JSON and Graphviz forms of programs: see print.hpp.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/base/words.hpp"
#include "core/graph/composite.hpp"
#include "core/graph/op_table.hpp"
#include "core/graph/opaque.hpp"
#include "core/graph/print.hpp"
#include "core/graph/view.hpp"

namespace crucible::graph {
namespace {

using Json = nlohmann::ordered_json;

Json id_json(std::uint32_t id) { return id == kNone ? Json(nullptr) : Json(id); }

Json view_json(const View& view) {
  return Json{{"offset", view.offset}, {"sizes", view.sizes}, {"strides", view.strides}};
}

Json operand_json(const Operand& operand) {
  if (!operand.is_scalar()) return Json{{"value", operand.value}, {"view", view_json(operand.view)}};
  const Scalar& scalar = operand.scalar;
  if (scalar.slot != kNone) return Json{{"slot", scalar.slot}, {"is_integer", scalar.is_integer}};
  // JSON has no infinities: numbers are also given as text, which reads back to the same bits.
  return Json{{"scalar", scalar.is_integer ? Json(scalar.integer) : Json(scalar.real)}, {"text", to_text(scalar)}};
}

Json operands_json(const std::vector<Operand>& operands) {
  Json list = Json::array();
  for (const Operand& operand : operands) list.push_back(operand_json(operand));
  return list;
}

Json attributes_json(const Op& op) {
  Json json = Json::object();
  const Attributes& a = op.attributes;
  const auto uses = info(op.kind).attributes;
  const auto pair = [](const std::int64_t(&x)[2]) { return Json{x[0], x[1]}; };
  if (uses & kUsesDims) json["dims"] = a.dims;
  if (uses & kUsesIndex) json["index"] = a.index;
  if (uses & kUsesAlpha) json["alpha"] = a.alpha;
  if (uses & kUsesRegion) json["region"] = view_json(a.region);
  if (uses & kUsesWindow) json["kernel"] = pair(a.kernel);
  if (uses & kUsesConvolution) {
    json["stride"] = pair(a.stride);
    json["padding"] = pair(a.padding);
    json["dilation"] = pair(a.dilation);
  }
  if (uses & kUsesGroups) json["groups"] = a.groups;
  if (a.pieces != 0) json["pieces"] = a.pieces;
  return json;
}

constexpr std::string_view kKinds[] = {"temporary", "state", "input", "constant"};

Json op_json(const Program& program, const Op& op) {
  Json json{{"kind", name(op.kind)},
            {"inputs", operands_json(op.inputs)},
            {"outputs", operands_json(op.outputs)},
            {"attributes", attributes_json(op)}};
  if (op.source < program.sources.size()) {
    const Source& source = program.sources[op.source];
    json["source"] = Json{{"op", source.op},
                          {"module", source.module},
                          {"site", source.site},
                          {"phase", phase_name(source.phase)},
                          {"trace_op", id_json(source.trace_op)}};
  }
  return json;
}

Json named_attributes_json(const std::vector<CompositeAttribute>& attributes) {
  Json list = Json::array();
  for (const CompositeAttribute& attribute : attributes) {
    Json numbers = Json::array();
    for (const Scalar& number : attribute.numbers) numbers.push_back(operand_json({kNone, {}, number}));
    list.push_back({{"name", attribute.name}, {"is_list", attribute.is_list}, {"numbers", numbers}});
  }
  return list;
}

Json composite_json(const Composite& composite) {
  return Json{{"name", composite.name},
              {"attributes", named_attributes_json(composite.attributes)},
              {"body", Json::parse(to_json(composite.body))}};
}

Json meaning_json(const Meaning& meaning) {
  const auto roles = [](const std::vector<Role>& all) {
    Json list = Json::array();
    for (const Role& role : all) list.push_back({{"name", role.name}, {"operand", operand_json(role.operand)}});
    return list;
  };
  return Json{{"name", meaning.name},
              {"attributes", named_attributes_json(meaning.attributes)},
              {"inputs", roles(meaning.inputs)},
              {"outputs", roles(meaning.outputs)}};
}

std::string escaped(std::string_view text) {
  std::string result;
  for (char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

}  // namespace

std::string to_json(const Program& program) {
  Json json{{"iterations", program.iterations}};
  for (const char* list : {"values", "slots", "states", "inputs", "constants", "ops", "outputs"}) {
    json[list] = Json::array();
  }
  for (const Value& value : program.values) {
    json["values"].push_back({{"kind", kKinds[static_cast<std::size_t>(value.kind)]},
                              {"dtype", name(value.dtype)},
                              {"elements", value.elements},
                              {"name", value.name},
                              {"producer", id_json(value.producer)}});
  }
  for (const Slot& slot : program.slots) {
    Json values = Json::array();
    for (const Number& number : slot.values)
      values.push_back(number.is_integer() ? Json(number.integer()) : Json(number.real()));
    json["slots"].push_back({{"name", slot.name}, {"is_integer", slot.is_integer}, {"values", std::move(values)}});
  }
  for (const State& s : program.states) {
    json["states"].push_back({{"start", s.start},
                              {"end", s.end},
                              {"initial_blob", id_json(s.initial_blob)},
                              {"final_blob", id_json(s.final_blob)}});
  }
  for (const Input& input : program.inputs) {
    json["inputs"].push_back({{"value", input.value}, {"blobs", input.blobs}, {"is_draw", input.is_draw}});
  }
  for (const Constant& c : program.constants) json["constants"].push_back({{"value", c.value}, {"blob", c.blob}});
  for (const Op& op : program.ops) json["ops"].push_back(op_json(program, op));
  for (const Output& output : program.outputs) {
    json["outputs"].push_back(
        {{"name", output.name}, {"operand", operand_json(output.operand)}, {"recorded", output.recorded}});
    if (output.is_tensor()) json["outputs"].back()["blobs"] = output.blobs;
    for (const Bound& bound : output.bounds) {
      json["outputs"].back()["bounds"].push_back(
          {{"low", bound.low}, {"high", bound.high}, {"source", id_json(bound.source)}});
    }
  }
  if (!program.opaques.empty()) json["opaques"] = Json::array();
  for (const auto& opaque : program.opaques) json["opaques"].push_back(Json::parse(to_json(*opaque)));
  if (!program.composites.empty()) json["composites"] = Json::array();
  for (const auto& composite : program.composites) json["composites"].push_back(composite_json(*composite));
  if (!program.meanings.empty()) json["meanings"] = Json::array();
  for (const Meaning& meaning : program.meanings) json["meanings"].push_back(meaning_json(meaning));
  if (!program.left_out.empty()) json["left_out"] = program.left_out;
  return json_without_commands(json.dump(2, ' ', false, Json::error_handler_t::replace));
}

std::string to_dot(const Program& program) {
  std::string text = "digraph program {\n  rankdir=TB;\n  node [shape=box, fontname=monospace];\n";
  for (ValueId v = 0; v < program.values.size(); ++v) {
    const Value& value = program.values[v];
    if (value.kind == ValueKind::kTemporary) continue;
    text += fmt::format("  v{} [shape=ellipse, label=\"%{} {}\\n{}[{}]\"];\n", v, v, escaped(value.name),
                        name(value.dtype), value.elements);
  }
  for (std::size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    std::string label = op.kind == OpKind::kOpaque ? escaped(opaque_of(program, op).name()) : op_name(program, op);
    if (op.source < program.sources.size()) label += "\\n" + escaped(program.sources[op.source].op);
    text += fmt::format("  o{} [label=\"{}\"];\n", i, label);
    for (const Operand& input : op.inputs) {
      if (input.is_scalar()) continue;
      const Value& value = program.values[input.value];
      const bool made_here = value.kind == ValueKind::kTemporary;
      text += fmt::format("  {}{} -> o{} [label=\"%{}\"];\n", made_here ? 'o' : 'v',
                          made_here ? value.producer : input.value, i, input.value);
    }
  }
  return text + "}\n";
}

}  // namespace crucible::graph
