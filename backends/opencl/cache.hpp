// Compiled programs on disk. One file per program has its whole key (device, driver, flags, text) in front of the binary,
// so that a file is never taken for another's; what is missing or damaged is compiled again.
#pragma once

#include <filesystem>
#include <string>

namespace crucible_opencl {

class ProgramCache {
 public:
  /// A folder, made where it is missing; "" is the user's cache folder. A folder that others can write is not used,
  /// because what is in it is executed.
  explicit ProgramCache(const std::string& folder);
  /// The name of no folder: nothing is kept.
  static std::string off() { return "/dev/null"; }

  bool usable() const { return usable_; }
  /// "" when it is not there, or not whole.
  std::string find(const std::string& key) const;
  /// Whoever reads meanwhile sees a whole file or none. What goes wrong is of no consequence.
  void add(const std::string& key, const std::string& bytes) const;

 private:
  std::filesystem::path file_of(const std::string& key) const;
  std::filesystem::path folder_;
  bool usable_ = false;
};

}  // namespace crucible_opencl
