// How many threads the next replay of a plan gets, by what the last ones cost.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace crucible_cpu {

/// Numbers of threads are tried like this: the one that is used now, and sometimes, for three replays, the next lower
/// or higher one. A number whose replays wait for threads that have no processor, and have taken longer for it than
/// they would have with fewer, is left at once; it is tried again when the time that it lost is a small part of what
/// went by since, and each time that it loses again, later. Time is the sum of the replays' own, so that nothing here
/// looks at a clock. Threads: one caller at a time.
class Pace {
 public:
  struct Settings {
    int most = 1;
    int first = 1;           // where it begins
    bool is_fixed = false;   // always `most`
    double shared_ns = 0;    // what one replay does that threads can share, as the host thinks, on one thread
  };
  /// What a replay met.
  struct Facts {
    std::int64_t ns = 0;          // from its start to its end
    std::uint32_t stalls = 0;     // waits for threads that did not run
    std::int64_t stalled_ns = 0;  // of the time, what the caller waited so
  };

  explicit Pace(const Settings& settings);

  /// Threads of the next replay.
  int threads() const { return levels_[trial_.is_on ? trial_.level : at_].threads; }
  /// After each replay that had threads() of them.
  void took(const Facts& facts);

  /// The shortest replay of late with the number in use, ns; 0: unknown.
  double least_ns() const { return levels_[at_].least_ns; }
  std::uint64_t changes() const { return changes_; }
  std::uint64_t stalls() const { return stalls_; }
  std::int64_t stalled_ns() const { return stalled_ns_; }
  /// The number in use, and why: "2 of 2: the option threads", "1 of 2: 3 times a thread had no processor, 12.5 ms were
  /// lost".
  std::string in_words() const;

 private:
  struct Level {
    int threads = 1;
    double ns = 0;         // of a replay, the mean of late; 0: unknown
    double least_ns = 0;   // the shortest of late
    double wait_ns = 0;    // how long until it is tried again
    double next_ns = 0;    // when: spent_ns_
  };
  struct Trial {
    bool is_on = false;
    std::size_t level = 0;
    int replays = 0;
    double ns = 0;
  };

  void note(Level& level, double ns, double stalled_ns);
  void go_to(std::size_t level);
  void put_off(Level& level, double lost_ns);
  void begin_trial();
  void end_trial();
  double at_most(const Level& level) const;

  bool is_fixed_;
  double shared_ns_;
  std::vector<Level> levels_;  // of more and more threads: 1, 2, 4, ... and the most
  std::size_t at_ = 0;
  Trial trial_;
  double spent_ns_ = 0;
  double lost_ns_ =
      0;            // since the number in use is: what replays took more than they would have with the next lower one
  int uneven_ = 0;  // signs of late that fewer threads may be better
  std::uint64_t replays_ = 0, changes_ = 0, stalls_ = 0;
  std::int64_t stalled_ns_ = 0;
};

}  // namespace crucible_cpu
