// Loading Level Zero and naming its errors: see level_zero.hpp.
#include "backends/intel/level_zero.hpp"

#include <dlfcn.h>

#include <cstdio>
#include <map>
#include <memory>
#include <mutex>

#include "backends/intel/options.hpp"
#include "backends/intel/process_guard.hpp"
#include "plugins/sdk/error.hpp"

namespace crucible_intel {

using namespace crucible;

namespace {

constexpr const char* kLoader = "libze_loader.so.1";

std::unique_ptr<Functions> load(const std::string& library) {
  const ProcessGuard guard;
  // Its symbols stay its own; it is never unloaded, because drivers have threads.
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const reason = dlerror();
    throw sdk::Failure(CRUCIBLE_E_UNAVAILABLE,
                       "the Level Zero library " + library + " cannot be loaded (" +
                           (reason != nullptr ? reason : "?") +
                           "): install the loader (Debian: libze1) and the driver of the device "
                           "(intel-level-zero-gpu), or name a library with the "
                           "option library",
                       {{"where", library}});
  }
  auto functions = std::make_unique<Functions>();
  std::string missing;
#define CRUCIBLE_LEVEL_ZERO_FIND(name)                                                 \
  functions->name = reinterpret_cast<decltype(functions->name)>(dlsym(handle, #name)); \
  if (functions->name == nullptr) missing += std::string(missing.empty() ? "" : ", ") + #name;
  CRUCIBLE_LEVEL_ZERO_FUNCTIONS(CRUCIBLE_LEVEL_ZERO_FIND)
#undef CRUCIBLE_LEVEL_ZERO_FIND
  if (!missing.empty()) {
    throw sdk::Failure(CRUCIBLE_E_INCOMPATIBLE,
                       "the Level Zero library " + library + " lacks " + missing + ": version 1.0 or newer is needed",
                       {{"where", library}, {"need", "Level Zero 1.0"}});
  }
#define CRUCIBLE_LEVEL_ZERO_FIND_OPTIONAL(name) \
  functions->name = reinterpret_cast<decltype(functions->name)>(dlsym(handle, #name));
  CRUCIBLE_LEVEL_ZERO_OPTIONAL_FUNCTIONS(CRUCIBLE_LEVEL_ZERO_FIND_OPTIONAL)
  CRUCIBLE_METRIC_FUNCTIONS(CRUCIBLE_LEVEL_ZERO_FIND_OPTIONAL)
#undef CRUCIBLE_LEVEL_ZERO_FIND_OPTIONAL
  const ze_result_t code = functions->zeInit(0);
  if (code == ZE_RESULT_SUCCESS) return functions;
  throw sdk::Failure(CRUCIBLE_E_UNAVAILABLE,
                     "Level Zero does not start (zeInit: " + error_name(code) +
                         "): there is no driver that finds a device; install one "
                         "(intel-level-zero-gpu), and see that this user may open /dev/dri/renderD* (group render)",
                     {{"where", library}, {"vendor.code", std::to_string(static_cast<std::uint32_t>(code))}});
}

struct Libraries {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<Functions>> loaded;
};
Libraries& libraries() {
  static Libraries& all = *new Libraries;  // never destroyed: objects may be given back at the very end
  return all;
}

}  // namespace

const Functions& level_zero() {
  std::string library = options().get_text("library");
  if (library.empty()) library = kLoader;
  Libraries& all = libraries();
  const std::lock_guard lock(all.mutex);
  std::unique_ptr<Functions>& entry = all.loaded[library];
  if (entry == nullptr) entry = load(library);
  return *entry;
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
