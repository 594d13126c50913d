// `crucible store` as a user meets it: what is shown, in words and as JSON, and how each way of failing ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "store/testing/store_samples.hpp"
#include "tests/cli/run_command.hpp"

namespace crucible {
namespace {

using nlohmann::json;
using store::testing::numbered_bytes;
using store::testing::numbered_key;
using store::testing::write_file;
using ::testing::AllOf;
using ::testing::HasSubstr;

class StoreCommand : public ::testing::Test {
 protected:
  StoreCommand() {
    const auto opened = store::Store::open(place_.options());
    EXPECT_TRUE(opened) << opened.error().message;
    for (std::uint32_t number = 0; number < 3; ++number) {
      EXPECT_TRUE((*opened)->put(numbered_key(number), {{"kernel.o", numbered_bytes(number, 5000)}}, "test \x1b[31m"));
    }
    missed_ = numbered_key(2);
    missed_.toolchain = "clang 20";
    EXPECT_FALSE((*opened)->get(missed_));
    EXPECT_TRUE((*(*opened)->tuning())->add({"", hash_of(numbered_key(1)), "tile 8", "cpu", 12.5, "test", 3}));
  }
  CommandOutcome run(const std::string& line) {
    return run_command("store " + line + " --store " + place_.folder().string());
  }
  json document(const std::string& line, int code = 0) {
    const CommandOutcome outcome = run(line + " --json");
    EXPECT_EQ(outcome.code, code) << outcome.err;
    return json::parse(outcome.out, nullptr, false);
  }
  std::string file(const char* name) const { return (place_.path() / name).string(); }

  store::testing::Place place_;
  store::ActionKey missed_;
};

TEST_F(StoreCommand, ListsAndCounts) {
  const CommandOutcome table = run("list");
  EXPECT_EQ(table.code, 0) << table.err;
  EXPECT_THAT(table.out, AllOf(HasSubstr(hash_of(numbered_key(2)).hex().substr(0, 12)), HasSubstr("clang 19"),
                               HasSubstr("\\x1b[31m"), HasSubstr("3 entries\n")));
  EXPECT_EQ(table.out.find('\x1b'), std::string::npos);
  EXPECT_THAT(run("list --limit 1").out, HasSubstr("3 entries, 1 shown; --limit 0 shows all"));
  EXPECT_THAT(run("list --kind plan").out, HasSubstr("3 entries, 0 shown"));
  const json list = document("list");
  EXPECT_EQ(list["count"], 3);
  EXPECT_EQ(list["entries"][0]["key"], hash_of(numbered_key(2)).hex());
  EXPECT_EQ(list["entries"][0]["size_bytes"], 5000);
  EXPECT_EQ(list["entries"][0]["specialisation"]["n"]["type"], "u32");
  const json stats = document("stats");
  EXPECT_EQ(stats["entries"], 3);
  EXPECT_EQ(stats["entries_by_kind"]["kernel"], 3);
  EXPECT_EQ(stats["blobs"], 3);
  EXPECT_EQ(stats["unpacked_bytes"], 15000);
  EXPECT_EQ(stats["samples"], 1);
  EXPECT_THAT(run("stats").out, HasSubstr("tuning samples"));
}

TEST_F(StoreCommand, TheFolderIsThatOfTheEnvironment) {
  const CommandOutcome outcome = run_command("store stats --json", "CRUCIBLE_STORE_DIR=" + place_.folder().string());
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(json::parse(outcome.out)["entries"], 3);
}

TEST_F(StoreCommand, ExplainsAMiss) {
  const std::string digits = hash_of(missed_).hex().substr(0, 12);
  const CommandOutcome words = run("explain " + digits);
  EXPECT_EQ(words.code, 0) << words.err;
  EXPECT_THAT(words.out, AllOf(HasSubstr("is not in the store"), HasSubstr("toolchain"), HasSubstr("clang 20"),
                               HasSubstr("clang 19")));
  const json why = document("explain " + digits);
  EXPECT_EQ(why["is_there"], false);
  EXPECT_EQ(why["nearest"]["key"], hash_of(numbered_key(2)).hex());
  EXPECT_EQ(why["differences"], json::parse(R"([{"field":"toolchain","asked":"clang 20","nearest":"clang 19"}])"));
  EXPECT_EQ(run("explain 0000000000").code, 2);
  EXPECT_EQ(run("explain nonsense").code, 2);
}

TEST_F(StoreCommand, VerifyEndsWith1WhereSomethingWasBad) {
  EXPECT_EQ(document("verify")["good"], true);
  write_file(place_.blob_file(store::testing::hash_of_bytes(numbered_bytes(0, 5000))), "damaged");
  const CommandOutcome outcome = run("verify");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("is damaged"), HasSubstr("was moved to quarantine"), HasSubstr("lacks a blob")));
  EXPECT_THAT(outcome.out, HasSubstr("what is bad is not used"));
  EXPECT_EQ(run("verify").code, 0);
  EXPECT_EQ(run("verify --trust enforce").code, 2);  // whose word counts?
  EXPECT_EQ(run("verify --trust enforce --key " + file("none.pem")).code, 3);
}

TEST_F(StoreCommand, GcMakesRoom) {
  const json done = document("gc --limit 6KB");
  EXPECT_EQ(done["entries_removed"], 2);
  EXPECT_LE(done["after_bytes"], 6000);
  EXPECT_EQ(document("gc --limit 0")["after_bytes"], 0);
  EXPECT_EQ(run("gc --limit much").code, 2);
  EXPECT_EQ(run("gc").code, 2);
}

TEST_F(StoreCommand, GoesElsewhereAsOneFile) {
  EXPECT_EQ(run("export " + file("kept.crstore")).code, 0);
  const std::string there = " --json --store " + file("elsewhere");
  CommandOutcome outcome = run_command("store import " + file("kept.crstore") + there);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(json::parse(outcome.out)["entries"], 3);
  EXPECT_EQ(json::parse(outcome.out)["samples"], 1);
  EXPECT_EQ(run("export --tuning " + file("choices.toml")).code, 0);
  outcome = run_command("store import --tuning " + file("choices.toml") + there);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(json::parse(outcome.out)["samples"], 0);  // which are there
  write_file(file("kept.crstore"), "no such file");
  EXPECT_EQ(run("import " + file("kept.crstore")).code, 3);
  EXPECT_EQ(run("import --tuning " + file("none")).code, 3);
}

TEST_F(StoreCommand, WhatIsNoStoreIsRefused) {
  const CommandOutcome none = run_command("store list --store " + file("nothing"));
  EXPECT_EQ(none.code, 3);
  EXPECT_THAT(none.err, HasSubstr("there is no store in"));
  EXPECT_FALSE(std::filesystem::exists(file("nothing")));
  write_file(place_.folder() / "format", "crucible store 12\n");
  const CommandOutcome newer = run("gc --limit 0");
  EXPECT_EQ(newer.code, 3);
  EXPECT_THAT(newer.err, HasSubstr("written by a newer version of Crucible (format 12, this one reads 1)"));
  EXPECT_TRUE(std::filesystem::exists(place_.entry_file(numbered_key(1))));
}

TEST_F(StoreCommand, HelpHasExamples) {
  for (const char* name : {"list", "stats", "explain", "verify", "gc", "export", "import"}) {
    EXPECT_THAT(run_command(std::string("store ") + name + " --help").out,
                HasSubstr(std::string("Example:\n  crucible store ") + name))
        << name;
  }
}

}  // namespace
}  // namespace crucible
