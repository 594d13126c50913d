// A place in a line of the text form, from which words and numbers are taken one after the other.
//
// A mistake makes the cursor fail: the first failure is kept, later calls return harmless values and take nothing, and
// the caller asks failure() at the end of a line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace crucible::graph {

class TextCursor {
 public:
  /// `line` without its end; `number` counts from 1.
  TextCursor(std::string_view line, std::size_t number) : line_(line), number_(number) {}

  std::size_t line() const { return number_; }
  bool failed() const { return !failure_.empty(); }
  /// "line 3, column 7: expected a number, found 'x'"; "" when nothing failed.
  const std::string& failure() const { return failure_; }
  /// Fails with "line L, column C: `message`".
  void fail(std::string_view message);
  /// Fails with "expected `what`, found ..." and what stands here.
  void expected(std::string_view what);

  /// True at the end of the line or where a comment begins.
  bool at_end();
  /// True where `word` stands; takes nothing.
  bool at(std::string_view word);
  /// Takes `word` if it stands here; a word of letters is not the beginning of a longer one.
  bool take(std::string_view word);
  /// The same, and fails where it does not.
  void expect(std::string_view word);
  /// Letters, digits and '_': "" where there are none.
  std::string_view identifier();
  std::int64_t integer(std::string_view what);
  /// At most `limit`.
  std::uint32_t id(std::string_view what, std::uint32_t limit = 0xfffffffeu);
  /// "0.5", "1e-08", "inf", "nan", "nan(0x7ff8000000000001)"; an integer is not one.
  double real(std::string_view what);
  /// True where the number that stands here is a real() and not an integer().
  bool is_real();
  std::string quoted(std::string_view what);
  /// quoted() if a quote stands here, else "".
  std::string optional_quoted();
  /// "[1, 2]", between any two brackets.
  std::vector<std::int64_t> integers(std::string_view open, std::string_view close);

 private:
  void skip_blanks();
  std::string_view number_here();
  std::string_view line_;
  std::size_t number_;
  std::size_t at_ = 0;
  std::string failure_;
};

}  // namespace crucible::graph
