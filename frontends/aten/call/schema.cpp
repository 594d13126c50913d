// Reading of schema texts: see schema.hpp.
#include "frontends/aten/call/schema.hpp"

#include <cctype>

namespace crucible::aten {
namespace {

/// The name in one declaration "Scalar alpha=1": the last word before the default.
std::string name_of(std::string_view declaration) {
  const auto equals = declaration.find('=');
  auto text = declaration.substr(0, equals);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  const auto space = text.find_last_of(' ');
  if (space != std::string_view::npos) text = text.substr(space + 1);
  return std::string(text);
}

/// Each declaration "Tensor(a!) self" or "Scalar alpha=1", without what is quoted in defaults.
std::vector<std::string> declarations(std::string_view schema) {
  std::vector<std::string> parts;
  const auto open = schema.find('(');
  if (open == std::string_view::npos) return parts;
  int depth = 0;
  bool quoted = false;
  std::string part;
  for (char c : schema.substr(open + 1)) {
    if (c == '\'' || c == '"') quoted = !quoted;
    if (quoted) continue;  // a default text may hold commas; only the name before it matters
    if (depth == 0 && (c == ',' || c == ')')) {
      const std::string name = name_of(part);
      if (!name.empty() && name != "*") parts.push_back(part);
      part.clear();
      if (c == ')') break;
      continue;
    }
    if (c == '(' || c == '[') ++depth;
    if (c == ')' || c == ']') --depth;
    part += c;
  }
  return parts;
}

}  // namespace

bool is_schema(std::string_view text) {
  std::string open;  // brackets that wait for their ends
  char quote = 0;
  for (const char c : text) {
    if (quote != 0) {
      if (c == quote) quote = 0;
      continue;
    }
    if (c == '\'' || c == '"') quote = c;
    if (c == '(' || c == '[') open += c;
    if (c != ')' && c != ']') continue;
    if (open.empty() || open.back() != (c == ')' ? '(' : '[')) return false;
    open.pop_back();
  }
  const auto first = text.find('('), arrow = text.rfind(" -> ");
  return open.empty() && quote == 0 && first != std::string_view::npos && arrow != std::string_view::npos &&
         first < arrow;
}

std::vector<std::string> argument_names(std::string_view schema) {
  std::vector<std::string> names;
  for (const std::string& part : declarations(schema)) names.push_back(name_of(part));
  return names;
}

std::vector<bool> written_arguments(std::string_view schema) {
  std::vector<bool> written;
  for (const std::string& part : declarations(schema)) written.push_back(part.substr(0, part.find('=')).contains('!'));
  return written;
}

bool writes_argument(std::string_view schema) {
  if (schema.starts_with("aten::record_stream(")) return false;  // it tells the allocator; its schema says more
  const auto arrow = schema.rfind("->");
  return schema.substr(0, arrow).find('!') != std::string_view::npos;
}

}  // namespace crucible::aten
