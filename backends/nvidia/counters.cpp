// Profile table: CUPTI's clock, and its counters by the range profiler: what is counted between two readings is one
// range, in one pass, because nothing that ran can be run again for a second one.
#include <algorithm>
#include <cmath>

#include "backends/nvidia/device.hpp"
#include "backends/nvidia/tables.hpp"
#include "plugins/sdk/counters.hpp"

namespace crucible_nvidia {
namespace {

using namespace crucible;

/// Sums over all units of the device, which can be added up from range to range. A device has those that CUPTI lists
/// for its chip.
constexpr std::pair<const char*, const char*> kCounters[] = {
    {"gpu__time_duration.sum", "nanoseconds"},
    {"smsp__cycles_active.sum", "cycles in which a quarter of a multiprocessor had warps"},
    {"smsp__warps_launched.sum", "warps launched"},
    {"smsp__threads_launched.sum", "threads launched"},
    {"smsp__inst_executed.sum", "instructions that warps executed"},
    {"sm__inst_executed_pipe_tensor.sum", "instructions of the tensor cores"},
    {"l1tex__t_bytes.sum", "bytes that the first-level caches were asked for"},
    {"lts__t_bytes.sum", "bytes that the second-level cache was asked for"},
    {"dram__bytes.sum", "bytes read from the device's memory, or written to it"},
    {"dram__bytes_read.sum", "bytes read from the device's memory"},
    {"dram__bytes_write.sum", "bytes written to the device's memory"},
};
constexpr std::string_view kRollup = ".sum";
constexpr std::size_t kOneRange = 1;

/// Parameters of a CUPTI function: the size without what pads the last member behind `used`.
template <class Parameters>
Parameters sized(std::size_t used = sizeof(Parameters)) {
  Parameters parameters = {};
  parameters.structSize = used;
  return parameters;
}
#define CRUCIBLE_CUPTI_SIZE(parameters, last) (offsetof(parameters, last) + sizeof(parameters{}.last))

/// The functions of the device's CUPTI that count. Errors: UNSUPPORTED with the reason why there are none.
const Cupti& require_counting(const crucible_device& device) {
  std::string note;
  const Cupti* const cupti = find_cupti(*device.driver, device.facts, note);
  if (cupti == nullptr || !cupti->no_counters.empty())
    throw sdk::Failure(CRUCIBLE_E_UNSUPPORTED, "profile: " + (cupti == nullptr ? note : cupti->no_counters));
  return *cupti;
}

/// CUPTI's knowledge of a chip, which needs no device.
class HostObject {
 public:
  /// `availability`: what of the chip's counters a context can have; null without one.
  HostObject(const Cupti& cupti, CUdevice ordinal, const std::uint8_t* availability) : cupti_(cupti) {
    auto start = sized<CUpti_Profiler_Initialize_Params>();
    cupti.check(cupti.cuptiProfilerInitialize(&start), "cuptiProfilerInitialize");
    auto chip = sized<CUpti_Device_GetChipName_Params>();
    chip.deviceIndex = static_cast<std::size_t>(ordinal);
    cupti.check(cupti.cuptiDeviceGetChipName(&chip), "cuptiDeviceGetChipName");
    auto made = sized<CUpti_Profiler_Host_Initialize_Params>();
    made.profilerType = CUPTI_PROFILER_TYPE_RANGE_PROFILER;
    made.pChipName = chip.pChipName;
    made.pCounterAvailabilityImage = availability;
    cupti.check(cupti.cuptiProfilerHostInitialize(&made), "cuptiProfilerHostInitialize");
    object_ = made.pHostObject;
  }
  ~HostObject() {
    auto gone = sized<CUpti_Profiler_Host_Deinitialize_Params>();
    gone.pHostObject = object_;
    (void)cupti_.cuptiProfilerHostDeinitialize(&gone);
  }
  HostObject(const HostObject&) = delete;
  HostObject& operator=(const HostObject&) = delete;
  void* get() const { return object_; }

 private:
  const Cupti& cupti_;
  void* object_ = nullptr;
};

std::vector<sdk::Counter> known(const DeviceFacts& facts, std::string& why_none) {
  const Cupti* const cupti = find_cupti(cuda(), facts, why_none);
  if (cupti == nullptr) return {};
  why_none = cupti->no_counters;
  if (!why_none.empty()) return {};
  const HostObject host(*cupti, facts.device, nullptr);
  auto all = sized<CUpti_Profiler_Host_GetBaseMetrics_Params>();
  all.pHostObject = host.get();
  all.metricType = CUPTI_METRIC_TYPE_COUNTER;
  cupti->check(cupti->cuptiProfilerHostGetBaseMetrics(&all), "cuptiProfilerHostGetBaseMetrics");
  const std::vector<std::string> names(all.ppMetricNames, all.ppMetricNames + all.numMetrics);
  std::vector<sdk::Counter> counters;
  for (const auto& [name, what] : kCounters) {
    const std::string base(name, std::string_view(name).size() - kRollup.size());
    if (std::ranges::find(names, base) != names.end()) counters.push_back({name, what});
  }
  if (counters.empty()) why_none = cupti->describe() + " lists none for " + facts.architecture();
  return counters;
}

/// The range that is open: from its making to finish().
class Range {
 public:
  Range(const Cupti& cupti, CUcontext context, const std::vector<std::uint8_t>& configuration,
        std::vector<const char*>& names)
      : cupti_(cupti) {
    auto enabled = sized<CUpti_RangeProfiler_Enable_Params>();
    enabled.ctx = context;
    cupti.check(cupti.cuptiRangeProfilerEnable(&enabled), "cuptiRangeProfilerEnable");
    object_ = enabled.pRangeProfilerObject;
    try {
      start(configuration, names);
    } catch (...) {
      disable();
      throw;
    }
  }
  ~Range() { disable(); }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

