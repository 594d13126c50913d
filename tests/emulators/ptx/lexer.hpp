// PTX text as words. Comments and line ends are gone; each word knows its line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace crucible::emulators::ptx {

struct Token {
  enum class Kind { kWord, kDot, kNumber, kString, kSign, kEnd };
  Kind kind = Kind::kEnd;
  std::string text;  // kDot without its dot: global, L1::no_allocate
  int line = 0;
};

/// Ends with a token of kind kEnd. Errors: throws Error for a character that PTX does not have.
std::vector<Token> tokens_of(std::string_view text);

}  // namespace crucible::emulators::ptx
