// What is known of a device without asking it: how much memory, how fast, which limits; each number with where it is
// from.
//
// `crucible plan --device-profile` asks whether a plan would fit; the cost models of memory and of kernels use the
// rates. Profiles come from files (hwprofiles/, read by frontends/config) and from a calibration
// (runtime/measure/calibrate.hpp). The table of figures below is the schema: readers, writers and documentation follow
// it. No vendor is named here.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace crucible::hardware {

/// Where a number is from: the vendor published it, this device was measured, or somebody thinks so (the note says
/// why).
enum class Provenance : std::uint8_t { kDatasheet, kCalibrated, kGuessed };
std::string_view name(Provenance provenance);

/// What a number counts. The value of a figure is in the unit without prefix: bytes, operations, per second, seconds,
/// hertz.
enum class Quantity : std::uint8_t { kBytes, kBytesPerSecond, kFlopsPerSecond, kSeconds, kHertz, kCount };
/// "a size (B, KiB, MiB, GiB, ...)": for messages.
std::string_view words(Quantity quantity);

struct Figure {
  double value = 0;
  Provenance provenance = Provenance::kGuessed;
  std::string note = {};  // of a guess: why; else what there is to say
  double spread = 0;      // of a calibrated one: (largest - smallest) of the rounds / value; 0: not known
  bool operator==(const Figure&) const = default;
};

/// One row of the schema.
struct FigureKey {
  std::string_view name;  // "level.dram.bandwidth"
  Quantity quantity = Quantity::kCount;
  bool is_required = false;
  std::string_view meaning = {};
};
/// All figures that a profile may have, in the order in which they are written.
std::span<const FigureKey> figure_keys();
const FigureKey* find_figure_key(std::string_view name);

/// The levels of memory from the nearest to the furthest: "l1", "l2", "llc", "dram". The last has no size of its own.
std::span<const std::string_view> level_names();

/// A number with unit as text, five significant digits at least: "2039 GB/s", "80 GiB", "19.5 TFLOP/s", "2.5 us",
/// "108".
std::string format_figure(Quantity quantity, double value);

struct DeviceProfile {
  std::string name = {};                   // "a100-80g": lower case, digits, '-'
  std::string description = {};            // "A100 SXM4, 80 GB"
  std::string source = {};                 // where the numbers are from
  std::string date = {};                   // of a calibration, "2026-01-31"
  std::string backend = {}, driver = {};   // of a calibration: the plugin, and its version
  std::vector<std::string> devices =
      {};  // as plugins call devices of this kind, for finding the profile of one that is here
  std::uint32_t threads = 0;               // of a calibration of a CPU: with how many; 0: not said
  std::map<std::string, Figure, std::less<>> figures = {};  // by FigureKey::name

  /// Null where it is not known.
  const Figure* find(std::string_view key) const;
  /// In units without prefix; 0 where it is not known.
  double value(std::string_view key) const;
  bool is_calibrated() const { return !date.empty(); }

  /// What core uses of every profile, rounded to whole units; rates of 0 are not known.
  std::uint64_t memory_bytes() const;             // of one device as a program sees it, nominal
  std::uint64_t reserved_bytes() const;           // what driver, context and libraries take of it
  std::uint64_t usable_bytes() const;
  std::uint64_t memory_bytes_per_second() const;  // of the last level
  std::uint64_t f32_flops_per_second() const;     // of the vector units
  std::uint64_t host_link_bytes_per_second() const;  // one direction
};

/// What is wrong with a profile as a whole: a figure that core needs and that is not there, nothing usable left, a
/// level that is faster than a nearer one; one sentence each, empty when all is well.
std::vector<std::string> check(const DeviceProfile& profile);

/// The one of that name among `profiles`; null when there is none.
const DeviceProfile* find_profile(std::span<const DeviceProfile> profiles, std::string_view name);

/// The one that was calibrated on the device that `backend` calls `device`, with as many threads (0: any), else the
/// first that names the device; null when there is none. Of several calibrations the latest.
const DeviceProfile* find_for_device(std::span<const DeviceProfile> profiles, std::string_view backend,
                                     std::string_view device, std::uint32_t threads);

}  // namespace crucible::hardware
