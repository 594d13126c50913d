// A copy of a recording that does not tell of its maker: what replays and how large everything is stays, names become
// hashes and data become noise (stand_in_bytes.hpp). docs/recording.md says what remains.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/base/hash.hpp"
#include "core/base/result.hpp"
#include "core/trace/trace.hpp"

namespace crucible::trace {

/// Of NotRecorded::what, in every copy: the mark of a stripped recording. Older readers show it too, and find no loss
/// that agrees.
inline constexpr std::string_view kStripped = "the data and names of the original: the recording was stripped";

/// Whether `trace` is a stripped copy. What it computes is nobody's result, so that it is never verified.
bool is_stripped(const Trace& trace);

struct Stripped {
  Trace trace;
  std::uint64_t names = 0;         // different ones that became hashes
  std::uint64_t blobs = 0;         // pieces of data that became noise
  std::uint64_t blob_bytes = 0;
  std::uint64_t results = 0;       // numbers that ops gave, and losses
  std::uint64_t numbers = 0;       // Python numbers in tensors of their own, which stay
  std::uint64_t generators = 0;    // states that are left out
};

/// The copy. Nothing of `trace` goes into it that is not listed in strip.cpp. Hashes and noise follow from `key`, which
/// is to be random and is kept nowhere: with a known key, names could be guessed. `trace` must be valid; its blobs are
/// read, one at a time, now and again when the copy's are. Errors: those of loading a blob.
Result<Stripped> strip(const Trace& trace, const ContentHash& key);

}  // namespace crucible::trace
