// Tokens, macros and definitions of the prelude: see prelude_text.hpp.
#include "plugins/spirv/prelude_text.hpp"

#include <algorithm>
#include <cctype>

#include "plugins/sdk/error.hpp"
#include "plugins/sdk/mathematics.hpp"

namespace crucible::spirv {

using namespace crucible;

namespace {

constexpr std::string_view kFunctionMark = "CRUCIBLE_FN";

[[noreturn]] void unknown(const std::string& what) {
  throw sdk::Failure(CRUCIBLE_E_INTERNAL, "the mathematics are not what SPIR-V is made of here: " + what);
}

bool is_letter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// How many characters of `text` are the next sign.
std::size_t sign_length(std::string_view text) {
  for (const std::string_view sign : {"<<=", ">>="}) {
    if (text.starts_with(sign)) return 3;
  }
  for (const std::string_view sign : {"<<", ">>", "<=", ">=", "==", "!=", "&&", "||",
                                      "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "++", "--", "##"}) {
    if (text.starts_with(sign)) return 2;
  }
  return 1;
}

/// The token at the beginning of `text`, which begins with none of space and comment.
Token next_token(std::string_view text) {
  std::size_t n = 1;
  if (std::isdigit(static_cast<unsigned char>(text[0])) != 0) {
    const bool is_hex = text.starts_with("0x");
    while (n < text.size() &&
           (is_letter(text[n]) || text[n] == '.' ||
            ((text[n] == '+' || text[n] == '-') && (text[n - 1] == 'p' || (!is_hex && text[n - 1] == 'e'))))) {
      ++n;
    }
    return {Token::Kind::kNumber, text.substr(0, n)};
  }
  if (is_letter(text[0])) {
    while (n < text.size() && is_letter(text[n])) ++n;
    return {Token::Kind::kName, text.substr(0, n)};
  }
  if (text[0] == '"') {
    const std::size_t end = text.find('"', 1);
    if (end == std::string_view::npos) unknown("a text without an end");
    return {Token::Kind::kText, text.substr(0, end + 1)};
  }
  return {Token::Kind::kSign, text.substr(0, sign_length(text))};
}

std::vector<Token> tokens_of(std::string_view text) {
  std::vector<Token> tokens;
  std::size_t at = 0;
  while (at < text.size()) {
    if (std::isspace(static_cast<unsigned char>(text[at])) != 0 ||
        (text[at] == '\\' && text.substr(at + 1).starts_with('\n'))) {
      ++at;
    } else if (text.substr(at).starts_with("/*")) {
      const std::size_t end = text.find("*/", at + 2);
      if (end == std::string_view::npos) unknown("a comment without an end");
      at = end + 2;
    } else {
      tokens.push_back(next_token(text.substr(at)));
      at += tokens.back().text.size();
    }
  }
  return tokens;
}

constexpr CType integer(std::uint8_t bits, bool is_signed) { return {CType::Kind::kInteger, bits, is_signed, 0}; }

}  // namespace

PreludeText::PreludeText(std::string_view text) : text_(text) {
  types_ = {{"int8_t", integer(8, true)},
            {"int16_t", integer(16, true)},
            {"int32_t", kCInt},
            {"int64_t", integer(64, true)},
            {"uint8_t", integer(8, false)},
            {"uint16_t", integer(16, false)},
            {"uint32_t", integer(32, false)},
            {"uint64_t", integer(64, false)},
            {"int", kCInt},
            {"float", kCFloat},
            {"double", kCDouble},
            {"crucible_bf16", integer(16, false)}};
  split(text_);
  expand(raw_);
  raw_.clear();
  read_definitions();
}

const CFunction* PreludeText::find(std::string_view name) const {
  const auto at = functions_.find(name);
  return at == functions_.end() ? nullptr : &at->second;
}

const CType* PreludeText::type(const Token& token) const {
  if (token.kind != Token::Kind::kName) return nullptr;
  const auto at = types_.find(token.text);
  return at == types_.end() ? nullptr : &at->second;
}

/// Lines that begin with # define macros; the rest becomes tokens.
void PreludeText::split(std::string_view text) {
  std::size_t at = 0, plain = 0;
  const auto flush = [&](std::size_t end) {
    const std::vector<Token> tokens = tokens_of(text.substr(plain, end - plain));
    raw_.insert(raw_.end(), tokens.begin(), tokens.end());
  };
  while (at < text.size()) {
    std::size_t end = text.find('\n', at);
    end = end == std::string_view::npos ? text.size() : end;
    if (text[at] == '#') {
      flush(at);
      while (end < text.size() && text[end - 1] == '\\') end = std::min(text.find('\n', end + 1), text.size());
      define(text.substr(at, end - at));
      plain = std::min(end + 1, text.size());
    }
    at = end + 1;
  }
  flush(text.size());
}

void PreludeText::define(std::string_view line) {
  const std::vector<Token> tokens = tokens_of(line);
  if (tokens.size() < 5 || tokens[1] != "define" || tokens[3] != "(")
    unknown("the line " + std::string(line.substr(0, 60)));
  Macro macro;
  std::size_t i = 4;
  for (; i < tokens.size() && tokens[i] != ")"; ++i) {
    if (tokens[i] != ",") macro.parameters.push_back(tokens[i].text);
  }
  if (i < tokens.size()) macro.body.assign(tokens.begin() + static_cast<std::ptrdiff_t>(i) + 1, tokens.end());
  macros_.emplace(tokens[2].text, std::move(macro));
}

void PreludeText::expand(const std::vector<Token>& raw) {
  tokens_.reserve(tokens_.size() + raw.size());
  for (std::size_t i = 0; i < raw.size();) {
    const auto macro = raw[i].kind == Token::Kind::kName ? macros_.find(raw[i].text) : macros_.end();
    if (macro == macros_.end()) {
      tokens_.push_back(raw[i++]);
    } else {
      i = expand_call(raw, i, macro->second);
    }
  }
}

/// Returns where to go on behind the call's closing parenthesis.
std::size_t PreludeText::expand_call(const std::vector<Token>& raw, std::size_t at, const Macro& macro) {
  std::vector<std::vector<Token>> arguments(1);
  int depth = 0;
  std::size_t i = at + 1;
  for (; i < raw.size(); ++i) {
    if (raw[i] == "(" && depth++ == 0) continue;
    if (raw[i] == ")" && --depth == 0) break;
    if (depth == 0) break;
    if (raw[i] == "," && depth == 1) {
      arguments.emplace_back();
    } else {
      arguments.back().push_back(raw[i]);
    }
  }
  if (i >= raw.size() || raw[i] != ")" || arguments.size() != macro.parameters.size())
    unknown("the macro " + std::string(raw[at].text) + " with " + std::to_string(arguments.size()) + " arguments");
  std::vector<Token> out;
  substitute(macro, arguments, out);
  tokens_.insert(tokens_.end(), out.begin(), out.end());
  return i + 1;
}

void PreludeText::substitute(const Macro& macro, const std::vector<std::vector<Token>>& arguments,
                             std::vector<Token>& out) {
  bool pastes = false;
  for (const Token& token : macro.body) {
    if (token == "##") {
      pastes = true;
      continue;
    }
    std::vector<Token> piece = {token};
    const auto at = std::find(macro.parameters.begin(), macro.parameters.end(), token.text);
    if (at != macro.parameters.end()) piece = arguments[static_cast<std::size_t>(at - macro.parameters.begin())];
    if (pastes && !out.empty() && !piece.empty()) {
      pasted_.push_back(std::string(out.back().text) + std::string(piece.front().text));
      out.back().text = pasted_.back();
      piece.erase(piece.begin());
    }
    pastes = false;
    out.insert(out.end(), piece.begin(), piece.end());
  }
}

void PreludeText::read_definitions() {
  std::size_t at = 0;
  while (at < tokens_.size()) {
    if (tokens_[at] == "typedef") {
      at = read_record(at);
    } else if (tokens_[at] == kFunctionMark) {
      at = read_function(at);
    } else {
      unknown("a definition that begins with " + std::string(tokens_[at].text));
    }
  }
}

/// typedef struct { TYPE a, b; TYPE c; } NAME;
std::size_t PreludeText::read_record(std::size_t at) {
  CRecord record;
  if (token(at + 1) != "struct" || token(at + 2) != "{") unknown("a typedef of something else than a struct");
  at += 3;
  while (token(at) != "}") {
    const CType* member = type(token(at));
    if (member == nullptr || !member->is_number()) unknown("a struct's member of type " + std::string(token(at).text));
    do {
      record.members.emplace_back(token(at + 1).text, *member);
      at += 2;
    } while (token(at) == ",");
    if (token(at) != ";") unknown("a struct with " + std::string(token(at).text));
    ++at;
  }
  record.name = token(at + 1).text;
  if (token(at + 2) != ";" || records_.size() == 255) unknown("the struct " + std::string(record.name));
  types_.emplace(record.name, CType{CType::Kind::kStruct, 0, false, static_cast<std::uint8_t>(records_.size())});
  records_.push_back(std::move(record));
  return at + 3;
}

/// CRUCIBLE_FN TYPE NAME(TYPE a, TYPE b) { ... }
std::size_t PreludeText::read_function(std::size_t at) {
  CFunction function;
  const CType* result = type(token(at + 1));
  function.name = token(at + 2).text;
  const std::string name(function.name);
  if (result == nullptr || token(at + 3) != "(") unknown("the function " + name);
  function.result = *result;
  at += 4;
  while (token(at) != ")") {
    const CType* parameter = type(token(at));
    if (parameter == nullptr || !parameter->is_number()) unknown("a parameter of the function " + name);
    function.parameters.emplace_back(token(at + 1).text, *parameter);
    at += token(at + 2) == "," ? 3 : 2;
  }
  function.body = ++at;
  if (token(at) != "{") unknown("the function " + name + " without a body");
  int depth = 0;
  do {
    if (at >= tokens_.size()) unknown("the function " + name + " without an end");
    depth += token(at) == "{" ? 1 : token(at) == "}" ? -1 : 0;
    ++at;
  } while (depth != 0);
  functions_.emplace(function.name, std::move(function));
  return at;
}

const PreludeText& sdk_prelude() {
  static const PreludeText prelude(sdk::math_functions());
  return prelude;
}

}  // namespace crucible::spirv
