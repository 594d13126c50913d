// A plugin's shared object: loaded once per process, asked once who it is, never unmapped (code of a vendor's library
// may still run in threads that we do not know of, and error objects point into it).
#pragma once

#include <atomic>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "core/base/result.hpp"
#include "plugins/loader/backend.hpp"
#include "plugins/loader/examine.hpp"
#include "plugins/loader/tables.hpp"

namespace crucible::backend {

/// What the host knows of one loaded shared object, and the services that the plugin may call.
struct Library {
  std::filesystem::path path;
  std::string name, vendor, version;
  crucible_plugin_api api{};
  Tables tables{};
  crucible_host_api host{};
  Options options;                  // of the Backend that is alive
  std::deque<std::string> answers;  // what get_option has answered: lives as long as the process
  std::weak_ptr<Backend> backend;   // the one that is alive, if any
  DecisionLog* log = nullptr;       // where its start is recorded: of the last load
  std::string candidate;            // its name in the log
  std::shared_ptr<store::Store> store;  // where the plugin keeps bytes, of the Backend that is alive; may be null
  std::atomic<bool> is_told_of_store = false;  // that they cannot be kept there
  const Backend* owner = nullptr;   // the one that started the plugin and has not stopped it yet
};

/// The library of an examined plugin, loaded and queried now or earlier. It lives until the process ends. Leaves the
/// decisions from kLoad to kCheck, and prints the plugin's warnings when it is loaded now.
/// Threads: the caller holds library_mutex().
/// Errors: kUnavailable (the loader's words; a refusal; another file than the examined one), kBadInput (what it answers
/// is nonsense).
Result<Library*> open_library(const Examined& plugin, DecisionLog& log);

/// The table of services whose first argument is `library`.
crucible_host_api host_services(Library* library);

/// Guards the registry of libraries and their start and stop.
std::mutex& library_mutex();

}  // namespace crucible::backend
