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

#include "core/base/output.hpp"
#include "core/trace/container.hpp"
#include "core/trace/write_whole.hpp"

namespace crucible::trace {

namespace {

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
                      offset_, std::strerror(reason), write_advice(reason))};
}

Result<OutputFile> OutputFile::create(const std::filesystem::path& path, Readers readers) {
  std::filesystem::path temporary = path;
  temporary += fmt::format(".{}-{}.tmp", getpid(), gettid());
  return create(path, temporary, readers);
}

Result<OutputFile> OutputFile::create(const std::filesystem::path& path, const std::filesystem::path& temporary,
                                      Readers readers) {
  OutputFile file;
  file.path_ = path;
  struct stat status{};
  if (stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    return Error{ErrorCode::kBadInput, fmt::format("cannot write {}: it is {}; choose another path", path.string(),
                                                   S_ISDIR(status.st_mode) ? "a directory" : "not a regular file")};
  }
  // A temporary of this name is left over from a process that was killed.
  (void)unlink(temporary.c_str());
  file.descriptor_ =
      ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, readers == Readers::kOwner ? 0600 : 0666);
  if (file.descriptor_ < 0) return file.cannot_write(errno);
  file.temporary_ = temporary;
  return file;
}

Result<OutputFile> OutputFile::reopen(const std::filesystem::path& path, const std::filesystem::path& temporary,
                                      std::uint64_t offset) {
  OutputFile file;
  file.path_ = path;
  file.offset_ = offset;
  file.keep_ = true;
  // What a recording left lies in a folder that may be somebody else's: a link there is not gone through.
  file.descriptor_ = ::open(temporary.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
  if (file.descriptor_ < 0) return file.cannot_write(errno);
  if (const std::string_view fault = fault_of_open_file(file.descriptor_); !fault.empty()) {
    return Error{ErrorCode::kBadInput, fmt::format("cannot write {}: {}", temporary.string(), fault)};
  }
  file.temporary_ = temporary;
  (void)fchmod(file.descriptor_, 0600);  // an older version left it readable
  CRUCIBLE_TRY_VOID(file.truncate(offset));
  return file;
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, {})),
      offset_(other.offset_),
      keep_(other.keep_) {}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!temporary_.empty() && !keep_) unlink(temporary_.c_str());
}

Result<void> OutputFile::write_at(std::span<const std::byte> bytes, std::uint64_t offset) {
  if (const int reason = write_whole(descriptor_, bytes, offset); reason != 0) return cannot_write(reason);
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

Result<void> OutputFile::truncate(std::uint64_t offset) {
  if (ftruncate(descriptor_, static_cast<off_t>(offset)) != 0) return cannot_write(errno);
  offset_ = offset;
  return {};
}

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
