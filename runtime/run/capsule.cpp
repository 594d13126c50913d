// Cutting a capsule out of a running program: see capsule.hpp. Its file is in capsule_file.cpp.
#include "runtime/run/capsule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace crucible::runtime {
namespace {

using Bytes = std::vector<std::byte>;

std::size_t bytes_of(const graph::Value& value) {
  return static_cast<std::size_t>(value.elements) * size_bytes(value.dtype);
}

/// Copies ops into a program of their own; values, slots and sources get new numbers there.
class Cutter {
 public:
  Cutter(const graph::Program& program, const trace::BlobStore& blobs, Session& session, std::uint32_t iteration)
      : program_(program), blobs_(blobs), session_(session), iteration_(iteration) {
    capsule_.blobs = std::make_shared<trace::MemoryBlobStore>();
    capsule_.program.iterations = 1;
    capsule_.program.opaques = program.opaques;
    capsule_.program.composites = program.composites;
    // The session's outputs: the program's own, then every result in the order of the ops.
    std::uint32_t output = static_cast<std::uint32_t>(program.outputs.size());
    for (const graph::Op& op : program.ops) {
      for (const graph::Operand& result : op.outputs) output_of_[result.value] = output++;
    }
  }

  Result<Capsule> cut(std::span<const graph::OpId> ops) {
    std::set<graph::ValueId> states;
    for (const graph::OpId op : ops) {
      for (const graph::Operand& operand : program_.ops[op].inputs) {
        if (!operand.is_scalar() && program_.values[operand.value].kind == graph::ValueKind::kState)
          states.insert(operand.value);
      }
    }
    CRUCIBLE_TRY_VOID(session_.reset());
    for (std::uint32_t i = 0; i < iteration_; ++i) CRUCIBLE_TRY_VOID(session_.run_unjudged(i));
    for (const graph::State& state : program_.states) {
      if (!states.contains(state.start)) continue;
      CRUCIBLE_TRY(starts_[state.start], start_of(state));
    }
    CRUCIBLE_TRY_VOID(session_.run_unjudged(iteration_));
    for (const graph::OpId op : ops) CRUCIBLE_TRY_VOID(copy_op(program_.ops[op]));
    CRUCIBLE_TRY_VOID(graph::verify(capsule_.program));
    return std::move(capsule_);
  }

 private:
  Result<Bytes> start_of(const graph::State& state) const {
    if (iteration_ > 0) return session_.state_bytes(state);
    return bytes_of_blob(state.initial_blob, program_.values[state.start]);
  }

  Result<Bytes> bytes_of_blob(std::uint32_t blob, const graph::Value& value) const {
    if (blob == graph::kNone) return Bytes(bytes_of(value));
    return blobs_.load(blob);
  }

  /// What the value holds while the iteration reads it.
  Result<Bytes> content_of(graph::ValueId value) const {
    if (const auto start = starts_.find(value); start != starts_.end()) return start->second;
    if (const auto output = output_of_.find(value); output != output_of_.end())
      return session_.output_bytes(output->second);
    for (const graph::Input& input : program_.inputs) {
      if (input.value == value) return bytes_of_blob(input.blobs[iteration_], program_.values[value]);
    }
    for (const graph::Constant& constant : program_.constants) {
      if (constant.value == value) return bytes_of_blob(constant.blob, program_.values[value]);
    }
    return Error{ErrorCode::kInternal, fmt::format("value %{} is read, but nothing brings it", value)};
  }

  Result<void> copy_op(const graph::Op& op) {
    graph::Op copy = op;
    for (graph::Operand& operand : copy.inputs) {
      if (operand.is_scalar()) {
        if (operand.scalar.slot != graph::kNone) operand.scalar.slot = slot_of(operand.scalar.slot);
        continue;
      }
      if (!values_.contains(operand.value)) CRUCIBLE_TRY_VOID(add_input(operand.value));
      operand.value = values_.at(operand.value);
    }
    for (graph::Operand& result : copy.outputs) {
      const graph::ValueId old = result.value;
      result.value = add_value(old, graph::ValueKind::kTemporary);
      capsule_.program.values[result.value].producer = static_cast<graph::OpId>(capsule_.program.ops.size());
      CRUCIBLE_TRY(Bytes content, content_of(old));
      graph::Output output;
      output.name = fmt::format("{}: %{}", graph::name(op.kind), old);
      output.operand.value = result.value;
      output.operand.view = graph::View::contiguous({program_.values[old].elements});
      output.blobs = {capsule_.blobs->add(std::move(content))};
      capsule_.program.outputs.push_back(std::move(output));
    }
    if (op.source < program_.sources.size()) {
      copy.source = static_cast<std::uint32_t>(capsule_.program.sources.size());
      capsule_.program.sources.push_back(program_.sources[op.source]);
    }
    capsule_.program.ops.push_back(std::move(copy));
    return {};
  }

  Result<void> add_input(graph::ValueId old) {
    CRUCIBLE_TRY(Bytes content, content_of(old));
    const graph::ValueId value = add_value(old, graph::ValueKind::kInput);
    capsule_.program.inputs.push_back({.value = value, .blobs = {capsule_.blobs->add(std::move(content))}});
    return {};
  }

