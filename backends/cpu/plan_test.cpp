// Plans of launches, copies and fills, with the library and without: each item exactly once, ops in order, slots, float
// mode, refusals, threads that come late, sleep, or end in the middle of their work. Products and convolutions have
// their own tests.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "backends/cpu/testing.hpp"

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which have one of their own
#define CRUCIBLE_COUNTS_DLOPEN
namespace {
std::atomic<int> opened = 0;
}
/// In place of the C library's, for this program and the plugin that it loads: counts the calls.
extern "C" __attribute__((visibility("default"))) void* dlopen(const char* file, int flags) noexcept {
  ++opened;
  static const auto real = reinterpret_cast<void* (*)(const char*, int)>(dlsym(RTLD_NEXT, "dlopen"));
  return real(file, flags);
}
#endif

namespace crucible::backend {
namespace {

using testing::HasSubstr;

// count: adds 1 to each item's counter. chain: item i of out = in[n - 1 - i] * 3 + 1, so a launch that starts before
// the one before it has ended reads old values. scale: out = in * s0 + s1. tiny: out = in * 2^-10 (a subnormal for
// 2^-120).
constexpr const char* kTexts[][2] = {
    {"k_count",
     "void k_count(void* const* b, const double* s, long begin, long end) {\n"
     "  int* x = b[0]; for (long i = begin; i < end; ++i) x[i] += 1;\n}\n"},
    {"k_chain",
     "void k_chain(void* const* b, const double* s, long begin, long end) {\n"
     "  unsigned* o = b[0]; const unsigned* x = b[1]; long n = (long)s[0];\n"
     "  for (long i = begin; i < end; ++i) o[i] = x[n - 1 - i] * 3u + 1u;\n}\n"},
    {"k_scale",
     "void k_scale(void* const* b, const double* s, long begin, long end) {\n"
     "  float* o = b[0]; const float* x = b[1];\n"
     "  for (long i = begin; i < end; ++i) o[i] = x[i] * (float)s[0] + (float)s[1];\n}\n"},
    {"k_tiny",
     "void k_tiny(void* const* b, const double* s, long begin, long end) {\n"
     "  float* o = b[0]; const float* x = b[1]; for (long i = begin; i < end; ++i) o[i] = x[i] * 0x1p-10f;\n}\n"},
    {"k_nap",
     "int usleep(unsigned microseconds);\n"
     "void k_nap(void* const* b, const double* s, long begin, long end) {\n"
     "  int* x = b[0]; const int* naps = b[1]; for (long i = begin; i < end; ++i) { if (naps[i]) usleep(naps[i]); x[i] "
     "+= 1; }\n}\n"},
    {"k_spin",
     "void k_spin(void* const* b, const double* s, long begin, long end) {\n"
     "  unsigned* o = b[0]; const unsigned* x = b[1]; long n = (long)s[0];\n"
     "  for (long i = begin; i < end; ++i) {\n"
     "    for (volatile unsigned turn = 0; turn < (x[i] * 2654435761u >> 19) * (x[i] % 7 == 0); ++turn) {}\n"
     "    o[i] = x[n - 1 - i] * 3u + 1u;\n  }\n}\n"},
    {"k_end",
     "long syscall(long number, ...);\n"
     "int usleep(unsigned microseconds);\n"
     "void k_end(void* const* b, const double* s, long begin, long end) {\n"
     "  if (syscall(186) != syscall(39)) syscall(60, 0);\n"  // gettid, getpid, exit: of x86-64
     "  usleep(2000 * (int)(end - begin));\n}\n"},
};

/// Every case runs on OpenMP's threads and on our own, where both are there.
class CpuPlan : public CpuTest, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    if (!has_clang()) GTEST_SKIP() << "no clang on this machine";
  }
  static void TearDownTestSuite() { shared_cache_.reset(); }
  std::shared_ptr<Device> open_with(int threads) {
    if (shared_cache_ == nullptr) shared_cache_ = std::make_unique<TemporaryFolder>();
    const KernelsInC in_c(shared_cache_->path());
    device_ = open({{"threads", std::to_string(threads)}, {"library", GetParam()}, {"compiler", in_c.compiler()}},
                   keep_in(shared_cache_->path() / "store"));
    std::vector<KernelSource> kernels;
    for (const auto& [name, text] : kTexts) kernels.push_back(in_c.add(name, text));
    module_.emplace(take(Module::compile(device_, kernels)));
    return device_;
  }
  crucible_kernel* kernel(const char* name) const { return take(module_->kernel(name)); }
  Plan build(const OpList& list, std::uint32_t slots = 0) { return take(Plan::build(device_, list.ops(), slots)); }
  /// Everything that was made from the device must be gone before another one is opened with other options.
  void close() {
    module_.reset();
    device_.reset();
  }

