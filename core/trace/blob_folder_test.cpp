// The folder of blobs, alone and under files that keep their blobs in it.
#include "core/trace/blob_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/trace/sections.hpp"
#include "core/trace/trace_file.hpp"
#include "core/trace/trace_maker.hpp"
#include "core/trace/trace_samples.hpp"

namespace crucible::trace {
namespace {

using ::testing::HasSubstr;

std::vector<std::byte> some_bytes(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7);
  return bytes;
}

class BlobFolderTest : public ::testing::Test {
 protected:
  samples::Folder folder_;
  BlobFolder blobs_{folder_ / "blobs"};
};

TEST_F(BlobFolderTest, KeepsBytesUnderTheirHash) {
  const auto bytes = some_bytes(1000);
  const ContentHash hash = sha256(bytes);
  ASSERT_TRUE(blobs_.store(hash, bytes));
  const std::string digits = hash.hex();
  EXPECT_EQ(blobs_.path_of(hash), folder_ / "blobs" / digits.substr(0, 2) / digits.substr(2));
  EXPECT_EQ(samples::read_bytes(blobs_.path_of(hash)), bytes);
  EXPECT_EQ(*blobs_.load(hash, 1000), bytes);
  ASSERT_TRUE(blobs_.store(sha256({}), {}));
  EXPECT_EQ(blobs_.load(sha256({}), 0)->size(), 0u);
}

TEST_F(BlobFolderTest, LeavesAGoodBlobAndReplacesADamagedOne) {
  const auto bytes = some_bytes(1000);
  const ContentHash hash = sha256(bytes);
  ASSERT_TRUE(blobs_.store(hash, bytes));
  const auto written = std::filesystem::last_write_time(blobs_.path_of(hash));
  ASSERT_TRUE(blobs_.store(hash, bytes));
  EXPECT_EQ(std::filesystem::last_write_time(blobs_.path_of(hash)), written);
  samples::write_bytes(blobs_.path_of(hash), std::vector<std::byte>(1000));
  ASSERT_TRUE(blobs_.store(hash, bytes));
  EXPECT_EQ(*blobs_.load(hash, 1000), bytes);
}

TEST_F(BlobFolderTest, RefusesBytesOfAnotherHash) {
  const auto stored = blobs_.store(sha256(some_bytes(5)), some_bytes(6));
  ASSERT_FALSE(stored);
  EXPECT_THAT(stored.error().message, HasSubstr("is damaged: its content has another hash"));
  EXPECT_EQ(folder_.listing(), "");
}

TEST_F(BlobFolderTest, NamesWhatIsMissingOrDamaged) {
  const auto bytes = some_bytes(100);
  const ContentHash hash = sha256(bytes);
  const std::string path = blobs_.path_of(hash).string();
  EXPECT_EQ(blobs_.load(hash, 100).error().message, path + " is missing; put the blob folder " +
                                                        (folder_ / "blobs").string() +
                                                        " back as it was when the file was written");
  ASSERT_TRUE(blobs_.store(hash, bytes));
  EXPECT_THAT(blobs_.load(hash, 99).error().message, HasSubstr("is damaged: it has 100 bytes instead of 99"));
  auto flipped = bytes;
  flipped[3] ^= std::byte{1};
  samples::write_bytes(path, flipped);
  EXPECT_THAT(blobs_.load(hash, 100).error().message, HasSubstr("another SHA-256 than its name"));
  EXPECT_EQ(blobs_.load(hash, 100).error().code, ErrorCode::kBadInput);
}

TEST_F(BlobFolderTest, CannotBeMadeUnderAFile) {
  samples::write_bytes(folder_ / "blobs", some_bytes(3));
  const auto stored = blobs_.store(sha256(some_bytes(5)), some_bytes(5));
  ASSERT_FALSE(stored);
  EXPECT_THAT(stored.error().message, HasSubstr("cannot make the folder"));
}

TEST_F(BlobFolderTest, FilesShareIt) {
  const Trace trace = samples::training_trace();
  WriteOptions options;
  options.blob_folder = folder_ / "blobs";
  for (const char* file : {"a.crtrace", "b.crtrace"}) ASSERT_TRUE(write_file(trace, folder_ / file, options));
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / "blobs"))
    files += entry.is_regular_file();
  EXPECT_EQ(files, trace.blobs.size());
  EXPECT_EQ(read_layout(folder_ / "a.crtrace")->sections[0].stored_bytes, 0u);
  ASSERT_TRUE(check_file(folder_ / "a.crtrace"));
  const auto read = read_file(folder_ / "a.crtrace");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->metadata.blob_folder, "blobs");
  EXPECT_EQ(samples::describe(*read), samples::describe(trace));
  // Both can be moved together.
  std::filesystem::create_directory(folder_ / "moved");
  std::filesystem::rename(folder_ / "blobs", folder_ / "moved" / "blobs");
  EXPECT_THAT(check_file(folder_ / "a.crtrace").error().message, HasSubstr("a.crtrace: blob 0: "));
  std::filesystem::rename(folder_ / "a.crtrace", folder_ / "moved" / "a.crtrace");
  EXPECT_TRUE(check_file(folder_ / "moved" / "a.crtrace"));
  // Writing without the option brings them back.
  const auto moved = read_file(folder_ / "moved" / "a.crtrace");
  ASSERT_TRUE(write_file(*moved, folder_ / "whole.crtrace"));
  std::filesystem::remove_all(folder_ / "moved");
  const auto whole = read_file(folder_ / "whole.crtrace");
  EXPECT_EQ(whole->metadata.blob_folder, "");
  EXPECT_EQ(samples::describe(*whole), samples::describe(trace));
}

