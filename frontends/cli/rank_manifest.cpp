// JSON in and out, and what has to agree between ranks.
#include "frontends/cli/rank_manifest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <system_error>
#include <utility>

#include "core/base/hash.hpp"
#include "core/trace/collectives.hpp"
#include "core/trace/content_hash.hpp"
#include "core/trace/mapped_file.hpp"
#include "core/trace/output_file.hpp"
#include "core/trace/trace_file.hpp"

namespace crucible::cli {

namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;
using trace::Trace;

constexpr const char* kFormat = "crucible-ranks";
constexpr int kVersion = 1;

Error bad(const std::string& message) { return {ErrorCode::kBadInput, message}; }
Error do_not_fit(const std::string& message) { return {ErrorCode::kCheckFailed, message}; }

struct RankFile {
  std::string file;
  Trace trace;
};

/// `file` as the manifest names it.
std::string relative_name(const fs::path& file, const fs::path& manifest) {
  std::error_code error;
  const fs::path whole = fs::absolute(file, error).lexically_normal();
  const fs::path relative = whole.lexically_relative(fs::absolute(manifest, error).lexically_normal().parent_path());
  return relative.empty() ? whole.string() : relative.string();
}

/// The ranks in order. Errors: kCheckFailed naming the file.
Result<void> check_ranks(std::vector<RankFile>& files) {
  for (const RankFile& it : files) {
    const trace::Metadata& metadata = it.trace.metadata;
    if (!metadata.rank || !metadata.world_size) {
      return bad(fmt::format(
          "{} is not one of several ranks: its metadata have no rank; record the program under torchrun", it.file));
    }
    if (*metadata.rank >= *metadata.world_size)
      return bad(fmt::format("{} is rank {} of {}, which cannot be", it.file, *metadata.rank, *metadata.world_size));
  }
  std::ranges::stable_sort(files, {}, [](const RankFile& it) { return *it.trace.metadata.rank; });
  const std::uint32_t world = *files[0].trace.metadata.world_size;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const trace::Metadata& metadata = files[i].trace.metadata;
    if (*metadata.world_size != world) {
      return do_not_fit(fmt::format("{} is one of {} ranks, {} one of {}: they are not of one program", files[0].file,
                                    world, files[i].file, *metadata.world_size));
    }
    if (i > 0 && *metadata.rank == *files[i - 1].trace.metadata.rank)
      return do_not_fit(fmt::format("{} and {} are both rank {}", files[i - 1].file, files[i].file, *metadata.rank));
  }
  if (files.size() == world) return {};
  std::string missing;
  for (std::uint32_t rank = 0; rank < world; ++rank) {
    const auto same = [&](const RankFile& it) { return *it.trace.metadata.rank == rank; };
    if (std::ranges::none_of(files, same)) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", rank);
  }
  return do_not_fit(fmt::format("{} of {} ranks are here; missing: {}", files.size(), world, missing));
}

Result<void> check_iterations(const std::vector<RankFile>& files) {
  for (const RankFile& it : files) {
    if (it.trace.iterations.size() == files[0].trace.iterations.size()) continue;
    return do_not_fit(fmt::format("rank 0 has {} iterations, rank {} has {}; cut them with crucible trace trim",
                                  files[0].trace.iterations.size(), *it.trace.metadata.rank,
                                  it.trace.iterations.size()));
  }
  return {};
}

/// Everything that has to agree; sorts `files` by rank.
Result<void> check_agreement(std::vector<RankFile>& files) {
  CRUCIBLE_TRY_VOID(check_ranks(files));
  CRUCIBLE_TRY_VOID(check_iterations(files));
  std::vector<Trace> traces;
  for (RankFile& it : files) traces.push_back(std::move(it.trace));
  const std::string disagreement = trace::collective_disagreement(traces);
  for (std::size_t i = 0; i < files.size(); ++i) files[i].trace = std::move(traces[i]);
  if (!disagreement.empty()) return do_not_fit("the ranks disagree: " + disagreement);
  return {};
}

Result<std::string> hash_of_file(const fs::path& path, std::uint64_t& size) {
  CRUCIBLE_TRY(const trace::MappedFile file, trace::MappedFile::open(path));
  size = file.bytes().size();
  return sha256(file.bytes()).hex();
}

}  // namespace

bool is_manifest(const fs::path& path) { return path.extension() == ".crtraces"; }

Result<RankManifest> merge_ranks(const std::vector<std::string>& files, const fs::path& path) {
  std::vector<RankFile> ranks;
  for (const std::string& file : files) {
    CRUCIBLE_TRY(Trace trace, trace::read_file(file));
    ranks.push_back({file, std::move(trace)});
  }
  CRUCIBLE_TRY_VOID(check_agreement(ranks));
  RankManifest manifest;
  manifest.iterations = static_cast<std::uint32_t>(ranks[0].trace.iterations.size());
  for (const RankFile& it : ranks) {
    RankManifest::Rank rank{*it.trace.metadata.rank, relative_name(it.file, path), "", 0, it.trace.ops.size(),
                            trace::hash_content(it.trace).content.hex()};
    CRUCIBLE_TRY(rank.sha256, hash_of_file(it.file, rank.file_bytes));
    manifest.ranks.push_back(std::move(rank));
  }
  return manifest;
}

