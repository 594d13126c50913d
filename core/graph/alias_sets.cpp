// Which views of a value share elements: see queries.hpp.
#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "core/graph/queries.hpp"
#include "core/graph/view.hpp"

namespace crucible::graph {
namespace {

/// A view as a block of digits: element e of it is sum(digit[k] * stride[k]) with low[k] <= digit[k] <= high[k].
struct Block {
  std::vector<std::int64_t> low, high;
};

/// The digits of a view in the given strides (distinct, largest first, the last one 1). Nothing where a smaller digit
/// could carry into a larger one: then a place has several digits and blocks say nothing.
std::optional<Block> block_of(const View& view, const std::vector<std::int64_t>& strides) {
  Block block;
  std::int64_t rest = view.offset;
  for (const std::int64_t stride : strides) {
    block.low.push_back(rest / stride);
    block.high.push_back(block.low.back());
    rest %= stride;
  }
  for (std::size_t d = 0; d < view.sizes.size(); ++d) {
    if (view.sizes[d] <= 1 || view.strides[d] == 0) continue;
    const auto at = std::ranges::find(strides, view.strides[d]) - strides.begin();
    block.high[static_cast<std::size_t>(at)] += view.sizes[d] - 1;
  }
  std::int64_t below = 0;  // the largest number that the digits so far make
  for (std::size_t k = strides.size(); k-- > 0;) {
    if (below >= strides[k]) return std::nullopt;
    below += block.high[k] * strides[k];  // inside the buffer, so it fits
  }
  return block;
}

void collect_strides(const View& view, std::vector<std::int64_t>& strides) {
  for (std::size_t d = 0; d < view.sizes.size(); ++d) {
    if (view.sizes[d] > 1 && view.strides[d] > 0) strides.push_back(view.strides[d]);
  }
}

std::size_t find_root(std::vector<std::size_t>& parent, std::size_t i) {
  while (parent[i] != i) i = parent[i] = parent[parent[i]];
  return i;
}

}  // namespace

bool may_overlap(const View& a, const View& b) {
  const auto last_a = last_index(a), last_b = last_index(b);
  if (!last_a || !last_b) return true;
  if (a.elements() == 0 || b.elements() == 0) return false;
  if (*last_a < b.offset || *last_b < a.offset) return false;
  std::vector<std::int64_t> strides{1};
  collect_strides(a, strides);
  collect_strides(b, strides);
  std::ranges::sort(strides, std::greater{});
  strides.erase(std::ranges::unique(strides).begin(), strides.end());
  const std::int64_t common = [&] {
    std::vector<std::int64_t> steps;
    collect_strides(a, steps);
    collect_strides(b, steps);
    return std::accumulate(steps.begin(), steps.end(), std::int64_t{0}, [](auto x, auto y) { return std::gcd(x, y); });
  }();
  const std::int64_t distance = b.offset - a.offset;
  if (common == 0 ? distance != 0 : distance % common != 0) return false;
  const auto block_a = block_of(a, strides), block_b = block_of(b, strides);
  if (!block_a || !block_b) return true;
  for (std::size_t k = 0; k < strides.size(); ++k) {
    if (block_a->high[k] < block_b->low[k] || block_b->high[k] < block_a->low[k]) return false;
  }
  return true;
}

std::vector<AliasSet> alias_sets(const Program& program) {
  // Per value its uses, those of one view together: a view that a hundred ops read is compared once.
  struct Views {
    std::vector<const View*> views;
    std::vector<std::pair<Use, std::size_t>> uses;  // and which view
    std::map<std::pair<std::vector<std::int64_t>, std::vector<std::int64_t>>, std::size_t> known;
  };
  std::vector<std::vector<Use>> uses(program.values.size());
  for (OpId op = 0; op < program.ops.size(); ++op) {
    for (std::uint32_t i = 0; i < program.ops[op].inputs.size(); ++i) {
      const Operand& input = program.ops[op].inputs[i];
      if (!input.is_scalar()) uses[input.value].push_back({op, i});
    }
  }
  std::vector<AliasSet> sets;
  for (ValueId value = 0; value < uses.size(); ++value) {
    Views of;
    for (const Use& use : uses[value]) {
      const View& view = program.ops[use.op].inputs[use.input].view;
      std::vector<std::int64_t> places = view.strides;
      places.push_back(view.offset);
      const auto [found, is_new] = of.known.emplace(std::pair{view.sizes, std::move(places)}, of.views.size());
      if (is_new) of.views.push_back(&view);
      of.uses.emplace_back(use, found->second);
    }
    // A set is a component of "may overlap". Empty views meet nothing, not even themselves: each use is a set of its
    // own.
    std::vector<std::size_t> parent(of.views.size());
    std::iota(parent.begin(), parent.end(), std::size_t{0});
    // By their first element, so that only those are compared that have not ended where another begins.
    std::vector<std::size_t> order(of.views.size()), open;
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, {}, [&](std::size_t i) { return of.views[i]->offset; });
    for (const std::size_t i : order) {
      std::erase_if(open, [&](std::size_t j) { return last_index(*of.views[j]).value_or(0) < of.views[i]->offset; });
      for (const std::size_t j : open) {
        const std::size_t a = find_root(parent, i), b = find_root(parent, j);
        if (a != b && may_overlap(*of.views[i], *of.views[j])) parent[std::max(a, b)] = std::min(a, b);
      }
      open.push_back(i);
    }
    std::map<std::size_t, std::size_t> set_of_root;
    for (const auto& [use, view] : of.uses) {
      const bool empty = of.views[view]->elements() == 0;
      const std::size_t root = find_root(parent, view);
      const auto [found, is_new] = set_of_root.emplace(root, sets.size());
      if (is_new || empty) found->second = sets.size(), sets.push_back({value, {}});
      sets[found->second].uses.push_back(use);
    }
  }
  return sets;
}

}  // namespace crucible::graph
