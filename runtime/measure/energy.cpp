#include "runtime/measure/energy.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <system_error>

namespace crucible::runtime {
namespace {

namespace fs = std::filesystem;

std::optional<std::uint64_t> number_in(const fs::path& place) {
  std::ifstream file(place);
  std::uint64_t number = 0;
  return file >> number ? std::optional(number) : std::nullopt;
}

/// "intel-rapl:0" is a package where its name says so ("psys" is the whole machine, packages included);
/// "intel-rapl:0:0" is a part of one, "intel-rapl-mmio:0" the same package again.
bool is_package(const fs::path& zone) {
  const std::string folder = zone.filename().string();
  std::string name;
  std::ifstream(zone / "name") >> name;
  return folder.find("-rapl:") != std::string::npos && std::ranges::count(folder, ':') == 1 &&
         name.starts_with("package");
}

}  // namespace

PackageEnergy PackageEnergy::open(const fs::path& folder) {
  PackageEnergy energy;
  std::error_code error;
  std::vector<fs::path> packages;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (is_package(entry.path())) packages.push_back(entry.path());
  }
  std::ranges::sort(packages);
  if (packages.empty()) energy.missing_ = fmt::format("no processor counts its energy in {}", folder.string());
  for (const fs::path& package : packages) {
    const fs::path place = package / "energy_uj";
    const std::optional<std::uint64_t> now = number_in(place);
    if (!now) {
      energy.missing_ = fmt::format(
          "{} cannot be read{}", place.string(),
          access(place.c_str(), R_OK) == 0 ? "" : "; it is the administrator's: run as root, or make it readable");
      energy.counters_.clear();
      return energy;
    }
    energy.counters_.push_back({place, number_in(package / "max_energy_range_uj").value_or(0), *now});
  }
  return energy;
}

std::optional<double> PackageEnergy::read() {
  if (counters_.empty()) return std::nullopt;
  for (Counter& counter : counters_) {
    const std::optional<std::uint64_t> now = number_in(counter.place);
    if (!now) return std::nullopt;
    used_uj_ += *now >= counter.last_uj ? *now - counter.last_uj
                                        : counter.range_uj - std::min(counter.range_uj, counter.last_uj) + *now;
    counter.last_uj = *now;
  }
  return static_cast<double>(used_uj_) * 1e-6;
}

}  // namespace crucible::runtime
