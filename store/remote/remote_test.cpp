// A store with a server behind it: good, hostile, and gone. Whatever the server does, nothing false is believed,
// nothing that is here is lost, and trouble is said once.
#include "store/remote/remote.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "store/testing/remote_fixture.hpp"

namespace crucible::store {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using testing::content_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::HostileServer;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::numbered_bytes;
using testing::numbered_key;
using testing::RemoteTest;
using testing::write_file;

// ---- a good server

TEST_F(RemoteTest, WhatOneWritesAnotherReads) {
  fill(3);
  const auto store = reader();
  for (std::uint32_t number = 0; number < 3; ++number) EXPECT_EQ(got(*store, number), numbered_bytes(number));
  EXPECT_THAT(place_.said, IsEmpty());
  // The bytes on the server are those of the files, and what was fetched is kept.
  EXPECT_EQ(server_.kept()[entry_path(1)], content_of(place_.entry_file(numbered_key(1))));
  EXPECT_EQ(*unpack(server_.kept()[blob_path(1)], testing::hash_of_bytes(numbered_bytes(1)), 64), numbered_bytes(1));
  server_.forget_asked();
  EXPECT_EQ(got(*store, 1), numbered_bytes(1));
  EXPECT_THAT(server_.asked(), IsEmpty());
  EXPECT_FALSE(got(*store, 7));
  EXPECT_THAT(server_.asked(), ElementsAre("GET " + entry_path(7)));
  EXPECT_LE(server_.connections(), 8u);  // they are kept between requests
}

TEST_F(RemoteTest, WritesBlobsThenTheirEntriesAndNothingTwice) {
  const std::string shared = "shared by all";
  {
    const auto plain = *Store::open(elsewhere_.options());
    for (std::uint32_t number = 0; number < 100; ++number) {
      ASSERT_TRUE(plain->put(numbered_key(number), {{"own", numbered_bytes(number)}, {"shared", shared}}, "test"));
    }
  }
  const auto store = writer();
  auto pushed = store->push();
  ASSERT_TRUE(pushed) << pushed.error().message;
  EXPECT_EQ((*pushed)[0].first, server_.url() + "/base");
  EXPECT_EQ((*pushed)[0].second.entries, 100u);
  EXPECT_EQ((*pushed)[0].second.blobs, 101u);
  EXPECT_EQ(server_.kept().size(), 201u);
  std::set<std::string> blobs;
  for (const std::string& line : server_.asked()) {
    if (line.starts_with("PUT /base/cas/")) {
      EXPECT_TRUE(blobs.insert(line.substr(14)).second) << "a blob twice";
    }
    if (!line.starts_with("PUT /base/ac/")) continue;
    const auto envelope = parse_envelope(server_.kept()[line.substr(4)]);
    const auto statement = parse_statement(envelope->payload);
    for (const Output& output : statement->outputs) {
      EXPECT_TRUE(blobs.contains(output.blob.hex())) << "an entry before its blob";
    }
  }
  server_.forget_asked();
  pushed = store->push();
  ASSERT_TRUE(pushed);
  EXPECT_EQ((*pushed)[0].second.there, 100u);
  EXPECT_EQ((*pushed)[0].second.entries + (*pushed)[0].second.blobs + (*pushed)[0].second.bytes, 0u);
  for (const std::string& line : server_.asked()) EXPECT_TRUE(line.starts_with("GET ")) << line;
}

TEST_F(RemoteTest, WhatIsPutIsWrittenByTheTimeTheStoreCloses) {
  {
    const auto store = writer();
    for (std::uint32_t number = 0; number < 20; ++number) put(*store, number);
  }
  EXPECT_EQ(server_.kept().size(), 40u);
  EXPECT_THAT(elsewhere_.said, IsEmpty());
  EXPECT_EQ(got(*reader(), 19), numbered_bytes(19));
}

TEST_F(RemoteTest, AServerThatDoesNotAnswerHoldsNobodyUp) {
  std::atomic<int> begun = 0;
  server_.behave("/base", [&](const auto&, const auto& send) {
    ++begun;
    while (send("")) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return false;
  });
  StoreOptions options = elsewhere_.options();
  options.signer = *SecretKey::read(file("ours.pem"));
  options.close_limit = std::chrono::milliseconds(50);
  RemoteOptions slow = remote_options();
  slow.may_write = true;
  slow.limit = slow.connect_limit = std::chrono::hours(1);
  slow.stall_limit = std::chrono::hours(1);
  options.places.push_back({remote(slow), ours(), true});
  {
    const auto store = *Store::open(std::move(options));
    put(*store, 1);
    put(*store, 2);
    EXPECT_EQ(got(*store, 1), numbered_bytes(1));
    while (begun == 0) std::this_thread::yield();
  }
  EXPECT_THAT(elsewhere_.said, Contains(HasSubstr("2 answers were not written to the remote in time")));
}

TEST_F(RemoteTest, AsksWhatManyAreThereInTheirOrder) {
  std::vector<ContentHash> names;
  std::vector<bool> expected;
  for (std::uint32_t number = 0; number < 500; ++number) {
    names.push_back(testing::hash_of_bytes(numbered_bytes(number)));
    expected.push_back(number % 3 == 0);
    if (number % 3 == 0) server_.keep("/base/cas/" + names.back().hex(), "x");
  }
  const auto place = remote(remote_options());
  const auto has = place->has(Room::kBlobs, names);
  ASSERT_TRUE(has) << has.error().message;
  EXPECT_EQ(*has, expected);
  EXPECT_LE(server_.connections(), 32u);
}

// ---- a server that lies

TEST_F(RemoteTest, WrongBytesAreToldAndNotUsed) {
  fill(1);
  const std::string good = server_.kept()[blob_path(0)];
  std::mt19937 random(3);
  const auto store = reader();
  for (int trial = 0; trial < 300; ++trial) {
    server_.keep(blob_path(0), trial == 0 ? pack("other bytes") : testing::mutated(good, random));
    if (server_.kept()[blob_path(0)] == good) continue;
    EXPECT_FALSE(store->get(numbered_key(0))) << trial;
  }
  EXPECT_THAT(place_.said, AllOf(Contains(AllOf(HasSubstr("from " + server_.url()), HasSubstr("its bytes are others"))),
                                 Contains(HasSubstr("lacks a blob that it names: a miss"))));
  EXPECT_FALSE(std::filesystem::exists(place_.entry_file(numbered_key(0))));
  server_.keep(blob_path(0), good);
  EXPECT_EQ(got(*store, 0), numbered_bytes(0));
}

TEST_F(RemoteTest, ChangedEntriesAreNotBelieved) {
  fill(1);
  const std::string good = server_.kept()[entry_path(0)];
  std::mt19937 random(4);
  const auto store = reader();
  for (int trial = 0; trial < 500; ++trial) {
    server_.keep(entry_path(0), testing::mutated(good, random));
    const auto statement = store->get(numbered_key(0));
    if (!statement) continue;
    // What is taken says what was signed: the change was in the space between JSON's words.
    EXPECT_EQ(statement->outputs[0].blob, testing::hash_of_bytes(numbered_bytes(0)));
    std::filesystem::remove(place_.entry_file(numbered_key(0)));
  }
  EXPECT_THAT(place_.said, Contains(HasSubstr("its signature is wrong")));
}

TEST_F(RemoteTest, ABlobThatIsDamagedHereIsQuarantinedFetchedAgainAndTold) {
  fill(1);
  const auto store = reader();
  ASSERT_EQ(got(*store, 0), numbered_bytes(0));
  write_file(place_.blob_file(testing::hash_of_bytes(numbered_bytes(0))), "damaged");
  EXPECT_EQ(got(*store, 0), numbered_bytes(0));
  EXPECT_THAT(place_.said, ElementsAre(AllOf(HasSubstr("is damaged"), HasSubstr("it was moved to quarantine"))));
  EXPECT_EQ(testing::files_in(place_.folder() / "quarantine"), 1u);
}

TEST_F(RemoteTest, AnEntryOfAnotherKeyIsNone) {
  fill(2);
  server_.keep(entry_path(0), server_.kept()[entry_path(1)]);
  EXPECT_FALSE(reader()->get(numbered_key(0)));
  EXPECT_THAT(place_.said, ElementsAre(HasSubstr("it is the entry of another key")));
}

TEST_F(RemoteTest, EntriesThatNobodyOrOthersSignedAreNotBelieved) {
  {
    const auto unsigned_store = writer(nullptr, Policy::kOff);
    put(*unsigned_store, 0);
    ASSERT_TRUE(unsigned_store->push());
  }
  {
    const auto theirs = writer("theirs.pem");
    put(*theirs, 1);  // and written when it closes; push() would sign what nobody signed
  }
  ASSERT_EQ(server_.kept().size(), 4u);
  const auto store = reader();
  EXPECT_FALSE(store->get(numbered_key(0)));
  EXPECT_FALSE(store->get(numbered_key(1)));
  EXPECT_THAT(place_.said, ElementsAre(HasSubstr("it is not used: it is not signed"),
                                       HasSubstr("it is not used: no key that may write signed it")));
  const std::vector<Asked> asked = store->ask(hash_of(numbered_key(1)));
  EXPECT_EQ(asked[0].words, "it is not used: no key that may write signed it");
  EXPECT_FALSE(asked[0].statement);
}

TEST_F(RemoteTest, AnEntryWhoseBlobIsMissingIsAMiss) {
  fill(2);
  server_.forget(blob_path(0));
  const auto store = reader();
  EXPECT_FALSE(store->get(numbered_key(0)));
  EXPECT_THAT(place_.said, ElementsAre(HasSubstr("lacks a blob that it names: a miss")));
  EXPECT_FALSE(std::filesystem::exists(place_.entry_file(numbered_key(0))));
  EXPECT_EQ(got(*store, 1), numbered_bytes(1));
}

TEST_F(RemoteTest, BodiesWithoutAnEndAreCutOff) {
  fill(1);
  const auto endless = [](const auto&, const auto& send) {
    const std::string piece(100'000, 'x');
    std::size_t sent = 0;
    if (!send("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")) return false;
    while (send(piece) && sent < (1u << 30)) sent += piece.size();
    EXPECT_LT(sent, 100u << 20);
    return false;
  };
  for (const std::string& path : {entry_path(0), blob_path(0)}) {
    place_.said.clear();
    server_.behave(path, endless);
    EXPECT_FALSE(reader()->get(numbered_key(0)));
    EXPECT_THAT(place_.said, Contains(HasSubstr("it sends more than the")));
    server_.behave_well();
  }
  // The same of one that says its length, and of a status that says no.
  server_.behave(entry_path(0), HostileServer::always(200, std::string(3 << 20, 'x')));
  EXPECT_FALSE(reader()->get(numbered_key(0)));
  server_.behave(entry_path(0), HostileServer::always(404, std::string(3 << 20, 'x')));
  place_.said.clear();
  EXPECT_FALSE(reader()->get(numbered_key(0)));
  EXPECT_THAT(place_.said, IsEmpty());
  server_.behave(entry_path(0), [](const auto&, const auto& send) {
    (void)send("HTTP/1.1 200 OK\r\n");
    for (int line = 0; send(fmt::format("X-{}: {}\r\n", line, std::string(1000, 'y'))) && line < 100'000; ++line) {
    }
    return false;
  });
  EXPECT_FALSE(reader()->get(numbered_key(0)));
  EXPECT_THAT(place_.said, ElementsAre(HasSubstr("headers without an end")));
}

// ---- a server that fails

TEST_F(RemoteTest, EachWayToFailIsAMissAndSaid) {
  fill(1);
  const std::string entry = server_.kept()[entry_path(0)];
  using Send = HostileServer::Send;
  using Seen = HostileServer::Seen;
  struct Way {
    const char* said;
    HostileServer::Behaviour behaviour;
  };
  const std::vector<Way> ways = {
      {"ends before its answer does",
       [&](const Seen&, const Send& send) {
         (void)send(HostileServer::reply(200, entry).substr(0, 100));
         return false;
       }},
      {"ends before its answer does",
       [&](const Seen&, const Send& send) {
         (void)send(fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", entry.size() + 10, entry));
         return false;
       }},
      {"HTTP 500", HostileServer::always(500, "<b>oh</b>\x1b[31m")},
      {"HTTP 503 SlowDown", HostileServer::always(503, "<Error><Code>SlowDown</Code></Error>")},
      {"HTTP 206", HostileServer::always(206, entry)},
      {"Empty reply", [](const Seen&, const Send&) { return false; }},
      {"the remote", [](const Seen&, const Send& send) { return send("SSH-2.0-OpenSSH_9\r\n") && false; }},
      {"the remote",
       [](const Seen&, const Send& send) {
         return send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n");
       }},
      {"does not answer in time",
       [](const Seen&, const Send& send) {
         while (send("")) std::this_thread::sleep_for(std::chrono::milliseconds(5));
         return false;
       }},
      {"does not answer in time",
       [&](const Seen&, const Send& send) {
         (void)send(fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", entry.size()));
         for (const char byte : entry) {
           if (!send(std::string_view(&byte, 1))) return false;
           std::this_thread::sleep_for(std::chrono::milliseconds(20));
         }
         return true;
       }},
  };
  for (const Way& way : ways) {
    place_.said.clear();
    server_.behave(entry_path(0), way.behaviour);
    RemoteOptions options = remote_options();
    if (std::string_view(way.said).ends_with("in time")) options.limit = std::chrono::milliseconds(200);
    EXPECT_FALSE(reader(options)->get(numbered_key(0))) << way.said;
    EXPECT_THAT(place_.said, ElementsAre(AllOf(HasSubstr("the remote " + server_.url()), HasSubstr(way.said))))
        << way.said;
  }
  // A length that is too short: what came is not what was signed.
  place_.said.clear();
  server_.behave(entry_path(0), [&](const Seen&, const Send& send) {
    (void)send(fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", entry.size() - 10, entry));
    return false;
  });
  EXPECT_FALSE(reader()->get(numbered_key(0)));
  EXPECT_EQ(place_.said.size(), 1u);
  server_.behave_well();
  EXPECT_EQ(got(*reader(), 0), numbered_bytes(0));
}

TEST_F(RemoteTest, RedirectsAreFollowedWithinHttpAndNotForEver) {
  fill(1);
  server_.keep("/elsewhere", server_.kept()[entry_path(0)]);
  server_.behave(entry_path(0), HostileServer::always(302, "", "Location: /elsewhere\r\n"));
  EXPECT_EQ(got(*reader(), 0), numbered_bytes(0));
  std::filesystem::remove_all(place_.folder());
  write_file(place_.path() / "secret", server_.kept()["/elsewhere"]);
  for (const std::string& to : {"file://" + (place_.path() / "secret").string(), std::string("ftp://127.0.0.1/x"),
                                std::string("gopher://127.0.0.1/x"), entry_path(0)}) {
    place_.said.clear();
    server_.behave(entry_path(0), HostileServer::always(302, "", "Location: " + to + "\r\n"));
    EXPECT_FALSE(reader()->get(numbered_key(0))) << to;
    const char* const why = to == entry_path(0) ? "redirects" : "not supported or disabled";
    EXPECT_THAT(place_.said, ElementsAre(AllOf(HasSubstr("the remote " + server_.url()), HasSubstr(why)))) << to;
  }
  server_.forget_asked();
  EXPECT_FALSE(reader()->get(numbered_key(0)));
  EXPECT_LE(server_.asked().size(), 5u);
}

TEST_F(RemoteTest, APasswordIsNotSentOnToAnotherServer) {
  fill(1);
  HostileServer other;
  other.keep("/stolen", server_.kept()[entry_path(0)]);
  RemoteOptions options = remote_options();
  options.authorization = "ada:hunter2";
  server_.behave(entry_path(0), HostileServer::always(302, "", "Location: " + other.url() + "/stolen\r\n"));
  EXPECT_EQ(got(*reader(options), 0), numbered_bytes(0));
  EXPECT_THAT(server_.last_head(), HasSubstr("Authorization: Basic YWRhOmh1bnRlcjI=\r\n"));
  EXPECT_THAT(other.last_head(), AllOf(HasSubstr("GET /stolen"), Not(HasSubstr("uthorization"))));
}

TEST_F(RemoteTest, AServerThatIsNotThereIsSaidOnceAndNotAskedAgain) {
  server_.end();
  const auto store = reader();
  for (std::uint32_t number = 0; number < 50; ++number) {
    EXPECT_FALSE(got(*store, number));
    put(*store, number);
    EXPECT_EQ(got(*store, number), numbered_bytes(number));
  }
  EXPECT_THAT(place_.said, ElementsAre(AllOf(HasSubstr("cannot be reached"), HasSubstr("work goes on without it"))));
}

TEST_F(RemoteTest, AServerThatFailsThreeTimesIsLeftAloneAndAskedAgainLater) {
  fill(1);
  server_.behave("/base", HostileServer::always(500));
  RemoteOptions options = remote_options();
  options.pause = std::chrono::hours(1);
  auto store = reader(options);
  server_.forget_asked();
  for (std::uint32_t number = 10; number < 30; ++number) EXPECT_FALSE(got(*store, number));
  EXPECT_EQ(server_.asked().size(), 3u);
  EXPECT_THAT(place_.said, ElementsAre(HasSubstr("failed: HTTP 500"), HasSubstr("failed 3 times in a row: HTTP 500")));
  // Where a pause is over, it is asked again.
  options.pause = std::chrono::milliseconds(1);
  store = reader(options);
  for (std::uint32_t number = 30; number < 33; ++number) EXPECT_FALSE(got(*store, number));
  server_.behave_well();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(got(*store, 0), numbered_bytes(0));
}

TEST_F(RemoteTest, WhoMayNotReadIsToldAboutTheCredentials) {
  for (const int status : {401, 403, 407}) {
    place_.said.clear();
    server_.behave("/base", HostileServer::always(status));
    const auto store = reader();
    EXPECT_FALSE(got(*store, 1));
    EXPECT_FALSE(got(*store, 2));
    EXPECT_THAT(place_.said,
                ElementsAre(HasSubstr(fmt::format("lets nobody read who asks as we do (HTTP {})", status))));
  }
}

TEST_F(RemoteTest, AServerThatTakesNothingIsOnlyReadAndThatIsSaidOnce) {
  fill(1);
  for (const int status : {401, 403, 405, 501}) {
    const std::string said = fmt::format("takes nothing from us (HTTP {})", status);
    elsewhere_.said.clear();
    for (std::uint32_t number = 100; number < 120; ++number) server_.forget(entry_path(number));
    server_.behave("/base/cas", [status](const auto& seen, const auto& send) {
      return send(HostileServer::reply(seen.method == "PUT" ? status : 404, ""));
    });
    server_.forget_asked();
    {
      const auto store = writer();
      for (std::uint32_t number = 100; number < 120; ++number) {
        put(*store, number);
        EXPECT_EQ(got(*store, number), numbered_bytes(number));
      }
      const auto pushed = store->push();
      ASSERT_FALSE(pushed);
      EXPECT_THAT(pushed.error().message, HasSubstr(said));
    }
    EXPECT_THAT(elsewhere_.said, ElementsAre(HasSubstr(said)));
    EXPECT_THAT(server_.asked(), Not(Contains(HasSubstr("PUT /base/ac"))));
  }
  server_.behave_well();
  EXPECT_EQ(got(*reader(), 0), numbered_bytes(0));
}

TEST_F(RemoteTest, WhatCannotBeWrittenIsSaidAndStaysHere) {
  for (const auto& [status, words] : {std::pair{413, "client_max_body_size"},
                                      {500, "did not keep what was written (HTTP 500)"},
                                      {507, "HTTP 507"},
                                      {302, "HTTP 302"}}) {
    server_.behave("/base/cas", [status](const auto& seen, const auto& send) {
      return send(HostileServer::reply(seen.method == "PUT" ? status : 404, ""));
    });
    elsewhere_.said.clear();
    const auto store = writer();
    put(*store, 1);
    const auto pushed = store->push();
    ASSERT_FALSE(pushed);
    EXPECT_THAT(pushed.error().message, HasSubstr(words));
    EXPECT_EQ(got(*store, 1), numbered_bytes(1));
    EXPECT_THAT(server_.kept(), IsEmpty());
  }
  server_.end();
  elsewhere_.said.clear();
  {
    const auto store = writer();
    put(*store, 2);
    EXPECT_EQ(got(*store, 2), numbered_bytes(2));
  }
  EXPECT_THAT(elsewhere_.said, ElementsAre(HasSubstr("cannot be reached")));
}

}  // namespace
}  // namespace crucible::store
