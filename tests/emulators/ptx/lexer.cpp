// One pass over the characters.
#include "tests/emulators/ptx/lexer.hpp"

#include <cctype>

#include "tests/emulators/ptx/syntax.hpp"

namespace crucible::emulators::ptx {
namespace {

bool starts_word(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%'; }
bool in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$'; }

}  // namespace

std::vector<Token> tokens_of(std::string_view text) {
  std::vector<Token> tokens;
  int line = 1;
  std::size_t i = 0;
  const auto add = [&](Token::Kind kind, std::size_t begin, std::size_t end) {
    tokens.push_back({kind, std::string(text.substr(begin, end - begin)), line});
    i = end;
  };
  while (i < text.size() && text[i] != '\0') {
    const char c = text[i], next = i + 1 < text.size() ? text[i + 1] : '\0';
    if (c == '\n') ++line;
    if (std::isspace(static_cast<unsigned char>(c))) {
      ++i;
    } else if (c == '/' && next == '/') {
      while (i < text.size() && text[i] != '\n') ++i;
    } else if (c == '/' && next == '*') {
      const std::size_t end = text.find("*/", i + 2);
      if (end == std::string_view::npos) throw Error(line, "a comment has no end");
      for (; i < end + 2; ++i) line += text[i] == '\n';
    } else if (starts_word(c)) {
      std::size_t end = i + 1;
      while (end < text.size() && in_word(text[end])) ++end;
      add(Token::Kind::kWord, i, end);
    } else if (std::isdigit(static_cast<unsigned char>(c))) {
      std::size_t end = i + 1;
      while (end < text.size() && std::isalnum(static_cast<unsigned char>(text[end]))) ++end;
      add(Token::Kind::kNumber, i, end);
    } else if (c == '.' && in_word(next)) {
      std::size_t end = i + 2;
      while (end < text.size() && (in_word(text[end]) || (text.substr(end, 2) == "::" && ++end))) ++end;
      add(Token::Kind::kDot, i + 1, end);
    } else if (c == '"') {
      const std::size_t end = text.find('"', i + 1);
      if (end == std::string_view::npos) throw Error(line, "a string has no end");
      add(Token::Kind::kString, i, end + 1);
    } else if (std::string_view("{}[](),;:@!|+-=<>").find(c) != std::string_view::npos) {
      add(Token::Kind::kSign, i, i + 1);
    } else {
      throw Error(line, std::string("the character '") + c + "' is not PTX");
    }
  }
  tokens.push_back({Token::Kind::kEnd, "the end of the text", line});
  return tokens;
}

}  // namespace crucible::emulators::ptx
