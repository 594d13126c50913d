// Library calls on their way to a plugin: the description that the ABI wants, and the plugin's answer, asked once per
// distinct call.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "core/base/result.hpp"
#include "core/kernel/schedule.hpp"
#include "plugins/loader/backend.hpp"

namespace crucible::runtime {

/// The ABI's description of a call. Errors: kBadInput when a view has more than CRUCIBLE_MAX_RANK dimensions.
Result<crucible_library_desc> describe(const kernel::LibraryCall& call);

/// What kernels are shaped for: the device's properties "threads" and "register_bytes", 0 where it does not say.
kernel::DeviceShape shape_of(const backend::Device& device);

/// Whether the device asks how large the buffers of its launches are (plugins/abi/sized_launch.hpp).
bool wants_buffer_bytes(const backend::Device& device);

/// One such size, to stand behind the kernel's scalars.
crucible_scalar buffer_bytes(std::uint64_t bytes, bool may_write);

/// Asks a device's library which calls it takes, and remembers. Not thread-safe.
class LibraryClaims {
 public:
  explicit LibraryClaims(std::shared_ptr<backend::Device> device) : device_(std::move(device)) {}

  /// True when the library takes the call. A library that fails is a library that declines; see failure().
  bool takes(const kernel::LibraryCall& call) { return answer(call).taken; }
  /// Workspace of a call that was taken. Units: bytes.
  std::uint64_t scratch_bytes(const kernel::LibraryCall& call) { return answer(call).scratch_bytes; }
  /// What went wrong other than "not supported", the first time; "" when nothing did.
  const std::string& failure() const { return failure_; }

 private:
  struct Answer {
    bool taken = false;
    std::uint64_t scratch_bytes = 0;
  };
  const Answer& answer(const kernel::LibraryCall& call);

  std::shared_ptr<backend::Device> device_;  // shared: the claims may outlive the caller's handle
  std::map<std::string, Answer> answers_;    // by the bytes of the description
  std::string failure_;
};

}  // namespace crucible::runtime
