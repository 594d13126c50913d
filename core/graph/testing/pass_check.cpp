// Passes against the program as it was: see pass_check.hpp.
#include "core/graph/testing/pass_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <random>

#include "core/graph/program_hash.hpp"
#include "core/graph/reference.hpp"

namespace crucible::graph {
namespace {

/// Constants whose blob numbers are their values' numbers.
class ValueBlobs final : public trace::BlobStore {
 public:
  explicit ValueBlobs(const std::vector<Bytes>& values) : values_(values) {}
  Result<std::vector<std::byte>> load(trace::BlobId id) const override {
    if (id >= values_.size()) return Error{ErrorCode::kBadInput, fmt::format("there is no blob {}", id)};
    return values_[id];
  }

 private:
  const std::vector<Bytes>& values_;
};

bool same(const std::vector<Operand>& a, const std::vector<Operand>& b) {
  return std::ranges::equal(a, b, [](const Operand& x, const Operand& y) {
    return x.value == y.value && x.view == y.view && x.scalar.slot == y.scalar.slot &&
           x.scalar.is_integer == y.scalar.is_integer && x.scalar.integer == y.scalar.integer &&
           std::bit_cast<std::uint64_t>(x.scalar.real) == std::bit_cast<std::uint64_t>(y.scalar.real);
  });
}

bool same(const Attributes& a, const Attributes& b) {
  const auto pairs = [&](auto field) { return std::ranges::equal(a.*field, b.*field); };
  return a.dims == b.dims && a.index == b.index && a.alpha == b.alpha && a.region == b.region && a.groups == b.groups &&
         a.pieces == b.pieces && pairs(&Attributes::kernel) && pairs(&Attributes::stride) &&
         pairs(&Attributes::padding) && pairs(&Attributes::dilation);
}

/// True when a pass that made `b` of `a` changed nothing.
bool same(const Program& a, const Program& b) {
  const auto ops = [](const Op& x, const Op& y) {
    return x.kind == y.kind && x.source == y.source && same(x.inputs, y.inputs) && same(x.outputs, y.outputs) &&
           same(x.attributes, y.attributes);
  };
  const auto values = [](const Value& x, const Value& y) {
    return x.kind == y.kind && x.dtype == y.dtype && x.elements == y.elements && x.name == y.name &&
           x.producer == y.producer;
  };
  const auto states = [](const State& x, const State& y) { return x.start == y.start && x.end == y.end; };
  const auto outputs = [](const Output& x, const Output& y) { return same({x.operand}, {y.operand}); };
  return std::ranges::equal(a.ops, b.ops, ops) && std::ranges::equal(a.values, b.values, values) &&
         std::ranges::equal(a.states, b.states, states) && std::ranges::equal(a.outputs, b.outputs, outputs) &&
         a.slots.size() == b.slots.size() && a.inputs.size() == b.inputs.size() &&
         a.constants.size() == b.constants.size() && a.sources.size() == b.sources.size();
}

/// What a program gives: its outputs in order, and its states by the name of their start.
struct Given {
  std::vector<Bytes> outputs;
  std::map<std::string, Bytes> states;
};

class Checker {
 public:
  Checker(const RandomProgram& random, std::span<const Pass> passes, std::uint32_t iteration)
      : random_(random), passes_(passes), program_(random.program), blobs_(random.values) {
    // Passes renumber values and slots: what comes from outside is found again by name.
    for (ValueId v = 0; v < program_.values.size(); ++v) program_.values[v].name = std::to_string(v);
    for (SlotId s = 0; s < program_.slots.size(); ++s) {
      slots_.push_back(program_.slots[s].values[iteration % program_.iterations]);
      program_.slots[s].name = std::to_string(s);
    }
    for (Constant& constant : program_.constants) constant.blob = constant.value;
  }

  std::optional<PassFailure> run() {
    auto before = give(program_);
    if (!before) return PassFailure{"none", before.error().message};
    before_ = std::move(*before);
    for (const Pass& pass : passes_) {
      Program after = program_;
      if (auto failure = apply(pass, after)) return failure;
      if (auto failure = compare(std::string(pass.name), after)) return failure;
    }
    if (auto failure = check_pipeline()) return failure;
    return check_hash();
  }

 private:
  Result<Given> give(const Program& program) const {
    std::vector<Bytes> values(program.values.size());
    for (ValueId v = 0; v < program.values.size(); ++v) {
      const Value& value = program.values[v];
      if (value.kind != ValueKind::kTemporary) values[v] = random_.values[std::stoul(value.name)];
    }
    std::vector<Number> slots;
    for (const Slot& slot : program.slots) slots.push_back(slots_[std::stoul(slot.name)]);
    CRUCIBLE_TRY(values, run_iteration(program, std::move(values), slots));
    Given given;
    for (const Output& output : program.outputs) given.outputs.push_back(read_tensor(program, output, values));
    for (const State& state : program.states) given.states[program.values[state.start].name] = values[state.end];
    return given;
  }

