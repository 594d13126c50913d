// `crucible trace info FILE`: what is in a recording, as a table of labels or as JSON.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/trace/content_hash.hpp"
#include "core/trace/summary.hpp"
#include "core/trace/text.hpp"
#include "core/trace/trace_file.hpp"
#include "frontends/cli/trace_command.hpp"

namespace crucible::cli {

namespace {

using nlohmann::ordered_json;
using trace::Trace;

ordered_json info_json(const FileOptions& options, const Trace& trace, const trace::FileLayout& layout) {
  const trace::Summary summary = trace::summarize(trace);
  ordered_json document;
  document["file"] = options.file;
  document["format_version"] = fmt::format("{}.{}", layout.major, layout.minor);
  document["file_bytes"] = layout.file_bytes;
  document["framework"] = trace.metadata.framework;
  document["frontend"] = trace.metadata.frontend;
  document["device"] = trace.metadata.device;
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
  return document;
}

/// "1200 per iteration", or "1200, 1198, 1200 per iteration" where they differ.
std::string ops_text(const std::vector<std::uint32_t>& counts) {
  if (counts.empty()) return "none";
  if (std::ranges::count(counts, counts.front()) == static_cast<std::ptrdiff_t>(counts.size()))
    return fmt::format("{} per iteration", counts.front());
  return fmt::format("{} per iteration", fmt::join(counts, ", "));
}

std::string info_text(const FileOptions& options, const Trace& trace, const trace::FileLayout& layout) {
  const trace::Summary summary = trace::summarize(trace);
  const trace::Metadata& metadata = trace.metadata;
  std::string text;
  const auto line = [&text](const char* label, const std::string& value) {
    if (!value.empty()) text += fmt::format("{:<13} {}\n", label, trace::printable(value));
  };
  line("file", fmt::format("{}  ({}, format {}.{})", options.file, format_bytes(layout.file_bytes), layout.major,
                           layout.minor));
  line("recorded by", metadata.frontend);
  line("framework", metadata.framework);
  line("device", metadata.device);
  line("command", metadata.command);
  line("created", metadata.created);
  line("iterations", fmt::format("{} after {} of warm-up, {} complete", summary.iterations, metadata.warmup_iterations,
                                 summary.complete_iterations));
  line("incomplete", metadata.incomplete_reason);
  line("ops", fmt::format("{}, {} different", ops_text(summary.ops_per_iteration), summary.unique_ops));
  line("slots", summary.slots ? fmt::format("{} (scalar arguments that differ between iterations)", *summary.slots)
                              : "unknown: " + summary.no_slots_reason);
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
  if (metadata.overhead_ns_per_op > 0) line("overhead", fmt::format("{} ns per op", metadata.overhead_ns_per_op));
  line("not recorded", trace.not_recorded.empty() ? "nothing" : "");
  for (const trace::NotRecorded& item : trace.not_recorded) {
    line("not recorded", fmt::format("{} ({} x{})", item.what, item.count,
                                     item.site == trace::kNone ? "" : ", first at " + trace.site_text(item.site)));
  }
  return text;
}

Result<int> run_info(const FileOptions& options) {
  CRUCIBLE_TRY(const trace::FileLayout layout, trace::read_layout(options.file));
  CRUCIBLE_TRY(const Trace trace, trace::read_file(options.file));
  if (options.json)
    print_json(info_json(options, trace, layout));
  else
    print_text(info_text(options, trace, layout));
  return 0;
}

}  // namespace

void add_trace_info(Commands& commands, CLI::App& trace) {
  add_file_command(trace, commands, std::make_shared<FileOptions>(), "info", "What is in a recording.",
                   "crucible trace info step.crtrace --json", run_info);
}

}  // namespace crucible::cli
