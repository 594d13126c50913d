// Finding the HIP runtime and naming its errors: see hip.hpp.
#include "backends/amd/hip.hpp"

#include <memory>
#include <vector>

#include "backends/amd/graph_api.hpp"
#include "backends/amd/options.hpp"
#include "backends/amd/profiler.hpp"
#include "plugins/sdk/error.hpp"

namespace crucible_amd {

using namespace crucible;

namespace {

constexpr int kOldest = 5;
constexpr const char* kNames[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"};

/// A runtime that is there and does not start.
[[noreturn]] void refuse_start(const Hip& runtime, hipError_t code) {
  std::string advice = "look at `rocminfo` and at the kernel's log";
  if (code == hipErrorNoDevice) {
    advice =
        "there is no AMD device, the user may not open /dev/kfd (groups render and video), or HIP_VISIBLE_DEVICES or "
        "ROCR_VISIBLE_DEVICES hides all of them";
  }
  if (code == hipErrorInsufficientDriver) advice = "the kernel's driver amdgpu is older than this ROCm: update it";
  throw sdk::Failure(
      CRUCIBLE_E_UNAVAILABLE,
      "the HIP runtime (" + runtime.file + ") does not start: " + error_text(runtime, code) + ": " + advice,
      {{"vendor.code", std::to_string(code)}, {"where", runtime.file}});
}

std::unique_ptr<Hip> load(const std::vector<std::string>& names) {
  auto runtime = std::make_unique<Hip>(
      sdk::VendorLibrary::open("AMD's HIP runtime", names,
                               "install ROCm's HIP runtime (AMD's package hip-runtime-amd, Debian's libamdhip64-5), or "
                               "name a library with the option library"));
  std::string missing;
#define CRUCIBLE_HIP_FIND(name, result, parameters)                                               \
  runtime->name = reinterpret_cast<decltype(runtime->name)>(runtime->library.find(#name)); \
  if (runtime->name == nullptr) missing += std::string(missing.empty() ? "" : ", ") + #name;
  CRUCIBLE_HIP_FUNCTIONS(CRUCIBLE_HIP_FIND)
#undef CRUCIBLE_HIP_FIND
  if (!missing.empty()) {
    throw sdk::Failure(
        CRUCIBLE_E_INCOMPATIBLE,
        "the library " + runtime->file + " lacks " + missing + ": a HIP runtime of version 5, 6 or 7 is needed",
        {{"where", runtime->file}, {"need", "HIP 5"}});
  }
  if (const hipError_t code = runtime->hipInit(0); code != hipSuccess) refuse_start(*runtime, code);
  check(*runtime, runtime->hipRuntimeGetVersion(&runtime->version), "hipRuntimeGetVersion");
  if (runtime->major() < kOldest) {
    throw sdk::Failure(CRUCIBLE_E_INCOMPATIBLE,
                       "the HIP runtime (" + runtime->file + ") is version " + version_text(runtime->version) +
                           ", 5 or newer is needed: update ROCm",
                       {{"have", version_text(runtime->version)}, {"need", "5.0"}, {"where", runtime->file}});
  }
  return runtime;
}

}  // namespace

const Hip& hip() {
  const std::string option = options().get_text("library");
  return sdk::load_once<Hip>(option, [&] {
    prepare_profiler();  // the runtime hands it its functions when it starts, not later
    return load(option.empty() ? std::vector<std::string>(std::begin(kNames), std::end(kNames))
                               : std::vector<std::string>{option});
  });
}

std::string version_text(int version) {
  return std::to_string(version / 10'000'000) + "." + std::to_string(version / 100'000 % 100);
}

std::string error_text(const Hip& hip, hipError_t code) {
  const char *const name = hip.hipGetErrorName(code), *const text = hip.hipGetErrorString(code);
  if (name == nullptr) return "HIP error " + std::to_string(code);
  return std::string(name) + " (" + std::to_string(code) + ")" + (text != nullptr ? std::string(": ") + text : "");
}

}  // namespace crucible_amd
