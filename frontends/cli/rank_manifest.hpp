// NAME.crtraces: which files are the ranks of one program of several processes. A small JSON document beside the files;
// docs/trace-tools.md has its keys. `crucible trace merge` writes it, `info` and `check` read it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/trace/trace.hpp"

namespace crucible::cli {

struct RankManifest {
  struct Rank {
    std::uint32_t rank = 0;
    std::string file;    // relative to the manifest's folder
    std::string sha256;  // of the file's bytes
    std::uint64_t file_bytes = 0;
    std::uint64_t ops = 0;     // in all iterations
    std::string content_hash;  // of what it ran and on what (core/trace/content_hash.hpp)
  };
  std::uint32_t iterations = 0;  // of every rank
  std::vector<Rank> ranks;       // 0, 1, ...; their number is the world size
};

/// True for a path that ends in ".crtraces".
bool is_manifest(const std::filesystem::path& path);

/// Reads the files and checks that they are all ranks of one program, each once, with equally many iterations and the
/// same collectives. `manifest` is where the manifest is going to lie. Errors: kBadInput for a file that cannot be read
/// or is no rank; kCheckFailed when the ranks do not fit together.
Result<RankManifest> merge_ranks(const std::vector<std::string>& files, const std::filesystem::path& manifest);

/// The list of ranks as the manifest and `trace info --json` show it.
nlohmann::ordered_json ranks_json(const RankManifest& manifest);

/// Errors: kBadInput, as OutputFile.
Result<void> write_manifest(const RankManifest& manifest, const std::filesystem::path& path);

/// Errors: kBadInput when the file is missing, no JSON, of a newer version, or lacks something.
Result<RankManifest> read_manifest(const std::filesystem::path& path);

/// Compares every file with its hash in the manifest, checks it whole (trace::check_file), and compares the ranks'
/// metadata and collectives again. Errors: kBadInput naming the file.
Result<void> check_manifest(const std::filesystem::path& path);

}  // namespace crucible::cli
