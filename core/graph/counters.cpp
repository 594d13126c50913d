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
  if (state.end == state.start || start.elements != 1 || !is_floating(start.dtype) || state.initial_blob == kNone)
    return std::nullopt;
  const OpId id = program.values[state.end].producer;
  const Op& op = program.ops[id];
  if (op.kind != OpKind::kAdd || op.inputs[0].value != state.start || !op.inputs[1].is_scalar() ||
      op.inputs[1].scalar.slot != kNone || program.values[state.end].dtype != start.dtype) {
    return std::nullopt;
  }
  const Scalar& step = op.inputs[1].scalar;
  return Counter{state.start, state.end, id, step.is_integer ? static_cast<double>(step.integer) : step.real,
                 start.dtype, {}};
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

/// What a slot is a function of: `rate / (1 - base^counter)` where a rate is given, as a number or as another slot,
/// else the root of 1 - base^counter or that itself.
struct Correction {
  OpId counter = kNone;
  double base = 0;
  bool is_root = false;
  std::optional<double> rate = {};
  SlotId rates = kNone;
  auto operator<=>(const Correction&) const = default;
};

/// 1 - base^counter in each of the first iterations.
std::vector<double> corrections_of(const Counter& counter, double base, std::size_t iterations) {
  const double start = load_real(counter.dtype, counter.before.data());
  std::vector<double> corrections;
  for (std::size_t i = 0; i < iterations; ++i)
    corrections.push_back(1 - std::pow(base, start + counter.step * static_cast<double>(i + 1)));
  return corrections;
}

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
std::optional<Correction> correction_of(const std::vector<double>& numbers, const std::map<OpId, Counter>& counters,
                                        const std::set<double>& bases) {
  std::vector<double> corrections;
  const auto all = [&](auto formula) {
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (!agree(numbers[i], formula(corrections[i]))) return false;
    }
    return true;
  };
  for (const auto& [op, counter] : counters) {
    for (const double base : bases) {
      corrections = corrections_of(counter, base, numbers.size());
      if (corrections.front() == corrections.back()) continue;  // so many steps that nothing shows
      if (all([](double c) { return c; })) return Correction{.counter = op, .base = base};
      if (all([](double c) { return std::sqrt(c); })) return Correction{.counter = op, .base = base, .is_root = true};
      const double about = numbers.front() * corrections.front();
      const auto is_rate = [&](double rate) { return rate != 0 && all([rate](double c) { return rate / c; }); };
      const bool is_close = std::fabs(numbers.back() * corrections.back() - about) <= 1e-15 * std::fabs(about);
      const auto rate = is_close ? shortest(about, is_rate) : std::nullopt;
      if (rate) return Correction{.counter = op, .base = base, .rate = rate};
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
  constexpr std::size_t kMost =
      256;  // who has more is no optimizer, and the search takes their number times slots and counters
  return bases.size() <= kMost ? bases : std::set<double>();
}

/// The step sizes of Adam under a schedule: numbers of which nothing shows the rate, but whose place does. A slot that
/// multiplies nothing but first moments, m + (1 - base)(g - m), whose products are divided by sums with a quotient by
/// the root of a correction, is a rate of its iteration over 1 - base^counter of the same counter. The rates become a
/// slot of their own.
class Schedules {
 public:
  Schedules(Program& program, const std::map<OpId, Counter>& counters, std::vector<std::optional<Correction>>& found)
      : program_(program), counters_(counters), found_(found), readers_(program.values.size(), kNone) {
    for (OpId id = 0; id < program.ops.size(); ++id) {
      for (const Operand& input : program.ops[id].inputs) {
        if (!input.is_scalar()) readers_[input.value] = readers_[input.value] == kNone ? id : kMany;
      }
    }
  }

  void find() {
    std::map<SlotId, std::optional<Correction>> shown;  // by the unexplained slot; nothing where its places disagree
    for (const Op& op : program_.ops) {
      for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        const SlotId slot = op.inputs[i].is_scalar() ? op.inputs[i].scalar.slot : kNone;
        if (slot == kNone || found_[slot] || program_.slots[slot].is_integer ||
            program_.slots[slot].values.size() != program_.iterations)
          continue;
        const auto here = i == 1 ? step_size_at(op) : std::nullopt;
        const auto [known, is_new] = shown.emplace(slot, here);
        if (!is_new && known->second != here) known->second.reset();
      }
    }
    for (auto& [slot, correction] : shown) {
      if (correction) correction->rates = rates_of(slot, *correction);
      found_[slot] = correction;
    }
  }

 private:
  static constexpr OpId kMany = kNone - 1;

  const Op* producer(const Operand& operand, OpKind kind) const {
    const OpId id = operand.is_scalar() ? kNone : program_.values[operand.value].producer;
    return id != kNone && program_.ops[id].kind == kind ? &program_.ops[id] : nullptr;
  }

  std::optional<Correction> step_size_at(const Op& multiply) const {
    if (multiply.kind != OpKind::kMultiply) return std::nullopt;
    const Op* moment = producer(multiply.inputs[0], OpKind::kAdd);
    const Op* change = moment != nullptr ? producer(moment->inputs[1], OpKind::kMultiply) : nullptr;
    if (change == nullptr || !change->inputs[1].is_scalar() || change->inputs[1].scalar.slot != kNone)
      return std::nullopt;
    const OpId reader = readers_[multiply.outputs[0].value];
    const Op* quotient =
        reader < program_.ops.size() && program_.ops[reader].kind == OpKind::kDivide ? &program_.ops[reader] : nullptr;
    const Op* divisor = quotient != nullptr ? producer(quotient->inputs[1], OpKind::kAdd) : nullptr;
    const Op* scaled = divisor != nullptr ? producer(divisor->inputs[0], OpKind::kDivide) : nullptr;
    if (scaled == nullptr || !scaled->inputs[1].is_scalar() || scaled->inputs[1].scalar.slot == kNone)
      return std::nullopt;
    const auto& root = found_[scaled->inputs[1].scalar.slot];
    if (!root || !root->is_root) return std::nullopt;
    return Correction{.counter = root->counter, .base = 1 - change->inputs[1].scalar.real};
  }

  /// A new slot; the shortest decimals that give the numbers.
  SlotId rates_of(SlotId slot, const Correction& correction) {
    const auto corrections = corrections_of(counters_.at(correction.counter), correction.base, program_.iterations);
    Slot rates{program_.slots[slot].name + ", before its bias correction", {}};
    for (std::size_t i = 0; i < corrections.size(); ++i) {
      const double number = program_.slots[slot].values[i].real();
      const auto rate =
          shortest(number * corrections[i], [&](double decimal) { return agree(number, decimal / corrections[i]); });
      rates.values.emplace_back(rate.value_or(number * corrections[i]));
    }
    program_.slots.push_back(std::move(rates));
    return static_cast<SlotId>(program_.slots.size() - 1);
  }

  Program& program_;
  const std::map<OpId, Counter>& counters_;
  std::vector<std::optional<Correction>>& found_;  // per slot
  std::vector<OpId> readers_;                      // per value: the one op that reads it, kNone or kMany
};

