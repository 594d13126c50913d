// Convolutions as products of matrices by tiles, without ever writing down the matrix of windows: emit_conv_tiles.cpp.
#pragma once

#include <cstdint>

#include "core/graph/program.hpp"
#include "core/kernel/emit/emit.hpp"

namespace crucible::kernel {

enum class ConvResult : std::uint8_t {
  kForward,
  kInput,
  kWeight
};  // y, the gradient of x, the gradient of the weights

/// Few rows (depthwise convolutions) waste the tiles: those are done directly (emit_conv.cpp).
bool fits_tiles(const graph::Op& op, ConvResult result);

Emitted emit_conv_by_tiles(const graph::Program& program, const graph::Op& op, ConvResult result,
                           const DeviceShape& device, const Epilogue* epilogue);

}  // namespace crucible::kernel
