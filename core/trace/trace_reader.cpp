// read_file, read_layout, check_file, and the store whose blobs are read from the mapped file when they are asked for.
#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

#include "core/base/hash.hpp"
#include "core/base/progress.hpp"
#include "core/trace/blob_folder.hpp"
#include "core/trace/compression.hpp"
#include "core/trace/container.hpp"
#include "core/trace/limits.hpp"
#include "core/trace/mapped_file.hpp"
#include "core/trace/sections.hpp"
#include "core/trace/trace_file.hpp"
#include "core/trace/validate.hpp"

namespace crucible::trace {

namespace {

/// A file's bytes and whoever keeps them.
struct FileBytes {
  std::shared_ptr<const void> owner;  // shared with the blob store: a mapping, or a copy in memory
  std::span<const std::byte> bytes;
};

/// Blobs of a file; its bytes live as long as the store.
class FileBlobStore final : public BlobStore {
 public:
  FileBlobStore(FileBytes file, const SectionEntry& area, std::string name, std::vector<Blob> blobs,
                std::vector<BlobPlace> places, BlobFolder folder)
      : file_(std::move(file)),
        area_(file_.bytes.subspan(area.offset, area.stored_bytes)),
        name_(std::move(name)),
        blobs_(std::move(blobs)),
        places_(std::move(places)),
        folder_(std::move(folder)) {}

  Result<std::vector<std::byte>> load(BlobId id) const override {
    if (id >= places_.size()) {
      return damaged(fmt::format("blob {} does not exist: there are {}", id, places_.size()));
    }
    try {
      return load_place(id);
    } catch (const std::bad_alloc&) {
      return damaged(fmt::format("blob {}: not enough memory for its {} bytes", id, blobs_[id].size_bytes));
    }
  }

  /// Everything that load() does not look at: the identity of the content, and the gaps between the blobs.
  Result<void> check_all() const {
    std::uint64_t previous_end = 0;
    for (BlobId id = 0; id < places_.size(); ++id) {
      if (places_[id].codec == Codec::kLeftOut) continue;
      CRUCIBLE_TRY(const std::vector<std::byte> content, load(id));
      if (places_[id].codec == Codec::kFolder) continue;  // compared with its hash when it was loaded
      if (sha256(content) != blobs_[id].hash) {
        return damaged(fmt::format("blob {}: its content is not the one with SHA-256 {}", id, blobs_[id].hash.hex()));
      }
      if (!all_zero(area_.subspan(previous_end, places_[id].offset - previous_end))) {
        return damaged(fmt::format("blob {}: the padding before it, from byte {} on, is not zero", id, previous_end));
      }
      previous_end = places_[id].offset + places_[id].stored_bytes;
    }
    if (previous_end != area_.size()) {
      return damaged(fmt::format("its last blob ends at byte {}, the section at {}", previous_end, area_.size()));
    }
    return {};
  }

 private:
  Result<std::vector<std::byte>> load_place(BlobId id) const {
    const BlobPlace& place = places_[id];
    if (place.codec == Codec::kFolder) {
      auto content = folder_.load(blobs_[id].hash, blobs_[id].size_bytes);
      if (!content)
        return Error{content.error().code, fmt::format("{}: blob {}: {}", name_, id, content.error().message)};
      return content;
    }
    if (place.codec == Codec::kLeftOut) {
      return Error{ErrorCode::kBadInput,
                   fmt::format("{}: blob {}: its {} bytes were left out when it was recorded, for a program that has "
                               "them; record it with `crucible record` where they are wanted",
                               name_, id, blobs_[id].size_bytes)};
    }
    const auto stored = area_.subspan(place.offset, place.stored_bytes);
    if (checksum64(stored) != place.checksum) return damaged(fmt::format("blob {}: its checksum does not match", id));
    if (place.codec == Codec::kRaw) return std::vector<std::byte>(stored.begin(), stored.end());
    auto raw = decompress(stored, blobs_[id].size_bytes);
    if (!raw) return damaged(fmt::format("blob {}: {}", id, raw.error().message));
    return raw;
  }

  Error damaged(const std::string& what) const {
    return {ErrorCode::kBadInput, fmt::format("{}: {}", name_, section_error(SectionId::kBlobs, what).message)};
  }

