// Blocks, items and chunks of products by tiles: see tile_product.hpp.
#include "core/kernel/tile_product.hpp"

#include <algorithm>

namespace crucible::kernel {
namespace {

constexpr std::int64_t kPitchGap = 16;  // rows of a packed left operand do not fall into the same sets of the cache
constexpr std::int64_t kMostBlockRows = 256;

}  // namespace

std::int64_t TileProduct::batches() const {
  std::int64_t count = 1;
  for (auto size : batch_sizes_) count *= size;
  return count;
}

std::vector<ExprId> TileProduct::open_items(std::initializer_list<std::int64_t> blocks) {
  std::vector<std::int64_t> sizes = batch_sizes_;
  sizes.insert(sizes.end(), blocks);
  grid_ = 1;
  for (auto size : sizes) grid_ *= size;
  const ExprId item = b_.open_grid(LoopMode::kSerial);
  auto indices = split_index(b_, item, sizes);
  const auto first = indices.begin() + static_cast<std::ptrdiff_t>(batch_sizes_.size());
  batch_index_.assign(indices.begin(), first);
  return {first, indices.end()};
}

/// Heights that differ by one at most, so that no short tile is left.
std::vector<TileProduct::Tiles> TileProduct::cut_rows(std::int64_t rows) {
  const std::int64_t count = (rows + kTileRows - 1) / kTileRows, low = rows / count, high = rows - low * count;
  std::vector<Tiles> result;
  if (high > 0) result.push_back({0, low + 1, high});
  if (high < count) result.push_back({high * (low + 1), low, count - high});
  return result;
}

double TileProduct::emit_tiles() {
  if (batches() * m_ * n_ == 0) {
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
  start_item();
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

/// Work items large enough to be worth a thread, and a few for each.
void TileProduct::choose_blocks() {
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
  choose_packing();
}

void TileProduct::add_scratch() {
  const std::int64_t depth = std::min(k_, kChunk);
  pitch_ = depth + kPitchGap;
  const std::int64_t most_rows = std::max(rows_, m_ % rows_);
  sums_ = b_.add_array(type_, std::min(most_rows, kTileRows) * width_);
  if (packs_left_) left_array_ = b_.add_array(type_, most_rows * pitch_);
  if (packs_right_) right_array_ = b_.add_array(type_, depth * width_);
  if (k_ > kChunk) totals_ = b_.add_array(type_, most_rows * group_ * width_);
}

/// One block of rows times `panels` panels, of which `columns` columns each are wanted.
void TileProduct::emit_item(ExprId row, std::int64_t rows, ExprId column, std::int64_t panels, std::int64_t columns) {
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
  start_panel(first, columns);
  const ExprId i = b_.open_for(b_.integer(0), b_.integer(rows), LoopMode::kSerial);
  const ExprId j = b_.open_for(b_.integer(0), b_.integer(columns), LoopMode::kVector);
  const ExprId at = b_.add(b_.multiply(b_.add(b_.multiply(panel, rows), i), width_), j);
  store(b_.add(row, i), first, j, b_.let(b_.element(totals_, at)));
  b_.close();
  b_.close();
  b_.close();
}

/// `steps` steps of k from `k0`. `is_all`: there are no others, and the sums are results.
void TileProduct::emit_chunk(ExprId k0, std::int64_t steps, bool is_all, ExprId row, std::int64_t rows, ExprId column,
                std::int64_t panels, std::int64_t columns) {
  const auto cut = cut_rows(rows);
  start_chunk(k0, steps);
  if (packs_left_) {
    for (const Tiles& tiles : cut) pack_left(k0, steps, row, tiles);
  }
  const ExprId panel = b_.open_for(b_.integer(0), b_.integer(panels), LoopMode::kSerial);
  const ExprId first = b_.let(b_.add(column, b_.multiply(panel, width_)));
  start_panel(first, columns);
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
      store(b_.add(row, b_.add(i0, i)), first, j, sum);
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

}  // namespace crucible::kernel
