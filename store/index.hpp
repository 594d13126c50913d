// What is in a store, for questions that the files answer slowly: lists, sums, who was used when, what misses what. It
// is made of the files and can be made again; nothing is in it alone. One file per version of Crucible's index, so that
// two versions on one store leave each other's alone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/result.hpp"
#include "store/blobs.hpp"
#include "store/files.hpp"
#include "store/sqlite.hpp"
#include "store/statement.hpp"

namespace crucible::store {

struct EntryRow {
  ContentHash key;
  ActionKey fields;
  std::string maker;
  std::int64_t made_ns = 0, last_use = 0;  // last_use: a count that goes up, no clock
  std::uint64_t bytes = 0;                 // of its blobs, unpacked
};

struct Totals {
  std::uint64_t entries = 0, blobs = 0, unpacked_bytes = 0, stored_bytes = 0;
  std::vector<std::pair<std::string, std::uint64_t>> entries_by_kind;
};

/// Threads: any; one at a time gets in.
class Index {
 public:
  /// Makes, or makes anew, what is missing, damaged or of another version; `fill` is then called to put in what the
  /// files have. In memory where the folder cannot be written. Errors: kUnavailable.
  static Result<std::shared_ptr<Index>> open(const Files& files, const Tell& tell,
                                             const std::function<Result<void>(Index&)>& fill);
  /// Moves the file away, as it is damaged: the next open() makes another.
  static void set_aside(const Files& files, const Tell& tell);
  bool is_in_memory() const { return is_in_memory_; }
  bool is_damaged() const { return database_->is_damaged(); }

  /// `modified_ns`: of the entry's file, by which one sees that the row is of this very file.
  Result<void> add(const Statement& statement, std::int64_t modified_ns);
  Result<void> add_blob(const ContentHash& blob, std::uint64_t unpacked, std::uint64_t stored);
  /// Whether there is a row of this very file.
  Result<bool> has(Room room, const ContentHash& name, const FileFacts& facts);
  Result<void> remove_entry(const ContentHash& key);
  Result<void> remove_blob(const ContentHash& blob);
  /// The entries were used just now, in this order, after all that were used before.
  Result<void> use(const std::vector<ContentHash>& keys);
  /// A key that was asked for and not there; the last 1,000 are kept.
  Result<void> miss(const ActionKey& key);
  Result<std::optional<ActionKey>> find_miss(std::string_view digits);  // its first, lower case

  Result<std::vector<ContentHash>> misses();  // all that are kept, the latest first

  Result<Totals> totals();
  Result<std::uint64_t> stored_bytes();
  /// The entries that were used longest ago, at most `count`.
  Result<std::vector<ContentHash>> oldest(std::size_t count);
  /// Blobs of the entry that no other one has.
  Result<std::vector<ContentHash>> only_of(const ContentHash& key);
  Result<std::vector<ContentHash>> blobs_without_entry(std::size_t count);
  /// A page of names in order, after `after`.
  Result<std::vector<ContentHash>> page(Room room, const ContentHash& after, std::size_t count);
  /// Of one kind or ("") all, the latest used first; `limit` 0: all. Ends where `visit` says no.
  Result<void> entries(std::string_view kind, std::size_t limit, const std::function<bool(const EntryRow&)>& visit);
  /// The same in no order, which is faster by far where there are many.
  Result<void> scan(std::string_view kind, const std::function<bool(const EntryRow&)>& visit);
  /// Entries whose key begins with `low` and ends before `high`, at most two.
  Result<std::vector<EntryRow>> between(const ContentHash& low, const ContentHash& high);

  Result<void> begin();
  Result<void> commit();

 private:
  Index() = default;
  std::recursive_mutex mutex_;  // of begin() and commit() too: who has begun may add
  std::unique_ptr<Sqlite> database_;
  bool is_in_memory_ = false;
};

}  // namespace crucible::store
