// What a lowering function sees of one recorded op: arguments by their names in the schema, results by position.
#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/graph/opaque.hpp"
#include "frontends/aten/algebra/emitter.hpp"
#include "frontends/aten/call/composites.hpp"
#include "frontends/aten/recording/align.hpp"
#include "frontends/aten/recording/draws.hpp"
#include "frontends/aten/recording/storage_map.hpp"

namespace crucible::aten {

struct Complex;  // complex.hpp
struct Sparse;   // sparse.hpp

/// Tensors of different sizes, one after the other in a list of elements.
struct Nested {
  Term buffer;
  std::vector<Sizes> sizes;
};

/// What an op of many tensors is given, for OpCall::by_items().
struct CallItems {
  std::vector<std::string_view> names;
  std::vector<std::vector<Term>> terms;  // by position: none, one for all, or one for each
  std::size_t at = 0;
};

/// Failures (a missing argument, a kind that does not fit) go to the emitter; calls after one are harmless.
/// Thrown by OpCall::tensor(), caught by who calls a lowering (lower.cpp); the emitter has the reason by then.
struct NoSuchTensor {};

class OpCall {
 public:
  OpCall(const trace::Trace& trace, const Alignment& alignment, std::uint32_t position, Emitter& emitter,
         StorageMap& storages, Draws& draws);

  Emitter& emit() { return emitter_; }
  const trace::Op& op() const { return op_; }
  const std::string& full_name() const { return full_name_; }
  /// The name of the entry that lowers the op: of its functional form where the op is in place or has an out argument.
  std::string_view entry_name() const { return entry_name_; }
  void set_entry_name(std::string_view name) { entry_name_ = name; }

  /// True when the argument exists and is neither None nor an undefined tensor.
  bool has(std::string_view name) const;
  /// Throws NoSuchTensor where the argument is none.
  Expression tensor(std::string_view name);
  /// As tensor(), in the precision that kernels compute in: f16 and bf16 as f32. floating(): integers and booleans as
  /// f32 too.
  Expression wide(std::string_view name);
  Expression floating(std::string_view name);
  std::vector<Term> tensors(std::string_view name);
  /// As tensors(), nothing where an item is None.
  std::vector<std::optional<Term>> optional_tensors(std::string_view name);
  /// A number that may differ between iterations, or a tensor where the schema allows one.
  Expression operand(std::string_view name);
  std::vector<Term> operands(std::string_view name);
  // Numbers that shape the program: an error when they differ between iterations.
  std::int64_t integer(std::string_view name);
  double real(std::string_view name);
  bool boolean(std::string_view name);
  std::string text(std::string_view name) const;
  std::vector<std::int64_t> integers(std::string_view name);
  std::vector<bool> booleans(std::string_view name);

  /// Results, a list's items one after the other; kNone where the op returned no tensor.
  std::size_t result_count() const { return results_.size(); }
  bool wants(std::size_t k) const { return k < results_.size() && results_[k] != trace::kNone; }
  /// Fails where the op returned no tensor; without dimensions then.
  const trace::Tensor& result(std::size_t k) const;
  /// Result `k` is this term, converted to its dtype. Done when the lowering function has returned.
  void set(std::size_t k, const Term& term);
  /// The argument: a tensor or a number, complex or real, or (0, 0) after a failure.
  Complex complex(std::string_view name);
  /// Result `k`, complex or real: of a real result the real part counts.
  void set_complex(std::size_t k, const Complex& value);
  /// Runs a lowering function for real numbers on the real and on the imaginary parts of all complex arguments and
  /// results: for ops that move elements, or add and scale them, whatever they are. Real tensors of floats, and numbers
  /// that become elements, have no imaginary part; other tensors (indices, masks) and other numbers (places, factors)
  /// are the same for both.
  void by_parts(const std::function<void(OpCall&)>& lower);
  /// Runs a lowering function for one tensor on every item of the op's first list of tensors: `names` is what that
  /// function calls the arguments, by their position. An argument that is a list is its item, another one the same for
  /// all; result 0 is the result of the item, written to the list `out` or `self` where the op returns none. In
  /// call_items.cpp.
  void by_items(std::span<const std::string_view> names, const std::function<void(OpCall&)>& lower);
  /// In by_items(): which item it is.
  std::size_t item() const { return items_->at; }
  /// Runs a lowering function for real numbers on the magnitudes of complex arguments; its results are real.
  void by_magnitude(const std::function<void(OpCall&)>& lower);
  /// The argument, or a failure where it is no sparse tensor; its parts are terms with the sizes that they should have.
  Sparse sparse(std::string_view name);
  bool is_sparse(std::string_view name) const;
  /// How many places result `k`, a sparse tensor, has.
  std::int64_t sparse_count(std::size_t k) const;
  /// How many of its dimensions its indices name, and whether its columns lie one after the other.
  std::int64_t sparse_dims(std::size_t k) const;
  bool is_by_columns(std::size_t k) const;
  /// Result `k`, a sparse tensor; parts that lie in the storage of an argument are there already.
  void set_sparse(std::size_t k, const Sparse& value);
  bool is_nested(std::string_view name) const;
  /// The argument, or a failure where it is no tensor of tensors.
  Nested nested(std::string_view name);
  /// The sizes of result `k`, a tensor of tensors; a failure where it is none.
  std::vector<Sizes> nested_sizes(std::size_t k) const;
  /// The elements of result `k`, a tensor of tensors.
  void set_nested(std::size_t k, const Term& buffer);
  /// The argument tensor `name` (item `element` of a list) is written in place.
  void write(std::string_view name, const Term& term, std::size_t element = 0);
  /// True when the values of result `k` were drawn at random and recorded; drawn() is those values.
  bool is_drawn(std::size_t k) const;
  Expression drawn(std::size_t k);
  /// Result `k`, of real or complex numbers, is what was drawn.
  void set_drawn(std::size_t k);
  /// What the op drew inside, by the name that its schema gives the result that says it ("philox_seed"): `count` whole
  /// numbers. Nothing where the recording lacks them. An op that is given that result later finds them by the argument.
  std::optional<Term> drawn_state(std::string_view result, std::int64_t count);
  std::optional<Term> state_behind(std::string_view argument) const;
  /// True when result `k` lies in the processor's memory.
  bool is_of_processor(std::size_t k) const;
  /// True when the framework was built for AMD's devices, which it calls "cuda" as well.
  bool is_of_rocm() const { return trace_.metadata.framework.find("rocm") != std::string::npos; }
  /// True when the recording has bytes of result `k`'s storage, which something other than an op filled.
  bool enters(std::size_t k) const;
  /// True when result `k` shares its storage with the argument tensor `name`.
  bool aliases(std::size_t k, std::string_view name) const;
  /// True when the argument tensor `name` was recorded row-major and without gaps.
  bool is_row_major(std::string_view name) const;
  /// Says that numbers of this op that differ between iterations do not matter.
  void ignore_numbers() { numbers_ignored_ = true; }

