// Level Zero as this plugin sees it: the functions of the machine's loader, found at run time, and its errors in words.
// The plugin links no library of Intel's, so it is built and loaded on machines that have none.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "backends/intel/level_zero_types.hpp"
#include "backends/intel/metric_types.hpp"

namespace crucible_intel {
namespace ze {

static_assert(sizeof(void*) == 8, "the structs are laid out for 64 bits");

struct Functions {
#define CRUCIBLE_LEVEL_ZERO_MEMBER(name, ...) Result (*name)(__VA_ARGS__) = nullptr;
  CRUCIBLE_LEVEL_ZERO_FUNCTIONS(CRUCIBLE_LEVEL_ZERO_MEMBER)
  CRUCIBLE_LEVEL_ZERO_OPTIONAL_FUNCTIONS(CRUCIBLE_LEVEL_ZERO_MEMBER)  // null: not there
  CRUCIBLE_METRIC_FUNCTIONS(CRUCIBLE_LEVEL_ZERO_MEMBER)               // the same
#undef CRUCIBLE_LEVEL_ZERO_MEMBER
};

}  // namespace ze

using ze::Functions;

/// The functions of the library that the option `library` names, loaded and initialised at the first call and never
/// unloaded: the reference is good until the process ends. Threads: any. Errors: UNAVAILABLE with what was tried and
/// what to install, INCOMPATIBLE for a library that lacks functions.
const Functions& level_zero();

/// "ZE_RESULT_ERROR_DEVICE_LOST (0x70000001)"; a number alone for one that is not known.
std::string error_name(ze::Result code);

/// Throws a Failure "`what`: ZE_RESULT_..." unless `code` is success: OUT_OF_MEMORY, DEVICE_LOST, UNAVAILABLE or
/// INTERNAL, with the number as vendor.code.
void check(ze::Result code, std::string_view what);

/// An object of Level Zero, destroyed with `Destroy`, a member of Functions.
template <class Handle, auto Destroy>
class Owned {
 public:
  Owned() = default;
  Owned(const Functions& functions, Handle handle) : functions_(&functions), handle_(handle) {}
  Owned(Owned&& other) noexcept : functions_(other.functions_), handle_(std::exchange(other.handle_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(functions_, other.functions_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Owned() {
    if (handle_ != nullptr) (functions_->*Destroy)(handle_);
  }
  Handle get() const { return handle_; }

 private:
  const Functions* functions_ = nullptr;
  Handle handle_ = nullptr;
};

using OwnedContext = Owned<ze::Context, &Functions::zeContextDestroy>;
using OwnedQueue = Owned<ze::Queue, &Functions::zeCommandQueueDestroy>;
using OwnedList = Owned<ze::List, &Functions::zeCommandListDestroy>;
using OwnedModule = Owned<ze::Module, &Functions::zeModuleDestroy>;
using OwnedLog = Owned<ze::BuildLog, &Functions::zeModuleBuildLogDestroy>;
using OwnedKernel = Owned<ze::Kernel, &Functions::zeKernelDestroy>;
using OwnedEventPool = Owned<ze::EventPool, &Functions::zeEventPoolDestroy>;
using OwnedEvent = Owned<ze::Event, &Functions::zeEventDestroy>;
using OwnedMetricQueryPool = Owned<ze::MetricQueryPool, &Functions::zetMetricQueryPoolDestroy>;
using OwnedMetricQuery = Owned<ze::MetricQuery, &Functions::zetMetricQueryDestroy>;

}  // namespace crucible_intel
