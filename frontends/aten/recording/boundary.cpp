// Classification of what crosses the edge of an iteration: see boundary.hpp.
#include "frontends/aten/recording/boundary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>

#include "core/base/words.hpp"
#include "core/trace/text.hpp"
#include "core/trace/trim.hpp"

namespace crucible::aten {
namespace {

using trace::Role;
using trace::StorageId;

Error bad(std::string message) { return Error{ErrorCode::kBadInput, std::move(message)}; }

/// How a storage that the iteration reads before writing it came to hold its bytes, iteration by iteration.
struct History {
  bool carried = true;               // from the second iteration on it is what an earlier iteration left
  StorageId carrier = trace::kNone;  // the storage (of iteration 0) whose last content that is
  bool always_given = true;          // every iteration has its bytes in the recording
  std::vector<trace::BlobId> blobs;  // of the iterations that have some, else kNone
};

class Classifier {
 public:
  Classifier(const trace::Trace& trace, const Alignment& alignment, StorageMap& storages, Emitter& emitter)
      : trace_(trace), alignment_(alignment), storages_(storages), emitter_(emitter), program_(emitter.program()) {
    for (const trace::FinalState& state : trace.final_states) final_states_.emplace(state.storage, &state);
  }

  Result<void> run() {
    for (const auto& [storage, entry] : storages_.entries()) {
      if (entry.outside == graph::kNone) continue;
      CRUCIBLE_TRY_VOID(classify(storage, entry));
    }
    CRUCIBLE_TRY_VOID(add_unread_states());
    separate_ends();
    return {};
  }

 private:
  History history(StorageId storage) const {
    History h;
    h.carrier = storage;
    for (std::size_t i = 0; i < alignment_.count(); ++i) {
      const StorageId own = alignment_.from_first[i].at(storage);
      h.blobs.push_back(storages_.external_blob(own, i));
      h.always_given = h.always_given && h.blobs.back() != trace::kNone;
      if (i == 0) continue;
      const auto& before = alignment_.to_first[i - 1];
      const auto left = before.find(own);
      const bool is_left = left != before.end() && h.blobs.back() == trace::kNone;
      h.carried = h.carried && is_left && (i == 1 || h.carrier == left->second);
      if (is_left && i == 1) h.carrier = left->second;
    }
    return h;
  }

  std::string describe(StorageId storage) const {
    const auto* external = storages_.external(storage, 0);
    if (external && !external->name.empty()) return printable(external->name);
    for (auto index : alignment_.ops[0]) {
      const trace::Op& op = trace_.ops[index];
      for (auto id : tensors_in(op.args)) {
        if (trace_.tensors[id].storage != storage) continue;
        return fmt::format("the tensor first read by {} at {}", trace_.schemas[op.schema].full_name(),
                           trace_.site_text(op.site));
      }
    }
    return fmt::format("storage {}", storage);
  }

  Result<void> classify(StorageId storage, const StorageMap::Entry& entry) {
    const History h = history(storage);
    if (h.blobs[0] == trace::kNone) {
      return bad(fmt::format("the bytes of {} are not in the recording although an op reads them", describe(storage)));
    }
    for (auto blob : h.blobs) CRUCIBLE_TRY_VOID(check_size(storage, entry, blob));
    const auto* external = storages_.external(storage, 0);
    const bool lasting = external->role == Role::kParameter || external->role == Role::kBuffer ||
                         external->role == Role::kOptimizerState || final_state(storage) != nullptr;
    graph::Value& value = program_.values[entry.outside];
    value.name = printable(external->name);
    // A batch that was made one step ahead: it entered in the iteration before the one that reads it.
    const bool is_ahead = h.carried && h.carrier != storage && !entry.written && !lasting;
    if (const auto blobs = is_ahead ? repeated(storage, h) : std::nullopt) {
      value.kind = graph::ValueKind::kInput;
      program_.inputs.push_back({entry.outside, *blobs, false});
      return {};
    }
    const bool unchanged = h.carrier == storage && !entry.written;
    if (h.carried && (entry.written || lasting || h.carrier != storage)) {
      return unchanged ? add_state(entry.outside, entry.outside, storage, storage)
                       : add_carried(storage, entry, h.carrier);
    }
    if (alignment_.count() == 1 && external->role == Role::kInput) {
      program_.inputs.push_back({entry.outside, h.blobs, false});
      return {};
    }
    if (h.carried) return add_constant(entry.outside, h.blobs[0]);
    if (h.always_given) {
      const bool same = std::all_of(h.blobs.begin(), h.blobs.end(), [&](auto b) { return same_blob(b, h.blobs[0]); });
      if (same && !entry.written) return add_constant(entry.outside, h.blobs[0]);
      value.kind = graph::ValueKind::kInput;
      program_.inputs.push_back({entry.outside, h.blobs, false});
      return {};
    }
    if (const auto blobs = repeated(storage, h); !entry.written && blobs) {
      value.kind = graph::ValueKind::kInput;
      program_.inputs.push_back({entry.outside, *blobs, false});
      return {};
    }
    return bad(not_carried(storage, h));
  }

