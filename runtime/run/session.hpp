// A program bound to one device (or to the reference interpreter): compiled, planned, loaded with its starting state,
// ready to replay.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/hash.hpp"
#include "core/base/result.hpp"
#include "core/budget/line.hpp"
#include "core/graph/program.hpp"
#include "core/graph/variants.hpp"
#include "core/kernel/schedule.hpp"
#include "core/trace/trace.hpp"
#include "plugins/loader/backend.hpp"
#include "plugins/loader/counters.hpp"
#include "runtime/judge/compare.hpp"
#include "runtime/judge/kernel_trials.hpp"
#include "runtime/judge/move.hpp"
#include "runtime/plan/placement.hpp"
#include "runtime/run/verification.hpp"

namespace crucible::runtime {

struct Tolerances;  // noise.hpp
class Choices;      // choices.hpp
class BusyTimes;    // submission.hpp

/// What happens to a kernel that the device refuses: an error, or the second device runs it (with a word, or without).
enum class Fallback : std::uint8_t { kForbid, kWarn, kAllow };

/// What counts: as little memory as can be, as little as costs no time, or the order of the recording.
enum class Objective : std::uint8_t { kLeastMemory, kBalanced, kFastest };

struct MemoryOptions {
  Objective objective = Objective::kBalanced;
  std::uint64_t budget_bytes = 0;  // the arena may not be larger; 0: as large as it gets
  bool or_smallest = false;        // where the budget cannot be met, the smallest peak instead of an error
  budget::Costs costs = {};        // of the device, to choose what is computed twice
  /// Inputs have two places in the arena, used in turn, so that the next iteration's are written while one runs. Where
  /// there is a budget or as little memory as can be is asked for, they have one all the same.
  bool inputs_ahead = true;
  /// Of several variants, set by their session: where their states and constants lie, without red zones and with those
  /// that the arena has. Null: of one program.
  std::shared_ptr<const KeptPlaces> kept = nullptr, kept_in_zones = nullptr;
};

struct Options {
  bool fuse = true;
  kernel::Numerics numerics = kernel::Numerics::kFast;
  MemoryOptions memory = {};
  bool poison = false;  // overwrite every range of the arena when it dies (CRUCIBLE_POISON=1)
  Fallback fallback = Fallback::kForbid;
  /// Which products and convolutions generated kernels run faster than the library, in fast mode; shared with the
  /// caller, who measures. Null: none.
  std::shared_ptr<Choices> choices = nullptr;
  TrialOptions trial = {};  // of compiled kernels, before they are used
  /// Of several variants those stay compiled whose programs have together as many ops; others are let go, those that
  /// run last of all, and made again when they run. An op takes about a kilobyte of schedule, plan and machine code.
  std::size_t resident_ops = 50'000;
  /// Hears what the devices and the host are busy with, iteration by iteration; shared with the caller, who looks at it
  /// when all is over. Null: nobody does.
  std::shared_ptr<BusyTimes> busy = nullptr;
  /// Opens the device that runs refused kernels; called only when there are some. Null: there is none.
  std::function<Result<std::shared_ptr<backend::Device>>()> open_second = nullptr;
  /// Opens the device that runs opaque ops (Device::takes_opaque()) beside one that does not. Null: none
  /// may.
  std::function<Result<std::shared_ptr<backend::Device>>()> open_opaque = nullptr;
};

/// A step that the device refused and the second one runs.
struct RefusedStep {
  std::uint32_t step = 0;
  std::string ops;     // kinds: "tanh, multiply"
  std::string source;  // "train.py:31 (blocks.0.norm1)" of the first op that has one, else ""
  std::string reason;  // the device's words
};

/// What ran elsewhere than on the session's device.
struct FallbackReport {
  std::shared_ptr<backend::Device> device;  // null: nothing did. Shared: see plugins/loader
  std::vector<RefusedStep> steps;
  std::uint32_t segments = 1;                                       // pieces that run on the two devices in turn
  std::uint64_t copies_per_iteration = 0, bytes_per_iteration = 0;  // between the two, both ways
};

/// What a session of the same program needs to go on from between two iterations, on whatever device.
struct Checkpoint {
  std::uint32_t next_iteration = 0;
  std::vector<std::vector<std::byte>> states;  // as Program::states; empty for one that no iteration changes
  std::uint64_t bytes() const;
};

/// What the device counted during one replay, or why it does not count: want of rights, too many at once.
struct Counted {
  std::vector<backend::CounterValue> values;
  std::string refusal;
};

struct ArrangeReport;  // arrange.hpp

class Session {
 public:
  /// Schedules, fits into memory, compiles, allocates the arena and loads the starting state and the constants. Errors:
  /// those of the stages, each naming its stage; kUnavailable when the device refuses a kernel and the fallback is
  /// forbidden, naming the ops; kBadInput when the program has opaque ops that no device runs, naming all of them.
  static Result<std::unique_ptr<Session>> create(std::shared_ptr<const graph::Program> program,
                                                 std::shared_ptr<const trace::BlobStore> blobs,
                                                 std::shared_ptr<backend::Device> device, const Options& options);
  /// The same of a recording of several variants: each is scheduled, planned and compiled by itself. One arena, as
  /// large as the largest of them needs, is for all: states and constants have the same places in it whoever runs.
  /// Iterations are the turns. Errors: those, with the variant; a memory budget is one for all, and where it cannot be
  /// met, the variant that needs most is named.
  static Result<std::unique_ptr<Session>> create(std::shared_ptr<const graph::Variants> variants,
                                                 std::shared_ptr<const trace::BlobStore> blobs,
                                                 std::shared_ptr<backend::Device> device, const Options& options);
  /// Without a device, each value in memory of its own. kFast: the reference interpreter (core/graph/reference.hpp)
  /// runs every op in double precision and exact integers. kStrict: the interpreter of the kernel IR
  /// (core/kernel/ir/interpreter.hpp) runs the kernels that a device would compile, and ends with the bits that every
  /// device must end with. schedule() and placement() stay empty. Errors: those of loading, and in strict numerics of
  /// scheduling.
  static Result<std::unique_ptr<Session>> create_reference(std::shared_ptr<const graph::Program> program,
                                                           std::shared_ptr<const trace::BlobStore> blobs,
                                                           kernel::Numerics numerics = kernel::Numerics::kFast);
  static Result<std::unique_ptr<Session>> create_reference(std::shared_ptr<const graph::Variants> variants,
                                                           std::shared_ptr<const trace::BlobStore> blobs,
                                                           kernel::Numerics numerics = kernel::Numerics::kFast);
  ~Session();
  /// How many were recorded, of all variants.
  std::uint32_t iterations() const { return static_cast<std::uint32_t>(turns_.size()); }
  std::size_t variants() const { return variants_.size(); }
  /// The variant that iteration `index` runs: its program, and which of the program's iterations that is.
  const graph::Program& program_of(std::uint32_t index) const;
  const graph::Turn& turn(std::uint32_t index) const { return turns_[index]; }
  /// Loads iteration `index`'s inputs and slots, runs it once and reads the outputs. Call with 0, 1, ... in order.
  /// Errors: those of the device, and kBadInput for an index that eager would have refused (graph::Bound).
  Result<IterationResult> run(std::uint32_t index);
  /// As run(), but such an index is part of the result. For who compares two sessions: where one alone has it, its
  /// device is wrong and not the recording, and the ops before it say where.
  Result<IterationResult> run_unjudged(std::uint32_t index);
  /// The two halves of run_unjudged(), for who has more than one session and lets their devices work at the same time:
  /// start() loads what iteration `index` needs and submits it, finish() writes the next one's inputs while it runs,
  /// waits, and reads the outputs. Between them nothing else may be asked of the session. Errors: as of run_unjudged().
  Result<void> start(std::uint32_t index);
  Result<IterationResult> finish();
  /// Compares each tensor that the iteration which ran last gave back with the recorded one; the caller keeps them in
  /// the iteration's result. Errors: kUsage when none has run; kBadInput when recorded bytes are damaged or too few.
  Result<std::vector<OutputDifference>> compare_outputs() const;
  /// Puts the starting state back, so that run(0) may follow.
  Result<void> reset();
  /// Reads the states that iterations change back to the host, as they are after the last one that ran. On an error
  /// `into` is worth nothing. Errors: those of reading from the device.
  Result<void> save(Checkpoint& into) const;
  /// Puts them into a session of the same program, whatever its device, so that run(from.next_iteration) may follow.
  /// Errors: kInternal for states of another program; those of writing to the device.
  Result<void> restore(const Checkpoint& from);
  /// The device of this session that was lost, its own or the second one; null while both live.
  const backend::Device* lost() const;
  /// Null of the reference interpreter.
  const backend::Device* device() const;
  /// Judges losses and outputs of all iterations and compares the present state with the recorded one; call after the
  /// last iteration. Errors: kUsage when iterations have not run, or their outputs were not compared.
  Result<Verification> verify(const std::vector<IterationResult>& results) const;
  /// The present state and the losses of `results`; call after the last iteration. Errors: kUsage when iterations have
  /// not run.
  Result<RunEnd> end_of_run(const std::vector<IterationResult>& results) const;
  /// Begins a spread (sensitivity.cpp) with the end of a run, whose outputs are read by running it again where
  /// `with_outputs` asks for them. Errors: as of end_of_run(), and those of run().
  Result<void> start_spread(const std::vector<IterationResult>& results, Spread& spread, bool with_outputs = false);
  /// Runs all iterations once more, with every floating-point element of the recorded starting state, of the inputs and
  /// of the constants one unit in the last place further up or down (whole numbers and random draws stay), another one
  /// for each run of the spread, and widens that by how far it ends from the first. The state is another one then:
  /// reset() afterwards. Errors: those of run().
  Result<void> widen_spread(Spread& spread);
  /// Nanoseconds per step over one more run of the present inputs. The state moves on: reset() afterwards. Errors:
  /// kUsage without steps.
  Result<std::vector<std::uint64_t>> profile();
  /// Where the times of the last profile() are from, in the plugins' words; "" where they do not say.
  std::string times_from() const;
  /// What the plugins say of each plan of an iteration, and of its replays so far.
  std::vector<backend::Properties> plan_facts() const;
  /// The device's counters of these names over one more run of the present inputs; what runs on a second device is not
  /// counted. The state moves on: reset() afterwards. Errors: kUsage as of profile(); those of the run.
  Result<Counted> count(std::span<const std::string> names);

