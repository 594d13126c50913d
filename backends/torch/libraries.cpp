#include "backends/torch/libraries.hpp"

#include <c10/util/Exception.h>
#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "backends/torch/tables.hpp"
#include "plugins/sdk/error.hpp"

namespace crucible_torch {
namespace {

using std::filesystem::path;

/// The folder in which Python's packages lie, as the one with libtorch does: .../site-packages/torch/lib/libc10.so.
path packages_folder() {
  Dl_info info = {};
  if (dladdr(reinterpret_cast<const void*>(&c10::GetExceptionString), &info) == 0) return {};
  std::error_code error;
  const path library = std::filesystem::canonical(info.dli_fname, error);
  return error ? path() : library.parent_path().parent_path().parent_path();
}

/// The libraries with ops that a package has: _C.so, or files that begin so.
std::vector<path> libraries_of(const path& package) {
  std::vector<path> found;
  std::error_code error;
  std::filesystem::directory_iterator entry(package, error);
  for (const std::filesystem::directory_iterator end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (name.starts_with("_C.") && name.ends_with(".so")) found.push_back(entry->path());
  }
  std::ranges::sort(found);
  return found;
}

/// The folder that an environment of Python says its interpreter is in, with the interpreter's libraries beside it.
path interpreter_libraries(const path& packages) {
  std::ifstream settings(packages.parent_path().parent_path().parent_path() / "pyvenv.cfg");
  for (std::string line; std::getline(settings, line);) {
    constexpr std::string_view kKey = "home = ";
    if (line.starts_with(kKey)) return path(line.substr(kKey.size())).parent_path() / "lib";
  }
  return {};
}

/// What libraries that are made for Python stand on: the interpreter's library, of the version that the packages are
/// for, and torch's own for Python. They are loaded so that names are found, and nothing of them is called.
void load_python() {
  const path packages = packages_folder();
  const std::string interpreter = "lib" + packages.parent_path().filename().string() + ".so.1.0";
  constexpr int kForOthers = RTLD_LAZY | RTLD_GLOBAL;
  if (dlopen(interpreter.c_str(), kForOthers) == nullptr)
    dlopen((interpreter_libraries(packages) / interpreter).c_str(), kForOthers);
  dlopen((packages / "torch/lib/libtorch_python.so").c_str(), kForOthers);
}

void load(const path& library) {
  if (dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL) != nullptr) return;
  load_python();
  if (dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL) != nullptr) return;
  const char* const reason = dlerror();
  throw crucible::sdk::Failure(CRUCIBLE_E_UNAVAILABLE, "option libraries: " + library.string() + " cannot be loaded: " +
                                                           std::string(reason == nullptr ? "no reason given" : reason));
}

void load_named(const std::string& name) {
  if (name.find('/') != std::string::npos) return load(name);
  const path package = packages_folder() / name;
  const std::vector<path> libraries = libraries_of(package);
  if (libraries.empty()) {
    throw crucible::sdk::Failure(CRUCIBLE_E_UNAVAILABLE,
                                 "option libraries: there is no library _C.so in " + package.string() +
                                     ": install the package beside torch, or give the library's path");
  }
  for (const path& library : libraries) load(library);
}

}  // namespace

void load_libraries() {
  static std::once_flag once;
  std::call_once(once, [] {
    std::string rest = kOptions.has("libraries") ? kOptions.get_text("libraries") : "";
    while (!rest.empty()) {
      const std::size_t colon = rest.find(':');
      if (const std::string name = rest.substr(0, colon); !name.empty()) load_named(name);
      rest = colon == std::string::npos ? "" : rest.substr(colon + 1);
    }
  });
}

}  // namespace crucible_torch
