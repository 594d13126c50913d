// The texts of a new plugin's project, embedded at build time, and writing them out under another name.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"

namespace crucible::plugin_template {

struct File {
  std::string_view path;  // inside the project, with '/'
  std::string_view text;  // of a plugin named acme
};

/// All files of the template. Generated (embed.cmake).
std::span<const File> files();

/// The dialects that `plugin new` knows: c, opencl, cuda, hip, own.
std::span<const std::string_view> dialects();

/// How the device's memory is named: host, pointers, handles.
std::span<const std::string_view> memory_models();

/// What `plugin new` is asked for.
struct Choices {
  std::string_view dialect = "c", memory = "host";
  bool beside_others = false;  // write into a folder that has something in it
};

/// Errors: kUsage when a plugin cannot have this name ([a-z][a-z0-9_]*, at most 40 characters).
Result<void> check_name(std::string_view name);

/// `text` with every word acme replaced by `name`, and the mark of the dialect by `dialect`.
std::string personalise(std::string_view text, std::string_view name, std::string_view dialect);

/// Writes a project for the plugin `name` into `folder`, which is made when it is missing. Returns the paths written,
/// in order. Nothing is overwritten. Errors: kUsage naming the dialects or models, or a file that is there already
/// (nothing is written then); kUnavailable when the disk does not take a file.
Result<std::vector<std::filesystem::path>> write_project(const std::filesystem::path& folder, std::string_view name,
                                                         const Choices& choices);

}  // namespace crucible::plugin_template
