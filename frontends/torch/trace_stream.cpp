// The background thread's work, iteration by iteration, and what finish() adds.
#include "frontends/torch/trace_stream.hpp"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <utility>

#include "core/trace/own_recordings.hpp"
#include "core/trace/records.hpp"
#include "frontends/torch/record_function.hpp"
#include "frontends/torch/recorder.hpp"

namespace crucible::recorder {

namespace {

using trace::kNone;

struct Record {
  RecordHeader header;
  const std::uint64_t* words = nullptr;
  std::uint32_t thread = 0;
};

std::vector<Record> sorted_records(const Batch& batch) {
  std::vector<Record> records;
  for (const Batch::Records& thread : batch.records) {
    for (const Log::Piece& piece : thread.pieces) {
      for (std::size_t at = 0; at < piece.words.size();) {
        const RecordHeader header = RecordHeader::read(&piece.words[at]);
        records.push_back({header, &piece.words[at], thread.thread});
        at += header.words;
      }
    }
  }
  // A loss has the number of the op after it and comes before it: the sort is stable and a thread's log is in order.
  std::stable_sort(records.begin(), records.end(),
                   [](const Record& a, const Record& b) { return a.header.sequence < b.header.sequence; });
  return records;
}

trace::SiteId id_or_none(std::uint32_t recorded) { return recorded == kNoSite ? kNone : recorded; }

/// The thread that calls it gives way to the program's.
void give_way() { setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), 10); }

/// The metadata's own words and what they quote: the command, an exception's text.
void shorten_texts(trace::Metadata& metadata, const std::optional<trace::PathShortener>& paths) {
  if (!paths) return;
  for (std::string* text : {&metadata.framework, &metadata.frontend, &metadata.command, &metadata.incomplete_reason})
    *text = paths->text(*text);
}

}  // namespace

Result<std::unique_ptr<TraceStream>> TraceStream::create(const Recorder& recorder, const std::filesystem::path& path,
                                                         const trace::Metadata& metadata,
                                                         std::optional<trace::PathShortener> paths) {
  trace::Metadata kept = metadata;
  shorten_texts(kept, paths);
  CRUCIBLE_TRY(std::unique_ptr<trace::StreamWriter> writer, trace::StreamWriter::create(path, kept));
  return std::unique_ptr<TraceStream>(new TraceStream(recorder, std::move(writer), std::move(paths)));
}

TraceStream::TraceStream(const Recorder& recorder, std::unique_ptr<trace::StreamWriter> writer,
                         std::optional<trace::PathShortener> paths)
    : recorder_(recorder), paths_(std::move(paths)), owner_(getpid()), writer_(std::move(writer)), thread_([this] {
        run();
      }) {}

TraceStream::~TraceStream() { stop_thread(); }

void TraceStream::give(Batch batch) {
  std::unique_lock lock(mutex_);
  waiting_bytes_ += batch.log_bytes();
  ++behind_;
  waiting_.push_back(std::move(batch));
  changed_.notify_all();
  const auto is_near = [this] { return behind_ <= 1 || (behind_ <= kMostBehind && waiting_bytes_ <= kMostWaiting); };
  if (is_near()) return;
  const auto start = std::chrono::steady_clock::now();
  changed_.wait(lock, is_near);
  waits_.fetch_add(1, std::memory_order_relaxed);
  wait_ns_.fetch_add(static_cast<std::uint64_t>((std::chrono::steady_clock::now() - start).count()),
                     std::memory_order_relaxed);
}

void TraceStream::run() {
  give_way();
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ends_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const Batch batch = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    std::optional<std::string> failed;
    try {
      write(batch);
      if (writer_->failure().has_value()) failed = writer_->failure()->message;
    } catch (const std::exception& error) {
      failed = error.what();
    }
    disk_bytes_.store(writer_->disk_bytes(), std::memory_order_relaxed);
    lock.lock();
    if (!failure_.has_value()) failure_ = std::move(failed);
    waiting_bytes_ -= batch.log_bytes();
    --behind_;
    changed_.notify_all();
  }
}