TEST_F(BlobFolderTest, AFolderElsewhereIsFound) {
  WriteOptions options;
  options.blob_folder = folder_ / "store" / "blobs";
  std::filesystem::create_directory(folder_ / "runs");
  ASSERT_TRUE(write_file(samples::training_trace(), folder_ / "runs" / "a.crtrace", options));
  EXPECT_EQ(read_file(folder_ / "runs" / "a.crtrace")->metadata.blob_folder, "../store/blobs");
  EXPECT_TRUE(check_file(folder_ / "runs" / "a.crtrace"));
}

TEST_F(BlobFolderTest, ADamagedIndexIsRefused) {
  WriteOptions options;
  options.blob_folder = folder_ / "blobs";
  const Trace trace = samples::training_trace();
  const std::string path = (folder_ / "a.crtrace").string();
  ASSERT_TRUE(write_file(trace, path, options));
  const auto good = samples::read_bytes(path);
  const auto refusal = [&](BlobPlace place) {
    std::vector<BlobPlace> places(trace.blobs.size(), {0, 0, Codec::kFolder, 0});
    places.back() = place;
    samples::write_bytes(path,
                         samples::rebuild(good, {{SectionId::kBlobIndex, encode_blob_index(trace.blobs, places)}}));
    const auto read = read_file(path);
    return read ? "" : read.error().message;
  };
  EXPECT_EQ(refusal({0, 0, Codec::kFolder, 0}), "");
  for (const BlobPlace place :
       {BlobPlace{64, 0, Codec::kFolder, 0}, {0, 1, Codec::kFolder, 0}, {0, 0, Codec::kFolder, 1}})
    EXPECT_THAT(refusal(place), HasSubstr("it is in the blob folder and has an offset, bytes or a checksum here"));
  EXPECT_EQ(refusal({0, 0, Codec::kLeftOut, 0}), "");
  EXPECT_THAT(refusal({64, 0, Codec::kLeftOut, 0}), HasSubstr("it is left out and has an offset, bytes or a checksum"));
  EXPECT_THAT(refusal({0, 0, Codec::kIndexed, 0}), HasSubstr("codec 2 is not one of a blob"));
  EXPECT_THAT(refusal({0, 0, static_cast<Codec>(5), 0}), HasSubstr("codec 5 is not known"));
  Trace nameless;
  samples::write_bytes(
      path, samples::rebuild(good, {{SectionId::kMetadata, encode_section(nameless, SectionId::kMetadata)}}));
  EXPECT_THAT(read_file(path).error().message, HasSubstr("blobs are in the blob folder, and the metadata name none"));
}

}  // namespace
}  // namespace crucible::trace
