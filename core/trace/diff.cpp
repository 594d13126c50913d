// Iteration by iteration: ops are aligned, pairs are compared, then the bytes that belong to the iteration.
#include "core/trace/diff.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "core/base/words.hpp"
#include "core/trace/alignment.hpp"
#include "core/trace/arg_difference.hpp"
#include "core/trace/element_difference.hpp"
#include "core/trace/summary.hpp"
#include "core/trace/text.hpp"

namespace crucible::trace {

namespace {

constexpr std::size_t kListedOps = 4;  // of a run of ops that only one recording has

/// The type of some tensor in each storage, to read its bytes by; kOther where there is none.
std::vector<DType> types_of_storages(const Trace& trace) {
  std::vector<DType> types(trace.storages.size(), DType::kOther);
  for (const Tensor& tensor : trace.tensors) {
    if (tensor.storage != kNone && types[tensor.storage] == DType::kOther) types[tensor.storage] = tensor.dtype;
  }
  return types;
}

void mix(std::uint64_t& key, std::uint64_t number) {
  key = (key ^ number) * 0x9e3779b97f4a7c15ull;
  key ^= key >> 29;
}

void mix_shapes(const Trace& trace, const std::vector<Arg>& args, std::uint64_t& key) {
  for (const Arg& arg : args) {
    mix(key, static_cast<std::uint64_t>(arg.kind));
    if (arg.kind == Arg::Kind::kTensor) {
      const Tensor& tensor = trace.tensors[arg.tensor];
      mix(key, tensor.sizes.size());
      for (const std::int64_t size : tensor.sizes) mix(key, static_cast<std::uint64_t>(size));
    }
    mix_shapes(trace, arg.list, key);
  }
}

std::string quantity(std::size_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

class Comparison {
 public:
  Comparison(const Trace& a, const Trace& b, const DiffOptions& options)
      : a_(a), b_(b), options_(options), args_(a, b), types_(types_of_storages(a)) {}

  Result<Diff> run() {
    if (options_.all) compare_metadata();
    if (a_.iterations.size() != b_.iterations.size()) {
      tell("iterations", std::nullopt, "",
           fmt::format("{} against {}", quantity(a_.iterations.size(), "iteration"),
                       quantity(b_.iterations.size(), "iteration")));
    }
    for (std::uint32_t i = 0; i < std::min(a_.iterations.size(), b_.iterations.size()); ++i)
      CRUCIBLE_TRY_VOID(compare_iteration(i));
    CRUCIBLE_TRY_VOID(compare_final_states());
    if (options_.all) compare_not_recorded();
    if (differing_results_ > 0) {
      if (differing_results_ > 1)
        first_result_.what += fmt::format("; the first of {} ops whose results differ", differing_results_);
      result_.differences.insert(result_.differences.begin(), std::move(first_result_));
    }
    return std::move(result_);
  }

 private:
  /// An op of one of the two, by its index in the iteration.
  struct Place {
    std::uint32_t a = kNone, b = kNone;
  };

  void add(Difference difference) {
    ++result_.count;
    if (options_.limit == 0 || result_.differences.size() < options_.limit)
      result_.differences.push_back(std::move(difference));
  }

  void tell(const char* kind, std::optional<std::uint32_t> iteration, std::string argument, std::string what) {
    Difference made;
    made.kind = kind;
    made.iteration = iteration;
    made.argument = std::move(argument);
    made.what = std::move(what);
    add(std::move(made));
  }

  /// Fills in where it is. The names are those of the first recording unless the op is in the second only.
  Difference at(std::string kind, std::uint32_t iteration, Place place, std::string argument, std::string what) const {
    const Trace& trace = place.a != kNone ? a_ : b_;
    const Op& op = trace.ops[trace.iterations[iteration].first_op + (place.a != kNone ? place.a : place.b)];
    Difference made;
    made.kind = std::move(kind);
    made.iteration = iteration;
    made.argument = std::move(argument);
    made.what = std::move(what);
    if (place.a != kNone) made.op_a = place.a;
    if (place.b != kNone) made.op_b = place.b;
    made.schema = trace.schemas[op.schema].full_name();
    if (op.module != kNone) made.module = trace.modules[op.module];
    if (op.site != kNone) made.site = trace.site_text(op.site);
    return made;
  }

  void compare_texts(const char* kind, std::string_view what, const std::string& a, const std::string& b) {
    if (a != b) tell(kind, std::nullopt, std::string(what), fmt::format("{:?} against {:?}", a, b));
  }

  void compare_metadata() {
    const Metadata& a = a_.metadata;
    const Metadata& b = b_.metadata;
    compare_texts("metadata", "framework", a.framework, b.framework);
    compare_texts("metadata", "frontend", a.frontend, b.frontend);
    compare_texts("metadata", "device", a.device, b.device);
    compare_texts("metadata", "command", a.command, b.command);
    compare_texts("metadata", "created", a.created, b.created);
    compare_texts("metadata", "precision", a.precision, b.precision);
    compare_texts("metadata", "incomplete_reason", a.incomplete_reason, b.incomplete_reason);
    const auto number = [](const std::optional<std::uint32_t>& it) { return it ? std::to_string(*it) : "none"; };
    compare_texts("metadata", "warmup_iterations", std::to_string(a.warmup_iterations),
                  std::to_string(b.warmup_iterations));
    compare_texts("metadata", "rank", number(a.rank), number(b.rank));
    compare_texts("metadata", "world_size", number(a.world_size), number(b.world_size));
  }

  void compare_not_recorded() {
    std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> counts;
    for (const NotRecorded& item : a_.not_recorded) counts[item.what].first += item.count;
    for (const NotRecorded& item : b_.not_recorded) counts[item.what].second += item.count;
    for (const auto& [what, count] : counts) {
      if (count.first == count.second) continue;
      tell("not_recorded", std::nullopt, what, fmt::format("{} times against {}", count.first, count.second));
    }
  }

  // --- ops ---

  Result<void> compare_iteration(std::uint32_t number) {
    const Iteration& a = a_.iterations[number];
    const Iteration& b = b_.iterations[number];
    if (a.complete != b.complete) {
      tell("iterations", number, "", a.complete ? "complete against incomplete" : "incomplete against complete");
    }
    plain_a_ = keys_of(a_, a, false);
    plain_b_ = keys_of(b_, b, false);
    Alignment alignment = align(keys_of(a_, a, true), keys_of(b_, b, true));
    if (!alignment.is_shortest) alignment = align(plain_a_, plain_b_);  // they may differ in shapes only
    walk(number, alignment);
    compare_losses(number);
    CRUCIBLE_TRY_VOID(compare_externals(number));
    CRUCIBLE_TRY_VOID(compare_draws(number));
    CRUCIBLE_TRY_VOID(compare_outputs(number));
    compare_generators(number);
    pairs_.clear();
    return {};
  }

  /// Keys of the iteration's ops: equal for equal operators (and argument shapes). Two that are equal by chance are
  /// compared as a pair, so that nothing is missed.
  std::vector<std::uint64_t> keys_of(const Trace& trace, const Iteration& iteration, bool with_shapes) {
    std::vector<std::uint64_t> keys;
    for (std::uint32_t i = 0; i < iteration.op_count; ++i) {
      const Op& op = trace.ops[iteration.first_op + i];
      std::uint64_t key = schema_number(trace, op.schema);
      if (with_shapes) mix_shapes(trace, op.args, key);
      keys.push_back(key);
    }
    return keys;
  }

  std::uint64_t schema_number(const Trace& trace, SchemaId id) {
    std::vector<std::uint64_t>& known = &trace == &a_ ? schemas_a_ : schemas_b_;
    known.resize(trace.schemas.size(), 0);
    if (known[id] == 0)
      known[id] = schema_numbers_.try_emplace(trace.schemas[id].full_name(), schema_numbers_.size() + 1).first->second;
    return known[id];
  }

  /// Equal runs as pairs; what lies between two runs is looked at again without shapes.
  void walk(std::uint32_t number, const Alignment& alignment) {
    std::uint32_t next_a = 0, next_b = 0;
    std::vector<EqualRun> runs = alignment.runs;
    runs.push_back({a_.iterations[number].op_count, b_.iterations[number].op_count, 0});
    for (const EqualRun& run : runs) {
      walk_gap(number, next_a, static_cast<std::uint32_t>(run.a), next_b, static_cast<std::uint32_t>(run.b));
      for (std::uint32_t i = 0; i < run.length; ++i)
        compare_pair(number, {static_cast<std::uint32_t>(run.a) + i, static_cast<std::uint32_t>(run.b) + i});
      next_a = static_cast<std::uint32_t>(run.a + run.length);
      next_b = static_cast<std::uint32_t>(run.b + run.length);
    }
  }

  void walk_gap(std::uint32_t number, std::uint32_t a, std::uint32_t end_a, std::uint32_t b, std::uint32_t end_b) {
    if (a == end_a && b == end_b) return;
    const Alignment alignment =
        align(std::span(plain_a_).subspan(a, end_a - a), std::span(plain_b_).subspan(b, end_b - b));
    std::vector<EqualRun> runs = alignment.runs;
    runs.push_back({end_a - a, end_b - b, 0});
    std::uint32_t next_a = a, next_b = b;
    for (const EqualRun& run : runs) {
      const std::uint32_t at_a = a + static_cast<std::uint32_t>(run.a), at_b = b + static_cast<std::uint32_t>(run.b);
      tell_leftover(number, next_a, at_a, next_b, at_b);
      for (std::uint32_t i = 0; i < run.length; ++i) compare_pair(number, {at_a + i, at_b + i});
      next_a = at_a + static_cast<std::uint32_t>(run.length);
      next_b = at_b + static_cast<std::uint32_t>(run.length);
    }
  }

  /// Ops without an equal: other operators in their place, or ops that one recording has more.
  void tell_leftover(std::uint32_t number, std::uint32_t a, std::uint32_t end_a, std::uint32_t b, std::uint32_t end_b) {
    if (end_a - a == end_b - b) {
      for (; a < end_a; ++a, ++b) compare_pair(number, {a, b});
      return;
    }
    if (a < end_a) add(at("missing", number, {a, kNone}, "", "only in the first" + more_ops(a_, number, a, end_a)));
    if (b < end_b) add(at("extra", number, {kNone, b}, "", "only in the second" + more_ops(b_, number, b, end_b)));
  }

  static std::string more_ops(const Trace& trace, std::uint32_t number, std::uint32_t first, std::uint32_t end) {
    if (end - first == 1) return "";
    std::string text = fmt::format(", and the {} behind it", quantity(end - first - 1, "op"));
    for (std::uint32_t i = first + 1; i < end && i <= first + kListedOps; ++i) {
      const Op& op = trace.ops[trace.iterations[number].first_op + i];
      text += (i == first + 1 ? ": " : ", ") + printable(trace.schemas[op.schema].full_name());
    }
    return end - first - 1 > kListedOps ? text + ", ..." : text;
  }

  void compare_pair(std::uint32_t number, Place place) {
    const std::uint32_t index_a = a_.iterations[number].first_op + place.a;
    const std::uint32_t index_b = b_.iterations[number].first_op + place.b;
    const Op& x = a_.ops[index_a];
    const Op& y = b_.ops[index_b];
    pairs_[index_a] = index_b;
    const Schema& schema = a_.schemas[x.schema];
    if (schema.full_name() != b_.schemas[y.schema].full_name()) {
      add(at("op", number, place, "", "against " + printable(b_.schemas[y.schema].full_name())));
      return;
    }
    if (schema.text != b_.schemas[y.schema].text && told_schemas_.insert(schema.full_name()).second)
      add(at("schema", number, place, "",
             fmt::format("declared as {} against {}", printable(schema.text), printable(b_.schemas[y.schema].text))));
    compare_args("argument", number, place, x.args, y.args, argument_names(schema.text));
    compare_args("result", number, place, x.outputs, y.outputs, {});
    if (x.phase != y.phase)
      add(at("phase", number, place, "", fmt::format("{} against {}", name(x.phase), name(y.phase))));
    const auto module = [](const Trace& trace, const Op& op) {
      return op.module == kNone ? "" : trace.modules[op.module];
    };
    if (module(a_, x) != module(b_, y))
      add(at("module", number, place, "", fmt::format("{:?} against {:?}", module(a_, x), module(b_, y))));
    if (options_.all) compare_whence(number, place, x, y);
    compare_hashes(number, place, index_a, index_b);
  }

  void compare_whence(std::uint32_t number, Place place, const Op& x, const Op& y) {
    if (x.thread != y.thread) add(at("thread", number, place, "", fmt::format("{} against {}", x.thread, y.thread)));
    const auto site = [](const Trace& trace, SiteId id) {
      if (id == kNone) return std::string("none");
      const Site& it = trace.sites[id];
      return fmt::format("{}:{} {}", printable(it.file), it.line, printable(it.function));
    };
    if (site(a_, x.site) != site(b_, y.site))
      add(at("site", number, place, "", fmt::format("{} against {}", site(a_, x.site), site(b_, y.site))));
  }

  void compare_args(const char* kind, std::uint32_t number, Place place, const std::vector<Arg>& a,
                    const std::vector<Arg>& b, const std::vector<std::string>& names) {
    if (a.size() != b.size())
      add(at(kind, number, place, "",
             fmt::format("{} against {}", quantity(a.size(), kind), quantity(b.size(), kind))));
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
      args_.compare(a[i], b[i], [&](const std::string& inside, const std::string& what) {
        add(at(kind, number, place, (i < names.size() ? printable(names[i]) : std::to_string(i)) + inside, what));
      });
    }
  }

  void compare_hashes(std::uint32_t number, Place place, std::uint32_t index_a, std::uint32_t index_b) {
    if (a_.op_hashes.empty() || b_.op_hashes.empty()) return;
    const std::vector<std::uint64_t>& a = a_.op_hashes[index_a];
    const std::vector<std::uint64_t>& b = b_.op_hashes[index_b];
    if (a == b) return;
    if (++differing_results_ > 1) return;
    ++result_.count;
    const std::size_t first = static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
    std::string what = fmt::format("{} against {}", quantity(a.size(), "hash"), quantity(b.size(), "hash"));
    if (first < std::min(a.size(), b.size()))
      what = fmt::format("its values differ (hash {:016x} against {:016x})", a[first], b[first]);
    first_result_ = at("results", number, place, std::to_string(first), std::move(what));
  }

  // --- bytes ---

  /// "" for the same content, else how the elements differ.
  Result<std::string> compare_blobs(BlobId a, BlobId b, DType dtype) const {
    if (a_.blobs[a].hash == b_.blobs[b].hash) return std::string();
    CRUCIBLE_TRY(const std::vector<std::byte> in_a, a_.blob_store->load(a));
    CRUCIBLE_TRY(const std::vector<std::byte> in_b, b_.blob_store->load(b));
    return difference_text(in_a, in_b, dtype);
  }

  static std::string bytes_name(Role role, const std::string& given) {
    if (given.empty()) return role == Role::kUnknown ? "" : fmt::format("an unnamed {}", name(role));
    return fmt::format("{} ({})", printable(given), name(role));
  }

  template <class Bytes>
  using Couple = std::pair<const Bytes*, const Bytes*>;  // of the first and the second, nullptr: has no partner

  /// Who stands for whom: the next one of the partner storage, else of the same name, else, without a name, of the same
  /// role.
  template <class Bytes>
  std::vector<Couple<Bytes>> couples(const std::vector<const Bytes*>& a, const std::vector<const Bytes*>& b) const {
    std::vector<Couple<Bytes>> found;
    std::multimap<StorageId, const Bytes*> by_storage;
    std::multimap<std::string, const Bytes*> by_name;
    const auto key = [](const Bytes& it) { return it.name.empty() ? fmt::format("\n{}", name(it.role)) : it.name; };
    for (const Bytes* it : b) by_storage.emplace(it->storage, it);
    std::set<const Bytes*> taken;
    for (const Bytes* it : a) {
      const auto partner = by_storage.find(args_.partner(it->storage));
      found.emplace_back(it, nullptr);
      if (partner == by_storage.end()) continue;
      found.back().second = partner->second;
      taken.insert(partner->second);
      by_storage.erase(partner);
    }
    for (const Bytes* it : b) {
      if (!taken.contains(it)) by_name.emplace(key(*it), it);
    }
    for (auto& [mine, other] : found) {
      const auto partner = other == nullptr ? by_name.find(key(*mine)) : by_name.end();
      if (partner == by_name.end()) continue;
      other = partner->second;
      taken.insert(other);
      by_name.erase(partner);
    }
    for (const Bytes* it : b) {
      if (!taken.contains(it)) found.emplace_back(nullptr, it);
    }
    return found;
  }

  template <class Bytes>
  Result<void> compare_couples(const char* kind, std::optional<std::uint32_t> number,
                               const std::vector<Couple<Bytes>>& all) {
    for (const auto& [x, y] : all) {
      if (x == nullptr || y == nullptr) {
        tell_bytes(kind, number, x == nullptr ? *y : *x, x == nullptr ? "only in the second" : "only in the first");
        continue;
      }
      CRUCIBLE_TRY(const std::string what, compare_blobs(x->blob, y->blob, types_[x->storage]));
      if (!what.empty()) tell_bytes(kind, number, *x, what);
      if (bytes_name(x->role, x->name) != bytes_name(y->role, y->name))
        tell_bytes(kind, number, *x, "against " + bytes_name(y->role, y->name));
    }
    return {};
  }

  Result<void> compare_externals(std::uint32_t number) {
    const auto of_iteration = [number](const Trace& trace) {
      std::vector<const External*> found;
      for (const External& external : trace.externals) {
        if (external.iteration == number) found.push_back(&external);
      }
      return found;
    };
    return compare_couples("external", number, couples(of_iteration(a_), of_iteration(b_)));
  }

  template <class Bytes>
  void tell_bytes(const char* kind, std::optional<std::uint32_t> number, const Bytes& bytes, std::string what) {
    std::string named = bytes_name(bytes.role, bytes.name);
    if (named.empty()) named = fmt::format("storage {}", bytes.storage);
    tell(kind, number, std::move(named), std::move(what));
  }

  Result<void> compare_draws(std::uint32_t number) {
    const Iteration& mine = a_.iterations[number];
    std::map<std::pair<std::uint32_t, std::uint32_t>, BlobId> in_b;
    for (const Draw& draw : b_.draws) in_b[{draw.op, draw.output}] = draw.blob;
    for (const Draw& draw : a_.draws) {
      if (draw.op < mine.first_op || draw.op - mine.first_op >= mine.op_count || !pairs_.contains(draw.op)) continue;
      const Place place{draw.op - mine.first_op, pairs_[draw.op] - b_.iterations[number].first_op};
      const auto found = in_b.find({pairs_[draw.op], draw.output});
      const Arg& output = a_.ops[draw.op].outputs[draw.output];
      const DType dtype = output.kind == Arg::Kind::kTensor ? a_.tensors[output.tensor].dtype : DType::kOther;
      std::string what = "only the first has what it drew";
      if (found != in_b.end()) {
        CRUCIBLE_TRY(what, compare_blobs(draw.blob, found->second, dtype));
        in_b.erase(found);
      }
      if (!what.empty()) add(at("draw", number, place, std::to_string(draw.output), std::move(what)));
    }
    std::map<std::uint32_t, std::uint32_t> back;
    for (const auto& [a, b] : pairs_) back[b] = a;
    for (const auto& [key, blob] : in_b) {
      if (!back.contains(key.first)) continue;
      const Place place{back[key.first] - mine.first_op, key.first - b_.iterations[number].first_op};
      add(at("draw", number, place, std::to_string(key.second), "only the second has what it drew"));
    }
    return {};
  }

  void compare_losses(std::uint32_t number) {
    const std::vector<Loss>& a = a_.iterations[number].losses;
    const std::vector<Loss>& b = b_.iterations[number].losses;
    if (a.size() != b.size()) tell("loss", number, "", fmt::format("{} values against {}", a.size(), b.size()));
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
      if (std::bit_cast<std::uint64_t>(a[i].value) == std::bit_cast<std::uint64_t>(b[i].value)) continue;
      tell("loss", number, std::to_string(i),
           fmt::format("{} against {}", double_text(a[i].value), double_text(b[i].value)));
    }
  }

