// Mark, renumber, move. One Numbering per table.
#include "core/trace/compact.hpp"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

namespace crucible::trace {

namespace {

/// Old ids to new ones.
class Numbering {
 public:
  explicit Numbering(std::size_t size) : new_ids_(size, kNone) {}
  /// Returns true when it was not marked before. kNone is passed over.
  bool mark(std::uint32_t id) { return id != kNone && std::exchange(new_ids_[id], 0) == kNone; }
  bool is_marked(std::uint32_t id) const { return new_ids_[id] != kNone; }
  /// Numbers what is marked and keeps only that in `table`; returns the old ids in their new order.
  template <class Record>
  std::vector<std::uint32_t> keep(std::vector<Record>& table) {
    std::vector<std::uint32_t> kept;
    for (std::uint32_t id = 0; id < table.size(); ++id) {
      if (new_ids_[id] == kNone) continue;
      new_ids_[id] = static_cast<std::uint32_t>(kept.size());
      if (id != kept.size()) table[kept.size()] = std::move(table[id]);
      kept.push_back(id);
    }
    table.resize(kept.size());
    return kept;
  }
  void apply(std::uint32_t& id) const {
    if (id != kNone) id = new_ids_[id];
  }

 private:
  std::vector<std::uint32_t> new_ids_;  // before keep(): 0 for what is marked
};

/// Some blobs of another store under new numbers.
class SubsetBlobStore final : public BlobStore {
 public:
  SubsetBlobStore(std::shared_ptr<const BlobStore> whole, std::vector<BlobId> ids)
      : whole_(std::move(whole)), ids_(std::move(ids)) {}
  Result<std::vector<std::byte>> load(BlobId id) const override {
    return whole_->load(id < ids_.size() ? ids_[id] : kNone);
  }

 private:
  std::shared_ptr<const BlobStore> whole_;  // shared: with the trace that it was opened for
  std::vector<BlobId> ids_;
};

template <class AnyArg, class Visit>
void visit_tensors(AnyArg& arg, Visit visit) {
  if (arg.kind == Arg::Kind::kTensor) visit(arg.tensor);
  for (auto& element : arg.list) visit_tensors(element, visit);
}

class Compaction {
 public:
  explicit Compaction(Trace trace)
      : trace_(std::move(trace)),
        schemas_(trace_.schemas.size()),
        sites_(trace_.sites.size()),
        modules_(trace_.modules.size()),
        storages_(trace_.storages.size()),
        tensors_(trace_.tensors.size()),
        blobs_(trace_.blobs.size()) {}

  Trace run() {
    each_id([](Numbering& numbering, std::uint32_t& id) { numbering.mark(id); });
    mark_compounds();
    for (TensorId id = 0; id < trace_.tensors.size(); ++id) {
      if (tensors_.is_marked(id)) storages_.mark(trace_.tensors[id].storage);
    }
    std::erase_if(trace_.compounds, [&](const CompoundTensor& it) { return !tensors_.is_marked(it.tensor); });
    schemas_.keep(trace_.schemas);
    sites_.keep(trace_.sites);
    modules_.keep(trace_.modules);
    storages_.keep(trace_.storages);
    tensors_.keep(trace_.tensors);
    std::vector<BlobId> blobs = blobs_.keep(trace_.blobs);
    if (trace_.blob_store != nullptr)
      trace_.blob_store = std::make_shared<const SubsetBlobStore>(std::move(trace_.blob_store), std::move(blobs));
    each_id([](Numbering& numbering, std::uint32_t& id) { numbering.apply(id); });
    for (Tensor& tensor : trace_.tensors) storages_.apply(tensor.storage);
    for (CompoundTensor& compound : trace_.compounds) {
      tensors_.apply(compound.tensor);
      for (auto& [name, part] : compound.parts) visit_tensors(part, [&](TensorId& id) { tensors_.apply(id); });
    }
    return std::move(trace_);
  }

 private:
  /// Every id but those inside the tables of tensors and compound tensors.
  template <class Visit>
  void each_id(Visit visit) {
    const auto tensor = [&](TensorId& id) { visit(tensors_, id); };
    for (Op& op : trace_.ops) {
      visit(schemas_, op.schema);
      visit(sites_, op.site);
      visit(modules_, op.module);
      for (auto* args : {&op.args, &op.outputs}) {
        for (Arg& arg : *args) visit_tensors(arg, tensor);
      }
    }
    for (Iteration& iteration : trace_.iterations) {
      for (Loss& loss : iteration.losses) tensor(loss.tensor);
    }
    for (External& external : trace_.externals) {
      visit(storages_, external.storage);
      visit(blobs_, external.blob);
    }
    for (Draw& draw : trace_.draws) visit(blobs_, draw.blob);
    for (FinalState& state : trace_.final_states) {
      visit(storages_, state.storage);
      visit(blobs_, state.blob);
    }
    for (GeneratorState& state : trace_.generators) visit(blobs_, state.blob);
    for (Output& output : trace_.outputs) {
      tensor(output.tensor);
      visit(blobs_, output.blob);
    }
    for (NotRecorded& item : trace_.not_recorded) visit(sites_, item.site);
  }

  /// Parts of a compound tensor that is used are used; they may be compound tensors themselves.
  void mark_compounds() {
    for (bool changed = true; changed;) {
      changed = false;
      for (const CompoundTensor& compound : trace_.compounds) {
        if (!tensors_.is_marked(compound.tensor)) continue;
        for (const auto& [name, part] : compound.parts) {
          visit_tensors(part, [&](TensorId id) { changed |= tensors_.mark(id); });
        }
      }
    }
  }

  Trace trace_;
  Numbering schemas_, sites_, modules_, storages_, tensors_, blobs_;
};

}  // namespace

Trace compacted(Trace trace) { return Compaction(std::move(trace)).run(); }

}  // namespace crucible::trace
