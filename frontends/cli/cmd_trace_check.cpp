// `crucible trace check FILE`: whether the file is whole: every checksum and every content hash; of a
// manifest of ranks: all its files.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/base/figures.hpp"
#include "core/base/terminal.hpp"
#include "core/trace/trace_file.hpp"
#include "frontends/cli/rank_manifest.hpp"
#include "frontends/cli/trace_command.hpp"

namespace crucible::cli {

namespace {

using nlohmann::ordered_json;
using trace::Trace;

Result<int> run_ranks_check(const FileOptions& options) {
  CRUCIBLE_TRY_VOID(check_manifest(options.file));
  CRUCIBLE_TRY(const RankManifest manifest, read_manifest(options.file));
  if (options.json)
    print_json({{"file", options.file}, {"ok", true}, {"ranks", manifest.ranks.size()}});
  else
    print_text(fmt::format("ok: {}, each file as merged, and they agree\n", plural(manifest.ranks.size(), "rank")));
  return 0;
}

}  // namespace

Result<int> run_trace_check(const FileOptions& options) {
  if (is_manifest(options.file)) return run_ranks_check(options);
  CRUCIBLE_TRY_VOID(trace::check_file(options.file));
  CRUCIBLE_TRY(const trace::FileLayout layout, trace::read_layout(options.file));
  CRUCIBLE_TRY(const Trace trace, trace::read_file(options.file));
  if (options.json) {
    ordered_json document = {
        {"file", options.file}, {"ok", true}, {"blobs", trace.blobs.size()}, {"file_bytes", layout.file_bytes}};
    document["sections"] = ordered_json::array();
    for (const auto& section : layout.sections) {
      document["sections"].push_back(
          {{"name", section.name}, {"stored_bytes", section.stored_bytes}, {"raw_bytes", section.raw_bytes}});
    }
    print_json(document);
  } else {
    print_text(fmt::format("ok: {}, {}, {} bytes\n", plural(layout.sections.size(), "section"),
                           plural(trace.blobs.size(), "blob"), layout.file_bytes));
  }
  return 0;
}

}  // namespace crucible::cli
