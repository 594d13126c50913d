// What trials found, kept from one start to the next: a line each in one file, so that some dozens of kernels cost one
// write. A verdict belongs to the plugin, the device, the numerics, the kernel and the very binary that was tried; all
// of it is in the hash that a line begins with.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/kernel/ir/numerics.hpp"
#include "plugins/loader/backend.hpp"

namespace crucible::runtime {

/// Not thread-safe. Processes may share a folder: each adds its lines at once, and a line that is cut off or mixed
/// counts as none.
class TrialVerdicts {
 public:
  /// Reads what `folder` holds; with an empty one, or one that others can write, nothing is known and nothing kept.
  TrialVerdicts(const std::filesystem::path& folder, const backend::Device& device, kernel::Numerics numerics);
  TrialVerdicts(const TrialVerdicts&) = delete;
  TrialVerdicts& operator=(const TrialVerdicts&) = delete;
  ~TrialVerdicts() { keep(); }
  /// Writes what was noted since. What cannot be kept is tried again by the next start.
  void keep();

  /// What the verdict of this binary is known by; "" where none is kept.
  std::string key_of(const backend::KernelSource& kernel, std::string_view binary) const;
  /// "" when it passed, or what was wrong; nothing where nobody tried it.
  std::optional<std::string> find(const std::string& key) const;
  void note(const std::string& key, std::string_view what);

 private:
  void read();

  std::filesystem::path file_;  // empty: nowhere
  std::string identity_;
  std::map<std::string, std::string, std::less<>> known_;
  std::string fresh_;  // lines to be written
};

/// Of the devices of one session: many programs are compiled for them, and reading the folder takes longer than
/// compiling one of those whose kernels are in the cache. Not thread-safe.
class VerdictsByDevice {
 public:
  TrialVerdicts& of(const std::filesystem::path& folder, const backend::Device& device, kernel::Numerics numerics);

 private:
  std::map<const backend::Device*, std::unique_ptr<TrialVerdicts>> verdicts_;
};

}  // namespace crucible::runtime