  /// Ends it and gives its image. What was counted has to be done.
  const std::vector<std::uint8_t>& finish() {
    auto object = of<CUpti_RangeProfiler_Object_Params>();
    cupti_.check(cupti_.cuptiRangeProfilerPopRange(&object), "cuptiRangeProfilerPopRange");
    auto stopped =
        of<CUpti_RangeProfiler_Stop_Params>(CRUCIBLE_CUPTI_SIZE(CUpti_RangeProfiler_Stop_Params, isAllPassSubmitted));
    cupti_.check(cupti_.cuptiRangeProfilerStop(&stopped), "cuptiRangeProfilerStop");
    auto decoded = of<CUpti_RangeProfiler_DecodeData_Params>();
    cupti_.check(cupti_.cuptiRangeProfilerDecodeData(&decoded), "cuptiRangeProfilerDecodeData");
    if (stopped.isAllPassSubmitted == 0 || decoded.numOfRangeDropped != 0)
      throw sdk::Failure(CRUCIBLE_E_UNAVAILABLE,
                         "profile.read: CUPTI has not counted everything: ask for fewer counters at once");
    return image_;
  }

 private:
  template <class Parameters>
  Parameters of(std::size_t used = sizeof(Parameters)) const {
    auto parameters = sized<Parameters>(used);
    parameters.pRangeProfilerObject = object_;
    return parameters;
  }
  void start(const std::vector<std::uint8_t>& configuration, std::vector<const char*>& names) {
    auto size = of<CUpti_RangeProfiler_GetCounterDataSize_Params>();
    size.pMetricNames = names.data();
    size.numMetrics = names.size();
    size.maxNumOfRanges = kOneRange;
    size.maxNumRangeTreeNodes = kOneRange;
    cupti_.check(cupti_.cuptiRangeProfilerGetCounterDataSize(&size), "cuptiRangeProfilerGetCounterDataSize");
    image_.resize(size.counterDataSize);
    auto image = of<CUpti_RangeProfiler_CounterDataImage_Initialize_Params>();
    image.counterDataSize = image_.size();
    image.pCounterData = image_.data();
    cupti_.check(cupti_.cuptiRangeProfilerCounterDataImageInitialize(&image),
                 "cuptiRangeProfilerCounterDataImageInitialize");
    auto set = of<CUpti_RangeProfiler_SetConfig_Params>(
        CRUCIBLE_CUPTI_SIZE(CUpti_RangeProfiler_SetConfig_Params, targetNestingLevel));
    set.configSize = configuration.size();
    set.pConfig = configuration.data();
    set.counterDataImageSize = image_.size();
    set.pCounterDataImage = image_.data();
    set.range = CUPTI_UserRange;
    set.replayMode = CUPTI_UserReplay;
    set.maxRangesPerPass = kOneRange;
    set.numNestingLevels = set.minNestingLevel = set.targetNestingLevel = 1;
    cupti_.check(cupti_.cuptiRangeProfilerSetConfig(&set), "cuptiRangeProfilerSetConfig");
    auto object = of<CUpti_RangeProfiler_Object_Params>();
    cupti_.check(cupti_.cuptiRangeProfilerStart(&object), "cuptiRangeProfilerStart");
    auto pushed = of<CUpti_RangeProfiler_PushRange_Params>();
    pushed.pRangeName = "crucible";
    cupti_.check(cupti_.cuptiRangeProfilerPushRange(&pushed), "cuptiRangeProfilerPushRange");
  }
  void disable() {
    auto object = of<CUpti_RangeProfiler_Object_Params>();
    (void)cupti_.cuptiRangeProfilerDisable(&object);
  }

