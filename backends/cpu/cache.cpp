// Every file is written under a temporary name and renamed, so that a reader sees a whole one or none, whoever else is
// writing.
#include "backends/cpu/cache.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string_view>
#include <system_error>
#include <utility>

#include "backends/cpu/sha256.hpp"
#include "plugins/sdk/own_folder.hpp"

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
  int last_error = 0;
  for (const auto& part : folder) {
    sofar /= part;
    last_error = mkdir(sofar.c_str(), 0700) == 0 ? 0 : errno;
    if (last_error != 0 && last_error != EEXIST && last_error != EROFS && last_error != EACCES) {
      return "cannot create " + sofar.string() + ": " + std::strerror(last_error);
    }
  }
  struct stat status = {};
  if (stat(folder.c_str(), &status) != 0) {
    return "cannot create " + folder.string() + ": " +
           std::strerror(last_error != 0 && last_error != EEXIST ? last_error : errno);
  }
  if (!S_ISDIR(status.st_mode)) return folder.string() + " is not a folder";
  // Its files are executed: nobody else may be able to put some there.
  if (status.st_uid != geteuid()) return folder.string() + " belongs to another user";
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) return folder.string() + " can be written by other users";
  // Whoever owns a folder above could put another in this one's place.
  return crucible::sdk::doubt_about_folder(folder);
}

/// A new file under a temporary name, removed unless it was renamed. Leaves errno as it was after the step that failed.
class NewFile {
 public:
  explicit NewFile(const std::filesystem::path& folder)
      : name_((folder / KernelCache::kWorkName).string()),
        descriptor_(mkstemp(name_.data())),
        is_there_(descriptor_ >= 0) {}
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile() {
    const int error = errno;
    if (descriptor_ >= 0) close(descriptor_);
    if (is_there_) unlink(name_.c_str());
    errno = error;
  }
  /// Writes the bytes and gives the file its name. False, with errno, when the disk does not take them.
  bool finish(std::string_view bytes, const std::filesystem::path& name) {
    if (descriptor_ < 0) return false;
    while (!bytes.empty()) {
      const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(count));
    }
    if (close(std::exchange(descriptor_, -1)) != 0) return false;
    is_there_ = std::rename(name_.c_str(), name.c_str()) != 0;
    return !is_there_;
  }

 private:
  std::string name_;
  int descriptor_;
  bool is_there_;  // under the temporary name
};

std::optional<std::string> read_bytes(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return std::nullopt;
  std::string bytes((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  if (stream.bad()) return std::nullopt;
  return bytes;
}

bool is_hash(const std::string& text) {
  return text.size() == kHexDigits && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

std::string hash_of(std::string_view bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.hex();
}

}  // namespace

std::optional<std::string> file_hash(const std::filesystem::path& file) {
  const std::optional<std::string> bytes = read_bytes(file);
  return bytes ? std::optional(hash_of(*bytes)) : std::nullopt;
}

KernelCache::KernelCache(const std::string& wanted)
    : folder_(wanted.empty() ? default_folder() : std::filesystem::path(wanted)) {
  std::error_code error;
  folder_ = std::filesystem::absolute(folder_, error);
  const std::filesystem::path folders[] = {folder_, folder_ / "kernels", folder_ / "objects"};
  for (const auto& folder : folders) {
    if (problem_.empty()) problem_ = make_folder(folder);
  }
  is_trusted_ = problem_.empty();
  for (const auto& folder : folders) {
    if (problem_.empty() && access(folder.c_str(), W_OK | X_OK) != 0)
      problem_ = folder.string() + ": " + std::strerror(errno);
  }
}

std::filesystem::path KernelCache::object_path(const std::string& object) const {
  return folder_ / "objects" / (object + ".so");
}

std::optional<std::string> KernelCache::find(const std::string& key) const {
  if (!is_trusted_) return std::nullopt;
  std::ifstream stream(folder_ / "kernels" / key);
  std::string object;
  if (!std::getline(stream, object) || !is_hash(object)) return std::nullopt;
  return object;
}

std::optional<std::string> KernelCache::read_object(const std::string& object) const {
  std::optional<std::string> bytes = read_bytes(object_path(object));
  if (!bytes || hash_of(*bytes) != object) return std::nullopt;
  return bytes;
}

std::optional<std::string> KernelCache::add_object(const std::filesystem::path& file) {
  if (!usable()) return std::nullopt;
  const std::optional<std::string> object = file_hash(file);
  if (!object || !place(file, object_path(*object))) return std::nullopt;
  return object;
}

bool KernelCache::add_kernel(const std::string& key, const std::string& object) {
  if (NewFile(folder_).finish(object + "\n", folder_ / "kernels" / key)) return true;
  write_problem_ = folder_.string() + " does not take them: " + std::strerror(errno);
  return false;
}

/// By a rename, or by a copy from another disk.
bool KernelCache::place(const std::filesystem::path& file, const std::filesystem::path& where) {
  if (std::rename(file.c_str(), where.c_str()) == 0) return true;
  if (errno == EXDEV) {
    const std::optional<std::string> bytes = read_bytes(file);
    if (bytes && NewFile(folder_).finish(*bytes, where)) return true;
  }
  write_problem_ = folder_.string() + " does not take them: " + std::strerror(errno);
  return false;
}

void KernelCache::remove_leftovers() const {
  if (!usable()) return;
  const auto yesterday = std::filesystem::file_time_type::clock::now() - std::chrono::hours(24);
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder_, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (!entry->path().filename().string().starts_with("build-")) continue;
    if (entry->last_write_time(ignored) < yesterday && !ignored) std::filesystem::remove_all(entry->path(), ignored);
  }
}

}  // namespace crucible_cpu
