// Methods of the program's plain structures; the rules that a whole program must keep are in verify.cpp.
#include "core/graph/program.hpp"

#include "core/graph/view.hpp"

namespace crucible::graph {

std::int64_t View::elements() const { return checked_elements(sizes).value_or(0); }

bool View::is_contiguous() const {
  std::int64_t expected = 1;
  if (elements() == 0) return true;
  for (std::size_t d = sizes.size(); d-- > 0;) {
    if (sizes[d] == 1) continue;
    if (strides[d] != expected) return false;
    expected *= sizes[d];
  }
  return true;
}

View View::contiguous(std::vector<std::int64_t> sizes) {
  View view{0, std::move(sizes), {}};
  view.strides.assign(view.sizes.size(), 1);
  for (std::size_t d = view.sizes.size(); d-- > 1;) {
    const auto size =
        static_cast<std::uint64_t>(view.sizes[d]);  // unsigned: a size from a file may overflow, verify says so
    view.strides[d - 1] = static_cast<std::int64_t>(static_cast<std::uint64_t>(view.strides[d]) * size);
  }
  return view;
}

}  // namespace crucible::graph
