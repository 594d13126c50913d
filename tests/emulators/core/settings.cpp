// Reading the environment: see settings.hpp.
#include "tests/emulators/core/settings.hpp"

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string_view>

#include "tests/emulators/core/faults.hpp"

namespace crucible::emulator {
namespace {

using Problem = std::string;  // "" when there is none

Problem read_number(std::string_view word, std::uint64_t least, std::uint64_t most, std::uint64_t& out) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size() || value < least || value > most) {
    return "a number from " + std::to_string(least) + " to " + std::to_string(most);
  }
  out = value;
  return "";
}

std::vector<std::string> split(std::string_view word) {
  std::vector<std::string> parts;
  while (!word.empty()) {
    const std::size_t comma = word.find(',');
    if (comma != 0) parts.emplace_back(word.substr(0, comma));
    word = comma == std::string_view::npos ? std::string_view() : word.substr(comma + 1);
  }
  return parts;
}

Problem read_order(std::string_view word, Order& out) {
  if (word == "forward") {
    out = Order::kForward;
  } else if (word == "reverse") {
    out = Order::kReverse;
  } else if (word == "shuffled") {
    out = Order::kShuffled;
  } else {
    return "forward, reverse or shuffled";
  }
  return "";
}

Problem read_wave(std::string_view word, std::uint64_t& out) {
  if (word != "32" && word != "64") return "32 or 64";
  return read_number(word, 32, 64, out);
}

Problem read_guard(std::string_view word, bool& out) {
  if (word != "start" && word != "end") return "start or end";
  out = word == "end";
  return "";
}

Problem read_flag(std::string_view word, bool& out) {
  if (word != "0" && word != "1") return "0 or 1";
  out = word == "1";
  return "";
}

Problem read_switch(std::string_view word, bool& out) {
  if (word != "on" && word != "off") return "on or off";
  out = word == "on";
  return "";
}

Problem read_timing(std::string_view word, Timing& out) {
  if (word != "off" && word != "roofline" && word != "warps") return "off, roofline or warps";
  out = word == "roofline" ? Timing::kRoofline : word == "warps" ? Timing::kWarps : Timing::kOff;
  return "";
}

Problem read_list(std::string_view word, std::vector<std::string>& out) {
  out = split(word);
  return out.empty() ? "names with commas between them" : "";
}

Problem read_features(std::string_view word, std::vector<std::string>& out) {
  out = split(word);
  for (const std::string& feature : out) {
    if (feature != "virtual" && feature != "pools") return "virtual or pools, or both with a comma between them";
  }
  return out.empty() ? "virtual or pools" : "";
}

Problem read_text(std::string_view word, std::string& out) {
  out = word;
  return "";
}

struct Variable {
  const char* name;
  Problem (*read)(std::string_view word, Settings& settings);
};

