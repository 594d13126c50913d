// A compiled program beside the tensors that it is bound to: where its places lie, and what its results get for memory.
// Threads: who holds the GIL.
#pragma once

#include <Python.h>
#include <torch/csrc/autograd/python_variable.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "frontends/accelerate/compile.hpp"

namespace crucible::accelerate {

/// A result of a call, in memory of its own.
struct OutputSpec {
  std::size_t place = 0;
  std::vector<std::int64_t> sizes, strides;
  at::ScalarType dtype = at::kFloat;
  std::vector<std::int64_t> turned = {};  // strides that eager's has, where the program's is row by row and that is not
  PyObject* parameter = nullptr;          // its gradient is the result; strong
  at::Tensor last = {};   // of a gradient: what was given last, to be written again where nobody else has it
  at::Tensor spare = {};  // what was given before that, where a run may turn out not to count
  bool is_early = false;  // written before it is known whether the run counts
};

/// Whether a parameter has a gradient when the call begins, that it has none when it ends, or that it is written where
/// it lies.
struct GradSpec {
  PyObject* parameter = nullptr;  // strong
  bool is_there = false;
  bool is_cleared = false;
  std::optional<std::size_t> place = std::nullopt;
  std::vector<std::int64_t> strides = {};  // of what lies in the place
};

struct Engine {
  Compiled compiled;
  std::vector<PyObject*> bound;     // per place: the tensor, strong; null where Python gave none
  std::vector<PyObject*> written;   // those of `bound` that a run writes; borrowed
  std::vector<std::size_t> inputs;  // places, in the order of run()'s tensors
  std::vector<OutputSpec> outputs;  // in the order of run()'s result; gradients are no part of it
  std::vector<GradSpec> grads;
  std::vector<std::size_t> deciding;          // outputs that say whether the run counts
  std::vector<std::vector<std::byte>> saved;  // of places that are written before that
  std::vector<at::Tensor> held;               // inputs and outputs of the call that runs
  std::vector<std::int64_t> indices;          // that the bounds' program finds
  std::vector<std::uint64_t> bits;
  std::uint64_t plan_ns = 0;  // of the last run: the plan alone
  std::uint64_t runs = 0;     // that were made
  std::mutex mutex;           // a call runs at a time
};

/// Whether a tensor is all of its memory, elements without gaps, so that the memory is the place.
bool covers(const at::Tensor& tensor, std::uint64_t size_bytes);

/// The place is this memory from now on. Errors: those of Executable::bind().
Result<void> bind_memory(Engine& engine, std::size_t place, void* memory);

/// Memory for a result. A gradient that nobody but its parameter has is written again.
at::Tensor memory_of(OutputSpec& output);

/// Behind the plan: what it wrote was changed.
void bump_versions(const Engine& engine);

/// Why a call with the gradients that are there is another program's, or eager's; null where it is not.
const char* gradients_differ(const Engine& engine);

/// Why a call with such an argument is eager's; null where it is not.
const char* argument_differs(const Engine& engine, const at::Tensor& tensor, std::uint64_t size_bytes);

/// What the first part of a run writes of the caller's, kept and put back; its results lie in memory of their own.
void save_places(Engine& engine);
void put_back(Engine& engine);

/// The arena's pages go back to the system; the next run has new ones.
void give_back_arena(const Engine& engine);

}  // namespace crucible::accelerate
