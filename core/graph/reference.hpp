// A plain, slow interpreter of programs on the host: the yardstick against which kernels, plans and lowerings are
// tested. Floating-point operations are done in double and rounded to the result's dtype, sums and products are
// accumulated in double. It shares no code with core/kernel and knows no plan and no fusion.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "core/base/result.hpp"
#include "core/graph/program.hpp"
#include "core/graph/variants.hpp"
#include "core/graph/reference_numbers.hpp"
#include "core/trace/trace.hpp"

namespace crucible::graph {

/// Arithmetic that is as inexact as a framework's may be, for finding out what a program's end owes to roundings: every
/// result that is not exact is rounded up or down at random, and sums into f32 and narrower are kept in f32, in eight
/// lanes, one term after another.
struct Roughness {
  explicit Roughness(std::uint64_t seed) : random(seed) {}
  std::mt19937_64 random;
};

/// Runs every op once. `values` has one buffer per value of the program; those of states, inputs and constants hold
/// their bytes, the others are allocated here. Returns all buffers, so State::end's is the new state.
/// `slots` has one number per slot. The program must pass verify().
/// Errors: kInternal when a buffer that enters from outside has the wrong size; kBadInput when an id is out of range.
Result<std::vector<Bytes>> run_iteration(const Program& program, std::vector<Bytes> values,
                                         std::span<const Number> slots, Roughness* rough = nullptr);

/// Runs op `index` alone on what its operands hold now. Its results have their sizes afterwards. Errors: as of
/// run_iteration().
Result<void> run_op(const Program& program, OpId index, std::vector<Bytes>& values, std::span<const Number> slots,
                    Roughness* rough = nullptr);

/// Each finite element that is no zero one unit in the last place up, down, or neither, at random. Dtypes that are not
/// floating-point stay.
void nudge(DType dtype, Bytes& bytes, Roughness& rough);

/// The number that an output's one element holds.
double read_output(const Program& program, const Output& output, const std::vector<Bytes>& values);

/// The elements of a tensor output, dense and row-major.
Bytes read_tensor(const Program& program, const Output& output, const std::vector<Bytes>& values);

/// What a replay by the interpreter gave.
struct ReferenceReplay {
  std::vector<std::vector<double>> outputs;  // per iteration, one per number among Program::outputs
  std::vector<std::vector<std::shared_ptr<const Bytes>>>
      tensors;                // per iteration, one per tensor among them; alike() ones share theirs
  std::vector<Bytes> states;  // per Program::states, after the last iteration
};

/// Runs the first `iterations` recorded iterations with blobs and slots of the recording, carrying the states.
/// A state without initial bytes starts as zeros. Errors: those of run_iteration and of the blob store, and kBadInput
/// when a blob's size is not its value's.
Result<ReferenceReplay> replay_reference(const Program& program, const trace::BlobStore& blobs,
                                         std::uint32_t iterations, Roughness* rough = nullptr);

/// The same of the first `iterations` turns of several variants, in their order. Errors: those.
Result<ReferenceReplay> replay_reference(const Variants& variants, const trace::BlobStore& blobs,
                                         std::uint32_t iterations, Roughness* rough = nullptr);

}  // namespace crucible::graph
