// What is timed, and what is made of the times. See calibrate.hpp.
#include "runtime/measure/calibrate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <chrono>
#include <limits>
#include <optional>
#include <span>

#include "core/hardware/plateaus.hpp"
#include "core/kernel/schedule.hpp"
#include "runtime/measure/calibrate_kernels.hpp"
#include "runtime/plan/library_calls.hpp"

namespace crucible::runtime {
namespace {

using hardware::Figure;
using hardware::Provenance;

constexpr std::uint64_t kAlignBytes = 256;
constexpr std::int64_t kLaunches = 200;             // of a plan that is compared with one launch
constexpr std::int64_t kProduct = 1024;             // rows and columns of the matrices
constexpr std::uint32_t kFewestRounds = 5;          // of bandwidths, where the machine is slow
constexpr auto kLongest = std::chrono::seconds(8);  // that the bandwidths may take beyond those rounds
constexpr std::uint64_t kCopyBytes = std::uint64_t{64} << 20;

double median_of(std::span<const double> sorted) {
  const std::size_t middle = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/// Of at least one number: the median of the better half, for what else the machine does only ever makes a round
/// slower; the spread is over all of them.
Measured summary(std::vector<double> values, bool is_more_better) {
  std::ranges::sort(values);
  const std::size_t half = (values.size() + 1) / 2;
  const std::span<const double> all(values);
  const double median = median_of(is_more_better ? all.last(half) : all.first(half));
  return {median, median > 0 ? (values.back() - values.front()) / median : 0};
}

double middle_of(std::vector<double> values) {
  std::ranges::sort(values);
  return median_of(values);
}

Figure calibrated(const Measured& measured, std::string note = "") {
  return {.value = measured.median,
          .provenance = Provenance::kCalibrated,
          .note = std::move(note),
          .spread = measured.spread};
}

/// "AMD EPYC 7B13 (x)" as "amd-epyc-7b13-x".
std::string slug(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80 && std::isalnum(byte) != 0) {
      out += static_cast<char>(std::tolower(byte));
    } else if (!out.empty() && out.back() != '-') {
      out += '-';
    }
  }
  while (!out.empty() && out.back() == '-') out.pop_back();
  return out.empty() ? "device" : out;
}

class Calibrator {
 public:
  Calibrator(const std::shared_ptr<backend::Device>& device, const CalibrateOptions& options)
      : device_(device), options_(options), is_processor_(device->info().kind == "cpu") {}

