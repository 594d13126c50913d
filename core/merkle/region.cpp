// Building the tree: parts (cut.hpp) from the innermost out, their canonical forms, the order of children, loops.
#include "core/merkle/region.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <queue>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "core/graph/byte_writer.hpp"
#include "core/graph/canonical.hpp"
#include "core/graph/program_hash.hpp"

namespace crucible::merkle {
namespace {

using graph::ByteWriter;
using graph::kNone;
using graph::OpId;
using graph::Program;
using graph::ValueId;

/// Hashes of canonical forms. Two forms of one hash do not occur with SHA-256; a shorter hash shows what would happen.
class Contents {
 public:
  explicit Contents(const HashBytes& hash) : hash_(hash) {}

  ContentHash of(std::vector<std::byte> bytes) {
    ContentHash hash = hash_(bytes);
    for (std::int64_t again = 0;; ++again) {
      const auto [entry, is_new] = known_.try_emplace(hash, std::move(bytes));
      if (is_new || entry->second == bytes) return hash;
      std::vector<std::byte> other = bytes;
      ByteWriter(other).number(again);
      hash = sha256(other);
    }
  }

 private:
  const HashBytes& hash_;
  std::map<ContentHash, std::vector<std::byte>> known_;
};

/// The tree of one program, appended to what is there.
class Builder {
 public:
  Builder(RegionTree& tree, std::uint32_t program, std::span<const ContentHash> constants, Contents& contents)
      : tree_(tree),
        number_(program),
        program_(*tree.programs[program]),
        constants_(constants),
        contents_(contents),
        canonical_(program_, constants),
        maker_(program_.values.size(), kNone) {}

  RegionId build(const Part& part) {
    Region region;
    region.kind = part.kind == PartKind::kIteration ? RegionKind::kIteration
                  : part.kind == PartKind::kPhase   ? RegionKind::kPhase
                  : part.kind == PartKind::kModule  ? RegionKind::kModule
                                                    : RegionKind::kOps;
    region.name = part.name;
    region.program = number_;
    std::vector<RegionId> children;
    children.reserve(part.parts.size());
    for (const Part& inner : part.parts) children.push_back(build(inner));
    graph::CanonicalForm form = canonical_.form(part.ops, graph::Roles::kPorts);
    region.content = part.kind == PartKind::kIteration ? graph::program_hash(program_, constants_)
                                                       : contents_.of(std::move(form.bytes));
    region.ops = std::move(form.order);
    region.operands = std::move(form.operands);
    region.results = std::move(form.results);
    region.slots = std::move(form.slots);
    region.children = with_loops(in_order(children));
    return add(std::move(region));
  }

 private:
  RegionId add(Region region) {
    std::vector<std::byte> bytes;
    ByteWriter write(bytes);
    write.text(region.kind == RegionKind::kLoop ? "loop" : "region");
    write.hash(region.content);
    write.number(static_cast<std::int64_t>(region.children.size()));
    for (const RegionId child : region.children) write.hash(tree_.regions[child].merkle);
    for (const Carried& carried : region.carried) {
      write.small(carried.result);
      write.small(carried.operand);
    }
    region.merkle = contents_.of(std::move(bytes));
    tree_.regions.push_back(std::move(region));
    return static_cast<RegionId>(tree_.regions.size() - 1);
  }

  std::pair<ContentHash, ContentHash> hashes(RegionId id) const {
    return {tree_.regions[id].content, tree_.regions[id].merkle};
  }

  const ContentHash& content_of(RegionId id) const { return tree_.regions[id].content; }

  /// Definitions before uses; of those that could be next one that is equal to the last, so that turns of a loop stand
  /// together; else by hash.
  std::vector<RegionId> in_order(const std::vector<RegionId>& children) {
    const std::size_t count = children.size();
    for (std::uint32_t i = 0; i < count; ++i) {
      for (const ValueId value : tree_.regions[children[i]].results) maker_[value] = i;
    }
    std::vector<std::vector<std::uint32_t>> users(count);
    std::vector<std::uint32_t> waiting(count, 0);
    for (std::uint32_t i = 0; i < count; ++i) {
      std::vector<std::uint32_t> makers;
      for (const ValueId value : tree_.regions[children[i]].operands) {
        if (maker_[value] != kNone && maker_[value] != i) makers.push_back(maker_[value]);
      }
      std::ranges::sort(makers);
      makers.erase(std::ranges::unique(makers).begin(), makers.end());
      waiting[i] = static_cast<std::uint32_t>(makers.size());
      for (const std::uint32_t maker : makers) users[maker].push_back(i);
    }
    for (const RegionId child : children) {
      for (const ValueId value : tree_.regions[child].results) maker_[value] = kNone;
    }
    using Entry = std::tuple<ContentHash, ContentHash, std::uint32_t>;
    std::map<Entry, std::uint32_t> ready;
    const auto make_ready = [&](std::uint32_t i) {
      const auto [content, merkle] = hashes(children[i]);
      ready.emplace(Entry(content, merkle, i), i);
    };
    for (std::uint32_t i = 0; i < count; ++i) {
      if (waiting[i] == 0) make_ready(i);
    }
    std::vector<RegionId> order;
    while (!ready.empty()) {
      auto next = ready.begin();
      if (!order.empty()) {
        const auto [content, merkle] = hashes(order.back());
        for (const Entry& wanted : {Entry(content, merkle, 0), Entry(content, ContentHash{}, 0)}) {
          const auto alike = ready.lower_bound(wanted);
          if (alike == ready.end() || std::get<0>(alike->first) != content) continue;
          next = alike;
          break;
        }
      }
      const std::uint32_t i = next->second;
      ready.erase(next);
      order.push_back(children[i]);
      for (const std::uint32_t user : users[i]) {
        if (--waiting[user] == 0) make_ready(user);
      }
    }
    return order;
  }

