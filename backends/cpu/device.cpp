// Device table: which device there is (one), opening it with the user's options, what it says of itself.
#include "backends/cpu/device.hpp"

#include <sys/sysinfo.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <vector>

#include "backends/cpu/error.hpp"
#include "backends/cpu/host.hpp"
#include "backends/cpu/library_onednn.hpp"
#include "backends/cpu/tables.hpp"

namespace crucible_cpu {
namespace {

constexpr std::string_view kDeviceId = "cpu:0";
constexpr int kMostThreads = 1024;

crucible_str borrow(std::string_view text) { return {text.data(), text.size()}; }
crucible_kv text_item(std::string_view key, std::string_view value) {
  return {borrow(key), CRUCIBLE_V_STR, 0, 0, borrow(value)};
}
crucible_kv number_item(std::string_view key, std::uint64_t value) {
  return {borrow(key), CRUCIBLE_V_U64, 0, value, {nullptr, 0}};
}

/// Errors: UNSUPPORTED when the option is not a number of threads.
int chosen_threads() {
  const std::optional<std::string> text = option("threads");
  if (!text) return std::min(usable_cores(), kMostThreads);
  int threads = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), threads);
  if (error != std::errc() || end != text->data() + text->size() || threads < 1 || threads > kMostThreads) {
    throw Failure(CRUCIBLE_E_UNSUPPORTED,
                  "option threads is '" + *text + "': give a number from 1 to " + std::to_string(kMostThreads));
  }
  return threads;
}

std::uint64_t machine_memory_bytes() {
  struct sysinfo info = {};
  return sysinfo(&info) == 0 ? std::uint64_t{info.totalram} * info.mem_unit : 0;
}

std::string processor_name() {
  const std::string name = cpuinfo("model name");
  return name.empty() ? "processor" : name;
}

crucible_status enumerate(crucible_kv_sink sink, void* user) {
  return guard([&] {
    require(sink != nullptr, "device.enumerate: no function to report to");
    const std::string name = processor_name();
    const crucible_kv items[] = {text_item("id", kDeviceId), text_item("name", name), text_item("kind", "cpu"),
                                 number_item("threads", static_cast<std::uint64_t>(usable_cores())),
                                 number_item("memory_bytes", machine_memory_bytes())};
    sink(user, items, std::size(items));
  });
}

crucible_status open(crucible_str device_id, crucible_device** out) {
  return guard([&] {
    require(out != nullptr, "device.open: no place for the device");
    const std::string id = to_string(device_id);
    if (!id.empty() && id != kDeviceId) {
      throw Failure(CRUCIBLE_E_UNAVAILABLE, "there is no device '" + id + "', only " + std::string(kDeviceId));
    }
    auto device = std::make_unique<crucible_device>();
    device->threads = chosen_threads();
    device->compiler = option("compiler").value_or("");
    device->cache_dir = option("cache_dir").value_or("");
    device->onednn = open_onednn(option("library").value_or("auto"), device->library_note);
    if (device->onednn != nullptr) device->team = make_openmp_team(device->threads);
    if (device->team == nullptr) device->team = make_own_team(device->threads);
    *out = device.release();
  });
}

crucible_status close(crucible_device* device) {
  return guard([&] { delete device; });
}

crucible_status properties(crucible_device* device, crucible_kv_sink sink, void* user) {
  return guard([&] {
    require(device != nullptr && sink != nullptr, "device.properties: no device or no function to report to");
    const std::string name = processor_name();
    const crucible_kv items[] = {text_item("name", name), text_item("dialect", "c"),
                                 number_item("threads", static_cast<std::uint64_t>(device->threads)),
                                 text_item("team", device->team->name()), text_item("library", device->library_note)};
    sink(user, items, std::size(items));
  });
}

}  // namespace

void MemoryCount::add(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  live_ += bytes;
  peak_ = std::max(peak_, live_);
}

void MemoryCount::remove(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  live_ -= bytes;
}

std::uint64_t MemoryCount::live() const {
  const std::lock_guard lock(mutex_);
  return live_;
}

std::uint64_t MemoryCount::peak() const {
  const std::lock_guard lock(mutex_);
  return peak_;
}

std::string cpuinfo(const std::string& key) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos || line.find_first_not_of(" \t", key.size()) != colon) continue;
    const std::size_t start = line.find_first_not_of(" \t", colon + 1);
    return start == std::string::npos ? "" : line.substr(start);
  }
  return "";
}

const crucible_if_device kDeviceTable = {
    sizeof(crucible_if_device), CRUCIBLE_ABI_MINOR, enumerate, open, close, properties};

}  // namespace crucible_cpu
