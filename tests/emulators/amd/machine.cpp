// Devices, errors and faults of the emulated machine: see machine.hpp.
#include "tests/emulators/amd/machine.hpp"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "tests/emulators/amd/graph_objects.hpp"
#include "tests/emulators/amd/runtime_beside.hpp"
#include "tests/emulators/core/settings.hpp"

namespace crucible::emulator {
namespace {

constexpr const char* kDefaultArch = "gfx90a";

thread_local int current = 0;
thread_local hipError_t last = hipSuccess;

std::mutex machine_mutex;
std::unique_ptr<Machine>& the_machine() {
  static auto& made = *new std::unique_ptr<Machine>;  // never destroyed: threads of a driver outlive main
  return made;
}

/// The devices that HIP_VISIBLE_DEVICES leaves, in its order; it ends at the first word that is no device.
std::vector<unsigned> visible_devices(unsigned count) {
  std::vector<unsigned> visible;
  const char* words = std::getenv("HIP_VISIBLE_DEVICES");
  if (words == nullptr) {
    for (unsigned i = 0; i < count; ++i) visible.push_back(i);
    return visible;
  }
  const char* const end = words + std::strlen(words);
  while (words < end) {
    unsigned device = 0;
    const auto [stop, error] = std::from_chars(words, end, device);
    if (error != std::errc() || device >= count || (stop != end && *stop != ',')) break;
    visible.push_back(device);
    words = stop == end ? end : stop + 1;
  }
  return visible;
}

hipError_t error_of_name(const std::string& code) {
#define CRUCIBLE_HIP_ERROR(name, value, words) \
  if (code == #name) return name;
  CRUCIBLE_HIP_ERRORS(CRUCIBLE_HIP_ERROR)
#undef CRUCIBLE_HIP_ERROR
  give_up("CRUCIBLE_EMU_FAULTS: code=" + code + " is no error of HIP that the emulator knows");
}

}  // namespace

Machine::Machine() {
  if (settings().timing == Timing::kRoofline) {
    give_up(
        "CRUCIBLE_EMU_TIMING=roofline: kernels of HIP are compiled here as the C++ that they are, in which accesses "
        "and operations cannot be "
        "counted; emulated NVIDIA devices have the model, for AMD's leave it off");
  }
  const auto count = static_cast<unsigned>(settings().devices);
  if (settings().races)
    give_up(
        "CRUCIBLE_EMU_RACES=on: kernels of HIP are compiled here as the C++ that they are, in which accesses cannot be "
        "seen; leave it off for AMD's devices");
  for (const unsigned physical : visible_devices(count)) {
    const std::string arch = settings().arch(physical, kDefaultArch);
    const std::uint64_t wave = settings().wave != 0 ? settings().wave : arch.starts_with("gfx1") ? 32 : 64;
    const auto ordinal = static_cast<unsigned>(devices.size());
    devices.push_back(std::make_unique<AmdDevice>(ordinal, physical, arch, static_cast<std::uint32_t>(wave)));
  }
  memory = std::make_unique<Memory>(count, settings().memory_mib << 20, settings().guard_at_end);
}

Machine& machine() {
  const std::lock_guard lock(machine_mutex);
  if (the_machine() == nullptr) the_machine() = std::make_unique<Machine>();
  return *the_machine();
}

AmdDevice* current_device() {
  Machine& all = machine();
  return static_cast<std::size_t>(current) < all.devices.size() ? all.devices[static_cast<std::size_t>(current)].get()
                                                                : nullptr;
}

int current_ordinal() { return current; }

hipError_t set_current_device(int ordinal) {
  if (ordinal < 0 || static_cast<std::size_t>(ordinal) >= machine().devices.size()) return hipErrorInvalidDevice;
  current = ordinal;
  return hipSuccess;
}

hipError_t remember(hipError_t error) {
  if (error != hipSuccess && error != hipErrorNotReady) last = error;
  return error;
}

hipError_t last_error(bool forget) {
  const hipError_t error = last;
  if (forget) last = hipSuccess;
  return error;
}

hipError_t AmdDevice::error() const {
  const DeviceState state = device.state();
  if (state == DeviceState::kGood) return hipSuccess;
  if (const int own = own_error.load(); own != hipSuccess) return static_cast<hipError_t>(own);
  switch (state) {
    case DeviceState::kGood:
      return hipSuccess;
    case DeviceState::kIllegalAddress:
      return hipErrorIllegalAddress;
    case DeviceState::kTrap:
      return hipErrorLaunchFailure;
    case DeviceState::kTimeout:
      return hipErrorLaunchTimeOut;
    case DeviceState::kLost:
      return hipErrorNoDevice;
  }
  return hipErrorUnknown;
}

void AmdDevice::fail(hipError_t with) {
  if (device.state() == DeviceState::kGood) own_error = with;
  device.fail(DeviceState::kTrap);
}

hipError_t fault_at(AmdDevice& device, Site site, std::string_view name, hipError_t usual, std::uint64_t bytes) {
  const auto rule = device.device.at(site, name, bytes);
  if (!rule) return hipSuccess;
  const hipError_t code = rule->code.empty() ? hipSuccess : error_of_name(rule->code);
  switch (rule->action) {
    case Action::kOom:
      return code != hipSuccess ? code : hipErrorOutOfMemory;
    case Action::kFail:
      return code != hipSuccess ? code : usual;
    case Action::kLost:
    case Action::kTrap:
      if (code != hipSuccess) device.own_error = code;
      return device.error();
    case Action::kHang:
    case Action::kSlow:
    case Action::kFlip:
    case Action::kHot:
    case Action::kEcc:
    case Action::kXid:
    case Action::kDeny:
    case Action::kMissing:
      return device.error();
  }
  return hipErrorUnknown;
}

std::optional<Rule> fault_in_stream(AmdDevice& device, Site site, std::string_view name, std::uint64_t bytes) {
  const auto rule = device.device.at(site, name, bytes);
  if (!rule) return rule;
  const hipError_t code = rule->code.empty() ? hipSuccess : error_of_name(rule->code);
  if (rule->action == Action::kOom) device.fail(code != hipSuccess ? code : hipErrorOutOfMemory);
  if (rule->action == Action::kFail) device.fail(code != hipSuccess ? code : hipErrorLaunchFailure);
  if ((rule->action == Action::kLost || rule->action == Action::kTrap) && code != hipSuccess) device.own_error = code;
  return rule;
}

Target target_of(AmdDevice& device, hipStream_t handle) {
  if (reinterpret_cast<std::uintptr_t>(handle) <= 2) return {&device, &device.device.default_stream()};
  auto* const stream = reinterpret_cast<DeviceStream*>(handle);
  for (const auto& other : machine().devices) {
    if (other->device.owns(stream)) return {other.get(), stream};
  }
  return {};
}

bool Pinned::add(const void* pointer, PinnedRange range) {
  const std::lock_guard lock(mutex_);
  return ranges_.emplace(reinterpret_cast<std::uintptr_t>(pointer), range).second;
}

bool Pinned::remove(const void* pointer, bool own) {
  const std::lock_guard lock(mutex_);
  const auto found = ranges_.find(reinterpret_cast<std::uintptr_t>(pointer));
  if (found == ranges_.end() || found->second.own != own) return false;
  ranges_.erase(found);
  return true;
}

bool Pinned::holds(const void* pointer, std::size_t size) const {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  const std::lock_guard lock(mutex_);
  const auto after = ranges_.upper_bound(address);
  if (after == ranges_.begin()) return false;
  const auto& [begin, range] = *std::prev(after);
  return address - begin <= range.size && size <= range.size - (address - begin);
}

}  // namespace crucible::emulator

// For the emulated rocprofiler-sdk (runtime_beside.hpp).
extern "C" void crucible_emulator_listen(crucible::emulator::ActivityListener listener) {
  crucible::emulator::listen_to_activities(listener);
}

extern "C" bool crucible_emulator_has_started(void) {
  const std::lock_guard lock(crucible::emulator::machine_mutex);
  return crucible::emulator::the_machine() != nullptr;
}

extern "C" crucible::emulator::ProfiledDevice crucible_emulator_profiled(unsigned ordinal) {
  const crucible::emulator::AmdDevice& device = *crucible::emulator::machine().devices.at(ordinal);
  return {device.physical, device.wave};
}

extern "C" void crucible_emulator_reload(void) {
  using namespace crucible::emulator;
  {
    const std::lock_guard lock(machine_mutex);
    if (the_machine() != nullptr) {
      for (const auto& device : the_machine()->devices) device->device.reset();
    }
    the_machine().reset();
  }
  reload_environment();
  current = 0;
  last = hipSuccess;
}
