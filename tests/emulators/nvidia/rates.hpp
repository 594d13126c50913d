// What the model of times (core/timing.hpp) takes the emulated generations of devices for.
#pragma once

#include <span>
#include <string_view>

#include "tests/emulators/core/timing.hpp"

namespace crucible::emulators::nvidia {

struct GenerationRates {
  int capability = 0;        // 90
  std::string_view profile;  // in hwprofiles/: the figures that it has are the ones here (rates_test.cpp compares)
  emulator::Rates rates;
};

/// By capability.
std::span<const GenerationRates> all_rates();
/// Those of a generation. One that has none ends the process.
const emulator::Rates& rates_of(int capability);

}  // namespace crucible::emulators::nvidia
