// The pool of tensors that a wild program grows from, and the choices that all of its ops share: which tensor, through
// which view, of which dtype, with which numbers. What kinds of ops there are is in wild_*.cpp.
#pragma once

#include <array>
#include <random>
#include <vector>

#include "core/graph/random_program.hpp"
#include "core/graph/testing/wild_program.hpp"

namespace crucible::graph {

using Sizes = std::vector<std::int64_t>;

/// What data from outside looks like.
enum class Filling : std::uint8_t {
  kAwkward,  // of any magnitude, with NaN, infinities and signed zeros among floats
  kWhole,    // whole numbers from -3 to 3
};

class WildBuilder {
 public:
  explicit WildBuilder(const WildOptions& options);

  // Choices. `integer` includes both ends; `one_in(n)` is true once in n.
  std::int64_t integer(std::int64_t low, std::int64_t high);
  bool one_in(std::int64_t n) { return integer(1, n) == 1; }
  template <class T, std::size_t kSize>
  T one_of(const std::array<T, kSize>& choices) {
    return choices[static_cast<std::size_t>(integer(0, static_cast<std::int64_t>(kSize) - 1))];
  }
  std::int64_t side() { return integer(1, options_.largest_side); }
  Sizes sizes(std::int64_t least_rank, std::int64_t largest_rank);
  DType any_dtype();
  DType floating();
  DType integral();
  DType arithmetic() { return one_in(3) ? integral() : floating(); }

  // Operands.
  /// A new value from outside of the program, row-major.
  Operand outside(ValueKind kind, DType dtype, const Sizes& sizes, Filling filling = Filling::kAwkward);
  /// Numbers from `low` to `high` as i64 or i32: rows or places.
  Operand ids(const Sizes& sizes, std::int64_t low, std::int64_t high);
  /// A tensor of the pool through a random view.
  Operand tensor();
  /// The same with at least one element.
  Operand filled_tensor();
  /// A tensor of this dtype: of the pool where one is found, else converted, else new.
  Operand tensor_of(DType dtype);
  /// A tensor that broadcasts to these sizes, viewed with them; of any dtype where `dtype` is kOther.
  Operand like(const Sizes& sizes, DType dtype = DType::kOther);
  /// A number: fixed, of either kind, or a slot.
  Operand number();
  static Operand fixed(double real);
  static Operand whole(std::int64_t integer);
  /// A tensor or a number for an element-wise op's second operand.
  Operand either(const Sizes& sizes, DType dtype = DType::kOther) { return one_in(4) ? number() : like(sizes, dtype); }
  /// `operand` seen through a random view: permuted, cut, stepped, broadcast, reshaped, with overlapping windows.
  Operand viewed(Operand operand);
  DType dtype(const Operand& operand) const { return result_.program.values[operand.value].dtype; }

  // Ops. Results join the pool.
  /// One result; its layout is sometimes a permutation of row-major.
  Operand emit(OpKind kind, std::vector<Operand> inputs, Sizes sizes, DType dtype, Attributes attributes = {});
  /// The second result of the op that stands last.
  Operand emit_second(const Sizes& sizes, DType dtype);
  /// Writes the last op once more, with results of its own.
  void repeat_an_op();
  /// Writes into a part of what a storage holds, as an in-place op of a recording does.
  void write_in_place();
  /// Ends states, names outputs and hands the program over.
  RandomProgram finish();

  Program& program() { return result_.program; }
  const WildOptions& options() const { return options_; }

 private:
  ValueId value(ValueKind kind, DType dtype, std::int64_t elements);
  double awkward(DType dtype);
  void end_states();
  void name_outputs();

  WildOptions options_;
  std::mt19937_64 random_;
  RandomProgram result_;
  std::vector<Operand> pool_;
  std::vector<ValueId> storages_;  // per state: the value that holds its elements now
};

// The steps of each family of ops; each appends one op or a few.
void wild_elementwise(WildBuilder& builder);
void wild_identity(WildBuilder& builder);    // x * 1 and its like, and what only looks like them
void wild_generator(WildBuilder& builder);
void wild_reduction(WildBuilder& builder);
void wild_large_reduction(WildBuilder& builder);
void wild_along(WildBuilder& builder);
void wild_rows(WildBuilder& builder);        // gather, scatter, concat
void wild_places(WildBuilder& builder);      // take and put
void wild_bits(WildBuilder& builder);        // the bytes of a list as another dtype
void wild_matmul(WildBuilder& builder);
void wild_convolution(WildBuilder& builder);
void wild_pooling(WildBuilder& builder);
void wild_factorization(WildBuilder& builder);

}  // namespace crucible::graph
