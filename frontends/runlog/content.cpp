#include "frontends/runlog/content.hpp"

#include <fmt/format.h>

#include <string>

#include "core/graph/program_hash.hpp"
#include "runtime/judge/result_hash.hpp"

namespace crucible::runlog {
namespace {

/// Lines as result_hash.hpp hashes them: names are lengthened by their length, so that none can look like another line.
class Lines {
 public:
  void add(const std::string& line) { hash_.update(std::as_bytes(std::span(line))); }
  ContentHash finish() { return hash_.finish(); }

 private:
  Sha256 hash_;
};

std::string named(std::string_view name) { return fmt::format("{}:{}", name.size(), name); }

std::string blob_text(std::uint32_t blob, std::span<const trace::Blob> blobs) {
  return blob < blobs.size() ? blobs[blob].hash.hex() : fmt::format("unknown {}", blob);
}

std::vector<ContentHash> hashes_of(std::span<const trace::Blob> blobs) {
  std::vector<ContentHash> hashes;
  hashes.reserve(blobs.size());
  for (const trace::Blob& blob : blobs) hashes.push_back(blob.hash);
  return hashes;
}

const graph::Program& program_of(const graph::Variants& variants, std::size_t index) {
  return *variants.programs[variants.turns[index].variant];
}

}  // namespace

Result<std::vector<NamedState>> states_of(const runtime::Session& session) {
  const graph::Program& program = session.program();
  std::vector<NamedState> states;
  states.reserve(program.states.size());
  for (const graph::State& state : program.states) {
    const graph::Value& value = program.values[state.start];
    CRUCIBLE_TRY(const std::vector<std::byte> bytes, session.state_bytes(state));
    states.push_back({.name = value.name,
                      .dtype = std::string(crucible::name(value.dtype)),
                      .elements = static_cast<std::uint64_t>(value.elements),
                      .hash = runtime::hash_of_elements(value.dtype, bytes)});
  }
  return states;
}

ContentHash root_of(std::span<const NamedState> states) {
  Lines lines;
  for (const NamedState& state : states)
    lines.add(fmt::format("state {} {} {} {}\n", named(state.name), state.dtype, state.elements, state.hash.hex()));
  return lines.finish();
}

ContentHash hash_of_inputs(const graph::Variants& variants, std::size_t index, std::span<const trace::Blob> blobs) {
  const graph::Turn& turn = variants.turns[index];
  const graph::Program& program = program_of(variants, index);
  Lines lines;
  for (const graph::Input& input : program.inputs) {
    const graph::Value& value = program.values[input.value];
    const std::uint32_t blob = turn.index < input.blobs.size() ? input.blobs[turn.index] : graph::kNone;
    lines.add(fmt::format("{} {} {} {} {}\n", input.is_draw ? "draw" : "input", named(value.name),
                          crucible::name(value.dtype), value.elements, blob_text(blob, blobs)));
  }
  for (const graph::Given& given : turn.given) {
    const std::string what =
        given.blob == graph::kNone ? fmt::format("state {}", given.from) : blob_text(given.blob, blobs);
    lines.add(fmt::format("given {} {}\n", given.state, what));
  }
  return lines.finish();
}

ContentHash hash_of_slots(const graph::Variants& variants, std::size_t index) {
  const graph::Turn& turn = variants.turns[index];
  Lines lines;
  for (const graph::Slot& slot : program_of(variants, index).slots) {
    const graph::Number number = turn.index < slot.values.size() ? slot.values[turn.index] : graph::Number();
    lines.add(fmt::format("slot {} {} {:016x}\n", named(slot.name), slot.is_integer ? "i64" : "f64", number.bits()));
  }
  return lines.finish();
}

Result<ContentHash> hash_of_outputs(const runtime::Session& session, const graph::Variants& variants, std::size_t index,
                                    const runtime::IterationResult& result) {
  const graph::Program& program = program_of(variants, index);
  Lines lines;
  for (std::size_t k = 0; k < result.losses.size(); ++k) {
    const std::span loss(&result.losses[k], 1);
    lines.add(fmt::format("loss {} {}\n", named(program.outputs[k].name),
                          runtime::hash_of_elements(DType::kF64, std::as_bytes(loss)).hex()));
  }
  for (std::size_t k = 0; k < program.outputs.size(); ++k) {
    const graph::Output& output = program.outputs[k];
    if (!output.is_tensor()) continue;
    const DType dtype = program.values[output.operand.value].dtype;
    CRUCIBLE_TRY(const std::vector<std::byte> bytes, session.output_bytes(k));
    lines.add(fmt::format("output {} {} {}\n", named(output.name), crucible::name(dtype),
                          runtime::hash_of_elements(dtype, bytes).hex()));
  }
  return lines.finish();
}

ContentHash hash_of_programs(const graph::Variants& variants, std::span<const trace::Blob> blobs) {
  const std::vector<ContentHash> constants = hashes_of(blobs);
  if (variants.programs.size() == 1) return graph::program_hash(*variants.programs[0], constants);
  Lines lines;
  for (std::size_t at = 0; at < variants.programs.size(); ++at)
    lines.add(fmt::format("{} {}\n", at, graph::program_hash(*variants.programs[at], constants).hex()));
  return lines.finish();
}

}  // namespace crucible::runlog