/// Whether a number of `op` may be a tensor of one f32 or f64 instead, with the same bits.
bool takes_tensor(const Program& program, const Op& op) {
  const OpClass op_class = info(op.kind).op_class;
  const DType dtype = program.values[op.outputs[0].value].dtype;
  return (op_class == OpClass::kArithmetic || op_class == OpClass::kFloating) &&
         (dtype == DType::kF32 || dtype == DType::kF64);
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
    const Correction plain{.counter = correction.counter, .base = correction.base};
    const ValueId rest = once(plain, dtype, [&] {
      const ValueId count =
          counter.dtype == DType::kF64 ? counter.end : add(ops, OpKind::kCopy, {operand(counter.end)}, DType::kF64);
      const ValueId power = add(ops, OpKind::kPower, {number(correction.base), operand(count)}, DType::kF64);
      return add(ops, OpKind::kSubtract, {number(1), operand(power)}, DType::kF64);
    });
    if (correction.is_root)
      return once(correction, dtype, [&] { return add(ops, OpKind::kSqrt, {operand(rest)}, dtype); });
    if (!correction.rate && correction.rates == kNone) return rest;
    const Operand rate = correction.rate ? number(*correction.rate)
                                         : Operand{.value = kNone, .view = {}, .scalar = {.slot = correction.rates}};
    return once(correction, dtype, [&] { return add(ops, OpKind::kDivide, {rate, operand(rest)}, dtype); });
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
    program_.values.push_back(
        {.kind = ValueKind::kTemporary, .dtype = dtype, .elements = 1, .name = "", .producer = kNone});
    ops.push_back(
        {.kind = kind, .inputs = std::move(inputs), .outputs = {operand(result)}, .attributes = {}, .source = source_});
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
    const Counter& same =
        *first.emplace(std::tuple{counter.dtype, counter.step, counter.before}, &counter).first->second;
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
  CRUCIBLE_TRY(auto counters, counters_of(program, blobs));
  std::set<std::tuple<DType, double, std::vector<std::byte>>> known;
  std::erase_if(counters, [&](const auto& each) {
    return !known.emplace(each.second.dtype, each.second.step, each.second.before).second;
  });
  if (counters.empty()) return {};
  const auto bases = possible_bases(program);
  std::vector<std::optional<Correction>> found(program.slots.size());
  for (SlotId slot = 0; slot < program.slots.size(); ++slot) {
    std::vector<double> numbers;
    for (const Number& number : program.slots[slot].values) numbers.push_back(number.real());
    if (numbers.size() == program.iterations && !program.slots[slot].is_integer)
      found[slot] = correction_of(numbers, counters, bases);
  }
  Schedules(program, counters, found).find();
  Corrections corrections(program);
  for (OpId id = 0; id < program.ops.size(); ++id) {
    for (Operand& input : program.ops[id].inputs) {
      if (!input.is_scalar() || input.scalar.slot == kNone || input.scalar.slot >= found.size() ||
          !found[input.scalar.slot])
        continue;
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
