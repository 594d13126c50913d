// Matrix products for backends whose library does not take them: any strides, any float type. Blocks of the result that
// fit into registers (Tile, kernel_ir.hpp), their operands copied into scratch where memory would be walked badly; or dot
// products where the result is tiny. A work item owns a block of rows and some panels of columns.
//
// Each element is one ascending chain of fused multiply-adds per chunk of kChunk steps, and the chunks are added in order,
// whatever the blocks: sizes of blocks, threads and devices change no bit. Only dot products have no order: fast ones.
#include <algorithm>

#include "core/kernel/emit.hpp"

namespace crucible::kernel {
namespace {

using graph::Op;
using graph::Program;
using graph::View;

constexpr std::int64_t kChunk = 256;     // of k; a panel of the right operand of this depth stays in the first cache
constexpr std::int64_t kTileRows = 12;   // 12 x 2 vectors of 64 bytes: 24 of 32 registers
constexpr std::int64_t kPitchGap = 16;   // rows of a packed left operand do not fall into the same sets of the cache
constexpr std::int64_t kFarRows = 2048;  // bytes between rows from which they do
constexpr std::int64_t kMostBlockRows = 256;

View transposed(View view) {
  const std::size_t rank = view.sizes.size();
  std::swap(view.sizes[rank - 1], view.sizes[rank - 2]);
  std::swap(view.strides[rank - 1], view.strides[rank - 2]);
  return view;
}

class MatMulEmitter {
 public:
  MatMulEmitter(const Program& program, const Op& op, Numerics numerics)
      : program_(program),
        op_(op),
        numerics_(numerics),
        binder_(program, b_),
        left_(op.inputs[0].view),
        right_(op.inputs[1].view),
        out_(op.outputs[0].view),
        rank_(out_.sizes.size()),
        type_(compute_type(program.values[op.outputs[0].value].dtype)) {
    left_buffer_ = binder_.buffer(op.inputs[0].value, false);
    right_buffer_ = binder_.buffer(op.inputs[1].value, false);
    out_buffer_ = binder_.buffer(op.outputs[0].value, true);
    // Columns are what vectors run along: the longer side, or the one along which the result lies in memory.
    const std::int64_t rows = out_.sizes[rank_ - 2], columns = out_.sizes[rank_ - 1];
    const bool lies_across = out_.strides[rank_ - 1] != 1 && out_.strides[rank_ - 2] == 1 && rows >= 16;
    if ((columns < 16 && rows > columns) || lies_across) {
      std::swap(left_, right_);
      std::swap(left_buffer_, right_buffer_);
      left_ = transposed(left_);
      right_ = transposed(right_);
      out_ = transposed(out_);
    }
    m_ = out_.sizes[rank_ - 2];
    n_ = out_.sizes[rank_ - 1];
    k_ = left_.sizes[rank_ - 1];
  }

  Emitted run() {
    const bool dots = numerics_ == Numerics::kFast && m_ * n_ <= 16 && left_.strides[rank_ - 1] == 1 && right_.strides[rank_ - 2] == 1 && k_ > 64;
    const double items = dots ? emit_dots() : emit_tiles();
    Emitted emitted;
    emitted.values = binder_.values();
    emitted.grid = grid_;
    emitted.flops = static_cast<std::uint64_t>(2 * out_.elements() * k_);
    emitted.item_ns = static_cast<double>(emitted.flops) / std::max(1.0, items) / (dots ? 10.0 : 60.0);
    emitted.ir = b_.finish();
    return emitted;
  }

 private:
  std::int64_t batches() const {
    std::int64_t count = 1;
    for (std::size_t d = 0; d + 2 < rank_; ++d) count *= out_.sizes[d];
    return count;
  }

