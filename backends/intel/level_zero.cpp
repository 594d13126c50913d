// Loading Level Zero and naming its errors: see level_zero.hpp.
#include "backends/intel/level_zero.hpp"

#include <cstdio>
#include <memory>
#include <span>
#include <utility>

#include "backends/intel/options.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/signal_guard.hpp"
#include "plugins/sdk/vendor_library.hpp"

namespace crucible_intel {

using namespace crucible;

namespace {

std::unique_ptr<Functions> load(const std::string& name) {
  const sdk::SignalGuard guard;
  const auto library = sdk::VendorLibrary::open(
      "the Level Zero library", std::span(&name, 1),
      "install the loader (Debian: libze1) and the driver of the device (intel-level-zero-gpu), or name a library with "
      "the option library");
  auto functions = std::make_unique<Functions>();
  std::string missing, ignored;
#define CRUCIBLE_LEVEL_ZERO_FIND(name) library.find(#name, functions->name, missing);
  CRUCIBLE_LEVEL_ZERO_FUNCTIONS(CRUCIBLE_LEVEL_ZERO_FIND)
#undef CRUCIBLE_LEVEL_ZERO_FIND
  library.require_complete(missing, "Level Zero of 1.0 or newer");
#define CRUCIBLE_LEVEL_ZERO_FIND_OPTIONAL(name) library.find(#name, functions->name, ignored);
  CRUCIBLE_LEVEL_ZERO_OPTIONAL_FUNCTIONS(CRUCIBLE_LEVEL_ZERO_FIND_OPTIONAL)
  CRUCIBLE_METRIC_FUNCTIONS(CRUCIBLE_LEVEL_ZERO_FIND_OPTIONAL)
#undef CRUCIBLE_LEVEL_ZERO_FIND_OPTIONAL
  const ze_result_t code = functions->zeInit(0);
  if (code == ZE_RESULT_SUCCESS) return functions;
  throw sdk::Failure(CRUCIBLE_E_UNAVAILABLE,
                     "Level Zero does not start (zeInit: " + error_name(code) +
                         "): there is no driver that finds a device; install one "
                         "(intel-level-zero-gpu), and see that this user may open /dev/dri/renderD* (group render)",
                     {{"where", name}, {"vendor.code", std::to_string(static_cast<std::uint32_t>(code))}});
}

}  // namespace

std::string library_name() {
  const std::string name = options().get_text("library");
  return name.empty() ? "libze_loader.so.1" : name;
}

const Functions& level_zero() {
  const std::string name = library_name();
  return sdk::load_once<Functions>(name, [&] { return load(name); });
}

std::string error_name(ze_result_t code) {
  static constexpr std::pair<ze_result_t, const char*> kNames[] = {
      {ZE_RESULT_NOT_READY, "ZE_RESULT_NOT_READY"},
      {ZE_RESULT_ERROR_DEVICE_LOST, "ZE_RESULT_ERROR_DEVICE_LOST"},
      {ZE_RESULT_ERROR_NOT_AVAILABLE, "ZE_RESULT_ERROR_NOT_AVAILABLE"},
      {ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY, "ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY"},
      {ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY, "ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY"},
      {ZE_RESULT_ERROR_MODULE_BUILD_FAILURE, "ZE_RESULT_ERROR_MODULE_BUILD_FAILURE"},
      {ZE_RESULT_ERROR_DEVICE_REQUIRES_RESET, "ZE_RESULT_ERROR_DEVICE_REQUIRES_RESET"},
      {ZE_RESULT_ERROR_INSUFFICIENT_PERMISSIONS, "ZE_RESULT_ERROR_INSUFFICIENT_PERMISSIONS"},
      {ZE_RESULT_ERROR_DEPENDENCY_UNAVAILABLE, "ZE_RESULT_ERROR_DEPENDENCY_UNAVAILABLE"},
      {ZE_RESULT_ERROR_UNINITIALIZED, "ZE_RESULT_ERROR_UNINITIALIZED"},
      {ZE_RESULT_ERROR_UNSUPPORTED_VERSION, "ZE_RESULT_ERROR_UNSUPPORTED_VERSION"},
      {ZE_RESULT_ERROR_UNSUPPORTED_FEATURE, "ZE_RESULT_ERROR_UNSUPPORTED_FEATURE"},
      {ZE_RESULT_ERROR_INVALID_ARGUMENT, "ZE_RESULT_ERROR_INVALID_ARGUMENT"},
      {ZE_RESULT_ERROR_UNSUPPORTED_SIZE, "ZE_RESULT_ERROR_UNSUPPORTED_SIZE"},
      {ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT, "ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT"},
      {ZE_RESULT_ERROR_INVALID_NATIVE_BINARY, "ZE_RESULT_ERROR_INVALID_NATIVE_BINARY"}};
  char number[16];
  std::snprintf(number, sizeof number, "0x%08x", static_cast<unsigned>(code));
  for (const auto& [known, name] : kNames) {
    if (known == code) return std::string(name) + " (" + number + ")";
  }
  return std::string("Level Zero's result ") + number;
}

void check(ze_result_t code, std::string_view what) {
  if (code == ZE_RESULT_SUCCESS) return;
  crucible_code category = CRUCIBLE_E_INTERNAL;
  std::string advice;
  switch (code) {
    case ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY:
    case ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY:
      category = CRUCIBLE_E_OUT_OF_MEMORY;
      advice = "; use a smaller batch, or a device with more memory";
      break;
    case ZE_RESULT_ERROR_DEVICE_LOST:
    case ZE_RESULT_ERROR_DEVICE_REQUIRES_RESET:
      category = CRUCIBLE_E_DEVICE_LOST;
      advice = "; the device is gone: open it again, or another one";
      break;
    case ZE_RESULT_ERROR_NOT_AVAILABLE:
      category = CRUCIBLE_E_UNAVAILABLE;
      advice = "; another process has the device for itself: end it or use another device";
      break;
    case ZE_RESULT_ERROR_UNINITIALIZED:
    case ZE_RESULT_ERROR_DEPENDENCY_UNAVAILABLE:
    case ZE_RESULT_ERROR_INSUFFICIENT_PERMISSIONS:
      category = CRUCIBLE_E_UNAVAILABLE;
      break;
    default:
      break;
  }
  throw sdk::Failure(category, std::string(what) + ": " + error_name(code) + advice,
                     {{"vendor.code", std::to_string(static_cast<std::uint32_t>(code))}});
}

}  // namespace crucible_intel