  /// A state as the last iteration that ran left it, whole. Errors: those of reading from the device.
  Result<std::vector<std::byte>> state_bytes(const graph::State& state) const;
  /// Output `index` of the program that was given, dense and row-major, as the last iteration left it. Errors: those of
  /// reading.
  Result<std::vector<std::byte>> output_bytes(std::size_t index) const;
  bool is_reference() const;
  /// Of several variants, this and what follows are of that which ran last, of the first one before any did.
  std::size_t variant() const;
  /// The program that runs: the given one, or with ops in another order and some of them twice, as the memory options
  /// ask.
  const graph::Program& program() const;
  /// What arranging it in memory gave. Empty of the reference interpreter.
  const ArrangeReport& arrange_report() const;
  const kernel::Schedule& schedule() const;
  const Placement& placement() const;
  std::uint64_t compile_ns() const;  // of all variants that are held, as are the next two
  bool compiled_from_cache() const;
  /// For which it waited until the starting states were on the device, their bytes read from the recording among it.
  std::uint64_t states_ns() const;
  /// Of both devices; nothing when a plugin does not say, and of the reference interpreter.
  std::optional<backend::CompileCounts> compile_counts() const;
  /// Bytes of the one device allocation that holds everything; placement().plan.peak_bytes, at least one kAlignment. 0
  /// of the interpreter.
  std::uint64_t arena_bytes() const;
  /// What the backend's library said when it failed to answer a claim for another reason than "unsupported"; mostly "".
  const std::string& library_failure() const;
  const FallbackReport& fallback() const;
  const TrialReport& trials() const;  // of compiled kernels; empty of the reference interpreter
  /// "tanh, multiply at train.py:31 (blocks.0.norm1)": what a step computes and where it comes from.
  std::string step_in_words(std::uint32_t step) const;

