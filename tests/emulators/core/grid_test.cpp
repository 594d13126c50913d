// Grids with all three kinds of code: whole blocks, resumable threads, fibers; meetings, and what goes wrong.
#include "tests/emulators/core/grid.hpp"

#include <gtest/gtest.h>
#include <signal.h>

#include <cstring>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

#include "tests/emulators/core/memory.hpp"
#include "tests/emulators/core/settings.hpp"

namespace crucible::emulator {
namespace {

struct Arguments {
  std::uint32_t* out = nullptr;
  std::uint32_t count = 0;
};

template <class T>
Launch launch_of(std::uint32_t grid, std::uint32_t block, const T& arguments, std::uint32_t dynamic = 0) {
  return {.grid = {grid, 1, 1}, .block = {block, 1, 1}, .dynamic_shared_bytes = dynamic,
          .arguments = reinterpret_cast<const char*>(&arguments)};
}

const Arguments& arguments_of(const EmuBlock* b) { return *reinterpret_cast<const Arguments*>(b->arguments); }

void fill_block(EmuBlock* b, EmuThread*) {
  const Arguments& a = arguments_of(b);
  for (std::uint32_t t = 0; t < b->thread_count; ++t) {
    const std::uint32_t i = b->bx * b->nx + t;
    if (i < a.count) a.out[i] = i + 1;
  }
}

TEST(EmulatorGrid, EveryBlockRunsOnceInEveryOrder) {
  for (const char* order : {"forward", "reverse", "shuffled"}) {
    setenv("CRUCIBLE_EMU_ORDER", order, 1);
    reload_environment();
    for (const std::uint32_t blocks : {1u, 2u, 7u, 100u, 1000u}) {
      std::vector<std::uint32_t> out(blocks * 10, 0);
      const Arguments arguments = {out.data(), blocks * 10 - 3};
      EXPECT_EQ(run_grid({.block = fill_block}, launch_of(blocks, 10, arguments)), Outcome::kDone);
      for (std::uint32_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], i < arguments.count ? i + 1 : 0) << order;
    }
  }
  unsetenv("CRUCIBLE_EMU_ORDER");
  reload_environment();
}

TEST(EmulatorGrid, BlocksRunOnSeveralThreads) {
  setenv("CRUCIBLE_EMU_THREADS", "3", 1);
  reload_environment();
  static std::mutex mutex;
  static std::set<std::thread::id> seen;
  const KernelCode code = {.block = [](EmuBlock*, EmuThread*) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    const std::lock_guard lock(mutex);
    seen.insert(std::this_thread::get_id());
  }};
  EXPECT_EQ(run_grid(code, launch_of(60, 1, 0)), Outcome::kDone);
  EXPECT_EQ(seen.size(), 3u);
  unsetenv("CRUCIBLE_EMU_THREADS");
  reload_environment();
}

int ids_thread(EmuBlock* b, EmuThread* t) {
  const std::uint32_t block = b->bx + b->gx * (b->by + b->gy * b->bz);
  const std::uint32_t thread = t->x + b->nx * (t->y + b->ny * t->z);
  if (thread != t->linear) return EMU_TRAP;
  ++arguments_of(b).out[block * b->thread_count + thread];
  return EMU_DONE;
}

TEST(EmulatorGrid, ThreeDimensions) {
  std::vector<std::uint32_t> out(2 * 3 * 4 * 5 * 2 * 3, 0);
  const Arguments arguments = {out.data(), 0};
  Launch launch = launch_of(1, 1, arguments);
  launch.grid = {2, 3, 4};
  launch.block = {5, 2, 3};
  EXPECT_EQ(run_grid({.thread = ids_thread}, launch), Outcome::kDone);
  for (const std::uint32_t times : out) EXPECT_EQ(times, 1u);
}

