// Xid errors: what NVIDIA's driver complains of, by number. NVML tells those that happen while somebody listens.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "backends/nvidia/nvml.hpp"

namespace crucible_nvidia {

/// Whom the driver blames for a number.
enum class XidBlame { kDevice, kProgram, kNobody };
struct XidMeaning {
  XidBlame blame = XidBlame::kDevice;
  const char* words = "";  // "" for a number that is not known: it is the device's
};
XidMeaning xid_meaning(std::uint64_t number);

/// What was heard of one device.
struct XidEvents {
  std::string refusal;                          // why nothing is heard; "" when somebody listens
  std::map<std::uint64_t, std::uint64_t> seen;  // how often each number
  bool is_lost() const { return seen.contains(79); }
  std::uint64_t blamed_on(XidBlame blame) const;
  /// "Xid 79 (fallen off the bus), Xid 31 (page fault) 2 times".
  std::string words() const;
};

/// Begins to listen at the first call for a device, in this process; each call takes what came since. Does not wait.
/// Threads: any.
XidEvents xid_events(const Nvml& nvml, nvmlDevice_t device);

}  // namespace crucible_nvidia
