#include "frontends/cli/command_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

namespace crucible::cli {
namespace {

bool needs_no_quotes(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
         std::string_view("_@%+=:,./-").find(c) != std::string_view::npos;
}

/// Reads a quoted part that begins at `at`, behind its quote; leaves `at` behind the closing one. False: there is none.
bool read_quoted(std::string_view line, std::size_t& at, char quote, std::string& word) {
  for (; at < line.size(); ++at) {
    if (line[at] == quote) {
      ++at;
      return true;
    }
    const bool escapes = quote == '"' && line[at] == '\\' && at + 1 < line.size() &&
                         std::string_view("\"\\$`").find(line[at + 1]) != std::string_view::npos;
    if (escapes) ++at;
    word += line[at];
  }
  return false;
}

}  // namespace

std::string line_of(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) {
    if (&word != &words.front()) line += ' ';
    if (!word.empty() && std::ranges::all_of(word, needs_no_quotes)) {
      line += word;
      continue;
    }
    line += '\'';
    for (const char c : word) line += c == '\'' ? std::string("'\"'\"'") : std::string(1, c);
    line += '\'';
  }
  return line;
}

Result<std::vector<std::string>> words_of(std::string_view line) {
  std::vector<std::string> words;
  std::string word;
  bool in_word = false;
  for (std::size_t at = 0; at < line.size();) {
    const char c = line[at++];
    if (c == '\'' || c == '"') {
      in_word = true;
      if (!read_quoted(line, at, c, word))
        return Error{ErrorCode::kUsage, fmt::format("a quote {} is not closed in: {}", c, line)};
    } else if (std::isspace(static_cast<unsigned char>(c)) != 0) {
      if (in_word) words.push_back(std::exchange(word, {}));
      in_word = false;
    } else {
      in_word = true;
      const bool escapes = c == '\\' && at < line.size();
      word += escapes ? line[at++] : c;
    }
  }
  if (in_word) words.push_back(std::move(word));
  return words;
}

}  // namespace crucible::cli
