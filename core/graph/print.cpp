// The text form of programs: see program.hpp for an example. Every field that verify() looks at is printed.
#include "core/graph/print.hpp"

#include <fmt/format.h>

#include "core/graph/op_table.hpp"
#include "core/graph/opaque.hpp"
#include "core/graph/view.hpp"

namespace crucible::graph {
namespace {

std::string view_text(const View& view) {
  std::string text = fmt::format("[{}]", fmt::join(view.sizes, ", "));
  if (!view.is_contiguous()) text += fmt::format("{{{}}}", fmt::join(view.strides, ", "));
  if (view.offset != 0) text += fmt::format("+{}", view.offset);
  return text;
}

std::string operand_text(const Operand& operand) {
  if (operand.is_scalar()) return to_text(operand.scalar);
  return fmt::format("%{}{}", operand.value, view_text(operand.view));
}

std::string op_text(const Program& program, const Op& op) {
  std::string text = "  ";
  for (std::size_t i = 0; i < op.outputs.size(); ++i) {
    const Operand& out = op.outputs[i];
    const auto dtype = out.value < program.values.size() ? name(program.values[out.value].dtype) : "?";
    text += fmt::format("{}%{}: {}{}", i ? ", " : "", out.value, dtype, view_text(out.view));
  }
  text += fmt::format(" = {}(", name(op.kind));
  for (std::size_t i = 0; i < op.inputs.size(); ++i) text += (i ? ", " : "") + operand_text(op.inputs[i]);
  const std::string attributes = attributes_text(program, op);
  if (!attributes.empty()) text += (op.inputs.empty() ? "" : ", ") + attributes;
  text += ")";
  if (op.source < program.sources.size()) {
    const Source& source = program.sources[op.source];
    text += fmt::format("  ; {}{}{} {}", source.op, source.module.empty() ? "" : " ", source.module, source.site);
  }
  return text + "\n";
}

std::string value_text(const Program& program, ValueId v) {
  const Value& value = program.values[v];
  return fmt::format("%{}: {}[{}]{}{}", v, name(value.dtype), value.elements, value.name.empty() ? "" : " ",
                     value.name);
}

std::string blob_text(std::uint32_t blob) { return blob == kNone ? "none" : fmt::format("{}", blob); }

}  // namespace

std::string to_text(const Scalar& scalar) {
  if (scalar.slot != kNone) return fmt::format("slot {}{}", scalar.slot, scalar.is_integer ? "i" : "");
  if (scalar.is_integer) return fmt::format("{}", scalar.integer);
  auto text = fmt::format("{}", scalar.real);
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}

std::string attributes_text(const Program& program, const Op& op) {
  const auto entry = static_cast<std::size_t>(op.attributes.index);
  if (op.kind != OpKind::kOpaque || entry >= program.opaques.size() || !program.opaques[entry]) return attributes_text(op);
  const Opaque& opaque = *program.opaques[entry];
  const char* effect = opaque.effect == OpaqueEffect::kPure     ? ""
                       : opaque.effect == OpaqueEffect::kRandom ? ", random"
                                                                : ", effects unknown";
  return fmt::format("{}({}){}", opaque.name(), arguments_text(opaque), effect);
}

std::string attributes_text(const Op& op) {
  const Attributes& a = op.attributes;
  if (!is_known(op.kind)) return "";
  const auto uses = info(op.kind).attributes;
  std::vector<std::string> parts;
  if (uses & kUsesDims) parts.push_back(fmt::format("dims=[{}]", fmt::join(a.dims, ", ")));
  if ((uses & kUsesIndex) && a.index != -1) parts.push_back(fmt::format("index={}", a.index));
  if ((uses & kUsesAlpha) && a.alpha != 1.0) parts.push_back(fmt::format("alpha={}", a.alpha));
  if (uses & kUsesRegion) parts.push_back("region=" + view_text(a.region));
  if (uses & kUsesWindow) parts.push_back(fmt::format("kernel=[{}, {}]", a.kernel[0], a.kernel[1]));
  if (uses & kUsesConvolution) {
    parts.push_back(fmt::format("stride=[{}, {}], padding=[{}, {}], dilation=[{}, {}]", a.stride[0], a.stride[1],
                                a.padding[0], a.padding[1], a.dilation[0], a.dilation[1]));
  }
  if ((uses & kUsesGroups) && a.groups != 1) parts.push_back(fmt::format("groups={}", a.groups));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string to_text(const Program& program) {
  std::string text = fmt::format("program of {} ops, {} values, {} iterations\n", program.ops.size(),
                                 program.values.size(), program.iterations);
  for (std::size_t i = 0; i < program.slots.size(); ++i) {
    text += fmt::format("slot {}: [{}]  ; {}\n", i, fmt::join(program.slots[i].values, ", "), program.slots[i].name);
  }
  for (const State& s : program.states) {
    const std::string end = s.end == s.start ? "unchanged" : fmt::format("-> %{}", s.end);
    text += fmt::format("state {} {} (blob {}, final blob {})\n", value_text(program, s.start), end,
                        blob_text(s.initial_blob), blob_text(s.final_blob));
  }
  for (const Input& input : program.inputs) {
    text += fmt::format("input {}{} (blobs {})\n", value_text(program, input.value), input.is_draw ? " drawn" : "",
                        fmt::join(input.blobs, ", "));
  }
  for (const Constant& c : program.constants) {
    text += fmt::format("constant {} (blob {})\n", value_text(program, c.value), blob_text(c.blob));
  }
  for (const Op& op : program.ops) text += op_text(program, op);
  for (const Output& output : program.outputs) {
    const std::string recorded = output.is_tensor() ? fmt::format("blobs {}", fmt::join(output.blobs, ", "))
                                                    : fmt::format("recorded {}", fmt::join(output.recorded, ", "));
    text += fmt::format("output {} {} ({})\n", output.name, operand_text(output.operand), recorded);
  }
  for (const std::string& why : program.left_out) text += fmt::format("left out {}\n", why);
  return text;
}

}  // namespace crucible::graph
