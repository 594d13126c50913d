// Products of matrices by blocks that fit into registers (Tile, kernel_ir.hpp): which rows and columns a work item
// owns, how a block of k is done, where the sums wait. What the matrices are is the derived class's: emit_matmul.cpp
// has views, emit_conv_tiles.cpp has windows. A work item owns a block of rows and some panels of columns; on a device
// whose threads run in step, a few elements.
//
// Each element is one ascending chain of fused multiply-adds per chunk of kChunk steps, and the chunks are added in
// order, whatever the blocks: sizes of blocks, threads and devices change no bit.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <vector>

#include "core/kernel/emit/device_shape.hpp"
#include "core/kernel/emit/emit.hpp"

namespace crucible::kernel {

class TileProduct {
 public:
  /// Of copying an element of an operand into scratch, in multiply-adds.
  struct CopyCosts {
    double left, right;
  };

  virtual ~TileProduct() = default;
  TileProduct(const TileProduct&) = delete;
  TileProduct& operator=(const TileProduct&) = delete;

 protected:
  static constexpr std::int64_t kChunk =
      graph::kStepsOfPiece;  // of k; a panel of the right operand of this depth stays in the first cache

  /// A block in registers: rows, and vectors of 64 bytes in a row.
  struct Shape {
    std::int64_t rows, vectors;
  };

  /// Rows of one work item as tiles: `count` tiles of `height` rows each, from row `first`.
  struct Tiles {
    std::int64_t first, height, count;
  };

  /// Sums are of `type`, f32 or f64.
  TileProduct(DType type, const DeviceShape& device, CopyCosts costs)
      : type_(type),
        tiles_(tiles_for(device.register_bytes)),
        shape_(tiles_.front()),
        workers_(device.workers),
        lanes_(device.lanes),
        cut_(device.cut),
        costs_(costs) {}

  /// Writes the kernel. `batches_`, m_, n_ and k_ are set. Returns the number of work items.
  double emit_tiles();

  /// After emit_tiles(): the ways to cut the product that are worth a measurement, best score first. Empty when there
  /// are no results.
  const std::vector<ProductCut>& cuts() const { return cuts_; }

  // ---- what the matrices are ----
  /// Sets packs_left_ and packs_right_; blocks are chosen.
  virtual void choose_packing() = 0;
  /// Further scratch and what a work item needs to know, at its beginning; its batch is in batch_index_.
  virtual void start_item() {}
  /// A work item does its block once for each part, one after the other: results of the same number of rows and
  /// columns, which lie elsewhere and may have other operands and another k_.
  virtual std::size_t parts() const { return 1; }
  /// Sets k_ and what else differs.
  virtual void start_part(std::size_t part) { static_cast<void>(part); }
  /// Steps [k0, k0 + steps) come next.
  virtual void start_chunk(ExprId k0, std::int64_t steps) { static_cast<void>(k0), static_cast<void>(steps); }
  /// The panel of columns from `first` comes next, of which `columns` are wanted.
  virtual void start_panel(ExprId first, std::int64_t columns) { static_cast<void>(first), static_cast<void>(columns); }
  /// Elements that a row of the packed left operand takes.
  virtual std::int64_t left_pitch(std::int64_t steps) const { return steps; }
  /// Copies the rows of all tiles.
  virtual void pack_left(ExprId k0, std::int64_t steps, ExprId row, const std::vector<Tiles>& cut) = 0;
  virtual TileOperand left_operand(ExprId k0, std::int64_t steps, ExprId row, ExprId i0, std::int64_t height) = 0;
  /// With packs_group_ once for all panels from column `first`, of which the last has `columns`; else for the one panel
  /// there.
  virtual void pack_right(ExprId k0, std::int64_t steps, ExprId first, std::int64_t panels, std::int64_t columns) = 0;
  virtual TileOperand right_operand(ExprId k0, std::int64_t steps, ExprId panel, ExprId first) = 0;
  /// Row i of the panel will be stored soon.
  virtual void expect(ExprId i, ExprId first) { static_cast<void>(i), static_cast<void>(first); }
  /// The sum of column j of a row.
  using SumOf = std::function<ExprId(ExprId j)>;
  /// Stores row i of the panel from column `first` that started last, of which `columns` are wanted.
  virtual void store_row(ExprId i, ExprId first, std::int64_t columns, const SumOf& sum) = 0;

