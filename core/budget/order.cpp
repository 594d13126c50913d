// List scheduling by net release, then moves of single nodes across the peak. See order.hpp.
#include "core/budget/order.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace crucible::budget {
namespace {

class ListScheduler {
 public:
  ListScheduler(const Line& line, const Dependences& edges)
      : line_(line),
        edges_(edges),
        waits_for_(line.nodes.size()),
        uses_(line.tensors.size(), 0),
        done_(line.nodes.size(), false) {
    readers_.resize(line.tensors.size());
    place_.assign(line.nodes.size(), kNone);
    for (NodeId id = 0; id < line.nodes.size(); ++id) {
      waits_for_[id] = static_cast<std::uint32_t>(edges.before[id].size());
      for (const Argument& argument : line.nodes[id].arguments) {
        if (argument.written) continue;
        ++uses_[argument.tensor];
        readers_[argument.tensor].push_back(id);
      }
    }
  }

  /// The old order, in which whatever frees at least what it makes runs as soon as it can.
  std::vector<NodeId> run() {
    for (const NodeId id : line_.order) {
      if (done_[id]) continue;
      schedule(id);
      release();
    }
    return std::move(order_);
  }

 private:
  void schedule(NodeId id) {
    done_[id] = true;
    order_.push_back(id);
    for (const Argument& argument : line_.nodes[id].arguments) {
      if (argument.written || --uses_[argument.tensor] != 1) continue;
      // Whoever reads it last frees it from now on.
      for (const NodeId reader : readers_[argument.tensor]) {
        if (!done_[reader]) judge(reader);
      }
    }
    for (const NodeId next : edges_.after[id]) {
      if (--waits_for_[next] > 0) continue;
      place_[next] = static_cast<std::uint32_t>(ready_.size());
      ready_.push_back(next);
      judge(next);
    }
  }

  /// Ready nodes wait until they free more than they make: then nothing is lost by running them at once. They are gone
  /// through in the order in which they became ready, again and again; of those that wait only the ones are looked at
  /// for which something changed.
  void release() {
    for (auto next = due_.begin(); next != due_.end();) {
      const std::uint32_t place = *next;
      due_.erase(next);
      if (!done_[ready_[place]]) schedule(ready_[place]);
      next = due_.upper_bound(place);
      if (next == due_.end()) next = due_.begin();
    }
  }

  void judge(NodeId id) {
    if (place_[id] != kNone && net(id) <= 0) due_.insert(place_[id]);
  }

  /// Bytes that are alive after the node minus those before.
  std::int64_t net(NodeId id) const {
    std::int64_t change = 0;
    for (const Argument& argument : line_.nodes[id].arguments) {
      const Tensor& tensor = line_.tensors[argument.tensor];
      const auto bytes = static_cast<std::int64_t>(tensor.bytes);
      if (argument.written) {
        // A state's new content takes the place of the old one.
        if (tensor.home == kNone) change += uses_[argument.tensor] == 0 && !tensor.is_kept ? 0 : bytes;
      } else if (uses_[argument.tensor] == 1 && !tensor.is_carried && !tensor.is_kept) {
        change -= bytes;
      }
    }
    return change;
  }

  const Line& line_;
  const Dependences& edges_;
  std::vector<std::uint32_t> waits_for_;  // per node: predecessors that have not run
  std::vector<std::uint32_t> uses_;       // per tensor: readers that have not run
  std::vector<bool> done_;
  std::vector<std::vector<NodeId>> readers_;  // per tensor
  std::vector<NodeId> ready_, order_;         // the first: all that ever became ready
  std::vector<std::uint32_t> place_;          // per node, in ready_
  std::set<std::uint32_t> due_;               // places of nodes that may run at once
};

/// Moves single nodes; every try is measured whole.
class LocalSearch {
 public:
  LocalSearch(Line& line, const Dependences& edges, std::uint64_t work) : line_(line), edges_(edges), work_(work) {
    for (const Node& node : line.nodes) visits_ += node.arguments.size() + 1;
    visits_ += line.tensors.size();
  }

