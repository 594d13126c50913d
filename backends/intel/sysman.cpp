// Finding Sysman: see sysman.hpp.
#include "backends/intel/sysman.hpp"

#include <memory>
#include <span>

#include "plugins/sdk/error.hpp"
#include "plugins/sdk/signal_guard.hpp"
#include "plugins/sdk/vendor_library.hpp"

namespace crucible_intel {

using namespace crucible;

namespace {

struct Entry {
  std::unique_ptr<SysmanFunctions> functions;
  std::string refusal;
};

std::unique_ptr<Entry> load(const std::string& name) {
  const sdk::SignalGuard guard;
  auto entry = std::make_unique<Entry>();
  auto functions = std::make_unique<SysmanFunctions>();
  std::string ignored;
  functions->file = name;
  try {
    const auto library =
        sdk::VendorLibrary::open("the Level Zero library", std::span(&name, 1), "install the loader (Debian: libze1)");
#define CRUCIBLE_SYSMAN_FIND(name) library.find(#name, functions->name, ignored);
    CRUCIBLE_SYSMAN_FUNCTIONS(CRUCIBLE_SYSMAN_FIND)
#undef CRUCIBLE_SYSMAN_FIND
  } catch (const sdk::Failure& failure) {
    entry->refusal = std::string("health is not measured: ") + failure.what();
    return entry;
  }
  if (functions->zesInit == nullptr || functions->zesDriverGet == nullptr || functions->zesDeviceGet == nullptr ||
      functions->zesDeviceGetProperties == nullptr) {
    entry->refusal = "health is not measured: " + name +
                     " has no zesInit: a loader of Level Zero 1.5 or newer has Sysman (Debian: libze1)";
    return entry;
  }
  const ze_result_t code = functions->zesInit(0);
  if (code == ZE_RESULT_SUCCESS) {
    entry->functions = std::move(functions);
  } else {
    entry->refusal = "health is not measured: Sysman does not start (zesInit: " + error_name(code) +
                     "): install a driver that has it (intel-level-zero-gpu)";
  }
  return entry;
}

const Entry& entry() {
  const std::string name = library_name();
  return sdk::load_once<Entry>(name, [&] { return load(name); });
}

}  // namespace

const SysmanFunctions* sysman() { return entry().functions.get(); }

std::string sysman_refusal() { return entry().refusal; }

}  // namespace crucible_intel
