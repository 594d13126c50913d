// Names for shared storages: see sharing.hpp. Iterations that are alike but for sharing are gone through side by side:
// two places at which tensors stand play one part where they are one storage in all of those iterations.
#include "frontends/aten/recording/sharing.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "core/trace/op_effects.hpp"
#include "frontends/aten/recording/align_parts.hpp"

namespace crucible::aten {
namespace {

using trace::Arg;
using trace::StorageId;
using trace::TensorId;
using Kind = Arg::Kind;

/// A tensor among the arguments or the results of an op.
struct Place {
  std::uint32_t op = 0;  // its position in the iteration
  TensorId tensor = trace::kNone;
  bool is_bound = false;  // it keeps its name
};

/// An iteration of one of the groups.
struct Member {
  const std::vector<std::uint32_t>* ops = nullptr;
  std::vector<Place> places;
};

void visit(std::vector<Arg>& args, const auto& change) {
  for (Arg& arg : args) {
    if (arg.kind == Kind::kTensor) change(arg.tensor);
    if (arg.kind == Kind::kList) visit(arg.list, change);
  }
}

class Separation {
 public:
  Separation(const trace::Trace& trace, const Changes& changes) : trace_(trace), effects_(trace) {
    for (const trace::CompoundTensor& compound : trace.compounds) {
      std::vector<Arg> parts;
      for (const auto& [name, part] : compound.parts) parts.push_back(part);
      for (const auto id : tensors_in(parts)) bound_.insert(trace.tensors[id].storage);
    }
    for (const trace::Output& output : trace.outputs) bound_.insert(trace.tensors[output.tensor].storage);
    for (const auto& [op, changed] : changes) {
      for (const ChangedMemory& change : changed) bound_.insert(change.storage);
    }
  }

  /// Groups that are alike but for sharing.
  void add(const std::vector<const Alignment*>& groups) {
    std::map<std::vector<std::uint32_t>, std::vector<Member>> alike;  // by how what is bound is shared
    for (const Alignment* group : groups) {
      for (std::size_t m = 0; m < group->count(); ++m) {
        if (is_of_threads(group->ops[m])) return;
        Member member = places_of(group->ops[m], trace_.iterations[group->iterations[m]]);
        std::vector<std::uint32_t> pattern = pattern_of(member);
        alike[std::move(pattern)].push_back(std::move(member));
      }
    }
    for (const auto& [pattern, members] : alike) {
      if (members.size() > 1) separate(members);
    }
  }

  std::optional<Separated> take() {
    if (changed_.empty()) return std::nullopt;
    auto origins = std::make_shared<std::vector<StorageId>>(trace_.storages.size());
    for (std::size_t i = 0; i < origins->size(); ++i) (*origins)[i] = static_cast<StorageId>(i);
    Separated separated{trace_, nullptr};
    for (const StorageId origin : storages_) {
      origins->push_back(origin);
      separated.trace.storages.push_back(trace_.storages[origin]);
    }
    for (const trace::Tensor& tensor : tensors_) separated.trace.tensors.push_back(tensor);
    for (const auto& [index, tensors] : changed_) {
      trace::Op& op = separated.trace.ops[index];
      auto next = tensors.begin();
      for (auto* args : {&op.args, &op.outputs}) visit(*args, [&](TensorId& id) { id = *next++; });
    }
    separated.origins = std::move(origins);
    return separated;
  }

 private:
  bool is_of_threads(const std::vector<std::uint32_t>& ops) const {
    return std::ranges::any_of(ops, [&](auto op) { return trace_.ops[op].thread != trace_.ops[ops[0]].thread; });
  }

  Member places_of(const std::vector<std::uint32_t>& ops, const trace::Iteration& iteration) {
    Member member{&ops, {}};
    std::unordered_set<StorageId> bound, known;  // of this iteration; what its ops have had so far
    for (const trace::Loss& loss : iteration.losses) bound.insert(trace_.tensors[loss.tensor].storage);
    for (std::uint32_t position = 0; position < ops.size(); ++position) {
      const trace::Op& op = trace_.ops[ops[position]];
      for (const trace::TensorUse& use : effects_.uses(op)) {
        if (use.is_written) bound.insert(use.storage);
        known.insert(use.storage);
      }
      for (const StorageId result : effects_.results(op)) {
        if (known.insert(result).second) bound.insert(result);  // the op made it
      }
      for (const auto* args : {&op.args, &op.outputs}) {
        for (const TensorId id : tensors_in(*args)) member.places.push_back({position, id, false});
      }
    }
    for (Place& place : member.places) {
      const trace::Tensor& tensor = trace_.tensors[place.tensor];
      place.is_bound = tensor.storage == trace::kNone || tensor.is_wrapped_number || bound.contains(tensor.storage) ||
                       bound_.contains(tensor.storage);
    }
    return member;
  }

  /// Per place: whether it is bound, and then at which place its storage stands first.
  std::vector<std::uint32_t> pattern_of(const Member& member) const {
    std::vector<std::uint32_t> pattern;
    std::unordered_map<StorageId, std::uint32_t> first;
    for (std::uint32_t i = 0; i < member.places.size(); ++i) {
      const Place& place = member.places[i];
      const StorageId storage = trace_.tensors[place.tensor].storage;
      if (place.is_bound && storage != trace::kNone) first.emplace(storage, i);
      pattern.push_back(!place.is_bound ? trace::kNone : storage == trace::kNone ? 0 : first.at(storage));
    }
    return pattern;
  }

