// A session's executable: program, schedule, memory plan, compiled kernels, device buffers, work in flight and what was
// read back. Shared by session.cpp (the hot path: an iteration's inputs in, its submission, its outputs out),
// session_run.cpp (submitting and waiting), session_variants.cpp (changing the program between two iterations),
// session_pieces.cpp (compiling, and running on one device or two), session_reference.cpp (running without a device)
// and verify.cpp (judging), seen by nobody else.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <random>
#include <span>
#include <string>

#include "core/graph/reference.hpp"
#include "core/kernel/run_schedule.hpp"
#include "runtime/judge/noise.hpp"
#include "runtime/plan/arrange.hpp"
#include "runtime/plan/near_transfers.hpp"
#include "runtime/plan/refusals.hpp"
#include "runtime/plan/split.hpp"
#include "runtime/run/kernel_faults.hpp"
#include "runtime/run/session.hpp"
#include "runtime/run/submission.hpp"

namespace crucible::runtime {

/// Of poisoned sessions: so many bytes behind each buffer hold this byte.
inline constexpr std::uint64_t kRedZoneBytes = 256;
inline constexpr std::uint8_t kRedZoneByte = 0xc5;

/// The same error, with the stage at which it came.
Error at_stage(std::string_view stage, const Error& error);

/// A session without a device: an interpreter, with a buffer of its own for every value.
struct Interpreted {
  /// Strict numerics: the kernels of a schedule. Else the reference interpreter runs the ops.
  struct Kernels {
    kernel::Schedule schedule;
    kernel::ScheduleInterpreter interpreter;
  };
  std::optional<Kernels> kernels;
  std::vector<graph::Bytes> values;
  std::vector<graph::Number> slots;
  bool is_run = false;  // then State::end has what State::start takes over before the next iteration
};

struct Session::State {
  std::shared_ptr<const graph::Program> program;  // shared with the caller, who prints it; see Session::program()
  std::shared_ptr<const trace::BlobStore> blobs;  // shared: the mapped file lives as long as its last reader
  std::shared_ptr<backend::Device> device;        // shared: see plugins/loader; null: `interpreted` runs it
  kernel::Schedule schedule;
  Placement placement;
  ArrangeReport arrange_report;
  std::string library_failure;
  std::optional<std::mt19937_64> shaking;  // of a run of a spread: inputs are written one unit in the last place away
  Options options;
  FallbackReport fallback;
  /// A segment as a plan of its device. Without refused kernels there is one.
  struct Piece {
    Segment segment;
    /// None of a transfer. Where inputs have two places, one for the iterations of each.
    std::array<std::optional<backend::Plan>, 2> plans;
    std::vector<std::uint32_t> op_of_step;  // index in the plan, per step of the segment
  };
  /// A plan of the present iteration that was submitted.
  struct InFlight {
    std::size_t piece = 0;
    std::uint64_t point = 0;  // of the device's submissions
    bool is_done = false;
    std::optional<backend::Timeline::Times> times = {};  // when it is done, where the plugin tells
  };
  NamedKernels named_kernels;
  TrialReport trials;
  std::uint64_t states_ns = 0;  // that writing the states took: their bytes are read from the recording meanwhile
  bool is_sized = false, is_second_sized = false;  // whether the devices ask for the bytes of launches' buffers
  std::vector<bool> is_second_kernel;              // per kernel of the schedule
  std::vector<graph::ValueId> loaded_twice;        // see Split
  // Destroyed in reverse: the plans before the arenas and the modules that they use.
  std::optional<backend::Module> module, second_module;
  std::optional<CarefulKernels> careful, second_careful;
  std::shared_ptr<backend::Buffer> arena;  // shared by variants
  std::optional<backend::Buffer> second_arena;
  std::vector<Piece> pieces;
  std::shared_ptr<Submissions> submitted;  // to the device; shared by variants
  std::optional<Submissions> second_submitted;
  std::vector<InFlight> in_flight;                                     // in the order of submission
  std::uint32_t place = 0;                                             // of the inputs of the present iteration
  std::array<std::uint32_t, 2> loaded = {graph::kNone, graph::kNone};  // whose inputs and slots are there, by place
  bool is_worth_starting = false;  // writing the next inputs while an iteration runs saves more than starting it costs
  /// What is read together: losses and bounds after each iteration, tensors when asked for, states after a run.
  std::vector<ByteRange> near_numbers, near_tensors, near_states;
  std::vector<std::uint64_t> kept_begins;  // of states, inputs and constants in the arena: see NearWrites
  std::vector<std::uint64_t>
      all_begins;                      // of everything in it: while an iteration runs nothing else may be written over
  std::optional<NearWrites> writes;    // while small pieces are gathered: see write_together()
  std::vector<std::byte> host_arena;   // what waits on the host, as Placement::host_plan says
  std::uint32_t loaded_iteration = 0;  // whose inputs transfers bring
  std::uint64_t began_ns = 0;          // when the present iteration was submitted
  std::optional<Interpreted> interpreted;

