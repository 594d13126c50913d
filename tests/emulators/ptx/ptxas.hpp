// What NVIDIA's own ptxas makes of a text for an H100. It is in libnvJitLink, which needs no device.
#pragma once

#include <cstdint>
#include <expected>
#include <map>
#include <string>

namespace crucible::emulators::ptx {

struct PtxasNumbers {
  std::uint32_t registers = 0;      // of a thread
  std::uint32_t spilled_bytes = 0;  // stored to local memory for want of registers
};

/// By kernel. `library`: the file libnvJitLink.so.13. Errors: that it does not load, or ptxas' words. Threads: any.
std::expected<std::map<std::string, PtxasNumbers>, std::string> ask_ptxas(const std::string& ptx,
                                                                          const std::string& library);

/// Reads what ptxas says under -v.
std::map<std::string, PtxasNumbers> read_ptxas(const std::string& log);

}  // namespace crucible::emulators::ptx
