// Compiled programs on disk. One file per program has its whole key (device, driver, flags, text) in front of the
// binary, so that a file is never taken for another's; what is missing or damaged is compiled again.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "plugins/sdk/options.hpp"

namespace crucible::sdk {

/// What machine code is known by (key binary of compile.kernel_info): another text for other bytes; "" for none.
std::string binary_id(std::string_view bytes);

/// The option that says which folder.
inline constexpr OptionSpec kCacheOption = {
    .name = "cache_dir",
    .type = OptionType::kPath,
    .help = "Folder of compiled programs; by default the plugin's own in the user's cache folder.",
    .from_folder = FromFolder::kNeedsTrust};

class BinaryCache {
 public:
  /// A folder, made where it is missing; "" is the plugin's own in the user's cache folder. `kind` is the plugin's
  /// name: programs of two plugins may lie in one folder. A folder that others can write is not used, because what is
  /// in it is executed.
  BinaryCache(std::string_view kind, const std::string& folder);
  /// The name of no folder: nothing is kept.
  static std::string off() { return "/dev/null"; }

  bool usable() const { return usable_; }
  /// "" when it is not there, or not whole: then the log says so. Threads: any.
  std::string find(const std::string& key) const;
  /// Whoever reads meanwhile sees a whole file or none. What goes wrong is of no consequence. Threads: any.
  void add(const std::string& key, const std::string& bytes) const;

 private:
  std::filesystem::path file_of(const std::string& key) const;
  std::string head_of(const std::string& key) const;
  std::string kind_;
  std::filesystem::path folder_;
  bool usable_ = false;
};

}  // namespace crucible::sdk
