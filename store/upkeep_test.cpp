// What keeps a store: the index and its loss, making room, telling why something missed, taking it elsewhere, and the
// tuning records.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include <algorithm>
#include <set>

#include "store/store.hpp"
#include "store/testing/store_samples.hpp"

namespace crucible::store {
namespace {

using ::testing::Contains;
using testing::content_of;
using ::testing::ElementsAre;
using testing::files_in;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::numbered_bytes;
using testing::numbered_key;
using testing::write_file;

class Upkeep : public ::testing::Test {
 protected:
  std::unique_ptr<Store> opened() { return opened(place_.options()); }
  static std::unique_ptr<Store> opened(StoreOptions options) {
    auto store = Store::open(std::move(options));
    EXPECT_TRUE(store) << store.error().message;
    return store ? *std::move(store) : nullptr;
  }
  static void put(Store& store, std::uint32_t number, std::size_t size = 64) {
    const auto done = store.put(numbered_key(number), {{"kernel.o", numbered_bytes(number, size)}}, "test");
    ASSERT_TRUE(done) << done.error().message;
  }
  static bool has(Store& store, std::uint32_t number) { return store.get(numbered_key(number)).has_value(); }
  void execute(const char* file, const std::string& sql) {
    sqlite3* database = nullptr;
    ASSERT_EQ(sqlite3_open((place_.folder() / file).c_str(), &database), SQLITE_OK);
    char* message = nullptr;
    EXPECT_EQ(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, &message), SQLITE_OK) << message;
    sqlite3_close(database);
  }
  std::vector<std::uint32_t> listed(Store& store) {
    std::vector<std::uint32_t> out;
    const auto done = store.list("", 0, [&](const EntryRow& row) {
      out.push_back(std::get<std::uint32_t>(row.fields.specialisation.at("n")));
      return true;
    });
    EXPECT_TRUE(done) << done.error().message;
    return out;
  }

