// See counters.hpp.
#include "plugins/loader/counters.hpp"

#include <fmt/format.h>

#include <utility>

#include "plugins/loader/capability.hpp"

namespace crucible::backend {
namespace {

std::string text_of(crucible_str text) { return std::string(text.data == nullptr ? "" : text.data, text.size); }

void take_counter(void* user, const crucible_kv* items, std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i)
    static_cast<std::vector<Counter>*>(user)->push_back({text_of(items[i].key), text_of(items[i].s)});
}

void take_value(void* user, const crucible_kv* items, std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i) {
    if (items[i].type == CRUCIBLE_V_U64)
      static_cast<std::vector<CounterValue>*>(user)->push_back({text_of(items[i].key), items[i].u});
  }
}

/// Does not take the status. 0 for success and for an error object without functions.
std::uint32_t category_of(crucible_status status) {
  const bool has_code = status != nullptr && status->table != nullptr;
  return has_code ? static_cast<std::uint32_t>(abi::error_functions(status).code(status)) & 0xff : 0;
}

}  // namespace

KnownCounters known_counters(const Backend& backend, const std::string& device_id) {
  KnownCounters known;
  crucible_status const status =
      backend.tables().profile.counters({device_id.data(), device_id.size()}, take_counter, &known.counters);
  const std::uint32_t category = category_of(status);
  const Result<void> asked = to_result(status, fmt::format("asking for the counters of {}", device_id));
  if (!asked && category != CRUCIBLE_E_UNIMPLEMENTED) return {.counters = {}, .why_none = asked.error().message};
  if (!known.counters.empty()) return known;
  known.why_none = capability_reason(backend, device_id, "profile");
  if (known.why_none.empty()) known.why_none = fmt::format("the plugin {} has none", backend.name());
  return known;
}

Result<Counting> Counting::begin(std::shared_ptr<Device> device, std::span<const std::string> names) {
  std::vector<crucible_str> texts;
  for (const std::string& name : names) texts.push_back({name.data(), name.size()});
  const crucible_if_profile& table = device->backend().tables().profile;
  CRUCIBLE_TRY_VOID(
      device->take(table.begin(device->handle(), texts.data(), static_cast<std::uint32_t>(texts.size())), "counting"));
  return Counting(std::move(device));
}

Counting::~Counting() {
  // A destructor cannot report: the status is destroyed.
  if (device_ != nullptr)
    (void)static_cast<bool>(to_result(device_->backend().tables().profile.end(device_->handle()), "counting"));
}

Result<std::vector<CounterValue>> Counting::read() {
  std::vector<CounterValue> values;
  CRUCIBLE_TRY_VOID(device_->take(device_->backend().tables().profile.read(device_->handle(), take_value, &values),
                                  "reading counters"));
  return values;
}

}  // namespace crucible::backend
