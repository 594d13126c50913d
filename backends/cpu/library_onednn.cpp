// Opening oneDNN and the library table. The library stays loaded: its threads and its generated code have no known end.
#include "backends/cpu/library_onednn.hpp"

#include <dlfcn.h>

#include <mutex>

#include "backends/cpu/device.hpp"
#include "backends/cpu/sdk.hpp"
#include "backends/cpu/tables.hpp"
#include "backends/cpu/team.hpp"

namespace crucible_cpu {
namespace {

constexpr const char* kCost = "products and convolutions are generated and slower";

#ifdef CRUCIBLE_HAVE_ONEDNN

/// Fills the functions from a loaded library. "" or what is missing.
std::string bind(OneDnn& onednn, void* handle) {
#define CRUCIBLE_ONEDNN_BIND(name)                                             \
  onednn.name = reinterpret_cast<decltype(onednn.name)>(dlsym(handle, #name)); \
  if (onednn.name == nullptr) return "it lacks " #name;
  CRUCIBLE_ONEDNN_FUNCTIONS(CRUCIBLE_ONEDNN_BIND)
#undef CRUCIBLE_ONEDNN_BIND
  const dnnl_version_t* version = onednn.dnnl_version();
  if (version->major != DNNL_VERSION_MAJOR) {
    return "it is version " + std::to_string(version->major) + ", wanted is " + std::to_string(DNNL_VERSION_MAJOR);
  }
  if (onednn.dnnl_engine_create(&onednn.engine, dnnl_cpu, 0) != dnnl_success) {
    return "its CPU engine does not start";
  }
  return "";
}

/// The library or, in `reason`, why not.
std::shared_ptr<const OneDnn> load(std::string& reason) {
  void* handle = dlopen("libdnnl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    reason = "libdnnl.so.2 was not found: install libdnnl2";
    return nullptr;
  }
  auto onednn = std::make_shared<OneDnn>();
  if (const std::string missing = bind(*onednn, handle); !missing.empty()) {
    reason = "libdnnl.so.2 is not usable: " + missing;
    return nullptr;
  }
  return onednn;
}

std::string describe(const OneDnn& onednn) {
  const dnnl_version_t* version = onednn.dnnl_version();
  return "oneDNN " + std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
         std::to_string(version->patch);
}

#else

std::shared_ptr<const OneDnn> load(std::string& reason) {
  reason = "the plugin was built without oneDNN's header: install libdnnl-dev and build it again";
  return nullptr;
}

std::string describe(const OneDnn&) { return ""; }

#endif  // CRUCIBLE_HAVE_ONEDNN

crucible_status claim(crucible_device* device, const crucible_library_desc* desc, std::uint64_t* out_scratch_bytes) {
  return guard([&] {
    require(device != nullptr && desc != nullptr && out_scratch_bytes != nullptr,
            "library.claim: an argument is missing");
    require(desc->struct_size >= kSmallestDescription, "library.claim: the description is too short");
    const NoOpenMpThreads alone;  // oneDNN plans for the number of threads that the caller has
    const auto whole = read_sized(desc);
    *out_scratch_bytes = make_library_call(device->onednn, whole, device->threads)->scratch_bytes();
  });
}

}  // namespace

std::shared_ptr<const OneDnn> open_onednn(const std::string& wanted, std::string& note) {
  if (wanted == "none") {
    note = std::string("none (switched off by the option library; ") + kCost + ")";
    return nullptr;
  }
  if (wanted != "auto" && wanted != "onednn") {
    throw Failure(CRUCIBLE_E_UNSUPPORTED, "option library is '" + wanted + "': give auto, onednn or none");
  }
  // Found once: loading takes 20 ms. Absence is looked at again, since a package may have been installed meanwhile.
  // Never destroyed: at the process's end the library may be gone before us.
  static std::mutex mutex;
  static auto& found = *new std::shared_ptr<const OneDnn>;
  const std::lock_guard lock(mutex);
  std::string reason;
  if (found == nullptr) found = load(reason);
  if (found != nullptr) {
    note = describe(*found);
  } else if (wanted == "onednn") {
    throw Failure(CRUCIBLE_E_UNAVAILABLE, "library onednn was asked for, and " + reason);
  } else {
    note = "none (" + reason + "; " + kCost + ")";
  }
  return found;
}

std::unique_ptr<LibraryCall> make_library_call(std::shared_ptr<const OneDnn> onednn, const crucible_library_desc& desc,
                                               int threads) {
  if (onednn == nullptr) throw Failure(CRUCIBLE_E_UNSUPPORTED, "there is no library on this device");
  if (desc.epilogue != CRUCIBLE_EPILOGUE_NONE)
    throw Failure(CRUCIBLE_E_UNSUPPORTED, "epilogues of products are not taken");
#ifdef CRUCIBLE_HAVE_ONEDNN
  switch (desc.kind) {
    case CRUCIBLE_LIB_MATMUL:
      return make_matmul(std::move(onednn), desc, threads);
    case CRUCIBLE_LIB_CONV2D:
    case CRUCIBLE_LIB_CONV2D_BACKWARD_INPUT:
    case CRUCIBLE_LIB_CONV2D_BACKWARD_WEIGHT:
      return make_convolution(std::move(onednn), desc, threads);
    default:
      break;  // an open set of numbers: a newer host may ask for more
  }
#endif
  throw Failure(CRUCIBLE_E_UNSUPPORTED, "library call kind " + std::to_string(desc.kind) + " is not known");
}

#ifdef CRUCIBLE_HAVE_ONEDNN
void OneDnn::check(dnnl_status_t status, const char* what) const {
  if (status == dnnl_success) return;
  throw Failure(status == dnnl_out_of_memory ? CRUCIBLE_E_OUT_OF_MEMORY : CRUCIBLE_E_INTERNAL,
                std::string("oneDNN: ") + what + ": " + dnnl_status2str(status));
}
#endif

const crucible_if_library kLibraryTable = {sizeof(crucible_if_library), CRUCIBLE_ABI_MINOR, claim};

}  // namespace crucible_cpu
