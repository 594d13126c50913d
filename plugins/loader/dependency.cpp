#include "plugins/loader/dependency.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fstream>
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

/// The cache of ldconfig as it is: among its texts is the path of every library, which ends with "/NAME" and a zero.
std::string library_cache() {
  std::ifstream stream("/etc/ld.so.cache", std::ios::binary | std::ios::ate);
  const std::streamoff size = stream ? static_cast<std::streamoff>(stream.tellg()) : 0;
  std::string bytes(size > 0 ? static_cast<std::size_t>(size) : 0, '\0');
  stream.seekg(0);
  stream.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return bytes;
}

bool is_cached(const std::string& cache, const std::string& library) {
  std::string end = "/" + library;
  end += '\0';
  return memmem(cache.data(), cache.size(), end.data(), end.size()) != nullptr;
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

/// Where the administrator alone puts libraries; /etc/ld.so.conf may name more, which then count as foreign only by a
/// RUNPATH to them.
bool is_of_system(const std::filesystem::path& path) {
  constexpr std::string_view kFolders[] = {"/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/", "/usr/lib32/"};
  return std::ranges::any_of(kFolders, [&](std::string_view folder) { return path.native().starts_with(folder); });
}

}  // namespace

std::vector<std::filesystem::path> neighbours(const Inspection& inspection, const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> found;
  for (const std::string& library : inspection.needed) {
    for (const std::string& own : inspection.folders) {
      const std::filesystem::path path = std::filesystem::path(replace_origin(own, folder)) / library;
      if (own.find("ORIGIN") == std::string::npos || library.find('/') != std::string::npos || !is_there(path))
        continue;
      found.push_back(path);
      break;
    }
  }
  return found;
}

std::vector<std::filesystem::path> foreign_libraries(const Inspection& inspection, const std::filesystem::path& file) {
  constexpr std::size_t kMost = 1000;
  const std::vector<std::string> of_variable = folders_of_variable();
  std::vector<std::filesystem::path> found;
  const auto add = [&](const std::filesystem::path& path) {
    std::error_code error;
    const std::filesystem::path whole = std::filesystem::canonical(path, error);
    if (error || is_of_system(whole) || found.size() == kMost || std::ranges::find(found, whole) != found.end()) return;
    found.push_back(whole);
  };
  const auto add_needed = [&](const Inspection& of, const std::filesystem::path& folder) {
    for (const std::string& library : of.needed) {
      if (library.find('/') != std::string::npos) {
        add(library);
        continue;
      }
      // Which of the two comes first depends on RPATH and RUNPATH: both are judged. Behind them are the system's
      // folders.
      for (const std::vector<std::string>* folders : {&of_variable, &of.folders}) {
        const auto first = std::ranges::find_if(*folders, [&](const std::string& own) {
          return is_there(std::filesystem::path(replace_origin(own, folder)) / library);
        });
        if (first != folders->end()) add(std::filesystem::path(replace_origin(*first, folder)) / library);
      }
    }
  };
  add_needed(inspection, file.parent_path());
  for (std::size_t next = 0; next < found.size(); ++next) {
    const std::filesystem::path library = found[next];  // `found` grows
    const int descriptor = open(library.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) continue;
    add_needed(inspect_needs(descriptor), library.parent_path());
    close(descriptor);
  }
  return found;
}

std::vector<std::string> missing_libraries(const Inspection& inspection, const std::filesystem::path& folder) {
  std::vector<std::string> folders = folders_of_variable();
  for (const std::string& own : inspection.folders) folders.push_back(replace_origin(own, folder));
  for (const char* standard : {"/lib", "/usr/lib", "/lib64", "/usr/lib64"}) folders.emplace_back(standard);
  const std::string cache = library_cache();
  std::vector<std::string> missing;
  for (const std::string& library : inspection.needed) {
    bool found = library.find('/') != std::string::npos ? is_there(library) : is_cached(cache, library);
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
