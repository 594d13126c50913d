// The kernel of an attention: see attention.hpp. A work item owns a block of rows of one batch: it computes their
// scores into scratch, does the group's loops over them (splice.hpp) and multiplies what comes out with the outer
// operands.
//
// Products: panels of columns, of each panel the chunks of 256 steps in order, of each chunk all tiles of rows. The
// right operand is read where it lies or copied panel by panel; left operands are scratch or copied to it.
#include <algorithm>
#include <functional>
#include <map>
#include <span>
#include <utility>

#include "core/kernel/fuse/attention.hpp"
#include "core/kernel/emit/group_emitter.hpp"
#include "core/kernel/ir/splice.hpp"

namespace crucible::kernel {
namespace {

using graph::Op;
using graph::OpId;
using graph::Program;
using graph::ValueId;
using graph::View;

constexpr std::int64_t kChunk = 256;    // steps of a chain of a product (docs/numerics.md)
constexpr std::int64_t kMostRows = 96;  // from which copying the right operand for each item costs little

class AttentionEmitter {
 public:
  AttentionEmitter(const Program& program, const Unit& unit, const std::set<ValueId>& stored, const DeviceShape& device)
      : program_(program),
        unit_(unit),
        stored_(stored),
        device_(device),
        binder_(program, b_),
        sizes_(*score_sizes(unit.inner.empty() ? program.ops[unit.outer[0]].inputs[0].view
                                               : program.ops[unit.inner[0]].outputs[0].view)),
        scratch_(scratch_values(program, unit.inner, unit.outer)) {}

  Emitted run() {
    emit_rows_of_group();
    find_types();
    choose_rows();
    add_scratch();
    const std::int64_t blocks = (sizes_.rows + rows_ - 1) / rows_;
    const std::int64_t sizes[] = {sizes_.batches(), blocks};
    const ExprId item = b_.open_grid(LoopMode::kSerial);
    const auto at = split_index(b_, item, sizes);
    batch_ = at[0];
    emit_blocks(at[1]);
    b_.close();
    return finish(sizes_.batches() * blocks);
  }

 private:
  /// The group's own kernel, whose items are the rows of all batches.
  void emit_rows_of_group() {
    LoopPlan plan = *plan_by_rows(unit_.group, scratch_, sizes_);
    const DType type = compute_type(program_.values[*scratch_.begin()].dtype);
    pitch_ = score_pitch(sizes_.keys, type);
    for (Member& member : plan.group.members) {
      for (Access& input : member.inputs) move_apart(input);
      move_apart(member.output);
    }
    std::set<ValueId> written;
    for (const Member& member : unit_.group.members) {
      const ValueId value = member.output.value;
      if (stored_.contains(value) || scratch_.contains(value)) written.insert(value);
    }
    rows_of_group_ = GroupEmitter(program_, std::move(plan), written).run();
  }

  /// Rows of scratch are pitch_ apart.
  void move_apart(Access& access) const {
    if (!scratch_.contains(access.value)) return;
    for (std::int64_t& stride : access.strides) {
      if (stride >= sizes_.keys) stride = stride / sizes_.keys * pitch_;
    }
  }

  void find_types() {
    const std::vector<OpId>& products = unit_.inner.empty() ? unit_.outer : unit_.inner;
    type_ = compute_type(program_.values[program_.ops[products[0]].outputs[0].value].dtype);
    lanes_ = type_ == DType::kF64 ? 8 : 16;
    const std::int64_t registers = device_.register_bytes;
    constexpr std::int64_t kAvx512 = 32 * 64, kAvx2 = 16 * 32;  // as in tile_product.cpp
    if (registers == 0 || registers >= kAvx512) {
      tile_rows_ = 12, tile_vectors_ = 2;
    } else if (registers >= kAvx2) {
      tile_rows_ = 6;
    } else {
      tile_rows_ = std::max<std::int64_t>(registers / 64 - 2, 1);
    }
  }