void TraceStream::stop_thread() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::optional<std::string> TraceStream::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void TraceStream::write(const Batch& batch) {
  for (const SourceLine& line : batch.sites) {
    const trace::Site site{paths_ ? paths_->path(line.file) : line.file, line.line, shown(line.function)};
    writer_->add(site);
    site_texts_.push_back(std::filesystem::path(line.file).filename().string() + ":" + std::to_string(line.line));
  }
  for (const std::string& module : batch.modules) writer_->add_module(shown(module));
  trace::Iteration iteration;
  iteration.first_op = static_cast<std::uint32_t>(writer_->count(trace::SectionId::kOps));
  write_ops(batch, iteration.losses);
  if (!batch.is_kept) return;
  iteration.op_count = static_cast<std::uint32_t>(sequences_.size());
  write_bytes(batch, static_cast<std::uint32_t>(ops_per_iteration_.size()), iteration.first_op);
  ops_per_iteration_.push_back(iteration.op_count);
  (void)writer_->end_iteration(iteration);  // failure() has it
}

void TraceStream::write_ops(const Batch& batch, std::vector<trace::Loss>& losses) {
  const RecordReader::Intern intern_tensor = [this](trace::Tensor tensor) { return intern(std::move(tensor)); };
  // A loss is the tensor that an op below autograd returned, where nothing requires a gradient yet.
  const RecordReader::Intern intern_loss = [this](trace::Tensor tensor) {
    tensor.requires_grad = false;
    return intern(std::move(tensor));
  };
  const RecordReader::Intern intern_nothing = [](const trace::Tensor&) { return kNone; };
  const RecordReader::Learn learn_size = [this](std::uint32_t storage, std::uint64_t size_bytes,
                                                const std::string& device) { learn(storage, size_bytes, device); };
  const RecordReader::Compound read_compound = [this](RecordReader& reader, std::uint64_t parts) {
    return compounds_.read(reader, parts, *this);
  };
  const RecordReader::Compound skip_compound = CompoundTensors::skip;
  sequences_.clear();
  undrawn_.clear();
  late_writes_.clear();
  first_output_ = batch.outputs.empty() ? ~std::uint64_t{0} : batch.outputs.front().sequence;
  trace::Op op;
  for (const Record& record : sorted_records(batch)) {
    const bool is_dropped = record.header.operator_id == kDroppedRecord || !batch.is_kept;
    const bool is_loss = record.header.operator_id == kLossRecord;
    RecordReader reader(record.words + kRecordWords, record.words + record.header.words,
                        is_dropped ? intern_nothing
                        : is_loss  ? intern_loss
                                   : intern_tensor,
                        learn_size, is_dropped ? skip_compound : read_compound);
    if (is_dropped) {
      while (!reader.at_end()) (void)reader.read();
      continue;
    }
    if (is_loss) {
      const trace::TensorId tensor = reader.read().tensor;
      losses.push_back({tensor, reader.read().real});
      continue;
    }
    op.schema = schema(record.header.operator_id);
    op.site = id_or_none(record.header.site);
    op.module = id_or_none(record.header.module);
    op.phase = static_cast<trace::Phase>(record.header.phase);
    op.thread = record.thread;
    op.args.clear();
    op.outputs.clear();
    while (!reader.take_outputs_mark() && !reader.at_end()) op.args.push_back(reader.read());
    while (!reader.at_end()) op.outputs.push_back(reader.read());
    note_hidden_draws(record.header, op);
    if (record.header.sequence >= first_output_) note_late_writes(record.header, op);
    if (!recorder_.state().op_hashes.empty())
      writer_->add_op_hashes(recorder_.state().op_hashes.find(record.header.sequence));
    sequences_.push_back(record.header.sequence);
    shorten(op.args);
    shorten(op.outputs);
    writer_->add(op);
  }
}

void TraceStream::write_bytes(const Batch& batch, std::uint32_t iteration, std::uint32_t first_op) {
  const auto place_of = [this](std::uint64_t sequence) {
    return static_cast<std::uint32_t>(std::lower_bound(sequences_.begin(), sequences_.end(), sequence) -
                                      sequences_.begin());
  };
  std::vector<ExternalBytes> taken = std::exchange(left_externals_, {});
  taken.insert(taken.end(), batch.externals.begin(), batch.externals.end());
  for (ExternalBytes& external : taken) {
    const std::uint32_t place = place_of(external.sequence);
    if (place == sequences_.size() || !storages_.contains(external.storage)) {
      left_externals_.push_back(std::move(external));
      continue;
    }
    const trace::External record{storages_.at(external.storage), iteration,         first_op + place, external.role,
                                 shown(external.name),           add(external.kept)};
    externals_.emplace_back(writer_->add(record), external.storage);
  }
  for (const DrawnBytes& drawn : batch.draws) {
    const std::uint32_t place = place_of(drawn.sequence);
    if (place == sequences_.size() || sequences_[place] != drawn.sequence || undrawn_.contains(drawn.sequence))
      continue;
    writer_->add(trace::Draw{first_op + place, drawn.output, add(drawn.kept)});
  }
  for (const GeneratorBytes& state : batch.generators) {
    writer_->add(trace::GeneratorState{iteration, state.device, writer_->add_blob(state.bytes)});
  }
  for (const OutputBytes& output : batch.outputs) {
    const trace::TensorId tensor = intern(output.tensor);
    const auto written = late_writes_.find(storage_of_[tensor]);
    // Whoever replays the ops finds an output at the iteration's end; what it was before is nowhere then.
    if (written != late_writes_.end() && written->second >= output.sequence) {
      ++changed_outputs_;
      continue;
    }
    writer_->add(trace::Output{iteration, shown(output.name), tensor, add(output.kept)});
  }
}