  Result<Calibration> run() {
    const auto start = std::chrono::steady_clock::now();
    describe();
    shape();
    CRUCIBLE_TRY_VOID(compile());
    CRUCIBLE_TRY_VOID(measure_bandwidth());
    find_levels();
    CRUCIBLE_TRY_VOID(measure_peak());
    CRUCIBLE_TRY_VOID(measure_product());
    CRUCIBLE_TRY_VOID(measure_launch());
    CRUCIBLE_TRY_VOID(measure_link());
    result_.wall_ns = static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start).count());
    return std::move(result_);
  }

 private:
  void say(std::string_view what) const {
    if (options_.progress) options_.progress(what);
  }

  void set(const char* key, Figure figure) {
    if (figure.value > 0) result_.profile.figures.insert_or_assign(key, std::move(figure));
  }

  void describe() {
    const backend::DeviceInfo& info = device_->info();
    hardware::DeviceProfile& profile = result_.profile;
    threads_ = options_.threads > 0 ? options_.threads
                                    : static_cast<std::uint32_t>(std::clamp<std::uint64_t>(info.threads, 1, 1'000'000));
    const std::string& backend = device_->backend().name();
    profile.name = slug(fmt::format("{} {}", backend, info.name));
    if (is_processor_) profile.name += fmt::format("-{}-thread{}", threads_, threads_ == 1 ? "" : "s");
    profile.description = info.name;
    profile.source = "measured by crucible devices --calibrate";
    profile.date = options_.date;
    profile.backend = backend;
    profile.driver = fmt::format("{} {}", backend, device_->backend().version());
    profile.devices = {info.name};
    profile.threads = is_processor_ ? threads_ : 0;
    if (info.emulated) result_.notes.push_back("the device is emulated: these are the rates of the emulation");
    if (info.memory_bytes > 0) {
      set("memory.size", {.value = static_cast<double>(info.memory_bytes),
                          .provenance = Provenance::kCalibrated,
                          .note = "as the plugin says"});
    }
  }

  /// How many items walk, and over which working sets.
  void shape() {
    items_ =
        is_processor_ ? static_cast<std::int64_t>(threads_) : std::max<std::int64_t>(std::int64_t{1} << 16, threads_);
    walk_ = is_processor_ ? Walk::kPieces : Walk::kStrided;
    std::uint64_t largest = options_.largest_bytes;
    if (device_->info().memory_bytes > 0) largest = std::min(largest, device_->info().memory_bytes / 8);
    // A quarter of a small first level cache per item, or at least four elements of each.
    const std::uint64_t smallest = static_cast<std::uint64_t>(items_) * (is_processor_ ? 8192 : 16);
    for (std::uint64_t bytes = smallest; bytes == smallest || bytes <= largest; bytes *= 2)
      result_.curve.push_back({.bytes = bytes, .read = {}, .update = {}});
  }

  std::int64_t elements_per_item(std::uint64_t bytes) const { return static_cast<std::int64_t>(bytes) / items_ / 4; }

  Result<void> compile() {
    say("compiling");
    for (const CalibratedPoint& point : result_.curve) {
      const std::int64_t count = elements_per_item(point.bytes);
      kernels_.push_back(read_kernel(fmt::format("calibrate_read_{}", point.bytes), items_, count, walk_));
      kernels_.push_back(update_kernel(fmt::format("calibrate_update_{}", point.bytes), items_, count, walk_));
    }
    // How many numbers keep the pipelines full without leaving the registers differs: the best of several counts.
    for (const std::int64_t lanes :
         is_processor_ ? std::vector<std::int64_t>{32, 64, 128, 256} : std::vector<std::int64_t>{4, 8, 16}) {
      multiply_adds_.push_back(kernels_.size());
      kernels_.push_back(multiply_add_kernel(fmt::format("calibrate_multiply_add_{}", lanes), items_, lanes));
    }
    touch_one_ = kernels_.size();
    kernels_.push_back(touch_kernel("calibrate_touch_one", 1));
    touch_all_ = kernels_.size();
    kernels_.push_back(touch_kernel("calibrate_touch_all", items_));
    std::vector<backend::KernelSource> sources;
    for (const CalibrationKernel& kernel : kernels_) {
      CRUCIBLE_TRY(backend::KernelSource source, source_of(kernel));
      sources.push_back(std::move(source));
    }
    CRUCIBLE_TRY(module_, backend::Module::compile(device_, sources));
    std::uint64_t most = result_.curve.back().bytes;
    for (const CalibrationKernel& kernel : kernels_)
      most = std::max(most, static_cast<std::uint64_t>(kernel.elements) * 4);
    CRUCIBLE_TRY(data_, backend::Buffer::allocate(device_, most, kAlignBytes));
    CRUCIBLE_TRY(sums_, backend::Buffer::allocate(device_, static_cast<std::uint64_t>(items_) * 4, kAlignBytes));
    return {};
  }

  /// A plan of `count` launches of a kernel, with so many passes each.
  Result<backend::Plan> plan_of(std::size_t index, std::int64_t passes, std::int64_t count = 1) {
    const CalibrationKernel& kernel = kernels_[index];
    const std::uint64_t buffers[] = {data_->address(), sums_->address()};
    crucible_scalar scalar{};
    scalar.slot = CRUCIBLE_SLOT_NONE;
    scalar.bits = std::bit_cast<std::uint64_t>(static_cast<double>(passes));
    crucible_op op{};
    op.struct_size = sizeof op;
    op.kind = CRUCIBLE_OP_LAUNCH;
    CRUCIBLE_TRY(op.kernel, module_->kernel(kernel.name));
    op.buffers = buffers;
    op.buffer_count = static_cast<std::uint32_t>(kernel.ir.buffers.size());
    op.scalars = &scalar;
    op.scalar_count = 1;
    op.grid = kernel.items;
    op.grain = 1;
    const std::vector<crucible_op> ops(static_cast<std::size_t>(count), op);
    return backend::Plan::build(device_, ops, 0);
  }

  /// Of one replay.
  static Result<double> seconds_of(backend::Plan& plan) {
    const auto start = std::chrono::steady_clock::now();
    CRUCIBLE_TRY_VOID(plan.replay());
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (seconds <= 0) return Error{ErrorCode::kUnavailable, "a replay took no time: the clock does not move"};
    return seconds;
  }

  /// Of a few: a single one may have waited for something else.
  static Result<double> shortest_of(backend::Plan& plan) {
    double shortest = std::numeric_limits<double>::infinity();
    for (int i = 0; i < 4; ++i) {
      CRUCIBLE_TRY(const double seconds, seconds_of(plan));
      shortest = std::min(shortest, seconds);
    }
    return shortest;
  }

  /// Seconds of `rounds` replays, after one that is not counted.
  Result<std::vector<double>> time(backend::Plan& plan, std::uint32_t rounds) const {
    CRUCIBLE_TRY_VOID(plan.replay());
    std::vector<double> all;
    for (std::uint32_t round = 0; round < std::max(rounds, 1u); ++round) {
      CRUCIBLE_TRY(const double seconds, seconds_of(plan));
      all.push_back(seconds);
    }
    return all;
  }
  Result<std::vector<double>> time(backend::Plan& plan) const { return time(plan, options_.rounds); }

  /// `amount` per second.
  static Measured rate(double amount, std::vector<double> seconds) {
    for (double& second : seconds) second = amount / second;
    return summary(std::move(seconds), true);
  }

  /// All working sets in turns, round after round: whatever else the machine does for a while, it does to all of them.
  Result<void> measure_bandwidth() {
    std::vector<backend::Plan> plans;  // reads and updates of each point
    std::vector<double> moved;         // bytes of each
    for (std::size_t i = 0; i < result_.curve.size(); ++i) {
      const std::uint64_t bytes = result_.curve[i].bytes,
                          passes = std::max<std::uint64_t>(1, options_.bytes_per_round / bytes);
      for (const std::size_t kernel : {2 * i, 2 * i + 1}) {
        CRUCIBLE_TRY(backend::Plan plan, plan_of(kernel, static_cast<std::int64_t>(passes)));
        plans.push_back(std::move(plan));
        moved.push_back(static_cast<double>(bytes * passes) * (kernel == 2 * i ? 1 : 2));
      }
    }
    std::vector<std::vector<double>> rates(plans.size());
    const auto start = std::chrono::steady_clock::now();
    for (std::uint32_t round = 0; round < std::max(options_.rounds, 1u); ++round) {
      if (round >= kFewestRounds && std::chrono::steady_clock::now() - start > kLongest) {
        result_.notes.push_back(fmt::format("bandwidths are of {} rounds: they took long", round));
        break;
      }
      say(fmt::format("bandwidth, round {} of {}", round + 1, options_.rounds));
      for (std::size_t i = 0; i < plans.size(); ++i) {
        // The first replay brings the working set where it belongs.
        CRUCIBLE_TRY_VOID(plans[i].replay());
        CRUCIBLE_TRY(const double seconds, seconds_of(plans[i]));
        rates[i].push_back(moved[i] / seconds);
      }
    }
    for (std::size_t i = 0; i < plans.size(); ++i) {
      CalibratedPoint& point = result_.curve[i / 2];
      (i % 2 == 0 ? point.read : point.update) = summary(std::move(rates[i]), true);
    }
    return {};
  }

  /// The better of reading and updating at each working set, cut where it falls.
  void find_levels() {
    std::vector<hardware::CurvePoint> best;
    for (const CalibratedPoint& point : result_.curve) {
      best.push_back({static_cast<double>(point.bytes), std::max(point.read.median, point.update.median)});
    }
    const std::vector<hardware::Plateau> plateaus = hardware::find_plateaus(best);
    for (std::size_t i = 0; i < plateaus.size(); ++i) {
      const hardware::Plateau& plateau = plateaus[i];
      std::vector<double> spreads;
      for (std::size_t at = plateau.begin; at < plateau.end; ++at) {
        const CalibratedPoint& point = result_.curve[at];
        spreads.push_back(point.read.median >= point.update.median ? point.read.spread : point.update.spread);
      }
      const bool is_memory = i + 1 == plateaus.size();
      const std::string_view level = hardware::level_names()[is_memory ? 3 : i];
      set(fmt::format("level.{}.bandwidth", level).c_str(),
          calibrated({plateau.bytes_per_second, middle_of(std::move(spreads))}));
      const double size = best[plateau.end - 1].bytes;
      if (!is_memory) {
        set(fmt::format("level.{}.size", level).c_str(), {.value = size,
                                                          .provenance = Provenance::kCalibrated,
                                                          .note = "the largest working set that was that fast"});
      }
    }
    std::vector<double> spreads;
    for (const CalibratedPoint& point : result_.curve)
      spreads.push_back(point.read.spread), spreads.push_back(point.update.spread);
    if (const double spread = middle_of(std::move(spreads)); spread > 1) {
      result_.notes.push_back(fmt::format(
          "the machine was busy: rounds differ by {:.0f}%; calibrate again when it is quiet", 100 * spread));
    }
    if (plateaus.size() < 2)
      result_.notes.push_back("no caches show in the bandwidths: all working sets are about equally fast");
    if (result_.profile.find("memory.size") == nullptr) {
      set("memory.size", {.value = static_cast<double>(data_->size_bytes()),
                          .provenance = Provenance::kGuessed,
                          .note = "the plugin does not say; so much could be allocated"});
    }
  }

  Result<void> measure_peak() {
    say("multiply-adds");
    Measured best;
    std::string note;
    for (const std::size_t index : multiply_adds_) {
      const CalibrationKernel& kernel = kernels_[index];
      const double per_pass = 2.0 * static_cast<double>(kernel.elements);
      // As many passes as take some milliseconds, found by doubling.
      std::int64_t passes = 1 << 10;
      for (double seconds = 0; seconds < 4e-3 && passes < (std::int64_t{1} << 36); passes *= 4) {
        CRUCIBLE_TRY(backend::Plan trial, plan_of(index, passes));
        CRUCIBLE_TRY(seconds, shortest_of(trial));
        if (seconds >= 4e-3) break;
      }
      CRUCIBLE_TRY(backend::Plan plan, plan_of(index, passes));
      CRUCIBLE_TRY(std::vector<double> seconds, time(plan));
      const Measured measured = rate(per_pass * static_cast<double>(passes), std::move(seconds));
      if (measured.median <= best.median) continue;
      best = measured;
      note = fmt::format("generated kernel, {} numbers an item", kernel.elements / kernel.items);
    }
    set("peak.vector.f32", calibrated(best, note));
    return {};
  }

  /// What a product of matrices reaches where the library takes it: library steps are held against that.
  Result<void> measure_product() {
    say("a product of matrices");
    kernel::LibraryCall call;
    for (graph::View& view : call.views) view = {.offset = 0, .sizes = {kProduct, kProduct}, .strides = {kProduct, 1}};
    LibraryClaims claims(device_);
    if (!claims.takes(call)) {
      result_.notes.push_back("no library takes a product of matrices: peak.matrix is not known");
      return {};
    }
    CRUCIBLE_TRY(const crucible_library_desc description, describe_call(call));
    const std::uint64_t matrix = static_cast<std::uint64_t>(kProduct * kProduct) * 4,
                        scratch = claims.scratch_bytes(call);
    CRUCIBLE_TRY(const backend::Buffer memory,
                 backend::Buffer::allocate(device_, 3 * matrix + std::max<std::uint64_t>(scratch, 1), kAlignBytes));
    const std::uint64_t buffers[] = {memory.address(), memory.address() + matrix, memory.address() + 2 * matrix,
                                     memory.address() + 3 * matrix};
    crucible_op op{};
    op.struct_size = sizeof op;
    op.kind = CRUCIBLE_OP_LIBRARY;
    op.library = &description;
    op.buffers = buffers;
    op.buffer_count = scratch > 0 ? 4 : 3;
    op.scratch_bytes = scratch;
    CRUCIBLE_TRY(backend::Plan plan, backend::Plan::build(device_, std::span(&op, 1), 0));
    CRUCIBLE_TRY(std::vector<double> seconds, time(plan));
    constexpr double kFlops = 2.0 * kProduct * kProduct * kProduct;
    set("peak.matrix.f32", calibrated(rate(kFlops, std::move(seconds)),
                                      fmt::format("the library's product of two {0} x {0} matrices", kProduct)));
    return {};
  }

  static Result<crucible_library_desc> describe_call(const kernel::LibraryCall& call) {
    return runtime::describe(call);
  }

  /// Seconds per launch of a plan of many, beyond those of a plan of one.
  Result<Measured> per_launch(std::size_t kernel) {
    CRUCIBLE_TRY(backend::Plan one, plan_of(kernel, 1));
    CRUCIBLE_TRY(backend::Plan many, plan_of(kernel, 1, kLaunches + 1));
    CRUCIBLE_TRY(const std::vector<double> of_one, time(one, 3 * options_.rounds));
    CRUCIBLE_TRY(std::vector<double> of_many, time(many, 3 * options_.rounds));
    const double base = summary(of_one, false).median;
    for (double& seconds : of_many) seconds = std::max(0.0, seconds - base) / kLaunches;
    return summary(std::move(of_many), false);
  }

  Result<void> measure_launch() {
    say("launches");
    CRUCIBLE_TRY(const Measured alone, per_launch(touch_one_));
    // A launch that cannot be told from nothing still is one.
    set("cost.launch", calibrated({std::max(alone.median, 1e-10), alone.spread}, "of one item, inside a plan"));
    if (items_ == 1) {
      result_.notes.push_back("one thread: no barrier to be seen");
      return {};
    }
    CRUCIBLE_TRY(const Measured together, per_launch(touch_all_));
    const double barrier = together.median - alone.median;
    if (barrier > 0) {
      set("cost.barrier",
          calibrated({barrier, together.spread},
                     fmt::format("a launch of {} items that the next one waits for, less one of one item", items_)));
    } else {
      result_.notes.push_back("launches of many items cost no more than those of one: no barrier to be seen");
    }
    return {};
  }

  Result<void> measure_link() {
    if (is_processor_) return {};  // its memory is the host's
    say("the link to the host");
    const std::uint64_t bytes = std::min(kCopyBytes, data_->size_bytes());
    const std::vector<std::byte> host(bytes, std::byte{1});
    std::vector<double> seconds;
    for (std::uint32_t round = 0; round < std::max(options_.rounds, 1u) + 1; ++round) {
      const auto start = std::chrono::steady_clock::now();
      CRUCIBLE_TRY_VOID(data_->write(0, host));
      const double passed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      if (round > 0) seconds.push_back(std::max(passed, 1e-9));
    }
    set("host_link.bandwidth",
        calibrated(rate(static_cast<double>(bytes), std::move(seconds)), "to the device, from pageable memory"));
    return {};
  }

  const std::shared_ptr<backend::Device>& device_;
  const CalibrateOptions& options_;
  const bool is_processor_;
  Calibration result_;
  std::uint32_t threads_ = 1;
  std::int64_t items_ = 1;
  Walk walk_ = Walk::kPieces;
  std::vector<CalibrationKernel> kernels_;  // read and update of each point, then the others
  std::vector<std::size_t> multiply_adds_;
  std::size_t touch_one_ = 0, touch_all_ = 0;
  std::optional<backend::Module> module_;
  std::optional<backend::Buffer> data_, sums_;
};

}  // namespace

Result<Calibration> calibrate(const std::shared_ptr<backend::Device>& device, const CalibrateOptions& options) {
  return Calibrator(device, options).run();
}

}  // namespace crucible::runtime
