// Items of kernels that multiply by tiles, for a sample of their results: which elements of the tiles' arrays are
// wanted is found first, from the stores back to the tiles and from those to what they multiply; then the item runs,
// and copies and multiplies those alone. So the sample has the bits that the whole item would have. What of the text
// allows that: tiled_kernel.hpp. For interpreter.cpp alone.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "core/kernel/ir/interpreter_fills.hpp"
#include "core/kernel/ir/interpreter_lanes.hpp"
#include "core/kernel/ir/interpreter_numbers.hpp"
#include "plugins/kernel_ir/kernel_ir.hpp"
#include "core/kernel/ir/tiled_kernel.hpp"
#include "core/kernel/ir/wanted_elements.hpp"

namespace crucible::kernel {

/// `Run` is the interpreter, whose memory and variables this works on.
template <class Run>
class TileSampler {
 public:
  explicit TileSampler(Run& run) : run_(run), kernel_(run.kernel_) {}

  /// `budget`: elements to copy and to multiply for an item, if it can be had with that few; 0: all of them.
  void prepare(std::uint64_t budget) {
    if (budget == 0 || kernel_.tiles.empty()) return;
    tiled_ = std::make_unique<TiledKernel>(kernel_);
    if (!tiled_->may_sample()) return;
    limit_ = budget;
    is_on_ = true;
    for (ArrayId array = 0; array < kernel_.arrays.size(); ++array) {
      if (tiled_->is_tiles(array)) wanted_.keep(array);
    }
  }
  bool is_on() const { return is_on_; }

  /// The sample of the present item.
  void choose(const Stmt& grid) {
    for (level_ = first_level(grid); level_ < kLevels.size(); ++level_) {
      wanted_.clear();
      marked_ = 0;
      is_at_tiles_ = false;
      collect(grid.body);
      is_at_tiles_ = true;
      collect(grid.body);
      if (!is_over()) break;
    }
    level_ = std::min(level_, kLevels.size() - 1);
    wanted_.list();
  }

  /// Does the loop for the sample, or says false and has done nothing: it is to be done whole.
  bool run_loop(const Stmt& loop, std::int64_t begin, std::int64_t end) {
    switch (tiled_->role(loop)) {
      case TiledKernel::Role::kWhole:
        return false;
      case TiledKernel::Role::kFill:
        for (const TiledKernel::Leaf& leaf : tiled_->leaves(loop)) fills_.run(leaf);
        return true;
      default:
        break;
    }
    const std::vector<std::int64_t> passes = picked(loop, begin, end);
    if (std::ssize(passes) == end - begin && loop.kind == StmtKind::kFor && run_.lanes_.run(loop, begin, end))
      return true;
    run_.work_.is_sampled |= std::ssize(passes) < end - begin;
    each_pass(loop, begin, end, [&] { run_.run_block(loop.body); });
    return true;
  }

  bool takes(const Transpose& copy) const { return is_on_ && tiled_->is_tiles(copy.to); }
  void run_transpose(const Transpose& copy, std::int64_t steps) {
    const std::int64_t to = run_.integer(copy.to_base), from = run_.integer(copy.from_base);
    const std::size_t size = size_bytes(kernel_.arrays[copy.to].type);
    if (steps <= 0 || !wanted_.any(copy.to, to, to + (steps - 1) * copy.to_step + copy.columns)) return;
    for (std::int64_t q = 0; q < steps && run_.failure_.empty(); ++q) {
      for (std::int64_t j = 0; j < copy.columns; ++j) {
        const std::int64_t at = to + q * copy.to_step + j;
        if (!wanted_.has(copy.to, at)) continue;
        interpreter::Word value;
        std::memcpy(value.bytes, run_.read(false, copy.from, from + j * copy.from_step + q), size);
        run_.write(true, copy.to, at, value, size);
      }
    }
  }

