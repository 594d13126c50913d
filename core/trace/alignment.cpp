// Equal starts and ends are cut off first; the furthest points of every number of edits are kept to walk back.
#include "core/trace/alignment.hpp"

#include <algorithm>

namespace crucible::trace {

namespace {

using Keys = std::span<const std::uint64_t>;

/// How far each diagonal (a - b) from -edits to +edits reaches in `a` after `edits` edits.
struct Front {
  std::vector<std::int32_t> reach;
  std::int32_t& at(std::int64_t diagonal, std::int64_t edits) {
    return reach[static_cast<std::size_t>(diagonal + edits)];
  }
};

/// Where the path to `diagonal` with `edits` edits comes from: one key of `b` left over (true) or one of `a`.
bool comes_from_above(Front& previous, std::int64_t diagonal, std::int64_t edits) {
  if (diagonal == -edits) return true;
  if (diagonal == edits) return false;
  return previous.at(diagonal - 1, edits - 1) < previous.at(diagonal + 1, edits - 1);
}

/// Runs of the middle part, back to front; false when more than `max_edits` are needed.
bool align_middle(Keys a, Keys b, std::size_t max_edits, std::vector<EqualRun>& runs) {
  const std::int64_t size_a = static_cast<std::int64_t>(a.size()), size_b = static_cast<std::int64_t>(b.size());
  const std::int64_t limit = std::min<std::int64_t>(size_a + size_b, static_cast<std::int64_t>(max_edits));
  std::vector<Front> fronts;
  std::int64_t edits = 0;
  bool is_found = false;
  for (; edits <= limit; ++edits) {
    fronts.emplace_back().reach.assign(static_cast<std::size_t>(2 * edits + 1), -1);
    for (std::int64_t diagonal = -edits; diagonal <= edits; diagonal += 2) {
      std::int64_t x = 0;
      if (edits > 0) {
        Front& previous = fronts[fronts.size() - 2];
        x = comes_from_above(previous, diagonal, edits) ? previous.at(diagonal + 1, edits - 1)
                                                        : previous.at(diagonal - 1, edits - 1) + 1;
      }
      // Outside the lists: a point that no path may go on from.
      if (x < 0 || x > size_a || x - diagonal < 0 || x - diagonal > size_b) {
        fronts.back().at(diagonal, edits) = -2;
        continue;
      }
      while (x < size_a && x - diagonal < size_b &&
             a[static_cast<std::size_t>(x)] == b[static_cast<std::size_t>(x - diagonal)])
        ++x;
      fronts.back().at(diagonal, edits) = static_cast<std::int32_t>(x);
      if (x == size_a && x - diagonal == size_b) {
        is_found = true;
        break;
      }
    }
    if (is_found) break;
  }
  if (!is_found) return false;
  std::int64_t x = size_a, y = size_b;
  for (; edits >= 0; --edits) {
    const std::int64_t diagonal = x - y;
    std::int64_t start = 0, from_x = 0, from_y = 0;
    if (edits > 0) {
      Front& previous = fronts[static_cast<std::size_t>(edits - 1)];
      const bool is_above = comes_from_above(previous, diagonal, edits);
      from_x = previous.at(is_above ? diagonal + 1 : diagonal - 1, edits - 1);
      from_y = from_x - (is_above ? diagonal + 1 : diagonal - 1);
      start = is_above ? from_x : from_x + 1;
    }
    if (x > start)
      runs.push_back({static_cast<std::size_t>(start), static_cast<std::size_t>(start - diagonal),
                      static_cast<std::size_t>(x - start)});
    x = from_x;
    y = from_y;
  }
  return true;
}

}  // namespace

Alignment align(Keys a, Keys b, std::size_t max_edits) {
  std::size_t head = 0, tail = 0;
  const std::size_t shorter = std::min(a.size(), b.size());
  while (head < shorter && a[head] == b[head]) ++head;
  while (tail < shorter - head && a[a.size() - 1 - tail] == b[b.size() - 1 - tail]) ++tail;
  std::vector<EqualRun> middle;
  Alignment alignment;
  alignment.is_shortest = align_middle(a.subspan(head, a.size() - head - tail), b.subspan(head, b.size() - head - tail),
                                       max_edits, middle);
  if (head > 0) alignment.runs.push_back({0, 0, head});
  for (auto run = middle.rbegin(); run != middle.rend(); ++run)
    alignment.runs.push_back({run->a + head, run->b + head, run->length});
  if (tail > 0) alignment.runs.push_back({a.size() - tail, b.size() - tail, tail});
  return alignment;
}

}  // namespace crucible::trace
