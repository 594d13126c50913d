// Kernels of matrix factorizations. Sums of products are taken in f64, one after the other, so that the results depend
// on neither the number of threads nor the width of vectors. A work item owns a matrix; where columns of the result do
// not meet each other (triangular systems, products of reflectors) it owns a column.
//
// Eigenvalues and singular values come from one-sided Jacobi rotations: pairs of columns are turned until all stand
// upright on each other. What that makes of a matrix is its u s; v is the product of the rotations.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "core/kernel/emit/emit.hpp"

namespace crucible::kernel {
namespace {

using graph::Op;
using graph::OpKind;
using graph::Program;
using graph::View;

constexpr double kStepNs = 1;
constexpr std::int64_t kMostSweeps = 40;  // the rotations converge quadratically: ten are many

class FactorEmitter {
 public:
  FactorEmitter(const Program& program, const Op& op)
      : program_(program), op_(op), binder_(program, b_), type_(program.values[op.inputs[0].value].dtype) {
    const View& x = op.inputs[0].view;
    const std::size_t rank = x.sizes.size();
    rows_ = x.sizes[rank - 2];
    columns_ = x.sizes[rank - 1];
    batch_.assign(x.sizes.begin(), x.sizes.end() - 2);
    for (const auto& input : op.inputs) inputs_.push_back({binder_.buffer(input.value, false), &input.view, type_});
    for (const auto& output : op.outputs) {
      results_.push_back({binder_.buffer(output.value, true), &output.view, program.values[output.value].dtype});
    }
  }

  /// Row by row: an element of l is what the rows above and the one to its left leave of x's.
  Emitted cholesky() {
    open({});
    const Part &x = inputs_[0], &l = results_[0];
    const ExprId i = from_to(zero(), number(rows_));
    const auto rest = [&](ExprId j) {
      const VariableId sum = b_.declare(at(x, i, j));
      const ExprId k = from_to(zero(), j);
      b_.set(sum, minus(b_.variable(sum), times(at(l, i, k), at(l, j, k))));
      b_.close();
      return b_.let(b_.variable(sum));
    };
    const ExprId j = from_to(zero(), i);
    put(l, i, j, over(rest(j), at(l, j, j)));
    b_.close();
    const ExprId last = rest(i);
    put(l, i, i,
        b_.select(less(real(0), last), b_.unary(Operation::kSqrt, last),
                  real(std::numeric_limits<double>::quiet_NaN())));
    const ExprId right = from_to(b_.add(i, number(1)), number(rows_));
    put(l, i, right, real(0));
    b_.close();
    b_.close();
    return finished(cubed(rows_, rows_, rows_) / 3);
  }

  Emitted triangular_solve() {
    const bool upper = (op_.attributes.index & 1) != 0, unit = (op_.attributes.index & 2) != 0;
    const ExprId column = open({op_.outputs[0].view.sizes.back()});
    const Part &a = inputs_[0], &right = inputs_[1], &x = results_[0];
    const ExprId step = from_to(zero(), number(rows_));
    const ExprId i = upper ? b_.let(b_.binary(Operation::kSubtract, number(rows_ - 1), step)) : step;
    const VariableId sum = b_.declare(at(right, i, column));
    const ExprId k = upper ? from_to(b_.add(i, number(1)), number(rows_)) : from_to(zero(), i);
    b_.set(sum, minus(b_.variable(sum), times(at(a, i, k), at(x, k, column))));
    b_.close();
    put(x, i, column, unit ? b_.variable(sum) : over(b_.variable(sum), at(a, i, i)));
    b_.close();
    return finished(cubed(rows_, rows_, 1));
  }

