// What a machine does to a store: processes that are killed while they write, a disk that is full, a folder that cannot
// be written, two versions on one folder.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <functional>
#include <set>

#include "store/store.hpp"
#include "store/testing/store_samples.hpp"

namespace crucible::store {
namespace {

using testing::content_of;
using testing::files_in;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::numbered_bytes;
using testing::numbered_key;
using testing::write_file;

constexpr int kSkipped = 77;

/// The exit code of a child that runs `work`, in which expectations may fail: 1.
int in_child(const std::function<int()>& work) {
  const pid_t child = fork();
  if (child == 0) {
    const int code = work();
    _exit(::testing::Test::HasFailure() ? 1 : code);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::unique_ptr<Store> opened(StoreOptions options) {
  auto store = Store::open(std::move(options));
  EXPECT_TRUE(store) << store.error().message;
  return store ? *std::move(store) : nullptr;
}

Result<void> put(Store& store, std::uint32_t number, std::size_t size = 64) {
  return store.put(numbered_key(number), {{"kernel.o", numbered_bytes(number, size)}}, "test");
}

std::optional<std::string> got(Store& store, std::uint32_t number) {
  const auto found = store.get(numbered_key(number));
  return found ? store.read(found->outputs.at(0)) : std::nullopt;
}

// ---- writers that are killed

constexpr std::uint32_t kWriters = 8;
std::size_t size_of(std::uint32_t number) { return 100 + number % 7 * 3000; }

Sample sample_of(std::uint32_t number) {
  return {"", hash_of(numbered_key(number)), "candidate", "cpu", 1.0 + number, "test", 0};
}

/// Puts answers and samples from `first` on, until it is killed; a number goes through the pipe when both are kept. The
/// last writer makes room all the time.
[[noreturn]] void write_until_killed(StoreOptions options, std::uint32_t writer, std::uint32_t first, int acknowledge) {
  options.tell = {};
  options.is_durable = true;
  const auto store = Store::open(std::move(options));
  if (!store) _exit(2);
  const auto tuning = (*store)->tuning();
  if (!tuning) _exit(3);
  for (std::uint32_t number = first;; ++number) {
    if (!put(**store, number, size_of(number))) _exit(4);
    if (!(*tuning)->add(sample_of(number))) _exit(5);
    if (write(acknowledge, &number, sizeof number) != sizeof number) _exit(6);
    if (!got(**store, number)) _exit(7);
    if (writer == kWriters - 1 && !(*store)->collect(1ull << 40)) _exit(8);
  }
}

TEST(Killed, NothingThatWasKeptIsLost) {
  const char* const set = std::getenv("CRUCIBLE_STORE_KILLS");
  const int kills = set == nullptr ? 200 : std::atoi(set);
  testing::Place place;
  ASSERT_TRUE(Store::open(place.options()));
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
  std::uint32_t next = 0;
  const auto start = [&](std::uint32_t writer) {
    const std::uint32_t first = next;
    next += 100'000;
    const pid_t child = fork();
    if (child == 0) write_until_killed(place.options(), writer, first, ends[1]);
    return child;
  };
  std::set<std::uint32_t> kept;
  const auto take = [&] {
    std::uint32_t number = 0;
    while (read(ends[0], &number, sizeof number) == sizeof number) kept.insert(number);
  };
  std::array<pid_t, kWriters> writers{};
  for (std::uint32_t writer = 0; writer < kWriters; ++writer) writers[writer] = start(writer);
  std::minstd_rand random(5);
  const auto end_one = [&](std::uint32_t writer) {
    kill(writers[writer], SIGKILL);
    int status = 0;
    waitpid(writers[writer], &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status)) << "writer " << writer << " ended by itself, exit code " << WEXITSTATUS(status);
  };
  for (int killed = 0; killed < kills; ++killed) {
    usleep(static_cast<useconds_t>(random() % 30'000));
    take();
    const auto writer = static_cast<std::uint32_t>(random() % kWriters);
    end_one(writer);
    writers[writer] = start(writer);
  }
  // On a machine that is busy the last ones may not have come to anything yet.
  for (int waits = 0; kept.size() < 50 && waits < 6000; ++waits) {
    usleep(10'000);
    take();
  }
  for (std::uint32_t writer = 0; writer < kWriters; ++writer) end_one(writer);
  take();
  EXPECT_GE(kept.size(), 50u);
  close(ends[0]);
  close(ends[1]);

  const auto store = opened(place.options());
  const auto verified = store->verify();
  ASSERT_TRUE(verified);
  EXPECT_TRUE(verified->is_good());
  EXPECT_GE(verified->entries, kept.size());
  std::set<ContentHash> samples;
  ASSERT_TRUE((*store->tuning())->each([&](const Sample& sample) { return samples.insert(sample.action), true; }));
  for (const std::uint32_t number : kept) {
    EXPECT_EQ(got(*store, number), numbered_bytes(number, size_of(number))) << number;
    EXPECT_TRUE(samples.contains(hash_of(numbered_key(number)))) << number;
  }
  EXPECT_THAT(place.said, IsEmpty());
  ASSERT_TRUE(store->collect(1ull << 40));
  EXPECT_EQ(files_in(place.folder() / "tmp"), 0u);
  EXPECT_EQ(store->totals()->entries, verified->entries);
  ::testing::Test::RecordProperty("kills", kills);
  ::testing::Test::RecordProperty("kept", static_cast<int>(kept.size()));
}

// ---- a disk that is full

void expect_that_a_full_disk_loses_nothing(testing::Place& place, StoreOptions options,
                                           const std::function<void()>& fill_disk, const char* reason) {
  const auto store = opened(std::move(options));
  ASSERT_TRUE(put(*store, 1, 20'000));
  fill_disk();
  const auto refused = put(*store, 2, 2'000'000);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kBadInput);
  EXPECT_THAT(refused.error().message, HasSubstr(reason));
  EXPECT_THAT(refused.error().message, HasSubstr("nothing of it was kept: make room"));
  EXPECT_FALSE(store->get(numbered_key(2)));
  EXPECT_EQ(got(*store, 1), numbered_bytes(1, 20'000));
  EXPECT_FALSE(put(*store, 1, 2'000'000));  // the answer that was there stays
  EXPECT_EQ(got(*store, 1), numbered_bytes(1, 20'000));
  EXPECT_EQ(files_in(store->files().folder() / "tmp"), 0u);
  EXPECT_TRUE(store->verify()->is_good());
}

TEST(FullDisk, AFileSizeLimitLosesNothing) {
  testing::Place place;
  EXPECT_EQ(in_child([&] {
              signal(SIGXFSZ, SIG_IGN);
              expect_that_a_full_disk_loses_nothing(
                  place, place.options(),
                  [] {
                    const rlimit limit{600'000, 600'000};
                    setrlimit(RLIMIT_FSIZE, &limit);
                  },
                  "File too large");
              return 0;
            }),
            0);
  const auto store = opened(place.options());
  EXPECT_EQ(got(*store, 1), numbered_bytes(1, 20'000));
  ASSERT_TRUE(put(*store, 2, 2'000'000));
}

TEST(FullDisk, OneOfAFewMegabytesLosesNothing) {
  testing::Place place;
  const int code = in_child([&] {
    const std::filesystem::path disk = place.path() / "disk";
    std::filesystem::create_directory(disk);
    if (unshare(CLONE_NEWNS) != 0 || mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("disk", disk.c_str(), "tmpfs", 0, "size=1m") != 0) {
      return kSkipped;
    }
    StoreOptions options = place.options();
    options.folder = disk / "store";
    expect_that_a_full_disk_loses_nothing(
        place, std::move(options), [] {}, "No space left on device");
    return 0;
  });
  if (code == kSkipped) GTEST_SKIP() << "a disk cannot be made here";
  EXPECT_EQ(code, 0);
}

TEST(FullDisk, WhereNotEvenAStoreCanBeMadeItIsSaid) {
  testing::Place place;
  EXPECT_EQ(in_child([&] {
              signal(SIGXFSZ, SIG_IGN);
              const rlimit limit{0, 0};
              setrlimit(RLIMIT_FSIZE, &limit);
              const auto store = Store::open(place.options());
              EXPECT_FALSE(store);
              if (!store) {
                EXPECT_THAT(store.error().message, HasSubstr("cannot make a store in"));
              }
              return 0;
            }),
            0);
  EXPECT_TRUE(Store::open(place.options()));  // what was begun is in nobody's way
}

// ---- a folder that cannot be written

void set_modes(const std::filesystem::path& folder, bool is_writable) {
  using std::filesystem::perms;
  const perms files = is_writable ? perms(0644) : perms(0444), folders = is_writable ? perms(0755) : perms(0555);
  for (const auto& each : std::filesystem::recursive_directory_iterator(folder)) {
    std::filesystem::permissions(each.path(), each.is_directory() ? folders : files);
  }
  std::filesystem::permissions(folder, folders);
}

TEST(ReadOnly, EverythingButWritingWorks) {
  testing::Place place;
  std::filesystem::permissions(place.path(), std::filesystem::perms(0777));
  {
    const auto store = opened(place.options());
    for (std::uint32_t number = 0; number < 3; ++number) ASSERT_TRUE(put(*store, number));
    ASSERT_TRUE((*store->tuning())->add(sample_of(1)));
  }
  write_file(place.blob_file(testing::hash_of_bytes(numbered_bytes(2))), "damaged");
  set_modes(place.folder(), false);
  const std::size_t files = files_in(place.folder());
  EXPECT_EQ(in_child([&] {
              if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0) return kSkipped;
              const auto store = opened(place.options());
              if (!store) return 1;
              EXPECT_FALSE(store->is_writable());
              EXPECT_EQ(got(*store, 1), numbered_bytes(1));
              EXPECT_FALSE(got(*store, 2));  // damaged, said, still there
              EXPECT_FALSE(store->get(numbered_key(7)));
              const auto refused = put(*store, 7);
              EXPECT_FALSE(refused);
              const auto totals = store->totals();
              EXPECT_TRUE(totals) << totals.error().message;
              if (totals) {
                EXPECT_EQ(totals->entries, 3u);
              }
              const auto why = store->explain(numbered_key(7));
              EXPECT_TRUE(why && why->nearest);
              EXPECT_FALSE(store->collect(0));
              const auto verified = store->verify();
              EXPECT_TRUE(verified && verified->damaged_blobs == 1);
              const auto tuning = store->tuning();
              EXPECT_TRUE(tuning) << tuning.error().message;
              if (tuning) {
                EXPECT_EQ(*(*tuning)->count(), 1u);
              }
              const auto exported = store->export_to(place.path() / "kept.crstore");
              EXPECT_TRUE(exported) << exported.error().message;
              EXPECT_FALSE(store->import_from(place.path() / "kept.crstore"));
              return 0;
            }),
            0);
  EXPECT_EQ(files_in(place.folder()), files);
  set_modes(place.folder(), true);
}

// ---- two versions of Crucible

TEST(TwoVersions, EachLeavesAloneWhatIsTheOthers) {
  testing::Place place;
  const auto store = opened(place.options());
  ASSERT_TRUE(put(*store, 1));
  // What another version would have: an index of its own, entries of its own.
  write_file(place.folder() / "index-2.db", "of the other version");
  const std::string entry = to_json(Envelope{std::string(kStatementType), R"({"version":2,"what":"ever"})", {}});
  const std::filesystem::path newer = place.entry_file(numbered_key(2));
  std::filesystem::create_directories(newer.parent_path());
  write_file(newer, entry);
  EXPECT_FALSE(store->get(numbered_key(2)));
  const auto verified = store->verify();
  ASSERT_TRUE(verified);
  EXPECT_TRUE(verified->is_good());
  EXPECT_EQ(verified->newer_entries, 1u);
  const ContentHash theirs = testing::hash_of_bytes("a blob of theirs");
  std::filesystem::create_directories(place.blob_file(theirs).parent_path());
  write_file(place.blob_file(theirs), pack("a blob of theirs"));
  ASSERT_TRUE(store->collect(1ull << 40));
  EXPECT_TRUE(std::filesystem::exists(place.blob_file(theirs)));
  EXPECT_EQ(store->totals()->entries, 1u);
  EXPECT_EQ(content_of(newer), entry);
  EXPECT_EQ(content_of(place.folder() / "index-2.db"), "of the other version");
  EXPECT_EQ(got(*store, 1), numbered_bytes(1));
}

}  // namespace
}  // namespace crucible::store
