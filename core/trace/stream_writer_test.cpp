// A recording that is written while it grows: the same file as write_file makes, little memory, and what is left when
// the disk is full or somebody gives up.
#include "core/trace/stream_writer.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <functional>

#include "core/trace/recover.hpp"
#include "core/trace/trace_samples.hpp"

namespace crucible::trace {
namespace {

using samples::describe;
using samples::Folder;

std::unique_ptr<StreamWriter> open_writer(const std::filesystem::path& path, const Metadata& metadata = {}) {
  auto writer = StreamWriter::create(path, metadata);
  EXPECT_TRUE(writer) << writer.error().message;
  return writer ? std::move(*writer) : nullptr;
}

TEST(StreamWriter, MakesTheSameFileAsWriteFile) {
  const Folder folder;
  const auto path = folder / "a.crtrace";
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Trace trace = seed == 0 ? samples::small_trace() : samples::random_trace(seed, seed * 7);
    ASSERT_TRUE(write_file(trace, path));
    const std::vector<std::byte> expected = samples::read_bytes(path);
    ASSERT_TRUE(std::filesystem::remove(path));
    const auto writer = open_writer(path);
    samples::stream(trace, *writer);
    const auto size = writer->finish(trace.metadata);
    ASSERT_TRUE(size) << seed << ": " << size.error().message;
    EXPECT_EQ(*size, expected.size());
    ASSERT_EQ(folder.listing(), "a.crtrace\n") << seed;
    const auto read = read_file(path);
    ASSERT_TRUE(read) << seed << ": " << read.error().message;
    ASSERT_EQ(describe(*read), describe(trace)) << seed;
    ASSERT_TRUE(check_file(path)) << seed;
    ASSERT_EQ(samples::read_bytes(path), expected) << seed;
  }
}

TEST(StreamWriter, KeepsAnEqualBlobOnce) {
  const Folder folder;
  const auto writer = open_writer(folder / "a.crtrace");
  const std::vector<std::byte> bytes(5000, std::byte{7});
  EXPECT_EQ(writer->add_blob(bytes), 0u);
  EXPECT_EQ(writer->add_blob({}), 1u);
  EXPECT_EQ(writer->add_blob(bytes), 0u);
  ASSERT_TRUE(writer->finish({}));
  const auto read = read_file(folder / "a.crtrace");
  ASSERT_TRUE(read);
  ASSERT_EQ(read->blobs.size(), 2u);
  EXPECT_EQ(*read->blob_store->load(0), bytes);
}

TEST(StreamWriter, LeavesOutBytesThatTheReaderHas) {
  const Folder folder;
  const auto writer = open_writer(folder / "a.crtrace");
  const std::vector<std::byte> bytes(5000, std::byte{7});
  EXPECT_EQ(writer->add_left_out(std::uint64_t{1} << 40), 0u);
  EXPECT_EQ(writer->add_blob(bytes), 1u);
  EXPECT_EQ(writer->add_left_out(std::uint64_t{1} << 40), 2u);  // of the same size, and another one
  const auto size = writer->finish({});
  ASSERT_TRUE(size) << size.error().message;
  EXPECT_LT(*size, 4096u);
  const auto read = read_file(folder / "a.crtrace");
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->blobs.size(), 3u);
  EXPECT_EQ(read->blobs[2].size_bytes, std::uint64_t{1} << 40);
  EXPECT_NE(read->blobs[0].hash, read->blobs[2].hash);
  EXPECT_EQ(*read->blob_store->load(1), bytes);
  const auto missing = read->blob_store->load(2);
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("blob 2: its 1099511627776 bytes were left out when it was recorded"),
            std::string::npos)
      << missing.error().message;
  EXPECT_TRUE(check_file(folder / "a.crtrace"));
}

TEST(StreamWriter, ChangesWhatBecameKnownLater) {
  const Folder folder;
  const Trace trace = samples::small_trace();
  const auto writer = open_writer(folder / "a.crtrace");
  samples::stream(trace, *writer);
  writer->set_storage_bytes(1, 77);
  writer->set_storage_bytes(1, 78);
  writer->name_external(1, Role::kBuffer, "running_mean");
  const NotRecorded only{"a graph break", 3, 0};
  writer->set_not_recorded({&only, 1});
  ASSERT_TRUE(writer->finish(trace.metadata));
  Trace expected = trace;
  expected.storages[1].size_bytes = 78;
  expected.externals[1].role = Role::kBuffer;
  expected.externals[1].name = "running_mean";
  expected.not_recorded = {only};
  EXPECT_EQ(describe(*read_file(folder / "a.crtrace")), describe(expected));
}

