// What ops wait for, and the graph of it: see op_order.hpp.
#include "plugins/sdk/op_order.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <queue>
#include <tuple>
#include <utility>

#include "plugins/abi/sized_launch.hpp"

namespace crucible::sdk {
namespace {

constexpr std::uint64_t kEverywhere = std::numeric_limits<std::uint64_t>::max();

/// The bytes of the library call's operand; nothing where its description is the plugin's to read.
std::uint64_t operand_bytes(const ListedOp& op, std::size_t operand) {
  if (op.product != nullptr) return gemm_extent_bytes(*op.product, static_cast<int>(operand));
  if (op.convolution != nullptr) return convolution_extent_bytes(*op.convolution, static_cast<int>(operand));
  return op.attention != nullptr ? attention_extent_bytes(*op.attention, operand) : 0;
}

/// Of a library call: only the result of a product or a convolution (the third view) and those of an attention are
/// written, and the scratch.
void add_library_call(const ListedOp& op, std::vector<TouchedBytes>& all) {
  if (op.product == nullptr && op.convolution == nullptr && op.attention == nullptr) {
    all.push_back({0, kEverywhere, true});
    return;
  }
  const std::size_t operands = op.addresses.size() - (op.scratch_bytes == 0 ? 0 : 1);
  for (std::size_t i = 0; i < operands; ++i)
    all.push_back({op.addresses[i], op.addresses[i] + operand_bytes(op, i),
                   op.attention != nullptr ? op.attention->is_result(i) : i == 2});
  if (op.scratch_bytes != 0) all.push_back({op.scratch_address(), op.scratch_address() + op.scratch_bytes, true});
}

void add_launch(const ListedOp& op, const std::vector<bool>& written, std::vector<TouchedBytes>& all) {
  for (std::size_t i = 0; i < op.addresses.size(); ++i) {
    const bool is_written = i >= written.size() || written[i];
    std::uint64_t bytes = kEverywhere;
    if (op.sizes.size() == op.addresses.size()) {
      bytes = op.sizes[i] & ~abi::kMayWrite;
    } else if (!op.places.empty()) {
      bytes = op.places[i].left;
    }
    if (bytes == kEverywhere) {
      all.assign(1, {0, kEverywhere, true});
      return;
    }
    all.push_back({op.addresses[i], op.addresses[i] + bytes, is_written});
  }
}

/// Who last wrote a range of bytes, and who has read it since.
struct Segment {
  std::uint64_t end = 0;
  std::size_t writer = OpOrder::kNoNode;
  std::vector<std::size_t> readers;
};

class Memory {
 public:
  void read(const TouchedBytes& bytes, std::size_t op, std::vector<std::size_t>& waits) {
    for_each(bytes, [&](Segment& segment) {
      wait(segment.writer, op, waits);
      if (segment.readers.empty() || segment.readers.back() != op) segment.readers.push_back(op);
    });
  }
  void write(const TouchedBytes& bytes, std::size_t op, std::vector<std::size_t>& waits) {
    for_each(bytes, [&](Segment& segment) {
      wait(segment.writer, op, waits);
      for (const std::size_t reader : segment.readers) wait(reader, op, waits);
    });
    const auto first = segments_.lower_bound(bytes.begin);
    segments_.erase(first, segments_.lower_bound(bytes.end));
    segments_[bytes.begin] = {.end = bytes.end, .writer = op, .readers = {}};
  }

 private:
  static void wait(std::size_t for_whom, std::size_t op, std::vector<std::size_t>& waits) {
    if (for_whom != OpOrder::kNoNode && for_whom != op) waits.push_back(for_whom);
  }

  /// Cuts the segment that `at` lies inside of.
  void cut(std::uint64_t at) {
    auto next = segments_.upper_bound(at);
    if (next == segments_.begin()) return;
    const auto own = std::prev(next);
    if (own->first == at || own->second.end <= at) return;
    Segment behind = own->second;
    own->second.end = at;
    segments_.emplace_hint(next, at, std::move(behind));
  }

