// What the recorder hands to the trace stream at the end of an iteration: the iteration's records and bytes, and the
// call sites that are new. The bytes belong to the recorder's snapshots, which outlive the stream.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/trace/trace.hpp"
#include "frontends/torch/call_site.hpp"
#include "frontends/torch/log.hpp"

namespace crucible::recorder {

/// Bytes for the file, or how many they were where the file is read by who has them (Recorder::leave_out()).
struct KeptBytes {
  std::span<const std::byte> bytes;
  std::uint64_t left_out = 0;
  bool is_left_out = false;
};

/// Bytes that entered or were drawn; `sequence` is that of the op that is about to run or has just run.
struct ExternalBytes {
  std::uint32_t storage = 0;
  std::uint64_t sequence = 0;
  KeptBytes kept;
  std::uint32_t details = 0;  // its place in RecordingState::details
  std::string name;           // as far as it was known at the iteration's end
  trace::Role role = trace::Role::kUnknown;
};
struct DrawnBytes {
  std::uint64_t sequence = 0;
  std::uint32_t output = 0;
  KeptBytes kept;
};
/// A tensor that an iteration of inference gave back, and the state of a default generator when an iteration began.
struct OutputBytes {
  std::string name;
  std::uint64_t sequence = 0;  // of the op that comes next
  trace::Tensor tensor;        // with the recorder's storage id
  KeptBytes kept;
};
struct GeneratorBytes {
  std::string device;
  std::span<const std::byte> bytes;
};

struct NotRecordedCount {
  std::uint64_t count = 0;
  std::uint32_t site = kNoSite;
};

/// One iteration. Owns: a share of the logs' chunks.
struct Batch {
  struct Records {
    std::uint32_t thread = 0;
    std::vector<Log::Piece> pieces;
  };
  bool is_kept = true;  // false: it was passed over; its records tell of storages, no more
  std::vector<Records> records;
  std::vector<ExternalBytes> externals;
  std::vector<DrawnBytes> draws;
  std::vector<OutputBytes> outputs;
  std::vector<GeneratorBytes> generators;
  std::vector<SourceLine> sites;     // those that are new
  std::vector<std::string> modules;  // the same

  /// Memory of the records.
  std::uint64_t log_bytes() const {
    std::uint64_t words = 0;
    for (const Records& thread : records) {
      for (const Log::Piece& piece : thread.pieces) words += piece.words.size();
    }
    return words * sizeof(std::uint64_t);
  }
};

}  // namespace crucible::recorder
