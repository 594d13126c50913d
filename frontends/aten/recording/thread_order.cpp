// An op is known by what it is and by what made its arguments. Then it is a matter of taking, for each op of the first
// iteration, one of the other's that is known by the same and has all before it that it needs.
#include "frontends/aten/recording/thread_order.hpp"

#include <algorithm>
#include <initializer_list>
#include <set>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "core/base/hash.hpp"
#include "core/trace/op_effects.hpp"

namespace crucible::aten {

namespace {

using trace::Arg;
using trace::StorageId;
using Ops = std::vector<std::uint32_t>;

bool is_of_threads(const trace::Trace& trace, const Ops& ops) {
  return std::ranges::any_of(ops, [&](std::uint32_t op) { return trace.ops[op].thread != trace.ops[ops[0]].thread; });
}

std::uint64_t hash_of(std::initializer_list<std::uint64_t> numbers) {
  return checksum64(std::as_bytes(std::span(numbers.begin(), numbers.size())));
}

/// What each op is known by, and which ops of the iteration must come before it.
class Known {
 public:
  Known(const trace::Trace& trace, const Ops& ops, const std::unordered_set<StorageId>& lasting)
      : trace_(trace),
        effects_(trace),
        lasting_(lasting),
        needs_(ops.size()),
        needed_by_(ops.size()),
        labels_(ops.size()) {
    for (std::uint32_t position = 0; position < ops.size(); ++position) add(trace.ops[ops[position]], position);
    // Two ops that compute the same from the same are told apart by what is made of their results.
    std::vector<std::uint64_t> below(ops.size());
    for (std::size_t position = ops.size(); position-- > 0;) {
      std::uint64_t all = 0;
      for (std::size_t i = 0; i < needed_by_[position].size(); ++i)
        all += hash_of({below[needed_by_[position][i]], labels_[position][i]});
      below[position] = hash_of({names_[position], all});
    }
    names_ = std::move(below);
  }

  std::uint64_t name(std::size_t position) const { return names_[position]; }
  std::size_t needs(std::size_t position) const { return needs_[position]; }
  const std::vector<std::uint32_t>& needed_by(std::size_t position) const { return needed_by_[position]; }
  /// Of its arguments and results, in their order.
  const std::vector<StorageId>& storages(std::size_t position) const { return storages_[position]; }

 private:
  struct State {
    std::uint64_t made_by = 0;  // name of what its content is
    std::uint32_t writer = trace::kNone;
    std::vector<std::uint32_t> readers;  // since then
  };

  void add(const trace::Op& op, std::uint32_t position) {
    const std::vector<trace::TensorUse> uses = effects_.uses(op);
    Checksum64 sum;
    const auto mix = [&sum](std::uint64_t number) { sum.update(std::as_bytes(std::span(&number, 1))); };
    mix(op.schema);
    for (const Arg& arg : op.args) describe(arg, mix);
    for (const trace::TensorUse& use : uses) mix(state(use.storage).made_by);
    names_.push_back(sum.value());
    for (std::size_t i = 0; i < uses.size(); ++i) touch(uses[i].storage, uses[i].is_written, position, i);
    std::vector<StorageId>& all = storages_.emplace_back();
    for (const trace::TensorUse& use : uses) all.push_back(use.storage);
    std::uint64_t result = 0;
    for (const StorageId storage : effects_.results(op)) {
      all.push_back(storage);
      const bool is_argument = std::ranges::find(uses, storage, &trace::TensorUse::storage) != uses.end();
      if (is_argument) continue;
      state(storage) = {names_.back() + ++result, position, {}};
    }
  }

  template <class Mix>
  void describe(const Arg& arg, Mix mix) {
    mix(static_cast<std::uint64_t>(arg.kind));
    if (arg.kind == Arg::Kind::kList) {
      mix(arg.list.size());
      for (const Arg& element : arg.list) describe(element, mix);
    }
    if (arg.kind != Arg::Kind::kTensor) return;  // numbers may be others in another iteration
    const trace::Tensor& tensor = trace_.tensors[arg.tensor];
    mix(static_cast<std::uint64_t>(tensor.dtype));
    for (const std::int64_t size : tensor.sizes) mix(static_cast<std::uint64_t>(size));
    for (const std::int64_t stride : tensor.strides) mix(static_cast<std::uint64_t>(stride));
  }

