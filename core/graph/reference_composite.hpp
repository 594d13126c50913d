// The reference interpreter's own implementations of composites: textbook formulas in double precision that know
// nothing of the decompositions, so that each can be judged by the other. What has none here is run by its body.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/graph/composite.hpp"
#include "core/graph/reference_contract.hpp"
#include "core/graph/reference_numbers.hpp"

namespace crucible::graph {

struct Roughness;  // reference.hpp

/// Runs op `index`, a composite: by its own implementation, or by its body where there is none. Errors: those of
/// run_iteration(). With rough arithmetic always by its body, for that is where it rounds.
Result<void> run_composite(const Program& program, OpId index, std::vector<Bytes>& values,
                           std::span<const Number> slots, Roughness* rough);

/// Runs op `index` by its own implementation. False, and nothing done, where there is none for its name or its form.
bool run_composite_itself(const Program& program, OpId index, std::vector<Bytes>& values,
                          std::span<const Number> slots);

/// What the interpreter takes whole (KeepsComposite): every composite.
bool reference_keeps(const Composite& composite, const Op& op);

/// The names that have an implementation, sorted.
std::vector<std::string_view> implemented_composites();

// Between the files of this part.

struct NamedTensor {
  std::string_view name;
  Sizes sizes;
  DType dtype = DType::kF32;
  Reals x;  // row-major
  bool done = false;  // of a result: computed

  std::size_t size(std::size_t dim) const { return static_cast<std::size_t>(sizes[dim]); }
};

/// A composite with its operands as numbers.
struct CompositeCall {
  const Composite& composite;
  std::vector<NamedTensor> inputs, outputs;
  std::vector<std::pair<std::string_view, double>> numbers;  // of slots

  /// Null where there is none of the name.
  const NamedTensor* in(std::string_view name) const;
  /// The result of the name, for writing; a place of no use where nobody wants it.
  Reals& out(std::string_view name);
  bool wants(std::string_view name) const;
  /// A slot, an attribute, or `otherwise`.
  double number(std::string_view name, double otherwise = 0) const;
  bool flag(std::string_view name) const { return number(name) != 0; }

  Reals nowhere;
};

/// False where the call's form is none that it knows.
using CompositeFunction = bool (*)(CompositeCall& call);
struct CompositeEntry {
  std::string_view name;
  CompositeFunction run;
};
std::span<const CompositeEntry> norm_composites();       // softmax, norms, gelu, the loss of classes
std::span<const CompositeEntry> loss_composites();       // other losses
std::span<const CompositeEntry> attention_composites();  // attention and the LSTM's cell
std::span<const CompositeEntry> step_composites();       // optimizers

}  // namespace crucible::graph