/// One op that adds a number to a tensor.
Op op_with(double number) {
  Op op = samples::scalar_trace({number}).ops[0];
  return op;
}

/// The tables that op_with() needs.
void add_tables(StreamWriter& writer) {
  const Trace trace = samples::scalar_trace({1.0});
  for (const Schema& it : trace.schemas) writer.add(it);
  for (const Site& it : trace.sites) writer.add(it);
  for (const std::string& it : trace.modules) writer.add_module(it);
  for (const Storage& it : trace.storages) writer.add(it);
  for (const Tensor& it : trace.tensors) writer.add(it);
}

TEST(StreamWriter, DropsAnUnfinishedIteration) {
  const Folder folder;
  for (const std::size_t many : {3u, 20'000u}) {  // few stay in the buffer, many have reached the journal
    const auto writer = open_writer(folder / "a.crtrace");
    add_tables(*writer);
    const BlobId blob = writer->add_blob(std::vector<std::byte>(10));
    writer->add(op_with(1));
    writer->add(External{0, 0, 0, Role::kUnknown, "first", blob});
    ASSERT_TRUE(writer->end_iteration({0, 1, true, {}}));
    for (std::size_t i = 0; i < many; ++i) {
      writer->add(op_with(2));
      writer->add(External{0, 1, static_cast<std::uint32_t>(1 + i), Role::kUnknown, "dropped", blob});
      writer->add(Draw{static_cast<std::uint32_t>(1 + i), 0, blob});
    }
    writer->name_external(0, Role::kParameter, "kept");
    writer->name_external(1, Role::kInput, "dropped too");
    writer->drop_unfinished();
    EXPECT_EQ(writer->count(SectionId::kOps), 1u);
    EXPECT_EQ(writer->add(op_with(3)), 1u);
    EXPECT_EQ(writer->add(External{0, 1, 1, Role::kUnknown, "second", blob}), 1u);
    ASSERT_TRUE(writer->end_iteration({1, 1, true, {}}));
    writer->add(op_with(4));
    writer->drop_unfinished();
    const auto done = writer->finish({});
    ASSERT_TRUE(done) << done.error().message;
    const auto read = read_file(folder / "a.crtrace");
    ASSERT_TRUE(read) << read.error().message;
    ASSERT_EQ(read->ops.size(), 2u);
    EXPECT_EQ(read->ops[1].args[1].real, 3);
    ASSERT_EQ(read->externals.size(), 2u);
    EXPECT_EQ(read->externals[0].name, "kept");
    EXPECT_EQ(read->externals[1].name, "second");
    EXPECT_TRUE(read->draws.empty());
    EXPECT_EQ(read->iterations.size(), 2u);
  }
}

TEST(StreamWriter, LeavesNothingWhenItIsDroppedOrNothingWasComplete) {
  const Folder folder;
  samples::write_bytes(folder / "a.crtrace", std::vector<std::byte>(5));
  {
    const auto writer = open_writer(folder / "a.crtrace");
    add_tables(*writer);
    writer->add(op_with(1));
    EXPECT_EQ(folder.listing(), "a.crtrace\na.crtrace.journal\na.crtrace.lock\na.crtrace.partial\n");
    ASSERT_TRUE(writer->end_iteration({0, 1, true, {}}));
    writer->drop();
    EXPECT_EQ(folder.listing(), "a.crtrace\n");
    const auto again = writer->finish({});
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().code, ErrorCode::kInternal);
  }
  {
    const auto writer = open_writer(folder / "a.crtrace");
    add_tables(*writer);
    writer->add(op_with(1));
  }
  EXPECT_EQ(folder.listing(), "a.crtrace\n");
  EXPECT_EQ(samples::read_bytes(folder / "a.crtrace").size(), 5u);
}