  std::shared_ptr<Device> device_;
  std::optional<Module> module_;
  static inline std::unique_ptr<TemporaryFolder> shared_cache_;
};

TEST_P(CpuPlan, CoversEachItemExactlyOnce) {
  for (const int threads : {1, 2, 3, 7}) {
    open_with(threads);
    for (const std::int64_t grid : {0, 1, 2, 3, 5, 6, 7, 8, 13, 64, 100, 1001}) {
      for (const std::int64_t grain : {0, 1, 2, 3, 10, 64, 500, 5000}) {
        Buffer buffer = make_buffer(device_, static_cast<std::uint64_t>(grid + 1) * 4);
        OpList list;
        list.launch(kernel("k_count"), {buffer.address()}, grid, grain);
        CRUCIBLE_ASSERT_OK(build(list).replay());
        std::vector<int> expected(static_cast<std::size_t>(grid), 1);
        expected.push_back(0);
        ASSERT_EQ(download<int>(buffer, expected.size()), expected) << threads << " " << grid << " " << grain;
      }
    }
    close();
  }
}

TEST_P(CpuPlan, RunsOpsInOrder) {
  constexpr std::int64_t kItems = 5000;
  std::vector<std::uint32_t> start(kItems);
  for (std::size_t i = 0; i < start.size(); ++i) start[i] = static_cast<std::uint32_t>(i * i);
  for (const int threads : {1, 2, 4}) {
    open_with(threads);
    const Buffer a = upload(device_, start), b = make_buffer(device_, kItems * 4);
    OpList list;
    std::vector<std::uint32_t> expected = start, next(kItems);
    for (int step = 0; step < 40; ++step) {
      const bool even = step % 2 == 0;
      // Now and then one thread alone, so that shared and lonely ops meet in every order.
      list.launch(kernel("k_chain"), {even ? b.address() : a.address(), even ? a.address() : b.address()}, kItems,
                  step % 5 == 3 ? kItems : 16, {fixed(kItems)});
      for (std::size_t i = 0; i < next.size(); ++i) next[i] = expected[next.size() - 1 - i] * 3u + 1u;
      expected = next;
    }
    Plan plan = build(list);
    for (int repeat = 0; repeat < 20; ++repeat) {
      Buffer& first = const_cast<Buffer&>(a);
      CRUCIBLE_ASSERT_OK(first.write(0, std::as_bytes(std::span(start))));
      CRUCIBLE_ASSERT_OK(plan.replay());
      ASSERT_EQ(download<std::uint32_t>(a, kItems), expected) << threads << " threads, repeat " << repeat;
    }
    close();
  }
}

TEST_P(CpuPlan, RebindsBuffersBetweenRuns) {
  open_with(2);
  const Buffer from = upload<int>(device_, {5, 6, 7}), first = make_buffer(device_, 12);
  std::vector<int> ours(3, 0), small(2, 0);
  OpList list;
  list.copy(first.address(), from.address(), 12);
  list.launch(kernel("k_count"), {first.address()}, 3);
  Plan plan = build(list);
  CRUCIBLE_ASSERT_OK(plan.replay());
  EXPECT_EQ(download<int>(first, 3), (std::vector<int>{6, 7, 8}));
  const Buffer adopted = take(Buffer::adopt(device_, ours.data(), 12));
  const Buffer little = take(Buffer::adopt(device_, small.data(), 8));
  const std::vector<crucible_rebinding> both = {{0, 0, adopted.address()}, {1, 0, adopted.address()}};
  CRUCIBLE_ASSERT_OK(plan.rebind(both));
  CRUCIBLE_ASSERT_OK(plan.replay());
  EXPECT_EQ(ours, (std::vector<int>{6, 7, 8}));
  EXPECT_EQ(download<int>(first, 3), (std::vector<int>{6, 7, 8}));  // no longer touched
  // An op, a buffer, an address that is none, and one with too little behind it: each refused, and nothing moves.
  const std::pair<crucible_rebinding, const char*> wrong[] = {
      {{2, 0, first.address()}, "op 2 of 2"},
      {{1, 1, first.address()}, "buffer 1 of op 1, which has 1"},
      {{1, 0, 64}, "is in none of the"},
      {{0, 0, little.address()}, "op 0 uses 12 bytes, and 8 are there"},
  };
  for (const auto& [rebinding, said] : wrong) {
    const std::vector<crucible_rebinding> tried = {{1, 0, first.address()}, rebinding};
    const auto refused = plan.rebind(tried);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, HasSubstr(said));
  }
  CRUCIBLE_ASSERT_OK(plan.replay());
  EXPECT_EQ(ours, (std::vector<int>{6, 7, 8}));
  EXPECT_EQ(download<int>(first, 3), (std::vector<int>{6, 7, 8}));
}

