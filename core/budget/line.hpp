// A schedule as the search for memory sees it: nodes that read and write tensors, in an order that may change, and what
// is alive at each position of that order. No addresses, no kernels: offsets are core/memory's business, and
// rebuild.hpp makes a program and a schedule of it again.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/result.hpp"
#include "core/graph/program.hpp"
#include "core/kernel/schedule.hpp"

namespace crucible::budget {

using TensorId = std::uint32_t;
using NodeId = std::uint32_t;
inline constexpr std::uint32_t kNone = graph::kNone;

/// What has a buffer. The first tensors are the values of the program, under their numbers; those behind hold what a
/// repeated node wrote again.
struct Tensor {
  std::uint64_t bytes = 0;               // rounded up to the alignment; 0 for values that have no buffer
  graph::ValueId value = graph::kNone;   // whose content it has
  NodeId producer = kNone;               // kNone: the host writes it before the first node
  TensorId home = kNone;                 // of a state's end: its start, whose buffer it takes when it may
  bool is_over_home = false;             // its producer may write it over the old content that it reads
  bool is_carried = false;               // states and constants: alive all the time
  bool is_kept = false;                  // needed after the last node
  bool is_input = false;                 // the host gives it anew in each iteration, and can give it again
  bool is_on_host = false;               // only transfers touch it, and it takes nothing of the device's memory
  bool may_leave = false;                // carried, and its home may be the host's memory instead
};

struct Argument {
  TensorId tensor = kNone;
  bool written = false;
};

/// The result may be written over the operand, if that is not needed again.
struct Alias {
  TensorId operand = kNone, result = kNone;
};

/// A step of the schedule, perhaps again; or a copy between the device and the host: from a tensor on the one to a
/// tensor on the other, which are the two arguments.
enum class NodeKind : std::uint8_t { kStep, kTransfer };

struct Node {
  NodeKind kind = NodeKind::kStep;
  std::uint32_t step = 0;              // in the schedule that the line was made of; of transfers kNone
  bool is_repeat = false;
  bool may_repeat = false;             // the same operands give the same bits, and nothing else changes
  bool has_effects = false;            // keeps its place among those that have some, too
  std::vector<Argument> arguments;     // in the order of Step::buffers
  std::vector<Alias> aliases;          // largest first
  std::uint64_t scratch_bytes = 0;
  double cost_ns = 0;
};

/// What a device needs to do a step, for choosing between steps: only ratios matter.
struct Costs {
  double flops_per_ns = 50;
  double bytes_per_ns = 10;
  double launch_ns = 2000;
  double input_bytes_per_ns = 1;  // what the host gives can be given later, or once more; 0: only before the first step
  double host_bytes_per_ns = 0;   // to host memory and back; 0: there is none but the device's own
};

struct Line {
  Costs costs;
  std::vector<Tensor> tensors;
  std::vector<Node> nodes;
  std::vector<NodeId> order;  // every node once
};

/// Shapes: one entry of `scratch_bytes` per step. Units: `alignment` in bytes, a power of two.
Line make_line(const graph::Program& program, const kernel::Schedule& schedule,
               const std::vector<std::uint64_t>& scratch_bytes, std::uint64_t alignment, const Costs& costs);

/// Bytes alive at each position, and the life of each tensor in positions, both ends included.
struct Live {
  std::vector<std::uint64_t> bytes;             // per position; one more for the time after the last node
  std::vector<std::uint32_t> first, last;       // per tensor; first == kNone: it has no life
  std::uint64_t peak = 0;
  std::uint32_t peak_position = 0;              // the first one that reaches the peak
};

/// The lower bound that core/memory will find for this order, with the reuse that runtime/plan's placement makes of
/// dying operands and of states' own buffers.
Live measure(const Line& line);

/// How the order may not change: whoever comes first of each pair stays first. Definitions before uses, effects among
/// themselves, and readers of a state before the node that updates it, where they are now.
struct Dependences {
  std::vector<std::vector<NodeId>> before, after;  // per node
};
Dependences dependences(const Line& line);

}  // namespace crucible::budget
