// A vendor's library, opened at run time by the first of its names that the machine has. It is never unloaded, because drivers
// have threads of their own.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace crucible::sdk {

class VendorLibrary {
 public:
  /// Tries the names in order; its symbols stay its own. `what` is its name in words ("the CUDA driver's library"), `advice` what
  /// to install. Threads: any. Errors: UNAVAILABLE with everything that was tried and why each was not it.
  static VendorLibrary open(std::string_view what, std::span<const std::string> names, std::string_view advice);

  /// Null when there is no such function.
  void* find(const char* symbol) const;
  /// The name it was opened by, and the file that the machine has for it.
  const std::string& name() const { return name_; }
  std::string file() const;

 private:
  VendorLibrary(void* handle, std::string name) : handle_(handle), name_(std::move(name)) {}
  void* handle_;
  std::string name_;
};

}  // namespace crucible::sdk