  /// As many as fit, fewer where threads would have nothing to do. Blocks differ by little.
  void choose_rows() {
    const std::int64_t fit = rows_that_fit(sizes_, type_, arrays_needed(), device_);
    std::int64_t most = std::clamp<std::int64_t>(std::min(fit, kMostRows), 1, sizes_.rows);
    const std::int64_t workers = device_.workers > 0 ? device_.workers : 4;
    while (most >= 4 * tile_rows_ && sizes_.batches() * ((sizes_.rows + most - 1) / most) < workers) most /= 2;
    if (most > tile_rows_) most -= most % tile_rows_;
    const std::int64_t blocks = (sizes_.rows + most - 1) / most;
    rows_ = (sizes_.rows + blocks - 1) / blocks;
    if (rows_ > tile_rows_) rows_ = std::min(most, (rows_ + tile_rows_ - 1) / tile_rows_ * tile_rows_);
  }

  std::int64_t arrays_needed() const {
    std::set<ValueId> values = scratch_;
    for (const AliasPair& pair : shared()) values.erase(pair.result);
    return static_cast<std::int64_t>(values.size());
  }

  /// Results in scratch that may lie where an operand in scratch did.
  std::vector<AliasPair> shared() const {
    std::vector<AliasPair> pairs;
    std::set<ValueId> taken;
    for (const AliasPair& pair : rows_of_group_.aliases) {
      const bool both =
          scratch_.contains(pair.operand) && scratch_.contains(pair.result) && !stored_.contains(pair.operand);
      if (!both || taken.contains(pair.operand) || taken.contains(pair.result)) continue;
      taken.insert(pair.operand);
      taken.insert(pair.result);
      pairs.push_back(pair);
    }
    return pairs;
  }

  void add_scratch() {
    const auto pairs = shared();
    for (const ValueId value : scratch_) {
      const auto pair = std::ranges::find(pairs, value, &AliasPair::result);
      if (pair == pairs.end()) arrays_[value] = b_.add_array(type_, rows_ * pitch_);
    }
    for (const AliasPair& pair : pairs) arrays_[pair.result] = arrays_.at(pair.operand);
    width_ = tile_vectors_ * lanes_;
    std::int64_t most_left = 0;
    for (const OpId op : unit_.inner) most_left = std::max(most_left, steps_of(op));
    if (most_left > 0) left_array_ = b_.add_array(type_, rows_ * (most_left + lanes_));
    right_array_ = b_.add_array(type_, kChunk * width_);
    sums_ = b_.add_array(type_, rows_ * width_);
  }

  std::int64_t steps_of(OpId op) const { return program_.ops[op].inputs[0].view.sizes.back(); }

  /// Blocks of rows_ rows, and what is left over.
  void emit_blocks(ExprId block) {
    const std::int64_t full = sizes_.rows / rows_, rest = sizes_.rows % rows_;
    if (full > 0) {
      if (rest > 0) b_.open_if(b_.binary(Operation::kLess, block, b_.integer(full)));
      const ExprId first = b_.let(b_.multiply(block, rows_));
      emit_block(rest > 0 ? b_.assume(first, 0, (full - 1) * rows_) : first, rows_);
      if (rest > 0) b_.close();
    }
    if (rest == 0) return;
    if (full > 0) b_.open_if(b_.binary(Operation::kEqual, block, b_.integer(full)));
    emit_block(b_.integer(full * rows_), rest);
    if (full > 0) b_.close();
  }

  void emit_block(ExprId row, std::int64_t rows) {
    block_ = {row, rows};
    for (const OpId op : unit_.inner) emit_inner(op);
    emit_group_rows();
    for (const ValueId value : scratch_) {
      if (stored_.contains(value)) copy_out(value);
    }
    for (const OpId op : unit_.outer) emit_outer(op);
  }

  // ---- the group ----

