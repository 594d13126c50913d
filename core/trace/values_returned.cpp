// One walk over each complete iteration, then the comparison of what entered in different ones.
#include "core/trace/values_returned.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "core/base/hash.hpp"
#include "core/base/words.hpp"
#include "core/trace/element_numbers.hpp"
#include "core/trace/op_effects.hpp"
#include "core/trace/text.hpp"

namespace crucible::trace {

namespace {

constexpr std::size_t kFew = 64;            // numbers that are looked for among the elements of what entered
constexpr std::size_t kLargest = 1u << 20;  // bytes of what entered that are looked at for that

void collect_tensors(const std::vector<Arg>& args, std::vector<TensorId>& found) {
  for (const Arg& arg : args) {
    if (arg.kind == Arg::Kind::kTensor) found.push_back(arg.tensor);
    if (arg.kind == Arg::Kind::kList) collect_tensors(arg.list, found);
  }
}

std::vector<TensorId> tensors_of(const std::vector<Arg>& args) {
  std::vector<TensorId> found;
  collect_tensors(args, found);
  return found;
}

std::uint64_t elements_of(const Tensor& tensor) {
  std::uint64_t elements = 1;
  for (const std::int64_t size : tensor.sizes) elements *= static_cast<std::uint64_t>(size);
  return elements;
}

void collect_numbers(const std::vector<Arg>& args, std::vector<double>& numbers) {
  for (const Arg& arg : args) {
    if (arg.kind == Arg::Kind::kBool || arg.kind == Arg::Kind::kInt)
      numbers.push_back(static_cast<double>(arg.integer));
    if (arg.kind == Arg::Kind::kDouble) numbers.push_back(arg.real);
    if (arg.kind == Arg::Kind::kList) collect_numbers(arg.list, numbers);
  }
}

/// Not one of the numbers that programs write down.
bool is_telling(double number) {
  return std::isfinite(number) && (number != std::floor(number) || std::abs(number) > 64);
}

struct Left {
  std::uint32_t at = 0;  // ops of the iteration before it
  const Op* op = nullptr;
  bool own = false;      // computed in this iteration from what entered in it
  bool counts = false;   // it may matter: neither a loss nor an optimizer's nor printed
  bool decides = false;  // truth values alone
  std::uint64_t elements = 0;
  std::vector<double> numbers = {};       // few ones
  std::optional<std::uint64_t> sum = {};  // of the bytes, where they are not few
  std::string text = {};
};

struct Entered {
  std::uint32_t at = 0;
  std::uint32_t place = 0,
                part = 0;  // the same for what corresponds in another iteration: ops before it that are no readings
  const External* external = nullptr;  // null: a number among the arguments
  std::uint64_t sizes = 0;             // hash of those of the tensors that had entered in the iteration
  bool is_number = false;
  DType dtype = DType::kF32;
  SiteId site = kNone;
  std::string text = {};  // content
  double value = 0;       // of a number
};

struct Run {
  std::vector<Left> left;
  std::vector<Entered> entered;
  std::uint32_t places = 0;
};

using Place = std::pair<std::uint32_t, std::uint32_t>;

class Walk {
 public:
  Walk(const Trace& trace, const std::unordered_multimap<std::uint32_t, const External*>& externals,
       const std::unordered_map<StorageId, Role>& roles, const std::unordered_set<std::uint32_t>& drawing)
      : trace_(trace), compounds_(trace), effects_(trace), externals_(externals), roles_(roles), drawing_(drawing) {}

  Run run(const Iteration& iteration) {
    Run run;
    own_.clear();
    given_.clear();
    here_.clear();
    weighted_.clear();
    before_.clear();
    sizes_ = 0;
    std::unordered_set<StorageId> losses;
    for (const Loss& loss : iteration.losses) losses.insert(trace_.tensors[loss.tensor].storage);
    std::uint32_t place = 0;
    for (std::uint32_t at = 0; at < iteration.op_count; ++at) {
      const std::uint32_t index = iteration.first_op + at;
      const Op& op = trace_.ops[index];
      const std::vector<TensorId> read = tensors_of(op.args);
      enter(run, index, at, place, op, read);
      if (is_reading(trace_, op)) {
        leave(run, at, op, read, losses);
        continue;
      }
      if (op.phase != Phase::kOptimizer) enter_numbers(run, at, place, op);
      ++place;
      follow(index, op, read);
    }
    run.places = place;
    return run;
  }