  /// Data that the program did not refill in every iteration, or goes through again and again: each iteration's storage
  /// was recorded when an op first read it, and no op writes it. Nothing where an iteration's bytes are not known like
  /// that.
  std::optional<std::vector<trace::BlobId>> repeated(StorageId storage, const History& h) const {
    auto blobs = h.blobs;
    for (std::size_t i = 0; i < blobs.size(); ++i) {
      const StorageId own = alignment_.from_first[i].at(storage);
      for (std::size_t k = 0; k < blobs.size(); ++k) {
        const auto there = alignment_.to_first[k].find(own);
        const auto* entry = there == alignment_.to_first[k].end() ? nullptr : storages_.find(there->second);
        if (entry && entry->written) return std::nullopt;
      }
      for (std::size_t before = i; blobs[i] == trace::kNone && before-- > 0;)
        blobs[i] = storages_.external_blob(own, before);
      if (blobs[i] == trace::kNone) return std::nullopt;
    }
    return blobs;
  }

  /// Where the iteration before did not leave what is read, the program changed it where nothing was recorded.
  std::string not_carried(StorageId storage, const History& h) const {
    std::size_t changed = 0, begin = 0, best_begin = 0, best = 0;
    const auto number = [this](std::size_t i) { return alignment_.iterations[i]; };
    for (std::size_t i = 1; i <= h.blobs.size(); ++i) {
      const bool is_new = i == h.blobs.size() || h.blobs[i] != trace::kNone;
      if (!is_new) continue;
      if (changed == 0 && i < h.blobs.size()) changed = i;
      // Other states may have been carried over the change: their bytes at that place are nowhere.
      if (i - begin > best && (begin == 0 || trace::trim(trace_, number(begin), number(i - 1))))
        best = i - begin, best_begin = begin;
      begin = i;
    }
    const auto name = describe(storage);
    if (changed == 0) {
      return fmt::format("{} is handed from one iteration to the next in different ways; record with a larger --warmup",
                         name);
    }
    return fmt::format(
        "{} changes between iterations {} and {} where nothing is recorded (an evaluation in between, an iteration "
        "passed over, a "
        "pause), so the replay cannot carry it on; replay iterations without such a change in between (crucible trace "
        "trim "
        "FILE --iterations {}-{} -o PART.crtrace), or record fewer at once",
        name, number(changed - 1), number(changed), number(best_begin), number(best_begin + best - 1));
  }

  bool same_blob(trace::BlobId a, trace::BlobId b) const {
    if (a == b) return true;
    return a < trace_.blobs.size() && b < trace_.blobs.size() && trace_.blobs[a].hash == trace_.blobs[b].hash;
  }

  Result<void> check_size(StorageId storage, const StorageMap::Entry& entry, trace::BlobId blob) const {
    if (blob == trace::kNone || blob >= trace_.blobs.size()) return {};
    const auto wanted = static_cast<std::uint64_t>(entry.elements) * size_bytes(entry.dtype);
    if (trace_.blobs[blob].size_bytes == wanted) return {};
    return bad(fmt::format("{} needs {} bytes but the recording holds {}", describe(storage), wanted,
                           trace_.blobs[blob].size_bytes));
  }

  const trace::FinalState* final_state(StorageId storage) const {
    const auto& last = alignment_.from_first.back();
    const auto own = last.find(storage);
    if (own == last.end()) return nullptr;
    const auto found = final_states_.find(own->second);
    return found == final_states_.end() ? nullptr : found->second;
  }

  Result<void> add_constant(graph::ValueId value, trace::BlobId blob) {
    program_.values[value].kind = graph::ValueKind::kConstant;
    program_.constants.push_back({value, blob});
    return {};
  }

  /// `start_storage` gives the first bytes, `end_storage` the recorded last ones.
  Result<void> add_state(graph::ValueId start, graph::ValueId end, StorageId start_storage, StorageId end_storage) {
    graph::State state{start, end, storages_.external_blob(start_storage, 0), graph::kNone};
    program_.values[start].kind = graph::ValueKind::kState;
    if (const auto* last = final_state(end_storage)) {
      const auto* entry = storages_.find(end_storage);
      if (entry) CRUCIBLE_TRY_VOID(check_size(end_storage, *entry, last->blob));
      state.final_blob = last->blob;
      if (program_.values[start].name.empty()) program_.values[start].name = printable(last->name);
    }
    program_.states.push_back(state);
    return {};
  }

