// Who hears what this library would otherwise have to print: it writes to no terminal.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace crucible::replay {

struct OpenedDevice;

/// A sentence for whoever started the work.
struct Notice {
  enum class Level : std::uint8_t { kPlain, kNote, kWarning } level = Level::kPlain;
  std::string text;
  bool is_of_settings = false;  // about the configuration: the same sentence comes again each time that it is loaded
};

/// Null members hear nothing. Threads: called in the thread that does the work, one call at a time.
struct Observer {
  std::function<void(const Notice&)> notice = nullptr;
  std::function<void(std::string_view)> progress = nullptr;  // what is going on now; "": nothing any more
  std::function<void(const OpenedDevice&)> opened =
      nullptr;  // each device that was chosen and opened, with those that were not

  void tell(Notice::Level level, std::string text) const {
    if (notice) notice({level, std::move(text)});
  }
  void say(std::string_view text) const {
    if (progress) progress(text);
  }
};

}  // namespace crucible::replay
