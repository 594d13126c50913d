// Text and JSON of region trees; the drawing is in print_svg.cpp.
#include "core/merkle/print.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "core/base/figures.hpp"
#include "core/graph/composite.hpp"
#include "core/graph/print.hpp"

namespace crucible::merkle {
namespace {

using graph::kNone;
using graph::Program;
using graph::ValueId;
using nlohmann::ordered_json;

constexpr std::size_t kShort = 12;  // hexadecimal digits of a hash that people see

std::size_t ops_of(const RegionTree& tree, const Region& region) {
  if (region.kind != RegionKind::kLoop) return region.ops.size();
  return tree.regions[region.children.front()].ops.size() * region.children.size();
}

/// "2 x aten::add": the recorded ops of a region that is not cut further.
std::string contents(const RegionTree& tree, const Region& region) {
  const Program& program = *tree.programs[region.program];
  std::vector<graph::OpId> ops = region.ops;
  std::ranges::sort(ops);
  std::vector<std::pair<std::string, std::set<std::uint32_t>>> names;
  for (const graph::OpId op : ops) {
    const std::uint32_t source = program.ops[op].source;
    std::string name =
        source == kNone ? std::string(graph::op_name(program, program.ops[op])) : program.sources[source].op;
    auto known = std::ranges::find(names, name, &std::pair<std::string, std::set<std::uint32_t>>::first);
    if (known == names.end()) known = names.insert(names.end(), {std::move(name), {}});
    known->second.insert(source == kNone ? op : source);
  }
  std::string text;
  std::size_t shown = 0;
  for (const auto& [name, sources] : names) {
    if (shown++ == 3) {
      text += fmt::format(", {} more", names.size() - 3);
      break;
    }
    if (!text.empty()) text += ", ";
    text += sources.size() == 1 ? name : fmt::format("{} {}", sources.size(), name);
  }
  return text;
}

std::string label(const RegionTree& tree, const Region& region) {
  switch (region.kind) {
    case RegionKind::kLoop: {
      const std::string &first = region.name, &last = tree.regions[region.children.back()].name;
      const std::string which =
          first == last ? (first.empty() ? "ops outside of modules" : first) : fmt::format("{} ... {}", first, last);
      return fmt::format("{} x {}", region.children.size(), which);
    }
    case RegionKind::kOps:
      return region.name.empty() ? "ops outside of modules" : "ops of " + region.name;
    case RegionKind::kModule:
      return region.name.empty() ? "a module" : region.name;
    default:
      return region.name;
  }
}

std::string note(const RegionTree& tree, const Region& region) {
  if (region.kind == RegionKind::kLoop) {
    if (region.carried.empty()) return "side by side";
    return fmt::format("each hands {} to the next",
                       region.carried.size() == 1 ? "one value" : fmt::format("{} values", region.carried.size()));
  }
  if (region.kind == RegionKind::kBranch) {
    return fmt::format("by {}; {} regions alike before, {} after",
                       region.asked.empty() ? "what Python did" : region.asked, region.prefix, region.suffix);
  }
  if (region.children.empty()) return contents(tree, region);
  return "";
}

class Table {
 public:
  Table(const RegionTree& tree, unsigned levels) : tree_(tree), levels_(levels) {}

  std::string text() {
    rows_.push_back({"region", "ops", "content", "what"});
    const RegionId root = static_cast<RegionId>(tree_.regions.size() - 1);
    for (const RegionId child : tree_.regions[root].children) add(child, 0, "");
    return format_table(rows_) + summary();
  }

 private:
  void add(RegionId id, unsigned depth, const std::string& before) {
    const Region& region = tree_.regions[id];
    rows_.push_back({std::string(2 * std::size_t{depth}, ' ') + before + label(tree_, region),
                     fmt::format("{}", ops_of(tree_, region)), region.content.hex().substr(0, kShort),
                     note(tree_, region)});
    if (region.kind == RegionKind::kLoop) {
      for (const RegionId child : tree_.regions[region.children.front()].children) inside(child, depth + 1);
      return;
    }
    for (std::size_t i = 0; i < region.children.size(); ++i) {
      const std::string way =
          region.kind != RegionKind::kBranch
              ? ""
              : fmt::format("{} ({}): ", region.ways[i].when.empty() ? "one way" : region.ways[i].when,
                            times(region.ways[i].iterations));
      way.empty() ? inside(region.children[i], depth + 1) : add(region.children[i], depth + 1, way);
    }
  }

