// Putting and getting. Files first, rows after them: a file without a row is found by the next collect(), a row without
// a file never makes a hit.
#include "store/store.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/base/file_owners.hpp"

namespace crucible::store {
namespace {

constexpr std::size_t kUsesKept = 256, kSaidLimit = 1000, kRowsAtOnce = 1000;

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string short_hash(const ContentHash& hash) { return hash.hex().substr(0, 12); }

}  // namespace

Store::Store(StoreOptions options, Files files)
    : options_(std::move(options)),
      files_(std::move(files)),
      tell_([this](const std::string& words) { say(words); }),
      blobs_(files_, tell_),
      claims_(files_.open_claims()) {
  files_.is_durable = options_.is_durable;
}

Store::~Store() {
  if (outbox_) {
    const std::size_t left = outbox_->finish(options_.close_limit, [this] {
      for (const Beyond& beyond : options_.places) beyond.place->stop();
    });
    if (left != 0) {
      say(fmt::format("{} not written to the remote in time; they are here, and `crucible store push` writes them",
                      left == 1 ? "one answer was" : fmt::format("{} answers were", left)));
    }
  }
  flush_uses();
}

Result<std::unique_ptr<Store>> Store::open(StoreOptions options) {
  CRUCIBLE_TRY(Files files, Files::open(options.folder, options.must_exist));
  std::unique_ptr<Store> store(new Store(std::move(options), std::move(files)));
  if (std::ranges::any_of(store->options_.places, &Beyond::is_written)) {
    store->outbox_ =
        std::make_unique<Outbox>([raw = store.get()](const std::vector<ContentHash>& keys) { raw->write_out(keys); });
  }
  // Unsigned entries are as good as who can write them.
  const std::vector<std::string> doubts = doubts_about(store->files_.folder() / "format", "its file format");
  store->is_open_to_others_ = !doubts.empty();
  if (!doubts.empty() && store->options_.trust.policy != Policy::kEnforce) {
    store->say(
        fmt::format("whoever can write the store {} can put answers into it ({}): until you chmod it, or let only "
                    "signed ones count, no code in it is run",
                    store->files_.folder().string(), fmt::join(doubts, "; ")));
  }
  return store;
}

void Store::say(const std::string& words) {
  {
    const std::lock_guard lock(mutex_);
    if (said_.size() >= kSaidLimit || !said_.insert(words).second) return;
  }
  if (options_.tell) options_.tell(words);
}

std::shared_ptr<Index> Store::index() {
  const std::lock_guard lock(open_mutex_);
  if (index_ || index_failed_) return index_;
  Result<std::shared_ptr<Index>> opened = Index::open(files_, tell_, [this](Index& fresh) -> Result<void> {
    CRUCIBLE_TRY([[maybe_unused]] const std::uint64_t newer, index_files(fresh, false));
    return {};
  });
  if (opened) {
    index_ = *std::move(opened);
  } else {
    index_failed_ = true;
    say(fmt::format("the store goes on without its index: {}", opened.error().message));
  }
  return index_;
}

Result<std::shared_ptr<Index>> Store::needed_index() {
  if (std::shared_ptr<Index> found = index()) return found;
  return Error{ErrorCode::kUnavailable,
               fmt::format("the index of the store {} cannot be had: is there room, is the folder "
                           "yours?",
                           files_.folder().string())};
}

void Store::note(const Result<void>& done, const std::shared_ptr<Index>& index) {
  if (done) return;
  say(fmt::format("the index was not brought up to date: {}", done.error().message));
  const std::lock_guard lock(open_mutex_);
  if (!index->is_damaged() || index != index_) return;
  index_.reset();
  if (const auto alone = files_.lock_alone()) Index::set_aside(files_, tell_);
}

Result<std::uint64_t> Store::index_files(Index& index, bool only_new) {
  std::uint64_t newer = 0;
  Result<void> done = index.begin();
  bool is_begun = done.has_value();
  std::size_t rows = 0;
  const auto page = [&](const Result<void>& added) {
    done = added;
    if (done && ++rows % kRowsAtOnce == 0) {
      done = index.commit();
      is_begun = false;
      if (done) done = index.begin();
      is_begun = done.has_value();
    }
    return done.has_value();
  };
  if (!is_begun) return done.error();
  files_.walk(Room::kBlobs, [&](const ContentHash& name, const FileFacts& facts) {
    if (only_new) {
      const Result<bool> has = index.has(Room::kBlobs, name, facts);
      if (has && *has) return true;
    }
    const std::uint64_t unpacked = said_size(files_.front(Room::kBlobs, name, kFrontBytes));
    return page(index.add_blob(name, unpacked, facts.size));
  });
  files_.walk(Room::kActions, [&](const ContentHash& name, const FileFacts& facts) {
    if (!done) return false;
    if (only_new) {
      const Result<bool> has = index.has(Room::kActions, name, facts);
      if (has && *has) return true;
    }
    const auto bytes = files_.read(Room::kActions, name, kStatementLimit);
    if (!bytes || !*bytes) return true;
    const Result<Envelope> envelope = parse_envelope(**bytes);
    const Result<Statement> statement = envelope ? parse_statement(envelope->payload) : envelope.error();
    if (!statement && statement.error().code == ErrorCode::kUnavailable) ++newer;
    if (!statement || hash_of(statement->key) != name) return true;  // verify() and get() say so
    return page(index.add(*statement, facts.modified_ns));
  });
  if (!is_begun) return done.error();
  const Result<void> committed = index.commit();
  if (!done || !committed) return (done ? committed : done).error();
  return newer;
}

Result<void> Store::publish(const Statement& statement, const std::string& bytes, const std::shared_ptr<Index>& index) {
  CRUCIBLE_TRY(const FileFacts written, files_.write(Room::kActions, hash_of(statement.key), bytes));
  if (!index) return {};
  const auto add = [&]() -> Result<void> {
    CRUCIBLE_TRY_VOID(index->begin());
    Result<void> done = index->add(statement, written.modified_ns);
    for (const Output& output : statement.outputs) {
      const auto facts = files_.facts(Room::kBlobs, output.blob);
      if (done && facts) done = index->add_blob(output.blob, output.size, facts->size);
    }
    const Result<void> committed = index->commit();
    return done ? committed : done;
  };
  if (const Result<void> done = add(); !done) {
    say(fmt::format("the index was not brought up to date: {}", done.error().message));
  }
  return {};
}

Result<void> Store::put(const ActionKey& key, const std::vector<NewOutput>& outputs, const std::string& maker,
                        const std::map<std::string, std::string>& evidence) {
  if (key.kind.empty()) return Error{ErrorCode::kUsage, "an action needs a kind"};
  std::set<std::string_view> names;
  for (const NewOutput& output : outputs) {
    if (!is_output_name(output.name) || !names.insert(output.name).second) {
      return Error{ErrorCode::kUsage,
                   fmt::format("'{}' cannot be the name of an output: letters, digits, '.', '_' and '-', "
                               "each name once",
                               output.name)};
    }
    if (output.bytes.size() > kBlobLimit) {
      return Error{ErrorCode::kUsage, fmt::format("the output '{}' has {} bytes, the limit is {}", output.name,
                                                  output.bytes.size(), kBlobLimit)};
    }
  }
  const std::shared_ptr<Index> rows = files_.is_writable() ? index() : nullptr;
  const Result<void> done = put_locked(key, outputs, maker, evidence, rows);
  if (rows && rows->is_damaged()) note(Error{ErrorCode::kUnavailable, "it is damaged"}, rows);
  if (done && outbox_) outbox_->add(hash_of(key));
  return done;
}

Result<void> Store::put_locked(const ActionKey& key, const std::vector<NewOutput>& outputs, const std::string& maker,
                               const std::map<std::string, std::string>& evidence, const std::shared_ptr<Index>& rows) {
  CRUCIBLE_TRY(const FolderLock lock, files_.lock_shared());
  Statement statement{key, {}, maker, options_.now_ns ? options_.now_ns() : now_ns(), evidence};
  for (const NewOutput& output : outputs) {
    CRUCIBLE_TRY(const ContentHash blob, blobs_.put(output.bytes));
    statement.outputs.push_back({output.name, blob, output.bytes.size()});
  }
  const std::string bytes = sealed(statement, options_.signer);
  if (bytes.size() > kStatementLimit) {
    return Error{ErrorCode::kUsage,
                 fmt::format("the statement of an action has {} bytes, the limit is {}: fewer outputs, "
                             "less evidence",
                             bytes.size(), kStatementLimit)};
  }
  return publish(statement, bytes, rows);
}

Store::Entry Store::weigh(const ContentHash& key, std::string bytes, const Trust& trust) {
  Entry entry{Finding::kDamaged, {}, std::move(bytes), ""};
  const Result<Envelope> envelope = parse_envelope(entry.bytes);
  if (!envelope) {
    entry.words = envelope.error().message;
    return entry;
  }
  // Before anything of the payload is believed.
  const std::string fault = trust.policy == Policy::kOff ? "" : fault_of(*envelope, trust);
  if (!fault.empty() && trust.policy == Policy::kEnforce) {
    return {Finding::kDistrusted, {}, std::move(entry.bytes), fmt::format("it is not used: {}", fault)};
  }
  Result<Statement> statement = envelope->type == kStatementType
                                    ? parse_statement(envelope->payload)
                                    : Error{ErrorCode::kBadInput, fmt::format("its type is '{}'", envelope->type)};
  if (statement && hash_of(statement->key) != key) {
    statement = Error{ErrorCode::kBadInput, "it is the entry of another key"};
  }
  if (!statement) {
    entry.words = statement.error().message;
    if (statement.error().code == ErrorCode::kUnavailable) entry.finding = Finding::kNewer;
    return entry;
  }
  if (!fault.empty()) entry.words = fmt::format("it is used, although doubtful: {}", fault);
  entry.statement = *std::move(statement);
  entry.finding = Finding::kGood;
  return entry;
}

Store::Entry Store::judge(const ContentHash& key, std::string bytes, const Trust& trust, const std::string& place) {
  Entry entry = weigh(key, std::move(bytes), trust);
  if (!entry.words.empty()) say(fmt::format("entry {} of {}: {}", short_hash(key), place, entry.words));
  return entry;
}

Store::Entry Store::read_entry(const ContentHash& key) {
  Result<std::optional<std::string>> bytes = files_.read(Room::kActions, key, kStatementLimit);
  if (bytes && !*bytes) return {};
  if (bytes) return judge(key, **std::move(bytes), options_.trust, "the store");
  say(bytes.error().message);
  return {Finding::kDamaged, {}, {}, {}};
}

// What is bad is looked at once more where nobody writes: it may have been mended since, and what was put stays.
std::optional<FolderLock> Store::alone() {
  if (!files_.is_writable()) return std::nullopt;
  Result<FolderLock> lock = files_.lock_alone();
  if (lock) return *std::move(lock);
  say(lock.error().message);
  return std::nullopt;
}

Store::Entry Store::entry_here(const ContentHash& key) {
  Entry entry = read_entry(key);
  if (entry.finding != Finding::kDamaged) return entry;
  if (const std::optional<FolderLock> lock = alone()) {
    entry = read_entry(key);
    if (entry.finding == Finding::kDamaged) (void)files_.set_aside(Room::kActions, key);
  }
  return entry;
}

Result<std::optional<std::string>> Store::blob_here(const ContentHash& blob, std::uint64_t limit) {
  Result<std::optional<std::string>> bytes = blobs_.get(blob, limit);
  const auto is_damaged = [&] { return !bytes && bytes.error().code == ErrorCode::kCheckFailed; };
  if (!is_damaged()) return bytes;
  bool is_aside = false;
  if (const std::optional<FolderLock> lock = alone()) {
    bytes = blobs_.get(blob, limit);
    is_aside = is_damaged() && files_.set_aside(Room::kBlobs, blob);
  }
  if (is_damaged()) say(bytes.error().message + (is_aside ? "; it was moved to quarantine" : "; it is not used"));
  return bytes;
}

bool Store::is_complete(const Statement& statement) const {
  for (const Output& output : statement.outputs) {
    if (!files_.facts(Room::kBlobs, output.blob)) return false;
  }
  return true;
}

bool Store::drop_incomplete(const ContentHash& key) {
  const std::string words = fmt::format("entry {} lacks a blob that it names", key.hex().substr(0, 12));
  if (!files_.is_writable()) {
    say(words + ": a miss");
    return true;
  }
  const std::optional<FolderLock> lock = alone();
  const Entry entry = lock ? read_entry(key) : Entry{};
  if (entry.finding != Finding::kGood || is_complete(entry.statement)) return false;
  files_.remove(Room::kActions, key);
  say(words + ": it is taken away, a miss");
  return true;
}

std::optional<Statement> Store::get(const ActionKey& key) {
  const ContentHash hash = hash_of(key);
  Entry entry = entry_here(hash);
  if (entry.finding == Finding::kGood) {
    // Hashes are equal; that nobody made them so is seen by comparing.
    bool is_hit = entry.statement.key == key;
    if (!is_hit) say(fmt::format("two keys have the hash {}: a miss", hash.hex()));
    for (const Output& output : entry.statement.outputs) {
      is_hit = is_hit && (files_.facts(Room::kBlobs, output.blob) || take_from_places(output));
    }
    if (is_hit) {
      note_use(hash);
      return std::move(entry.statement);
    }
    if (entry.statement.key == key) (void)drop_incomplete(hash);
  }
  const bool is_nowhere = [&] {
    const std::lock_guard lock(mutex_);
    return nowhere_.erase(hash) > 0;
  }();
  if (!is_nowhere) {
    if (std::optional<Statement> fetched = fetch(hash); fetched && fetched->key == key) return fetched;
  }
  if (files_.is_writable()) {
    if (const std::shared_ptr<Index> rows = index()) note(rows->miss(key), rows);
  }
  return std::nullopt;
}

std::optional<std::string> Store::read(const Output& output) {
  for (const bool is_again : {false, true}) {
    Result<std::optional<std::string>> bytes = blob_here(output.blob, output.size);
    if (!bytes && bytes.error().code != ErrorCode::kCheckFailed) {
      say(bytes.error().message);
      return std::nullopt;
    }
    if (bytes && *bytes && (*bytes)->size() == output.size) return **std::move(bytes);
    if (bytes && *bytes) {
      say(fmt::format("blob {} has {} bytes, its entry says {}: a miss", output.blob.hex(), (*bytes)->size(),
                      output.size));
      return std::nullopt;
    }
    if (is_again || !take_from_places(output)) break;
  }
  return std::nullopt;
}

void Store::note_use(const ContentHash& key) {
  {
    const std::lock_guard lock(mutex_);
    if (used_.empty() || used_.back() != key) used_.push_back(key);
    if (used_.size() < kUsesKept) return;
  }
  flush_uses();
}

void Store::flush_uses() {
  std::vector<ContentHash> uses;
  {
    const std::lock_guard lock(mutex_);
    uses.swap(used_);
  }
  if (uses.empty() || !files_.is_writable()) return;
  if (const std::shared_ptr<Index> rows = index()) note(rows->use(uses), rows);
}

Result<Tuning*> Store::tuning() {
  const std::lock_guard lock(open_mutex_);
  if (!tuning_) {
    CRUCIBLE_TRY(tuning_, Tuning::open(files_, tell_));
  }
  return tuning_.get();
}

}  // namespace crucible::store
