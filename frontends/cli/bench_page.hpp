// The tables of `crucible bench` as one HTML page that needs nothing else: no script, no network.
#pragma once

#include <string>

#include "frontends/cli/bench_rows.hpp"

namespace crucible::cli {

/// Per recording a picture (bars: median times, the line on each: the quartiles) and the table of bench_text().
/// Emulated devices have a picture of their own, to a scale of its own. Names and reasons may hold anything: they stay
/// text.
std::string bench_page(const BenchReport& report);

}  // namespace crucible::cli
