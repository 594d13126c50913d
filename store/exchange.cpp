// A store as one file: a head; records of blobs, entries and tuning records, each with its type, hash and length; an
// end with the SHA-256 of all before. Nothing is taken of a file whose end does not fit, and nothing is believed of one
// whose end does: each blob is checked by its hash, each entry as any other.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include "store/store.hpp"

namespace crucible::store {
namespace {

constexpr std::string_view kMagic = "crucible-store-export 1\n";
enum class Record : std::uint8_t { kEnd = 0, kBlob = 1, kEntry = 2, kTuning = 3 };
constexpr std::size_t kHeadBytes = 1 + 32 + 8, kHashBytes = 32;
constexpr std::uint64_t kTuningLimit = 1ull << 30;

std::span<const std::byte> as_bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

Error failed(std::string_view what, const std::filesystem::path& path, int reason) {
  return {ErrorCode::kBadInput, fmt::format("cannot {} {}: {}", what, path.string(), std::strerror(reason))};
}

/// Under a name of its own until it is whole.
class Writer {
 public:
  explicit Writer(std::filesystem::path path) : path_(std::move(path)), temporary_(path_) {
    temporary_ += fmt::format(".{}.tmp", getpid());
    (void)unlink(temporary_.c_str());
    file_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    reason_ = file_ < 0 ? errno : 0;
  }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  ~Writer() {
    if (file_ < 0) return;
    close(file_);
    unlink(temporary_.c_str());
  }

  void raw(std::string_view bytes) {
    hash_.update(as_bytes(bytes));
    put(bytes);
  }
  bool record(Record type, const ContentHash& name, std::string_view bytes) {
    std::string head(1, static_cast<char>(type));
    head.append(reinterpret_cast<const char*>(name.bytes.data()), name.bytes.size());
    for (int shift = 0; shift < 64; shift += 8) head += static_cast<char>(bytes.size() >> shift & 0xff);
    raw(head);
    raw(bytes);
    return reason_ == 0;
  }
  Result<void> finish() {
    record(Record::kEnd, {}, {});
    const ContentHash sum = hash_.finish();
    put({reinterpret_cast<const char*>(sum.bytes.data()), sum.bytes.size()});
    if (reason_ == 0 && fsync(file_) != 0 && errno != EINVAL) reason_ = errno;
    if (reason_ == 0 && rename(temporary_.c_str(), path_.c_str()) != 0) reason_ = errno;
    if (reason_ != 0) return failed("write", path_, reason_);
    close(std::exchange(file_, -1));
    return {};
  }

 private:
  void put(std::string_view bytes) {
    while (reason_ == 0 && !bytes.empty()) {
      const ssize_t count = ::write(file_, bytes.data(), bytes.size());
      if (count < 0 && errno != EINTR) reason_ = errno;
      if (count > 0) bytes.remove_prefix(static_cast<std::size_t>(count));
    }
  }

