// One pass over the sorted records, then the tables of bytes.
#include "frontends/torch/trace_builder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "core/trace/memory_blob_store.hpp"
#include "frontends/torch/compound_tensor.hpp"
#include "frontends/torch/record_function.hpp"
#include "frontends/torch/record_reader.hpp"

namespace crucible::recorder {

namespace {

using trace::Arg;
using trace::kNone;

struct Record {
  RecordHeader header;
  const std::uint64_t* words = nullptr;
  std::uint32_t thread = 0;
};

struct TensorHash {
  std::size_t operator()(const trace::Tensor& tensor) const {
    std::uint64_t hash = tensor.storage * 0x9E3779B97F4A7C15ull ^ static_cast<std::uint64_t>(tensor.offset);
    const auto mix = [&hash](std::int64_t number) { hash = (hash ^ static_cast<std::uint64_t>(number)) * 0xBF58476D1CE4E5B9ull; };
    for (const std::int64_t size : tensor.sizes) mix(size);
    for (const std::int64_t stride : tensor.strides) mix(stride);
    mix(static_cast<std::int64_t>(tensor.dtype) + (tensor.requires_grad ? 256 : 0) + (tensor.is_wrapped_number ? 512 : 0));
    return hash ^ hash >> 29;
  }
};

class Builder {
 public:
  explicit Builder(const Recorder& recorder, trace::Metadata metadata) : recorder_(recorder), state_(recorder.state()) {
    trace_.metadata = std::move(metadata);
  }

  trace::Trace build() {
    add_tables();
    add_ops();
    add_iterations();
    add_externals();
    add_draws();
    add_generators();
    add_outputs();
    add_final_states();
    add_not_recorded();
    trace_.metadata.overhead_ns_per_op = recorder_.overhead_ns_per_op();
    trace_.blobs = blobs_->blobs();
    trace_.blob_store = blobs_;
    return std::move(trace_);
  }

 private:
  std::uint64_t end_sequence() const { return state_.iteration_starts.back(); }

  /// True for ops of complete iterations that were not passed over.
  bool is_kept(std::uint64_t sequence) const {
    if (sequence >= end_sequence()) return false;
    if (state_.passed_over.empty()) return true;
    const auto& starts = state_.iteration_starts;
    return !state_.is_passed_over(static_cast<std::uint32_t>(std::upper_bound(starts.begin(), starts.end(), sequence) - starts.begin()) - 1);
  }

  void add_tables() {
    for (const SourceLine& line : recorder_.call_sites().sites()) trace_.sites.push_back({line.file, line.line, line.function});
    trace_.modules = recorder_.call_sites().modules();
  }

  std::vector<Record> sorted_records() const {
    std::vector<Record> records;
    for (const auto& thread : state_.threads) {
      for (const auto words : thread->log.contents()) {
        for (std::size_t at = 0; at < words.size();) {
          Record record;
          record.header = RecordHeader::read(&words[at]);
          record.words = &words[at];
          record.thread = thread->number;
          at += record.header.words;
          if (record.header.sequence < end_sequence()) records.push_back(record);
        }
      }
    }
    // A loss has the number of the op after it and comes before it: the sort is stable and a thread's log is in order.
    std::stable_sort(records.begin(), records.end(),
                     [](const Record& a, const Record& b) { return a.header.sequence < b.header.sequence; });
    return records;
  }

  trace::StorageId storage(std::uint32_t recorded) {
    if (recorded == kNothing) return kNone;
    const auto [place, is_new] = storages_.try_emplace(recorded, static_cast<trace::StorageId>(trace_.storages.size()));
    if (is_new) trace_.storages.push_back(known_storages_[recorded]);
    return place->second;
  }

  /// A storage is new or has grown.
  void learn(std::uint32_t recorded, std::uint64_t size_bytes, const std::string& device) {
    trace::Storage& known = known_storages_[recorded];
    known.size_bytes = std::max(known.size_bytes, size_bytes);
    known.device = device;
    if (const auto place = storages_.find(recorded); place != storages_.end()) trace_.storages[place->second].size_bytes = known.size_bytes;
  }

  trace::TensorId intern(trace::Tensor tensor) {
    tensor.storage = storage(tensor.storage);
    const auto [place, is_new] = tensors_.try_emplace(std::move(tensor), static_cast<trace::TensorId>(trace_.tensors.size()));
    if (is_new) trace_.tensors.push_back(place->first);
    return place->second;
  }

  trace::SchemaId schema(std::uint32_t operator_id) {
    const auto [place, is_new] = schemas_.try_emplace(operator_id, static_cast<trace::SchemaId>(trace_.schemas.size()));
    if (is_new) {
      const Operator& op = recorder_.operators()[operator_id];
      trace_.schemas.push_back({op.name, op.overload, op.text});
    }
    return place->second;
  }

