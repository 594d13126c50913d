// The kernels that a calibration times, written in the kernel IR like any other: whoever can compile a program's
// kernels can compile these. They say nothing about a device; calibrate.cpp decides how many items walk over how many
// bytes.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/result.hpp"
#include "plugins/kernel_ir/kernel_ir.hpp"
#include "plugins/loader/backend.hpp"

namespace crucible::runtime {

/// Which elements belong to a work item: a piece of its own (processors with few threads), or every `items`-th (devices
/// whose items run side by side and share their loads).
enum class Walk : std::uint8_t { kPieces, kStrided };

/// A kernel with the launch that it is verified for. Scalar 0 is the number of passes.
struct CalibrationKernel {
  std::string name;
  kernel::KernelIr ir;
  std::int64_t items = 1;
  std::int64_t elements = 1, results = 1;  // f32 of buffer 0 and, where there is one, of buffer 1
};

/// Every pass sums all elements of buffer 0; buffer 1 gets a sum per item.
CalibrationKernel read_kernel(std::string name, std::int64_t items, std::int64_t elements_per_item, Walk walk);

/// Every pass makes x * 0.5 + 1 of each element of buffer 0, in place.
CalibrationKernel update_kernel(std::string name, std::int64_t items, std::int64_t elements_per_item, Walk walk);

/// Every pass makes x * 0.5 + 1 of `lanes` numbers per item that never leave the registers, where they fit; they go to
/// buffer 0 at the end. 2 * lanes * items operations a pass.
CalibrationKernel multiply_add_kernel(std::string name, std::int64_t items, std::int64_t lanes);

/// Each item adds 1 to one element of buffer 0, 16 elements from that of its neighbour: nothing but the launch takes
/// time.
CalibrationKernel touch_kernel(std::string name, std::int64_t items);

/// As text and bytes for a plugin. Errors: kInternal when it does not pass the verifier.
Result<backend::KernelSource> source_of(const CalibrationKernel& kernel);

}  // namespace crucible::runtime
