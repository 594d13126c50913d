#include "core/trace/reservations.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/words.hpp"
#include "core/trace/text.hpp"
#include "core/trace/values_returned.hpp"

namespace crucible::trace {

std::vector<std::string> settings_not_followed(const Trace& trace) {
  std::vector<std::string> found;
  for (const NotRecorded& item : trace.not_recorded) {
    if (item.what.starts_with(kSetting)) found.push_back(printable(item.what.substr(kSetting.size())));
  }
  return found;
}

std::vector<std::string> reservations(const Trace& trace) {
  std::vector<std::string> found;
  const bool has_loss = std::ranges::any_of(trace.iterations, [](const Iteration& i) { return !i.losses.empty(); });
  if (!has_loss && trace.outputs.empty() && !trace.iterations.empty())
    found.push_back("no loss and no output is in the recording, so that final states alone were compared");
  if (const auto returned = values_returned(trace)) found.push_back(returned->text);
  for (const NotRecorded& item : trace.not_recorded) {
    if (item.what == kReadForInput) {
      found.push_back(fmt::format(
          "{} op{} made data of what the recorded program computes (first at {}), and that data is taken from the "
          "recording",
          item.count, item.count == 1 ? "" : "s", printable(trace.site_text(item.site))));
    }
    if (!item.what.starts_with(kOtherThreads)) continue;
    found.push_back(
        fmt::format("{} op{} ran on threads that are not recorded, with tensors of the recorded program (first at {}), "
                    "and what they gave is taken "
                    "from the recording: put crucible.record_thread() into such a thread",
                    item.count, item.count == 1 ? "" : "s", printable(trace.site_text(item.site))));
  }
  return found;
}

}  // namespace crucible::trace