// A sum in shared memory by halves, with a barrier before each step: as a resumable function and on fibers.
int sum_resumable(EmuBlock* b, EmuThread* t) {
  auto* const shared = reinterpret_cast<std::uint32_t*>(b->shared);
  if (t->pc == 0) {
    shared[t->linear] = t->linear + b->bx;
    t->save[0] = b->thread_count / 2;
  } else if (t->linear < t->save[0]) {
    shared[t->linear] += shared[t->linear + t->save[0]];
  }
  if (t->pc != 0) t->save[0] /= 2;
  t->pc = 1;
  t->wait_id = t->wait_count = 0;
  if (t->save[0] > 0) return EMU_BARRIER;
  if (t->linear == 0) arguments_of(b).out[b->bx] = shared[0];
  return EMU_DONE;
}

void barrier(EmuBlock* b, EmuThread* t) {
  t->wait_id = t->wait_count = 0;
  t->mask = 0;
  b->wait(b, t, EMU_BARRIER);
}

int sum_fiber(EmuBlock* b, EmuThread* t) {
  auto* const shared = reinterpret_cast<std::uint32_t*>(b->shared);
  shared[t->linear] = t->linear + b->bx;
  for (std::uint32_t half = b->thread_count / 2; half > 0; half /= 2) {
    barrier(b, t);
    if (t->linear < half) shared[t->linear] += shared[t->linear + half];
  }
  if (t->linear == 0) arguments_of(b).out[b->bx] = shared[0];
  return EMU_DONE;
}

TEST(EmulatorGrid, BarriersAsResumableFunctionAndOnFibers) {
  const KernelCode resumable = {.thread = sum_resumable, .save_words = 1};
  const KernelCode fibers = {.thread = sum_fiber, .fibers = true};
  for (const KernelCode& code : {resumable, fibers}) {
    for (const std::uint32_t threads : {1u, 64u, 1024u}) {
      std::vector<std::uint32_t> out(33, 0);
      const Arguments arguments = {out.data(), 0};
      EXPECT_EQ(run_grid(code, launch_of(33, threads, arguments, threads * 4)), Outcome::kDone);
      for (std::uint32_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], threads * (threads - 1) / 2 + threads * i);
    }
  }
}

// Lanes with and without a branch: those inside it meet first, then all.
int branch_fiber(EmuBlock* b, EmuThread* t) {
  const auto meet = [&](std::uint32_t place) {
    t->wait_id = place;
    t->mask = 0;
    t->value = 1;
    b->wait(b, t, EMU_WARP);
    const std::uint32_t first = t->linear - t->linear % b->warp;
    std::uint32_t there = 0;
    for (std::uint32_t i = first; i < first + b->warp && i < b->thread_count; ++i) there += b->present[i];
    return there;
  };
  std::uint32_t inside = 0;
  if (t->linear % 3 == 0) inside = meet(1);
  const std::uint32_t outside = meet(2);
  arguments_of(b).out[t->linear] = inside * 1000 + outside;
  return EMU_DONE;
}

TEST(EmulatorGrid, AWarpsLanesMeetWhereTheyAre) {
  for (const std::uint32_t warp : {32u, 64u}) {
    std::vector<std::uint32_t> out(128, 0);
    const Arguments arguments = {out.data(), 0};
    const KernelCode code = {.thread = branch_fiber, .fibers = true, .warp = warp};
    EXPECT_EQ(run_grid(code, launch_of(1, 128, arguments)), Outcome::kDone);
    for (std::uint32_t i = 0; i < 128; ++i) {
      const std::uint32_t first = i - i % warp;
      std::uint32_t thirds = 0;
      for (std::uint32_t j = first; j < first + warp; ++j) thirds += j % 3 == 0;
      EXPECT_EQ(out[i], (i % 3 == 0 ? thirds * 1000 : 0) + warp) << i;
    }
  }
}

