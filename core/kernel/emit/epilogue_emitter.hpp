// The epilogue of a product, written into the loop over the lanes of a row that stores the result (tile_product.hpp):
// reads the other operands through their index maps, computes each member with the roundings that it has in a kernel of
// its own, and stores what others need; the product's own result too, if it is needed. Which groups are epilogues is
// decided in epilogue.hpp.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "core/kernel/emit/emit.hpp"

namespace crucible::kernel {

class EpilogueEmitter {
 public:
  /// Binds buffers: operands in the order of the members, then results. The operands of the product have theirs
  /// already.
  EpilogueEmitter(const graph::Program& program, const Epilogue& epilogue, graph::OpId product, IrBuilder& builder,
                  Binder& binder);

  /// Lanes of a row come next, all blocks that put() will be called in are inside of this one. `point`: the coordinates
  /// that the product's nest counts (epilogue.hpp). `along`: which of them a lane is added to; kNoCounter: none, where
  /// lanes have no coordinate.
  void start_row(std::vector<ExprId> point, std::size_t along);
  static constexpr std::size_t kNoCounter = SIZE_MAX;

  /// True when what lanes count is cut into several dimensions: then start_row() is for pieces of kEpilogueLanes lanes
  /// at most.
  bool cuts_lanes(std::size_t along) const;

  /// One element: `sum` in the compute type, not yet rounded to the result's; `place`: where the result has it, if it
  /// were stored.
  void put(ExprId sum, ExprId lane, ExprId place);

  /// Where streams of memory along a row begin that lane `lane` stores to; nothing is emitted but prefetches.
  void expect(ExprId lane, ExprId place);

  /// Adds scalars, in-place pairs, and what it costs.
  void finish(Emitted& emitted);

 private:
  using Key = std::tuple<graph::ValueId, std::int64_t, std::vector<std::int64_t>>;
  /// An access along the lanes of a row: from `base` by `stride` per lane, or `base` elements beside the result.
  struct Reach {
    ExprId base = kNoId;
    std::int64_t stride = 0;
    bool is_beside = false, may_leave = false;  // may_leave: intervals cannot see that it stays inside
  };
  Reach reach_of(const Access& access, const std::vector<ExprId>& point, std::size_t along);
  /// The index along dimension `d`, of lane 0; kNoId where no coordinate counts it.
  ExprId index_of(std::size_t d, const std::vector<ExprId>& point, std::size_t along, std::int64_t* stride,
                  bool* may_leave);
  ExprId place_of(const Access& access);
  ExprId value_of(const Access& access);
  ExprId compute(const Member& member);
  std::vector<AliasPair> alias_pairs() const;

  const graph::Program& program_;
  const Group& group_;
  const std::set<graph::ValueId>& stored_;
  IrBuilder& b_;
  Binder& binder_;
  const Member* product_ = nullptr;
  std::vector<std::int64_t> extents_;  // per counter
  std::map<Key, Reach> reaches_;       // of the present row
  ExprId lane_ = kNoId, place_ = kNoId;
  std::map<graph::ValueId, ExprId> known_;  // of the present element
  std::map<Key, ExprId> loads_;
};

}  // namespace crucible::kernel
