// The stages that a stranger's program goes through, in their order, and what has to be the same at the end.
#include "tests/fuzz/judge.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ctime>
#include <functional>
#include <unordered_set>

#include "core/graph/binary.hpp"
#include "core/graph/composite.hpp"
#include "core/graph/op_table.hpp"
#include "core/graph/parse.hpp"
#include "core/graph/print.hpp"
#include "core/graph/reference.hpp"
#include "core/graph/reference_numbers.hpp"
#include "core/kernel/schedule.hpp"
#include "runtime/plan/library_calls.hpp"
#include "runtime/run/capsule.hpp"
#include "runtime/run/session.hpp"
#include "tests/fuzz/mutate.hpp"

namespace crucible::fuzz {
namespace {

// Beyond these a program may well take long: it is decoded, verified and scheduled, and not run.
constexpr std::uint64_t kMostWork = 400'000, kMostBytes = std::uint64_t{4} << 20, kMostIterations = 3;
// A stage of what is within them takes milliseconds.
constexpr double kMostSeconds = 10;
constexpr long kMostGrowthKb = 512L << 10;

double seconds_of_thread() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

long most_memory_kb() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

/// The states and tensors that an executor ended with, per iteration; or its error.
struct End {
  Error error;
  bool is_good = false;
  std::vector<std::vector<std::byte>> results;
};

class Judge {
 public:
  Judge(const Recorded& recorded, std::shared_ptr<backend::Device> device)
      : recorded_(recorded), device_(std::move(device)) {}

  Judgement run() {
    decode();
    if (judgement_.finding.empty() && judgement_.is_valid) execute();
    return judgement_;
  }

 private:
  void find(std::string words) {
    if (judgement_.finding.empty()) judgement_.finding = std::move(words);
  }

  /// Notes what took too long or too much memory.
  void watch(const char* stage, const std::function<void()>& run) {
    const double start = seconds_of_thread();
    const long memory = most_memory_kb();
    run();
    const double seconds = seconds_of_thread() - start;
    if (seconds > kMostSeconds) find(fmt::format("{} takes {:.1f} s", stage, seconds));
    const long grown = most_memory_kb() - memory;
    if (grown > kMostGrowthKb) find(fmt::format("{} takes {} MiB", stage, grown >> 10));
  }

  void expect_no_fault(const char* stage, const Error& error) {
    if (error.code == ErrorCode::kInternal || error.code == ErrorCode::kCheckFailed)
      find(fmt::format("{}: {}", stage, error.message));
  }

  /// As files hold it: in binary form, as text, and in a capsule where it may be in one.
  void decode() {
    const std::vector<std::byte> bytes = graph::to_binary(recorded_.program);
    watch("decoding", [&] {
      const auto program = graph::from_binary(bytes);
      judgement_.is_valid = program.has_value();
      if (!program && program.error().code != ErrorCode::kBadInput) find("decoding: " + program.error().message);
      if (!program) return;
      if (graph::to_binary(*program) != bytes) find("decoding: another program comes back");
      program_ = std::make_shared<const graph::Program>(*std::move(program));
      if (program_->opaques.empty() && program_->iterations <= kMostIterations) {
        const std::string text = graph::to_text(*program_);
        const auto parsed = graph::parse_program(text);
        if (!parsed) {
          find("parsing its text: " + parsed.error().message);
        } else if (graph::to_text(*parsed) != text) {
          find("parsing its text: another program comes back");
        }
      }
    });
    if (!program_) return;
    // A capsule's bytes are the same bytes in other pieces, with rules of their own.
    runtime::Capsule capsule{*program_, std::make_shared<trace::MemoryBlobStore>(), "fuzz"};
    if (bytes_of(*program_) > kMostBytes) return;
    for (const auto& blob : recorded_.blobs) capsule.blobs->add(std::span(blob));
    const auto written = runtime::capsule_bytes(capsule);
    if (!written) return find("writing a capsule: " + written.error().message);
    const auto read = runtime::parse_capsule(*written, "capsule");
    if (!read && read.error().code != ErrorCode::kBadInput) find("reading a capsule: " + read.error().message);
  }

  bool is_small() const {
    return program_->iterations <= kMostIterations && work_of(*program_) <= kMostWork &&
           bytes_of(*program_) <= kMostBytes;
  }