TEST(StreamWriter, TwoCannotShareAPathAndAForkedChildLeavesTheFiles) {
  const Folder folder;
  const auto path = folder / "a.crtrace";
  const auto writer = open_writer(path);
  const pid_t child = fork();
  if (child == 0) {
    const auto done = writer->finish({});
    const bool refused = !done && done.error().code == ErrorCode::kInternal;
    const_cast<std::unique_ptr<StreamWriter>&>(writer).reset();
    _exit(refused ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(folder.listing(), "a.crtrace.journal\na.crtrace.lock\na.crtrace.partial\n");
  const auto recovered = recover_file(path);
  ASSERT_FALSE(recovered);
  EXPECT_NE(recovered.error().message.find("another recording"), std::string::npos) << recovered.error().message;
  ASSERT_TRUE(writer->finish({}));
  EXPECT_EQ(folder.listing(), "a.crtrace\n");
}

TEST(StreamWriter, RefusesAMissingFolderAndAFolderAsPath) {
  const Folder folder;
  const auto missing = StreamWriter::create(folder / "none" / "a.crtrace", {});
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("create the folder first"), std::string::npos) << missing.error().message;
  std::filesystem::create_directory(folder / "b.crtrace");
  const auto onto_folder = StreamWriter::create(folder / "b.crtrace", {});
  ASSERT_FALSE(onto_folder);
  EXPECT_NE(onto_folder.error().message.find("it is a directory; choose another path"), std::string::npos);
  EXPECT_EQ(folder.listing(), "b.crtrace\n");
}

TEST(StreamWriter, RecordsThatDoNotFitTogetherAreOurFault) {
  const Folder folder;
  const auto path = folder / "a.crtrace";
  {
    const auto writer = open_writer(path);
    add_tables(*writer);
    writer->add(op_with(1));
    const auto ended = writer->end_iteration({0, 2, true, {}});
    ASSERT_FALSE(ended);
    EXPECT_EQ(ended.error().code, ErrorCode::kInternal);
    EXPECT_EQ(ended.error().message, "an iteration of " + path.string() +
                                         " has the ops 0 to 2, but only 1 were added; 0 complete iterations are kept "
                                         "in a.crtrace.partial and a.crtrace.journal");
  }
  {
    const auto writer = open_writer(path);
    add_tables(*writer);
    writer->add(op_with(1));
    writer->add(op_with(1));
    writer->add_op_hashes({1, 2});
    const auto ended = writer->end_iteration({0, 2, true, {}});
    ASSERT_FALSE(ended);
    EXPECT_NE(ended.error().message.find("has 2 ops and the hashes of 1"), std::string::npos);
  }
  EXPECT_EQ(folder.listing(), "");
  const auto writer = open_writer(path);
  add_tables(*writer);
  writer->add(Tensor{5, DType::kF32, false, false, 0, {}, {}});
  const auto done = writer->finish({});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::kInternal);
  EXPECT_NE(done.error().message.find("section 'tensors' is inconsistent: record 2: storage 5 does not exist"),
            std::string::npos)
      << done.error().message;
}

/// Runs `body` in a child in which no file may grow beyond `limit` bytes; SIGXFSZ has its default action, death.
int with_file_limit(rlim_t limit, const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_DFL);
    const rlimit limits{limit, limit};
    setrlimit(RLIMIT_FSIZE, &limits);
    _exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

