// For programs in which nothing says where an iteration ends: looks at the ops as they come, by operator and sizes
// alone, until a sequence of them repeats, and then says at which op an iteration begins. It goes on looking while
// iterations are recorded, so that it knows when they are none. Nothing is recorded here; kernels.hpp installs the
// kernel that asks it.
#pragma once

#include <ATen/core/ivalue.h>
#include <Python.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <optional>
#include <thread>

#include "core/trace/period.hpp"
#include "frontends/torch/operators.hpp"

namespace crucible::recorder {

/// Threads: the one that called start(), holding the GIL or not; ops of other threads are not looked at.
class Scout {
 public:
  static Scout& instance();

  /// Begins to look at the ops of the calling thread; `trains`: the program has made a backward pass already, so that
  /// an iteration has one. `tell` is called, with the GIL, with what has happened:
  /// "boundary" at the first op of each iteration from the one after `passed` whole ones on, "broken" when the ops have
  /// ceased to repeat, "backward" when what repeated has no backward pass and the program begins its first.
  void start(PyObject* tell, std::uint64_t passed, bool trains);
  void stop();
  bool is_looking() const { return looking_.load(std::memory_order_acquire); }
  /// A backward pass begins: in a program that has any, an iteration has at least one.
  void note_backward();
  /// An op is about to run with these arguments.
  void before_op(const Operator& op, const c10::Stack& stack);
  /// Ops of an iteration; 0 while that is not known.
  std::uint64_t period() const { return period_; }

 private:
  struct Write {
    std::uint64_t position = 0;
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
  };
  std::uint64_t hash(const Operator& op, const c10::Stack& stack) const;
  void note_writes(const Operator& op, const c10::Stack& stack);
  void look_for_period();
  bool has_backward_in_each(std::uint64_t period) const;
  std::uint64_t choose_boundary() const;
  void call(const char* event);

  std::atomic<bool> looking_{false};
  bool calling_ = false;  // Python is being told: what it runs is not the program's
  std::atomic<std::thread::id> thread_{};
  PyObject* tell_ = nullptr;
  std::uint64_t passed_ = 0;
  std::optional<trace::PeriodFinder> finder_;
  bool trains_ = false;                  // there was a backward pass
  std::deque<std::uint64_t> backwards_;  // how many ops there had been when one began
  std::uint64_t longest_broken_ = 0;
  std::uint64_t period_ = 0;
  std::uint64_t boundary_ = 0;  // iterations begin at ops whose number is this modulo the period
  std::uint64_t start_ = 0;     // of the run of repetitions
  std::deque<Write> writes_;    // the latest in-place writes
};

}  // namespace crucible::recorder