  Result<void> add_carried(StorageId storage, const StorageMap::Entry& entry, StorageId carrier) {
    const auto* end = storages_.find(carrier);
    const bool fits =
        end && end->value != graph::kNone && end->elements_as(DType::kU8) == entry.elements_as(DType::kU8);
    if (!fits) {
      return bad(
          fmt::format("{} takes over a tensor of the iteration before whose value is not known", describe(storage)));
    }
    return add_state(entry.outside, storages_.whole(carrier, entry.dtype).operand.value, storage, carrier);
  }

  /// States that every iteration overwrites before it reads them: their start does not matter, their end does.
  Result<void> add_unread_states() {
    for (const trace::FinalState& state : trace_.final_states) {
      const auto& last = alignment_.to_first.back();
      const auto found = last.find(state.storage);
      if (found == last.end()) continue;
      const StorageId storage = found->second;
      const auto* entry = storages_.find(storage);
      if (!entry || !entry->written || entry->outside != graph::kNone || !storages_.external(storage, 0)) continue;
      const graph::ValueId end = entry->value;
      CRUCIBLE_TRY_VOID(check_size(storage, *entry, storages_.external_blob(storage, 0)));
      const graph::ValueId start = storages_.outside_value(storage);
      program_.values[start].name = printable(storages_.external(storage, 0)->name);
      CRUCIBLE_TRY_VOID(add_state(start, end, storage, storage));
    }
    return {};
  }

  /// Every end becomes a temporary of its own, so that states can live in separate buffers.
  void separate_ends() {
    std::set<graph::ValueId> ends;
    emitter_.set_source(graph::kNone);
    for (graph::State& state : program_.states) {
      if (state.end == state.start) continue;
      const bool temporary = program_.values[state.end].kind == graph::ValueKind::kTemporary;
      if (temporary && ends.insert(state.end).second) continue;
      Term whole;
      whole.operand.value = state.end;
      whole.dtype = program_.values[state.end].dtype;
      whole.operand.view = graph::View::contiguous({program_.values[state.end].elements});
      state.end = emitter_.copy(whole).operand.value;
      ends.insert(state.end);
    }
  }

  const trace::Trace& trace_;
  const Alignment& alignment_;
  StorageMap& storages_;
  Emitter& emitter_;
  graph::Program& program_;
  std::unordered_map<StorageId, const trace::FinalState*> final_states_;
};

}  // namespace

void Losses::read_present(StorageMap& storages) {
  const auto& losses = trace_.iterations[alignment_.iterations[0]].losses;
  terms_.resize(losses.size());
  for (std::size_t k = 0; k < losses.size(); ++k) {
    const auto* entry = storages.find(trace_.tensors[losses[k].tensor].storage);
    if (terms_[k].is_number() && entry && entry->value != graph::kNone) terms_[k] = storages.read(losses[k].tensor);
  }
}

Result<void> Losses::finish(StorageMap& storages, graph::Program& program) {
  read_present(storages);
  for (std::size_t k = 0; k < terms_.size(); ++k) {
    graph::Output output{k == 0 ? "loss" : fmt::format("loss {}", k + 1), terms_[k].operand, {}};
    for (std::size_t i = 0; i < alignment_.count(); ++i) {
      const auto& losses = trace_.iterations[alignment_.iterations[i]].losses;
      if (losses.size() != terms_.size()) {
        return bad(fmt::format("iteration {} calls backward on {} losses, iteration {} on {}", alignment_.iterations[0],
                               terms_.size(), alignment_.iterations[i], losses.size()));
      }
      const auto first = trace_.tensors[trace_.iterations[alignment_.iterations[0]].losses[k].tensor].storage;
      const auto& to_first = alignment_.to_first[i];
      const auto own = to_first.find(trace_.tensors[losses[k].tensor].storage);
      if (own == to_first.end() || own->second != first) {
        return bad(fmt::format("loss {} of iteration {} is another tensor than in iteration {}", k,
                               alignment_.iterations[i], alignment_.iterations[0]));
      }
      output.recorded.push_back(losses[k].value);
    }
    if (terms_[k].is_number()) return bad(fmt::format("{} is not a result of the recorded ops", output.name));
    if (terms_[k].elements() == 1) program.outputs.push_back(std::move(output));
  }
  return {};
}

Result<void> classify(const trace::Trace& trace, const Alignment& alignment, StorageMap& storages, Emitter& emitter) {
  return Classifier(trace, alignment, storages, emitter).run();
}

}  // namespace crucible::aten
