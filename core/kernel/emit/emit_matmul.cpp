// Matrix products for backends whose library does not take them: any strides, any float type. Tiles (tile_product.hpp),
// whose operands are copied into scratch where memory would be walked badly; or dot products where the result is tiny,
// whose order is free: fast ones.
#include <algorithm>
#include <numeric>
#include <optional>

#include "core/kernel/emit/epilogue_emitter.hpp"
#include "core/kernel/emit/tile_product.hpp"
#include "core/kernel/fuse/epilogue.hpp"

namespace crucible::kernel {
namespace {

using graph::Op;
using graph::Program;
using graph::View;

constexpr std::int64_t kFarRows = 2048;  // bytes between rows from which they fall into the same sets of the cache
constexpr TileProduct::CopyCosts kCopyCosts{.left = 32, .right = 32};
constexpr std::int64_t kLine = 64;      // bytes
constexpr std::int64_t kFewPanels = 2;  // for which copying the left operand costs more than it saves

View transposed(View view) {
  const std::size_t rank = view.sizes.size();
  std::swap(view.sizes[rank - 1], view.sizes[rank - 2]);
  std::swap(view.strides[rank - 1], view.strides[rank - 2]);
  return view;
}

class MatMulEmitter : TileProduct {
 public:
  MatMulEmitter(const Program& program, const Op& op, Numerics numerics, const DeviceShape& device,
                const Epilogue* epilogue)
      : TileProduct(compute_type(program.values[op.outputs[0].value].dtype), device, kCopyCosts),
        program_(program),
        op_(op),
        numerics_(numerics),
        binder_(program, b_),
        left_(op.inputs[0].view),
        right_(op.inputs[1].view),
        out_(op.outputs[0].view),
        rank_(out_.sizes.size()) {
    left_buffer_ = binder_.buffer(op.inputs[0].value, false);
    right_buffer_ = binder_.buffer(op.inputs[1].value, false);
    if (epilogue != nullptr) {
      epilogue_.emplace(program, *epilogue, program.values[op.outputs[0].value].producer, b_, binder_);
    } else {
      out_buffer_ = binder_.buffer(op.outputs[0].value, true);
    }
    if (runs_along_rows(out_)) {  // columns are what vectors run along
      is_turned_ = true;
      std::swap(left_, right_);
      std::swap(left_buffer_, right_buffer_);
      left_ = transposed(left_);
      right_ = transposed(right_);
      out_ = transposed(out_);
    }
    batch_sizes_.assign(out_.sizes.begin(), out_.sizes.end() - 2);
    m_ = out_.sizes[rank_ - 2];
    n_ = out_.sizes[rank_ - 1];
    k_ = left_.sizes[rank_ - 1];
    pieces_ = op.attributes.pieces;
  }

  Emitted run() {
    const bool dots = numerics_ == Numerics::kFast && pieces_ == 0 && m_ * n_ <= 16 && left_.strides[rank_ - 1] == 1 &&
                      right_.strides[rank_ - 2] == 1 && k_ > 64;
    const double items = dots ? emit_dots() : emit_tiles();
    Emitted emitted;
    emitted.values = binder_.values();
    emitted.grid = grid_;
    emitted.flops = static_cast<std::uint64_t>(2 * out_.elements() * k_);
    emitted.item_ns = static_cast<double>(emitted.flops) / std::max(1.0, items) / (dots ? 10.0 : 60.0);
    emitted.cuts = cuts();
    if (epilogue_) epilogue_->finish(emitted);
    emitted.scalars = binder_.scalars();
    emitted.ir = b_.finish();
    return emitted;
  }

 private:
  bool has_own_type(BufferId buffer) { return b_.ir().buffers[buffer].type == type_; }

  void choose_packing() override {
    packs_left_ = !has_own_type(left_buffer_) || !left_runs_along_k() || left_.strides[rank_ - 2] < 0 ||
                  left_.strides[rank_ - 2] * size_bytes(type_) >= kFarRows || n_ > kFewPanels * width_;
    packs_right_ = !has_own_type(right_buffer_) || right_.strides[rank_ - 1] != 1 || right_.strides[rank_ - 2] < 0 ||
                   n_ % width_ != 0 || rows_ > 2 * shape_.rows;
    packs_group_ = true;
  }

