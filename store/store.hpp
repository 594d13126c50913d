// One place for what is worth keeping: blobs by content, answers by what they depend on, measured choices. An answer is
// there with all of its blobs or not at all; what is damaged, forged or incomplete is a miss, said once.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/result.hpp"
#include "store/blobs.hpp"
#include "store/claims.hpp"
#include "store/envelope.hpp"
#include "store/files.hpp"
#include "store/index.hpp"
#include "store/outbox.hpp"
#include "store/place.hpp"
#include "store/statement.hpp"
#include "store/tuning.hpp"

namespace crucible::store {

/// A place beyond the folder. What it has is believed by `trust` alone, whatever the folder's own is.
struct Beyond {
  std::unique_ptr<Place> place;
  Trust trust{Policy::kEnforce, {}};
  bool is_written = false;  // what is put here goes there too
};

struct StoreOptions {
  std::filesystem::path folder;
  bool must_exist = false;
  Trust trust;
  std::optional<SecretKey> signer;  // of what is put
  Tell tell;                        // a thing is said once; may be empty
  /// Asked in this order for what is not here; the first answer that is believed and whole is kept and used.
  std::vector<Beyond> places;
  std::chrono::milliseconds close_limit{5000};  // of the destructor, for what is still to be written to places
  bool is_durable = true;                       // false: no fsync, for benchmarks
  std::function<std::int64_t()> now_ns;         // since 1970; empty: the system's clock
};

/// A blob that goes in with its answer.
struct NewOutput {
  std::string name;
  std::string_view bytes;
};

struct Verified {
  std::uint64_t entries = 0, blobs = 0, damaged_blobs = 0, damaged_entries = 0, incomplete_entries = 0,
                distrusted_entries = 0, newer_entries = 0;
  bool is_good() const { return damaged_blobs + damaged_entries + incomplete_entries + distrusted_entries == 0; }
};

struct Collected {
  std::uint64_t entries = 0, blobs = 0, bytes_before = 0, bytes_after = 0;  // stored
};

struct Exchanged {
  std::uint64_t entries = 0, blobs = 0, samples = 0;
};

struct Explanation {
  ActionKey key;
  bool is_there = false;
  std::optional<ActionKey> nearest;  // of the same kind, another key
  std::vector<Difference> differences;
};

/// What became of the entries that were to be written to a place.
struct Pushed {
  std::uint64_t entries = 0, blobs = 0, bytes = 0;  // written
  std::uint64_t there = 0;                          // entries that it has already, with the same blobs
  std::uint64_t differing = 0;                      // that it has with other blobs, and keeps so
  std::uint64_t left = 0;                           // that are damaged, incomplete, or signed by others alone
};

/// What a place says about a key.
struct Asked {
  std::string place, words;            // words: "has it", "does not have it", or why it is not believed
  std::optional<Statement> statement;  // that is believed
};

/// How much of what is here a place has.
struct Presence {
  std::string place, fault;  // fault: "" or why it cannot be told
  std::uint64_t entries = 0, blobs = 0;
};

/// Threads: any. Processes: any number on one folder; a child opens it anew after a fork.
class Store {
 public:
  /// Errors: kBadInput, in words: no store, of a newer version, damaged.
  static Result<std::unique_ptr<Store>> open(StoreOptions options);
  ~Store();

  /// Keeps an answer with its blobs; one of the same key is replaced. Errors: kBadInput: a name that is none, a full
  /// disk, a folder that cannot be written; then the answer that was there, if any, is there still.
  Result<void> put(const ActionKey& key, const std::vector<NewOutput>& outputs, const std::string& maker,
                   const std::map<std::string, std::string>& evidence = {});
  /// An answer all of whose blobs are there and whose signature counts. Nothing: a miss; why, where there is more to it
  /// than that nobody put it, was told.
  std::optional<Statement> get(const ActionKey& key);
  /// Brings what the places have of these keys and what is not here, many in one question: get() of each comes next.
  /// What no place has is not asked for again by that get().
  void prefetch(std::span<const ActionKey> keys);
  /// One of its blobs, checked. Nothing: it went away meanwhile, or is damaged: a miss.
  std::optional<std::string> read(const Output& output);

  /// The folder's. Errors: as Tuning::open().
  Result<Tuning*> tuning();

  Result<Totals> totals();
  Result<void> list(std::string_view kind, std::size_t limit, const std::function<bool(const EntryRow&)>& visit);
  /// The nearest entry to `key`, and in what they differ.
  Result<Explanation> explain(const ActionKey& key);
  /// The same by the first digits of the key of an entry or of a miss. Errors: kUsage.
  Result<Explanation> explain(std::string_view digits);
  /// Reads everything; moves aside what is damaged, takes away what lacks a blob.
  Result<Verified> verify();
  /// Takes away the answers that were used longest ago until the blobs have at most `limit` bytes as stored, and every
  /// blob that no answer has. Memory: some MiB, however many there are.
  Result<Collected> collect(std::uint64_t limit);
  /// Everything as one file, checked by its SHA-256 at its end. Errors: kBadInput.
  Result<Exchanged> export_to(const std::filesystem::path& file);
  /// Takes in such a file: nothing of one that is cut off or changed. Each part is checked as anybody's.
  Result<Exchanged> import_from(const std::filesystem::path& file);

