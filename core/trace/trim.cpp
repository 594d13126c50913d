// First the bytes that the kept iterations need from the dropped ones, then the tables, then compacting.
#include "core/trace/trim.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "core/base/words.hpp"
#include "core/trace/compact.hpp"
#include "core/trace/op_effects.hpp"
#include "core/trace/summary.hpp"
#include "core/trace/text.hpp"

namespace crucible::trace {

namespace {

constexpr std::size_t kListed = 20;  // storages that the refusal names

/// What is known of each storage where the cut is.
struct AtCut {
  std::uint32_t external = kNone;  // index in trace.externals of the last bytes taken before the cut
  std::uint32_t writer = kNone;    // last op before the cut that wrote to it since
  bool is_made = false;            // an op before the cut made it
};

class Trimming {
 public:
  Trimming(const Trace& trace, std::uint32_t first, std::uint32_t last)
      : trace_(trace), effects_(trace), first_(first), last_(last) {
    const Iteration& begin = trace.iterations[first];
    const Iteration& end = trace.iterations[last];
    cut_ = begin.first_op;
    end_ = end.first_op + end.op_count;
    externals_at_.resize(trace.ops.size());
    for (std::uint32_t i = 0; i < trace.externals.size(); ++i) externals_at_[trace.externals[i].op].push_back(i);
  }

  Result<Trace> run() {
    follow_dropped_ops();
    CRUCIBLE_TRY_VOID(take_in_what_is_carried());
    Trace kept;
    copy_tables(kept);
    return compacted(std::move(kept));
  }

 private:
  void follow_dropped_ops() {
    at_cut_.resize(trace_.storages.size());
    for (std::uint32_t op = 0; op < cut_; ++op) {
      for (const std::uint32_t external : externals_at_[op])
        at_cut_[trace_.externals[external].storage] = {external, kNone, false};
      const std::vector<TensorUse> uses = effects_.uses(trace_.ops[op]);
      for (const TensorUse& use : uses) {
        if (use.is_written) at_cut_[use.storage].writer = op;
      }
      for (const StorageId storage : effects_.results(trace_.ops[op])) {
        const auto same = [&](const TensorUse& use) { return use.storage == storage; };
        if (std::ranges::none_of(uses, same)) at_cut_[storage] = {kNone, op, true};
      }
    }
  }

  /// Fills carried_ with the externals that take the place of the dropped iterations.
  Result<void> take_in_what_is_carried() {
    std::vector<bool> is_known(trace_.storages.size(), false);
    std::vector<std::string> unknown;
    for (std::uint32_t op = cut_; op < end_; ++op) {
      for (const std::uint32_t external : externals_at_[op]) is_known[trace_.externals[external].storage] = true;
      for (const TensorUse& use : effects_.uses(trace_.ops[op])) {
        if (is_known[use.storage]) continue;
        is_known[use.storage] = true;
        const AtCut& before = at_cut_[use.storage];
        if (before.external != kNone && before.writer == kNone) {
          External taken = trace_.externals[before.external];
          taken.iteration = iteration_of(op);
          taken.op = op;
          carried_.push_back(std::move(taken));
        } else if (before.writer != kNone && !use.is_replaced) {
          unknown.push_back(describe(use.storage, before));
        }  // else: it is written whole before it is read, or the recording never had its bytes
      }
      for (const StorageId storage : effects_.results(trace_.ops[op])) is_known[storage] = true;
    }
    if (unknown.empty()) return {};
    const std::size_t listed = std::min(unknown.size(), kListed);
    std::string list;
    for (std::size_t i = 0; i < listed; ++i) list += "\n  " + unknown[i];
    if (unknown.size() > listed) list += fmt::format("\n  and {} more", unknown.size() - listed);
    return Error{ErrorCode::kBadInput,
                 fmt::format("cannot begin with iteration {}: dropped iterations wrote {} storage{} that it reads, and "
                             "the file has no copy from in between; keep the iterations from 0 on (0-{}). They are:{}",
                             first_, unknown.size(), unknown.size() == 1 ? "" : "s", last_, list)};
  }

  std::string describe(StorageId storage, const AtCut& before) const {
    std::string text = fmt::format("storage {}", storage);
    for (const External& external : trace_.externals) {
      if (external.storage != storage || external.name.empty()) continue;
      text = fmt::format("{} ({})", printable(external.name), name(external.role));
      break;
    }
    const Op& writer = trace_.ops[before.writer];
    return fmt::format("{}, {} by op {}, {} at {}", text, before.is_made ? "made" : "written", before.writer,
                       printable(trace_.schemas[writer.schema].full_name()), printable(trace_.site_text(writer.site)));
  }

  std::uint32_t iteration_of(std::uint32_t op) const {
    for (std::uint32_t i = first_; i <= last_; ++i) {
      const Iteration& iteration = trace_.iterations[i];
      if (op >= iteration.first_op && op - iteration.first_op < iteration.op_count) return i;
    }
    return first_;
  }