  void separate(const std::vector<Member>& members) {
    const std::size_t count = members[0].places.size();
    std::vector<std::uint32_t> parts(count, 0), views(count, 0);  // per place; views also differ in where they begin
    for (const Member& member : members) {
      std::map<std::pair<std::uint32_t, std::int64_t>, std::uint32_t> by_storage, by_offset;
      for (std::size_t i = 0; i < count; ++i) {
        const trace::Tensor& tensor = trace_.tensors[member.places[i].tensor];
        const auto next_part = static_cast<std::uint32_t>(by_storage.size());
        parts[i] = by_storage.emplace(std::pair{parts[i], std::int64_t{tensor.storage}}, next_part).first->second;
        const auto next_view = static_cast<std::uint32_t>(by_offset.size());
        views[i] = by_offset.emplace(std::pair{views[i], tensor.offset}, next_view).first->second;
      }
    }
    for (const Member& member : members) name(member, parts, views);
  }

  void name(const Member& member, const std::vector<std::uint32_t>& parts, const std::vector<std::uint32_t>& views) {
    std::unordered_map<StorageId, std::vector<std::uint32_t>> parts_of;
    std::map<TensorId, std::vector<std::uint32_t>> views_of;  // of one op: a tensor's id stands for one view
    for (std::size_t i = 0; i < member.places.size();) {
      const std::uint32_t position = member.places[i].op;
      std::vector<TensorId> tensors;
      bool is_changed = false;
      views_of.clear();
      for (; i < member.places.size() && member.places[i].op == position; ++i) {
        const Place& place = member.places[i];
        tensors.push_back(place.tensor);
        if (place.is_bound) continue;
        const StorageId storage = trace_.tensors[place.tensor].storage;
        const StorageId named = storage_named(storage, number_of(parts_of[storage], parts[i]));
        TensorId id = tensor_in(place.tensor, named);
        id = tensor_again(id, number_of(views_of[id], views[i]));
        is_changed = is_changed || id != place.tensor;
        tensors.back() = id;
      }
      if (is_changed) changed_.emplace((*member.ops)[position], std::move(tensors));
    }
  }

  static std::size_t number_of(std::vector<std::uint32_t>& seen, std::uint32_t which) {
    const auto found = std::ranges::find(seen, which);
    if (found != seen.end()) return static_cast<std::size_t>(found - seen.begin());
    seen.push_back(which);
    return seen.size() - 1;
  }

  /// The storage's own name for its first part.
  StorageId storage_named(StorageId storage, std::size_t number) {
    if (number == 0) return storage;
    const auto next = static_cast<StorageId>(trace_.storages.size() + storages_.size());
    const auto [found, is_new] = named_storages_.emplace(std::pair{storage, number}, next);
    if (is_new) storages_.push_back(storage);
    return found->second;
  }

  TensorId tensor_in(TensorId id, StorageId storage) {
    if (trace_.tensors[id].storage == storage) return id;
    const auto [found, is_new] = tensors_in_.emplace(std::pair{id, storage}, next_tensor());
    if (is_new) tensors_.push_back(trace_.tensors[id]);
    if (is_new) tensors_.back().storage = storage;
    return found->second;
  }

  TensorId tensor_again(TensorId id, std::size_t number) {
    if (number == 0) return id;
    const auto [found, is_new] = tensors_again_.emplace(std::pair{id, number}, next_tensor());
    if (is_new) {
      const trace::Tensor same = id < trace_.tensors.size() ? trace_.tensors[id] : tensors_[id - trace_.tensors.size()];
      tensors_.push_back(same);
    }
    return found->second;
  }

  TensorId next_tensor() const { return static_cast<TensorId>(trace_.tensors.size() + tensors_.size()); }

  const trace::Trace& trace_;
  trace::OpEffects effects_;
  std::unordered_set<StorageId> bound_;  // in every iteration
  std::vector<StorageId> storages_;      // further ones: what each is another name of
  std::vector<trace::Tensor> tensors_;   // further ones
  std::map<std::pair<StorageId, std::size_t>, StorageId> named_storages_;
  std::map<std::pair<TensorId, StorageId>, TensorId> tensors_in_;
  std::map<std::pair<TensorId, std::size_t>, TensorId> tensors_again_;
  std::map<std::uint32_t, std::vector<TensorId>> changed_;  // an op in the trace -> its tensors, in order
};

}  // namespace

std::optional<Separated> separate_shared(const trace::Trace& trace, const std::vector<Alignment>& groups) {
  std::map<std::uint64_t, std::vector<const Alignment*>> by_signature;
  const std::vector<std::uint64_t> signatures = signatures_of(trace, groups);
  for (std::size_t g = 0; g < groups.size(); ++g) by_signature[signatures[g]].push_back(&groups[g]);
  Separation separation(trace, *groups[0].changes);
  for (const auto& [signature, alike] : by_signature) {
    if (alike.size() > 1) separation.add(alike);
  }
  return separation.take();
}

bool writes_shared(const Alignment& group, const std::vector<StorageId>& written) {
  if (!group.origins) return false;
  for (std::size_t m = 0; m < group.count(); ++m) {
    std::unordered_map<StorageId, std::size_t> names;
    for (const auto& [own, role] : group.to_first[m]) ++names[group.origin(own)];
    for (const StorageId role : written) {
      const StorageId own = group.from_first[m].at(role);
      if (group.origin(own) != own || names[own] > 1) return true;
    }
  }
  return false;
}

}  // namespace crucible::aten