  void execute() {
    blobs_ = std::make_shared<const ListStore>(recorded_.blobs);
    if (!is_small()) {
      watch("scheduling", [&] {
        const auto made = kernel::prepare(*program_, {.numerics = kernel::Numerics::kStrict});
        if (!made) expect_no_fault("scheduling", made.error());
      });
      return;
    }
    // The lowering puts the bodies of composites in their places for who does not take them whole.
    graph::Program neutral = *program_;
    graph::expand_composites(neutral);
    if (const auto valid = graph::verify(neutral); !valid)
      return find("composites in their place: " + valid.error().message);
    neutral_ = std::make_shared<const graph::Program>(std::move(neutral));
    End reference, strict;
    watch("the reference interpreter", [&] {
      reference =
          run_session("the reference interpreter", runtime::Session::create_reference(program_, blobs_), *program_);
    });
    watch("the interpreter of kernels", [&] {
      strict = run_session("the interpreter of kernels",
                           runtime::Session::create_reference(neutral_, blobs_, kernel::Numerics::kStrict), *neutral_);
    });
    if (reference.is_good != strict.is_good && !is_lookup_refusal(reference.error)) {
      find(fmt::format("one interpreter says '{}', the other '{}'", reference.error.message, strict.error.message));
    }
    judgement_.is_run = strict.is_good;
    const bool is_near = reference.is_good && strict.is_good && !has_narrow_functions() && !factors_equal_rows();
    if (is_near) compare_near(reference, strict, "the interpreter of kernels");
    if (device_ == nullptr || !judgement_.finding.empty()) return;
    const End compiled = run_device(kernel::Numerics::kStrict);
    if (compiled.is_good != strict.is_good && !is_unread_input(strict.error)) {
      return find(
          fmt::format("the device says '{}', the interpreter '{}'", compiled.error.message, strict.error.message));
    }
    if (!compiled.is_good) return;
    judgement_.is_compiled = true;
    for (std::size_t i = 0; i < strict.results.size(); ++i) {
      if (!equal_bits(i, compiled.results[i], strict.results[i]))
        return find(fmt::format("{} has other bits on the device than in the interpreter", name_of(i)));
    }
    const End fast = run_device(kernel::Numerics::kFast);
    if (!fast.is_good) return find("in fast numerics: " + fast.error.message);
    if (is_near) compare_near(reference, fast, "the device in fast numerics");
  }

  /// The reference may refuse an id that kernels read the first or the last row for (OpKind).
  static bool is_lookup_refusal(const Error& error) {
    return error.code == ErrorCode::kBadInput && error.message.find("is no row of") != std::string::npos;
  }

  /// A device is not handed inputs that nothing reads, so it does not see that their bytes are too few.
  static bool is_unread_input(const Error& error) {
    return error.code == ErrorCode::kBadInput && error.message.starts_with("inputs of iteration");
  }

  /// Kernels compute these of f64 up to 2^30 alone (docs/kernels.md).
  bool has_narrow_functions() const {
    return std::ranges::any_of(program_->ops, [&](const graph::Op& op) {
      const bool is_narrow =
          op.kind == graph::OpKind::kSin || op.kind == graph::OpKind::kCos || op.kind == graph::OpKind::kTan;
      return is_narrow && program_->values[op.outputs[0].value].dtype == DType::kF64;
    });
  }

  /// A factorization of rows or columns that are one and the same: the directions that are left over are those of
  /// roundings.
  bool factors_equal_rows() const {
    return std::ranges::any_of(program_->ops, [](const graph::Op& op) {
      if (graph::info(op.kind).op_class != graph::OpClass::kFactorization) return false;
      const graph::View& view = op.inputs[0].view;
      for (std::size_t d = 0; d < view.sizes.size(); ++d) {
        if (view.sizes[d] > 1 && view.strides[d] == 0) return true;
      }
      return false;
    });
  }

  End run_device(kernel::Numerics numerics) {
    runtime::Options options;
    options.numerics = numerics;
    options.trial.is_on = false;  // the interpreters are the judges here
    End end;
    watch("the device", [&] {
      end = run_session("the device", runtime::Session::create(neutral_, blobs_, device_, options), *neutral_);
    });
    return end;
  }

  End run_session(const char* who, Result<std::unique_ptr<runtime::Session>> session, const graph::Program& program) {
    End end;
    const auto fails = [&](const Error& error) {
      expect_no_fault(who, error);
      end.error = error;
      return end;
    };
    if (!session) return fails(session.error());
    for (std::uint32_t iteration = 0; iteration < program_->iterations; ++iteration) {
      const auto ran = (*session)->run(iteration);
      if (!ran) return fails(ran.error());
      for (std::size_t i = 0; i < program_->outputs.size(); ++i) {
        auto bytes = (*session)->output_bytes(i);
        if (!bytes) return fails(bytes.error());
        end.results.push_back(*std::move(bytes));
      }
    }
    for (const graph::State& state : program.states) {
      auto bytes = (*session)->state_bytes(state);
      if (!bytes) return fails(bytes.error());
      end.results.push_back(*std::move(bytes));
    }
    end.is_good = true;
    return end;
  }

