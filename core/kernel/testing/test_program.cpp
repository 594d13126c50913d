// Building and comparing test programs: see test_program.hpp.
#include "core/kernel/testing/test_program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <optional>
#include <utility>

#include "core/graph/reference.hpp"
#include "core/graph/view.hpp"
#include "core/kernel/schedule_check.hpp"

namespace crucible::kernel {

using graph::Bytes;
using graph::kNone;
using graph::Operand;
using graph::ValueId;
using graph::View;

double TestProgram::uniform() {
  random_ = random_ * 6364136223846793005ull + 1442695040888963407ull;
  return static_cast<double>(random_ >> 11) / 9007199254740992.0;
}

ValueId TestProgram::add_value(graph::ValueKind kind, DType dtype, std::int64_t elements, graph::OpId producer) {
  program.values.push_back({kind, dtype, elements, "", producer});
  values.emplace_back();
  return static_cast<ValueId>(program.values.size() - 1);
}

Bytes TestProgram::random_bytes(DType dtype, std::int64_t elements, double low, double high) {
  Bytes bytes(static_cast<std::size_t>(elements) * size_bytes(dtype));
  for (std::int64_t i = 0; i < elements; ++i) {
    const double number = dtype == DType::kBool ? static_cast<double>(uniform() < 0.5) : low + (high - low) * uniform();
    std::byte* at = bytes.data() + static_cast<std::size_t>(i) * size_bytes(dtype);
    is_floating(dtype) ? graph::store_real(dtype, number, at)
                       : graph::store_integer(dtype, static_cast<std::int64_t>(std::floor(number)), at);
  }
  return bytes;
}

Operand TestProgram::input(DType dtype, const Sizes& sizes, double low, double high) {
  const View view = View::contiguous(sizes);
  const ValueId id = add_value(graph::ValueKind::kInput, dtype, view.elements(), kNone);
  program.inputs.push_back({id, {0}, false});
  values[id] = random_bytes(dtype, view.elements(), low, high);
  return {id, view, {}};
}

Operand TestProgram::state(DType dtype, const Sizes& sizes, double low, double high) {
  const View view = View::contiguous(sizes);
  const ValueId id = add_value(graph::ValueKind::kState, dtype, view.elements(), kNone);
  program.states.push_back({id, id, 0, 0});
  values[id] = random_bytes(dtype, view.elements(), low, high);
  return {id, view, {}};
}

void TestProgram::end_state(const Operand& start, const Operand& end) {
  for (graph::State& state : program.states) {
    if (state.start == start.value) state.end = end.value;
  }
}

Operand TestProgram::scalar(double number) const {
  Operand operand;
  operand.scalar.real = number;
  return operand;
}

Operand TestProgram::slot(double number) {
  Operand operand;
  operand.scalar.slot = static_cast<graph::SlotId>(program.slots.size());
  program.slots.push_back({"slot", {number}});
  slots.push_back(number);
  return operand;
}

Operand TestProgram::op(graph::OpKind kind, std::vector<Operand> inputs, const Sizes& sizes, DType dtype,
                        graph::Attributes attributes) {
  const auto id = static_cast<graph::OpId>(program.ops.size());
  const View view = View::contiguous(sizes);
  const Operand result{add_value(graph::ValueKind::kTemporary, dtype, view.elements(), id), view, {}};
  graph::Op op;
  op.kind = kind;
  op.inputs = std::move(inputs);
  op.outputs = {result};
  op.attributes = std::move(attributes);
  program.ops.push_back(std::move(op));
  return result;
}

Operand TestProgram::reduce(graph::OpKind kind, const Operand& x, const Sizes& dims) {
  graph::Attributes attributes;
  attributes.dims = dims;
  Sizes sizes = x.view.sizes;
  for (auto d : dims) sizes[static_cast<std::size_t>(d)] = 1;
  const Operand result = op(kind, {x}, sizes, program.values[x.value].dtype, attributes);
  for (auto d : dims) program.ops.back().outputs[0].view.strides[static_cast<std::size_t>(d)] = 0;
  return result;
}

Operand TestProgram::second_result(const Sizes& sizes, DType dtype) {
  const View view = View::contiguous(sizes);
  const auto id = static_cast<graph::OpId>(program.ops.size() - 1);
  program.ops.back().outputs.push_back({add_value(graph::ValueKind::kTemporary, dtype, view.elements(), id), view, {}});
  return program.ops.back().outputs.back();
}

void TestProgram::keep(const Operand& operand) {
  if (program.values[operand.value].elements == 0) return;
  program.outputs.push_back({"kept", {operand.value, View::contiguous({}), {}}, {0}});
}

Operand expanded(Operand operand, const Sizes& sizes) {
  operand.view = *graph::broadcast(operand.view, sizes);
  return operand;
}

Operand permuted(const Operand& operand, const std::vector<std::size_t>& order) {
  Operand result = operand;
  for (std::size_t i = 0; i < order.size(); ++i) {
    result.view.sizes[i] = operand.view.sizes[order[i]];
    result.view.strides[i] = operand.view.strides[order[i]];
  }
  return result;
}

Operand reshaped(const Operand& operand, const Sizes& sizes) {
  Operand result = operand;
  result.view = *graph::reshaped(operand.view, sizes);
  return result;
}

/// Where terms repeat, all additions may round the same way: half a unit of each partial sum, beside what difference()
/// allows for a size of one in serial sums.
constexpr double kDrift = 0x1p-24 / (8 * 2e-5);

double size_of_terms(const graph::Program& program, ValueId v, const std::vector<Bytes>& want) {
  const graph::Value& value = program.values[v];
  if (value.elements != 1 || value.producer == kNone || !is_floating(value.dtype)) return 0;
  const graph::Op& op = program.ops[value.producer];
  double squares = 0, drift = 0;
  for (const Operand& input : op.inputs) {
    if (input.is_scalar()) continue;
    if (op.kind == graph::OpKind::kAdd) squares += std::pow(size_of_terms(program, input.value, want), 2);
    if (op.kind != graph::OpKind::kReduceSum) continue;
    const graph::Value& summed = program.values[input.value];
    const auto terms = graph::load(want[input.value], summed.dtype, View::contiguous({summed.elements}));
    double sum = 0;
    for (std::size_t i = 0; i < terms.size(); ++i) {
      if (!std::isfinite(terms.as_real(i))) continue;
      squares += std::pow(terms.as_real(i), 2);
      sum += terms.as_real(i);
      drift += kDrift * std::fabs(sum);
    }
  }
  return std::max(std::sqrt(squares), drift);
}

std::string difference(const graph::Program& program, ValueId v, const Bytes& got, const Bytes& want, double slack,
                       double terms) {
  const graph::Value& value = program.values[v];
  const auto view = View::contiguous({value.elements});
  const auto a = graph::load(got, value.dtype, view), b = graph::load(want, value.dtype, view);
  // With serial sums: numbers are of the size of 1 where they come from, however little is left of them here.
  double largest = b.size() == 1 ? 1.0 : slack > 1 ? 0.1 : 1e-3;
  for (std::size_t i = 0; i < b.size(); ++i) {
    if (std::isfinite(b.as_real(i))) largest = std::max(largest, std::fabs(b.as_real(i)));
  }
  largest = std::max(largest, terms);
  double unit = 2e-5;
  if (value.dtype == DType::kF64) unit = 1e-9;
  if (value.dtype == DType::kF16) unit = 1e-2;
  if (value.dtype == DType::kBF16) unit = 5e-2;
  const double bound = a.is_integer ? 0 : slack * unit * largest;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double x = a.as_real(i), y = b.as_real(i);
    if (x == y || (std::isnan(x) && std::isnan(y)) || std::fabs(x - y) <= bound) continue;
    return fmt::format("value %{} ({}), element {} of {}: {} instead of {}", v, name(value.dtype), i, a.size(), x, y);
  }
  return "";
}