  std::optional<PassFailure> apply(const Pass& pass, Program& program) const {
    const std::string name(pass.name);
    auto done = pass.run(program, PassContext{&blobs_});
    if (!done) return PassFailure{name, "it fails: " + done.error().message};
    if (auto valid = verify(program); !valid)
      return PassFailure{name, "it breaks the program: " + valid.error().message};
    return std::nullopt;
  }

  std::optional<PassFailure> compare(const std::string& pass, const Program& after) const {
    if (same(after, program_)) return std::nullopt;  // it changed nothing
    const auto given = give(after);
    if (!given) return PassFailure{pass, "its program does not run: " + given.error().message};
    for (std::size_t o = 0; o < before_.outputs.size(); ++o) {
      if (given->outputs.size() != before_.outputs.size() || given->outputs[o] != before_.outputs[o]) {
        return PassFailure{pass, fmt::format("output {} is another one", o)};
      }
    }
    for (const State& state : program_.states) {
      const std::string& name = program_.values[state.start].name;
      const auto found = given->states.find(name);
      // A state that nobody reads or changes may go.
      if (found == given->states.end() && state.end == state.start) continue;
      if (found == given->states.end())
        return PassFailure{pass, fmt::format("the state that starts as %{} is gone", name)};
      if (found->second != before_.states.at(name)) {
        return PassFailure{pass, fmt::format("the state that starts as %{} ends as another one", name)};
      }
    }
    return std::nullopt;
  }

  std::optional<PassFailure> check_pipeline() const {
    Program once = program_;
    for (const Pass& pass : passes_) {
      if (auto failure = apply(pass, once)) return PassFailure{"pipeline", failure->pass + ": " + failure->what};
    }
    if (auto failure = compare("pipeline", once)) return failure;
    Program twice = once;
    for (const Pass& pass : passes_) {
      if (auto failure = apply(pass, twice))
        return PassFailure{"pipeline", "again, " + failure->pass + ": " + failure->what};
      if (!same(twice, once)) {
        return PassFailure{"pipeline", fmt::format("pass {} changes something when all run again", pass.name)};
      }
    }
    return std::nullopt;
  }

  std::optional<PassFailure> check_hash() const {
    std::vector<ContentHash> constants(program_.values.size());
    for (const Constant& constant : program_.constants)
      constants[constant.blob] = sha256(random_.values[constant.value]);
    const Program other = renumbered(program_, program_.ops.size());
    if (auto valid = verify(other); !valid)
      return PassFailure{"hash", "renumbering is wrong: " + valid.error().message};
    if (program_hash(other, constants) == program_hash(program_, constants)) return std::nullopt;
    return PassFailure{"hash", "it depends on the numbers of values and slots"};
  }

  const RandomProgram& random_;
  std::span<const Pass> passes_;
  Program program_;
  ValueBlobs blobs_;
  std::vector<Number> slots_;
  Given before_;
};

}  // namespace

Program renumbered(const Program& program, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto shuffled = [&](std::size_t size) {
    std::vector<std::uint32_t> numbers(size);
    std::iota(numbers.begin(), numbers.end(), 0u);
    std::ranges::shuffle(numbers, random);
    return numbers;
  };
  const auto value = shuffled(program.values.size()), slot = shuffled(program.slots.size());
  Program other = program;
  for (ValueId v = 0; v < program.values.size(); ++v) {
    other.values[value[v]] = program.values[v];
    other.values[value[v]].name = "another name";
  }
  for (SlotId s = 0; s < program.slots.size(); ++s)
    other.slots[slot[s]] = {"another slot", program.slots[s].values, program.slots[s].is_integer};
  const auto rename = [&](Operand& o) {
    if (!o.is_scalar()) o.value = value[o.value];
    if (o.is_scalar() && o.scalar.slot != kNone) o.scalar.slot = slot[o.scalar.slot];
  };
  for (Op& op : other.ops) {
    op.source = kNone;
    std::ranges::for_each(op.inputs, rename);
    std::ranges::for_each(op.outputs, rename);
  }
  other.sources.clear();
  for (Output& output : other.outputs) rename(output.operand);
  for (State& state : other.states) state.start = value[state.start], state.end = value[state.end];
  for (Input& input : other.inputs) input.value = value[input.value];
  for (Constant& constant : other.constants) constant.value = value[constant.value];
  std::ranges::shuffle(other.states, random);
  std::ranges::shuffle(other.inputs, random);
  std::ranges::shuffle(other.constants, random);
  return other;
}

std::optional<PassFailure> check_passes(const RandomProgram& random, std::span<const Pass> passes,
                                        std::uint32_t iteration) {
  return Checker(random, passes, iteration).run();
}

}  // namespace crucible::graph
