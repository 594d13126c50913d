// A recording in formats that other programs read: JSON lines, and the events of Chrome's trace viewer (Perfetto).
// docs/trace-tools.md has the keys.
#pragma once

#include <string>

#include "core/trace/trace.hpp"
#include "frontends/cli/text_sink.hpp"

namespace crucible::cli {

/// One header line, then one line per op. `file` is the name to write into the header.
void export_jsonl(const trace::Trace& trace, const std::string& file, TextSink& sink);

/// Iterations, phases and modules as slices around the ops on their threads. A recording has no times: positions are op
/// numbers, and the file says so.
void export_chrome(const trace::Trace& trace, const std::string& file, TextSink& sink);

}  // namespace crucible::cli