namespace {

struct Case {
  const TestProgram* test;
  Schedule fused, plain, for_lanes;  // the last: fused, for a device whose threads run in step
};

/// Elements with other bits; all NaN are one.
std::size_t count_other_bits(const graph::Value& value, const Bytes& a, const Bytes& b) {
  const auto view = View::contiguous({value.elements});
  const auto x = graph::load(a, value.dtype, view), y = graph::load(b, value.dtype, view);
  const std::size_t size = size_bytes(value.dtype);
  std::size_t count = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (std::memcmp(a.data() + i * size, b.data() + i * size, size) == 0) continue;
    if (!std::isnan(x.as_real(i)) || !std::isnan(y.as_real(i))) ++count;
  }
  return count;
}

/// What came out of the first run of a strict case, for the others to repeat.
using FirstRun = std::optional<std::vector<Bytes>>;

/// The interpreter adds a fast sum's terms one by one, compiled kernels in as many chains as a vector has lanes.
constexpr double kSerialSums = 8;

/// Judges what a run of `schedule` gave.
void compare(const Case& entry, const Schedule& schedule, const Result<std::vector<Bytes>>& got,
             const RunOptions& options, const std::vector<Bytes>& want, const std::string& what, FirstRun& first,
             std::vector<std::string>& failures, double slack = 1) {
  const TestProgram& test = *entry.test;
  if (!got) {
    failures.push_back(what + ": " + got.error().message);
    return;
  }
  if (schedule.numerics == Numerics::kStrict) {
    const auto repeats = [&](ValueId v) {
      const std::size_t other = first ? count_other_bits(test.program.values[v], (*got)[v], (*first)[v]) : 0;
      if (other == 0) return;
      failures.push_back(fmt::format("{}: {} elements of value %{} have other bits than with one kernel per op\n{}",
                                     what, other, v, graph::to_text(test.program)));
    };
    for (const auto& state : test.program.states) repeats(state.end);
    for (const auto& output : test.program.outputs) repeats(output.operand.value);
    if (!first) first = *got;
  }
  const auto check = [&](ValueId v) {
    if (std::string text = difference(test.program, v, (*got)[v], want[v], slack, size_of_terms(test.program, v, want));
        !text.empty()) {
      failures.push_back(fmt::format("{}: {}\n{}", what, text, graph::to_text(test.program)));
    }
  };
  for (const auto& state : test.program.states) check(state.end);
  for (const auto& output : test.program.outputs) check(output.operand.value);
  if (options.in_place) return;  // inner values may have been overwritten
  for (ValueId v = 0; v < want.size(); ++v) {
    if (schedule.materialized[v]) check(v);
  }
}

