// One function per record; each says what is wrong in words, the caller names section and record.
#include "core/trace/validate.hpp"

#include <fmt/format.h>

#include <algorithm>

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

}  // namespace

Result<void> RecordChecker::check_sizes() const {
  // Ids have 32 bits, and the last one means "none".
  if (sizes_.ops >= kNone || sizes_.tensors >= kNone || sizes_.storages >= kNone) {
    return Error{ErrorCode::kBadInput,
                 fmt::format("the recording is too large: {} ops, {} tensors, {} storages, fewer than {} are allowed",
                             sizes_.ops, sizes_.tensors, sizes_.storages, kNone)};
  }
  if (sizes_.op_hashes != 0 && sizes_.op_hashes != sizes_.ops) {
    return Error{ErrorCode::kBadInput,
                 fmt::format("section 'op_hashes' is inconsistent: it has {} records and there are {} ops",
                             sizes_.op_hashes, sizes_.ops)};
  }
  return {};
}

std::string RecordChecker::check(const Tensor& tensor) {
  has_storage_.push_back(tensor.storage != kNone);
  if (tensor.sizes.size() != tensor.strides.size()) {
    return fmt::format("it has {} sizes and {} strides", tensor.sizes.size(), tensor.strides.size());
  }
  for (const std::int64_t size : tensor.sizes) {
    if (size < 0) return fmt::format("a size is negative: {}", size);
  }
  return check_id("storage", tensor.storage, sizes_.storages, true);
}

std::string RecordChecker::check_arg(const Arg& arg, int depth) const {
  if (arg.kind == Arg::Kind::kTensor) return check_id("tensor", arg.tensor, sizes_.tensors, false);
  if (arg.kind != Arg::Kind::kList) return "";
  if (depth == kMaxListDepth) return fmt::format("lists are nested deeper than {}", kMaxListDepth);
  for (const Arg& element : arg.list) {
    if (std::string problem = check_arg(element, depth + 1); !problem.empty()) return problem;
  }
  return "";
}

void RecordChecker::count_uses(const Arg& arg) {
  for (const Arg& element : arg.list) count_uses(element);
  if (arg.kind != Arg::Kind::kTensor || (arg.tensor < has_storage_.size() && has_storage_[arg.tensor])) return;
  ++uses_[arg.tensor];
  ++use_count_;
}

std::string RecordChecker::check(const Op& op) {
  output_count_.push_back(static_cast<std::uint16_t>(std::min<std::size_t>(op.outputs.size(), 0xffff)));
  std::string problem = first_of({check_id("schema", op.schema, sizes_.schemas, false),
                                  check_id("site", op.site, sizes_.sites, true),
                                  check_id("module", op.module, sizes_.modules, true)});
  for (const auto* args : {&op.args, &op.outputs}) {
    for (std::size_t i = 0; i < args->size() && problem.empty(); ++i) {
      problem = check_arg((*args)[i], 0);
      if (problem.empty()) count_uses((*args)[i]);
    }
  }
  return problem;
}

std::string RecordChecker::check(const Iteration& iteration) {
  const std::uint64_t end = std::uint64_t{iteration.first_op} + iteration.op_count;
  if (iteration.first_op < free_from_ || end > sizes_.ops) {
    return fmt::format("its ops {} to {} are not inside {} to {}", iteration.first_op, end, free_from_, sizes_.ops);
  }
  free_from_ = end;
  for (const Loss& loss : iteration.losses) {
    if (std::string problem = check_id("tensor", loss.tensor, sizes_.tensors, false); !problem.empty()) return problem;
  }
  return "";
}

std::string RecordChecker::check(const External& external) const {
  return first_of({check_id("storage", external.storage, sizes_.storages, false),
                   check_id("iteration", external.iteration, sizes_.iterations, false),
                   check_id("op", external.op, sizes_.ops, false),
                   check_id("blob", external.blob, sizes_.blobs, false)});
}

std::string RecordChecker::check(const Draw& draw) const {
  std::string problem =
      first_of({check_id("op", draw.op, sizes_.ops, false), check_id("blob", draw.blob, sizes_.blobs, false)});
  if (!problem.empty()) return problem;
  if (draw.op >= output_count_.size()) return fmt::format("op {} was not seen before its draw", draw.op);
  return check_id("output", draw.output, output_count_[draw.op], false);
}

