// A vendor's library, opened at run time by the first of its names that the machine has. It is never unloaded, because
// drivers have threads of their own.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

namespace crucible::sdk {

class VendorLibrary {
 public:
  /// Tries the names in order; its symbols stay its own. `what` is its name in words ("the CUDA driver's library"),
  /// `advice` what to install. Threads: any. Errors: UNAVAILABLE with everything that was tried and why each was not
  /// it.
  static VendorLibrary open(std::string_view what, std::span<const std::string> names, std::string_view advice);

  /// Null when there is no such function.
  void* find(const char* symbol) const;
  /// The same for a table of functions: the name of one that is not there is added to `missing`.
  template <class Function>
  void find(const char* symbol, Function*& function, std::string& missing) const {
    function = reinterpret_cast<Function*>(find(symbol));
    if (function == nullptr) missing += (missing.empty() ? "" : ", ") + std::string(symbol);
  }
  /// Errors: INCOMPATIBLE naming what is missing, unless nothing is; `needed` says what the library should be ("cuDNN
  /// of 8.5 or newer").
  void require_complete(const std::string& missing, std::string_view needed) const;
  /// The name it was opened by, and the file that the machine has for it.
  const std::string& name() const { return name_; }
  std::string file() const;

 private:
  VendorLibrary(void* handle, std::string name) : handle_(handle), name_(std::move(name)) {}
  void* handle_;
  std::string name_;
};

/// Drivers by what the option says, each loaded at the first call and never given back: objects of it may be given back
/// at the very end. Threads: any. Errors: those of `load`, which gives a unique_ptr.
template <class Driver, class Load>
const Driver& load_once(const std::string& option, const Load& load) {
  struct Loaded {
    std::mutex mutex;
    std::map<std::string, std::unique_ptr<Driver>> drivers;
  };
  static Loaded& all = *new Loaded;
  const std::lock_guard lock(all.mutex);
  std::unique_ptr<Driver>& entry = all.drivers[option];
  if (entry == nullptr) entry = load();
  return *entry;
}

}  // namespace crucible::sdk
