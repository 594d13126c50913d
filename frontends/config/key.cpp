// The check of a value against its key. The keys themselves stand in known_keys.cpp.
#include "frontends/config/key.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "frontends/config/suggest.hpp"

namespace crucible::config {
namespace {

std::string wanted(const Key& key) {
  switch (key.type) {
    case Type::kText:
      return "a text";
    case Type::kChoice:
      return fmt::format("one of {}", fmt::join(key.choices, ", "));
    case Type::kBool:
      return "true or false";
    case Type::kInteger:
      return key.max == std::numeric_limits<std::int64_t>::max()
                 ? fmt::format("an integer, {} or more", key.min)
                 : fmt::format("an integer from {} to {}", key.min, key.max);
    case Type::kPath:
      return "a path";
    case Type::kWord:
      return "a name or a path";
    case Type::kDigest:
      return "a SHA-256 of 64 hexadecimal digits";
    case Type::kTextList:
      return key.choices.empty() ? "a list of texts" : fmt::format("a list of {}", fmt::join(key.choices, ", "));
    case Type::kPathList:
      return "a list of paths";
  }
  return "";
}

std::string found(const Value& value) {
  struct Namer {
    std::string operator()(bool flag) const { return flag ? "true" : "false"; }
    std::string operator()(std::int64_t number) const { return std::to_string(number); }
    std::string operator()(const std::string& text) const { return "'" + text + "'"; }
    std::string operator()(const List& list) const { return fmt::format("a list of {}", list.size()); }
    std::string operator()(const Foreign& foreign) const { return foreign.what; }
  };
  return std::visit(Namer{}, value);
}

Error refuse(const Key& key, const Value& value, const std::string& hint = "") {
  return {ErrorCode::kBadInput, fmt::format("{} is {}: it must be {}{}", key.name, found(value), wanted(key), hint)};
}

List split(std::string_view text, char separator) {
  List parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    if (end > 0) parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

/// What environment and command line wrote, as the kind of value that the key wants; unchanged when it cannot be.
Value read_text(const Key& key, const std::string& text) {
  switch (key.type) {
    case Type::kBool:
      if (text == "true" || text == "1") return true;
      if (text == "false" || text == "0") return false;
      return text;
    case Type::kInteger: {
      std::int64_t number = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
      if (error != std::errc() || end != text.data() + text.size()) return text;
      return number;
    }
    case Type::kTextList:
    case Type::kPathList:
      return split(text, key.separator());
    case Type::kText:
    case Type::kChoice:
    case Type::kPath:
    case Type::kWord:
    case Type::kDigest:
      return text;
  }
  return text;
}

std::string absolute(const std::string& path, const std::filesystem::path& base) {
  return path.empty() ? path : (base / path).lexically_normal().string();
}

bool is_digest(const std::string& text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos;
}

Result<Value> convert_text(const Key& key, const std::string& text, const std::filesystem::path& base) {
  if (key.type == Type::kPath) return Value(absolute(text, base));
  if (key.type == Type::kWord) return Value(text.find('/') == std::string::npos ? text : absolute(text, base));
  if (key.type == Type::kChoice && std::ranges::find(key.choices, text) == key.choices.end()) {
    return refuse(key, Value(text), did_you_mean(text, key.choices));
  }
  if (key.type == Type::kDigest) {
    if (!is_digest(text)) return refuse(key, Value(text));
    std::string lower = text;
    std::ranges::transform(lower, lower.begin(), [](char c) { return c >= 'A' && c <= 'F' ? char(c - 'A' + 'a') : c; });
    return Value(std::move(lower));
  }
  return Value(text);
}

Result<Value> convert_list(const Key& key, List list, const std::filesystem::path& base) {
  for (std::string& element : list) {
    if (key.type == Type::kPathList) {
      element = absolute(element, base);
    } else if (!key.choices.empty() && std::ranges::find(key.choices, element) == key.choices.end()) {
      return Error{ErrorCode::kBadInput, fmt::format("{} has '{}': it must be {}{}", key.name, element, wanted(key),
                                                     did_you_mean(element, key.choices))};
    }
  }
  return Value(std::move(list));
}

}  // namespace

Result<Value> convert(const Key& key, const Value& value, bool from_text, const std::filesystem::path& base) {
  const auto* text = std::get_if<std::string>(&value);
  const Value read = from_text && text != nullptr ? read_text(key, *text) : value;
  switch (key.type) {
    case Type::kBool:
      if (std::holds_alternative<bool>(read)) return read;
      break;
    case Type::kInteger:
      if (const auto* number = std::get_if<std::int64_t>(&read);
          number != nullptr && *number >= key.min && *number <= key.max) {
        return read;
      }
      break;
    case Type::kTextList:
    case Type::kPathList:
      if (const auto* list = std::get_if<List>(&read)) return convert_list(key, *list, base);
      break;
    case Type::kText:
    case Type::kChoice:
    case Type::kPath:
    case Type::kWord:
    case Type::kDigest:
      if (const auto* word = std::get_if<std::string>(&read)) return convert_text(key, *word, base);
      break;
  }
  return refuse(key, read);
}

}  // namespace crucible::config
