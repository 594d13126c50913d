// Test support: hand-made programs, a naive schedule for them (one step per op), and recordings made by the reference
// interpreter. Used by the tests of this folder only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/graph/program.hpp"
#include "core/graph/random_program.hpp"
#include "core/graph/variants.hpp"
#include "core/kernel/schedule.hpp"
#include "core/trace/memory_blob_store.hpp"

namespace crucible::runtime {

/// Builds programs of contiguous values, op by op.
class ProgramBuilder {
 public:
  graph::ValueId state(const std::string& name, std::vector<std::int64_t> sizes);
  graph::ValueId input(const std::string& name, std::vector<std::int64_t> sizes);
  graph::ValueId constant(const std::string& name, std::vector<std::int64_t> sizes);
  graph::SlotId slot(const std::string& name);
  /// A view of the whole value with its sizes.
  graph::Operand whole(graph::ValueId value) const;
  /// The view with its last two dimensions swapped.
  graph::Operand transposed(graph::ValueId value) const;
  static graph::Operand number(double value);
  static graph::Operand from_slot(graph::SlotId slot);
  /// Appends an op with a contiguous f32 result.
  graph::ValueId op(graph::OpKind kind, std::vector<graph::Operand> inputs, std::vector<std::int64_t> sizes,
                    graph::Attributes attributes = {});
  /// The sum of all elements, watched as an output.
  graph::ValueId loss(const std::string& name, graph::ValueId value);
  /// A tensor that is watched whole.
  void output(const std::string& name, graph::Operand operand);
  void end_state(graph::ValueId start, graph::ValueId end);
  graph::Program program;

 private:
  graph::ValueId value(graph::ValueKind kind, const std::string& name, std::vector<std::int64_t> sizes);
  std::vector<std::vector<std::int64_t>> sizes_;  // per value
};

/// y = tanh(x w1) w2, squared error, gradients by hand, momentum, weight decay on a slot "lr": a whole training step.
graph::Program training_step();

/// A deep network and its gradients: each layer's activation waits for the layer's turn backwards, which is what
/// recomputing is for. Layers of a few kinds and sizes of one, so that chains, states and numbers drawn by the host are
/// in them. Runs of the same seed are the same.
graph::RandomProgram deep_program(std::uint64_t seed);

/// A program with the bytes that it needs, "recorded" by the reference interpreter.
struct Recording {
  graph::Program program;
  std::shared_ptr<trace::MemoryBlobStore> blobs;

  graph::Variants variants() const { return graph::alone(std::make_shared<const graph::Program>(program)); }
};

/// Gives states, inputs, constants and slots random content and lets the reference interpreter record losses and
/// states.
Recording record(graph::Program program, std::uint32_t iterations, std::uint32_t seed);
/// The same for a random program, which brings its own content.
Recording record(graph::RandomProgram random, std::uint32_t iterations);

/// One step per op, everything materialized; with `in_place`, every legal reuse by an element-wise op is offered.
kernel::Schedule naive_schedule(const graph::Program& program, bool in_place);

}  // namespace crucible::runtime
