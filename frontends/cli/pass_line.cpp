// The line: see pass_line.hpp.
#include "frontends/cli/pass_line.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace crucible::cli {
namespace {

constexpr std::chrono::milliseconds kPatience(1000), kBetween(200);

}  // namespace

PassLine::PassLine() {
  if (isatty(2) != 1) return;
  listening_.emplace([this](std::string_view pass, std::uint64_t done, std::uint64_t all) { hear(pass, done, all); });
}

void PassLine::hear(std::string_view pass, std::uint64_t done, std::uint64_t all) {
  const Clock::time_point now = Clock::now();
  if (pass.empty()) {
    clear();
    begun_.reset();
    return;
  }
  if (!begun_) begun_ = now;
  if (now - *begun_ < kPatience || (is_shown_ && now - shown_ < kBetween)) return;
  const auto share = all > 0 ? fmt::format(" {} %", done * 100 / all) : std::string("");
  fmt::print(stderr, "\r\033[K{}{}", pass, share);
  std::fflush(stderr);
  shown_ = now;
  is_shown_ = true;
}

void PassLine::clear() {
  if (!is_shown_) return;
  fmt::print(stderr, "\r\033[K");
  std::fflush(stderr);
  is_shown_ = false;
}

}  // namespace crucible::cli
