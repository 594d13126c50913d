// Options: the schema as items, and the user's words checked against it.
#include "plugins/sdk/options.hpp"

#include <charconv>
#include <vector>

#include "plugins/sdk/error.hpp"
#include "plugins/sdk/host.hpp"
#include "plugins/sdk/text.hpp"

namespace crucible::sdk {
namespace {

std::string_view type_name(OptionType type) {
  switch (type) {
    case OptionType::kBool:
      return "bool";
    case OptionType::kU64:
      return "u64";
    case OptionType::kText:
      return "str";
    case OptionType::kChoice:
      return "choice";
    case OptionType::kPath:
      return "path";
  }
  return "str";
}

const OptionSpec& find(std::span<const OptionSpec> specs, std::string_view name) {
  for (const OptionSpec& spec : specs) {
    if (spec.name == name) return spec;
  }
  throw Failure(CRUCIBLE_E_INTERNAL,
                "the plugin reads the option '" + std::string(name) + "', which it did not declare");
}

const OptionSpec& find(std::span<const OptionSpec> specs, std::string_view name, OptionType type) {
  const OptionSpec& spec = find(specs, name);
  if (spec.type == type) return spec;
  throw Failure(CRUCIBLE_E_INTERNAL, "the plugin reads the option '" + std::string(name) + "' as " +
                                         std::string(type_name(type)) + " and declared it as " +
                                         std::string(type_name(spec.type)));
}

std::string value_of(const OptionSpec& spec) { return option(spec.name).value_or(std::string(spec.default_value)); }

[[noreturn]] void refuse(const OptionSpec& spec, const std::string& value, const std::string& allowed) {
  throw Failure(CRUCIBLE_E_UNSUPPORTED, "option " + std::string(spec.name) + " is '" + value + "': give " + allowed);
}

bool is_choice(std::string_view choices, std::string_view word) {
  while (!choices.empty()) {
    const std::size_t space = choices.find(' ');
    if (choices.substr(0, space) == word) return true;
    choices = space == std::string_view::npos ? std::string_view() : choices.substr(space + 1);
  }
  return false;
}

}  // namespace

crucible_status Options::describe(crucible_kv_sink sink, void* user) const noexcept {
  return guard([&] {
    require(sink != nullptr, "describe_options: no function to report to");
    for (const OptionSpec& spec : specs_) {
      std::vector<crucible_kv> items = {text_item("name", spec.name), text_item("type", type_name(spec.type)),
                                        text_item("default", spec.default_value)};
      if (spec.type == OptionType::kChoice) items.push_back(text_item("choices", spec.choices));
      if (spec.type == OptionType::kU64) {
        items.push_back(number_item("min", spec.min));
        items.push_back(number_item("max", spec.max));
      }
      items.push_back(text_item("help", spec.help));
      if (!spec.env.empty()) items.push_back(text_item("env", spec.env));
      if (spec.from_folder != FromFolder::kUndecided) {
        items.push_back(text_item("folder", spec.from_folder == FromFolder::kHarmless ? "harmless" : "needs trust"));
      }
      sink(user, items.data(), static_cast<std::uint32_t>(items.size()));
    }
  });
}

bool Options::get_bool(std::string_view name) const {
  const OptionSpec& spec = find(specs_, name, OptionType::kBool);
  const std::string value = value_of(spec);
  if (value == "true" || value == "on" || value == "1") return true;
  if (value == "false" || value == "off" || value == "0" || value.empty()) return false;
  refuse(spec, value, "true or false");
}

std::uint64_t Options::get_u64(std::string_view name) const {
  const OptionSpec& spec = find(specs_, name, OptionType::kU64);
  const std::string value = value_of(spec);
  std::uint64_t number = 0;
  const char* const end = value.data() + value.size();
  const auto [stop, error] = std::from_chars(value.data(), end, number);
  if (error != std::errc() || stop != end || number < spec.min || number > spec.max) {
    refuse(spec, value, "a number from " + std::to_string(spec.min) + " to " + std::to_string(spec.max));
  }
  return number;
}

std::string Options::get_text(std::string_view name) const {
  const OptionSpec& spec = find(specs_, name);
  std::string value = value_of(spec);
  if (spec.type == OptionType::kChoice && !is_choice(spec.choices, value)) {
    refuse(spec, value, "one of: " + std::string(spec.choices));
  }
  return value;
}

bool Options::has(std::string_view name) const {
  return !find(specs_, name).default_value.empty() || option(name).has_value();
}

}  // namespace crucible::sdk
