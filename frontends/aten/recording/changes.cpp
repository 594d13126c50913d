// Memory that something other than an op changes while an iteration runs: see changes_of() in align_parts.hpp.
#include <algorithm>
#include <map>
#include <memory>
#include <unordered_map>
#include <unordered_set>

#include "frontends/aten/recording/align_parts.hpp"

namespace crucible::aten {

std::shared_ptr<const Changes> changes_of(const trace::Trace& trace) {
  auto changes = std::make_shared<Changes>();
  std::map<std::uint32_t, std::vector<const trace::External*>> externals;  // by op
  for (const trace::External& external : trace.externals) externals[external.op].push_back(&external);
  std::unordered_map<trace::TensorId, std::vector<trace::TensorId>> parts;  // of tensors without a storage
  for (const trace::CompoundTensor& compound : trace.compounds) {
    std::vector<trace::Arg> args;
    for (const auto& [name, part] : compound.parts) args.push_back(part);
    parts.emplace(compound.tensor, tensors_in(args));
  }
  for (const trace::Iteration& iteration : trace.iterations) {
    const std::uint32_t end = iteration.first_op + iteration.op_count;
    auto next = externals.lower_bound(iteration.first_op);
    if (!iteration.complete || next == externals.end() || next->first >= end) continue;
    std::unordered_set<trace::StorageId> used;
    const auto take = [&](std::uint32_t last, std::uint32_t op) {
      for (; next != externals.end() && next->first <= last; ++next) {
        for (const trace::External* external : next->second) {
          if (used.contains(external->storage)) (*changes)[op].push_back({external->storage, external});
        }
      }
    };
    for (std::uint32_t op = iteration.first_op; op < end; ++op) {
      if (!is_aligned(trace, trace.ops[op])) continue;
      take(op, op);
      for (const auto* args : {&trace.ops[op].args, &trace.ops[op].outputs}) {
        for (const auto id : tensors_in(*args)) {
          used.insert(trace.tensors[id].storage);
          const auto compound = parts.find(id);
          if (compound == parts.end()) continue;
          for (const auto part : compound->second) used.insert(trace.tensors[part].storage);
        }
      }
    }
    take(end - 1, trace::kNone);
  }
  return changes;
}

}  // namespace crucible::aten
