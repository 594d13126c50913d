// Every order in which the threads of a crew can take their steps, up to a number of times that one is interrupted or
// the system answers otherwise than usual: each piece runs once, no job begins before the one before it is done, nobody
// sleeps for ever. Threads are contexts that change places before each operation on an atomic; operations are
// sequentially consistent here, weaker orders are the thread sanitizer's (cpu_plan_test).
#include <gtest/gtest.h>
#include <ucontext.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "backends/cpu/crew.hpp"

namespace crucible_cpu {
namespace {

/// Runs a program again and again, each time with other choices, until all were made.
class Explorer {
 public:
  static Explorer& now() { return *now_; }

  explicit Explorer(unsigned deviations) : most_deviations_(deviations) { now_ = this; }

  /// Before a step of the running thread: who takes the next one.
  void step() {
    if (++steps_ > kMostSteps) fail("it goes on for ever");
    std::vector<unsigned> ready = {running_};
    for (unsigned i = 0; i < threads_.size(); ++i) {
      if (i != running_ && is_ready(i)) ready.push_back(i);
    }
    go_to(ready[choose(static_cast<unsigned>(ready.size()))]);
  }

  /// One of `count` answers; the first one is usual, and others count as interruptions do.
  unsigned choose(unsigned count) {
    if (count < 2 || (at_ >= path_.size() && deviations_ >= most_deviations_)) return 0;
    if (at_ == path_.size()) path_.push_back({0, count});
    const unsigned choice = path_[at_++].choice;
    if (choice != 0) ++deviations_;
    // A path that was cut short by the limit has no further choices.
    return choice;
  }

  void sleep(const void* word, std::uint32_t mask) {
    threads_[running_]->slept_on = word;
    threads_[running_]->mask = mask;
    go_to_any();
  }
  void wake(const void* word, std::uint32_t mask) {
    for (const auto& thread : threads_) {
      if (thread->slept_on == word && (thread->mask & mask) != 0) thread->slept_on = nullptr;
    }
  }

  void fail(const std::string& why) {
    if (failure_.empty()) failure_ = why;
    setcontext(&home_);  // the contexts of this try are left as they are
  }

  /// All orders of these threads, which `make` makes anew for each. Returns how many there were; failure() has what
  /// went wrong.
  std::uint64_t explore(const std::function<std::vector<std::function<void()>>()>& make,
                        const std::function<std::string()>& check) {
    std::uint64_t tries = 0;
    for (;;) {
      ++tries;
      run(make());
      if (failure_.empty()) failure_ = check();
      if (!failure_.empty()) return tries;
      path_.resize(at_);
      while (!path_.empty() && path_.back().choice + 1 == path_.back().count) path_.pop_back();
      if (path_.empty()) return tries;
      ++path_.back().choice;
    }
  }
  const std::string& failure() const { return failure_; }

 private:
  static constexpr std::uint64_t kMostSteps = 20000;
  static constexpr std::size_t kStack = 256 * 1024;
  struct Thread {
    ucontext_t context;
    std::unique_ptr<char[]> stack;
    std::function<void()> body;
    const void* slept_on = nullptr;
    std::uint32_t mask = 0;
    bool is_done = false;
  };
  struct Choice {
    unsigned choice, count;
  };

  bool is_ready(unsigned index) const { return !threads_[index]->is_done && threads_[index]->slept_on == nullptr; }

  void go_to(unsigned index) {
    if (index == running_) return;
    const unsigned before = running_;
    running_ = index;
    swapcontext(&threads_[before]->context, &threads_[index]->context);
  }

  /// From a thread that cannot go on; all who can are as usual as the first.
  void go_to_any() {
    std::vector<unsigned> ready;
    for (unsigned i = 0; i < threads_.size(); ++i) {
      if (is_ready(i)) ready.push_back(i);
    }
    if (ready.empty()) {
      for (const auto& thread : threads_) {
        if (!thread->is_done) fail("everybody sleeps");
      }
      setcontext(&home_);
    }
    go_to(ready[choose(static_cast<unsigned>(ready.size()))]);
  }

