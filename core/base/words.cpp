#include "core/base/words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace crucible {
namespace {

unsigned byte_at(std::string_view text, std::size_t at) {
  return at < text.size() ? static_cast<unsigned char>(text[at]) : 0u;
}

/// How many bytes at `at` are a character that a terminal takes for a command: control characters of both ranges (the
/// second one in UTF-8), ends of lines and paragraphs, and what turns the direction of writing.
std::size_t command_at(std::string_view text, std::size_t at) {
  const unsigned first = byte_at(text, at), second = byte_at(text, at + 1), third = byte_at(text, at + 2);
  if (first < 0x20 || first == 0x7f) return 1;
  if (first == 0xc2 && second >= 0x80 && second <= 0x9f) return 2;
  if (first == 0xd8 && second == 0x9c) return 2;  // the Arabic letter mark
  if (first != 0xe2) return 0;
  const bool turns = (second == 0x80 && (third == 0x8e || third == 0x8f || (third >= 0xa8 && third <= 0xae))) ||
                     (second == 0x81 && third >= 0xa6 && third <= 0xa9);
  return turns ? 3 : 0;
}

/// Whether command_at() need be asked: not of most of a text.
bool may_begin_a_command(char letter) {
  const auto byte = static_cast<unsigned char>(letter);
  return byte < 0x20 || byte == 0x7f || byte == 0xc2 || byte == 0xd8 || byte == 0xe2;
}

/// Of the UTF-8 sequence at `at`; 0 where there is none.
std::size_t sequence_at(std::string_view text, std::size_t at) {
  const unsigned first = byte_at(text, at), second = byte_at(text, at + 1);
  const std::size_t length = first < 0x80                     ? 1
                             : first >= 0xc2 && first <= 0xdf ? 2
                             : (first & 0xf0) == 0xe0         ? 3
                             : first >= 0xf0 && first <= 0xf4 ? 4
                                                              : 0;
  if (length == 0 || at + length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte_at(text, at + i) & 0xc0) != 0x80) return 0;
  const bool overlong_or_surrogate = (first == 0xe0 && second < 0xa0) || (first == 0xed && second >= 0xa0) ||
                                     (first == 0xf0 && second < 0x90) || (first == 0xf4 && second >= 0x90);
  const bool no_character = first == 0xef && second == 0xbf && byte_at(text, at + 2) >= 0xbe;
  return overlong_or_surrogate || no_character ? 0 : length;
}

std::uint32_t code_point(std::string_view text, std::size_t at, std::size_t length) {
  if (length == 1) return byte_at(text, at);
  std::uint32_t code = byte_at(text, at) & (0xffu >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) code = (code << 6) | (byte_at(text, at + i) & 0x3fu);
  return code;
}

bool is_newline_or_tab(char letter) { return letter == '\n' || letter == '\t'; }

}  // namespace

std::string printable(std::string_view text) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (command_at(text, at) > 0) return fmt::format("{:?}", text);
  }
  return std::string(text);
}

std::string without_commands(std::string_view text) {
  std::string clean;
  clean.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = is_newline_or_tab(text[at]) ? 0 : command_at(text, at);
    for (std::size_t i = 0; i < length; ++i) clean += fmt::format("\\x{:02x}", byte_at(text, at + i));
    if (length == 0) clean += text[at];
    at += std::max<std::size_t>(length, 1);
  }
  return clean;
}

std::string json_without_commands(std::string_view json) {
  std::string clean;
  clean.reserve(json.size());
  std::size_t copied = 0;
  for (std::size_t at = 0; at < json.size();) {
    // Outside its strings a document has no such characters but newlines; inside, those below 0x20 are escaped already.
    const std::size_t length = json[at] == '\n' || !may_begin_a_command(json[at]) ? 0 : command_at(json, at);
    if (length > 0) {
      clean += json.substr(copied, at - copied);
      clean += fmt::format("\\u{:04x}", code_point(json, at, length));
      copied = at + length;
    }
    at += std::max<std::size_t>(length, 1);
  }
  return clean += json.substr(copied);
}

std::string escape_markup(std::string_view text) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = sequence_at(text, at);
    if (length == 0 || (!is_newline_or_tab(text[at]) && command_at(text, at) > 0)) {
      result += "\xef\xbf\xbd";
    } else {
      switch (text[at]) {
        case '&': result += "&amp;"; break;
        case '<': result += "&lt;"; break;
        case '>': result += "&gt;"; break;
        case '"': result += "&quot;"; break;
        case '\'': result += "&#39;"; break;
        default: result += text.substr(at, length);
      }
    }
    at += std::max<std::size_t>(length, 1);
  }
  return result;
}

std::string times_in_words(std::uint64_t count) {
  return count == 1 ? "once" : count == 2 ? "twice" : fmt::format("{} times", count);
}

}  // namespace crucible
