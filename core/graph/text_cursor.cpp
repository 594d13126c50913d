// Words and numbers of the text form: see text_cursor.hpp.
#include "core/graph/text_cursor.hpp"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <cmath>

namespace crucible::graph {
namespace {

bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

/// 0 to 15, or -1.
int hexadecimal(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

}  // namespace

void TextCursor::fail(std::string_view message) {
  if (failure_.empty()) failure_ = fmt::format("line {}, column {}: {}", number_, at_ + 1, message);
}

void TextCursor::expected(std::string_view what) {
  skip_blanks();
  std::string found;
  for (const char c : line_.substr(at_, 24)) found += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  fail(found.empty() ? fmt::format("expected {}, found the end of the line", what)
                     : fmt::format("expected {}, found '{}'", what, found));
}

void TextCursor::skip_blanks() {
  while (at_ < line_.size() && (line_[at_] == ' ' || line_[at_] == '\t' || line_[at_] == '\r')) ++at_;
}

bool TextCursor::at_end() {
  skip_blanks();
  return at_ == line_.size() || line_[at_] == ';';
}

bool TextCursor::at(std::string_view word) {
  if (failed()) return false;
  skip_blanks();
  const std::size_t end = at_ + word.size();
  const bool goes_on = is_word(word.back()) && end < line_.size() && is_word(line_[end]);
  return line_.substr(at_).starts_with(word) && !goes_on;
}

bool TextCursor::take(std::string_view word) {
  const bool is_here = at(word);
  if (is_here) at_ += word.size();
  return is_here;
}

void TextCursor::expect(std::string_view word) {
  if (!failed() && !take(word)) expected(fmt::format("'{}'", word));
}

std::string_view TextCursor::identifier() {
  if (failed()) return "";
  skip_blanks();
  std::size_t end = at_;
  while (end < line_.size() && is_word(line_[end])) ++end;
  const auto word = line_.substr(at_, end - at_);
  at_ = end;
  return word;
}

/// The longest run of characters that a number may have.
std::string_view TextCursor::number_here() {
  skip_blanks();
  std::size_t end = at_;
  while (end < line_.size() && (is_word(line_[end]) || line_[end] == '.' || line_[end] == '-' || line_[end] == '+')) {
    const bool sign = line_[end] == '-' || line_[end] == '+';
    if (sign && end > at_ && line_[end - 1] != 'e') break;
    ++end;
  }
  return line_.substr(at_, end - at_);
}

std::int64_t TextCursor::integer(std::string_view what) {
  if (failed()) return 0;
  const std::string_view text = number_here();
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc::result_out_of_range) {
    fail(fmt::format("{} does not fit in 64 bits", what));
    return 0;
  }
  if (error != std::errc{} || end != text.data() + text.size()) {
    expected(what);
    return 0;
  }
  at_ += text.size();
  return number;
}

std::uint32_t TextCursor::id(std::string_view what, std::uint32_t limit) {
  skip_blanks();
  const std::size_t before = at_;
  const std::int64_t number = integer(what);
  if (failed()) return 0;
  if (number < 0 || number > static_cast<std::int64_t>(limit)) {
    at_ = before;
    fail(fmt::format("{} must be 0 to {}, is {}", what, limit, number));
    return 0;
  }
  return static_cast<std::uint32_t>(number);
}

bool TextCursor::is_real() {
  const std::string_view text = number_here();
  return text.find_first_of(".en") != std::string_view::npos;
}

double TextCursor::real(std::string_view what) {
  if (failed()) return 0;
  const std::string_view text = number_here();
  const std::size_t before = at_;
  if (text == "nan" && line_.substr(at_ + 3).starts_with("(0x")) {
    at_ += 6;
    std::uint64_t bits = 0;
    for (int i = 0; i < 16; ++i, ++at_) {
      const int digit = at_ < line_.size() ? hexadecimal(line_[at_]) : -1;
      if (digit < 0) {
        expected("16 hexadecimal digits");
        return 0;
      }
      bits = bits << 4 | static_cast<std::uint64_t>(digit);
    }
    expect(")");
    const auto number = std::bit_cast<double>(bits);
    if (!failed() && !std::isnan(number)) {
      at_ = before;
      fail("these bits are not those of a NaN");
    }
    return number;
  }
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || !is_real()) {
    expected(what);
    return 0;
  }
  at_ += text.size();
  return number;
}

std::string TextCursor::quoted(std::string_view what) {
  std::string text;
  if (failed()) return text;
  if (!take("\"")) {
    expected(fmt::format("{} in quotes", what));
    return text;
  }
  while (at_ < line_.size() && line_[at_] != '"') {
    if (line_[at_] != '\\') {
      text += line_[at_++];
      continue;
    }
    const char next = at_ + 1 < line_.size() ? line_[at_ + 1] : '\0';
    if (next == '"' || next == '\\') {
      text += next;
      at_ += 2;
    } else if (next == 'x' && at_ + 3 < line_.size() && hexadecimal(line_[at_ + 2]) >= 0 &&
               hexadecimal(line_[at_ + 3]) >= 0) {
      text += static_cast<char>(hexadecimal(line_[at_ + 2]) << 4 | hexadecimal(line_[at_ + 3]));
      at_ += 4;
    } else {
      expected("an escape: \\\", \\\\ or \\x with two lower-case hexadecimal digits");
      return "";
    }
  }
  expect("\"");
  return text;
}

std::string TextCursor::optional_quoted() {
  return at("\"") ? quoted("a name") : "";
}

std::vector<std::int64_t> TextCursor::integers(std::string_view open, std::string_view close) {
  std::vector<std::int64_t> numbers;
  expect(open);
  if (take(close)) return numbers;
  do {
    numbers.push_back(integer("an integer"));
  } while (take(","));
  expect(close);
  return numbers;
}

}  // namespace crucible::graph
