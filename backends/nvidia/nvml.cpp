// Finding NVML: see nvml.hpp.
#include "backends/nvidia/nvml.hpp"

#include <map>
#include <memory>
#include <mutex>

#include "backends/nvidia/options.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/vendor_library.hpp"

namespace crucible_nvidia {

using namespace crucible;

namespace {

constexpr const char* kLibrary = "libnvidia-ml.so.1";

struct Entry {
  std::unique_ptr<Nvml> functions;
  std::string refusal;
};

Entry load(const std::string& name) {
  Entry entry;
  try {
    const std::string names[] = {name};
    const auto library =
        sdk::VendorLibrary::open("health is not measured: NVML", names,
                                 "it comes with the driver (Debian: libnvidia-ml1), or name it with the option nvml");
    auto functions = std::make_unique<Nvml>();
#define CRUCIBLE_NVML_FIND(function, parameters) \
  functions->function = reinterpret_cast<decltype(functions->function)>(library.find(#function));
    CRUCIBLE_NVML_FUNCTIONS(CRUCIBLE_NVML_FIND)
#undef CRUCIBLE_NVML_FIND
    const nvmlReturn_t code = functions->nvmlInit_v2 != nullptr ? functions->nvmlInit_v2() : -1;
    functions->file = library.file();
    if (code == NVML_SUCCESS) {
      entry.functions = std::move(functions);
    } else {
      entry.refusal = "health is not measured: NVML (" + library.file() + ") does not start, error " +
                      std::to_string(code) + ": compare its release with the driver's";
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
  std::string name = options().get_text("nvml");
  if (name.empty()) name = kLibrary;
  const std::lock_guard lock(all.mutex);
  const auto found = all.loaded.find(name);
  return found != all.loaded.end() ? found->second : all.loaded.emplace(name, load(name)).first->second;
}

}  // namespace

const Nvml* nvml() { return entry().functions.get(); }

std::string nvml_refusal() { return entry().refusal; }

}  // namespace crucible_nvidia