TEST_P(CpuPlan, CopiesAndFillsBetweenLaunches) {
  open_with(2);
  for (const std::uint64_t size : {std::uint64_t{4}, std::uint64_t{4100}, (std::uint64_t{3} << 20) + 12}) {
    const std::size_t count = size / 4;
    std::vector<int> source(count);
    for (std::size_t i = 0; i < count; ++i) source[i] = static_cast<int>(i);
    const Buffer a = upload(device_, source), b = make_buffer(device_, size + 8), c = make_buffer(device_, size + 8);
    OpList list;
    list.copy(b.address() + 4, a.address(), size);
    list.launch(kernel("k_count"), {b.address() + 4}, static_cast<std::int64_t>(count));
    list.copy(c.address() + 4, b.address() + 4, size);
    list.fill(b.address() + 4, size, 0xab);
    list.copy(b.address(), b.address() + 4, 4);
    CRUCIBLE_ASSERT_OK(build(list).replay());
    std::vector<int> expected(count + 2, 0);
    for (std::size_t i = 0; i < count; ++i) expected[i + 1] = static_cast<int>(i) + 1;
    EXPECT_EQ(download<int>(c, count + 2), expected);
    std::vector<int> filled(count + 2, static_cast<int>(0xabababab));
    filled.back() = 0;
    EXPECT_EQ(download<int>(b, count + 2), filled);
  }
}

TEST_P(CpuPlan, TakesSlotsAnewInEachReplay) {
  open_with(2);
  const Buffer in = upload<float>(device_, {1, 2, 3, 4}), out = make_buffer(device_, 16);
  OpList list;
  list.launch(kernel("k_scale"), {out.address(), in.address()}, 4, 1, {slot(1), fixed(0.5)});
  list.launch(kernel("k_scale"), {out.address(), out.address()}, 4, 1, {slot(0), slot(1)});
  Plan plan = build(list, 2);
  for (const double value : {2.0, 3.0}) {
    const std::uint64_t slots[] = {std::bit_cast<std::uint64_t>(value), std::bit_cast<std::uint64_t>(value * 10)};
    CRUCIBLE_ASSERT_OK(plan.set_slots(slots));
    CRUCIBLE_ASSERT_OK(plan.replay());
    std::vector<float> expected;
    for (int i = 1; i <= 4; ++i) expected.push_back(static_cast<float>((i * value * 10 + 0.5) * value + value * 10));
    EXPECT_EQ(download<float>(out, 4), expected);
  }
  const std::uint64_t one[] = {0};
  const auto wrong = plan.set_slots(one);
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().message, HasSubstr("1 values for 2 slots"));
}

TEST_P(CpuPlan, AThreadThatSleepsIsNotedAndNothingIsLost) {
  open_with(2);
  std::vector<int> naps(64, 0);
  naps[3] = naps[60] = 100'000;  // whoever has these, whether it is the caller or not
  const Buffer x = make_buffer(device_, 256), pauses = upload(device_, naps);
  OpList list;
  for (int i = 0; i < 20; ++i) list.launch(kernel(i == 10 ? "k_nap" : "k_count"), {x.address(), pauses.address()}, 64);
  Plan plan = build(list);
  for (int i = 1; i <= 3; ++i) {
    CRUCIBLE_ASSERT_OK(plan.replay());
    EXPECT_EQ(download<int>(x, 64), std::vector<int>(64, 20 * i));
  }
  const Properties facts = plan.facts();
  EXPECT_THAT(facts,
              testing::Contains(testing::Pair("threads", testing::StartsWith("2 of 2, as the option threads says"))));
  EXPECT_THAT(facts, testing::Contains(testing::Pair("threads.now", "2")));
}