  std::vector<Carried> carried(const Region& from, const Region& to) const {
    std::vector<Carried> list;
    for (std::uint32_t p = 0; p < to.operands.size(); ++p) {
      const auto result = std::ranges::find(from.results, to.operands[p]);
      if (result != from.results.end()) {
        list.push_back({static_cast<std::uint32_t>(result - from.results.begin()), p});
      }
    }
    std::ranges::sort(list);
    return list;
  }

  std::vector<RegionId> with_loops(const std::vector<RegionId>& order) {
    std::vector<RegionId> children;
    for (std::size_t begin = 0; begin < order.size();) {
      std::size_t end = begin + 1;
      std::optional<std::vector<Carried>> feeds;
      for (; end < order.size() && content_of(order[end]) == content_of(order[begin]); ++end) {
        for (const ValueId value : tree_.regions[order[end - 1]].results) {
          maker_[value] = static_cast<std::uint32_t>(begin);  // of one of these turns
        }
        const Region& turn = tree_.regions[order[end]];
        auto next = carried(tree_.regions[order[end - 1]], turn);
        if (feeds && next != *feeds) break;
        const auto is_of_a_turn = [&](ValueId value) { return maker_[value] == begin; };
        if (next.empty() && std::ranges::any_of(turn.operands, is_of_a_turn)) break;
        feeds = std::move(next);
      }
      children.push_back(end - begin > 1 ? loop(std::span(order).subspan(begin, end - begin), *feeds) : order[begin]);
      begin = end;
    }
    for (const RegionId child : order) {
      for (const ValueId value : tree_.regions[child].results) maker_[value] = kNone;
    }
    return children;
  }

  RegionId loop(std::span<const RegionId> turns, std::vector<Carried> feeds) {
    Region region;
    region.kind = RegionKind::kLoop;
    region.name = tree_.regions[turns.front()].name;
    region.program = number_;
    region.content = tree_.regions[turns.front()].content;
    region.children.assign(turns.begin(), turns.end());
    region.carried = std::move(feeds);
    return add(std::move(region));
  }

