// Collectives as texts, by group; then each rank's list against the first one's.
#include "core/trace/collectives.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>

#include "core/base/words.hpp"
#include "core/trace/text.hpp"

namespace crucible::trace {

namespace {

constexpr std::array<std::string_view, 3> kNamespaces = {"c10d::", "_c10d_functional::", "c10d_functional::"};
/// Between two ranks, or a wait: no order that all ranks share.
constexpr std::array<std::string_view, 5> kNotCollective = {"send", "recv_", "recv_any_source_", "wait_tensor",
                                                            "monitored_barrier_"};
/// Their tensors differ from rank to rank by design: only the root has the list, or pieces are unequal.
constexpr std::array<std::string_view, 6> kUnequal = {"gather_",   "scatter_",       "alltoall_", "alltoall_base_",
                                                      "all_to_all_single", "reduce_scatter_"};

/// "allreduce_" of "c10d::allreduce_", or "" for another kind of op.
std::string_view collective_name(std::string_view name) {
  for (const std::string_view prefix : kNamespaces) {
    if (!name.starts_with(prefix)) continue;
    name.remove_prefix(prefix.size());
    return std::ranges::find(kNotCollective, name) == kNotCollective.end() ? name : "";
  }
  return "";
}

/// "process group 'default_pg' of 2" of "process group 'default_pg' rank 0 of 2".
std::string without_rank(const std::string& text) {
  const std::size_t start = text.rfind(" rank ");
  if (start == text.npos) return text;
  std::size_t end = start + std::string_view(" rank ").size();
  while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end]))) ++end;
  return text.substr(0, start) + text.substr(end);
}

/// 2 of "process group 'default_pg' of 2".
std::optional<std::size_t> group_size(const std::string& group) {
  const std::size_t start = group.rfind(" of ");
  if (start == group.npos) return std::nullopt;
  std::size_t size = 0;
  const char* const end = group.data() + group.size();
  const auto [stop, error] = std::from_chars(group.data() + start + 4, end, size);
  return error == std::errc{} && stop == end ? std::optional(size) : std::nullopt;
}

/// An argument without what may differ: tensors by type and shape.
std::string argument_text(const Compounds& compounds, const Arg& arg) {
  if (arg.kind == Arg::Kind::kTensor) {
    const Tensor& tensor = compounds.trace().tensors[arg.tensor];
    return fmt::format("{}[{}]", name(tensor.dtype), fmt::join(tensor.sizes, ", "));
  }
  if (arg.kind == Arg::Kind::kList) {
    std::string text;
    for (const Arg& element : arg.list) text += (text.empty() ? "" : ", ") + argument_text(compounds, element);
    return "(" + text + ")";
  }
  if (arg.kind == Arg::Kind::kOpaque) return printable(without_rank(arg.text));
  return arg_text(compounds, arg);
}

struct RankOps {
  std::size_t rank = 0;
  std::vector<Collective> list;
};

std::string place(const Trace& trace, const Collective& collective) {
  for (std::size_t i = 0; i < trace.iterations.size(); ++i) {
    const Iteration& iteration = trace.iterations[i];
    if (collective.op < iteration.first_op || collective.op - iteration.first_op >= iteration.op_count) continue;
    return fmt::format("iteration {}, op {}, {}", i, collective.op - iteration.first_op,
                       printable(trace.site_text(trace.ops[collective.op].site)));
  }
  return fmt::format("op {}", collective.op);
}

std::string compare(std::span<const Trace> traces, const std::string& group, const RankOps& first,
                    const RankOps& other) {
  const std::string where = group.empty() ? "" : " of " + printable(group);
  const std::size_t common = std::min(first.list.size(), other.list.size());
  for (std::size_t i = 0; i < common; ++i) {
    if (first.list[i].text == other.list[i].text) continue;
    return fmt::format("collective {}{} is {} on rank {} ({}) and {} on rank {} ({})", i, where, first.list[i].text,
                       first.rank, place(traces[first.rank], first.list[i]), other.list[i].text, other.rank,
                       place(traces[other.rank], other.list[i]));
  }
  if (first.list.size() == other.list.size()) return "";
  const RankOps& longer = first.list.size() > common ? first : other;
  return fmt::format(
      "rank {} calls {} collectives{} and rank {} calls {}; the first without a partner is {} on rank {} ({})",
      first.rank, first.list.size(), where, other.rank, other.list.size(), longer.list[common].text, longer.rank,
      place(traces[longer.rank], longer.list[common]));
}

}  // namespace

std::vector<Collective> collectives(const Trace& trace) {
  const Compounds compounds(trace);
  std::vector<Collective> found;
  for (std::uint32_t index = 0; index < trace.ops.size(); ++index) {
    const Op& op = trace.ops[index];
    const Schema& schema = trace.schemas[op.schema];
    const std::string_view called = collective_name(schema.name);
    if (called.empty()) continue;
    const std::vector<std::string> names = argument_names(schema.text);
    const bool is_unequal = std::ranges::find(kUnequal, called) != kUnequal.end();
    Collective made{index, "", std::string(called)};
    std::string separator = " ";
    for (std::size_t i = 0; i < op.args.size(); ++i) {
      const std::string_view argument = i < names.size() ? std::string_view(names[i]) : "";
      if (argument == "process_group" || argument == "group_name") {
        made.group = without_rank(op.args[i].text);
      } else if (!is_unequal && argument != "timeout" && argument != "device_ids" &&
                 op.args[i].kind != Arg::Kind::kNone) {
        made.text += separator + argument_text(compounds, op.args[i]);
        separator = ", ";
      }
    }
    found.push_back(std::move(made));
  }
  return found;
}

std::string collective_disagreement(std::span<const Trace> traces) {
  std::map<std::string, std::vector<RankOps>> groups;
  for (std::size_t rank = 0; rank < traces.size(); ++rank) {
    for (Collective& collective : collectives(traces[rank])) {
      std::vector<RankOps>& of_group = groups[collective.group];
      if (of_group.empty() || of_group.back().rank != rank) of_group.push_back({rank, {}});
      of_group.back().list.push_back(std::move(collective));
    }
  }
  for (const auto& [group, ranks] : groups) {
    const std::size_t expected = group_size(group).value_or(ranks.size());
    if (ranks.size() != expected) {
      return fmt::format("{} calls collectives on {} of its {} ranks only: the first is {} on rank {} ({})",
                         printable(group), ranks.size(), expected, ranks[0].list[0].text, ranks[0].rank,
                         place(traces[ranks[0].rank], ranks[0].list[0]));
    }
    for (std::size_t i = 1; i < ranks.size(); ++i) {
      if (std::string found = compare(traces, group, ranks[0], ranks[i]); !found.empty()) return found;
    }
  }
  return "";
}

}  // namespace crucible::trace
