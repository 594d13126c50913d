// The one way to a person's terminal. Whatever is written here may hold words of a file, a plugin or a driver:
// characters that a terminal would obey are shown as \xHH, and colours are ours alone.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

namespace crucible {

enum class Colour { kNone, kGood, kBad };

/// Writes to standard output, buffered. Throws std::system_error with the reason when it cannot.
void print_text(std::string_view text);
void print_text(std::string_view text, Colour colour);

/// The same of a format and its arguments.
template <class... Args>
void print_out(fmt::format_string<Args...> format, Args&&... args) {
  print_text(fmt::format(format, std::forward<Args>(args)...));
}

/// Writes to standard error, at once. What cannot be written there is lost: nobody is left to be told.
void tell_text(std::string_view text);

template <class... Args>
void tell(fmt::format_string<Args...> format, Args&&... args) {
  tell_text(fmt::format(format, std::forward<Args>(args)...));
}

/// "crucible: error: REASON", the first words in red where `colour`.
void tell_error(std::string_view reason, bool colour);

/// The present line of the terminal on standard error becomes `text`; "" clears it.
void rewrite_line(std::string_view text);

}  // namespace crucible
