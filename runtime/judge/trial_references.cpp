#include "runtime/judge/trial_references.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <ctime>
#include <set>
#include <utility>

#include "core/kernel/ir/read_ir.hpp"
#include "core/kernel/run_schedule.hpp"

namespace crucible::runtime {
namespace {

constexpr std::uint64_t kBudget = 6000;  // of the interpreter, per kernel: some 0.2 ms
constexpr std::uint64_t kMostWork =
    4000000;               // flops and bytes of what the device does: of larger launches the first items alone
constexpr int kNice = 15;  // a thirtieth of a processor beside a compiler, all of one that is free
constexpr std::uint64_t kMostAhead = 64 << 20;  // bytes of references that wait for their kernels

/// What the slots hold in the first iteration.
std::vector<graph::Number> first_numbers(const graph::Program& program) {
  std::vector<graph::Number> numbers;
  for (const graph::Slot& slot : program.slots)
    numbers.push_back(slot.values.empty() ? graph::Number() : slot.values[0]);
  return numbers;
}

std::uint64_t thread_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace

/// Of the steps that launch a kernel it is tried on one with operands in one place, where the text has to be more
/// careful, else on the smallest.
TrialReferences::TrialReferences(const TrialPlace& place) : place_(place), slots_(first_numbers(place.program)) {
  struct Best {
    std::uint32_t step = 0;
    bool shares = false;
  };
  std::map<std::uint32_t, Best> best;
  for (std::uint32_t index = 0; index < place_.schedule.steps.size(); ++index) {
    const kernel::Step& step = place_.schedule.steps[index];
    if (step.kind != kernel::StepKind::kLaunch || step.grid < 1) continue;
    const std::vector<std::uint32_t> memories = memories_of(step);
    const bool shares = std::set<std::uint32_t>(memories.begin(), memories.end()).size() < memories.size();
    const auto [at, is_new] = best.try_emplace(step.kernel, Best{index, shares});
    Best& known = at->second;
    const bool is_better =
        (shares && !known.shares) || (shares == known.shares && step.grid < place_.schedule.steps[known.step].grid);
    if (!is_new && is_better) known = {index, shares};
  }
  for (const auto& [which, found] : best) steps_[place_.schedule.kernels[which].name] = found.step;
}

TrialReferences::~TrialReferences() {
  stop();
  if (thread_.joinable()) thread_.join();
}

std::optional<std::uint32_t> TrialReferences::step_of(std::string_view kernel) const {
  const auto step = steps_.find(kernel);
  return step == steps_.end() ? std::nullopt : std::optional(step->second);
}

/// In fast numerics a compiler may join a product and a sum, on a processor too.
Nearness TrialReferences::nearness() const {
  return place_.schedule.numerics == kernel::Numerics::kStrict ? Nearness::kBits : Nearness::kRounded;
}

/// Per buffer: the buffer of the plan in which it lies.
std::vector<std::uint32_t> TrialReferences::memories_of(const kernel::Step& step) const {
  std::vector<std::uint32_t> memories;
  for (const kernel::BufferArgument& argument : step.buffers)
    memories.push_back(place_.placement.buffer_of[argument.value]);
  return memories;
}

TrialSubject TrialReferences::subject_of(std::uint32_t index) const {
  const kernel::Step& step = place_.schedule.steps[index];
  TrialSubject subject;
  std::map<std::uint32_t, std::uint32_t> pieces;  // by buffer of the plan
  const std::vector<std::uint32_t> memories = memories_of(step);
  for (std::size_t i = 0; i < memories.size(); ++i) {
    const graph::Value& value = place_.program.values[step.buffers[i].value];
    const auto [piece, is_new] = pieces.try_emplace(memories[i], static_cast<std::uint32_t>(pieces.size()));
    if (is_new) subject.memories.push_back(0);
    subject.memory_of.push_back(piece->second);
    std::uint64_t& bytes = subject.memories[piece->second];
    bytes = std::max(bytes, static_cast<std::uint64_t>(value.elements) * size_bytes(value.dtype));
  }
  subject.scalars = kernel::scalars_of(step, slots_);
  const std::uint64_t work = step.flops + step.bytes;
  subject.grid = work <= kMostWork
                     ? step.grid
                     : std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(step.grid) * kMostWork /
                                                                           static_cast<double>(work)));
  // The trial takes no more memory than the program will.
  if (subject.bytes() > place_.placement.plan.peak_bytes) subject.zone = 0;
  return subject;
}

