// `crucible plan --device-profile`: the answer in words and as JSON. The arithmetic is in runtime/plan/fit.hpp.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/trace/trace.hpp"
#include "frontends/cli/plan_report.hpp"

namespace crucible::cli {

/// How many samples an iteration of the recording holds: the smallest leading size of the tensors that come from
/// outside in it and are no state, when that divides the leading sizes of all of them; else 0, not known.
std::uint64_t batch_of(const trace::Trace& trace);

/// "fits on l4: ..." or "does not fit on l4: ..." and what would make it fit. Lines of at most 100 columns.
std::string fit_text(const ProfileAnswer& answer);
nlohmann::ordered_json fit_json(const ProfileAnswer& answer);

}  // namespace crucible::cli