  /// The value that result `i` of an End is of.
  graph::ValueId value_of(std::size_t i) const {
    const std::size_t outputs = program_->outputs.size() * program_->iterations;
    if (i < outputs) return program_->outputs[i % program_->outputs.size()].operand.value;
    const graph::State& state = program_->states[i - outputs];
    return state.start;
  }
  std::string name_of(std::size_t i) const { return fmt::format("value %{} (result {})", value_of(i), i); }

  static bool is_nan(DType dtype, const std::byte* at) {
    return is_floating(dtype) && std::isnan(graph::load_real(dtype, at));
  }

  /// Bits, and NaN for NaN.
  bool equal_bits(std::size_t i, const std::vector<std::byte>& a, const std::vector<std::byte>& b) const {
    if (a == b) return true;
    const DType dtype = program_->values[value_of(i)].dtype;
    const std::size_t size = size_bytes(dtype);
    if (a.size() != b.size() || size == 0) return false;
    for (std::size_t at = 0; at + size <= a.size(); at += size) {
      if (std::memcmp(a.data() + at, b.data() + at, size) != 0 &&
          !(is_nan(dtype, a.data() + at) && is_nan(dtype, b.data() + at)))
        return false;
    }
    return true;
  }

  /// How far two results are apart: of integers 0 or 1, of floats over the largest magnitude; infinite where one is NaN
  /// or infinite alone.
  double gap(std::size_t i, const std::vector<std::byte>& a, const std::vector<std::byte>& b) const {
    const DType dtype = program_->values[value_of(i)].dtype;
    const std::size_t size = size_bytes(dtype);
    if (equal_bits(i, a, b)) return 0;
    if (a.size() != b.size() || !is_floating(dtype)) return 1;
    double largest = 1e-30, apart = 0;
    for (std::size_t at = 0; at + size <= a.size(); at += size) {
      const double x = graph::load_real(dtype, a.data() + at), y = graph::load_real(dtype, b.data() + at);
      if (x == y || (std::isnan(x) && std::isnan(y))) continue;
      if (!std::isfinite(x) || !std::isfinite(y)) return INFINITY;
      apart = std::max(apart, std::abs(x - y));
      largest = std::max(largest, std::abs(y));
    }
    for (std::size_t at = 0; at + size <= b.size(); at += size) {
      const double y = graph::load_real(dtype, b.data() + at);
      if (std::isfinite(y)) largest = std::max(largest, std::abs(y));
    }
    return apart / largest;
  }

  double tolerance(std::size_t i) const {
    switch (program_->values[value_of(i)].dtype) {
      case DType::kF16:
        return 2e-2;
      case DType::kBF16:
        return 1e-1;
      case DType::kF64:
        return 1e-3;  // of numbers that f32 may have rounded before
      default:
        return 1e-3;
    }
  }

  /// Whether runs that round otherwise differ at all where these do: then the numbers do not say who is right.
  bool is_determined(const End& reference, std::size_t i) {
    if (rough_.empty()) {
      for (std::uint64_t seed = 1; seed <= 6; ++seed) {
        graph::Roughness rough(seed);
        const auto replayed = graph::replay_reference(*program_, *blobs_, program_->iterations, &rough);
        if (!replayed) return false;
        rough_.push_back(*replayed);
      }
    }
    const std::size_t outputs = program_->outputs.size() * program_->iterations;
    for (const graph::ReferenceReplay& replay : rough_) {
      // Any result that moves by itself may have moved others by a branch.
      for (std::size_t s = 0; s < replay.states.size(); ++s) {
        if (gap(outputs + s, replay.states[s], reference.results[outputs + s]) > tolerance(outputs + s) / 100)
          return false;
      }
      for (std::size_t iteration = 0; iteration < replay.tensors.size(); ++iteration) {
        std::size_t tensor = 0;
        for (std::size_t output = 0; output < program_->outputs.size(); ++output) {
          if (!program_->outputs[output].is_tensor()) continue;
          const std::size_t at = iteration * program_->outputs.size() + output;
          if (gap(at, *replay.tensors[iteration][tensor++], reference.results[at]) > tolerance(at) / 100) return false;
        }
      }
    }
    return i < outputs ? program_->outputs[i % program_->outputs.size()].is_tensor() : true;
  }

