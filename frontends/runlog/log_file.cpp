#include "frontends/runlog/log_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/base/output.hpp"
#include "core/trace/write_whole.hpp"

namespace crucible::runlog {

LogFile::LogFile(LogFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      key_(std::move(other.key_)),
      head_(other.head_),
      size_(other.size_),
      is_new_(other.is_new_),
      error_(std::move(other.error_)) {}

LogFile::~LogFile() {
  if (descriptor_ < 0) return;
  if (is_new_ && size_ == 0) (void)unlink(path_.c_str());
  close(descriptor_);
}

Result<LogFile> LogFile::open(const std::filesystem::path& file, const std::string& key_file) {
  LogFile log;
  log.path_ = file;
  if (!key_file.empty()) {
    CRUCIBLE_TRY(log.key_, store::SecretKey::read(key_file));
  }
  struct stat status{};
  const bool is_there = lstat(file.c_str(), &status) == 0;
  if (is_there && !S_ISREG(status.st_mode) && !S_ISLNK(status.st_mode)) {
    return Error{ErrorCode::kBadInput,
                 fmt::format("--log {}: a log is a file, and this is none: name another", file.string())};
  }
  Result<int> opened = open_to_append(file, kOwnerOnly);
  if (!opened) return Error{opened.error().code, "--log: " + opened.error().message};
  log.descriptor_ = *opened;
  log.is_new_ = !is_there;
  while (flock(log.descriptor_, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    return Error{
        ErrorCode::kBadInput,
        errno == EWOULDBLOCK
            ? fmt::format("--log {}: another run is writing to it: wait for it, or name another file", file.string())
            : fmt::format("--log {}: cannot lock it: {}; name a file elsewhere", file.string(), std::strerror(errno))};
  }
  CRUCIBLE_TRY(const Log there, read_log(file));
  if (there.fault && there.fault->is_torn) {
    return Error{
        ErrorCode::kBadInput,
        fmt::format("--log {}: line {}: {}; it is left as it is: name another file, or keep its whole lines: "
                    "head -n {} {} > NEW",
                    file.string(), there.fault->line, there.fault->what, there.fault->line - 1, file.string())};
  }
  if (there.fault) {
    return Error{ErrorCode::kBadInput, fmt::format("--log {}: line {}: {}; nothing is added to it: name another file",
                                                   file.string(), there.fault->line, there.fault->what)};
  }
  if (!there.lines.empty()) log.head_ = there.lines.back().hash;
  if (fstat(log.descriptor_, &status) == 0) log.size_ = static_cast<std::uint64_t>(status.st_size);
  return log;
}

void LogFile::append(Record record) {
  if (error_) return;
  record.previous = head_;
  const std::string line = sealed(record, key_);
  const auto fail = [&](int reason) {
    // What is there of the line is ours alone: nobody else writes while we hold the file.
    const bool is_mended = ftruncate(descriptor_, static_cast<off_t>(size_)) == 0;
    error_ =
        Error{ErrorCode::kBadInput,
              fmt::format("cannot write the log {}: {}; {}. What is in it ends before that{}", path_.string(),
                          std::strerror(reason), trace::write_advice(reason), is_mended ? "" : ", with a torn line")};
  };
  if (line.size() > kLineLimit) {
    error_ =
        Error{ErrorCode::kBadInput, fmt::format("cannot write the log {}: a line would have {} bytes, the limit is {}",
                                                path_.string(), line.size(), kLineLimit)};
    return;
  }
  if (size_ + line.size() > kFileLimit) return fail(EFBIG);
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t count = ::write(descriptor_, rest.data(), rest.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail(errno);
    rest.remove_prefix(static_cast<std::size_t>(count));
  }
  size_ += line.size();
  head_ = hash_of_line(std::string_view(line).substr(0, line.size() - 1));
}

Result<void> LogFile::finish() {
  if (error_) return *error_;
  if (fsync(descriptor_) != 0 && errno != EINVAL && errno != EROFS) {
    const int reason = errno;
    return Error{ErrorCode::kBadInput, fmt::format("cannot write the log {}: {}; {}", path_.string(),
                                                   std::strerror(reason), trace::write_advice(reason))};
  }
  return {};
}

}  // namespace crucible::runlog
