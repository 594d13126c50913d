// Which device goes on where one was lost: others of its plugin, then those that the configuration names, else all that
// `auto` would consider. It opens devices; planning and compiling for them is replay_run.cpp.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "frontends/replay/open_device.hpp"

namespace crucible::replay {

/// A device that could not take over.
struct PassedOver {
  std::string device;  // or a plugin that could not be loaded
  std::string reason;
};

/// Not thread-safe. Borrows what it is made from.
class NextDevice {
 public:
  NextDevice(OpenedDevice& opened, const DeviceChoice& choice, const Observer& observer, WorkloadSource workload)
      : opened_(opened), choice_(choice), observer_(observer), workload_(std::move(workload)) {}

  /// Closes the device in `opened`, which was lost or has failed, and puts the next one in its place: never the
  /// reference interpreter, never an emulated one unless an emulated one of that plugin ran before or it is named in
  /// fallback_devices, never one twice. Errors: kUnavailable with every device that was passed over and why.
  Result<void> open();
  /// The present device failed before it ran anything.
  void pass_over(const std::string& reason) { passed_over_.push_back({opened_.device->info().id, reason}); }
  const std::vector<PassedOver>& passed_over() const { return passed_over_; }

 private:
  struct Entry {
    std::string plugin, device;     // a device's id; with `address`, what the configuration says
    bool is_address = false, may_be_emulated = false;
  };
  enum class Stage : std::uint8_t { kSamePlugin, kOthers, kDone } stage_ = Stage::kSamePlugin;

  void list_same_plugin();
  void list_configured(const std::string& text);
  Result<void> list_by_score();
  Result<std::shared_ptr<backend::Device>> open_entry(const Entry& entry);

  OpenedDevice& opened_;
  const DeviceChoice& choice_;
  const Observer& observer_;
  WorkloadSource workload_;
  std::deque<Entry> entries_;
  std::set<std::string> tried_;  // ids
  std::vector<PassedOver> passed_over_;
};

}  // namespace crucible::replay
