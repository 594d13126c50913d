// See tuning.hpp. The triggers keep rows as they are from other programs, too.
#include "store/tuning.hpp"

#include <fmt/format.h>
#include <sys/random.h>

#include <cmath>
#include <utility>

namespace crucible::store {
namespace {

constexpr int kVersion = 1;
constexpr const char* kName = "tuning.db";
constexpr const char* kSchema = R"(
CREATE TABLE IF NOT EXISTS samples(number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, action BLOB NOT NULL,
  candidate TEXT NOT NULL, device TEXT NOT NULL, time_ns REAL NOT NULL, maker TEXT NOT NULL, made_ns INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS samples_by_action ON samples(action, device, candidate, time_ns);
CREATE TRIGGER IF NOT EXISTS samples_stay BEFORE DELETE ON samples
  BEGIN SELECT RAISE(ABORT, 'samples are never taken away'); END;
CREATE TRIGGER IF NOT EXISTS samples_are_kept BEFORE UPDATE ON samples
  BEGIN SELECT RAISE(ABORT, 'samples are never changed'); END;
)";

std::string new_id() {
  std::uint64_t words[2] = {};
  (void)getrandom(words, sizeof words, 0);
  return fmt::format("{:016x}{:016x}", words[0], words[1]);
}

/// Errors: kCheckFailed: damaged; kBadInput: of a newer version.
Result<std::unique_ptr<Sqlite>> connect(const std::filesystem::path& path) {
  CRUCIBLE_TRY(std::unique_ptr<Sqlite> database, Sqlite::open(path));
  const auto failed = [&](const Error& error) {
    return database->is_damaged() ? Error{ErrorCode::kCheckFailed, error.message} : error;
  };
  // FULL: what add() said is kept stays kept through a power cut.
  if (const auto set = database->execute_patiently("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"); !set) {
    return failed(set.error());
  }
  std::int64_t version = 0;
  {
    Query query = database->query("PRAGMA user_version");
    const Result<bool> row = query.step();
    if (!row) return failed(row.error());
    version = query.integer(0);
  }
  if (version > kVersion) {
    return Error{ErrorCode::kBadInput,
                 fmt::format("the tuning records {} were written by a newer version of Crucible (version {}, this one "
                             "reads {}): use that version; nothing was touched",
                             path.string(), version, kVersion)};
  }
  const auto made =
      database->execute(fmt::format("BEGIN IMMEDIATE; {} PRAGMA user_version={}; COMMIT;", kSchema, kVersion));
  if (!made) return failed(made.error());
  return database;
}

constexpr std::string_view kInsert =
    "INSERT OR IGNORE INTO samples(id, action, candidate, device, time_ns, maker, made_ns) VALUES(?,?,?,?,?,?,?)";

}  // namespace

Result<std::unique_ptr<Tuning>> Tuning::open(const Files& files, const Tell& tell) {
  const std::filesystem::path path = files.folder() / kName;
  std::unique_ptr<Tuning> tuning(new Tuning);
  if (!files.is_writable()) {
    CRUCIBLE_TRY(tuning->database_, connect(":memory:"));
    std::error_code error;
    if (!std::filesystem::exists(path, error)) return tuning;
    // Without the folder there is no shared memory for WAL: as it is, which is right unless somebody writes just now.
    std::string name;
    for (const char c : path.string())
      name += c == '\''                          ? std::string("''")
              : c == '?' || c == '#' || c == '%' ? fmt::format("%{:02x}", c)
                                                 : std::string(1, c);
    CRUCIBLE_TRY_VOID(tuning->database_->execute(fmt::format(
        "ATTACH 'file:{}?immutable=1' AS disk; INSERT INTO samples SELECT * FROM disk.samples; DETACH disk", name)));
    return tuning;
  }
  Result<std::unique_ptr<Sqlite>> database = connect(path);
  if (!database && database.error().code == ErrorCode::kCheckFailed) {
    CRUCIBLE_TRY(const FolderLock lock, files.lock_alone());
    database = connect(path);
    if (!database && database.error().code == ErrorCode::kCheckFailed) {
      tell(fmt::format("the tuning records {} are damaged: they were moved to quarantine, new ones begin",
                       path.string()));
      for (const char* ending : {"", "-wal", "-shm"}) (void)files.set_aside(std::string(kName) + ending);
      database = connect(path);
    }
  }
  if (!database) return database.error();
  tuning->database_ = *std::move(database);
  return tuning;
}

Result<void> Tuning::add(Sample sample) {
  std::vector<Sample> one;
  one.push_back(std::move(sample));
  CRUCIBLE_TRY([[maybe_unused]] const std::uint64_t added, add(std::move(one)));
  return {};
}

Result<std::uint64_t> Tuning::add(std::vector<Sample> samples) {
  for (Sample& sample : samples) {
    if (!(sample.time_ns > 0) || !std::isfinite(sample.time_ns)) {
      return Error{ErrorCode::kBadInput, fmt::format("a sample of '{}' has the time {}: it must be positive",
                                                     sample.candidate, sample.time_ns)};
    }
    if (sample.id.empty()) sample.id = new_id();
  }
  const std::lock_guard lock(mutex_);
  CRUCIBLE_TRY_VOID(database_->execute("BEGIN IMMEDIATE"));
  std::uint64_t added = 0;
  for (const Sample& sample : samples) {
    const Result<void> done = database_->query(kInsert)
                                  .bind_text(1, sample.id)
                                  .bind_hash(2, sample.action)
                                  .bind_text(3, sample.candidate)
                                  .bind_text(4, sample.device)
                                  .bind(5, sample.time_ns)
                                  .bind_text(6, sample.maker)
                                  .bind(7, sample.made_ns)
                                  .run();
    if (!done) {
      (void)database_->execute("ROLLBACK");
      return done.error();
    }
    added += static_cast<std::uint64_t>(database_->changes());
  }
  const Result<void> kept = database_->execute("COMMIT");
  if (!kept) {
    (void)database_->execute("ROLLBACK");
    return kept.error();
  }
  return added;
}

Result<std::vector<Best>> Tuning::candidates(const ContentHash& action, std::string_view device) {
  const std::lock_guard lock(mutex_);
  Query query = database_->query(R"(
    SELECT candidate, avg(time_ns) AS median, max(total) FROM (
      SELECT candidate, time_ns, row_number() OVER (PARTITION BY candidate ORDER BY time_ns) AS place,
             count(*) OVER (PARTITION BY candidate) AS total
      FROM samples WHERE action=? AND device=?)
    WHERE place IN ((total + 1) / 2, (total + 2) / 2) GROUP BY candidate ORDER BY median, candidate)");
  query.bind_hash(1, action).bind_text(2, device);
  std::vector<Best> out;
  for (;;) {
    CRUCIBLE_TRY(const bool row, query.step());
    if (!row) return out;
    out.push_back({query.text(0), query.number(1), static_cast<std::uint64_t>(query.integer(2))});
  }
}

Result<std::optional<Best>> Tuning::best(const ContentHash& action, std::string_view device) {
  CRUCIBLE_TRY(const std::vector<Best> all, candidates(action, device));
  return all.empty() ? std::optional<Best>() : std::optional(all.front());
}

Result<void> Tuning::each(const std::function<bool(const Sample&)>& visit) {
  const std::lock_guard lock(mutex_);
  Query query =
      database_->query("SELECT id, action, candidate, device, time_ns, maker, made_ns FROM samples ORDER BY number");
  for (;;) {
    CRUCIBLE_TRY(const bool row, query.step());
    if (!row) return {};
    if (!visit({query.text(0), query.hash(1), query.text(2), query.text(3), query.number(4), query.text(5),
                query.integer(6)})) {
      return {};
    }
  }
}

Result<std::uint64_t> Tuning::count() {
  const std::lock_guard lock(mutex_);
  Query query = database_->query("SELECT count(*) FROM samples");
  CRUCIBLE_TRY([[maybe_unused]] const bool row, query.step());
  return static_cast<std::uint64_t>(query.integer(0));
}

}  // namespace crucible::store