  void emit_group_rows() {
    const ExprId first = b_.let(b_.add(b_.multiply(batch_, sizes_.rows), block_.row));
    const ExprId base = b_.let(b_.multiply(first, pitch_));
    const auto in_scratch = [&](ExprId index) {
      return b_.assume(b_.binary(Operation::kSubtract, index, base), 0, block_.rows * pitch_ - 1);
    };
    const std::vector<ValueId>& values = rows_of_group_.values;
    if (!splicer_) {
      splicer_.emplace(
          rows_of_group_.ir, b_,
          SpliceHooks{.load = [this](BufferId buffer, ExprId index) { return load_(buffer, index); },
                      .store = [this](BufferId buffer, ExprId index, ExprId value) { store_(buffer, index, value); },
                      .scalar = [this](std::uint32_t scalar,
                                       DType type) { return binder_.scalar(rows_of_group_.scalars[scalar], type); }});
    }
    load_ = [&, in_scratch](BufferId buffer, ExprId index) {
      const auto array = arrays_.find(values[buffer]);
      if (array == arrays_.end()) return b_.load(binder_.buffer(values[buffer], false), index);
      return b_.convert(b_.element(array->second, in_scratch(index)), program_.values[values[buffer]].dtype);
    };
    store_ = [&, in_scratch](BufferId buffer, ExprId index, ExprId value) {
      const auto array = arrays_.find(values[buffer]);
      if (array == arrays_.end()) return b_.store(binder_.buffer(values[buffer], true), index, value);
      b_.store_element(array->second, in_scratch(index), b_.convert(value, type_));
    };
    splicer_->write(first, block_.rows);
  }

  /// A value in scratch that others need, too.
  void copy_out(ValueId value) {
    const BufferId buffer = binder_.buffer(value, true);
    const ExprId first = b_.let(b_.multiply(b_.add(b_.multiply(batch_, sizes_.rows), block_.row), sizes_.keys));
    const ExprId i = b_.open_for(b_.integer(0), b_.integer(block_.rows), LoopMode::kSerial);
    const ExprId j = b_.open_for(b_.integer(0), b_.integer(sizes_.keys), LoopMode::kVector);
    const ExprId element = b_.let(b_.element(arrays_.at(value), b_.add(b_.multiply(i, pitch_), j)));
    b_.store(buffer, b_.add(first, b_.add(b_.multiply(i, sizes_.keys), j)),
             storable(b_, element, program_.values[value].dtype));
    b_.close();
    b_.close();
  }

  // ---- products ----

  /// What a product reads and where its results go: store(i, j, sum) for row i of the block.
  struct Product {
    const Op& op;
    std::int64_t steps, columns;
    ArrayId left;
    std::int64_t left_pitch;
    View right;  // [batch..., steps, columns]
    std::vector<ExprId> batch;
    std::function<void(ExprId i, ExprId j, ExprId sum)> store;
  };

  std::vector<ExprId> batch_of(const View& view) {
    return split_index(b_, batch_, std::span(view.sizes).first(view.sizes.size() - 2));
  }

  ExprId scaled(const Op& op, ExprId sum) {
    if (op.attributes.alpha == 1) return sum;
    return b_.binary(Operation::kMultiply, sum, b_.real(op.attributes.alpha, type_));
  }

  ExprId index(const View& view, const std::vector<ExprId>& batch, ExprId i, ExprId j) {
    std::vector<ExprId> point = batch;
    point.push_back(i);
    point.push_back(j);
    return view_index(b_, view, point);
  }

  void emit_inner(OpId id) {
    const Op& op = program_.ops[id];
    const View& left = op.inputs[0].view;
    const std::vector<ExprId> batch = batch_of(op.outputs[0].view);
    const std::int64_t steps = steps_of(id), left_pitch = steps + lanes_;
    const BufferId from = binder_.buffer(op.inputs[0].value, false);
    const ExprId i = b_.open_for(b_.integer(0), b_.integer(block_.rows), LoopMode::kSerial);
    const ExprId q = b_.open_for(b_.integer(0), b_.integer(steps), LoopMode::kVector);
    const ExprId at = index(left, batch, b_.add(block_.row, i), q);
    b_.store_element(left_array_, b_.add(b_.multiply(i, left_pitch), q), load_value(b_, from, at, b_.depth()));
    b_.close();
    b_.close();
    const ValueId result = op.outputs[0].value;
    emit_product({.op = op,
                  .steps = steps,
                  .columns = sizes_.keys,
                  .left = left_array_,
                  .left_pitch = left_pitch,
                  .right = op.inputs[1].view,
                  .batch = batch,
                  .store = [&](ExprId row, ExprId j, ExprId sum) {
                    const ExprId rounded = rounded_to(b_, b_.let(scaled(op, sum)), program_.values[result].dtype);
                    b_.store_element(arrays_.at(result), b_.add(b_.multiply(row, pitch_), j), rounded);
                  }});
  }

