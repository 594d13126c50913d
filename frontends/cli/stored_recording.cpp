// An entry has the recording without its bytes ("recording"), its regions ("regions", as `crucible graph --regions
// --format json` prints them) and each of its blobs, under the hash that the recording knows it by.
#include "frontends/cli/stored_recording.hpp"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <utility>

#include "core/merkle/print.hpp"
#include "core/trace/blob_folder.hpp"
#include "core/trace/content_hash.hpp"
#include "core/trace/mapped_file.hpp"
#include "core/trace/trace_file.hpp"
#include "frontends/cli/program_file.hpp"
#include "frontends/cli/temporary_folder.hpp"

namespace crucible::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char *kSkeleton = "recording", *kRegions = "regions", *kBlobFolder = "blobs";
constexpr std::size_t kMostBlobs = 5000;  // a statement has so many outputs at most

store::ActionKey key_of(const ContentHash& content) {
  return {.kind = kRecordingKind,
          .region = content,
          .target = "",
          .numerics = "",
          .toolchain = fmt::format("crtrace {}.{}", trace::kFormatMajor, trace::kFormatMinor),
          .options = {},
          .specialisation = {}};
}

Result<std::string> bytes_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(stream)), {});
  if (!stream.bad() && stream) return bytes;
  return Error{ErrorCode::kBadInput, fmt::format("cannot read {}", file.string())};
}

/// Of all blobs; 0 where nobody knows.
std::uint64_t unpacked_bytes(store::Store& store) {
  const Result<store::Totals> totals = store.totals();
  return totals ? totals->unpacked_bytes : 0;
}

Error gone(std::string_view what) {
  return {ErrorCode::kBadInput,
          fmt::format("the store lacks {} of the recording: put it in again with `crucible store add`", what)};
}

Result<store::ActionKey> find_recording(store::Store& store, std::string_view digits) {
  std::vector<store::ActionKey> found;
  CRUCIBLE_TRY_VOID(store.list(kRecordingKind, 0, [&](const store::EntryRow& row) {
    if (store::hash_of(row.fields).hex().starts_with(digits) || row.fields.region.hex().starts_with(digits))
      found.push_back(row.fields);
    return true;
  }));
  if (found.size() == 1 && !digits.empty()) return found[0];
  return Error{ErrorCode::kUsage,
               found.empty()
                   ? fmt::format("no recording in the store begins with {}: `crucible store list --kind {}` "
                                 "shows them",
                                 digits, kRecordingKind)
                   : fmt::format("{} recordings in the store begin with {}: give more digits", found.size(), digits)};
}

}  // namespace

Result<StoredRecording> store_recording(store::Store& store, const fs::path& file) {
  CRUCIBLE_TRY(const trace::Trace trace, trace::read_file(file));
  if (trace.blobs.size() > kMostBlobs) {
    return Error{ErrorCode::kUsage, fmt::format("{} has {} blobs, an entry of a store has at most {}: `crucible trace "
                                                "trim` keeps fewer iterations",
                                                file.string(), trace.blobs.size(), kMostBlobs)};
  }
  CRUCIBLE_TRY(const merkle::RegionTree tree, read_regions(file.string(), std::nullopt));
  const std::string regions = merkle::to_json(tree);
  CRUCIBLE_TRY(const TemporaryFolder temporary, TemporaryFolder::create());
  const fs::path skeleton_file = temporary.path() / "recording.crtrace";
  CRUCIBLE_TRY_VOID(trace::write_file(
      trace, skeleton_file, trace::WriteOptions{.zstd_level = 1, .blob_folder = temporary.path() / kBlobFolder}));
  CRUCIBLE_TRY(const std::string skeleton, bytes_of(skeleton_file));
  StoredRecording made{.key = key_of(trace::hash_content(trace).content), .file = file.filename().string()};
  const std::uint64_t before = unpacked_bytes(store);
  const trace::BlobFolder blobs(temporary.path() / kBlobFolder);
  std::vector<trace::MappedFile> contents;  // what `outputs` borrows from
  std::vector<store::NewOutput> outputs = {{kSkeleton, skeleton}, {kRegions, regions}};
  std::set<ContentHash> seen;
  for (trace::BlobId id = 0; id < trace.blobs.size(); ++id) {
    if (!seen.insert(trace.blobs[id].hash).second) continue;
    CRUCIBLE_TRY(trace::MappedFile content, trace::MappedFile::open(blobs.path_of(trace.blobs[id].hash)));
    const std::span<const std::byte> bytes = content.bytes();
    outputs.push_back(
        {fmt::format("blob{}", seen.size()), {reinterpret_cast<const char*>(bytes.data()), bytes.size()}});
    made.blob_bytes += bytes.size();
    contents.push_back(std::move(content));
  }
  made.blobs = seen.size();
  CRUCIBLE_TRY_VOID(store.put(made.key, outputs, "crucible store add",
                              {{"file", made.file},
                               {"framework", trace.metadata.framework},
                               {"iterations", std::to_string(trace.iterations.size())}}));
  const std::uint64_t after = unpacked_bytes(store);
  made.new_bytes = after > before ? after - before : 0;
  return made;
}

