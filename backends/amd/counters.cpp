// Profile table: rocprofiler-sdk's clock, and its counters by the device counting service, which counts whatever runs
// on the device: what is counted between two readings is one start of the service's context, sampled at its end.
#include <algorithm>
#include <cmath>
#include <map>

#include "backends/amd/device.hpp"
#include "backends/amd/profiler.hpp"
#include "backends/amd/tables.hpp"

namespace crucible_amd {
namespace {

using namespace crucible;

/// Counters of the hardware, which can be added up over the device's units and from reading to reading. A device has
/// those that the library lists for its architecture.
constexpr std::pair<const char*, const char*> kCounters[] = {
    {"GRBM_GUI_ACTIVE", "cycles in which the device was busy"},
    {"SPI_CSN_NUM_THREADGROUPS", "blocks launched"},
    {"SQ_WAVES", "waves launched"},
    {"SQ_BUSY_CYCLES", "cycles in which a unit had waves"},
    {"SQ_WAVE_CYCLES", "cycles of waves, each counted by itself"},
    {"SQ_INSTS_VALU", "vector instructions that waves executed"},
    {"SQ_INSTS_MFMA", "instructions of the matrix cores"},
    {"SQ_INSTS_SALU", "scalar instructions"},
    {"SQ_INSTS_LDS", "instructions that touch shared memory"},
    {"SQ_INSTS_VMEM_RD", "instructions that read memory"},
    {"SQ_INSTS_VMEM_WR", "instructions that write memory"},
    {"TCC_HIT", "requests that the second-level cache had"},
    {"TCC_MISS", "requests that the second-level cache had not"},
    {"TCC_EA_RDREQ", "reads of the device's memory"},
    {"TCC_EA_WRREQ", "writes to the device's memory"},
    {"TCC_EA0_RDREQ", "reads of the device's memory"},
    {"TCC_EA0_WRREQ", "writes to the device's memory"},
    {"GL2C_HIT", "requests that the second-level cache had"},
    {"GL2C_MISS", "requests that the second-level cache had not"},
};
constexpr std::size_t kFirstRecords = 4096,
                      kMostRecords = std::size_t{1} << 20;  // one for each unit that has the counter

using Ids = std::map<std::string, RocprofilerCounterId, std::less<>>;

/// The counters that the library knows for an agent.
Ids counters_of(const Rocprofiler& api, RocprofilerAgentId agent) {
  std::vector<RocprofilerCounterId> all;
  const auto take = [](RocprofilerAgentId, RocprofilerCounterId* counters, std::size_t count, void* user) {
    static_cast<std::vector<RocprofilerCounterId>*>(user)->assign(counters, counters + count);
    return ROCPROFILER_STATUS_SUCCESS;
  };
  api.check(api.rocprofiler_iterate_agent_supported_counters(agent, take, &all),
            "rocprofiler_iterate_agent_supported_counters");
  Ids ids;
  for (const RocprofilerCounterId counter : all) {
    RocprofilerCounterInfo info = {};
    api.check(api.rocprofiler_query_counter_info(counter, ROCPROFILER_COUNTER_INFO_VERSION_0, &info),
              "rocprofiler_query_counter_info");
    ids.emplace(info.name, counter);
  }
  return ids;
}

std::vector<sdk::Counter> known(const DeviceFacts& facts, std::string& why_none) {
  (void)hip();  // a profiler is configured before it
  Profiler* const profiler = find_profiler(facts, why_none);
  if (profiler == nullptr) return {};
  const Ids ids = counters_of(profiler->api(), profiler->agent_of(facts).id);
  std::vector<sdk::Counter> counters;
  for (const auto& [name, what] : kCounters) {
    if (ids.contains(name)) counters.push_back({name, what});
  }
  why_none = profiler->api().describe() + " lists none for this device";
  return counters;
}

/// Errors: UNSUPPORTED with the reason why there is none.
Profiler& require_profiler(const DeviceFacts& facts) {
  std::string note;
  Profiler* const profiler = find_profiler(facts, note);
  if (profiler == nullptr) throw sdk::Failure(CRUCIBLE_E_UNSUPPORTED, "profile: " + note);
  return *profiler;
}

class DeviceCounting : public sdk::Counting {
 public:
  DeviceCounting(const Rocprofiler& api, ProfiledAgent& agent, const std::vector<std::string>& names)
      : api_(api), agent_(agent) {
    const Ids ids = counters_of(api, agent.id);
    for (const std::string& name : names) counters_.push_back(ids.at(name));
    agent_.counters = {};
    api.check(api.rocprofiler_create_counter_config(agent.id, counters_.data(), counters_.size(), &agent_.counters),
              "rocprofiler_create_counter_config");
    try {
      start();
      (void)sample();  // a device that refuses does so now, not when everything has run
    } catch (...) {
      stop();
      throw;
    }
  }
  ~DeviceCounting() override { stop(); }

