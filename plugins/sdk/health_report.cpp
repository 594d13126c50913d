// Collecting a sample: see health_report.hpp.
#include "plugins/sdk/health_report.hpp"

#include <algorithm>

#include "plugins/sdk/text.hpp"

namespace crucible::sdk {

void HealthReport::number(std::string_view key, std::uint64_t value) {
  items_.push_back({.key = std::string(key), .text = {}, .number = value});
}

void HealthReport::text(std::string_view key, std::string_view value) {
  if (!value.empty()) items_.push_back({.key = std::string(key), .text = std::string(value), .is_text = true});
}

void HealthReport::absent(std::string_view key, std::string_view reason) {
  text("not_measured", std::string(key) + ": " + std::string(reason));
}

const HealthReport::Item* HealthReport::find(std::string_view key) const {
  const auto found = std::find_if(items_.begin(), items_.end(), [&](const Item& item) { return item.key == key; });
  return found == items_.end() ? nullptr : &*found;
}

bool HealthReport::has(std::string_view key) const { return find(key) != nullptr; }

std::uint64_t HealthReport::number_of(std::string_view key) const {
  const Item* const item = find(key);
  return item == nullptr ? 0 : item->number;
}

std::string HealthReport::text_of(std::string_view key) const {
  const Item* const item = find(key);
  return item == nullptr ? "" : item->text;
}

void HealthReport::send(crucible_kv_sink sink, void* user) const {
  std::vector<crucible_kv> all;
  for (const Item& item : items_)
    all.push_back(item.is_text ? text_item(item.key, item.text) : number_item(item.key, item.number));
  sink(user, all.data(), static_cast<std::uint32_t>(all.size()));
}

void add_to_list(std::string& list, std::string_view name) {
  if (!list.empty()) list += ", ";
  list += name;
}

}  // namespace crucible::sdk
