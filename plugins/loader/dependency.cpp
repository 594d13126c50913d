#include "plugins/loader/dependency.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <system_error>

namespace crucible::backend {
namespace {

struct Package {
  std::string_view library, package;
};

/// Libraries of vendors that plugins need. The first whose name the missing one starts with is meant.
constexpr Package kPackages[] = {
    {"libdnnl.so.2", "libdnnl2"},
    {"libdnnl.so.3", "libdnnl3, in Debian 13 and later"},
    {"libOpenCL.so", "ocl-icd-libopencl1"},
    {"libcuda.so", "libcuda1, in non-free"},
    {"libnvidia-ml.so", "libnvidia-ml1, in non-free"},
    {"libnvrtc.so", "nvidia-cuda-toolkit, in non-free"},
    {"libcudart.so", "nvidia-cuda-toolkit, in non-free"},
    {"libcublas.so", "nvidia-cuda-toolkit, in non-free"},
    {"libamdhip64.so", "libamdhip64-5"},
    {"libhiprtc", "libamdhip64-5 and libhiprtc-builtins5"},
    {"libhsa-runtime64.so", "libhsa-runtime64-1"},
    {"libze_loader.so", "libze1"},
    {"libvulkan.so", "libvulkan1"},
    {"libpocl.so", "libpocl2"},
    {"libgomp.so", "libgomp1"},
    {"libtbb.so.12", "libtbb12"},
    {"libopenblas.so", "libopenblas0"},
    {"libstdc++.so", "libstdc++6"},
};

/// The names in /etc/ld.so.cache (format glibc-ld.so.cache1.1; offsets are checked). Empty when there is none.
std::set<std::string> cached_libraries() {
  std::set<std::string> names;
  std::ifstream stream("/etc/ld.so.cache", std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  const std::size_t start = bytes.find("glibc-ld.so.cache1.1");
  constexpr std::size_t kHeader = 48, kEntry = 24;
  if (start == std::string::npos || bytes.size() - start < kHeader) return names;
  const auto number = [&](std::size_t at) {
    std::uint32_t value = 0;
    if (at + sizeof(value) <= bytes.size()) std::memcpy(&value, bytes.data() + at, sizeof(value));
    return value;
  };
  const std::uint32_t count = number(start + 20);
  for (std::uint32_t i = 0; i < count && start + kHeader + (i + 1) * kEntry <= bytes.size(); ++i) {
    const std::size_t name = start + number(start + kHeader + i * kEntry + 4);  // after the entry's flags
    const std::size_t end = name < bytes.size() ? bytes.find('\0', name) : std::string::npos;
    if (end != std::string::npos) names.insert(bytes.substr(name, end - name));
  }
  return names;
}

std::vector<std::string> folders_of_variable() {
  std::vector<std::string> folders;
  const char* const variable = secure_getenv("LD_LIBRARY_PATH");
  std::string text = variable == nullptr ? "" : variable;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find_first_of(":;", start), text.size());
    if (end > start) folders.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return folders;
}

std::string replace_origin(std::string folder, const std::filesystem::path& origin) {
  for (const std::string_view name : {"${ORIGIN}", "$ORIGIN"}) {
    for (std::size_t at; (at = folder.find(name)) != std::string::npos;)
      folder.replace(at, name.size(), origin.string());
  }
  return folder;
}

bool is_there(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

}  // namespace

std::vector<std::string> missing_libraries(const Inspection& inspection, const std::filesystem::path& folder) {
  std::vector<std::string> folders = folders_of_variable();
  for (const std::string& own : inspection.folders) folders.push_back(replace_origin(own, folder));
  for (const char* standard : {"/lib", "/usr/lib", "/lib64", "/usr/lib64"}) folders.emplace_back(standard);
  const std::set<std::string> cached = cached_libraries();
  std::vector<std::string> missing;
  for (const std::string& library : inspection.needed) {
    bool found = library.find('/') != std::string::npos ? is_there(library) : cached.contains(library);
    for (std::size_t i = 0; !found && i < folders.size(); ++i) {
      found = is_there(std::filesystem::path(folders[i]) / library);
    }
    if (!found) missing.push_back(library);
  }
  return missing;
}

std::string_view package_of(std::string_view library) {
  for (const Package& entry : kPackages) {
    if (library.starts_with(entry.library)) return entry.package;
  }
  return "";
}

std::string describe_missing(std::string_view library) {
  const std::string_view package = package_of(library);
  if (package.empty()) {
    return fmt::format("{} is missing (no package is known for it: install it, or name its folder in LD_LIBRARY_PATH)",
                       library);
  }
  return fmt::format("{} is missing (install {})", library, package);
}

std::string library_in_message(std::string_view message) {
  const std::size_t end = message.find(": cannot open shared object file");
  if (end == std::string_view::npos) return "";
  const std::string_view before = message.substr(0, end);
  const std::size_t start = before.find_last_of(" /");
  return std::string(start == std::string_view::npos ? before : before.substr(start + 1));
}

}  // namespace crucible::backend
