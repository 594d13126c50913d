// Who hears what.
#include "core/base/progress.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace crucible {
namespace {

TEST(ListenToProgress, HearsSomePartsUntilItEndsAndThenTheOneBeforeDoes) {
  std::vector<std::string> outer, inner;
  const auto into = [](std::vector<std::string>& heard) {
    return [&heard](std::string_view pass, std::uint64_t done, std::uint64_t all) {
      heard.push_back(std::string(pass) + " " + std::to_string(done) + "/" + std::to_string(all));
    };
  };
  report_progress("nobody listens", 0, 1);
  {
    const ListenToProgress first(into(outer));
    {
      const ListenToProgress second(into(inner));
      for (std::uint64_t done = 0; done < 200'000; ++done) report_progress("fusion", done, 2'000'000);
    }
    report_progress("schedule", 0, 7);
  }
  report_progress("nobody listens", 0, 1);
  ASSERT_EQ(inner.size(), 196u);
  EXPECT_EQ(inner[1], "fusion 1024/2000000");
  EXPECT_EQ(outer, std::vector<std::string>{"schedule 0/7"});
}

TEST(ListenToProgress, HearsAHundredthOfFewParts) {
  std::vector<std::uint64_t> heard;
  const ListenToProgress listen([&](std::string_view, std::uint64_t done, std::uint64_t) { heard.push_back(done); });
  for (std::uint64_t done = 0; done < 450; ++done) report_progress("trials", done, 450);
  ASSERT_EQ(heard.size(), 113u);
  EXPECT_EQ(heard[1], 4u);
}

TEST(ListenToProgress, HearsOfAPassThatIsOneCallWhenItBeginsAndEnds) {
  std::vector<std::string> heard;
  const ListenToProgress listen([&](std::string_view pass, std::uint64_t, std::uint64_t) { heard.emplace_back(pass); });
  {
    const PassInProgress pass("compiling kernels");
    heard.emplace_back("-");
  }
  EXPECT_EQ(heard, (std::vector<std::string>{"compiling kernels", "-", ""}));
}

}  // namespace
}  // namespace crucible
