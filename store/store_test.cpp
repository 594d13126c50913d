// Putting and getting on a sound folder, and everything that is not sound: damaged, incomplete, forged, of a newer
// version, made by somebody who means ill.
#include "store/store.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <span>
#include <thread>

#include "store/testing/signing_keys.hpp"
#include "store/testing/store_samples.hpp"

namespace crucible::store {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using testing::content_of;
using ::testing::ElementsAre;
using testing::files_in;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::numbered_bytes;
using testing::numbered_key;
using testing::write_file;

class StoreTest : public ::testing::Test {
 protected:
  std::unique_ptr<Store> opened() { return opened(place_.options()); }
  std::unique_ptr<Store> opened(StoreOptions options) {
    auto store = Store::open(std::move(options));
    EXPECT_TRUE(store) << store.error().message;
    return store ? *std::move(store) : nullptr;
  }
  static void put(Store& store, std::uint32_t number, std::size_t size = 64) {
    const auto done =
        store.put(numbered_key(number), {{"kernel.o", numbered_bytes(number, size)}}, "test 1", {{"trial", "passed"}});
    ASSERT_TRUE(done) << done.error().message;
  }
  /// The answer's bytes, or nothing.
  static std::optional<std::string> got(Store& store, std::uint32_t number) {
    const auto found = store.get(numbered_key(number));
    return found ? store.read(found->outputs.at(0)) : std::nullopt;
  }
  std::filesystem::path blob_file(std::uint32_t number, std::size_t size = 64) const {
    return place_.blob_file(testing::hash_of_bytes(numbered_bytes(number, size)));
  }