  void add_ops() {
    const RecordReader::Intern intern_tensor = [this](trace::Tensor tensor) { return intern(std::move(tensor)); };
    // A loss is the tensor that an op below autograd returned, where nothing requires a gradient yet.
    const RecordReader::Intern intern_loss = [this](trace::Tensor tensor) {
      tensor.requires_grad = false;
      return intern(std::move(tensor));
    };
    const RecordReader::Learn learn_size = [this](std::uint32_t storage, std::uint64_t size_bytes, const std::string& device) {
      learn(storage, size_bytes, device);
    };
    const RecordReader::Intern intern_nothing = [](const trace::Tensor&) { return kNone; };
    const RecordReader::Compound read_compound = [this](RecordReader& reader, std::uint64_t parts) {
      return compounds_.read(reader, parts, trace_);
    };
    const RecordReader::Compound skip_compound = CompoundTensors::skip;
    for (const Record& record : sorted_records()) {
      if (record.header.operator_id == kDroppedRecord || !is_kept(record.header.sequence)) {
        RecordReader reader(record.words + kRecordWords, record.words + record.header.words, intern_nothing, learn_size, skip_compound);
        while (!reader.at_end()) (void)reader.read();
        continue;
      }
      const bool is_loss = record.header.operator_id == kLossRecord;
      RecordReader reader(record.words + kRecordWords, record.words + record.header.words, is_loss ? intern_loss : intern_tensor, learn_size,
                          read_compound);
      if (is_loss) {
        const trace::TensorId tensor = reader.read().tensor;
        losses_.emplace_back(record.header.sequence, trace::Loss{tensor, reader.read().real});
        continue;
      }
      trace::Op op;
      op.schema = schema(record.header.operator_id);
      op.site = record.header.site == kNoSite ? kNone : record.header.site;
      op.module = record.header.module == kNoSite ? kNone : record.header.module;
      op.phase = static_cast<trace::Phase>(record.header.phase);
      op.thread = record.thread;
      while (!reader.take_outputs_mark() && !reader.at_end()) op.args.push_back(reader.read());
      while (!reader.at_end()) op.outputs.push_back(reader.read());
      note_hidden_draws(record, op);
      if (!state_.op_hashes.empty()) trace_.op_hashes.push_back(state_.op_hashes.find(record.header.sequence));
      sequences_.push_back(record.header.sequence);
      trace_.ops.push_back(std::move(op));
    }
    if (!trace_.storages.empty()) trace_.metadata.device = trace_.storages.front().device;
  }

  /// An op whose random numbers are not among its results cannot be fed back at replay.
  void note_hidden_draws(const Record& record, const trace::Op& op) {
    const Operator& known = recorder_.operators()[record.header.operator_id];
    if (!known.draws_inside) return;
    const auto& arguments = known.handle.schema().arguments();
    for (std::size_t i = 0; i < arguments.size() && i < op.args.size(); ++i) {
      if (arguments[i].name() != "dropout_p" || op.args[i].real == 0) continue;
      NotRecordedCount& entry = hidden_draws_["random numbers inside " + known.full_name()];
      if (entry.count++ == 0) entry.site = record.header.site;
    }
  }

  /// Index of the first op at or after `sequence`; the number of ops when there is none.
  std::uint32_t op_at(std::uint64_t sequence) const {
    return static_cast<std::uint32_t>(std::lower_bound(sequences_.begin(), sequences_.end(), sequence) - sequences_.begin());
  }

  void add_iterations() {
    for (std::uint32_t i = 0; i < state_.complete_iterations(); ++i) {
      kept_number_.push_back(static_cast<std::uint32_t>(trace_.iterations.size()));
      if (state_.is_passed_over(i)) continue;
      trace::Iteration iteration;
      iteration.first_op = op_at(state_.iteration_starts[i]);
      iteration.op_count = op_at(state_.iteration_starts[i + 1]) - iteration.first_op;
      for (const auto& [sequence, loss] : losses_) {
        if (sequence >= state_.iteration_starts[i] && sequence < state_.iteration_starts[i + 1]) iteration.losses.push_back(loss);
      }
      trace_.iterations.push_back(std::move(iteration));
    }
  }

  void add_externals() {
    std::unordered_map<std::uint32_t, const StorageDetails*> details;
    for (const StorageDetails& known : state_.details) details[known.id] = &known;
    for (const ExternalBytes& taken : state_.externals) {
      if (state_.is_passed_over(taken.iteration)) continue;
      const std::uint32_t op = op_at(taken.sequence);
      // An op that threw may have been the only reader: then nobody needs the bytes.
      if (op >= trace_.ops.size() || !storages_.contains(taken.storage)) continue;
      trace::External external{storages_.at(taken.storage), iteration_of(op), op, trace::Role::kUnknown, "", blobs_->add(taken.bytes)};
      const StorageDetails& known = *details.at(taken.storage);
      const bool at_start = !known.start_name.empty();
      external.name = at_start ? known.start_name : known.final_name;
      external.role = at_start ? known.start_role : known.final_role;
      trace_.externals.push_back(std::move(external));
    }
  }