  /// Opens the grid over the batches and `blocks`, whose indices are returned.
  std::vector<ExprId> open_items(std::initializer_list<std::int64_t> blocks) {
    std::vector<std::int64_t> sizes(out_.sizes.begin(), out_.sizes.end() - 2);
    sizes.insert(sizes.end(), blocks);
    grid_ = 1;
    for (auto size : sizes) grid_ *= size;
    const ExprId item = b_.open_grid(LoopMode::kSerial);
    auto indices = split_index(b_, item, sizes);
    const auto first = indices.begin() + static_cast<std::ptrdiff_t>(rank_ - 2);
    point_.assign(indices.begin(), first);
    point_.resize(rank_, b_.integer(0));
    return {first, indices.end()};
  }

  ExprId index(const View& view, ExprId i, ExprId j) {
    auto point = point_;
    point[rank_ - 2] = i;
    point[rank_ - 1] = j;
    return view_index(b_, view, point);
  }
  ExprId load(BufferId buffer, const View& view, ExprId i, ExprId j) {
    return load_value(b_, buffer, index(view, i, j), b_.depth());
  }
  void store(ExprId i, ExprId j, ExprId sum) {
    const ExprId scaled =
        op_.attributes.alpha == 1 ? sum : b_.binary(Operation::kMultiply, sum, b_.real(op_.attributes.alpha, type_));
    b_.store(out_buffer_, index(out_, i, j), storable(b_, b_.let(scaled), program_.values[op_.outputs[0].value].dtype));
  }

  // ---- tiles ----

  /// Rows of one work item as tiles: `count` tiles of `height` rows each, from row `first`.
  struct Tiles {
    std::int64_t first, height, count;
  };
  /// Heights that differ by one at most, so that no short tile is left.
  static std::vector<Tiles> cut_rows(std::int64_t rows) {
    const std::int64_t count = (rows + kTileRows - 1) / kTileRows, low = rows / count, high = rows - low * count;
    std::vector<Tiles> result;
    if (high > 0) result.push_back({0, low + 1, high});
    if (high < count) result.push_back({high * (low + 1), low, count - high});
    return result;
  }

  double emit_tiles() {
    if (out_.elements() == 0) {
      open_items({0});
      b_.close();
      return 1;
    }
    const std::int64_t lanes = type_ == DType::kF64 ? 8 : 16;
    width_ = n_ <= lanes ? lanes : 2 * lanes;
    choose_blocks();
    const std::int64_t panels = n_ / width_, groups = panels / group_, tail = n_ % width_;
    const std::int64_t blocks = m_ / rows_, rows_tail = m_ % rows_;
    const auto at = open_items({blocks + (rows_tail > 0 ? 1 : 0), groups + (tail > 0 ? 1 : 0)});
    add_scratch();
    const ExprId row = b_.let(b_.multiply(at[0], rows_)), column = b_.let(b_.multiply(at[1], group_ * width_));
    const auto with_columns = [&](ExprId first_row, std::int64_t rows) {
      if (groups > 0) {
        if (tail > 0) b_.open_if(b_.binary(Operation::kLess, at[1], b_.integer(groups)));
        emit_item(first_row, rows, tail > 0 ? bounded(column, (groups - 1) * group_ * width_) : column, group_, width_);
        if (tail > 0) b_.close();
      }
      if (tail > 0) {
        if (groups > 0) b_.open_if(b_.binary(Operation::kEqual, at[1], b_.integer(groups)));
        emit_item(first_row, rows, b_.integer(groups * group_ * width_), 1, tail);
        if (groups > 0) b_.close();
      }
    };
    if (blocks > 0) {
      if (rows_tail > 0) b_.open_if(b_.binary(Operation::kLess, at[0], b_.integer(blocks)));
      with_columns(rows_tail > 0 ? bounded(row, (blocks - 1) * rows_) : row, rows_);
      if (rows_tail > 0) b_.close();
    }
    if (rows_tail > 0) {
      if (blocks > 0) b_.open_if(b_.binary(Operation::kEqual, at[0], b_.integer(blocks)));
      with_columns(b_.integer(blocks * rows_), rows_tail);
      if (blocks > 0) b_.close();
    }
    b_.close();
    return static_cast<double>(grid_);
  }