TEST_P(CpuPlan, PiecesThatDifferAHundredfoldChangePlacesAndNoBit) {
  constexpr std::int64_t kItems = 4096;
  std::vector<std::uint32_t> start(kItems), expected, next(kItems);
  for (std::size_t i = 0; i < start.size(); ++i) start[i] = static_cast<std::uint32_t>(i * i + 1);
  expected = start;
  for (int step = 0; step < 20; ++step) {
    for (std::size_t i = 0; i < next.size(); ++i) next[i] = expected[next.size() - 1 - i] * 3u + 1u;
    expected = next;
  }
  for (const int threads : {1, 2, 3, 5, 8, 16}) {
    open_with(threads);
    const Buffer a = make_buffer(device_, kItems * 4), b = make_buffer(device_, kItems * 4);
    OpList list;
    for (int step = 0; step < 20; ++step) {
      const bool even = step % 2 == 0;
      list.launch(kernel("k_spin"), {even ? b.address() : a.address(), even ? a.address() : b.address()}, kItems, 32,
                  {fixed(kItems)});
    }
    Plan plan = build(list);
    for (int repeat = 0; repeat < 3; ++repeat) {
      CRUCIBLE_ASSERT_OK(const_cast<Buffer&>(a).write(0, std::as_bytes(std::span(start))));
      CRUCIBLE_ASSERT_OK(plan.replay());
      ASSERT_EQ(download<std::uint32_t>(a, kItems), expected) << threads << " threads, repeat " << repeat;
    }
    close();
  }
}

TEST_P(CpuPlan, AThreadThatEndsInTheMiddleIsAnErrorAndNoEndlessWait) {
#if !defined(__x86_64__) || defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the kernel ends its thread by a number of x86-64, of which a sanitizer would not hear";
#endif
  open_with(2);
  Buffer buffer = make_buffer(device_, 64);
  OpList list;
  list.launch(kernel("k_end"), {buffer.address()}, 64);
  Plan plan = build(list);
  // On a busy machine the caller may have done all before another thread comes.
  for (int i = 0; i < 100 && plan.replay(); ++i) {
  }
  for (int attempt = 0; attempt < 2; ++attempt) {
    const Result<void> result = plan.replay();
    ASSERT_FALSE(result);
    EXPECT_THAT(result.error().message, HasSubstr("a thread of this device ended in the middle of its work"));
    EXPECT_THAT(result.error().message, HasSubstr("open the device again"));
  }
}

/// Of the team's threads of this process: how often each was switched to and away from, and the processor's time that
/// it had (/proc).
std::map<std::string, std::string> team_threads() {
  std::map<std::string, std::string> result;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    const auto read = [&](const char* file) {
      std::ifstream in(task.path() / file);
      return std::string(std::istreambuf_iterator<char>(in), {});
    };
    if (read("comm") != "crucible\n") continue;
    const std::string status = read("status");
    result[task.path().filename()] =
        status.substr(std::min(status.find("voluntary_ctxt_switches"), status.size())) + read("schedstat");
  }
  return result;
}

