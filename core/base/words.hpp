// Words that somebody else wrote - of a file, a plugin, a driver, a compiler - made safe for where they are shown. What
// they hold is read, never obeyed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace crucible {

/// The text as it is, or quoted with escapes when it has characters that a terminal would obey: control characters of
/// both ranges, newlines, and what turns the direction of writing.
std::string printable(std::string_view text);

/// The text with such characters as \xHH, but for newlines and tabs: for sentences of our own that hold words of
/// others.
std::string without_commands(std::string_view text);

/// JSON with such characters inside its strings as \uHHHH. The document stays the same.
std::string json_without_commands(std::string_view json);

/// As text or as an attribute's value of an HTML, SVG or XML document: what cannot stand in one, and what turns the
/// direction of writing, becomes U+FFFD.
std::string escape_markup(std::string_view text);

/// "once", "twice", "3 times".
std::string times_in_words(std::uint64_t count);

}  // namespace crucible
