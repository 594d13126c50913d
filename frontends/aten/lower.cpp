// The lowering of a trace: align the iterations, lower each op by the table, classify what crosses the edge, run the
// passes. See lower.hpp; the parts are align, storage_map, op_call, lower_table and boundary.
#include "frontends/aten/lower.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <unordered_map>

#include "core/base/progress.hpp"
#include "core/base/words.hpp"
#include "core/graph/computed_nans.hpp"
#include "core/graph/meaning.hpp"
#include "core/graph/passes.hpp"
#include "core/trace/text.hpp"
#include "frontends/aten/attention/composed_attention.hpp"
#include "frontends/aten/call/preconditions.hpp"
#include "frontends/aten/call/refusals.hpp"
#include "frontends/aten/call/schema.hpp"
#include "frontends/aten/complex/complex.hpp"
#include "frontends/aten/lower_table.hpp"
#include "frontends/aten/recording/align_parts.hpp"
#include "frontends/aten/recording/boundary.hpp"
#include "frontends/aten/recording/draws.hpp"
#include "frontends/aten/recording/outputs.hpp"
#include "frontends/aten/recording/sharing.hpp"
#include "frontends/aten/sparse/sparse.hpp"

namespace crucible::aten {
namespace {

std::string module_of(const trace::Trace& trace, const trace::Op& op) {
  return op.module < trace.modules.size() ? printable(trace.modules[op.module]) : "";
}

class Lowering {
 public:
  /// `outlines`: gets what is a composite. `wants_all`: else those alone that scheduling asks for by name.
  Lowering(const trace::Trace& trace, const Alignment& alignment, Opaques opaques,
           std::vector<graph::Outline>& outlines, bool wants_all)
      : trace_(trace),
        opaques_(opaques),
        outlines_(outlines),
        wants_all_(wants_all),
        alignment_(alignment),
        emitter_(program_),
        storages_(trace, alignment, emitter_),
        draws_(trace, alignment, emitter_),
        losses_(trace, alignment),
        outputs_(trace, alignment) {}

  /// All ops, and what is read of their results.
  Result<void> lower_ops() {
    program_.iterations = static_cast<std::uint32_t>(alignment_.count());
    if (alignment_.frees_numbers) emitter_.watch_counts();
    CRUCIBLE_TRY_VOID(refuse_texts_that_are_no_schemas());
    if (opaques_ == Opaques::kRefuse) CRUCIBLE_TRY_VOID(refuse_unknown_ops());
    for (std::uint32_t p = 0; p < alignment_.ops[0].size(); ++p) {
      report_progress("lowering", p, alignment_.ops[0].size());
      CRUCIBLE_TRY_VOID(lower_op(p));
    }
    report_progress("checking the lowered program", 0, 0);
    outputs_.read(storages_);
    return losses_.finish(storages_, program_);
  }

  /// The number because of which lower_ops() failed and that shapes the program: iterations with another one are
  /// another variant. Nothing after another failure.
  const std::optional<ArgumentPath>& shaping_number() const { return shaping_; }

  LoweredGroup group() { return {alignment_, storages_, emitter_}; }

  /// After classify().
  Result<graph::Program> finish(bool is_variant) {
    program_.is_variant = is_variant;
    program_.was_tf32 = std::ranges::any_of(program_.ops, [this](const graph::Op& op) { return was_tf32(op); });
    outputs_.finish(emitter_);
    graph::name_computed_nans(program_);  // now that states are known
    if (trace_.blob_store) CRUCIBLE_TRY_VOID(emitter_.bounds().finish(emitter_, *trace_.blob_store));
    // Checks before each op refuse most damaged recordings; what gets past them is refused here.
    auto verified = graph::verify(program_);
    if (!verified)
      return Error{ErrorCode::kBadInput, "the recorded ops make no valid program: " + verified.error().message};
    return std::move(program_);
  }

 private:
  /// Whether the recorded program had tensor cores round the operands: its device has some, and the switch was on.
  bool was_tf32(const graph::Op& op) const {
    const trace::Metadata& recorded = trace_.metadata;
    if (!recorded.device.starts_with("cuda") || program_.values[op.outputs[0].value].dtype != DType::kF32) return false;
    switch (op.kind) {
      case graph::OpKind::kMatMul:
        return recorded.precision.contains("cuda.matmul=tf32");
      case graph::OpKind::kConv2d:
      case graph::OpKind::kConv2dBackwardInput:
      case graph::OpKind::kConv2dBackwardWeight:
        return recorded.precision.contains("cuda.conv=tf32");
      default:
        return false;
    }
  }

  const trace::Op& op(std::uint32_t position) const { return trace_.ops[alignment_.ops[0][position]]; }

  /// Fit to be printed: a file may hold anything as a name.
  std::string op_name(std::uint32_t position) const {
    return printable(trace_.schemas[op(position).schema].full_name());
  }