  /// Writes every entry here that a place does not have to it, blobs first; one without a signature is signed. For each
  /// place that is written. Errors: kUsage where none is; kUnavailable.
  Result<std::vector<std::pair<std::string, Pushed>>> push();
  /// Takes in what the places have of these keys. Says for each whether it is here now.
  std::vector<bool> pull(const std::vector<ContentHash>& keys);
  /// The keys that were looked for and are not here, the latest first.
  Result<std::vector<ContentHash>> missed();
  /// Asks every place about a key. Nothing is kept.
  std::vector<Asked> ask(const ContentHash& key);
  std::vector<Presence> presence();

  const Files& files() const { return files_; }
  bool is_writable() const { return files_.is_writable(); }
  /// Whether what is in it may be executed: nobody else can put answers into the folder, or those that he puts there
  /// are no hits because they are not signed. Where not, the reason was told when it was opened.
  bool is_executable() const { return !is_open_to_others_ || options_.trust.policy == Policy::kEnforce; }
  /// Who makes the answer of a key, among all that use the folder.
  Claims& claims() { return claims_; }
  std::size_t places() const { return options_.places.size(); }

 private:
  /// What one looked for and found.
  enum class Finding { kAbsent, kGood, kDamaged, kNewer, kDistrusted };
  struct Entry {
    Finding finding = Finding::kAbsent;
    Statement statement;
    std::string bytes;  // of its file
    std::string words;  // "" or what is wrong with it
  };

  Store(StoreOptions options, Files files);
  void say(const std::string& words);
  /// Null: it cannot be had, which was said. Not while the folder is locked: making one locks it.
  std::shared_ptr<Index> index();
  Result<std::shared_ptr<Index>> needed_index();
  template <class Run>
  auto with_index(const Run& run) -> decltype(run(std::declval<Index&>()));
  Result<Collected> collect_by(Index& index, std::uint64_t limit);
  Result<Explanation> explain_by(Index& index, const ActionKey& key) const;
  void note(const Result<void>& done, const std::shared_ptr<Index>& index);
  Result<void> put_locked(const ActionKey& key, const std::vector<NewOutput>& outputs, const std::string& maker,
                          const std::map<std::string, std::string>& evidence, const std::shared_ptr<Index>& rows);
  /// Both return how many entries are of a newer version: what they name is not known.
  Result<std::uint64_t> reconcile(Index& index);
  Result<std::uint64_t> index_files(Index& index, bool only_new);
  Entry read_entry(const ContentHash& key);
  /// These lock the folder alone where something is bad: not while it is locked.
  std::optional<FolderLock> alone();
  Entry entry_here(const ContentHash& key);
  /// Errors: kCheckFailed: it was damaged, which was said; others as Blobs::get().
  Result<std::optional<std::string>> blob_here(const ContentHash& blob, std::uint64_t limit);
  bool drop_incomplete(const ContentHash& key);
  Entry judge(const ContentHash& key, std::string bytes, const Trust& trust, const std::string& place);
  bool is_complete(const Statement& statement) const;
  /// judge() without saying it.
  static Entry weigh(const ContentHash& key, std::string bytes, const Trust& trust);
  bool take_from_places(const Output& output);
  std::optional<Statement> fetch(const ContentHash& hash);
  /// Of one place; returns those that are here now. Nothing: it could not be asked.
  std::optional<std::set<ContentHash>> prefetch_from(const Beyond& beyond, const std::vector<ContentHash>& keys);
  bool keep(const Entry& entry, const std::string& place);
  std::optional<std::string> to_send(const ContentHash& key, const Trust& trust, Statement& statement);
  Result<void> push_to(Beyond& beyond, const std::vector<ContentHash>& keys, Pushed& pushed);
  /// Returns those that are not sound here.
  Result<std::set<ContentHash>> send_blobs(Beyond& beyond, const std::map<ContentHash, std::uint64_t>& blobs,
                                           Pushed& pushed);
  void write_out(const std::vector<ContentHash>& keys);
  Result<void> publish(const Statement& statement, const std::string& bytes, const std::shared_ptr<Index>& index);
  void note_use(const ContentHash& key);
  void flush_uses();

  StoreOptions options_;
  Files files_;
  Tell tell_;
  Blobs blobs_;
  Claims claims_;
  bool is_open_to_others_ = false;
  std::mutex mutex_;  // of what follows
  std::set<std::string> said_;
  std::set<ContentHash> nowhere_;  // keys that prefetch() found at no place
  std::vector<ContentHash> used_;
  std::mutex open_mutex_;         // while one is opened
  std::shared_ptr<Index> index_;  // shared with who uses it while a damaged one is replaced
  std::unique_ptr<Tuning> tuning_;
  bool index_failed_ = false;
  std::unique_ptr<Outbox> outbox_;  // null where no place is written; the last, for its thread uses the others
};

}  // namespace crucible::store
