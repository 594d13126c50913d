// Products of matrices on devices whose threads run in step (DeviceShape::lanes): each has registers, and what it would
// copy into scratch would lie in memory far away. So a work item is a thread that owns a few rows and columns, keeps
// their sums in variables, and loads what it multiplies. Neighbouring threads have neighbouring columns: they load the
// same number of the left operand and numbers side by side of the right one, which is one access for all of them. The
// chains are those of every product (tile_product.hpp).
#include <algorithm>

#include "core/kernel/emit/tile_product.hpp"

namespace crucible::kernel {
namespace {

constexpr std::int64_t kStepsAtOnce =
    4;  // written out one after the other, so that loads of several steps are under way together
constexpr std::size_t kMostThreadCuts = 4;

/// Of one step of a warp, in instructions: multiply-adds, loads, and what it counts.
double cost_of_step(std::int64_t rows, std::int64_t columns, const TileProduct::CopyCosts& costs) {
  constexpr double kLoad = 1.5, kStep = 8, kDigits = 24;
  const double row = kLoad, column = kLoad * costs.right / costs.left;  // what lies under windows has to be found first
  return static_cast<double>(rows * columns) + row * static_cast<double>(rows) + column * static_cast<double>(columns) +
         kStep + (costs.right > costs.left ? kDigits : 0);
}

}  // namespace

/// The more elements a thread has, the fewer loads each costs; but then fewer threads are there to share the work.
/// (Scores that counted what a warp waits for made the smallest cuts, which wait for the shared cache instead.)
void TileProduct::find_thread_cuts() {
  constexpr std::int64_t kColumns[] = {4, 2, 1};
  constexpr int kUsualWorkers = 4096;
  const std::int64_t most_rows = type_ == DType::kF64 ? 8 : 16;
  const double workers = workers_ > 0 ? workers_ : kUsualWorkers;
  const std::int64_t depth = pieces_ > 0 ? std::min(most_k_, kChunk) : most_k_;
  for (std::int64_t rows = most_rows; rows >= 1; rows /= 2) {
    for (std::int64_t columns : kColumns) {
      if (rows > m_ || columns > n_) continue;
      const auto items = static_cast<double>(batches() * std::max<std::int64_t>(pieces_, 1) * count_of(m_, rows) *
                                             count_of(n_, columns));
      cuts_.push_back({.tile_rows = rows,
                       .tile_columns = columns,
                       .item_rows = rows,
                       .item_columns = columns,
                       .score = std::max(1.0, items / workers) * cost_of_step(rows, columns, costs_) *
                                static_cast<double>(std::max<std::int64_t>(depth, 1))});
    }
  }
  std::ranges::stable_sort(cuts_, {}, &ProductCut::score);
  cuts_.resize(std::min(cuts_.size(), kMostThreadCuts));
}

double TileProduct::emit_threads() {
  find_thread_cuts();
  const ProductCut cut = cuts_[std::min(cut_, cuts_.size() - 1)];
  ThreadBlock block{.rows = cut.tile_rows,
                    .columns = cut.tile_columns,
                    .apart = count_of(n_, cut.tile_columns),
                    .row_block = kNoId,
                    .row = kNoId,
                    .column = kNoId};
  const auto at = open_items({count_of(m_, block.rows), block.apart});
  start_item();
  block.row_block = at[0];
  // The last rows begin early enough to be whole: what two threads compute, one of them stores.
  const ExprId row = b_.multiply(at[0], block.rows);
  block.row =
      m_ % block.rows == 0 ? b_.let(row) : b_.let(b_.binary(Operation::kMinimum, row, b_.integer(m_ - block.rows)));
  block.column = at[1];
  totals_ = b_.add_array(type_, block.rows * block.columns);
  for (std::size_t part = 0; part < parts(); ++part) {
    start_part(part);
    emit_thread_block(block);
  }
  b_.close();
  return static_cast<double>(grid_);
}

void TileProduct::emit_thread_block(const ThreadBlock& block) {
  std::vector<Known> rows, columns;
  for (std::int64_t i = 0; i < block.rows; ++i) rows.push_back(know_row(b_.add(block.row, b_.integer(i))));
  for (std::int64_t j = 0; j < block.columns; ++j) {
    ExprId column = b_.add(block.column, b_.integer(j * block.apart));
    if ((j + 1) * block.apart > n_) column = b_.let(b_.binary(Operation::kMinimum, column, b_.integer(n_ - 1)));
    columns.push_back(know_column(column));
  }
  if (pieces_ > 0) {
    emit_thread_piece(rows, columns);
    return store_thread_block(block);
  }
  const std::int64_t chunks = k_ <= kChunk ? 0 : k_ / kChunk, rest = k_ - chunks * kChunk;
  if (chunks > 0) {
    const ExprId any = b_.open_for(b_.integer(0), b_.integer(block.rows * block.columns), LoopMode::kSerial);
    b_.store_element(totals_, any, b_.real(-0.0, type_));  // to which any first number adds as it is
    b_.close();
    const ExprId chunk = b_.open_for(b_.integer(0), b_.integer(chunks), LoopMode::kSerial);
    emit_thread_chunk(rows, columns, {b_.let(b_.multiply(chunk, kChunk)), kChunk}, Start::kAdd);
    b_.close();
  }
  if (chunks == 0 || rest > 0)
    emit_thread_chunk(rows, columns, {b_.integer(chunks * kChunk), rest}, chunks == 0 ? Start::kOver : Start::kAdd);
  store_thread_block(block);
}

/// The chunk that is the item's piece. The last one may be shorter; behind it there are none.
void TileProduct::emit_thread_piece(const std::vector<Known>& rows, const std::vector<Known>& columns) {
  if (k_ == pieces_ * kChunk)
    return emit_thread_chunk(rows, columns, {b_.let(b_.multiply(piece_, kChunk)), kChunk}, Start::kPiece);
  const ExprId first = b_.let(
      b_.binary(Operation::kMinimum, b_.multiply(piece_, kChunk), b_.integer(std::max<std::int64_t>(k_ - 1, 0))));
  const ExprId left = b_.binary(Operation::kSubtract, b_.integer(k_), b_.multiply(piece_, kChunk));
  const ExprId count =
      b_.let(b_.binary(Operation::kMaximum, b_.integer(0), b_.binary(Operation::kMinimum, left, b_.integer(kChunk))));
  emit_thread_chunk(rows, columns, {first, std::min(k_, kChunk), count}, Start::kPiece);
}

/// One chain per element; sums wait in the array where there is more than one chunk.
void TileProduct::emit_thread_chunk(const std::vector<Known>& rows, const std::vector<Known>& columns,
                                    const Steps& steps, Start start) {
  const bool varies = steps.count != kNoId;
  ExprId zero = b_.real(0, type_);
  if (start == Start::kPiece && k_ <= (pieces_ - 1) * kChunk) {  // some pieces have no steps, and add nothing
    const ExprId first = b_.binary(Operation::kEqual, piece_, b_.integer(0));
    const ExprId none = b_.binary(Operation::kLessEqual, b_.integer(k_), b_.multiply(piece_, kChunk));
    zero = b_.let(
        b_.select(b_.binary(Operation::kAnd, none, b_.unary(Operation::kNot, first)), b_.real(-0.0, type_), zero));
  }
  std::vector<VariableId> sums;
  for (std::size_t e = 0; e < rows.size() * columns.size(); ++e) sums.push_back(b_.declare(zero));
  if (steps.most > 0) start_steps(steps.first);
  const auto add_step = [&](ExprId place) {
    const Known step = know_step(varies ? b_.let(b_.assume(place, 0, k_ - 1)) : place);
    std::vector<ExprId> left, right;
    for (const Known& row : rows) left.push_back(load_left(row, step));
    for (const Known& column : columns) right.push_back(load_right(step, column));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      for (std::size_t j = 0; j < columns.size(); ++j) {
        const VariableId sum = sums[i * columns.size() + j];
        b_.set(sum, b_.fma(left[i], right[j], b_.variable(sum)));
      }
    }
  };
  if (steps.most >= kStepsAtOnce) {
    const ExprId rounds = varies ? b_.binary(Operation::kDivide, steps.count, b_.integer(kStepsAtOnce))
                                 : b_.integer(steps.most / kStepsAtOnce);
    const ExprId some = b_.open_for(b_.integer(0), rounds, LoopMode::kSerial);
    const ExprId from = b_.let(b_.add(steps.first, b_.multiply(some, kStepsAtOnce)));
    for (std::int64_t q = 0; q < kStepsAtOnce; ++q) add_step(b_.add(from, b_.integer(q)));
    b_.close();
  }
  if (steps.most > 0 && (varies || steps.most % kStepsAtOnce > 0)) {
    const ExprId done =
        varies ? b_.multiply(b_.binary(Operation::kDivide, steps.count, b_.integer(kStepsAtOnce)), kStepsAtOnce)
               : b_.integer(steps.most / kStepsAtOnce * kStepsAtOnce);
    const ExprId q = b_.open_for(done, varies ? steps.count : b_.integer(steps.most), LoopMode::kSerial);
    add_step(b_.let(b_.add(steps.first, q)));
    b_.close();
  }
  for (std::size_t e = 0; e < sums.size(); ++e) {
    const ExprId at = b_.integer(static_cast<std::int64_t>(e)), sum = b_.variable(sums[e]);
    b_.store_element(totals_, at, start == Start::kAdd ? b_.add(b_.element(totals_, at), sum) : sum);
  }
}

void TileProduct::store_thread_block(const ThreadBlock& block) {
  const ExprId j = b_.open_for(b_.integer(0), b_.integer(block.columns), LoopMode::kSerial);
  ExprId column = b_.let(b_.add(block.column, b_.multiply(j, block.apart)));
  const bool may_leave = block.columns * block.apart > n_;
  if (may_leave) {
    b_.open_if(b_.binary(Operation::kLess, column, b_.integer(n_)));
    column = b_.let(b_.assume(column, 0, n_ - 1));
  }
  const ExprId i = b_.open_for(b_.integer(0), b_.integer(block.rows), LoopMode::kSerial);
  const ExprId row = b_.let(b_.add(block.row, i));
  const bool may_be_anothers = m_ % block.rows != 0;
  if (may_be_anothers) b_.open_if(b_.binary(Operation::kLessEqual, b_.multiply(block.row_block, block.rows), row));
  store_one(row, column, b_.let(b_.element(totals_, b_.add(b_.multiply(i, block.columns), j))));
  if (may_be_anothers) b_.close();
  b_.close();
  if (may_leave) b_.close();
  b_.close();
}

}  // namespace crucible::kernel