std::uint64_t TrialReferences::bytes_of(std::string_view kernel) const {
  const std::optional<std::uint32_t> step = step_of(kernel);
  return step ? subject_of(*step).bytes() : 0;
}

Result<TrialReferences::Made> TrialReferences::make(const backend::KernelSource& source) const {
  TrialSubject subject = subject_of(*step_of(source.name));
  CRUCIBLE_TRY(subject.ir, kernel::read_ir(source.ir));
  Made made{.subject = std::make_unique<TrialSubject>(std::move(subject)), .reference = {}};
  made.reference = TrialReference::make(*made.subject, nearness(), kBudget, {.may_sample = true});
  return made;
}

void TrialReferences::make_whole(Made& made, Nearness nearness) {
  made.reference = TrialReference::make(*made.subject, nearness, kBudget, {.may_sample = false, .seed = 1});
}

void TrialReferences::start(const std::vector<backend::KernelSource>& sources, std::chrono::milliseconds wait) {
  for (const backend::KernelSource& source : sources) {
    if (!source.ir.empty() && step_of(source.name))
      entries_.push_back({.source = source, .state = State::kWaits, .made = {}});
  }
  if (!entries_.empty()) thread_ = std::thread([this, wait] { work(wait); });
}

void TrialReferences::stop() {
  const std::lock_guard lock(mutex_);
  is_stopped_ = true;
  changed_.notify_all();
}

void TrialReferences::work(std::chrono::milliseconds wait) {
  setpriority(PRIO_PROCESS, 0, kNice);  // of this thread alone
  std::unique_lock lock(mutex_);
  if (changed_.wait_for(lock, wait, [this] { return is_stopped_; })) return;
  const std::uint64_t most_ahead =
      std::clamp<std::uint64_t>(place_.placement.plan.peak_bytes, 1, kMostAhead);  // no more than the program will take
  for (Entry& entry : entries_) {
    changed_.wait(lock, [&] { return is_stopped_ || ahead_bytes_ < most_ahead; });
    if (is_stopped_) return;
    if (entry.state != State::kWaits) continue;
    entry.state = State::kIsMade;
    lock.unlock();
    Result<Made> made = make(entry.source);
    processor_ns_ = thread_ns();
    const std::uint64_t bytes = made && *made->reference ? (*made->reference)->resident_bytes() : 0;
    lock.lock();
    if (entry.state == State::kIsTaken) continue;  // somebody could not wait, or does not want it
    entry.made.emplace(std::move(made));
    entry.state = State::kIsThere;
    entry.bytes = bytes;
    ahead_bytes_ += bytes;
    there_.push_back(static_cast<std::size_t>(&entry - entries_.data()));
  }
  while (!is_stopped_) {
    std::vector<Made> done = std::exchange(done_, {});
    lock.unlock();
    done.clear();  // megabytes each
    lock.lock();
    changed_.wait(lock, [this] { return is_stopped_ || !done_.empty(); });
  }
}

void TrialReferences::give_back(Made made) {
  if (!thread_.joinable()) return;
  const std::lock_guard lock(mutex_);
  done_.push_back(std::move(made));
  changed_.notify_all();
}

void TrialReferences::want(const std::set<std::string_view>& kernels) {
  const std::lock_guard lock(mutex_);
  for (Entry& entry : entries_) {
    if (!kernels.contains(entry.source.name)) (void)take(entry);
  }
  back_ = entries_.size();
  changed_.notify_all();
}

/// Under the lock: what is there of it, which nobody gets again.
std::optional<Result<TrialReferences::Made>> TrialReferences::take(Entry& entry) {
  entry.state = State::kIsTaken;
  ahead_bytes_ -= std::exchange(entry.bytes, 0);
  changed_.notify_all();
  return std::exchange(entry.made, std::nullopt);
}

std::optional<TrialReferences::Next> TrialReferences::next() {
  std::unique_lock lock(mutex_);
  for (; !there_.empty(); there_.pop_front()) {
    Entry& entry = entries_[there_.front()];
    if (entry.state != State::kIsThere) continue;
    there_.pop_front();
    return Next{entry.source.name, *take(entry)};
  }
  // The one that the thread is at comes last, and is not waited for either: the thread may get no processor for long.
  for (const State state : {State::kWaits, State::kIsMade}) {
    for (; back_ > 0; --back_) {
      Entry& entry = entries_[back_ - 1];
      if (entry.state != state) continue;
      (void)take(entry);
      lock.unlock();
      return Next{entry.source.name, make(entry.source)};
    }
    back_ = entries_.size();
  }
  return std::nullopt;
}

}  // namespace crucible::runtime