  void emit_outer(OpId id) {
    const Op& op = program_.ops[id];
    const View& out = op.outputs[0].view;
    const std::vector<ExprId> batch = batch_of(out);
    const ValueId result = op.outputs[0].value;
    const BufferId to = binder_.buffer(result, true);
    emit_product({.op = op,
                  .steps = sizes_.keys,
                  .columns = out.sizes.back(),
                  .left = arrays_.at(op.inputs[0].value),
                  .left_pitch = pitch_,
                  .right = op.inputs[1].view,
                  .batch = batch,
                  .store = [&](ExprId row, ExprId j, ExprId sum) {
                    const ExprId value = storable(b_, b_.let(scaled(op, sum)), program_.values[result].dtype);
                    b_.store(to, index(out, batch, b_.add(block_.row, row), j), value);
                  }});
  }

  void emit_product(const Product& product) {
    const std::int64_t width = panel_width(product), panels = product.columns / width, rest = product.columns % width;
    if (panels > 0) {
      const ExprId panel = b_.open_for(b_.integer(0), b_.integer(panels), LoopMode::kSerial);
      emit_panel(product, b_.let(b_.multiply(panel, width)), width, width);
      b_.close();
    }
    if (rest > 0) emit_panel(product, b_.integer(panels * width), rest, width);
  }

  std::int64_t panel_width(const Product& product) const { return product.columns <= lanes_ ? lanes_ : width_; }

  void emit_panel(const Product& product, ExprId first, std::int64_t columns, std::int64_t width) {
    const std::int64_t chunks = product.steps / kChunk, rest = product.steps % kChunk;
    if (product.steps <= kChunk) {
      emit_chunk(product, b_.integer(0), product.steps, first, columns, width);
    } else {
      const ExprId any = b_.open_for(b_.integer(0), b_.integer(block_.rows * width), LoopMode::kVector);
      b_.store_element(sums_, any, b_.real(-0.0, type_));  // to which any first number adds as it is
      b_.close();
      const ExprId chunk = b_.open_for(b_.integer(0), b_.integer(chunks), LoopMode::kSerial);
      emit_chunk(product, b_.let(b_.multiply(chunk, kChunk)), kChunk, first, columns, width);
      b_.close();
      if (rest > 0) emit_chunk(product, b_.integer(chunks * kChunk), rest, first, columns, width);
    }
    const ExprId i = b_.open_for(b_.integer(0), b_.integer(block_.rows), LoopMode::kSerial);
    const ExprId j = b_.open_for(b_.integer(0), b_.integer(columns), LoopMode::kVector);
    product.store(i, b_.add(first, j), b_.let(b_.element(sums_, b_.add(b_.multiply(i, width), j))));
    b_.close();
    b_.close();
  }

  void emit_chunk(const Product& product, ExprId k0, std::int64_t steps, ExprId first, std::int64_t columns,
                  std::int64_t width) {
    const TileOperand right = right_operand(product, k0, steps, first, columns, width);
    const std::int64_t tiles = (block_.rows + tile_rows_ - 1) / tile_rows_, low = block_.rows / tiles;
    const std::int64_t higher =
        block_.rows - low * tiles;  // heights differ by one at most, so that no short tile is left
    const auto emit_tiles = [&](std::int64_t from, std::int64_t height, std::int64_t count) {
      if (count == 0) return;
      const ExprId tile = b_.open_for(b_.integer(0), b_.integer(count), LoopMode::kSerial);
      const ExprId i0 = b_.let(b_.add(b_.multiply(tile, height), b_.integer(from)));
      b_.tile({.sums = sums_,
               .base = b_.let(b_.multiply(i0, width)),
               .rows = static_cast<std::uint32_t>(height),
               .columns = static_cast<std::uint32_t>(width),
               .start = product.steps <= kChunk ? TileStart::kZero : TileStart::kAdd,
               .left = {.is_array = true,
                        .id = product.left,
                        .base = b_.let(b_.add(b_.multiply(i0, product.left_pitch), k0)),
                        .row_step = product.left_pitch,
                        .step = 1},
               .right = right},
              b_.integer(steps));
      b_.close();
    };
    emit_tiles(0, low + 1, higher);
    emit_tiles(higher * (low + 1), low, tiles - higher);
  }

