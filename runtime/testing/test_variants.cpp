// Recordings of several variants for tests: see test_variants.hpp.
#include "runtime/testing/test_variants.hpp"

#include <random>
#include <span>

#include "core/graph/reference.hpp"
#include "runtime/testing/test_programs.hpp"

namespace crucible::runtime {

using graph::OpKind;
using graph::ValueId;

namespace {

constexpr std::int64_t kSize = 40;

/// Three programs over the states a, b and c. The first moves a by an input, the second b by a, and neither touches c;
/// the third changes nothing and gives back what it makes of all.
std::vector<graph::Program> programs() {
  std::vector<graph::Program> all;
  for (int kind = 0; kind < 3; ++kind) {
    ProgramBuilder p;
    const ValueId a = p.state("a", {kSize}), b = p.state("b", {kSize}), c = p.state("c", {kSize});
    if (kind == 0) {
      const ValueId x = p.input("x", {kSize}), factor = p.constant("factor", {kSize});
      const ValueId step = p.op(OpKind::kMultiply, {p.whole(x), p.whole(factor)}, {kSize});
      const ValueId moved = p.op(OpKind::kAdd, {p.whole(a), p.whole(step)}, {kSize});
      p.end_state(a, moved);
      p.loss("loss", moved);
    } else if (kind == 1) {
      const ValueId product = p.op(OpKind::kMultiply, {p.whole(a), p.from_slot(p.slot("rate"))}, {kSize});
      const ValueId moved = p.op(OpKind::kSubtract, {p.whole(b), p.whole(product)}, {kSize});
      p.end_state(b, moved);
      p.loss("loss", product);
    } else {
      const ValueId sum = p.op(OpKind::kAdd, {p.whole(a), p.whole(b)}, {kSize});
      const ValueId all_of_it =
          p.op(OpKind::kTanh, {p.whole(p.op(OpKind::kMaximum, {p.whole(sum), p.whole(c)}, {kSize}))}, {kSize});
      p.output("logits", p.whole(all_of_it));
    }
    p.program.is_variant = true;
    all.push_back(std::move(p.program));
  }
  return all;
}

}  // namespace

VariantRecording recorded_variants(std::uint32_t seed, std::uint32_t turns) {
  VariantRecording recording;
  std::mt19937 random(seed);
  const auto fresh = [&] {
    std::vector<float> numbers(kSize);
    for (float& number : numbers) number = std::normal_distribution<float>()(random);
    const auto bytes = std::as_bytes(std::span(numbers));
    return recording.blobs->add(std::vector<std::byte>(bytes.begin(), bytes.end()));
  };
  std::vector<graph::Program> all = programs();
  for (std::size_t k = 0; k < 3; ++k) {
    const std::uint32_t initial = fresh();
    for (graph::Program& program : all) program.states[k].initial_blob = initial;
  }
  all[0].constants[0].blob = fresh();
  for (std::uint32_t i = 0; i < turns; ++i) {
    const auto v = static_cast<std::uint32_t>(random() % 3);
    graph::Turn turn{.variant = v, .index = all[v].iterations++, .iteration = i, .given = {}};
    if (random() % 3 == 0) turn.given.push_back({static_cast<std::uint32_t>(random() % 3), fresh(), true});
    if (random() % 3 == 0) {  // what two states held changes places, or one takes over another's
      const auto a = static_cast<std::uint32_t>(random() % 3), b = static_cast<std::uint32_t>(random() % 3);
      turn.given.push_back({.state = a, .from = b});
      if (random() % 2 == 0 && a != b) turn.given.push_back({.state = b, .from = a});
    }
    recording.variants->turns.push_back(std::move(turn));
    if (v == 0) all[0].inputs[0].blobs.push_back(fresh());
    if (v == 1) all[1].slots[0].values.push_back(0.25 + 0.5 * static_cast<double>(random() % 8));
  }
  const auto publish = [&] {
    recording.variants->programs.clear();
    for (const graph::Program& program : all)
      recording.variants->programs.push_back(std::make_shared<const graph::Program>(program));
  };
  recording.variants->differences.resize(all.size());
  publish();
  const auto replay = graph::replay_reference(*recording.variants, *recording.blobs, turns);
  if (!replay) return recording;                                      // the test sees outputs without recorded values
  for (graph::Output& output : all[2].outputs) output.blobs.clear();  // what made it a tensor before it was recorded
  for (std::uint32_t i = 0; i < turns; ++i) {
    graph::Program& program = all[recording.variants->turns[i].variant];
    for (graph::Output& output : program.outputs) {
      if (&program == &all[2]) {
        output.blobs.push_back(recording.blobs->add(*replay->tensors[i][0]));
      } else {
        output.recorded.push_back(replay->outputs[i][0]);
      }
    }
  }
  for (std::size_t k = 0; k < 3; ++k) {
    const std::uint32_t last = recording.blobs->add(replay->states[k]);
    for (graph::Program& program : all) program.states[k].final_blob = last;
  }
  publish();
  return recording;
}

graph::Program with_error(graph::Program program, graph::OpId op, double factor) {
  const ValueId right = program.ops[op].outputs[0].value, wrong = static_cast<ValueId>(program.values.size());
  program.values.push_back(program.values[right]);
  for (graph::Op& other : program.ops) {
    for (graph::Operand& input : other.inputs) input.value = input.value == right ? wrong : input.value;
  }
  for (graph::Output& output : program.outputs)
    output.operand.value = output.operand.value == right ? wrong : output.operand.value;
  for (graph::State& state : program.states) state.end = state.end == right ? wrong : state.end;
  graph::Operand whole, number, result;
  whole.value = right, result.value = wrong, number.scalar.real = factor;
  whole.view = result.view = graph::View::contiguous({program.values[right].elements});
  program.ops.insert(program.ops.begin() + op + 1, {.kind = OpKind::kMultiply,
                                                    .inputs = {whole, number},
                                                    .outputs = {result},
                                                    .attributes = {},
                                                    .source = graph::kNone});
  for (graph::OpId id = 0; id < program.ops.size(); ++id) {
    for (const graph::Operand& output : program.ops[id].outputs) program.values[output.value].producer = id;
  }
  return program;
}

}  // namespace crucible::runtime