  static void enter() {
    Explorer& self = now();
    self.threads_[self.running_]->body();
    self.threads_[self.running_]->is_done = true;
    self.go_to_any();
  }

  void run(std::vector<std::function<void()>> bodies) {
    at_ = 0, deviations_ = 0, steps_ = 0, running_ = 0;
    while (threads_.size() < bodies.size()) {
      threads_.push_back(std::make_unique<Thread>());
      threads_.back()->stack = std::make_unique<char[]>(kStack);
    }
    for (std::size_t i = 0; i < bodies.size(); ++i) {
      Thread& thread = *threads_[i];
      thread.body = std::move(bodies[i]);
      thread.slept_on = nullptr;
      thread.is_done = false;
      getcontext(&thread.context);
      thread.context.uc_stack = {.ss_sp = thread.stack.get(), .ss_flags = 0, .ss_size = kStack};
      thread.context.uc_link = nullptr;
      makecontext(&thread.context, enter, 0);
    }
    is_home_ = false;
    getcontext(&home_);
    if (is_home_) return;
    is_home_ = true;
    setcontext(&threads_[0]->context);
  }

  static inline Explorer* now_ = nullptr;
  const unsigned most_deviations_;
  std::vector<Choice> path_;
  std::size_t at_ = 0;
  unsigned deviations_ = 0, running_ = 0;
  std::uint64_t steps_ = 0;
  std::vector<std::unique_ptr<Thread>> threads_;
  ucontext_t home_;
  volatile bool is_home_ = false;
  std::string failure_;
};

template <class T>
class ModelAtomic {
 public:
  ModelAtomic(T value) : value_(value) {}
  T load(std::memory_order) const {
    Explorer::now().step();
    return value_;
  }
  void store(T value, std::memory_order) {
    Explorer::now().step();
    value_ = value;
  }
  T exchange(T value, std::memory_order) {
    Explorer::now().step();
    return std::exchange(value_, value);
  }
  T fetch_add(T more, std::memory_order) {
    Explorer::now().step();
    return std::exchange(value_, static_cast<T>(value_ + more));
  }
  T fetch_sub(T less, std::memory_order) {
    Explorer::now().step();
    return std::exchange(value_, static_cast<T>(value_ - less));
  }
  bool compare_exchange_weak(T& expected, T wanted, std::memory_order, std::memory_order = std::memory_order_relaxed) {
    Explorer::now().step();
    if (value_ != expected) {
      expected = value_;
      return false;
    }
    value_ = wanted;
    return true;
  }
  T peek() const { return value_; }

 private:
  T value_;
};

/// Wakes nobody who need not be woken, and answers otherwise where the explorer says so.
class ModelThreads {
 public:
  template <class T>
  using Atomic = ModelAtomic<T>;

  bool is_worth_waking(double) { return Explorer::now().choose(2) == 0; }
  bool may_return() { return Explorer::now().choose(2) == 0; }
  bool gives_up() const { return false; }
  void wake(Atomic<std::uint64_t>& state, std::uint32_t mask) {
    Explorer::now().step();
    Explorer::now().wake(&state, mask);
  }

  class Patience {
   public:
    Patience(ModelThreads&, Crew<ModelThreads>& crew, unsigned) : crew_(crew) {}
    bool goes_on_spinning() {
      if (Explorer::now().choose(2) == 1) crew_.dismiss(std::max(1u, crew_.limit() / 2));
      return false;
    }
    void sleep(Atomic<std::uint64_t>& state, std::uint32_t epoch, std::uint32_t mask) {
      Explorer::now().step();  // the kernel looks and sleeps in one step
      if (static_cast<std::uint32_t>(state.peek()) == epoch) Explorer::now().sleep(&state, mask);
    }

   private:
    Crew<ModelThreads>& crew_;
  };
};

/// So many runs of jobs with these numbers of pieces.
struct Program {
  unsigned threads, runs;
  std::vector<std::uint32_t> pieces;
  unsigned deviations;