  void inside(RegionId id, unsigned depth) {
    if (levels_ == 0 || depth <= levels_) add(id, depth, "");
  }

  static std::string times(std::uint32_t count) { return count == 1 ? "once" : fmt::format("{} times", count); }

  std::string summary() const {
    std::size_t ops = 0, once = 0;
    for (const Region& region : tree_.regions) ops += region.kind == RegionKind::kIteration ? region.ops.size() : 0;
    // Ops that are in no region of which an equal one was met before.
    std::map<ContentHash, RegionId> leaves;
    for (RegionId id = 0; id < tree_.regions.size(); ++id) {
      const Region& region = tree_.regions[id];
      if (region.children.empty() && leaves.try_emplace(region.content, id).second) once += region.ops.size();
    }
    return fmt::format("{} regions of {} contents; of {} ops {} are in regions that differ\n", tree_.regions.size(),
                       distinct(tree_).size(), ops, once);
  }

  const RegionTree& tree_;
  unsigned levels_;
  std::vector<std::vector<std::string>> rows_;
};

std::string value_text(const Program& program, ValueId value) {
  const graph::Value& it = program.values[value];
  return fmt::format("{}: {}[{}]", it.name.empty() ? fmt::format("%{}", value) : it.name, name(it.dtype), it.elements);
}

}  // namespace

std::string words(const RegionTree& tree, RegionId id) {
  const Region& region = tree.regions[id];
  return fmt::format("{} {}", name(region.kind), label(tree, region));
}

std::string to_text(const RegionTree& tree, unsigned levels) { return Table(tree, levels).text(); }

std::string to_json(const RegionTree& tree) {
  ordered_json list = ordered_json::array();
  for (const Region& region : tree.regions) {
    ordered_json it = {{"kind", name(region.kind)},       {"name", region.name},
                       {"content", region.content.hex()}, {"merkle", region.merkle.hex()},
                       {"ops", ops_of(tree, region)},     {"children", region.children}};
    if (region.kind == RegionKind::kLoop) {
      it["carried"] = ordered_json::array();
      for (const Carried& each : region.carried) {
        it["carried"].push_back({{"result", each.result}, {"operand", each.operand}});
      }
    } else if (region.kind == RegionKind::kBranch) {
      it["asked"] = region.asked;
      it["alike_before"] = region.prefix;
      it["alike_after"] = region.suffix;
      it["ways"] = ordered_json::array();
      for (const Way& way : region.ways) {
        it["ways"].push_back({{"when", way.when}, {"variant", way.variant}, {"iterations", way.iterations}});
      }
    } else if (region.kind != RegionKind::kRun) {
      it["variant"] = region.program;
      it["operands"] = region.operands;
      it["results"] = region.results;
      it["slots"] = region.slots;
      if (region.children.empty()) it["op_ids"] = region.ops;
    }
    list.push_back(std::move(it));
  }
  return ordered_json{{"root", tree.regions.size() - 1}, {"distinct", distinct(tree).size()}, {"regions", list}}.dump(
             2) +
         "\n";
}

std::string region_text(const RegionTree& tree, RegionId id) {
  const Region& region = tree.regions[id];
  std::vector<std::string> where;
  for (const Region& other : tree.regions) {
    if (other.kind != RegionKind::kLoop && other.content == region.content) where.push_back(label(tree, other));
  }
  std::string text =
      fmt::format("{}\ncontent {}\nmerkle  {}\n", words(tree, id), region.content.hex(), region.merkle.hex());
  if (where.size() > 1) {
    const std::size_t count = where.size();
    where.resize(std::min<std::size_t>(count, 12));
    text += fmt::format("{} times: {}{}\n", count, fmt::join(where, ", "), count > where.size() ? ", ..." : "");
  }
  if (region.kind == RegionKind::kRun || region.kind == RegionKind::kBranch) return text;
  const Program& program = *tree.programs[region.program];
  const auto values = [&](const char* what, const std::vector<ValueId>& list) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      text += fmt::format("{} {} {}\n", what, i, value_text(program, list[i]));
    }
  };
  values("operand", region.operands);
  values("result", region.results);
  for (const RegionId child : region.children) {
    text += fmt::format("  {} {}\n", tree.regions[child].content.hex().substr(0, kShort), words(tree, child));
  }
  if (!region.children.empty()) return text;
  for (const graph::OpId op : region.ops) text += graph::to_text(program, op);
  return text;
}

}  // namespace crucible::merkle