TEST_P(CpuPlan, AnIdleDeviceTakesNoTimeAndNoSwitches) {
  open_with(4);
  const Buffer x = make_buffer(device_, 400'000);
  OpList list;
  for (int i = 0; i < 20; ++i) list.launch(kernel("k_count"), {x.address()}, 100'000, 100);
  Plan plan = build(list);
  for (int i = 0; i < 10; ++i) CRUCIBLE_ASSERT_OK(plan.replay());
  for (int i = 0; i < 1000 && team_threads().size() < 3; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));  // until all have begun
  EXPECT_EQ(team_threads().size(), 3u);
  // They go to sleep after a tenth of a millisecond, unless they have no processor to do it on.
  std::map<std::string, std::string> before, after = team_threads();
  for (int i = 0; i < 100 && before != after; ++i) {
    before = after;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    after = team_threads();
  }
  EXPECT_EQ(before, after) << "in none of a hundred tenths of a second was everybody asleep";
  plan.facts();
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_EQ(team_threads(), after) << "once asleep, a thread is woken by a replay alone";
}

// What a debugger does to one thread: it stands still for a fiftieth of a second, wherever it is, waiting or in the
// middle of a piece.
TEST_P(CpuPlan, AThreadThatADebuggerStopsDelaysReplaysAndEndsNone) {
  open_with(2);
  const Buffer x = make_buffer(device_, 4096 * 4);
  OpList list;
  for (int i = 0; i < 20; ++i) list.launch(kernel("k_count"), {x.address()}, 4096, 32);
  Plan plan = build(list);
  int replays = 0;
  for (; replays < 1000 && team_threads().empty(); ++replays) CRUCIBLE_ASSERT_OK(plan.replay());
  ASSERT_EQ(team_threads().size(), 1u);
  const pid_t thread = std::stoi(team_threads().begin()->first);
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);  // which some kernels ask for and others do not know
  const pid_t debugger = fork();
  if (debugger == 0) {  // system calls alone: a child of a process with threads may do nothing else
    int status = 0;
    for (int i = 0; i < 20; ++i) {
      if (ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) != 0) _exit(errno == EPERM && i == 0 ? 77 : 1);
      if (ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr) != 0 || waitpid(thread, &status, __WALL) != thread)
        _exit(2);
      usleep(20'000);
      if (ptrace(PTRACE_DETACH, thread, nullptr, nullptr) != 0) _exit(3);
      usleep(1'000);
    }
    _exit(0);
  }
  int status = 0;
  for (; waitpid(debugger, &status, WNOHANG) == 0; ++replays) CRUCIBLE_ASSERT_OK(plan.replay());
  prctl(PR_SET_PTRACER, 0);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "this machine lets nobody trace a process";
  ASSERT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(download<int>(x, 4096), std::vector<int>(4096, 20 * replays));
}

TEST_P(CpuPlan, PlansOfSeveralThreadsTakeTurns) {
  open_with(3);
  constexpr int kItems = 20'000;
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&] {
      const Buffer x = make_buffer(device_, kItems * 4);
      OpList list;
      for (int j = 0; j < 10; ++j) list.launch(kernel("k_count"), {x.address()}, kItems, 100);
      Plan plan = build(list);
      for (int j = 0; j < 10; ++j) wrong += plan.replay() ? 0 : 1;
      wrong += download<int>(x, kItems) == std::vector<int>(kItems, 100) ? 0 : 1;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// A child has none of the threads: without a refusal it would wait for them for ever.
TEST_P(CpuPlan, AForkedChildIsToldAndMayOpenTheDeviceAgain) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer does not go along with a fork";
#endif
  constexpr std::int64_t kItems = 100000;
  open_with(3);
  std::optional<Buffer> buffer(make_buffer(device_, kItems * 4));
  OpList list;
  list.launch(kernel("k_count"), {buffer->address()}, kItems);
  std::optional<Plan> plan(build(list));
  CRUCIBLE_ASSERT_OK(plan->replay());
  const auto in_child = [&] {
    const Result<void> refused = plan->replay();
    if (refused || refused.error().message.find("was forked from the one that opened the device") == std::string::npos)
      return 1;
    if (plan->profile()) return 2;
    plan.reset();
    buffer.reset();
    close();
    open_with(3);
    const Buffer fresh = make_buffer(device_, kItems * 4);
    OpList again;
    again.launch(kernel("k_count"), {fresh.address()}, kItems);
    if (!build(again).replay()) return 3;
    if (download<int>(fresh, kItems) != std::vector<int>(kItems, 1)) return 4;
    close();
    return 0;
  };
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(60);
    _exit(in_child());
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0) << "which step went wrong";
  CRUCIBLE_ASSERT_OK(plan->replay());  // nothing has changed for the parent
  EXPECT_EQ(download<int>(*buffer, kItems), std::vector<int>(kItems, 2));
}

TEST_P(CpuPlan, KeepsNothingOfTheHostsList) {
  open_with(2);
  Buffer buffer = make_buffer(device_, 400);
  auto list = std::make_unique<OpList>();
  list->launch(kernel("k_count"), {buffer.address()}, 100);
  Plan plan = build(*list);
  list->at(0).grid = 7;
  const_cast<std::uint64_t*>(list->at(0).buffers)[0] = 0;
  list.reset();
  CRUCIBLE_ASSERT_OK(plan.replay());
  EXPECT_EQ(download<int>(buffer, 100), std::vector<int>(100, 1));
}

