// The turns and meetings of a block's threads: see block_runner.hpp.
#include "tests/emulators/core/block_runner.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "tests/emulators/core/settings.hpp"

namespace crucible::emulator {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kSharedAlignment = 128;
constexpr int kFresh = 0xCD;
constexpr std::uint32_t kBarriers = 16;

thread_local BlockRunner* current = nullptr;

std::size_t round_up(std::size_t value, std::size_t step) { return (value + step - 1) / step * step; }

}  // namespace

BlockRunner::BlockRunner()
    : threads_(kMaximumBlockThreads),
      state_(kMaximumBlockThreads),
      offered_(kMaximumBlockThreads),
      present_(kMaximumBlockThreads) {}

BlockRunner::~BlockRunner() {
  if (shared_pages_ != nullptr) munmap(shared_pages_, shared_page_bytes_);
}

void BlockRunner::abandon() {
  if (fibers_ != nullptr) fibers_->abandon();
}

/// Shared memory that ends at a page that nobody may touch.
void BlockRunner::set_shared(std::uint32_t bytes) {
  const std::size_t usable = round_up(std::max<std::size_t>(bytes, 1), kPage);
  if (shared_page_bytes_ < usable + kPage) {
    if (shared_pages_ != nullptr) munmap(shared_pages_, shared_page_bytes_);
    shared_page_bytes_ = usable + kPage;
    void* const mapped = mmap(nullptr, shared_page_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) give_up("there is no memory for " + std::to_string(bytes) + " bytes of shared memory");
    shared_pages_ = static_cast<char*>(mapped);
    mprotect(shared_pages_ + usable, kPage, PROT_NONE);
  }
  block_.shared = shared_pages_ + shared_page_bytes_ - kPage - round_up(bytes, kSharedAlignment);
  std::memset(block_.shared, kFresh, bytes);
}

void BlockRunner::prepare(const KernelCode& kernel, const Launch& launch, std::array<std::uint32_t, 3> at) {
  kernel_ = &kernel;
  const std::uint32_t n = launch.block[0] * launch.block[1] * launch.block[2];
  block_ = {.nx = launch.block[0],
            .ny = launch.block[1],
            .nz = launch.block[2],
            .gx = launch.grid[0],
            .gy = launch.grid[1],
            .gz = launch.grid[2],
            .bx = at[0],
            .by = at[1],
            .bz = at[2],
            .thread_count = n,
            .warp = kernel.warp,
            .dynamic_shared_bytes = launch.dynamic_shared_bytes,
            .shared = nullptr,
            .arguments = launch.arguments,
            .threads = threads_.data(),
            .offered = offered_.data(),
            .present = present_.data(),
            .trapped = 0,
            .wait = kernel.fibers ? &BlockRunner::wait : nullptr,
            .observer = nullptr};
  const std::uint32_t shared_bytes = kernel.shared_bytes + launch.dynamic_shared_bytes;
  set_shared(shared_bytes);
  const std::size_t local = round_up(kernel.local_bytes, 16);
  const std::uint32_t threads = kernel.block != nullptr ? 1 : n;
  if (local_.size() < local * threads) local_.resize(local * threads);
  if (save_.size() < std::size_t{kernel.save_words} * threads) save_.resize(std::size_t{kernel.save_words} * threads);
  for (std::uint32_t i = 0; i < threads; ++i) {
    EmuThread& thread = threads_[i];
    thread = {};
    thread.x = i % block_.nx;
    thread.y = i / block_.nx % block_.ny;
    thread.z = i / block_.nx / block_.ny;
    thread.linear = i;
    thread.local = local_.data() + local * i;
    thread.save = save_.data() + std::size_t{kernel.save_words} * i;
    state_[i] = kRunning;
  }
  if (kernel.observed)
    block_.observer =
        observer_.begin_block({block_.shared, shared_bytes}, {local_.data(), local_.size()}, kernel.warp, n);
  if (kernel.before_block) kernel.before_block();
}

Outcome BlockRunner::run(const KernelCode& kernel, const Launch& launch, std::array<std::uint32_t, 3> block,
                         bool warps_reversed, const std::atomic<bool>* cancel) {
  prepare(kernel, launch, block);
  const Outcome outcome = run_prepared(kernel, warps_reversed, cancel);
  return outcome == Outcome::kDone && kernel.races && race() ? Outcome::kRace : outcome;
}

Outcome BlockRunner::run_prepared(const KernelCode& kernel, bool warps_reversed, const std::atomic<bool>* cancel) {
  if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) return Outcome::kCancelled;
  if (kernel.block != nullptr) {
    kernel.block(&block_, threads_.data());
    return block_.trapped != 0 ? Outcome::kTrap : Outcome::kDone;
  }
  if (kernel.fibers && fibers_ == nullptr) fibers_ = std::make_unique<Fibers>(kMaximumBlockThreads);
  current = this;
  const Outcome outcome = run_threads(warps_reversed, cancel);
  current = nullptr;
  if (outcome != Outcome::kDone) abandon();
  return outcome;
}

