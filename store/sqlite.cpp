// See sqlite.hpp.
#include "store/sqlite.hpp"

#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>

namespace crucible::store {
namespace {

constexpr int kBusyMs = 30'000;  // how long one waits for other writers

}  // namespace

Query::~Query() {
  if (statement_ == nullptr) return;
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
}

Query& Query::bind(int at, std::int64_t value) {
  if (statement_ != nullptr) sqlite3_bind_int64(statement_, at, value);
  return *this;
}

Query& Query::bind(int at, double value) {
  if (statement_ != nullptr) sqlite3_bind_double(statement_, at, value);
  return *this;
}

Query& Query::bind_text(int at, std::string_view value) {
  if (statement_ != nullptr) {
    sqlite3_bind_text64(statement_, at, value.empty() ? "" : value.data(), value.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  }
  return *this;
}

Query& Query::bind_bytes(int at, std::string_view value) {
  if (statement_ != nullptr) {
    sqlite3_bind_blob64(statement_, at, value.empty() ? "" : value.data(), value.size(), SQLITE_TRANSIENT);
  }
  return *this;
}

Query& Query::bind_hash(int at, const ContentHash& hash) {
  return bind_bytes(at, {reinterpret_cast<const char*>(hash.bytes.data()), hash.bytes.size()});
}

Result<bool> Query::step() {
  if (statement_ == nullptr) return database_->error("prepare");
  switch (sqlite3_step(statement_)) {
    case SQLITE_ROW:
      return true;
    case SQLITE_DONE:
      return false;
    default:
      return database_->error("use");
  }
}

Result<void> Query::run() {
  CRUCIBLE_TRY([[maybe_unused]] const bool row, step());
  return {};
}

std::int64_t Query::integer(int column) const { return sqlite3_column_int64(statement_, column); }
double Query::number(int column) const { return sqlite3_column_double(statement_, column); }

std::string Query::text(int column) const {
  const void* const bytes = sqlite3_column_blob(statement_, column);
  const int size = sqlite3_column_bytes(statement_, column);
  return bytes == nullptr ? std::string()
                          : std::string(static_cast<const char*>(bytes), static_cast<std::size_t>(size));
}

ContentHash Query::hash(int column) const {
  ContentHash hash;
  const std::string bytes = text(column);
  if (bytes.size() == hash.bytes.size()) std::copy(bytes.begin(), bytes.end(), hash.bytes.begin());
  return hash;
}

Result<std::unique_ptr<Sqlite>> Sqlite::open(const std::filesystem::path& path) {
  std::unique_ptr<Sqlite> database(new Sqlite);
  database->path_ = path;
  constexpr int kFlags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_NOMUTEX;
  // NOFOLLOW refuses links in all of the path: those on the way to the store are its user's, those in it are not.
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::canonical(path.parent_path(), error);
  const std::string name = path == ":memory:" || error ? path.string() : (folder / path.filename()).string();
  if (sqlite3_open_v2(name.c_str(), &database->handle_, kFlags, nullptr) != SQLITE_OK) return database->error("open");
  sqlite3_busy_timeout(database->handle_, kBusyMs);
  sqlite3_db_config(database->handle_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(database->handle_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  return database;
}

Sqlite::~Sqlite() {
  for (const auto& [sql, statement] : prepared_) sqlite3_finalize(statement);
  sqlite3_close_v2(handle_);
}

Result<void> Sqlite::execute(const std::string& sql) {
  if (sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) return error("use");
  return {};
}

Result<void> Sqlite::execute_patiently(const std::string& sql) {
  constexpr int kPauseMs = 10;
  for (int waited_ms = 0;; waited_ms += kPauseMs) {
    const int code = sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr);
    if (code == SQLITE_OK) return {};
    if ((code & 0xff) != SQLITE_BUSY || waited_ms >= kBusyMs) return error("use");
    sqlite3_sleep(kPauseMs);
  }
}

Query Sqlite::query(std::string_view sql) {
  const auto found = prepared_.find(sql);
  if (found != prepared_.end()) return {*this, found->second};
  sqlite3_stmt* statement = nullptr;
  sqlite3_prepare_v3(handle_, sql.data(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  if (statement != nullptr) prepared_.emplace(sql, statement);
  return {*this, statement};
}

std::int64_t Sqlite::changes() const { return sqlite3_changes64(handle_); }

Error Sqlite::error(std::string_view doing) {
  const int code = handle_ == nullptr ? SQLITE_NOMEM : sqlite3_errcode(handle_) & 0xff;
  is_damaged_ |= code == SQLITE_CORRUPT || code == SQLITE_NOTADB;
  return {ErrorCode::kUnavailable, fmt::format("cannot {} {}: {}", doing, path_.string(),
                                               handle_ == nullptr ? "out of memory" : sqlite3_errmsg(handle_))};
}

}  // namespace crucible::store
