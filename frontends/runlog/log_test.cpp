// The chain: every change to a log is found, wherever it is made.
#include "frontends/runlog/log.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "frontends/runlog/testing/log_samples.hpp"
#include "store/testing/store_samples.hpp"

namespace crucible::runlog {
namespace {

using testing::chained;
using ::testing::HasSubstr;
using testing::lines_of;
using testing::sample_run;

Log read(const std::string& text) {
  Result<Log> log = read_log_text(text, "a.crlog");
  EXPECT_TRUE(log) << log.error().message;
  return log ? *std::move(log) : Log{};
}

std::string two_runs() {
  std::vector<Record> records = sample_run();
  for (Record& record : sample_run("other")) records.push_back(std::move(record));
  return chained(std::move(records));
}

/// Whether anything says that the text is not what was written.
bool is_found(const std::string& text) {
  const Result<Log> log = read_log_text(text, "a.crlog");
  return !log || log->fault || log->runs.empty() || !log->runs.back().end;
}

TEST(Log, HasItsRuns) {
  const Log log = read(two_runs());
  EXPECT_FALSE(log.fault);
  ASSERT_EQ(log.runs.size(), 2u);
  EXPECT_EQ(log.runs[1].first, 4u);
  EXPECT_EQ(log.runs[1].count, 4u);
  EXPECT_EQ(log.runs[0].iterations, (std::vector<std::size_t>{1, 2}));
  EXPECT_EQ(log.end(log.runs[0])->iterations, 2u);
  EXPECT_EQ(log.last_state(log.runs[0]), testing::sample_iteration(1).state);
  EXPECT_EQ(log.begin(log.runs[1]), testing::sample_begin());
  EXPECT_TRUE(log.lines[0].keys.empty());
}

TEST(Log, OfNothingIsEmpty) {
  const Log log = read("");
  EXPECT_TRUE(log.runs.empty());
  EXPECT_FALSE(log.fault);
}

TEST(Log, TheStateIsTheLastThatIsKnown) {
  EXPECT_EQ(read(chained({{{}, testing::sample_begin()}})).last_state({}), testing::hash_of_text("before"));
  const Log log = read(chained({{{}, testing::sample_begin()}, {{}, testing::sample_iteration(0)}}));
  EXPECT_EQ(log.last_state(log.runs[0]), testing::sample_iteration(0).state);
  EXPECT_FALSE(log.runs[0].end);
}

TEST(Log, AChangedByteIsFoundWhereverItIs) {
  const testing::KeyFolder keys;
  for (const bool is_signed : {false, true}) {
    const std::string text = chained(sample_run(), is_signed ? keys.secret("ours") : std::nullopt);
    ASSERT_FALSE(is_found(text));
    for (std::size_t at = 0; at < text.size(); ++at) {
      for (const char other : {static_cast<char>(text[at] ^ 1), static_cast<char>(text[at] ^ 0x20), '\n', 'A', '\0'}) {
        if (other == text[at]) continue;
        std::string changed = text;
        changed[at] = other;
        EXPECT_TRUE(is_found(changed)) << "byte " << at << " of " << text.size();
      }
    }
  }
}

TEST(Log, AByteThatIsGoneOrCameInIsFoundWhereverItIs) {
  const std::string text = chained(sample_run());
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::string shorter = text, longer = text;
    shorter.erase(at, 1);
    longer.insert(at, 1, ' ');
    EXPECT_TRUE(is_found(shorter)) << at;
    EXPECT_TRUE(is_found(longer)) << at;
    EXPECT_TRUE(is_found(text.substr(0, at))) << at;
  }
  EXPECT_TRUE(is_found(text + "\n"));
  EXPECT_TRUE(is_found(text + "{}\n"));
}

TEST(Log, LinesThatChangePlacesAreFound) {
  const std::vector<std::string> lines = lines_of(two_runs());
  ASSERT_EQ(lines.size(), 8u);
  const auto joined = [](const std::vector<std::string>& some) {
    std::string text;
    for (const std::string& line : some) text += line;
    return text;
  };
  for (std::size_t a = 0; a < lines.size(); ++a) {
    for (std::size_t b = a + 1; b < lines.size(); ++b) {
      std::vector<std::string> swapped = lines;
      std::swap(swapped[a], swapped[b]);
      EXPECT_TRUE(is_found(joined(swapped))) << a << " and " << b;
    }
    std::vector<std::string> without = lines, twice = lines;
    without.erase(without.begin() + static_cast<std::ptrdiff_t>(a));
    twice.insert(twice.begin() + static_cast<std::ptrdiff_t>(a), lines[a]);
    EXPECT_TRUE(is_found(joined(without))) << a;
    EXPECT_TRUE(is_found(joined(twice))) << a;
  }
  std::vector<std::string> spliced = lines;
  spliced[1] = lines_of(chained(sample_run("other")))[1];
  const Log log = read(joined(spliced));
  ASSERT_TRUE(log.fault);
  EXPECT_EQ(log.fault->line, 3u);  // of the same previous line, it is the next one that gives it away
  EXPECT_THAT(log.fault->what, HasSubstr("lines were changed, taken out or put in here"));
}

TEST(Log, RecordsStandWhereTheyMay) {
  const auto fault = [](std::vector<Record> records) {
    const Log log = read(chained(std::move(records)));
    return log.fault ? fmt::format("{}: {}", log.fault->line, log.fault->what) : "";
  };
  using testing::sample_begin;
  using testing::sample_end;
  using testing::sample_iteration;
  EXPECT_THAT(fault({{{}, sample_iteration(0)}}), HasSubstr("1: no run is going on"));
  EXPECT_THAT(fault({{{}, sample_begin()}, {{}, sample_end(0)}, {{}, sample_iteration(0)}}),
              HasSubstr("3: no run is going on"));
  EXPECT_THAT(fault({{{}, sample_begin()}, {{}, sample_iteration(1)}, {{}, sample_iteration(0)}}),
              HasSubstr("3: its iteration does not come after the one before"));
  EXPECT_THAT(fault({{{}, sample_begin()}, {{}, sample_iteration(2)}}), HasSubstr("2: its iteration is beyond"));
  EXPECT_THAT(fault({{{}, sample_begin()}, {{}, sample_iteration(1)}, {{}, sample_end(2, "other")}}),
              HasSubstr("3: the state at the end is not that after the last iteration"));
  EXPECT_EQ(fault({{{}, sample_begin()}, {{}, sample_begin()}, {{}, sample_end(0)}}), "");  // the first was killed
}

TEST(Log, AForgedChainLacksItsSignature) {
  const testing::KeyFolder keys;
  const Log ours = read(chained(sample_run(), keys.secret("ours")));
  EXPECT_EQ(ours.lines[0].keys, std::vector{keys.open("ours").id()});
  EXPECT_FALSE(fault_of_signatures(ours, {keys.open("theirs"), keys.open("ours")}));
  EXPECT_THAT(fault_of_signatures(ours, {keys.open("theirs")})->what,
              HasSubstr(keys.open("ours").id().substr(0, 12) + " signed it, which is none of those given"));
  const Log unsigned_one = read(chained(sample_run()));
  EXPECT_EQ(fault_of_signatures(unsigned_one, {keys.open("ours")})->what, "it is not signed");

  // All of it made anew by somebody without the key, under its name.
  const Log theirs = read(chained(sample_run("forged"), keys.secret("theirs")));
  store::Envelope forged = theirs.lines[0].envelope;
  forged.signatures[1].key_id = keys.open("ours").id();
  const ContentHash sum =
      testing::hash_of_text(store::signed_bytes(forged.type, forged.payload) + "\n" + forged.signatures[1].key_id +
                            " " + store::to_base64(forged.signatures[1].bytes));
  forged.signatures[0].bytes.assign(reinterpret_cast<const char*>(sum.bytes.data()), sum.bytes.size());
  const auto fault = fault_of_signatures(read(store::to_json(forged)), {keys.open("ours")});
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->line, 1u);
  EXPECT_THAT(fault->what, HasSubstr("its signature is wrong"));

