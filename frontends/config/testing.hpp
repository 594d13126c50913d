// For the tests of this folder: a file system and an environment of their own, with something said in any layer.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>

#include "core/trace/trace_samples.hpp"
#include "frontends/config/settings.hpp"

namespace crucible::config {

/// A file system and an environment of its own.
class Layers : public ::testing::Test {
 protected:
  Layers() {
    surroundings_.system_file = folder_ / "etc/crucible.toml";
    surroundings_.working_folder = folder_ / "home/project/deep";
    variables_["HOME"] = (folder_ / "home").string();
    surroundings_.environment = [this](const std::string& name) -> std::optional<std::string> {
      const auto found = variables_.find(name);
      return found == variables_.end() ? std::nullopt : std::optional<std::string>(found->second);
    };
    std::filesystem::create_directories(surroundings_.working_folder);
  }

  std::string path_of(Layer layer) {
    switch (layer) {
      case Layer::kSystem:
        return (folder_ / "etc/crucible.toml").string();
      case Layer::kUser:
        return (folder_ / "home/.config/crucible/crucible.toml").string();
      default:
        return (folder_ / "home/project/crucible.toml").string();
    }
  }

  void write(Layer layer, const std::string& text) {
    const std::filesystem::path path = path_of(layer);
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }

  /// Lets one layer say `backend = NAME of the layer`.
  void say(Layer layer) {
    const std::string name = "by_" + std::to_string(static_cast<int>(layer));
    switch (layer) {
      case Layer::kBuiltIn:
        return;
      case Layer::kSystem:
      case Layer::kUser:
      case Layer::kProject:
        return write(layer, "backend = \"" + name + "\"\n");
      case Layer::kEnvironment:
        variables_["CRUCIBLE_BACKEND"] = name;
        return;
      case Layer::kCommandLine:
        requests_.switches.emplace_back("backend", name);
        return;
      case Layer::kApi:
        requests_.api["backend"] = name;
        return;
    }
  }

  Settings load() { return Settings::load(surroundings_, requests_); }
  std::string error() {
    const Result<void> checked = load().check();
    return checked ? "" : checked.error().message;
  }

  trace::samples::Folder folder_;
  std::map<std::string, std::string> variables_;
  Surroundings surroundings_;
  Requests requests_;
};

}  // namespace crucible::config
