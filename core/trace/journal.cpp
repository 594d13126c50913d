// Records of the journal: [checksum u64][kind u32][count u64][size u64][payload]; the checksum is of all that follows
// it.
#include "core/trace/journal.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/hash.hpp"
#include "core/trace/trace_file.hpp"

namespace crucible::trace {

namespace {

constexpr std::string_view kMagic{"CRJOURN\0", 8};
constexpr std::uint32_t kEndianMark = 0x01020304;
constexpr std::size_t kStartBytes = 24;
constexpr std::size_t kRecordHeadBytes = 28;

bool is_table(std::uint32_t kind) {
  return kind >= 1 && kind <= kSectionCount && kind != static_cast<std::uint32_t>(SectionId::kBlobs);
}

bool replaces(SectionId id) { return id == SectionId::kMetadata || id == SectionId::kNotRecorded; }

struct Record {
  std::uint32_t kind = 0;
  std::uint64_t count = 0;
  std::span<const std::byte> payload;
};

struct StorageChange {
  StorageId storage = 0;
  std::uint64_t size_bytes = 0;
};

struct NameChange {
  std::uint64_t external = 0;
  JournalContent::ExternalName name;
};

/// Follows the records; what lies behind the last commit can be cut off again.
class Replay {
 public:
  Replay(JournalContent& content, std::uint64_t max_blobs) : content_(content), max_blobs_(max_blobs) {}

  /// "" or what is wrong with the record. `end` is where it ends.
  std::string take(const Record& record, std::uint64_t end) {
    if (is_table(record.kind)) {
      add(static_cast<SectionId>(record.kind), record);
      return "";
    }
    ByteReader in(record.payload);
    switch (static_cast<JournalKind>(record.kind)) {
      case JournalKind::kStorageSize:
        storages_.push_back({in.id(), in.varint()});
        break;
      case JournalKind::kExternalName: {
        NameChange change;
        change.external = in.varint();
        const std::uint8_t role = in.u8();
        if (role > static_cast<std::uint8_t>(Role::kInput)) return fmt::format("role {} is not known", role);
        change.name = {static_cast<Role>(role), in.text()};
        names_.push_back(std::move(change));
        break;
      }
      case JournalKind::kCommit:
      case JournalKind::kFinish:
        if (content_.table(SectionId::kBlobIndex).records <= max_blobs_)
          commit(static_cast<JournalKind>(record.kind), end);
        break;
      case JournalKind::kRollback:
        roll_back();
        break;
      default:
        return fmt::format("kind {} is not known", record.kind);
    }
    return in.problem();
  }

  /// Cuts everything behind the last commit and fills in the changes.
  void end() {
    const std::uint64_t seen = content_.table(SectionId::kOps).records;
    for (std::size_t id = 0; id < content_.tables.size(); ++id) cut(id);
    content_.lost_ops = seen - content_.table(SectionId::kOps).records;
    storages_.resize(storage_mark_);
    names_.resize(name_mark_);
    for (const StorageChange& change : storages_) content_.storage_sizes[change.storage] = change.size_bytes;
    for (NameChange& change : names_) content_.external_names[change.external] = std::move(change.name);
  }

 private:
  struct Mark {
    std::size_t pieces = 0;
    std::uint64_t records = 0;
  };

  void add(SectionId id, const Record& record) {
    JournalContent::Table& table = content_.tables[record.kind];
    if (replaces(id)) table.records = 0;
    table.pieces.push_back({record.payload, record.count});
    table.records += record.count;
  }

  void commit(JournalKind kind, std::uint64_t end) {
    for (std::size_t id = 0; id < marks_.size(); ++id) {
      marks_[id] = {content_.tables[id].pieces.size(), content_.tables[id].records};
    }
    storage_mark_ = storages_.size();
    name_mark_ = names_.size();
    ++content_.commits;
    content_.is_finished = kind == JournalKind::kFinish;
    content_.end = end;
  }

  void cut(std::size_t id) {
    content_.tables[id].pieces.resize(marks_[id].pieces);
    content_.tables[id].records = marks_[id].records;
  }

  void roll_back() {
    for (std::size_t id = 0; id < marks_.size(); ++id) {
      if (is_of_iteration(static_cast<SectionId>(id))) cut(id);
    }
    const std::uint64_t externals = content_.table(SectionId::kExternals).records;
    const auto since = names_.begin() + static_cast<std::ptrdiff_t>(name_mark_);
    names_.erase(std::remove_if(since, names_.end(), [&](const auto& it) { return it.external >= externals; }),
                 names_.end());
  }

