// One pass over the ops, with what was written of each storage that came unfilled as ranges of bytes.
#include "core/trace/unrecorded.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "core/trace/op_effects.hpp"

namespace crucible::trace {

namespace {

constexpr std::string_view kChanged = "memory that something other than an op changed between ";
constexpr std::string_view kAnd = " and ";
constexpr std::string_view kIn = " in module ";
constexpr std::string_view kEnd = "the end of the iteration";

constexpr std::array<std::string_view, 6> kUnfilled = {"aten::empty",          "aten::empty_like",
                                                       "aten::empty_permuted", "aten::empty_strided",
                                                       "aten::new_empty",      "aten::new_empty_strided"};
constexpr std::array<std::string_view, 3> kResizes = {"aten::resize_", "aten::resize_as_", "aten::_resize_output_"};

/// They look at no element of any argument: sizes and types are all they take.
constexpr std::array<std::string_view, 14> kTakeForm = {
    "aten::empty_like", "aten::zeros_like",   "aten::ones_like",  "aten::full_like",    "aten::rand_like",
    "aten::randn_like", "aten::randint_like", "aten::resize_as_", "aten::is_same_size", "aten::sym_size",
    "aten::size",       "aten::stride",       "aten::is_pinned",  "aten::record_stream"};

/// In place, and the elements that were there do not matter: they are written, or only their form changes.
constexpr std::array<std::string_view, 38> kReadNothingInPlace = {"zero_",
                                                                  "fill_",
                                                                  "copy_",
                                                                  "normal_",
                                                                  "uniform_",
                                                                  "random_",
                                                                  "bernoulli_",
                                                                  "cauchy_",
                                                                  "exponential_",
                                                                  "geometric_",
                                                                  "log_normal_",
                                                                  "set_",
                                                                  "resize_",
                                                                  "resize_as_",
                                                                  "squeeze_",
                                                                  "unsqueeze_",
                                                                  "t_",
                                                                  "transpose_",
                                                                  "swapaxes_",
                                                                  "swapdims_",
                                                                  "as_strided_",
                                                                  "detach_",
                                                                  "rename_",
                                                                  "requires_grad_",
                                                                  "_foreach_zero_",
                                                                  "_foreach_copy_",
                                                                  "index_put_",
                                                                  "_index_put_impl_",
                                                                  "scatter_",
                                                                  "index_copy_",
                                                                  "index_fill_",
                                                                  "masked_fill_",
                                                                  "masked_scatter_",
                                                                  "put_",
                                                                  "fill_diagonal_",
                                                                  "_resize_output_",
                                                                  "sparse_resize_",
                                                                  "copy_sparse_to_sparse_"};

/// Which elements they write is said by values of other tensors.
constexpr std::array<std::string_view, 9> kWriteByValue = {
    "index_put_",   "_index_put_impl_", "scatter_", "index_copy_",   "index_fill_",
    "masked_fill_", "masked_scatter_",  "put_",     "fill_diagonal_"};

/// Their first argument is not read where the factor `beta` is 0.
constexpr std::array<std::string_view, 6> kScaleFirst = {"addmm", "baddbmm", "addbmm", "addmv", "addr", "sspaddmm"};

template <std::size_t N>
bool is_among(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

std::string_view without_namespace(std::string_view name) {
  const std::size_t colons = name.find("::");
  return colons == std::string_view::npos ? name : name.substr(colons + 2);
}

/// What of some memory was written: ranges that touch are one.
class Ranges {
 public:
  void add(std::uint64_t begin, std::uint64_t end) {
    if (begin >= end) return;
    auto at = ends_.upper_bound(begin);
    if (at != ends_.begin()) {
      const auto before = std::prev(at);
      if (before->second >= begin) at = before, begin = before->first;
    }
    while (at != ends_.end() && at->first <= end) end = std::max(end, at->second), at = ends_.erase(at);
    ends_.emplace(begin, end);
  }
  bool cover(std::uint64_t begin, std::uint64_t end) const {
    if (begin >= end) return true;
    auto at = ends_.upper_bound(begin);
    return at != ends_.begin() && std::prev(at)->second >= end;
  }
  bool empty() const { return ends_.empty(); }

 private:
  std::map<std::uint64_t, std::uint64_t> ends_;  // by beginning
};

/// Calls `visit(begin, end)` for each run of bytes that the tensor's elements fill; false where there are too many to
/// follow.
template <class Visit>
bool for_each_run(const Tensor& tensor, Visit visit) {
  constexpr std::uint64_t kMostRuns = 1u << 22;
  const std::uint64_t width = size_bytes(tensor.dtype);
  if (width == 0) return false;
  std::vector<std::pair<std::int64_t, std::int64_t>> dimensions;  // stride, size; the innermost first
  for (std::size_t i = 0; i < tensor.sizes.size(); ++i) {
    if (tensor.sizes[i] == 0) return true;
    if (tensor.strides[i] < 0) return false;
    if (tensor.sizes[i] != 1 && tensor.strides[i] != 0) dimensions.emplace_back(tensor.strides[i], tensor.sizes[i]);
  }
  std::ranges::sort(dimensions);
  std::uint64_t run = 1;
  std::size_t outer = 0;
  for (; outer < dimensions.size() && static_cast<std::uint64_t>(dimensions[outer].first) == run; ++outer) {
    run *= static_cast<std::uint64_t>(dimensions[outer].second);
  }
  std::uint64_t runs = 1;
  for (std::size_t i = outer; i < dimensions.size(); ++i) {
    if (__builtin_mul_overflow(runs, static_cast<std::uint64_t>(dimensions[i].second), &runs) || runs > kMostRuns)
      return false;
  }
  std::vector<std::int64_t> index(dimensions.size(), 0);
  for (std::uint64_t k = 0; k < runs; ++k) {
    std::uint64_t element = static_cast<std::uint64_t>(tensor.offset);
    for (std::size_t i = outer; i < dimensions.size(); ++i)
      element += static_cast<std::uint64_t>(index[i] * dimensions[i].first);
    visit(element * width, (element + run) * width);
    for (std::size_t i = outer; i < dimensions.size() && ++index[i] == dimensions[i].second; ++i) index[i] = 0;
  }
  return true;
}

/// The first byte behind all of the tensor's elements.
std::uint64_t end_of(const Tensor& tensor) {
  std::int64_t last = tensor.offset;
  for (std::size_t i = 0; i < tensor.sizes.size(); ++i) {
    if (tensor.sizes[i] == 0) return 0;
    last += (tensor.sizes[i] - 1) * std::max<std::int64_t>(tensor.strides[i], 0);
  }
  return static_cast<std::uint64_t>(last + 1) * size_bytes(tensor.dtype);
}

class Search {
 public:
  explicit Search(const Trace& trace) : trace_(trace), effects_(trace) {
    for (const External& external : trace.externals) entered_.emplace(external.iteration, external.storage);
  }

  std::vector<UnrecordedWrite> run() {
    for (iteration_ = 0; iteration_ < trace_.iterations.size(); ++iteration_) {
      const Iteration& iteration = trace_.iterations[iteration_];
      for (std::uint32_t i = 0; i < iteration.op_count; ++i) follow(trace_.ops[iteration.first_op + i]);
      for (const Loss& loss : iteration.losses) read(loss.tensor, "a loss", nullptr);
      for (const Output& output : trace_.outputs) {
        if (output.iteration == iteration_) read(output.tensor, "an output", nullptr);
      }
    }
    for (const FinalState& state : trace_.final_states) {
      const auto found = followed_.find(state.storage);
      if (found != followed_.end() && found->second.written.empty() &&
          !entered_.contains({found->second.iteration, state.storage})) {
        report(found->second, "a state", nullptr);
      }
    }
    add_changes();
    return std::move(found_);
  }

 private:
  /// Memory that came unfilled and has bytes that no op has written.
  struct Unfilled {
    std::string last;  // the op that used it last
    std::size_t iteration = 0;
    Ranges written;
  };

  void follow(const Op& op) {
    const std::string_view name = trace_.schemas[op.schema].name;
    const std::vector<TensorUse> uses = effects_.uses(op);
    // A barrier's tensor carries nothing, and what others receive into may be empty: which rank reads is not in the op.
    const bool is_collective = name.starts_with("c10d") || name.starts_with("_c10d");
    const bool takes_form = is_among(kTakeForm, name) || name.starts_with("aten::new_");
    if (!followed_.empty() && !takes_form) {
      const std::string_view bare = without_namespace(name);
      const bool skips_first = is_unscaled(op, bare);
      for (std::size_t i = 0; i < uses.size(); ++i) {
        const bool is_overwritten = uses[i].is_written && !reads_in_place(bare, i);
        if (!is_collective && !uses[i].is_viewed && !is_overwritten && !(i == 0 && skips_first))
          read(uses[i].tensor, "", &op);
      }
      for (const TensorUse& use : uses) {
        if (use.is_written && !is_among(kResizes, name)) write(use.tensor, bare, trace_.schemas[op.schema].full_name());
      }
    }
    note_fresh(op, name, uses);
  }

  /// An argument that is written: of an op in place its old elements count, where it is not known to ignore them. Those
  /// that results go to (`out=`), and running statistics, do not.
  static bool reads_in_place(std::string_view bare, std::size_t use) {
    const bool is_in_place = bare.ends_with('_') && !bare.ends_with("__");
    return is_in_place && (use == 0 || bare.starts_with("_foreach_")) && !is_among(kReadNothingInPlace, bare);
  }

  bool is_unscaled(const Op& op, std::string_view bare) const {
    std::string_view base = bare;
    if (base.ends_with('_')) base.remove_suffix(1);
    if (!is_among(kScaleFirst, base)) return false;
    const std::vector<std::string_view> declared = argument_declarations(trace_.schemas[op.schema].text);
    for (std::size_t i = 0; i < declared.size() && i < op.args.size(); ++i) {
      if (declared[i].find(" beta=") == std::string_view::npos) continue;
      const Arg& beta = op.args[i];
      return (beta.kind == Arg::Kind::kInt && beta.integer == 0) || (beta.kind == Arg::Kind::kDouble && beta.real == 0);
    }
    return false;
  }

  /// Follows what the op returns unfilled, and what it adds to a storage that grows.
  void note_fresh(const Op& op, std::string_view name, const std::vector<TensorUse>& uses) {
    const bool makes = is_among(kUnfilled, name), resizes = is_among(kResizes, name);
    for (const Arg& output : op.outputs) {
      if (output.kind != Arg::Kind::kTensor) continue;
      const Tensor& tensor = trace_.tensors[output.tensor];
      if (tensor.storage == kNone) continue;
      const std::uint64_t end = end_of(tensor);
      std::uint64_t& known = known_end_[tensor.storage];
      const bool is_used =
          std::ranges::any_of(uses, [&](const TensorUse& use) { return use.storage == tensor.storage; });
      if (makes && !is_used && end > 0) {
        followed_[tensor.storage] = {trace_.schemas[op.schema].full_name(), iteration_, {}};
      } else if (resizes && end > known && !entered_.contains({iteration_, tensor.storage})) {
        const auto [place, is_new] = followed_.try_emplace(tensor.storage);
        if (is_new) place->second.written.add(0, known);
        place->second.last = trace_.schemas[op.schema].full_name();
        place->second.iteration = iteration_;
      }
      known = std::max(known, end);
    }
    for (const TensorUse& use : uses) {
      std::uint64_t& known = known_end_[use.storage];
      known = std::max(known, end_of(trace_.tensors[use.tensor]));
    }
  }

  void write(TensorId id, std::string_view bare, const std::string& name) {
    const Tensor& tensor = trace_.tensors[id];
    const auto found = followed_.find(tensor.storage);
    if (found == followed_.end()) return;
    Unfilled& memory = found->second;
    memory.last = name;
    std::string_view base = bare;
    if (base.ends_with('_') && is_among(kWriteByValue, base)) return void(followed_.erase(found));
    if (!for_each_run(tensor, [&](std::uint64_t begin, std::uint64_t end) { memory.written.add(begin, end); }) ||
        memory.written.cover(0, trace_.storages[tensor.storage].size_bytes)) {
      followed_.erase(found);
    }
  }

  /// `op` is null where no op reads it.
  void read(TensorId id, std::string_view reader, const Op* op) {
    const Tensor& tensor = trace_.tensors[id];
    const auto found = followed_.find(tensor.storage);
    if (found == followed_.end()) return;
    // Filled from outside between two iterations: an input.
    if (found->second.iteration != iteration_ &&
        entered_.contains({static_cast<std::uint32_t>(iteration_), tensor.storage})) {
      return void(followed_.erase(found));
    }
    bool is_written = true;
    const bool is_known = for_each_run(
        tensor, [&](std::uint64_t begin, std::uint64_t end) { is_written &= found->second.written.cover(begin, end); });
    if (!is_known || is_written) return;
    report(found->second, op == nullptr ? std::string(reader) : trace_.schemas[op->schema].full_name(), op);
    followed_.erase(found);  // who reads it next has no other story
  }

  void report(const Unfilled& memory, const std::string& after, const Op* op) {
    const SiteId site = op == nullptr ? kNone : op->site;
    const std::string module = op == nullptr || op->module == kNone ? "" : trace_.modules[op->module];
    const bool is_part = !memory.written.empty();
    const auto [place, is_new] = places_.try_emplace({memory.last, after, module, site, is_part}, found_.size());
    if (is_new) found_.push_back({memory.last, after, module, site, 0, is_part, false});
    ++found_[place->second].count;
  }

  void add_changes() {
    for (const NotRecorded& item : trace_.not_recorded) {
      std::string_view text = item.what;
      if (!text.starts_with(kChanged)) continue;
      text.remove_prefix(kChanged.size());
      const std::size_t joint = text.find(kAnd);
      if (joint == std::string_view::npos) continue;
      const std::string_view rest = text.substr(joint + kAnd.size());
      const std::size_t module = rest.find(kIn);
      found_.push_back({std::string(text.substr(0, joint)), std::string(rest.substr(0, module)),
                        module == std::string_view::npos ? "" : std::string(rest.substr(module + kIn.size())),
                        item.site, item.count, false, true});
    }
  }

  const Trace& trace_;
  OpEffects effects_;
  std::size_t iteration_ = 0;
  std::set<std::pair<std::size_t, StorageId>> entered_;
  std::unordered_map<StorageId, Unfilled> followed_;
  std::unordered_map<StorageId, std::uint64_t> known_end_;
  std::map<std::tuple<std::string, std::string, std::string, SiteId, bool>, std::size_t> places_;
  std::vector<UnrecordedWrite> found_;
};

}  // namespace

std::vector<UnrecordedWrite> unrecorded_writes(const Trace& trace) { return Search(trace).run(); }

std::uint64_t count_values(const std::vector<UnrecordedWrite>& writes) {
  std::uint64_t count = 0;
  for (const UnrecordedWrite& write : writes) count += write.count;
  return count;
}

std::string describe(const Trace& trace, const UnrecordedWrite& write) {
  const std::string where = write.site == kNone && write.module.empty() ? ""
                            : write.module.empty()
                                ? fmt::format(" ({})", trace.site_text(write.site))
                                : fmt::format(" ({}, in {})", trace.site_text(write.site), write.module);
  const std::string times = write.count == 1 ? "" : fmt::format(", {} times", write.count);
  if (write.is_change) {
    return fmt::format("memory changed between {} and {}{}, and no recorded op changed it{}", write.before, write.after,
                       where, times);
  }
  return fmt::format("{}memory that {} left is read by {}{}, and no recorded op wrote it{}",
                     write.is_part ? "a part of " : "", write.before, write.after, where, times);
}

std::string changed_memory_text(std::string_view before, std::string_view after, std::string_view module) {
  std::string text = fmt::format("{}{}{}{}", kChanged, before, kAnd, after.empty() ? kEnd : after);
  if (!module.empty()) text += fmt::format("{}{}", kIn, module);
  return text;
}

}  // namespace crucible::trace