  /// With the largest element of what is left of a column on the diagonal; the rows below lose their part of it.
  Emitted lu() {
    open({});
    const Part &f = results_[0], &pivots = results_[1];
    copy_of(inputs_[0], f);
    const ExprId k = from_to(zero(), number(std::min(rows_, columns_)));
    const VariableId best = b_.declare(magnitude(at(f, k, k))), place = b_.declare(k);
    {
      const ExprId i = from_to(b_.add(k, number(1)), number(rows_));
      const ExprId size = magnitude(at(f, i, k)), takes = b_.let(less(b_.variable(best), size));
      b_.set(best, b_.select(takes, size, b_.variable(best)));
      b_.set(place, b_.select(takes, i, b_.variable(place)));
      b_.close();
    }
    const ExprId row = b_.let(b_.assume(b_.variable(place), 0, std::max<std::int64_t>(0, rows_ - 1)));
    put(pivots, k, kNoId, row);
    b_.open_if(b_.binary(Operation::kNotEqual, row, k));
    {
      const ExprId j = from_to(zero(), number(columns_), LoopMode::kVector);
      exchange(f, k, j, row, j);
      b_.close();
    }
    b_.close();
    const ExprId pivot = at(f, k, k);
    b_.open_if(b_.binary(Operation::kNotEqual, pivot, real(0)));
    const ExprId i = from_to(b_.add(k, number(1)), number(rows_));
    put(f, i, k, over(at(f, i, k), pivot));
    const ExprId factor = at(f, i, k);
    const ExprId j = from_to(b_.add(k, number(1)), number(columns_), LoopMode::kVector);
    put(f, i, j, minus(at(f, i, j), times(factor, at(f, k, j))));
    for (int blocks = 0; blocks < 4; ++blocks) b_.close();
    return finished(cubed(rows_, columns_, std::min(rows_, columns_)) / 3);
  }

  Emitted householder_qr() {
    open({});
    const Part &r = results_[0], &factors = results_[1];
    copy_of(inputs_[0], r);
    const ExprId k = from_to(zero(), number(std::min(rows_, columns_)));
    const ExprId next = b_.let(b_.add(k, number(1)));
    // Lengths of columns are taken beside their largest element, so that nothing overflows on the way.
    const VariableId below = b_.declare(real(0));
    {
      const ExprId i = from_to(next, number(rows_));
      b_.set(below, larger(b_.variable(below), magnitude(at(r, i, k))));
      b_.close();
    }
    put(factors, k, kNoId, real(0));
    b_.open_if(b_.binary(Operation::kNotEqual, b_.variable(below), real(0)));
    const ExprId alpha = at(r, k, k), scale = b_.let(larger(b_.variable(below), magnitude(alpha)));
    const ExprId first = b_.let(over(alpha, scale));
    const VariableId squares = b_.declare(times(first, first));
    {
      const ExprId i = from_to(next, number(rows_));
      const ExprId part = b_.let(over(at(r, i, k), scale));
      b_.set(squares, plus(b_.variable(squares), times(part, part)));
      b_.close();
    }
    const ExprId length = b_.let(times(scale, b_.unary(Operation::kSqrt, b_.variable(squares))));
    const ExprId beta = b_.let(b_.select(less(alpha, real(0)), length, b_.unary(Operation::kNegate, length)));
    const ExprId factor = b_.let(over(minus(beta, alpha), beta)), divisor = b_.let(minus(alpha, beta));
    put(factors, k, kNoId, factor);
    put(r, k, k, beta);
    {
      const ExprId i = from_to(next, number(rows_));
      put(r, i, k, over(at(r, i, k), divisor));
      b_.close();
    }
    const ExprId j = from_to(next, number(columns_));
    reflect(r, k, j, r, factor);
    for (int blocks = 0; blocks < 3; ++blocks) b_.close();
    return finished(cubed(rows_, columns_, std::min(rows_, columns_)) * 2);
  }

  Emitted householder_product() {
    const ExprId column = open({op_.outputs[0].view.sizes.back()});
    const Part &v = inputs_[0], &factors = inputs_[1], &q = results_[0];
    const ExprId i = from_to(zero(), number(rows_));
    put(q, i, column, b_.select(b_.binary(Operation::kEqual, i, column), real(1), real(0)));
    b_.close();
    const ExprId step = from_to(zero(), number(columns_));
    const ExprId k = b_.let(b_.binary(Operation::kSubtract, number(columns_ - 1), step));
    reflect(q, k, column, v, at(factors, k, kNoId));
    b_.close();
    return finished(cubed(rows_, columns_, 2));
  }

