// What is written to a terminal has no commands of others in it, whichever function wrote it.
#include "core/base/terminal.hpp"

#include <gtest/gtest.h>

namespace crucible {
namespace {

constexpr std::string_view kHostile = "net\033]0;title\a\u009b2J\u202e",
                           kShown = "net\\x1b]0;title\\x07\\xc2\\x9b2J\\xe2\\x80\\xae";

TEST(Terminal, StandardOutputShowsCommands) {
  testing::internal::CaptureStdout();
  print_text(kHostile);
  print_out("{}\n", kHostile);
  print_text(kHostile, Colour::kBad);
  std::fflush(stdout);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), fmt::format("{0}{0}\n\033[31m{0}\033[0m", kShown));
}

TEST(Terminal, StandardErrorShowsCommands) {
  testing::internal::CaptureStderr();
  tell("{}\n", kHostile);
  tell_error(kHostile, false);
  tell_error(kHostile, true);
  rewrite_line(kHostile);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            fmt::format("{0}\ncrucible: error: {0}\n\033[1;31mcrucible: error:\033[0m {0}\n\r\033[K{0}", kShown));
}

}  // namespace
}  // namespace crucible
