// What a store of many entries costs: putting, looking up, missing, explaining, indexing anew, making room. Run it on
// an idle machine; `ci/bench store` does. store_bench [ENTRIES] [FOLDER]: 1,000,000 entries take 5 GiB in FOLDER
// (default: the folder for temporary files) while it runs.
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "core/base/figures.hpp"
#include "store/store.hpp"

namespace {

using namespace crucible::store;
using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kEntriesOfABlob = 16;
constexpr int kLookups = 100'000;

ActionKey key_of(std::uint32_t number) {
  ActionKey key;
  key.kind = "kernel";
  key.target = "x86-64-v4";
  key.numerics = "fast";
  key.toolchain = "clang 19";
  key.options = {{"unroll", 4u}};
  key.specialisation = {{"n", number}, {"scale", Float32(0.5f)}};
  return key;
}

std::string blob_of(std::uint32_t number) {
  std::minstd_rand random(number / kEntriesOfABlob + 1);
  std::string bytes(2000, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random() % 64);
  return bytes;
}

double ns_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
}

std::uint64_t peak_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

void say(const std::string& what, const std::string& figure) {
  std::puts(fmt::format("{:<52} {}", what, figure).c_str());
  std::fflush(stdout);
}

/// Median and 99th of 100 of each call's time.
template <class Call>
void measure(const std::string& what, std::uint32_t entries, const Call& call) {
  std::minstd_rand random(7);
  std::vector<double> times;
  for (int trial = 0; trial < kLookups; ++trial) {
    const auto number = static_cast<std::uint32_t>(random()) % entries;
    const auto begin = Clock::now();
    call(number);
    times.push_back(ns_since(begin));
  }
  std::sort(times.begin(), times.end());
  say(what, fmt::format("median {}, 99 of 100 within {}", crucible::format_ns(times[times.size() / 2]),
                        crucible::format_ns(times[times.size() * 99 / 100])));
}

template <class Result>
Result must(Result result) {
  if (!result) {
    std::puts(result.error().message.c_str());
    std::exit(1);
  }
  return result;
}

void run(std::uint32_t entries, const std::filesystem::path& folder) {
  const auto opened = [&folder] {
    StoreOptions options;
    options.folder = folder;
    options.is_durable = false;
    options.tell = [](const std::string& words) { std::puts(words.c_str()); };
    return *must(Store::open(std::move(options)));
  };
  auto store = opened();
  auto begin = Clock::now();
  for (std::uint32_t number = 0; number < entries; ++number) {
    (void)must(store->put(key_of(number), {{"kernel.o", blob_of(number)}}, "bench"));
  }
  say(fmt::format("put {} entries, no fsync: each", entries), crucible::format_ns(ns_since(begin) / entries));
  measure("look up one that is there", entries, [&](std::uint32_t number) {
    if (!store->get(key_of(number))) std::exit(2);
  });
  measure("look up and read its blob of 2,000 bytes", entries, [&](std::uint32_t number) {
    if (!store->read(store->get(key_of(number))->outputs[0])) std::exit(2);
  });
  measure("look up one that is not there (noted as a miss)", entries, [&](std::uint32_t number) {
    if (store->get(key_of(entries + number))) std::exit(2);
  });
  begin = Clock::now();
  const auto why = must(store->explain(key_of(entries + 1)));
  say("explain a miss", fmt::format("{}, {}", crucible::format_ns(ns_since(begin)),
                                    crucible::plural(why->differences.size(), "difference")));
  store.reset();
  const std::uint64_t before_bytes = peak_bytes();
  for (const char* ending : {"", "-wal", "-shm"}) {
    std::filesystem::remove(folder / (std::string("index-1.db") + ending));
  }
  store = opened();
  begin = Clock::now();
  const auto totals = must(store->totals());
  say("make the index again of the files",
      fmt::format("{}, {} entries", crucible::format_ns(ns_since(begin)), totals->entries));
  begin = Clock::now();
  const auto done = must(store->collect(totals->stored_bytes / 2));
  say("gc to half the size",
      fmt::format("{}, {} entries taken away", crucible::format_ns(ns_since(begin)), done->entries));
  say("memory of both, above what look-ups took", crucible::format_bytes(peak_bytes() - before_bytes));
  say("memory of all", crucible::format_bytes(peak_bytes()));
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint32_t entries = argc > 1 ? static_cast<std::uint32_t>(std::atol(argv[1])) : 1'000'000;
  const std::filesystem::path parent =
      argc > 2 ? std::filesystem::path(argv[2]) : std::filesystem::temp_directory_path();
  std::string name = (parent / "crucible-store-bench-XXXXXX").string();
  if (entries == 0 || mkdtemp(name.data()) == nullptr) {
    std::puts("usage: store_bench [ENTRIES] [FOLDER]");
    return 2;
  }
  run(entries, std::filesystem::path(name) / "store");
  std::filesystem::remove_all(name);
  return 0;
}
