// Schema texts as types: see signature.hpp.
#include "frontends/aten/call/signature.hpp"

#include <algorithm>
#include <charconv>

namespace crucible::aten {
namespace {

/// The parts between commas that stand outside of brackets and quotes.
std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts;
  std::string part;
  int depth = 0;
  bool quoted = false;
  for (const char c : text) {
    if (c == '\'' || c == '"') quoted = !quoted;
    if (!quoted && (c == '(' || c == '[')) ++depth;
    if (!quoted && (c == ')' || c == ']')) --depth;
    if (c == ',' && depth == 0 && !quoted) {
      parts.push_back(part);
      part.clear();
    } else if (c != ' ' || !part.empty()) {
      part += c;
    }
  }
  if (!part.empty()) parts.push_back(part);
  return parts;
}

void read_type(std::string type, Parameter& parameter) {
  if (const auto open = type.find('('); open != std::string::npos) {
    const auto close = std::min(type.find(')', open), type.size());
    parameter.alias = type.substr(open + 1, close - open - 1);
    type.erase(open, close - open + 1);
  }
  if (!type.empty() && type.back() == '?') {
    parameter.is_optional = true;
    type.pop_back();
  }
  const auto open = type.rfind('[');
  if (open != std::string::npos && type.back() == ']') {
    parameter.is_list = true;
    const std::string length = type.substr(open + 1, type.size() - open - 2);
    std::from_chars(length.data(), length.data() + length.size(), parameter.length);
    type.resize(open);
    if (!type.empty() && type.back() == '?') {
      parameter.has_optional_items = true;
      type.pop_back();
    }
  }
  parameter.type = type == "SymInt" ? "int" : type;
}

Parameter read_parameter(std::string text, bool is_argument) {
  Parameter parameter;
  if (const auto equals = text.find('='); equals != std::string::npos) {
    parameter.fallback = text.substr(equals + 1);
    text.resize(equals);
  }
  const auto space = text.find_last_of(' ');
  if (space != std::string::npos) {
    parameter.name = text.substr(space + 1);
    text.resize(space);
  } else if (is_argument) {
    parameter.name = text;
  }
  read_type(std::move(text), parameter);
  return parameter;
}

}  // namespace

Signature parse_signature(std::string_view schema) {
  Signature signature{std::string(schema), {}, {}};
  const auto open = schema.find('('), arrow = schema.rfind(" -> ");
  if (open == std::string_view::npos || arrow == std::string_view::npos || arrow < open + 2) return signature;
  for (const auto& part : split(schema.substr(open + 1, arrow - open - 2))) {
    if (part != "*") signature.arguments.push_back(read_parameter(part, true));
  }
  std::string_view results = schema.substr(arrow + 4);
  // "(Tensor, Tensor)" has brackets around all; "Tensor(a!)" does not begin with one.
  if (results.starts_with('(') && results.ends_with(')')) results = results.substr(1, results.size() - 2);
  for (const auto& part : split(results)) signature.results.push_back(read_parameter(part, false));
  return signature;
}

}  // namespace crucible::aten
