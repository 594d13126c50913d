// Library or generated kernel: which of the two runs a product or a convolution faster on a device. Measured once, kept in a
// folder, one file per call: several processes write at once and lose nothing.
//
// A choice belongs to one call (sizes, strides, attributes), one text of the generated kernel, one device with its threads,
// driver and library, and one version of the plugin: with any other of these it is not found.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/graph/program.hpp"
#include "core/kernel/schedule.hpp"
#include "core/runtime/library_calls.hpp"
#include "plugins/loader/backend.hpp"

namespace crucible::runtime {

/// Medians of rounds in which both ran in turns, warm. Units: nanoseconds per call.
struct Choice {
  std::uint64_t library_ns = 0, generated_ns = 0;
  std::uint32_t rounds = 0;
  bool is_generated() const { return generated_ns < library_ns; }
};

/// Not thread-safe.
class Choices {
 public:
  /// Reads nothing yet. `folder` need not exist. The device is shared: see plugins/loader.
  Choices(std::filesystem::path folder, std::shared_ptr<backend::Device> device);

  /// What was measured for this call, here or by another process; null when nothing was. A file that is not a choice
  /// counts as none.
  const Choice* find(const kernel::LibraryCall& call);

  /// Runs the library and the generated kernel in turns and keeps the result. The library must take the call. Errors: those of
  /// compiling and running. That the result cannot be kept is no error: see failure().
  Result<Choice> measure(const kernel::LibraryCall& call);

  /// Whether `call` becomes a library call: the library takes it, and is not known to be slower.
  bool takes(LibraryClaims& claims, const kernel::LibraryCall& call);

  /// The file where the choice for this call is, or would be.
  std::filesystem::path file_of(const kernel::LibraryCall& call) { return folder_ / (key_of(call) + ".json"); }

  /// Of the calls asked for so far, the distinct ones.
  struct Summary {
    std::size_t calls = 0, measured = 0, generated = 0;  // of the measured ones, those that the generated kernel runs faster
  };
  Summary summary() const;

  /// Why the last choice could not be kept; "" when all were.
  const std::string& failure() const { return failure_; }

 private:
  std::string key_of(const kernel::LibraryCall& call);
  Result<void> keep(const std::filesystem::path& file_name, const Choice& choice) const;

  std::filesystem::path folder_;
  std::shared_ptr<backend::Device> device_;
  std::string identity_;                                // of the device, the plugin and the prelude
  std::map<std::string, std::string> keys_;             // by the bytes of the call's description
  std::map<std::string, std::optional<Choice>> known_;  // by key
  std::string failure_;
};

/// The distinct calls of a program that the device's library takes, in the order of the program.
Result<std::vector<kernel::LibraryCall>> library_calls_of(const graph::Program& program, LibraryClaims& claims, bool fuse);

/// A program of this call alone: two inputs, one op, one output.
graph::Program program_of(const kernel::LibraryCall& call);

}  // namespace crucible::runtime
