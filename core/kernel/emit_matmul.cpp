// Matrix products for backends whose library does not take them: any strides, any float type. Row blocks by column
// blocks with the columns vectorised, or dot products where both operands run along k.
#include <algorithm>

#include "core/kernel/emit.hpp"

namespace crucible::kernel {
namespace {

using graph::Op;
using graph::Program;
using graph::View;

std::int64_t divisor_below(std::int64_t size, std::int64_t most) {
  for (std::int64_t d = std::min(size, most); d > 1; --d) {
    if (size % d == 0) return d;
  }
  return 1;
}

class MatMulEmitter {
 public:
  MatMulEmitter(const Program& program, const Op& op)
      : program_(program),
        op_(op),
        binder_(program, b_),
        a_(op.inputs[0].view),
        right_(op.inputs[1].view),
        c_(op.outputs[0].view),
        rank_(c_.sizes.size()),
        m_(c_.sizes[rank_ - 2]),
        n_(c_.sizes[rank_ - 1]),
        k_(a_.sizes[rank_ - 1]),
        type_(compute_type(program.values[op.outputs[0].value].dtype)) {
    a_buffer_ = binder_.buffer(op.inputs[0].value, false);
    right_buffer_ = binder_.buffer(op.inputs[1].value, false);
    c_buffer_ = binder_.buffer(op.outputs[0].value, true);
  }

  Emitted run() {
    const bool dots =
        right_.strides[rank_ - 1] != 1 && right_.strides[rank_ - 2] == 1 && a_.strides[rank_ - 1] == 1 && k_ > 4;
    const std::int64_t rows = dots ? 1 : divisor_below(m_, 4),
                       columns = std::max<std::int64_t>(1, divisor_below(n_, 256));
    std::vector<std::int64_t> sizes(c_.sizes.begin(), c_.sizes.end() - 2);
    sizes.push_back(m_ / std::max<std::int64_t>(1, rows));
    sizes.push_back(n_ / columns);
    std::int64_t grid = 1;
    for (auto size : sizes) grid *= size;
    const ExprId item = b_.open_grid(LoopMode::kSerial);
    point_ = split_index(b_, item, sizes);
    const ExprId row = b_.let(b_.multiply(point_[rank_ - 2], rows)),
                 column = b_.let(b_.multiply(point_[rank_ - 1], columns));
    dots ? emit_dots(row, column, columns) : emit_block(row, rows, column, columns);
    b_.close();

    Emitted emitted;
    emitted.values = binder_.values();
    emitted.grid = grid;
    emitted.flops = static_cast<std::uint64_t>(2 * c_.elements() * k_);
    emitted.item_ns = static_cast<double>(2 * rows * columns * k_) / 20.0;
    emitted.ir = b_.finish();
    return emitted;
  }

 private:
  ExprId load(BufferId buffer, const View& view, ExprId i, ExprId j) {
    auto point = point_;
    point[rank_ - 2] = i;
    point[rank_ - 1] = j;
    return load_value(b_, buffer, view_index(b_, view, point), b_.depth());
  }

  void store(ExprId i, ExprId j, ExprId sum) {
    auto point = point_;
    point[rank_ - 2] = i;
    point[rank_ - 1] = j;
    const ExprId scaled =
        op_.attributes.alpha == 1 ? sum : b_.binary(Operation::kMultiply, sum, b_.real(op_.attributes.alpha, type_));
    b_.store(c_buffer_, view_index(b_, c_, point),
             storable(b_, b_.let(scaled), program_.values[op_.outputs[0].value].dtype));
  }

  void emit_block(ExprId row, std::int64_t rows, ExprId column, std::int64_t columns) {
    const ArrayId sums = b_.add_array(type_, rows * columns);
    ExprId at = b_.open_for(b_.integer(0), b_.integer(rows * columns), LoopMode::kVector);
    b_.store_element(sums, at, b_.real(0, type_));
    b_.close();
    const ExprId k = b_.open_for(b_.integer(0), b_.integer(k_), LoopMode::kSerial);
    std::vector<ExprId> left;
    for (std::int64_t r = 0; r < rows; ++r) left.push_back(load(a_buffer_, a_, b_.add(row, b_.integer(r)), k));
    ExprId j = b_.open_for(b_.integer(0), b_.integer(columns), LoopMode::kVector);
    const ExprId right = load(right_buffer_, right_, k, b_.add(column, j));
    for (std::int64_t r = 0; r < rows; ++r) {
      const ExprId place = b_.add(j, b_.integer(r * columns));
      const ExprId product = b_.binary(Operation::kMultiply, left[static_cast<std::size_t>(r)], right);
      b_.store_element(sums, place, b_.add(b_.element(sums, place), product));
    }
    b_.close();
    b_.close();
    for (std::int64_t r = 0; r < rows; ++r) {
      j = b_.open_for(b_.integer(0), b_.integer(columns), LoopMode::kVector);
      store(b_.add(row, b_.integer(r)), b_.add(column, j),
            b_.let(b_.element(sums, b_.add(j, b_.integer(r * columns)))));
      b_.close();
    }
  }

  void emit_dots(ExprId row, ExprId column, std::int64_t columns) {
    const ExprId j = b_.add(column, b_.open_for(b_.integer(0), b_.integer(columns), LoopMode::kSerial));
    const VariableId sum = b_.declare(b_.real(0, type_));
    const ExprId k = b_.open_for(b_.integer(0), b_.integer(k_), LoopMode::kVector);
    const ExprId product =
        b_.binary(Operation::kMultiply, load(a_buffer_, a_, row, k), load(right_buffer_, right_, k, j));
    b_.set(sum, b_.add(b_.variable(sum), product));
    b_.close();
    store(row, j, b_.variable(sum));
    b_.close();
  }

  const Program& program_;
  const Op& op_;
  IrBuilder b_;
  Binder binder_;
  const View& a_;
  const View& right_;
  const View& c_;
  const std::size_t rank_;
  const std::int64_t m_, n_, k_;
  const DType type_;
  BufferId a_buffer_ = 0, right_buffer_ = 0, c_buffer_ = 0;
  std::vector<ExprId> point_;  // batch indices, then row and column blocks
};

}  // namespace

Emitted emit_matmul(const Program& program, const Op& op) { return MatMulEmitter(program, op).run(); }

}  // namespace crucible::kernel