  ExprId bounded(ExprId a, std::int64_t high) { return b_.let(b_.assume(a, 0, high)); }

  /// Work items large enough to be worth a thread, and a few for each.
  void choose_blocks() {
    const double total = 2.0 * static_cast<double>(batches() * m_ * n_ * std::max<std::int64_t>(k_, 1));
    const double want = std::clamp(total / 16, 3e5, 4e7);
    const double per_row = 2.0 * static_cast<double>(width_ * std::max<std::int64_t>(k_, 1));  // of one panel
    // A few panels share the packed rows, a few tiles of rows each packed panel.
    const auto wanted_panels = static_cast<double>(std::clamp<std::int64_t>(n_ / width_, 1, 4));
    const auto affordable = std::max(2 * kTileRows, static_cast<std::int64_t>(want / per_row / wanted_panels));
    const std::int64_t most = std::min(kMostBlockRows, affordable);
    rows_ = m_ <= most ? m_ : divisor_below(m_, most);
    if (rows_ < most / 2 && m_ > most) rows_ = most;  // no fitting divisor: the last block is smaller
    const std::int64_t panels = n_ / width_;
    const auto most_panels = static_cast<std::int64_t>(want / (per_row * static_cast<double>(rows_)));
    group_ = panels == 0 ? 1 : divisor_below(panels, std::max<std::int64_t>(1, most_panels));
    const auto same_type = [&](BufferId buffer) { return b_.ir().buffers[buffer].type == type_; };
    const std::int64_t between = left_.strides[rank_ - 2], along = left_.strides[rank_ - 1];
    const bool walks_well = along == 1 && between * size_bytes(type_) < kFarRows;
    packs_left_ = !same_type(left_buffer_) || between < 0 || along < 0 || !walks_well;
    packs_right_ = !same_type(right_buffer_) || right_.strides[rank_ - 1] != 1 || right_.strides[rank_ - 2] < 0 ||
                   n_ % width_ != 0 || rows_ > 2 * kTileRows;
  }

  void add_scratch() {
    const std::int64_t depth = std::min(k_, kChunk);
    pitch_ = depth + kPitchGap;
    const std::int64_t most_rows = std::max(rows_, m_ % rows_);
    sums_ = b_.add_array(type_, std::min(most_rows, kTileRows) * width_);
    if (packs_left_) left_array_ = b_.add_array(type_, most_rows * pitch_);
    if (packs_right_) right_array_ = b_.add_array(type_, depth * width_);
    if (k_ > kChunk) totals_ = b_.add_array(type_, most_rows * group_ * width_);
  }

  /// One block of rows times `panels` panels, of which `columns` columns each are wanted.
  void emit_item(ExprId row, std::int64_t rows, ExprId column, std::int64_t panels, std::int64_t columns) {
    const std::int64_t chunks = k_ / kChunk, rest = k_ % kChunk;
    if (k_ <= kChunk) {
      emit_chunk(b_.integer(0), k_, true, row, rows, column, panels, columns);
      return;
    }
    const ExprId any = b_.open_for(b_.integer(0), b_.integer(panels * rows * width_), LoopMode::kVector);
    b_.store_element(totals_, any, b_.real(-0.0, type_));  // to which any first number adds as it is
    b_.close();
    const ExprId chunk = b_.open_for(b_.integer(0), b_.integer(chunks), LoopMode::kSerial);
    emit_chunk(b_.let(b_.multiply(chunk, kChunk)), kChunk, false, row, rows, column, panels, columns);
    b_.close();
    if (rest > 0) emit_chunk(b_.integer(chunks * kChunk), rest, false, row, rows, column, panels, columns);
    const ExprId panel = b_.open_for(b_.integer(0), b_.integer(panels), LoopMode::kSerial);
    const ExprId first = b_.let(b_.add(column, b_.multiply(panel, width_)));
    const ExprId i = b_.open_for(b_.integer(0), b_.integer(rows), LoopMode::kSerial);
    const ExprId j = b_.open_for(b_.integer(0), b_.integer(columns), LoopMode::kVector);
    const ExprId at = b_.add(b_.multiply(b_.add(b_.multiply(panel, rows), i), width_), j);
    store(b_.add(row, i), b_.add(first, j), b_.let(b_.element(totals_, at)));
    b_.close();
    b_.close();
    b_.close();
  }

