// Text forms; what is not printable comes out escaped.
#include "core/trace/text.hpp"

#include "core/base/words.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace crucible::trace {

namespace {

std::string numbers_text(const std::vector<std::int64_t>& numbers) {
  return fmt::format("{}", fmt::join(numbers, ", "));
}

bool is_row_major(const Tensor& tensor) {
  // Modulo 2^64 on purpose: sizes from a file may be anything.
  std::uint64_t expected = 1;
  for (std::size_t i = tensor.sizes.size(); i-- > 0;) {
    if (tensor.sizes[i] == 0) return true;
    if (tensor.sizes[i] != 1 && static_cast<std::uint64_t>(tensor.strides[i]) != expected) return false;
    expected *= static_cast<std::uint64_t>(tensor.sizes[i]);
  }
  return true;
}

std::string arg_text(const Compounds& compounds, const Arg& arg, bool with_parts);
std::string tensor_text(const Compounds& compounds, TensorId id, bool with_parts);

std::string list_text(const Compounds& compounds, const std::vector<Arg>& list, bool with_parts) {
  std::string text = "[";
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (i > 0) text += ", ";
    text += arg_text(compounds, list[i], with_parts);
  }
  return text + "]";
}

std::string dtype_text(std::int64_t number) {
  if (number >= 0 && number <= 255) {
    const DType dtype = static_cast<DType>(number);
    if (dtype <= DType::kC128 || dtype == DType::kOther) return std::string(name(dtype));
  }
  return fmt::format("dtype({})", number);
}

/// The name in one declaration of an argument: "Tensor(a!) self", "float[2] beta=[0.9, 0.99]", or "" for "*".
std::string declared_name(std::string_view declaration) {
  int depth = 0;
  for (std::size_t i = 0; i < declaration.size(); ++i) {  // a default begins at the first "=" outside brackets
    const char letter = declaration[i];
    if (letter == '(' || letter == '[') ++depth;
    if (letter == ')' || letter == ']') --depth;
    if (letter == '=' && depth == 0) {
      declaration = declaration.substr(0, i);
      break;
    }
  }
  const std::size_t last = declaration.find_last_not_of(' ');
  if (last == std::string_view::npos) return "";
  declaration = declaration.substr(0, last + 1);
  const std::size_t space = declaration.rfind(' ');
  const std::string_view found = space == std::string_view::npos ? declaration : declaration.substr(space + 1);
  return found == "*" ? "" : std::string(found);
}

/// "sparse_coo(indices=i64[2, 3]@5, values=f32[3]@6)", or "none" for a tensor of which nothing is known. Parts that are
/// compound themselves come without their own.
std::string compound_text(const Compounds& compounds, TensorId id, bool with_parts) {
  const CompoundTensor* found = compounds.find(id);
  if (found == nullptr) return "none";
  std::string text = printable(found->kind);
  if (!with_parts) return text;
  text += "(";
  for (const auto& [name, part] : found->parts) {
    if (text.back() != '(') text += ", ";
    text += printable(name) + "=" + arg_text(compounds, part, false);
  }
  return text + ")";
}

std::string tensor_text(const Compounds& compounds, TensorId id, bool with_parts) {
  const Trace& trace = compounds.trace();
  if (id >= trace.tensors.size()) return "?";
  const Tensor& tensor = trace.tensors[id];
  std::string text = fmt::format("{}[{}]", name(tensor.dtype), numbers_text(tensor.sizes));
  if (!is_row_major(tensor)) text += fmt::format("{{{}}}", numbers_text(tensor.strides));
  text += "@" + (tensor.storage == kNone ? compound_text(compounds, id, with_parts) : std::to_string(tensor.storage));
  if (tensor.offset != 0) text += fmt::format("{:+}", tensor.offset);
  return text;
}

std::string arg_text(const Compounds& compounds, const Arg& arg, bool with_parts) {
  switch (arg.kind) {
    case Arg::Kind::kNone:
      return "none";
    case Arg::Kind::kBool:
      return arg.integer != 0 ? "true" : "false";
    case Arg::Kind::kInt:
      return std::to_string(arg.integer);
    case Arg::Kind::kDouble:
      return double_text(arg.real);
    case Arg::Kind::kComplex:
      return fmt::format("({}, {}i)", double_text(arg.real), double_text(arg.imaginary));
    case Arg::Kind::kString:
      return fmt::format("{:?}", arg.text);
    case Arg::Kind::kDType:
      return dtype_text(arg.integer);
    case Arg::Kind::kDevice:
      return printable(arg.text);
    case Arg::Kind::kLayout:
      return fmt::format("layout({})", arg.integer);
    case Arg::Kind::kMemoryFormat:
      return fmt::format("memory_format({})", arg.integer);
    case Arg::Kind::kGenerator:
      return fmt::format("generator({})", printable(arg.text));
    case Arg::Kind::kTensor:
      return tensor_text(compounds, arg.tensor, with_parts);
    case Arg::Kind::kUndefinedTensor:
      return "undefined";
    case Arg::Kind::kList:
      return list_text(compounds, arg.list, with_parts);
    case Arg::Kind::kOpaque:
      return fmt::format("<{}>", printable(arg.text));
  }
  return "?";
}

}  // namespace

std::string double_text(double number) {
  std::string text = fmt::format("{}", number);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

std::string tensor_text(const Compounds& compounds, TensorId id) { return tensor_text(compounds, id, true); }

std::string arg_text(const Compounds& compounds, const Arg& arg) { return arg_text(compounds, arg, true); }

std::vector<std::string> argument_names(std::string_view schema_text) {
  const std::size_t open = schema_text.find('(');
  if (open == std::string_view::npos) return {};
  std::vector<std::string> names;
  int depth = 0;
  std::size_t start = open + 1;
  for (std::size_t i = open + 1; i < schema_text.size(); ++i) {
    const char letter = schema_text[i];
    const bool is_end = letter == ')' && depth == 0;
    if (is_end || (letter == ',' && depth == 0)) {
      if (std::string found = declared_name(schema_text.substr(start, i - start)); !found.empty())
        names.push_back(std::move(found));
      start = i + 1;
    }
    if (is_end) return names;
    if (letter == '(' || letter == '[') ++depth;
    if (letter == ')' || letter == ']') --depth;
  }
  return {};
}

std::string op_text(const Compounds& compounds, const Op& op) {
  const Trace& trace = compounds.trace();
  if (op.schema >= trace.schemas.size()) return "?";
  const Schema& schema = trace.schemas[op.schema];
  const std::vector<std::string> names = argument_names(schema.text);
  std::string text = printable(schema.full_name()) + "(";
  for (std::size_t i = 0; i < op.args.size(); ++i) {
    if (i > 0) text += ", ";
    if (i < names.size()) text += printable(names[i]) + "=";
    text += arg_text(compounds, op.args[i]);
  }
  text += ")";
  for (std::size_t i = 0; i < op.outputs.size(); ++i)
    text += (i == 0 ? " -> " : ", ") + arg_text(compounds, op.outputs[i]);
  return text;
}

}  // namespace crucible::trace
