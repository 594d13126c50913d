// How long optional work goes on. Others use the machine too: what the work may take is counted in time of a processor
// that this process really had, so that what it finds does not depend on who else was busy.
#pragma once

#include <chrono>

namespace crucible {

/// What a time limit reads.
struct Clocks {
  std::chrono::duration<double> passed{};     // since some moment
  std::chrono::duration<double> processor{};  // that the process had, all its threads together
  static Clocks now();
};

/// Begins when it is made.
class TimeLimit {
 public:
  explicit TimeLimit(double seconds, Clocks start = Clocks::now()) : seconds_(seconds), start_(start) {}

  /// When so much time has passed, and the process had as much of a processor in it; at the latest after kPatience
  /// times as much, since a device may work while the process waits.
  bool is_over(Clocks now = Clocks::now()) const;
  static constexpr double kPatience = 4;

 private:
  double seconds_;
  Clocks start_;
};

}  // namespace crucible