  /// `steps` steps of k from `k0`. `is_all`: there are no others, and the sums are results.
  void emit_chunk(ExprId k0, std::int64_t steps, bool is_all, ExprId row, std::int64_t rows, ExprId column,
                  std::int64_t panels, std::int64_t columns) {
    const auto cut = cut_rows(rows);
    if (packs_left_) {
      for (const Tiles& tiles : cut) pack_left(k0, steps, row, tiles);
    }
    const ExprId panel = b_.open_for(b_.integer(0), b_.integer(panels), LoopMode::kSerial);
    const ExprId first = b_.let(b_.add(column, b_.multiply(panel, width_)));
    if (packs_right_) pack_right(k0, steps, first, columns);
    for (const Tiles& tiles : cut) {
      const ExprId tile = b_.open_for(b_.integer(0), b_.integer(tiles.count), LoopMode::kSerial);
      const ExprId i0 = b_.let(b_.add(b_.multiply(tile, tiles.height), b_.integer(tiles.first)));
      b_.tile({.sums = sums_,
               .rows = static_cast<std::uint32_t>(tiles.height),
               .columns = static_cast<std::uint32_t>(width_),
               .left = left_operand(k0, steps, row, i0, tiles.height),
               .right = right_operand(k0, first)},
              b_.integer(steps));
      const ExprId i = b_.open_for(b_.integer(0), b_.integer(tiles.height), LoopMode::kSerial);
      const ExprId j =
          b_.open_for(b_.integer(0), b_.integer(is_all ? columns : width_), LoopMode::kVector);
      const ExprId sum = b_.let(b_.element(sums_, b_.add(b_.multiply(i, width_), j)));
      if (is_all) {
        store(b_.add(row, b_.add(i0, i)), b_.add(first, j), sum);
      } else {
        const ExprId at = b_.let(b_.add(b_.multiply(b_.add(b_.multiply(panel, rows), b_.add(i0, i)), width_), j));
        b_.store_element(totals_, at, b_.add(b_.element(totals_, at), sum));
      }
      b_.close();
      b_.close();
      b_.close();
    }
    b_.close();
  }

  bool left_runs_along_k() const { return left_.strides[rank_ - 1] == 1; }

  /// Rows side by side with a gap where they lie so in memory, else tile by tile with the rows of a step side by side.
  void pack_left(ExprId k0, std::int64_t steps, ExprId row, const Tiles& tiles) {
    if (left_runs_along_k()) {
      const ExprId i = b_.open_for(b_.integer(tiles.first), b_.integer(tiles.first + tiles.height * tiles.count),
                                   LoopMode::kSerial);
      const ExprId q = b_.open_for(b_.integer(0), b_.integer(steps), LoopMode::kVector);
      b_.store_element(left_array_, b_.add(b_.multiply(i, pitch_), q),
                       load(left_buffer_, left_, b_.add(row, i), b_.add(k0, q)));
      b_.close();
      b_.close();
      return;
    }
    const ExprId tile = b_.open_for(b_.integer(0), b_.integer(tiles.count), LoopMode::kSerial);
    const ExprId i0 = b_.let(b_.add(b_.multiply(tile, tiles.height), b_.integer(tiles.first)));
    const ExprId q = b_.open_for(b_.integer(0), b_.integer(steps), LoopMode::kSerial);
    const ExprId i = b_.open_for(b_.integer(0), b_.integer(tiles.height), LoopMode::kVector);
    b_.store_element(left_array_, b_.add(b_.add(b_.multiply(i0, steps), b_.multiply(q, tiles.height)), i),
                     load(left_buffer_, left_, b_.add(row, b_.add(i0, i)), b_.add(k0, q)));
    b_.close();
    b_.close();
    b_.close();
  }

