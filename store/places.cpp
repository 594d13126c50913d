// Places beyond the folder: what is not here is asked of them in their order, what is put here is written to those that
// take it. What they give is checked here; what they cannot give is a miss.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "store/store.hpp"

namespace crucible::store {
namespace {

constexpr std::size_t kPage = 64, kPresencePage = 4096;
constexpr std::size_t kBytesAtOnce = 64 << 20;  // of blobs in memory, or one larger one

std::string short_hash(const ContentHash& hash) { return hash.hex().substr(0, 12); }

}  // namespace

bool Store::take_from_places(const Output& output) {
  if (!files_.is_writable() || output.size > kBlobLimit) return false;
  for (const Beyond& beyond : options_.places) {
    const auto frame = beyond.place->read(Room::kBlobs, output.blob, frame_limit(output.size));
    if (!frame) say(frame.error().message);
    if (!frame || !*frame) continue;
    const Result<void> kept = blobs_.put_frame(**frame, output.blob, output.size);
    if (kept) return true;
    say(fmt::format("from {}: {}", beyond.place->name(), kept.error().message));
  }
  return false;
}

bool Store::keep(const Entry& entry, const std::string& place) {
  const std::shared_ptr<Index> rows = files_.is_writable() ? index() : nullptr;
  const Result<FolderLock> lock = files_.lock_shared();
  if (!lock) {
    say(lock.error().message);
    return false;
  }
  for (const Output& output : entry.statement.outputs) {
    if (files_.facts(Room::kBlobs, output.blob) || take_from_places(output)) continue;
    say(fmt::format("entry {} of {} lacks a blob that it names: a miss", short_hash(hash_of(entry.statement.key)),
                    place));
    return false;
  }
  const Result<void> kept = publish(entry.statement, entry.bytes, rows);
  if (!kept) say(kept.error().message);
  return kept.has_value();
}

std::optional<Statement> Store::fetch(const ContentHash& hash) {
  std::optional<Statement> earlier;  // that is believed, but did not come whole
  std::string earlier_place;
  for (const Beyond& beyond : options_.places) {
    Result<std::optional<std::string>> bytes = beyond.place->read(Room::kActions, hash, kStatementLimit);
    if (!bytes) say(bytes.error().message);
    if (!bytes || !*bytes) continue;
    Entry entry = judge(hash, **std::move(bytes), beyond.trust, beyond.place->name());
    if (entry.finding != Finding::kGood) continue;
    if (earlier && earlier->outputs != entry.statement.outputs) {
      say(fmt::format("{} and {} have different answers for {}", earlier_place, beyond.place->name(),
                      short_hash(hash)));
    }
    if (keep(entry, beyond.place->name())) return std::move(entry.statement);
    if (earlier) continue;
    earlier = std::move(entry.statement);
    earlier_place = beyond.place->name();
  }
  return std::nullopt;
}

std::optional<std::set<ContentHash>> Store::prefetch_from(const Beyond& beyond, const std::vector<ContentHash>& keys) {
  std::set<ContentHash> kept;
  for (std::size_t first = 0; first < keys.size(); first += kPage) {
    const std::span<const ContentHash> page = std::span(keys).subspan(first, std::min(kPage, keys.size() - first));
    auto found = beyond.place->read_all(Room::kActions, page, kStatementLimit);
    if (!found) {
      say(found.error().message);
      return std::nullopt;
    }
    std::vector<std::pair<ContentHash, Entry>> entries;
    std::map<ContentHash, std::uint64_t> blobs;  // that are not here, with their sizes
    std::uint64_t bytes = 0, largest = 0;
    for (std::size_t at = 0; at < page.size(); ++at) {
      if (!(*found)[at]) continue;
      Entry entry = judge(page[at], *std::move((*found)[at]), beyond.trust, beyond.place->name());
      if (entry.finding != Finding::kGood) continue;
      for (const Output& output : entry.statement.outputs) {
        // What is larger is fetched alone, by keep().
        const bool fits = output.size <= kBytesAtOnce - std::min<std::uint64_t>(bytes, kBytesAtOnce);
        if (!fits || files_.facts(Room::kBlobs, output.blob)) continue;
        if (!blobs.emplace(output.blob, output.size).second) continue;
        bytes += output.size;
        largest = std::max(largest, output.size);
      }
      entries.emplace_back(page[at], std::move(entry));
    }
    std::vector<ContentHash> names;
    for (const auto& [blob, size] : blobs) names.push_back(blob);
    auto frames = names.empty()
                      ? Result<std::vector<std::optional<std::string>>>(std::vector<std::optional<std::string>>())
                      : beyond.place->read_all(Room::kBlobs, names, frame_limit(largest));
    if (!frames) say(frames.error().message);
    for (std::size_t at = 0; frames && at < names.size(); ++at) {
      if (!(*frames)[at]) continue;
      const Result<void> done = blobs_.put_frame(*(*frames)[at], names[at], blobs[names[at]]);
      if (!done) say(fmt::format("from {}: {}", beyond.place->name(), done.error().message));
    }
    for (const auto& [key, entry] : entries) {
      if (keep(entry, beyond.place->name())) kept.insert(key);
    }
  }
  return kept;
}

void Store::prefetch(std::span<const ActionKey> keys) {
  if (options_.places.empty() || !files_.is_writable()) return;
  std::set<ContentHash> wanted;
  for (const ActionKey& key : keys) {
    const ContentHash hash = hash_of(key);
    if (!files_.facts(Room::kActions, hash)) wanted.insert(hash);
  }
  bool is_sure = true;  // every place answered
  for (const Beyond& beyond : options_.places) {
    if (wanted.size() < 2) return;  // one question is get()'s
    const auto kept = prefetch_from(beyond, {wanted.begin(), wanted.end()});
    is_sure &= kept.has_value();
    if (kept) std::erase_if(wanted, [&](const ContentHash& key) { return kept->contains(key); });
  }
  if (!is_sure) return;
  const std::lock_guard lock(mutex_);
  nowhere_.insert(wanted.begin(), wanted.end());
}

std::vector<bool> Store::pull(const std::vector<ContentHash>& keys) {
  std::vector<bool> here;
  for (const ContentHash& key : keys) {
    const Entry entry = entry_here(key);
    here.push_back((entry.finding == Finding::kGood && is_complete(entry.statement)) || fetch(key).has_value());
  }
  return here;
}

Result<std::vector<ContentHash>> Store::missed() {
  CRUCIBLE_TRY(const std::shared_ptr<Index> rows, needed_index());
  CRUCIBLE_TRY(std::vector<ContentHash> keys, rows->misses());
  std::erase_if(keys, [&](const ContentHash& key) { return files_.facts(Room::kActions, key).has_value(); });
  return keys;
}

std::vector<Asked> Store::ask(const ContentHash& key) {
  std::vector<Asked> answers;
  for (const Beyond& beyond : options_.places) {
    const auto found = beyond.place->read_all(Room::kActions, std::span(&key, 1), kStatementLimit);
    Asked answer{beyond.place->name(), "does not have it", std::nullopt};
    if (!found) {
      answer.words = found.error().message;
    } else if ((*found)[0]) {
      Entry entry = weigh(key, *(*found)[0], beyond.trust);
      answer.words = entry.words.empty() ? "has it" : entry.words;
      if (entry.finding == Finding::kGood) answer.statement = std::move(entry.statement);
    }
    answers.push_back(std::move(answer));
  }
  return answers;
}

std::vector<Presence> Store::presence() {
  std::vector<Presence> all;
  for (const Beyond& beyond : options_.places) {
    Presence one{beyond.place->name(), "", 0, 0};
    for (const Room room : {Room::kActions, Room::kBlobs}) {
      std::vector<ContentHash> page;
      const auto count = [&] {
        const auto has = page.empty() ? Result<std::vector<bool>>(std::vector<bool>()) : beyond.place->has(room, page);
        page.clear();
        if (!has) one.fault = has.error().message;
        if (has) (room == Room::kActions ? one.entries : one.blobs) += std::ranges::count(*has, true);
        return has.has_value();
      };
      files_.walk(room, [&](const ContentHash& name, const FileFacts&) {
        page.push_back(name);
        return page.size() < kPresencePage || count();
      });
      if (one.fault.empty()) (void)count();
    }
    all.push_back(std::move(one));
  }
  return all;
}

// Whoever signs vouches for what he sends, so blobs are read and checked, and an entry is signed only where nobody
// signed it yet.
std::optional<std::string> Store::to_send(const ContentHash& key, const Trust& trust, Statement& statement) {
  Entry entry = entry_here(key);
  if (entry.finding != Finding::kGood || !is_complete(entry.statement)) return std::nullopt;
  statement = std::move(entry.statement);
  Result<Envelope> envelope = parse_envelope(entry.bytes);
  if (!envelope) return std::nullopt;
  if (envelope->signatures.empty() && options_.signer) return sealed(statement, options_.signer);
  if (trust.policy == Policy::kEnforce && !fault_of(*envelope, trust).empty()) return std::nullopt;
  return std::move(entry.bytes);
}

Result<std::set<ContentHash>> Store::send_blobs(Beyond& beyond, const std::map<ContentHash, std::uint64_t>& blobs,
                                                Pushed& pushed) {
  std::set<ContentHash> unsound;
  std::vector<std::string> frames;
  std::vector<Piece> pieces;
  std::size_t bytes = 0;
  frames.reserve(blobs.size());  // pieces look into them
  const auto send = [&]() -> Result<void> {
    if (pieces.empty()) return {};
    CRUCIBLE_TRY_VOID(beyond.place->write(Room::kBlobs, pieces));
    pushed.blobs += pieces.size();
    pushed.bytes += bytes;
    pieces.clear();
    frames.clear();
    bytes = 0;
    return {};
  };
  for (const auto& [blob, size] : blobs) {
    CRUCIBLE_TRY(std::optional<std::string> frame,
                 files_.read(Room::kBlobs, blob, frame_limit(std::min(size, kBlobLimit))));
    const Result<std::string> checked = frame ? unpack(*frame, blob, size) : std::string();
    if (!frame || !checked || checked->size() != size) {
      if (!checked) (void)blob_here(blob, size);  // says so, and moves it aside
      unsound.insert(blob);
      continue;
    }
    bytes += frame->size();
    frames.push_back(*std::move(frame));
    pieces.push_back({blob, frames.back()});
    if (bytes >= kBytesAtOnce) CRUCIBLE_TRY_VOID(send());
  }
  CRUCIBLE_TRY_VOID(send());
  return unsound;
}

Result<void> Store::push_to(Beyond& beyond, const std::vector<ContentHash>& keys, Pushed& pushed) {
  CRUCIBLE_TRY(const auto theirs, beyond.place->read_all(Room::kActions, keys, kStatementLimit));
  struct New {
    ContentHash key;
    std::string bytes;
    std::vector<Output> outputs;
  };
  std::vector<New> fresh;
  std::map<ContentHash, std::uint64_t> blobs;  // and their sizes
  for (std::size_t at = 0; at < keys.size(); ++at) {
    Statement statement;
    std::optional<std::string> bytes = to_send(keys[at], beyond.trust, statement);
    if (!bytes) {
      ++pushed.left;
      continue;
    }
    if (theirs[at]) {
      // One that nobody would believe is replaced, one that is believed stays.
      const Entry entry = weigh(keys[at], *theirs[at], beyond.trust);
      if (entry.finding == Finding::kGood || entry.finding == Finding::kNewer) {
        const bool is_same = entry.statement.outputs == statement.outputs;
        ++(is_same ? pushed.there : pushed.differing);
        if (!is_same) {
          say(fmt::format("{} has another answer for {} than the store here, and keeps it", beyond.place->name(),
                          short_hash(keys[at])));
        }
        continue;
      }
    }
    for (const Output& output : statement.outputs) blobs.emplace(output.blob, output.size);
    fresh.push_back({keys[at], *std::move(bytes), std::move(statement.outputs)});
  }
  if (fresh.empty()) return {};
  std::vector<ContentHash> names;
  for (const auto& [blob, size] : blobs) names.push_back(blob);
  CRUCIBLE_TRY(const std::vector<bool> has, beyond.place->has(Room::kBlobs, names));
  for (std::size_t at = 0; at < names.size(); ++at) {
    if (has[at]) blobs.erase(names[at]);
  }
  CRUCIBLE_TRY(const std::set<ContentHash> unsound, send_blobs(beyond, blobs, pushed));
  std::vector<Piece> entries;
  for (const New& each : fresh) {
    const bool is_sound =
        std::ranges::none_of(each.outputs, [&](const Output& output) { return unsound.contains(output.blob); });
    if (is_sound) entries.push_back({each.key, each.bytes});
    if (!is_sound) ++pushed.left;
  }
  if (entries.empty()) return {};
  CRUCIBLE_TRY_VOID(beyond.place->write(Room::kActions, entries));
  pushed.entries += entries.size();
  for (const Piece& entry : entries) pushed.bytes += entry.bytes.size();
  return {};
}

Result<std::vector<std::pair<std::string, Pushed>>> Store::push() {
  std::vector<std::pair<std::string, Pushed>> all;
  for (Beyond& beyond : options_.places) {
    if (!beyond.is_written) continue;
    Pushed pushed;
    Result<void> done;
    std::vector<ContentHash> page;
    const auto write = [&] {
      if (!page.empty()) done = push_to(beyond, page, pushed);
      page.clear();
      return done.has_value();
    };
    files_.walk(Room::kActions, [&](const ContentHash& name, const FileFacts&) {
      page.push_back(name);
      return page.size() < kPage || write();
    });
    if (done) (void)write();
    if (!done) return done.error();
    all.emplace_back(beyond.place->name(), pushed);
  }
  if (all.empty()) {
    return Error{ErrorCode::kUsage,
                 "no remote is written to: name one (--remote URL, or store.remote and "
                 "store.remote_write = true)"};
  }
  return all;
}

void Store::write_out(const std::vector<ContentHash>& keys) {
  for (Beyond& beyond : options_.places) {
    if (!beyond.is_written || !beyond.place->is_writable()) continue;
    Pushed pushed;
    if (const Result<void> done = push_to(beyond, keys, pushed); !done) say(done.error().message);
  }
}

}  // namespace crucible::store
