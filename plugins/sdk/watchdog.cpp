// Devices that were given up: see watchdog.hpp.
#include "plugins/sdk/watchdog.hpp"

#include <map>
#include <mutex>
#include <vector>

#include "plugins/sdk/host.hpp"

namespace crucible::sdk {
namespace {

struct Suspects {
  std::mutex mutex;
  std::map<std::string, std::string> why;  // by id
  std::vector<void*> abandoned;
};

Suspects& suspects() {
  static Suspects& all = *new Suspects;  // never destroyed: a device may be given up at the very end
  return all;
}

}  // namespace

std::string suspicion_of(const std::string& id) {
  const std::lock_guard lock(suspects().mutex);
  const auto found = suspects().why.find(id);
  return found == suspects().why.end() ? "" : found->second;
}

void never_again(const std::string& id, const std::string& why) {
  const std::lock_guard lock(suspects().mutex);
  suspects().why.emplace(id, why);
}

void abandon(void* object) {
  const std::lock_guard lock(suspects().mutex);
  suspects().abandoned.push_back(object);
}

void Watchdog::start(const std::string& id, std::uint64_t seconds) {
  id_ = id;
  limit_ns_ = seconds * 1'000'000'000u;
  const std::string why = suspicion_of(id);
  if (why.empty()) return;
  throw Failure(CRUCIBLE_E_UNAVAILABLE,
                "device " + id + " is suspect (" + why + "): it is not used again before a new process",
                {{"where", id}});
}

void Watchdog::require_alive() const {
  if (!is_suspect_) return;
  throw Failure(CRUCIBLE_E_DEVICE_LOST,
                id_ + " was lost (" + suspicion_of(id_) + "): it is suspect, and not used again before a new process",
                {{"where", id_}});
}

void Watchdog::give_up(std::string_view what) {
  const std::string seconds = std::to_string(limit_ns_ / 1'000'000'000u);
  never_again(id_, std::string(what) + " did not finish within " + seconds + " s, the option timeout_s");
  is_suspect_ = true;
  log(LogLevel::kError, "watchdog", id_ + " is suspect: " + suspicion_of(id_) + "; what it holds is not given back");
  require_alive();
  std::terminate();  // never reached: it is suspect
}

void log_second_try(const std::string& id, std::uint64_t bytes, bool is_granted) {
  log(LogLevel::kWarning, "memory",
      id + " had no " + std::to_string(bytes) +
          " bytes; what was in flight was waited for, what was kept given back, and it was asked again: " +
          (is_granted ? "it has them now" : "it has none"));
}

}  // namespace crucible::sdk