  /// `visit` of segments that are the bytes, neither more nor less; new ones where nobody has been.
  template <class Visit>
  void for_each(const TouchedBytes& bytes, const Visit& visit) {
    cut(bytes.begin);
    cut(bytes.end);
    std::uint64_t at = bytes.begin;
    for (auto next = segments_.lower_bound(at); at < bytes.end; ++next) {
      if (next == segments_.end() || next->first > at) {
        const std::uint64_t end = next == segments_.end() ? bytes.end : std::min(bytes.end, next->first);
        next = segments_.emplace_hint(next, at, Segment{.end = end, .writer = OpOrder::kNoNode, .readers = {}});
      }
      visit(next->second);
      at = next->second.end;
    }
  }

  std::map<std::uint64_t, Segment> segments_;  // by their beginning; they do not overlap
};

/// Steps at which ops may run, of as many as the longest chain has: each between the first that its own chain before it
/// leaves, and the last that the chain behind it does. To give one its step narrows those of others, and there is
/// always one left.
class Steps {
 public:
  explicit Steps(const Waits& waits) : before_(waits), behind_(waits.size()) {
    const std::size_t count = waits.size();
    first_.assign(count, 0);
    for (std::size_t op = 0; op < count; ++op) {
      for (const std::size_t other : waits[op]) {
        behind_[other].push_back(op);
        first_[op] = std::max(first_[op], first_[other] + 1);
      }
    }
    const std::size_t last = count == 0 ? 0 : std::ranges::max(first_);
    last_.assign(count, last);
    for (std::size_t op = count; op-- > 0;) {
      for (const std::size_t other : behind_[op]) last_[op] = std::min(last_[op], last_[other] - 1);
    }
  }

  std::size_t first(std::size_t op) const { return first_[op]; }
  std::size_t last(std::size_t op) const { return last_[op]; }

  void settle(std::size_t op, std::size_t step) {
    std::vector<std::size_t> open = {op};
    first_[op] = last_[op] = step;
    while (!open.empty()) {
      const std::size_t at = open.back();
      open.pop_back();
      for (const std::size_t next : behind_[at]) {
        if (first_[next] > first_[at]) continue;
        first_[next] = first_[at] + 1;
        open.push_back(next);
      }
    }
    open = {op};
    while (!open.empty()) {
      const std::size_t at = open.back();
      open.pop_back();
      for (const std::size_t next : before_[at]) {
        if (last_[next] < last_[at]) continue;
        last_[next] = last_[at] - 1;
        open.push_back(next);
      }
    }
  }

