// Correspondence of dimensions and its proof: see merge.hpp.
#include "core/kernel/fuse/merge.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <numeric>
#include <utility>

#include "core/graph/program.hpp"

namespace crucible::kernel {
namespace {

using Sizes = std::vector<std::int64_t>;

/// The dimensions that an access walks, largest stride first, and those along which it stands still.
struct Walk {
  std::vector<std::size_t> moving, still;
};

Walk walk_of(const Group& group, const Access& access) {
  Walk walk;
  for (std::size_t d = 0; d < group.sizes.size(); ++d) (access.strides[d] != 0 ? walk.moving : walk.still).push_back(d);
  std::ranges::stable_sort(walk.moving,
                           [&](std::size_t x, std::size_t y) { return access.strides[x] > access.strides[y]; });
  return walk;
}

Sizes sizes_of(const Group& group, const std::vector<std::size_t>& dims) {
  Sizes sizes;
  for (auto d : dims) sizes.push_back(group.sizes[d]);
  return sizes;
}

std::int64_t product(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

/// Divides `dims` of the group as `parts` says and returns where each part now lies.
std::vector<std::size_t> divide(Group& group, std::vector<std::vector<std::size_t>*> lists,
                                const std::vector<Sizes>& parts) {
  // Per old dimension, its factors; parts[i] runs over all dimensions of lists[i] in that list's order.
  std::vector<Sizes> factors(group.sizes.size());
  std::vector<std::vector<std::pair<std::size_t, std::size_t>>> places(lists.size());  // (old dimension, factor)
  for (std::size_t i = 0; i < lists.size(); ++i) {
    std::size_t next = 0;
    for (auto d : *lists[i]) {
      std::int64_t left = group.sizes[d];
      while (left > 1) {
        places[i].emplace_back(d, factors[d].size());
        factors[d].push_back(parts[i][next]);
        left /= parts[i][next++];
      }
    }
  }
  std::vector<std::size_t> first(group.sizes.size(), 0);
  for (std::size_t d = 1; d < first.size(); ++d) first[d] = first[d - 1] + factors[d - 1].size();
  for (std::size_t d = group.sizes.size(); d-- > 0;) split_dimension(group, d, factors[d]);
  std::vector<std::size_t> all;
  for (const auto& list : places) {
    for (auto [d, factor] : list) all.push_back(first[d] + factor);
  }
  return all;
}

/// True when exactly `dims` are reduced.
bool reduces_exactly(const Group& group, const std::vector<std::size_t>& dims) {
  std::vector<bool> named(group.sizes.size(), false);
  for (auto d : dims) named[d] = true;
  return named == group.reduced;
}

/// Gives `rows`, whose space is the kept part of another group's, the other's reduced dimensions as well.
void widen(Group& rows, const Sizes& reduced_sizes) {
  for (auto size : reduced_sizes) {
    rows.sizes.push_back(size);
    rows.reduced.push_back(true);
    for (Member& member : rows.members) {
      for (Access& access : member.inputs) access.strides.push_back(0);
      member.output.strides.push_back(0);
    }
  }
  for (Member& member : rows.members) member.over_rows = true;
}

/// Brings both groups to one list of dimensions, so that the two accesses of the value coincide. `a` must be the one
/// with more standing dimensions when only one has any.
bool align(Group& a, Group& b, const Access& in_a, const Access& in_b) {
  Walk wa = walk_of(a, in_a), wb = walk_of(b, in_b);
  const auto moving = common_division(sizes_of(a, wa.moving), sizes_of(b, wb.moving));
  if (!moving) return false;
  const bool b_is_rows = wb.still.empty() && !wa.still.empty();
  if (b_is_rows) {
    if (!a.has_reduction() || !reduces_exactly(a, wa.still) || b.has_reduction()) return false;
    const Sizes still = sizes_of(a, wa.still);
    auto order_a = divide(a, {&wa.moving, &wa.still}, {*moving, still});
    auto order_b = divide(b, {&wb.moving}, {*moving});
    permute_dimensions(a, order_a);
    permute_dimensions(b, order_b);
    widen(b, still);
    return true;
  }
  if (wa.still.empty() != wb.still.empty()) return false;
  if (!wa.still.empty()) {
    if (!a.has_reduction() && !b.has_reduction()) return false;
    if (a.has_reduction() && !reduces_exactly(a, wa.still)) return false;
    if (b.has_reduction() && !reduces_exactly(b, wb.still)) return false;
  }
  const auto still = common_division(sizes_of(a, wa.still), sizes_of(b, wb.still));
  if (!still) return false;
  auto order_a = divide(a, {&wa.moving, &wa.still}, {*moving, *still});
  auto order_b = divide(b, {&wb.moving, &wb.still}, {*moving, *still});
  permute_dimensions(a, order_a);
  permute_dimensions(b, order_b);
  return true;
}

/// Every value that passes from a member of the one to a member of the other, whose dimensions are the same, is read
/// where it was written.
bool passes_in_place(const Group& writers, const Group& readers) {
  for (const Member& reader : readers.members) {
    for (std::size_t i = 0; i < reader.inputs.size(); ++i) {
      const Access& input = reader.inputs[i];
      if (input.value == graph::kNone) continue;
      const Member* writer = writers.producer(input.value);
      if (writer == nullptr) continue;
      // A table must lie in memory, and so must the ids of rows.
      if (reader.lookup == Lookup::kRows || (reader.lookup == Lookup::kElements && i == 0)) return false;
      if (!same_access(writer->output, input, writers.sizes)) return false;
    }
  }
  return true;
}

bool same_order(const SumOrder& a, const SumOrder& b, const Sizes& sizes) {
  return a.chains == b.chains && a.in_sequence == b.in_sequence && same_access(a.block, b.block, sizes) &&
         same_access(a.place, b.place, sizes);
}

/// What passes within each of the two was looked at when it was joined, and stays right when dimensions change.
bool can_join(const Group& a, const Group& b) {
  if (a.sizes != b.sizes) return false;
  if (a.has_reduction() && b.has_reduction() && a.reduced != b.reduced) return false;
  if (a.order() != nullptr && b.order() != nullptr && !same_order(*a.order(), *b.order(), a.sizes)) return false;
  return passes_in_place(a, b) && passes_in_place(b, a);
}

/// True where a walk through the value takes the dimensions in their order, all of them.
bool walks_all_in_order(const Access& access) {
  return std::ranges::find(access.strides, 0) == access.strides.end() &&
         std::ranges::is_sorted(access.strides, std::greater<>());
}

struct Link {
  const Access* a;
  const Access* b;
  std::size_t still;  // standing dimensions: the fewer, the more the link says
  bool passes;        // one group writes it, the other reads it
};

std::vector<Link> links_between(const Group& a, const Group& b) {
  std::vector<Link> links;
  const auto still = [](const Access& access) {
    return static_cast<std::size_t>(std::ranges::count(access.strides, 0));
  };
  const auto for_each = [](const Group& group, auto visit) {
    for (const Member& member : group.members) {
      if (member.lookup == Lookup::kNone) {
        for (const Access& input : member.inputs) visit(input, false);
      } else if (member.lookup == Lookup::kElements) {
        visit(member.inputs[1], false);
      }
      visit(member.output, true);
    }
  };
  for_each(a, [&](const Access& in_a, bool writes_a) {
    if (in_a.value == graph::kNone) return;
    for_each(b, [&](const Access& in_b, bool writes_b) {
      if (in_b.value != in_a.value || in_b.offset != in_a.offset) return;
      links.push_back({&in_a, &in_b, still(in_a) + still(in_b), writes_a != writes_b});
    });
  });
  std::ranges::stable_sort(
      links, [](const Link& x, const Link& y) { return x.passes != y.passes ? x.passes : x.still < y.still; });
  return links;
}

}  // namespace

std::optional<Sizes> common_division(const Sizes& a, const Sizes& b) {
  if (product(a) != product(b) || product(a) == 0) return std::nullopt;
  Sizes result;
  std::size_t i = 0, j = 0;
  std::int64_t left_a = 1, left_b = 1;
  while (i < a.size() || j < b.size() || left_a != 1 || left_b != 1) {
    if (left_a == 1 && i < a.size()) left_a = a[i++];
    if (left_b == 1 && j < b.size()) left_b = b[j++];
    if (left_a == 1 && left_b == 1) continue;
    if (left_a == 1 || left_b == 1) return std::nullopt;
    // The inner part comes last: outermost first, so the larger one is cut from its outer side.
    const std::int64_t part = std::min(left_a, left_b);
    if (left_a % part != 0 || left_b % part != 0) return std::nullopt;
    result.push_back(part);
    left_a /= part;
    left_b /= part;
  }
  return result;
}

std::optional<Group> merge_groups(const Group& a, const Group& b) {
  if (a.sizes.empty() && b.sizes.empty())
    return can_join(a, b) ? std::optional(put_together(a, b)) : std::nullopt;  // single elements correspond in any case
  constexpr std::size_t kMostAttempts = 6;
  auto links = links_between(a, b);
  if (links.size() > kMostAttempts) links.resize(kMostAttempts);
  for (const Link& link : links) {
    Group left = a, right = b;
    const bool a_wider = std::ranges::count(link.a->strides, 0) >= std::ranges::count(link.b->strides, 0);
    const bool aligned = a_wider ? align(left, right, *link.a, *link.b) : align(right, left, *link.b, *link.a);
    if (aligned && can_join(left, right)) return put_together(std::move(left), std::move(right));
  }
  return std::nullopt;
}

bool fit_as_they_are(const Group& a, const Group& b) {
  if (a.sizes != b.sizes) return false;
  if (!a.sizes.empty()) {  // the first link decides, and changes no dimension
    const auto links = links_between(a, b);
    if (links.empty() || !walks_all_in_order(*links[0].a) || !walks_all_in_order(*links[0].b)) return false;
  }
  return can_join(a, b);
}

Group put_together(Group a, Group b) {
  for (std::size_t d = 0; d < a.reduced.size(); ++d) a.reduced[d] = a.reduced[d] || b.reduced[d];
  const auto middle = static_cast<std::ptrdiff_t>(a.members.size());
  std::ranges::move(b.members, std::back_inserter(a.members));
  std::ranges::inplace_merge(a.members, a.members.begin() + middle, {}, &Member::op);
  return a;
}

}  // namespace crucible::kernel
