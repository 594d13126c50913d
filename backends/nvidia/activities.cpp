// Tracing by CUPTI's activity records: see activities.hpp. CUPTI has one pair of functions for the buffers of the whole
// process, without anything of the caller's, so what is traced is the process's too.
#include "backends/nvidia/activities.hpp"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "plugins/sdk/error.hpp"

namespace crucible_nvidia {

using namespace crucible;

namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20, kRecordAlignment = 8;
constexpr int kKinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                          CUPTI_ACTIVITY_KIND_MEMSET};

struct Trace {
  std::mutex one_at_a_time;
  std::mutex mutex;  // of what is below: buffers come back in threads of CUPTI's
  const Cupti* cupti = nullptr;
  std::vector<sdk::Activity> activities;
  std::size_t dropped = 0;
};
Trace& trace() {
  static Trace& all = *new Trace;  // never destroyed: CUPTI may give a buffer back at the very end
  return all;
}

void request(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(kRecordAlignment, kBufferBytes));
  *size = *buffer == nullptr ? 0 : kBufferBytes;
  *most_records = 0;  // as many as fit
}

void take(const void* record, std::vector<sdk::Activity>& into) {
  const auto& kernel = *static_cast<const CuptiKernelRecord*>(record);
  if (kernel.kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
    if (kernel.graphId == 0) return;
    into.push_back({kernel.name == nullptr ? "" : kernel.name, kernel.start, kernel.end, kernel.registersPerThread,
                    static_cast<std::uint32_t>(kernel.staticSharedMemory + kernel.dynamicSharedMemory)});
  } else if (kernel.kind == CUPTI_ACTIVITY_KIND_MEMCPY || kernel.kind == CUPTI_ACTIVITY_KIND_MEMSET) {
    const auto& transfer = *static_cast<const CuptiTransferRecord*>(record);
    if (transfer.graphId != 0) into.push_back({"", transfer.start, transfer.end});
  }
}

void complete(CUcontext context, std::uint32_t stream, std::uint8_t* buffer, std::size_t, std::size_t valid) {
  Trace& all = trace();
  const std::lock_guard lock(all.mutex);
  if (all.cupti != nullptr) {
    void* record = nullptr;
    while (all.cupti->cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) take(record, all.activities);
    std::size_t dropped = 0;
    if (all.cupti->cuptiActivityGetNumDroppedRecords(context, stream, &dropped) == CUPTI_SUCCESS)
      all.dropped += dropped;
  }
  std::free(buffer);
}

/// Traces while it lives.
class Tracing {
 public:
  explicit Tracing(const Cupti& cupti) : cupti_(cupti) {
    cupti.check(cupti.cuptiActivityRegisterCallbacks(request, complete), "cuptiActivityRegisterCallbacks");
    {
      const std::lock_guard lock(trace().mutex);
      trace().cupti = &cupti;
      trace().activities.clear();
      trace().dropped = 0;
    }
    for (const int kind : kKinds) {
      const CUptiResult code = cupti.cuptiActivityEnable(kind);
      if (code != CUPTI_SUCCESS) stop();
      cupti.check(code, "cuptiActivityEnable");
    }
  }
  ~Tracing() { stop(); }
  Tracing(const Tracing&) = delete;
  Tracing& operator=(const Tracing&) = delete;

  void flush() {
    cupti_.check(cupti_.cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "cuptiActivityFlushAll");
  }

 private:
  void stop() {
    for (const int kind : kKinds) (void)cupti_.cuptiActivityDisable(kind);
    const std::lock_guard lock(trace().mutex);
    trace().cupti = nullptr;
  }
  const Cupti& cupti_;
};

}  // namespace

std::vector<sdk::Activity> trace_graphs(const Cupti& cupti, const std::function<void()>& run) {
  Trace& all = trace();
  const std::lock_guard one(all.one_at_a_time);
  {
    Tracing tracing(cupti);
    run();
    tracing.flush();
  }
  const std::lock_guard lock(all.mutex);
  if (all.dropped != 0)
    throw sdk::Failure(CRUCIBLE_E_UNAVAILABLE,
                       cupti.describe() + " lost " + std::to_string(all.dropped) + " records of what the device did");
  std::ranges::stable_sort(all.activities, {}, &sdk::Activity::begin_ns);
  return std::exchange(all.activities, {});
}

}  // namespace crucible_nvidia
