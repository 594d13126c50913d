// Rounds of repetitions, the most useful first. See recompute.hpp.
#include "core/budget/recompute.hpp"

#include <algorithm>
#include <optional>

#include "core/budget/chain.hpp"
#include "core/budget/transfer.hpp"

namespace crucible::budget {
namespace {

constexpr std::uint64_t kVisitsOfChoice = 8;  // what it takes to name the candidates, in measurements of the line
constexpr std::size_t kTries = 24;        // candidates of a round that are looked at
constexpr std::uint64_t kStair = 64;      // each target is this part below the peak
constexpr std::uint64_t kLookAhead = 8;   // what counts as too much while choosing: so many parts of the peak more

}  // namespace

/// Bytes over the target, and positions over it, up to each position.
struct Excess {
  std::vector<double> bytes, positions;
  Excess(const Live& live, std::uint64_t target) : bytes{0}, positions{0} {
    for (const std::uint64_t alive : live.bytes) {
      const bool is_over = alive > target;
      bytes.push_back(bytes.back() + (is_over ? static_cast<double>(alive - target) : 0));
      positions.push_back(positions.back() + (is_over ? 1 : 0));
    }
  }
  /// What a tensor of so many bytes takes off the positions [from, to) when it is not there.
  double without(std::uint64_t size, std::uint32_t from, std::uint32_t to) const {
    if (from >= to) return 0;
    return std::min(bytes[to] - bytes[from], static_cast<double>(size) * (positions[to] - positions[from]));
  }
};

namespace {

/// Positions of the nodes that read each tensor, ascending.
std::vector<std::vector<std::uint32_t>> readers_of(const Line& line) {
  std::vector<std::vector<std::uint32_t>> readers(line.tensors.size());
  for (std::uint32_t position = 0; position < line.order.size(); ++position) {
    for (const Argument& argument : line.nodes[line.order[position]].arguments) {
      std::vector<std::uint32_t>& of = readers[argument.tensor];
      if (!argument.written && (of.empty() || of.back() != position)) of.push_back(position);
    }
  }
  return readers;
}

/// A stay, and what it gives.
struct Offer {
  Stay stay;
  double must = 0, gain = 0;  // bytes that go of what is above the target, above the wish
  double cost_ns = 0;
  double rank() const { return gain / cost_ns; }
};

/// A copy serves readers until too much is alive while it waits for the next one. Nothing when a reader of the old
/// content comes behind the update: by then the host has the new one.
std::optional<Offer> offer_stay(const Line& line, const Live& live, TensorId carried, TensorId end,
                                const std::vector<std::vector<std::uint32_t>>& readers, const Excess& must,
                                const Excess& wish) {
  const auto after = static_cast<std::uint32_t>(line.order.size());
  const std::uint64_t bytes = line.tensors[carried].bytes;
  const std::uint32_t update = end == kNone ? after : live.first[end];
  if (!readers[carried].empty() && readers[carried].back() > update) return std::nullopt;
  Offer offer{.stay = {.carried = carried, .end = end}};
  const auto gap = [&](std::uint32_t from, std::uint32_t to) {
    offer.must += must.without(bytes, from, to);
    offer.gain += wish.without(bytes, from, to);
  };
  std::uint32_t free_from = 0;  // no copy is needed from here on
  for (const std::uint32_t position : readers[carried]) {
    const bool needs_load = offer.stay.readers.empty() || wish.without(bytes, free_from, position) > 0;
    offer.stay.readers.push_back({line.order[position], needs_load});
    if (needs_load) {
      gap(free_from, position);
      offer.cost_ns += load_ns(line, carried);
    }
    free_from = position + 1;
  }
  if (end != kNone) {
    gap(free_from, update);
    free_from = std::max(update, readers[end].empty() ? 0 : readers[end].back()) + 1;
    offer.cost_ns += store_ns(line, end);
  }
  gap(free_from, after + 1);
  return offer.must > 0 ? std::optional(std::move(offer)) : std::nullopt;
}

/// How bad a line is: bytes over the target, of all positions.
double badness(const Live& live, std::uint64_t target) { return Excess(live, target).bytes.back(); }

}  // namespace

Recompute::Recompute(Line line, std::uint64_t work) : line_(std::move(line)), live_(measure(line_)), work_(work) {}

std::uint32_t Recompute::repeats() const {
  return static_cast<std::uint32_t>(std::ranges::count_if(line_.nodes, &Node::is_repeat));
}

/// Every tensor that has no reader for a while in which too much is alive, with each way to do without it, best first.
/// Counted is what is above the wish.
std::vector<Recompute::Candidate> Recompute::candidates(std::uint64_t target, std::uint64_t wish,
                                                        const std::set<Key>& vain) const {
  const Excess must(live_, target), excess(live_, wish);
  const Chains chains(line_, live_);
  std::vector<std::uint32_t> last_seen(line_.tensors.size(), kNone);
  std::vector<Candidate> found;
  const auto offer = [&](Way way, TensorId tensor, std::uint32_t after, std::uint32_t position, double gain,
                         double cost_ns) {
    Candidate candidate{way, tensor, after, position, gain / cost_ns, {}};
    if (gain > 0 && !vain.contains(key_of(candidate))) found.push_back(std::move(candidate));
  };
  const auto offer_chain = [&](TensorId tensor, std::uint32_t position) {
    const std::optional<Chain> chain = chains.of(tensor, position);
    if (!chain) return;
    // Whatever else the repeated nodes write, and somebody reads later, is gone in between, too.
    double gain = 0;
    for (const TensorId again : chain->replaced)
      gain += excess.without(line_.tensors[again].bytes, last_seen[again] + 1, position);
    // Operands that live longer take from the gain, at worst at all of these positions.
    gain -= excess.without(chain->kept_longer, last_seen[tensor] + 1, position);
    offer(Way::kRepeat, tensor, last_seen[tensor], position, gain, chain->cost_ns);
  };
  for (std::uint32_t position = 0; position < line_.order.size(); ++position) {
    const std::vector<Argument>& arguments = line_.nodes[line_.order[position]].arguments;
    for (const Argument& argument : arguments) {
      const Tensor& tensor = line_.tensors[argument.tensor];
      const std::uint32_t before = last_seen[argument.tensor];
      if (argument.written || tensor.is_carried || tensor.is_kept || tensor.is_on_host) continue;
      const std::uint32_t from = before == kNone ? 0 : before + 1;
      if (must.without(tensor.bytes, from, position) <= 0) continue;
      const double gain = excess.without(tensor.bytes, from, position);
      const bool may_come = tensor.is_input && line_.costs.input_bytes_per_ns > 0;
      if (before == kNone) {
        if (may_come) offer(Way::kComeLater, argument.tensor, 0, position, gain, load_ns(line_, argument.tensor));
        continue;
      }
      if (may_come || chains.host_twin(argument.tensor, position) != kNone) {
        offer(Way::kLoad, argument.tensor, before, position, gain, load_ns(line_, argument.tensor));
      } else if (line_.costs.host_bytes_per_ns > 0 && tensor.producer != kNone) {
        offer(Way::kWaitOnHost, argument.tensor, before, position, gain,
              store_ns(line_, argument.tensor) + load_ns(line_, argument.tensor));
      }
      if (tensor.producer != kNone) offer_chain(argument.tensor, position);
    }
    for (const Argument& argument : arguments) last_seen[argument.tensor] = position;
  }
  if (line_.costs.host_bytes_per_ns > 0) offer_stays(must, excess, vain, found);
  std::ranges::stable_sort(found, [](const Candidate& a, const Candidate& b) { return a.rank > b.rank; });
  return found;
}

/// All at once as many as would do, of those that rank before any other way: a model has hundreds of small states, and
/// to choose them one by one would mean to look at the whole line for each.
void Recompute::offer_stays(const Excess& must, const Excess& wish, const std::set<Key>& vain,
                            std::vector<Candidate>& found) const {
  const std::vector<std::vector<std::uint32_t>> readers = readers_of(line_);
  std::vector<TensorId> end_of(line_.tensors.size(), kNone);
  for (TensorId id = 0; id < line_.tensors.size(); ++id) {
    if (line_.tensors[id].home != kNone) end_of[line_.tensors[id].home] = id;
  }
  std::vector<Offer> offers;
  for (TensorId id = 0; id < line_.tensors.size(); ++id) {
    if (!line_.tensors[id].may_leave || line_.tensors[id].bytes == 0) continue;
    if (auto offer = offer_stay(line_, live_, id, end_of[id], readers, must, wish)) offers.push_back(*std::move(offer));
  }
  if (offers.empty()) return;
  std::ranges::stable_sort(offers, std::ranges::greater(), &Offer::rank);
  double other = 0, still = must.bytes.back();
  for (const Candidate& candidate : found) other = std::max(other, candidate.rank);
  Candidate several{.way = Way::kLiveOnHost, .rank = offers[0].rank()};
  for (const Offer& offer : offers) {
    if (!several.stays.empty() && (still <= 0 || offer.rank() < other)) break;
    still -= offer.must;
    several.stays.push_back(offer.stay);
  }
  if (several.stays.size() > 1 && !vain.contains(key_of(several))) found.push_back(std::move(several));
  for (std::size_t i = 0; i < offers.size() && i < kTries; ++i) {
    Candidate one{.way = Way::kLiveOnHost, .rank = offers[i].rank(), .stays = {std::move(offers[i].stay)}};
    if (!vain.contains(key_of(one))) found.push_back(std::move(one));
  }
}

bool Recompute::apply(const Candidate& candidate) {
  switch (candidate.way) {
    case Way::kRepeat:
      if (!repeat(candidate.tensor, candidate.use)) return false;
      break;
    case Way::kLoad:
      load(candidate.tensor, candidate.use);
      break;
    case Way::kComeLater:
      keep_input_on_host(line_, live_, candidate.tensor);
      break;
    case Way::kWaitOnHost:
      wait_on_host(line_, candidate.tensor, candidate.last_use, candidate.use);
      break;
    case Way::kLiveOnHost:
      live_on_host(line_, candidate.stays);
      break;
  }
  live_ = measure(line_);
  return true;
}

bool Recompute::repeat(TensorId tensor, std::uint32_t use) {
  std::optional<Chain> chain = Chains(line_, live_).of(tensor, use);
  if (!chain) return false;
  bool has_moved = false;
  for (const TensorId loaded : chain->loads) {
    const TensorId input = line_.tensors[loaded].value;
    if (!line_.tensors[loaded].is_input || line_.tensors[input].is_on_host) continue;
    use += keep_input_on_host(line_, live_, input);  // its first reader comes earlier
    live_ = measure(line_);
    has_moved = true;
  }
  const Chains chains(line_, live_);
  if (has_moved) chain = chains.of(tensor, use);
  if (!chain) return false;
  insert(line_, chains, *chain, use);
  return true;
}

void Recompute::load(TensorId tensor, std::uint32_t use) {
  if (Chains(line_, live_).host_twin(tensor, use) == kNone) {
    use += keep_input_on_host(line_, live_, tensor);
    live_ = measure(line_);
    // The reader now has the copy that was loaded for the first one.
    for (const Argument& argument : line_.nodes[line_.order[use]].arguments) {
      const Tensor& read = line_.tensors[argument.tensor];
      if (!argument.written && read.value == line_.tensors[tensor].value) tensor = argument.tensor;
    }
  }
  insert(line_, Chains(line_, live_), Chain{.nodes = {}, .loads = {tensor}}, use);
}

Recompute::Key Recompute::key_of(const Candidate& candidate) const {
  if (!candidate.stays.empty()) return {candidate.way, candidate.stays[0].carried, kNone, candidate.stays.size()};
  return {candidate.way, candidate.tensor, line_.order[candidate.use], 0};
}

/// What it takes to measure the line once.
std::uint64_t Recompute::visits() const {
  std::uint64_t visits = line_.tensors.size();
  for (const Node& node : line_.nodes) visits += node.arguments.size() + 1;
  return visits;
}

bool Recompute::improve(std::uint64_t target, std::uint64_t wish, std::set<Key>& vain) {
  const double bad = badness(live_, target);
  const std::uint64_t visits = this->visits();
  work_ -= std::min(work_, kVisitsOfChoice * visits);
  std::size_t tries = 0;
  // Chosen for what is above the wish, accepted for what it does above the target.
  for (const Candidate& candidate : candidates(target, wish, vain)) {
    if (++tries > kTries || work_ < visits) return false;
    work_ -= visits;
    const Key key = key_of(candidate);
    Line before = line_;
    Live live_before = live_;
    if (apply(candidate) && badness(live_, target) < bad) return true;
    line_ = std::move(before);
    live_ = std::move(live_before);
    vain.insert(key);
  }
  return false;
}

bool Recompute::descend() {
  if (live_.peak == 0) return false;
  const std::uint64_t target = live_.peak - std::max<std::uint64_t>(live_.peak / kStair, 1);
  const std::uint64_t wish = target - target / kLookAhead;
  const Line start = line_;
  const Live live_at_start = live_;
  std::set<Key> vain;
  while (live_.peak > target) {
    if (improve(target, wish, vain)) continue;
    vain.clear();  // what did not help may help now
    if (improve(target, wish, vain)) continue;
    line_ = start;
    live_ = live_at_start;
    return false;
  }
  return true;
}

}  // namespace crucible::budget
