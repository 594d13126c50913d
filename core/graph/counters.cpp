// Passes over step counters: states of one number that each iteration adds a number to. Optimizers that loop in Python
// compute bias corrections from them outside of the recording, where they arrive as numbers of each iteration; fused
// optimizers compute the same inside. After these passes both are one program, and one that goes on after the recorded
// iterations.
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "core/graph/op_table.hpp"
#include "core/graph/passes.hpp"
#include "core/graph/reference_numbers.hpp"

namespace crucible::graph {
namespace {

struct Counter {
  ValueId start = kNone, end = kNone;
  OpId op = kNone;  // start + step
  double step = 0;
  DType dtype = DType::kF32;
  std::vector<std::byte> before;  // what it holds before the first iteration
};

/// The counter that the state is, without its bytes; nothing for another state.
std::optional<Counter> counter_of(const Program& program, const State& state) {
  const Value& start = program.values[state.start];
  if (state.end == state.start || start.elements != 1 || !is_floating(start.dtype) || state.initial_blob == kNone) return std::nullopt;
  const OpId id = program.values[state.end].producer;
  const Op& op = program.ops[id];
  if (op.kind != OpKind::kAdd || op.inputs[0].value != state.start || !op.inputs[1].is_scalar() || op.inputs[1].scalar.slot != kNone ||
      program.values[state.end].dtype != start.dtype) {
    return std::nullopt;
  }
  const Scalar& step = op.inputs[1].scalar;
  return Counter{state.start, state.end, id, step.is_integer ? static_cast<double>(step.integer) : step.real, start.dtype, {}};
}

/// In the order of their ops.
Result<std::map<OpId, Counter>> counters_of(const Program& program, const trace::BlobStore& blobs) {
  std::map<OpId, Counter> counters;
  for (const State& state : program.states) {
    auto counter = counter_of(program, state);
    if (!counter) continue;
    CRUCIBLE_TRY(counter->before, blobs.load(state.initial_blob));
    if (counter->before.size() == size_bytes(counter->dtype)) counters.emplace(counter->op, std::move(*counter));
  }
  return counters;
}

/// Two numbers that arithmetic in another order, or another library's power, may give for one formula.
bool agree(double a, double b) { return std::fabs(a - b) <= 2 * std::numeric_limits<double>::epsilon() * std::fabs(a); }

/// What a slot is a function of: `rate / (1 - base^counter)` where a rate is given, else the root of 1 - base^counter or that itself.
struct Correction {
  OpId counter = kNone;
  double base = 0;
  bool is_root = false;
  std::optional<double> rate;
  auto operator<=>(const Correction&) const = default;
};

/// The shortest decimal number that is near `about`, of which `agrees` holds.
template <class Agrees>
std::optional<double> shortest(double about, Agrees agrees) {
  for (int digits = 1; digits <= 17; ++digits) {
    std::array<char, 40> text;
    std::snprintf(text.data(), text.size(), "%.*e", digits - 1, about);
    const double number = std::strtod(text.data(), nullptr);
    if (agrees(number)) return number;
  }
  return std::nullopt;
}

/// The formula that gives the numbers in every recorded iteration, with one of the bases; nothing for other numbers.
std::optional<Correction> correction_of(const std::vector<double>& numbers, const std::map<OpId, Counter>& counters, const std::set<double>& bases) {
  std::vector<double> corrections(numbers.size());
  const auto all = [&](auto formula) {
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (!agree(numbers[i], formula(corrections[i]))) return false;
    }
    return true;
  };
  for (const auto& [op, counter] : counters) {
    const double start = load_real(counter.dtype, counter.before.data());
    for (const double base : bases) {
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        corrections[i] = 1 - std::pow(base, start + counter.step * static_cast<double>(i + 1));
      }
      if (corrections.front() == corrections.back()) continue;  // so many steps that nothing shows
      if (all([](double c) { return c; })) return Correction{op, base, false, {}};
      if (all([](double c) { return std::sqrt(c); })) return Correction{op, base, true, {}};
      const auto is_rate = [&](double rate) { return rate != 0 && all([rate](double c) { return rate / c; }); };
      if (const auto rate = shortest(numbers.front() * corrections.front(), is_rate)) return Correction{op, base, false, rate};
    }
  }
  return std::nullopt;
}

/// Numbers between 0 and 1 that the program computes with, and what they leave to 1: decay rates of moments.
std::set<double> possible_bases(const Program& program) {
  std::set<double> bases;
  for (const Op& op : program.ops) {
    for (const Operand& input : op.inputs) {
      const double number = input.scalar.real;
      if (!input.is_scalar() || input.scalar.slot != kNone || !(number > 0 && number < 1)) continue;
      bases.insert(number);
      bases.insert(1 - number);
    }
  }
  constexpr std::size_t kMost = 256;  // who has more is no optimizer, and the search takes their number times slots and counters
  return bases.size() <= kMost ? bases : std::set<double>();
}

/// Whether a number of `op` may be a tensor of one f32 or f64 instead, with the same bits.
bool takes_tensor(const Program& program, const Op& op) {
  const OpClass op_class = info(op.kind).op_class;
  const DType dtype = program.values[op.outputs[0].value].dtype;
  return (op_class == OpClass::kArithmetic || op_class == OpClass::kFloating) && (dtype == DType::kF32 || dtype == DType::kF64);
}

/// Writes the ops of corrections, each once, behind their counter's op.
class Corrections {
 public:
  explicit Corrections(Program& program) : program_(program) {}

