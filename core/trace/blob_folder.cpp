// OutputFile writes, MappedFile reads; here are names and comparisons.
#include "core/trace/blob_folder.hpp"

#include <fmt/format.h>

#include <string>
#include <system_error>

#include "core/trace/mapped_file.hpp"
#include "core/trace/output_file.hpp"

namespace crucible::trace {

std::filesystem::path BlobFolder::path_of(const ContentHash& hash) const {
  const std::string digits = hash.hex();
  return folder_ / digits.substr(0, 2) / digits.substr(2);
}

Result<void> BlobFolder::store(const ContentHash& hash, std::span<const std::byte> content) const {
  const std::filesystem::path path = path_of(hash);
  // A wrong name would be found by every other file that shares the folder.
  if (sha256(content) != hash) {
    return Error{ErrorCode::kBadInput,
                 fmt::format("the blob with SHA-256 {} is damaged: its content has another hash", hash.hex())};
  }
  std::error_code error;
  if (std::filesystem::file_size(path, error) == content.size() && !error) {
    const auto there = MappedFile::open(path);
    if (there && sha256(there->bytes()) == hash) return {};
  }
  std::filesystem::create_directories(path.parent_path(), error);
  if (error) {
    return Error{ErrorCode::kBadInput,
                 fmt::format("cannot make the folder {}: {}; name another one with --blob-folder",
                             path.parent_path().string(), error.message())};
  }
  CRUCIBLE_TRY(OutputFile file, OutputFile::create(path));
  CRUCIBLE_TRY_VOID(file.append(content));
  return file.commit();
}

Result<std::vector<std::byte>> BlobFolder::load(const ContentHash& hash, std::uint64_t size_bytes) const {
  const std::filesystem::path path = path_of(hash);
  const auto unusable = [&](const std::string& what) {
    return Error{ErrorCode::kBadInput,
                 fmt::format("{} {}; put the blob folder {} back as it was when the file was written", path.string(),
                             what, folder_.string())};
  };
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return unusable("is missing");
  const auto file = MappedFile::open(path);
  if (!file) return unusable("cannot be read (" + file.error().message + ")");
  if (file->bytes().size() != size_bytes)
    return unusable(fmt::format("is damaged: it has {} bytes instead of {}", file->bytes().size(), size_bytes));
  std::vector<std::byte> content(file->bytes().begin(), file->bytes().end());
  if (sha256(content) != hash) return unusable("is damaged: its content has another SHA-256 than its name");
  return content;
}

}  // namespace crucible::trace
