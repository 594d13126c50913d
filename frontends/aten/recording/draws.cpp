// Recorded random values: see draws.hpp.
#include "frontends/aten/recording/draws.hpp"

#include <fmt/format.h>

#include <unordered_set>

namespace crucible::aten {

Draws::Draws(const trace::Trace& trace, const Alignment& alignment, Emitter& emitter)
    : alignment_(alignment), emitter_(emitter) {
  std::unordered_set<std::uint32_t> own;  // of a thousand groups each would keep the draws of all
  for (const auto& ops : alignment.ops) own.insert(ops.begin(), ops.end());
  for (const trace::Draw& draw : trace.draws) {
    if (own.contains(draw.op)) blobs_[{draw.op, draw.output}] = draw.blob;
  }
}

trace::BlobId Draws::blob(std::size_t iteration, std::uint32_t position, std::uint32_t k) const {
  const auto found = blobs_.find({alignment_.ops[iteration][position], k});
  return found == blobs_.end() ? trace::kNone : found->second;
}

bool Draws::has(std::uint32_t position, std::uint32_t k) const { return blob(0, position, k) != trace::kNone; }

Term Draws::read(std::uint32_t position, std::uint32_t k, const trace::Tensor& tensor) {
  graph::Input input;
  input.is_draw = true;
  Term term;
  term.dtype = tensor.dtype;
  term.operand.view = graph::View::contiguous(tensor.sizes);
  for (std::size_t i = 0; i < alignment_.count(); ++i) {
    input.blobs.push_back(blob(i, position, k));
    if (input.blobs.back() == trace::kNone) {
      emitter_.fail(fmt::format("the values it drew in iteration {} are not in the recording", i));
      return Term::number(0);
    }
  }
  input.value = emitter_.outside_value(graph::ValueKind::kInput, tensor.dtype, term.elements(), "");
  emitter_.program().inputs.push_back(input);
  term.operand.value = input.value;
  return term;
}

}  // namespace crucible::aten