  /// The correction as a value of one `dtype`, for readers of which the first is `reader`.
  ValueId value(const Correction& correction, const Counter& counter, DType dtype, const Op& reader) {
    std::vector<Op>& ops = new_[counter.op];
    source_ = reader.source;
    const auto once = [&](Correction key, DType type, auto make) {
      const auto found = made_.find({key, type});
      if (found != made_.end()) return found->second;
      const ValueId made = make();
      made_.emplace(std::pair{key, type}, made);
      return made;
    };
    if (dtype != DType::kF64) {
      const ValueId wide = value(correction, counter, DType::kF64, reader);
      return once(correction, dtype, [&] { return add(ops, OpKind::kCopy, {operand(wide)}, dtype); });
    }
    const Correction plain{correction.counter, correction.base, false, {}};
    const ValueId rest = once(plain, dtype, [&] {
      const ValueId count = counter.dtype == DType::kF64 ? counter.end : add(ops, OpKind::kCopy, {operand(counter.end)}, DType::kF64);
      const ValueId power = add(ops, OpKind::kPower, {number(correction.base), operand(count)}, DType::kF64);
      return add(ops, OpKind::kSubtract, {number(1), operand(power)}, DType::kF64);
    });
    if (correction.is_root) return once(correction, dtype, [&] { return add(ops, OpKind::kSqrt, {operand(rest)}, dtype); });
    if (!correction.rate) return rest;
    return once(correction, dtype, [&] { return add(ops, OpKind::kDivide, {number(*correction.rate), operand(rest)}, dtype); });
  }

  /// Puts the new ops among the program's.
  void place() {
    std::vector<Op> ops;
    std::vector<OpId> new_id(program_.ops.size());
    const auto keep = [&](Op& op) {
      for (const Operand& out : op.outputs) program_.values[out.value].producer = static_cast<OpId>(ops.size());
      ops.push_back(std::move(op));
    };
    for (OpId id = 0; id < program_.ops.size(); ++id) {
      keep(program_.ops[id]);
      if (const auto found = new_.find(id); found != new_.end()) {
        for (Op& op : found->second) keep(op);
      }
    }
    program_.ops = std::move(ops);
  }

 private:
  static Operand operand(ValueId value) { return {.value = value, .view = View::contiguous({}), .scalar = {}}; }
  static Operand number(double real) { return {.value = kNone, .view = {}, .scalar = {.real = real}}; }

  ValueId add(std::vector<Op>& ops, OpKind kind, std::vector<Operand> inputs, DType dtype) {
    const auto result = static_cast<ValueId>(program_.values.size());
    program_.values.push_back({.kind = ValueKind::kTemporary, .dtype = dtype, .elements = 1, .name = "", .producer = kNone});
    ops.push_back({.kind = kind, .inputs = std::move(inputs), .outputs = {operand(result)}, .attributes = {}, .source = source_});
    return result;
  }

  Program& program_;
  std::map<OpId, std::vector<Op>> new_;  // by the counter's op
  std::map<std::pair<Correction, DType>, ValueId> made_;
  std::uint32_t source_ = kNone;
};

}  // namespace

Result<void> merge_counters(Program& program, const trace::BlobStore& blobs) {
  CRUCIBLE_TRY(const auto counters, counters_of(program, blobs));
  std::map<std::tuple<DType, double, std::vector<std::byte>>, const Counter*> first;
  std::map<ValueId, ValueId> renamed;
  for (const auto& [op, counter] : counters) {
    const Counter& same = *first.emplace(std::tuple{counter.dtype, counter.step, counter.before}, &counter).first->second;
    if (same.op == op) continue;
    renamed.emplace(counter.start, same.start);
    renamed.emplace(counter.end, same.end);
  }
  if (renamed.empty()) return {};
  for (OpId id = 0; id < program.ops.size(); ++id) {
    if (counters.contains(id)) continue;  // it goes on counting
    for (Operand& input : program.ops[id].inputs) {
      const auto found = input.is_scalar() ? renamed.end() : renamed.find(input.value);
      if (found != renamed.end()) input.value = found->second;
    }
  }
  return {};
}

Result<void> follow_counters(Program& program, const trace::BlobStore& blobs) {
  if (program.iterations < 2 || program.slots.empty()) return {};
  CRUCIBLE_TRY(const auto counters, counters_of(program, blobs));
  if (counters.empty()) return {};
  const auto bases = possible_bases(program);
  std::vector<std::optional<Correction>> found(program.slots.size());
  for (SlotId slot = 0; slot < program.slots.size(); ++slot) {
    const auto& numbers = program.slots[slot].values;
    if (numbers.size() == program.iterations) found[slot] = correction_of(numbers, counters, bases);
  }
  Corrections corrections(program);
  for (OpId id = 0; id < program.ops.size(); ++id) {
    for (Operand& input : program.ops[id].inputs) {
      if (!input.is_scalar() || input.scalar.slot == kNone || !found[input.scalar.slot]) continue;
      const Correction& correction = *found[input.scalar.slot];
      if (id < correction.counter || !takes_tensor(program, program.ops[id])) continue;
      const Operand& result = program.ops[id].outputs[0];
      const DType dtype = program.values[result.value].dtype;
      input.value = corrections.value(correction, counters.at(correction.counter), dtype, program.ops[id]);
      input.view = View{0, result.view.sizes, std::vector<std::int64_t>(result.view.sizes.size(), 0)};
      input.scalar = {};
    }
  }
  corrections.place();
  return {};
}

}  // namespace crucible::graph
