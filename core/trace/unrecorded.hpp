// Values without a recorded origin: bytes that an op reads, or that the program gives back, although no recorded op
// wrote them and they did not enter as an argument, parameter, state or constant. Something wrote them out of the
// recorder's sight - an extension, a library, numpy in the middle of an iteration - or nobody did.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/trace/trace.hpp"

namespace crucible::trace {

/// Such values of one kind at one line.
struct UnrecordedWrite {
  std::string before;  // full name of the recorded op that used the memory last: "aten::empty.memory_format"
  std::string
      after;  // of the one that reads it; "the end of the iteration" where none does, "an output", "a loss", "a state"
  std::string module;  // where `after` runs, or ""
  SiteId site = kNone;
  std::uint64_t count = 0;  // values, in all iterations
  bool is_part = false;     // recorded ops wrote other bytes of the same memory
  bool is_change = false;   // recorded ops had filled the memory, and then it changed
};

/// Memory that `empty` and its like returned is followed byte by byte: which recorded ops wrote of it, who reads what
/// of the rest. Ops whose writes depend on values (index_put_, scatter_ ...) count as if they had written all of it.
/// What the recorder itself saw change between two ops is taken from `not_recorded`. `trace` must be valid.
std::vector<UnrecordedWrite> unrecorded_writes(const Trace& trace);

/// How many values that are.
std::uint64_t count_values(const std::vector<UnrecordedWrite>& writes);

/// "memory of aten::empty.memory_format is read by aten::relu (net.py:12, in pool), and no recorded op wrote it, 4
/// times".
std::string describe(const Trace& trace, const UnrecordedWrite& write);

/// The entry of `not_recorded` for memory that changed between two ops; unrecorded_writes() reads it back.
std::string changed_memory_text(std::string_view before, std::string_view after, std::string_view module);

}  // namespace crucible::trace
