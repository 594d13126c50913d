// Nests of single ops and the changes of their dimensions: see nest.hpp.
#include "core/kernel/fuse/nest.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace crucible::kernel {
namespace {

using graph::Op;
using graph::Operand;
using graph::OpKind;

template <class Visit>
void for_each_access(Group& group, Visit visit) {
  for (Member& member : group.members) {
    for (Access& access : member.inputs) visit(access);
    visit(member.output);
    if (!member.order.is_named()) continue;
    visit(member.order.block);
    visit(member.order.place);
  }
}

Access access_of(const graph::Program& program, const Operand& operand, std::size_t rank) {
  Access access;
  access.strides.assign(rank, 0);
  if (operand.is_scalar()) return access;
  access.value = operand.value;
  access.type = program.values[operand.value].dtype;
  access.offset = operand.view.offset;
  for (std::size_t d = 0; d < operand.view.sizes.size() && d < rank; ++d) {
    access.strides[d] = operand.view.sizes[d] == 1 ? 0 : operand.view.strides[d];
  }
  return access;
}

/// A coordinate read through a view, as an affine function of the point; nothing where it is none.
std::optional<Access> read_coordinate(const Op& generator, const graph::View& view, std::size_t rank) {
  const graph::View& made = generator.outputs[0].view;
  const auto dim = static_cast<std::size_t>(generator.attributes.dims[0]);
  if (made.elements() == 0 || !made.is_contiguous() || made.offset != 0 || view.offset != 0) return std::nullopt;
  std::int64_t inner = 1;
  for (std::size_t d = dim + 1; d < made.sizes.size(); ++d) inner *= made.sizes[d];
  const std::int64_t size = made.sizes[dim];
  Access access{.value = graph::kNone, .type = DType::kI64, .offset = 0, .strides = std::vector<std::int64_t>(rank, 0)};
  std::int64_t below = 0, within = 0;  // how far the dimensions so far reach inside a step, and in steps
  for (std::size_t d = 0; d < view.sizes.size() && d < rank; ++d) {
    if (view.sizes[d] == 1 || view.strides[d] % (inner * size) == 0) continue;
    if (view.strides[d] % inner == 0) {
      access.strides[d] = view.strides[d] / inner;
      within += access.strides[d] * (view.sizes[d] - 1);
    } else {
      below += view.strides[d] * (view.sizes[d] - 1);
    }
  }
  if (below >= inner || within >= size) return std::nullopt;
  return access;
}

Lookup lookup_of(OpKind kind) {
  if (kind == OpKind::kGatherRows) return Lookup::kRows;
  return kind == OpKind::kTake ? Lookup::kElements : Lookup::kNone;
}

void drop_ones(Group& group) {
  for (std::size_t d = group.sizes.size(); d-- > 0;) {
    if (group.sizes[d] != 1) continue;
    const auto at = static_cast<std::ptrdiff_t>(d);
    group.sizes.erase(group.sizes.begin() + at);
    group.reduced.erase(group.reduced.begin() + at);
    for_each_access(group, [&](Access& access) { access.strides.erase(access.strides.begin() + at); });
  }
}

bool joinable(const Group& group, std::size_t outer, std::size_t inner) {
  if (group.reduced[outer] != group.reduced[inner]) return false;
  const auto fits = [&](const Access& access) {
    return access.strides[outer] == access.strides[inner] * group.sizes[inner];
  };
  return std::ranges::all_of(group.members, [&](const Member& member) {
    const bool keeps_order = !member.order.is_named() || (fits(member.order.block) && fits(member.order.place));
    return keeps_order && fits(member.output) && std::ranges::all_of(member.inputs, fits);
  });
}

/// Which dimensions of a sum's logical shape are places in a block; one of them may be divided for it. `chains` is set.
/// `pieces`: of Attributes.
std::vector<bool> divide_into_blocks(Group& group, std::int64_t pieces, std::int64_t& chains) {
  std::size_t last = group.sizes.size();  // of the dimensions of more than one element
  std::size_t innermost = last;           // of those that are reduced
  for (std::size_t d = 0; d < group.sizes.size(); ++d) {
    if (group.sizes[d] == 1) continue;
    last = d;
    if (group.reduced[d]) innermost = d;
  }
  std::vector<bool> is_place(group.sizes.size(), false);
  const auto divide = [&](std::size_t d, std::int64_t inner) {
    if (inner == 1) return;
    if (inner < group.sizes[d]) {
      split_dimension(group, d, {group.sizes[d] / inner, inner});
      is_place.insert(is_place.begin() + static_cast<std::ptrdiff_t>(d), false);
      ++d;
    }
    is_place[d] = true;
  };
  if (pieces > 0) {
    chains = 1;
    divide(0, divisor_below(pieces, kPiecesAtOnce));
    return is_place;
  }
  if (innermost != last) {
    chains = 1;
    divide(innermost, group.sizes[innermost] % kTreeTerms == 0 ? kTreeTerms : 1);
    return is_place;
  }
  // Neighbouring reduced dimensions are one; a block is as much of it as fits and divides it.
  constexpr std::int64_t kShortestBlock = 256;
  std::int64_t places = 1;
  for (std::size_t d = innermost + 1; d-- > 0 && (group.reduced[d] || group.sizes[d] == 1);) {
    if (group.sizes[d] == 1) continue;
    const std::int64_t size = group.sizes[d];
    const std::int64_t part = divisor_below(size, kLongestBlock / places);
    const bool fits = part == size, is_divided = !fits && places * part >= kShortestBlock;
    if (!fits && !is_divided && places >= kShortestBlock) break;
    places *= is_divided ? part : size;
    divide(d, is_divided ? part : size);
    if (!fits) break;
  }
  for (chains = 2; chains < places && chains < kMostChains;) chains *= 2;
  return is_place;
}

/// Names the order of a group of one sum or product, before its dimensions of size 1 are dropped.
void name_order(Group& group, std::int64_t pieces) {
  const auto reduced = [&](std::size_t d) { return group.reduced[d] && group.sizes[d] != 1; };
  bool any = false;
  for (std::size_t d = 0; d < group.sizes.size(); ++d) any |= reduced(d);
  if (!any || group.elements() == 0) return;
  std::int64_t chains = 0;
  const std::vector<bool> is_place = divide_into_blocks(group, pieces, chains);
  SumOrder& order = group.members[0].order;
  order.chains = chains;
  order.in_sequence = pieces > 0;
  order.block.type = order.place.type = DType::kI64;
  order.block.strides.assign(group.sizes.size(), 0);
  order.place.strides.assign(group.sizes.size(), 0);
  std::int64_t blocks = 1, places = 1;
  for (std::size_t d = group.sizes.size(); d-- > 0;) {
    if (!reduced(d)) continue;
    std::int64_t& count = is_place[d] ? places : blocks;
    (is_place[d] ? order.place : order.block).strides[d] = count;
    count *= group.sizes[d];
  }
}

}  // namespace

