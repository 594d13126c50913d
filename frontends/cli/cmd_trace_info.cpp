// `crucible trace info FILE`: what is in a recording, or in a manifest of ranks, as a table of labels or as JSON.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "core/base/figures.hpp"
#include "core/base/terminal.hpp"
#include "core/base/words.hpp"
#include "core/graph/variants.hpp"
#include "core/trace/content_hash.hpp"
#include "core/trace/summary.hpp"
#include "core/trace/text.hpp"
#include "core/trace/trace_file.hpp"
#include "core/trace/unrecorded.hpp"
#include "core/trace/values_left.hpp"
#include "core/trace/values_returned.hpp"
#include "frontends/aten/recording/align.hpp"
#include "frontends/cli/private_report.hpp"
#include "frontends/cli/rank_manifest.hpp"
#include "frontends/cli/trace_command.hpp"
#include "frontends/cli/trace_json.hpp"
#include "frontends/replay/unrecorded.hpp"

namespace crucible::cli {

namespace {

using nlohmann::ordered_json;
using trace::Trace;

/// How many compound tensors there are of each kind.
std::map<std::string, std::size_t> count_compounds(const Trace& trace) {
  std::map<std::string, std::size_t> counts;
  for (const trace::CompoundTensor& compound : trace.compounds) ++counts[compound.kind];
  return counts;
}

/// Names of `records`, each once, in the order in which they first occur.
template <class Record>
std::vector<std::string> unique_names(const std::vector<Record>& records, std::string Record::* name) {
  std::vector<std::string> names;
  std::unordered_set<std::string_view> known;
  for (const Record& record : records) {
    if (known.insert(record.*name).second) names.push_back(record.*name);
  }
  return names;
}

template <class T>
ordered_json or_null(const std::optional<T>& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}

/// How many iterations run the same ops on the same sizes, in the order of their first ones; nothing where none is
/// complete. Numbers that shape a program may part them further when it is lowered.
std::vector<std::uint32_t> group_counts(const Trace& trace) {
  std::vector<std::uint32_t> counts;
  if (const auto groups = aten::align(trace)) {
    for (const aten::Alignment& group : *groups) counts.push_back(static_cast<std::uint32_t>(group.count()));
  }
  return counts;
}

ordered_json values_returned_json(const Trace& trace) {
  const std::optional<trace::ValuesReturned> found = trace::values_returned(trace);
  if (!found) return nullptr;
  ordered_json document = {{"values", found->values},
                           {"tensors", found->tensors},
                           {"numbers", found->numbers},
                           {"left_at", ordered_json::array()}};
  for (const trace::SiteId site : found->left_at) document["left_at"].push_back(trace.site_text(site));
  document["entered_at"] = trace.site_text(found->entered_at);
  document["across_iterations"] = found->across_iterations;
  document["changed"] = or_null(found->changed);
  document["text"] = found->text;
  return document;
}

/// The keys that version 1.1 of the format brought.
void add_newer_json(const Trace& trace, ordered_json& document) {
  const trace::ValuesLeft left = trace::values_left(trace);
  document["values_left"] = ordered_json::array();
  for (const trace::ValueLeft& line : left.lines) {
    document["values_left"].push_back({{"schema", line.schema},
                                       {"site", trace.site_text(line.site)},
                                       {"phase", name(line.phase)},
                                       {"count", line.count},
                                       {"values_differ", or_null(line.values_differ)}});
  }
  document["unrecorded_writes"] = unrecorded_json(trace, trace::unrecorded_writes(trace));
  document["sequence_depends"] = or_null(left.sequence_depends);
  document["sequence_reason"] = left.reason;
  document["values_returned"] = values_returned_json(trace);
  JsonMembers compounds;
  for (const auto& [kind, count] : count_compounds(trace)) compounds.add(kind, count);
  document["compounds"] = compounds.take();
  document["outputs"] = trace.outputs.size();
  document["generators"] = unique_names(trace.generators, &trace::GeneratorState::device);
  document["op_hashes"] = !trace.op_hashes.empty();
  document["rank"] = or_null(trace.metadata.rank);
  document["world_size"] = or_null(trace.metadata.world_size);
  document["blob_folder"] = trace.metadata.blob_folder;
}

ordered_json info_json(const FileOptions& options, const Trace& trace, const trace::FileLayout& layout) {
  const trace::Summary summary = trace::summarize(trace);
  ordered_json document;
  document["file"] = options.file;
  document["format_version"] = fmt::format("{}.{}", layout.major, layout.minor);
  document["file_bytes"] = layout.file_bytes;
  document["framework"] = trace.metadata.framework;
  document["frontend"] = trace.metadata.frontend;
  document["device"] = trace.metadata.device;
  if (!trace.metadata.precision.empty()) document["precision"] = trace.metadata.precision;
  document["command"] = trace.metadata.command;
  document["created"] = trace.metadata.created;
  document["warmup_iterations"] = trace.metadata.warmup_iterations;
  document["iterations"] = summary.iterations;
  document["complete_iterations"] = summary.complete_iterations;
  document["incomplete_reason"] = trace.metadata.incomplete_reason;
  document["ops"] = summary.ops;
  document["ops_per_iteration"] = summary.ops_per_iteration;
  document["unique_ops"] = summary.unique_ops;
  document["slots"] = summary.slots ? ordered_json(*summary.slots) : ordered_json(nullptr);
  if (!summary.slots) document["no_slots_reason"] = summary.no_slots_reason;
  document["variants"] = group_counts(trace);
  document["tensors"] = trace.tensors.size();
  document["storages"] = trace.storages.size();
  document["draws"] = trace.draws.size();
  document["final_states"] = trace.final_states.size();
  document["external_bytes"] = summary.external_bytes;
  document["blobs"] = trace.blobs.size();
  document["blob_bytes"] = summary.blob_bytes;
  for (const trace::Role role : trace::kRoles) {
    const auto& of_role = summary.externals[static_cast<std::size_t>(role)];
    document["externals"][std::string(name(role))] = {{"count", of_role.count}, {"bytes", of_role.size_bytes}};
  }
  const trace::ContentHashes hashes = hash_content(trace);
  document["program_hash"] = hashes.program.hex();
  document["content_hash"] = hashes.content.hex();
  document["overhead_ns_per_op"] = trace.metadata.overhead_ns_per_op;
  document["not_recorded"] = ordered_json::array();
  for (const trace::NotRecorded& item : trace.not_recorded) {
    document["not_recorded"].push_back(
        {{"what", item.what}, {"count", item.count}, {"site", trace.site_text(item.site)}});
  }
  add_newer_json(trace, document);
  return document;
}

/// "1200 per iteration", or "1200, 1198, 1200 per iteration" where they differ.
std::string ops_text(const std::vector<std::uint32_t>& counts) {
  if (counts.empty()) return "none";
  if (std::ranges::count(counts, counts.front()) == static_cast<std::ptrdiff_t>(counts.size()))
    return fmt::format("{} per iteration", counts.front());
  return fmt::format("{} per iteration", fmt::join(counts, ", "));
}

/// `text` in at most `width` characters, its middle left out.
std::string fit(const std::string& text, std::size_t width) {
  if (text.size() <= width) return text;
  const std::size_t end = (width - 3) / 2;
  return text.substr(0, width - 3 - end) + "..." + text.substr(text.size() - end);
}

/// One row per line that values left at, 66 characters wide: behind a label the table has 80.
std::vector<std::string> values_left_rows(const Trace& trace, const trace::ValuesLeft& left) {
  std::vector<std::string> rows;
  for (const trace::ValueLeft& line : left.lines) {
    const std::string differ = !line.values_differ ? "" : *line.values_differ ? "differ" : "same";
    rows.push_back(fmt::format("{:<25} {:>5}  {:<16} {:<9} {}", fit(printable(line.schema), 25), line.count,
                               fit(printable(trace.site_text(line.site)), 16), name(line.phase), differ));
  }
  return rows;
}

/// "a, b, c" of at most three names.
std::string few(const std::vector<std::string>& names) {
  const std::size_t shown = std::min<std::size_t>(names.size(), 3);
  std::string text;
  for (std::size_t i = 0; i < shown; ++i) text += (i == 0 ? "" : ", ") + fit(printable(names[i]), 14);
  return names.size() > shown ? text + ", ..." : text;
}

template <class Line>
void add_newer_text(const Trace& trace, Line line) {
  std::string kinds;
  for (const auto& [kind, count] : count_compounds(trace))
    kinds += fmt::format("{}{} {}", kinds.empty() ? "" : ", ", count, kind);
  line("compounds", kinds);
  if (!trace.outputs.empty())
    line("outputs",
         fmt::format("{} ({})", trace.outputs.size(), few(unique_names(trace.outputs, &trace::Output::name))));
  if (!trace.generators.empty())
    line("generators", fmt::format("{} (of {})", plural(trace.generators.size(), "state"),
                                   few(unique_names(trace.generators, &trace::GeneratorState::device))));
  if (!trace.op_hashes.empty()) line("hashes", "of the results of every op");
  if (trace.metadata.rank && trace.metadata.world_size)
    line("rank", fmt::format("{} of {}", *trace.metadata.rank, *trace.metadata.world_size));
  line("blob folder", trace.metadata.blob_folder);
  const trace::ValuesLeft left = trace::values_left(trace);
  const std::vector<std::string> rows = values_left_rows(trace, left);
  line("values left", rows.empty() ? "none" : rows.front());
  for (std::size_t i = 1; i < rows.size(); ++i) line("", rows[i]);
  if (!rows.empty()) line("", left.reason);
  if (const auto returned = trace::values_returned(trace)) line("came back", returned->text);
}

std::string info_text(const FileOptions& options, const Trace& trace, const trace::FileLayout& layout) {
  const trace::Summary summary = trace::summarize(trace);
  const trace::Metadata& metadata = trace.metadata;
  std::string text;
  const auto line = [&text](const char* label, const std::string& value) {
    if (!value.empty()) text += fmt::format("{:<13} {}\n", label, printable(value));
  };
  line("file", fmt::format("{}  ({}, format {}.{})", options.file, format_bytes(layout.file_bytes), layout.major,
                           layout.minor));
  line("recorded by", metadata.frontend);
  line("framework", metadata.framework);
  line("device", metadata.device);
  line("precision", metadata.precision);
  line("command", metadata.command);
  line("created", metadata.created);
  line("iterations", fmt::format("{} after {} of warm-up, {} complete", summary.iterations, metadata.warmup_iterations,
                                 summary.complete_iterations));
  line("incomplete", metadata.incomplete_reason);
  line("ops", fmt::format("{}, {} different", ops_text(summary.ops_per_iteration), summary.unique_ops));
  const std::vector<std::uint32_t> groups = group_counts(trace);
  if (groups.size() > 1) {
    line("programs", graph::counts_in_words(groups));
    line("", summary.no_slots_reason);
    line("", fmt::format("`crucible graph {} --variants` tells what decides", options.file));
  } else {
    line("slots", summary.slots ? fmt::format("{} (scalar arguments that differ between iterations)", *summary.slots)
                                : "unknown: " + summary.no_slots_reason);
  }
  line("tensors", fmt::format("{} in {}", trace.tensors.size(), plural(trace.storages.size(), "storage")));
  line("externals", fmt::format("{}, {}; {} of different content", trace.externals.size(),
                                format_bytes(summary.external_bytes), format_bytes(summary.blob_bytes)));
  for (const trace::Role role : trace::kRoles) {
    const auto& of_role = summary.externals[static_cast<std::size_t>(role)];
    if (of_role.count > 0)
      line("", fmt::format("{:<15} {:>5}  {:>9}", name(role), of_role.count, format_bytes(of_role.size_bytes)));
  }
  line("draws", trace.draws.empty() ? "" : plural(trace.draws.size(), "random result"));
  line("final states", std::to_string(trace.final_states.size()));
  const trace::ContentHashes hashes = hash_content(trace);
  line("program hash", hashes.program.hex());
  line("content hash", hashes.content.hex());
  add_newer_text(trace, line);
  if (metadata.overhead_ns_per_op > 0) line("overhead", fmt::format("{} ns per op", metadata.overhead_ns_per_op));
  const std::vector<trace::UnrecordedWrite> unrecorded = trace::unrecorded_writes(trace);
  line("not recorded", trace.not_recorded.empty() && unrecorded.empty() ? "nothing" : "");
  if (!unrecorded.empty()) {
    line("not recorded",
         fmt::format("where {} from", trace::count_values(unrecorded) == 1
                                          ? "1 value comes"
                                          : fmt::format("{} values come", trace::count_values(unrecorded))));
  }
  for (const trace::UnrecordedWrite& write : unrecorded) line("", trace::describe(trace, write));
  for (const trace::NotRecorded& item : trace.not_recorded) {
    line("not recorded", fmt::format("{} ({} x{})", item.what, item.count,
                                     item.site == trace::kNone ? "" : ", first at " + trace.site_text(item.site)));
  }
  return text;
}

Result<int> run_ranks_info(const FileOptions& options) {
  CRUCIBLE_TRY(const RankManifest manifest, read_manifest(options.file));
  if (options.json) {
    ordered_json document = {{"file", options.file},
                             {"world_size", manifest.ranks.size()},
                             {"iterations", manifest.iterations},
                             {"ranks", ranks_json(manifest)}};
    print_json(document);
    return 0;
  }
  print_text(fmt::format("{}: {}, {}\n", printable(options.file), plural(manifest.ranks.size(), "rank"),
                         plural(manifest.iterations, "iteration")));
  std::vector<std::vector<std::string>> rows = {{"rank", "ops", "bytes", "sha256", "file"}};
  for (const RankManifest::Rank& rank : manifest.ranks) {
    rows.push_back({std::to_string(rank.rank), std::to_string(rank.ops), std::to_string(rank.file_bytes),
                    rank.sha256.substr(0, 12), fit(printable(rank.file), 40)});
  }
  print_text(format_table(rows));
  return 0;
}

}  // namespace

Result<int> run_trace_info(const InfoOptions& options) {
  if (is_manifest(options.file)) {
    if (!options.is_private) return run_ranks_info(options);
    return Error{ErrorCode::kUsage, fmt::format("{} lists the files of ranks: ask about each of them", options.file)};
  }
  CRUCIBLE_TRY(const trace::FileLayout layout, trace::read_layout(options.file));
  CRUCIBLE_TRY(const Trace trace, trace::read_file(options.file));
  if (options.is_private) return print_private(options.file, trace, options.json);
  if (options.json)
    print_json(info_json(options, trace, layout));
  else
    print_text(info_text(options, trace, layout));
  return 0;
}

}  // namespace crucible::cli
