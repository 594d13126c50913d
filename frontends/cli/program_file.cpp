// Reading programs: see program_file.hpp.
#include "frontends/cli/program_file.hpp"

#include <fstream>
#include <iterator>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/graph/binary.hpp"
#include "core/graph/parse.hpp"
#include "core/trace/trace_file.hpp"
#include "frontends/aten/lower.hpp"
#include "frontends/aten/recording/branches.hpp"

namespace crucible::cli {

/// The program that the file is, in text or binary form; nothing where it begins as neither, as recordings do.
Result<std::optional<graph::Program>> read_program(const std::string& path) {
  constexpr std::string_view kTextBegins = "crucible program ";
  std::ifstream file(path, std::ios::binary);
  std::string bytes(kTextBegins.size(), '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<std::size_t>(file.gcount()));
  const bool is_text = bytes == kTextBegins, is_binary = graph::is_binary_program(std::as_bytes(std::span(bytes)));
  if (!is_text && !is_binary) return std::optional<graph::Program>();
  file.clear();
  bytes.append(std::istreambuf_iterator<char>(file), {});
  auto program = is_text ? graph::parse_program(bytes) : graph::from_binary(std::as_bytes(std::span(bytes)));
  if (!program) return Error{program.error().code, path + ": " + program.error().message};
  return std::optional(*std::move(program));
}

Result<merkle::RegionTree> read_regions(const std::string& path, std::optional<std::uint32_t> variant) {
  CRUCIBLE_TRY(auto program, read_program(path));
  if (program) return merkle::regions_of(std::make_shared<const graph::Program>(*std::move(program)), {});
  CRUCIBLE_TRY(const trace::Trace trace, trace::read_file(path));
  std::vector<ContentHash> blobs;
  for (const trace::Blob& blob : trace.blobs) blobs.push_back(blob.hash);
  CRUCIBLE_TRY(const graph::Variants variants, aten::lower_variants(trace, aten::Opaques::kMissing));
  if (variant) {
    CRUCIBLE_TRY(const std::shared_ptr<const graph::Program> chosen, graph::choose_variant(variants, variant));
    return merkle::regions_of(chosen, blobs);
  }
  return merkle::regions_of(variants, aten::find_branches(trace, variants), blobs);
}

}  // namespace crucible::cli
