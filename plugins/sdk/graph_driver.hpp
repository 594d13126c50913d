// A CUDA-like driver (CUDA, HIP) and an open device of it: calls by name, objects that go back by themselves, errors, a
// device that is lost. With graph_memory.hpp, graph_compile.hpp and graph_plan.hpp this is the skeleton of a plugin for
// such a driver.
//
// A plugin describes its driver in one traits class, here always called `Api`, that derives from GraphHandles;
// backends/nvidia/graph_api.hpp and backends/amd/graph_api.hpp are the two that there are:
//   types     Driver (the table of its functions), ErrorCode, Facts (GraphFacts and more), Current (makes a device the
//   thread's own while it
//             lives; also Current(device, Current::EvenIfLost{})), Memory (device memory that goes back by itself;
//             get() is its address), Stream, Event, DriverModule, Graph, GraphExec (all DriverObject), StreamHandle,
//             Function, Node
//   errors    kSuccess, kNotReady, is_full(code), is_sticky(code), error_text(driver, code), is_gone(code, is_open) and
//   kGone with kGoneAdvice calls     one DriverCall for each `k...` that the skeleton names, whose arguments are in the
//   driver's order without what is always the same words     kName of the plugin, kMatrixUnits ("tensor cores"),
//   dialect() parts     allocate(), build_plan(), run_plan(), enqueue_library_call(), traced_times(), traced_from():
//   see the header that calls them
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "plugins/sdk/address_map.hpp"
#include "plugins/sdk/batching.hpp"
#include "plugins/sdk/counters.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/matrix_product.hpp"
#include "plugins/sdk/queue_table.hpp"
#include "plugins/sdk/watchdog.hpp"

