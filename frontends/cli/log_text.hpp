// A run log on a terminal and as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "frontends/runlog/compare.hpp"

namespace crucible::cli {

/// One row for each run.
std::string runs_text(const runlog::Log& log);
/// Every record of one run.
std::string records_text(const runlog::Log& log, const runlog::Run& run);

nlohmann::ordered_json run_json(const runlog::Log& log, const runlog::Run& run, bool with_records);
/// The file, its head, its runs, what is wrong with it.
nlohmann::ordered_json log_json(const runlog::Log& log);
nlohmann::ordered_json comparison_json(const runlog::Comparison& comparison, const runlog::RunData& a,
                                       const runlog::RunData& b);

/// "line 7: it is torn".
std::string fault_text(const runlog::Fault& fault);
/// Ids of keys that signed the run's lines; empty: some line of it nobody did.
std::vector<std::string> signers_of(const runlog::Log& log, const runlog::Run& run);

}  // namespace crucible::cli
