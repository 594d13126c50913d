// Finding ROCm SMI or AMD SMI: see smi.hpp.
#include "backends/amd/smi.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "backends/amd/options.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/vendor_library.hpp"

namespace crucible_amd {

using namespace crucible;

namespace {

constexpr std::uint64_t kGpus = 2;  // AMDSMI_INIT_AMD_GPUS

// Debian's package counts otherwise: .1 is ROCm 5.
const std::vector<std::string> kNames = {"librocm_smi64.so.7", "librocm_smi64.so.6", "librocm_smi64.so.5",
                                         "librocm_smi64.so.1", "libamd_smi.so",      "libamd_smi.so.26",
                                         "libamd_smi.so.25",   "libamd_smi.so.24"};

struct Entry {
  std::unique_ptr<Smi> functions;
  std::string refusal;
};

int start(Smi& functions) {
  if (!functions.is_rocm) return functions.amdsmi_init(kGpus);
  const int code = functions.rsmi_init(0);
  rsmi_version_t version = {};
  if (code == RSMI_STATUS_SUCCESS && functions.rsmi_version_get != nullptr &&
      functions.rsmi_version_get(&version) == RSMI_STATUS_SUCCESS)
    functions.major = version.major;
  return code;
}

Entry load(const std::string& name) {
  Entry entry;
  try {
    const std::vector<std::string> named = {name};
    const auto library = sdk::VendorLibrary::open(
        "health is not measured: ROCm SMI", name.empty() ? kNames : named,
        "install rocm-smi-lib or amd-smi-lib (Debian: librocm-smi64-1), or name it with the option smi");
    auto functions = std::make_unique<Smi>();
#define CRUCIBLE_SMI_FIND(function, parameters) \
  functions->function = reinterpret_cast<decltype(functions->function)>(library.find(#function));
    CRUCIBLE_ROCM_SMI_FUNCTIONS(CRUCIBLE_SMI_FIND)
    CRUCIBLE_AMD_SMI_FUNCTIONS(CRUCIBLE_SMI_FIND)
#undef CRUCIBLE_SMI_FIND
    functions->file = library.file();
    functions->is_rocm = functions->rsmi_init != nullptr;
    if (!functions->is_rocm && functions->amdsmi_init == nullptr) {
      entry.refusal = "health is not measured: " + library.file() +
                      " is neither ROCm SMI nor AMD SMI: it lacks rsmi_init and amdsmi_init";
      return entry;
    }
    const int code = start(*functions);
    if (code == RSMI_STATUS_SUCCESS) {
      entry.functions = std::move(functions);
    } else {
      entry.refusal = std::string("health is not measured: ") + functions->name() + " (" + library.file() +
                      ") does not start, error " + std::to_string(code) +
                      ": see that the driver (amdgpu) is loaded and its release is the library's";
    }
  } catch (const sdk::Failure& failure) {
    entry.refusal = failure.what();
  }
  return entry;
}

struct Libraries {
  std::mutex mutex;
  std::map<std::string, Entry> loaded;
};

const Entry& entry() {
  static Libraries& all = *new Libraries;  // never destroyed, like the library
  const std::string name = options().get_text("smi");
  const std::lock_guard lock(all.mutex);
  const auto found = all.loaded.find(name);
  return found != all.loaded.end() ? found->second : all.loaded.emplace(name, load(name)).first->second;
}

}  // namespace

const Smi* smi() { return entry().functions.get(); }

std::string smi_refusal() { return entry().refusal; }

}  // namespace crucible_amd