  TileOperand left_operand(ExprId k0, std::int64_t steps, ExprId row, ExprId i0, std::int64_t height) {
    if (!packs_left_) {
      return {.is_array = false,
              .id = left_buffer_,
              .base = b_.let(index(left_, b_.add(row, i0), k0)),
              .row_step = left_.strides[rank_ - 2],
              .step = left_.strides[rank_ - 1]};
    }
    TileOperand operand{.is_array = true, .id = left_array_};
    operand.base = b_.let(b_.multiply(i0, left_runs_along_k() ? pitch_ : steps));
    operand.row_step = left_runs_along_k() ? pitch_ : 1;
    operand.step = left_runs_along_k() ? 1 : height;
    return operand;
  }

  void pack_right(ExprId k0, std::int64_t steps, ExprId first, std::int64_t columns) {
    const bool lies_across = right_.strides[rank_ - 1] != 1;  // one by one: gathering a vector is slower
    const ExprId q = b_.open_for(b_.integer(0), b_.integer(steps), LoopMode::kSerial);
    ExprId j = b_.open_for(b_.integer(0), b_.integer(columns), lies_across ? LoopMode::kSerial : LoopMode::kVector);
    b_.store_element(right_array_, b_.add(b_.multiply(q, width_), j),
                     load(right_buffer_, right_, b_.add(k0, q), b_.add(first, j)));
    b_.close();
    if (columns < width_) {  // results that nobody stores, but of numbers
      j = b_.open_for(b_.integer(columns), b_.integer(width_), LoopMode::kVector);
      b_.store_element(right_array_, b_.add(b_.multiply(q, width_), j), b_.real(0, type_));
      b_.close();
    }
    b_.close();
  }

  TileOperand right_operand(ExprId k0, ExprId first) {
    if (packs_right_) return {.is_array = true, .id = right_array_, .base = b_.integer(0), .step = width_};
    return {.is_array = false,
            .id = right_buffer_,
            .base = b_.let(index(right_, k0, first)),
            .step = right_.strides[rank_ - 2]};
  }

  // ---- dot products ----

  double emit_dots() {
    const auto at = open_items({m_});
    const ExprId j = b_.open_for(b_.integer(0), b_.integer(n_), LoopMode::kSerial);
    const VariableId sum = b_.declare(b_.real(0, type_));
    const ExprId k = b_.open_for(b_.integer(0), b_.integer(k_), LoopMode::kVector);
    const ExprId product =
        b_.binary(Operation::kMultiply, load(left_buffer_, left_, at[0], k), load(right_buffer_, right_, k, j));
    b_.set(sum, b_.add(b_.variable(sum), product));
    b_.close();
    store(at[0], j, b_.variable(sum));
    b_.close();
    b_.close();
    return static_cast<double>(grid_);
  }

  const Program& program_;
  const Op& op_;
  const Numerics numerics_;
  IrBuilder b_;
  Binder binder_;
  View left_, right_, out_;  // the last two dimensions: rows and steps, steps and columns, rows and columns
  const std::size_t rank_;
  const DType type_;
  std::int64_t m_ = 0, n_ = 0, k_ = 0, grid_ = 1;
  std::int64_t width_ = 0, rows_ = 0, group_ = 1;  // columns of a panel; rows and panels of a work item
  std::int64_t pitch_ = 0;
  bool packs_left_ = false, packs_right_ = false;
  BufferId left_buffer_ = 0, right_buffer_ = 0, out_buffer_ = 0;
  ArrayId sums_ = 0, left_array_ = 0, right_array_ = 0, totals_ = 0;
  std::vector<ExprId> point_;  // batch indices
};

}  // namespace

Emitted emit_matmul(const Program& program, const Op& op, Numerics numerics) {
  return MatMulEmitter(program, op, numerics).run();
}

}  // namespace crucible::kernel
