// What the libraries that measure (NVML, ROCm SMI, Sysman) tell of an emulated device. A simple model, the same for all
// vendors: the device idles; its temperature and its power are those of the settings, its energy is that power times
// the time since the machine started. Nothing is measured, and nothing here knows what a program does on the device.
//
// Rules at the site "query", with the function's name, disturb it:
//   hot      temperature, clocks and throttle reason are those of a device that is too hot; celsius=N: how hot, 94
//   without it ecc      count=N errors that were not corrected (1 without it), corrected=M that were xid      an event
//   of that number=N (79 without it), where events are waited for deny, missing    not permitted, and not supported by
//   the device, in the vendor's own codes fail, lost, slow as everywhere
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "tests/emulators/core/faults.hpp"

namespace crucible::emulator {

/// What a query is about, and so which rules can disturb it.
enum class Concern { kOther, kTemperature, kErrors, kEvents };

struct Telemetry {
  std::uint64_t celsius = 61, slowdown_celsius = 92, shutdown_celsius = 97;
  std::uint64_t milliwatt = 350'000, limit_milliwatt = 700'000, energy_microjoule = 0;
  std::uint64_t megahertz = 1800, max_megahertz = 1980, memory_megahertz = 2600;
  std::uint64_t uncorrected = 0, corrected = 0;  // errors of the memory
  std::uint64_t event = 0;                       // 0: none
  bool is_hot = false;
};

struct Query {
  std::optional<Rule> failure;  // fail, lost, deny or missing: the vendor's code for it is the answer
  Telemetry telemetry;
};

/// Counts the query for the rules, waits where one says so. Threads: any.
Query ask(std::string_view function, Concern concern = Concern::kOther);

}  // namespace crucible::emulator
