// A loaded backend plugin and what is made from it, as owning C++ objects: the host's side of plugins/abi.
//
// load_backend() finds, loads and queries the shared object, copies every table that it hands out into a full-size
// local one whose missing entries answer "unimplemented", and initialises it. Libraries are never unmapped.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "plugins/abi/stubs.hpp"

namespace crucible::store {
class Store;
}

namespace crucible::backend {

/// Options handed to the plugin as they are ("threads", "compiler", "library"), by name.
using Options = std::map<std::string, std::string>;

/// Text properties that a plugin reports about itself or a device, in its order.
using Properties = std::vector<std::pair<std::string, std::string>>;

struct DeviceInfo {
  std::string id, name, kind, uuid, pci;  // "" where the plugin does not say
  std::uint64_t threads = 0, memory_bytes = 0;
  bool emulated = false;
};

class Backend;
class DecisionLog;
struct Examined;

/// A device that answered DEVICE_LOST: nothing runs on it any more, and its plugin may not
/// open it again in this process.
struct LostDevice {
  std::string reason;  // what was asked of it, and the plugin's words
  std::string kernel;  // that ran; "" where the plugin does not say
  std::string op;      // its number in the plan; "" where the plugin does not say
};

/// Everything below keeps its Device, and a Device its Backend, alive. Not thread-safe: one caller at a time.
class Device : public std::enable_shared_from_this<Device> {
 public:
  ~Device();
  const Backend& backend() const { return *backend_; }
  const DeviceInfo& info() const { return info_; }
  /// What the device says of itself, and notes on what is missing ("library" = "none: libdnnl.so.2 not found, ...").
  Result<Properties> properties() const;
  /// Whether it runs opaque ops, and these alone (capability compile.opaque).
  bool takes_opaque() const;
  /// Most bytes that were allocated at once since the device was opened.
  Result<std::uint64_t> peak_bytes() const;
  crucible_device* handle() const { return handle_; }
  /// Since a call on it, or on anything that was made of it, answered that it is lost; the first answer. Null while it
  /// lives.
  const LostDevice* lost() const { return lost_ ? &*lost_ : nullptr; }
  /// to_result() of a call on this device or on what was made of it: notes that it is lost.
  Result<void> take(crucible_status status, std::string_view what);

 private:
  friend class Backend;
  Device(std::shared_ptr<Backend> backend, DeviceInfo info, crucible_device* handle);
  std::shared_ptr<Backend> backend_;  // shared: devices and all made from them outlive the caller's handle
  DeviceInfo info_;
  crucible_device* handle_ = nullptr;
  std::optional<LostDevice> lost_;
};

class Buffer {
 public:
  static Result<Buffer> allocate(std::shared_ptr<Device> device, std::uint64_t size_bytes, std::uint64_t alignment);
  /// Memory of the caller's, who keeps it alive as long as the buffer. Errors: kUnavailable where the device cannot
  /// reach it, or the plugin is older than ABI 0.7.
  static Result<Buffer> adopt(std::shared_ptr<Device> device, void* memory, std::uint64_t size_bytes);
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();
  std::uint64_t size_bytes() const { return size_bytes_; }
  std::uint64_t address() const { return address_; }  // device address of byte 0
  Result<void> write(std::uint64_t offset, std::span<const std::byte> data);
  Result<void> read(std::uint64_t offset, std::span<std::byte> data) const;
  Result<void> fill(std::uint64_t offset, std::uint64_t size, std::uint8_t byte);