Result<std::vector<Bytes>> interpret_watched(const TestProgram& test, const Schedule& schedule,
                                             const RunOptions& options) {
  CRUCIBLE_TRY(const ScheduleInterpreter interpreter, ScheduleInterpreter::create(test.program, schedule));
  return interpreter.run(test.program, schedule, test.values, test.slots, options, true);
}

/// Schedules both ways; "" or why not.
std::string make_schedules(Case& entry, Numerics numerics) {
  const graph::Program& program = entry.test->program;
  constexpr int kLanes = 32;
  for (Schedule* const wanted : {&entry.fused, &entry.plain, &entry.for_lanes}) {
    auto made = schedule(program, {.claims = {},
                                   .fuse = wanted != &entry.plain,
                                   .numerics = numerics,
                                   .epilogues = true,
                                   .device = {.lanes = wanted == &entry.for_lanes ? kLanes : 1}});
    if (!made) return made.error().message + "\n" + graph::to_text(program);
    if (auto checked = check_schedule(program, *made); !checked)
      return checked.error().message + "\n" + graph::to_text(program);
    *wanted = *std::move(made);
  }
  return "";
}

}  // namespace

std::vector<std::string> run_and_compare(const std::vector<const TestProgram*>& programs,
                                         std::vector<std::size_t>* fused_steps, Numerics numerics,
                                         Executors executors) {
  std::vector<std::string> failures;
  std::deque<Case> cases;
  std::vector<const Schedule*> schedules;
  for (std::size_t i = 0; i < programs.size(); ++i) {
    if (auto valid = graph::verify(programs[i]->program); !valid)
      return {fmt::format("program {}: {}", i, valid.error().message)};
    Case& entry = cases.emplace_back(Case{programs[i], {}, {}, {}});
    if (const std::string reason = make_schedules(entry, numerics); !reason.empty())
      return {fmt::format("program {}: {}", i, reason)};
    schedules.push_back(&entry.fused);
    schedules.push_back(&entry.plain);
    if (fused_steps != nullptr) fused_steps->push_back(entry.fused.steps.size());
  }
  const bool is_compiled = executors == Executors::kCompiledAndInterpreted;
  std::optional<HostKernels> kernels;
  if (is_compiled) {
    auto compiled = HostKernels::compile(schedules);
    if (!compiled) return {compiled.error().message};
    kernels = *std::move(compiled);
  }
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Case& entry = cases[i];
    auto want = graph::run_iteration(entry.test->program, entry.test->values, entry.test->slots);
    if (!want) return {fmt::format("program {}: {}", i, want.error().message)};
    FirstRun first;
    const auto run = [&](const Schedule& schedule, const RunOptions& options, const std::string& what) {
      const auto got =
          run_on_host(entry.test->program, schedule, *kernels, entry.test->values, entry.test->slots, options);
      compare(entry, schedule, got, options, *want, fmt::format("program {}, {}", i, what), first, failures);
    };
    if (is_compiled) {
      run(entry.plain, {}, "one kernel per op");
      run(entry.plain, {.in_place = true, .pieces = 2}, "one kernel per op, in place");
      run(entry.fused, {}, "fused");
      run(entry.fused, {.in_place = true, .pieces = 3}, "fused, in place");
    }
    const auto interpreted = [&](const Schedule& schedule, const RunOptions& options, const std::string& what) {
      const auto got = interpret_watched(*entry.test, schedule, options);
      compare(entry, schedule, got, options, *want, fmt::format("program {}, interpreted {}", i, what), first, failures,
              kSerialSums);
    };
    interpreted(entry.plain, {.pieces = 2}, "one kernel per op");
    interpreted(entry.fused, {.in_place = true, .pieces = 3}, "fused, in place");
    interpreted(entry.for_lanes, {.in_place = true, .pieces = 2}, "for lanes, in place");
  }
  return failures;
}

}  // namespace crucible::kernel
