// Strided views: see view.hpp. All arithmetic that takes sizes from a file is checked for overflow.
#include "core/graph/view.hpp"

#include <algorithm>
#include <utility>

namespace crucible::graph {

std::optional<std::int64_t> checked_elements(const std::vector<std::int64_t>& sizes) {
  std::int64_t product = 1;
  bool empty = false;
  for (auto size : sizes) {
    if (size < 0) return std::nullopt;
    if (size == 0) empty = true;
    // Of an empty list too: its strides are products of these.
    if (size > 0 && __builtin_mul_overflow(product, size, &product)) return std::nullopt;
  }
  return empty ? 0 : product;
}

std::vector<std::int64_t> point_of(std::int64_t at, const std::vector<std::int64_t>& sizes) {
  std::vector<std::int64_t> point(sizes.size());
  for (std::size_t d = sizes.size(); d-- > 0; at /= sizes[d]) point[d] = at % sizes[d];
  return point;
}

std::int64_t element_at(const View& view, const std::vector<std::int64_t>& point) {
  std::int64_t element = view.offset;
  for (std::size_t d = 0; d < point.size(); ++d) element += point[d] * view.strides[d];
  return element;
}

std::optional<std::int64_t> last_index(const View& view) {
  if (view.sizes.size() != view.strides.size() || view.offset < 0) return std::nullopt;
  auto elements = checked_elements(view.sizes);
  if (!elements) return std::nullopt;
  std::int64_t last = view.offset;
  for (std::size_t d = 0; d < view.sizes.size(); ++d) {
    if (view.strides[d] < 0) return std::nullopt;
    std::int64_t step = 0;
    if (*elements == 0) continue;
    if (__builtin_mul_overflow(view.sizes[d] - 1, view.strides[d], &step)) return std::nullopt;
    if (__builtin_add_overflow(last, step, &last)) return std::nullopt;
  }
  return *elements == 0 ? -1 : last;
}

namespace {

/// (stride, size) of the dimensions larger than 1, smallest stride first.
std::vector<std::pair<std::int64_t, std::int64_t>> by_stride(const View& view) {
  std::vector<std::pair<std::int64_t, std::int64_t>> dims;
  for (std::size_t d = 0; d < view.sizes.size(); ++d) {
    if (view.sizes[d] > 1) dims.emplace_back(view.strides[d], view.sizes[d]);
  }
  std::sort(dims.begin(), dims.end());
  return dims;
}

}  // namespace

bool covers(const View& view, std::int64_t elements) {
  auto count = checked_elements(view.sizes);
  if (!count || *count != elements || !last_index(view)) return false;
  if (elements == 0) return true;
  if (view.offset != 0) return false;
  if (view.is_contiguous()) return true;
  std::int64_t expected = 1;
  for (auto [stride, size] : by_stride(view)) {
    if (stride != expected) return false;
    expected *= size;
  }
  return true;
}

bool is_injective(const View& view) {
  if (view.elements() <= 1) return true;
  std::int64_t reach = 0;  // the largest distance that the dimensions so far can make
  for (auto [stride, size] : by_stride(view)) {
    if (stride <= reach) return false;
    reach += (size - 1) * stride;
  }
  return true;
}

bool same_map(const View& a, const View& b) {
  if (a.sizes != b.sizes) return false;
  if (a.elements() == 0) return true;
  if (a.offset != b.offset) return false;
  for (std::size_t d = 0; d < a.sizes.size(); ++d) {
    if (a.sizes[d] > 1 && a.strides[d] != b.strides[d]) return false;
  }
  return true;
}

View normalized(View view) {
  if (view.elements() == 0) return View::contiguous(view.sizes);
  for (std::size_t d = view.sizes.size(); d-- > 0;) {
    if (view.sizes[d] != 1) continue;
    view.strides[d] = d + 1 < view.sizes.size() ? view.sizes[d + 1] * view.strides[d + 1] : 1;
  }
  return view;
}

std::optional<View> broadcast(const View& view, const std::vector<std::int64_t>& sizes) {
  if (view.sizes.size() > sizes.size()) return std::nullopt;
  View wide{view.offset, sizes, std::vector<std::int64_t>(sizes.size(), 0)};
  const std::size_t lead = sizes.size() - view.sizes.size();
  for (std::size_t d = 0; d < view.sizes.size(); ++d) {
    if (view.sizes[d] == sizes[lead + d]) {
      wide.strides[lead + d] = view.strides[d];
    } else if (view.sizes[d] != 1) {
      return std::nullopt;
    }
  }
  return wide;
}

std::optional<std::vector<std::int64_t>> broadcast_sizes(const std::vector<std::int64_t>& a,
                                                         const std::vector<std::int64_t>& b) {
  const auto& longer = a.size() >= b.size() ? a : b;
  const auto& shorter = a.size() >= b.size() ? b : a;
  auto sizes = longer;
  const std::size_t lead = longer.size() - shorter.size();
  for (std::size_t d = 0; d < shorter.size(); ++d) {
    auto& size = sizes[lead + d];
    if (size == shorter[d] || shorter[d] == 1) continue;
    if (size != 1) return std::nullopt;
    size = shorter[d];
  }
  return sizes;
}

std::optional<View> reshaped(const View& view, const std::vector<std::int64_t>& sizes) {
  auto count = checked_elements(sizes);
  if (!count || *count != view.elements()) return std::nullopt;
  View result{view.offset, sizes, std::vector<std::int64_t>(sizes.size(), 0)};
  if (*count == 0) return View::contiguous(sizes);
  // Merge the old dimensions into runs that are contiguous within themselves, then cut new dimensions from each run.
  std::vector<std::pair<std::int64_t, std::int64_t>> runs;  // (elements, stride of the last), outermost first
  for (std::size_t d = 0; d < view.sizes.size(); ++d) {
    if (view.sizes[d] == 1) continue;
    if (!runs.empty() && runs.back().second == view.sizes[d] * view.strides[d]) {
      runs.back() = {runs.back().first * view.sizes[d], view.strides[d]};
    } else {
      runs.emplace_back(view.sizes[d], view.strides[d]);
    }
  }
  std::size_t d = sizes.size();
  for (std::size_t r = runs.size(); r-- > 0;) {
    std::int64_t left = runs[r].first, stride = runs[r].second;
    while (left > 1) {
      if (d == 0) return std::nullopt;
      --d;
      if (left % sizes[d] != 0) return std::nullopt;
      result.strides[d] = stride;
      stride *= sizes[d];
      left /= sizes[d];
    }
  }
  return normalized(std::move(result));
}

std::optional<View> relaid(const View& reader, const View& from, const View& to) {
  if (reader.elements() == 0) return std::nullopt;
  // An index of the buffer as digits, one for each dimension of `from`, the most significant first.
  struct Digit {
    std::int64_t stride, size, to, largest;
  };
  std::vector<Digit> digits;
  for (std::size_t d = 0; d < from.sizes.size(); ++d) {
    if (from.sizes[d] > 1) digits.push_back({from.strides[d], from.sizes[d], to.strides[d], 0});
  }
  std::ranges::sort(digits, std::greater<>(), &Digit::stride);
  View result{to.offset, {}, {}};
  std::int64_t rest = reader.offset;
  for (Digit& digit : digits) {
    digit.largest = rest / digit.stride;
    result.offset += digit.largest * digit.to;
    rest %= digit.stride;
  }
  for (std::size_t d = 0; d < reader.sizes.size(); ++d) {
    const std::int64_t stride = reader.strides[d];
    std::int64_t left = reader.sizes[d];
    if (left == 1 || stride == 0) {
      result.sizes.push_back(left);
      result.strides.push_back(0);
      continue;
    }
    std::size_t j = 0;  // the most significant digit that one step of this dimension changes
    while (j < digits.size() && digits[j].stride > stride) ++j;
    if (j == digits.size() || stride % digits[j].stride != 0) return std::nullopt;
    const std::int64_t step = stride / digits[j].stride;
    const auto first = static_cast<std::ptrdiff_t>(result.sizes.size());
    while (left > 1) {  // the least significant digit that it counts through comes last
      const bool whole = step == 1 && left > digits[j].size;
      if (whole && (left % digits[j].size != 0 || j == 0)) return std::nullopt;
      const std::int64_t taken = whole ? digits[j].size : left;
      digits[j].largest += (taken - 1) * step;
      result.sizes.insert(result.sizes.begin() + first, taken);
      result.strides.insert(result.strides.begin() + first, step * digits[j].to);
      left /= taken;
      if (whole) --j;
    }
  }
  // A digit that overflows would carry into the next one, which `to` may have elsewhere.
  const bool carries = std::ranges::any_of(digits, [](const Digit& digit) { return digit.largest >= digit.size; });
  return carries ? std::nullopt : std::optional(std::move(result));
}

std::vector<std::int64_t> indices(const View& view) {
  std::vector<std::int64_t> result;
  result.reserve(static_cast<std::size_t>(view.elements()));
  for_each_row(view, [&](std::int64_t at, std::int64_t stride, std::int64_t size) {
    for (std::int64_t i = 0; i < size; ++i) result.push_back(at + i * stride);
  });
  return result;
}

}  // namespace crucible::graph