  /// Steps [k0, k0 + steps) of a panel of the right operand: where it lies if its columns lie side by side, else
  /// copied.
  TileOperand right_operand(const Product& product, ExprId k0, std::int64_t steps, ExprId first, std::int64_t columns,
                            std::int64_t width) {
    const View& view = product.right;
    const std::size_t rank = view.sizes.size();
    const BufferId from = binder_.buffer(product.op.inputs[1].value, false);
    const std::int64_t along_steps = view.strides[rank - 2], along_columns = view.strides[rank - 1];
    const bool is_own_type = b_.ir().buffers[from].type == type_;
    if (is_own_type && columns == width && along_columns == 1 && along_steps >= 0)
      return {
          .is_array = false, .id = from, .base = b_.let(index(view, product.batch, k0, first)), .step = along_steps};
    if (is_own_type && along_steps == 1 && along_columns > 0) {
      b_.transpose({.to = right_array_,
                    .from = from,
                    .columns = static_cast<std::uint32_t>(columns),
                    .to_base = b_.integer(0),
                    .from_base = b_.let(index(view, product.batch, k0, first)),
                    .to_step = width,
                    .from_step = along_columns},
                   b_.integer(steps));
    } else {
      const ExprId q = b_.open_for(b_.integer(0), b_.integer(steps), LoopMode::kSerial);
      const ExprId j =
          b_.open_for(b_.integer(0), b_.integer(columns), along_columns == 1 ? LoopMode::kVector : LoopMode::kSerial);
      const ExprId at = index(view, product.batch, b_.add(k0, q), b_.add(first, j));
      b_.store_element(right_array_, b_.add(b_.multiply(q, width), j), load_value(b_, from, at, b_.depth()));
      b_.close();
      b_.close();
    }
    if (columns < width) {  // columns whose results nobody stores are of numbers, too
      const ExprId q = b_.open_for(b_.integer(0), b_.integer(steps), LoopMode::kSerial);
      const ExprId j = b_.open_for(b_.integer(columns), b_.integer(width), LoopMode::kVector);
      b_.store_element(right_array_, b_.add(b_.multiply(q, width), j), b_.real(0, type_));
      b_.close();
      b_.close();
    }
    return {.is_array = true, .id = right_array_, .base = b_.integer(0), .step = width};
  }

  Emitted finish(std::int64_t grid) {
    Emitted emitted;
    emitted.values = binder_.values();
    emitted.scalars = binder_.scalars();
    emitted.grid = grid;
    double product_flops = 0;
    for (const auto* products : {&unit_.inner, &unit_.outer}) {
      for (const OpId op : *products) {
        product_flops +=
            2.0 * static_cast<double>(program_.ops[op].outputs[0].view.elements()) * static_cast<double>(steps_of(op));
      }
    }
    emitted.flops = static_cast<std::uint64_t>(product_flops) + rows_of_group_.flops;
    const auto rows = static_cast<double>(sizes_.batches() * sizes_.rows),
               items = static_cast<double>(std::max<std::int64_t>(grid, 1));
    emitted.item_ns = (product_flops / 60.0 + rows_of_group_.item_ns * rows) / items;
    emitted.ir = b_.finish();
    return emitted;
  }

  struct Block {
    ExprId row;
    std::int64_t rows;
  };

  const Program& program_;
  const Unit& unit_;
  const std::set<ValueId>& stored_;
  const DeviceShape device_;
  IrBuilder b_;
  Binder binder_;
  const ScoreSizes sizes_;
  const std::set<ValueId> scratch_;
  Emitted rows_of_group_;
  std::optional<Splicer> splicer_;
  std::function<ExprId(BufferId, ExprId)> load_;
  std::function<void(BufferId, ExprId, ExprId)> store_;
  DType type_ = DType::kF32;
  std::int64_t lanes_ = 16, tile_rows_ = 12, tile_vectors_ = 1, width_ = 0, rows_ = 0, pitch_ = 0;
  std::map<ValueId, ArrayId> arrays_;  // per value in scratch_
  ArrayId left_array_ = 0, right_array_ = 0, sums_ = 0;
  ExprId batch_ = kNoId;
  Block block_{kNoId, 0};
};

}  // namespace

Emitted emit_attention(const Program& program, const Unit& unit, const std::set<ValueId>& stored,
                       const DeviceShape& device) {
  return AttentionEmitter(program, unit, stored, device).run();
}

}  // namespace crucible::kernel
