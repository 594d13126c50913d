#include "runtime/judge/trial.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <utility>

#include "core/graph/reference_numbers.hpp"
#include "core/kernel/ir/interpreter.hpp"
#include "runtime/judge/elements.hpp"
#include "runtime/plan/library_calls.hpp"

namespace crucible::runtime {
namespace {

using kernel::TouchedMemory;

constexpr std::uint8_t kZoneByte = 0xc5;
constexpr std::uint64_t kAligned = 256;
constexpr std::uint64_t kGap = 4096;  // bytes that are copied along, so that a device is asked less often
constexpr std::uint64_t kMostRead = 65536;  // bytes at once, so that what is read stays in a cache
constexpr std::int64_t kMostItems = 120;
constexpr std::uint64_t kDear = 8;  // budgets: an item that costs as much is the only one

std::uint64_t aligned(std::uint64_t size) { return (size + kAligned - 1) / kAligned * kAligned; }

std::vector<std::uint64_t> offsets_of(const TrialSubject& subject) {
  std::vector<std::uint64_t> offsets;
  std::uint64_t at = subject.zone;
  for (const std::uint64_t size : subject.memories) {
    offsets.push_back(at);
    at += aligned(size) + subject.zone;
  }
  return offsets;
}

/// A number as a double, exactly but for integers above 2^53.
double number_at(DType type, const std::byte* at) {
  return is_floating(type) ? graph::load_real(type, at) : static_cast<double>(graph::load_integer(type, at));
}

std::string in_words(DType type, const std::byte* at) {
  if (!is_floating(type)) return std::to_string(graph::load_integer(type, at));
  return type == DType::kF64 ? fmt::format("{:.17g}", graph::load_real(type, at))
                             : fmt::format("{:.9g}", graph::load_real(type, at));
}

/// Half of the distance between numbers near 1, of a type that results are rounded to.
double rounding_of(DType type) {
  switch (type) {
    case DType::kF16:
      return 0x1p-10;
    case DType::kBF16:
      return 0x1p-7;
    default:
      return 0;
  }
}

bool is_near(DType type, double found, double wanted, double scale, bool has_free_sums) {
  if (std::isnan(found) || std::isnan(wanted)) return std::isnan(found) && std::isnan(wanted);
  if (std::isinf(found) || std::isinf(wanted)) return found == wanted;
  const double share = type == DType::kF64 ? (has_free_sums ? 1e-10 : 1e-12) : has_free_sums ? 2e-4 : 2e-5;
  return std::abs(found - wanted) <= share * scale + rounding_of(type) * std::abs(wanted);
}

}  // namespace

std::uint64_t TrialSubject::bytes() const {
  std::uint64_t sum = zone;
  for (const std::uint64_t size : memories) sum += aligned(size) + zone;
  return sum;
}

Result<TrialReference> TrialReference::make(const TrialSubject& subject, Nearness nearness, std::uint64_t budget,
                                            const TrialWay& way) {
  TrialReference made;
  made.subject_ = &subject;
  made.nearness_ = nearness;
  made.budget_ = budget;
  made.way_ = way;
  const bool may_be_special = nearness == Nearness::kBits && !kernel::gathers_up(subject.ir);
  Result<void> done =
      made.interpret(may_be_special ? kernel::TrialNumbers::kSpecial : kernel::TrialNumbers::kModerate, false);
  if (!done || made.mostly_nan()) done = made.interpret(kernel::TrialNumbers::kPositive, false);
  if (!done) done = made.interpret(kernel::TrialNumbers::kPositive, true);
  if (!done) return done.error();
  return made;
}

/// `narrow`: every index is the least that is allowed.
Result<void> TrialReference::interpret(kernel::TrialNumbers kind, bool narrow) {
  const kernel::KernelIr& ir = subject_->ir;
  std::vector<std::optional<kernel::IndexRange>> ranges = kernel::index_ranges(ir);
  const auto is_written = [&](std::uint32_t memory) {
    for (std::size_t i = 0; i < ir.buffers.size(); ++i) {
      if (subject_->memory_of[i] == memory && ir.buffers[i].written) return true;
    }
    return false;
  };
  memories_.clear();
  items_ = 0;
  is_sampled_ = false;
  constexpr std::uint64_t kMostBytes =
      std::uint64_t{1} << 38;  // beyond it no device has them in one piece, and sums over them would touch all
  for (std::uint32_t memory = 0; memory < subject_->memories.size(); ++memory) {
    if (subject_->memories[memory] > kMostBytes)
      return Error{ErrorCode::kUnavailable,
                   fmt::format("{} bytes of memory cannot be had", subject_->memories[memory])};
    const auto owner =
        static_cast<std::size_t>(std::ranges::find(subject_->memory_of, memory) - subject_->memory_of.begin());
    std::optional<kernel::IndexRange> range = ranges[owner];
    if (range && narrow) range->high = range->low;
    memories_.push_back(std::make_unique<TouchedMemory>(
        subject_->memories[memory],
        kernel::trial_numbers(ir.buffers[owner].type, (way_.seed << 32) + 1 + memory, kind, range,
                              kernel::constants_as(ir, ir.buffers[owner].type, kind)),
        is_written(memory)));
    if (subject_->memories[memory] > 0 && memories_.back()->data() == nullptr)
      return Error{ErrorCode::kUnavailable,
                   fmt::format("{} bytes of memory cannot be had", subject_->memories[memory])};
    if (range) memories_.back()->touch_all();  // items that nobody interprets follow their indices too
  }
  std::vector<kernel::InterpretedBuffer> buffers;
  for (std::size_t i = 0; i < ir.buffers.size(); ++i) {
    TouchedMemory& memory = *memories_[subject_->memory_of[i]];
    const auto elements = static_cast<std::int64_t>(memory.size_bytes() / size_bytes(ir.buffers[i].type));
    buffers.push_back({memory.data(), elements, nullptr, &memory});
  }
  std::uint64_t pass = 0, spent = 0;
  const auto run = [&](std::int64_t begin, std::int64_t end) -> Result<void> {
    if (begin >= end) return {};
    CRUCIBLE_TRY(const kernel::InterpretedWork work,
                 kernel::interpret(ir, buffers, subject_->scalars, begin, end, {pass, &pass},
                                   way_.may_sample ? budget_ / 3 : 0));
    spent += work.cost();
    is_sampled_ |= work.is_sampled;
    items_ += end - begin;
    return {};
  };
  const std::int64_t grid = subject_->grid;
  CRUCIBLE_TRY_VOID(run(grid - 1, grid));
  const std::uint64_t each = std::max<std::uint64_t>(spent, 1);
  // The first and the last one are often done by different pieces of the text. One that had to be done whole is the
  // only one.
  if (way_.may_sample && each > kDear * budget_) return is_sampled_ && grid > 1 ? run(0, 1) : Result<void>();
  const std::int64_t more = std::clamp<std::int64_t>(static_cast<std::int64_t>(budget_ / each), 1, kMostItems);
  if (more >= grid - 1) return run(0, grid - 1);
  // A third at each end, the rest in the middle: where vectors end, and where they do not.
  const std::int64_t first = (more + 2) / 3, last = more / 3, middle = more - first - last;
  CRUCIBLE_TRY_VOID(run(0, first));
  const std::int64_t between = grid - 1 - last - first;  // items that may be middle ones
  const std::int64_t begin = first + (between - middle) / 2;
  CRUCIBLE_TRY_VOID(run(begin, begin + middle));
  return run(grid - 1 - last, grid - 1);
}

std::uint64_t TrialReference::resident_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& memory : memories_) bytes += memory->resident_bytes();
  return bytes;
}

