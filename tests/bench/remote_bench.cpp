// What a server behind a store costs: writing, fetching, missing, and asking what of 10,000 blobs is there, by many
// requests at once and one by one. `ci/bench store` runs it against nginx on this machine. remote_bench URL [CA_FILE]
#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "core/base/figures.hpp"
#include "store/remote/remote.hpp"
#include "store/testing/hostile_server.hpp"

namespace {

using namespace crucible::store;
using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kEntries = 2000, kChecks = 10'000, kChecksOneByOne = 2000, kChecksFarAway = 200;

ActionKey key_of(std::uint32_t number) {
  ActionKey key;
  key.kind = "kernel";
  key.target = "x86-64-v4";
  key.specialisation = {{"n", number}};
  return key;
}

std::string blob_of(std::uint32_t number) {
  std::minstd_rand random(number + 1);
  std::string bytes(2000, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random() % 64);
  return bytes;
}

double ns_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
}

void say(const std::string& what, const std::string& figure) {
  std::puts(fmt::format("{:<52} {}", what, figure).c_str());
  std::fflush(stdout);
}

template <class Result>
Result must(Result result) {
  if (result) return result;
  std::puts(result.error().message.c_str());
  std::exit(1);
}

/// Median and 99th of 100 of each call's time.
template <class Call>
void measure(const std::string& what, std::uint32_t count, const Call& call) {
  std::vector<double> times;
  for (std::uint32_t number = 0; number < count; ++number) {
    const auto begin = Clock::now();
    call(number);
    times.push_back(ns_since(begin));
  }
  std::sort(times.begin(), times.end());
  say(what, fmt::format("median {}, 99 of 100 within {}", crucible::format_ns(times[times.size() / 2]),
                        crucible::format_ns(times[times.size() * 99 / 100])));
}

std::unique_ptr<Store> opened(const std::filesystem::path& folder, const RemoteSettings& settings) {
  StoreOptions options;
  options.folder = folder;
  options.is_durable = false;
  options.tell = [](const std::string& words) { std::puts(words.c_str()); };
  (void)must(add_remotes(settings, options));
  return *must(Store::open(std::move(options)));
}

void ask_for_many(Place& place, std::uint32_t one_by_one) {
  std::vector<crucible::ContentHash> names;
  for (std::uint32_t number = 0; number < kChecks; ++number) {
    const std::string bytes = blob_of(number / 2);
    names.push_back(crucible::sha256(std::as_bytes(std::span(bytes))));
  }
  (void)must(place.has(Room::kBlobs, std::span(names).first(64)));  // connections are there
  auto begin = Clock::now();
  (void)must(place.has(Room::kBlobs, names));
  say(fmt::format("ask what of {} blobs is there, at once", kChecks), crucible::format_ns(ns_since(begin)));
  begin = Clock::now();
  for (std::uint32_t number = 0; number < one_by_one; ++number) {
    (void)must(place.has(Room::kBlobs, std::span(&names[number], 1)));
  }
  say(fmt::format("the same of {}, one by one, for {}", one_by_one, kChecks),
      crucible::format_ns(ns_since(begin) * kChecks / one_by_one));
}

void run(const RemoteSettings& settings, const std::filesystem::path& folder) {
  auto begin = Clock::now();
  {
    RemoteSettings none;
    const auto store = opened(folder / "here", none);
    for (std::uint32_t number = 0; number < kEntries; ++number) {
      (void)must(store->put(key_of(number), {{"kernel.o", blob_of(number)}}, "bench"));
    }
    const auto writer = opened(folder / "here", settings);
    begin = Clock::now();
    const auto pushed = *must(writer->push());
    say(fmt::format("push {} entries with their blobs: each", pushed[0].second.entries),
        crucible::format_ns(ns_since(begin) / kEntries));
    begin = Clock::now();
    (void)must(writer->push());
    say("push them again, all there: each", crucible::format_ns(ns_since(begin) / kEntries));
  }
  const auto reader = opened(folder / "empty", settings);
  measure("fetch an entry with a blob of 2,000 bytes, and keep it", kEntries, [&](std::uint32_t number) {
    if (!reader->get(key_of(number))) std::exit(2);
  });
  measure("look for one that is not there", kEntries, [&](std::uint32_t number) {
    if (reader->get(key_of(kEntries + number))) std::exit(2);
  });
  RemoteOptions options;
  options.url = settings.urls[0];
  options.ca_file = settings.ca_file;
  options.may_write = true;
  const std::unique_ptr<Place> place = *must(open_remote(options));
  measure("write a blob of 2,000 bytes and an entry", kEntries, [&](std::uint32_t number) {
    const std::string bytes = blob_of(kEntries + number);
    const Piece blob{crucible::sha256(std::as_bytes(std::span(bytes))), bytes};
    const Piece entry{hash_of(key_of(kEntries + number)), std::string_view(bytes).substr(0, 500)};
    (void)must(place->write(Room::kBlobs, std::span(&blob, 1)));
    (void)must(place->write(Room::kActions, std::span(&entry, 1)));
  });
  ask_for_many(*place, kChecksOneByOne);
}

/// The same of a server that takes its time, as one far away does: nothing on this machine is.
void run_far_away() {
  testing::HostileServer server;
  server.behave("/", [](const auto& seen, const auto& send) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return testing::HostileServer::always(404)(seen, send);
  });
  RemoteOptions options;
  options.url = server.url();
  const std::unique_ptr<Place> place = *must(open_remote(options));
  std::puts("a server that answers after 10 ms");
  ask_for_many(*place, kChecksFarAway);
}

}  // namespace

int main(int argc, char** argv) {
  std::string name = (std::filesystem::temp_directory_path() / "crucible-remote-bench-XXXXXX").string();
  if (argc < 2 || mkdtemp(name.data()) == nullptr) {
    std::puts("usage: remote_bench URL [CA_FILE]");
    return 2;
  }
  RemoteSettings settings;
  settings.urls = {argv[1]};
  settings.trust = "off";
  settings.may_write = true;
  if (argc > 2) settings.ca_file = argv[2];
  run(settings, name);
  if (settings.ca_file.empty()) run_far_away();
  std::filesystem::remove_all(name);
  return 0;
}