  testing::Place place_;
};

// ---- the index

TEST_F(Upkeep, AnIndexThatIsGoneIsMadeAgain) {
  {
    const auto store = opened();
    for (std::uint32_t number = 0; number < 5; ++number) put(*store, number);
  }
  for (const char* ending : {"", "-wal", "-shm"}) {
    std::filesystem::remove(place_.folder() / (std::string("index-1.db") + ending));
  }
  const auto store = opened();
  EXPECT_EQ(store->totals()->entries, 5u);
  EXPECT_EQ(store->totals()->blobs, 5u);
  EXPECT_EQ(store->totals()->unpacked_bytes, 5u * 64);
  EXPECT_THAT(listed(*store), ElementsAre(4, 3, 2, 1, 0));  // by when they were made
  EXPECT_THAT(place_.said, IsEmpty());
}

TEST_F(Upkeep, AnIndexThatIsNoneIsSetAsideAndMadeAgain) {
  {
    const auto store = opened();
    for (std::uint32_t number = 0; number < 5; ++number) put(*store, number);
  }
  write_file(place_.folder() / "index-1.db", std::string(100'000, 'x'));
  const auto store = opened();
  EXPECT_TRUE(has(*store, 3));
  EXPECT_EQ(store->totals()->entries, 5u);
  EXPECT_THAT(place_.said, ElementsAre(HasSubstr("moved to quarantine and is made again of the files")));
  EXPECT_EQ(files_in(place_.folder() / "quarantine"), 1u);
}

TEST_F(Upkeep, AnIndexOfAnotherVersionIsMadeAgain) {
  {
    const auto store = opened();
    for (std::uint32_t number = 0; number < 5; ++number) put(*store, number);
  }
  execute("index-1.db", "PRAGMA user_version=7");
  const auto store = opened();
  EXPECT_EQ(store->totals()->entries, 5u);
  EXPECT_THAT(place_.said, ElementsAre(HasSubstr("moved to quarantine")));
}

TEST_F(Upkeep, AnIndexWithDamagedPagesIsMadeAgain) {
  {
    const auto store = opened();
    for (std::uint32_t number = 0; number < 300; ++number) put(*store, number);
  }
  std::string bytes = content_of(place_.folder() / "index-1.db");
  ASSERT_GT(bytes.size(), 40'000u);
  std::fill(bytes.begin() + 4096 + 100, bytes.end(), '\xee');  // the schema is whole, tables are not
  write_file(place_.folder() / "index-1.db", bytes);
  const auto store = opened();
  put(*store, 1000);
  EXPECT_EQ(store->totals()->entries, 301u);
  EXPECT_TRUE(has(*store, 17));
  EXPECT_EQ(store->totals()->entries, 301u);
  EXPECT_THAT(place_.said, Contains(HasSubstr("moved to quarantine")));
}

// ---- making room

TEST_F(Upkeep, WhatWasUsedLongestAgoGoesFirst) {
  const auto store = opened();
  for (std::uint32_t number = 0; number < 10; ++number) put(*store, number, 10'000);
  EXPECT_TRUE(has(*store, 0));
  EXPECT_TRUE(has(*store, 4));
  const auto done = store->collect(35'000);
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(done->entries, 7u);
  EXPECT_EQ(done->blobs, 7u);
  EXPECT_GT(done->bytes_before, 100'000u);
  EXPECT_LE(done->bytes_after, 35'000u);
  EXPECT_THAT(listed(*store), ElementsAre(4, 0, 9));
  for (const std::uint32_t number : {0, 4, 9}) EXPECT_TRUE(has(*store, number)) << number;
  for (const std::uint32_t number : {1, 2, 3, 5, 6, 7, 8}) EXPECT_FALSE(has(*store, number)) << number;
  EXPECT_EQ(files_in(place_.folder() / "cas"), 3u);
  EXPECT_EQ(files_in(place_.folder() / "ac"), 3u);
}

// Years forward and back: what was used last is a count.
TEST_F(Upkeep, AClockThatJumpsChangesNoOrder) {
  std::int64_t now = 4'000'000'000'000'000'000;
  StoreOptions options = place_.options();
  options.now_ns = [&now] { return now; };
  const auto store = opened(std::move(options));
  put(*store, 0, 10'000);  // in the year 2096
  now = -1'000'000'000;
  put(*store, 1, 10'000);  // before 1970
  now = 1'800'000'000'000'000'000;
  put(*store, 2, 10'000);
  now = 0;
  put(*store, 3, 10'000);
  ASSERT_TRUE(store->collect(25'000));
  EXPECT_THAT(listed(*store), ElementsAre(3, 2));
}

TEST_F(Upkeep, BlobsOfSeveralEntriesStayUntilTheLastOfThemGoes) {
  const auto store = opened();
  const std::string shared = numbered_bytes(99, 10'000);
  ASSERT_TRUE(store->put(numbered_key(0), {{"a", shared}, {"b", numbered_bytes(0, 10'000)}}, "test"));
  ASSERT_TRUE(store->put(numbered_key(1), {{"a", shared}}, "test"));
  ASSERT_TRUE(store->collect(15'000));
  EXPECT_FALSE(has(*store, 0));
  const auto found = store->get(numbered_key(1));
  ASSERT_TRUE(found);
  EXPECT_EQ(store->read(found->outputs[0]), shared);
  ASSERT_TRUE(store->collect(0));
  EXPECT_EQ(files_in(place_.folder() / "cas") + files_in(place_.folder() / "ac"), 0u);
}

TEST_F(Upkeep, LeftoversOfKilledWritersAreTakenAwayAndEntriesWithoutRowsAreFound) {
  const auto store = opened();
  put(*store, 0);
  write_file(place_.folder() / "tmp/123-4", "half of a blob");
  const std::string orphan = "a blob whose entry never came";
  const ContentHash hash = testing::hash_of_bytes(orphan);
  std::filesystem::create_directories(place_.blob_file(hash).parent_path());
  write_file(place_.blob_file(hash), pack(orphan));
  {  // another process put this and was killed before it wrote its row
    execute("index-1.db", "DELETE FROM entries; DELETE FROM outputs; DELETE FROM blobs");
  }
  ASSERT_TRUE(store->collect(1'000'000));
  EXPECT_EQ(files_in(place_.folder() / "tmp"), 0u);
  EXPECT_FALSE(std::filesystem::exists(place_.blob_file(hash)));
  EXPECT_TRUE(has(*store, 0));
  EXPECT_THAT(listed(*store), ElementsAre(0));
}

// The writer of the second answer was killed before its row: the row still names the first one's blob.
TEST_F(Upkeep, ARowOfAnOlderAnswerDoesNotCostTheNewerOneItsBlob) {
  const auto store = opened();
  put(*store, 0);
  {
    testing::Place elsewhere;
    const auto other = opened(elsewhere.options());
    ASSERT_TRUE(other->put(numbered_key(0), {{"kernel.o", "newer"}}, "test"));
    const ContentHash hash = testing::hash_of_bytes("newer");
    std::filesystem::create_directories(place_.blob_file(hash).parent_path());
    std::filesystem::copy_file(elsewhere.blob_file(hash), place_.blob_file(hash));
    std::filesystem::copy_file(elsewhere.entry_file(numbered_key(0)), place_.entry_file(numbered_key(0)),
                               std::filesystem::copy_options::overwrite_existing);
  }
  ASSERT_TRUE(store->collect(1'000'000));
  const auto found = store->get(numbered_key(0));
  ASSERT_TRUE(found);
  EXPECT_EQ(store->read(found->outputs[0]), "newer");
  EXPECT_EQ(files_in(place_.folder() / "cas"), 1u);
}

// ---- verify

TEST_F(Upkeep, VerifyFindsEachKindOfDamage) {
  const auto store = opened();
  for (std::uint32_t number = 0; number < 5; ++number) put(*store, number);
  EXPECT_TRUE(store->verify()->is_good());
  write_file(place_.blob_file(testing::hash_of_bytes(numbered_bytes(0))), "damaged");
  std::filesystem::remove(place_.blob_file(testing::hash_of_bytes(numbered_bytes(1))));
  write_file(place_.entry_file(numbered_key(2)), "{}");
  const auto found = store->verify();
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_FALSE(found->is_good());
  EXPECT_EQ(found->damaged_blobs, 1u);
  EXPECT_EQ(found->incomplete_entries, 2u);  // whose blobs were damaged and removed
  EXPECT_EQ(found->damaged_entries, 1u);
  EXPECT_EQ(found->entries, 2u);
  EXPECT_EQ(found->blobs, 3u);
  EXPECT_TRUE(store->verify()->is_good());
  EXPECT_EQ(store->totals()->entries, 2u);
}

// ---- explain

TEST_F(Upkeep, AMissIsExplainedByTheNearestEntry) {
  const auto store = opened();
  for (std::uint32_t number = 0; number < 5; ++number) put(*store, number);
  ActionKey near = numbered_key(3);
  near.toolchain = "clang 20";
  ASSERT_TRUE(store->put(near, {}, "test"));
  ActionKey asked = near;
  asked.numerics = "strict";
  EXPECT_FALSE(store->get(asked));
  const auto why = store->explain(hash_of(asked).hex().substr(0, 10));
  ASSERT_TRUE(why) << why.error().message;
  EXPECT_FALSE(why->is_there);
  EXPECT_EQ(why->key, asked);
  EXPECT_EQ(why->nearest, near);
  EXPECT_THAT(why->differences, ElementsAre(Difference{"numerics", "strict", "fast"}));
  EXPECT_TRUE(store->explain(near)->is_there);
  EXPECT_THAT(store->explain(near)->differences, ElementsAre(Difference{"toolchain", "clang 20", "clang 19"}));
  EXPECT_THAT(store->explain("00000000").error().message, HasSubstr("no entry begins with 00000000"));
  EXPECT_EQ(store->explain("xyz").error().code, ErrorCode::kUsage);
}

TEST_F(Upkeep, WithTheSameRegionIsNearer) {
  const auto store = opened();
  ActionKey same = numbered_key(1), other = numbered_key(1);
  same.region.bytes[0] = 1;
  same.numerics = "strict";
  other.region.bytes[0] = 2;
  ASSERT_TRUE(store->put(same, {}, "test"));
  ASSERT_TRUE(store->put(other, {}, "test"));
  ActionKey asked = numbered_key(1);
  asked.region.bytes[0] = 1;
  EXPECT_EQ(store->explain(asked)->nearest, same);
}

TEST_F(Upkeep, OnlyTheLastMissesAreKept) {
  const auto store = opened();
  for (std::uint32_t number = 0; number < 1200; ++number) EXPECT_FALSE(has(*store, number));
  EXPECT_TRUE(store->explain(hash_of(numbered_key(1199)).hex()));
  EXPECT_TRUE(store->explain(hash_of(numbered_key(300)).hex()));
  EXPECT_FALSE(store->explain(hash_of(numbered_key(3)).hex()));
}

// ---- export and import

class Exchange : public Upkeep {
 protected:
  Exchange() {
    const auto store = opened();
    for (std::uint32_t number = 0; number < 3; ++number) put(*store, number, 200);
    const auto records = store->tuning();
    EXPECT_TRUE(records);
    EXPECT_TRUE((*records)->add(Sample{"", hash_of(numbered_key(1)), "tile 8", "cpu", 12.5, "test", 3}));
    const auto done = store->export_to(file_);
    EXPECT_TRUE(done) << done.error().message;
    EXPECT_EQ(done->entries, 3u);
    EXPECT_EQ(done->blobs, 3u);
    EXPECT_EQ(done->samples, 1u);
  }
  std::filesystem::path file_ = place_.path() / "kept.crstore";
  testing::Place other_;
};

TEST_F(Exchange, WhatWasExportedIsThereAfterTheImport) {
  const auto store = opened(other_.options());
  for (const std::uint64_t samples : {1, 0}) {  // twice: nothing is there twice
    const auto done = store->import_from(file_);
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(done->entries, 3u);
    EXPECT_EQ(done->samples, samples);
  }
  for (std::uint32_t number = 0; number < 3; ++number) {
    const auto found = store->get(numbered_key(number));
    ASSERT_TRUE(found);
    EXPECT_EQ(store->read(found->outputs[0]), numbered_bytes(number, 200));
  }
  EXPECT_EQ(store->totals()->entries, 3u);
  EXPECT_EQ((*store->tuning())->best(hash_of(numbered_key(1)), "cpu").operator*()->candidate, "tile 8");
}

TEST_F(Exchange, NothingIsTakenOfAFileThatIsCutOffOrChanged) {
  const auto store = opened(other_.options());
  const std::string whole = content_of(file_);
  for (std::size_t size = 0; size < whole.size(); size += 97) {
    write_file(file_, whole.substr(0, size));
    EXPECT_FALSE(store->import_from(file_)) << size;
  }
  for (std::size_t at = 0; at < whole.size(); at += 31) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 4);
    write_file(file_, changed);
    const auto done = store->import_from(file_);
    ASSERT_FALSE(done) << at;
    EXPECT_THAT(done.error().message, HasSubstr("nothing was taken of it"));
  }
  write_file(file_, whole + "x");
  EXPECT_FALSE(store->import_from(file_));
  EXPECT_EQ(files_in(other_.folder() / "ac") + files_in(other_.folder() / "cas"), 0u);
  EXPECT_FALSE(store->import_from(place_.path()));
  EXPECT_FALSE(store->import_from("/dev/zero"));
}

// Somebody who means ill writes the sum anew: each part is checked by itself, and what is taken is right.
TEST_F(Exchange, AFileThatWasForgedBringsInNothingThatIsWrong) {
  const auto store = opened(other_.options());
  const std::string whole = content_of(file_), body = whole.substr(0, whole.size() - 32);
  std::mt19937 random(3);
  std::size_t taken = 0;
  for (int trial = 0; trial < 1500; ++trial) {
    std::string forged = testing::mutated(body, random);
    const ContentHash sum = testing::hash_of_bytes(forged);
    forged.append(reinterpret_cast<const char*>(sum.bytes.data()), sum.bytes.size());
    write_file(file_, forged);
    const auto done = store->import_from(file_);
    taken += done.has_value();
  }
  EXPECT_GT(taken, 100u);
  const auto found = store->verify();
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->is_good());
  for (std::uint32_t number = 0; number < 3; ++number) {
    const auto entry = store->get(numbered_key(number));
    if (!entry) continue;
    for (const Output& output : entry->outputs) {
      const auto bytes = store->read(output);
      if (bytes) {
        EXPECT_EQ(testing::hash_of_bytes(*bytes), output.blob);
      }
    }
  }
}

// Its sum is right, its blobs were left out: an entry comes with all of its blobs or not at all.
TEST_F(Exchange, EntriesWhoseBlobsAreNotInTheFileAreNotTaken) {
  const std::string whole = content_of(file_);
  constexpr std::size_t kMagic = 24, kHead = 1 + 32 + 8;
  std::string forged = whole.substr(0, kMagic);
  std::size_t left_out = 0;
  for (std::size_t at = kMagic; at + kHead < whole.size();) {
    std::size_t bytes = 0;
    for (std::size_t byte = 8; byte-- > 0;) bytes = bytes << 8 | static_cast<std::uint8_t>(whole[at + 33 + byte]);
    const bool is_blob = whole[at] == '\1';
    left_out += is_blob;
    if (!is_blob) forged += whole.substr(at, kHead + bytes);
    at += kHead + bytes;
  }
  ASSERT_EQ(left_out, 3u);
  const ContentHash sum = testing::hash_of_bytes(forged);
  forged.append(reinterpret_cast<const char*>(sum.bytes.data()), sum.bytes.size());
  write_file(file_, forged);
  const auto store = opened(other_.options());
  const auto done = store->import_from(file_);
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(done->entries, 0u);
  EXPECT_EQ(done->samples, 1u);
  EXPECT_EQ(files_in(other_.folder() / "ac"), 0u);
}

TEST_F(Exchange, AFileThatCannotBeWrittenIsSaidAndNotThere) {
  const auto store = opened();
  EXPECT_FALSE(store->export_to(place_.path() / "no folder/file"));
  EXPECT_FALSE(store->export_to("/dev/full/file"));
}

// ---- tuning records

class TuningRecords : public Upkeep {
 protected:
  static Sample sample(const char* candidate, double time_ns) {
    return {"", hash_of(numbered_key(1)), candidate, "cpu", time_ns, "test", 1};
  }
  Tuning& records(Store& store) {
    const auto found = store.tuning();
    EXPECT_TRUE(found) << found.error().message;
    return **found;
  }
};

TEST_F(TuningRecords, LosersStayAndTheBestIsAskedFor) {
  const auto store = opened();
  Tuning& tuning = records(*store);
  EXPECT_FALSE(*tuning.best(hash_of(numbered_key(1)), "cpu"));
  for (const double time : {10.0, 11.0, 1000.0}) ASSERT_TRUE(tuning.add(sample("a", time)));
  for (const double time : {12.0, 5.0, 13.0, 14.0}) ASSERT_TRUE(tuning.add(sample("b", time)));
  ASSERT_TRUE(tuning.add(Sample{"", hash_of(numbered_key(2)), "c", "cpu", 1, "test", 1}));
  ASSERT_TRUE(tuning.add(Sample{"", hash_of(numbered_key(1)), "c", "gpu", 1, "test", 1}));
  const auto all = tuning.candidates(hash_of(numbered_key(1)), "cpu");
  ASSERT_TRUE(all) << all.error().message;
  ASSERT_EQ(all->size(), 2u);
  EXPECT_EQ(all->at(0).candidate, "a");  // by medians: one sample that was disturbed decides nothing
  EXPECT_EQ(all->at(0).median_ns, 11);
  EXPECT_EQ(all->at(1).median_ns, 12.5);
  EXPECT_EQ(all->at(1).samples, 4u);
  for (int time = 0; time < 4; ++time) ASSERT_TRUE(tuning.add(sample("b", 6)));
  EXPECT_EQ((*tuning.best(hash_of(numbered_key(1)), "cpu"))->candidate, "b");
  EXPECT_EQ(*tuning.count(), 13u);
}

TEST_F(TuningRecords, NoRowIsEverChangedOrTakenAway) {
  {
    const auto store = opened();
    ASSERT_TRUE(records(*store).add(sample("a", 10)));
  }
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open((place_.folder() / "tuning.db").c_str(), &database), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(database, "UPDATE samples SET time_ns=1", nullptr, nullptr, nullptr), SQLITE_CONSTRAINT);
  EXPECT_EQ(sqlite3_exec(database, "DELETE FROM samples", nullptr, nullptr, nullptr), SQLITE_CONSTRAINT);
  sqlite3_close(database);
  const auto store = opened();
  EXPECT_FALSE(records(*store).add(sample("a", 0)));
  EXPECT_FALSE(records(*store).add(sample("a", -1)));
  EXPECT_FALSE(records(*store).add(sample("a", std::numeric_limits<double>::quiet_NaN())));
  EXPECT_EQ(*records(*store).count(), 1u);
  ASSERT_TRUE(store->collect(0));
  EXPECT_EQ(*records(*store).count(), 1u);
}

TEST_F(TuningRecords, GoThroughTomlUnchanged) {
  const auto store = opened();
  ASSERT_TRUE(records(*store).add(sample("quotes \" and \\ and\nlines\t\x01\x7f ü", 0.1)));
  ASSERT_TRUE(records(*store).add(sample("", 1e300)));
  const auto text = records(*store).to_toml();
  ASSERT_TRUE(text);
  testing::Place elsewhere;
  const auto other = opened(elsewhere.options());
  const auto added = records(*other).add_toml(*text);
  ASSERT_TRUE(added) << added.error().message;
  EXPECT_EQ(*added, 2u);
  EXPECT_EQ(*records(*other).add_toml(*text), 0u);
  EXPECT_EQ(*records(*other).to_toml(), *text);
}

TEST_F(TuningRecords, TomlOfPeopleIsReadAndWhatIsWrongIsSaidWithItsLine) {
  const std::string head = "version = 1 # of people\n", id(32, 'a'), action(64, 'b');
  const std::string good =
      "[[sample]]  # one\n\ttime_ns = 5\ncandidate = \"\\u00fc = #\" # comment\r\ndevice=\"cpu\"\nmaker=\"m\"\n"
      "made_ns = -3\nid = \"" +
      id + "\"\naction = \"" + action + "\"\n";
  const auto samples = parse_samples(head + good);
  ASSERT_TRUE(samples) << samples.error().message;
  ASSERT_EQ(samples->size(), 1u);
  EXPECT_EQ(samples->at(0).candidate, "ü = #");
  EXPECT_EQ(samples->at(0).time_ns, 5);
  EXPECT_EQ(samples->at(0).made_ns, -3);
  const auto said = [&](const std::string& text) {
    const auto parsed = parse_samples(text);
    return parsed ? std::string("taken") : parsed.error().message;
  };
  EXPECT_THAT(said(good), HasSubstr("version = 1"));
  EXPECT_THAT(said("version = 2\n" + good), HasSubstr("version = 1"));
  EXPECT_THAT(said(head + "[[sample]]\nid = \"x\"\n"), HasSubstr("line 2: this sample needs"));
  EXPECT_THAT(said(head + "a = nan"), HasSubstr("line 2: the value is neither"));
  EXPECT_THAT(said(head + "a = \"x"), HasSubstr("line 2: the value is neither"));
  EXPECT_THAT(said(head + "a = \"\\ud800\""), HasSubstr("line 2: the value is neither"));
  EXPECT_THAT(said(head + "version = 1"), HasSubstr("line 2: the key is there twice"));
  EXPECT_THAT(said(head + "[table]"), HasSubstr("line 2: neither [[sample]] nor"));
}

TEST_F(TuningRecords, TomlThatWasChangedIsOtherSamplesOrRefused) {
  const auto store = opened();
  for (const char* candidate : {"a", "b \"c\"", "ü"}) ASSERT_TRUE(records(*store).add(sample(candidate, 3.5)));
  const std::string text = *records(*store).to_toml();
  std::mt19937 random(4);
  std::size_t taken = 0;
  for (int trial = 0; trial < 20'000; ++trial) {
    const auto parsed = parse_samples(testing::mutated(text, random));
    if (!parsed) continue;
    ++taken;
    for (const Sample& each : *parsed) EXPECT_GT(each.time_ns, 0);
  }
  EXPECT_GT(taken, 100u);
}

TEST_F(TuningRecords, DamagedOnesAreSetAsideAndNewerOnesAreRefused) {
  {
    const auto store = opened();
    ASSERT_TRUE(records(*store).add(sample("a", 10)));
  }
  execute("tuning.db", "PRAGMA user_version=9");
  const std::string newer = content_of(place_.folder() / "tuning.db");
  {
    const auto store = opened();
    const auto found = store->tuning();
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().code, ErrorCode::kBadInput);
    EXPECT_THAT(found.error().message, HasSubstr("newer version of Crucible (version 9, this one reads 1)"));
    put(*store, 1);  // the rest works
    EXPECT_TRUE(has(*store, 1));
  }
  EXPECT_EQ(content_of(place_.folder() / "tuning.db"), newer);
  write_file(place_.folder() / "tuning.db",
             "no database at all, but long enough to be looked at as one" + std::string(9000, '.'));
  const auto store = opened();
  EXPECT_EQ(*records(*store).count(), 0u);
  ASSERT_TRUE(records(*store).add(sample("a", 10)));
  EXPECT_THAT(place_.said, Contains(HasSubstr("they were moved to quarantine, new ones begin")));
}

}  // namespace
}  // namespace crucible::store