 private:
  struct State;
  friend class Executable;  // its stages up to the plan are a session's
  explicit Session(const graph::Variants& variants);
  static Result<std::unique_ptr<Session>> create_on(const graph::Variants& variants,
                                                    std::shared_ptr<const trace::BlobStore> blobs,
                                                    std::shared_ptr<backend::Device> device, const Options& options);
  static Result<std::unique_ptr<Session>> create_interpreted(const graph::Variants& variants,
                                                             std::shared_ptr<const trace::BlobStore> blobs,
                                                             kernel::Numerics numerics);
  /// Schedules and places a variant, and notes what the arena needs and, beyond a budget, why that cannot be.
  Result<void> arrange_variant(std::size_t variant, const MemoryOptions& memory);
  /// Compiles a variant that is arranged, builds its plan and loads what is its own.
  Result<void> ready(std::size_t variant);
  /// Makes a variant that was let go, or never made, and lets others go for it.
  Result<void> make_resident(std::size_t variant);
  void let_go(std::size_t variant);
  /// The variant of iteration `index` is the present one, with the states as they are before it.
  Result<void> select(std::uint32_t index);
  Result<void> change_to(std::size_t variant);
  Result<void> begin(std::uint32_t index, bool starts);
  /// Inputs of the last iteration that ran, or of the first, are there again: for measuring.
  Result<void> load_again();
  /// State `index` of the present variant is newer than that of the others.
  void set_changed(std::size_t index);
  bool is_changed(const graph::State& state) const;
  Result<RunEnd> run_all(bool with_outputs);
  /// A run of a spread begins, from where reset() left it: see widen_spread().
  Result<void> shake(std::uint64_t seed);
  Result<void> stop_shaking();
  Tolerances tolerances() const;

  std::vector<std::unique_ptr<State>> variants_;
  State* state_ = nullptr;  // the present variant
  std::vector<graph::Turn> turns_;
  std::uint32_t next_ = 0;  // iteration
  /// By state: whether an iteration changes it, when that last happened, and by variant of when it has it.
  std::vector<bool> changes_;
  std::vector<std::uint32_t> moves_;  // graph::Variants::moves_of()
  std::vector<std::uint64_t> changed_;
  std::vector<std::vector<std::uint64_t>> held_;
  std::uint64_t clock_ = 0;
  struct Residents;  // session_variants.cpp
  std::unique_ptr<Residents> residents_;
};

}  // namespace crucible::runtime