  // Lines that nobody signed behind those that somebody did.
  const Log mixed =
      read(chained(sample_run(), keys.secret("ours")) + chained(sample_run(), {}, ours.lines.back().hash));
  EXPECT_EQ(fault_of_signatures(mixed, {keys.open("ours")})->line, 5u);
}

TEST(Log, ATornEndIsNoMoreThanThat) {
  const std::string text = two_runs();
  const std::vector<std::string> lines = lines_of(text);
  for (const std::size_t missing : {std::size_t{1}, std::size_t{100}, lines[7].size() - 1}) {
    const Log log = read(text.substr(0, text.size() - missing));
    ASSERT_TRUE(log.fault);
    EXPECT_TRUE(log.fault->is_torn);
    EXPECT_EQ(log.fault->line, 8u);
    EXPECT_EQ(log.lines.size(), 7u);
  }
  const Log first = read(text.substr(0, 70));
  ASSERT_TRUE(first.fault);
  EXPECT_TRUE(first.fault->is_torn);
}

TEST(Log, WhatIsNoneIsRefused) {
  const auto refused = [](const std::string& text) {
    const Result<Log> log = read_log_text(text, "a.crlog");
    EXPECT_FALSE(log) << text.substr(0, 100);
    if (log) return std::string();
    EXPECT_EQ(log.error().code, ErrorCode::kBadInput);
    return log.error().message;
  };
  EXPECT_THAT(refused("hello\n"), HasSubstr("a.crlog is no run log: line 1:"));
  EXPECT_THAT(refused(std::string("\0\1\2", 3)), HasSubstr("crucible replay --log FILE makes one"));
  EXPECT_THAT(refused(std::string(5 << 20, '[')), HasSubstr("bytes, the limit is"));
  store::Envelope other{"application/vnd.crucible.action+json", "{}", {}};
  EXPECT_THAT(refused(store::to_json(other)), HasSubstr("it holds application/vnd.crucible.action+json"));

  const std::string line = lines_of(chained(sample_run()))[0];
  EXPECT_THAT(read(line + std::string(5 << 20, '[') + "\n").fault->what, HasSubstr("the limit is"));
  EXPECT_THAT(read(line + std::string(5000, '[') + "\n").fault->what, HasSubstr("nested too deep"));
  store::Envelope bare{std::string(kRecordType), to_json({{}, testing::sample_begin()}), {}};
  EXPECT_THAT(read(store::to_json(bare)).fault->what, HasSubstr("it lacks its checksum"));
}