bool TrialReference::mostly_nan() const {
  std::uint64_t floats = 0, nans = 0;
  for (std::size_t i = 0; i < subject_->ir.buffers.size(); ++i) {
    const kernel::IrBuffer& buffer = subject_->ir.buffers[i];
    if (!buffer.written || !is_floating(buffer.type)) continue;
    TouchedMemory& memory = *memories_[subject_->memory_of[i]];
    for (const std::uint64_t at : memory.written()) {
      ++floats;
      if (std::isnan(number_at(buffer.type, memory.data() + at))) ++nans;
    }
  }
  return 2 * nans > floats;
}

Result<TrialBench> TrialBench::make(const std::shared_ptr<backend::Device>& device, std::uint64_t bytes) {
  TrialBench bench(device);
  CRUCIBLE_TRY(backend::Buffer scratch, backend::Buffer::allocate(device, bytes, kAligned));
  bench.scratch_.emplace(std::move(scratch));
  bench.is_sized_ = wants_buffer_bytes(*device);
  return bench;
}

Result<std::string> TrialBench::run(TrialReference& reference, crucible_kernel* kernel) {
  CRUCIBLE_TRY_VOID(load(reference));
  CRUCIBLE_TRY(std::string wrong, launch(reference, kernel));
  const kernel::KernelIr& ir = reference.subject().ir;
  for (std::uint32_t buffer = 0; buffer < ir.buffers.size() && wrong.empty(); ++buffer) {
    if (!ir.buffers[buffer].written) continue;
    CRUCIBLE_TRY(wrong, compare(reference, buffer));
  }
  if (!wrong.empty()) return wrong;
  return find_strays(reference);
}

