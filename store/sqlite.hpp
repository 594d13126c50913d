// The little of SQLite that the index and the tuning records need: a connection, statements that are kept prepared,
// errors as Results.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/hash.hpp"
#include "core/base/result.hpp"

struct sqlite3;
struct sqlite3_stmt;

namespace crucible::store {

class Sqlite;

/// One run of a prepared statement: bind from 1 on, then step until there is no row. Reset when it goes.
class Query {
 public:
  Query(const Query&) = delete;
  Query& operator=(const Query&) = delete;
  Query(Query&& other) noexcept : database_(other.database_), statement_(other.statement_) {
    other.statement_ = nullptr;
  }
  Query& operator=(Query&&) = delete;
  ~Query();

  Query& bind(int at, std::int64_t value);
  Query& bind(int at, double value);
  Query& bind_text(int at, std::string_view value);
  Query& bind_bytes(int at, std::string_view value);
  Query& bind_hash(int at, const ContentHash& hash);
  /// True: a row is there. Errors: kUnavailable, with SQLite's words.
  Result<bool> step();
  /// step() of a statement that gives no rows.
  Result<void> run();

  std::int64_t integer(int column) const;
  double number(int column) const;
  std::string text(int column) const;  // or bytes
  ContentHash hash(int column) const;  // zeros where it is none

 private:
  friend class Sqlite;
  Query(Sqlite& database, sqlite3_stmt* statement) : database_(&database), statement_(statement) {}
  Sqlite* database_;
  sqlite3_stmt* statement_;  // null: it could not be prepared, or was moved
};

/// Threads: one at a time.
class Sqlite {
 public:
  /// `path` ":memory:" is one of its own. Errors: kUnavailable.
  static Result<std::unique_ptr<Sqlite>> open(const std::filesystem::path& path);
  Sqlite(const Sqlite&) = delete;
  Sqlite& operator=(const Sqlite&) = delete;
  ~Sqlite();

  Result<void> execute(const std::string& sql);
  /// The same of what SQLite does not wait for by itself, as several processes turning a new file to WAL at once.
  Result<void> execute_patiently(const std::string& sql);
  /// An error of preparing it comes with the first step().
  Query query(std::string_view sql);
  /// Rows that the last statement changed.
  std::int64_t changes() const;
  /// Whether an error meant that the file is damaged or no database.
  bool is_damaged() const { return is_damaged_; }
  Error error(std::string_view doing);

 private:
  friend class Query;
  Sqlite() = default;
  sqlite3* handle_ = nullptr;
  std::filesystem::path path_;
  std::map<std::string, sqlite3_stmt*, std::less<>> prepared_;
  bool is_damaged_ = false;
};

}  // namespace crucible::store
