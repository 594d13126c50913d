// Blocks, items and chunks of products by tiles: see tile_product.hpp.
#include "core/kernel/emit/tile_product.hpp"

#include <algorithm>
#include <span>

namespace crucible::kernel {

/// The sums, a row of the right operand and a number of the left one have to fit: 24 sums leave 8 of 32 registers of 64
/// bytes (AVX-512), 12 leave 4 of 16 registers of 32 bytes (AVX2). Wide tiles load less per product, high ones fit
/// narrow results.
std::vector<TileProduct::Shape> TileProduct::tiles_for(std::int64_t register_bytes) {
  constexpr std::int64_t kVector = 64, kAvx512 = 32 * 64, kAvx2 = 16 * 32;
  if (register_bytes == 0 || register_bytes >= kAvx512)
    return {{.rows = 12, .vectors = 2}, {.rows = 8, .vectors = 3}, {.rows = 24, .vectors = 1}};
  if (register_bytes >= kAvx2) return {{.rows = 6, .vectors = 1}};
  return {{.rows = std::max<std::int64_t>(register_bytes / kVector - 2, 1), .vectors = 1}};
}

std::int64_t TileProduct::batches() const {
  std::int64_t count = 1;
  for (auto size : batch_sizes_) count *= size;
  return count;
}

std::vector<ExprId> TileProduct::open_items(std::initializer_list<std::int64_t> blocks) {
  std::vector<std::int64_t> sizes = batch_sizes_;
  sizes.insert(sizes.end(), blocks);
  if (pieces_ > 0) sizes.insert(sizes.begin(), pieces_);
  grid_ = 1;
  for (auto size : sizes) grid_ *= size;
  const ExprId item = b_.open_grid(LoopMode::kSerial);
  auto indices = split_index(b_, item, sizes);
  if (pieces_ > 0) {
    piece_ = indices.front();
    indices.erase(indices.begin());
  }
  const auto first = indices.begin() + static_cast<std::ptrdiff_t>(batch_sizes_.size());
  batch_index_.assign(indices.begin(), first);
  return {first, indices.end()};
}

/// Heights that differ by one at most, so that no short tile is left.
std::vector<TileProduct::Tiles> TileProduct::cut_rows(std::int64_t rows) const {
  const std::int64_t count = (rows + shape_.rows - 1) / shape_.rows, low = rows / count, high = rows - low * count;
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
  for (std::size_t part = 0; part < parts(); ++part) {
    start_part(part);
    most_k_ = std::max(most_k_, k_);
  }
  if (runs_in_step()) return emit_threads();
  find_cuts();
  take(cuts_[std::min(cut_, cuts_.size() - 1)]);
  const std::vector<Section> rows = cut(m_, rows_, 1), columns = cut(n_, group_ * width_, width_);
  const auto at = open_items({rows.back().item + rows.back().items, columns.back().item + columns.back().items});
  add_scratch();
  start_item();
  for_sections(at[0], rows, [&](ExprId row, std::int64_t row_count) {
    for_sections(at[1], columns, [&](ExprId column, std::int64_t column_count) {
      const std::int64_t panels = std::max<std::int64_t>(column_count / width_, 1);
      for (std::size_t part = 0; part < parts(); ++part) {
        start_part(part);
        emit_item({row, column, row_count, panels, column_count / panels});
      }
    });
  });
  b_.close();
  return static_cast<double>(grid_);
}

/// Items of `size` each; what is left over is an item of whole units and one of less than a unit.
std::vector<TileProduct::Section> TileProduct::cut(std::int64_t all, std::int64_t size, std::int64_t unit) {
  std::vector<Section> sections;
  std::int64_t item = 0, first = 0;
  for (const std::int64_t length : {size, (all % size) / unit * unit, all % unit}) {
    if (length == 0 || first == all) continue;
    const std::int64_t items = length == size ? all / size : 1;
    if (items == 0) continue;
    sections.push_back({item, items, first, length});
    item += items;
    first += items * length;
  }
  return sections;
}

/// `body` for the section to which item `at` belongs.
void TileProduct::for_sections(ExprId at, const std::vector<Section>& sections,
                               const std::function<void(ExprId, std::int64_t)>& body) {
  for (const Section& section : sections) {
    const bool is_only = sections.size() == 1;
    if (!is_only) {
      const ExprId from = b_.binary(Operation::kLessEqual, b_.integer(section.item), at);
      b_.open_if(
          b_.binary(Operation::kAnd, from, b_.binary(Operation::kLess, at, b_.integer(section.item + section.items))));
    }
    const std::int64_t last = section.first + (section.items - 1) * section.length;
    if (section.items == 1) {
      body(b_.integer(section.first), section.length);
    } else {
      const ExprId first =
          b_.add(b_.integer(section.first - section.item * section.length), b_.multiply(at, section.length));
      body(b_.let(is_only ? first : b_.assume(b_.let(first), section.first, last)), section.length);
    }
    if (!is_only) b_.close();
  }
}

std::int64_t TileProduct::width_of(const Shape& tile) const {
  const std::int64_t lanes = type_ == DType::kF64 ? 8 : 16;
  return n_ <= lanes ? lanes : tile.vectors * lanes;
}

/// Each work item copies its rows and its columns for itself, so items are few and large: about one per thread, of at
/// most `most_item` rows and columns, and none of less than what a launch is worth. Blocks of rows are whole tiles.
ProductCut TileProduct::best_cut(const Shape& tile, std::int64_t most_item) const {
  constexpr std::int64_t kUsualWorkers = 4;  // threads where nobody knows
  constexpr double kWorthAnItem = 3e5;       // multiply-adds
  const std::int64_t workers = workers_ > 0 ? workers_ : kUsualWorkers, width = width_of(tile);
  const std::int64_t tiles = count_of(m_, tile.rows), panels = std::max<std::int64_t>(n_ / width, 1);
  const std::int64_t fewest_rows = count_of(m_, most_item), fewest_columns = count_of(panels * width, most_item);
  const double depth = static_cast<double>(std::max<std::int64_t>(most_k_, 1));
  ProductCut best{.tile_rows = tile.rows, .tile_columns = width};
  const auto consider = [&](std::int64_t row_blocks, std::int64_t column_blocks) {
    const std::int64_t rows = std::min(m_, count_of(tiles, row_blocks) * tile.rows),
                       group = count_of(panels, column_blocks);
    const std::int64_t items = batches() * count_of(m_, rows) * count_of(panels, group);
    const double item_rows = static_cast<double>(rows), item_columns = static_cast<double>(group * width);
    const double sums = item_rows * item_columns * depth,
                 copies = (costs_.left * item_rows + costs_.right * item_columns) * depth;
    const bool is_smallest = row_blocks == fewest_rows && column_blocks == fewest_columns;
    if (!is_smallest && sums < kWorthAnItem) return false;
    const double time = static_cast<double>(count_of(items, workers)) * (sums + copies);
    if (is_smallest || time < best.score) {
      best.score = time;
      best.item_rows = rows;
      best.item_columns = group * width;
    }
    return true;
  };
  for (std::int64_t row_blocks = fewest_rows; row_blocks <= std::min(tiles, fewest_rows + 4 * workers); ++row_blocks) {
    const std::int64_t most = std::min(panels, fewest_columns + 4 * workers);
    for (std::int64_t column_blocks = fewest_columns; column_blocks <= most; ++column_blocks) {
      if (!consider(row_blocks, column_blocks)) break;
    }
  }
  return best;
}

/// The usual tile in the usual items stands first: what the model knows of is copies, and they decide among items, not
/// among tiles or caches.
void TileProduct::find_cuts() {
  constexpr std::int64_t kMostItem = 384, kOtherItems[] = {256, 192};
  cuts_ = {best_cut(tiles_.front(), kMostItem)};
  const auto add = [&](const ProductCut& cut) {
    if (std::ranges::find(cuts_, cut) == cuts_.end()) cuts_.push_back(cut);
  };
  for (std::int64_t most_item : kOtherItems) add(best_cut(tiles_.front(), most_item));
  for (const Shape& tile : std::span(tiles_).subspan(1)) {
    if (n_ > width_of(tile) / 2 && m_ > tile.rows / 2) add(best_cut(tile, kMostItem));
  }
  std::stable_sort(cuts_.begin() + 1, cuts_.end(),
                   [](const ProductCut& a, const ProductCut& b) { return a.score < b.score; });
}

void TileProduct::take(const ProductCut& cut) {
  width_ = cut.tile_columns;
  const std::int64_t lanes = type_ == DType::kF64 ? 8 : 16;
  shape_ = {.rows = cut.tile_rows, .vectors = width_ / lanes};
  rows_ = cut.item_rows;
  group_ = cut.item_columns / cut.tile_columns;
  choose_packing();
}

void TileProduct::add_scratch() {
  const std::int64_t depth = std::min(most_k_, kChunk);
  const std::int64_t most_rows = std::max(rows_, m_ % rows_);
  sums_ = b_.add_array(type_, std::min(most_rows, shape_.rows) * width_);
  if (packs_left_) left_array_ = b_.add_array(type_, most_rows * left_pitch(depth));
  if (packs_right_) right_array_ = b_.add_array(type_, depth * width_ * (packs_group_ ? group_ : 1));
  if (most_k_ > kChunk) totals_ = b_.add_array(type_, most_rows * group_ * width_);
}

/// One block of rows times some panels.
void TileProduct::emit_item(const Block& block) {
  const std::int64_t chunks = k_ / kChunk, rest = k_ % kChunk;
  if (k_ <= kChunk) {
    emit_chunk({b_.integer(0), k_, Yes::kAlways}, block);
    return;
  }
  const ExprId any = b_.open_for(b_.integer(0), b_.integer(block.panels * block.rows * width_), LoopMode::kVector);
  b_.store_element(totals_, any, b_.real(-0.0, type_));  // to which any first number adds as it is
  b_.close();
  const ExprId chunk = b_.open_for(b_.integer(0), b_.integer(chunks), LoopMode::kSerial);
  emit_chunk({b_.let(b_.multiply(chunk, kChunk)), kChunk, rest > 0 ? Yes::kNever : Yes::kMaybe}, block);
  b_.close();
  if (rest > 0) emit_chunk({b_.integer(chunks * kChunk), rest, Yes::kAlways}, block);
}

void TileProduct::emit_chunk(const Chunk& chunk, const Block& block) {
  const auto cut = cut_rows(block.rows);
  start_chunk(chunk.k0, chunk.steps);
  if (packs_left_) pack_left(chunk.k0, chunk.steps, block.row, cut);
  if (packs_right_ && packs_group_) pack_right(chunk.k0, chunk.steps, block.column, block.panels, block.columns);
  // The operand of the outer loop stays in the first cache while the other one passes by.
  if (packs_right_ && packs_group_) {
    for (const Tiles& tiles : cut) {
      const ExprId tile = b_.open_for(b_.integer(0), b_.integer(tiles.count), LoopMode::kSerial);
      const ExprId panel = b_.open_for(b_.integer(0), b_.integer(block.panels), LoopMode::kSerial);
      const ExprId first = b_.let(b_.add(block.column, b_.multiply(panel, width_)));
      start_panel(first, block.columns);
      emit_tile(chunk, block, tiles, tile, panel, first);
      b_.close();
      b_.close();
    }
    return;
  }
  const ExprId panel = b_.open_for(b_.integer(0), b_.integer(block.panels), LoopMode::kSerial);
  const ExprId first = b_.let(b_.add(block.column, b_.multiply(panel, width_)));
  start_panel(first, block.columns);
  if (packs_right_) pack_right(chunk.k0, chunk.steps, first, 1, block.columns);
  for (const Tiles& tiles : cut) {
    const ExprId tile = b_.open_for(b_.integer(0), b_.integer(tiles.count), LoopMode::kSerial);
    emit_tile(chunk, block, tiles, tile, panel, first);
    b_.close();
  }
  b_.close();
}

void TileProduct::emit_tile(const Chunk& chunk, const Block& block, const Tiles& tiles, ExprId tile, ExprId panel,
                            ExprId first) {
  const bool is_all = k_ <= kChunk;
  const ExprId i0 = b_.let(b_.add(b_.multiply(tile, tiles.height), b_.integer(tiles.first)));
  const ExprId row = b_.add(b_.multiply(panel, block.rows), i0);
  const ExprId base = is_all ? b_.integer(0) : b_.let(b_.multiply(row, width_));
  const auto if_last = [&](const auto& body) {
    if (chunk.is_last == Yes::kMaybe) b_.open_if(b_.binary(Operation::kEqual, chunk.k0, b_.integer(k_ - chunk.steps)));
    if (chunk.is_last != Yes::kNever) body();
    if (chunk.is_last == Yes::kMaybe) b_.close();
  };
  if_last([&] {
    if (block.columns < width_) return;
    const ExprId i = b_.open_for(b_.integer(0), b_.integer(tiles.height), LoopMode::kUnrolled);
    expect(b_.add(block.row, b_.add(i0, i)), first);
    b_.close();
  });
  b_.tile({.sums = is_all ? sums_ : totals_,
           .base = base,
           .rows = static_cast<std::uint32_t>(tiles.height),
           .columns = static_cast<std::uint32_t>(width_),
           .start = is_all ? TileStart::kZero : TileStart::kAdd,
           .left = left_operand(chunk.k0, chunk.steps, block.row, i0, tiles.height),
           .right = right_operand(chunk.k0, chunk.steps, panel, first)},
          b_.integer(chunk.steps));
  if_last([&] {
    const ExprId i = b_.open_for(b_.integer(0), b_.integer(tiles.height), LoopMode::kSerial);
    store_row(b_.add(block.row, b_.add(i0, i)), first, block.columns, [&](ExprId j) {
      const ExprId at = b_.add(base, b_.add(b_.multiply(i, width_), j));
      return b_.let(b_.element(is_all ? sums_ : totals_, at));
    });
    b_.close();
  });
}

}  // namespace crucible::kernel