Result<void> TrialBench::load(const TrialReference& reference) {
  const TrialSubject& subject = reference.subject();
  const std::vector<std::uint64_t> offsets = offsets_of(subject);
  if (subject.zone > 0) CRUCIBLE_TRY_VOID(scratch_->fill(0, subject.zone, kZoneByte));
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    const std::uint64_t end = offsets[i] + subject.memories[i];
    const std::uint64_t behind = offsets[i] + aligned(subject.memories[i]) + subject.zone - end;
    if (behind > 0) CRUCIBLE_TRY_VOID(scratch_->fill(end, behind, kZoneByte));
    for (const TouchedMemory::Range& range : reference.memories_[i]->touched(kGap))
      CRUCIBLE_TRY_VOID(scratch_->write(offsets[i] + range.first,
                                        std::span(reference.memories_[i]->first() + range.first, range.size)));
  }
  return {};
}

/// What keeps it from running is as wrong as a wrong number.
Result<std::string> TrialBench::launch(const TrialReference& reference, crucible_kernel* kernel) {
  const TrialSubject& subject = reference.subject();
  const std::vector<std::uint64_t> offsets = offsets_of(subject);
  std::vector<std::uint64_t> addresses;
  for (const std::uint32_t memory : subject.memory_of) addresses.push_back(scratch_->address() + offsets[memory]);
  std::vector<crucible_scalar> scalars;
  for (std::size_t i = 0; i < subject.scalars.size(); ++i) {
    const bool is_integer = i < subject.ir.scalars.size() && subject.ir.scalars[i] == DType::kI64;
    scalars.push_back({.bits = subject.scalars[i],
                       .slot = CRUCIBLE_SLOT_NONE,
                       .type = is_integer ? CRUCIBLE_SCALAR_I64 : CRUCIBLE_SCALAR_F64});
  }
  for (std::size_t i = 0; i < subject.memory_of.size() && is_sized_; ++i) {
    scalars.push_back(buffer_bytes(subject.memories[subject.memory_of[i]], subject.ir.buffers[i].written));
  }
  crucible_op op{};
  op.struct_size = sizeof op;
  op.kind = CRUCIBLE_OP_LAUNCH;
  op.kernel = kernel;
  op.grid = subject.grid;
  op.grain = subject.grid;  // one thread: a team would wait for processors that compile
  op.buffers = addresses.data();
  op.buffer_count = static_cast<std::uint32_t>(addresses.size());
  op.scalars = scalars.data();
  op.scalar_count = static_cast<std::uint32_t>(scalars.size());
  Result<void> ran;
  Result<backend::Plan> plan = backend::Plan::build(device_, {&op, 1}, 0);
  if (plan) ran = plan->replay();
  if (plan && ran) return std::string();
  const Error error = plan ? ran.error() : plan.error();
  if (device_->lost() != nullptr) return error;
  return "it does not run: " + error.message;
}

