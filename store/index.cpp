// See index.hpp.
#include "store/index.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace crucible::store {
namespace {

constexpr int kVersion = 1;
constexpr int kMisses = 1000;

std::string file_name() { return fmt::format("index-{}.db", kVersion); }

constexpr const char* kSchema = R"(
CREATE TABLE IF NOT EXISTS entries(key BLOB PRIMARY KEY, kind TEXT NOT NULL, fields BLOB NOT NULL, maker TEXT NOT NULL,
  made_ns INTEGER NOT NULL, bytes INTEGER NOT NULL, last_use INTEGER NOT NULL,
  modified_ns INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS entries_by_use ON entries(last_use);
CREATE TABLE IF NOT EXISTS outputs(key BLOB NOT NULL, blob BLOB NOT NULL, PRIMARY KEY(key, blob)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS outputs_by_blob ON outputs(blob);
CREATE TABLE IF NOT EXISTS blobs(hash BLOB PRIMARY KEY, unpacked INTEGER NOT NULL, stored INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS misses(key BLOB PRIMARY KEY, fields BLOB NOT NULL, at INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS misses_by_age ON misses(at);
CREATE TABLE IF NOT EXISTS state(name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT OR IGNORE INTO state VALUES('use', 0);
INSERT OR IGNORE INTO state VALUES('filled', 0);
)";

Result<std::int64_t> number(Sqlite& database, std::string_view sql) {
  Query query = database.query(sql);
  CRUCIBLE_TRY(const bool row, query.step());
  return row ? query.integer(0) : 0;
}

/// A connection with the tables. Errors: kUnavailable; kCheckFailed where the file is of another version.
Result<std::unique_ptr<Sqlite>> connect(const std::filesystem::path& path) {
  CRUCIBLE_TRY(std::unique_ptr<Sqlite> database, Sqlite::open(path));
  // NORMAL: a power cut may take the last rows, which the files have too.
  // Checkpoints sync: one for every 16 MiB, and pages of as much are kept in memory.
  const Result<void> begun = database->execute_patiently(
      "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA wal_autocheckpoint=4096; PRAGMA cache_size=-16384;");
  if (!begun) {
    if (database->is_damaged()) return Error{ErrorCode::kCheckFailed, "is damaged"};
    return begun.error();
  }
  CRUCIBLE_TRY(const std::int64_t version, number(*database, "PRAGMA user_version"));
  if (version != 0 && version != kVersion)
    return Error{ErrorCode::kCheckFailed, fmt::format("says version {}", version)};
  const Result<void> made =
      database->execute(fmt::format("BEGIN IMMEDIATE; {} PRAGMA user_version={}; COMMIT;", kSchema, kVersion));
  if (!made && database->is_damaged()) return Error{ErrorCode::kCheckFailed, "is damaged"};
  if (!made) return made.error();
  return database;
}

std::string key_bytes(const ContentHash& hash) {
  return {reinterpret_cast<const char*>(hash.bytes.data()), hash.bytes.size()};
}

Result<std::vector<ContentHash>> hashes(Query& query) {
  std::vector<ContentHash> out;
  for (;;) {
    CRUCIBLE_TRY(const bool row, query.step());
    if (!row) return out;
    out.push_back(query.hash(0));
  }
}

constexpr std::string_view kColumns = "key, fields, maker, made_ns, last_use, bytes";

std::optional<EntryRow> row_of(const Query& query) {
  Result<ActionKey> fields = decode(query.text(1));
  if (!fields) return std::nullopt;
  return EntryRow{query.hash(0),    *std::move(fields), query.text(2),
                  query.integer(3), query.integer(4),   static_cast<std::uint64_t>(query.integer(5))};
}

Result<void> visit_rows(Query& query, const std::function<bool(const EntryRow&)>& visit) {
  for (;;) {
    CRUCIBLE_TRY(const bool row, query.step());
    if (!row) return {};
    const std::optional<EntryRow> entry = row_of(query);
    if (entry && !visit(*entry)) return {};
  }
}

}  // namespace

#define CRUCIBLE_STORE_ALONE const std::lock_guard lock(mutex_)

void Index::set_aside(const Files& files, const Tell& tell) {
  const std::string name = file_name();
  tell(
      fmt::format("the index {} is damaged or of another version: it was moved to quarantine and is made again of the "
                  "files",
                  (files.folder() / name).string()));
  for (const char* ending : {"", "-wal", "-shm"}) (void)files.set_aside(name + ending);
}

Result<std::shared_ptr<Index>> Index::open(const Files& files, const Tell& tell,
                                           const std::function<Result<void>(Index&)>& fill) {
  const std::string name = file_name();
  std::shared_ptr<Index> index(new Index);
  index->is_in_memory_ = !files.is_writable();
  Result<std::unique_ptr<Sqlite>> database = connect(index->is_in_memory_ ? ":memory:" : files.folder() / name);
  if (!database && database.error().code == ErrorCode::kCheckFailed) {
    // Alone: no writer is between its files and its rows.
    CRUCIBLE_TRY(const FolderLock lock, files.lock_alone());
    database = connect(files.folder() / name);  // another process may have done it meanwhile
    if (!database && database.error().code == ErrorCode::kCheckFailed) {
      set_aside(files, tell);
      database = connect(files.folder() / name);
    }
  }
  if (!database) {
    return Error{ErrorCode::kUnavailable, database.error().message};
  }
  index->database_ = *std::move(database);
  CRUCIBLE_TRY(const std::int64_t filled, number(*index->database_, "SELECT value FROM state WHERE name='filled'"));
  if (filled == 0) {
    CRUCIBLE_TRY_VOID(fill(*index));
    // Who was used when is not in the files: what was made first counts as used first.
    CRUCIBLE_TRY_VOID(index->database_->execute(
        "BEGIN IMMEDIATE; CREATE TEMP TABLE ages AS SELECT key, row_number() OVER (ORDER BY made_ns) AS age FROM "
        "entries;"
        "UPDATE entries SET last_use=ages.age FROM ages WHERE ages.key=entries.key; DROP TABLE ages;"
        "UPDATE state SET value=1 WHERE name='filled'; COMMIT"));
  }
  return index;
}

Result<void> Index::begin() {
  mutex_.lock();
  Result<void> begun = database_->execute("BEGIN IMMEDIATE");
  if (!begun) mutex_.unlock();
  return begun;
}

Result<void> Index::commit() {
  Result<void> done = database_->execute("COMMIT");
  if (!done) (void)database_->execute("ROLLBACK");
  mutex_.unlock();
  return done;
}

Result<void> Index::add(const Statement& statement, std::int64_t modified_ns) {
  CRUCIBLE_STORE_ALONE;
  const ContentHash key = hash_of(statement.key);
  std::uint64_t bytes = 0;
  for (const Output& output : statement.outputs) bytes += output.size;
  CRUCIBLE_TRY_VOID(database_->query("UPDATE state SET value=value+1 WHERE name='use'").run());
  CRUCIBLE_TRY_VOID(database_
                        ->query("INSERT OR REPLACE INTO entries VALUES(?,?,?,?,?,?,"
                                "(SELECT value FROM state WHERE name='use'),?)")
                        .bind_hash(1, key)
                        .bind_text(2, statement.key.kind)
                        .bind_bytes(3, encode(statement.key))
                        .bind_text(4, statement.maker)
                        .bind(5, statement.made_ns)
                        .bind(6, static_cast<std::int64_t>(bytes))
                        .bind(7, modified_ns)
                        .run());
  CRUCIBLE_TRY_VOID(database_->query("DELETE FROM outputs WHERE key=?").bind_hash(1, key).run());
  for (const Output& output : statement.outputs) {
    CRUCIBLE_TRY_VOID(database_->query("INSERT OR IGNORE INTO outputs VALUES(?,?)")
                          .bind_hash(1, key)
                          .bind_hash(2, output.blob)
                          .run());
  }
  return database_->query("DELETE FROM misses WHERE key=?").bind_hash(1, key).run();
}

Result<void> Index::add_blob(const ContentHash& blob, std::uint64_t unpacked, std::uint64_t stored) {
  CRUCIBLE_STORE_ALONE;
  return database_->query("INSERT OR REPLACE INTO blobs VALUES(?,?,?)")
      .bind_hash(1, blob)
      .bind(2, static_cast<std::int64_t>(unpacked))
      .bind(3, static_cast<std::int64_t>(stored))
      .run();
}

Result<bool> Index::has(Room room, const ContentHash& name, const FileFacts& facts) {
  CRUCIBLE_STORE_ALONE;
  Query query = database_->query(room == Room::kActions ? "SELECT 1 FROM entries WHERE key=? AND modified_ns=?"
                                                        : "SELECT 1 FROM blobs WHERE hash=? AND stored=?");
  const auto size = static_cast<std::int64_t>(facts.size);
  return query.bind_hash(1, name).bind(2, room == Room::kActions ? facts.modified_ns : size).step();
}

Result<void> Index::remove_entry(const ContentHash& key) {
  CRUCIBLE_STORE_ALONE;
  CRUCIBLE_TRY_VOID(database_->query("DELETE FROM outputs WHERE key=?").bind_hash(1, key).run());
  return database_->query("DELETE FROM entries WHERE key=?").bind_hash(1, key).run();
}

Result<void> Index::remove_blob(const ContentHash& blob) {
  CRUCIBLE_STORE_ALONE;
  return database_->query("DELETE FROM blobs WHERE hash=?").bind_hash(1, blob).run();
}

Result<void> Index::use(const std::vector<ContentHash>& keys) {
  CRUCIBLE_TRY_VOID(begin());
  const auto count = static_cast<std::int64_t>(keys.size());
  const auto note = [&]() -> Result<void> {
    CRUCIBLE_TRY_VOID(database_->query("UPDATE state SET value=value+? WHERE name='use'").bind(1, count).run());
    CRUCIBLE_TRY(const std::int64_t last, number(*database_, "SELECT value FROM state WHERE name='use'"));
    for (std::int64_t at = 0; at < count; ++at) {
      CRUCIBLE_TRY_VOID(database_->query("UPDATE entries SET last_use=? WHERE key=?")
                            .bind(1, last - count + 1 + at)
                            .bind_hash(2, keys[static_cast<std::size_t>(at)])
                            .run());
    }
    return {};
  };
  const Result<void> done = note(), committed = commit();
  return done ? committed : done;
}

Result<void> Index::miss(const ActionKey& key) {
  CRUCIBLE_STORE_ALONE;
  CRUCIBLE_TRY_VOID(
      database_->query("INSERT OR REPLACE INTO misses VALUES(?,?,(SELECT coalesce(max(at),0)+1 FROM misses))")
          .bind_hash(1, hash_of(key))
          .bind_bytes(2, encode(key))
          .run());
  return database_->query("DELETE FROM misses WHERE at <= (SELECT max(at) FROM misses) - ?")
      .bind(1, std::int64_t{kMisses})
      .run();
}

Result<std::optional<ActionKey>> Index::find_miss(std::string_view digits) {
  CRUCIBLE_STORE_ALONE;
  Query query = database_->query("SELECT fields FROM misses WHERE lower(hex(key)) GLOB ? ORDER BY at DESC LIMIT 1");
  CRUCIBLE_TRY(const bool row, query.bind_text(1, fmt::format("{}*", digits)).step());
  if (!row) return std::optional<ActionKey>();
  CRUCIBLE_TRY(ActionKey key, decode(query.text(0)));
  return std::optional(std::move(key));
}

Result<std::vector<ContentHash>> Index::misses() {
  CRUCIBLE_STORE_ALONE;
  Query query = database_->query("SELECT key FROM misses ORDER BY at DESC");
  return hashes(query);
}

Result<Totals> Index::totals() {
  CRUCIBLE_STORE_ALONE;
  Totals totals;
  Query blobs = database_->query("SELECT count(*), coalesce(sum(unpacked),0), coalesce(sum(stored),0) FROM blobs");
  CRUCIBLE_TRY([[maybe_unused]] const bool one, blobs.step());
  totals.blobs = static_cast<std::uint64_t>(blobs.integer(0));
  totals.unpacked_bytes = static_cast<std::uint64_t>(blobs.integer(1));
  totals.stored_bytes = static_cast<std::uint64_t>(blobs.integer(2));
  Query kinds = database_->query("SELECT kind, count(*) FROM entries GROUP BY kind ORDER BY kind");
  for (;;) {
    CRUCIBLE_TRY(const bool row, kinds.step());
    if (!row) return totals;
    totals.entries_by_kind.emplace_back(kinds.text(0), static_cast<std::uint64_t>(kinds.integer(1)));
    totals.entries += totals.entries_by_kind.back().second;
  }
}

Result<std::uint64_t> Index::stored_bytes() {
  CRUCIBLE_STORE_ALONE;
  CRUCIBLE_TRY(const std::int64_t sum, number(*database_, "SELECT coalesce(sum(stored),0) FROM blobs"));
  return static_cast<std::uint64_t>(sum);
}

Result<std::vector<ContentHash>> Index::oldest(std::size_t count) {
  CRUCIBLE_STORE_ALONE;
  Query query = database_->query("SELECT key FROM entries ORDER BY last_use LIMIT ?");
  return hashes(query.bind(1, static_cast<std::int64_t>(count)));
}

Result<std::vector<ContentHash>> Index::only_of(const ContentHash& key) {
  CRUCIBLE_STORE_ALONE;
  Query query = database_->query(
      "SELECT blob FROM outputs AS mine WHERE key=?1 AND NOT EXISTS"
      "(SELECT 1 FROM outputs AS others WHERE others.blob=mine.blob AND others.key<>?1)");
  return hashes(query.bind_hash(1, key));
}

Result<std::vector<ContentHash>> Index::blobs_without_entry(std::size_t count) {
  CRUCIBLE_STORE_ALONE;
  Query query = database_->query(
      "SELECT hash FROM blobs WHERE NOT EXISTS(SELECT 1 FROM outputs WHERE outputs.blob=blobs.hash) LIMIT ?");
  return hashes(query.bind(1, static_cast<std::int64_t>(count)));
}

Result<std::vector<ContentHash>> Index::page(Room room, const ContentHash& after, std::size_t count) {
  CRUCIBLE_STORE_ALONE;
  Query query = database_->query(room == Room::kActions ? "SELECT key FROM entries WHERE key>? ORDER BY key LIMIT ?"
                                                        : "SELECT hash FROM blobs WHERE hash>? ORDER BY hash LIMIT ?");
  return hashes(query.bind_hash(1, after).bind(2, static_cast<std::int64_t>(count)));
}

Result<void> Index::entries(std::string_view kind, std::size_t limit,
                            const std::function<bool(const EntryRow&)>& visit) {
  CRUCIBLE_STORE_ALONE;
  Query query = database_->query(fmt::format("SELECT {} FROM entries {} ORDER BY last_use DESC LIMIT ?2", kColumns,
                                             kind.empty() ? "" : "WHERE kind=?1"));
  if (!kind.empty()) query.bind_text(1, kind);
  query.bind(2, limit == 0 ? std::int64_t{-1} : static_cast<std::int64_t>(limit));
  return visit_rows(query, visit);
}

Result<void> Index::scan(std::string_view kind, const std::function<bool(const EntryRow&)>& visit) {
  CRUCIBLE_STORE_ALONE;
  Query query = database_->query(fmt::format("SELECT {} FROM entries WHERE ?1='' OR kind=?1", kColumns));
  return visit_rows(query.bind_text(1, kind), visit);
}

Result<std::vector<EntryRow>> Index::between(const ContentHash& low, const ContentHash& high) {
  CRUCIBLE_STORE_ALONE;
  Query query =
      database_->query(fmt::format("SELECT {} FROM entries WHERE key>=? AND key<=? ORDER BY key LIMIT 2", kColumns));
  query.bind_bytes(1, key_bytes(low)).bind_bytes(2, key_bytes(high));
  std::vector<EntryRow> out;
  for (;;) {
    CRUCIBLE_TRY(const bool row, query.step());
    if (!row) return out;
    if (std::optional<EntryRow> entry = row_of(query)) out.push_back(*std::move(entry));
  }
}

#undef CRUCIBLE_STORE_ALONE

}  // namespace crucible::store