 private:
  bool lasts(StorageId storage) const { return roles_.contains(storage); }

  /// Without reading an element: a view is made of it, or a tensor is set to lie there.
  bool looks_at(const Op& op, const TensorUse& use) const {
    return use.is_viewed || trace_.schemas[op.schema].text.starts_with("aten::set_.");
  }
  /// Whether memory that op `index` only looks at is overwritten as a whole before anything reads it, as torch.save
  /// does with what it copies a device's storages to.
  bool is_replaced_later(std::uint32_t index, StorageId storage) {
    constexpr std::uint32_t kLook = 16;  // ops
    const std::size_t end = std::min<std::size_t>(trace_.ops.size(), std::size_t{index} + 1 + kLook);
    for (std::size_t at = std::size_t{index} + 1; at < end; ++at) {
      for (const TensorUse& use : effects_.uses(trace_.ops[at])) {
        if (use.storage == storage && !looks_at(trace_.ops[at], use)) return use.is_replaced;
      }
    }
    return false;
  }

  void enter(Run& run, std::uint32_t index, std::uint32_t at, std::uint32_t place, const Op& op,
             const std::vector<TensorId>& read) {
    const auto [first, last] = externals_.equal_range(index);
    std::vector<const External*> here;
    for (auto it = first; it != last; ++it) here.push_back(it->second);
    std::ranges::sort(here);                 // as they stand in the recording
    std::unordered_set<StorageId> replaced;  // memory that is new: what it holds matters to nobody
    for (const TensorUse& use : here.empty() ? std::vector<TensorUse>() : effects_.uses(op)) {
      if (use.is_replaced || (looks_at(op, use) && is_replaced_later(index, use.storage))) replaced.insert(use.storage);
    }
    std::uint32_t part = 0;
    for (const External* external : here) {
      here_.insert(external->storage);
      if (lasts(external->storage) || replaced.contains(external->storage)) continue;
      Entered entered{.at = at, .place = place, .part = part++, .external = external, .site = op.site};
      for (const TensorId id : read) {
        const Tensor& tensor = trace_.tensors[id];
        if (tensor.storage != external->storage) continue;
        entered.dtype = tensor.dtype;
        entered.is_number = tensor.is_wrapped_number;
        for (const std::int64_t size : tensor.sizes)
          sizes_ = (sizes_ ^ static_cast<std::uint64_t>(size)) * 0x100000001b3 + 1;
      }
      entered.sizes = sizes_;
      if (!entered.is_number) given_.insert(external->storage);
      if (external->role == Role::kInput) continue;  // a loader gave it: reservations.hpp has what it may be made of
      if (external->blob < trace_.blobs.size()) entered.text = trace_.blobs[external->blob].hash.hex();
      if (entered.is_number) {
        const std::vector<double> numbers = content(entered);
        entered.value = numbers.empty() ? 0 : numbers[0];
      }
      run.entered.push_back(std::move(entered));
    }
  }

  void enter_numbers(Run& run, std::uint32_t at, std::uint32_t place, const Op& op) {
    std::uint32_t part = 1u << 16;  // behind the tensors
    for (const Arg& arg : op.args) {
      ++part;
      if (arg.kind != Arg::Kind::kInt && arg.kind != Arg::Kind::kDouble) continue;
      run.entered.push_back({.at = at,
                             .place = place,
                             .part = part,
                             .sizes = sizes_,
                             .is_number = true,
                             .site = op.site,
                             .text = arg_text(compounds_, arg),
                             .value = arg.kind == Arg::Kind::kInt ? static_cast<double>(arg.integer) : arg.real});
    }
  }

