// Rewrites of a program that keep its meaning: every one ends with a program that verify() accepts and that computes
// the same states and outputs. One list says which run after lowering, in which order.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "core/graph/composite.hpp"
#include "core/graph/program.hpp"
#include "core/trace/trace.hpp"

namespace crucible::graph {

/// Fills of the same number and coordinates of the same shape become one value. Ends of states stay apart.
void merge_generators(Program& program);

/// Ops of one kind with equal operands, attributes and results become one. Ends of states stay apart.
void merge_equal(Program& program);

/// Who takes reductions of many terms in parts. kAnyDevice: those of a whole tensor, whose one result is no work for
/// many threads. kLanes: all that leave units which run many threads in step without work, too: rows that are few and
/// long, columns that are few and tall.
enum class SplitFor : std::uint8_t { kAnyDevice, kLanes };

/// Sums, products and extrema become those of their parts and then those of the parts' results. The parts follow from
/// the shape alone. Values keep their numbers, new ones come after them.
void split_reductions(Program& program, SplitFor reader);

/// Whether split_reductions() would change the program.
bool has_long_reductions(const Program& program, SplitFor reader);

/// split_reductions() for any device: the pass.
void split_whole_reductions(Program& program);

/// Removes ops that no state's end and no output depends on, then states, inputs, constants, slots, sources and values
/// that nobody uses, and renumbers what is left in its old order. A state that is only read is used; of one of several
/// variants each is.
void eliminate_dead(Program& program);

/// Constants of one element become numbers in the element-wise ops that read them, so that a program does not depend on
/// whether the framework passed a Python number or a tensor. Errors: those of the blob store.
Result<void> inline_constants(Program& program, const trace::BlobStore& blobs);

/// Whole numbers in floating-point ops become floating-point: 1 and 1.0 are the same number there. So do slots that
/// only such ops read, where each of their numbers is one that a double holds.
void number_kinds(Program& program);

/// Slots whose numbers agree in every recorded iteration become one; nothing where only one was recorded.
void merge_slots(Program& program);

/// Step counters (states of one number to which each iteration adds a fixed one) that start alike are read as the first
/// of them: they always agree. Each goes on counting. Errors: those of the blob store.
Result<void> merge_counters(Program& program, const trace::BlobStore& blobs);

/// Slots that are bias corrections of a step counter t in every recorded iteration - 1 - b^t, its root, or a rate
/// divided by it, with a b that the program computes with - become ops on the counter, in f64. So do Adam's step sizes
/// under a schedule, known by their place beside such a root: their rates stay numbers of each iteration. Readers in
/// f32 and f64 only; nothing where only one iteration was recorded. Errors: those of the blob store.
Result<void> follow_counters(Program& program, const trace::BlobStore& blobs);

/// Readers of x * 1, x / 1, x - 0, and of copies of a dense row-major part, read x: the same bits. So do products that
/// read a copy of another layout of most of x, where a matrix of x has a unit stride.
void drop_identities(Program& program);

/// What passes may look at besides the program.
struct PassContext {
  const trace::BlobStore* blobs = nullptr;  // the bytes of constants; null: unknown
  KeepsComposite keeps = nullptr;           // which composites the backend takes whole; null: none
  /// The program runs on memory and numbers of a process that goes on, so what agreed in all recorded iterations may
  /// differ in the next one: passes that count on it do not run.
  bool is_live = false;
};

struct Pass {
  std::string_view name;
  std::string_view description;
  Result<void> (*run)(Program& program, const PassContext& context);
  bool counts_on_recording = false;  // that what it says of states, constants and slots is all there is
};

/// The passes that follow lowering, in order.
std::span<const Pass> passes();

/// Runs all passes and verifies after each; a second run changes nothing. `after` (may be empty) sees the program after
/// each pass with the nanoseconds it took. Errors: kInternal, naming the pass that broke the program; those of the blob
/// store.
Result<void> run_passes(Program& program, const PassContext& context = {},
                        const std::function<void(const Pass&, const Program&, std::uint64_t)>& after = {});

}  // namespace crucible::graph