  ExprId index(const View& view, ExprId i, ExprId j) {
    std::vector<ExprId> point = batch_index_;
    point.push_back(i);
    point.push_back(j);
    return view_index(b_, view, point);
  }
  ExprId load(BufferId buffer, const View& view, ExprId i, ExprId j) {
    return load_value(b_, buffer, index(view, i, j), b_.depth());
  }
  void store_row(ExprId i, ExprId first, std::int64_t columns, const SumOf& sum) override {
    const std::int64_t piece = piece_of(columns);
    const auto store = [&](ExprId from) {
      start_row(i, b_.add(first, from));
      const ExprId j = b_.open_for(b_.integer(0), b_.integer(piece), LoopMode::kVector);
      put(i, b_.add(first, from), j, sum(b_.add(from, j)));
      b_.close();
    };
    if (piece == columns) return store(b_.integer(0));
    const ExprId at = b_.open_for(b_.integer(0), b_.integer(columns / piece), LoopMode::kUnrolled);
    store(b_.multiply(at, piece));
    b_.close();
  }
  std::size_t lanes_counter() const { return rank_ - (is_turned_ ? 2 : 1); }
  /// Lanes of a row that are done together. Where they are cut, rows are whole pieces.
  std::int64_t piece_of(std::int64_t columns) const {
    if (!epilogue_ || !epilogue_->cuts_lanes(lanes_counter())) return columns;
    return std::gcd(columns, kEpilogueLanes);
  }
  void expect(ExprId i, ExprId first) override {
    if (epilogue_) {
      if (epilogue_->cuts_lanes(lanes_counter())) return;
      start_row(i, first);
      for (std::int64_t j = 0; j < width_; j += kLine / size_bytes(type_)) epilogue_->expect(b_.integer(j), kNoId);
      return;
    }
    if (out_.strides[rank_ - 1] != 1) return;
    const std::int64_t line = kLine / size_bytes(b_.ir().buffers[out_buffer_].type);
    for (std::int64_t j = 0; j < width_; j += line)
      b_.prefetch(out_buffer_, index(out_, i, b_.add(first, b_.integer(j))));
  }
  void start_row(ExprId i, ExprId first) {
    if (!epilogue_) return;
    std::vector<ExprId> point = batch_index_;
    point.push_back(is_turned_ ? first : i);
    point.push_back(is_turned_ ? i : first);
    epilogue_->start_row(std::move(point), lanes_counter());
  }
  /// Column first + j of row i.
  void put(ExprId i, ExprId first, ExprId j, ExprId sum) {
    const ExprId scaled =
        op_.attributes.alpha == 1 ? sum : b_.binary(Operation::kMultiply, sum, b_.real(op_.attributes.alpha, type_));
    if (epilogue_) return epilogue_->put(scaled, j, kNoId);
    b_.store(out_buffer_, in_piece(index(out_, i, b_.add(first, j)), out_.elements()),
             storable(b_, b_.let(scaled), program_.values[op_.outputs[0].value].dtype));
  }

  bool left_runs_along_k() const { return left_.strides[rank_ - 1] == 1; }
  bool can_transpose_left() { return has_own_type(left_buffer_) && left_.strides[rank_ - 2] > 0; }

  /// Tile by tile, the rows of a step side by side.
  void pack_left(ExprId k0, std::int64_t steps, ExprId row, const std::vector<Tiles>& cut) override {
    if (left_runs_along_k() && can_transpose_left()) {
      for (const Tiles& tiles : cut) {
        const ExprId tile = b_.open_for(b_.integer(0), b_.integer(tiles.count), LoopMode::kSerial);
        const ExprId i0 = b_.let(b_.add(b_.multiply(tile, tiles.height), b_.integer(tiles.first)));
        b_.transpose({.to = left_array_,
                      .from = left_buffer_,
                      .columns = static_cast<std::uint32_t>(tiles.height),
                      .to_base = b_.let(b_.multiply(i0, steps)),
                      .from_base = b_.let(index(left_, b_.add(row, i0), k0)),
                      .to_step = tiles.height,
                      .from_step = left_.strides[rank_ - 2]},
                     b_.integer(steps));
        b_.close();
      }
      return;
    }
    const ExprId q = b_.open_for(b_.integer(0), b_.integer(steps), LoopMode::kSerial);
    for (const Tiles& tiles : cut) {
      const ExprId tile = b_.open_for(b_.integer(0), b_.integer(tiles.count), LoopMode::kSerial);
      const ExprId i0 = b_.let(b_.add(b_.multiply(tile, tiles.height), b_.integer(tiles.first)));
      const ExprId i = b_.open_for(b_.integer(0), b_.integer(tiles.height), LoopMode::kUnrolled);  // less than a vector
      b_.store_element(left_array_, b_.add(b_.add(b_.multiply(i0, steps), b_.multiply(q, tiles.height)), i),
                       load(left_buffer_, left_, b_.add(row, b_.add(i0, i)), b_.add(k0, q)));
      b_.close();
      b_.close();
    }
    b_.close();
  }