  const Cupti& cupti_;
  void* object_ = nullptr;
  std::vector<std::uint8_t> image_;
};

std::vector<std::uint8_t> availability_of(const Cupti& cupti, CUcontext context) {
  auto asked = sized<CUpti_Profiler_GetCounterAvailability_Params>();
  asked.ctx = context;
  cupti.check(cupti.cuptiProfilerGetCounterAvailability(&asked), "cuptiProfilerGetCounterAvailability");
  std::vector<std::uint8_t> image(asked.counterAvailabilityImageSize);
  asked.pCounterAvailabilityImage = image.data();
  cupti.check(cupti.cuptiProfilerGetCounterAvailability(&asked), "cuptiProfilerGetCounterAvailability");
  return image;
}

/// The device's context has to be current while it is made.
class RangeCounting : public sdk::Counting {
 public:
  RangeCounting(crucible_device& device, const Cupti& cupti, const std::vector<std::string>& names)
      : device_(device), cupti_(cupti), names_(names), availability_(availability_of(cupti, device.context)),
        host_(cupti, device.facts.device, availability_.data()) {
    for (const std::string& name : names_) pointers_.push_back(name.c_str());
    configure();
    open();
  }
  ~RangeCounting() override {
    const Current current(device_, Current::EvenIfLost{});
    range_ = nullptr;
  }

  std::vector<std::uint64_t> read() override {
    const Current current(device_);
    const std::vector<std::uint8_t>& image = range_->finish();
    std::vector<double> values(names_.size());
    auto asked = sized<CUpti_Profiler_Host_EvaluateToGpuValues_Params>();
    asked.pHostObject = host_.get();
    asked.pCounterDataImage = image.data();
    asked.counterDataImageSize = image.size();
    asked.ppMetricNames = pointers_.data();
    asked.numMetrics = pointers_.size();
    asked.pMetricValues = values.data();
    cupti_.check(cupti_.cuptiProfilerHostEvaluateToGpuValues(&asked), "cuptiProfilerHostEvaluateToGpuValues");
    open();
    std::vector<std::uint64_t> counts;
    for (const double value : values) counts.push_back(static_cast<std::uint64_t>(std::llround(std::max(value, 0.0))));
    return counts;
  }

 private:
  void configure() {
    auto wanted = sized<CUpti_Profiler_Host_ConfigAddMetrics_Params>();
    wanted.pHostObject = host_.get();
    wanted.ppMetricNames = pointers_.data();
    wanted.numMetrics = pointers_.size();
    cupti_.check(cupti_.cuptiProfilerHostConfigAddMetrics(&wanted), "cuptiProfilerHostConfigAddMetrics");
    auto size = sized<CUpti_Profiler_Host_GetConfigImageSize_Params>();
    size.pHostObject = host_.get();
    cupti_.check(cupti_.cuptiProfilerHostGetConfigImageSize(&size), "cuptiProfilerHostGetConfigImageSize");
    configuration_.resize(size.configImageSize);
    auto image = sized<CUpti_Profiler_Host_GetConfigImage_Params>();
    image.pHostObject = host_.get();
    image.configImageSize = configuration_.size();
    image.pConfigImage = configuration_.data();
    cupti_.check(cupti_.cuptiProfilerHostGetConfigImage(&image), "cuptiProfilerHostGetConfigImage");
    auto passes = sized<CUpti_Profiler_Host_GetNumOfPasses_Params>();
    passes.configImageSize = configuration_.size();
    passes.pConfigImage = configuration_.data();
    cupti_.check(cupti_.cuptiProfilerHostGetNumOfPasses(&passes), "cuptiProfilerHostGetNumOfPasses");
    if (passes.numOfPasses > 1)
      throw sdk::Failure(CRUCIBLE_E_UNAVAILABLE, "profile.begin: " + device_.facts.id + " counts these " +
                                                     std::to_string(names_.size()) + " counters in " +
                                                     std::to_string(passes.numOfPasses) +
                                                     " runs, and a replay is one: ask for fewer at once");
  }
  void open() {
    range_ = nullptr;  // the old one is disabled before there is a new one
    range_ = std::make_unique<Range>(cupti_, device_.context, configuration_, pointers_);
  }

  crucible_device& device_;
  const Cupti& cupti_;
  const std::vector<std::string> names_;
  std::vector<const char*> pointers_;
  const std::vector<std::uint8_t> availability_;
  const HostObject host_;
  std::vector<std::uint8_t> configuration_;
  std::unique_ptr<Range> range_;
};

std::unique_ptr<sdk::Counting> start(crucible_device& device, const std::vector<std::string>& names) {
  const Current current(device);
  return std::make_unique<RangeCounting>(device, require_counting(device), names);
}

/// The clock that the times of activities are given in.
sdk::ClockReading clock(crucible_device& device) {
  std::string note;
  const Cupti* const cupti = find_cupti(*device.driver, device.facts, note);
  if (cupti == nullptr) throw sdk::Failure(CRUCIBLE_E_UNSUPPORTED, "profile.clock_pair: " + note);
  sdk::ClockReading reading = {.ticks_per_second = 1'000'000'000};
  cupti->check(cupti->cuptiGetTimestamp(&reading.ticks), "cuptiGetTimestamp");
  return reading;
}

DeviceFacts find(crucible_str device_id) { return find_device(cuda(), device_id); }

using Functions = sdk::ProfileFunctions<crucible_device, DeviceFacts, clock, find, known, start>;

}  // namespace

const crucible_if_profile kProfileTable = sdk::make_profile_table<Functions>();

}  // namespace crucible_nvidia
