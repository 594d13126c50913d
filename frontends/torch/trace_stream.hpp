// From the recorder's logs to a .crtrace file while the program runs: at each iteration's end the recorder hands a
// batch over, and one background thread (it sleeps in between, at low priority) orders the records, interns tensors and
// writes. What is on disk after an iteration's end survives the process; what is not yet on disk is bounded: the
// program waits.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "core/trace/path_shortener.hpp"
#include "core/trace/stream_writer.hpp"
#include "core/trace/trace.hpp"
#include "frontends/torch/batch.hpp"
#include "frontends/torch/compound_tensor.hpp"
#include "frontends/torch/record_reader.hpp"

namespace crucible::recorder {

class Recorder;

/// What was written, for the summary.
struct Written {
  std::uint64_t file_bytes = 0;
  std::vector<std::uint64_t> ops_per_iteration;
  struct NotRecorded {
    std::string what;
    std::uint64_t count = 0;
    std::string site;
  };
  std::vector<NotRecorded> not_recorded;
};

/// Threads: give() and finish() by whoever holds the GIL; failure() by anybody. A forked child must not touch its copy.
class TraceStream final : private TensorSink {
 public:
  /// Creates the files of StreamWriter. `recorder` outlives the stream. With `paths` no text in the file has an
  /// absolute path. Errors: as StreamWriter::create.
  static Result<std::unique_ptr<TraceStream>> create(const Recorder& recorder, const std::filesystem::path& path,
                                                     const trace::Metadata& metadata,
                                                     std::optional<trace::PathShortener> paths = std::nullopt);
  /// Keeps what is on disk unless finish() or drop() was called.
  ~TraceStream() override;

  /// Hands an iteration over. Returns when at most kMostBehind iterations are not written, and of those more than one
  /// only while their logs have at most kMostWaiting bytes: what a kill can lose, and what memory a slow disk costs.
  void give(Batch batch);
  /// How often give() waited, and for how long in all.
  std::uint64_t waits() const { return waits_.load(std::memory_order_relaxed); }
  std::uint64_t wait_ns() const { return wait_ns_.load(std::memory_order_relaxed); }
  /// Waits until everything is written, adds what is known only now (final states, read in place: no op may run) and
  /// makes the file. `metadata` is taken as it is, but for device and overhead. Errors: kBadInput when no iteration is
  /// complete (nothing is left then) or the file cannot be written.
  Result<Written> finish(trace::Metadata metadata);
  /// Nothing is left of the recording, unless it was finished.
  void drop();

  /// False in a forked child.
  bool is_of_this_process() const;
  /// What went wrong so far ("disk full"); recording further is useless then.
  std::optional<std::string> failure() const;
  /// Bytes on disk so far, as of the last iteration written.
  std::uint64_t disk_bytes() const { return disk_bytes_.load(std::memory_order_relaxed); }

  static constexpr std::size_t kMostBehind = 4;
  static constexpr std::uint64_t kMostWaiting = std::uint64_t{64} << 20;

 private:
  TraceStream(const Recorder& recorder, std::unique_ptr<trace::StreamWriter> writer,
              std::optional<trace::PathShortener> paths);
  std::string shown(const std::string& text) const { return paths_ ? paths_->text(text) : text; }
  void shorten(std::vector<trace::Arg>& args) const;
  void run();
  void stop_thread();
  void write(const Batch& batch);
  void write_ops(const Batch& batch, std::vector<trace::Loss>& losses);
  void write_bytes(const Batch& batch, std::uint32_t iteration, std::uint32_t first_op);
  void write_final_states();
  void write_not_recorded(std::vector<Written::NotRecorded>& written);
  void note_late_writes(const RecordHeader& header, const trace::Op& op);
  void note_hidden_draws(const RecordHeader& header, const trace::Op& op);
  void learn(std::uint32_t recorded, std::uint64_t size_bytes, const std::string& device);
  trace::BlobId add(const KeptBytes& kept);
  trace::StorageId storage(std::uint32_t recorded);
  trace::TensorId intern(trace::Tensor tensor);
  trace::SchemaId schema(std::uint32_t operator_id);
  trace::TensorId add(const trace::Tensor& tensor) override;
  void add(const trace::CompoundTensor& compound) override { writer_->add(compound); }

  const Recorder& recorder_;
  const std::optional<trace::PathShortener> paths_;  // every text goes through it, where there is one
  int owner_;                                        // the process that records
  std::unique_ptr<trace::StreamWriter> writer_;      // the background thread's, until it has ended

  mutable std::mutex mutex_;  // guards the six below
  std::condition_variable changed_;
  std::deque<Batch> waiting_;
  std::size_t behind_ = 0;  // iterations given and not written: those that wait and the one that is being written
  std::uint64_t waiting_bytes_ = 0;  // of their logs
  bool ends_ = false;
  std::optional<std::string> failure_;
  std::atomic<std::uint64_t> disk_bytes_{0}, waits_{0}, wait_ns_{0};

  // The background thread's, until it has ended:
  std::unordered_map<std::uint32_t, trace::Storage> known_storages_;  // by the recorder's id, as the log tells it
  std::unordered_map<std::uint32_t, trace::StorageId> storages_;
  std::unordered_map<std::string, trace::TensorId> tensors_;  // by the 16 bytes of their content's hash
  std::unordered_map<std::uint32_t, trace::SchemaId> schemas_;
  CompoundTensors compounds_;
  std::vector<ExternalBytes> left_externals_;  // taken by an op that threw: their reader may be in a later iteration
  std::vector<std::pair<std::uint32_t, std::uint32_t>> externals_;  // number in the file, the recorder's storage id
  std::vector<std::uint64_t> sequences_;                            // of the ops of the iteration that is being written
  std::vector<std::uint64_t> ops_per_iteration_;
  std::map<std::string, NotRecordedCount> hidden_draws_;
  std::set<std::uint64_t> undrawn_;  // of this batch: ops that could draw inside and did not
  std::string device_;
  std::vector<std::string> site_texts_;
  std::vector<trace::StorageId> storage_of_;  // by tensor
  std::uint64_t first_output_ = 0;            // ops from this one on come after something was given back
  std::unordered_map<trace::StorageId, std::uint64_t> late_writes_;  // the last of those ops that writes a storage
  std::uint64_t changed_outputs_ = 0, lost_states_ = 0, overwritten_states_ = 0;
  bool is_finished_ = false;  // or was tried to be: what could not be written stays for `trace recover`
  std::thread thread_;
};

}  // namespace crucible::recorder