Outcome BlockRunner::run_threads(bool warps_reversed, const std::atomic<bool>* cancel) {
  const std::uint32_t n = block_.thread_count, warp = block_.warp, warps = (n + warp - 1) / warp;
  live_ = n;
  while (live_ > 0) {
    bool progress = false, trapped = false;
    for (std::uint32_t i = 0; i < warps; ++i) {
      const std::uint32_t first = (warps_reversed ? warps - 1 - i : i) * warp;
      progress |= run_warp(first, std::min(n, first + warp), trapped);
      if (trapped) return Outcome::kTrap;
    }
    progress |= release_barriers();
    if (live_ > 0 && !progress) return Outcome::kDivergentMeeting;
    if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) return Outcome::kCancelled;
  }
  return Outcome::kDone;
}

/// Runs a warp until all of its lanes wait for others, or have ended. True when any ran.
bool BlockRunner::run_warp(std::uint32_t first, std::uint32_t end, bool& trapped) {
  bool any = false;
  do {
    bool ran = false;
    for (std::uint32_t i = first; i < end; ++i) {
      if (state_[i] != kRunning) continue;
      ran = true;
      state_[i] = step(i);
      if (state_[i] == EMU_DONE) --live_;
      if (state_[i] == EMU_TRAP || block_.trapped != 0) {
        trapped = true;
        return true;
      }
    }
    if (!ran) return any;
    any = true;
  } while (release_warp(first, end));
  return any;
}

/// Lets a warp's complete meetings take place. Lanes without a mask meet where the earliest of them waits in the text:
/// those that are further on wait for them there, as lanes that a branch has switched off do.
bool BlockRunner::release_warp(std::uint32_t first, std::uint32_t end) {
  std::uint32_t earliest = ~0u;
  for (std::uint32_t i = first; i < end; ++i) {
    if (state_[i] == EMU_WARP && threads_[i].mask == 0) earliest = std::min(earliest, threads_[i].wait_id);
  }
  bool any = false;
  for (std::uint32_t i = first; i < end; ++i) {
    EmuThread& thread = threads_[i];
    thread.in_meeting = 0;
    if (state_[i] != EMU_WARP) continue;
    bool complete = thread.mask != 0 || thread.wait_id == earliest;
    for (std::uint32_t j = first; complete && j < end; ++j) {
      complete = (thread.mask >> (j - first) & 1) == 0 || state_[j] == EMU_WARP || state_[j] == EMU_DONE;
    }
    thread.in_meeting = complete ? 1 : 0;
    any |= complete;
  }
  if (!any) return false;
  if (kernel_->observed) observer_.races().warp_met(first);
  for (std::uint32_t i = first; i < end; ++i) {
    present_[i] = static_cast<std::uint8_t>(threads_[i].in_meeting);
    if (present_[i] == 0) continue;
    offered_[i] = threads_[i].value;
    state_[i] = kRunning;
  }
  return true;
}

bool BlockRunner::release_barriers() {
  bool any = false;
  for (std::uint32_t id = 0; id < kBarriers; ++id) any |= release_barrier(id);
  return any;
}

bool BlockRunner::release_barrier(std::uint32_t id) {
  std::uint32_t waiting = 0, wanted = 0, place = 0;
  bool same_place = true;
  const auto waits = [&](std::uint32_t i) { return state_[i] == EMU_BARRIER && threads_[i].wait_id == id; };
  for (std::uint32_t i = 0; i < block_.thread_count; ++i) {
    if (!waits(i)) continue;
    same_place &= waiting == 0 || threads_[i].place == place;
    place = threads_[i].place;
    ++waiting;
    wanted = std::max(wanted, threads_[i].wait_count);
  }
  if (!same_place || waiting == 0 || waiting < (wanted != 0 ? wanted : live_)) return false;
  if (kernel_->observed) observer_.races().block_met();
  for (std::uint32_t i = 0; i < block_.thread_count; ++i) {
    if (waits(i)) state_[i] = kRunning;
  }
  return true;
}

int BlockRunner::step(std::uint32_t thread) {
  if (!kernel_->fibers) return kernel_->thread(&block_, &threads_[thread]);
  fibers_->enter(thread, &BlockRunner::fiber_body, this);
  return state_[thread];
}

void BlockRunner::fiber_body(void* self, std::uint32_t thread) {
  BlockRunner& runner = *static_cast<BlockRunner*>(self);
  runner.state_[thread] = runner.kernel_->thread(&runner.block_, &runner.threads_[thread]);
  runner.fibers_->leave(thread);
}

void BlockRunner::wait(EmuBlock*, EmuThread* thread, int kind) {
  BlockRunner& runner = *current;
  runner.state_[thread->linear] = kind;
  runner.fibers_->leave(thread->linear);
}

}  // namespace crucible::emulator
