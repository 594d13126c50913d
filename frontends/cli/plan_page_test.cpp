// The page holds the whole plan, keeps a stranger's names as data, and asks nobody for anything.
#include "frontends/cli/plan_page.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>

#include "frontends/cli/plan_samples.hpp"

namespace crucible::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kOpening = "<script type=\"application/json\" id=\"data\">";
constexpr const char* kHostile = "</script><script>alert(1)</script><!-- \"'&\\ \xff\n{{script}}";

/// The embedded text, up to where a browser would see its end.
std::string embedded(const std::string& page) {
  const std::size_t at = page.find(kOpening);
  if (at == std::string::npos) return "";
  const std::size_t begin = at + std::string(kOpening).size();
  return page.substr(begin, page.find("</script", begin) - begin);
}

std::size_t count(const std::string& text, const std::string& word) {
  std::size_t found = 0;
  for (std::size_t at = 0; (at = text.find(word, at)) != std::string::npos; at += word.size()) ++found;
  return found;
}

TEST(PlanPage, HoldsEveryBufferAndStep) {
  const PlanReport report = samples::random_report(2000, 3);
  const auto data = nlohmann::json::parse(embedded(plan_page(report)));
  const auto& columns = data["buffers"];
  for (const char* name : {"name", "module", "site", "op", "role", "offset", "size", "begin", "end"})
    ASSERT_EQ(columns[name].size(), 2000u) << name;
  const auto text = [&](const char* name, std::size_t id) {
    return data["strings"][columns[name][id].get<std::size_t>()].get<std::string>();
  };
  for (std::size_t id = 0; id < report.buffers.size(); ++id) {
    const PlannedBuffer& buffer = report.buffers[id];
    ASSERT_EQ(text("name", id), buffer.name);
    ASSERT_EQ(text("module", id), buffer.module);
    ASSERT_EQ(text("site", id), buffer.site);
    ASSERT_EQ(text("op", id), buffer.op);
    ASSERT_EQ(columns["offset"][id], buffer.offset_bytes);
    ASSERT_EQ(columns["size"][id], buffer.size_bytes);
    ASSERT_EQ(columns["begin"][id], buffer.begin);
    ASSERT_EQ(columns["end"][id], buffer.end);
    ASSERT_EQ(data["roles"][columns["role"][id].get<std::size_t>()]["name"], runtime::role_name(buffer.role));
  }
  EXPECT_EQ(data["steps"]["phase"].size(), report.steps.size());
  EXPECT_EQ(data["live_bytes"].size(), report.live_bytes.size());
  EXPECT_EQ(data["peak_bytes"], report.plan.peak_bytes);
  EXPECT_EQ(data["lower_bound_bytes"], report.plan.lower_bound_bytes);
  EXPECT_LT(data["strings"].size(), 2300u);  // modules, lines and ops stand there once
}

TEST(PlanPage, HostileNamesStayData) {
  PlanReport report = samples::random_report(60, 4);
  report.file = kHostile;
  report.kernels = kHostile;
  for (PlannedBuffer& buffer : report.buffers) buffer.name = buffer.module = buffer.site = buffer.op = kHostile;
  for (PlannedStep& step : report.steps) step.ops = step.module = step.site = kHostile;
  const std::string page = plan_page(report), plain = plan_page(samples::random_report(60, 4));
  EXPECT_EQ(count(page, "<script"), count(plain, "<script"));
  EXPECT_EQ(count(page, "</script"), count(plain, "</script"));
  EXPECT_EQ(count(page, "<!--"), count(plain, "<!--"));
  EXPECT_THAT(page, Not(HasSubstr("<script>alert")));
  EXPECT_EQ(count(page, "class Plot"), 1u);  // a place that a name spells out is not filled
  const auto data = nlohmann::json::parse(embedded(page));
  EXPECT_THAT(data["strings"][0].get<std::string>(), HasSubstr("</script><script>alert(1)"));
  EXPECT_EQ(data["file"].get<std::string>().find("</script>"), 0u);
}

TEST(PlanPage, IsWholeAndAsksNoNetwork) {
  const std::string page = plan_page(samples::random_report(60, 5));
  for (const char* name : {"page.html", "page.css", "data.js", "plot.js", "page.js"})
    EXPECT_FALSE(page_text(name).empty()) << name;
  EXPECT_TRUE(page_text("nothing").empty());
  EXPECT_EQ(count(page, "{{"), 0u);
  for (const char* word :
       {"http:", "https:", "url(", "@import", "src=", "href=", "fetch(", "XMLHttpRequest", "import("}) {
    EXPECT_THAT(page, Not(HasSubstr(word)));
  }
  // Names come in as text alone.
  EXPECT_THAT(page, Not(HasSubstr("innerHTML")));
  EXPECT_THAT(page, Not(HasSubstr("document.write")));
}

/// What the script looks up stands in the markup.
TEST(PlanPage, TheScriptsElementsAreThere) {
  const std::string html(page_text("page.html")), script = std::string(page_text("page.js"));
  const std::regex lookup("el\\(\"([a-z]+)\"\\)");
  std::size_t found = 0;
  for (auto match = std::sregex_iterator(script.begin(), script.end(), lookup); match != std::sregex_iterator();
       ++match, ++found) {
    EXPECT_THAT(html, HasSubstr("id=\"" + (*match)[1].str() + "\""));
  }
  EXPECT_GT(found, 10u);
}

TEST(PlanPage, BuffersThatChangeTheirRoleSayWhen) {
  PlanReport report = samples::random_report(60, 8);
  report.buffers[7].turns = {{3, runtime::Role::kActivation}, {9, runtime::Role::kGradient}};
  const auto turns = page_data(report)["buffers"]["turns"];
  ASSERT_EQ(turns.size(), 1u);
  EXPECT_EQ(turns["7"], nlohmann::ordered_json({3, static_cast<int>(runtime::Role::kActivation), 9,
                                                static_cast<int>(runtime::Role::kGradient)}));
}

TEST(PlanPage, ADeviceIsDrawnWhereOneWasAskedAbout) {
  PlanReport report = samples::random_report(60, 6);
  EXPECT_FALSE(page_data(report).contains("device"));
  hardware::DeviceProfile device{.name = "toy"};
  device.figures["memory.size"] = {.value = 5000};
  report.answer = ProfileAnswer{std::move(device), {.usable_bytes = 5000}};
  EXPECT_EQ(page_data(report)["device"]["usable_bytes"], 5000);
}

/// 50,000 buffers are a few megabytes. CRUCIBLE_KEEP_PAGE names a file that gets a page to be looked at and measured
/// (#measure), of 10,000 buffers or as many as CRUCIBLE_KEEP_BUFFERS says.
TEST(PlanPage, ManyBuffersMakeASmallPage) {
  EXPECT_LT(plan_page(samples::random_report(50'000, 7)).size(), 8u << 20);
  const char* const path = std::getenv("CRUCIBLE_KEEP_PAGE");
  const char* const buffers = std::getenv("CRUCIBLE_KEEP_BUFFERS");
  if (path != nullptr)
    std::ofstream(path) << plan_page(
        samples::random_report(buffers != nullptr ? static_cast<std::uint32_t>(std::atoi(buffers)) : 10'000, 7));
}

}  // namespace
}  // namespace crucible::cli