  Operands operands_of(std::uint32_t position) const {
    if (touches_sparse(alignment_, op(position))) return Operands::kSparse;
    return touches_complex(trace_, op(position)) ? Operands::kComplex : Operands::kReal;
  }

  const Entry* entry_of(std::uint32_t position) const {
    return find_entry(trace_.schemas[op(position).schema].full_name(), operands_of(position));
  }

  bool is_known(std::uint32_t position) const {
    if (entry_of(position) != nullptr) return true;
    const auto results = tensors_in(op(position).outputs, true);
    for (std::uint32_t k = 0; k < results.size(); ++k) {
      if (results[k] != trace::kNone && !draws_.has(position, k)) return false;
    }
    return !results.empty();
  }

  /// What follows reads them part by part.
  Result<void> refuse_texts_that_are_no_schemas() const {
    std::vector<bool> seen(trace_.schemas.size(), false);
    for (std::uint32_t p = 0; p < alignment_.ops[0].size(); ++p) {
      const trace::SchemaId schema = op(p).schema;
      if (seen[schema]) continue;
      seen[schema] = true;
      if (is_schema(trace_.schemas[schema].text)) continue;
      return Error{
          ErrorCode::kBadInput,
          fmt::format("op {} at {}: its schema {} is none: the recording is damaged, or was made by something else", p,
                      trace_.site_text(op(p).site), printable(trace_.schemas[schema].text))};
    }
    return {};
  }

  /// All of them at once: one run tells the user everything that is missing.
  Result<void> refuse_unknown_ops() const {
    struct Unknown {
      std::size_t count = 0;
      std::string place, why;
    };
    std::map<std::string, Unknown> unknown;
    for (std::uint32_t p = 0; p < alignment_.ops[0].size(); ++p) {
      if (is_known(p)) continue;
      const Operands operands = operands_of(p);
      const char* of = operands == Operands::kComplex  ? " on complex numbers"
                       : operands == Operands::kSparse ? " on sparse tensors"
                                                       : "";
      Unknown& entry = unknown[op_name(p) + of];
      if (entry.count++ > 0) continue;
      const std::string module = module_of(trace_, op(p));
      entry.why = refusal_text(trace_.schemas[op(p).schema].full_name());
      entry.place = fmt::format("{}{}at {}", module.empty() ? "" : "in " + module, module.empty() ? "" : " ",
                                trace_.site_text(op(p).site));
    }
    if (unknown.empty()) return {};
    std::string text = fmt::format("{} {} no lowering:", unknown.size(), unknown.size() == 1 ? "op has" : "ops have");
    for (const auto& [name, entry] : unknown) {
      text += fmt::format("\n  {}: {} per iteration, first {}", name, entry.count, entry.place);
      if (!entry.why.empty()) text += fmt::format(" ({})", entry.why);
    }
    return Error{ErrorCode::kBadInput, text};
  }

  void add_source(std::uint32_t position) {
    const trace::Op& o = op(position);
    graph::Source source;
    source.op = op_name(position);
    source.module = module_of(trace_, o);
    source.site = trace_.site_text(o.site);
    source.phase = static_cast<graph::Phase>(o.phase);
    source.trace_op = alignment_.ops[0][position];
    program_.sources.push_back(std::move(source));
    emitter_.set_source(static_cast<std::uint32_t>(program_.sources.size() - 1));
  }

  /// Null for an op that is none, or none that somebody asks for.
  const CompositeRow* wanted_composite(std::string_view entry) const {
    const CompositeRow* row = find_composite(entry);
    return row != nullptr && (wants_all_ || graph::is_scheduled_by_name(row->composite)) ? row : nullptr;
  }

  Result<void> lower_op(std::uint32_t position) {
    add_source(position);
    if (op(position).phase == trace::Phase::kBackward) losses_.read_present(storages_);
    const graph::OpId first_op = emitter_.next_op();
    if (!is_opaque(position)) {
      OpCall call(trace_, alignment_, position, emitter_, storages_, draws_);
      CompositeLog log;
      if (const Entry* entry = entry_of(position)) {
        call.set_entry_name(entry->name);
        if (entry->complexity == Complexity::kWhole && (log.row = wanted_composite(entry->name)) != nullptr)
          call.log_composite(&log);
        const std::string broken = preconditions(op(position).schema, entry->name).broken_by(trace_, op(position));
        if (!broken.empty()) {
          emitter_.fail(broken);
        } else {
          try {
            lower_by(*entry, call);
          } catch (const NoSuchTensor&) {
            if (opaques_ == Opaques::kRefuse) return checked(position);
          }
        }
      } else {
        for (std::size_t k = 0; k < call.result_count(); ++k) call.set_drawn(k);
        call.ignore_numbers();
      }
      const bool is_shaped = emitter_.shaping_number().has_value();
      if (emitter_.failure().empty() || opaques_ == Opaques::kRefuse || is_shaped) {
        call.finish();
        if (emitter_.failure().empty() && log.row != nullptr) call.outline(outlines_);
        if (emitter_.failure().empty()) emitter_.bounds().emit(emitter_);
        return checked(position);
      }
    }
    std::string reason = emitter_.abandon(first_op);
    if (!is_known(position)) reason = refusal_text(trace_.schemas[op(position).schema].full_name());
    OpCall call(trace_, alignment_, position, emitter_, storages_, draws_);
    call.lower_opaque(std::move(reason));
    call.finish();
    return checked(position);
  }