  template <class T>
  void run_tile(const Tile& tile, std::int64_t steps) {
    const std::int64_t base = tile.base == kNoId ? 0 : run_.integer(tile.base), left = run_.integer(tile.left.base),
                       right = run_.integer(tile.right.base);
    find_cells(tile, base);
    const std::size_t columns = columns_.size();
    std::vector<T> factors(static_cast<std::size_t>(std::max<std::int64_t>(steps, 0)) * columns),
        row(static_cast<std::size_t>(std::max<std::int64_t>(steps, 0))), sums(columns);
    for (std::int64_t q = 0; q < steps && !rows_.empty(); ++q) {
      for (std::size_t c = 0; c < columns; ++c)
        factors[static_cast<std::size_t>(q) * columns + c] =
            run_.template read_as<T>(tile.right.is_array, tile.right.id, right + q * tile.right.step + columns_[c]);
    }
    for (const std::int64_t i : rows_) {
      for (std::int64_t q = 0; q < steps; ++q)
        row[static_cast<std::size_t>(q)] = run_.template read_as<T>(tile.left.is_array, tile.left.id,
                                                                    left + i * tile.left.row_step + q * tile.left.step);
      for (std::size_t c = 0; c < columns; ++c)
        sums[c] = tile.start == TileStart::kGoOn
                      ? run_.template read_as<T>(true, tile.sums, base + i * tile.columns + columns_[c])
                      : T{0};
      if (steps > 0) run_.add_products_of(row, factors, sums);
      for (std::size_t c = 0; c < columns; ++c) {
        const std::int64_t at = base + i * tile.columns + columns_[c];
        const T sum = tile.start == TileStart::kAdd ? run_.template read_as<T>(true, tile.sums, at) + sums[c] : sums[c];
        run_.write(true, tile.sums, at, interpreter::Word::of(sum), sizeof sum);
      }
    }
    run_.work_.multiply_adds += static_cast<std::uint64_t>(std::max<std::int64_t>(steps, 0)) * rows_.size() * columns;
  }

 private:
  /// Passes that are done of each loop: over tiles, and over the rows and columns of one. The last level is the corners
  /// alone.
  struct Level {
    std::int64_t tiles = 0, stores = 0;
  };
  static constexpr std::array<Level, 8> kLevels = {
      {{8, 64}, {2, 64}, {3, 12}, {2, 12}, {2, 6}, {2, 3}, {2, 2}, {2, 1}}};

  // ---- the sample ----

  /// The first one that may do: a sum of many steps affords few rows and columns.
  std::size_t first_level(const Stmt& grid) {
    level_ = kLevels.size() - 1;
    wanted_.clear();
    depth_ = 0;
    is_at_tiles_ = true;
    collect(grid.body);
    const auto is_enough = [this](const Level& level) {
      return 2 * static_cast<std::uint64_t>(level.tiles * level.stores) * depth_ <= limit_;
    };
    return std::min<std::size_t>(static_cast<std::size_t>(std::ranges::find_if(kLevels, is_enough) - kLevels.begin()),
                                 kLevels.size() - 1);
  }

  bool is_over() const { return marked_ > limit_; }

  std::vector<std::int64_t> picked(const Stmt& loop, std::int64_t begin, std::int64_t end) {
    const bool has_tiles = tiled_->role(loop) == TiledKernel::Role::kTiles;
    const std::int64_t count = end - begin, most = has_tiles ? kLevels[level_].tiles : kLevels[level_].stores;
    std::vector<std::int64_t> passes;
    if (count <= 0) return passes;
    if (!has_tiles && most == 1 && count > 1) {  // the first of the first tiles, the last of the last ones
      if (std::ranges::find(open_, false) != open_.end() || open_.empty()) passes.push_back(begin);
      if (std::ranges::find(open_, false) == open_.end()) passes.push_back(end - 1);
      return passes;
    }
    const std::int64_t some = std::min(count, most);
    // Spread evenly, but for the ends a little off, so that not all are multiples of one number.
    for (std::int64_t i = 0; i < some; ++i) {
      const std::int64_t at = some == 1 ? 0 : i * (count - 1) / (some - 1);
      const bool is_inside = i > 0 && i + 1 < some && some < count;
      passes.push_back(begin + at +
                       (is_inside ? (i % 2 == 0 ? 1 : -1) * std::min<std::int64_t>(1, (count / some - 1) / 2) : 0));
    }
    return passes;
  }

  template <class Body>
  void each_pass(const Stmt& loop, std::int64_t begin, std::int64_t end, const Body& body) {
    const std::vector<std::int64_t> passes = picked(loop, begin, end);
    const bool decides = tiled_->role(loop) == TiledKernel::Role::kTiles && passes.size() > 1;
    for (const std::int64_t at : passes) {
      if (!run_.failure_.empty()) return;
      if (decides) open_.push_back(at == passes.back());
      run_.variables_[loop.id] = interpreter::Word::of(at);
      body();
      if (decides) open_.pop_back();
    }
  }

  /// Walks through the text as it will run, in steps of sums no further than needed, and marks what stores or tiles
  /// read.
  void collect(const std::vector<Stmt>& body) {
    for (const Stmt& stmt : body) {
      if (is_over() && level_ + 1 < kLevels.size()) return;
      switch (stmt.kind) {
        case StmtKind::kLet:
          if (!tiled_->reads_memory(stmt.a)) run_.variables_[stmt.id] = run_.eval(stmt.a);
          [[fallthrough]];
        case StmtKind::kStore:
          if (is_at_tiles_) break;
          mark_reads(stmt.a);
          mark_reads(stmt.b);
          break;
        case StmtKind::kIf:
          if (tiled_->reads_memory(stmt.a) || run_.eval(stmt.a).template as<bool>()) collect(stmt.body);
          break;
        case StmtKind::kTile:
          if (is_at_tiles_) mark_operands(kernel_.tiles[stmt.id], run_.integer(stmt.a));
          break;
        case StmtKind::kFor:
          collect_loop(stmt);
          break;
        default:
          break;
      }
    }
  }