 private:
  Buffer() = default;
  std::shared_ptr<Device> device_;
  crucible_buffer* handle_ = nullptr;
  std::uint64_t size_bytes_ = 0, address_ = 0;
};

/// A kernel as serialised kernel IR (docs/kernel-ir.md); without IR, the description of an opaque op
/// (docs/opaque-ops.md).
struct KernelSource {
  std::string name, opaque;
  std::vector<std::byte> ir{};
};

/// What a failed compilation says to a caller that can run a kernel elsewhere.
struct CompileRefusal {
  bool unsupported = false;  // the device can never compile one of the kernels
  std::string kernel;        // which one; "" when the plugin does not say (ABI 0.1)
};

/// Of a module's kernels: how many were compiled for it, and how many the store had.
struct CompileCounts {
  std::size_t compiled = 0, from_cache = 0;
};

class Module {
 public:
  /// `refusal`, if given, is filled when it fails. `is_careful`: the kernels came out wrong; with less optimisation,
  /// where the plugin's compiler has less.
  static Result<Module> compile(std::shared_ptr<Device> device, std::span<const KernelSource> kernels,
                                CompileRefusal* refusal = nullptr, bool is_careful = false);
  Module(Module&& other) noexcept;
  Module& operator=(Module&& other) noexcept;
  ~Module();
  Result<crucible_kernel*> kernel(std::string_view name) const;  // lives as long as the module
  std::uint64_t compile_ns() const { return info_.compile_ns; }
  bool from_cache() const { return info_.from_cache != 0; }
  /// Asks the plugin about every kernel; nothing when it does not say.
  std::optional<CompileCounts> counts() const;

 private:
  Module() = default;
  std::shared_ptr<Device> device_;
  crucible_module* handle_ = nullptr;
  crucible_compile_info info_{};
  std::vector<std::string> names_;  // of the kernels
};

/// A number of a device that only grows: work waits for values of it and signals them (queue.timeline_*).
class Timeline {
 public:
  static Result<Timeline> create(std::shared_ptr<Device> device, std::uint64_t initial = 0);
  Timeline(Timeline&& other) noexcept;
  Timeline& operator=(Timeline&& other) noexcept;
  ~Timeline();
  crucible_point at(std::uint64_t value) const { return {handle_, value}; }
  Result<void> signal(std::uint64_t value);
  /// Threads: any. Errors: what the work that was to signal ended with; a lost device is noted.
  Result<void> wait(std::uint64_t value) const;
  /// When the work that signalled `value` ran; nothing where the plugin does not say.
  struct Times {
    std::uint64_t begin_ns = 0, end_ns = 0;  // of the host's steady clock
    bool by_device = false;                  // measured by the device's events, not by the host
  };
  std::optional<Times> times(std::uint64_t value) const;

 private:
  Timeline() = default;
  std::shared_ptr<Device> device_;
  crucible_timeline* handle_ = nullptr;
};

class Plan;

/// Plans that run one after the other, in the order of their submission. One caller at a time.
class Queue {
 public:
  static Result<Queue> create(std::shared_ptr<Device> device);
  Queue(Queue&& other) noexcept;
  Queue& operator=(Queue&& other) noexcept;
  /// Waits for what was submitted.
  ~Queue();
  /// Never waits. The plan and the timelines live until it has run. It begins when somebody waits, or with flush().
  Result<void> submit(const Plan& plan, std::span<const crucible_point> waits, std::span<const crucible_point> signals);
  Result<void> flush();

 private:
  Queue() = default;
  std::shared_ptr<Device> device_;
  crucible_queue* handle_ = nullptr;
};

class Plan {
 public:
  /// The modules of the kernels in `ops`, and the buffers at the addresses in them, must outlive the plan.
  static Result<Plan> build(std::shared_ptr<Device> device, std::span<const crucible_op> ops, std::uint32_t slot_count);
  Plan(Plan&& other) noexcept;
  Plan& operator=(Plan&& other) noexcept;
  ~Plan();
  Result<void> set_slots(std::span<const std::uint64_t> values);
  /// Buffers of ops lie elsewhere from now on; not while it runs. Errors: kInternal for an op, a buffer or an address
  /// that is none, and then none has moved; kUnavailable of plugins that cannot.
  Result<void> rebind(std::span<const crucible_rebinding> rebindings);
  /// Submits it to a queue of its own and waits for it. Who has more than one thing to do at a time submits it himself
  /// (runtime/run/submission.hpp). Threads: one caller at a time for each plan.
  Result<void> replay();
  crucible_plan* handle() const { return handle_; }
  const std::shared_ptr<Device>& device() const { return device_; }
  Result<std::vector<std::uint64_t>> profile();  // one replay; nanoseconds per op
  /// Where the times of the last profile() are from, in words; "" where the plugin does not say.
  std::string times_from() const;
  /// What the plugin says of the plan, and of how it was replayed so far; empty where it says nothing.
  Properties facts() const;

