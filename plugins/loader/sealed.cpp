#include "plugins/loader/sealed.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "plugins/loader/dependency.hpp"

#ifndef MFD_EXEC
#define MFD_EXEC 0x10U
#endif

namespace crucible::backend {
namespace {

constexpr int kSeals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

Error not_copied(const char* reason) {
  return {ErrorCode::kUnavailable, fmt::format("cannot be copied into sealed memory: {}", reason)};
}

/// Null, or why not.
const char* copy(int from, int to, std::size_t bytes) {
  std::array<std::byte, 1 << 16> part;
  for (std::size_t have = 0; have < bytes;) {
    const ssize_t got = pread(from, part.data(), std::min(part.size(), bytes - have), static_cast<off_t>(have));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got == 0 ? "it has become shorter" : std::strerror(errno);
    for (ssize_t done = 0; done < got;) {
      const ssize_t count = write(to, part.data() + done, static_cast<std::size_t>(got - done));
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return std::strerror(errno);
      done += count;
    }
    have += static_cast<std::size_t>(got);
  }
  return nullptr;
}

}  // namespace

Result<int> sealed_copy(int descriptor, std::size_t bytes) {
  int sealed = memfd_create("crucible-plugin", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);
  if (sealed < 0 && errno == EINVAL)
    sealed = memfd_create("crucible-plugin", MFD_CLOEXEC | MFD_ALLOW_SEALING);  // Linux before 6.3
  if (sealed < 0) return not_copied(std::strerror(errno));
  const char* problem = copy(descriptor, sealed, bytes);
  if (problem == nullptr && fcntl(sealed, F_ADD_SEALS, kSeals) != 0) problem = std::strerror(errno);
  if (problem == nullptr) return sealed;
  close(sealed);
  return not_copied(problem);
}

bool is_sealed(int descriptor) {
  const int seals = fcntl(descriptor, F_GET_SEALS);
  return seals >= 0 && (seals & kSeals) == kSeals;
}

std::string loadable_path(int descriptor, const std::filesystem::path& path) {
  if (!is_sealed(descriptor)) return path.string();
  // The C library takes two libraries of one path for one, and numbers of descriptors come again. "/./" and "//" are
  // both "/".
  static std::atomic<std::uint64_t> loads = 0;
  std::string unique = "/proc/self/fd";
  for (std::uint64_t number = ++loads; number != 0; number /= 2) unique += number % 2 == 0 ? "/" : "/.";
  return unique + "/" + std::to_string(descriptor);
}

void load_neighbours(const Inspection& inspection, const std::filesystem::path& folder) {
  for (const std::filesystem::path& library : neighbours(inspection, folder))
    (void)dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
}

}  // namespace crucible::backend
