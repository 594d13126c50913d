#include "core/trace/reservations.hpp"

#include <fmt/format.h>

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
  if (const auto returned = values_returned(trace)) found.push_back(returned->text);
  for (const NotRecorded& item : trace.not_recorded) {
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
