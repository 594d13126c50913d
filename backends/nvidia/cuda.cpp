// Finding the driver's functions and naming its errors: see cuda.hpp.
#include "backends/nvidia/cuda.hpp"

#include <memory>

#include "backends/nvidia/options.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/vendor_library.hpp"

namespace crucible_nvidia {

using namespace crucible;

namespace {

constexpr const char* kDriver = "libcuda.so.1";
constexpr int kOldestDriver = 11040;  // cuGraphInstantiateWithFlags

using GetProcAddress = CUresult (*)(const char* name, void** out, int version, std::uint64_t flags, int* found);
using GetProcAddressBefore12 = CUresult (*)(const char* name, void** out, int version, std::uint64_t flags);

/// How this driver gives out its functions. Before CUDA 12 it did not say why it has none.
struct Lookup {
  GetProcAddress get = nullptr;
  GetProcAddressBefore12 get_before_12 = nullptr;

  void* find(const char* name, int version) const {
    void* function = nullptr;
    int found = 0;
    const CUresult code =
        get != nullptr ? get(name, &function, version, 0, &found) : get_before_12(name, &function, version, 0);
    return code == CUDA_SUCCESS ? function : nullptr;
  }
};

[[noreturn]] void too_old(const std::string& file, int version) {
  const std::string have = version == 0 ? "an unknown version" : "CUDA " + version_text(version);
  throw sdk::Failure(CRUCIBLE_E_INCOMPATIBLE,
                     "the NVIDIA driver (" + file + ") speaks " + have + " and CUDA " + version_text(kOldestDriver) +
                         " or newer is needed: update the driver to release 470 or newer",
                     {{"have", version_text(version)}, {"need", version_text(kOldestDriver)}, {"where", file}});
}

/// A driver that is there and does not start.
[[noreturn]] void refuse_start(const Cuda& driver, CUresult code) {
  std::string advice = "look at `nvidia-smi` and at the kernel's log";
  if (code == CUDA_ERROR_NO_DEVICE)
    advice = "there is no NVIDIA device, or CUDA_VISIBLE_DEVICES hides all of them";
  if (code == CUDA_ERROR_SYSTEM_DRIVER_MISMATCH)
    advice =
        "the kernel's module and the library are of different releases: restart the machine after an update of the "
        "driver";
  if (code == CUDA_ERROR_STUB_LIBRARY) advice = "this is the toolkit's stub for linking: install the driver itself";
  throw sdk::Failure(CRUCIBLE_E_UNAVAILABLE, "the NVIDIA driver (" + driver.file + ") does not start: " +
                                                 error_text(driver, code) + ": " + advice,
                     {{"vendor.code", std::to_string(code)}, {"where", driver.file}});
}

std::unique_ptr<Cuda> load(const std::string& name) {
  const std::string names[] = {name};
  const auto library = sdk::VendorLibrary::open("the NVIDIA driver's library", names,
                                                "install NVIDIA's driver (Debian: nvidia-driver, in a container "
                                                "libcuda1 of the host's release), or name a library with the "
                                                "option library");
  auto driver = std::make_unique<Cuda>();
  driver->file = library.file();
  const auto get_version = reinterpret_cast<CUresult (*)(int*)>(library.find("cuDriverGetVersion"));
  if (get_version == nullptr) {
    throw sdk::Failure(CRUCIBLE_E_INCOMPATIBLE,
                       "the library " + name + " lacks cuDriverGetVersion: it is no NVIDIA driver's (libcuda.so.1)",
                       {{"where", driver->file}, {"need", "libcuda.so.1"}});
  }
  if (get_version(&driver->version) != CUDA_SUCCESS) driver->version = 0;
  const Lookup lookup = {reinterpret_cast<GetProcAddress>(library.find("cuGetProcAddress_v2")),
                         reinterpret_cast<GetProcAddressBefore12>(library.find("cuGetProcAddress"))};
  if (driver->version < kOldestDriver || (lookup.get == nullptr && lookup.get_before_12 == nullptr))
    too_old(driver->file, driver->version);
  std::string missing;
#define CRUCIBLE_CUDA_FIND(name, version, parameters)                                     \
  driver->name = reinterpret_cast<decltype(driver->name)>(lookup.find(#name, version)); \
  if (driver->name == nullptr) missing += std::string(missing.empty() ? "" : ", ") + #name;
  CRUCIBLE_CUDA_FUNCTIONS(CRUCIBLE_CUDA_FIND)
#undef CRUCIBLE_CUDA_FIND
  if (!missing.empty()) {
    throw sdk::Failure(CRUCIBLE_E_INCOMPATIBLE, "the NVIDIA driver (" + driver->file + ", CUDA " +
                                                    version_text(driver->version) + ") lacks " + missing +
                                                    ": update it",
                       {{"have", version_text(driver->version)}, {"where", driver->file}});
  }
  if (const CUresult code = driver->cuInit(0); code != CUDA_SUCCESS) refuse_start(*driver, code);
  return driver;
}

}  // namespace

const Cuda& cuda() {
  std::string library = options().get_text("library");
  if (library.empty()) library = kDriver;
  return sdk::load_once<Cuda>(library, [&] { return load(library); });
}

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string error_text(const Cuda& cuda, CUresult code) {
  const char *name = nullptr, *text = nullptr;
  if (cuda.cuGetErrorName(code, &name) != CUDA_SUCCESS || name == nullptr) return "CUDA error " + std::to_string(code);
  std::string result = std::string(name) + " (" + std::to_string(code) + ")";
  if (cuda.cuGetErrorString(code, &text) == CUDA_SUCCESS && text != nullptr) result += std::string(": ") + text;
  return result;
}

}  // namespace crucible_nvidia