  std::uint32_t iteration_of(std::uint32_t op) const {
    std::uint32_t iteration = 0;
    while (iteration + 1 < trace_.iterations.size() && op >= trace_.iterations[iteration + 1].first_op) ++iteration;
    return iteration;
  }

  void add_draws() {
    for (const DrawnBytes& drawn : state_.draws) {
      const std::uint32_t op = op_at(drawn.sequence);
      if (op >= trace_.ops.size() || sequences_[op] != drawn.sequence) continue;
      trace_.draws.push_back({op, drawn.output, blobs_->add(drawn.bytes)});
    }
  }

  void add_generators() {
    for (const GeneratorBytes& state : state_.generators) {
      if (!is_kept_iteration(state.iteration)) continue;
      trace_.generators.push_back({kept_number_[state.iteration], state.device, blobs_->add(state.bytes)});
    }
  }

  void add_outputs() {
    for (const OutputBytes& output : state_.outputs) {
      if (!is_kept_iteration(output.iteration)) continue;
      trace_.outputs.push_back({kept_number_[output.iteration], output.name, intern(output.tensor), blobs_->add(output.bytes)});
    }
  }

  bool is_kept_iteration(std::uint32_t iteration) const {
    return iteration < state_.complete_iterations() && !state_.is_passed_over(iteration);
  }

  /// Reads the states where they are: they are those of the last complete iteration, but for what an unfinished one wrote.
  void add_final_states() {
    std::unordered_map<std::uint32_t, const StorageTable::Slot*> alive;  // by place in `details`
    state_.storages.for_each_alive([&alive](const StorageTable::Slot& slot) {
      if (slot.details != kNothing) alive[slot.details] = &slot;
    });
    for (std::uint32_t place = 0; place < state_.details.size(); ++place) {
      const StorageDetails& known = state_.details[place];
      const bool named = known.final_role != trace::Role::kUnknown;
      if (!storages_.contains(known.id) || !(named || (known.external && known.written))) continue;
      if (known.born >= state_.complete_iterations()) continue;
      const auto slot = alive.find(place);
      if (slot == alive.end()) {
        // A number or a temporary that entered, was written and died is no state.
        if (named) ++lost_states_;
        continue;
      }
      if (!state_.is_as_kept(*slot->second)) {
        ++overwritten_states_;
        continue;
      }
      std::vector<std::byte> bytes(slot->second->impl->nbytes());
      copy_bytes(slot->second->impl, bytes.data());
      if (bytes.empty()) continue;
      trace_.final_states.push_back({storages_.at(known.id), named ? known.final_role : known.start_role,
                                     known.final_name.empty() ? known.start_name : known.final_name, blobs_->add(std::move(bytes))});
    }
  }

  void add_not_recorded() {
    const auto add = [this](const std::string& what, std::uint64_t count, std::uint32_t site) {
      if (count > 0) trace_.not_recorded.push_back({what, count, site == kNoSite ? kNone : site});
    };
    for (const auto& [what, entry] : state_.not_recorded) add(what, entry.count, entry.site);
    if (const char* unseen = unseen_by_observers(); unseen != nullptr) add(unseen, 1, kNoSite);
    for (const auto& [what, entry] : hidden_draws_) add(what, entry.count, entry.site);
    add("final bytes of a state that was freed before the file was written", lost_states_, kNoSite);
    add("final bytes of a state that the unfinished last iteration had begun to change", overwritten_states_, kNoSite);
    add("changes of a storage by something that is not an op (its bytes were taken again)", state_.outside_changes, kNoSite);
  }

  const Recorder& recorder_;
  const RecordingState& state_;
  trace::Trace trace_;
  std::shared_ptr<trace::MemoryBlobStore> blobs_ = std::make_shared<trace::MemoryBlobStore>();
  std::unordered_map<std::uint32_t, trace::Storage> known_storages_;     // by the recorder's id, as the log tells it
  std::unordered_map<std::uint32_t, trace::StorageId> storages_;
  std::unordered_map<trace::Tensor, trace::TensorId, TensorHash> tensors_;
  std::unordered_map<std::uint32_t, trace::SchemaId> schemas_;
  CompoundTensors compounds_;
  std::vector<std::uint64_t> sequences_;  // of each op of the trace
  std::vector<std::pair<std::uint64_t, trace::Loss>> losses_;
  std::map<std::string, NotRecordedCount> hidden_draws_;
  std::vector<std::uint32_t> kept_number_;  // by the recorder's number of an iteration: the file's
  std::uint64_t lost_states_ = 0, overwritten_states_ = 0;
};

}  // namespace

Result<trace::Trace> build_trace(const Recorder& recorder, trace::Metadata metadata) {
  if (recorder.state().iteration_starts.size() < 2 || recorder.state().kept_iterations() == 0) {
    return Error{ErrorCode::kBadInput, "no iteration was recorded whole; there is nothing to write"};
  }
  return Builder(recorder, std::move(metadata)).build();
}

}  // namespace crucible::recorder
