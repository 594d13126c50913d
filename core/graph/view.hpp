// Questions about strided views that verification, lowering, scheduling and the interpreter all ask. A View itself is
// defined in program.hpp; nothing here knows values or ops.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/graph/program.hpp"

namespace crucible::graph {

/// Product of the sizes; nothing when a size is negative or the product does not fit in 63 bits.
std::optional<std::int64_t> checked_elements(const std::vector<std::int64_t>& sizes);

/// The largest index that the view reaches; -1 for an empty view; nothing when it does not fit in 63 bits or when a
/// size, a stride or the offset is negative, or sizes and strides differ in number.
std::optional<std::int64_t> last_index(const View& view);

/// The index of element number `at` in row-major order; of sizes without a 0.
std::vector<std::int64_t> point_of(std::int64_t at, const std::vector<std::int64_t>& sizes);
/// Where in the buffer the view has the element of that index.
std::int64_t element_at(const View& view, const std::vector<std::int64_t>& point);

/// True when the view is a bijection onto the buffer [0, elements): a dense permutation of it without gaps.
bool covers(const View& view, std::int64_t elements);

/// True when no two of the view's indices are the same element. Sufficient, not necessary: strides that interleave
/// without ever meeting count as overlapping.
bool is_injective(const View& view);

/// True when both views map every index to the same element (strides of dimensions of size 1 do not matter).
bool same_map(const View& a, const View& b);

/// The same map with the strides of dimensions of size 1 as row-major order would have them, so that equal maps of
/// equal sizes are equal views. Empty views become contiguous at offset 0.
View normalized(View view);

/// The view with stride 0 where `view` has size 1 and `sizes` does not, and with leading dimensions added.
/// Nothing when the sizes do not broadcast.
std::optional<View> broadcast(const View& view, const std::vector<std::int64_t>& sizes);

/// The sizes that both broadcast to, by the usual rule (aligned at the last dimension, 1 stretches).
std::optional<std::vector<std::int64_t>> broadcast_sizes(const std::vector<std::int64_t>& a,
                                                         const std::vector<std::int64_t>& b);

/// The same elements in the same row-major order with other sizes; nothing when no strides can express that.
std::optional<View> reshaped(const View& view, const std::vector<std::int64_t>& sizes);

/// What `reader` reads of a buffer that was written through `from`, where the same elements were written through `to`
/// instead: a view of the reader's elements in its order, whose dimensions may be cut in several. `from` covers its
/// buffer (covers()) and has the sizes of `to`. Nothing when no strides can express that.
std::optional<View> relaid(const View& reader, const View& from, const View& to);

/// The buffer index of every element of the view in row-major order.
std::vector<std::int64_t> indices(const View& view);

/// Calls visit(first buffer index, stride, elements) for every row of the view's last dimension, in row-major order;
/// once for a view without dimensions, not at all for one without elements.
template <class Visit>
void for_each_row(const View& view, Visit visit) {
  if (view.elements() == 0) return;
  if (view.sizes.empty()) return visit(view.offset, std::int64_t{1}, std::int64_t{1});
  const std::size_t last = view.sizes.size() - 1;
  std::vector<std::int64_t> position(last, 0);
  std::int64_t at = view.offset;
  for (;;) {
    visit(at, view.strides[last], view.sizes[last]);
    std::size_t d = last;
    while (d-- > 0) {
      at += view.strides[d];
      if (++position[d] < view.sizes[d]) break;
      at -= view.strides[d] * view.sizes[d];
      position[d] = 0;
    }
    if (d == static_cast<std::size_t>(-1)) return;  // every dimension began anew: that was the last row
  }
}

}  // namespace crucible::graph
