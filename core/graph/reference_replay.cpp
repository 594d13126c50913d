// Replay of a recording by the reference interpreter: blobs in, iterations in order, states carried.
#include <fmt/format.h>

#include "core/graph/queries.hpp"
#include "core/graph/reference.hpp"

namespace crucible::graph {
namespace {

Result<Bytes> load_value(const Program& program, const trace::BlobStore& blobs, ValueId value, std::uint32_t blob) {
  const Value& info = program.values[value];
  const std::size_t wanted = static_cast<std::size_t>(info.elements) * size_bytes(info.dtype);
  if (blob == kNone) return Bytes(wanted, std::byte{0});
  CRUCIBLE_TRY(auto bytes, blobs.load(blob));
  if (bytes.size() != wanted) {
    return Error{ErrorCode::kBadInput, fmt::format("blob {} has {} bytes, but value %{} ({}) needs {}", blob,
                                                   bytes.size(), value, info.name, wanted)};
  }
  return bytes;
}

Result<std::vector<Bytes>> starting_states(const Program& program, const trace::BlobStore& blobs) {
  std::vector<Bytes> states;
  for (const State& state : program.states) {
    CRUCIBLE_TRY(auto bytes, load_value(program, blobs, state.start, state.initial_blob));
    states.push_back(std::move(bytes));
  }
  return states;
}

/// Iteration `i` of the program, from the states of the replay so far.
Result<void> replay_one(const Program& program, const OutputTensors& shown, const trace::BlobStore& blobs,
                        std::uint32_t i, Roughness* rough, ReferenceReplay& replay) {
  std::vector<Bytes> values(program.values.size());
  for (std::size_t s = 0; s < program.states.size(); ++s) values[program.states[s].start] = replay.states[s];
  for (const Input& input : program.inputs) {
    CRUCIBLE_TRY(values[input.value], load_value(program, blobs, input.value, input.blobs[i]));
  }
  for (const Constant& constant : program.constants) {
    CRUCIBLE_TRY(values[constant.value], load_value(program, blobs, constant.value, constant.blob));
  }
  std::vector<Number> slots;
  for (const Slot& slot : program.slots) slots.push_back(slot.values[i]);
  CRUCIBLE_TRY(values, run_iteration(program, std::move(values), slots, rough));
  auto& outputs = replay.outputs.emplace_back();
  auto& tensors = replay.tensors.emplace_back();
  for (const Output& output : program.outputs) {
    if (output.is_number()) outputs.push_back(read_output(program, output, values));
  }
  for (std::size_t place = 0; place < shown.outputs.size(); ++place) {
    const std::size_t alike = shown.first_alike[place];
    tensors.push_back(alike < place
                          ? tensors[alike]
                          : std::make_shared<const Bytes>(read_tensor(program, *shown.outputs[place], values)));
  }
  for (std::size_t s = 0; s < program.states.size(); ++s) replay.states[s] = values[program.states[s].end];
  return {};
}

}  // namespace

Result<ReferenceReplay> replay_reference(const Program& program, const trace::BlobStore& blobs,
                                         std::uint32_t iterations, Roughness* rough) {
  ReferenceReplay replay;
  CRUCIBLE_TRY(replay.states, starting_states(program, blobs));
  const OutputTensors shown = output_tensors(program);
  for (std::uint32_t i = 0; i < iterations && i < program.iterations; ++i)
    CRUCIBLE_TRY_VOID(replay_one(program, shown, blobs, i, rough, replay));
  return replay;
}

Result<ReferenceReplay> replay_reference(const Variants& variants, const trace::BlobStore& blobs,
                                         std::uint32_t iterations, Roughness* rough) {
  ReferenceReplay replay;
  CRUCIBLE_TRY(replay.states, starting_states(*variants.programs[0], blobs));
  std::vector<OutputTensors> shown;
  for (const auto& program : variants.programs) shown.push_back(output_tensors(*program));
  for (std::uint32_t k = 0; k < iterations && k < variants.turns.size(); ++k) {
    const Turn& turn = variants.turns[k];
    const Program& program = *variants.programs[turn.variant];
    std::vector<Bytes> bytes;
    for (const Given& given : turn.given) {
      if (given.from == kNone) {
        CRUCIBLE_TRY(bytes.emplace_back(), load_value(program, blobs, program.states[given.state].start, given.blob));
      } else {
        bytes.push_back(replay.states[given.from]);
      }
    }
    for (std::size_t i = 0; i < bytes.size(); ++i) replay.states[turn.given[i].state] = std::move(bytes[i]);
    CRUCIBLE_TRY_VOID(replay_one(program, shown[turn.variant], blobs, turn.index, rough, replay));
  }
  return replay;
}

}  // namespace crucible::graph