trace::BlobId TraceStream::add(const KeptBytes& kept) {
  return kept.is_left_out ? writer_->add_left_out(kept.left_out) : writer_->add_blob(kept.bytes);
}

/// Of strings that ops were given, what they call objects by.
void TraceStream::shorten(std::vector<trace::Arg>& args) const {
  if (!paths_) return;
  for (trace::Arg& arg : args) {
    if (arg.kind == trace::Arg::Kind::kString || arg.kind == trace::Arg::Kind::kOpaque)
      arg.text = paths_->text(arg.text);
    shorten(arg.list);
  }
}

void TraceStream::note_late_writes(const RecordHeader& header, const trace::Op& op) {
  const Operator& known = recorder_.operators()[header.operator_id];
  const auto note = [this, &header](const trace::Arg& arg, const auto& again) -> void {
    if (arg.kind == trace::Arg::Kind::kTensor && storage_of_[arg.tensor] != kNone)
      late_writes_[storage_of_[arg.tensor]] = header.sequence;
    for (const trace::Arg& item : arg.list) again(item, again);
  };
  for (std::size_t i = 0; i < op.args.size(); ++i) {
    if (known.writes(i)) note(op.args[i], note);
  }
}

void TraceStream::learn(std::uint32_t recorded, std::uint64_t size_bytes, const std::string& device) {
  trace::Storage& known = known_storages_[recorded];
  known.device = device;
  if (size_bytes <= known.size_bytes) return;
  known.size_bytes = size_bytes;
  if (const auto place = storages_.find(recorded); place != storages_.end())
    writer_->set_storage_bytes(place->second, size_bytes);
}

trace::StorageId TraceStream::storage(std::uint32_t recorded) {
  if (recorded == kNothing) return kNone;
  if (const auto known = storages_.find(recorded); known != storages_.end()) return known->second;
  const trace::Storage& storage = known_storages_[recorded];
  if (device_.empty() || device_ == "cpu") device_ = storage.device;  // a batch lies on the processor first
  return storages_[recorded] = writer_->add(storage);
}

trace::TensorId TraceStream::intern(trace::Tensor tensor) {
  tensor.storage = storage(tensor.storage);
  trace::ByteWriter bytes;
  trace::encode(bytes, tensor);
  const auto content = bytes.bytes();
  const auto [place, is_new] =
      tensors_.try_emplace(std::string(reinterpret_cast<const char*>(content.data()), content.size()), kNone);
  if (is_new) place->second = add(tensor);
  return place->second;
}

trace::TensorId TraceStream::add(const trace::Tensor& tensor) {
  const trace::TensorId id = writer_->add(tensor);
  storage_of_.resize(std::size_t{id} + 1, kNone);
  storage_of_[id] = tensor.storage;
  return id;
}

trace::SchemaId TraceStream::schema(std::uint32_t operator_id) {
  const auto [place, is_new] = schemas_.try_emplace(operator_id, kNone);
  if (is_new) {
    const Operator& op = recorder_.operators()[operator_id];
    place->second = writer_->add(trace::Schema{op.name, op.overload, op.text});
  }
  return place->second;
}

void TraceStream::note_hidden_draws(const RecordHeader& header, const trace::Op& op) {
  const Operator& known = recorder_.operators()[header.operator_id];
  if (!known.draws_inside) return;
  const auto& arguments = known.handle.schema().arguments();
  for (std::size_t i = 0; i < arguments.size() && i < op.args.size(); ++i) {
    if (arguments[i].name() != "dropout_p") continue;
    if (op.args[i].real == 0) undrawn_.insert(header.sequence);  // its seed is memory as it was found
    if (op.args[i].real == 0 || known.told_draws != 0) continue;
    NotRecordedCount& entry = hidden_draws_["random numbers inside " + known.full_name()];
    if (entry.count++ == 0) entry.site = header.site;
  }
}

