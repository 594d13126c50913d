// The line: see pass_line.hpp.
#include "frontends/cli/pass_line.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "core/base/terminal.hpp"

namespace crucible::cli {
namespace {

constexpr std::chrono::milliseconds kPatience(1000), kBetween(200);

}  // namespace

PassLine::PassLine() {
  if (isatty(2) != 1) return;
  listening_.emplace([this](std::string_view pass, std::uint64_t done, std::uint64_t all) { hear(pass, done, all); });
  writer_ = std::jthread([this](const std::stop_token& stopped) { write_until_stopped(stopped); });
}

PassLine::~PassLine() {
  if (!writer_.joinable()) return;
  writer_.request_stop();
  writer_.join();
  clear();
}

void PassLine::hear(std::string_view pass, std::uint64_t done, std::uint64_t all) {
  const std::scoped_lock lock(mutex_);
  if (pass.empty()) {
    clear();  // at once: what the command prints next must not stand behind it
    begun_.reset();
    pass_.clear();
    return;
  }
  if (!begun_ || pass_ != pass) pass_begun_ = Clock::now();
  if (!begun_) begun_ = pass_begun_;
  if (pass_ != pass) pass_ = pass;
  done_ = done;
  all_ = all;
}

void PassLine::write_until_stopped(const std::stop_token& stopped) {
  std::unique_lock lock(mutex_);
  while (!stopped.stop_requested()) {
    wake_.wait_for(lock, stopped, kBetween, [] { return false; });
    const Clock::time_point now = Clock::now();
    if (!stopped.stop_requested() && begun_ && now - *begun_ >= kPatience) show(now);
  }
}

void PassLine::show(Clock::time_point now) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - pass_begun_).count();
  std::string share;
  if (all_ > 0) {
    share = fmt::format(" {} %", done_ * 100 / all_);
  } else if (seconds > 0) {
    share = fmt::format(", {} s", seconds);
  }
  rewrite_line(fmt::format("{}{}", pass_, share));
  is_shown_ = true;
}

void PassLine::clear() {
  if (is_shown_) rewrite_line("");
  is_shown_ = false;
}

}  // namespace crucible::cli