  std::vector<std::uint64_t> read() override {
    std::vector<std::uint64_t> counts;
    for (const double value : sample())
      counts.push_back(static_cast<std::uint64_t>(std::llround(std::max(value, 0.0))));
    // Whether a second sample counts from the first or from the start is not documented: each start has one that is
    // used.
    api_.check(api_.rocprofiler_stop_context(agent_.counting), "rocprofiler_stop_context");
    start();
    return counts;
  }

 private:
  void start() { api_.check(api_.rocprofiler_start_context(agent_.counting), "rocprofiler_start_context"); }
  void stop() {
    (void)api_.rocprofiler_stop_context(agent_.counting);
    (void)api_.rocprofiler_destroy_counter_config(agent_.counters);
  }

  /// Sums over all units, in the order of the names.
  std::vector<double> sample() {
    std::vector<RocprofilerCounterRecord> records(kFirstRecords);
    for (;;) {
      std::size_t count = records.size();
      const RocprofilerStatus status = api_.rocprofiler_sample_device_counting_service(
          agent_.counting, 0, ROCPROFILER_COUNTER_FLAG_NONE, records.data(), &count);
      if (status == ROCPROFILER_STATUS_ERROR_OUT_OF_RESOURCES && records.size() < kMostRecords) {
        records.resize(2 * records.size());
        continue;
      }
      api_.check(status, "rocprofiler_sample_device_counting_service");
      records.resize(count);
      break;
    }
    std::vector<double> sums(counters_.size(), 0);
    for (const RocprofilerCounterRecord& record : records) {
      RocprofilerCounterId counter;
      api_.check(api_.rocprofiler_query_record_counter_id(record.id, &counter), "rocprofiler_query_record_counter_id");
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += counters_[i].handle == counter.handle ? record.value : 0;
    }
    return sums;
  }

  const Rocprofiler& api_;
  ProfiledAgent& agent_;
  std::vector<RocprofilerCounterId> counters_;
};

std::unique_ptr<sdk::Counting> start(crucible_device& device, const std::vector<std::string>& names) {
  Profiler& profiler = require_profiler(device.facts);
  return std::make_unique<DeviceCounting>(profiler.api(), profiler.agent_of(device.facts), names);
}

/// The clock that the times of dispatches are given in.
sdk::ClockReading clock(crucible_device& device) {
  const Rocprofiler& api = require_profiler(device.facts).api();
  sdk::ClockReading reading = {.ticks_per_second = 1'000'000'000};
  api.check(api.rocprofiler_get_timestamp(&reading.ticks), "rocprofiler_get_timestamp");
  return reading;
}

DeviceFacts find(crucible_str device_id) { return find_device(hip(), device_id); }

using Functions = sdk::ProfileFunctions<crucible_device, DeviceFacts, clock, find, known, start>;

}  // namespace

const crucible_if_profile kProfileTable = sdk::make_profile_table<Functions>();

}  // namespace crucible_amd
