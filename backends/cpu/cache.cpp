// Every file is written under a temporary name and renamed, so that a reader sees a whole one or none, whoever else is
// writing.
#include "backends/cpu/cache.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <system_error>

#include "backends/cpu/sha256.hpp"

namespace crucible_cpu {
namespace {

constexpr std::size_t kHexDigits = 64;

std::filesystem::path default_folder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache == '/') return std::filesystem::path(cache) / "crucible" / "kernels";
  const char* home = std::getenv("HOME");
  if (home != nullptr && *home == '/') return std::filesystem::path(home) / ".cache" / "crucible" / "kernels";
  return std::filesystem::path("/tmp/crucible-" + std::to_string(geteuid())) / "kernels";
}

/// Creates the folder and those above it for the user alone. "" or what went wrong.
std::string make_folder(const std::filesystem::path& folder) {
  std::filesystem::path sofar;
  for (const auto& part : folder) {
    sofar /= part;
    if (mkdir(sofar.c_str(), 0700) != 0 && errno != EEXIST && errno != EROFS && errno != EACCES) {
      return "cannot create " + sofar.string() + ": " + std::strerror(errno);
    }
  }
  struct stat status = {};
  if (stat(folder.c_str(), &status) != 0) return "cannot create " + folder.string() + ": " + std::strerror(errno);
  if (!S_ISDIR(status.st_mode)) return folder.string() + " is not a folder";
  // Its files are executed: nobody else may be able to put some there.
  if (status.st_uid != geteuid()) return folder.string() + " belongs to another user";
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) return folder.string() + " can be written by other users";
  if (access(folder.c_str(), W_OK | X_OK) != 0) return folder.string() + ": " + std::strerror(errno);
  return "";
}

bool is_hash(const std::string& text) {
  return text.size() == kHexDigits && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

}  // namespace

std::optional<std::string> file_hash(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return std::nullopt;
  const std::string bytes((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  if (stream.bad()) return std::nullopt;
  Sha256 hash;
  hash.update(bytes);
  return hash.hex();
}

KernelCache::KernelCache(const std::string& wanted)
    : folder_(wanted.empty() ? default_folder() : std::filesystem::path(wanted)) {
  std::error_code error;
  folder_ = std::filesystem::absolute(folder_, error);
  for (const auto& folder : {folder_, folder_ / "kernels", folder_ / "objects"}) {
    if (problem_.empty()) problem_ = make_folder(folder);
  }
}

std::filesystem::path KernelCache::object_path(const std::string& object) const {
  return folder_ / "objects" / (object + ".so");
}

std::optional<std::string> KernelCache::find(const std::string& key) {
  if (!usable()) return std::nullopt;
  std::ifstream stream(folder_ / "kernels" / key);
  std::string object;
  if (!std::getline(stream, object) || !is_hash(object)) return std::nullopt;
  const auto [known, is_new] = whole_.try_emplace(object, false);
  if (is_new) known->second = file_hash(object_path(object)) == object;
  if (!known->second) return std::nullopt;
  return object;
}

std::optional<std::string> KernelCache::add_object(const std::filesystem::path& file) {
  if (!usable()) return std::nullopt;
  const std::optional<std::string> object = file_hash(file);
  if (!object) return std::nullopt;
  std::error_code error;
  std::filesystem::rename(file, object_path(*object), error);
  if (error) return std::nullopt;
  whole_[*object] = true;
  return object;
}

bool KernelCache::add_kernel(const std::string& key, const std::string& object) {
  std::string name = (folder_ / "kernels" / "new-XXXXXX").string();
  const int descriptor = mkstemp(name.data());
  if (descriptor < 0) return false;
  const std::string line = object + "\n";
  const bool written = ::write(descriptor, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  const bool done =
      close(descriptor) == 0 && written && std::rename(name.c_str(), (folder_ / "kernels" / key).c_str()) == 0;
  if (!done) unlink(name.c_str());
  return done;
}

}  // namespace crucible_cpu