  static void lower_by(const Entry& entry, OpCall& call) {
    switch (entry.complexity) {
      case Complexity::kWhole:
        return entry.lower(call);
      case Complexity::kParts:
        return call.by_parts(entry.lower);
      case Complexity::kMagnitude:
        return call.by_magnitude(entry.lower);
    }
  }

  /// An op that no entry knows, or any that can be run as it was recorded, where all are wanted so. Drawn results enter
  /// as recorded, so what has some is lowered.
  bool is_opaque(std::uint32_t position) const {
    if (!is_known(position)) return true;
    if (opaques_ != Opaques::kAll) return false;
    const auto results = tensors_in(op(position).outputs, true);
    for (std::uint32_t k = 0; k < results.size(); ++k) {
      if (draws_.has(position, k)) return false;
    }
    return true;
  }

  /// The emitter's failure with its place.
  Result<void> checked(std::uint32_t position) {
    if (emitter_.failure().empty()) return {};
    if (const auto& number = emitter_.shaping_number()) shaping_ = {position, number->first, number->second};
    const std::string module = module_of(trace_, op(position));
    return Error{ErrorCode::kBadInput,
                 fmt::format("op {} ({}{}{} at {}): {}", position, op_name(position), module.empty() ? "" : " in ",
                             module, trace_.site_text(op(position).site), emitter_.failure())};
  }

  /// Each schema is read once.
  const Preconditions& preconditions(trace::SchemaId schema, std::string_view entry) {
    const auto found = preconditions_.find(schema);
    if (found != preconditions_.end()) return found->second;
    return preconditions_.try_emplace(schema, trace_.schemas[schema].text, entry).first->second;
  }

