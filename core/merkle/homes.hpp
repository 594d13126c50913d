// Which module each op belongs to, those of the backward pass and of optimizers too.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/graph/program.hpp"

namespace crucible::merkle {

using PathId = std::uint32_t;

/// Module paths as a tree: "blocks.0.norm1" is inside "blocks.0". Path 0 is the root, "".
class Paths {
 public:
  PathId add(std::string_view path);
  /// The path, or the root where there is none of that name.
  PathId find(std::string_view path) const;
  PathId parent(PathId path) const { return nodes_[path].parent; }
  std::uint32_t depth(PathId path) const { return nodes_[path].depth; }  // of the root 0
  const std::string& name(PathId path) const { return nodes_[path].name; }
  std::size_t size() const { return nodes_.size(); }
  /// The innermost path that both are, or are inside of.
  PathId common(PathId a, PathId b) const;
  /// What of `path` lies one step inside of `outer`; `outer` itself where they are equal.
  PathId step_inside(PathId outer, PathId path) const;

 private:
  struct Node {
    std::string name;
    PathId parent = 0;
    std::uint32_t depth = 0;
    std::map<std::string, PathId, std::less<>> children;  // by their paths
  };
  PathId child(PathId parent, std::string_view name) const;
  std::vector<Node> nodes_{1};
};

struct Homes {
  Paths paths;
  std::vector<PathId> of;  // per op
};

/// The rules are those of cut_by_modules().
Homes homes(const graph::Program& program);

}  // namespace crucible::merkle
