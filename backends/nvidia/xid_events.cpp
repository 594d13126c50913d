// Listening for Xid errors: see xid_events.hpp. Numbers and their meaning are of NVIDIA's "XID Errors"
// (docs.nvidia.com/deploy/xid-errors).
#include "backends/nvidia/xid_events.hpp"

#include <algorithm>
#include <mutex>

#include "plugins/sdk/health_report.hpp"

namespace crucible_nvidia {
namespace {

struct Known {
  std::uint64_t number;
  XidMeaning meaning;
};
constexpr Known kKnown[] = {
    {13, {XidBlame::kProgram, "exception in a kernel"}},
    {31, {XidBlame::kProgram, "page fault of a kernel"}},
    {43, {XidBlame::kProgram, "a program's channel was stopped"}},
    {45, {XidBlame::kProgram, "a program's channels were ended"}},
    {48, {XidBlame::kDevice, "error of the memory that was not corrected"}},
    {62, {XidBlame::kDevice, "micro-controller halted"}},
    {63, {XidBlame::kNobody, "a row or page of the memory was marked for repair"}},
    {64, {XidBlame::kDevice, "a row or page of the memory could not be marked for repair"}},
    {74, {XidBlame::kDevice, "error of an NVLink"}},
    {79, {XidBlame::kDevice, "fallen off the bus"}},
    {92, {XidBlame::kDevice, "many corrected errors of the memory"}},
    {94, {XidBlame::kDevice, "contained error of the memory"}},
    {95, {XidBlame::kDevice, "uncontained error of the memory"}},
    {119, {XidBlame::kDevice, "system processor does not answer"}},
    {120, {XidBlame::kDevice, "error of the system processor"}},
    {140, {XidBlame::kDevice, "error of the memory that was not recovered from"}},
};

struct Listener {
  nvmlEventSet_t set = nullptr;
  XidEvents events;
};

struct Listeners {
  std::mutex mutex;
  std::map<nvmlDevice_t, Listener> all;  // never freed: the library is not either
};

void begin(const Nvml& nvml, nvmlDevice_t device, Listener& listener) {
  if (nvml.nvmlEventSetCreate == nullptr || nvml.nvmlDeviceRegisterEvents == nullptr ||
      nvml.nvmlEventSetWait_v2 == nullptr) {
    listener.events.refusal = "NVML (" + nvml.file + ") has no event sets: a newer driver has them";
    return;
  }
  nvmlReturn_t code = nvml.nvmlEventSetCreate(&listener.set);
  if (code == NVML_SUCCESS) code = nvml.nvmlDeviceRegisterEvents(device, nvmlEventTypeXidCriticalError, listener.set);
  if (code == NVML_SUCCESS) return;
  listener.events.refusal = code == NVML_ERROR_NOT_SUPPORTED ? "the driver tells no events of this device"
                            : code == NVML_ERROR_NO_PERMISSION
                                ? "not permitted: ask as root"
                                : "nvmlDeviceRegisterEvents: error " + std::to_string(code);
}

}  // namespace

XidMeaning xid_meaning(std::uint64_t number) {
  const auto found =
      std::find_if(std::begin(kKnown), std::end(kKnown), [&](const Known& known) { return known.number == number; });
  return found == std::end(kKnown) ? XidMeaning() : found->meaning;
}

std::uint64_t XidEvents::blamed_on(XidBlame blame) const {
  std::uint64_t count = 0;
  for (const auto& [number, times] : seen) {
    if (xid_meaning(number).blame == blame) count += times;
  }
  return count;
}

std::string XidEvents::words() const {
  std::string text;
  for (const auto& [number, times] : seen) {
    const std::string meaning = xid_meaning(number).words;
    crucible::sdk::add_to_list(text, "Xid " + std::to_string(number) + (meaning.empty() ? "" : " (" + meaning + ")") +
                                         (times > 1 ? " " + std::to_string(times) + " times" : ""));
  }
  return text;
}

XidEvents xid_events(const Nvml& nvml, nvmlDevice_t device) {
  static Listeners& listeners = *new Listeners;
  const std::lock_guard lock(listeners.mutex);
  const auto [entry, is_new] = listeners.all.try_emplace(device);
  Listener& listener = entry->second;
  if (is_new) begin(nvml, device, listener);
  constexpr int kAtOnce = 1000;  // a driver that has no end of events does not keep the caller
  for (int i = 0; listener.events.refusal.empty() && i < kAtOnce; ++i) {
    nvmlEventData_t event = {};
    const nvmlReturn_t code = nvml.nvmlEventSetWait_v2(listener.set, &event, 0);
    if (code == NVML_ERROR_GPU_IS_LOST) ++listener.events.seen[79];
    if (code != NVML_SUCCESS) break;  // NVML_ERROR_TIMEOUT: nothing more
    if ((event.eventType & nvmlEventTypeXidCriticalError) != 0) ++listener.events.seen[event.eventData];
  }
  return listener.events;
}

}  // namespace crucible_nvidia