  RegionTree& tree_;
  std::uint32_t number_;
  const Program& program_;
  std::span<const ContentHash> constants_;
  Contents& contents_;
  graph::Canonical canonical_;
  std::vector<std::uint32_t> maker_;  // value -> place of the child that makes it; kNone between uses
};

RegionId add_joined(RegionTree& tree, Region region, std::string_view kind) {
  std::vector<std::byte> bytes;
  ByteWriter write(bytes);
  write.text(kind);
  write.small(region.prefix);
  write.small(region.suffix);
  for (const RegionId child : region.children) write.hash(tree.regions[child].content);
  region.content = sha256(bytes);
  for (const RegionId child : region.children) write.hash(tree.regions[child].merkle);
  region.merkle = sha256(bytes);
  tree.regions.push_back(std::move(region));
  return static_cast<RegionId>(tree.regions.size() - 1);
}

/// What phases consist of, one after the other: the level at which ways are compared.
std::vector<ContentHash> sequence(const RegionTree& tree, RegionId iteration) {
  std::vector<ContentHash> list;
  for (const RegionId phase : tree.regions[iteration].children) {
    const auto& inside = tree.regions[phase].children;
    if (inside.empty()) list.push_back(tree.regions[phase].merkle);
    for (const RegionId child : inside) list.push_back(tree.regions[child].merkle);
  }
  return list;
}

/// How many leading entries all lists have in common.
std::uint32_t common_prefix(const std::vector<std::vector<ContentHash>>& lists) {
  std::size_t count = lists.front().size();
  for (const auto& list : lists) {
    const auto [at, other] = std::ranges::mismatch(lists.front(), list);
    count = std::min(count, static_cast<std::size_t>(at - lists.front().begin()));
  }
  return static_cast<std::uint32_t>(count);
}

void find_common(RegionTree& tree, Region& branch) {
  std::vector<std::vector<ContentHash>> lists;
  for (const RegionId way : branch.children) lists.push_back(sequence(tree, way));
  branch.prefix = common_prefix(lists);
  for (auto& list : lists) {
    list.erase(list.begin(), list.begin() + branch.prefix);
    std::ranges::reverse(list);
  }
  branch.suffix = common_prefix(lists);
}

void add_run(RegionTree& tree, RegionId only) {
  Region run;
  run.kind = RegionKind::kRun;
  run.name = "run";
  run.children = {only};
  add_joined(tree, std::move(run), "run");
}

}  // namespace

std::string_view name(RegionKind kind) {
  constexpr std::array<std::string_view, 7> kNames = {"run", "branch", "iteration", "phase", "module", "ops", "loop"};
  return kNames[static_cast<std::size_t>(kind)];
}

RegionTree regions_of(std::shared_ptr<const Program> program, std::span<const ContentHash> constants,
                      const HashBytes& hash) {
  RegionTree tree;
  tree.programs.push_back(std::move(program));
  Contents contents(hash);
  const RegionId iteration = Builder(tree, 0, constants, contents).build(cut_by_modules(*tree.programs.front()));
  add_run(tree, iteration);
  return tree;
}

RegionTree regions_of(const graph::Variants& variants, const graph::Branches& branches,
                      std::span<const ContentHash> constants, const HashBytes& hash) {
  RegionTree tree;
  tree.programs = variants.programs;
  Contents contents(hash);
  std::vector<RegionId> iterations;
  for (std::uint32_t v = 0; v < tree.programs.size(); ++v) {
    iterations.push_back(Builder(tree, v, constants, contents).build(cut_by_modules(*tree.programs[v])));
  }
  if (iterations.size() == 1) {
    add_run(tree, iterations.front());
    return tree;
  }
  Region branch;
  branch.kind = RegionKind::kBranch;
  branch.name = "branch";
  if (!branches.empty()) branch.asked = branches.front().words;
  for (std::uint32_t v = 0; v < iterations.size(); ++v) {
    Way way{"", v, variants.programs[v]->iterations};
    if (!branches.empty()) {
      for (const graph::Arm& arm : branches.front().arms) {
        if (std::ranges::binary_search(arm.variants, v)) way.when = arm.when;
      }
    }
    branch.ways.push_back(std::move(way));
  }
  branch.children = iterations;
  find_common(tree, branch);
  add_run(tree, add_joined(tree, std::move(branch), "branch"));
  return tree;
}

std::vector<RegionId> distinct(const RegionTree& tree) {
  std::map<ContentHash, RegionId> first;
  for (RegionId id = 0; id < tree.regions.size(); ++id) {
    if (tree.regions[id].kind != RegionKind::kLoop) first.try_emplace(tree.regions[id].content, id);
  }
  std::vector<RegionId> ids;
  for (const auto& [content, id] : first) ids.push_back(id);
  std::ranges::sort(ids);
  return ids;
}

Result<RegionId> find(const RegionTree& tree, std::string_view prefix) {
  std::map<std::pair<ContentHash, ContentHash>, RegionId> found;
  for (RegionId id = 0; id < tree.regions.size(); ++id) {
    const Region& region = tree.regions[id];
    if (region.content.hex().starts_with(prefix) || region.merkle.hex().starts_with(prefix)) {
      found.try_emplace({region.content, region.merkle}, id);
    }
  }
  if (found.empty()) {
    return Error{ErrorCode::kUsage,
                 fmt::format("no region's hash begins with '{}'; `crucible graph FILE --regions` lists them", prefix)};
  }
  // A loop has the content of its turns: it is not meant where they are.
  std::vector<RegionId> ids;
  for (const auto& [hashes, id] : found) ids.push_back(id);
  std::ranges::sort(ids);
  const ContentHash content = tree.regions[ids.front()].content;
  if (std::ranges::all_of(ids, [&](RegionId id) { return tree.regions[id].content == content; })) return ids.front();
  std::string list;
  for (const RegionId id : ids) {
    if (list.size() > 400) {
      list += " ...";
      break;
    }
    list += fmt::format("{}{} ({} {})", list.empty() ? "" : ", ", tree.regions[id].content.hex().substr(0, 16),
                        name(tree.regions[id].kind), tree.regions[id].name);
  }
  return Error{ErrorCode::kUsage, fmt::format("'{}' is the beginning of several hashes: {}", prefix, list)};
}

}  // namespace crucible::merkle