  std::filesystem::path path_, temporary_;
  Sha256 hash_;
  int file_ = -1, reason_ = 0;
};

class Reader {
 public:
  explicit Reader(std::filesystem::path path) : path_(std::move(path)) {
    file_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    reason_ = file_ < 0 ? errno : 0;
    struct stat status {};
    if (file_ >= 0 && (fstat(file_, &status) != 0 || !S_ISREG(status.st_mode))) reason_ = EINVAL;
    size_ = static_cast<std::uint64_t>(status.st_size);
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ~Reader() {
    if (file_ >= 0) close(file_);
  }
  int reason() const { return reason_; }
  std::uint64_t left() const { return size_ - at_; }
  void rewind() { at_ = 0; }

  bool take(std::size_t count, std::string& bytes) {
    if (count > left()) return false;
    bytes.resize(count);
    std::size_t done = 0;
    while (done < count) {
      const ssize_t got = pread(file_, bytes.data() + done, count - done, static_cast<off_t>(at_ + done));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      done += static_cast<std::size_t>(got);
    }
    at_ += count;
    return true;
  }

 private:
  std::filesystem::path path_;
  int file_ = -1, reason_ = 0;
  std::uint64_t size_ = 0, at_ = 0;
};

struct Head {
  Record type = Record::kEnd;
  ContentHash name;
  std::uint64_t bytes = 0;
};

std::optional<Head> parse_head(const std::string& bytes) {
  Head head;
  const auto type = static_cast<std::uint8_t>(bytes[0]);
  if (type > static_cast<std::uint8_t>(Record::kTuning)) return std::nullopt;
  head.type = static_cast<Record>(type);
  std::memcpy(head.name.bytes.data(), bytes.data() + 1, kHashBytes);
  for (std::size_t at = kHeadBytes; at-- > 1 + kHashBytes;) {
    head.bytes = head.bytes << 8 | static_cast<std::uint8_t>(bytes[at]);
  }
  return head;
}

/// Every record in its order, in a file that is whole. `visit` null: only whether it is.
Result<void> each_record(const std::filesystem::path& path, Reader& reader,
                         const std::function<Result<void>(const Head&, const std::string&)>& visit) {
  const auto refuse = [&](std::string_view why) {
    return Error{
        ErrorCode::kBadInput,
        fmt::format("{} is no export of a store that is whole: {}; nothing was taken of it", path.string(), why)};
  };
  Sha256 hash;
  std::string head_bytes, bytes;
  reader.rewind();
  if (!reader.take(kMagic.size(), bytes) || bytes != kMagic)
    return refuse("it begins as something else, or is of a newer version");
  hash.update(as_bytes(bytes));
  for (;;) {
    if (!reader.take(kHeadBytes, head_bytes)) return refuse("it is cut off");
    hash.update(as_bytes(head_bytes));
    const std::optional<Head> head = parse_head(head_bytes);
    if (!head) return refuse("a record is of a kind that is not known");
    if (head->type == Record::kEnd) break;
    if (head->bytes > reader.left()) return refuse("it is cut off, or a length is wrong");
    if (visit) {
      if (!reader.take(head->bytes, bytes)) return refuse("it cannot be read");
      CRUCIBLE_TRY_VOID(visit(*head, bytes));
      continue;
    }
    for (std::uint64_t done = 0; done < head->bytes;) {  // by pieces: a length is not yet believed
      const std::uint64_t piece = std::min<std::uint64_t>(head->bytes - done, 1 << 20);
      if (!reader.take(piece, bytes)) return refuse("it cannot be read");
      hash.update(as_bytes(bytes));
      done += piece;
    }
  }
  if (visit) return {};
  const ContentHash sum = hash.finish();
  if (reader.left() != kHashBytes || !reader.take(kHashBytes, bytes))
    return refuse("its end is cut off, or something follows it");
  if (std::memcmp(bytes.data(), sum.bytes.data(), kHashBytes) != 0)
    return refuse("its SHA-256 is another: it was changed");
  return {};
}

}  // namespace

Result<Exchanged> Store::export_to(const std::filesystem::path& file) {
  CRUCIBLE_TRY(Tuning* const records, tuning());
  Writer writer(file);
  writer.raw(kMagic);
  Exchanged out;
  Result<void> done;
  files_.walk(Room::kBlobs, [&](const ContentHash& name, const FileFacts&) {
    const auto frame = files_.read(Room::kBlobs, name, UINT64_MAX);
    if (!frame || !*frame) return true;
    const Result<std::string> bytes = unpack(**frame, name, kBlobLimit);
    if (!bytes) {
      say(bytes.error().message + "; it is left out: crucible store verify");
      return true;
    }
    ++out.blobs;
    return writer.record(Record::kBlob, name, **frame);
  });
  files_.walk(Room::kActions, [&](const ContentHash& name, const FileFacts&) {
    const Entry entry = entry_here(name);
    if (entry.finding != Finding::kGood || !is_complete(entry.statement)) return true;
    ++out.entries;
    return writer.record(Record::kEntry, name, entry.bytes);
  });
  CRUCIBLE_TRY(out.samples, records->count());
  if (out.samples != 0) {
    CRUCIBLE_TRY(const std::string toml, records->to_toml());
    writer.record(Record::kTuning, sha256(as_bytes(toml)), toml);
  }
  CRUCIBLE_TRY_VOID(writer.finish());
  return out;
}

Result<Exchanged> Store::import_from(const std::filesystem::path& file) {
  if (!files_.is_writable()) {
    return Error{ErrorCode::kBadInput, fmt::format("the store {} cannot be written", files_.folder().string())};
  }
  Reader reader(file);
  if (reader.reason() != 0) return failed("read", file, reader.reason());
  CRUCIBLE_TRY_VOID(each_record(file, reader, nullptr));
  CRUCIBLE_TRY(Tuning* const records, tuning());
  const std::shared_ptr<Index> rows = index();
  CRUCIBLE_TRY(const FolderLock lock, files_.lock_shared());
  Exchanged out;
  CRUCIBLE_TRY_VOID(each_record(file, reader, [&](const Head& head, const std::string& bytes) -> Result<void> {
    switch (head.type) {
      case Record::kBlob: {
        const Result<void> kept = blobs_.put_frame(bytes, head.name, kBlobLimit);
        if (kept) {
          ++out.blobs;
        } else if (kept.error().code == ErrorCode::kCheckFailed) {
          say(fmt::format("of {}: {}; it is left out", file.string(), kept.error().message));
        } else {
          return kept;
        }
        return {};
      }
      case Record::kEntry: {
        if (bytes.size() > kStatementLimit) return {};
        const Entry entry = judge(head.name, bytes, options_.trust, "of " + file.string());
        if (entry.finding != Finding::kGood || !is_complete(entry.statement)) return {};
        ++out.entries;
        return publish(entry.statement, entry.bytes, rows);
      }
      case Record::kTuning: {
        if (bytes.size() > kTuningLimit) return {};
        CRUCIBLE_TRY(out.samples, records->add_toml(bytes));
        return {};
      }
      case Record::kEnd:
        break;
    }
    return {};
  }));
  return out;
}

}  // namespace crucible::store
