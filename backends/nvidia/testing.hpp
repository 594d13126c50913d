// The plugin that NVIDIA's tests open: driver, compiler and cuBLASLt by the variables of their options, else the
// emulated ones of this build and torch's NVRTC. Emulated libraries read their settings once, so each test with
// settings of its own runs in its own process.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <tuple>

#include "plugins/sdk/testing/device_plugin.hpp"

namespace crucible::backend {

inline std::filesystem::path emulated_cublas() {
  return std::filesystem::path(CRUCIBLE_TEST_CUDA).parent_path() / "libcublasLt.so.13";
}

inline PluginUnderTest nvidia_under_test() {
  PluginUnderTest plugin = {"nvidia", "cuda", {}};
  const std::tuple<const char*, const char*, std::string> libraries[] = {
      {"library", "CRUCIBLE_CUDA_LIBRARY", CRUCIBLE_TEST_CUDA},
      {"cublaslt", "CRUCIBLE_CUBLASLT", emulated_cublas().string()},
      {"nvrtc", "CRUCIBLE_NVRTC", CRUCIBLE_TEST_NVRTC}};
  for (const auto& [option, variable, file] : libraries) {
    const char* const named = std::getenv(variable);
    if (named != nullptr && *named != '\0') {
      plugin.options[option] = named;
    } else if (!file.empty() && std::filesystem::exists(file)) {
      plugin.options[option] = file;
    }
  }
  return plugin;
}

/// Whatever the variables say: only the emulated libraries have faults on demand.
inline PluginUnderTest emulated_nvidia(const Options& more = {}) {
  PluginUnderTest plugin = nvidia_under_test();
  plugin.options["library"] = CRUCIBLE_TEST_CUDA;
  if (std::filesystem::exists(emulated_cublas())) plugin.options["cublaslt"] = emulated_cublas();
  for (const auto& [name, value] : more) plugin.options[name] = value;
  return plugin;
}

inline std::filesystem::path emulated_cudnn() {
  return std::filesystem::path(CRUCIBLE_TEST_CUDA).parent_path() / "libcudnn.so.9";
}

inline PluginUnderTest with_cudnn(const Options& more = {}) {
  Options options = {{"cudnn", emulated_cudnn().string()}, {"dnn", "cudnn"}};
  for (const auto& [name, value] : more) options[name] = value;
  return emulated_nvidia(options);
}

inline PluginUnderTest without_library(PluginUnderTest plugin) {
  plugin.options["blas"] = "none";
  return plugin;
}

/// One of device.properties.
inline std::string property(const std::shared_ptr<Device>& device, const std::string& key) {
  for (const auto& [name, value] : take(device->properties())) {
    if (name == key) return value;
  }
  return "";
}

}  // namespace crucible::backend
