// Indices that come from data: where eager PyTorch raises an IndexError, the program carries the least and the largest
// index out of each iteration, as one list of whole numbers with the range of each (graph::Bound). Who runs the program
// refuses an iteration whose indices lay outside. Memory is safe without this: kernels guard each access by themselves
// (kernel::IrBuilder::guard).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "core/base/result.hpp"
#include "core/graph/program.hpp"
#include "core/trace/trace.hpp"
#include "frontends/aten/algebra/term.hpp"

namespace crucible::aten {

class Emitter;

/// Both ends included.
struct IndexInterval {
  std::int64_t low = 0, high = 0;
};

/// Where all elements of an integer operand lie, as far as the ops that made it say: coordinates, places of extrema and
/// of sorted elements, numbers, types of few bits, and what choosing, clamping and moving makes of those. Nothing where
/// data decides. Never computes anything.
std::optional<IndexInterval> proven_interval(const graph::Program& program, const graph::Operand& operand);

class IndexBounds {
 public:
  /// What an op expects of its indices.
  struct Expected {
    Term index;
    IndexInterval within;
    std::optional<std::int64_t> except;  // a number that may be among them all the same
    std::uint32_t source = graph::kNone;
  };

  /// Notes it; nothing is emitted yet, for the op may turn out to be none that is lowered, or become a composite.
  void expect(Expected expected) { expected_.push_back(std::move(expected)); }
  void forget() { expected_.clear(); }
  /// Emits the extrema of what was noted and is not proven. Called when an op is lowered.
  void emit(Emitter& e);
  /// One output of all bounds, if there are any. Those of constants are read from their blobs: what lies inside needs
  /// no bound. Errors: kBadInput when a constant index lies outside.
  Result<void> finish(Emitter& e, const trace::BlobStore& blobs);

  std::size_t proven() const { return proven_; }

 private:
  struct Emitted {
    graph::Bound bound;
    std::optional<std::int64_t> except;
    Term index, least, most;
  };
  using Key = std::tuple<graph::ValueId, std::int64_t, std::vector<std::int64_t>, std::vector<std::int64_t>,
                         std::int64_t, std::int64_t, std::optional<std::int64_t>>;

  std::vector<Expected> expected_;
  std::vector<Emitted> emitted_;
  std::map<Key, std::size_t> known_;  // the same indices of the same range are bound once
  std::size_t proven_ = 0;
};

}  // namespace crucible::aten