  TileOperand left_operand(ExprId k0, std::int64_t steps, ExprId row, ExprId i0, std::int64_t height) override {
    if (!packs_left_) {
      return {.is_array = false,
              .id = left_buffer_,
              .base = b_.let(index(left_, b_.add(row, i0), k0)),
              .row_step = left_.strides[rank_ - 2],
              .step = left_.strides[rank_ - 1]};
    }
    return {.is_array = true, .id = left_array_, .base = b_.let(b_.multiply(i0, steps)), .row_step = 1, .step = height};
  }

  /// Panel by panel, the columns of a step side by side; read in the order in which they lie.
  void pack_right(ExprId k0, std::int64_t steps, ExprId first, std::int64_t panels, std::int64_t columns) override {
    if (has_own_type(right_buffer_) && right_.strides[rank_ - 2] == 1 && right_.strides[rank_ - 1] > 0) {
      const ExprId p = b_.open_for(b_.integer(0), b_.integer(panels), LoopMode::kSerial);
      b_.transpose({.to = right_array_,
                    .from = right_buffer_,
                    .columns = static_cast<std::uint32_t>(columns),
                    .to_base = b_.let(b_.multiply(p, steps * width_)),
                    .from_base = b_.let(index(right_, k0, b_.add(first, b_.multiply(p, width_)))),
                    .to_step = width_,
                    .from_step = right_.strides[rank_ - 1]},
                   b_.integer(steps));
      b_.close();
    } else {
      const bool lies_across = right_.strides[rank_ - 1] != 1;  // one by one: gathering a vector is slower
      const ExprId q = b_.open_for(b_.integer(0), b_.integer(steps), LoopMode::kSerial);
      const ExprId p = b_.open_for(b_.integer(0), b_.integer(panels), LoopMode::kSerial);
      const ExprId j =
          b_.open_for(b_.integer(0), b_.integer(columns), lies_across ? LoopMode::kSerial : LoopMode::kVector);
      b_.store_element(right_array_, b_.add(b_.multiply(b_.add(b_.multiply(p, steps), q), width_), j),
                       load(right_buffer_, right_, b_.add(k0, q), b_.add(first, b_.add(b_.multiply(p, width_), j))));
      b_.close();
      b_.close();
      b_.close();
    }
    if (columns == width_) return;
    // Columns whose results nobody stores are of numbers, too.
    const ExprId q = b_.open_for(b_.integer(0), b_.integer(steps), LoopMode::kSerial);
    const ExprId j = b_.open_for(b_.integer(columns), b_.integer(width_), LoopMode::kVector);
    b_.store_element(right_array_, b_.add(b_.multiply(q, width_), j), b_.real(0, type_));
    b_.close();
    b_.close();
  }

  TileOperand right_operand(ExprId k0, std::int64_t steps, ExprId panel, ExprId first) override {
    if (packs_right_)
      return {.is_array = true, .id = right_array_, .base = b_.let(b_.multiply(panel, steps * width_)), .step = width_};
    return {.is_array = false,
            .id = right_buffer_,
            .base = b_.let(index(right_, k0, first)),
            .step = right_.strides[rank_ - 2]};
  }

  // ---- threads in step ----

  Known know_row(ExprId row) override { return {b_.let(index(left_, row, b_.integer(0)))}; }
  Known know_column(ExprId column) override { return {b_.let(index(right_, b_.integer(0), column))}; }
  Known know_step(ExprId k) override {
    return {b_.multiply(k, left_.strides[rank_ - 1]), b_.multiply(k, right_.strides[rank_ - 2])};
  }
  ExprId load_left(const Known& row, const Known& step) override {
    return load_value(b_, left_buffer_, b_.add(row[0], step[0]), b_.depth());
  }
  ExprId load_right(const Known& step, const Known& column) override {
    return load_value(b_, right_buffer_, b_.add(column[0], step[1]), b_.depth());
  }
  void store_one(ExprId row, ExprId column, ExprId sum) override {
    start_row(row, column);
    put(row, column, b_.integer(0), sum);
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
    start_row(at[0], j);
    put(at[0], j, b_.integer(0), b_.variable(sum));
    b_.close();
    b_.close();
    return static_cast<double>(grid_);
  }

  const Program& program_;
  const Op& op_;
  const Numerics numerics_;
  Binder binder_;
  std::optional<EpilogueEmitter> epilogue_;
  bool is_turned_ = false;   // rows and columns have changed places
  View left_, right_, out_;  // the last two dimensions: rows and steps, steps and columns, rows and columns
  const std::size_t rank_;
  BufferId left_buffer_ = 0, right_buffer_ = 0, out_buffer_ = 0;
};

}  // namespace

Emitted emit_matmul(const Program& program, const Op& op, Numerics numerics, const DeviceShape& device,
                    const Epilogue* epilogue) {
  return MatMulEmitter(program, op, numerics, device, epilogue).run();
}

}  // namespace crucible::kernel
