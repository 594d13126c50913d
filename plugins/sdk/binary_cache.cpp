// Compiled programs on disk: see binary_cache.hpp.
#include "plugins/sdk/binary_cache.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string_view>

#include "plugins/sdk/host.hpp"
#include "plugins/sdk/own_folder.hpp"

namespace crucible::sdk {
namespace {

std::filesystem::path default_folder(const std::string& kind) {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache == '/') return std::filesystem::path(cache) / "crucible" / kind;
  const char* home = std::getenv("HOME");
  if (home != nullptr && *home == '/') return std::filesystem::path(home) / ".cache" / "crucible" / kind;
  return BinaryCache::off();
}

bool make_folder(const std::filesystem::path& folder) {
  std::filesystem::path sofar;
  for (const auto& part : folder) {
    sofar /= part;
    if (mkdir(sofar.c_str(), 0700) != 0 && errno != EEXIST && errno != EROFS && errno != EACCES) return false;
  }
  struct stat status = {};
  if (stat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) return false;
  if (status.st_uid != geteuid() || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0) return false;
  // Whoever owns a folder above could put another in this one's place.
  if (const std::string doubt = doubt_about_folder(folder); !doubt.empty()) {
    log(LogLevel::kWarning, "compile", "compiled programs are not kept in " + folder.string() + ": " + doubt);
    return false;
  }
  return access(folder.c_str(), W_OK | X_OK) == 0;
}

/// FNV-1a. It names files and finds damage; that a file is the right one is known by its whole key.
std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

std::string hex(std::uint64_t number) {
  char digits[17];
  std::snprintf(digits, sizeof(digits), "%016llx", static_cast<unsigned long long>(number));
  return digits;
}

}  // namespace

std::string binary_id(std::string_view bytes) {
  return bytes.empty() ? "" : hex(hash_of(bytes)) + "-" + std::to_string(bytes.size());
}

BinaryCache::BinaryCache(std::string_view kind, const std::string& folder)
    : kind_(kind), folder_(folder.empty() ? default_folder(kind_) : std::filesystem::path(folder)) {
  if (folder_ == off()) return;
  std::error_code error;
  folder_ = std::filesystem::absolute(folder_, error);
  usable_ = !error && make_folder(folder_);
}

std::string BinaryCache::head_of(const std::string& key) const {
  return "crucible " + kind_ + " program 1\n" + std::to_string(key.size()) + "\n" + key + "\n";
}

std::filesystem::path BinaryCache::file_of(const std::string& key) const {
  return folder_ / (hex(hash_of(key)) + "." + kind_ + "bin");
}

std::string BinaryCache::find(const std::string& key) const {
  if (!usable_) return "";
  std::ifstream stream(file_of(key), std::ios::binary);
  if (!stream) return "";
  const auto damaged = [&] {
    log(LogLevel::kWarning, "compile",
        "the compiled program " + file_of(key).string() + " is damaged; it is compiled again");
    return std::string();
  };
  const std::string file((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  const std::string head = head_of(key);
  constexpr std::size_t kDigits = 16;
  if (!file.starts_with(head) || file.size() <= head.size() + kDigits) return damaged();
  const std::string_view whole = std::string_view(file).substr(0, file.size() - kDigits);
  if (hex(hash_of(whole)) != file.substr(whole.size())) return damaged();
  return std::string(whole.substr(head.size()));
}

void BinaryCache::add(const std::string& key, const std::string& bytes) const {
  if (!usable_) return;
  std::string name = (folder_ / "new-XXXXXX").string();
  const int descriptor = mkstemp(name.data());
  if (descriptor < 0) return;
  std::string file = head_of(key) + bytes;
  file += hex(hash_of(file));
  const bool written = ::write(descriptor, file.data(), file.size()) == static_cast<ssize_t>(file.size());
  if (close(descriptor) != 0 || !written || std::rename(name.c_str(), file_of(key).c_str()) != 0) unlink(name.c_str());
}

}  // namespace crucible::sdk
