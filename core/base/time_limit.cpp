#include "core/base/time_limit.hpp"

#include <ctime>

namespace crucible {

Clocks Clocks::now() {
  timespec processor{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &processor);
  return {std::chrono::steady_clock::now().time_since_epoch(),
          std::chrono::seconds(processor.tv_sec) + std::chrono::nanoseconds(processor.tv_nsec)};
}

bool TimeLimit::is_over(Clocks now) const {
  const double passed = (now.passed - start_.passed).count(), processor = (now.processor - start_.processor).count();
  return (passed > seconds_ && processor > seconds_) || passed > kPatience * seconds_;
}

}  // namespace crucible
