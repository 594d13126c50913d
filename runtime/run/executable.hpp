// A program compiled for one device and bound to memory of the caller's: its states where they lie, its inputs where
// they come, its results where the caller wants them. Nothing is copied in or out; what is temporary lies in an arena.
// For who replays inside the program that was recorded (docs/accelerate.md); a Session keeps all memory itself.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/dtype.hpp"
#include "core/base/result.hpp"
#include "core/graph/program.hpp"
#include "plugins/loader/backend.hpp"
#include "runtime/run/session.hpp"

namespace crucible::runtime {

/// The form of a program that can be bound: inputs are constants for the length of a call, and each result that is
/// wanted is written to memory of its own, as the end of a state that nothing reads.
struct BoundForm {
  /// A place is a list entry of the program that was given.
  enum class Kind : std::uint8_t { kState, kConstant, kInput, kOutput };
  struct Place {
    Kind kind = Kind::kState;
    std::uint32_t index = 0;  // in the given program's states, constants, inputs or outputs
    std::string name;
    DType dtype = DType::kF32;
    std::uint64_t size_bytes = 0;  // the whole memory; of an output its elements, dense and row-major
    bool is_written = false;       // by a run
    bool is_draw = false;          // of an input: what a random op drew
  };
  graph::Program program;
  std::vector<Place> places;  // states, then outputs, constants, inputs: as the program's states, then its constants
};

/// `outputs`: which of the program's, by index. Errors: kUsage for an output that is no tensor and no number of one.
Result<BoundForm> bound_form(const graph::Program& program, std::span<const std::uint32_t> outputs);

/// Threads: one caller at a time; create() on another thread than run() is fine.
class Executable {
 public:
  /// Memory that is bound begins at a multiple of so many bytes.
  static constexpr std::uint64_t kBoundAlignment = 16;

  /// Schedules, plans, compiles and tries the kernels, and allocates the arena; touches nothing of the caller's.
  /// Errors: those of the stages; kUnavailable when the device refuses a kernel, or takes no memory of the host's.
  static Result<std::unique_ptr<Executable>> create(BoundForm form, std::shared_ptr<backend::Device> device,
                                                    const Options& options);
  ~Executable();
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;

  const std::vector<BoundForm::Place>& places() const;
  /// Whether a run touches it; a place that none does need not be bound.
  bool uses(std::size_t place) const;
  /// What place `place` is from now on: memory of its size, which the caller keeps alive until it is bound anew, and
  /// which no other written place shares. Errors: kUsage for memory that is not aligned; those of the device.
  Result<void> bind(std::size_t place, void* memory);
  /// Where it is bound; null before it was.
  const void* bound(std::size_t place) const;
  /// Numbers of the program's slots, in order, eight bytes each in their type.
  Result<void> set_slots(std::span<const std::uint64_t> bits);
  /// One iteration: inputs and states are read, states and outputs written. Errors: kUsage when a place that it uses is
  /// not bound; those of the device, after which what it writes is worth nothing.
  Result<void> run();
  /// From now on a run can be made in two parts: the steps up to the last one that writes one of these places, whose
  /// results are there then, and the others. Errors: kUnavailable when one is written behind the last step.
  Result<void> split_after(std::span<const std::size_t> places);
  /// Places besides those that the first part writes.
  const std::vector<std::size_t>& written_first() const;
  /// The two parts of a run, in turn; a run whose second part is not made has written what written_first() says.
  Result<void> run_first();
  Result<void> run_rest();
  /// Of all temporaries together.
  std::uint64_t arena_bytes() const;
  /// Where they lie. Between two runs nothing that lies there is of any use.
  std::uint64_t arena_address() const;
  std::size_t steps() const;
  /// Kernels that were compiled for it, and those that the store had.
  backend::CompileCounts compile_counts() const;

 private:
  struct State;
  explicit Executable(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace crucible::runtime