  void collect_loop(const Stmt& loop) {
    const TiledKernel::Role role = tiled_->role(loop);
    const bool is_whole = role == TiledKernel::Role::kWhole;
    if (role == TiledKernel::Role::kFill || (!tiled_->has_tile(loop) && (is_whole || is_at_tiles_))) return;
    if (tiled_->reads_memory(loop.a) || tiled_->reads_memory(loop.b))
      return run_.fail("a loop over results has bounds that are in memory");
    const std::int64_t begin = run_.integer(loop.a), end = run_.integer(loop.b);
    if (!is_whole) return each_pass(loop, begin, end, [&] { collect(loop.body); });
    if (begin >= end) return;
    // Sums lie in the same places in all steps: the first ones and the last ones say which.
    const std::uint64_t weight = weight_;
    weight_ *= static_cast<std::uint64_t>(end - begin);
    for (std::int64_t at = begin; at < end; at = std::max(at + 1, end - 1)) {
      run_.variables_[loop.id] = interpreter::Word::of(at);
      collect(loop.body);
      weight_ = 0;  // the others are counted
    }
    weight_ = weight;
  }

  void mark_reads(ExprId id) {
    if (id == kNoId) return;
    const Expr& e = kernel_.exprs[id];
    if (e.operation == Operation::kElement && tiled_->is_tiles(e.id)) {
      wanted_.mark(e.id, run_.integer(e.in[0]));
      ++marked_;
      return;
    }
    for (const ExprId in : e.in) mark_reads(in);
  }

  void mark_operands(const Tile& tile, std::int64_t steps) {
    find_cells(tile, tile.base == kNoId ? 0 : run_.integer(tile.base));
    const std::int64_t left = run_.integer(tile.left.base), right = run_.integer(tile.right.base);
    std::uint64_t copies = 0;
    for (std::int64_t q = 0; q < steps; ++q) {
      for (std::size_t r = 0; tile.left.is_array && r < rows_.size(); ++r)
        copies += wanted_.mark(tile.left.id, left + rows_[r] * tile.left.row_step + q * tile.left.step);
      for (std::size_t c = 0; tile.right.is_array && c < columns_.size(); ++c)
        copies += wanted_.mark(tile.right.id, right + q * tile.right.step + columns_[c]);
    }
    if (std::ranges::find(open_, true) == open_.end())
      depth_ += weight_ * static_cast<std::uint64_t>(std::max<std::int64_t>(steps, 0));
    constexpr std::uint64_t kProducts = 16;  // cost as much as a copy
    marked_ += weight_ * (copies + static_cast<std::uint64_t>(std::max<std::int64_t>(steps, 0)) * rows_.size() *
                                       columns_.size() / kProducts);
  }

  /// Rows and columns of a tile in which a sum is wanted.
  void find_cells(const Tile& tile, std::int64_t base) {
    rows_.clear();
    columns_.clear();
    std::array<bool, kMostTileColumns> has_column{};
    for (std::int64_t i = 0; i < tile.rows; ++i) {
      bool has_row = false;
      for (std::int64_t j = 0; j < tile.columns; ++j) {
        if (!wanted_.has(tile.sums, base + i * tile.columns + j)) continue;
        has_row = has_column[static_cast<std::size_t>(j)] = true;
      }
      if (has_row) rows_.push_back(i);
    }
    for (std::int64_t j = 0; j < tile.columns; ++j) {
      if (has_column[static_cast<std::size_t>(j)]) columns_.push_back(j);
    }
  }

  Run& run_;
  const KernelIr& kernel_;
  std::unique_ptr<TiledKernel> tiled_;
  bool is_on_ = false, is_at_tiles_ = false;
  std::uint64_t limit_ = 0, marked_ = 0, weight_ = 1;
  std::uint64_t depth_ = 0;  // steps of a sum
  std::size_t level_ = 0;
  WantedElements wanted_{kernel_};
  TileFills<Run> fills_{run_, wanted_};
  std::vector<std::int64_t> rows_, columns_;  // of a tile, in which a sum is wanted
  std::vector<bool> open_;  // per open loop over tiles: whether this is its last pass
};

}  // namespace crucible::kernel
