// A program of a few ops on a device, without a recording: for measuring kernels, and for testing devices.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/base/result.hpp"
#include "core/graph/program.hpp"
#include "core/kernel/ir/numerics.hpp"
#include "runtime/plan/arrange.hpp"
#include "plugins/loader/backend.hpp"

namespace crucible::runtime {

/// Not thread-safe.
class SmallRun {
 public:
  struct Options {
    bool by_library = false;  // the device's library is asked for products and convolutions
    bool fuse = true;         // false: each op is a kernel of its own
    std::size_t cut = 0;      // of generated products: kernel::ProductCut
  };

  /// Schedules, plans, compiles and allocates. The program has inputs and tensors as outputs, no states, constants or
  /// slots. Errors: those of the stages.
  static Result<SmallRun> make(const std::shared_ptr<backend::Device>& device, graph::Program program,
                               kernel::Numerics numerics, const Options& wanted);

  /// The whole buffer of an input, before each run: its memory is somebody else's when its last reader is done.
  Result<void> write(graph::ValueId value, std::span<const std::byte> bytes);
  /// Done on return.
  Result<void> run();
  /// The whole buffer of an output's value.
  Result<std::vector<std::byte>> read(graph::ValueId value) const;

 private:
  SmallRun() = default;
  std::uint64_t offset_of(graph::ValueId value) const;
  std::uint64_t size_of(graph::ValueId value) const;

  Arranged arranged_;
  // Destroyed in reverse: the plan before the memory and the module that it uses.
  std::optional<backend::Module> module_;
  std::optional<backend::Buffer> arena_;
  std::optional<backend::Plan> plan_;
};

}  // namespace crucible::runtime