  const trace::Trace& trace_;
  Opaques opaques_;
  std::vector<graph::Outline>& outlines_;
  const bool wants_all_;
  const Alignment& alignment_;
  std::unordered_map<trace::SchemaId, Preconditions> preconditions_;
  graph::Program program_;
  Emitter emitter_;
  StorageMap storages_;
  Draws draws_;
  Losses losses_;
  Outputs outputs_;
  std::optional<ArgumentPath> shaping_;
};

}  // namespace

namespace {

bool writes_shared(const LoweredGroup& group) {
  std::vector<trace::StorageId> written;
  for (const auto& [storage, entry] : group.storages.entries()) {
    if (entry.written) written.push_back(storage);
  }
  return writes_shared(group.alignment, written);
}

/// `trace` may have more names for one storage: `plain` is the recording itself then, which is lowered where they turn
/// out to be wrong.
Result<graph::Variants> lower_groups(const trace::Trace& trace, std::vector<Alignment> found, Opaques opaques,
                                     bool wants_composites, const graph::PassContext* passes,
                                     const trace::Trace* plain) {
  std::map<std::uint32_t, Alignment> waiting;  // by their first iterations
  for (Alignment& group : found) waiting.emplace(group.iterations[0], std::move(group));
  std::deque<Alignment> alignments;
  std::deque<std::vector<graph::Outline>> outlines;
  std::deque<Lowering> lowerings;
  std::vector<LoweredGroup> groups;
  while (!waiting.empty()) {
    alignments.push_back(std::move(waiting.extract(waiting.begin()).mapped()));
    outlines.emplace_back();
    lowerings.emplace_back(trace, alignments.back(), opaques, outlines.back(), wants_composites);
    if (const Result<void> lowered = lowerings.back().lower_ops(); !lowered) {
      const std::optional<ArgumentPath> number = lowerings.back().shaping_number();
      if (!number) return lowered.error();
      for (Alignment& part : split(trace, alignments.back(), *number, lowered.error().message))
        waiting.emplace(part.iterations[0], std::move(part));
      lowerings.pop_back();
      outlines.pop_back();
      alignments.pop_back();
      continue;
    }
    groups.push_back(lowerings.back().group());
  }
  if (plain != nullptr && std::ranges::any_of(groups, [](const LoweredGroup& group) { return writes_shared(group); })) {
    CRUCIBLE_TRY(std::vector<Alignment> as_recorded, align(*plain));
    return lower_groups(*plain, std::move(as_recorded), opaques, wants_composites, passes, nullptr);
  }
  graph::Variants variants;
  CRUCIBLE_TRY(variants.turns, classify(trace, groups));
  const bool is_given =
      std::ranges::any_of(variants.turns, [](const graph::Turn& turn) { return !turn.given.empty(); });
  for (std::size_t v = 0; v < alignments.size(); ++v) {
    CRUCIBLE_TRY(graph::Program program, lowerings[v].finish(alignments.size() > 1 || is_given));
    const bool is_changed = recognize_composed_attention(program, &outlines[v]) > 0;
    const bool is_outlined = graph::outline(program, std::move(outlines[v])) > 0;
    if (is_changed || is_outlined) CRUCIBLE_TRY_VOID(graph::verify(program));
    if (passes != nullptr) CRUCIBLE_TRY_VOID(graph::run_passes(program, *passes));
    variants.programs.push_back(std::make_shared<const graph::Program>(std::move(program)));
    variants.differences.push_back(alignments[v].difference);
  }
  CRUCIBLE_TRY_VOID(graph::verify(variants));
  return variants;
}

/// Numbers of optimizers' ops count as if iterations differed in them.
void free_numbers(const trace::Trace& trace, std::vector<Alignment>& groups) {
  const auto is_freed = [](const trace::Arg& arg) {
    return arg.kind == trace::Arg::Kind::kDouble && is_free(arg.real);
  };
  for (Alignment& group : groups) {
    group.frees_numbers = true;
    for (std::uint32_t position = 0; position < group.ops[0].size(); ++position) {
      const trace::Op& op = trace.ops[group.ops[0][position]];
      if (op.phase != trace::Phase::kOptimizer) continue;
      for (std::uint32_t k = 0; k < op.args.size(); ++k) {
        if (is_freed(op.args[k])) group.differing.insert({position, k, -1});
        for (std::size_t i = 0; i < op.args[k].list.size(); ++i) {
          if (is_freed(op.args[k].list[i])) group.differing.insert({position, k, static_cast<std::int32_t>(i)});
        }
      }
    }
  }
}

Result<graph::Variants> lower_ops(const trace::Trace& trace, Opaques opaques, bool wants_composites,
                                  const graph::PassContext* passes) {
  const PassInProgress pass("comparing the iterations");
  CRUCIBLE_TRY(std::vector<Alignment> found, align(trace));
  if (passes != nullptr && passes->is_live) {
    free_numbers(trace, found);
    return lower_groups(trace, std::move(found), opaques, wants_composites, passes, nullptr);
  }
  const std::optional<Separated> separated = found.size() > 1 ? separate_shared(trace, found) : std::nullopt;
  if (separated) {
    CRUCIBLE_TRY(std::vector<Alignment> fewer, align(separated->trace));
    for (Alignment& group : fewer) group.origins = separated->origins;
    if (fewer.size() < found.size())
      return lower_groups(separated->trace, std::move(fewer), opaques, wants_composites, passes, &trace);
  }
  return lower_groups(trace, std::move(found), opaques, wants_composites, passes, nullptr);
}

}  // namespace

Result<graph::Variants> lower_variants_without_passes(const trace::Trace& trace, Opaques opaques) {
  return lower_ops(trace, opaques, true, nullptr);
}

Result<graph::Program> lower_without_passes(const trace::Trace& trace, Opaques opaques) {
  CRUCIBLE_TRY(const graph::Variants variants, lower_variants_without_passes(trace, opaques));
  CRUCIBLE_TRY(const std::shared_ptr<const graph::Program> program, graph::choose_variant(variants, std::nullopt));
  return *program;
}

Result<graph::Variants> lower_variants(const trace::Trace& trace, Opaques opaques, const graph::KeepsComposite& keeps) {
  // Where nobody takes composites, none are made only to be taken apart again, but those whose names are asked for.
  const graph::PassContext passes{.blobs = trace.blob_store.get(), .keeps = keeps};
  return lower_ops(trace, opaques, keeps != nullptr, &passes);
}

Result<graph::Variants> lower_live(const trace::Trace& trace) {
  const graph::PassContext passes{.blobs = trace.blob_store.get(), .keeps = nullptr, .is_live = true};
  return lower_ops(trace, Opaques::kRefuse, false, &passes);
}

Result<graph::Program> lower(const trace::Trace& trace, Opaques opaques, const graph::KeepsComposite& keeps) {
  CRUCIBLE_TRY(const graph::Variants variants, lower_variants(trace, opaques, keeps));
  CRUCIBLE_TRY(const std::shared_ptr<const graph::Program> program, graph::choose_variant(variants, std::nullopt));
  return *program;
}

}  // namespace crucible::aten