Result<std::string> TrialBench::find_strays(const TrialReference& reference) {
  const TrialSubject& subject = reference.subject();
  const std::vector<std::uint64_t> offsets = offsets_of(subject);
  std::vector<std::byte> zone;
  for (std::size_t i = 0; i <= offsets.size(); ++i) {
    const std::uint64_t begin = i == 0 ? 0 : offsets[i - 1] + subject.memories[i - 1];
    const std::uint64_t end = i == offsets.size() ? subject.bytes() : offsets[i];
    if (end == begin) continue;
    zone.resize(end - begin);
    CRUCIBLE_TRY_VOID(scratch_->read(begin, zone));
    if (zone.front() == std::byte{kZoneByte} && std::memcmp(zone.data(), zone.data() + 1, zone.size() - 1) == 0)
      continue;
    const auto stray = std::ranges::find_if(zone, [](std::byte byte) { return byte != std::byte{kZoneByte}; });
    const std::int64_t at = stray - zone.begin();
    if (i == 0)
      return fmt::format("it writes {} bytes before its first buffer", static_cast<std::int64_t>(zone.size()) - at);
    return fmt::format("it writes {} bytes behind a buffer of {}, or before the next one", at, subject.memories[i - 1]);
  }
  return std::string();
}

/// What the interpreted items wrote, element by element.
Result<std::string> TrialBench::compare(TrialReference& reference, std::uint32_t buffer) {
  const TrialSubject& subject = reference.subject();
  const DType type = subject.ir.buffers[buffer].type;
  const std::size_t size = size_bytes(type);
  TouchedMemory& memory = *reference.memories_[subject.memory_of[buffer]];
  const std::uint64_t offset = offsets_of(subject)[subject.memory_of[buffer]];
  const std::vector<std::uint64_t>& written = memory.written();
  std::vector<std::byte> found(written.size() * size), bytes;
  for (std::size_t i = 0; i < written.size();) {
    std::size_t end = i + 1;  // of elements that lie near each other
    while (end < written.size() && written[end] <= written[end - 1] + size + kGap &&
           written[end] - written[i] < kMostRead)
      ++end;
    bytes.resize(written[end - 1] + size - written[i]);
    CRUCIBLE_TRY_VOID(scratch_->read(offset + written[i], bytes));
    for (const std::uint64_t first_byte = written[i]; i < end; ++i)
      std::memcpy(found.data() + i * size, bytes.data() + (written[i] - first_byte), size);
  }
  const bool is_exact = reference.nearness_ == Nearness::kBits || !is_floating(type);
  const bool has_free_sums = !is_exact && kernel::sums_in_any_order(subject.ir);
  std::size_t wrong = 0, first = 0;
  with_numbers(type, [&](const auto& number) {
    double scale = 0;
    for (std::size_t i = 0; i < written.size() && !is_exact; ++i) {
      const double magnitude = std::abs(number(memory.data() + written[i]));
      if (std::isfinite(magnitude)) scale = std::max(scale, magnitude);
    }
    for (std::size_t i = 0; i < written.size(); ++i) {
      const std::byte* const is = found.data() + i * size;
      const std::byte* const wanted = memory.data() + written[i];
      if (is_exact && std::memcmp(is, wanted, size) == 0) continue;
      const double is_number = number(is), wanted_number = number(wanted);
      const bool is_right = is_exact ? is_floating(type) && std::isnan(is_number) && std::isnan(wanted_number)
                                     : is_near(type, is_number, wanted_number, scale, has_free_sums);
      if (!is_right && wrong++ == 0) first = i;
    }
  });
  if (wrong == 0) return std::string();
  return fmt::format("element {} of its buffer {} ({}) is {}, not {}; so are {} of {} compared", written[first] / size,
                     buffer, name(type), in_words(type, found.data() + first * size),
                     in_words(type, memory.data() + written[first]), wrong, written.size());
}

}  // namespace crucible::runtime