  testing::Place place_;
};

TEST_F(StoreTest, GivesBackWhatWasPut) {
  {
    const auto store = opened();
    EXPECT_FALSE(store->get(numbered_key(1)));
    put(*store, 1);
    const auto found = store->get(numbered_key(1));
    ASSERT_TRUE(found);
    EXPECT_EQ(found->key, numbered_key(1));
    EXPECT_EQ(found->maker, "test 1");
    EXPECT_EQ(found->evidence.at("trial"), "passed");
    EXPECT_GT(found->made_ns, 0);
    EXPECT_EQ(found->outputs.at(0).name, "kernel.o");
  }
  const auto again = opened();  // as another process would
  EXPECT_EQ(got(*again, 1), numbered_bytes(1));
  EXPECT_FALSE(got(*again, 2));
  EXPECT_THAT(place_.said, IsEmpty());
}

TEST_F(StoreTest, KeepsLargeAndEmptyBlobsAndEqualOnesOnce) {
  const auto store = opened();
  const std::string large(5'000'000, 'a');
  ASSERT_TRUE(store->put(numbered_key(1), {{"a", large}, {"b", ""}, {"c", large}}, "test"));
  const auto found = store->get(numbered_key(1));
  ASSERT_TRUE(found);
  EXPECT_EQ(store->read(found->outputs[0]), large);
  EXPECT_EQ(store->read(found->outputs[1]), "");
  EXPECT_EQ(files_in(place_.folder() / "cas"), 2u);
  const auto totals = store->totals();
  ASSERT_TRUE(totals);
  EXPECT_EQ(totals->unpacked_bytes, 5'000'000u);
  EXPECT_LT(totals->stored_bytes, 100'000u);
  EXPECT_THAT(totals->entries_by_kind, ElementsAre(std::pair<std::string, std::uint64_t>("kernel", 1)));
}

TEST_F(StoreTest, TheLastAnswerOfAKeyCounts) {
  const auto store = opened();
  put(*store, 1);
  ASSERT_TRUE(store->put(numbered_key(1), {{"kernel.o", "another"}}, "test 2"));
  EXPECT_EQ(got(*store, 1), "another");
}

TEST_F(StoreTest, ThreadsPutAndGet) {
  const auto store = opened();
  std::vector<std::thread> threads;
  for (std::uint32_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&store, thread] {
      for (std::uint32_t at = 0; at < 50; ++at) {
        put(*store, at * 4 + thread);
        EXPECT_EQ(got(*store, at * 4 + thread), numbered_bytes(at * 4 + thread));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(store->totals()->entries, 200u);
  EXPECT_THAT(place_.said, IsEmpty());
}

TEST_F(StoreTest, ADamagedBlobIsMovedAsideAndIsAMiss) {
  const auto store = opened();
  put(*store, 1);
  std::string bytes = content_of(blob_file(1));
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_file(blob_file(1), bytes);
  const auto found = store->get(numbered_key(1));
  ASSERT_TRUE(found);  // whether the bytes are right is seen when they are read
  EXPECT_FALSE(store->read(found->outputs[0]));
  EXPECT_THAT(place_.said, Contains(HasSubstr("was moved to quarantine")));
  EXPECT_EQ(files_in(place_.folder() / "quarantine"), 1u);
  EXPECT_FALSE(got(*store, 1));
  put(*store, 1);
  EXPECT_EQ(got(*store, 1), numbered_bytes(1));
}

TEST_F(StoreTest, ATornBlobOfAnyLengthIsAMiss) {
  const auto store = opened();
  for (const bool is_packable : {false, true}) {
    const std::string content = is_packable ? std::string(3000, 'x') : numbered_bytes(7, 3000);
    const ContentHash hash = testing::hash_of_bytes(content);
    ASSERT_TRUE(store->put(numbered_key(1), {{"a", content}}, "test"));
    const std::string whole = content_of(place_.blob_file(hash));
    for (std::size_t size = 0; size < whole.size(); size += 1 + whole.size() / 100) {
      write_file(place_.blob_file(hash), whole.substr(0, size));
      EXPECT_FALSE(store->read({"a", hash, content.size()})) << size;
      EXPECT_FALSE(std::filesystem::exists(place_.blob_file(hash))) << size;
    }
  }
}

TEST_F(StoreTest, PuttingAgainMendsADamagedBlob) {
  const auto store = opened();
  put(*store, 1);
  write_file(blob_file(1), "damaged");
  put(*store, 1);
  EXPECT_EQ(got(*store, 1), numbered_bytes(1));
}

TEST_F(StoreTest, AnEntryWhoseBlobIsGoneIsAMissSaidOnce) {
  const auto store = opened();
  put(*store, 1);
  std::filesystem::remove(blob_file(1));
  for (int trial = 0; trial < 3; ++trial) EXPECT_FALSE(store->get(numbered_key(1)));
  EXPECT_THAT(place_.said, ElementsAre(HasSubstr("lacks a blob that it names")));
  EXPECT_FALSE(std::filesystem::exists(place_.entry_file(numbered_key(1))));
}

// A reader that saw something bad waits for the writer that mends it, looks again, and takes nothing away. Where the
// reader comes later, it sees what was mended at once.
TEST_F(StoreTest, WhatAWriterMendsMeanwhileStays) {
  const auto store = opened();
  for (const bool is_gone : {true, false}) {
    put(*store, 1);
    const std::string frame = content_of(blob_file(1));
    if (is_gone) {
      std::filesystem::remove(blob_file(1));
    } else {
      write_file(blob_file(1), "damaged");
    }
    auto writer = std::make_optional(*store->files().lock_shared());
    std::thread reader([&] { (void)got(*store, 1); });
    usleep(100'000);  // enough for the reader to see it, on most machines
    write_file(blob_file(1), frame);
    writer.reset();
    reader.join();
    EXPECT_TRUE(std::filesystem::exists(blob_file(1)));
    EXPECT_TRUE(std::filesystem::exists(place_.entry_file(numbered_key(1))));
    EXPECT_EQ(got(*store, 1), numbered_bytes(1));
  }
  EXPECT_THAT(place_.said, IsEmpty());
}

TEST_F(StoreTest, ADamagedEntryIsMovedAsideAndIsAMiss) {
  const auto store = opened();
  put(*store, 1);
  const std::string whole = content_of(place_.entry_file(numbered_key(1)));
  write_file(place_.entry_file(numbered_key(1)), whole.substr(0, whole.size() / 2));
  EXPECT_FALSE(store->get(numbered_key(1)));
  EXPECT_THAT(place_.said, ElementsAre(HasSubstr("no signed envelope")));
  EXPECT_EQ(files_in(place_.folder() / "quarantine"), 1u);
}

TEST_F(StoreTest, AnEntryUnderAnotherKeyIsAMiss) {
  const auto store = opened();
  put(*store, 1);
  put(*store, 2);
  write_file(place_.entry_file(numbered_key(2)), content_of(place_.entry_file(numbered_key(1))));
  EXPECT_FALSE(store->get(numbered_key(2)));
  EXPECT_THAT(place_.said, ElementsAre(HasSubstr("the entry of another key")));
}

TEST_F(StoreTest, AnEntryOfANewerVersionIsAMissAndStays) {
  const auto store = opened();
  put(*store, 1);
  std::string text = to_json(Statement{numbered_key(1), {}, "test", 0, {}});
  text.replace(text.find("\"version\":1"), 11, "\"version\":2");
  const std::string newer = to_json(Envelope{std::string(kStatementType), text, {}});
  write_file(place_.entry_file(numbered_key(1)), newer);
  EXPECT_FALSE(store->get(numbered_key(1)));
  EXPECT_THAT(place_.said,
              ElementsAre(HasSubstr("written by a newer version of Crucible (version 2, this one reads 1)")));
  EXPECT_EQ(content_of(place_.entry_file(numbered_key(1))), newer);
}

TEST_F(StoreTest, AStoreOfANewerVersionIsRefusedAndNothingIsTouched) {
  std::filesystem::create_directories(place_.folder());
  write_file(place_.folder() / "format", "crucible store 2\n");
  const auto store = Store::open(place_.options());
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().code, ErrorCode::kBadInput);
  EXPECT_THAT(store.error().message, HasSubstr("written by a newer version of Crucible (format 2, this one reads 1)"));
  EXPECT_EQ(files_in(place_.folder()), 1u);
  EXPECT_EQ(content_of(place_.folder() / "format"), "crucible store 2\n");
}

TEST_F(StoreTest, AFolderOfSomethingElseIsRefused) {
  std::filesystem::create_directories(place_.folder());
  write_file(place_.folder() / "thesis.tex", "words");
  EXPECT_THAT(Store::open(place_.options()).error().message, HasSubstr("is no store"));
  EXPECT_EQ(files_in(place_.folder()), 1u);
  StoreOptions options = place_.options();
  options.folder = place_.path() / "nothing";
  options.must_exist = true;
  EXPECT_THAT(Store::open(std::move(options)).error().message, HasSubstr("there is no store in"));
  EXPECT_FALSE(std::filesystem::exists(place_.path() / "nothing"));
}

TEST_F(StoreTest, LinksInAStoreLeadNowhere) {
  const auto store = opened();
  put(*store, 1);
  const std::string frame = content_of(blob_file(1));
  write_file(place_.path() / "outside", frame);
  std::filesystem::remove(blob_file(1));
  std::filesystem::create_symlink(place_.path() / "outside", blob_file(1));
  EXPECT_FALSE(store->get(numbered_key(1)));
  EXPECT_FALSE(store->read({"kernel.o", testing::hash_of_bytes(numbered_bytes(1)), 64}));
  put(*store, 1);
  std::filesystem::rename(place_.entry_file(numbered_key(1)), place_.path() / "entry");
  std::filesystem::create_symlink(place_.path() / "entry", place_.entry_file(numbered_key(1)));
  EXPECT_FALSE(store->get(numbered_key(1)));
  // A folder that is a link: neither read through nor written through.
  put(*store, 2);
  const std::filesystem::path first = blob_file(2).parent_path();
  std::filesystem::create_directories(place_.path() / "elsewhere");
  std::filesystem::rename(first, place_.path() / "moved");
  std::filesystem::create_directory_symlink(place_.path() / "elsewhere", first);
  EXPECT_FALSE(store->get(numbered_key(2)));
  EXPECT_FALSE(store->put(numbered_key(2), {{"kernel.o", numbered_bytes(2)}}, "test"));
  EXPECT_EQ(files_in(place_.path() / "elsewhere"), 0u);
}

TEST_F(StoreTest, RoomsThatAreLinksAreRefused) {
  opened();
  std::filesystem::remove_all(place_.folder() / "cas");
  std::filesystem::create_directory_symlink(place_.path(), place_.folder() / "cas");
  EXPECT_THAT(Store::open(place_.options()).error().message, HasSubstr("must be folders, not links"));
}

TEST_F(StoreTest, APipeInAStoreHoldsNobodyUp) {
  const auto store = opened();
  put(*store, 1);
  std::filesystem::remove(place_.entry_file(numbered_key(1)));
  ASSERT_EQ(mkfifo(place_.entry_file(numbered_key(1)).c_str(), 0600), 0);
  EXPECT_FALSE(store->get(numbered_key(1)));
}

TEST_F(StoreTest, NamesOfOutputsLeadNowhere) {
  const auto store = opened();
  for (const char* name : {"../a", "a/b", "/etc/passwd", "", ".", "..", ".hidden", "a b", "a\n", "\xff"}) {
    EXPECT_FALSE(store->put(numbered_key(1), {{name, "bytes"}}, "test")) << name;
    Statement statement{numbered_key(1), {{name, {}, 0}}, "test", 0, {}};
    EXPECT_FALSE(parse_statement(to_json(statement))) << name;
  }
  EXPECT_FALSE(store->put(numbered_key(1), {{"a", "x"}, {"a", "y"}}, "test"));
  EXPECT_EQ(files_in(place_.folder() / "ac"), 0u);
}

// A frame of a few bytes that says it unpacks to 2^62: refused by what it says, and no memory is taken for it.
TEST_F(StoreTest, HugeSizesAreRefused) {
  const auto store = opened();
  put(*store, 1);
  std::string frame("\x28\xb5\x2f\xfd\xe0", 5);
  frame += std::string("\0\0\0\0\0\0\0\x40", 8) + std::string("\x01\0\0", 3);
  write_file(blob_file(1), frame);
  EXPECT_EQ(said_size(frame), 1ull << 62);
  EXPECT_FALSE(got(*store, 1));
  EXPECT_THAT(place_.said, Contains(HasSubstr("would unpack to 4611686018427387904 bytes, the limit is 64")));
  // One that says little and holds much.
  const std::string bomb = pack(std::string(50'000'000, '\0'));
  write_file(blob_file(1), bomb);
  EXPECT_FALSE(got(*store, 1));
  // An entry's file that is larger than any.
  write_file(place_.entry_file(numbered_key(1)), std::string(kStatementLimit + 1, ' '));
  EXPECT_FALSE(store->get(numbered_key(1)));
  EXPECT_THAT(place_.said, Contains(HasSubstr("the limit is 1048576")));
}

TEST_F(StoreTest, StatementsAndEnvelopesThatWereChangedAreOthersOrRefused) {
  std::mt19937 random(2);
  Statement statement{numbered_key(1), {{"a", {}, 3}, {"b", {}, 4}}, "test", 5, {{"e", "f"}}};
  const std::string payload = to_json(statement), sealed_bytes = sealed(statement, std::nullopt);
  std::size_t taken = 0;
  for (int trial = 0; trial < 10'000; ++trial) {
    const auto parsed = parse_statement(testing::mutated(payload, random));
    if (parsed) {
      ++taken;
      for (const Output& output : parsed->outputs) EXPECT_TRUE(is_output_name(output.name));
      EXPECT_EQ(parsed->key, statement.key);  // its hash stands beside it
    }
    const auto envelope = parse_envelope(testing::mutated(sealed_bytes, random));
    if (envelope) (void)parse_statement(envelope->payload);
  }
  EXPECT_GT(taken, 20u);  // the trials reach what is behind the syntax
  EXPECT_LT(taken, 9'000u);
  EXPECT_FALSE(parse_statement(std::string(100'000, '[')));
}

TEST_F(StoreTest, AFolderThatOthersCanWriteIsSaid) {
  opened();
  EXPECT_THAT(place_.said, IsEmpty());
  std::filesystem::permissions(place_.folder(), std::filesystem::perms(0777));
  opened();
  EXPECT_THAT(place_.said, ElementsAre(AllOf(HasSubstr("can put answers into it"), HasSubstr("all users can write"))));
  StoreOptions options = place_.options();
  options.trust.policy = Policy::kEnforce;
  opened(std::move(options));
  EXPECT_EQ(place_.said.size(), 1u);
}

// ---- signatures

class Signed : public StoreTest {
 protected:
  Signed() {
    for (const char* name : {"ours.pem", "theirs.pem"}) testing::make_key(place_.path() / name);
  }
  std::filesystem::path file(const char* name) const { return place_.path() / name; }
  StoreOptions signing(const char* secret, Policy policy) {
    StoreOptions options = place_.options();
    if (secret != nullptr) options.signer = *SecretKey::read(file(secret));
    options.trust = {policy, {*PublicKey::read(file("ours.pem.pub"))}};
    return options;
  }
};

TEST_F(Signed, EnforceTakesOurKeyAlone) {
  put(*opened(signing("ours.pem", Policy::kEnforce)), 1);
  put(*opened(signing("theirs.pem", Policy::kEnforce)), 2);
  put(*opened(signing(nullptr, Policy::kEnforce)), 3);
  const auto store = opened(signing(nullptr, Policy::kEnforce));
  EXPECT_EQ(got(*store, 1), numbered_bytes(1));
  EXPECT_FALSE(got(*store, 2));
  EXPECT_FALSE(got(*store, 3));
  EXPECT_THAT(place_.said, ElementsAre(HasSubstr("is not used: no key that may write signed it"),
                                       HasSubstr("is not used: it is not signed")));
  EXPECT_TRUE(std::filesystem::exists(place_.entry_file(numbered_key(2))));  // others may trust it
}

TEST_F(Signed, WarnUsesAndSaysOffAsksNothing) {
  put(*opened(signing(nullptr, Policy::kOff)), 1);
  EXPECT_EQ(got(*opened(signing(nullptr, Policy::kOff)), 1), numbered_bytes(1));
  EXPECT_THAT(place_.said, IsEmpty());
  EXPECT_EQ(got(*opened(signing(nullptr, Policy::kWarn)), 1), numbered_bytes(1));
  EXPECT_THAT(place_.said, ElementsAre(HasSubstr("is used, although doubtful: it is not signed")));
}

TEST_F(Signed, AForgedPayloadIsRefused) {
  const auto store = opened(signing("ours.pem", Policy::kEnforce));
  put(*store, 1);
  auto envelope = parse_envelope(content_of(place_.entry_file(numbered_key(1))));
  ASSERT_TRUE(envelope);
  envelope->payload.replace(envelope->payload.find("test 1"), 6, "test 2");
  write_file(place_.entry_file(numbered_key(1)), to_json(*envelope));
  EXPECT_FALSE(store->get(numbered_key(1)));
  EXPECT_THAT(place_.said, ElementsAre(HasSubstr("is not used: its signature is wrong")));
}

// The words that are signed are those of DSSE, as its specification has them.
TEST_F(Signed, SignsWhatDsseSays) {
  EXPECT_EQ(signed_bytes("http://example.com/HelloWorld", "hello world"),
            "DSSEv1 29 http://example.com/HelloWorld 11 hello world");
  EXPECT_EQ(to_base64("hello world"), "aGVsbG8gd29ybGQ=");
  EXPECT_EQ(from_base64("aGVsbG8gd29ybGQ="), "hello world");
  for (const char* bad : {"a", "aGVs=", "aGVsbG8gd29ybGR=", "====", "aGV\n", "aG=s"})
    EXPECT_FALSE(from_base64(bad)) << bad;
  const auto key = SecretKey::read(file("ours.pem"));
  ASSERT_TRUE(key);
  EXPECT_TRUE(PublicKey::read(file("ours.pem.pub"))->verifies("words", key->sign("words")));
  EXPECT_FALSE(PublicKey::read(file("ours.pem.pub"))->verifies("other", key->sign("words")));
  EXPECT_FALSE(PublicKey::read(file("theirs.pem.pub"))->verifies("words", key->sign("words")));
}

TEST_F(Signed, KeysThatOthersCanReadOrWriteAreRefused) {
  for (const mode_t mode : {0640, 0604, 0660, 0644}) {
    ASSERT_EQ(chmod(file("ours.pem").c_str(), mode), 0);
    const auto key = SecretKey::read(file("ours.pem"));
    ASSERT_FALSE(key) << mode;
    EXPECT_THAT(key.error().message, HasSubstr("is not used: others can read it"));
    EXPECT_THAT(key.error().message, HasSubstr("chmod 600"));
  }
  ASSERT_EQ(chmod(file("ours.pem").c_str(), 0600), 0);
  EXPECT_TRUE(SecretKey::read(file("ours.pem")));
  ASSERT_EQ(chmod(file("ours.pem.pub").c_str(), 0666), 0);
  EXPECT_THAT(PublicKey::read(file("ours.pem.pub")).error().message, HasSubstr("others can write it"));
  EXPECT_THAT(SecretKey::read(file("theirs.pem.pub")).error().message, HasSubstr("others can read it"));
  EXPECT_THAT(PublicKey::read(file("theirs.pem")).error().message, HasSubstr("holds no public Ed25519 key"));
  EXPECT_THAT(SecretKey::read(file("none")).error().message, HasSubstr("cannot read the key"));
}

// ---- a second place

/// Another store's files, as a server would give them.
class OtherStore : public Place {
 public:
  explicit OtherStore(const Files& files) : files_(files) {}
  std::string name() const override { return "the other store"; }
  Result<std::optional<std::string>> read(Room room, const ContentHash& key, std::uint64_t limit) override {
    if (room == Room::kActions) ++asked;
    auto bytes = files_.read(room, key, limit);
    if (room == Room::kBlobs && bytes && *bytes && lies) (**bytes).back() = static_cast<char>((**bytes).back() ^ 1);
    return bytes;
  }
  Result<std::vector<std::optional<std::string>>> read_all(Room room, std::span<const ContentHash> names,
                                                           std::uint64_t limit) override {
    ++questions;
    if (is_down) return Error{ErrorCode::kUnavailable, "the other store cannot be reached"};
    const int before = asked;
    auto all = Place::read_all(room, names, limit);
    asked = before;
    return all;
  }
  int asked = 0, questions = 0;  // entry by entry; many at once
  bool lies = false, is_down = false;

 private:
  const Files& files_;
};

class SecondPlace : public Signed {
 protected:
  std::unique_ptr<Store> elsewhere(const char* secret) {
    StoreOptions theirs = signing(secret, Policy::kOff);
    theirs.folder = elsewhere_.folder();
    return opened(std::move(theirs));
  }
  /// A store that asks `other` for what it lacks and believes our key alone, and what it asks, which it owns.
  std::pair<std::unique_ptr<Store>, OtherStore*> beside(const Store& other) {
    auto made = std::make_unique<OtherStore>(other.files());
    OtherStore* const second = made.get();
    StoreOptions options = signing(nullptr, Policy::kOff);
    options.places.push_back({std::move(made), {Policy::kEnforce, options.trust.keys}, false});
    return {opened(std::move(options)), second};
  }
  testing::Place elsewhere_;
};

TEST_F(SecondPlace, ASecondPlaceIsAskedAndItsAnswersAreChecked) {
  const auto other = elsewhere("ours.pem");
  put(*other, 1);
  put(*other, 2);
  put(*elsewhere(nullptr), 3);

  const auto [store, asked] = beside(*other);
  OtherStore& second = *asked;
  EXPECT_EQ(got(*store, 1), numbered_bytes(1));
  EXPECT_EQ(got(*store, 1), numbered_bytes(1));
  EXPECT_EQ(second.asked, 1);  // it was kept
  EXPECT_FALSE(got(*store, 3));
  EXPECT_THAT(place_.said, Contains(HasSubstr("of the other store: it is not used: it is not signed")));
  second.lies = true;
  EXPECT_FALSE(got(*store, 2));
  EXPECT_THAT(place_.said, Contains(HasSubstr("from the other store: blob")));
  EXPECT_FALSE(std::filesystem::exists(place_.entry_file(numbered_key(2))));
  second.lies = false;
  EXPECT_EQ(got(*store, 2), numbered_bytes(2));
  // What is damaged here is fetched again.
  write_file(blob_file(1), "damaged");
  EXPECT_EQ(got(*store, 1), numbered_bytes(1));
}

/// As /tmp: nobody can replace there what is another's.
TEST_F(StoreTest, AStoreMayLieInAFolderOfAllUsersWhereNobodyReplacesAnothersFiles) {
  const std::filesystem::path above = place_.path() / "of all";
  std::filesystem::create_directory(above);
  for (const bool is_sticky : {true, false}) {
    std::filesystem::permissions(above, std::filesystem::perms::all);
    if (is_sticky)
      std::filesystem::permissions(above, std::filesystem::perms::sticky_bit, std::filesystem::perm_options::add);
    StoreOptions options = place_.options();
    options.folder = above / "store";
    const auto store = Store::open(std::move(options));
    ASSERT_TRUE(store) << store.error().message;
    EXPECT_EQ((*store)->is_executable(), is_sticky);
  }
  EXPECT_EQ(place_.said.size(), 1u);
}

TEST_F(SecondPlace, ManyAreAskedForAtOnceAndCheckedAsEachWouldBe) {
  const auto other = elsewhere("ours.pem");
  for (std::uint32_t number = 0; number < 100; ++number) put(*other, number);
  put(*elsewhere(nullptr), 200);

  const auto [store, asked] = beside(*other);
  OtherStore& second = *asked;
  put(*store, 0);  // it is here
  std::vector<ActionKey> keys;
  for (std::uint32_t number = 0; number < 100; ++number) keys.push_back(numbered_key(number));
  for (const std::uint32_t number : {200u, 300u}) keys.push_back(numbered_key(number));  // nobody signed; nobody has it
  store->prefetch(keys);
  EXPECT_EQ(second.questions, 4);  // two pages, entries and blobs
  for (std::uint32_t number = 0; number < 100; ++number) EXPECT_EQ(got(*store, number), numbered_bytes(number));
  EXPECT_FALSE(got(*store, 200));
  EXPECT_FALSE(got(*store, 300));
  EXPECT_EQ(second.asked, 0);  // not even for what it has not
  EXPECT_THAT(place_.said, Contains(HasSubstr("of the other store: it is not used: it is not signed")));
  EXPECT_FALSE(got(*store, 300));
  EXPECT_EQ(second.asked, 1) << "only once: it may have come meanwhile";
}

TEST_F(SecondPlace, WhatIsWrongWithManyIsFoundOneByOne) {
  const auto other = elsewhere("ours.pem");
  for (std::uint32_t number = 1; number < 4; ++number) put(*other, number);
  const auto [store, asked] = beside(*other);
  OtherStore& second = *asked;
  const std::vector<ActionKey> keys = {numbered_key(1), numbered_key(2), numbered_key(3)};
  second.is_down = true;
  store->prefetch(keys);
  EXPECT_THAT(place_.said, Contains(HasSubstr("cannot be reached")));
  second.is_down = false;
  EXPECT_EQ(got(*store, 1), numbered_bytes(1));  // asked for again: nobody knew
  second.lies = true;
  store->prefetch(keys);
  EXPECT_THAT(place_.said, Contains(HasSubstr("from the other store: blob")));
  EXPECT_FALSE(std::filesystem::exists(place_.entry_file(numbered_key(2))));
  second.lies = false;
  std::filesystem::remove_all(elsewhere_.folder() / "cas");
  store->prefetch(keys);
  EXPECT_FALSE(got(*store, 2));
  EXPECT_THAT(place_.said, Contains(HasSubstr("lacks a blob that it names")));
}

}  // namespace
}  // namespace crucible::store