  Result<void> compare_outputs(std::uint32_t number) {
    std::map<std::string, const Output*> in_b;
    for (const Output& output : b_.outputs) {
      if (output.iteration == number) in_b[output.name] = &output;
    }
    const auto tell_of = [&](const std::string& named, const std::string& what) {
      tell("output", number, printable(named), what);
    };
    for (const Output& output : a_.outputs) {
      if (output.iteration != number) continue;
      const auto found = in_b.find(output.name);
      if (found == in_b.end()) {
        tell_of(output.name, "only in the first");
        continue;
      }
      const Output& partner = *found->second;
      in_b.erase(found);
      args_.compare_tensors(output.tensor, partner.tensor, [&](const std::string& inside, const std::string& what) {
        tell_of(output.name + inside, what);
      });
      CRUCIBLE_TRY(const std::string what, compare_blobs(output.blob, partner.blob, a_.tensors[output.tensor].dtype));
      if (!what.empty()) tell_of(output.name, what);
    }
    for (const auto& [named, output] : in_b) tell_of(named, "only in the second");
    return {};
  }

  void compare_generators(std::uint32_t number) {
    std::map<std::string, std::pair<const ContentHash*, const ContentHash*>> states;
    for (const GeneratorState& it : a_.generators) {
      if (it.iteration == number) states[it.device].first = &a_.blobs[it.blob].hash;
    }
    for (const GeneratorState& it : b_.generators) {
      if (it.iteration == number) states[it.device].second = &b_.blobs[it.blob].hash;
    }
    for (const auto& [device, hashes] : states) {
      const auto& [x, y] = hashes;
      if (x != nullptr && y != nullptr && *x == *y) continue;
      tell("generator", number, printable(device),
           x == nullptr   ? "only in the second"
           : y == nullptr ? "only in the first"
                          : "another state at the start of the iteration");
    }
  }