constexpr Variable kVariables[] = {
    {"CRUCIBLE_EMU_DEVICES", [](std::string_view w, Settings& s) { return read_number(w, 1, 16, s.devices); }},
    {"CRUCIBLE_EMU_MEMORY_MIB",
     [](std::string_view w, Settings& s) { return read_number(w, 1, 1 << 20, s.memory_mib); }},
    {"CRUCIBLE_EMU_ARCH", [](std::string_view w, Settings& s) { return read_list(w, s.archs); }},
    {"CRUCIBLE_EMU_CELSIUS", [](std::string_view w, Settings& s) { return read_number(w, 0, 1000, s.celsius); }},
    {"CRUCIBLE_EMU_WATT", [](std::string_view w, Settings& s) { return read_number(w, 0, 10000, s.watt); }},
    {"CRUCIBLE_EMU_WAVE", [](std::string_view w, Settings& s) { return read_wave(w, s.wave); }},
    {"CRUCIBLE_EMU_SEED", [](std::string_view w, Settings& s) { return read_number(w, 0, ~0ull, s.seed); }},
    {"CRUCIBLE_EMU_ORDER", [](std::string_view w, Settings& s) { return read_order(w, s.order); }},
    {"CRUCIBLE_EMU_THREADS", [](std::string_view w, Settings& s) { return read_number(w, 1, 256, s.threads); }},
    {"CRUCIBLE_EMU_GUARD", [](std::string_view w, Settings& s) { return read_guard(w, s.guard_at_end); }},
    {"CRUCIBLE_EMU_FAULTS", [](std::string_view w, Settings& s) { return read_text(w, s.faults); }},
    {"CRUCIBLE_EMU_LOG", [](std::string_view w, Settings& s) { return read_text(w, s.log); }},
    {"CRUCIBLE_EMU_CACHE", [](std::string_view w, Settings& s) { return read_text(w, s.cache); }},
    {"CRUCIBLE_EMU_COMPILER", [](std::string_view w, Settings& s) { return read_text(w, s.compiler); }},
    {"CRUCIBLE_EMU_CHECK_ARCH", [](std::string_view w, Settings& s) { return read_list(w, s.check_archs); }},
    {"CRUCIBLE_EMU_WITHOUT", [](std::string_view w, Settings& s) { return read_features(w, s.without); }},
    {"CRUCIBLE_EMU_PITCH", [](std::string_view w, Settings& s) { return read_number(w, 1, 0x7fffffff, s.pitch); }},
    {"CRUCIBLE_EMU_KEEP", [](std::string_view w, Settings& s) { return read_flag(w, s.keep); }},
    {"CRUCIBLE_EMU_EMPTY", [](std::string_view w, Settings& s) { return read_flag(w, s.empty); }},
    {"CRUCIBLE_EMU_RACES", [](std::string_view w, Settings& s) { return read_switch(w, s.races); }},
    {"CRUCIBLE_EMU_TIMING", [](std::string_view w, Settings& s) { return read_timing(w, s.timing); }},
    {"CRUCIBLE_EMU_NVJITLINK", [](std::string_view w, Settings& s) { return read_text(w, s.nvjitlink); }},
    {"CRUCIBLE_EMU_WARPS", [](std::string_view w, Settings& s) { return read_text(w, s.warps); }},
};

std::mutex settings_mutex;

std::unique_ptr<Settings>& current_settings() {
  static auto& current = *new std::unique_ptr<Settings>;  // never destroyed: threads of a driver outlive main
  return current;
}

std::unique_ptr<Settings> from_environment() {
  auto parsed = parse_settings([](const char* name) -> const char* { return std::getenv(name); });
  if (!parsed) give_up(parsed.error());
  return std::make_unique<Settings>(*std::move(parsed));
}

}  // namespace

std::string Settings::arch(std::uint64_t device, const std::string& fallback) const {
  if (archs.empty()) return fallback;
  return device < archs.size() ? archs[device] : archs.back();
}

std::expected<Settings, std::string> parse_settings(const std::function<const char*(const char*)>& lookup) {
  Settings settings;
  for (const Variable& variable : kVariables) {
    const char* const word = lookup(variable.name);
    if (word == nullptr || *word == '\0') continue;
    const Problem wanted = variable.read(word, settings);
    if (!wanted.empty())
      return std::unexpected(std::string(variable.name) + " is '" + word + "', it has to be " + wanted);
  }
  if (settings.timing == Timing::kRoofline && settings.empty) {
    return std::unexpected(
        "CRUCIBLE_EMU_TIMING=roofline counts what kernels do, and with CRUCIBLE_EMU_EMPTY=1 they do nothing: set one "
        "of the two");
  }
  if ((settings.timing == Timing::kWarps) != !settings.warps.empty()) {
    return std::unexpected(
        "CRUCIBLE_EMU_TIMING=warps writes what it counts into the file that CRUCIBLE_EMU_WARPS names: set both, or "
        "none");
  }
  return settings;
}

const Settings& settings() {
  const std::lock_guard lock(settings_mutex);
  if (current_settings() == nullptr) current_settings() = from_environment();
  return *current_settings();
}

void reload_environment() {
  {
    const std::lock_guard lock(settings_mutex);
    current_settings() = from_environment();
  }
  reload_faults();
}

void give_up(const std::string& message) {
  std::fprintf(stderr, "crucible emulator: %s\n", message.c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace crucible::emulator
