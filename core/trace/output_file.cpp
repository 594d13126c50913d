// The safe way of replacing a file: temporary in the same folder, fsync, rename, fsync of the folder.
#include "core/trace/output_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/trace/container.hpp"

namespace crucible::trace {

namespace {

const char* advice(int reason) {
  switch (reason) {
    case ENOSPC:
    case EDQUOT:
      return "free some space or write to another disk";
    case EFBIG:
      return "raise the file size limit (ulimit -f) or write fewer iterations";
    case ENOENT:
      return "create the folder first";
    case EACCES:
    case EPERM:
    case EROFS:
      return "choose a folder that you may write to";
    default:
      return "choose another path";
  }
}

/// Makes a rename durable; not every file system can do it, and the file is complete either way.
void sync_folder(const std::filesystem::path& folder) {
  const int descriptor = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  (void)fsync(descriptor);
  close(descriptor);
}

}  // namespace

Error OutputFile::cannot_write(int reason) const {
  return {ErrorCode::kBadInput,
          fmt::format("cannot write {} after {} bytes: {}; {} (nothing was changed under that name)", path_.string(),
                      offset_, std::strerror(reason), advice(reason))};
}

Result<OutputFile> OutputFile::create(const std::filesystem::path& path) {
  OutputFile file;
  file.path_ = path;
  struct stat status{};
  if (stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    return Error{ErrorCode::kBadInput, fmt::format("cannot write {}: it is {}; choose another path", path.string(),
                                                   S_ISDIR(status.st_mode) ? "a directory" : "not a regular file")};
  }
  std::filesystem::path temporary = path;
  temporary += fmt::format(".{}-{}.tmp", getpid(), gettid());
  // A temporary of this name is left over from a process that was killed and had our number.
  (void)unlink(temporary.c_str());
  file.descriptor_ = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file.descriptor_ < 0) return file.cannot_write(errno);
  file.temporary_ = std::move(temporary);
  return file;
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, {})),
      offset_(other.offset_) {}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

Result<void> OutputFile::write_at(std::span<const std::byte> bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    const ssize_t written = pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return cannot_write(errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
  return {};
}

Result<void> OutputFile::append(std::span<const std::byte> bytes) {
  CRUCIBLE_TRY_VOID(write_at(bytes, offset_));
  offset_ += bytes.size();
  return {};
}

Result<void> OutputFile::align() {
  static constexpr std::array<std::byte, kAlignment> kZeros{};
  return append(std::span(kZeros).first(align_up(offset_) - offset_));
}

Result<void> OutputFile::overwrite_start(std::span<const std::byte> bytes) { return write_at(bytes, 0); }

Result<void> OutputFile::commit() {
  if (fsync(descriptor_) != 0) return cannot_write(errno);
  // Some file systems report a full disk only here.
  if (close(std::exchange(descriptor_, -1)) != 0) return cannot_write(errno);
  if (rename(temporary_.c_str(), path_.c_str()) != 0) return cannot_write(errno);
  temporary_.clear();
  sync_folder(path_.parent_path());
  return {};
}

}  // namespace crucible::trace