namespace crucible::sdk {

/// The ABI's handles, which each plugin defines: named through the traits class, so that the skeleton may be read
/// before they are.
struct GraphHandles {
  using Device = crucible_device;
  using Buffer = crucible_buffer;
  using Module = crucible_module;
  using Kernel = crucible_kernel;
  using Plan = crucible_plan;
  using Queue = crucible_queue;
  using Timeline = crucible_timeline;
};

/// A function of the driver and its name, for the texts of errors: a member of its table of functions, or, where that
/// takes more than is said here, a lambda of the device and the rest.
template <class Called>
struct DriverCall {
  Called function;
  std::string_view name;
};

/// What stands around the name of a call in the text of its error; borrows both.
struct CallText {
  std::string_view before, after = {};
};

/// An object of the driver, given back with `Release`, a member of its table of functions. Its device must be the
/// current one then.
template <class Driver, class HandleType, auto Release>
class DriverObject {
 public:
  using Handle = HandleType;
  DriverObject() = default;
  DriverObject(const Driver& driver, Handle handle) : driver_(&driver), handle_(handle) {}
  DriverObject(DriverObject&& other) noexcept
      : driver_(other.driver_), handle_(std::exchange(other.handle_, Handle{})) {}
  DriverObject& operator=(DriverObject&& other) noexcept {
    std::swap(driver_, other.driver_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~DriverObject() {
    if (handle_ != Handle{})
      (void)(driver_->*Release)(handle_);  // a lost device refuses, and has nothing left to give back
  }
  Handle get() const { return handle_; }

 private:
  const Driver* driver_ = nullptr;
  Handle handle_{};
};

/// The address of device memory, as drivers have it: a number or a pointer.
inline std::uint64_t device_address(std::uint64_t address) { return address; }
inline std::uint64_t device_address(const void* address) { return reinterpret_cast<std::uint64_t>(address); }

/// What a device says of itself.
struct GraphFacts {
  std::string id;  // NAME:N in the driver's order
  std::string name, pci;
  int compute_mode = 0;                                      // the default one of both drivers
  std::uint64_t units = 1, kilohertz = 0, memory_bytes = 0;  // units: multiprocessors, which share a launch

  /// The emulator's devices say so in their names, and nowhere else: nothing but auto's choice may depend on it.
  bool is_emulated() const { return name.find("emulated, not a GPU") != std::string::npos; }
};

/// Throws a Failure "`what`: CUDA_ERROR_..." unless `code` is success: OUT_OF_MEMORY, DEVICE_LOST (sticky ones),
/// UNAVAILABLE or INTERNAL, with the number as vendor.code. Whoever has a device calls its own check(), which remembers
/// what is sticky.
template <class Api>
void check_driver(const typename Api::Driver& driver, typename Api::ErrorCode code, std::string_view what) {
  if (code == Api::kSuccess) return;
  crucible_code category = CRUCIBLE_E_INTERNAL;
  std::string_view advice;
  if (Api::is_full(code)) {
    category = CRUCIBLE_E_OUT_OF_MEMORY;
    advice = "; use a smaller batch or a memory budget, or end other programs on the device";
  } else if (code == Api::kGone) {
    category = CRUCIBLE_E_UNAVAILABLE;
    advice = Api::kGoneAdvice;
  } else if (Api::is_sticky(code)) {
    category = CRUCIBLE_E_DEVICE_LOST;
    advice = "; nothing runs on the device any more in this process: use another device, or a new process";
  }
  throw Failure(category, std::string(what) + ": " + Api::error_text(driver, code) + std::string(advice),
                {{"vendor.code", std::to_string(code)}});
}

/// A generated kernel for the matrix units.
template <class Api>
struct GraphMatrixKernel {
  typename Api::DriverModule module;
  typename Api::Function function = nullptr;
};

/// What crucible_device derives from: one object per open(); buffers, modules and plans point to it.
template <class Api>
struct GraphDevice : QueueOwner {
  using MatrixProducts = sdk::MatrixProducts<GraphMatrixKernel<Api>>;

  const typename Api::Driver* driver = nullptr;
  typename Api::Facts facts;
  typename Api::Stream stream;                      // of everything that is done on return
  std::uint32_t team_lanes = 1;                     // threads that may do an item together
  Batching batching = Batching::kNone;              // option
  std::mutex batches_mutex;                         // of the kernels that do them
  std::unique_ptr<MatrixProducts> matrix_products;  // products that the library does not take
  AddressMap addresses;
  Watchdog watchdog;
  Counters counters;
  std::atomic<bool> refuses_tracing = false;  // found out and said once: every later profile is by events

  /// Throws as check_driver() does, and remembers a sticky error: from then on Current refuses. Threads: any.
  void check(typename Api::ErrorCode code, std::string_view what) {
    if (code == Api::kSuccess) return;
    const bool is_gone = Api::is_gone(code, stream.get() != nullptr);
    if (is_gone || Api::is_sticky(code)) {
      const std::lock_guard lock(lost_mutex_);
      if (lost_.empty()) lost_ = std::string(what) + ": " + Api::error_text(*driver, code);
      // Closing it does not end its context where others hold it - vendors' libraries, torch - and the drivers say that
      // the process has to end.
      if (stream.get() != nullptr) never_again(facts.id, lost_);
    }
    if (is_gone) require_alive();
    check_driver<Api>(*driver, code, what);
  }
  /// Calls the driver and checks its answer: the text of an error has the call's name in it.
  template <class Called, class... Arguments>
  void call(CallText text, const DriverCall<Called>& called, Arguments... arguments) {
    const typename Api::ErrorCode code = ask(called, arguments...);
    if (code != Api::kSuccess)
      check(code, std::string(text.before) + std::string(called.name) + std::string(text.after));
  }
  /// The same without a check.
  template <class Called, class... Arguments>
  typename Api::ErrorCode ask(const DriverCall<Called>& called, Arguments... arguments) {
    if constexpr (std::is_member_object_pointer_v<Called>) {
      return (driver->*called.function)(arguments...);
    } else {
      return called.function(static_cast<typename Api::Device&>(*this), arguments...);
    }
  }
  /// Errors: DEVICE_LOST with what made it so.
  void require_alive() {
    watchdog.require_alive();
    const std::lock_guard lock(lost_mutex_);
    if (lost_.empty()) return;
    throw Failure(CRUCIBLE_E_DEVICE_LOST, facts.id + " was lost (" + lost_ + "): use another device, or a new process",
                  {{"where", facts.id}});
  }
  /// Waits until everything on the stream is done; with the option timeout_s no longer than that. Threads: any. Errors:
  /// those of check(); DEVICE_LOST when the time is over: the device is suspect from then on.
  void synchronize(typename Api::StreamHandle waited, std::string_view what) {
    typename Api::ErrorCode code = Api::kNotReady;
    if (watchdog.is_on()) {
      watchdog.wait(what, [&] { return (code = ask(Api::kStreamQuery, waited)) != Api::kNotReady; });
    } else {
      code = ask(Api::kStreamSynchronize, waited);
    }
    if (code != Api::kSuccess) check(code, std::string(what) + ": " + std::string(Api::kStreamSynchronize.name));
  }
  /// A stream that waits for no other. The device must be the current one.
  typename Api::Stream make_stream(std::string_view what) {
    typename Api::StreamHandle made = nullptr;
    call({what}, Api::kStreamCreate, &made, Api::kStreamFlags);
    return {*driver, made};
  }

 private:
  std::mutex lost_mutex_;
  std::string lost_;  // why; "" while it lives
};

/// What crucible_queue derives from: a stream, on which a thread of the host starts plans when their timelines are
/// reached.
template <class Api>
struct GraphQueue : OwnedQueue {
  typename Api::Device* device = nullptr;
  typename Api::Stream stream;
  ~GraphQueue() {
    if (device == nullptr) return;
    const typename Api::Current current(*device, typename Api::Current::EvenIfLost{});
    stream = {};
  }
};

template <class Api>
struct GraphQueues {
  static std::unique_ptr<typename Api::Queue> make(typename Api::Device& device) {
    const typename Api::Current current(device);
    auto queue = std::make_unique<typename Api::Queue>();
    queue->device = &device;
    queue->stream = device.make_stream("queue.create: ");
    return queue;
  }
  static void run(typename Api::Queue& queue, typename Api::Plan& plan) { Api::run_plan(plan, queue.stream.get()); }
};

template <class Api>
constexpr crucible_if_queue make_graph_queue_table() {
  using Part = GraphQueues<Api>;
  return make_queue_table<QueueFunctions<typename Api::Device, typename Api::Queue, typename Api::Timeline,
                                         typename Api::Plan, Part::make, Part::run>>();
}

}  // namespace crucible::sdk
