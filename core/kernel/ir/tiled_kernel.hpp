// Kernels that multiply matrices by tiles (TileProduct), for who wants some of their results alone: what of the text
// depends on what. A result needs one row of the left operand and one column of the right one, which loops have copied
// into arrays before; all other rows and columns can be left out, of the copies too. Kernels in which anything but a
// store to memory reads what tiles leave are not taken.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/kernel/ir/interpreter_plan.hpp"
#include "plugins/kernel_ir/kernel_ir.hpp"

namespace crucible::kernel {

class TiledKernel {
 public:
  /// The kernel outlives this.
  explicit TiledKernel(const KernelIr& kernel);

  /// False where there are no tiles, or what they make goes other ways.
  bool may_sample() const { return may_sample_; }

  enum class Role : std::uint8_t {
    kWhole,  // every pass counts: it runs over steps of sums, or keeps tables
    kTiles,  // each pass has tiles of its own, whose results it stores
    kStores,  // each pass stores results of a tile
    kFill,    // writes elements of a tile's arrays, each on its own
  };
  /// Of a kFor of the kernel.
  Role role(const Stmt& loop) const { return loops_.at(&loop).role; }
  bool has_tile(const Stmt& loop) const { return loops_.at(&loop).has_tile; }
  /// Arrays of which tiles read or write elements.
  bool is_tiles(ArrayId array) const { return is_tiles_[array]; }
  /// Whether an expression depends on what is in memory, or on a variable that changes.
  bool reads_memory(ExprId id) const;

  /// One store to an array in a loop of Role::kFill.
  struct Leaf {
    const Stmt* store = nullptr;
    std::vector<const Stmt*>
        path;  // outermost first: the loops around it, and what they define without a look at memory
    std::vector<std::int64_t> factors;    // of the loops' variables in the store's index
    std::unique_ptr<LanePlan> plan;       // slots 0 and on: the variables of the loops
  };
  const std::vector<Leaf>& leaves(const Stmt& loop) const { return loops_.at(&loop).leaves; }
  /// What a variable stands for, if it is defined once.
  ExprId definition(VariableId id) const { return definitions_[id]; }

 private:
  struct Loop {
    Role role = Role::kWhole;
    bool has_tile = false;
    std::vector<Leaf> leaves;
  };
  struct Contents {
    bool has_tile = false, has_store = false, has_transpose = false, has_set = false;
    bool reads_tiles = false, fills = false, has_other_elements = false;
  };
  void find_definitions(const std::vector<Stmt>& body);
  void collect(const Stmt& stmt, Contents& contents) const;
  bool reads_tiles(ExprId id) const;
  bool depends_on(ExprId id, VariableId variable) const;
  bool may_skip(const Stmt& stmt, VariableId variable) const;
  bool decide(const std::vector<Stmt>& body);
  bool decide_loop(const Stmt& loop, Loop& known);
  bool find_leaves(const Stmt& loop, std::vector<const Stmt*>& path, std::vector<Leaf>& leaves);
  bool add_leaf(const Stmt& store, const std::vector<const Stmt*>& path, std::vector<Leaf>& leaves);
  bool has_factor(ExprId id, VariableId variable, std::int64_t& factor) const;

  const KernelIr& kernel_;
  std::vector<bool> is_tiles_;          // per array
  std::vector<ExprId> definitions_;     // per variable; kNoId where it is set, or a loop's
  std::vector<bool> is_set_;            // per variable
  mutable std::vector<std::optional<bool>> reads_memory_;  // per expression that was asked for
  std::unordered_map<const Stmt*, Loop> loops_;
  bool may_sample_ = false;
};

}  // namespace crucible::kernel