 private:
  const Waits& before_;
  Waits behind_;
  std::vector<std::size_t> first_, last_;
};

/// The step at which most of `ops` may run, the first of several.
std::size_t busiest_step(const Steps& steps, const std::vector<std::size_t>& ops) {
  std::map<std::size_t, int> changes;  // how many more may run from there on
  for (const std::size_t op : ops) {
    ++changes[steps.first(op)];
    --changes[steps.last(op) + 1];
  }
  std::size_t best = 0;
  int now = 0, most = 0;
  for (const auto& [step, change] : changes) {
    now += change;
    if (now > most) most = now, best = step;
  }
  return best;
}

/// Groups of ops of one kind, each with its step. An op that is settled at a step may not wait for one of the same
/// step.
std::vector<std::vector<std::size_t>> group_ops(Steps& steps, const std::vector<std::size_t>& kinds,
                                                const std::vector<bool>& is_left_out, std::size_t most_together) {
  std::map<std::size_t, std::vector<std::size_t>> by_kind;
  for (std::size_t op = 0; op < kinds.size(); ++op) {
    if (kinds[op] != kAlone && !is_left_out[op]) by_kind[kinds[op]].push_back(op);
  }
  // The largest kinds choose first.
  std::vector<std::vector<std::size_t>> open, groups;
  for (auto& [kind, ops] : by_kind) {
    if (ops.size() > 1) open.push_back(std::move(ops));
  }
  std::ranges::stable_sort(open, std::ranges::greater{}, &std::vector<std::size_t>::size);
  for (std::vector<std::size_t>& ops : open) {
    while (ops.size() > 1) {
      const std::size_t step = busiest_step(steps, ops);
      std::vector<std::size_t> group, others;
      for (const std::size_t op : ops) {
        const bool fits = group.size() < most_together && steps.first(op) <= step && step <= steps.last(op);
        if (fits) steps.settle(op, step);
        (fits ? group : others).push_back(op);
      }
      if (group.size() > 1) groups.push_back(std::move(group));
      ops = std::move(others);
    }
  }
  return groups;
}

/// Nodes, with all that they wait for, in the order of the host's list but where a group waits for its last member.
OpOrder make_nodes(const Waits& waits, const std::vector<std::vector<std::size_t>>& groups,
                   const std::vector<bool>& is_left_out) {
  std::vector<std::vector<std::size_t>> all = groups;
  std::vector<std::size_t> node_of(waits.size(), OpOrder::kNoNode);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    for (const std::size_t op : groups[i]) node_of[op] = i;
  }
  for (std::size_t op = 0; op < waits.size(); ++op) {
    if (is_left_out[op] || node_of[op] != OpOrder::kNoNode) continue;
    node_of[op] = all.size();
    all.push_back({op});
  }
  const auto sort = [](std::vector<std::size_t>& numbers) {
    std::ranges::sort(numbers);
    numbers.erase(std::ranges::unique(numbers).begin(), numbers.end());
  };
  std::vector<std::vector<std::size_t>> before(all.size()), behind(all.size());
  std::vector<std::size_t> open(all.size());
  using Ready = std::pair<std::size_t, std::size_t>;  // its last op, the node
  std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready;
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (const std::size_t op : all[i]) {
      for (const std::size_t other : waits[op]) before[i].push_back(node_of[other]);
    }
    sort(before[i]);
    for (const std::size_t other : before[i]) behind[other].push_back(i);
    open[i] = before[i].size();
    if (open[i] == 0) ready.emplace(all[i].back(), i);
  }
  OpOrder order;
  std::vector<std::size_t> place(all.size());  // of the node in the order
  order.node_of.assign(waits.size(), OpOrder::kNoNode);
  while (!ready.empty()) {
    const std::size_t i = ready.top().second;
    ready.pop();
    place[i] = order.nodes.size();
    OrderedNode& node = order.nodes.emplace_back();
    for (const std::size_t op : all[i]) order.node_of[op] = place[i];
    for (const std::size_t other : before[i]) node.after.push_back(place[other]);
    sort(node.after);
    for (const std::size_t next : behind[i]) {
      if (--open[next] == 0) ready.emplace(all[next].back(), next);
    }
    node.ops = std::move(all[i]);
  }
  return order;
}

