// Finding Sysman: see sysman.hpp.
#include "backends/intel/sysman.hpp"

#include <dlfcn.h>

#include <map>
#include <memory>
#include <mutex>

#include "backends/intel/options.hpp"
#include "backends/intel/process_guard.hpp"

namespace crucible_intel {

using namespace crucible;

namespace {

constexpr const char* kLoader = "libze_loader.so.1";

struct Entry {
  std::unique_ptr<SysmanFunctions> functions;
  std::string refusal;
};

Entry load(const std::string& library) {
  const ProcessGuard guard;
  Entry entry;
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    entry.refusal = "health is not measured: " + library + " cannot be loaded: install the loader (Debian: libze1)";
    return entry;
  }
  auto functions = std::make_unique<SysmanFunctions>();
  functions->file = library;
#define CRUCIBLE_SYSMAN_FIND(name) functions->name = reinterpret_cast<decltype(functions->name)>(dlsym(handle, #name));
  CRUCIBLE_SYSMAN_FUNCTIONS(CRUCIBLE_SYSMAN_FIND)
#undef CRUCIBLE_SYSMAN_FIND
  if (functions->zesInit == nullptr || functions->zesDriverGet == nullptr || functions->zesDeviceGet == nullptr ||
      functions->zesDeviceGetProperties == nullptr) {
    entry.refusal = "health is not measured: " + library +
                    " has no zesInit: a loader of Level Zero 1.5 or newer has Sysman (Debian: libze1)";
    return entry;
  }
  const ze_result_t code = functions->zesInit(0);
  if (code == ZE_RESULT_SUCCESS) {
    entry.functions = std::move(functions);
  } else {
    entry.refusal = "health is not measured: Sysman does not start (zesInit: " + error_name(code) +
                    "): install a driver that has it (intel-level-zero-gpu)";
  }
  return entry;
}

struct Libraries {
  std::mutex mutex;
  std::map<std::string, Entry> loaded;
};

const Entry& entry() {
  static Libraries& all = *new Libraries;  // never destroyed, like the library
  std::string name = options().get_text("library");
  if (name.empty()) name = kLoader;
  const std::lock_guard lock(all.mutex);
  const auto found = all.loaded.find(name);
  return found != all.loaded.end() ? found->second : all.loaded.emplace(name, load(name)).first->second;
}

}  // namespace

const SysmanFunctions* sysman() { return entry().functions.get(); }

std::string sysman_refusal() { return entry().refusal; }

}  // namespace crucible_intel
