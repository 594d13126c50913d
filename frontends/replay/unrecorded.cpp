// See unrecorded.hpp.
#include "frontends/replay/unrecorded.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace crucible::replay {

nlohmann::ordered_json unrecorded_json(const trace::Trace& trace, const std::vector<trace::UnrecordedWrite>& writes) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const trace::UnrecordedWrite& write : writes) {
    rows.push_back({{"before", write.before},
                    {"after", write.after},
                    {"module", write.module},
                    {"site", trace.site_text(write.site)},
                    {"count", write.count},
                    {"part", write.is_part},
                    {"changed", write.is_change}});
  }
  return rows;
}

void judge_unrecorded(runtime::Verification& verdict, const trace::Trace& trace,
                      const std::vector<trace::UnrecordedWrite>& writes) {
  if (writes.empty()) return;
  const std::uint64_t count = trace::count_values(writes);
  std::string reason =
      fmt::format("{} no recorded origin: {}", count == 1 ? "1 value has" : fmt::format("{} values have", count),
                  trace::describe(trace, writes.front()));
  if (writes.size() > 1) reason += fmt::format(", and {} more (crucible trace info lists them)", writes.size() - 1);
  verdict.add_reason(reason);
  verdict.settle();
}

}  // namespace crucible::replay
