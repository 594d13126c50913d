#include "backends/cpu/sealed.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#ifndef MFD_EXEC
#define MFD_EXEC 0x10U
#endif

namespace crucible_cpu {
namespace {

bool write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

/// A path of the descriptor that no call had before: the C library takes two libraries of one path for one, and numbers
/// of descriptors come again. "/./" and "//" are both "/", so the spelling counts.
std::string new_path_of(int descriptor) {
  static std::atomic<std::uint64_t> loads = 0;
  std::string path = "/proc/self/fd";
  for (std::uint64_t number = ++loads; number != 0; number /= 2) path += number % 2 == 0 ? "/" : "/.";
  return path + "/" + std::to_string(descriptor);
}

/// -1, with errno, where there is no such memory.
int sealed_copy(std::string_view bytes) {
  int descriptor = memfd_create("crucible-kernels", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);
  if (descriptor < 0 && errno == EINVAL)
    descriptor = memfd_create("crucible-kernels", MFD_CLOEXEC | MFD_ALLOW_SEALING);  // Linux before 6.3
  if (descriptor < 0) return -1;
  if (write_all(descriptor, bytes) &&
      fcntl(descriptor, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) == 0)
    return descriptor;
  close(descriptor);
  return -1;
}

void* open_by(const std::string& path, std::string& problem) {
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) problem = dlerror();
  return handle;
}

void* open_from_file(std::string_view bytes, std::string& problem) {
  std::error_code error;
  std::string name = (std::filesystem::temp_directory_path(error) / "crucible-binary-XXXXXX").string();
  const int descriptor = mkstemp(name.data());
  if (descriptor < 0) {
    problem = "cannot create " + name + ": " + std::strerror(errno) + "; set TMPDIR";
    return nullptr;
  }
  const bool written = write_all(descriptor, bytes);
  close(descriptor);
  problem = "the disk is full";
  void* const handle = written ? open_by(name, problem) : nullptr;
  unlink(name.c_str());
  return handle;
}

}  // namespace

void* open_sealed(std::string_view bytes, std::string& problem) {
  const int descriptor = sealed_copy(bytes);
  if (descriptor < 0) return open_from_file(bytes, problem);
  const std::string path = new_path_of(descriptor);
  if (access(path.c_str(), R_OK) != 0) {  // no /proc
    close(descriptor);
    return open_from_file(bytes, problem);
  }
  void* const handle = open_by(path, problem);
  close(descriptor);  // the mapping holds the memory
  return handle;
}

}  // namespace crucible_cpu