  void leave(Run& run, std::uint32_t at, const Op& op, const std::vector<TensorId>& read,
             const std::unordered_set<StorageId>& losses) {
    Left left{.at = at, .op = &op};
    bool is_loss = !read.empty();
    bool is_truth = true;
    for (const TensorId id : read) {
      const Tensor& tensor = trace_.tensors[id];
      left.own |= own_.contains(tensor.storage);
      is_loss &= losses.contains(tensor.storage);
      left.elements += elements_of(tensor);
      is_truth &= tensor.dtype == DType::kBool;
    }
    collect_numbers(op.outputs, left.numbers);
    if (left.numbers.size() > kFew) left.numbers.clear();
    const std::string_view schema = trace_.schemas[op.schema].name;
    if (schema.starts_with("python::") && op.outputs.size() == 2) {  // the values, if they are few, and a sum over all
      left.sum = static_cast<std::uint64_t>(op.outputs[1].integer);
      left.numbers.clear();
      collect_numbers({op.outputs[0]}, left.numbers);
    }
    left.decides = is_truth || schema == "aten::equal" || schema == "aten::is_nonzero";
    left.counts = !is_loss && op.phase != Phase::kOptimizer && schema != "python::print" && left.elements > 0;
    for (const Arg& output : op.outputs) left.text += arg_text(compounds_, output) + ";";
    run.left.push_back(std::move(left));
  }

  /// What an op makes of values of this iteration is of this iteration; so is what a model makes of what it was handed.
  void follow(std::uint32_t index, const Op& op, const std::vector<TensorId>& read) {
    bool own = drawing_.contains(index), from_weights = false, from_before = false;
    for (const TensorId id : read) {
      const StorageId storage = trace_.tensors[id].storage;
      own |= own_.contains(storage) || given_.contains(storage);
      from_weights |= lasts(storage) || weighted_.contains(storage);
      from_before |= !lasts(storage) && (!here_.contains(storage) || before_.contains(storage));
    }
    own |= from_weights && from_before;
    std::vector<StorageId> made = effects_.results(op);
    for (const TensorUse& use : effects_.uses(op)) {
      if (use.is_written) made.push_back(use.storage);
    }
    for (const StorageId storage : made) {
      here_.insert(storage);
      if (lasts(storage)) continue;
      if (own) own_.insert(storage);
      if (from_weights) weighted_.insert(storage);
      if (from_before) before_.insert(storage);
    }
  }

 public:
  std::vector<double> content(const Entered& entered) const {
    if (entered.external == nullptr) return {entered.value};
    const BlobId blob = entered.external->blob;
    if (blob >= trace_.blobs.size() || trace_.blobs[blob].size_bytes > kLargest || trace_.blob_store == nullptr)
      return {};
    const Result<std::vector<std::byte>> bytes = trace_.blob_store->load(blob);
    return bytes ? numbers_in(*bytes, entered.dtype) : std::vector<double>{};
  }
  std::optional<std::uint64_t> sum(const Entered& entered) const {
    if (entered.external == nullptr || entered.external->blob >= trace_.blobs.size() || trace_.blob_store == nullptr)
      return std::nullopt;
    if (trace_.blobs[entered.external->blob].size_bytes > kLargest) return std::nullopt;
    const Result<std::vector<std::byte>> bytes = trace_.blob_store->load(entered.external->blob);
    return bytes ? std::optional(checksum64(*bytes)) : std::nullopt;
  }