/// Reads the states where they are: they are those of the last complete iteration, but for what an unfinished one
/// wrote.
void TraceStream::write_final_states() {
  const RecordingState& state = recorder_.state();
  std::unordered_map<std::uint32_t, const StorageTable::Slot*> alive;  // by place in `details`
  state.storages.for_each_alive([&alive](const StorageTable::Slot& slot) {
    if (slot.details != kNothing) alive[slot.details] = &slot;
  });
  std::unordered_map<std::uint32_t, const StorageDetails*> by_storage;
  for (std::uint32_t place = 0; place < state.details.size(); ++place) {
    const StorageDetails& known = state.details[place];
    by_storage[known.id] = &known;
    const StorageNames& names = known.names();
    const bool named = names.final_role != trace::Role::kUnknown;
    const auto slot = alive.find(place);
    // A storage that entered without a name is a state when an op of a complete iteration wrote it last.
    const bool is_state =
        named || (known.external && slot != alive.end() && slot->second->written < state.complete_iterations());
    if (!is_state || !storages_.contains(known.id) || known.born >= state.complete_iterations()) continue;
    if (slot == alive.end()) {
      ++lost_states_;
      continue;
    }
    if (!state.is_as_kept(*slot->second)) {
      ++overwritten_states_;
      continue;
    }
    std::vector<std::byte> bytes;
    const std::uint64_t size_bytes = slot->second->impl->nbytes();
    if (size_bytes == 0) continue;
    if (!known.is_live) {
      bytes.resize(size_bytes);
      copy_bytes(slot->second->impl, bytes.data());
    }
    writer_->add(trace::FinalState{storages_.at(known.id), named ? names.final_role : names.start_role,
                                   shown(names.final.empty() ? names.start : names.final),
                                   add(KeptBytes{bytes, size_bytes, known.is_live})});
  }
  for (const auto& [number, recorded] : externals_) {
    const StorageNames& names = by_storage.at(recorded)->names();
    if (names.start.empty() && !names.final.empty())
      writer_->name_external(number, names.final_role, shown(names.final));
  }
}

void TraceStream::write_not_recorded(std::vector<Written::NotRecorded>& written) {
  std::vector<trace::NotRecorded> items;
  const auto add = [this, &items](const std::string& what, std::uint64_t count, std::uint32_t site) {
    if (count > 0) items.push_back({shown(what), count, id_or_none(site)});
  };
  for (const auto& [what, entry] : recorder_.state().not_recorded) add(what, entry.count, entry.site);
  if (const char* unseen = unseen_by_observers(); unseen != nullptr) add(unseen, 1, kNoSite);
  for (const auto& [what, entry] : hidden_draws_) add(what, entry.count, entry.site);
  add("outputs that were changed before the iteration ended", changed_outputs_, kNoSite);
  add("final bytes of a state that was freed before the file was written", lost_states_, kNoSite);
  add("final bytes of a state that was changed where nothing was recorded, or by the unfinished last iteration",
      overwritten_states_, kNoSite);
  add("changes of a storage by something that is not an op (its bytes were taken again)",
      recorder_.state().outside_changes, kNoSite);
  for (trace::NotRecorded& item : items) {
    if (item.site >= site_texts_.size()) item.site = kNone;  // first met after the last complete iteration
    written.push_back({item.what, item.count, item.site == kNone ? "?" : site_texts_[item.site]});
  }
  writer_->set_not_recorded(items);
}

Result<Written> TraceStream::finish(trace::Metadata metadata) {
  stop_thread();
  Written written;
  if (failure_.has_value() && ops_per_iteration_.empty()) {
    writer_->drop();
    return Error{ErrorCode::kBadInput, *failure_};
  }
  if (ops_per_iteration_.empty()) {
    writer_->drop();
    return Error{ErrorCode::kBadInput, "no iteration was recorded whole; there is nothing to write"};
  }
  if (!failure_.has_value()) write_final_states();
  write_not_recorded(written.not_recorded);
  shorten_texts(metadata, paths_);
  metadata.device = device_;
  metadata.overhead_ns_per_op = recorder_.overhead_ns_per_op();
  is_finished_ = true;
  CRUCIBLE_TRY(written.file_bytes, writer_->finish(metadata));
  trace::remember_recording(writer_->path());
  written.ops_per_iteration = std::move(ops_per_iteration_);
  return written;
}

bool TraceStream::is_of_this_process() const { return owner_ == getpid(); }

void TraceStream::drop() {
  stop_thread();
  if (!is_finished_) writer_->drop();
}

}  // namespace crucible::recorder
