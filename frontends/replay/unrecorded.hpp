// Values without a recorded origin (core/trace/unrecorded.hpp) in reports and verdicts.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "runtime/run/session.hpp"
#include "core/trace/unrecorded.hpp"

namespace crucible::replay {

/// A list of before, after, module, site, count, part, changed.
nlohmann::ordered_json unrecorded_json(const trace::Trace& trace, const std::vector<trace::UnrecordedWrite>& writes);

/// What such values leave of a verdict: a replay that is given them did not do the work that they are.
void judge_unrecorded(runtime::Verification& verdict, const trace::Trace& trace,
                      const std::vector<trace::UnrecordedWrite>& writes);

}  // namespace crucible::replay
