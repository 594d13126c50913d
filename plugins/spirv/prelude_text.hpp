// The prelude, the C text of the mathematics that kernels call (plugins/sdk/mathematics.hpp), as tokens and a table of
// its functions. prelude_functions.hpp makes SPIR-V of those that a kernel uses, so that strict numerics keep their one
// source and no C compiler is needed. What is read is the part of C that the prelude is written in: functions of
// numbers, structs of numbers, macros with arguments.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace crucible::spirv {

/// A type of the prelude. An int's value is 0 or 1 where kBool stands: comparisons are that until they are computed
/// with.
struct CType {
  enum class Kind : std::uint8_t { kBool, kInteger, kFloat, kStruct };
  Kind kind = Kind::kInteger;
  std::uint8_t bits = 32;   // of numbers
  bool is_signed = true;    // of integers
  std::uint8_t record = 0;  // of structs: which
  bool operator==(const CType&) const = default;
  bool is_number() const { return kind != Kind::kStruct; }
};

inline constexpr CType kCBool = {CType::Kind::kBool, 1, false, 0};
inline constexpr CType kCInt = {CType::Kind::kInteger, 32, true, 0};
inline constexpr CType kCFloat = {CType::Kind::kFloat, 32, true, 0};
inline constexpr CType kCDouble = {CType::Kind::kFloat, 64, true, 0};

struct Token {
  enum class Kind : std::uint8_t { kName, kNumber, kText, kSign, kEnd };
  Kind kind = Kind::kEnd;
  std::string_view text;
  bool operator==(std::string_view other) const { return text == other; }
};

struct CRecord {
  std::string_view name;
  std::vector<std::pair<std::string_view, CType>> members;
};

struct CFunction {
  std::string_view name;
  CType result;
  std::vector<std::pair<std::string_view, CType>> parameters;
  std::size_t body = 0;  // the token of its opening brace
};

class PreludeText {
 public:
  /// Reads the text of functions. Errors: Failure INTERNAL naming what it does not know.
  explicit PreludeText(std::string_view text);
  PreludeText(const PreludeText&) = delete;
  PreludeText& operator=(const PreludeText&) = delete;

  /// Null when there is none of that name. Threads: any, as everything here once it is made.
  const CFunction* find(std::string_view name) const;
  const std::unordered_map<std::string_view, CFunction>& functions() const { return functions_; }
  const CRecord& record(std::size_t i) const { return records_[i]; }
  const Token& token(std::size_t i) const { return i < tokens_.size() ? tokens_[i] : end_; }
  /// The type that the token names, or null.
  const CType* type(const Token& token) const;

 private:
  struct Macro {
    std::vector<std::string_view> parameters;
    std::vector<Token> body;
  };
  void split(std::string_view text);
  void define(std::string_view line);
  void expand(const std::vector<Token>& raw);
  std::size_t expand_call(const std::vector<Token>& raw, std::size_t at, const Macro& macro);
  void substitute(const Macro& macro, const std::vector<std::vector<Token>>& arguments, std::vector<Token>& out);
  void read_definitions();
  std::size_t read_record(std::size_t at);
  std::size_t read_function(std::size_t at);

  std::string text_;
  std::deque<std::string> pasted_;  // names that macros make
  std::vector<Token> raw_, tokens_;
  std::unordered_map<std::string_view, Macro> macros_;
  std::unordered_map<std::string_view, CType> types_;
  std::unordered_map<std::string_view, CFunction> functions_;
  std::vector<CRecord> records_;
  Token end_;
};

/// The SDK's text, read once. Threads: any.
const PreludeText& sdk_prelude();

}  // namespace crucible::spirv