/// Deals the nodes out to branches and leaves only edges that follow from no others. A branch is a chain, so that how
/// far each branch has come is all that is to be known of the nodes before one.
void deal_out(OpOrder& order, std::size_t most_branches) {
  struct Branch {
    std::size_t tail = OpOrder::kNoNode, end = 0, length = 0;
  };
  std::vector<Branch> branches(most_branches);
  const std::size_t count = order.nodes.size();
  std::vector<std::vector<std::size_t>> reached(count);  // of each branch: nodes that are before or are the node
  std::vector<std::size_t> position(count), end(count);
  for (std::size_t i = 0; i < count; ++i) {
    OrderedNode& node = order.nodes[i];
    std::size_t ready = 0;
    for (const std::size_t before : node.after) ready = std::max(ready, end[before]);
    // Where it begins first; of those where it leaves the shortest gap, and goes on from what it waits for.
    const auto cost = [&](const Branch& branch) {
      const std::size_t begin = std::max(ready, branch.end);
      return std::tuple(begin, begin - branch.end, !std::ranges::binary_search(node.after, branch.tail));
    };
    Branch& branch = *std::ranges::min_element(branches, {}, cost);
    node.branch = static_cast<std::size_t>(&branch - branches.data());
    if (branch.tail != OpOrder::kNoNode) node.after.push_back(branch.tail);
    end[i] = std::max(ready, branch.end) + 1;
    position[i] = ++branch.length;
    branch.tail = i;
    branch.end = end[i];
    order.longest_path = std::max(order.longest_path, end[i]);
    // The latest of each branch, and of these the ones that no other has before it.
    std::ranges::sort(node.after, std::ranges::greater{});
    node.after.erase(std::ranges::unique(node.after).begin(), node.after.end());
    std::vector<std::size_t> kept, &own = reached[i];
    own.assign(most_branches, 0);
    for (const std::size_t before : node.after) {
      const std::size_t where = order.nodes[before].branch;
      if (own[where] >= position[before]) continue;
      kept.push_back(before);
      for (std::size_t b = 0; b < most_branches; ++b) own[b] = std::max(own[b], reached[before][b]);
    }
    own[node.branch] = position[i];
    std::ranges::reverse(kept);
    node.after = std::move(kept);
  }
}

}  // namespace

std::vector<TouchedBytes> touched_bytes(const ListedOp& op, const std::vector<bool>& written) {
  std::vector<TouchedBytes> all;
  if (!op.does_something()) return all;
  switch (op.kind) {
    case CRUCIBLE_OP_COPY:
      all = {{op.addresses[0], op.addresses[0] + op.size, true}, {op.addresses[1], op.addresses[1] + op.size, false}};
      break;
    case CRUCIBLE_OP_FILL:
      all = {{op.addresses[0], op.addresses[0] + op.size, true}};
      break;
    case CRUCIBLE_OP_LAUNCH:
      add_launch(op, written, all);
      break;
    default:
      add_library_call(op, all);
  }
  std::erase_if(all, [](const TouchedBytes& bytes) { return bytes.size() == 0; });
  return all;
}

Waits waits_of(const std::vector<std::vector<TouchedBytes>>& touched) {
  Memory memory;
  Waits waits(touched.size());
  for (std::size_t op = 0; op < touched.size(); ++op) {
    for (const TouchedBytes& bytes : touched[op]) {
      if (!bytes.is_written) memory.read(bytes, op, waits[op]);
    }
    for (const TouchedBytes& bytes : touched[op]) {
      if (bytes.is_written) memory.write(bytes, op, waits[op]);
    }
    std::ranges::sort(waits[op]);
    waits[op].erase(std::ranges::unique(waits[op]).begin(), waits[op].end());
  }
  return waits;
}

OpOrder order_ops(const Waits& waits, const std::vector<std::size_t>& kinds, const std::vector<bool>& is_left_out,
                  std::size_t most_together, std::size_t most_branches) {
  Steps steps(waits);
  const auto groups = group_ops(steps, kinds, is_left_out, most_together);
  OpOrder order = make_nodes(waits, groups, is_left_out);
  deal_out(order, most_branches);
  return order;
}

std::vector<std::uint64_t> shared_time(std::uint64_t time, std::span<const std::uint64_t> shares) {
  std::vector<std::uint64_t> result(shares.size(), 0);
  const long double all = std::accumulate(shares.begin(), shares.end(), 0.0L);
  long double until = 0;
  std::uint64_t given = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    until += all > 0 ? static_cast<long double>(shares[i]) / all : 1.0L / static_cast<long double>(shares.size());
    const std::uint64_t now = i + 1 == shares.size()
                                  ? time
                                  : std::min(time, static_cast<std::uint64_t>(static_cast<long double>(time) * until));
    result[i] = now - given;
    given = now;
  }
  return result;
}

}  // namespace crucible::sdk
