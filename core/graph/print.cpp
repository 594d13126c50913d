// The text form of programs: see program.hpp for an example. Every field is printed; parse.cpp reads it back.
#include "core/graph/print.hpp"

#include <fmt/format.h>

#include <bit>
#include <limits>

#include "core/base/words.hpp"
#include "core/graph/composite.hpp"
#include "core/graph/op_table.hpp"
#include "core/graph/opaque.hpp"
#include "core/graph/view.hpp"
#include "core/trace/text.hpp"

namespace crucible::graph {
namespace {

/// All digits that are needed to read the same double back; a NaN that is not the usual one with its bits.
std::string real_text(double number) {
  if (number != number &&
      std::bit_cast<std::uint64_t>(number) != std::bit_cast<std::uint64_t>(std::numeric_limits<double>::quiet_NaN())) {
    return fmt::format("nan(0x{:016x})", std::bit_cast<std::uint64_t>(number));
  }
  auto text = fmt::format("{}", number);
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}

std::string view_text(const View& view) {
  std::string text = fmt::format("[{}]", fmt::join(view.sizes, ", "));
  // Dimensions of size 1 have strides too: reductions' results have 0 there.
  if (view.strides != View::contiguous(view.sizes).strides)
    text += fmt::format("{{{}}}", fmt::join(view.strides, ", "));
  if (view.offset != 0) text += fmt::format("+{}", view.offset);
  return text;
}

/// As text in a line: what is not printable, quotes and backslashes escaped. Bytes of UTF-8 stay as they are.
std::string in_a_line(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      result += fmt::format("\\x{:02x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      result += c;
    }
  }
  return result;
}

std::string quoted(std::string_view text) { return '"' + in_a_line(text) + '"'; }

std::string name_text(const std::string& name) { return name.empty() ? "" : " " + quoted(name); }

std::string numbers_text(const Slot& slot) {
  std::vector<std::string> texts;
  for (const Number& number : slot.values)
    texts.push_back(number.is_integer() ? fmt::format("{}", number.integer()) : real_text(number.real()));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

template <class Numbers>
std::string reals_text(const Numbers& numbers) {
  std::vector<std::string> texts;
  for (const double number : numbers) texts.push_back(real_text(number));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

std::string operand_text(const Operand& operand) {
  if (operand.is_scalar()) return to_text(operand.scalar);
  return fmt::format("%{}{}", operand.value, view_text(operand.view));
}

std::string op_text(const Program& program, const Op& op) {
  std::string text = "  ";
  for (std::size_t i = 0; i < op.outputs.size(); ++i) {
    const Operand& out = op.outputs[i];
    const bool exists = out.value < program.values.size();
    const std::string_view dtype = exists ? name(program.values[out.value].dtype) : "?";
    text += fmt::format("{}%{}{}: {}{}", i ? ", " : "", out.value,
                        exists ? name_text(program.values[out.value].name) : "", dtype, view_text(out.view));
  }
  text += fmt::format(" = {}(", op_name(program, op));
  for (std::size_t i = 0; i < op.inputs.size(); ++i) text += (i ? ", " : "") + operand_text(op.inputs[i]);
  const std::string attributes = attributes_text(program, op);
  if (!attributes.empty()) text += (op.inputs.empty() ? "" : ", ") + attributes;
  text += ")";
  if (op.source < program.sources.size()) {
    const Source& source = program.sources[op.source];
    text += fmt::format("  @{} ; {}{}{} {}", op.source, in_a_line(source.op), source.module.empty() ? "" : " ",
                        in_a_line(source.module), in_a_line(source.site));
  }
  return text + "\n";
}

std::string value_text(const Program& program, ValueId v) {
  const Value& value = program.values[v];
  return fmt::format("%{}{}: {}[{}]", v, name_text(value.name), name(value.dtype), value.elements);
}

std::string blob_text(std::uint32_t blob) { return blob == kNone ? "none" : fmt::format("{}", blob); }

std::string bounds_text(const std::vector<Bound>& bounds) {
  std::vector<std::string> texts;
  for (const Bound& bound : bounds) {
    texts.push_back(fmt::format("[{}, {}]{}", bound.low, bound.high,
                                bound.source == kNone ? "" : fmt::format(" @{}", bound.source)));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string blobs_text(const std::vector<std::uint32_t>& blobs) {
  std::vector<std::string> texts;
  for (const std::uint32_t blob : blobs) texts.push_back(blob_text(blob));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

}  // namespace

std::string_view phase_name(Phase phase) {
  constexpr std::string_view kNames[] = {"forward", "backward", "optimizer"};
  return kNames[static_cast<std::size_t>(phase)];
}

std::string to_text(const Scalar& scalar) {
  if (scalar.slot != kNone) return fmt::format("slot {}{}", scalar.slot, scalar.is_integer ? "i" : "");
  return scalar.is_integer ? fmt::format("{}", scalar.integer) : real_text(scalar.real);
}

std::string attributes_text(const Composite& composite) {
  std::vector<std::string> parts;
  for (const CompositeAttribute& attribute : composite.attributes) {
    std::vector<std::string> numbers;
    for (const Scalar& number : attribute.numbers) numbers.push_back(to_text(number));
    const auto joined = fmt::format("{}", fmt::join(numbers, ", "));
    parts.push_back(
        fmt::format("{}={}{}{}", attribute.name, attribute.is_list ? "[" : "", joined, attribute.is_list ? "]" : ""));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string attributes_text(const Program& program, const Op& op) {
  if (op.kind == OpKind::kComposite && op_name(program, op) != name(op.kind)) {
    const std::string attributes = attributes_text(composite_of(program, op));
    return fmt::format("{}{}body={}", attributes, attributes.empty() ? "" : ", ", op.attributes.index);
  }
  const auto entry = static_cast<std::size_t>(op.attributes.index);
  if (op.kind != OpKind::kOpaque || entry >= program.opaques.size() || !program.opaques[entry])
    return attributes_text(op);
  const Opaque& opaque = *program.opaques[entry];
  const char* effect = opaque.effect == OpaqueEffect::kPure     ? ""
                       : opaque.effect == OpaqueEffect::kRandom ? ", random"
                                                                : ", effects unknown";
  return fmt::format("{}({}){}", printable(opaque.name()), arguments_text(opaque), effect);
}

std::string attributes_text(const Op& op) {
  const Attributes& a = op.attributes;
  const Attributes plain;
  if (!is_known(op.kind)) return "";
  const auto uses = info(op.kind).attributes;
  std::vector<std::string> parts;
  const auto pair = [&](const char* name, const std::int64_t(&x)[2], const std::int64_t(&usual)[2], bool used) {
    if (used || x[0] != usual[0] || x[1] != usual[1]) parts.push_back(fmt::format("{}=[{}, {}]", name, x[0], x[1]));
  };
  if ((uses & kUsesDims) || !a.dims.empty()) parts.push_back(fmt::format("dims=[{}]", fmt::join(a.dims, ", ")));
  if (a.index != plain.index) parts.push_back(fmt::format("index={}", a.index));
  if (std::bit_cast<std::uint64_t>(a.alpha) != std::bit_cast<std::uint64_t>(plain.alpha))
    parts.push_back("alpha=" + real_text(a.alpha));
  if ((uses & kUsesRegion) || a.region != View{}) parts.push_back("region=" + view_text(a.region));
  pair("kernel", a.kernel, plain.kernel, uses & kUsesWindow);
  pair("stride", a.stride, plain.stride, uses & kUsesConvolution);
  pair("padding", a.padding, plain.padding, uses & kUsesConvolution);
  pair("dilation", a.dilation, plain.dilation, uses & kUsesConvolution);
  if (a.groups != plain.groups) parts.push_back(fmt::format("groups={}", a.groups));
  if (a.pieces != plain.pieces) parts.push_back(fmt::format("pieces={}", a.pieces));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string meaning_text(const Meaning& meaning) {
  const auto roles = [](const std::vector<Role>& all) {
    std::string text;
    for (const Role& role : all)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", quoted(role.name), operand_text(role.operand));
    return text;
  };
  const Composite named{meaning.name, meaning.attributes, {}};
  return fmt::format("meaning {} = {}({}) of {}\n", roles(meaning.outputs), meaning.name, attributes_text(named),
                     roles(meaning.inputs));
}

std::string to_text(const Program& program, OpId op) { return op_text(program, program.ops[op]); }

std::string to_text(const Program& program) {
  std::string text = fmt::format("crucible program {}: {} ops, {} values, {} iterations\n", kTextVersion,
                                 program.ops.size(), program.values.size(), program.iterations);
  for (std::size_t i = 0; i < program.slots.size(); ++i) {
    const Slot& slot = program.slots[i];
    text += fmt::format("slot {}{}{}: {}\n", i, slot.is_integer ? "i" : "", name_text(slot.name), numbers_text(slot));
  }
  for (const State& s : program.states) {
    const std::string end = s.end == s.start ? "unchanged" : fmt::format("-> %{}", s.end);
    text += fmt::format("state {} {} (blob {}, final blob {})\n", value_text(program, s.start), end,
                        blob_text(s.initial_blob), blob_text(s.final_blob));
  }
  for (const Input& input : program.inputs) {
    text += fmt::format("input {}{} (blobs {})\n", value_text(program, input.value), input.is_draw ? " drawn" : "",
                        blobs_text(input.blobs));
  }
  for (const Constant& c : program.constants) {
    text += fmt::format("constant {} (blob {})\n", value_text(program, c.value), blob_text(c.blob));
  }
  for (const Op& op : program.ops) text += op_text(program, op);
  for (const Output& output : program.outputs) {
    const std::string recorded = output.is_bounds()   ? "bounds " + bounds_text(output.bounds)
                                 : output.is_tensor() ? "blobs " + blobs_text(output.blobs)
                                                      : "recorded " + reals_text(output.recorded);
    text += fmt::format("output {} {} ({})\n", quoted(output.name), operand_text(output.operand), recorded);
  }
  for (const Meaning& meaning : program.meanings) text += meaning_text(meaning);
  for (const std::string& why : program.left_out) text += fmt::format("left out {}\n", quoted(why));
  for (std::size_t i = 0; i < program.composites.size(); ++i) {
    if (!program.composites[i]) continue;
    text +=
        fmt::format("composite {}: {}({})\n", i, program.composites[i]->name, attributes_text(*program.composites[i]));
    const std::string body = to_text(program.composites[i]->body);
    for (std::size_t begin = 0, end = 0; begin < body.size(); begin = end + 1) {
      end = body.find('\n', begin);
      text += fmt::format("{} {}\n", kBodyLine, std::string_view(body).substr(begin, end - begin));
    }
  }
  for (std::size_t i = 0; i < program.sources.size(); ++i) {
    const Source& source = program.sources[i];
    text += fmt::format("source {}: {} {} {} {} {}\n", i, phase_name(source.phase), blob_text(source.trace_op),
                        quoted(source.op), quoted(source.module), quoted(source.site));
  }
  return text;
}

}  // namespace crucible::graph
