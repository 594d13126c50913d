// What kernels and lists do: every work item once, scalars whole, slots per replay, order within a list, copies and
// fills, the same bits at every replay.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "plugins/conformance/behaviour_cases.hpp"
#include "plugins/conformance/opened.hpp"
#include "plugins/conformance/process_state.hpp"

namespace crucible::conformance {
namespace {

void grids(const Settings& settings) {
  Opened opened(settings);
  const Kernels kernels(opened);
  for (const std::int64_t grid : {0, 1, 2, 3, 7, 63, 64, 65, 1000, 4099, 1'000'003}) {
    for (const std::int64_t grain : {0, 1, 5, 1000, 10'000'000}) {
      Memory counts(opened, static_cast<std::uint64_t>(grid + 16) * 4);
      OpList list;
      list.launch(kernels.find("ck_count"), {counts.address()}, grid, grain);
      run_once(opened, list);
      const auto got = counts.values<std::int32_t>(static_cast<std::size_t>(grid + 16));
      for (std::int64_t i = 0; i < grid + 16; ++i) {
        const std::int32_t wanted = i < grid ? 1 : 0;
        if (got[static_cast<std::size_t>(i)] != wanted)
          fail(fmt::format("grid {}, grain {}: work item {} is done {} time(s)", grid, grain, i, wanted),
               fmt::format("{} times", got[static_cast<std::size_t>(i)]));
      }
    }
  }
}

std::vector<std::uint64_t> bits(const std::vector<double>& values) {
  std::vector<std::uint64_t> result;
  for (const double value : values) result.push_back(std::bit_cast<std::uint64_t>(value));
  return result;
}

/// What a double does not hold, and what it does.
constexpr std::int64_t kWhole[] = {0,
                                   -1,
                                   9007199254740993,
                                   -9007199254740995,
                                   std::numeric_limits<std::int64_t>::max(),
                                   std::numeric_limits<std::int64_t>::min()};

void scalars(const Settings& settings) {
  Opened opened(settings);
  const Kernels kernels(opened);
  using Limits = std::numeric_limits<double>;
  const std::vector<double> values = {0.0,
                                      -0.0,
                                      1.0,
                                      -1.5,
                                      0.1,
                                      1e300,
                                      -1e-300,
                                      Limits::denorm_min(),
                                      Limits::max(),
                                      Limits::min(),
                                      Limits::infinity(),
                                      -Limits::infinity(),
                                      std::bit_cast<double>(0x7ff8000000000123ull),
                                      9007199254740993.0,
                                      3.0 + Limits::epsilon() * 2};
  std::vector<crucible_scalar> list_scalars;
  for (const double value : values) list_scalars.push_back(fixed(value));
  Memory out(opened, values.size() * 8);
  OpList list;
  list.launch(kernels.find("ck_scalars"), {out.address()}, static_cast<std::int64_t>(values.size()), 1,
              padded(list_scalars));
  run_once(opened, list);
  const auto got = bits(out.values<double>(values.size())), wanted = bits(values);
  for (std::size_t i = 0; i < wanted.size(); ++i)
    expect(got[i] == wanted[i], fmt::format("scalar {} arrives as {:#018x}", i, wanted[i]),
           fmt::format("{:#018x}", got[i]));
  OpList whole_list;
  std::vector<crucible_scalar> whole_scalars;
  for (const std::int64_t value : kWhole) whole_scalars.push_back(whole(value));
  whole_scalars.resize(kTestScalars, whole(0));
  whole_list.launch(kernels.find("ck_integers"), {out.address()}, std::size(kWhole), 1, whole_scalars);
  run_once(opened, whole_list);
  const auto whole_got = out.values<std::int64_t>(std::size(kWhole));
  for (std::size_t i = 0; i < std::size(kWhole); ++i)
    expect(whole_got[i] == kWhole[i], fmt::format("scalar {} of whole numbers arrives as {}", i, kWhole[i]),
           fmt::format("{}", whole_got[i]));
}

void slots(const Settings& settings) {
  Opened opened(settings);
  const Kernels kernels(opened);
  Memory first(opened, 4 * 8), second(opened, 2 * 8);
  OpList list;
  list.launch(kernels.find("ck_scalars"), {first.address()}, 4, 1, padded({slot(0), fixed(0.1), slot(2), slot(1)}));
  list.launch(kernels.find("ck_scalars"), {second.address()}, 2, 1, padded({slot(2), slot(0)}));
  Plan plan(opened, list, 3);
  for (int round = 0; round < 5; ++round) {
    const double a = 0.3 + round, b = -1e-9 * round, c = 1e9 / (round + 1);
    plan.set_slots({a, b, c});
    for (int again = 0; again < 2; ++again) {  // a replay keeps them
      plan.replay();
      expect(bits(first.values<double>(4)) == bits({a, 0.1, c, b}),
             fmt::format("round {}: the first launch gets slots 0, 2 and 1", round), "other numbers");
      expect(bits(second.values<double>(2)) == bits({c, a}),
             fmt::format("round {}: the second launch gets slots 2 and 0", round), "other numbers");
    }
  }
  // A real slot and two whole ones.
  OpList mixed;
  mixed.launch(kernels.find("ck_scalars"), {second.address()}, 2, 1, padded({slot(1), fixed(0.1)}));
  std::vector<crucible_scalar> whole_scalars = {whole_slot(2), whole(7), whole_slot(0)};
  whole_scalars.resize(kTestScalars, whole(0));
  mixed.launch(kernels.find("ck_integers"), {first.address()}, 3, 1, whole_scalars);
  Plan typed(opened, mixed, 3);
  for (const std::int64_t value : kWhole) {
    typed.set_words(
        {static_cast<std::uint64_t>(value), std::bit_cast<std::uint64_t>(0.3), static_cast<std::uint64_t>(~value)});
    typed.replay();
    expect(bits(second.values<double>(2)) == bits({0.3, 0.1}), "the first launch gets the real slot 1",
           "another number");
    expect(first.values<std::int64_t>(3) == std::vector<std::int64_t>({~value, 7, value}),
           fmt::format("the second launch gets {} whole", value), "other numbers");
  }
}

/// Each op reads what the one before it wrote, at other places: any overlap in time shows.
void order(const Settings& settings) {
  Opened opened(settings);
  const Kernels kernels(opened);
  constexpr std::int64_t kCount = 100'003;
  constexpr int kSteps = 40;
  Memory a(opened, kCount * 8), b(opened, kCount * 8);
  std::vector<double> start(kCount), wanted(kCount);
  for (std::int64_t i = 0; i < kCount; ++i) start[static_cast<std::size_t>(i)] = static_cast<double>(i);
  a.write(0, std::as_bytes(std::span(start)));
  OpList list;
  for (int step = 0; step < kSteps; ++step) {
    Memory &from = step % 2 == 0 ? a : b, &to = step % 2 == 0 ? b : a;
    if (step % 10 == 4) {
      list.copy(to.address(), from.address(), kCount * 8);
    } else {
      list.launch(kernels.find("ck_reverse"), {to.address(), from.address()}, kCount, 1 + step * 100, {fixed(kCount)});
    }
    list.fill(from.address(), kCount * 8, 0xee);
  }
  std::vector<double> now = start;
  for (int step = 0; step < kSteps; ++step) {
    if (step % 10 == 4) continue;
    for (std::int64_t i = 0; i < kCount; ++i)
      wanted[static_cast<std::size_t>(i)] = now[static_cast<std::size_t>(kCount - 1 - i)] + 1;
    now = wanted;
  }
  run_once(opened, list);
  const auto got = a.values<double>(kCount);
  const auto [x, y] = std::mismatch(got.begin(), got.end(), now.begin());
  expect(x == got.end(),
         fmt::format("{} ops in order: element {} is {}", kSteps, x - got.begin(), x == got.end() ? 0 : *y),
         fmt::format("{}", x == got.end() ? 0 : *x));
}

void buffers_in_order(const Settings& settings) {
  Opened opened(settings);
  const Kernels kernels(opened);
  std::deque<Memory> inputs;
  std::vector<std::uint64_t> addresses;
  Memory out(opened, 5 * 8);
  addresses.push_back(out.address());
  for (std::int64_t b = 1; b < 8; ++b)
    addresses.push_back(inputs.emplace_back(opened, std::vector<std::int64_t>(5, b)).address());
  OpList list;
  list.launch(kernels.find("ck_sum8"), addresses, 5);
  run_once(opened, list);
  expect(out.values<std::int64_t>(5) == std::vector<std::int64_t>(5, 1234567),
         "a kernel gets its eight buffers in order", fmt::format("{}", out.values<std::int64_t>(1)[0]));
}

void offsets_in_buffers(const Settings& settings) {
  Opened opened(settings);
  const Kernels kernels(opened);
  Memory memory(opened, 4096);
  OpList list;
  list.launch(kernels.find("ck_count"), {memory.address() + 1024}, 100);
  list.fill(memory.address() + 3, 5, 7);
  list.copy(memory.address() + 2051, memory.address() + 1, 11);
  run_once(opened, list);
  std::vector<std::byte> wanted(4096);
  for (std::size_t i = 0; i < 100; ++i) wanted[1024 + 4 * i] = std::byte{1};
  for (std::size_t i = 3; i < 8; ++i) wanted[i] = wanted[2050 + i] = std::byte{7};
  expect_bytes(memory.read(0, 4096), wanted, "ops at addresses inside a buffer");
}

void copy_and_fill(const Settings& settings) {
  Opened opened(settings);
  for (const std::uint64_t size : {0ull, 1ull, 3ull, 4095ull, 4097ull, 100'001ull, (5ull << 20) + 3}) {
    Memory from(opened, size + 64), to(opened, size + 64);
    const std::vector<std::byte> data = noise(size + 64, static_cast<std::uint32_t>(size));
    from.write(0, data);
    std::vector<std::byte> wanted(size + 64);
    OpList list;
    list.copy(to.address() + 5, from.address() + 3, size);
    list.fill(from.address() + 7, size, 0xa9);
    run_once(opened, list);
    std::copy_n(data.begin() + 3, size, wanted.begin() + 5);
    expect_bytes(to.read(0, size + 64), wanted, fmt::format("a COPY of {} bytes", size));
    std::vector<std::byte> filled = data;
    std::fill_n(filled.begin() + 7, size, std::byte{0xa9});
    expect_bytes(from.read(0, size + 64), filled, fmt::format("a FILL of {} bytes", size));
  }
}

void subnormals(const Settings& settings) {
  Opened opened(settings);
  const Kernels kernels(opened);
  constexpr std::size_t kCount = 10'000;
  const Memory in(opened, std::vector<float>(kCount, std::numeric_limits<float>::min()));
  Memory out(opened, kCount * 4);
  OpList list;
  list.launch(kernels.find("ck_tiny"), {out.address(), in.address()}, kCount);
  run_once(opened, list);
  const float kept = std::ldexp(std::numeric_limits<float>::min(), -10);
  const std::vector<float> values = out.values<float>(kCount);
  for (const float got : values) {
    // Flushing is a device's right, but then for all work items alike.
    expect((got == kept || got == 0) && got == values[0], "subnormal results are kept, or flushed in every thread",
           fmt::format("{:a}, the first is {:a}", got, values[0]));
  }
}

void replays(const Settings& settings) {
  Opened opened(settings);
  const Kernels kernels(opened);
  constexpr std::int64_t kCount = 5000;
  Memory memory(opened, kCount * 4), other(opened, kCount * 4);
  OpList list;
  list.launch(kernels.find("ck_count"), {memory.address()}, kCount);
  list.copy(other.address(), memory.address(), kCount * 4);
  Plan plan(opened, list);
  for (std::int32_t round = 1; round <= 50; ++round) plan.replay();
  expect(memory.values<std::int32_t>(kCount) == std::vector<std::int32_t>(kCount, 50),
         "50 replays run the list 50 times", fmt::format("{}", memory.values<std::int32_t>(1)[0]));
  expect(other.values<std::int32_t>(kCount) == std::vector<std::int32_t>(kCount, 50), "a replay is done on return",
         fmt::format("{}", other.values<std::int32_t>(1)[0]));
}

void same_bits(const Settings& settings) {
  Opened opened(settings);
  const Kernels kernels(opened);
  constexpr std::int64_t kCount = 20'011;
  std::vector<double> start(kCount);
  for (std::size_t i = 0; i < start.size(); ++i) start[i] = 0.1 * static_cast<double>(i) - 7;
  Memory a(opened, kCount * 8), b(opened, kCount * 8);
  OpList list;
  for (int i = 0; i < 4; ++i) {
    list.launch(kernels.find("ck_scale"), {b.address(), a.address()}, kCount, 16, {fixed(1.0 / 3), fixed(0.7)});
    list.launch(kernels.find("ck_reverse"), {a.address(), b.address()}, kCount, 100, {fixed(kCount)});
  }
  Plan plan(opened, list);
  std::vector<std::byte> first;
  for (int round = 0; round < 5; ++round) {
    a.write(0, std::as_bytes(std::span(start)));
    plan.replay();
    const std::vector<std::byte> result = a.read(0, kCount * 8);
    if (round == 0) first = result;
    expect_bytes(result, first, fmt::format("replay {} of the same input", round + 1));
  }
}

void copies_arguments(const Settings& settings) {
  Opened opened(settings);
  const Kernels kernels(opened);
  Memory out(opened, 4 * 8);
  auto list = std::make_unique<OpList>();
  list->launch(kernels.find("ck_scalars"), {out.address()}, 4, 1, padded({fixed(1), fixed(2), fixed(3), fixed(4)}));
  Plan plan(opened, *list);
  auto& op = list->at(0);
  for (std::uint32_t i = 0; i < 4; ++i) const_cast<crucible_scalar*>(op.scalars)[i] = fixed(99);
  const_cast<std::uint64_t*>(op.buffers)[0] = 0;
  op = {};
  list.reset();
  plan.replay();
  expect(out.values<double>(4) == std::vector<double>({1, 2, 3, 4}), "plan.build copies ops, buffers and scalars",
         "the plan used the host's memory after build");
}

void empty_plan(const Settings& settings) {
  Opened opened(settings);
  const OpList list;
  Plan plan(opened, list, 2);
  plan.set_slots({1, 2});
  plan.replay();
  expect_ok(must(opened.tables.plan.profile, "plan.profile")(plan.handle(), nullptr, 0),
            "plan.profile of an empty plan");
}

void many_plans(const Settings& settings) {
  Opened opened(settings);
  const Kernels kernels(opened);
  Memory memory(opened, 1000 * 4);
  std::deque<Plan> plans;
  for (int i = 0; i < 50; ++i) {
    OpList list;
    list.launch(kernels.find("ck_count"), {memory.address()}, i * 20);
    plans.emplace_back(opened, list);
  }
  for (Plan& plan : plans) plan.replay();
  const auto got = memory.values<std::int32_t>(1000);
  for (int i = 0; i < 1000; ++i)
    expect_equal(static_cast<std::uint64_t>(got[static_cast<std::size_t>(i)]), static_cast<std::uint64_t>(49 - i / 20),
                 fmt::format("the number of plans that reach item {}", i));
}

/// The host's own mode is odd; kernels compute as always, and the host finds its mode again.
void process_state_is_kept(const Settings& settings) {
  Opened opened(settings);
  const Kernels kernels(opened);
  Memory counts(opened, 4000);
  OpList list;
  list.launch(kernels.find("ck_count"), {counts.address()}, 1000);
  list.fill(counts.address(), 16, 0);
  Plan plan(opened, list);
  const ProcessState state = process_state();
  for (int i = 0; i < 10; ++i) plan.replay();
  expect_same_state(state, "after ten replays");
}

void profile_per_op(const Settings& settings) {
  Opened opened(settings);
  const Kernels kernels(opened);
  Memory memory(opened, 1 << 20);
  OpList list;
  for (int i = 0; i < 7; ++i) list.fill(memory.address(), 1 << 20, static_cast<std::uint32_t>(i));
  list.launch(kernels.find("ck_spin"), {memory.address()}, 8, 1, {fixed(100'000)});
  const Plan plan(opened, list);
  std::vector<std::uint64_t> times(8, ~0ull);
  expect_ok(must(opened.tables.plan.profile, "plan.profile")(plan.handle(), times.data(), 8), "plan.profile of 8 ops");
  for (const std::uint64_t time : times)
    expect(time < 60'000'000'000ull, "plan.profile gives nanoseconds for each op", fmt::format("{}", time));
  expect(times[7] > 0, "800,000 rounds of arithmetic take time", "0 ns");
  expect(memory.read(7, 1)[0] != std::byte{6}, "plan.profile runs the list", "the last op's result is not there");
}

/// Ops name places by address alone: one that lies in no buffer, or too near to the end of one, must not reach the
/// device.
void address_in_no_buffer(const Settings& settings) {
  Opened opened(settings);
  const Memory memory(opened, 64);
  const auto build = must(opened.tables.plan.build, "plan.build");
  const auto refuses = [&](const OpList& list, const std::string& what) {
    crucible_plan* plan = nullptr;
    expect_error(build(opened.device, list.data(), list.count(), 0, &plan), {CRUCIBLE_E_INVALID_ARGUMENT},
                 "plan.build with " + what);
    expect(plan == nullptr, "plan.build with " + what + " gives no plan", "a plan");
  };
  for (const std::uint64_t address :
       {std::uint64_t{0}, std::uint64_t{1}, memory.address() - 1, memory.address() + 65, UINT64_MAX}) {
    OpList fill, from, to;
    fill.fill(address, 1, 0);
    from.copy(memory.address(), address, 1);
    to.copy(address, memory.address(), 1);
    refuses(fill, fmt::format("a fill at {:#x}, which is in no buffer", address));
    refuses(from, fmt::format("a copy from {:#x}, which is in no buffer", address));
    refuses(to, fmt::format("a copy to {:#x}, which is in no buffer", address));
  }
  OpList beyond, inside;
  beyond.fill(memory.address() + 32, 33, 0);
  refuses(beyond, "a fill that ends behind its buffer");
  inside.fill(memory.address() + 32, 32, 0);
  run_once(opened, inside);
}

}  // namespace

std::vector<Case> behaviour_plan_cases() {
  const auto make = [](std::string name, std::string rule, void (*run)(const Settings&), bool quick) {
    return Case{"behaviour." + std::move(name), Tier::kBehaviour, std::move(rule), quick, run, 90};
  };
  return {
      make("kernel.grids", "every work item of a grid is done once and no other", grids, true),
      make("kernel.scalars", "scalars arrive bit by bit", scalars, true),
      make("kernel.buffers_in_order", "a kernel gets its buffers in the order of the op", buffers_in_order, true),
      make("kernel.subnormals", "subnormal numbers are treated alike by all work items", subnormals, false),
      make("plan.slots", "set_slots reaches every use of a slot, and replays keep it", slots, true),
      make("plan.order", "an op sees all that the ops before it did", order, true),
      make("plan.offsets", "ops may use any address inside a buffer", offsets_in_buffers, false),
      make("plan.address_in_no_buffer", "ops at addresses that lie in no buffer are refused", address_in_no_buffer,
           true),
      make("plan.copy_and_fill", "COPY and FILL do exactly their bytes", copy_and_fill, true),
      make("plan.replays", "a plan can be replayed again and again, and is done on return", replays, true),
      make("plan.same_bits", "every replay of the same input gives the same bits", same_bits, true),
      make("plan.copies_arguments", "build copies all that it needs", copies_arguments, true),
      make("plan.empty", "a plan of no ops works", empty_plan, false),
      make("plan.many", "many plans live side by side", many_plans, false),
      make("plan.keeps_process_state", "a replay leaves floating-point mode, handlers and locale as they were",
           process_state_is_kept, false),
      make("plan.profile", "profile runs the list and gives a time per op", profile_per_op, true),
  };
}

}  // namespace crucible::conformance