 private:
  const Trace& trace_;
  const Compounds compounds_;
  OpEffects effects_;
  const std::unordered_multimap<std::uint32_t, const External*>& externals_;
  const std::unordered_map<StorageId, Role>& roles_;
  const std::unordered_set<std::uint32_t>& drawing_;
  std::unordered_set<StorageId> own_;       // made of what entered in this iteration
  std::unordered_set<StorageId> given_;     // entered in this iteration, so that Python has it anyway
  std::unordered_set<StorageId> here_;      // entered or made in this iteration
  std::unordered_set<StorageId> weighted_;  // made of parameters or states
  std::unordered_set<StorageId> before_;    // made of what an earlier iteration left
  std::uint64_t sizes_ = 0;                 // hash of those of the tensors that entered in this iteration
};

class Search {
 public:
  explicit Search(const Trace& trace) : trace_(trace) {
    for (const External& external : trace.externals) {
      externals_.emplace(external.op, &external);
      if (external.role == Role::kParameter || external.role == Role::kBuffer ||
          external.role == Role::kOptimizerState) {
        roles_.emplace(external.storage, external.role);
      }
    }
    for (const FinalState& state : trace.final_states) roles_.emplace(state.storage, state.role);
    for (const Draw& draw : trace.draws) drawing_.insert(draw.op);
    Walk walk(trace_, externals_, roles_, drawing_);
    for (const Iteration& iteration : trace.iterations) {
      if (!iteration.complete) continue;
      runs_.push_back(walk.run(iteration));
      trains_ |= !iteration.losses.empty();
    }
    for (const Run& run : runs_) {
      std::map<Place, const Entered*> content;
      for (const Entered& entered : run.entered) content[{entered.place, entered.part}] = &entered;
      contents_.push_back(std::move(content));
    }
    is_comparable_ =
        runs_.size() > 1 && std::ranges::all_of(runs_, [&](const Run& run) { return run.places == runs_[0].places; });
    for (const Run& run : runs_) {
      auto& telling = telling_.emplace_back();
      for (const Left& left : run.left) {
        if (left.counts && left.own) telling.push_back(&left);
        texts_[{&run, {left.op->schema, left.op->site}}] += left.text;
      }
    }
  }

  std::optional<ValuesReturned> find() {
    if (auto found = within(); found) return found;
    return across();
  }

 private:
  /// In the first iteration a state or what is left of an iteration before enters too, so the later ones are asked
  /// where there are some.
  std::size_t first() const { return runs_.size() > 1 ? 1 : 0; }

  /// What comes back in every iteration, where they have the same ops: else a value of an iteration that was passed
  /// over may have entered in one.
  std::optional<std::set<Place>> always_back() const {
    if (!is_comparable_) return std::nullopt;
    std::map<Place, std::size_t> counts;
    for (std::size_t i = first(); i < runs_.size(); ++i) {
      for (const Entered& entered : runs_[i].entered) {
        if (came_back(i, entered)) ++counts[{entered.place, entered.part}];
      }
    }
    std::set<Place> always;
    for (const auto& [place, count] : counts) {
      if (count == runs_.size() - first()) always.insert(place);
    }
    return always;
  }

  std::optional<ValuesReturned> within() {
    const std::optional<std::set<Place>> always = always_back();
    ValuesReturned found;
    bool differ = false, any = false;
    for (std::size_t i = first(); i < runs_.size(); ++i) {
      const Run& run = runs_[i];
      std::uint64_t tensors = 0, numbers = 0, values = 0;
      std::uint32_t last = 0;
      for (const Entered& entered : run.entered) {
        if (always ? !always->contains({entered.place, entered.part}) : !came_back(i, entered)) continue;
        (entered.is_number ? numbers : tensors) += 1;
        last = std::max(last, entered.at);
        differ |= runs_.size() > 1 && entered_differs(i, entered);
        if (!any) found.entered_at = entered.site;
        any = true;
      }
      for (const Left& left : run.left) {
        if (!left.counts || !left.own || left.at >= last || tensors + numbers == 0) continue;
        values += left.elements;
        add_line(found, left.op->site);
      }
      found.values = std::max(found.values, values);
      found.tensors = std::max(found.tensors, tensors);
      found.numbers = std::max(found.numbers, numbers);
    }
    if (!any) return std::nullopt;
    if (runs_.size() > 1) found.changed = differ;
    tell(found);
    return found;
  }

