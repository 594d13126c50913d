// Device table: which device there is (one), opening it with the user's options, what it says of itself.
#include "backends/cpu/device.hpp"

#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <vector>

#include "backends/cpu/compiler.hpp"
#include "backends/cpu/library_onednn.hpp"
#include "backends/cpu/processors.hpp"
#include "backends/cpu/sdk.hpp"
#include "backends/cpu/tables.hpp"
#include "plugins/abi/sized_launch.hpp"
#include "plugins/sdk/device_table.hpp"

namespace crucible_cpu {
namespace {

constexpr int kMostThreads = 1024;

/// Errors: UNSUPPORTED when the option is not a number of threads.
int chosen_threads() {
  if (!kOptions.has("threads")) return std::min(usable_processors(), kMostThreads);
  return static_cast<int>(kOptions.get_u64("threads"));
}

std::uint64_t machine_memory_bytes() {
  struct sysinfo info = {};
  return sysinfo(&info) == 0 ? std::uint64_t{info.totalram} * info.mem_unit : 0;
}

std::string processor_name() {
  const std::string name = cpuinfo("model name");
  return name.empty() ? "processor" : name;
}

/// Of a core's vector registers, which the compiler uses as find_compiler() tells it: 32 of 64 bytes, or 16 of 32 or 16
/// bytes.
std::uint64_t register_bytes() {
#if defined(__x86_64__)
  const std::string features = " " + cpuinfo("flags") + " ";
  if (features.find(" avx512f ") != std::string::npos) return 32 * 64;
  return features.find(" avx2 ") != std::string::npos ? 16 * 32 : 16 * 16;
#else
  return 32 * 16;
#endif
}

crucible_status enumerate(crucible_kv_sink sink, void* user) {
  return guard([&] {
    require(sink != nullptr, "device.enumerate: no function to report to");
    const std::string name = processor_name();
    const crucible_kv items[] = {text_item("id", kDeviceId),
                                 text_item("name", name),
                                 text_item("kind", "cpu"),
                                 number_item("threads", static_cast<std::uint64_t>(usable_processors())),
                                 number_item("memory_bytes", machine_memory_bytes()),
                                 number_item("emulated", 0)};
    sink(user, items, std::size(items));
  });
}

crucible_status open(crucible_str device_id, crucible_device** out) {
  return guard([&] {
    require(out != nullptr, "device.open: no place for the device");
    require_device(device_id);
    auto device = std::make_unique<crucible_device>();
    device->threads = chosen_threads();
    device->has_fixed_threads = kOptions.has("threads");
    device->compiler = option("compiler").value_or("");
    device->compile_wait_s = kOptions.get_u64("compile_wait_s");
    device->sanitizes = kOptions.get_bool("sanitize");
    device->onednn = open_onednn(kOptions.get_text("library"), device->library_note);
    device->team = std::make_unique<Team>(device->threads);
    *out = device.release();
  });
}

crucible_status close(crucible_device* device) {
  return guard([&] { delete device; });
}

crucible_status properties(crucible_device* device, crucible_kv_sink sink, void* user) {
  return guard([&] {
    require(device != nullptr && sink != nullptr, "device.properties: no device or no function to report to");
    const std::string name = processor_name(), compiler = compiler_in_words(device->compiler),
                      processors = find_processors().in_words();
    std::vector<crucible_kv> items = {text_item("name", name),
                                      text_item("dialect", "c"),
                                      math_item(),
                                      number_item("threads", static_cast<std::uint64_t>(device->threads)),
                                      number_item("register_bytes", register_bytes()),
                                      text_item("processors", processors),
                                      text_item("library", device->library_note),
                                      text_item("compiler", compiler)};
    if (device->sanitizes) items.push_back(text_item(crucible::abi::kSizedLaunchesProperty, "1"));
    sink(user, items.data(), static_cast<std::uint32_t>(items.size()));
  });
}

/// Whether the library is there is known only once it was tried: "unknown", not a guess.
crucible_status capabilities(crucible_str device_id, crucible_kv_sink sink, void* user) {
  return guard([&] {
    require(sink != nullptr, "device.capabilities: no function to report to");
    require_device(device_id);
    constexpr std::string_view kLibrary = "by oneDNN, when libdnnl.so.2 is there";
    const crucible_kv items[] = {
        answer_item("async", Answer::kYes, "submit returns at once"),
        answer_item("compile.opaque", Answer::kNo, "opaque ops are a framework's"),
        answer_item("compile.ir", Answer::kYes, "printed as C, for clang"),
        answer_item("library.matmul", Answer::kUnknown, kLibrary),
        answer_item("library.conv2d", Answer::kUnknown, kLibrary),
        answer_item("f64", Answer::kYes, ""),
        answer_item("f16", Answer::kYes, "stored; computed as f32"),
        answer_item("bf16", Answer::kYes, "stored; computed as f32"),
        answer_item("profile", Answer::kYes, "time per op; no counters"),
        answer_item("health", Answer::kYes, ""),
    };
    sink(user, items, std::size(items));
  });
}

/// 16 multiply-adds of f32 a cycle and core are what AVX2 does; clock and cores are the machine's.
crucible_status score(crucible_str device_id, const crucible_kv* workload, std::uint32_t count, std::uint64_t* out,
                      crucible_kv_sink why, void* user) {
  return tell_score(workload, count, out, why, user, [&](std::uint64_t peak_bytes) {
    require_device(device_id);
    if (const std::uint64_t memory_bytes = machine_memory_bytes(); peak_bytes > memory_bytes) {
      return Score{0, "the program needs " + std::to_string(peak_bytes) + " bytes, the machine has " +
                          std::to_string(memory_bytes)};
    }
    const auto megahertz = static_cast<std::uint64_t>(std::strtod(cpuinfo("cpu MHz").c_str(), nullptr));
    return score_of_cycles(static_cast<std::uint64_t>(usable_processors()), "cores", megahertz, 32);
  });
}

crucible_status wait_idle(crucible_device* device, std::uint64_t timeout_ns) {
  return guard([&] {
    require(device != nullptr, "device.wait_idle: no device");
    device->process.require_this_one("device.wait_idle");
    if (!device->wait_for_queues(timeout_ns)) {
      throw Failure(CRUCIBLE_E_CANCELLED,
                    "device.wait_idle: the queues were not empty after " + std::to_string(timeout_ns) + " ns");
    }
  });
}

struct SelfTest {
  int jobs = 0, pieces = 0;
  std::atomic<int> sum{0};
};

/// Level 0 asks for nothing but the team: the numbers of a hundred jobs' pieces are added up.
crucible_status self_test(crucible_device* device, std::uint32_t, crucible_kv_sink sink, void* user) {
  return guard([&] {
    require(device != nullptr && sink != nullptr, "device.self_test: no device or no function to report to");
    device->process.require_this_one("device.self_test");
    constexpr int kJobs = 100;
    SelfTest test{kJobs, 4 * device->threads};
    const auto next = [](void* context, Job& job) {
      auto& own = *static_cast<SelfTest*>(context);
      const auto add = [](const void* c, std::uint32_t piece) {
        const_cast<SelfTest*>(static_cast<const SelfTest*>(c))->sum.fetch_add(static_cast<int>(piece) + 1);
      };
      job = {add, &own, static_cast<std::uint32_t>(own.pieces), 1e9};
      return own.jobs-- > 0;
    };
    {
      const std::lock_guard lock(device->run_mutex);
      device->team->run(next, &test, device->threads);
    }
    const int expected = kJobs * test.pieces * (test.pieces + 1) / 2;
    if (test.sum != expected) {
      throw Failure(CRUCIBLE_E_EXEC_FAULT, "self_test: the threads add up to " + std::to_string(test.sum) + ", not " +
                                               std::to_string(expected));
    }
    const crucible_kv items[] = {number_item("threads", static_cast<std::uint64_t>(device->threads))};
    sink(user, items, std::size(items));
  });
}

}  // namespace

void require_device(crucible_str device_id) {
  const std::string id = to_string(device_id);
  if (!id.empty() && id != kDeviceId) {
    throw Failure(CRUCIBLE_E_UNAVAILABLE, "there is no device '" + id + "', only " + std::string(kDeviceId));
  }
}

int free_processors(const crucible_device& device) {
  const Processors found = find_processors();
  int others = 0;
  // The machine's count says something of ours only where we may use all of them.
  if (found.allowed == static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN))) others = std::max(0, count_running() - 1);
  return std::clamp(std::min(found.cores, found.usable()) - others, 1, device.threads);
}

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

const crucible_if_device kDeviceTable = {sizeof(crucible_if_device),
                                         CRUCIBLE_ABI_MINOR,
                                         enumerate,
                                         open,
                                         close,
                                         properties,
                                         capabilities,
                                         score,
                                         wait_idle,
                                         self_test};

}  // namespace crucible_cpu