  friend void PrintTo(const Program& program, std::ostream* out) {
    *out << "up to " << program.deviations << " interruptions";
  }
};

class CrewOf : public testing::TestWithParam<Program> {};

TEST_P(CrewOf, DoesEachPieceOnceInEveryOrder) {
  Program program = GetParam();
  if (const char* more = std::getenv("CRUCIBLE_CREW_DEVIATIONS"))
    program.deviations += static_cast<unsigned>(std::atoi(more));  // 1: two minutes
  struct State {
    ModelThreads system;
    std::unique_ptr<Crew<ModelThreads>> crew;
    std::size_t opened = 0;
    std::vector<std::vector<int>> begun, done;
    const Program* program = nullptr;
    unsigned runs_done = 0;

    static bool next(void* context, Job& job) {
      auto& self = *static_cast<State*>(context);
      const std::size_t jobs = self.program->pieces.size();
      for (std::size_t j = 0; j < self.opened; ++j) {
        for (const int count : self.done[j]) {
          if (count != 1) Explorer::now().fail("a job was opened before the one before it was done");
        }
      }
      if (self.opened == (self.runs_done + 1) * jobs) return false;
      const std::uint32_t pieces = self.program->pieces[self.opened % jobs];
      self.begun.emplace_back(pieces, 0);
      self.done.emplace_back(pieces, 0);
      ++self.opened;
      job = {run, &self, pieces, 1};
      return true;
    }
    static void run(const void* context, std::uint32_t piece) {
      auto& self = *const_cast<State*>(static_cast<const State*>(context));
      const std::size_t j = self.opened - 1;
      if (piece >= self.begun[j].size() || ++self.begun[j][piece] != 1)
        Explorer::now().fail("a piece was begun twice, or is not there");
      Explorer::now().step();
      ++self.done[j][piece];
    }
  };
  auto state = std::make_unique<State>();
  Explorer explorer(program.deviations);
  const auto make = [&] {
    state = std::make_unique<State>();
    state->program = &program;
    state->crew = std::make_unique<Crew<ModelThreads>>(state->system, program.threads);
    State* const own = state.get();
    std::vector<std::function<void()>> bodies = {[own, runs = program.runs, threads = program.threads] {
      for (unsigned i = 0; i < runs; ++i) {
        own->crew->run(State::next, own, threads);
        for (const auto& job : own->done) {
          for (const int count : job) {
            if (count != 1) Explorer::now().fail("a run ended before its pieces were done");
          }
        }
        ++own->runs_done;
      }
      own->crew->stop();
    }};
    for (unsigned i = 1; i < program.threads; ++i) bodies.push_back([own, i] { own->crew->serve(i); });
    return bodies;
  };
  const auto check = [&]() -> std::string {
    return state->opened == program.runs * program.pieces.size() ? "" : "jobs are missing";
  };
  const std::uint64_t orders = explorer.explore(make, check);
  EXPECT_EQ(explorer.failure(), "") << "in order " << orders;
  EXPECT_GT(orders, 1000u);
  RecordProperty("orders", std::to_string(orders));
}

std::string words(const testing::TestParamInfo<Program>& info) {
  std::string text = std::to_string(info.param.threads) + "_threads_" + std::to_string(info.param.runs) + "_runs_of";
  for (const std::uint32_t pieces : info.param.pieces) text += "_" + std::to_string(pieces);
  return text;
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which do not go along with contexts
INSTANTIATE_TEST_SUITE_P(Model, CrewOf,
                         testing::Values(Program{2, 1, {2, 2}, 3}, Program{2, 2, {2}, 3}, Program{2, 1, {1, 3, 2}, 2},
                                         Program{3, 1, {3, 2}, 2}, Program{3, 2, {2, 3}, 2}, Program{2, 2, {2, 3}, 2}),
                         words);
#endif
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CrewOf);

}  // namespace
}  // namespace crucible_cpu
