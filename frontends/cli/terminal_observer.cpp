// See terminal_observer.hpp.
#include "frontends/cli/terminal_observer.hpp"

#include <fmt/format.h>

#include <set>
#include <string>

#include "core/base/terminal.hpp"
#include "frontends/replay/open_device.hpp"

namespace crucible::cli {
namespace {

using replay::Notice;
using replay::OpenedDevice;

const char* level_text(Notice::Level level) {
  switch (level) {
    case Notice::Level::kPlain:
      return "";
    case Notice::Level::kNote:
      return "note: ";
    case Notice::Level::kWarning:
      return "warning: ";
  }
  return "";
}

void tell_notice(const Notice& notice) {
  static std::set<std::string> told;  // a command may load its settings several times
  if (notice.is_of_settings && !told.insert(notice.text).second) return;
  tell("crucible: {}{}\n", level_text(notice.level), notice.text);
}

/// Which devices there were and why this one.
void tell_opened(const OpenedDevice& opened) {
  if (!opened.candidates.empty()) return tell("{}", replay::explain(opened.candidates));
  tell("crucible: {} of {}: backend from {}, device from {}\n",
       opened.device ? "device " + opened.device->info().id : "the interpreter", opened.plugin,
       opened.settings.find("backend")->origin.text(),
       opened.settings.is_said("device") ? opened.settings.find("device")->origin.text()
                                         : "nobody: the backend's first");
}

}  // namespace

const replay::Observer& terminal() {
  static const replay::Observer kObserver = {.notice = tell_notice, .progress = nullptr, .opened = tell_opened};
  return kObserver;
}

replay::Observer terminal(Progress& progress) {
  replay::Observer observer = terminal();
  observer.progress = [&progress](std::string_view text) { progress.say(text); };
  return observer;
}

}  // namespace crucible::cli