TEST(Log, OfANewerVersionIsRefusedWhole) {
  std::string json = to_json({{}, testing::sample_begin()});
  json.replace(json.find("\"version\":1"), 11, "\"version\":9");
  store::Envelope envelope{std::string(kRecordType), json, {}};
  const std::string bytes = store::signed_bytes(envelope.type, envelope.payload);
  const ContentHash sum = testing::hash_of_text(bytes);
  envelope.signatures.push_back(
      {std::string(kChecksumKey), {reinterpret_cast<const char*>(sum.bytes.data()), sum.bytes.size()}});
  const Result<Log> log = read_log_text(store::to_json(envelope), "a.crlog");
  ASSERT_FALSE(log);
  EXPECT_THAT(log.error().message, HasSubstr("line 1: it was written by a newer version of crucible (format 9"));
}

TEST(Log, MutantsAreFoundOrAreTheSame) {
  std::mt19937 random(7);
  const std::string text = two_runs();
  for (int round = 0; round < 3000; ++round) {
    const std::string mutant = store::testing::mutated(text, random);
    if (mutant == text) continue;
    // Cut between two runs it is a log of the first: only who knows the last record's hash can tell.
    const Result<Log> log = read_log_text(mutant, "a.crlog");
    const bool is_first = log && !log->fault && log->lines.size() == 4 && text.starts_with(mutant);
    EXPECT_TRUE(is_found(mutant) || is_first) << round;
  }
}

TEST(Log, RunsAreFoundByTheBeginningOfTheirNames) {
  const Log log = read(two_runs());
  const std::string first = log.id(log.runs[0]).hex(), second = log.id(log.runs[1]).hex();
  EXPECT_EQ(*find_run(log, first), 0u);
  EXPECT_EQ(*find_run(log, second.substr(0, 12)), 1u);
  EXPECT_EQ(find_run(log, "nonsense").error().code, ErrorCode::kUsage);
  EXPECT_THAT(find_run(log, "").error().message, HasSubstr("no run whose name begins with"));
  std::vector<Record> many;
  for (int run = 0; run < 40; ++run) many.push_back({{}, testing::sample_begin()});
  const Log crowd = read(chained(std::move(many)));
  bool is_ambiguous = false;
  for (const char digit : std::string("0123456789abcdef")) {
    const auto found = find_run(crowd, std::string(1, digit));
    is_ambiguous = is_ambiguous || (!found && found.error().message.find("both begin with") != std::string::npos);
  }
  EXPECT_TRUE(is_ambiguous);  // 40 names, 16 digits
}

TEST(Log, AFileIsReadOrRefused) {
  const testing::KeyFolder folder;
  testing::write_text(folder / "a.crlog", two_runs());
  EXPECT_EQ(read_log(folder / "a.crlog")->runs.size(), 2u);
  EXPECT_THAT(read_log(folder / "none").error().message, HasSubstr("cannot read"));
  EXPECT_THAT(read_log(folder / "").error().message, HasSubstr("it is no file"));
  EXPECT_THAT(read_log("/dev/zero").error().message, HasSubstr("it is no file"));
  testing::write_text(folder / "large", "");
  std::filesystem::resize_file(folder / "large", kFileLimit + 1);
  EXPECT_THAT(read_log(folder / "large").error().message, HasSubstr("a run log at most"));
}

}  // namespace
}  // namespace crucible::runlog
