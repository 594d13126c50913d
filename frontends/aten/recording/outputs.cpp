// Outputs of inference in the program: see outputs.hpp.
#include "frontends/aten/recording/outputs.hpp"

#include <fmt/format.h>

#include <map>
#include <unordered_set>

#include "core/base/words.hpp"
#include "core/graph/view.hpp"
#include "core/trace/text.hpp"
#include "frontends/aten/complex/complex.hpp"

namespace crucible::aten {

Outputs::Outputs(const trace::Trace& trace, const Alignment& alignment) : trace_(trace), alignment_(alignment) {
  const std::unordered_set<std::uint32_t> own(alignment.iterations.begin(), alignment.iterations.end());
  for (const trace::Output& output : trace.outputs) {
    if (own.contains(output.iteration)) named_[{output.iteration, output.name}].push_back(&output);
  }
}

void Outputs::read(StorageMap& storages) {
  std::map<std::string, std::size_t> occurrences;
  for (const trace::Output& output : trace_.outputs) {
    if (output.iteration != alignment_.iterations[0]) continue;
    std::vector<trace::BlobId> blobs = {output.blob};
    std::string why = obstacle(output, storages);
    if (why.empty()) why = find_partners(output, occurrences[output.name]++, blobs);
    if (why.empty()) {
      found_.push_back({printable(output.name),
                        is_complex(trace_.tensors[output.tensor].dtype) ? storages.read_pairs(output.tensor)
                                                                        : storages.read(output.tensor),
                        std::move(blobs)});
    } else {
      left_out_.push_back(fmt::format("{}: {}", printable(output.name), why));
    }
  }
}

std::string Outputs::obstacle(const trace::Output& output, const StorageMap& storages) const {
  const trace::Tensor& recorded = trace_.tensors[output.tensor];
  const trace::Tensor tensor = is_complex(recorded.dtype) ? as_pairs(recorded) : recorded;
  const StorageMap::Entry* entry = storages.find(tensor.storage);
  if (entry == nullptr || !alignment_.to_first[0].contains(tensor.storage)) {
    return "no recorded op reads or writes it";
  }
  if (size_bytes(tensor.dtype) == 0)
    return fmt::format("it is {} in memory that holds {}", name(tensor.dtype), name(entry->dtype));
  const auto last = graph::last_index({tensor.offset, tensor.sizes, tensor.strides});
  return last && *last < entry->elements_as(tensor.dtype) ? "" : "it is larger than its memory when the iteration ends";
}

/// The same output of the other iterations: by name, and by number where a name stands several times.
std::string Outputs::find_partners(const trace::Output& output, std::size_t occurrence,
                                   std::vector<trace::BlobId>& blobs) const {
  const trace::Tensor& tensor = trace_.tensors[output.tensor];
  for (std::size_t i = 1; i < alignment_.count(); ++i) {
    const auto partners = named_.find({alignment_.iterations[i], output.name});
    if (partners == named_.end() || occurrence >= partners->second.size()) {
      return fmt::format("iteration {} did not give it back", alignment_.iterations[i]);
    }
    const trace::Output* partner = partners->second[occurrence];
    trace::Tensor own = trace_.tensors[partner->tensor];
    const auto first = alignment_.to_first[i].find(own.storage);
    own.storage = first == alignment_.to_first[i].end() ? trace::kNone : first->second;
    const bool same = own.storage == tensor.storage && own.dtype == tensor.dtype && own.offset == tensor.offset &&
                      own.sizes == tensor.sizes && own.strides == tensor.strides;
    if (!same) return fmt::format("it is another result in iteration {}", alignment_.iterations[i]);
    blobs.push_back(partner->blob);
  }
  return "";
}

void Outputs::finish(Emitter& emitter) {
  graph::Program& program = emitter.program();
  emitter.set_source(graph::kNone);
  std::unordered_set<graph::ValueId> overwritten;
  for (const graph::State& state : program.states) {
    if (state.end != state.start) overwritten.insert(state.start);
  }
  for (Found& found : found_) {
    if (overwritten.contains(found.term.operand.value))
      found.term = emitter.copy(found.term);  // the state's end takes its place
    program.outputs.push_back({std::move(found.name), found.term.operand, {}, std::move(found.blobs)});
  }
  program.left_out = std::move(left_out_);
}

}  // namespace crucible::aten
