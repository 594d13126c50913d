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
    return [&heard](std::string_view pass, std::uint64_t done, std::uint64_t all) { heard.push_back(std::string(pass) + " " + std::to_string(done) + "/" + std::to_string(all)); };
  };
  report_progress("nobody listens", 0, 1);
  {
    const ListenToProgress first(into(outer));
    {
      const ListenToProgress second(into(inner));
      for (std::uint64_t done = 0; done < 2000; ++done) report_progress("fusion", done, 2000);
    }
    report_progress("schedule", 0, 7);
  }
  report_progress("nobody listens", 0, 1);
  EXPECT_EQ(inner, (std::vector<std::string>{"fusion 0/2000", "fusion 1024/2000"}));
  EXPECT_EQ(outer, std::vector<std::string>{"schedule 0/7"});
}

}  // namespace
}  // namespace crucible