  bool keeps_op(std::uint32_t op) const { return op >= cut_ && op < end_; }
  bool keeps_iteration(std::uint32_t iteration) const { return iteration >= first_ && iteration <= last_; }

  void copy_tables(Trace& kept) {
    kept.metadata = trace_.metadata;
    kept.schemas = trace_.schemas;
    kept.sites = trace_.sites;
    kept.modules = trace_.modules;
    kept.storages = trace_.storages;
    kept.tensors = trace_.tensors;
    kept.compounds = trace_.compounds;
    kept.not_recorded = trace_.not_recorded;
    kept.blobs = trace_.blobs;
    kept.blob_store = trace_.blob_store;
    kept.ops.assign(trace_.ops.begin() + cut_, trace_.ops.begin() + end_);
    if (!trace_.op_hashes.empty())
      kept.op_hashes.assign(trace_.op_hashes.begin() + cut_, trace_.op_hashes.begin() + end_);
    for (std::uint32_t i = first_; i <= last_; ++i) {
      kept.iterations.push_back(trace_.iterations[i]);
      kept.iterations.back().first_op -= cut_;
    }
    for (const External& external : trace_.externals) {
      if (keeps_op(external.op) && keeps_iteration(external.iteration)) kept.externals.push_back(external);
    }
    kept.externals.insert(kept.externals.end(), carried_.begin(), carried_.end());
    std::ranges::stable_sort(kept.externals, {}, &External::op);
    for (External& external : kept.externals) {
      external.op -= cut_;
      external.iteration -= first_;
    }
    for (Draw draw : trace_.draws) {
      if (!keeps_op(draw.op)) continue;
      draw.op -= cut_;
      kept.draws.push_back(draw);
    }
    const auto copy_of_iterations = [&](const auto& from, auto& to) {
      std::ranges::copy_if(from, std::back_inserter(to), [&](const auto& it) { return keeps_iteration(it.iteration); });
      for (auto& it : to) it.iteration -= first_;
    };
    copy_of_iterations(trace_.generators, kept.generators);
    copy_of_iterations(trace_.outputs, kept.outputs);
    describe_in_metadata(kept);
  }

  void describe_in_metadata(Trace& kept) {
    kept.metadata.warmup_iterations += first_;
    // Final states are those after the last complete iteration; incomplete ones behind it may go.
    const auto is_complete = [](const Iteration& iteration) { return iteration.complete; };
    if (std::none_of(trace_.iterations.begin() + last_ + 1, trace_.iterations.end(), is_complete)) {
      kept.final_states = trace_.final_states;
      return;
    }
    const std::vector<bool> is_written = written_later();
    std::ranges::copy_if(trace_.final_states, std::back_inserter(kept.final_states),
                         [&](const FinalState& state) { return !is_written[state.storage]; });
    // The reason that the recording had is one for iterations that are gone anyway.
    const std::size_t lost = trace_.final_states.size() - kept.final_states.size();
    kept.metadata.incomplete_reason =
        fmt::format("trimmed to iterations {}-{} of {}", first_, last_, trace_.iterations.size());
    if (lost == 0) return;
    kept.metadata.incomplete_reason +=
        kept.final_states.empty() ? ": without final states, which are those of the last one"
                                  : fmt::format(": without {} of {} final states, which later iterations wrote", lost,
                                                trace_.final_states.size());
  }

  /// By storage: whether what it holds at the end is not what it held where the trimmed recording ends.
  std::vector<bool> written_later() {
    std::vector<bool> is_written(trace_.storages.size(), false);
    for (std::size_t op = end_; op < trace_.ops.size(); ++op) {
      for (const std::uint32_t external : externals_at_[op]) is_written[trace_.externals[external].storage] = true;
      for (const TensorUse& use : effects_.uses(trace_.ops[op])) {
        if (use.is_written) is_written[use.storage] = true;
      }
    }
    return is_written;
  }

  const Trace& trace_;
  OpEffects effects_;
  std::uint32_t first_, last_;
  std::uint32_t cut_ = 0, end_ = 0;                       // ops that are kept
  std::vector<std::vector<std::uint32_t>> externals_at_;  // by op: indices in trace.externals
  std::vector<AtCut> at_cut_;                             // by storage
  std::vector<External> carried_;
};

}  // namespace

Result<Trace> trim(const Trace& trace, std::uint32_t first, std::uint32_t last) {
  if (first > last) {
    return Error{ErrorCode::kUsage,
                 fmt::format("iterations {}-{} are none: the first number is the smaller one", first, last)};
  }
  if (last >= trace.iterations.size()) {
    return Error{ErrorCode::kUsage, fmt::format("there is no iteration {}: the recording has {}, counted from 0", last,
                                                trace.iterations.size())};
  }
  return Trimming(trace, first, last).run();
}

}  // namespace crucible::trace