  /// x over its norm plus 2 has eigenvalues between 1 and 3, so that its u s is v s: v needs no memory of its own.
  Emitted eigen_symmetric() {
    open({});
    const Part &x = inputs_[0], &values = results_[0], &v = results_[1];
    const auto whole = [&](ExprId i, ExprId j) {
      return at(x, b_.let(b_.binary(Operation::kMaximum, i, j)), b_.let(b_.binary(Operation::kMinimum, i, j)));
    };
    const VariableId norm = b_.declare(real(0));
    {
      const ExprId i = from_to(zero(), number(rows_));
      const VariableId row = b_.declare(real(0));
      const ExprId j = from_to(zero(), number(rows_));
      b_.set(row, plus(b_.variable(row), magnitude(whole(i, j))));
      b_.close();
      b_.set(norm, larger(b_.variable(norm), b_.variable(row)));
      b_.close();
    }
    const ExprId scale = b_.let(b_.select(less(real(0), b_.variable(norm)), b_.variable(norm), real(1)));
    {
      const ExprId i = from_to(zero(), number(rows_)), j = from_to(zero(), number(rows_));
      const ExprId shift = b_.select(b_.binary(Operation::kEqual, i, j), real(2), real(0));
      put(v, i, j, plus(over(whole(i, j), scale), shift));
      b_.close();
      b_.close();
    }
    rotate_columns(v, rows_, nullptr);
    {
      const ExprId j = from_to(zero(), number(rows_));
      const ExprId length = b_.let(b_.unary(Operation::kSqrt, product_of_columns(v, rows_, j, j)));
      divide_column(v, rows_, j, length);
      // The quotient of v' x v: its error is the square of v's.
      const VariableId total = b_.declare(real(0));
      const ExprId i = from_to(zero(), number(rows_));
      const VariableId row = b_.declare(real(0));
      const ExprId k = from_to(zero(), number(rows_));
      b_.set(row, plus(b_.variable(row), times(whole(i, k), at(v, k, j))));
      b_.close();
      b_.set(total, plus(b_.variable(total), times(at(v, i, j), b_.variable(row))));
      b_.close();
      put(values, j, kNoId, b_.variable(total));
      b_.close();
    }
    order(values, rows_, false, {{&v, rows_}});
    choose_signs(v, rows_, rows_, nullptr, 0);
    return finished(cubed(rows_, rows_, rows_) * 20);
  }

  Emitted singular_values() {
    open({});
    const Part &x = inputs_[0], &u = results_[0], &s = results_[1], &v = results_[2];
    const VariableId largest = b_.declare(real(0));
    {
      const ExprId i = from_to(zero(), number(rows_)), j = from_to(zero(), number(columns_));
      b_.set(largest, larger(b_.variable(largest), magnitude(at(x, i, j))));
      b_.close();
      b_.close();
    }
    const ExprId scale = b_.let(b_.select(less(real(0), b_.variable(largest)), b_.variable(largest), real(1)));
    {
      const ExprId i = from_to(zero(), number(rows_)), j = from_to(zero(), number(columns_));
      put(u, i, j, over(at(x, i, j), scale));
      b_.close();
      b_.close();
    }
    {
      const ExprId i = from_to(zero(), number(columns_)), j = from_to(zero(), number(columns_));
      put(v, i, j, b_.select(b_.binary(Operation::kEqual, i, j), real(1), real(0)));
      b_.close();
      b_.close();
    }
    rotate_columns(u, rows_, &v);
    // A column below this has lost its direction to rounding; its singular value is as good as 0.
    const double least = type_ == DType::kF64 ? 0x1p-960 : 0x1p-100;
    {
      const ExprId j = from_to(zero(), number(columns_));
      const ExprId length = b_.let(b_.unary(Operation::kSqrt, product_of_columns(u, rows_, j, j)));
      put(s, j, kNoId, length);
      b_.open_if(b_.binary(Operation::kLessEqual, real(least), length));
      divide_column(u, rows_, j, length);
      b_.close();
      b_.close();
    }
    order(s, columns_, true, {{&u, rows_}, {&v, columns_}});
    {
      const ExprId j = from_to(zero(), number(columns_));
      b_.open_if(less(at(s, j, kNoId), real(least)));
      complete(u, j);
      b_.close();
      put(s, j, kNoId, times(at(s, j, kNoId), scale));
      b_.close();
    }
    choose_signs(v, columns_, columns_, &u, rows_);
    return finished(cubed(rows_, columns_, columns_) * 20);
  }