Result<StoredRecording> take_recording(store::Store& store, std::string_view digits, const fs::path& file) {
  CRUCIBLE_TRY(const store::ActionKey key, find_recording(store, digits));
  const std::optional<store::Statement> entry = store.get(key);
  if (!entry) return gone("the entry");
  StoredRecording made{.key = key, .file = ""};
  if (const auto name = entry->evidence.find("file"); name != entry->evidence.end()) made.file = name->second;
  CRUCIBLE_TRY(const TemporaryFolder temporary, TemporaryFolder::create());
  const fs::path skeleton = temporary.path() / "recording.crtrace";
  const trace::BlobFolder blobs(temporary.path() / kBlobFolder);
  for (const store::Output& output : entry->outputs) {
    if (output.name == kRegions) continue;
    const std::optional<std::string> bytes = store.read(output);
    if (!bytes) return gone(output.name);
    if (output.name == kSkeleton) {
      std::ofstream stream(skeleton, std::ios::binary);
      stream << *bytes;
      if (!stream.flush()) {
        return Error{ErrorCode::kBadInput,
                     fmt::format("cannot write {}: set TMPDIR to a folder with room", skeleton.string())};
      }
      continue;
    }
    CRUCIBLE_TRY_VOID(blobs.store(output.blob, std::as_bytes(std::span(*bytes))));
    ++made.blobs;
    made.blob_bytes += bytes->size();
  }
  CRUCIBLE_TRY(trace::Trace trace, trace::read_file(skeleton));
  if (trace::hash_content(trace).content != key.region)
    return Error{ErrorCode::kBadInput, "what the store has is another recording than its entry says: it is not used"};
  CRUCIBLE_TRY_VOID(trace::write_file(trace, file, trace::WriteOptions{}));
  return made;
}

Result<std::vector<store::Statement>> recordings_with_region(store::Store& store, std::string_view digits) {
  std::vector<store::ActionKey> all;
  CRUCIBLE_TRY_VOID(store.list(kRecordingKind, 0, [&](const store::EntryRow& row) {
    all.push_back(row.fields);
    return true;
  }));
  std::vector<store::Statement> found;
  for (const store::ActionKey& key : all) {
    std::optional<store::Statement> entry = store.get(key);
    if (!entry) continue;
    for (const store::Output& output : entry->outputs) {
      if (output.name != kRegions) continue;
      const std::optional<std::string> bytes = store.read(output);
      const nlohmann::json document = nlohmann::json::parse(bytes.value_or(""), nullptr, false);
      const nlohmann::json regions =
          document.is_object() ? document.value("regions", nlohmann::json::array()) : nlohmann::json::array();
      const auto begins = [&](const nlohmann::json& region, const char* name) {
        return region.is_object() && region.contains(name) && region[name].is_string() &&
               region[name].get<std::string>().starts_with(digits);
      };
      for (const nlohmann::json& region : regions) {
        if (!begins(region, "content") && !begins(region, "merkle")) continue;
        found.push_back(*std::move(entry));
        break;
      }
      break;
    }
  }
  return found;
}

}  // namespace crucible::cli
