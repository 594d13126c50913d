// Streams and events of emulated devices. A stream is a thread with a queue, so that asynchrony is real and a missing
// wait can show. Threads start with work and end when there has been none for a while, so that a host which counts them
// finds none left.
//
// With CRUCIBLE_EMU_TIMING=roofline a stream has a clock of the model too: its work moves it on by what a device would
// take (Stream::advance), and times of events are times of that clock. A stream that waits for an event goes on when
// the later of the two clocks says so; work never begins before the host, which takes no time itself, has seen what it
// waited for.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

namespace crucible::emulator {

/// Work in order. Threads: any.
class Stream {
 public:
  using Work = std::function<void()>;
  using TimePoint = std::chrono::steady_clock::time_point;
  Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  /// Waits until all work is done.
  ~Stream();

  /// Runs `work` behind everything that was pushed before. Returns its ticket, 1 for the first. It must not throw.
  std::uint64_t push(Work work);
  /// Waits until the work with this ticket, and all before it, is done.
  void wait(std::uint64_t ticket) const;
  void synchronize() const;
  bool idle() const;
  /// The ticket of what was pushed last, 0 when there was nothing.
  std::uint64_t last() const;
  bool has_model() const { return has_model_; }

  // For work of a stream, which they find by the thread that it runs in.
  /// Moves the clock of the model on; nothing without one.
  static void advance(std::uint64_t ns);
  /// The clock of the model, no earlier than `other` from now on; nothing without one.
  static void join(TimePoint other);
  /// The time of the model, else the machine's.
  static TimePoint now();

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable work_came, work_done;
    std::deque<std::pair<TimePoint, Work>> queue;  // with the time of the model before which it cannot begin
    std::uint64_t pushed = 0, done = 0;
    TimePoint clock;  // of the model, behind what is done
    bool has_thread = false;
  };
  static void run(const std::shared_ptr<State>& state, bool has_model);
  // Shared with the thread, which may outlive the stream for a moment.
  std::shared_ptr<State> state_;
  const bool has_model_;
};

/// A point in a stream. Never recorded counts as reached, as with the vendors. Threads: any.
class Event {
 public:
  Event();
  /// Reached when everything pushed into the stream so far is done; what was recorded before no longer counts.
  void record(Stream& stream);
  /// What is pushed into the stream from now on runs after what is recorded now.
  void hold(Stream& stream) const;
  void wait() const;
  bool reached() const;
  bool recorded() const;
  /// When the last record was reached; nothing before that.
  std::optional<Stream::TimePoint> time() const;

 private:
  struct State {
    mutable std::mutex mutex;
    mutable std::condition_variable reached;
    std::uint64_t recorded = 0, done = 0;
    Stream::TimePoint at;
    bool has_model = false;  // `at` is of the model's clock
  };
  // Shared with work that is queued: the event may be destroyed before it runs.
  std::shared_ptr<State> state_;
};

}  // namespace crucible::emulator