 private:
  /// An operand or a result, read and written at (row, column) of the work item's matrix, or at (row) where it is a
  /// list.
  struct Part {
    BufferId buffer;
    const View* view;
    DType type;
  };

  /// Starts the work items: one per matrix, or one per matrix and index below `inner`, which is returned.
  ExprId open(std::vector<std::int64_t> inner) {
    grid_ = batch_;
    grid_.insert(grid_.end(), inner.begin(), inner.end());
    const ExprId item = b_.open_grid(LoopMode::kSerial);
    point_ = split_index(b_, item, grid_);
    if (inner.empty()) return kNoId;
    const ExprId last = point_.back();
    point_.pop_back();
    return last;
  }

  ExprId number(std::int64_t value) { return b_.integer(value); }
  ExprId zero() { return b_.integer(0); }
  ExprId real(double value) { return b_.real(value, DType::kF64); }
  ExprId plus(ExprId a, ExprId b) { return b_.binary(Operation::kAdd, a, b); }
  ExprId minus(ExprId a, ExprId b) { return b_.binary(Operation::kSubtract, a, b); }
  ExprId times(ExprId a, ExprId b) { return b_.binary(Operation::kMultiply, a, b); }
  ExprId over(ExprId a, ExprId b) { return b_.binary(Operation::kDivide, a, b); }
  ExprId less(ExprId a, ExprId b) { return b_.binary(Operation::kLess, a, b); }
  ExprId larger(ExprId a, ExprId b) { return b_.binary(Operation::kMaximum, a, b); }
  ExprId magnitude(ExprId a) { return b_.unary(Operation::kAbsolute, a); }
  ExprId from_to(ExprId begin, ExprId end, LoopMode mode = LoopMode::kSerial) { return b_.open_for(begin, end, mode); }

  ExprId index(const Part& part, ExprId row, ExprId column) {
    std::vector<ExprId> point = point_;
    point.push_back(row);
    if (column != kNoId) point.push_back(column);
    return view_index(b_, *part.view, point);
  }

  /// The element as f64, read here.
  ExprId at(const Part& part, ExprId row, ExprId column) {
    return b_.let(b_.convert(load_value(b_, part.buffer, index(part, row, column), b_.depth()), DType::kF64));
  }

  void put(const Part& part, ExprId row, ExprId column, ExprId value) {
    b_.store(part.buffer, index(part, row, column), storable(b_, b_.convert(value, part.type), part.type));
  }

  void copy_of(const Part& from, const Part& to) {
    const ExprId i = from_to(zero(), number(rows_)), j = from_to(zero(), number(columns_), LoopMode::kVector);
    put(to, i, j, at(from, i, j));
    b_.close();
    b_.close();
  }

  void exchange(const Part& x, ExprId row, ExprId column, ExprId other_row, ExprId other_column) {
    const ExprId a = at(x, row, column), b = at(x, other_row, other_column);
    put(x, row, column, b);
    put(x, other_row, other_column, a);
  }

