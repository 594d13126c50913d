// The team of our own threads, used where oneDNN and its OpenMP threads are absent. Workers spin for a short while
// after a call, so that a plan's next launch finds them awake, and then sleep on a futex. One job number starts them,
// one counter tells that they are done.
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "backends/cpu/fork.hpp"
#include "backends/cpu/sdk.hpp"
#include "backends/cpu/team.hpp"

namespace crucible_cpu {
namespace {

constexpr std::chrono::microseconds kSpinTime(200);  // waking a sleeping thread costs about as much

class OwnTeam final : public Team {
 public:
  explicit OwnTeam(int size) : Team(size) {
    try {
      for (int index = 1; index < size; ++index) workers_.emplace_back([this, index] { work(index); });
    } catch (const std::system_error& error) {
      stop();
      throw Failure(CRUCIBLE_E_UNAVAILABLE, "cannot start thread " + std::to_string(workers_.size() + 1) + " of " +
                                                std::to_string(size) + ": " + error.what());
    }
  }
  ~OwnTeam() override {
    if (process_.is_this_one()) {
      stop();
    } else {
      // In a forked child there are no such threads: joining one would wait for ever, and so they stay what they are.
      [[maybe_unused]] const auto* gone = new std::vector<std::thread>(std::move(workers_));
    }
  }

  void run(TeamBody body, void* context) override {
    if (workers_.empty()) return body(context, 0, 1);
    body_ = body;
    context_ = context;
    running_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
    start_job();
    body(context, 0, size());
    for (Spin spin; running_.load(std::memory_order_acquire) != 0;) spin.wait();
  }
  const char* name() const override { return "own threads"; }

 private:
  void start_job() {
    // Sequentially consistent against the sleeper's own order: it announces itself, then looks at the job number again
    // (in the kernel), so one of the two sees the other.
    job_.fetch_add(1, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) != 0) {
      syscall(SYS_futex, &job_, FUTEX_WAKE_PRIVATE, size(), nullptr, nullptr, 0);
    }
  }

  void stop() {
    stopping_ = true;
    start_job();
    for (std::thread& worker : workers_) worker.join();
    workers_.clear();
  }

  void wait_for_job(std::uint32_t seen) {
    const auto end = std::chrono::steady_clock::now() + kSpinTime;
    Spin spin;
    for (std::uint32_t turn = 1; job_.load(std::memory_order_acquire) == seen; ++turn) {
      spin.wait();
      if (turn % 256 != 0 || std::chrono::steady_clock::now() < end) continue;
      sleepers_.fetch_add(1, std::memory_order_seq_cst);
      syscall(SYS_futex, &job_, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
      sleepers_.fetch_sub(1, std::memory_order_seq_cst);
    }
  }

  void work(int index) {
    std::uint32_t seen = 0;
    while (true) {
      wait_for_job(seen);
      ++seen;  // exactly one job later: run() does not return before every worker has done the last one
      if (stopping_) return;
      body_(context_, index, size());
      running_.fetch_sub(1, std::memory_order_release);
    }
  }

  OwnerProcess process_;
  std::vector<std::thread> workers_;
  TeamBody body_ = nullptr;  // written before job_ changes, read after
  void* context_ = nullptr;
  bool stopping_ = false;
  alignas(64) std::atomic<std::uint32_t> job_{0};
  std::atomic<int> sleepers_{0};
  alignas(64) std::atomic<int> running_{0};
};
static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t), "the kernel waits on this word");

}  // namespace

std::unique_ptr<Team> make_own_team(int size) { return std::make_unique<OwnTeam>(size); }

}  // namespace crucible_cpu
