// Figures as a person reads them: sizes, times, and rows in columns. What a cell says is shown as words.hpp shows it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace crucible {

/// "1.5 MiB", "312 B"; three significant digits.
std::string format_bytes(std::uint64_t bytes);
/// "1.234 ms", "12.3 us", "4.56 s".
std::string format_ns(double nanoseconds);

/// Rows of text in aligned columns; numbers (columns whose every cell below the header starts with a digit, '-' or '+')
/// are right-aligned. The first row is the header.
std::string format_table(std::vector<std::vector<std::string>> rows);

/// "1 op", "2 ops".
std::string plural(std::uint64_t count, std::string_view noun);

}  // namespace crucible