  Result<void> make_schedule();
  Result<void> compile();
  /// Those of both devices.
  std::vector<const backend::Module*> modules() const;
  TrialPlace trial_place(const std::shared_ptr<backend::Device>& on) const;
  Result<void> try_accepted(const std::shared_ptr<backend::Device>& on, std::span<const backend::KernelSource> sources,
                            TrialReferences& references, AcceptedKernels& accepted);
  Result<void> compile_opaque(const std::vector<backend::KernelSource>& sources);
  /// What a compiler failed at: the ops of each kernel among `kernels` ("k1, k2"), where they come from and how to see
  /// the text.
  std::string ops_of_kernels(std::string_view kernels) const;
  Error opaque_refused(const backend::Device& by, const std::vector<Refusal>& refused) const;
  Result<void> compile_refused(const std::vector<backend::KernelSource>& sources, const std::vector<Refusal>& refused);
  /// As large as all the variants need that share it, whose placements are known.
  Result<void> allocate_arena(std::uint64_t size_bytes);
  Result<void> build_plan();
  Result<void> build_piece(Segment segment);
  /// The present iteration is submitted, piece by piece; what one device needs of the other is waited for.
  /// `starts`: it begins at once, for the caller has something else to do; else it may wait for wait_for_iteration(),
  /// whose caller then does it, which takes less than waking a thread.
  Result<void> submit(bool starts);
  Result<void> submit_piece(std::size_t index, bool starts);
  /// Waits for all that was submitted. The time is that from the first plan's begin to the last one's end.
  Result<std::uint64_t> wait_for_iteration(std::uint64_t began_ns);
  Result<void> wait_for(InFlight& flight);
  /// Nothing is in flight any more, whatever it ended with.
  void settle();
  Result<void> replay();
  /// Makes it a session without a device.
  Result<void> interpret_with(kernel::Numerics numerics);
  Result<void> interpret();
  Submissions& submissions_of(const Piece& piece) { return piece.segment.on_second ? *second_submitted : *submitted; }
  /// What was submitted to a device is done.
  Result<void> wait_for_device(bool on_second);
  /// The next iteration's inputs, while the present one runs. What goes wrong is found again when that one is loaded.
  void load_ahead(std::uint32_t index);
  void forget_inputs() { loaded = {graph::kNone, graph::kNone}; }
  std::uint32_t place_of(std::uint32_t index) const { return placement.has_two_places() ? index % 2 : 0; }
  /// The host was busy from then on until now.
  void note(Busy::With with, std::uint32_t iteration, std::uint64_t begin_ns) const;
  void carry_interpreted_states();
  void forget_values();  // of an interpreter: states and constants are to be loaded again
  void find_near_places();
  /// Bytes [offset, offset + bytes.size()) of a value as it is after the last iteration that ran.
  Result<void> read_bytes(graph::ValueId value, std::uint64_t offset, std::span<std::byte> bytes) const;
  Result<std::vector<std::uint64_t>> profile();
  std::string times_from() const;
  std::vector<backend::Properties> plan_facts() const;
  Result<void> copy_into(const Segment& segment);
  Result<void> transfer(const kernel::Step& step, std::uint32_t index);
  Result<void> load_states();
  Result<void> load_constants();
  Result<void> load_inputs(std::uint32_t index);
  Result<void> load_iteration(std::uint32_t index);
  /// Inputs and slots of an iteration, into its place, unless they are there.
  Result<void> fill_place(std::uint32_t index);
  Result<void> write_states(const Checkpoint& from);
  Result<void> poison_transient();
  Result<void> fill_red_zones(std::uint32_t step);
  Result<void> check_red_zones(std::uint32_t step, bool on_second);
  std::string step_text(std::uint32_t step) const;
  /// The same error, or where the device was lost one that says where in the iteration that was.
  Error with_lost_steps(const Piece& piece, const Error& error) const;
  std::string holder_text(std::uint32_t buffer) const;
  /// What `pieces` writes is written when it is done, small pieces of the arena together.
  Result<void> write_together(const std::function<Result<void>()>& pieces, std::span<const std::uint64_t> kept);
  Result<void> write_together(const std::function<Result<void>()>& pieces) {
    return write_together(pieces, kept_begins);
  }
  Result<void> write_blob(graph::ValueId value, std::uint32_t blob);
  Result<void> write_bytes(graph::ValueId value, std::vector<std::byte> bytes);
  /// Of the iteration that ran last: `near` is one of the three above.
  NearReads reads_of(std::span<const ByteRange> near) const;
  ByteRange range_of(const graph::Output& output) const;
  Result<void> read_range(graph::ValueId value, const ByteRange& range, std::span<std::byte> bytes,
                          NearReads& reads) const;
  Result<double> read_output(const graph::Output& output, NearReads& reads) const;
  Result<std::vector<std::byte>> read_tensor(const graph::Output& output, NearReads& reads) const;
  /// What is wrong with an index of the iteration that ran, if one lay outside of where its op needs it. Errors: those
  /// of reading.
  Result<std::optional<Error>> index_outside(NearReads& reads) const;
  Result<OutputDifference> compare_output(const graph::Output& output, std::uint32_t iteration, NearReads& reads) const;
  /// `tolerance`: beyond it the difference is measured in full.
  /// `moves`: how many iterations changed it, 0 where by how much cannot be told.
  Result<StateDifference> compare_state(std::size_t index, std::uint32_t moves, const Noise& noise, double tolerance,
                                        NearReads& reads) const;
  /// How far the iterations moved a state that ends as `actual`, beside one that ends as `expected`.
  Result<Move> move_of(std::size_t index, std::uint32_t moves, const Noise& noise, std::span<const std::byte> actual,
                       std::span<const std::byte> expected) const;
  Result<std::vector<std::byte>> final_bytes(const graph::State& state, NearReads& reads) const;
  Result<void> perturb(graph::ValueId value, std::uint32_t blob, std::mt19937_64& random);
  /// Constants, and states where they are this program's to load, one unit in the last place away, and inputs from now
  /// on.
  Result<void> shake(std::uint64_t seed, bool with_states);
  std::uint64_t offset_of(graph::ValueId value) const;
  /// Where a value on the host lies; the device has none of it.
  std::span<std::byte> on_host(graph::ValueId value);
  std::string name_of(graph::ValueId value) const;
  static std::uint64_t bytes_of(const graph::Value& value);
};

}  // namespace crucible::runtime
