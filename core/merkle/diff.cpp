// Comparing from the top: equal hashes end it, children are matched by name and then by hash, what is not cut further
// is compared op by op.
#include "core/merkle/diff.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "core/base/figures.hpp"
#include "core/graph/print.hpp"
#include "core/merkle/op_diff.hpp"

namespace crucible::merkle {
namespace {

using graph::kNone;
using graph::Program;
using graph::ValueId;

/// A loop that was matched with something else is its turns.
std::vector<RegionId> unrolled(const RegionTree& tree, const Region& region) {
  std::vector<RegionId> list;
  for (const RegionId child : region.children) {
    const Region& it = tree.regions[child];
    if (it.kind == RegionKind::kLoop) {
      list.insert(list.end(), it.children.begin(), it.children.end());
    } else {
      list.push_back(child);
    }
  }
  return list;
}

class Differ {
 public:
  Differ(const RegionTree& a, const RegionTree& b) : a_(a), b_(b) {}

  Difference run() {
    result_.equal = a_.root().merkle == b_.root().merkle || same_programs();
    if (result_.equal) {
      if (a_.root().merkle == b_.root().merkle) compare_names(last(a_), last(b_));
    } else {
      compare(last(a_), last(b_));
      if (result_.changes.empty()) note(ChangeKind::kWiring, "its parts are equal and read other operands");
    }
    return std::move(result_);
  }

 private:
  static RegionId last(const RegionTree& tree) { return static_cast<RegionId>(tree.regions.size() - 1); }

  /// The same computation may be cut differently, by other names of modules.
  bool same_programs() const { return a_.root().content == b_.root().content; }

  const Program& program(const RegionTree& tree, const Region& region) const { return *tree.programs[region.program]; }

  void note(ChangeKind kind, std::string what) { result_.changes.push_back({kind, phase_, module_, std::move(what)}); }

  /// Names of equal trees, where they differ: the outermost of each.
  void compare_names(RegionId a, RegionId b) {
    const Region &ra = a_.regions[a], &rb = b_.regions[b];
    if (ra.name != rb.name) {
      Change change{ChangeKind::kName, "", "", fmt::format("{} is called {} in the second", ra.name, rb.name)};
      const auto& known = result_.changes;
      if (std::ranges::find(known, change.what, &Change::what) == known.end())
        result_.changes.push_back(std::move(change));
      return;
    }
    for (std::size_t i = 0; i < ra.children.size(); ++i) compare_names(ra.children[i], rb.children[i]);
  }

  void enter(const Region& region) {
    if (region.kind == RegionKind::kPhase) phase_ = region.name;
    if (region.kind == RegionKind::kPhase) module_.clear();
    if (region.kind == RegionKind::kModule || region.kind == RegionKind::kOps) module_ = region.name;
  }

  void compare(RegionId a, RegionId b) {
    const Region &ra = a_.regions[a], &rb = b_.regions[b];
    if (ra.merkle == rb.merkle) return;
    if (ra.content == rb.content && ra.kind != RegionKind::kLoop) return;
    ++result_.regions;
    const std::string phase = phase_, module = module_;
    enter(ra);
    const std::size_t before = result_.changes.size();
    if (ra.children.empty() || rb.children.empty()) {
      compare_ops(ra, rb);
    } else {
      compare_children(ra, rb);
      if (ra.kind == RegionKind::kIteration) compare_roles(ra, rb);
    }
    if (result_.changes.size() == before) compare_wiring(ra, rb);
    phase_ = phase;
    module_ = module;
  }

  void compare_ops(const Region& ra, const Region& rb) {
    for (auto& [kind, what] : op_changes(program(a_, ra), ra.ops, program(b_, rb), rb.ops)) note(kind, std::move(what));
  }

  std::string words(const RegionTree& tree, RegionId id) const {
    const Region& region = tree.regions[id];
    if (region.kind == RegionKind::kIteration) return fmt::format("a way of {}", plural(region.ops.size(), "op"));
    const std::string name = region.name.empty() ? "ops outside of modules" : region.name;
    return fmt::format("{} ({})", region.kind == RegionKind::kOps && !region.name.empty() ? "ops of " + name : name,
                       plural(region.ops.size(), "op"));
  }

  /// Takes away what both lists begin and end with, names and hashes alike: most of two programs that differ in one
  /// place.
  void trim(std::vector<RegionId>& as, std::vector<RegionId>& bs) const {
    const auto alike = [&](RegionId a, RegionId b) {
      const Region &ra = a_.regions[a], &rb = b_.regions[b];
      return ra.merkle == rb.merkle && ra.name == rb.name;
    };
    const auto [a, b] = std::ranges::mismatch(as, bs, alike);
    as.erase(as.begin(), a);
    bs.erase(bs.begin(), b);
    while (!as.empty() && !bs.empty() && alike(as.back(), bs.back())) {
      as.pop_back();
      bs.pop_back();
    }
  }

