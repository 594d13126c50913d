// The file is mapped once more and both mappings are compared as /proc/self/maps shows them: its device numbers are not
// those of fstat on every file system (overlays, subvolumes).
#include "plugins/loader/mapped.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

namespace crucible::backend {
namespace {

/// "device:inode" of the mappings at two addresses; "" where nothing of a file is.
std::array<std::string, 2> files_at(const void* first, const void* second) {
  std::array<std::string, 2> files;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> maps(std::fopen("/proc/self/maps", "re"), std::fclose);
  if (maps == nullptr) return files;
  const std::uintptr_t wanted[] = {reinterpret_cast<std::uintptr_t>(first), reinterpret_cast<std::uintptr_t>(second)};
  char line[4352];  // longest path and the numbers before it
  while (std::fgets(line, sizeof(line), maps.get()) != nullptr) {
    unsigned long begin = 0, end = 0;
    char device[32], inode[32];
    if (std::sscanf(line, "%lx-%lx %*s %*x %31s %31s", &begin, &end, device, inode) != 4) continue;
    for (std::size_t i = 0; i < 2; ++i) {
      if (wanted[i] >= begin && wanted[i] < end) files[i] = std::string(device) + " " + inode;
    }
  }
  return files;
}

}  // namespace

bool is_mapped_from(const void* address, int descriptor) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* const again = mmap(nullptr, page, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (again == MAP_FAILED) return false;
  const std::array<std::string, 2> files = files_at(address, again);
  munmap(again, page);
  return files[0] == files[1];
}

}  // namespace crucible::backend
