// Kernels as the host hands them over (compile.compile): typed expressions and structured statements, read from
// the bytes of docs/kernel-ir.md. A plugin walks this, or prints it with c_dialect.hpp. The model, its reader and its
// verifier are the host's own (plugins/kernel_ir).
#pragma once

#include <cstdint>

#include "plugins/kernel_ir/kernel_ir.hpp"

namespace crucible::sdk {

using Type = DType;
using Op = kernel::Operation;
using Kernel = kernel::KernelIr;
using kernel::Expr, kernel::IrArray, kernel::IrBuffer, kernel::kFunctions, kernel::kNoId, kernel::LoopMode,
    kernel::Stmt, kernel::StmtKind, kernel::Tile, kernel::TileOperand, kernel::TileStart, kernel::Transpose,
    kernel::Variable;

/// Reads and checks the bytes of one kernel; what comes back can be printed or walked without further questions: ids
/// are in range, operands stand before their users and have the types that the operation wants, variables are used
/// where they are defined, there is one grid loop, and no expression is larger than a compiler takes. Bounds of loads
/// and stores depend on the sizes of buffers, which only the host knows and has checked. Errors: throws Failure,
/// DATA_CORRUPT or (another version of the format) INCOMPATIBLE with have and need.
Kernel read_kernel(const void* data, std::uint64_t size);

/// The second half of read_kernel(), for kernels made or changed here. Errors: throws Failure DATA_CORRUPT.
void check_kernel(const Kernel& kernel);

}  // namespace crucible::sdk