  graph::ValueId add_value(graph::ValueId old, graph::ValueKind kind) {
    const auto value = static_cast<graph::ValueId>(capsule_.program.values.size());
    capsule_.program.values.push_back(program_.values[old]);
    capsule_.program.values.back().kind = kind;
    capsule_.program.values.back().producer = graph::kNone;
    values_[old] = value;
    return value;
  }

  graph::SlotId slot_of(graph::SlotId old) {
    const auto [slot, is_new] = slots_.emplace(old, static_cast<graph::SlotId>(capsule_.program.slots.size()));
    if (is_new)
      capsule_.program.slots.push_back(
          {program_.slots[old].name, {program_.slots[old].values[iteration_]}, program_.slots[old].is_integer});
    return slot->second;
  }

  const graph::Program& program_;
  const trace::BlobStore& blobs_;
  Session& session_;
  const std::uint32_t iteration_;
  std::map<graph::ValueId, std::uint32_t> output_of_;  // of the session
  std::map<graph::ValueId, Bytes> starts_;             // of the states that are read
  std::map<graph::ValueId, graph::ValueId> values_;    // old to new
  std::map<graph::SlotId, graph::SlotId> slots_;
  Capsule capsule_;
};

/// Whether a capsule alone ends with different results on the two.
Result<bool> differs(const Capsule& capsule, const OpenSession& open_a, const OpenSession& open_b,
                     const SideBySideOptions& options) {
  const auto watched = std::make_shared<const graph::Program>(with_every_result(capsule.program));
  CRUCIBLE_TRY(const std::unique_ptr<Session> a, open_a(watched, capsule.blobs));
  CRUCIBLE_TRY(const std::unique_ptr<Session> b, open_b(watched, capsule.blobs));
  SideBySideOptions once = options;
  once.progress = nullptr;
  CRUCIBLE_TRY(const SideBySide report, run_side_by_side(capsule.program, *a, *b, once));
  return report.first.has_value();
}

/// Those that are up to `depth` steps from `op`, in the order of the program. neighbours(op, take) calls take(op) for
/// each one that is a step away, or take(kNone).
template <class Neighbours>
std::vector<graph::OpId> nearest(graph::OpId op, std::uint32_t depth, std::size_t most, const Neighbours& neighbours) {
  std::set<graph::OpId> found = {op};
  std::vector<graph::OpId> front = {op};
  for (; depth > 0 && !front.empty(); --depth) {
    std::vector<graph::OpId> next;
    for (const graph::OpId middle : front) {
      neighbours(middle, [&](graph::OpId other) {
        if (other != graph::kNone && found.size() < most && found.insert(other).second) next.push_back(other);
      });
    }
    front = std::move(next);
  }
  return {found.begin(), found.end()};
}

}  // namespace

std::vector<graph::OpId> ops_behind(const graph::Program& program, graph::OpId op, std::uint32_t depth,
                                    std::size_t most) {
  return nearest(op, depth, most, [&](graph::OpId reader, const auto& take) {
    for (const graph::Operand& operand : program.ops[reader].inputs) {
      if (!operand.is_scalar()) take(program.values[operand.value].producer);
    }
  });
}

std::vector<graph::OpId> ops_around(const graph::Program& program, graph::OpId op, std::uint32_t depth,
                                    std::size_t most) {
  std::vector<std::vector<graph::OpId>> readers(program.values.size());
  for (graph::OpId reader = 0; reader < program.ops.size(); ++reader) {
    for (const graph::Operand& operand : program.ops[reader].inputs) {
      if (!operand.is_scalar()) readers[operand.value].push_back(reader);
    }
  }
  return nearest(op, depth, most, [&](graph::OpId middle, const auto& take) {
    for (const graph::Operand& operand : program.ops[middle].inputs) {
      if (!operand.is_scalar()) take(program.values[operand.value].producer);
    }
    for (const graph::Operand& result : program.ops[middle].outputs) std::ranges::for_each(readers[result.value], take);
  });
}

Result<Capsule> cut_capsule(const graph::Program& program, const trace::BlobStore& blobs, Session& session,
                            std::uint32_t iteration, std::span<const graph::OpId> ops) {
  return Cutter(program, blobs, session, iteration).cut(ops);
}

Result<CutCapsule> cut_smallest_capsule(const graph::Program& program, const trace::BlobStore& blobs, Session& session,
                                        const ResultDifference& difference, const OpenSession& open_a,
                                        const OpenSession& open_b, const SideBySideOptions& options) {
  constexpr std::uint32_t kMostDepth = 16;
  CutCapsule cut;
  std::set<std::vector<graph::OpId>> tried;
  for (std::uint32_t depth = 0; depth <= kMostDepth; depth = depth == 0 ? 1 : 2 * depth) {
    for (const auto& ops : {ops_behind(program, difference.op, depth), ops_around(program, difference.op, depth)}) {
      if (!tried.insert(ops).second) continue;
      CRUCIBLE_TRY(cut.capsule, cut_capsule(program, blobs, session, difference.iteration, ops));
      CRUCIBLE_TRY(cut.is_reproduced, differs(cut.capsule, open_a, open_b, options));
      if (cut.is_reproduced) return cut;
    }
  }
  return cut;
}

}  // namespace crucible::runtime