  /// The op as it is, for a plugin that has the framework; `reason` says why there is no lowering, "" for an unknown
  /// op. In opaque.cpp.
  void lower_opaque(std::string reason);

  // What becomes a composite of the program, where the op is one (composites.hpp); without effect elsewhere.
  void log_composite(CompositeLog* log) { log_ = log; }
  /// Another name than the table's, for one of several forms.
  void name_composite(std::string_view name);
  /// This form is none.
  void refuse_composite();
  /// The operand of this name, where an argument does not show it as an implementation wants to see it.
  void role(std::string_view name, const Term& term);
  /// An implementation wants to see these results with the middle two of their four dimensions in turn.
  void turn_results(std::initializer_list<std::string_view> names);
  void note(std::string_view attribute, double number, bool is_integer = true);
  /// Ops from now on up to the next part are a composite of their own, with item `element` of each list.
  void begin_part(std::size_t element);
  /// After finish(): the op's outlines.
  void outline(std::vector<graph::Outline>& outlines);

  /// Carries out set() and write(). Fails when sizes disagree with the recording or when a number that differs between
  /// iterations was not used as a slot.
  void finish();

 private:
  const trace::Arg* find(std::string_view name) const;
  std::uint32_t index_of(std::string_view name) const;
  /// In by_items(): the argument's terms, one for all items or one for each; null where it is not there.
  const std::vector<Term>* item_terms(std::string_view name) const;
  Expression item_term(std::string_view name);
  void set_item(const Term& term);
  Term number(const trace::Arg& arg, const ArgumentPath& path, std::string_view name);
  Term as_tensor(const Term& term, trace::TensorId id);
  graph::OpaqueArg opaque_arg(const trace::Arg& arg, const ArgumentPath& path, int depth, std::vector<Term>& operands);
  static graph::OpaqueArg opaque_number(Term term, std::vector<Term>& operands);
  void require_fixed(const ArgumentPath& path, std::string_view name);
  void add_attributes(graph::Outline& outline);
  std::int64_t result_rank() const;
  bool expect(bool condition, std::string_view name, std::string_view what);
  std::int64_t within_memory(std::string_view name, std::int64_t number);
  void set_tensor(std::size_t k, trace::TensorId id, const Term& term);
  const SparseParts* sparse_result(std::size_t k) const;
  void set_pairs(trace::TensorId id, const Complex& value);
  /// A tensor as present in by_parts(); `is_data`: one of real numbers has no imaginary part, whatever its dtype.
  Term part_of(trace::TensorId id, bool is_data);

  const trace::Trace& trace_;
  const Alignment& alignment_;
  std::uint32_t position_;
  Emitter& emitter_;
  StorageMap& storages_;
  Draws& draws_;
  const trace::Op& op_;
  std::string full_name_;
  std::string_view entry_name_;
  std::vector<std::string> names_;
  std::vector<trace::TensorId> results_;
  std::vector<std::pair<trace::TensorId, Term>> writes_;
  std::set<ArgumentPath> used_;
  bool numbers_ignored_ = false;
  graph::OpId first_op_;
  enum class Part : std::uint8_t { kAll, kReal, kImaginary, kMagnitude };
  Part part_ = Part::kAll;
  std::map<trace::TensorId, std::pair<Term, Term>> parts_;  // complex tensors that by_parts() writes
  mutable std::map<std::size_t, trace::Tensor> part_results_;
  std::optional<CallItems> items_;
  CompositeLog* log_ = nullptr;
  graph::OpId log_end_ = 0;  // where the lowering function returned
};

}  // namespace crucible::aten
