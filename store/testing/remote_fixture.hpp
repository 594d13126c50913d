// The fixture of the tests of remotes: a server, a store that reads it and believes our key alone, one that writes to
// it.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include "store/remote/remote.hpp"
#include "store/testing/hostile_server.hpp"
#include "store/testing/signing_keys.hpp"
#include "store/testing/store_samples.hpp"

namespace crucible::store::testing {

class RemoteTest : public ::testing::Test {
 protected:
  RemoteTest() {
    setenv("no_proxy", "*", 1);
    for (const char* name : {"ours.pem", "theirs.pem"}) make_key(place_.path() / name);
  }
  std::filesystem::path file(const char* name) const { return place_.path() / name; }
  RemoteOptions remote_options() {
    RemoteOptions options;
    options.url = server_.url() + "/base";
    options.limit = std::chrono::minutes(1);  // a busy machine is no fault
    options.stall_limit = std::chrono::minutes(1);
    options.variable = [](const char*) { return std::string(); };
    options.tell = [this](const std::string& words) { place_.said.push_back(words); };
    return options;
  }
  std::unique_ptr<store::Place> remote(const RemoteOptions& options) {
    auto opened = open_remote(options);
    EXPECT_TRUE(opened) << opened.error().message;
    return opened ? *std::move(opened) : nullptr;
  }
  Trust ours() const { return {Policy::kEnforce, {*PublicKey::read(file("ours.pem.pub"))}}; }

  /// A store that believes our key alone, over the server.
  std::unique_ptr<Store> reader(RemoteOptions options) {
    StoreOptions store = place_.options();
    store.places.push_back({remote(options), ours(), false});
    return *Store::open(std::move(store));
  }
  std::unique_ptr<Store> reader() { return reader(remote_options()); }
  /// A store of its own folder that signs, and writes to the server.
  std::unique_ptr<Store> writer(const char* key = "ours.pem", Policy policy = Policy::kEnforce) {
    StoreOptions store = elsewhere_.options();
    store.close_limit = std::chrono::minutes(1);
    if (key != nullptr) store.signer = *SecretKey::read(file(key));
    RemoteOptions options = remote_options();
    options.may_write = true;
    Trust trust = ours();
    trust.policy = policy;
    if (key != nullptr) trust.keys.push_back(store.signer->public_key());
    store.places.push_back({remote(options), trust, true});
    return *Store::open(std::move(store));
  }
  static void put(Store& store, std::uint32_t number) {
    ASSERT_TRUE(store.put(numbered_key(number), {{"kernel.o", numbered_bytes(number)}}, "test"));
  }
  static std::optional<std::string> got(Store& store, std::uint32_t number) {
    const auto statement = store.get(numbered_key(number));
    return statement ? store.read(statement->outputs[0]) : std::nullopt;
  }
  static std::string entry_path(std::uint32_t number) { return "/base/ac/" + hash_of(numbered_key(number)).hex(); }
  static std::string blob_path(std::uint32_t number) {
    return "/base/cas/" + hash_of_bytes(numbered_bytes(number)).hex();
  }
  /// The server has the answers 0 to `count`, signed.
  void fill(std::uint32_t count) {
    const auto store = writer();
    for (std::uint32_t number = 0; number < count; ++number) put(*store, number);
    const auto pushed = store->push();
    ASSERT_TRUE(pushed) << pushed.error().message;
  }

  HostileServer server_;
  Place place_, elsewhere_;
};

}  // namespace crucible::store::testing