std::int64_t divisor_below(std::int64_t size, std::int64_t most) {
  for (std::int64_t d = std::min(size, most); d > 1; --d) {
    if (size % d == 0) return d;
  }
  return 1;
}

std::int64_t Group::elements() const {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

std::int64_t Group::rows() const {
  std::int64_t count = 1;
  for (std::size_t d = 0; d < sizes.size(); ++d) count *= reduced[d] ? 1 : sizes[d];
  return count;
}

bool Group::has_reduction() const {
  return std::ranges::any_of(reduced, [](bool r) { return r; });
}

const SumOrder* Group::order() const {
  const auto found = std::ranges::find_if(members, [](const Member& member) { return member.order.is_named(); });
  return found == members.end() ? nullptr : &found->order;
}

const Member* Group::producer(graph::ValueId value) const {
  const auto found = std::ranges::find_if(members, [&](const Member& member) { return member.output.value == value; });
  return found == members.end() ? nullptr : &*found;
}

std::optional<Group> make_group(const graph::Program& program, graph::OpId index, Numerics numerics) {
  const Op& op = program.ops[index];
  const bool reduction = graph::is_reduction(op.kind);
  const Lookup lookup = lookup_of(op.kind);
  if (!graph::is_elementwise(op.kind) && !reduction && lookup == Lookup::kNone) return std::nullopt;
  Group group;
  group.sizes = reduction ? op.inputs[0].view.sizes : op.outputs[0].view.sizes;
  const std::size_t rank = group.sizes.size();
  group.reduced.assign(rank, false);
  Member member{
      .op = index, .inputs = {}, .generators = {}, .output = access_of(program, op.outputs[0], rank), .order = {}};
  if (reduction) {
    for (auto dim : op.attributes.dims) {
      group.reduced[static_cast<std::size_t>(dim)] = true;
      member.output.strides[static_cast<std::size_t>(dim)] = 0;
    }
  }
  member.generators.assign(op.inputs.size(), graph::kNone);
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    const Operand& input = op.inputs[i];
    member.inputs.push_back(access_of(program, input, rank));
    const bool in_memory = lookup == Lookup::kRows || (lookup == Lookup::kElements && i == 0);
    if (input.is_scalar() || in_memory) continue;
    const graph::OpId producer = program.values[input.value].producer;
    if (producer == graph::kNone) continue;
    const Op& generator = program.ops[producer];
    if (generator.kind == OpKind::kFill) {
      member.inputs.back() = Access{.strides = std::vector<std::int64_t>(rank, 0)};
      member.generators[i] = producer;
    } else if (generator.kind == OpKind::kCoordinate) {
      if (auto coordinate = read_coordinate(generator, input.view, rank)) {
        member.inputs.back() = *std::move(coordinate);
        member.generators[i] = producer;
      }
    }
  }
  if (op.kind == OpKind::kCoordinate) {
    Access coordinate{
        .value = graph::kNone, .type = DType::kI64, .offset = 0, .strides = std::vector<std::int64_t>(rank, 0)};
    coordinate.strides[static_cast<std::size_t>(op.attributes.dims[0])] = 1;
    member.inputs.push_back(std::move(coordinate));
  } else if (lookup != Lookup::kNone) {
    const graph::View& table = op.inputs[0].view;
    member.lookup = lookup;
    member.row_stride = table.sizes[0] == 1 ? 0 : table.strides[0];
    std::ranges::fill(member.inputs[0].strides, 0);
    if (lookup == Lookup::kRows) member.inputs[0].strides[rank - 1] = table.sizes[1] == 1 ? 0 : table.strides[1];
  }
  group.members.push_back(std::move(member));
  const bool has_order = op.kind == OpKind::kReduceSum || op.kind == OpKind::kReduceProduct;
  const bool is_named = (numerics == Numerics::kStrict && has_order) || op.attributes.pieces > 0;
  if (reduction && is_named && !is_integral(program.values[op.outputs[0].value].dtype))
    name_order(group, op.attributes.pieces);
  drop_ones(group);
  return group;
}

