// Copies between the device and the host, in a line: inputs that come when they are needed, and not before; tensors
// that wait on the host for their next reader; states that live there.
#pragma once

#include <vector>

#include "core/budget/line.hpp"

namespace crucible::budget {

/// A new node, not yet in the order, that copies `from` to a new tensor with the same content, on the host or off it.
NodeId add_transfer(Line& line, TensorId from, bool to_host);

/// All readers at `position` and behind it that read `old` read `now` instead.
void give_to_readers(Line& line, TensorId old, TensorId now, std::uint32_t position);

/// An input that stays on the host until its first reader: that one gets a load in front of it. Nothing when it is
/// there already. Returns by how many positions later nodes have moved: 0 or 1.
std::uint32_t keep_input_on_host(Line& line, const Live& live, TensorId input);

/// The tensor goes to the host behind the node at `after` and comes back for the readers at `position` and behind it.
/// Positions are those before the call, `after` < `position`.
void wait_on_host(Line& line, TensorId tensor, std::uint32_t after, std::uint32_t position);

/// A state or constant whose home is the host's memory from now on.
struct Stay {
  TensorId carried = kNone, end = kNone;  // kNone: it has no new content
  struct Reader {
    NodeId node = kNone;
    bool needs_load = false;  // a copy is made in front of it, for it and those behind it up to the next one
  };
  std::vector<Reader> readers = {};  // all of them, as they stand in the order; the first needs a load
};

/// Gives each reader its copy, and copies the end back behind the node that makes it.
void live_on_host(Line& line, const std::vector<Stay>& stays);

/// What it costs to bring a tensor from the host: an input from wherever inputs come, another one from host memory.
double load_ns(const Line& line, TensorId tensor);
double store_ns(const Line& line, TensorId tensor);

}  // namespace crucible::budget
