// From the file of observed calls to a program bound to nothing yet: read, lowered, compiled for the CPU. Knows no
// framework; what a place is to the caller stands in its name.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/trace/trace.hpp"
#include "runtime/run/executable.hpp"

namespace crucible::accelerate {

/// An op that drew random numbers, in the order of the call: to be done again by the framework before each run.
struct DrawOp {
  trace::Op op;
  std::string name;                  // "aten::bernoulli_.float"
  std::uint32_t output = 0;          // which of its results was drawn
  std::optional<std::size_t> place;  // where the program reads it; none where nothing does
  trace::Tensor drawn;               // sizes, strides and dtype of that result
};

/// What was compiled. Threads: one at a time.
struct Compiled {
  std::unique_ptr<runtime::Executable> executable;
  /// Indices that eager would refuse are found by this one, which writes no state, before the other runs. Null: none
  /// can be.
  std::unique_ptr<runtime::Executable> bounds;
  std::vector<graph::Slot> slots;
  std::vector<graph::Bound> bounds_of;  // of `bounds`, two elements of its output each
  std::vector<DrawOp> draws;
  std::vector<trace::Tensor> tensors;  // those that `draws` name as arguments, by id
  /// By place: bytes that the program keeps itself, of tensors that the call makes from numbers.
  std::vector<std::pair<std::size_t, std::vector<std::byte>>> own;
  std::vector<std::string> left_out;
  std::uint64_t read_ns = 0, lower_ns = 0, compile_ns = 0;
};

/// `file`: the recording of the observed calls, an iteration each, all tensors that are the caller's named with
/// `prefix` in front. Outputs with the prefix become places. Errors: kUnavailable when the calls cannot be one program
/// that needs nothing but these tensors; the text is for the report: what, where, what to do. Those of the stages.
Result<Compiled> compile(const std::string& file, const std::string& prefix);

/// Opens the device that all compiled calls of this process run on. Errors: those of opening it.
Result<void> open_device();

/// What was freed in between lies in the allocator's lists, where it counts as the process's: back to the system.
void give_back_memory();

/// Lets the calling thread's processor time go to whoever wants it, for the whole of its life.
void become_background();

}  // namespace crucible::accelerate