ordered_json ranks_json(const RankManifest& manifest) {
  ordered_json ranks = ordered_json::array();
  for (const RankManifest::Rank& rank : manifest.ranks) {
    ranks.push_back({{"rank", rank.rank},
                     {"file", rank.file},
                     {"sha256", rank.sha256},
                     {"file_bytes", rank.file_bytes},
                     {"ops", rank.ops},
                     {"content_hash", rank.content_hash}});
  }
  return ranks;
}

Result<void> write_manifest(const RankManifest& manifest, const fs::path& path) {
  ordered_json document = {{"format", kFormat},
                           {"format_version", kVersion},
                           {"world_size", manifest.ranks.size()},
                           {"iterations", manifest.iterations},
                           {"ranks", ranks_json(manifest)}};
  const std::string text = document.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
  CRUCIBLE_TRY(trace::OutputFile file, trace::OutputFile::create(path));
  CRUCIBLE_TRY_VOID(file.append(std::as_bytes(std::span(text))));
  return file.commit();
}

Result<RankManifest> read_manifest(const fs::path& path) {
  CRUCIBLE_TRY(const trace::MappedFile mapped, trace::MappedFile::open(path));
  const char* const text = reinterpret_cast<const char*>(mapped.bytes().data());
  const auto document = ordered_json::parse(text, text + mapped.bytes().size(), nullptr, false);
  const auto refuse = [&](const std::string& why) {
    return bad(fmt::format("cannot read {}: {}; make it anew with crucible trace merge", path.string(), why));
  };
  if (document.is_discarded() || !document.is_object() || document.value("format", ordered_json()) != kFormat)
    return refuse("it is not a manifest of ranks");
  const auto number = [](const ordered_json& object, const char* key, auto& value) {
    const auto found = object.find(key);
    if (found == object.end() || !found->is_number_unsigned()) return false;
    const std::uint64_t whole = found->get<std::uint64_t>();
    value = static_cast<std::remove_reference_t<decltype(value)>>(whole);
    return value == whole;
  };
  std::uint32_t version = 0;
  if (!number(document, "format_version", version)) return refuse("it has no format_version");
  if (version > kVersion) {
    return bad(
        fmt::format("cannot read {}: its version {} is newer than {}, which this crucible reads; use a newer crucible",
                    path.string(), version, kVersion));
  }
  RankManifest manifest;
  const auto ranks = document.find("ranks");
  if (!number(document, "iterations", manifest.iterations) || ranks == document.end() || !ranks->is_array() ||
      ranks->empty())
    return refuse("it has no iterations or no ranks");
  for (const ordered_json& it : *ranks) {
    RankManifest::Rank rank;
    const auto text_of = [&](const char* key, std::string& value) {
      if (!it.contains(key) || !it[key].is_string()) return false;
      value = it[key].get<std::string>();
      return true;
    };
    if (!it.is_object() || !number(it, "rank", rank.rank) || !number(it, "file_bytes", rank.file_bytes) ||
        !number(it, "ops", rank.ops) || !text_of("file", rank.file) || !text_of("sha256", rank.sha256) ||
        !text_of("content_hash", rank.content_hash))
      return refuse(
          fmt::format("its entry {} lacks rank, file, sha256, file_bytes, ops or content_hash", manifest.ranks.size()));
    if (rank.rank != manifest.ranks.size())
      return refuse(fmt::format("its entry {} is rank {}", manifest.ranks.size(), rank.rank));
    manifest.ranks.push_back(std::move(rank));
  }
  return manifest;
}

Result<void> check_manifest(const fs::path& path) {
  CRUCIBLE_TRY(const RankManifest manifest, read_manifest(path));
  std::vector<RankFile> files;
  for (const RankManifest::Rank& rank : manifest.ranks) {
    const fs::path file = path.parent_path() / rank.file;
    std::uint64_t size = 0;
    CRUCIBLE_TRY(const std::string hash, hash_of_file(file, size));
    if (hash != rank.sha256) {
      return bad(
          fmt::format("{} is not the file that {} names as rank {}: its SHA-256 is {}, not {}; merge the ranks anew",
                      file.string(), path.string(), rank.rank, hash, rank.sha256));
    }
    CRUCIBLE_TRY_VOID(trace::check_file(file));
    CRUCIBLE_TRY(Trace trace, trace::read_file(file));
    files.push_back({file.string(), std::move(trace)});
  }
  return check_agreement(files);
}

}  // namespace crucible::cli
