// What an emulated device did, for emulated profilers: each launch, copy and fill of its streams is told to one
// listener, with what it was, when it ran and what it worked. Times are those of events: the machine's, or with
// CRUCIBLE_EMU_TIMING=roofline the model's.
#pragma once

#include <cstdint>

#include "tests/emulators/core/grid.hpp"
#include "tests/emulators/core/timing.hpp"

namespace crucible::emulator {

struct Activity {
  enum class Kind : std::uint8_t { kKernel, kCopy, kFill } kind = Kind::kKernel;
  const char* name = "";  // of a kernel; lives only during the call
  std::uint64_t begin_ns = 0, end_ns = 0;
  std::uint32_t grid[3] = {1, 1, 1}, block[3] = {1, 1, 1};
  std::uint32_t static_shared_bytes = 0, dynamic_shared_bytes = 0;
  std::uint32_t device = 0;  // whose stream it was on, by index
  std::uint32_t graph = 0;   // a number for the graph that launched it; 0: none did
  std::uint64_t bytes = 0;   // of a copy or fill
  Work work = {};            // as far as it was counted: kernels' only under the model of times
  std::uint64_t threads() const { return std::uint64_t{grid[0]} * grid[1] * grid[2] * block[0] * block[1] * block[2]; }
};

/// Called in the threads of streams. Null: nobody listens.
using ActivityListener = void (*)(const Activity* activity);
/// When it returns, the old listener runs no more.
void listen_to_activities(ActivityListener listener);

/// One activity of the calling stream's thread, from here to its end. The name must outlive it.
class ActivityScope {
 public:
  explicit ActivityScope(Activity activity);
  ~ActivityScope();
  ActivityScope(const ActivityScope&) = delete;
  ActivityScope& operator=(const ActivityScope&) = delete;
  /// Adds to the activity of the calling thread, if there is one.
  static void add(const Work& work);

 private:
  Activity activity_;
  ActivityScope* outer_;
};

/// What the calling stream's thread does belongs to a graph, until its end.
class GraphScope {
 public:
  explicit GraphScope(std::uint32_t graph);
  ~GraphScope();
  GraphScope(const GraphScope&) = delete;
  GraphScope& operator=(const GraphScope&) = delete;

 private:
  std::uint32_t outer_;
};

/// That graph's number; 0: none.
std::uint32_t running_graph();

/// A launch as an activity.
Activity launch_activity(const KernelCode& kernel, const Launch& launch);

}  // namespace crucible::emulator
