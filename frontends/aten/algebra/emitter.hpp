// Writes ops of a program: the small algebra in which lowering functions state what an ATen op computes.
//
// Views (reshape, permute, expand, ...) cost no op. A mistake (sizes that do not broadcast, a dtype without meaning)
// makes the emitter fail: the first failure is kept, later calls return harmless terms, and the caller asks failure()
// once at the end of an op.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/graph/number.hpp"
#include "core/graph/program.hpp"
#include "frontends/aten/algebra/index_bounds.hpp"
#include "frontends/aten/algebra/term.hpp"

namespace crucible::aten {

class Emitter;

/// A term and the emitter that formulas with it are written to: algebra.hpp has the operators. What an emitter gives is
/// one.
class Expression : public Term {
 public:
  Expression(Emitter& e, Term term) : Term(std::move(term)), e_(&e) {}
  Emitter& emitter() const { return *e_; }

  Expression unary(graph::OpKind kind) const;
  Expression binary(graph::OpKind kind, const Term& b) const;
  Expression cast(DType dtype) const;

 private:
  Emitter* e_;
};

class Emitter {
 public:
  explicit Emitter(graph::Program& program) : program_(program) {}

  graph::Program& program() { return program_; }
  /// How many elements masks and the like find is watched as indices are: a live program has the recorded sizes alone.
  void watch_counts() { watches_counts_ = true; }
  /// Where that is watched, `count()` is `expected`.
  template <typename Count>
  void expect_count(std::int64_t expected, const Count& count) {
    if (watches_counts_) expect_in(count(), expected, expected);
  }
  /// Where that is watched, none of `counts` is below 0 or above `most`.
  void expect_at_most(std::int64_t most, const Term& counts) {
    if (watches_counts_) expect_in(counts, 0, most);
  }
  /// Where that is watched, `truth()` is true everywhere: else torch raises.
  template <typename Truth>
  void expect_all(const Truth& truth) {
    if (watches_counts_) expect_in(cast(truth(), DType::kI64), 1, 1);
  }
  /// Ops emitted from now on name this source.
  void set_source(std::uint32_t source) { source_ = source; }
  void fail(std::string message);
  /// The same because a number of the op (its argument and the place in a list, or -1) shapes the program and differs
  /// between iterations: iterations with different ones are different programs.
  void fail_over(std::uint32_t argument, std::int32_t element, std::string message) {
    if (failure_.empty()) shaping_.emplace(argument, element);
    fail(std::move(message));
  }
  const std::optional<std::pair<std::uint32_t, std::int32_t>>& shaping_number() const { return shaping_; }
  const std::string& failure() const { return failure_; }
  /// Takes the failure away, for a caller that knows another way, and returns it. The ops from `first_op` on, which may
  /// be nonsense after a failure, become fills of nothing: nobody may read their results.
  std::string abandon(graph::OpId first_op);

  // Element-wise. Results are row-major; operands broadcast; numbers are allowed wherever a tensor is.
  Expression unary(graph::OpKind kind, const Term& x);  // in x's dtype; bool for tests
  Expression binary(graph::OpKind kind, const Term& a,
                    const Term& b);  // in promote({a, b}); bool for comparisons and logic
  Expression select(const Term& condition, const Term& a, const Term& b);  // in promote({a, b})
  Expression cast(const Term& x, DType dtype);                             // the term itself when it has the dtype
  Expression fill(const Term& number, const Sizes& sizes, DType dtype);
  Expression coordinate(std::int64_t dim, const Sizes& sizes, DType dtype);
  Expression copy(const Term& x);  // to a row-major value of its own

  // Reductions keep the dims with size 1; drop() removes them.
  Expression sum(const Term& x, const std::vector<std::int64_t>& dims);
  Expression max(const Term& x, const std::vector<std::int64_t>& dims);
  Expression mean(const Term& x, const std::vector<std::int64_t>& dims);

  // Views.
  Expression reshape(const Term& x, const Sizes& sizes);  // copies only where no strides express it
  Expression permute(const Term& x, const std::vector<std::int64_t>& dims);
  Expression transpose(const Term& x, std::int64_t a, std::int64_t b);
  Expression expand(const Term& x, const Sizes& sizes);
  Expression unsqueeze(const Term& x, std::int64_t dim);
  Expression drop(const Term& x, const std::vector<std::int64_t>& dims);  // removes dims of size 1