void split_dimension(Group& group, std::size_t dim, const std::vector<std::int64_t>& factors) {
  if (factors.size() == 1) return;
  const auto at = static_cast<std::ptrdiff_t>(dim);
  const bool reduced = group.reduced[dim];
  group.sizes.erase(group.sizes.begin() + at);
  group.sizes.insert(group.sizes.begin() + at, factors.begin(), factors.end());
  group.reduced.erase(group.reduced.begin() + at);
  group.reduced.insert(group.reduced.begin() + at, factors.size(), reduced);
  for_each_access(group, [&](Access& access) {
    std::int64_t stride = access.strides[dim];
    std::vector<std::int64_t> strides(factors.size());
    for (std::size_t i = factors.size(); i-- > 0;) {
      strides[i] = stride;
      stride *= factors[i];
    }
    access.strides.erase(access.strides.begin() + at);
    access.strides.insert(access.strides.begin() + at, strides.begin(), strides.end());
  });
}

void permute_dimensions(Group& group, const std::vector<std::size_t>& order) {
  const auto permuted = [&](const auto& old) {
    auto result = old;
    for (std::size_t i = 0; i < order.size(); ++i) result[i] = old[order[i]];
    return result;
  };
  group.sizes = permuted(group.sizes);
  group.reduced = permuted(group.reduced);
  for_each_access(group, [&](Access& access) { access.strides = permuted(access.strides); });
}

void collapse_dimensions(Group& group) {
  drop_ones(group);
  const std::size_t rank = group.sizes.size();
  // The widest write decides the order; the first input where a whole reduction writes one element.
  std::vector<std::int64_t> weight(rank, 0);
  for (const Member& member : group.members) {
    const auto consider = [&](const Access& access) {
      for (std::size_t d = 0; d < rank; ++d) {
        if (weight[d] == 0) weight[d] = access.strides[d];
      }
    };
    if (member.output.value != graph::kNone && !member.over_rows) consider(member.output);
    for (const Access& input : member.inputs) {
      if (!member.over_rows) consider(input);
    }
  }
  std::vector<std::size_t> order(rank);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    if (group.reduced[a] != group.reduced[b]) return static_cast<bool>(group.reduced[b]);
    return weight[a] > weight[b];
  });
  permute_dimensions(group, order);
  for (std::size_t d = group.sizes.size(); d-- > 1;) {
    if (!joinable(group, d - 1, d)) continue;
    const auto at = static_cast<std::ptrdiff_t>(d - 1);
    group.sizes[d] *= group.sizes[d - 1];
    group.sizes.erase(group.sizes.begin() + at);
    group.reduced.erase(group.reduced.begin() + at);
    for_each_access(group, [&](Access& access) { access.strides.erase(access.strides.begin() + at); });
  }
}

bool same_access(const Access& a, const Access& b, const std::vector<std::int64_t>& sizes) {
  if (a.value != b.value || a.offset != b.offset) return false;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] > 1 && a.strides[d] != b.strides[d]) return false;
  }
  return true;
}

}  // namespace crucible::kernel
