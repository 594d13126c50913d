// The environment of backends, in one place.
#include "frontends/cli/open_device.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <cstring>

namespace crucible::cli {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::string backend_name(const DeviceChoice& choice) {
  if (!choice.backend.empty()) return choice.backend;
  const std::string configured = variable("CRUCIBLE_BACKEND");
  return configured.empty() ? "cpu" : configured;
}

Result<std::shared_ptr<backend::Device>> open_device(const DeviceChoice& choice) {
  backend::Options options;
  unsigned threads = choice.threads;
  if (const std::string text = variable("CRUCIBLE_THREADS"); threads == 0 && !text.empty()) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), threads);
    if (error != std::errc() || end != text.data() + text.size() || threads == 0) {
      return Error{ErrorCode::kUsage,
                   fmt::format("CRUCIBLE_THREADS is '{}'; give a number of threads, 1 or more", text)};
    }
  }
  if (threads != 0) options["threads"] = std::to_string(threads);
  static constexpr const char* kVariables[][2] = {
      {"CRUCIBLE_CLANG", "compiler"}, {"CRUCIBLE_CACHE_DIR", "cache_dir"}, {"CRUCIBLE_LIBRARY", "library"}};
  for (const auto& [name, option] : kVariables) {
    if (const std::string value = variable(name); !value.empty()) options[option] = value;
  }
  CRUCIBLE_TRY(const std::filesystem::path path, backend::find_backend(backend_name(choice)));
  CRUCIBLE_TRY(const std::shared_ptr<backend::Backend> backend, backend::Backend::load(path, std::move(options)));
  return backend->open(choice.device);
}

}  // namespace crucible::cli