  // Indexed (emitter_index.cpp). Indices are tensors of integers or numbers; they broadcast with each other.
  /// The element of `x` at each place in its row-major order; 0 where the place is outside.
  Expression take(const Term& x, const Term& place);
  /// x[indices[0], indices[1], ...], one index for each dimension of x, all inside; reads x where it lies.
  Expression take_at(const Term& x, const std::vector<Term>& indices);
  /// `base` with `source` put at places in its row-major order, one after the other (kPutSet .. kPutMin); places
  /// outside are skipped. `source` and `place` broadcast; the result is row-major with base's sizes and dtype. For
  /// bools, adding is or, multiplying is and.
  Expression put(graph::OpKind kind, const Term& base, const Term& place, const Term& source);
  /// The row-major place of (indices[0], indices[1], ...) in a tensor of these sizes.
  Expression linear_index(const Sizes& sizes, const std::vector<Term>& indices);
  /// Notes that the framework takes these indices from [low, high] alone: see index_bounds.hpp.
  /// `except` may be among them all the same.
  void expect_in(const Term& index, std::int64_t low, std::int64_t high,
                 std::optional<std::int64_t> except = std::nullopt);
  /// Indices as i64, those outside of [low, high] moved to its nearer end: what is computed of them lies inside too,
  /// and cannot wrap.
  Expression held_in(const Term& index, std::int64_t low, std::int64_t high);
  /// Indices as i64, negative ones counted from the end: [-size, size) is expected of them.
  Expression wrapped(const Term& index, std::int64_t size);
  /// The same of indices that may lie anywhere where nobody looks.
  Expression wrapped_where_asked(const Term& index, std::int64_t size);
  /// 0 <= index < size.
  Expression is_inside(const Term& index, std::int64_t size);
  /// 0, 1, ... along dimension `dim` of `sizes`, with size 1 along the others; i64.
  Expression position(std::int64_t dim, const Sizes& sizes);

  // The rest.
  /// The bytes of x's elements, one after the other in row-major order, as a list of another dtype: a last part that
  /// makes no whole element is left out. As bools, what is not 0 is true.
  Expression bitcast(const Term& x, DType dtype);
  Expression matmul(const Term& a, const Term& b, double alpha = 1.0);  // batches broadcast
  Expression gather_rows(const Term& table, const Term& ids);
  Expression scatter_add_rows(const Term& rows, const Term& ids, std::int64_t row_count, std::int64_t skipped_row);
  Expression concat(const std::vector<Term>& pieces, std::int64_t dim);
  /// Any op with one row-major result of these sizes, operands as they are.
  Expression emit(graph::OpKind kind, const std::vector<Term>& inputs, const Sizes& sizes, DType dtype,
                  graph::Attributes attributes = {});
  /// As emit, with several results.
  std::vector<Term> emit_many(graph::OpKind kind, const std::vector<Term>& inputs,
                              const std::vector<std::pair<Sizes, DType>>& results, graph::Attributes attributes = {});

  /// A number made from another, iteration by iteration where it is a slot; the results are all real or all whole.
  Expression map_number(const Term& number, const std::string& name,
                        const std::function<graph::Number(graph::Number)>& function);
  /// What a number is in each iteration; one entry when it is fixed.
  std::vector<graph::Number> number_values(const Term& number) const;
  /// A number that differs between iterations: a slot with these values, shared with an equal one of the same name.
  /// Where some are real and some whole, all are real.
  Expression slot(const std::string& name, std::vector<graph::Number> values);

  /// A new value that enters from outside.
  graph::ValueId outside_value(graph::ValueKind kind, DType dtype, std::int64_t elements, std::string name);
  /// Makes the op that produced `term` write it through `layout` instead. False when that is not possible: the op
  /// stands before `first_op`, the term is not its whole result, or something has read it since.
  bool relay(const Term& term, const graph::View& layout, graph::OpId first_op);
  IndexBounds& bounds() { return bounds_; }
  graph::OpId next_op() const { return static_cast<graph::OpId>(program_.ops.size()); }

 private:
  Expression in(Term term) { return {*this, std::move(term)}; }
  Expression reduce(graph::OpKind kind, const Term& x, const std::vector<std::int64_t>& dims, DType dtype);
  Expression elementwise(graph::OpKind kind, const std::vector<Term>& inputs, DType dtype);

  graph::Program& program_;
  std::uint32_t source_ = graph::kNone;
  std::map<std::pair<std::string, std::vector<graph::Number>>, graph::SlotId> slots_;
  std::vector<bool> is_read_;  // per value: an op reads it
  std::string failure_;
  std::optional<std::pair<std::uint32_t, std::int32_t>> shaping_;
  IndexBounds bounds_;
  bool watches_counts_ = false;
};

inline Expression Expression::unary(graph::OpKind kind) const { return e_->unary(kind, *this); }
inline Expression Expression::binary(graph::OpKind kind, const Term& b) const { return e_->binary(kind, *this, b); }
inline Expression Expression::cast(DType dtype) const { return e_->cast(*this, dtype); }

}  // namespace crucible::aten
