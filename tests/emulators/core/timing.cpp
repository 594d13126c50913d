// The arithmetic of the model: see timing.hpp.
#include "tests/emulators/core/timing.hpp"

#include <algorithm>
#include <cmath>

#include "tests/emulators/core/settings.hpp"

namespace crucible::emulator {

Work& Work::operator+=(const Work& other) {
  memory_bytes += other.memory_bytes;
  link_bytes += other.link_bytes;
  for (std::size_t i = 0; i < kUnits; ++i) operations[i] += other.operations[i];
  return *this;
}

std::uint64_t modelled_ns(const Rates& rates, const Work& work) {
  const auto time = [](std::uint64_t amount, double rate) {
    return amount == 0 ? 0 : static_cast<double>(amount) / rate;
  };
  double compute_ns = 0;
  for (std::size_t i = 0; i < kUnits; ++i) compute_ns += time(work.operations[i], rates.peaks[i]);
  const double roof_ns =
      std::max({compute_ns, time(work.memory_bytes, rates.memory), time(work.link_bytes, rates.link)});
  return static_cast<std::uint64_t>(std::ceil(rates.launch_ns + roof_ns));
}

std::string emulated_words() {
  const Settings& now = settings();
  if (now.timing == Timing::kRoofline) return "emulated, not a GPU; times of a roofline model";
  if (now.timing == Timing::kWarps && now.empty) return "emulated, not a GPU; not all is computed";
  return "emulated, not a GPU";
}

}  // namespace crucible::emulator
