// Counting objects by kind: see ledger.hpp.
#include "plugins/sdk/ledger.hpp"

#include <algorithm>
#include <vector>

#include "plugins/sdk/error.hpp"
#include "plugins/sdk/host.hpp"
#include "plugins/sdk/text.hpp"

namespace crucible::sdk {

void Ledger::add(std::string_view kind, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  auto found = entries_.find(kind);
  if (found == entries_.end()) found = entries_.emplace(std::string(kind), Entry{}).first;
  Entry& entry = found->second;
  ++entry.live;
  ++entry.made;
  entry.live_bytes += bytes;
  entry.peak_bytes = std::max(entry.peak_bytes, entry.live_bytes);
}

void Ledger::remove(std::string_view kind, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(kind);
  if (found == entries_.end() || found->second.live == 0 || found->second.live_bytes < bytes) {
    throw Failure(CRUCIBLE_E_INTERNAL,
                  "a " + std::string(kind) + " of " + std::to_string(bytes) + " bytes was given back that is not out");
  }
  --found->second.live;
  found->second.live_bytes -= bytes;
}

Ledger::Entry Ledger::of(std::string_view kind) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(kind);
  return found == entries_.end() ? Entry{} : found->second;
}

std::string Ledger::leaks() const {
  const std::lock_guard lock(mutex_);
  std::string text;
  for (const auto& [kind, entry] : entries_) {
    if (entry.live == 0) continue;
    text += (text.empty() ? "" : ", ") + std::to_string(entry.live) + " " + kind + (entry.live == 1 ? "" : "s");
    if (entry.live_bytes != 0) text += " of " + std::to_string(entry.live_bytes) + " bytes";
  }
  return text;
}

bool Ledger::report_leaks(std::string_view component) const {
  const std::string text = leaks();
  if (!text.empty()) log(LogLevel::kWarning, component, "not given back before shutdown: " + text);
  return text.empty();
}

void Ledger::stats(std::string_view kind, crucible_kv_sink sink, void* user) const {
  const Entry memory = of(kind);
  std::vector<std::pair<std::string, std::uint64_t>> counts;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, entry] : entries_) counts.emplace_back("live." + name, entry.live);
  }
  // Outside the lock: the sink is the host's.
  std::vector<crucible_kv> items = {number_item("live_bytes", memory.live_bytes),
                                    number_item("peak_bytes", memory.peak_bytes)};
  for (const auto& [name, live] : counts) items.push_back(number_item(name, live));
  sink(user, items.data(), static_cast<std::uint32_t>(items.size()));
}

void Ledger::clear() {
  const std::lock_guard lock(mutex_);
  entries_.clear();
}

}  // namespace crucible::sdk