  std::uint32_t run(Live& best) {
    while (work_ >= visits_) {
      if (!improve(best)) break;
    }
    return tries_;
  }

 private:
  /// One accepted move, or false: no node at the peak can be moved so that it gets lower.
  bool improve(Live& best) {
    const std::uint32_t peak = best.peak_position;
    std::vector<std::pair<std::uint64_t, TensorId>> alive;
    for (TensorId id = 0; id < line_.tensors.size(); ++id) {
      const Tensor& tensor = line_.tensors[id];
      if (best.first[id] == kNone || tensor.is_carried || tensor.bytes == 0) continue;
      if (best.first[id] <= peak && peak <= best.last[id]) alive.emplace_back(tensor.bytes, id);
    }
    std::ranges::sort(alive, [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first > b.first : a.second < b.second;
    });
    const std::vector<std::uint32_t> position = positions();
    for (const auto& [bytes, id] : alive) {
      const NodeId producer = line_.tensors[id].producer;
      if (producer != kNone && position[producer] <= peak && try_late(producer, position, best)) return true;
      if (best.last[id] > peak && best.last[id] < line_.order.size() &&
          try_early(line_.order[best.last[id]], position, best))
        return true;
      if (work_ < visits_) return false;
    }
    return false;
  }

  std::vector<std::uint32_t> positions() const {
    std::vector<std::uint32_t> position(line_.nodes.size());
    for (std::uint32_t p = 0; p < line_.order.size(); ++p) position[line_.order[p]] = p;
    return position;
  }

  /// The node right before the first one that needs it.
  bool try_late(NodeId id, const std::vector<std::uint32_t>& position, Live& best) {
    std::uint32_t until = static_cast<std::uint32_t>(line_.order.size());
    for (const NodeId next : edges_.after[id]) until = std::min(until, position[next]);
    if (until <= position[id] + 1) return false;
    return try_order(id, position[id], until - 1, best);
  }

  /// The node right after the last one that it needs.
  bool try_early(NodeId id, const std::vector<std::uint32_t>& position, Live& best) {
    std::uint32_t from = 0;
    for (const NodeId earlier : edges_.before[id]) from = std::max(from, position[earlier] + 1);
    return from < position[id] && try_order(id, position[id], from, best);
  }

  bool try_order(NodeId id, std::uint32_t from, std::uint32_t to, Live& best) {
    if (work_ < visits_) return false;
    work_ -= visits_;
    ++tries_;
    move(id, from, to);
    Live now = measure(line_);
    // Lower, or as low at fewer places: several equal peaks fall one after the other.
    const bool is_better = now.peak < best.peak || (now.peak == best.peak && now.peak_position > best.peak_position &&
                                                    count(now) < count(best));
    if (is_better) {
      best = std::move(now);
    } else {
      move(id, to, from);
    }
    return is_better;
  }

  static std::ptrdiff_t count(const Live& live) { return std::ranges::count(live.bytes, live.peak); }

  void move(NodeId id, std::uint32_t from, std::uint32_t to) {
    auto& order = line_.order;
    order.erase(order.begin() + from);
    order.insert(order.begin() + to, id);
  }

  Line& line_;
  const Dependences& edges_;
  std::uint64_t work_, visits_ = 0;
  std::uint32_t tries_ = 0;
};

}  // namespace

Ordered order_for_memory(Line& line, std::uint64_t work) {
  const std::vector<NodeId> old = line.order;
  const Dependences edges = dependences(line);
  Live best = measure(line);
  Ordered result{.peak_before = best.peak, .peak_after = best.peak};
  line.order = ListScheduler(line, edges).run();
  ++result.tries;
  if (Live listed = measure(line); listed.peak < best.peak) {
    best = std::move(listed);
  } else {
    line.order = old;
  }
  result.tries += LocalSearch(line, edges, work).run(best);
  result.peak_after = best.peak;
  if (best.peak == result.peak_before) line.order = old;  // as it was: nothing is gained
  for (std::size_t i = 0; i < old.size(); ++i) result.moved += old[i] != line.order[i];
  return result;
}

}  // namespace crucible::budget