  /// Column `column` of x minus factor v v' times it; v is column k of `reflectors`: 1 in row k, what stands below, 0
  /// above.
  void reflect(const Part& x, ExprId k, ExprId column, const Part& reflectors, ExprId factor) {
    const ExprId next = b_.let(b_.add(k, number(1)));
    const VariableId sum = b_.declare(at(x, k, column));
    ExprId i = from_to(next, number(rows_));
    b_.set(sum, plus(b_.variable(sum), times(at(reflectors, i, k), at(x, i, column))));
    b_.close();
    const ExprId along = b_.let(times(factor, b_.variable(sum)));
    put(x, k, column, minus(at(x, k, column), along));
    i = from_to(next, number(rows_));
    put(x, i, column, minus(at(x, i, column), times(along, at(reflectors, i, k))));
    b_.close();
  }

  /// The inner product of two columns.
  ExprId product_of_columns(const Part& x, std::int64_t rows, ExprId p, ExprId q) {
    const VariableId sum = b_.declare(real(0));
    const ExprId i = from_to(zero(), number(rows));
    b_.set(sum, plus(b_.variable(sum), times(at(x, i, p), at(x, i, q))));
    b_.close();
    return b_.let(b_.variable(sum));
  }

  void divide_column(const Part& x, std::int64_t rows, ExprId column, ExprId divisor) {
    const ExprId i = from_to(zero(), number(rows));
    put(x, i, column, over(at(x, i, column), divisor));
    b_.close();
  }

  void turn(const Part& x, std::int64_t rows, ExprId p, ExprId q, ExprId c, ExprId s) {
    const ExprId i = from_to(zero(), number(rows));
    const ExprId a = at(x, i, p), b = at(x, i, q);
    put(x, i, p, minus(times(c, a), times(s, b)));
    put(x, i, q, plus(times(s, a), times(c, b)));
    b_.close();
  }

  /// Turns pairs of columns of x, and of `with` in the same way, until every two of x stand upright on each other.
  void rotate_columns(const Part& x, std::int64_t rows, const Part* with) {
    const double unit = type_ == DType::kF64 ? 0x1p-52 : 0x1p-23;
    const double tolerance = unit * 2 * std::sqrt(static_cast<double>(std::max<std::int64_t>(rows, 4)));
    const VariableId moving = b_.declare(b_.integer(1));
    from_to(zero(), number(kMostSweeps));
    b_.open_if(b_.binary(Operation::kNotEqual, b_.variable(moving), zero()));
    b_.set(moving, zero());
    const ExprId p = from_to(zero(), number(columns_));
    const ExprId q = from_to(b_.add(p, number(1)), number(columns_));
    // Three sums in one pass: none waits for another.
    const VariableId of_p = b_.declare(real(0)), of_q = b_.declare(real(0)), of_both = b_.declare(real(0));
    {
      const ExprId i = from_to(zero(), number(rows));
      const ExprId left = at(x, i, p), right = at(x, i, q);
      b_.set(of_p, plus(b_.variable(of_p), times(left, left)));
      b_.set(of_q, plus(b_.variable(of_q), times(right, right)));
      b_.set(of_both, plus(b_.variable(of_both), times(left, right)));
      b_.close();
    }
    const ExprId a = b_.let(b_.variable(of_p)), b = b_.let(b_.variable(of_q)), together = b_.let(b_.variable(of_both));
    const ExprId bound = times(real(tolerance), times(b_.unary(Operation::kSqrt, a), b_.unary(Operation::kSqrt, b)));
    b_.open_if(less(bound, magnitude(together)));
    b_.set(moving, number(1));
    const ExprId angle = b_.let(over(minus(b, a), times(real(2), together)));
    const ExprId root = b_.unary(Operation::kSqrt, plus(real(1), times(angle, angle)));
    const ExprId size = over(real(1), plus(magnitude(angle), root));
    const ExprId tangent = b_.let(b_.select(less(angle, real(0)), b_.unary(Operation::kNegate, size), size));
    const ExprId c = b_.let(over(real(1), b_.unary(Operation::kSqrt, plus(real(1), times(tangent, tangent)))));
    const ExprId s = b_.let(times(c, tangent));
    turn(x, rows, p, q, c, s);
    if (with != nullptr) turn(*with, columns_, p, q, c, s);
    for (int blocks = 0; blocks < 5; ++blocks) b_.close();
  }

