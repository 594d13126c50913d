// Writing bytes to a descriptor, all of them or an error number, and what a user can do about that number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace crucible::trace {

/// Writes all of `bytes` at `offset` (pwrite) and returns 0 or the error number. Beyond the file size limit that is
/// EFBIG: the signal SIGXFSZ, which would end the process, is held back. Threads: any, each for its own range.
int write_whole(int descriptor, std::span<const std::byte> bytes, std::uint64_t offset);

/// "free some space or write to another disk": the end of a message that begins with the error's own text.
const char* write_advice(int error_number);

}  // namespace crucible::trace
