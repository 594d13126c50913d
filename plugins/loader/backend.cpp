// Backend: one started plugin. Starting and stopping go through the registry of libraries, which outlives every
// Backend.
#include "plugins/loader/backend.hpp"

#include <fmt/format.h>

#include <mutex>
#include <system_error>

#include "plugins/layers/layers.hpp"
#include "plugins/loader/debug_layers.hpp"
#include "plugins/loader/kept.hpp"
#include "plugins/loader/library.hpp"
#include "plugins/loader/stopwatch.hpp"

namespace crucible::backend {
namespace {

std::string describe(const Options& options) {
  std::string text;
  for (const auto& [name, value] : options) text += fmt::format("{}{}={}", text.empty() ? "" : ", ", name, value);
  return text.empty() ? "no options" : text;
}

/// Stops the plugin. A failing shutdown has nobody to be told: the process goes on without the plugin either way.
void stop(Library& library) {
  library.owner = nullptr;
  (void)static_cast<bool>(to_result(library.api.shutdown(), "shutdown"));
  set_store(library, nullptr);
}

}  // namespace

struct Backend::State {
  Library* library = nullptr;
  Tables tables{};      // the library's, with the debug layers around them that were asked for
  int layer_slot = -1;  // of those
};

Backend::Backend() : state_(std::make_unique<State>()) {}

Backend::~Backend() {
  if (state_->library == nullptr) return;  // never started; load() may hold the lock
  const std::lock_guard lock(library_mutex());
  if (state_->library->owner == this) stop(*state_->library);
  layers::unwrap(state_->layer_slot);
}

Result<std::shared_ptr<Backend>> Backend::attach(const Examined& plugin, Options options, DecisionLog& log) {
  std::shared_ptr<Backend> alive;  // outlives the lock: it may be the last owner when it goes
  const std::lock_guard lock(library_mutex());
  CRUCIBLE_TRY(Library * library, open_library(plugin, log));
  alive = library->backend.lock();
  if (alive != nullptr) {
    if (library->options == options) return alive;
    return Error{ErrorCode::kUsage,
                 fmt::format("plugin {} is in use with {} and was asked for with {}: close the first one before",
                             library->name, describe(library->options), describe(options))};
  }
  std::shared_ptr<Backend> backend(new Backend);
  backend->name_ = library->name;
  backend->vendor_ = library->vendor;
  backend->version_ = library->version;
  backend->path_ = plugin.file.path();
  backend->state_->tables = library->tables;
  CRUCIBLE_TRY(backend->state_->layer_slot, wrap_in_layers(backend->state_->tables, plugin));
  backend->state_->library = library;
  // A Backend that another thread is destroying just now may not have stopped the plugin yet.
  if (library->owner != nullptr) stop(*library);
  library->options = std::move(options);
  set_store(*library, plugin.store);
  library->candidate = plugin.candidate.name;
  library->log = &log;
  library->backend = backend;
  return backend;
}

Result<std::shared_ptr<Backend>> Backend::load(const std::filesystem::path& path, Options options,
                                               std::shared_ptr<store::Store> store) {
  LoadPolicy policy;
  policy.store = std::move(store);
  CRUCIBLE_TRY(std::shared_ptr<Backend> backend,
               backend::load(explicit_candidate(path), std::move(options), policy, process_log()));
  CRUCIBLE_TRY_VOID(backend->start());
  return backend;
}

Result<void> Backend::start() const {
  const std::lock_guard lock(library_mutex());
  Library& library = *state_->library;
  if (library.owner == this) return {};
  const Stopwatch time;
  const std::string what = fmt::format("starting plugin {}", library.name);
  Result<void> started;
  try {
    started = to_result(library.api.init(&library.host), what);
  } catch (...) {
    started = Error{ErrorCode::kBadInput, what + ": its init threw a C++ exception across the boundary"};
  }
  library.log->add({Step::kInit, started ? Outcome::kPassed : Outcome::kRefused, library.candidate, path_,
                    started ? "started at its first use" : started.error().message, time.ns()});
  if (started) library.owner = this;
  return started;
}

Result<std::vector<DeviceInfo>> Backend::devices() const {
  CRUCIBLE_TRY_VOID(start());
  return enumerate_devices(device_table(), name_);
}

Result<std::shared_ptr<Device>> Backend::open(std::string_view device_id) {
  CRUCIBLE_TRY(const std::vector<DeviceInfo> all, devices());
  std::string known;
  for (const DeviceInfo& info : all) {
    if (device_id.empty() || info.id == device_id) {
      crucible_device* handle = nullptr;
      CRUCIBLE_TRY_VOID(to_result(device_table().open({info.id.data(), info.id.size()}, &handle),
                                  fmt::format("opening device {} of {}", info.id, name_)));
      return std::shared_ptr<Device>(new Device(shared_from_this(), info, handle));
    }
    known += fmt::format("{}{}", known.empty() ? "" : ", ", info.id);
  }
  return Error{ErrorCode::kUnavailable,
               fmt::format("{} has no device '{}': it has {}", name_, device_id, known.empty() ? "none" : known)};
}

const std::shared_ptr<store::Store>& Backend::store() const { return state_->library->store; }
const crucible_plugin_api& Backend::api() const { return state_->library->api; }
const abi::Tables& Backend::tables() const { return state_->tables; }
const crucible_if_device& Backend::device_table() const { return state_->tables.device; }
const crucible_if_memory& Backend::memory_table() const { return state_->tables.memory; }
const crucible_if_compile& Backend::compile_table() const { return state_->tables.compile; }
const crucible_if_plan& Backend::plan_table() const { return state_->tables.plan; }
const crucible_if_queue& Backend::queue_table() const { return state_->tables.queue; }
const crucible_if_library& Backend::library_table() const { return state_->tables.library; }

}  // namespace crucible::backend