  /// Sorts `values` by choosing the next one again and again; columns of the parts (with so many rows) go with them.
  void order(const Part& values, std::int64_t count, bool descending,
             const std::vector<std::pair<const Part*, std::int64_t>>& columns) {
    const ExprId i = from_to(zero(), number(count));
    const VariableId best = b_.declare(at(values, i, kNoId)), place = b_.declare(i);
    const ExprId j = from_to(b_.add(i, number(1)), number(count));
    const ExprId value = at(values, j, kNoId), old = b_.variable(best);
    const ExprId takes = b_.let(descending ? less(old, value) : less(value, old));
    b_.set(best, b_.select(takes, value, old));
    b_.set(place, b_.select(takes, j, b_.variable(place)));
    b_.close();
    const ExprId from = b_.let(b_.assume(b_.variable(place), 0, std::max<std::int64_t>(0, count - 1)));
    b_.open_if(b_.binary(Operation::kNotEqual, from, i));
    exchange(values, i, kNoId, from, kNoId);
    for (const auto& [part, rows] : columns) {
      const ExprId row = from_to(zero(), number(rows));
      exchange(*part, row, i, row, from);
      b_.close();
    }
    b_.close();
    b_.close();
  }

  /// Makes column j of u, which has no direction of its own, a unit vector that stands upright on the columns before
  /// it. One of the unit vectors along the axes leaves enough when its part along those columns is taken away twice.
  void complete(const Part& u, ExprId j) {
    const VariableId found = b_.declare(b_.integer(0));
    const ExprId axis = from_to(zero(), number(rows_));
    b_.open_if(less(b_.variable(found), b_.integer(1)));
    ExprId i = from_to(zero(), number(rows_));
    put(u, i, j, b_.select(b_.binary(Operation::kEqual, i, axis), real(1), real(0)));
    b_.close();
    from_to(zero(), number(2));
    const ExprId before = from_to(zero(), j);
    const ExprId along = product_of_columns(u, rows_, before, j);
    i = from_to(zero(), number(rows_));
    put(u, i, j, minus(at(u, i, j), times(along, at(u, i, before))));
    for (int blocks = 0; blocks < 3; ++blocks) b_.close();
    const ExprId left = product_of_columns(u, rows_, j, j);
    b_.open_if(less(real(0.5 / static_cast<double>(rows_)), left));
    divide_column(u, rows_, j, b_.let(b_.unary(Operation::kSqrt, left)));
    b_.set(found, b_.integer(1));
    for (int blocks = 0; blocks < 3; ++blocks) b_.close();
  }

  /// Gives each column of v the sign that the op promises, and that of `with` the same change.
  void choose_signs(const Part& v, std::int64_t rows, std::int64_t count, const Part* with, std::int64_t with_rows) {
    const ExprId j = from_to(zero(), number(count));
    const VariableId sum = b_.declare(real(0));
    ExprId i = from_to(zero(), number(rows));
    const ExprId weight = plus(b_.convert(i, DType::kF64), real(std::numbers::phi));
    b_.set(sum, plus(b_.variable(sum), over(at(v, i, j), weight)));
    b_.close();
    b_.open_if(less(b_.variable(sum), real(0)));
    const auto turned = [&](const Part& part, std::int64_t part_rows) {
      i = from_to(zero(), number(part_rows));
      put(part, i, j, b_.unary(Operation::kNegate, at(part, i, j)));
      b_.close();
    };
    turned(v, rows);
    if (with != nullptr) turned(*with, with_rows);
    b_.close();
    b_.close();
  }