  JournalContent& content_;
  std::uint64_t max_blobs_;
  std::array<Mark, kSectionCount + 1> marks_{};
  std::vector<StorageChange> storages_;
  std::vector<NameChange> names_;
  std::size_t storage_mark_ = 0, name_mark_ = 0;
};

Error not_a_journal(std::string why) { return {ErrorCode::kBadInput, std::move(why)}; }

Result<void> check_start(std::span<const std::byte> journal) {
  const std::size_t known = std::min(journal.size(), kMagic.size());
  if (!std::ranges::equal(journal.first(known), std::as_bytes(std::span(kMagic)).first(known)))
    return not_a_journal("it is not the journal of a recording: it does not start with CRJOURN");
  if (journal.size() < kStartBytes) {
    return not_a_journal(
        fmt::format("it has no complete iteration: only {} bytes of its start were written", journal.size()));
  }
  ByteReader in(journal.first(kStartBytes).subspan(kMagic.size()));
  const std::uint16_t major = in.u16();
  const std::uint16_t minor = in.u16();
  if (major > kFormatMajor) {
    return not_a_journal(
        fmt::format("its format version {}.{} is newer than {}.{}, which this crucible reads; use a newer crucible",
                    major, minor, kFormatMajor, kFormatMinor));
  }
  if (in.u32() != kEndianMark || in.u64() != checksum64(journal.first(kStartBytes - 8)))
    return not_a_journal("its start is damaged");
  return {};
}

}  // namespace

std::filesystem::path journal_path(const std::filesystem::path& path) {
  std::filesystem::path made = path;
  return made += ".journal";
}

std::filesystem::path partial_path(const std::filesystem::path& path) {
  std::filesystem::path made = path;
  return made += ".partial";
}

bool is_of_iteration(SectionId id) {
  switch (id) {
    case SectionId::kOps:
    case SectionId::kOpHashes:
    case SectionId::kExternals:
    case SectionId::kDraws:
    case SectionId::kGenerators:
    case SectionId::kOutputs:
      return true;
    case SectionId::kMetadata:
    case SectionId::kSchemas:
    case SectionId::kSites:
    case SectionId::kModules:
    case SectionId::kStorages:
    case SectionId::kTensors:
    case SectionId::kIterations:
    case SectionId::kFinalStates:
    case SectionId::kNotRecorded:
    case SectionId::kBlobIndex:
    case SectionId::kBlobs:
    case SectionId::kCompounds:
      return false;
  }
  return false;
}

std::vector<std::byte> encode_journal_start() {
  ByteWriter out;
  out.raw(std::as_bytes(std::span(kMagic)));
  out.u16(kFormatMajor);
  out.u16(kFormatMinor);
  out.u32(kEndianMark);
  out.u64(checksum64(out.bytes()));
  return out.take();
}

void append_journal_record(ByteWriter& out, std::uint32_t kind, std::uint64_t count,
                           std::span<const std::byte> payload) {
  const std::size_t start = out.size();
  out.u64(0);
  out.u32(kind);
  out.u64(count);
  out.u64(payload.size());
  out.raw(payload);
  out.overwrite_u64(start, checksum64(out.bytes().subspan(start + 8)));
}

Result<JournalContent> read_journal(std::span<const std::byte> journal, std::uint64_t max_blobs) {
  CRUCIBLE_TRY_VOID(check_start(journal));
  JournalContent content;
  Replay replay(content, max_blobs);
  std::uint64_t at = kStartBytes;
  while (at < journal.size()) {
    const auto rest = journal.subspan(at);
    const auto damaged = [&](const std::string& what) {
      content.damage = fmt::format("the record at byte {} of the journal is damaged: {}", at, what);
    };
    const auto cut_off = [&] {  // usual: the process was ended while it wrote the record
      content.damage = fmt::format("the journal ends inside its record at byte {}", at);
    };
    if (rest.size() < kRecordHeadBytes) {
      cut_off();
      break;
    }
    ByteReader in(rest.first(kRecordHeadBytes));
    const std::uint64_t checksum = in.u64();
    Record record;
    record.kind = in.u32();
    record.count = in.u64();
    const std::uint64_t size = in.u64();
    if (size > rest.size() - kRecordHeadBytes) {
      cut_off();
      break;
    }
    record.payload = rest.subspan(kRecordHeadBytes, size);
    if (checksum != checksum64(rest.subspan(8, kRecordHeadBytes - 8 + size))) {
      damaged("its checksum does not match");
      break;
    }
    // A record has at least one byte: sums of counts cannot overflow.
    std::string problem = record.count > size ? "more table records than bytes" : "";
    if (problem.empty()) problem = replay.take(record, at + kRecordHeadBytes + size);
    if (!problem.empty()) {
      damaged(problem);
      break;
    }
    at += kRecordHeadBytes + size;
  }
  replay.end();
  return content;
}

}  // namespace crucible::trace
