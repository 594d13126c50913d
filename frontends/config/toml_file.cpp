// toml++ is used without exceptions: a file of a user is no exceptional thing.
#include "frontends/config/toml_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

namespace crucible::config {
namespace {

std::string kind_of(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::none:
      return "nothing";
    case toml::node_type::table:
      return "a table";
    case toml::node_type::array:
      return "a list of something else than texts";
    case toml::node_type::string:
      return "a text";
    case toml::node_type::integer:
      return "an integer";
    case toml::node_type::floating_point:
      return "a float";
    case toml::node_type::boolean:
      return "true or false";
    case toml::node_type::date:
      return "a date";
    case toml::node_type::time:
      return "a time";
    case toml::node_type::date_time:
      return "a date with time";
  }
  return "something else";
}

Value value_of(const toml::node& node) {
  if (const auto* flag = node.as_boolean()) return flag->get();
  if (const auto* number = node.as_integer()) return std::int64_t{number->get()};
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* array = node.as_array()) {
    List list;
    for (const toml::node& element : *array) {
      const auto* text = element.as_string();
      if (text == nullptr) return Foreign{kind_of(node)};
      list.push_back(text->get());
    }
    return list;
  }
  return Foreign{kind_of(node)};
}

/// The place at which the part of a dotted key stands for itself: what toml++ knows of a key.
Origin origin_of(const toml::source_region& region, Layer layer, const std::string& path) {
  return {layer, path, region.begin.line, region.begin.column};
}

class Reader {
 public:
  Reader(FileContent& out, Layer layer, const std::string& path) : out_(out), layer_(layer), path_(path) {}

  void walk(const toml::table& table, const std::string& prefix) {
    for (const auto& [key, node] : table) {
      const Origin origin = origin_of(key.source(), layer_, path_);
      const std::string name = prefix + std::string(key.str());
      const auto* inner = node.as_table();
      if (inner != nullptr && !inner->empty()) {
        walk(*inner, name + ".");
      } else if (inner != nullptr) {
        // An empty table says nothing; only its name can be wrong, and that is found when it holds something.
      } else {
        // `backend = "cpu"` and `[backend.cpu]` cannot stand in one file: TOML has one meaning per name.
        out_.entries.push_back({name == "backend.name" ? "backend" : name, value_of(node), origin});
      }
    }
  }

 private:
  FileContent& out_;
  Layer layer_;
  const std::string& path_;
};

constexpr int kMostParts = 32;    // of a dotted key: the longest key that means something has four
constexpr int kMostNesting = 32;  // of lists and tables in each other

/// Goes through the text as far as quotes and comments are concerned, and calls `see(character)` for each byte outside
/// of them. Ends at the first byte that `see` refuses, and returns its place.
template <class See>
std::optional<toml::source_position> outside_of_quotes(std::string_view text, See&& see) {
  toml::source_position at{1, 1};
  std::string_view quote;  // what ends the text that is open; "#" for a comment
  for (std::size_t i = 0; i < text.size();) {
    const auto starts = [&](std::string_view word) { return text.substr(i, word.size()) == word; };
    std::size_t step = 1;
    if (quote.empty()) {
      if (!see(text[i])) return at;
      for (const std::string_view opening : {"\"\"\"", "'''", "\"", "'", "#"}) {
        if (!quote.empty() || !starts(opening)) continue;
        quote = opening;
        step = opening.size();
      }
    } else if (text[i] == '\n' && quote.size() == 1) {
      quote = {};  // comments end here, and so do quotes that were forgotten
    } else if (text[i] == '\\' && quote.front() == '"') {
      step = 2;
    } else if (quote != "#" && starts(quote)) {
      step = quote.size();
      // A text in three quotes may end with one or two more of them, which are its own.
      while (quote.size() == 3 && step < 5 && i + step < text.size() && text[i + step] == quote.front()) ++step;
      quote = {};
    }
    for (std::size_t k = i; k < std::min(i + step, text.size()); ++k) {
      const bool line = text[k] == '\n';
      at = line ? toml::source_position{at.line + 1, 1} : toml::source_position{at.line, at.column + 1};
    }
    i += step;
  }
  return std::nullopt;
}

/// Where a byte beyond ASCII stands outside of quotes and comments, where TOML has no use for it. Asked first:
/// toml++ 3.3 runs into undefined behaviour on some of these (is_non_ascii_horizontal_whitespace).
std::optional<toml::source_position> stray_character(std::string_view text) {
  return outside_of_quotes(text, [](char character) { return static_cast<unsigned char>(character) < 0x80; });
}

/// Where a key gets too many parts, or a list or table too deep. toml++ makes a table in a table of each part of a key
/// without a limit, and it, its destructor and we go down them by recursion: a key of 24,000 parts is the end of the
/// stack.
std::optional<toml::source_position> too_deep(std::string_view text) {
  int parts = 1, nesting = 0;
  return outside_of_quotes(text, [&](char character) {
    if (character == '.') return ++parts <= kMostParts;
    if (std::string_view("=,\n[]{}").find(character) != std::string_view::npos) parts = 1;
    if (character == '[' || character == '{') return ++nesting <= kMostNesting;
    if (character == ']' || character == '}') nesting = std::max(0, nesting - 1);
    return true;
  });
}

/// The text without the byte order mark that some editors put before it; nothing where the mark is one of UTF-16.
std::optional<std::string_view> without_byte_order_mark(std::string_view text) {
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff")) return std::nullopt;
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  return text;
}

}  // namespace

FileContent read_toml(const std::string& whole, Layer layer, const std::string& path) {
  FileContent content;
  const std::optional<std::string_view> text = without_byte_order_mark(whole);
  if (!text) {
    content.problems.push_back({{layer, path, 1, 1}, "is UTF-16, as its byte order mark says: save it as UTF-8"});
    return content;
  }
  if (const auto stray = stray_character(*text)) {
    content.problems.push_back({origin_of({*stray, *stray, nullptr}, layer, path),
                                "not TOML: a character that is not ASCII stands outside of quotes and comments"});
    return content;
  }
  if (const auto deep = too_deep(*text)) {
    content.problems.push_back(
        {origin_of({*deep, *deep, nullptr}, layer, path),
         fmt::format("too deep: keys have {} parts at most here, and lists and tables stand in {} others at most",
                     kMostParts, kMostNesting)});
    return content;
  }
  const toml::parse_result parsed = toml::parse(*text);
  if (!parsed) {
    const toml::parse_error& error = parsed.error();
    std::string message = fmt::format("not TOML: {}", error.description());
    if (message.find("redefine existing string 'backend") != std::string::npos) {
      message += "; where [backend.NAME] tables stand, write the name as [backend] name = \"...\"";
    }
    content.problems.push_back({origin_of(error.source(), layer, path), std::move(message)});
    return content;
  }
  Reader(content, layer, path).walk(parsed.table(), "");
  // toml++ keeps tables by name; people read files from the top.
  std::ranges::stable_sort(content.entries, {},
                           [](const Entry& entry) { return std::pair(entry.origin.line, entry.origin.column); });
  return content;
}

}  // namespace crucible::config
