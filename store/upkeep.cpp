// What is in a store: sums, lists, reading all of it, making room. Everything goes by pages, so that memory does not
// grow with the store.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "store/store.hpp"

namespace crucible::store {
namespace {

constexpr std::size_t kPage = 500;

}  // namespace

// An index that turns out to be damaged is made again, once.
template <class Run>
auto Store::with_index(const Run& run) -> decltype(run(std::declval<Index&>())) {
  CRUCIBLE_TRY(std::shared_ptr<Index> rows, needed_index());
  auto result = run(*rows);
  if (result || !rows->is_damaged()) return result;
  note(result.error(), rows);
  CRUCIBLE_TRY(rows, needed_index());
  return run(*rows);
}

Result<Totals> Store::totals() {
  flush_uses();
  return with_index([](Index& rows) { return rows.totals(); });
}

Result<void> Store::list(std::string_view kind, std::size_t limit, const std::function<bool(const EntryRow&)>& visit) {
  flush_uses();
  return with_index([&](Index& rows) { return rows.entries(kind, limit, visit); });
}

Result<Verified> Store::verify() {
  const std::shared_ptr<Index> rows = files_.is_writable() ? index() : nullptr;
  Verified verified;
  files_.walk(Room::kBlobs, [&](const ContentHash& name, const FileFacts&) {
    const auto bytes = blob_here(name, kBlobLimit);
    if (bytes && !*bytes) return true;  // taken away by somebody who made room
    if (!bytes) say(bytes.error().message);
    const bool is_good = bytes && *bytes;
    ++(is_good ? verified.blobs : verified.damaged_blobs);
    if (!is_good && rows) (void)rows->remove_blob(name);
    return true;
  });
  files_.walk(Room::kActions, [&](const ContentHash& name, const FileFacts&) {
    const Entry entry = entry_here(name);
    bool is_gone = true;
    switch (entry.finding) {
      case Finding::kGood:
        is_gone = !is_complete(entry.statement) && drop_incomplete(name);
        ++(is_gone ? verified.incomplete_entries : verified.entries);
        break;
      case Finding::kDamaged:
        ++verified.damaged_entries;
        break;
      case Finding::kNewer:
        ++verified.newer_entries;
        is_gone = false;
        break;
      case Finding::kDistrusted:
        ++verified.distrusted_entries;
        is_gone = false;
        break;
      case Finding::kAbsent:
        break;
    }
    if (is_gone && rows) (void)rows->remove_entry(name);
    return true;
  });
  return verified;
}

Result<std::uint64_t> Store::reconcile(Index& index) {
  CRUCIBLE_TRY(const std::uint64_t newer, index_files(index, true));
  for (const Room room : {Room::kBlobs, Room::kActions}) {
    ContentHash after;
    for (;;) {
      CRUCIBLE_TRY(const std::vector<ContentHash> names, index.page(room, after, kPage));
      if (names.empty()) break;
      after = names.back();
      CRUCIBLE_TRY_VOID(index.begin());
      Result<void> done;
      for (const ContentHash& name : names) {
        if (!done || files_.facts(room, name)) continue;
        done = room == Room::kBlobs ? index.remove_blob(name) : index.remove_entry(name);
      }
      CRUCIBLE_TRY_VOID(index.commit());
      if (!done) return done.error();
    }
  }
  return newer;
}

Result<Collected> Store::collect(std::uint64_t limit) {
  if (!files_.is_writable()) {
    return Error{ErrorCode::kBadInput, fmt::format("the store {} cannot be written", files_.folder().string())};
  }
  flush_uses();
  return with_index([&](Index& rows) { return collect_by(rows, limit); });
}

Result<Collected> Store::collect_by(Index& index, std::uint64_t limit) {
  CRUCIBLE_TRY(const FolderLock lock, files_.lock_alone());
  files_.clear_temporary();
  CRUCIBLE_TRY(const std::uint64_t newer, reconcile(index));
  Collected collected;
  CRUCIBLE_TRY(collected.bytes_before, index.stored_bytes());
  collected.bytes_after = collected.bytes_before;
  const auto remove_blob = [&](const ContentHash& blob) {
    const auto facts = files_.facts(Room::kBlobs, blob);
    files_.remove(Room::kBlobs, blob);
    collected.bytes_after -= std::min(collected.bytes_after, facts ? facts->size : 0);
    ++collected.blobs;
    return index.remove_blob(blob);
  };
  const auto remove_all = [&](const std::vector<ContentHash>& blobs) -> Result<void> {
    for (const ContentHash& blob : blobs) CRUCIBLE_TRY_VOID(remove_blob(blob));
    return {};
  };
  const auto remove_oldest = [&](const std::vector<ContentHash>& keys) -> Result<void> {
    for (const ContentHash& key : keys) {
      if (collected.bytes_after <= limit) break;
      CRUCIBLE_TRY(const std::vector<ContentHash> blobs, index.only_of(key));
      // The entry first: it is never there without its blobs.
      files_.remove(Room::kActions, key);
      CRUCIBLE_TRY_VOID(index.remove_entry(key));
      ++collected.entries;
      CRUCIBLE_TRY_VOID(remove_all(blobs));
    }
    return {};
  };
  const auto by_pages = [&](const auto& next, const auto& remove) -> Result<void> {
    for (;;) {
      CRUCIBLE_TRY(const std::vector<ContentHash> names, next());
      if (names.empty()) return {};
      CRUCIBLE_TRY_VOID(index.begin());
      const Result<void> done = remove(names);
      CRUCIBLE_TRY_VOID(index.commit());
      if (!done) return done;
    }
  };
  if (newer == 0) {
    CRUCIBLE_TRY_VOID(by_pages([&] { return index.blobs_without_entry(kPage); }, remove_all));
  } else {
    say(fmt::format("blobs that no entry names stay: {} of a newer version may name them", newer));
  }
  CRUCIBLE_TRY_VOID(by_pages(
      [&]() -> Result<std::vector<ContentHash>> {
        if (collected.bytes_after <= limit) return std::vector<ContentHash>();
        return index.oldest(kPage);
      },
      remove_oldest));
  return collected;
}

Result<Explanation> Store::explain(const ActionKey& key) {
  return with_index([&](Index& rows) { return explain_by(rows, key); });
}

Result<Explanation> Store::explain_by(Index& index, const ActionKey& key) const {
  const ContentHash hash = hash_of(key);
  Explanation out{key, files_.facts(Room::kActions, hash).has_value(), std::nullopt, {}};
  // Fewer differences are nearer; of as many, the same region is; of those, what was used last.
  const auto distance = [&](const std::vector<Difference>& differences, const ActionKey& other) {
    return 2 * differences.size() + (other.region == key.region ? 0 : 1);
  };
  std::size_t least = 0;
  std::int64_t last_use = 0;
  const auto look = [&](const EntryRow& row) {
    if (row.key == hash) return true;
    std::vector<Difference> found = differences(key, row.fields);
    const std::size_t far = distance(found, row.fields);
    if (out.nearest && (far > least || (far == least && row.last_use < last_use))) return true;
    least = far;
    last_use = row.last_use;
    out.nearest = row.fields;
    out.differences = std::move(found);
    return true;
  };
  CRUCIBLE_TRY_VOID(index.scan(key.kind, look));
  if (!out.nearest) CRUCIBLE_TRY_VOID(index.scan("", look));
  return out;
}

Result<Explanation> Store::explain(std::string_view digits) {
  std::string low(digits);
  for (char& c : low) c = static_cast<char>(c >= 'A' && c <= 'F' ? c | 32 : c);
  const bool is_hex = low.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (low.size() < 4 || low.size() > 64 || !is_hex) {
    return Error{ErrorCode::kUsage,
                 fmt::format("'{}' is no key: give at least 4 of its 64 hexadecimal digits", digits.substr(0, 80))};
  }
  CRUCIBLE_TRY(const ContentHash first, parse_hash(low + std::string(64 - low.size(), '0')));
  CRUCIBLE_TRY(const ContentHash last, parse_hash(low + std::string(64 - low.size(), 'f')));
  CRUCIBLE_TRY(const std::shared_ptr<Index> rows, needed_index());
  CRUCIBLE_TRY(const std::vector<EntryRow> found, rows->between(first, last));
  if (found.size() > 1) {
    return Error{ErrorCode::kUsage, fmt::format("several entries begin with {}: {} and {}, give more digits", low,
                                                found[0].key.hex(), found[1].key.hex())};
  }
  if (found.size() == 1) return explain(found[0].fields);
  CRUCIBLE_TRY(const std::optional<ActionKey> miss, rows->find_miss(low));
  if (miss) return explain(*miss);
  return Error{ErrorCode::kUsage,
               fmt::format("no entry begins with {}, and none of the last 1000 misses: crucible store "
                           "list shows what is there",
                           low)};
}

}  // namespace crucible::store
