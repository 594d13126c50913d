// One function per table; each names its section and record.
#include "core/trace/validate.hpp"

#include <fmt/format.h>

#include "core/trace/container.hpp"
#include "core/trace/sections.hpp"

namespace crucible::trace {

namespace {

/// "" or what is wrong with an id; kNone is fine only where `may_be_none`.
std::string check_id(const char* what, std::uint32_t id, std::size_t table_size, bool may_be_none) {
  if (id < table_size || (may_be_none && id == kNone)) return "";
  if (id == kNone) return fmt::format("it has no {}", what);
  return fmt::format("{} {} does not exist: there are {}", what, id, table_size);
}

/// The first argument that is not empty.
std::string first_of(std::initializer_list<std::string> problems) {
  for (const std::string& problem : problems) {
    if (!problem.empty()) return problem;
  }
  return "";
}

std::string check_tensor(const Trace& trace, const Tensor& tensor) {
  if (tensor.sizes.size() != tensor.strides.size()) {
    return fmt::format("it has {} sizes and {} strides", tensor.sizes.size(), tensor.strides.size());
  }
  for (const std::int64_t size : tensor.sizes) {
    if (size < 0) return fmt::format("a size is negative: {}", size);
  }
  return check_id("storage", tensor.storage, trace.storages.size(), true);
}

std::string check_arg(const Trace& trace, const Arg& arg, int depth) {
  if (arg.kind == Arg::Kind::kTensor) return check_id("tensor", arg.tensor, trace.tensors.size(), false);
  if (arg.kind != Arg::Kind::kList) return "";
  if (depth == kMaxListDepth) return fmt::format("lists are nested deeper than {}", kMaxListDepth);
  for (const Arg& element : arg.list) {
    if (std::string problem = check_arg(trace, element, depth + 1); !problem.empty()) return problem;
  }
  return "";
}

std::string check_op(const Trace& trace, const Op& op) {
  std::string problem = first_of({check_id("schema", op.schema, trace.schemas.size(), false),
                                  check_id("site", op.site, trace.sites.size(), true),
                                  check_id("module", op.module, trace.modules.size(), true)});
  for (const auto* args : {&op.args, &op.outputs}) {
    for (std::size_t i = 0; i < args->size() && problem.empty(); ++i) problem = check_arg(trace, (*args)[i], 0);
  }
  return problem;
}

std::string check_iteration(const Trace& trace, const Iteration& iteration, std::uint64_t& free_from) {
  const std::uint64_t end = std::uint64_t{iteration.first_op} + iteration.op_count;
  if (iteration.first_op < free_from || end > trace.ops.size()) {
    return fmt::format("its ops {} to {} are not inside {} to {}", iteration.first_op, end, free_from,
                       trace.ops.size());
  }
  free_from = end;
  for (const Loss& loss : iteration.losses) {
    if (std::string problem = check_id("tensor", loss.tensor, trace.tensors.size(), false); !problem.empty())
      return problem;
  }
  return "";
}

std::string check_external(const Trace& trace, const External& external) {
  return first_of({check_id("storage", external.storage, trace.storages.size(), false),
                   check_id("iteration", external.iteration, trace.iterations.size(), false),
                   check_id("op", external.op, trace.ops.size(), false),
                   check_id("blob", external.blob, trace.blobs.size(), false)});
}

std::string check_draw(const Trace& trace, const Draw& draw) {
  std::string problem = first_of(
      {check_id("op", draw.op, trace.ops.size(), false), check_id("blob", draw.blob, trace.blobs.size(), false)});
  if (!problem.empty()) return problem;
  return check_id("output", draw.output, trace.ops[draw.op].outputs.size(), false);
}

std::string check_final_state(const Trace& trace, const FinalState& state) {
  return first_of({check_id("storage", state.storage, trace.storages.size(), false),
                   check_id("blob", state.blob, trace.blobs.size(), false)});
}

template <class Record, class Check>
Result<void> check_table(SectionId section, const std::vector<Record>& records, Check check) {
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (const std::string problem = check(records[i]); !problem.empty()) {
      return Error{ErrorCode::kBadInput,
                   fmt::format("section '{}' is inconsistent: record {}: {}", section_name(section), i, problem)};
    }
  }
  return {};
}

}  // namespace

Result<void> validate(const Trace& trace) {
  // Ids have 32 bits, and the last one means "none".
  if (trace.ops.size() >= kNone || trace.tensors.size() >= kNone || trace.storages.size() >= kNone) {
    return Error{ErrorCode::kBadInput,
                 fmt::format("the recording is too large: {} ops, {} tensors, {} storages, fewer than {} are allowed",
                             trace.ops.size(), trace.tensors.size(), trace.storages.size(), kNone)};
  }
  CRUCIBLE_TRY_VOID(check_table(SectionId::kTensors, trace.tensors,
                                [&](const Tensor& tensor) { return check_tensor(trace, tensor); }));
  CRUCIBLE_TRY_VOID(check_table(SectionId::kOps, trace.ops, [&](const Op& op) { return check_op(trace, op); }));
  std::uint64_t free_from = 0;
  CRUCIBLE_TRY_VOID(check_table(SectionId::kIterations, trace.iterations, [&](const Iteration& iteration) {
    return check_iteration(trace, iteration, free_from);
  }));
  CRUCIBLE_TRY_VOID(check_table(SectionId::kExternals, trace.externals,
                                [&](const External& external) { return check_external(trace, external); }));
  CRUCIBLE_TRY_VOID(
      check_table(SectionId::kDraws, trace.draws, [&](const Draw& draw) { return check_draw(trace, draw); }));
  CRUCIBLE_TRY_VOID(check_table(SectionId::kFinalStates, trace.final_states,
                                [&](const FinalState& state) { return check_final_state(trace, state); }));
  return check_table(SectionId::kNotRecorded, trace.not_recorded,
                     [&](const NotRecorded& item) { return check_id("site", item.site, trace.sites.size(), true); });
}

}  // namespace crucible::trace
