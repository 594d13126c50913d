// What is written is read back bit for bit, and blobs are read only when they are asked for.
#include <gtest/gtest.h>

#include <bit>
#include <optional>

#include "core/trace/memory_blob_store.hpp"
#include "core/trace/trace_file.hpp"
#include "core/trace/trace_samples.hpp"

namespace crucible::trace {
namespace {

using samples::describe;
using samples::Folder;

TEST(TraceFile, RoundTripsEveryKindOfArgument) {
  const Folder folder;
  const Trace written = samples::small_trace();
  const auto done = write_file(written, folder / "a.crtrace");
  ASSERT_TRUE(done) << done.error().message;
  const auto read = read_file(folder / "a.crtrace");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(describe(*read), describe(written));
  EXPECT_EQ(folder.listing(), "a.crtrace\n");
  EXPECT_EQ(std::bit_cast<std::uint64_t>(read->ops[0].args[8].real), 0x7ff8dead'beef1234ull);
  EXPECT_TRUE(std::signbit(read->ops[0].args[6].real));
  const auto checked = check_file(folder / "a.crtrace");
  EXPECT_TRUE(checked) << checked.error().message;
}

TEST(TraceFile, RoundTripsRandomTraces) {
  const Folder folder;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Trace written = samples::random_trace(seed, seed * 3);
    const auto done = write_file(written, folder / "a.crtrace");
    ASSERT_TRUE(done) << done.error().message;
    const auto read = read_file(folder / "a.crtrace");
    ASSERT_TRUE(read) << seed << ": " << read.error().message;
    ASSERT_EQ(describe(*read), describe(written)) << seed;
    ASSERT_TRUE(check_file(folder / "a.crtrace")) << seed;
  }
}

TEST(TraceFile, RoundTripsAnEmptyTrace) {
  const Folder folder;
  const auto done = write_file(Trace{}, folder / "empty.crtrace");
  ASSERT_TRUE(done) << done.error().message;
  const auto read = read_file(folder / "empty.crtrace");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(describe(*read), describe(Trace{}));
}

TEST(TraceFile, RoundTripsWhichRankOfHowManyItIs) {
  const Folder folder;
  using Rank = std::optional<std::uint32_t>;
  for (const Rank rank : {Rank(), Rank(0), Rank(3)}) {
    Trace written = samples::small_trace();
    written.metadata.rank = rank;
    if (rank) written.metadata.world_size = 4;
    ASSERT_TRUE(write_file(written, folder / "a.crtrace"));
    const auto read = read_file(folder / "a.crtrace");
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->metadata.rank, rank);
    EXPECT_EQ(read->metadata.world_size, written.metadata.world_size);
  }
}

TEST(TraceFile, WritesTheTablesOfVersionOnePointOneOnlyWhereTheyAreNotEmpty) {
  const Folder folder;
  const auto sections = [&](const Trace& trace) {
    EXPECT_TRUE(write_file(trace, folder / "a.crtrace"));
    std::string names;
    const auto layout = read_layout(folder / "a.crtrace");
    for (const auto& section : layout->sections) names += section.name + " ";
    return names;
  };
  const std::string always =
      "blobs blob_index metadata schemas sites modules storages tensors ops iterations externals draws final_states "
      "not_recorded ";
  EXPECT_EQ(sections(Trace{}), always);
  Trace trace = samples::small_trace();
  EXPECT_EQ(sections(trace), always + "generators outputs compounds op_hashes ");
  trace.outputs.clear();
  EXPECT_EQ(sections(trace), always + "generators compounds op_hashes ");
  EXPECT_EQ(describe(*read_file(folder / "a.crtrace")), describe(trace));
}

TEST(TraceFile, KeepsTheMappingWhileTheBlobStoreLives) {
  const Folder folder;
  const Trace written = samples::small_trace();
  ASSERT_TRUE(write_file(written, folder / "a.crtrace"));
  std::shared_ptr<const BlobStore> store;
  {
    auto read = read_file(folder / "a.crtrace");
    ASSERT_TRUE(read);
    store = read->blob_store;
  }
  ASSERT_TRUE(std::filesystem::remove(folder / "a.crtrace"));
  const auto blob = store->load(0);
  ASSERT_TRUE(blob) << blob.error().message;
  EXPECT_EQ(sha256(*blob), written.blobs[0].hash);
  const auto missing = store->load(3);
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("blob 3 does not exist: there are 3"), std::string::npos)
      << missing.error().message;
}

TEST(TraceFile, CompressesWhatGetsSmallerAndOnlyThat) {
  const Folder folder;
  auto store = std::make_shared<MemoryBlobStore>();
  std::mt19937_64 random(7);
  std::vector<std::byte> noise(1 << 20), zeros(1 << 20);
  for (std::byte& byte : noise) byte = static_cast<std::byte>(random());
  store->add(noise);
  store->add(zeros);
  Trace trace;
  trace.blobs = store->blobs();
  trace.blob_store = store;
  ASSERT_TRUE(write_file(trace, folder / "a.crtrace"));
  const auto layout = read_layout(folder / "a.crtrace");
  ASSERT_TRUE(layout);
  EXPECT_EQ(layout->major, kFormatMajor);
  EXPECT_EQ(layout->file_bytes, std::filesystem::file_size(folder / "a.crtrace"));
  EXPECT_GT(layout->file_bytes, noise.size());
  EXPECT_LT(layout->file_bytes, noise.size() + 8192);
  const auto read = read_file(folder / "a.crtrace");
  ASSERT_TRUE(read);
  EXPECT_EQ(*read->blob_store->load(0), noise);
  EXPECT_EQ(*read->blob_store->load(1), zeros);
}

TEST(TraceFile, ReplacesAnOlderFile) {
  const Folder folder;
  ASSERT_TRUE(write_file(samples::random_trace(1, 40), folder / "a.crtrace"));
  const Trace newer = samples::random_trace(2, 3);
  ASSERT_TRUE(write_file(newer, folder / "a.crtrace"));
  const auto read = read_file(folder / "a.crtrace");
  ASSERT_TRUE(read);
  EXPECT_EQ(describe(*read), describe(newer));
}

TEST(Trace, NamesSitesByFileNameAndLine) {
  const Trace trace = samples::small_trace();
  EXPECT_EQ(trace.site_text(0), "train.py:31");
  EXPECT_EQ(trace.site_text(kNone), "?");
}

}  // namespace
}  // namespace crucible::trace
