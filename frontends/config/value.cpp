#include "frontends/config/value.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace crucible::config {

std::string_view layer_name(Layer layer) {
  switch (layer) {
    case Layer::kBuiltIn:
      return "built-in";
    case Layer::kSystem:
      return "system";
    case Layer::kUser:
      return "user";
    case Layer::kProject:
      return "project";
    case Layer::kEnvironment:
      return "environment";
    case Layer::kCommandLine:
      return "command line";
    case Layer::kApi:
      return "API";
  }
  return "";
}

bool is_file(Layer layer) { return layer == Layer::kSystem || layer == Layer::kUser || layer == Layer::kProject; }

std::string Origin::place() const {
  if (where.empty()) return std::string(layer_name(layer));
  return line == 0 ? where : fmt::format("{}:{}:{}", where, line, column);
}

std::string Origin::text() const {
  return where.empty() ? std::string(layer_name(layer)) : fmt::format("{}, {}", layer_name(layer), place());
}

std::string shown(std::string_view text) {
  std::string line;
  for (const char character : text) {
    const auto byte = static_cast<unsigned char>(character);
    if (byte < 0x20 || byte == 0x7f) {
      line += fmt::format("\\x{:02x}", byte);
    } else {
      line += character;
    }
  }
  return line;
}

std::string to_text(const Value& value) {
  struct Writer {
    std::string operator()(bool flag) const { return flag ? "true" : "false"; }
    std::string operator()(std::int64_t number) const { return std::to_string(number); }
    std::string operator()(const std::string& text) const { return text; }
    std::string operator()(const List& list) const { return fmt::format("{}", fmt::join(list, ", ")); }
    std::string operator()(const Foreign& foreign) const { return foreign.what; }
  };
  return std::visit(Writer{}, value);
}

}  // namespace crucible::config