TEST_P(CpuPlan, ProfilesEachOpOfOneReplay) {
  open_with(2);
  Buffer buffer = make_buffer(device_, 4 << 20);
  OpList list;
  list.launch(kernel("k_count"), {buffer.address()}, 1 << 20);
  list.launch(kernel("k_count"), {buffer.address()}, 1);
  Plan plan = build(list);
  const std::vector<std::uint64_t> times = take(plan.profile());
  EXPECT_EQ(plan.times_from(), "the host's clock around each op");
  ASSERT_EQ(times.size(), 2u);
  EXPECT_GT(times[0], times[1]);
  EXPECT_EQ(download<int>(buffer, 2), (std::vector<int>{2, 1}));
}

TEST_P(CpuPlan, KeepsSubnormalsAndTheCallersFloatMode) {
#if defined(__x86_64__)
  open_with(2);
  const std::vector<float> small(2000, 0x1p-120f);
  const Buffer in = upload(device_, small), out = make_buffer(device_, 8000);
  OpList list;
  list.launch(kernel("k_tiny"), {out.address(), in.address()}, 2000);
  Plan plan = build(list);
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040);  // flush and denormals-are-zero, as some programs set them
  const auto result = plan.replay();
  const unsigned after = _mm_getcsr();
  _mm_setcsr(before);
  CRUCIBLE_ASSERT_OK(result);
  EXPECT_EQ(after & 0x8040, 0x8040u);
  EXPECT_EQ(download<float>(out, 2000), std::vector<float>(2000, 0x1p-130f));
#else
  GTEST_SKIP() << "the float mode is set on x86-64 only";
#endif
}

TEST_P(CpuPlan, RefusesBadOpsByPlaceAndReason) {
  open_with(2);
  Buffer buffer = make_buffer(device_, 64);
  const auto message = [&](auto&& change) {
    OpList list;
    list.launch(kernel("k_count"), {buffer.address()}, 1);
    list.launch(kernel("k_scale"), {buffer.address(), buffer.address()}, 1, 1, {slot(0), fixed(1)});
    change(list.at(1));
    const auto plan = Plan::build(device_, list.ops(), 1);
    return plan ? std::string() : plan.error().message;
  };
  EXPECT_EQ(message([](crucible_op&) {}), "");
  EXPECT_THAT(message([](crucible_op& op) { op.kind = 77; }), HasSubstr("op 1: kind 77 is not known"));
  EXPECT_THAT(message([](crucible_op& op) { op.kernel = nullptr; }), HasSubstr("op 1: a launch without a kernel"));
  EXPECT_THAT(message([](crucible_op& op) { op.grid = -3; }), HasSubstr("a grid of -3 work items"));
  EXPECT_THAT(message([](crucible_op& op) { op.struct_size = 8; }), HasSubstr("struct_size"));
  EXPECT_THAT(message([](crucible_op& op) { op.buffers = nullptr; }), HasSubstr("its buffers are missing"));
  EXPECT_THAT(message([](crucible_op& op) { const_cast<crucible_scalar*>(op.scalars)->slot = 4; }),
              HasSubstr("slot 4 of 1"));
  EXPECT_THAT(message([](crucible_op& op) { op.kind = CRUCIBLE_OP_COPY, op.buffer_count = 1; }),
              HasSubstr("it has 1 buffers and needs 2"));
  EXPECT_THAT(message([](crucible_op& op) { op.kind = CRUCIBLE_OP_FILL, op.pattern = 256; }),
              HasSubstr("256 is not a byte"));
  EXPECT_THAT(message([](crucible_op& op) { op.kind = CRUCIBLE_OP_LIBRARY; }),
              HasSubstr("a library call without a description"));
}

#ifdef CRUCIBLE_COUNTS_DLOPEN
/// Looking for a library that is not there takes as long as a small plan.
TEST_P(CpuPlan, AReplayLooksForNoLibrary) {
  open_with(2);
  EXPECT_GT(opened, 0) << "the plugin itself";
  Buffer buffer = make_buffer(device_, 400);
  OpList list;
  list.launch(kernel("k_count"), {buffer.address()}, 100);
  Plan plan = build(list);
  CRUCIBLE_ASSERT_OK(plan.replay());
  const int before = opened;
  for (int repeat = 0; repeat < 10; ++repeat) CRUCIBLE_ASSERT_OK(plan.replay());
  EXPECT_EQ(opened, before);
}
#endif

INSTANTIATE_TEST_SUITE_P(Teams, CpuPlan, testing::Values("auto", "none"), [](const auto& info) {
  return std::string(info.param) == "none" ? "without_library" : "with_library";
});

}  // namespace
}  // namespace crucible::backend