  // ---- what threads in step ask (thread_product.cpp); nothing is copied, each loads what it multiplies ----
  /// What the derived class wants to know of a row, a step or a column, computed once for all elements that it meets.
  using Known = std::vector<ExprId>;
  virtual Known know_row(ExprId row) = 0;
  /// Steps from k0 come next, in this block, one after the other.
  virtual void start_steps(ExprId k0) { static_cast<void>(k0); }
  virtual Known know_step(ExprId k) = 0;
  virtual Known know_column(ExprId column) = 0;
  virtual ExprId load_left(const Known& row, const Known& step) = 0;
  virtual ExprId load_right(const Known& step, const Known& column) = 0;
  virtual void store_one(ExprId row, ExprId column, ExprId sum) = 0;
  bool runs_in_step() const { return lanes_ > 1 || pieces_ > 0; }
  /// Where that place lies in the result of the item's piece, which has so many elements.
  ExprId in_piece(ExprId place, std::int64_t elements) {
    return pieces_ > 0 ? b_.add(place, b_.multiply(piece_, elements)) : place;
  }

  std::int64_t batches() const;
  /// Pieces of at most `size` that `all` is cut into.
  static std::int64_t count_of(std::int64_t all, std::int64_t size) { return (all + size - 1) / size; }
  /// Opens the grid over the batches and `blocks`, whose indices are returned.
  std::vector<ExprId> open_items(std::initializer_list<std::int64_t> blocks);

  IrBuilder b_;
  const DType type_;
  const std::vector<Shape> tiles_;  // that fit the device's registers, the usual one first
  Shape shape_;
  const int workers_, lanes_;
  const std::size_t cut_;
  const CopyCosts costs_;
  std::vector<std::int64_t> batch_sizes_;
  std::vector<ExprId> batch_index_;
  std::int64_t m_ = 0, n_ = 0, k_ = 0, grid_ = 1;
  std::int64_t pieces_ = 0;                        // graph::Attributes
  ExprId piece_ = kNoId;                           // the work item's
  std::int64_t most_k_ = 0;                        // of all parts
  std::int64_t width_ = 0, rows_ = 0, group_ = 1;  // columns of a panel; rows and panels of a work item
  bool packs_left_ = false, packs_right_ = false;
  bool packs_group_ =
      false;  // all panels of a work item before the first product: memory is then read in its own order
  ArrayId sums_ = 0, left_array_ = 0, right_array_ = 0, totals_ = 0;

 private:
  static std::vector<Shape> tiles_for(std::int64_t register_bytes);
  std::vector<Tiles> cut_rows(std::int64_t rows) const;
  std::vector<ProductCut> cuts_;
  std::int64_t width_of(const Shape& tile) const;
  ProductCut best_cut(const Shape& tile, std::int64_t most_item) const;
  void find_cuts();
  void take(const ProductCut& cut);
  void add_scratch();
  /// What a work item owns: rows from `row`, and panels from column `column` of which `columns` columns each are
  /// wanted.
  struct Block {
    ExprId row, column;
    std::int64_t rows, panels, columns;
  };
  enum class Yes : std::uint8_t { kNever, kMaybe, kAlways };
  struct Chunk {
    ExprId k0;
    std::int64_t steps;
    Yes is_last;
  };
  /// Items [item, item + items) of one dimension, of `length` rows or columns each, the first of them from `first`.
  struct Section {
    std::int64_t item, items, first, length;
  };
  static std::vector<Section> cut(std::int64_t all, std::int64_t size, std::int64_t unit);
  void for_sections(ExprId at, const std::vector<Section>& sections,
                    const std::function<void(ExprId, std::int64_t)>& body);
  void emit_item(const Block& block);
  void emit_chunk(const Chunk& chunk, const Block& block);
  void emit_tile(const Chunk& chunk, const Block& block, const Tiles& tiles, ExprId tile, ExprId panel, ExprId first);

  // ---- threads in step ----
  /// The elements of one thread: rows from `row` side by side, columns from `column`, `apart` from each other.
  struct ThreadBlock {
    std::int64_t rows, columns, apart;
    ExprId row_block, row, column;
  };
  void find_thread_cuts();
  double emit_threads();
  void emit_thread_block(const ThreadBlock& block);
  /// Steps [first, first + count); `most` of them, and as many where `count` is none.
  struct Steps {
    ExprId first;
    std::int64_t most;
    ExprId count = kNoId;
  };
  enum class Start : std::uint8_t { kOver, kAdd, kPiece };  // what becomes of the sums that wait
  void emit_thread_chunk(const std::vector<Known>& rows, const std::vector<Known>& columns, const Steps& steps,
                         Start start);
  void emit_thread_piece(const std::vector<Known>& rows, const std::vector<Known>& columns);
  void store_thread_block(const ThreadBlock& block);
};

}  // namespace crucible::kernel