 private:
  Plan() = default;
  struct Lane {
    Timeline done;
    Queue queue;  // destroyed first: until then work may name the timeline
  };
  std::shared_ptr<Device> device_;
  crucible_plan* handle_ = nullptr;
  std::uint32_t op_count_ = 0;
  std::uint64_t runs_ = 0;    // of the lane
  std::optional<Lane> lane_;  // of replay(), from its first call on; none after a failure, which stays in a timeline
};

class Backend : public std::enable_shared_from_this<Backend> {
 public:
  /// Examines (examine.hpp), loads and starts the plugin at `path` under the default policy; decisions go to
  /// process_log(). Errors: kUnavailable with the dynamic loader's own words, or the plugin's reason for refusing;
  /// kBadInput when the query answers nonsense; kUsage when it runs with other options.
  /// It keeps what it compiles in `store`, if any.
  static Result<std::shared_ptr<Backend>> load(const std::filesystem::path& path, Options options,
                                               std::shared_ptr<store::Store> store = nullptr);
  /// Loads what was examined; see load_examined(). Keeps `log` for the decision of its start.
  static Result<std::shared_ptr<Backend>> attach(const Examined& plugin, Options options, DecisionLog& log);
  /// Starts the plugin (init) if it does not run yet; devices() and open() do that by themselves.
  Result<void> start() const;
  ~Backend();
  const std::string& name() const { return name_; }
  const std::string& vendor() const { return vendor_; }
  const std::string& version() const { return version_; }
  const std::filesystem::path& path() const { return path_; }
  /// Where what is learned of its devices is kept; null: nowhere. Shared with the plugin, whose kernels are there.
  const std::shared_ptr<store::Store>& store() const;
  Result<std::vector<DeviceInfo>> devices() const;
  Result<std::shared_ptr<Device>> open(std::string_view device_id);  // "" opens the first one

  /// The plugin's tables, full size: an entry that the plugin lacks answers CRUCIBLE_E_UNIMPLEMENTED.
  const abi::Tables& tables() const;
  const crucible_plugin_api& api() const;
  const crucible_if_device& device_table() const;
  const crucible_if_memory& memory_table() const;
  const crucible_if_compile& compile_table() const;
  const crucible_if_plan& plan_table() const;
  const crucible_if_queue& queue_table() const;
  const crucible_if_library& library_table() const;

 private:
  Backend();
  struct State;
  std::unique_ptr<State> state_;
  std::string name_, vendor_, version_;
  std::filesystem::path path_;
};

/// The file of the plugin called `name` (find_candidate() under the default policy). Errors: kUnavailable, listing
/// every place that was looked at.
Result<std::filesystem::path> find_backend(std::string_view name);

struct FoundBackend {
  std::string name;  // what find_backend() takes
  std::filesystem::path path;
};

/// Every plugin in the places that find_backend() searches, by name; of two with one name the one that it would find.
/// Nothing is loaded: whether a file is a plugin is read from its symbol table.
std::vector<FoundBackend> list_backends();

/// The devices that a started plugin has. Errors: the plugin's own.
Result<std::vector<DeviceInfo>> enumerate_devices(const crucible_if_device& table, const std::string& plugin);

/// A plugin's status as a Result; takes ownership of the error object. `what` says what was being done.
Result<void> to_result(crucible_status status, std::string_view what);

}  // namespace crucible::backend
