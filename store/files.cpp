// See files.hpp. A new file is written under a name of its own in tmp/, synced, renamed, and its folder is synced.
#include "store/files.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

#include "store/key.hpp"

namespace crucible::store {
namespace {

constexpr int kFormat = 1;
constexpr std::string_view kFormatWords = "crucible store ";
constexpr const char* kRoomNames[] = {"cas", "ac"};

/// A descriptor that is closed.
class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { reset(); }
  operator int() const { return value_; }
  bool reset() { return value_ < 0 || close(std::exchange(value_, -1)) == 0; }

 private:
  int value_;
};

int open_folder(int at, const char* name, bool make) {
  if (make && mkdirat(at, name, 0700) != 0 && errno != EEXIST) return -1;
  return openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/// O_NONBLOCK: a pipe of that name does not hold us up.
int open_file(int at, const char* name, struct stat& status) {
  const int file = openat(at, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file >= 0 && (fstat(file, &status) != 0 || !S_ISREG(status.st_mode))) {
    close(file);
    errno = ENOENT;
    return -1;
  }
  return file;
}

int write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    if (count == 0) return ENOSPC;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return 0;
}

int read_all(int file, std::string& bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = ::read(file, bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  bytes.resize(done);
  return 0;
}

FileFacts facts_of(const struct stat& status) {
  return {static_cast<std::uint64_t>(status.st_size),
          static_cast<std::int64_t>(status.st_mtim.tv_sec) * 1'000'000'000 + status.st_mtim.tv_nsec};
}

Error cannot(std::string_view what, const std::filesystem::path& path, int reason) {
  return {ErrorCode::kBadInput, fmt::format("cannot {} {}: {}{}", what, path.string(), std::strerror(reason),
                                            reason == ENOSPC || reason == EFBIG || reason == EDQUOT
                                                ? "; nothing of it was kept: make room, or crucible store gc"
                                                : "")};
}

std::string temporary_name() {
  static std::atomic<std::uint64_t> counter = 0;
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return fmt::format("{}-{}-{:x}{:08x}", getpid(), counter++, now.tv_sec, now.tv_nsec);
}

/// The version in the file `format`; 0: there is no such file. Errors: kBadInput for everything else.
Result<int> format_of(int root, const std::filesystem::path& folder) {
  struct stat status {};
  const Descriptor file(open_file(root, "format", status));
  if (file < 0 && errno == ENOENT) return 0;
  if (file < 0) return cannot("read", folder / "format", errno);
  std::string text(64, '\0');
  if (const int reason = read_all(file, text); reason != 0) return cannot("read", folder / "format", reason);
  int version = 0;
  if (text.starts_with(kFormatWords)) {
    std::from_chars(text.data() + kFormatWords.size(), text.data() + text.size(), version);
  }
  if (version > 0) return version;
  return Error{ErrorCode::kBadInput,
               fmt::format("{} is no store: its file 'format' says something else; name another folder "
                           "(--store, CRUCIBLE_STORE_DIR)",
                           folder.string())};
}

/// The store of runs that are shut in (docs/sandbox.md), which may have been first.
constexpr std::string_view kConfined = "confined";

bool is_empty(int root) {
  const int copy = openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* const all = copy < 0 ? nullptr : fdopendir(copy);
  if (all == nullptr) return false;
  bool empty = true;
  while (const dirent* const entry = readdir(all)) {
    const std::string_view name = entry->d_name;
    // What another process has that makes this store just now, or was killed at it.
    empty &= name == "." || name == ".." || name.starts_with("format.") || name == "format" || name == kConfined;
  }
  closedir(all);
  return empty;
}

}  // namespace

FolderLock::~FolderLock() {
  if (descriptor_ >= 0) close(descriptor_);  // which unlocks
}

Files::Files(Files&& other) noexcept
    : is_durable(other.is_durable),
      folder_(std::move(other.folder_)),
      root_(std::exchange(other.root_, -1)),
      rooms_{std::exchange(other.rooms_[0], -1), std::exchange(other.rooms_[1], -1)},
      temporary_(std::exchange(other.temporary_, -1)),
      quarantine_(std::exchange(other.quarantine_, -1)),
      is_writable_(other.is_writable_) {}

Files::~Files() {
  for (const int descriptor : {root_, rooms_[0], rooms_[1], temporary_, quarantine_}) {
    if (descriptor >= 0) close(descriptor);
  }
}

Result<Files> Files::open(const std::filesystem::path& folder, bool must_exist) {
  Files files;
  std::error_code error;
  files.folder_ = std::filesystem::absolute(folder, error);
  if (!must_exist) {
    std::filesystem::create_directories(files.folder_.parent_path(), error);
    (void)mkdir(files.folder_.c_str(), 0700);  // that it is there is seen below
  }
  files.root_ = ::open(files.folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (files.root_ < 0 && errno == ENOENT) {
    return Error{ErrorCode::kBadInput, fmt::format("there is no store in {}: name another folder (--store, "
                                                   "CRUCIBLE_STORE_DIR)",
                                                   files.folder_.string())};
  }
  if (files.root_ < 0) return cannot("open the store", files.folder_, errno);
  CRUCIBLE_TRY(const int version, format_of(files.root_, files.folder_));
  if (version > kFormat) {
    return Error{
        ErrorCode::kBadInput,
        fmt::format("the store {} was written by a newer version of Crucible (format {}, this one reads {}): use "
                    "that version, or another folder; nothing was touched",
                    files.folder_.string(), version, kFormat)};
  }
  if (version == 0) {
    if (must_exist || !is_empty(files.root_)) {
      return Error{ErrorCode::kBadInput, fmt::format("{} is no store (it has no file 'format'){}: name another folder "
                                                     "(--store, CRUCIBLE_STORE_DIR)",
                                                     files.folder_.string(), must_exist ? "" : " and is not empty")};
    }
    // Several processes may do this at once: all write the same.
    const std::string name = "format." + temporary_name();
    Descriptor file(openat(files.root_, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    int reason = file < 0 ? errno : write_all(file, fmt::format("{}{}\n", kFormatWords, kFormat));
    if (reason == 0 && (fsync(file) != 0 || !file.reset())) reason = errno;
    if (reason == 0 && renameat(files.root_, name.c_str(), files.root_, "format") != 0) reason = errno;
    if (reason != 0) {
      (void)unlinkat(files.root_, name.c_str(), 0);
      return cannot("make a store in", files.folder_, reason);
    }
  }
  const bool make = faccessat(files.root_, ".", W_OK, AT_EACCESS) == 0;
  files.is_writable_ = make;
  for (int room = 0; room < 2; ++room) files.rooms_[room] = open_folder(files.root_, kRoomNames[room], make);
  files.temporary_ = open_folder(files.root_, "tmp", make);
  files.quarantine_ = open_folder(files.root_, "quarantine", make);
  for (const int descriptor : {files.rooms_[0], files.rooms_[1], files.temporary_, files.quarantine_}) {
    if (descriptor < 0 && make) {
      return Error{
          ErrorCode::kBadInput,
          fmt::format("the store {} is damaged: cas, ac, tmp and quarantine must be folders, not links or files",
                      files.folder_.string())};
    }
  }
  return files;
}

int Files::folder_of(Room room, const ContentHash& name, bool make) const {
  const int parent = rooms_[static_cast<int>(room)];
  if (parent < 0) return -1;
  return open_folder(parent, name.hex().substr(0, 2).c_str(), make);
}

Result<std::optional<std::string>> Files::read(Room room, const ContentHash& name, std::uint64_t limit) const {
  const Descriptor folder(folder_of(room, name, false));
  if (folder < 0) return std::optional<std::string>();
  const std::string file_name = name.hex().substr(2);
  struct stat status {};
  const Descriptor file(open_file(folder, file_name.c_str(), status));
  if (file < 0 && (errno == ENOENT || errno == ELOOP)) return std::optional<std::string>();
  const std::filesystem::path path = folder_ / kRoomNames[static_cast<int>(room)] / name.hex().substr(0, 2) / file_name;
  if (file < 0) return cannot("read", path, errno);
  if (static_cast<std::uint64_t>(status.st_size) > limit) {
    return Error{ErrorCode::kBadInput,
                 fmt::format("{} has {} bytes, the limit is {}", path.string(), status.st_size, limit)};
  }
  std::string bytes(static_cast<std::size_t>(status.st_size), '\0');
  if (const int reason = read_all(file, bytes); reason != 0) return cannot("read", path, reason);
  return std::optional(std::move(bytes));
}

std::string Files::front(Room room, const ContentHash& name, std::size_t count) const {
  const Descriptor folder(folder_of(room, name, false));
  struct stat status {};
  const Descriptor file(folder < 0 ? -1 : open_file(folder, name.hex().substr(2).c_str(), status));
  std::string bytes(file < 0 ? 0 : count, '\0');
  if (file >= 0 && read_all(file, bytes) != 0) bytes.clear();
  return bytes;
}

std::optional<FileFacts> Files::facts(Room room, const ContentHash& name) const {
  const Descriptor folder(folder_of(room, name, false));
  struct stat status {};
  if (folder < 0 || fstatat(folder, name.hex().substr(2).c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0 ||
      !S_ISREG(status.st_mode)) {
    return std::nullopt;
  }
  return facts_of(status);
}

Result<FileFacts> Files::write(Room room, const ContentHash& name, std::string_view bytes) const {
  const std::string temporary = temporary_name(), file_name = name.hex().substr(2);
  const std::filesystem::path path = folder_ / kRoomNames[static_cast<int>(room)] / name.hex().substr(0, 2) / file_name;
  if (!is_writable_) return cannot("write", path, EROFS);
  const Descriptor folder(folder_of(room, name, true));
  if (folder < 0) return cannot("write", path, errno);
  Descriptor file(openat(temporary_, temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (file < 0) return cannot("write", path, errno);
  int reason = write_all(file, bytes);
  if (reason == 0 && is_durable && fsync(file) != 0) reason = errno;
  struct stat status {};
  if (reason == 0 && fstat(file, &status) != 0) reason = errno;
  if (!file.reset() && reason == 0) reason = errno;  // some file systems report a full disk only here
  if (reason == 0 && renameat(temporary_, temporary.c_str(), folder, file_name.c_str()) != 0) reason = errno;
  if (reason != 0) {
    (void)unlinkat(temporary_, temporary.c_str(), 0);
    return cannot("write", path, reason);
  }
  if (is_durable) (void)fsync(folder);  // not every file system can; the file is whole either way
  return facts_of(status);
}

void Files::remove(Room room, const ContentHash& name) const {
  const Descriptor folder(folder_of(room, name, false));
  if (folder >= 0) (void)unlinkat(folder, name.hex().substr(2).c_str(), 0);
}

bool Files::set_aside(Room room, const ContentHash& name) const {
  const Descriptor folder(folder_of(room, name, false));
  const std::string target = fmt::format("{}-{}.{}", kRoomNames[static_cast<int>(room)], name.hex(), temporary_name());
  return folder >= 0 && quarantine_ >= 0 &&
         renameat(folder, name.hex().substr(2).c_str(), quarantine_, target.c_str()) == 0;
}

bool Files::set_aside(const std::string& top_level_name) const {
  const std::string target = fmt::format("{}.{}", top_level_name, temporary_name());
  return quarantine_ >= 0 && renameat(root_, top_level_name.c_str(), quarantine_, target.c_str()) == 0;
}

void Files::walk(Room room, const std::function<bool(const ContentHash&, const FileFacts&)>& visit) const {
  const int parent = rooms_[static_cast<int>(room)];
  bool goes_on = parent >= 0;
  for (int first = 0; goes_on && first < 256; ++first) {
    const std::string prefix = fmt::format("{:02x}", first);
    const int descriptor = open_folder(parent, prefix.c_str(), false);
    if (descriptor < 0) continue;
    const std::unique_ptr<DIR, int (*)(DIR*)> all(fdopendir(descriptor), closedir);
    if (!all) {
      close(descriptor);
      continue;
    }
    // Names first: what `visit` takes away does not disturb the reading.
    std::vector<ContentHash> names;
    while (const dirent* const entry = readdir(all.get())) {
      const Result<ContentHash> name = parse_hash(prefix + entry->d_name);
      if (name && name->hex().substr(2) == entry->d_name) names.push_back(*name);
    }
    for (const ContentHash& name : names) {
      struct stat status {};
      if (fstatat(descriptor, name.hex().substr(2).c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
      if (!S_ISREG(status.st_mode)) continue;
      goes_on = visit(name, facts_of(status));
      if (!goes_on) break;
    }
  }
}

void Files::clear_temporary() const {
  const int descriptor = temporary_ < 0 ? -1 : openat(temporary_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* const all = descriptor < 0 ? nullptr : fdopendir(descriptor);
  if (all == nullptr) return;
  while (const dirent* const entry = readdir(all)) (void)unlinkat(temporary_, entry->d_name, 0);
  closedir(all);
}

Result<FolderLock> Files::lock(int how) const {
  const int descriptor = openat(root_, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (descriptor < 0) return cannot("lock", folder_, errno);
  FolderLock held(descriptor);
  while (flock(descriptor, how) != 0) {
    if (errno != EINTR) return cannot("lock", folder_, errno);
  }
  return held;
}

Result<FolderLock> Files::lock_shared() const { return lock(LOCK_SH); }
Result<FolderLock> Files::lock_alone() const { return lock(LOCK_EX); }

int Files::open_claims() const {
  return openat(root_, "claims", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
}

}  // namespace crucible::store