  FileBytes file_;
  std::span<const std::byte> area_;  // of file_
  std::string name_;
  std::vector<Blob> blobs_;
  std::vector<BlobPlace> places_;
  BlobFolder folder_;  // for places of codec kFolder
};

struct Opened {
  Trace trace;
  std::shared_ptr<const FileBlobStore> store;
  Container container;
};

/// The folder that the metadata name; an error when blobs lie in one and they name none.
Result<BlobFolder> folder_of(const Trace& trace, const std::vector<BlobPlace>& places, const std::string& name) {
  const bool needs_folder = std::ranges::any_of(places, [](const BlobPlace& it) { return it.codec == Codec::kFolder; });
  if (needs_folder && trace.metadata.blob_folder.empty())
    return section_error(SectionId::kBlobIndex, "blobs are in the blob folder, and the metadata name none");
  return BlobFolder(std::filesystem::path(name).parent_path() / trace.metadata.blob_folder);
}

/// Tables take memory by their records, and the smallest of those are far larger in memory than in the file: what a few
/// bytes unpack to is bounded by those few bytes.
Result<void> check_proportion(const SectionEntry& entry) {
  const std::uint64_t free = limits().free_bytes;
  if (entry.raw_bytes <= free || (entry.raw_bytes - free) / limits().expansion <= entry.stored_bytes) return {};
  return section_error(
      static_cast<SectionId>(entry.id),
      fmt::format("its {} bytes say that they unpack to {}, which no recording's do (--table-limit {} would read them)",
                  entry.stored_bytes, entry.raw_bytes, entry.raw_bytes));
}

Result<Opened> decode(FileBytes file, const std::string& name) {
  Opened opened;
  CRUCIBLE_TRY(opened.container, decode_container(file.bytes));
  for (std::uint32_t number = 1; number <= kSectionCount; ++number) {
    const SectionId id = static_cast<SectionId>(number);
    if (opened.container.find(id) == nullptr && !is_optional(id)) {
      return Error{ErrorCode::kBadInput, fmt::format("section '{}' is missing", section_name(number))};
    }
  }
  for (const SectionId id : kTableSections) {
    const SectionEntry* const entry = opened.container.find(id);
    if (entry == nullptr) continue;
    CRUCIBLE_TRY_VOID(check_proportion(*entry));
    CRUCIBLE_TRY(const std::vector<std::byte> content, load_section(file.bytes, *entry));
    CRUCIBLE_TRY_VOID(decode_section(content, id, opened.trace));
  }
  CRUCIBLE_TRY(const std::vector<std::byte> index,
               load_section(file.bytes, *opened.container.find(SectionId::kBlobIndex)));
  const SectionEntry area = *opened.container.find(SectionId::kBlobs);
  CRUCIBLE_TRY(auto places, decode_blob_index(index, area.stored_bytes, opened.trace.blobs));
  CRUCIBLE_TRY_VOID(validate(opened.trace));
  CRUCIBLE_TRY(BlobFolder folder, folder_of(opened.trace, places, name));
  opened.store = std::make_shared<const FileBlobStore>(std::move(file), area, name, opened.trace.blobs,
                                                       std::move(places), std::move(folder));
  opened.trace.blob_store = opened.store;
  return opened;
}

Result<Opened> decode_named(FileBytes file, const std::string& name) {
  try {
    auto opened = decode(std::move(file), name);
    if (!opened) return Error{opened.error().code, fmt::format("cannot read {}: {}", name, opened.error().message)};
    return opened;
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::kBadInput, fmt::format("cannot read {}: not enough memory for what it announces", name)};
  }
}

Result<Opened> open(const std::filesystem::path& path) {
  CRUCIBLE_TRY(MappedFile mapped, MappedFile::open(path));
  const auto file = std::make_shared<const MappedFile>(std::move(mapped));
  return decode_named({file, file->bytes()}, path.string());
}

}  // namespace

Result<Trace> read_file(const std::filesystem::path& path) {
  const PassInProgress pass("reading the recording");
  CRUCIBLE_TRY(Opened opened, open(path));
  return std::move(opened.trace);
}

Result<Trace> read_bytes(std::span<const std::byte> file) {
  const auto copy = std::make_shared<const std::vector<std::byte>>(file.begin(), file.end());
  CRUCIBLE_TRY(Opened opened, decode_named({copy, *copy}, "bytes in memory"));
  return std::move(opened.trace);
}

Result<FileLayout> read_layout(const std::filesystem::path& path) {
  CRUCIBLE_TRY(const MappedFile file, MappedFile::open(path));
  const auto container = decode_container(file.bytes());
  if (!container)
    return Error{container.error().code, fmt::format("cannot read {}: {}", path.string(), container.error().message)};
  FileLayout layout{container->major, container->minor, container->file_bytes, {}};
  for (const SectionEntry& entry : container->sections) {
    layout.sections.push_back({section_name(entry.id), entry.stored_bytes, entry.raw_bytes});
  }
  return layout;
}

Result<void> check_file(const std::filesystem::path& path) {
  CRUCIBLE_TRY(const Opened opened, open(path));
  return opened.store->check_all();
}

}  // namespace crucible::trace
