// A memory plan as one HTML page that needs nothing else: markup, style, script (frontends/cli/plan_page) and the plan
// as JSON. It opens from a file, asks no network, and stays fluid at 50,000 buffers.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "frontends/cli/plan_report.hpp"

namespace crucible::cli {

/// The whole page. Names of the recording may hold anything: they stay data.
std::string plan_page(const PlanReport& report);

/// What the page embeds: `buffers` and `steps` as columns, texts as numbers in `strings`.
nlohmann::ordered_json page_data(const PlanReport& report);

/// A file of frontends/cli/plan_page as it was compiled in; empty when there is none of that name.
std::string_view page_text(std::string_view name);

}  // namespace crucible::cli