  void compare_children(const Region& ra, const Region& rb) {
    auto as = unrolled(a_, ra), bs = unrolled(b_, rb);
    trim(as, bs);
    std::vector<bool> done_a(as.size(), false), done_b(bs.size(), false);
    std::vector<std::pair<RegionId, RegionId>> pairs;
    const auto match = [&](auto key) {  // the n-th of a key with the n-th of the same key
      using Key = decltype(key(a_.regions.front()));
      std::map<Key, std::vector<std::size_t>> waiting;
      for (std::size_t j = bs.size(); j-- > 0;) {
        if (!done_b[j]) waiting[key(b_.regions[bs[j]])].push_back(j);
      }
      for (std::size_t i = 0; i < as.size(); ++i) {
        if (done_a[i]) continue;
        const auto entry = waiting.find(key(a_.regions[as[i]]));
        if (entry == waiting.end() || entry->second.empty()) continue;
        const std::size_t j = entry->second.back();
        entry->second.pop_back();
        done_a[i] = done_b[j] = true;
        pairs.emplace_back(as[i], bs[j]);
      }
    };
    // Equal ones of one name first: what is called several times is in no order of its own.
    match([](const Region& r) { return std::pair(r.name, r.merkle); });
    match([](const Region& r) { return std::pair(r.kind, r.name); });
    match([](const Region& r) { return r.merkle; });
    match([](const Region& r) { return std::pair(r.kind, r.ops.size()); });
    match([](const Region& r) { return r.kind; });
    for (const auto& [a, b] : pairs) compare(a, b);
    report(a_, as, done_a, ChangeKind::kRemoved);
    report(b_, bs, done_b, ChangeKind::kAdded);
  }

  /// What has no partner: equal ones as one line.
  void report(const RegionTree& tree, const std::vector<RegionId>& list, const std::vector<bool>& done,
              ChangeKind kind) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (done[i]) continue;
      std::size_t end = i + 1;
      while (end < list.size() && !done[end] && tree.regions[list[end]].merkle == tree.regions[list[i]].merkle) ++end;
      std::string what = words(tree, list[i]);
      if (end - i > 1) what = fmt::format("{} equal turns, {} and on", end - i, what);
      note(kind, fmt::format("{}: only in the {}", what, kind == ChangeKind::kAdded ? "second" : "first"));
      i = end - 1;
    }
  }

  void compare_roles(const Region& ra, const Region& rb) {
    const Program &pa = program(a_, ra), &pb = program(b_, rb);
    const auto counted = [&](const char* what, std::size_t a, std::size_t b) {
      if (a != b) note(ChangeKind::kRole, fmt::format("{}: {}, now {}", what, a, b));
    };
    const auto draws = [](const Program& p) {
      return static_cast<std::size_t>(std::ranges::count_if(p.inputs, &graph::Input::is_draw));
    };
    const auto changing = [](const Program& p) {
      return static_cast<std::size_t>(
          std::ranges::count_if(p.states, [](const graph::State& s) { return s.start != s.end; }));
    };
    counted("inputs", pa.inputs.size() - draws(pa), pb.inputs.size() - draws(pb));
    counted("drawn tensors", draws(pa), draws(pb));
    counted("states", pa.states.size(), pb.states.size());
    counted("states that change", changing(pa), changing(pb));
    counted("outputs", pa.outputs.size(), pb.outputs.size());
  }

  /// Who makes an operand, in words that both programs share.
  std::string origin(const RegionTree& tree, const Region& reader, ValueId value) const {
    const Program& p = program(tree, reader);
    const graph::Value& it = p.values[value];
    if (it.producer == kNone) {
      if (!it.name.empty()) return it.name;
      return it.kind == graph::ValueKind::kInput   ? "an input"
             : it.kind == graph::ValueKind::kState ? "a state"
                                                   : "a constant";
    }
    const std::uint32_t source = p.ops[it.producer].source;
    if (source == kNone) return "an op";
    const graph::Source& s = p.sources[source];
    return s.module.empty() ? s.op : s.op + " of " + s.module;
  }

  void compare_wiring(const Region& ra, const Region& rb) {
    if (ra.kind == RegionKind::kLoop || ra.children.empty() || rb.children.empty()) return;
    std::multiset<std::string> a, b;
    const auto list = [&](const RegionTree& tree, const Region& region, std::multiset<std::string>& into) {
      for (const RegionId child : unrolled(tree, region)) {
        const Region& it = tree.regions[child];
        for (const ValueId value : it.operands) {
          into.insert(fmt::format("{} reads {}", it.name.empty() ? "what is outside of modules" : it.name,
                                  origin(tree, it, value)));
        }
      }
    };
    list(a_, ra, a);
    list(b_, rb, b);
    std::vector<std::string> only_a, only_b;
    std::ranges::set_difference(a, b, std::back_inserter(only_a));
    std::ranges::set_difference(b, a, std::back_inserter(only_b));
    for (std::size_t i = 0; i < std::max(only_a.size(), only_b.size()); ++i) {
      if (i < only_a.size() && i < only_b.size()) {
        note(ChangeKind::kWiring, fmt::format("{}, now {}", only_a[i], only_b[i]));
      } else {
        const bool first = i < only_a.size();
        note(ChangeKind::kWiring,
             fmt::format("{}: only in the {}", first ? only_a[i] : only_b[i], first ? "first" : "second"));
      }
    }
  }

  const RegionTree &a_, &b_;
  Difference result_;
  std::string phase_, module_;
};

}  // namespace

std::string_view name(ChangeKind kind) {
  constexpr std::array<std::string_view, 7> kNames = {"added", "removed", "shape", "number", "wiring", "role", "name"};
  return kNames[static_cast<std::size_t>(kind)];
}

Difference diff(const RegionTree& a, const RegionTree& b) { return Differ(a, b).run(); }

}  // namespace crucible::merkle
