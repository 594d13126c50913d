// See figures.hpp.
#include "core/base/figures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "core/base/words.hpp"

namespace crucible {
namespace {

std::string three_digits(double number, const char* unit) {
  const int decimals = number >= 100 ? 0 : number >= 10 ? 1 : 2;
  return fmt::format("{:.{}f} {}", number, decimals, unit);
}

}  // namespace

std::string format_bytes(std::uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  static constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double number = static_cast<double>(bytes) / 1024;
  int unit = 0;
  while (number >= 1023.5 && unit < 5) number /= 1024, ++unit;
  return three_digits(number, kUnits[unit]);
}

std::string format_ns(double nanoseconds) {
  if (nanoseconds < 1e3) return fmt::format("{:.0f} ns", nanoseconds);
  if (nanoseconds < 1e6) return three_digits(nanoseconds / 1e3, "us");
  if (nanoseconds < 1e9) return three_digits(nanoseconds / 1e6, "ms");
  return three_digits(nanoseconds / 1e9, "s");
}

std::string format_table(std::vector<std::vector<std::string>> rows) {
  if (rows.empty()) return "";
  for (auto& row : rows)
    for (std::string& cell : row) cell = printable(cell);  // one line each, whatever they say
  std::vector<std::size_t> width(rows[0].size(), 0);
  std::vector<bool> numeric(rows[0].size(), true);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    for (std::size_t column = 0; column < rows[row].size() && column < width.size(); ++column) {
      const std::string& cell = rows[row][column];
      width[column] = std::max(width[column], cell.size());
      if (row > 0 && !cell.empty() && !std::isdigit(static_cast<unsigned char>(cell[0])) && cell[0] != '-' &&
          cell[0] != '+') {
        numeric[column] = false;
      }
    }
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t column = 0; column < row.size() && column < width.size(); ++column) {
      if (column > 0) line += "  ";
      line += numeric[column] ? fmt::format("{:>{}}", row[column], width[column])
                              : fmt::format("{:<{}}", row[column], width[column]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string plural(std::uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace crucible