TEST(EmulatorGrid, AMaskWaitsForItsLanes) {
  // Lanes 0 and 31 exchange values by mask while the others have ended.
  const KernelCode code = {.thread = [](EmuBlock* b, EmuThread* t) -> int {
    if (t->linear != 0 && t->linear != 31) return EMU_DONE;
    if (t->pc == 0) {
      t->pc = 1;
      t->mask = 0x80000001u;
      t->value = t->linear + 100;
      return EMU_WARP;
    }
    arguments_of(b).out[t->linear] = static_cast<std::uint32_t>(b->offered[31 - t->linear]);
    return EMU_DONE;
  }};
  std::vector<std::uint32_t> out(32, 0);
  const Arguments arguments = {out.data(), 0};
  EXPECT_EQ(run_grid(code, launch_of(1, 32, arguments)), Outcome::kDone);
  EXPECT_EQ(out[0], 131u);
  EXPECT_EQ(out[31], 100u);
}

int diverge_fiber(EmuBlock* b, EmuThread* t) {
  if (t->linear < 32) {
    barrier(b, t);
  } else {
    t->wait_id = 1;  // another barrier: the two halves wait for each other for ever
    t->wait_count = 0;
    b->wait(b, t, EMU_BARRIER);
  }
  return EMU_DONE;
}

TEST(EmulatorGrid, ADivergentBarrierIsFoundAndTheNextGridRuns) {
  const KernelCode code = {.thread = diverge_fiber, .fibers = true};
  EXPECT_EQ(run_grid(code, launch_of(4, 64, 0)), Outcome::kDivergentMeeting);
  std::vector<std::uint32_t> out(8, 0);
  const Arguments arguments = {out.data(), 0};
  EXPECT_EQ(run_grid({.thread = sum_fiber, .fibers = true}, launch_of(8, 64, arguments, 256)), Outcome::kDone);
  EXPECT_EQ(out[3], 64u * 63 / 2 + 64 * 3);
}

int two_places_fiber(EmuBlock* b, EmuThread* t) {
  t->place = 1 + t->linear % 2;
  barrier(b, t);
  return EMU_DONE;
}

TEST(EmulatorGrid, TwoBarriersOfTheTextAreNotOne) {
  const KernelCode code = {.thread = two_places_fiber, .fibers = true};
  EXPECT_EQ(run_grid(code, launch_of(1, 64, 0)), Outcome::kDivergentMeeting);
  EXPECT_EQ(run_grid(code, launch_of(1, 1, 0)), Outcome::kDone);
}

TEST(EmulatorGrid, ATrapStopsTheGrid) {
  const KernelCode code = {
      .thread = [](EmuBlock*, EmuThread* t) -> int { return t->linear == 7 ? EMU_TRAP : EMU_DONE; }};
  EXPECT_EQ(run_grid(code, launch_of(2, 32, 0)), Outcome::kTrap);
}

void write_at(EmuBlock* b, EmuThread*) { *arguments_of(b).out = 5; }
int write_at_fiber(EmuBlock* b, EmuThread* t) {
  barrier(b, t);
  *arguments_of(b).out = 5;
  return EMU_DONE;
}

TEST(EmulatorGrid, AWildAccessIsReported) {
  Memory memory(1, 1 << 20, false);
  const std::uint64_t address = memory.allocate(0, 4096).value();
  const Arguments beyond = {reinterpret_cast<std::uint32_t*>(host_address(address) + 4096), 0};
  const Arguments nothing = {nullptr, 0};
  EXPECT_EQ(run_grid({.block = write_at}, launch_of(1, 1, beyond)), Outcome::kIllegalAddress);
  EXPECT_EQ(run_grid({.block = write_at}, launch_of(50, 1, nothing)), Outcome::kIllegalAddress);
  EXPECT_EQ(run_grid({.thread = write_at_fiber, .fibers = true}, launch_of(3, 64, beyond)), Outcome::kIllegalAddress);
  std::vector<std::uint32_t> out(8, 0);
  const Arguments arguments = {out.data(), 0};
  EXPECT_EQ(run_grid({.thread = sum_fiber, .fibers = true}, launch_of(8, 64, arguments, 256)), Outcome::kDone);
}