  Result<void> compare_final_states() {
    const auto all = [](const Trace& trace) {
      std::vector<const FinalState*> found;
      for (const FinalState& state : trace.final_states) found.push_back(&state);
      return found;
    };
    return compare_couples("final_state", std::nullopt, couples(all(a_), all(b_)));
  }

  const Trace& a_;
  const Trace& b_;
  const DiffOptions& options_;
  ArgComparison args_;
  std::vector<DType> types_;  // by storage of the first
  std::map<std::string, std::uint64_t> schema_numbers_;
  std::vector<std::uint64_t> plain_a_, plain_b_;      // of this iteration's ops: keys without shapes
  std::vector<std::uint64_t> schemas_a_, schemas_b_;  // by schema: its number, 0 not asked for yet
  std::set<std::string> told_schemas_;
  std::map<std::uint32_t, std::uint32_t> pairs_;  // ops of this iteration: first recording's to second's
  std::uint64_t differing_results_ = 0;
  Difference first_result_;
  Diff result_;
};

}  // namespace

std::string Difference::text() const {
  std::string text;
  const auto append = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  if (iteration) append(fmt::format("iteration {}", *iteration));
  if (op_a || op_b) {
    append(fmt::format("op {} {}", op_a ? *op_a : *op_b, printable(schema)));
    if (op_a && op_b && *op_a != *op_b) text += fmt::format(" (op {} in the second)", *op_b);
    const std::string where = module.empty() || site.empty() ? module + site : module + ", " + site;
    if (!where.empty()) text += fmt::format(" ({})", printable(where));
  }
  std::string about = kind;
  std::ranges::replace(about, '_', ' ');
  const bool says_itself =
      kind == "missing" || kind == "extra" || kind == "op" || kind == "iterations" || kind == "schema";
  if (says_itself) return text.empty() ? what : fmt::format("{}: {}", text, what);
  if (kind == "results") about = "result";
  if (kind == "external") about = "external bytes of";
  if (kind == "generator") about = "generator of";
  append((text.empty() ? "" : "") + about + (argument.empty() ? "" : " " + argument));
  return text + ": " + what;
}

Result<Diff> diff(const Trace& a, const Trace& b, const DiffOptions& options) {
  return Comparison(a, b, options).run();
}

}  // namespace crucible::trace
