// From programs to buffers, kernels and plans on the raw tables, and back to bytes.
#include "plugins/conformance/ops_run.hpp"

#include <fmt/format.h>

#include <cmath>
#include <deque>
#include <set>

#include "core/graph/reference.hpp"
#include "core/kernel/schedule.hpp"
#include "plugins/conformance/ops_compare.hpp"
#include "runtime/plan/library_calls.hpp"

namespace crucible::conformance {
namespace {

constexpr std::uint64_t kGuardBytes = 64;
constexpr std::uint8_t kGuard = 0xd7, kPoison = 0xff;  // 0xffffffff is a NaN

using graph::Bytes;
using graph::ValueId;

struct Claimed {
  bool taken = false;
  std::uint64_t scratch_bytes = 0;
};

Claimed claim(Opened& opened, const kernel::LibraryCall& call) {
  const auto ask = opened.tables.library.claim;
  const Result<crucible_library_desc> desc = runtime::describe(call);
  if (ask == nullptr || !desc) return {};
  Claimed result;
  crucible_status status = ask(opened.device, &*desc, &result.scratch_bytes);
  if (status != nullptr) {
    expect_error(status, {CRUCIBLE_E_UNSUPPORTED}, "library.claim of a call that it does not take");
    return {};
  }
  result.taken = true;
  return result;
}

/// The buffers of one program on the device.
struct OnDevice {
  std::deque<Memory> memory;
  std::vector<std::uint64_t> address;  // per value; 0 where there is none
  std::vector<const Memory*> of;       // per value; null where there is none
};

void upload(Opened& opened, const OpsProgram& entry, const kernel::Schedule& schedule, OnDevice& out) {
  const graph::Program& program = entry.program;
  out.address.assign(program.values.size(), 0);
  out.of.assign(program.values.size(), nullptr);
  for (ValueId v = 0; v < program.values.size(); ++v) {
    const graph::Value& value = program.values[v];
    const bool given = value.kind != graph::ValueKind::kTemporary;
    if (!given && !schedule.materialized[v]) continue;
    const std::uint64_t size = static_cast<std::uint64_t>(value.elements) * size_bytes(value.dtype);
    Memory& memory = out.memory.emplace_back(opened, size + kGuardBytes);
    memory.fill(0, size, kPoison);
    memory.fill(size, kGuardBytes, kGuard);
    if (given) memory.write(0, std::span(entry.values[v]).first(size));
    out.address[v] = memory.address();
    out.of[v] = &memory;
  }
}

crucible_scalar to_scalar(const graph::Scalar& scalar) {
  if (scalar.is_integer) return scalar.slot == graph::kNone ? whole(scalar.integer) : whole_slot(scalar.slot);
  return scalar.slot == graph::kNone ? fixed(scalar.real) : slot(scalar.slot);
}

void add_steps(Opened& opened, const kernel::Schedule& schedule, const Kernels* kernels, OnDevice& device,
               OpList& list) {
  for (const kernel::Step& step : schedule.steps) {
    std::vector<std::uint64_t> addresses;
    for (const kernel::BufferArgument& argument : step.buffers) addresses.push_back(device.address[argument.value]);
    if (step.kind == kernel::StepKind::kLibrary) {
      const Claimed claimed = claim(opened, step.library);
      const Result<crucible_library_desc> desc = runtime::describe(step.library);
      if (claimed.scratch_bytes != 0)
        addresses.push_back(device.memory.emplace_back(opened, claimed.scratch_bytes).address());
      list.library(*desc, addresses, claimed.scratch_bytes);
      continue;
    }
    std::vector<crucible_scalar> scalars;
    for (const graph::Scalar& scalar : step.scalars) scalars.push_back(to_scalar(scalar));
    list.launch(kernels->find(schedule.kernels[step.kernel].name), addresses, step.grid, step.grain, scalars);
  }
}

/// The program's values with subnormal numbers as zeros.
std::vector<Bytes> flushed(const OpsProgram& entry) {
  std::vector<Bytes> values = entry.values;
  for (ValueId v = 0; v < values.size(); ++v) {
    const DType dtype = entry.program.values[v].dtype;
    if (!is_floating(dtype)) continue;
    const double smallest = spacing(dtype, 0) * (dtype == DType::kF64   ? 0x1p52
                                                 : dtype == DType::kF32 ? 0x1p23
                                                 : dtype == DType::kF16 ? 0x1p10
                                                                        : 0x1p7);
    for (std::size_t at = 0; at + size_bytes(dtype) <= values[v].size(); at += size_bytes(dtype)) {
      const double number = graph::load_real(dtype, values[v].data() + at);
      if (number != 0 && std::fabs(number) < smallest)
        graph::store_real(dtype, std::copysign(0.0, number), values[v].data() + at);
    }
  }
  return values;
}

std::vector<Bytes> reference(const OpsProgram& entry, std::vector<Bytes> values) {
  Result<std::vector<Bytes>> result = graph::run_iteration(entry.program, std::move(values), entry.slots);
  if (!result)
    fail("the kit's own program " + entry.label + " runs on the reference interpreter", result.error().message);
  return *std::move(result);
}

std::string run_one(Opened& opened, const OpsProgram& entry, const kernel::Schedule& schedule, const Kernels* kernels) {
  const std::vector<Bytes> want = reference(entry, entry.values), other = reference(entry, flushed(entry));
  OnDevice device;
  upload(opened, entry, schedule, device);
  OpList list;
  add_steps(opened, schedule, kernels, device, list);
  Plan plan(opened, list, static_cast<std::uint32_t>(entry.slots.size()));
  std::vector<std::uint64_t> words;
  for (const graph::Number& number : entry.slots) words.push_back(number.bits());
  if (!words.empty()) plan.set_words(words);
  plan.replay();
  for (ValueId v = 0; v < entry.program.values.size(); ++v) {
    if (device.of[v] == nullptr) continue;
    const graph::Value& value = entry.program.values[v];
    const Bytes all = device.of[v]->read(0, device.of[v]->size());
    const std::size_t size = all.size() - kGuardBytes;
    for (std::size_t i = size; i < all.size(); ++i) {
      if (all[i] != std::byte{kGuard})
        return fmt::format("byte {} behind the end of value %{} was written", i - size, v);
    }
    const Bytes got(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(size));
    if (value.kind != graph::ValueKind::kTemporary) {
      if (got != entry.values[v]) return fmt::format("the operand %{} was changed", v);
      continue;
    }
    if (std::string text = difference(entry, v, got, want[v], other[v]); !text.empty())
      return fmt::format("result %{} ({}): {}", v, name(value.dtype), text);
  }
  return "";
}

}  // namespace

bool is_claimed(Opened& opened, const kernel::LibraryCall& call) { return claim(opened, call).taken; }

std::vector<std::string> run_programs(Opened& opened, const std::vector<OpsProgram>& programs, bool with_library,
                                      std::size_t* library_calls,
                                      const std::function<bool(const kernel::LibraryCall&)>& may_go) {
  std::vector<kernel::Schedule> schedules;
  std::vector<kernel::Kernel> distinct;
  std::set<std::string> seen;
  const auto claims = [&](const kernel::LibraryCall& call) {
    return (may_go == nullptr || may_go(call)) && claim(opened, call).taken;
  };
  for (const OpsProgram& entry : programs) {
    if (auto valid = graph::verify(entry.program); !valid)
      fail("the kit's own program " + entry.label + " is valid", valid.error().message);
    kernel::Options options;
    if (with_library) options.claims = claims;
    auto made = kernel::schedule(entry.program, options);
    if (!made) fail("kernels can be made for " + entry.label, made.error().message);
    for (const kernel::Kernel& kernel : made->kernels) {
      if (seen.insert(kernel.name).second) distinct.push_back(kernel);
    }
    for (const kernel::Step& step : made->steps) {
      if (library_calls != nullptr && step.kind == kernel::StepKind::kLibrary) ++*library_calls;
    }
    schedules.push_back(*std::move(made));
  }
  const auto kernels = distinct.empty() ? nullptr : std::make_unique<Kernels>(opened, distinct);
  std::vector<std::string> failures;
  for (std::size_t i = 0; i < programs.size(); ++i) {
    const std::string text = run_one(opened, programs[i], schedules[i], kernels.get());
    if (!text.empty()) failures.push_back(programs[i].label + ": " + text);
  }
  return failures;
}

}  // namespace crucible::conformance