TEST(EmulatorGrid, SharedMemoryEndsAtAGuardPageAndIsFresh) {
  const KernelCode code = {.block = [](EmuBlock* b, EmuThread*) {
    auto* const shared = reinterpret_cast<volatile unsigned char*>(b->shared);
    if (shared[0] != 0xCD || shared[511] != 0xCD) b->trapped = 1;
    shared[arguments_of(b).count] = 0;
  }, .shared_bytes = 256};
  const Arguments inside = {nullptr, 511}, outside = {nullptr, 512};
  EXPECT_EQ(run_grid(code, launch_of(3, 1, inside, 256)), Outcome::kDone);
  EXPECT_EQ(run_grid(code, launch_of(1, 1, outside, 256)), Outcome::kIllegalAddress);
}

// A kernel that reads an address from device memory and follows it, tag and all.
void follow(EmuBlock* b, EmuThread*) {
  auto* const* table = reinterpret_cast<std::uint32_t* const*>(arguments_of(b).out);
  for (std::uint32_t i = 0; i < arguments_of(b).count; ++i) table[i][i] += i + 1;
}

TEST(EmulatorGrid, AddressesInDeviceMemoryAreFollowed) {
#if !defined(__x86_64__)
  GTEST_SKIP() << "x86-64 only";
#endif
  Memory memory(1, 1 << 20, false);
  std::vector<std::uint64_t> table;
  for (int i = 0; i < 20; ++i) {
    table.push_back(memory.allocate(0, 80).value());
    std::memset(host_address(table.back()), 0, 80);
  }
  const Arguments arguments = {reinterpret_cast<std::uint32_t*>(table.data()), 20};
  EXPECT_EQ(run_grid({.block = follow}, launch_of(1, 1, arguments)), Outcome::kDone);
  for (std::uint32_t i = 0; i < 20; ++i) {
    EXPECT_EQ(reinterpret_cast<std::uint32_t*>(host_address(table[i]))[i], i + 1);
  }
  table[3] += std::uint64_t{1} << 40;
  EXPECT_EQ(run_grid({.block = follow}, launch_of(1, 1, arguments)), Outcome::kIllegalAddress);
}

TEST(EmulatorGrid, TheHostsHandlerIsBackAfterwards) {
  struct sigaction own = {}, now = {};
  own.sa_handler = SIG_IGN;
  struct sigaction before;
  sigaction(SIGSEGV, &own, &before);
  EXPECT_EQ(run_grid({.block = write_at}, launch_of(1, 1, Arguments{})), Outcome::kIllegalAddress);
  sigaction(SIGSEGV, &before, &now);
  EXPECT_EQ(now.sa_handler, SIG_IGN);
}

int endless_fiber(EmuBlock* b, EmuThread* t) {
  while (true) barrier(b, t);
}

TEST(EmulatorGrid, IsCancelled) {
  std::atomic<bool> cancel = false;
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    cancel = true;
  });
  EXPECT_EQ(run_grid({.thread = endless_fiber, .fibers = true}, launch_of(2, 64, 0), &cancel), Outcome::kCancelled);
  later.join();
}

TEST(EmulatorGrid, SeveralAtATime) {
  std::vector<std::thread> callers;
  std::atomic<int> right = 0;
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&] {
      for (int round = 0; round < 20; ++round) {
        std::vector<std::uint32_t> out(16, 0);
        const Arguments arguments = {out.data(), 0};
        run_grid({.thread = sum_fiber, .fibers = true}, launch_of(16, 128, arguments, 512));
        right += out[15] == 128u * 127 / 2 + 128 * 15;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(right, 80);
}

}  // namespace
}  // namespace crucible::emulator
