// `crucible trace optimize FILE -o OUT`: the same recording in fewer bytes, or with its external bytes in a folder.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/base/figures.hpp"
#include "core/base/terminal.hpp"
#include "core/trace/compression.hpp"
#include "core/trace/optimize.hpp"
#include "core/trace/own_recordings.hpp"
#include "core/trace/trace_file.hpp"
#include "frontends/cli/trace_command.hpp"

namespace crucible::cli {

namespace {

using nlohmann::ordered_json;
using trace::Trace;

/// Stored bytes of a section before and after; the sections in the order of the new file.
struct SectionChange {
  std::string name;
  std::uint64_t before = 0, after = 0;
};

std::vector<SectionChange> compare_sections(const trace::FileLayout& before, const trace::FileLayout& after) {
  std::vector<SectionChange> changes;
  for (const auto& section : after.sections) changes.push_back({section.name, 0, section.stored_bytes});
  for (const auto& section : before.sections) {
    const auto found = std::ranges::find(changes, section.name, &SectionChange::name);
    if (found != changes.end())
      found->before = section.stored_bytes;
    else
      changes.push_back({section.name, section.stored_bytes, 0});
  }
  return changes;
}

void print_changes(const std::vector<SectionChange>& changes, const trace::FileLayout& before,
                   const trace::FileLayout& after, const trace::Optimized& made, const std::string& folder) {
  std::vector<std::vector<std::string>> rows = {{"section", "before", "after", "unit"}};
  for (const SectionChange& change : changes)
    rows.push_back({change.name, std::to_string(change.before), std::to_string(change.after), "B"});
  rows.push_back({"file", std::to_string(before.file_bytes), std::to_string(after.file_bytes), "B"});
  print_text(format_table(rows));
  if (made.dropped_externals > 0) {
    print_text(fmt::format("dropped: {} that no op reads, {}; {} of content that nothing else has\n",
                           plural(made.dropped_externals, "external"), format_bytes(made.dropped_external_bytes),
                           format_bytes(made.dropped_blob_bytes)));
  }
  if (!folder.empty()) print_text(fmt::format("external bytes are in {}\n", folder));
}

}  // namespace

Result<int> run_trace_optimize(const OptimizeOptions& options) {
  CRUCIBLE_TRY_VOID(check_output(options.output, options.force));
  CRUCIBLE_TRY(const trace::FileLayout before, trace::read_layout(options.file));
  const bool is_own = trace::is_own_recording(options.file);  // before it may be replaced
  CRUCIBLE_TRY(const Trace whole, trace::read_file(options.file));
  const trace::Optimized made = trace::optimize(whole);
  trace::WriteOptions write;
  write.zstd_level = options.level;
  write.blob_folder = options.blob_folder;
  // Bytes that are in a folder stay there unless they are called back.
  if (options.blob_folder.empty() && !options.embed) write.blob_folder = blob_folder_of(options.file, whole);
  CRUCIBLE_TRY_VOID(trace::write_file(made.trace, options.output, write));
  if (is_own) trace::remember_recording(options.output);
  CRUCIBLE_TRY(const trace::FileLayout after, trace::read_layout(options.output));
  const std::vector<SectionChange> changes = compare_sections(before, after);
  if (!options.json) {
    print_changes(changes, before, after, made, write.blob_folder.string());
    return 0;
  }
  ordered_json document = {{"file", options.file},
                           {"output", options.output},
                           {"file_bytes_before", before.file_bytes},
                           {"file_bytes_after", after.file_bytes},
                           {"dropped_externals", made.dropped_externals},
                           {"dropped_external_bytes", made.dropped_external_bytes},
                           {"dropped_blob_bytes", made.dropped_blob_bytes},
                           {"blob_folder", write.blob_folder.string()}};
  document["sections"] = ordered_json::array();
  for (const SectionChange& change : changes) {
    document["sections"].push_back(
        {{"name", change.name}, {"stored_bytes_before", change.before}, {"stored_bytes_after", change.after}});
  }
  print_json(document);
  return 0;
}

}  // namespace crucible::cli