  static double cubed(std::int64_t a, std::int64_t b, std::int64_t c) {
    return static_cast<double>(a) * static_cast<double>(b) * static_cast<double>(c);
  }

  Emitted finished(double steps) {
    b_.close();
    Emitted emitted;
    emitted.values = binder_.values();
    emitted.scalars = binder_.scalars();
    emitted.grid = 1;
    for (const std::int64_t size : grid_) emitted.grid *= size;
    emitted.item_ns = steps * kStepNs;
    emitted.flops = static_cast<std::uint64_t>(2 * steps * static_cast<double>(emitted.grid));
    emitted.ir = b_.finish();
    return emitted;
  }

  const Program& program_;
  const Op& op_;
  IrBuilder b_;
  Binder binder_;
  const DType type_;
  std::int64_t rows_ = 0, columns_ = 0;  // of the first operand
  std::vector<std::int64_t> batch_, grid_;
  std::vector<Part> inputs_, results_;
  std::vector<ExprId> point_;  // the batch of the work item
};

/// One work item per list: counts the rows up, then makes the exchanges. Pivots that name no row change nothing.
Emitted emit_permutation(const Program& program, const Op& op) {
  IrBuilder b;
  Binder binder(program, b);
  const View &pivots = op.inputs[0].view, &rows = op.outputs[0].view;
  const BufferId from = binder.buffer(op.inputs[0].value, false), to = binder.buffer(op.outputs[0].value, true);
  const std::vector<std::int64_t> lists(pivots.sizes.begin(), pivots.sizes.end() - 1);
  const ExprId item = b.open_grid(LoopMode::kSerial);
  const std::vector<ExprId> list = split_index(b, item, lists);
  const auto at = [&](const View& view, ExprId i) {
    std::vector<ExprId> point = list;
    point.push_back(i);
    return view_index(b, view, point);
  };
  ExprId i = b.open_for(b.integer(0), b.integer(rows.sizes.back()), LoopMode::kSerial);
  b.store(to, at(rows, i), i);
  b.close();
  i = b.open_for(b.integer(0), b.integer(pivots.sizes.back()), LoopMode::kSerial);
  const ExprId named = load_value(b, from, at(pivots, i), b.depth());
  const ExprId is_row = b.binary(Operation::kAnd, b.binary(Operation::kLessEqual, b.integer(0), named),
                                 b.binary(Operation::kLess, named, b.integer(rows.sizes.back())));
  b.open_if(is_row);
  const ExprId other = b.let(b.guard(named, 0, std::max<std::int64_t>(0, rows.sizes.back() - 1)));
  const ExprId mine = load_value(b, to, at(rows, i), b.depth()), its = load_value(b, to, at(rows, other), b.depth());
  b.store(to, at(rows, i), its);
  b.store(to, at(rows, other), mine);
  for (int blocks = 0; blocks < 3; ++blocks) b.close();
  Emitted emitted;
  emitted.values = binder.values();
  emitted.scalars = binder.scalars();
  for (const std::int64_t size : lists) emitted.grid *= size;
  emitted.item_ns = static_cast<double>(rows.sizes.back() + pivots.sizes.back()) * kStepNs;
  emitted.ir = b.finish();
  return emitted;
}

}  // namespace

Emitted emit_factorization(const Program& program, const Op& op) {
  if (op.kind == OpKind::kPivotsToPermutation) return emit_permutation(program, op);
  FactorEmitter emitter(program, op);
  switch (op.kind) {
    case OpKind::kCholesky:
      return emitter.cholesky();
    case OpKind::kTriangularSolve:
      return emitter.triangular_solve();
    case OpKind::kLu:
      return emitter.lu();
    case OpKind::kHouseholderQr:
      return emitter.householder_qr();
    case OpKind::kHouseholderProduct:
      return emitter.householder_product();
    case OpKind::kEigenSymmetric:
      return emitter.eigen_symmetric();
    default:
      return emitter.singular_values();
  }
}

}  // namespace crucible::kernel
