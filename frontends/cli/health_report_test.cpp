// The three forms of a report. Prometheus' is read back by a small parser of its text format.
#include "frontends/cli/health_report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

namespace crucible::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

DeviceHealth card(const std::string& id, std::string name = "Card") {
  DeviceHealth device;
  device.backend = "acme";
  device.info.id = id;
  device.info.name = std::move(name);
  device.sample.set_number("temperature_celsius", 61);
  device.sample.set_number("power_milliwatt", 350'007);
  device.sample.set_number("energy_microjoule", 18'446'744'073'709'551'615u);
  device.sample.set_number("ecc_errors", 0);
  device.judgement = hardware::judge(device.sample, {});
  return device;
}

HealthReport two_cards() {
  HealthReport report;
  report.devices = {card("acme:0"), card("acme:1", "odd \"name\" \\ of\ntwo lines")};
  DeviceHealth& sick = report.devices[1];
  sick.info.emulated = true;
  sick.sample.set_number("ecc_errors", 2);
  sick.sample.set_text("throttle_reason", "too hot");
  sick.sample.set_absent("processes", "not permitted");
  sick.sample.set_absent("clock_hz", "not permitted");
  sick.judgement = hardware::judge(sick.sample, {});
  report.problems = {{"other", "no library"}};
  return report;
}

struct Line {
  std::string metric;
  std::map<std::string, std::string> labels;
  std::string value;
};

/// Reads a line of a sample; fails the test where the text breaks the format.
Line parse_sample(const std::string& text) {
  Line line;
  std::size_t at = text.find('{');
  EXPECT_NE(at, std::string::npos) << text;
  line.metric = text.substr(0, at++);
  while (at < text.size() && text[at] != '}') {
    const std::size_t equals = text.find("=\"", at);
    EXPECT_NE(equals, std::string::npos) << text;
    const std::string key = text.substr(at, equals - at);
    std::string value;
    for (at = equals + 2; at < text.size() && text[at] != '"'; ++at) {
      if (text[at] == '\\') {
        ++at;
        EXPECT_NE(std::string("\\\"n").find(text[at]), std::string::npos) << "an escape that there is not: " << text;
        value += text[at] == 'n' ? '\n' : text[at];
      } else {
        value += text[at];
      }
    }
    EXPECT_TRUE(line.labels.emplace(key, value).second) << "a label twice: " << text;
    if (++at < text.size() && text[at] == ',') ++at;
  }
  EXPECT_EQ(text.substr(at, 2), "} ") << text;
  line.value = text.substr(at + 2);
  EXPECT_EQ(line.value.find_first_not_of("0123456789."), std::string::npos) << text;
  return line;
}

/// All samples; each must stand under the HELP and TYPE of its metric, each metric once.
std::vector<Line> parse_prometheus(const std::string& text) {
  std::vector<Line> lines;
  std::set<std::string> seen;
  std::string current, type, line;
  for (std::istringstream stream(text); std::getline(stream, line);) {
    std::istringstream words(line);
    std::string mark, keyword, metric;
    if (line.starts_with("# ")) {
      words >> mark >> keyword >> metric;
      if (keyword == "HELP") {
        EXPECT_TRUE(seen.insert(metric).second) << "a metric twice: " << metric;
        current = metric;
      } else {
        EXPECT_EQ(keyword, "TYPE") << line;
        EXPECT_EQ(metric, current) << "TYPE behind HELP of the same metric";
        words >> type;
        EXPECT_TRUE(type == "counter" || type == "gauge") << line;
        EXPECT_EQ(type == "counter", metric.ends_with("_total")) << line;
      }
      continue;
    }
    lines.push_back(parse_sample(line));
    EXPECT_EQ(lines.back().metric, current) << line;
  }
  EXPECT_TRUE(text.empty() || text.ends_with('\n'));
  return lines;
}

std::map<std::string, std::string> values_of(const std::vector<Line>& lines, const std::string& metric) {
  std::map<std::string, std::string> values;
  for (const Line& line : lines) {
    if (line.metric == metric)
      values[line.labels.contains("device") ? line.labels.at("device") : line.labels.at("backend")] = line.value;
  }
  return values;
}

TEST(HealthReport, PrometheusIsParsedBack) {
  const std::vector<Line> lines = parse_prometheus(health_prometheus(two_cards()));
  using Values = std::map<std::string, std::string>;
  EXPECT_EQ(values_of(lines, "crucible_device_verdict"), (Values{{"acme:0", "1"}, {"acme:1", "3"}}));
  EXPECT_EQ(values_of(lines, "crucible_device_temperature_celsius"), (Values{{"acme:0", "61"}, {"acme:1", "61"}}));
  EXPECT_EQ(values_of(lines, "crucible_device_power_watts"), (Values{{"acme:0", "350.007"}, {"acme:1", "350.007"}}));
  EXPECT_EQ(values_of(lines, "crucible_device_energy_joules_total").at("acme:0"), "18446744073709.551615")
      << "no digit is lost";
  EXPECT_EQ(values_of(lines, "crucible_device_ecc_errors_total"), (Values{{"acme:0", "0"}, {"acme:1", "2"}}));
  EXPECT_EQ(values_of(lines, "crucible_device_throttled"), (Values{{"acme:1", "1"}}));
  EXPECT_EQ(values_of(lines, "crucible_backend_problem"), (Values{{"other", "1"}}));
  EXPECT_TRUE(values_of(lines, "crucible_device_processes").empty()) << "what is absent has no line";
}

TEST(HealthReport, LabelsSurviveQuotesAndNewlines) {
  const std::vector<Line> lines = parse_prometheus(health_prometheus(two_cards()));
  std::set<std::string> names;
  for (const Line& line : lines) {
    if (line.labels.contains("name"))
      names.insert(line.labels.at("name") + (line.labels.at("emulated") == "true" ? ", emulated" : ""));
  }
  EXPECT_THAT(names, ElementsAre("Card", "odd \"name\" \\ of\ntwo lines, emulated"));
}

TEST(HealthReport, OfNothingIsEmpty) { EXPECT_TRUE(parse_prometheus(health_prometheus({})).empty()); }

TEST(HealthReport, TheTextHasARowPerDeviceAndWhatToDo) {
  const std::string text = health_text(two_cards());
  EXPECT_THAT(text, AllOf(HasSubstr("acme:0"), HasSubstr("350 W"), HasSubstr("61 C"), HasSubstr("good"),
                          HasSubstr("2 memory"), HasSubstr("(emulated)")));
  EXPECT_THAT(text, HasSubstr("acme:1 sick: 2 errors of the memory that were not corrected; go back to a checkpoint"));
  EXPECT_THAT(text, HasSubstr("acme:1 without processes, clock_hz: not permitted\n")) << "one line for one reason";
  EXPECT_THAT(text, HasSubstr("other cannot be asked: no library"));
}

TEST(HealthReport, WhatIsNotMeasuredIsSaidOnce) {
  std::set<std::string> told;
  EXPECT_THAT(health_text(two_cards(), &told), HasSubstr("not permitted"));
  const std::string second = health_text(two_cards(), &told);
  EXPECT_THAT(second, AllOf(Not(HasSubstr("not permitted")), Not(HasSubstr("no library")), HasSubstr("acme:1 sick")));
}

TEST(HealthReport, JsonHasValuesFindingsAndReasons) {
  const nlohmann::ordered_json document = health_json(two_cards());
  const nlohmann::ordered_json& sick = document["devices"][1];
  EXPECT_EQ(sick["verdict"], "sick");
  EXPECT_EQ(sick["emulated"], true);
  EXPECT_EQ(sick["values"]["power_milliwatt"], 350'007);
  EXPECT_EQ(sick["texts"]["throttle_reason"], "too hot");
  EXPECT_EQ(sick["not_measured"]["processes"], "not permitted");
  EXPECT_EQ(sick["findings"][0]["verdict"], "sick");
  EXPECT_EQ(document["devices"][0]["findings"].size(), 0u);
  EXPECT_EQ(document["problems"][0]["reason"], "no library");
}

}  // namespace
}  // namespace crucible::cli