std::vector<std::byte> noise(std::size_t size, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

TEST(StreamWriter, FullDiskKeepsTheCompleteIterations) {
  const Folder folder;
  const auto path = folder / "a.crtrace";
  // Each iteration has a blob of 20,000 bytes and an op: blobs fill the partial file first.
  const int code = with_file_limit(100'000, [&] {
    const auto writer = open_writer(path);
    add_tables(*writer);
    std::uint32_t complete = 0;
    for (std::uint32_t i = 0; i < 10; ++i) {
      writer->add_blob(noise(20'000, i));
      writer->add(op_with(i));
      if (!writer->end_iteration({i, 1, true, {}})) break;
      ++complete;
    }
    if (complete != 4 || !writer->failure()) return 1;
    const std::string& text = writer->failure()->message;
    for (const char* part : {"a.crtrace after ", "File too large; raise the file size limit (ulimit -f)",
                             "; 4 complete iterations are kept in a.crtrace.partial and a.crtrace.journal"}) {
      if (text.find(part) == std::string::npos) return 2;
    }
    writer->add_blob(noise(10, 99));  // dropped
    writer->add(op_with(99));
    return writer->finish({}) ? 0 : 3;
  });
  EXPECT_EQ(code, 0);
  EXPECT_EQ(folder.listing(), "a.crtrace\n");
  const auto read = read_file(path);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->iterations.size(), 4u);
  EXPECT_EQ(read->ops.size(), 4u);
  EXPECT_EQ(read->blobs.size(), 4u);
  EXPECT_NE(read->metadata.incomplete_reason.find("File too large"), std::string::npos);
  EXPECT_TRUE(check_file(path));
}

TEST(StreamWriter, FullDiskGivesTheRoomOfTheUnfinishedIterationBack) {
  const Folder folder;
  const auto path = folder / "a.crtrace";
  // Ops fill the journal; a blob has reached the partial file before.
  EXPECT_EQ(with_file_limit(400'000,
                            [&] {
                              const auto writer = open_writer(path);
                              add_tables(*writer);
                              writer->add(op_with(1));
                              if (!writer->end_iteration({0, 1, true, {}})) return 1;
                              const auto journal_bytes = std::filesystem::file_size(journal_path(path));
                              const auto partial_bytes = std::filesystem::file_size(partial_path(path));
                              writer->add_blob(noise(20'000, 1));
                              for (int i = 0; i < 100'000 && !writer->failure(); ++i) writer->add(op_with(2));
                              if (!writer->failure()) return 2;
                              if (std::filesystem::file_size(journal_path(path)) != journal_bytes) return 3;
                              if (std::filesystem::file_size(partial_path(path)) != partial_bytes) return 4;
                              return writer->finish({}) ? 0 : 5;
                            }),
            0);
  const auto read = read_file(path);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->ops.size(), 1u);
  EXPECT_TRUE(read->blobs.empty());
}

TEST(StreamWriter, FullDiskAtTheEndLeavesWhatRecoverNeeds) {
  const Folder folder;
  const auto path = folder / "a.crtrace";
  samples::write_bytes(path, std::vector<std::byte>(5));
  const int code = with_file_limit(24'000, [&] {
    const auto writer = open_writer(path);
    add_tables(*writer);
    writer->add_blob(noise(22'500, 1));  // the tables do not fit behind it
    writer->add(op_with(1));
    if (!writer->end_iteration({0, 1, true, {}})) return 1;
    for (std::uint32_t i = 0; i < 60; ++i) writer->add_module(std::string(300, static_cast<char>(i * 41 + i * i)));
    const auto done = writer->finish({"torch", "", "", "", "", "stopped by the user", 0, 0});
    if (done || done.error().code != ErrorCode::kBadInput) return 2;
    return done.error().message.find(
               "1 complete iteration is kept in a.crtrace.partial and a.crtrace.journal: "
               "crucible trace recover " +
               path.string()) == std::string::npos
               ? 3
               : 0;
  });
  EXPECT_EQ(code, 0);
  EXPECT_EQ(folder.listing(), "a.crtrace\na.crtrace.journal\na.crtrace.partial\n");
  EXPECT_EQ(samples::read_bytes(path).size(), 5u);
  const auto recovered = recover_file(path);
  ASSERT_TRUE(recovered) << recovered.error().message;
  EXPECT_TRUE(recovered->was_finished);
  const auto read = read_file(path);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->metadata.incomplete_reason, "stopped by the user");
  EXPECT_EQ(read->modules.size(), 61u);
  EXPECT_EQ(folder.listing(), "a.crtrace\n");
}

TEST(StreamWriter, FullDiskBeforeTheFirstIterationLeavesNothing) {
  const Folder folder;
  const auto path = folder / "a.crtrace";
  for (const rlim_t limit : {rlim_t{0}, rlim_t{500}, rlim_t{2000}}) {
    EXPECT_EQ(with_file_limit(limit,
                              [&] {
                                auto writer = StreamWriter::create(path, {});
                                if (!writer) return limit < kBlobAreaStart ? 0 : 1;
                                add_tables(**writer);
                                (*writer)->add_blob(noise(3000, 1));
                                if ((*writer)->end_iteration({})) return 2;
                                return (*writer)->finish({}) ? 3 : 0;
                              }),
              0)
        << limit;
    EXPECT_EQ(folder.listing(), "") << limit;
  }
}

}  // namespace
}  // namespace crucible::trace