  /// False when the line was there: several sites may lie in one.
  bool add_line(ValuesReturned& found, SiteId site) const {
    const auto is_same = [&](SiteId other) { return trace_.site_text(other) == trace_.site_text(site); };
    if (std::ranges::any_of(found.left_at, is_same)) return false;
    found.left_at.push_back(site);
    return true;
  }

  bool came_back(std::size_t iteration, const Entered& entered) const {
    const std::vector<const Left*>& telling = telling_[iteration];  // in order
    if (telling.empty() || telling.front()->at >= entered.at) return false;
    const bool changes = entered_differs(iteration, entered);
    if (entered.is_number && changes && is_comparable_) return true;
    if (entered.is_number && !is_telling(entered.value)) return false;
    for (const Left* left : telling) {
      if (left->at >= entered.at) break;
      if (entered.is_number) {
        if (std::ranges::find(left->numbers, entered.value) != left->numbers.end()) return true;
      } else if (runs_.size() == 1 || changes || (!left->decides && !left_differs(*left))) {
        return true;  // steady although what left was not: it did not depend on it
      }
    }
    return false;
  }

  /// A number that differs where batches have other sizes is what the program makes of the sizes.
  bool entered_differs(std::size_t iteration, const Entered& entered) const {
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      if (i == iteration) continue;
      const auto other = contents_[i].find({entered.place, entered.part});
      if (other == contents_[i].end()) {
        if (i >= first()) return true;
      } else if (other->second->text != entered.text && !(entered.is_number && other->second->sizes != entered.sizes)) {
        return true;
      }
    }
    return false;
  }

  bool left_differs(const Left& left) const {
    const auto text = [&](const Run& run) {
      const auto found = texts_.find({&run, {left.op->schema, left.op->site}});
      return found == texts_.end() ? std::string_view() : std::string_view(found->second);
    };
    return std::ranges::any_of(runs_, [&](const Run& run) { return text(run) != text(runs_[0]); });
  }

  /// What left between two iterations, or at one's end, and entered as it was in the next.
  std::optional<ValuesReturned> across() {
    const Walk walk(trace_, externals_, roles_, drawing_);
    std::map<std::pair<Place, SiteId>, std::size_t> matches;
    std::map<std::pair<Place, SiteId>, const Entered*> examples;
    std::map<std::pair<Place, SiteId>, std::uint64_t> counts;
    for (std::size_t i = 1; i < runs_.size(); ++i) {
      for (const Entered& entered : runs_[i].entered) {
        if (entered.external == nullptr || entered.is_number || !entered_differs_anywhere(entered)) continue;
        for (const auto& [site, pool] : pools(i, entered.at)) {
          if (!holds(walk, entered, pool)) continue;
          const std::pair<Place, SiteId> key{{entered.place, entered.part}, site};
          ++matches[key];
          examples[key] = &entered;
          counts[key] = std::max<std::uint64_t>(counts[key], pool.elements);
        }
      }
    }
    ValuesReturned found;
    std::set<Place> places;
    for (const auto& [key, count] : matches) {
      const bool is_certain =
          !trains_ || count >= 2 || counts[key] >= 4;  // a label may be what a counted number was, once
      if (count + 1 < runs_.size() || !is_certain) continue;
      if (add_line(found, key.second)) found.values += counts[key];
      if (places.insert(key.first).second) ++found.tensors;
      if (found.entered_at == kNone) found.entered_at = examples[key]->site;
    }
    if (found.tensors == 0) return std::nullopt;
    found.across_iterations = true;
    found.changed = true;
    tell(found);
    return found;
  }

  bool entered_differs_anywhere(const Entered& entered) const {
    return std::ranges::any_of(contents_, [&](const auto& contents) {
      const auto other = contents.find({entered.place, entered.part});
      return other != contents.end() && other->second->text != entered.text;
    });
  }

  struct Pool {
    std::vector<double> numbers;
    std::vector<std::uint64_t> sums;
    std::uint64_t elements = 0;
  };

