// What is written to a server and what is not, several servers, and what is refused before one is asked.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "store/remote/curl_library.hpp"
#include "store/remote/remote.hpp"
#include "store/testing/remote_fixture.hpp"

namespace crucible::store {
namespace {

using ::testing::Contains;
using testing::content_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::HostileServer;
using ::testing::IsEmpty;
using testing::numbered_bytes;
using testing::numbered_key;
using testing::RemoteTest;
using testing::write_file;

class PushTest : public RemoteTest {};

// ---- what is pushed

TEST_F(PushTest, EntriesWithoutASignatureAreSignedWhenTheyArePushedOthersStay) {
  {
    StoreOptions plain = elsewhere_.options();
    put(**Store::open(std::move(plain)), 1);
    StoreOptions foreign = elsewhere_.options();
    foreign.signer = *SecretKey::read(file("theirs.pem"));
    put(**Store::open(std::move(foreign)), 2);
  }
  const auto store = writer();
  const auto pushed = store->push();
  ASSERT_TRUE(pushed) << pushed.error().message;
  EXPECT_EQ((*pushed)[0].second.entries, 1u);
  EXPECT_EQ((*pushed)[0].second.left, 1u);  // who signs vouches for nobody else
  EXPECT_EQ(got(*reader(), 1), numbered_bytes(1));
  EXPECT_FALSE(got(*reader(), 2));
}

TEST_F(PushTest, WhatIsDamagedHereIsNotPushed) {
  const auto quiet = [&] {
    StoreOptions options = elsewhere_.options();
    return *Store::open(std::move(options));
  };
  put(*quiet(), 1);
  put(*quiet(), 2);
  write_file(elsewhere_.blob_file(testing::hash_of_bytes(numbered_bytes(1))), pack("others"));
  const auto store = writer();
  const auto pushed = store->push();
  ASSERT_TRUE(pushed) << pushed.error().message;
  EXPECT_EQ((*pushed)[0].second.entries, 1u);
  EXPECT_EQ((*pushed)[0].second.left, 1u);
  EXPECT_EQ(server_.kept().size(), 2u);
  EXPECT_THAT(elsewhere_.said, ElementsAre(HasSubstr("it was moved to quarantine")));
}

TEST_F(PushTest, AForgedEntryOnTheServerIsReplacedAGoodOneStays) {
  fill(2);
  const std::string good = server_.kept()[entry_path(0)];
  server_.keep(entry_path(0), "{}");
  {
    const auto other = writer();
    ASSERT_TRUE(other->put(numbered_key(1), {{"kernel.o", "another answer"}}, "test"));
    const auto pushed = other->push();
    ASSERT_TRUE(pushed) << pushed.error().message;
    EXPECT_EQ((*pushed)[0].second.entries, 1u);
    EXPECT_EQ((*pushed)[0].second.differing, 1u);
  }
  EXPECT_THAT(elsewhere_.said, ElementsAre(HasSubstr("has another answer for")));
  EXPECT_EQ(server_.kept()[entry_path(0)], good);
  EXPECT_EQ(got(*reader(), 1), numbered_bytes(1));
}

TEST_F(PushTest, OfSeveralPlacesTheFirstThatIsBelievedCounts) {
  fill(3);
  HostileServer first;
  first.keep(entry_path(0), "{}");  // nobody believes this
  // The same key with another answer, whose blob is not there.
  {
    testing::Place third;
    StoreOptions options = third.options();
    options.signer = *SecretKey::read(file("ours.pem"));
    ASSERT_TRUE((*Store::open(std::move(options)))->put(numbered_key(1), {{"kernel.o", "another"}}, "test"));
    first.keep(entry_path(1), content_of(third.entry_file(numbered_key(1))));
  }
  StoreOptions options = place_.options();
  RemoteOptions of_first = remote_options();
  of_first.url = first.url() + "/base";
  options.places.push_back({remote(of_first), ours(), false});
  options.places.push_back({remote(remote_options()), ours(), false});
  const auto store = *Store::open(std::move(options));
  EXPECT_EQ(got(*store, 0), numbered_bytes(0));
  EXPECT_EQ(got(*store, 1), numbered_bytes(1));
  EXPECT_THAT(place_.said, Contains(HasSubstr("have different answers for")));
  const std::vector<Asked> asked = store->ask(hash_of(numbered_key(1)));
  ASSERT_EQ(asked.size(), 2u);
  EXPECT_NE(asked[0].statement->outputs, asked[1].statement->outputs);
  // Where the first has it whole, it is the one.
  first.keep("/base/cas/" + testing::hash_of_bytes("another").hex(), pack("another"));
  std::filesystem::remove(place_.entry_file(numbered_key(1)));
  EXPECT_EQ(got(*store, 1), "another");
}

TEST_F(PushTest, WhoIsWarnedUsesWhatNobodySigned) {
  {
    const auto unsigned_store = writer(nullptr, Policy::kOff);
    put(*unsigned_store, 0);
    ASSERT_TRUE(unsigned_store->push());
  }
  StoreOptions options = place_.options();
  Trust warned = ours();
  warned.policy = Policy::kWarn;
  options.places.push_back({remote(remote_options()), warned, false});
  EXPECT_EQ(got(**Store::open(std::move(options)), 0), numbered_bytes(0));
  EXPECT_THAT(place_.said, ElementsAre(HasSubstr("it is used, although doubtful: it is not signed")));
}

TEST_F(PushTest, PullsWhatWasMissed) {
  fill(2);
  server_.behave("/base", HostileServer::always(404));
  auto store = reader();
  for (const std::uint32_t number : {0u, 1u, 5u}) EXPECT_FALSE(got(*store, number));
  server_.behave_well();
  const auto missed = store->missed();
  ASSERT_TRUE(missed);
  EXPECT_EQ(*missed, (std::vector{hash_of(numbered_key(5)), hash_of(numbered_key(1)), hash_of(numbered_key(0))}));
  EXPECT_EQ(store->pull(*missed), (std::vector{false, true, true}));
  EXPECT_EQ(store->missed()->size(), 1u);
  const std::vector<Presence> presence = store->presence();
  ASSERT_EQ(presence.size(), 1u);
  EXPECT_EQ(presence[0].entries, 2u);
  EXPECT_EQ(presence[0].blobs, 2u);
  EXPECT_EQ(presence[0].fault, "");
  server_.end();
  EXPECT_THAT(store->presence()[0].fault, HasSubstr("cannot be reached"));
}

// ---- what is opened

TEST_F(PushTest, OpeningRefusesInWords) {
  const auto message = [&](const auto& change) {
    RemoteOptions options = remote_options();
    change(options);
    const auto opened = open_remote(options);
    return opened ? std::string("opened") : opened.error().message;
  };
  EXPECT_THAT(message([](auto& it) { it.url = "nothing"; }), HasSubstr("is no place of a remote store"));
  EXPECT_THAT(message([](auto& it) { it.ca_file = "/none.pem"; }), HasSubstr("store.ca_file are not there"));
  EXPECT_THAT(message([](auto& it) { it.authorization = "nothing"; }), HasSubstr("holds no authorization"));
  write_file(file("auth"), "ada:hunter2\n");
  ASSERT_EQ(chmod(file("auth").c_str(), 0644), 0);
  EXPECT_THAT(message([&](auto& it) { it.authorization_file = file("auth"); }), HasSubstr("others can read it"));
  ASSERT_EQ(chmod(file("auth").c_str(), 0600), 0);
  EXPECT_EQ(message([&](auto& it) { it.authorization_file = file("auth"); }), "opened");
  EXPECT_THAT(message([](auto& it) {
                it.url = "s3://bucket";
                it.variable = [](const char* name) {
                  return std::string(name == std::string_view("AWS_ACCESS_KEY_ID") ? "ID" : "");
                };
              }),
              HasSubstr("are not whole"));
  EXPECT_THAT(place_.said, IsEmpty());
  EXPECT_EQ(message([](auto& it) { it.url = "http://cache.invalid", it.authorization = "a:b"; }), "opened");
  EXPECT_THAT(place_.said, ElementsAre(HasSubstr("goes over the network unencrypted")));
  EXPECT_THAT(load_curl("libcurl-none.so.4").error().message, HasSubstr("apt-get install libcurl4"));
  EXPECT_THAT(load_curl("libz.so.1").error().message, HasSubstr("it lacks curl_"));
}

TEST_F(PushTest, SettingsThatNobodyCouldBelieveAreRefused) {
  const auto message = [&](const RemoteSettings& settings) {
    StoreOptions options;
    const Result<void> added = add_remotes(settings, options);
    return added ? fmt::format("{} places", options.places.size()) : added.error().message;
  };
  const std::string url = server_.url(), key = file("ours.pem.pub"), secret = file("ours.pem");
  EXPECT_EQ(message({}), "0 places");
  EXPECT_THAT(message({.urls = {url}}), HasSubstr("name the public keys that may write (store.keys"));
  EXPECT_THAT(message({.urls = {url}, .keys = {key}, .may_write = true}), HasSubstr("name the secret key (store.sign"));
  EXPECT_THAT(message({.urls = {url}, .keys = {secret}}), HasSubstr("holds no public Ed25519 key"));
  EXPECT_THAT(message({.urls = {url}, .sign = key}), HasSubstr("others can read it"));
  EXPECT_THAT(message({.urls = {url, "x"}, .keys = {key}}), HasSubstr("'x' is no place of a remote store"));
  EXPECT_EQ(message({.urls = {url, url}, .keys = {key}}), "2 places");
  EXPECT_EQ(message({.urls = {url}, .trust = "off", .may_write = true}), "1 places");
  EXPECT_EQ(message({.urls = {url}, .sign = secret, .may_write = true}), "1 places");
}

TEST_F(PushTest, APlaceThatRefusedAWriteIsNotAskedForAnother) {
  server_.behave("/base", HostileServer::always(405));
  RemoteOptions options = remote_options();
  options.may_write = true;
  const auto place = remote(options);
  EXPECT_TRUE(place->is_writable());
  const Piece piece{{}, "x"};
  const auto first = place->write(Room::kBlobs, std::span(&piece, 1));
  EXPECT_THAT(first.error().message, HasSubstr("takes nothing from us (HTTP 405)"));
  EXPECT_FALSE(place->is_writable());
  server_.forget_asked();
  EXPECT_EQ(place->write(Room::kActions, std::span(&piece, 1)).error().message, first.error().message);
  EXPECT_THAT(server_.asked(), IsEmpty());
}

TEST_F(PushTest, APlaceThatIsOnlyReadTakesNothing) {
  const auto place = remote(remote_options());
  EXPECT_FALSE(place->is_writable());
  const Piece piece{{}, "x"};
  EXPECT_THAT(place->write(Room::kBlobs, std::span(&piece, 1)).error().message, HasSubstr("store.remote_write"));
  EXPECT_THAT(reader()->push().error().message, HasSubstr("no remote is written to"));
  EXPECT_THAT(server_.asked(), IsEmpty());
}

}  // namespace
}  // namespace crucible::store
