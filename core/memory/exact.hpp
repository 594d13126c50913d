// The exact search of the planner: branch and bound over canonical placements, for parts of up to some hundred blocks.
//
// It finds a placement within a capacity, or proves that there is none, or runs out of nodes; the three are never
// confused. Knows every rule of a part.
#pragma once

#include <cstdint>
#include <memory>

#include "core/memory/blocks.hpp"

namespace crucible::memory {

enum class Search {
  kFound,      // a placement within the capacity
  kExhausted,  // there is none
  kUnknown,    // the nodes did not suffice
};

/// Searches of one part. Deterministic. Threads: one at a time.
/// Source: canonical placements in offset order, floors of sections and dominance as in Moffitt, MiniMalloc (ASPLOS
/// 2023).
class ExactSearch {
 public:
  static constexpr std::size_t kMaxBlocks = 640;

  explicit ExactSearch(const Part& part);
  ~ExactSearch();
  ExactSearch(const ExactSearch&) = delete;
  ExactSearch& operator=(const ExactSearch&) = delete;

  /// Looks for a placement whose peak is at most `capacity`; takes what it visits off `nodes`. `placed` is written only
  /// when one is found.
  Search run(std::uint64_t capacity, std::uint64_t& nodes, Placed& placed);

 private:
  class Tree;
  std::unique_ptr<Tree> tree_;
};

}  // namespace crucible::memory
