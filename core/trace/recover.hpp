// Makes a .crtrace file of what a recording left that was ended before it was finished: PATH.partial and PATH.journal.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "core/base/result.hpp"

namespace crucible::trace {

struct RecoverReport {
  std::uint64_t iterations = 0;  // in the file
  std::uint64_t ops = 0;
  std::uint64_t file_bytes = 0;
  std::uint64_t lost_ops = 0;  // of the iteration that was not complete, as far as they were written
  std::string damage;          // what was damaged on disk, so that what follows it is lost; or ""
  bool was_finished = false;   // nothing is missing: the recorder was ended while it wrote the last tables
};

/// Takes everything up to the last complete iteration whose records and blobs are not damaged, writes it to `out` (PATH
/// itself when empty) and removes the two files. They are kept when anything fails.
/// Errors: kBadInput when there is nothing to recover, no iteration was complete, the recorder is still running, or the
/// file cannot be written.
Result<RecoverReport> recover_file(const std::filesystem::path& path, const std::filesystem::path& out = {});

}  // namespace crucible::trace