  /// Whether a sum or a product leaves the range of its dtype somewhere: partial sums of f32, which the reference keeps
  /// in double, may then be infinities of either sign, and what comes of them differs by the order of the terms. Or
  /// whether a matrix is to be taken apart that has a number which is not finite, at which the framework ends with an
  /// error, or large ones in whose rounding the small ones vanish.
  bool leaves_its_range() {
    graph::Program watched = *neutral_;
    std::vector<bool> is_matrix;
    std::vector<DType> dtypes;
    for (const graph::Op& op : neutral_->ops) {
      const auto of = graph::info(op.kind).op_class;
      const bool takes_apart = of == graph::OpClass::kFactorization;
      if (of != graph::OpClass::kReduction && of != graph::OpClass::kContraction && !takes_apart) continue;
      for (const graph::Operand& operand : takes_apart ? op.inputs : op.outputs) {
        if (!is_floating(neutral_->values[operand.value].dtype)) continue;
        watched.outputs.push_back({"watched", operand, {}, std::vector<std::uint32_t>(watched.iterations, 0)});
        dtypes.push_back(neutral_->values[operand.value].dtype);
        is_matrix.push_back(takes_apart);
      }
    }
    const auto program = std::make_shared<const graph::Program>(std::move(watched));
    auto session = runtime::Session::create_reference(program, blobs_);
    for (std::uint32_t iteration = 0; session && iteration < program->iterations; ++iteration) {
      if (!(*session)->run(iteration)) return false;
      for (std::size_t i = 0; i < dtypes.size(); ++i) {
        const auto bytes = (*session)->output_bytes(neutral_->outputs.size() + i);
        if (bytes && is_out_of_range(dtypes[i], is_matrix[i], *bytes)) return true;
      }
    }
    return false;
  }

  static bool is_out_of_range(DType dtype, bool is_matrix, const std::vector<std::byte>& numbers) {
    double least = INFINITY, largest = 0;
    for (std::size_t at = 0; at < numbers.size(); at += size_bytes(dtype)) {
      const double x = std::abs(graph::load_real(dtype, numbers.data() + at));
      if (std::isinf(x) || (is_matrix && std::isnan(x))) return true;
      if (x > 0) least = std::min(least, x);
      largest = std::max(largest, x);
    }
    return is_matrix && largest * (dtype == DType::kF64 ? 0x1p-40 : 0x1p-18) > least;
  }

  void compare_near(const End& reference, const End& other, const char* who) {
    for (std::size_t i = 0; i < reference.results.size(); ++i) {
      const double apart = gap(i, other.results[i], reference.results[i]);
      if (!(apart > tolerance(i)) || !is_determined(reference, i)) continue;
      if (leaves_its_range()) continue;
      return find(fmt::format("{}: {} is {:.3g} from the reference", who, name_of(i), apart));
    }
  }

  const Recorded& recorded_;
  std::shared_ptr<backend::Device> device_;  // shared: see plugins/loader
  std::shared_ptr<const graph::Program> program_, neutral_;
  std::shared_ptr<const ListStore> blobs_;
  std::vector<graph::ReferenceReplay> rough_;
  Judgement judgement_;
};

}  // namespace

Judgement judge(const Recorded& recorded, const std::shared_ptr<backend::Device>& device) {
  return Judge(recorded, device).run();
}

void compile_ahead(std::span<const Recorded> all, const std::shared_ptr<backend::Device>& device) {
  std::vector<backend::KernelSource> sources;
  std::unordered_set<std::string> seen;
  for (const Recorded& recorded : all) {
    const bool is_small = work_of(recorded.program) <= kMostWork && bytes_of(recorded.program) <= kMostBytes;
    if (!is_small || !graph::verify(recorded.program)) continue;
    graph::Program program = recorded.program;
    graph::expand_composites(program);
    for (const kernel::Numerics numerics : {kernel::Numerics::kStrict, kernel::Numerics::kFast}) {
      kernel::Options options{.numerics = numerics};
      options.device = runtime::shape_of(*device);
      const auto made = kernel::prepare(program, options);
      if (!made) continue;
      for (const kernel::Kernel& kernel : made->schedule.kernels) {
        if (!kernel.is_opaque() && seen.insert(kernel.name).second)
          sources.push_back({kernel.name, kernel.opaque, kernel.ir});
      }
    }
  }
  (void)backend::Module::compile(device, sources);
}

Case make_case(Draw draw) {
  Case made;
  if (draw.one_in(4)) {
    std::optional<Recorded> lowered = make_lowered(draw, made.finding);
    made.what = "a recording of one operator";
    if (!lowered) return made;
    made.recorded = *std::move(lowered);
  } else {
    made.recorded = make_recorded(draw);
  }
  for (std::size_t i = draw.below(4); i > 0; --i)
    made.what += (made.what.empty() ? "" : ", ") + bend(made.recorded, draw);
  for (std::size_t i = draw.below(3) * draw.below(2); i > 0; --i)
    made.what += (made.what.empty() ? "" : ", ") + break_field(made.recorded, draw);
  return made;
}

}  // namespace crucible::fuzz
