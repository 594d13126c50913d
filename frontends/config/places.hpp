// Which files the configuration is read from, and whether somebody else could have written them.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "frontends/config/value.hpp"

namespace crucible::config {

/// Whose word a file is. What a person wrote or trusted may name programs; what lies in a folder chooses among what is
/// there.
enum class Standing : std::uint8_t {
  kOwn,      // the system's, the user's, or named on the command line
  kTrusted,  // of a folder, and the user has trusted just this content at just this place
  kFolder,   // of a folder, and nobody has vouched for it
};
/// "own", "trusted", "folder".
std::string_view standing_name(Standing standing);

/// A variable's value, or nothing: the environment of this process, or that of a test.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

/// What a process is asked from; process_surroundings() is the real one.
struct Surroundings {
  std::filesystem::path system_file = "/etc/crucible/crucible.toml";
  std::filesystem::path working_folder;
  Environment environment;
  /// Read in the place of the project's file: the one of --config, or one that is looked at before it is trusted.
  std::filesystem::path named_file = {};
  Standing named_as = Standing::kOwn;
  bool privileged = false;  // more rights than its user (set-uid): nothing of the user's environment names a file
};
Surroundings process_surroundings();

/// $XDG_CONFIG_HOME/crucible/crucible.toml or that under ~/.config, whether it is there or not; empty without a home.
std::filesystem::path user_config_file(const Surroundings& surroundings);

struct ConfigFile {
  Layer layer = Layer::kSystem;
  std::filesystem::path path;
  std::string danger;  // "" or who else can write it, and what to do
  std::string fault;   // "" or why nothing can be read there: a folder, a link to nothing; and what to do
  Standing standing = Standing::kOwn;
  bool is_named = false;      // on the command line
  bool has_changed = false;   // since it was trusted
  std::string sha256 = {};    // of what was read; "" where nothing was
};

/// What stands at the places of the files, weakest layer first, also where it is no file: a link to nothing or a folder
/// of that name was meant to be one. A link to /dev/null is an empty file. The user's is
/// $XDG_CONFIG_HOME/crucible/crucible.toml or that under ~/.config. The project's is the first crucible.toml from the
/// working folder upwards; the search ends at the folder that has .git, at the home folder and at the root; where that
/// is the system's or the user's own file again, there is none. A privileged process reads the system's alone.
std::vector<ConfigFile> find_files(const Surroundings& surroundings);

/// The bytes of a file, 1 MiB at most: a configuration is not longer. nullopt when it cannot be read.
std::optional<std::string> read_text(const std::filesystem::path& path);

}  // namespace crucible::config