  State& state(StorageId storage) {
    const auto [found, is_new] = states_.try_emplace(storage);
    if (is_new)
      found->second.made_by =
          lasting_.contains(storage) ? (std::uint64_t{1} << 32) + storage : trace_.storages[storage].size_bytes;
    return found->second;
  }

  /// `label`: at which argument, and whether something is read that was written or the other way round.
  void order(std::uint32_t before, std::uint32_t after, std::uint64_t label) {
    if (before == trace::kNone || before == after) return;
    needed_by_[before].push_back(after);
    labels_[before].push_back(label);
    ++needs_[after];
  }

  void touch(StorageId storage, bool is_written, std::uint32_t position, std::uint64_t argument) {
    State& known = state(storage);
    order(known.writer, position, 2 * argument);
    if (!is_written) return known.readers.push_back(position);
    for (const std::uint32_t reader : known.readers) order(reader, position, 2 * argument + 1);
    known.readers.clear();
    known.writer = position;
    known.made_by = names_[position];
  }

  const trace::Trace& trace_;
  trace::OpEffects effects_;
  const std::unordered_set<StorageId>& lasting_;
  std::vector<std::uint64_t> names_;
  std::vector<std::vector<StorageId>> storages_;
  std::vector<std::size_t> needs_;
  std::vector<std::vector<std::uint32_t>> needed_by_;
  std::vector<std::vector<std::uint64_t>> labels_;  // of these
  std::unordered_map<StorageId, State> states_;
};

std::unordered_set<StorageId> storages_of(const trace::Trace& trace, const Ops& ops) {
  trace::OpEffects effects(trace);
  std::unordered_set<StorageId> found;
  for (const std::uint32_t op : ops) {
    for (const trace::TensorUse& use : effects.uses(trace.ops[op])) found.insert(use.storage);
  }
  return found;
}

/// Which storages of two iterations correspond, as far as is known.
class Pairs {
 public:
  /// Whether these may, and from now on do.
  bool join(const std::vector<StorageId>& ours, const std::vector<StorageId>& theirs) {
    if (ours.size() != theirs.size()) return false;
    for (std::size_t i = 0; i < ours.size(); ++i) {
      const auto forth = forth_.find(ours[i]), back = back_.find(theirs[i]);
      if ((forth != forth_.end() && forth->second != theirs[i]) || (back != back_.end() && back->second != ours[i]))
        return false;
    }
    for (std::size_t i = 0; i < ours.size(); ++i) {
      forth_[ours[i]] = theirs[i];
      back_[theirs[i]] = ours[i];
    }
    return true;
  }

 private:
  std::unordered_map<StorageId, StorageId> forth_, back_;
};

}  // namespace

std::vector<std::uint32_t> in_order_of(const trace::Trace& trace, const Ops& first, Ops other) {
  if (first.size() != other.size() || first.empty() || (!is_of_threads(trace, first) && !is_of_threads(trace, other)))
    return other;
  // What both iterations have is the same to both: parameters.
  std::unordered_set<StorageId> lasting = storages_of(trace, first);
  const std::unordered_set<StorageId> others = storages_of(trace, other);
  std::erase_if(lasting, [&](StorageId storage) { return !others.contains(storage); });
  const Known wanted(trace, first, lasting), known(trace, other, lasting);
  std::set<std::pair<std::uint64_t, std::uint32_t>> ready;  // by name, then as they were
  std::vector<std::size_t> needs(other.size());
  for (std::uint32_t position = 0; position < other.size(); ++position) {
    needs[position] = known.needs(position);
    if (needs[position] == 0) ready.emplace(known.name(position), position);
  }
  Ops ordered;
  Pairs pairs;
  for (std::size_t position = 0; position < first.size(); ++position) {
    auto found = ready.lower_bound({wanted.name(position), 0});
    const auto is_same = [&] { return found != ready.end() && found->first == wanted.name(position); };
    while (is_same() && !pairs.join(wanted.storages(position), known.storages(found->second))) ++found;
    if (!is_same()) return other;
    const std::uint32_t taken = found->second;
    ready.erase(found);
    ordered.push_back(other[taken]);
    for (const std::uint32_t next : known.needed_by(taken)) {
      if (--needs[next] == 0) ready.emplace(known.name(next), next);
    }
  }
  return ordered;
}

}  // namespace crucible::aten