std::string RecordChecker::check(const FinalState& state) const {
  return first_of({check_id("storage", state.storage, sizes_.storages, false),
                   check_id("blob", state.blob, sizes_.blobs, false)});
}

std::string RecordChecker::check(const NotRecorded& item) const {
  return check_id("site", item.site, sizes_.sites, true);
}

std::string RecordChecker::check(const GeneratorState& state) const {
  return first_of({check_id("iteration", state.iteration, sizes_.iterations, false),
                   check_id("blob", state.blob, sizes_.blobs, false)});
}

std::string RecordChecker::check(const Output& output) const {
  return first_of({check_id("iteration", output.iteration, sizes_.iterations, false),
                   check_id("tensor", output.tensor, sizes_.tensors, false),
                   check_id("blob", output.blob, sizes_.blobs, false)});
}

/// Raises `height` to that of the highest compound tensor in `arg`, adds to `size` what it unfolds to, and notes the
/// tensors that are no compound ones.
std::string RecordChecker::check_parts(const Arg& arg, int& height, std::uint64_t& size) {
  ++size;
  for (const Arg& element : arg.list) {
    if (std::string problem = check_parts(element, height, size); !problem.empty()) return problem;
  }
  if (arg.kind != Arg::Kind::kTensor) return "";
  const auto found = compounds_.find(arg.tensor);
  if (found == compounds_.end()) {
    plain_parts_.insert(arg.tensor);
  } else {
    height = std::max(height, found->second.height);
    size += found->second.size;
  }
  return height < kMaxListDepth ? "" : fmt::format("compound tensors are nested deeper than {}", kMaxListDepth);
}

std::string RecordChecker::check(const CompoundTensor& compound) {
  if (std::string problem = check_id("tensor", compound.tensor, sizes_.tensors, false); !problem.empty())
    return problem;
  if (compound.tensor < has_storage_.size() && has_storage_[compound.tensor])
    return fmt::format("tensor {} has a storage, so it is not compound", compound.tensor);
  if (compounds_.contains(compound.tensor)) return fmt::format("tensor {} is there twice", compound.tensor);
  int height = 0;
  std::uint64_t size = 0;
  for (const auto& [name, part] : compound.parts) {
    std::string problem = check_arg(part, 0);
    if (problem.empty()) problem = check_parts(part, height, size);
    if (!problem.empty()) return fmt::format("part '{}': {}", name, problem);
  }
  // A part that is compound comes first, so that nothing can contain itself.
  if (plain_parts_.contains(compound.tensor))
    return fmt::format("tensor {} is part of itself or of an earlier record", compound.tensor);
  if (size > kMaxParts) return fmt::format("its parts, and theirs, are {}: {} are allowed", size, kMaxParts);
  compounds_[compound.tensor] = {height + 1, size};
  const auto uses = uses_.find(compound.tensor);
  if (uses != uses_.end()) unfolded_ += uses->second * size;
  const std::uint64_t most = use_count_ * kMaxPartsPerUse + kMaxParts;
  if (unfolded_ <= most) return "";
  return fmt::format("ops use compound tensors {} times, and their parts are {} then: {} are allowed", use_count_,
                     unfolded_, most);
}

Result<void> validate(const Trace& trace) {
  RecordChecker checker({trace.schemas.size(), trace.sites.size(), trace.modules.size(), trace.storages.size(),
                         trace.tensors.size(), trace.ops.size(), trace.iterations.size(), trace.op_hashes.size(),
                         trace.blobs.size()});
  CRUCIBLE_TRY_VOID(checker.check_sizes());
  for (const SectionId id : kTableSections) {
    std::string problem;
    std::size_t number = 0;
    visit_table(id, trace, [&](const auto& records) {
      for (number = 0; number < records.size(); ++number) {
        problem = checker.check(records[number]);
        if (!problem.empty()) return;
      }
    });
    if (!problem.empty()) {
      return Error{ErrorCode::kBadInput,
                   fmt::format("section '{}' is inconsistent: record {}: {}", section_name(id), number, problem)};
    }
  }
  return {};
}

}  // namespace crucible::trace
