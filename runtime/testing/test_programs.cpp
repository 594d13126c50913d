// Hand-made programs for tests.
#include "runtime/testing/test_programs.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <span>

#include "core/graph/reference.hpp"

namespace crucible::runtime {

using graph::kNone;
using graph::Operand;
using graph::OpKind;
using graph::ValueId;
using graph::ValueKind;
using graph::View;

ValueId ProgramBuilder::value(ValueKind kind, const std::string& name, std::vector<std::int64_t> sizes) {
  graph::Value value;
  value.kind = kind;
  value.name = name;
  value.elements = View::contiguous(sizes).elements();
  program.values.push_back(value);
  sizes_.push_back(std::move(sizes));
  return static_cast<ValueId>(program.values.size() - 1);
}

ValueId ProgramBuilder::state(const std::string& name, std::vector<std::int64_t> sizes) {
  const ValueId id = value(ValueKind::kState, name, std::move(sizes));
  program.states.push_back({id, id, kNone, kNone});
  return id;
}

ValueId ProgramBuilder::input(const std::string& name, std::vector<std::int64_t> sizes) {
  const ValueId id = value(ValueKind::kInput, name, std::move(sizes));
  program.inputs.push_back({id, {}, false});
  return id;
}

ValueId ProgramBuilder::constant(const std::string& name, std::vector<std::int64_t> sizes) {
  const ValueId id = value(ValueKind::kConstant, name, std::move(sizes));
  program.constants.push_back({id, kNone});
  return id;
}

graph::SlotId ProgramBuilder::slot(const std::string& name) {
  program.slots.push_back({name, {}});
  return static_cast<graph::SlotId>(program.slots.size() - 1);
}

Operand ProgramBuilder::whole(ValueId value) const { return {value, View::contiguous(sizes_[value]), {}}; }

Operand ProgramBuilder::transposed(ValueId value) const {
  Operand operand = whole(value);
  const std::size_t rank = operand.view.sizes.size();
  std::swap(operand.view.sizes[rank - 1], operand.view.sizes[rank - 2]);
  std::swap(operand.view.strides[rank - 1], operand.view.strides[rank - 2]);
  return operand;
}

Operand ProgramBuilder::number(double value) {
  Operand operand;
  operand.scalar.real = value;
  return operand;
}

Operand ProgramBuilder::from_slot(graph::SlotId slot) {
  Operand operand;
  operand.scalar.slot = slot;
  return operand;
}

ValueId ProgramBuilder::op(OpKind kind, std::vector<Operand> inputs, std::vector<std::int64_t> sizes,
                           graph::Attributes attributes) {
  const ValueId result = value(ValueKind::kTemporary, "", std::move(sizes));
  program.values[result].producer = static_cast<graph::OpId>(program.ops.size());
  graph::Op op;
  op.kind = kind;
  op.inputs = std::move(inputs);
  op.outputs = {whole(result)};
  if (graph::is_reduction(kind)) {
    for (const std::int64_t dim : attributes.dims) op.outputs[0].view.strides[static_cast<std::size_t>(dim)] = 0;
  }
  op.attributes = std::move(attributes);
  program.ops.push_back(std::move(op));
  return result;
}

ValueId ProgramBuilder::loss(const std::string& name, ValueId value) {
  graph::Attributes all;
  for (std::size_t dim = 0; dim < sizes_[value].size(); ++dim) all.dims.push_back(static_cast<std::int64_t>(dim));
  const ValueId sum = op(OpKind::kReduceSum, {whole(value)}, std::vector<std::int64_t>(sizes_[value].size(), 1), all);
  program.outputs.push_back({name, {sum, View::contiguous({}), {}}, {}});
  return sum;
}

void ProgramBuilder::output(const std::string& name, graph::Operand operand) {
  program.outputs.push_back({name, std::move(operand), {}, {graph::kNone}});  // record() knows how many iterations
}

void ProgramBuilder::end_state(ValueId start, ValueId end) {
  for (graph::State& state : program.states) {
    if (state.start == start) state.end = end;
  }
}

graph::RandomProgram deep_program(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  ProgramBuilder b;
  const auto side = static_cast<std::int64_t>(6 + random() % 18);
  const std::vector<std::int64_t> sizes = {side, side};
  graph::Attributes scaled;  // numbers stay about one
  scaled.alpha = 2 / std::sqrt(static_cast<double>(side));
  const std::uint32_t layers = 4 + static_cast<std::uint32_t>(random() % 24);
  ValueId x = b.input("x", sizes);
  std::vector<ValueId> weights, masks, entering, leaving;
  for (std::uint32_t layer = 0; layer < layers; ++layer) {
    const std::string name = "layer " + std::to_string(layer);
    weights.push_back(b.state(name, sizes));
    masks.push_back(layer % 3 == 0 ? b.input("mask " + name, sizes) : kNone);
    entering.push_back(x);
    ValueId y = b.op(OpKind::kMatMul, {b.whole(x), b.whole(weights.back())}, sizes, scaled);
    if (random() % 2 == 0) y = b.op(OpKind::kTanh, {b.whole(y)}, sizes);
    if (masks.back() != kNone) y = b.op(OpKind::kMultiply, {b.whole(y), b.whole(masks.back())}, sizes);
    x = layer > 0 && random() % 3 == 0 ? b.op(OpKind::kAdd, {b.whole(y), b.whole(entering[layer / 2])}, sizes) : y;
    leaving.push_back(y);
  }
  b.loss("loss", x);
  ValueId gradient = b.op(OpKind::kSin, {b.whole(x)}, sizes);
  for (std::uint32_t layer = layers; layer-- > 0;) {
    if (masks[layer] != kNone) gradient = b.op(OpKind::kMultiply, {b.whole(gradient), b.whole(masks[layer])}, sizes);
    gradient = b.op(OpKind::kMultiply, {b.whole(gradient), b.whole(leaving[layer])}, sizes);
    const ValueId change = b.op(OpKind::kMatMul, {b.transposed(entering[layer]), b.whole(gradient)}, sizes, scaled);
    gradient = b.op(OpKind::kMatMul, {b.whole(gradient), b.transposed(weights[layer])}, sizes, scaled);
    b.end_state(weights[layer], b.op(OpKind::kSubtract, {b.whole(weights[layer]), b.whole(change)}, sizes));
  }
  graph::RandomProgram result{.program = std::move(b.program), .values = {}, .slots = {}};
  std::uniform_real_distribution<float> number(-1, 1);
  for (const graph::Value& value : result.program.values) {
    graph::Bytes& bytes = result.values.emplace_back();
    if (value.kind == graph::ValueKind::kTemporary) continue;
    std::vector<float> numbers(static_cast<std::size_t>(value.elements));
    for (float& element : numbers) element = number(random);
    const auto raw = std::as_bytes(std::span(numbers));
    bytes.assign(raw.begin(), raw.end());
  }
  return result;
}

graph::Program training_step() {
  ProgramBuilder b;
  const std::vector<std::int64_t> in = {16, 12}, hidden = {16, 20}, out = {16, 5}, first = {12, 20}, second = {20, 5};
  const ValueId x = b.input("x", in), target = b.input("target", out);
  const ValueId w1 = b.state("w1", first), w2 = b.state("w2", second);
  const ValueId m1 = b.state("momentum of w1", first), m2 = b.state("momentum of w2", second);
  const graph::SlotId rate = b.slot("lr");
  const ValueId h = b.op(OpKind::kMatMul, {b.whole(x), b.whole(w1)}, hidden);
  const ValueId a = b.op(OpKind::kTanh, {b.whole(h)}, hidden);
  const ValueId y = b.op(OpKind::kMatMul, {b.whole(a), b.whole(w2)}, out);
  const ValueId error = b.op(OpKind::kSubtract, {b.whole(y), b.whole(target)}, out);
  const ValueId square = b.op(OpKind::kMultiply, {b.whole(error), b.whole(error)}, out);
  b.loss("loss", square);
  const ValueId dy = b.op(OpKind::kMultiply, {b.whole(error), b.number(2)}, out);
  const ValueId g2 = b.op(OpKind::kMatMul, {b.transposed(a), b.whole(dy)}, second);
  const ValueId da = b.op(OpKind::kMatMul, {b.whole(dy), b.transposed(w2)}, hidden);
  const ValueId aa = b.op(OpKind::kMultiply, {b.whole(a), b.whole(a)}, hidden);
  const ValueId slope = b.op(OpKind::kSubtract, {b.number(1), b.whole(aa)}, hidden);
  const ValueId dh = b.op(OpKind::kMultiply, {b.whole(da), b.whole(slope)}, hidden);
  const ValueId g1 = b.op(OpKind::kMatMul, {b.transposed(x), b.whole(dh)}, first);
  const auto step = [&](ValueId weight, ValueId momentum, ValueId gradient, const std::vector<std::int64_t>& sizes) {
    const ValueId decayed = b.op(OpKind::kMultiply, {b.whole(weight), b.number(0.01)}, sizes);
    const ValueId full = b.op(OpKind::kAdd, {b.whole(gradient), b.whole(decayed)}, sizes);
    const ValueId kept = b.op(OpKind::kMultiply, {b.whole(momentum), b.number(0.9)}, sizes);
    const ValueId moved = b.op(OpKind::kAdd, {b.whole(kept), b.whole(full)}, sizes);
    const ValueId scaled = b.op(OpKind::kMultiply, {b.whole(moved), b.from_slot(rate)}, sizes);
    const ValueId next = b.op(OpKind::kSubtract, {b.whole(weight), b.whole(scaled)}, sizes);
    b.end_state(momentum, moved);
    b.end_state(weight, next);
  };
  step(w1, m1, g1, first);
  step(w2, m2, g2, second);
  return std::move(b.program);
}

namespace {

std::vector<std::byte> random_floats(std::int64_t elements, std::mt19937& random) {
  std::vector<float> numbers(static_cast<std::size_t>(elements));
  std::uniform_real_distribution<float> distribution(-0.5f, 0.5f);
  for (float& number : numbers) number = distribution(random);
  std::vector<std::byte> bytes(numbers.size() * sizeof(float));
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

/// Losses, outputs and final states as the reference interpreter computes them.
void add_recorded_results(Recording& recording, std::uint32_t iterations) {
  recording.program.iterations = iterations;
  const auto replayed = graph::replay_reference(recording.program, *recording.blobs, iterations);
  if (!replayed) return;  // the test sees outputs without recorded values
  std::size_t tensor = 0;
  for (std::size_t output = 0; output < recording.program.outputs.size(); ++output) {
    if (recording.program.outputs[output].is_bounds()) continue;
    if (recording.program.outputs[output].is_tensor()) {
      std::vector<std::uint32_t>& blobs = recording.program.outputs[output].blobs;
      blobs.clear();
      for (const auto& tensors : replayed->tensors) blobs.push_back(recording.blobs->add(*tensors[tensor]));
      ++tensor;
      continue;
    }
    std::vector<double>& recorded = recording.program.outputs[output].recorded;
    recorded.clear();
    for (const std::vector<double>& numbers : replayed->outputs) recorded.push_back(numbers[output]);
  }
  for (std::size_t state = 0; state < recording.program.states.size(); ++state) {
    recording.program.states[state].final_blob = recording.blobs->add(replayed->states[state]);
  }
}

}  // namespace

Recording record(graph::Program program, std::uint32_t iterations, std::uint32_t seed) {
  Recording recording{std::move(program), std::make_shared<trace::MemoryBlobStore>()};
  std::mt19937 random(seed);
  const auto fresh = [&](ValueId value) {
    return recording.blobs->add(random_floats(recording.program.values[value].elements, random));
  };
  for (graph::State& state : recording.program.states) state.initial_blob = fresh(state.start);
  for (graph::Constant& constant : recording.program.constants) constant.blob = fresh(constant.value);
  for (graph::Input& input : recording.program.inputs) {
    for (std::uint32_t i = 0; i < iterations; ++i) input.blobs.push_back(fresh(input.value));
  }
  for (graph::Slot& slot : recording.program.slots) {
    for (std::uint32_t i = 0; i < iterations; ++i) slot.values.push_back(0.02 / (1 + i));
  }
  add_recorded_results(recording, iterations);
  return recording;
}

Recording record(graph::RandomProgram random, std::uint32_t iterations) {
  Recording recording{std::move(random.program), std::make_shared<trace::MemoryBlobStore>()};
  const auto keep = [&](ValueId value) { return recording.blobs->add(random.values[value]); };
  for (graph::State& state : recording.program.states) state.initial_blob = keep(state.start);
  for (graph::Constant& constant : recording.program.constants) constant.blob = keep(constant.value);
  for (graph::Input& input : recording.program.inputs) input.blobs.assign(iterations, keep(input.value));
  for (std::size_t slot = 0; slot < recording.program.slots.size(); ++slot) {
    recording.program.slots[slot].values.clear();
    for (std::uint32_t i = 0; i < iterations; ++i)
      recording.program.slots[slot].values.push_back(random.slots[slot].real() / (1 + i));
  }
  add_recorded_results(recording, iterations);
  return recording;
}

kernel::Schedule naive_schedule(const graph::Program& program, bool in_place) {
  kernel::Schedule schedule;
  std::vector<std::uint32_t> last_read(program.values.size(), kNone);
  for (std::uint32_t step = 0; step < program.ops.size(); ++step) {
    for (const Operand& operand : program.ops[step].inputs) {
      if (!operand.is_scalar()) last_read[operand.value] = step;
    }
  }
  for (std::uint32_t index = 0; index < program.ops.size(); ++index) {
    const graph::Op& op = program.ops[index];
    kernel::Step step;
    step.ops = {index};
    step.kernel = 0;
    for (const Operand& operand : op.inputs) {
      const auto same = [&](const kernel::BufferArgument& argument) { return argument.value == operand.value; };
      if (!operand.is_scalar() && std::ranges::none_of(step.buffers, same))
        step.buffers.push_back({operand.value, false});
    }
    for (const Operand& output : op.outputs) step.buffers.push_back({output.value, true});
    for (const Operand& operand : op.inputs) {
      if (!in_place || operand.is_scalar() || !graph::is_elementwise(op.kind)) continue;
      const auto conflicts = [&](const Operand& other) {
        return other.value == operand.value && !(other.view == op.outputs[0].view);
      };
      if (last_read[operand.value] != index || std::ranges::any_of(op.inputs, conflicts)) continue;
      if (program.values[operand.value].kind == ValueKind::kConstant) continue;
      if (program.values[operand.value].elements != program.values[op.outputs[0].value].elements) continue;
      schedule.in_place.push_back({index, operand.value, op.outputs[0].value});
    }
    schedule.steps.push_back(std::move(step));
  }
  schedule.materialized.assign(program.values.size(), true);
  return schedule;
}

}  // namespace crucible::runtime
