// Records there and back, and everything that is none.
#include "frontends/runlog/record.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "frontends/runlog/testing/log_samples.hpp"
#include "store/testing/store_samples.hpp"

namespace crucible::runlog {
namespace {

using ::testing::HasSubstr;

std::vector<Record> one_of_each() {
  Moved moved{
      .from = "acme:0", .reason = "in iteration 1: gone", .first = 1, .machine = testing::sample_begin().machine};
  RunEnd failed{.ending = Ending::kFailed,
                .words = "no \"memory\"\n",
                .iterations = 1,
                .verified = {},
                .state = {},
                .states = {}};
  RunEnd verified = testing::sample_end(2);
  verified.verified = true;
  const ContentHash previous = testing::hash_of_text("previous");
  return {{previous, testing::sample_begin()},
          {previous, testing::sample_iteration(3)},
          {previous, moved},
          {previous, failed},
          {previous, verified},
          {{}, testing::sample_end(0)}};
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from << " in " << text;
  if (at != std::string::npos) text.replace(at, from.size(), to);
  return text;
}

TEST(Record, ComesBackAsItWasWritten) {
  for (const Record& record : one_of_each()) {
    const auto back = parse_record(to_json(record));
    ASSERT_TRUE(back) << back.error().message << to_json(record);
    EXPECT_EQ(*back, record);
  }
}

TEST(Record, ALossThatIsNotFiniteIsNone) {
  IterationRecord iteration = testing::sample_iteration(0);
  iteration.losses = {std::numeric_limits<double>::quiet_NaN(), 1e300, -std::numeric_limits<double>::infinity()};
  const auto back = parse_record(to_json({{}, iteration}));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(std::get<IterationRecord>(back->content).losses,
            (std::vector<std::optional<double>>{std::nullopt, 1e300, std::nullopt}));
}

TEST(Record, TextThatIsNoUtf8IsWrittenAllTheSame) {
  RunBegin begin = testing::sample_begin();
  begin.source.file = "a\xff\xfe.crtrace";
  const auto back = parse_record(to_json({{}, begin}));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(std::get<RunBegin>(back->content).source.file, "a\xef\xbf\xbd\xef\xbf\xbd.crtrace");
}

TEST(Record, EveryMemberCounts) {
  const std::string begin = to_json({{}, testing::sample_begin()});
  const std::string iteration = to_json({{}, testing::sample_iteration(1)});
  const std::string end = to_json({{}, testing::sample_end(2)});
  const std::string hash = testing::hash_of_text("content").hex();
  const std::pair<std::string, const char*> cases[] = {
      {"", "no JSON object"},
      {"[]", "no JSON object"},
      {"{}", "kind is missing"},
      {replaced(begin, "\"kind\":\"run\"", "\"kind\":\"walk\""), "kind is neither run, iteration, moved nor end"},
      {replaced(begin, "\"kind\":\"run\"", "\"kind\":1"), "kind is no text"},
      {replaced(begin, "\"version\":1", "\"version\":0"), "version is not 1"},
      {replaced(begin, hash, hash.substr(1)), "content is no SHA-256 of 64 digits"},
      {replaced(begin, hash, "G" + hash.substr(1)), "content is no SHA-256 of 64 digits"},
      {replaced(begin, "\"iterations\":2", "\"iterations\":-2"), "iterations is no whole number"},
      {replaced(begin, "\"emulated\":false", "\"emulated\":0"), "emulated is neither true nor false"},
      {replaced(begin, "\"recording\":{", "\"recording\":[{"), "no JSON object"},
      {replaced(iteration, "\"losses\":[", "\"losses\":5,\"x\":["), "losses is no list"},
      {replaced(iteration, "\"slots\"", "\"slot\""), "slots is missing"},
      {replaced(end, "\"how\":\"done\"", "\"how\":\"gone\""), "how is neither done, failed nor interrupted"},
      {replaced(end, "\"elements\":4", "\"elements\":\"4\""), "elements is no whole number"},
      {replaced(begin, "{", "{\"more\":1,"), "not written as crucible writes it"},
      {replaced(begin, ",", ", "), "not written as crucible writes it"},
      {replaced(begin, "\"kind\":\"run\"", "\"kind\":\"run\",\"kind\":\"run\""), "not written as crucible writes it"},
      {replaced(end, "{\"kind\"", "{\"deep\":[[[[[[]]]]]],\"kind\""), "nested too deep"},
  };
  for (const auto& [text, why] : cases) {
    const auto record = parse_record(text);
    ASSERT_FALSE(record) << text;
    EXPECT_EQ(record.error().code, ErrorCode::kBadInput);
    EXPECT_THAT(record.error().message, HasSubstr(why)) << text;
  }
}

TEST(Record, OfANewerVersionIsLeftToThat) {
  const auto record = parse_record(replaced(to_json({{}, testing::sample_begin()}), "\"version\":1", "\"version\":2"));
  ASSERT_FALSE(record);
  EXPECT_EQ(record.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(record.error().message, HasSubstr("newer version of crucible (format 2, this one reads 1)"));
}

TEST(Record, WhatIsReadIsWhatIsWritten) {
  std::mt19937 random(1);
  std::size_t taken = 0;
  for (int round = 0; round < 20000; ++round) {
    const std::vector<Record> records = one_of_each();
    const std::string text = store::testing::mutated(to_json(records[random() % records.size()]), random);
    const auto record = parse_record(text);
    if (!record) continue;
    ++taken;
    EXPECT_EQ(to_json(*record), text);
  }
  EXPECT_GT(taken, 100u);  // other digits of hashes and numbers: those are for the chain to find
}

TEST(Shallow, CountsWhatIsOpenOutsideOfTexts) {
  EXPECT_TRUE(is_shallow("[[]]", 2));
  EXPECT_FALSE(is_shallow("[[[", 2));
  EXPECT_TRUE(is_shallow("[][][]", 1));
  EXPECT_TRUE(is_shallow(R"(["[[[\"[[["])", 1));
  EXPECT_FALSE(is_shallow(std::string(1 << 20, '{'), 6));
}

}  // namespace
}  // namespace crucible::runlog