  /// By line, what left in the iteration before `iteration` and in it up to `at`.
  std::map<SiteId, Pool> pools(std::size_t iteration, std::uint32_t at) const {
    std::map<SiteId, Pool> found;
    const auto add = [&found](const Left& left) {
      if (!left.counts) return;
      Pool& pool = found[left.op->site];
      pool.numbers.insert(pool.numbers.end(), left.numbers.begin(), left.numbers.end());
      if (left.sum) pool.sums.push_back(*left.sum);
      pool.elements += left.elements;
    };
    for (const Left& left : runs_[iteration].left) {
      if (left.at < at) add(left);
    }
    std::map<SiteId, Pool> before;
    std::swap(found, before);
    for (const Left& left : runs_[iteration - 1].left) add(left);
    for (auto& [site, pool] : before) found[site] = std::move(pool);  // the latest that left there
    return found;
  }

  static bool holds(const Walk& walk, const Entered& entered, const Pool& pool) {
    if (!pool.sums.empty()) {
      const auto sum = walk.sum(entered);
      if (sum && std::ranges::find(pool.sums, *sum) != pool.sums.end()) return true;
    }
    if (pool.numbers.empty() || pool.numbers.size() > kFew) return false;
    const std::vector<double> numbers = walk.content(entered);
    return numbers.size() >= pool.numbers.size() &&
           std::equal(pool.numbers.begin(), pool.numbers.end(),
                      numbers.end() - static_cast<std::ptrdiff_t>(pool.numbers.size()));
  }

  void tell(ValuesReturned& found) const {
    const auto counted = [](std::uint64_t count, const char* what) {
      return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
    };
    std::string entered;
    if (found.tensors > 0) entered = counted(found.tensors, "tensor");
    if (found.numbers > 0) entered += (entered.empty() ? "" : " and ") + counted(found.numbers, "number");
    const bool is_one = found.tensors + found.numbers == 1;
    const std::size_t others = found.left_at.size() - std::min<std::size_t>(found.left_at.size(), 1);
    const std::string lines = printable(trace_.site_text(found.left_at.empty() ? kNone : found.left_at[0])) +
                              (others == 0 ? "" : fmt::format(" and {}", counted(others, "other line")));
    const char* how = !found.changed   ? " (one iteration: whether this changes is not known)"
                      : *found.changed ? ""
                                       : " (the same in all recorded iterations)";
    found.text = fmt::format(
        "in each iteration {} left the program at {}, and {} that entered {} (at {}) {} taken from the recording{}: "
        "what Python did "
        "in between is not replayed",
        counted(found.values, "value"), lines, entered,
        found.across_iterations ? "in the next one with them" : "afterwards",
        printable(trace_.site_text(found.entered_at)), is_one ? "is" : "are", how);
  }

  const Trace& trace_;
  std::unordered_multimap<std::uint32_t, const External*> externals_;
  std::unordered_map<StorageId, Role> roles_;  // of storages that outlive iterations
  std::unordered_set<std::uint32_t> drawing_;  // ops that drew
  std::vector<Run> runs_;                      // of the complete iterations
  std::vector<std::map<Place, const Entered*>> contents_;
  std::vector<std::vector<const Left*>> telling_;                                    // of each run: what counts
  std::map<std::pair<const Run*, std::pair<SchemaId, SiteId>>, std::string> texts_;  // all that left at one line
  bool is_comparable_ = false;  // numbers of one iteration have their place in the others
  bool trains_ = false;
};

}  // namespace

bool is_reading(const Trace& trace, const Op& op) {
  if (op.outputs.empty() || !tensors_of(op.outputs).empty()) return false;
  if (trace.schemas[op.schema].name.starts_with("profiler::")) return false;
  return std::ranges::any_of(op.outputs, [](const Arg& output) {
    return output.kind != Arg::Kind::kNone && output.kind != Arg::Kind::kUndefinedTensor &&
           (output.kind != Arg::Kind::kList || !output.list.empty());
  });
}

std::optional<ValuesReturned> values_returned(const Trace& trace) { return Search(trace).find(); }

}  // namespace crucible::trace
