// MIOpen, found at run time, and convolutions by it: which of its solutions does one of some shape is asked once,
// compiled and kept. Convolutions are enqueued here; plans run them between their graphs.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "backends/amd/hip.hpp"
#include "backends/amd/miopen_types.hpp"
#include "plugins/sdk/convolution.hpp"

struct crucible_device;

namespace crucible_amd {

struct DeviceFacts;

struct Miopen {
#define CRUCIBLE_MIOPEN_MEMBER(name, result, parameters) result(*name) parameters = nullptr;
  CRUCIBLE_MIOPEN_FUNCTIONS(CRUCIBLE_MIOPEN_MEMBER)
#undef CRUCIBLE_MIOPEN_MEMBER
  std::string file, version;

  /// Errors: INCOMPATIBLE for what is no MIOpen, or one that lacks a function.
  explicit Miopen(const crucible::sdk::VendorLibrary& library);
  /// "MIOpen 3.4.0".
  std::string describe() const { return "MIOpen " + version; }
  /// Throws a Failure "`what`: miopenStatus..." unless it succeeded.
  void check(miopenStatus_t status, const std::string& what) const;
};

/// The library for a device (options `dnn` and `miopen`, else by name), or null and the reason in `note`. Loaded once
/// and kept. An emulated device gets only one that the option names: a real one would look for a runtime of its own.
/// Threads: any. Errors: UNAVAILABLE when `dnn` demands it and it is not there.
const Miopen* find_miopen(const DeviceFacts& facts, std::string& note);

/// Convolutions of one device. Threads: any. The device must be the current one.
class Convolutions {
 public:
  /// Descriptors and solution; lives as long as the Convolutions.
  struct Call;

  /// Errors: UNAVAILABLE when the library does not start on the device, or cannot be told to be deterministic.
  Convolutions(crucible_device& device, const Miopen& miopen);
  ~Convolutions();
  Convolutions(const Convolutions&) = delete;
  Convolutions& operator=(const Convolutions&) = delete;

  /// Bytes of scratch that it wants, at most the option dnn_workspace_mib. Errors: UNSUPPORTED with the reason when the
  /// library has no solution for it.
  std::uint64_t scratch_bytes(const crucible::sdk::Convolution& convolution);
  /// What does it with that much scratch at that address. Errors: those of scratch_bytes().
  const Call& prepare(const crucible::sdk::Convolution& convolution, std::uint64_t scratch_address,
                      std::uint64_t scratch_bytes);
  /// The convolution on `stream`: `addresses` are those of the description's three buffers and of the scratch, if there
  /// is one.
  void enqueue(const Call& call, const crucible::sdk::Convolution& convolution, const std::uint64_t* addresses,
               hipStream_t stream);

 private:
  const Call& find(const crucible::sdk::Convolution& convolution, std::uint64_t most_scratch);
  std::unique_ptr<Call> make(const crucible::sdk::Convolution& convolution, std::uint64_t most_scratch) const;

  const Miopen& miopen_;
  miopenHandle_t handle_ = nullptr;
  std::uint64_t most_scratch_ = 0;
  std::mutex mutex_;  // of what is below, and of calls with the handle
  std::map<std::string, std::unique_ptr<const Call>> calls_;
};

}  // namespace crucible_amd
