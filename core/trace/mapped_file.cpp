// open, fstat, mmap.
#include "core/trace/mapped_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace crucible::trace {

namespace {

Error cannot_open(const std::filesystem::path& path, const std::string& why) {
  return {ErrorCode::kBadInput, fmt::format("cannot open {}: {}", path.string(), why)};
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a pipe must fail below, not wait for its writer.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    const int reason = errno;
    const char* hint = reason == ENOENT ? "; check the path" : "";
    return cannot_open(path, std::string(std::strerror(reason)) + hint);
  }
  struct stat status{};
  if (fstat(descriptor, &status) != 0) {
    const int reason = errno;
    close(descriptor);
    return cannot_open(path, std::strerror(reason));
  }
  if (!S_ISREG(status.st_mode)) {
    close(descriptor);
    return cannot_open(
        path, S_ISDIR(status.st_mode) ? "it is a directory; name a .crtrace file in it" : "it is not a regular file");
  }
  MappedFile file;
  const std::size_t size = static_cast<std::size_t>(status.st_size);
  if (size > 0) {
    void* const address = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    const int reason = errno;
    close(descriptor);
    if (address == MAP_FAILED)
      return cannot_open(path, fmt::format("mapping {} bytes: {}", size, std::strerror(reason)));
    file.bytes_ = {static_cast<const std::byte*>(address), size};
  } else {
    close(descriptor);
  }
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace crucible::trace
