#include "core/base/terminal.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "core/base/words.hpp"

namespace crucible {
namespace {

constexpr std::string_view kPlain = "\033[0m";

std::string_view begin_of(Colour colour) {
  return colour == Colour::kGood ? "\033[32m" : colour == Colour::kBad ? "\033[31m" : "";
}

void write_out(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size()) return;
  throw std::system_error(errno, std::generic_category(), "cannot write to standard output");
}

void write_error(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

void print_text(std::string_view text) { write_out(without_commands(text)); }

void print_text(std::string_view text, Colour colour) {
  const std::string_view begin = begin_of(colour);
  write_out(fmt::format("{}{}{}", begin, without_commands(text), begin.empty() ? "" : kPlain));
}

void tell_text(std::string_view text) { write_error(without_commands(text)); }

void tell_error(std::string_view reason, bool colour) {
  write_error(fmt::format("{}crucible: error:{} {}\n", colour ? "\033[1;31m" : "", colour ? kPlain : "",
                          without_commands(reason)));
}

void rewrite_line(std::string_view text) {
  const std::string line = fmt::format("\r\033[K{}", without_commands(text));
  // Without the lock of a stream, which a process that is forked meanwhile would find taken for ever.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace crucible
