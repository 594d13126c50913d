// What a recording leaves that was killed, cut or damaged: the complete iterations, or a sentence that says why not.
#include "core/trace/recover.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include "core/trace/journal.hpp"
#include "core/trace/journal_tables.hpp"
#include "core/trace/stream_writer.hpp"
#include "core/trace/trace_samples.hpp"

namespace crucible::trace {
namespace {

using samples::describe;
using samples::Folder;

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// Iteration `number` of a recording: `number` + 2 ops, tables that grow, a blob and an external of its own.
void record_iteration(StreamWriter& writer, std::uint32_t number) {
  const Trace sample = samples::scalar_trace({1.0});
  if (number == 0) {
    for (const Schema& it : sample.schemas) writer.add(it);
    for (const Site& it : sample.sites) writer.add(it);
    for (const std::string& it : sample.modules) writer.add_module(it);
    for (const Storage& it : sample.storages) writer.add(it);
    for (const Tensor& it : sample.tensors) writer.add(it);
  }
  const std::uint32_t first = static_cast<std::uint32_t>(writer.count(SectionId::kOps));
  const StorageId storage = writer.add(Storage{512, "cpu"});
  const TensorId tensor = writer.add(Tensor{storage, DType::kF32, false, false, 0, {4, 32}, {32, 1}});
  std::vector<std::byte> bytes(200 + number, static_cast<std::byte>(number));
  for (std::size_t i = 0; i < bytes.size(); i += 3) bytes[i] = static_cast<std::byte>(i * 7 + number);
  const BlobId blob = writer.add_blob(bytes);
  for (std::uint32_t i = 0; i < number + 2; ++i) {
    Op op = sample.ops[0];
    op.args[1].real = number + i / 100.0;
    op.outputs[0].tensor = tensor;
    writer.add(op);
  }
  writer.add(External{storage, number, first, Role::kInput, "batch", blob});
  writer.set_storage_bytes(storage, 600 + number);
}

Result<void> end_iteration(StreamWriter& writer, std::uint32_t number) {
  const std::uint32_t first = static_cast<std::uint32_t>(writer.count(SectionId::kOps)) - (number + 2);
  return writer.end_iteration({first, number + 2, true, {}});
}

/// The file that a recording of `iterations` iterations is recovered to, as text.
std::string expected_text(std::uint32_t iterations, const std::string& reason) {
  const Folder folder;
  auto writer = StreamWriter::create(folder / "e.crtrace", {});
  for (std::uint32_t i = 0; i < iterations; ++i) {
    record_iteration(**writer, i);
    EXPECT_TRUE(end_iteration(**writer, i));
  }
  Metadata metadata;
  metadata.framework = "test";
  metadata.incomplete_reason = reason;
  EXPECT_TRUE((*writer)->finish(metadata));
  return describe(*read_file(folder / "e.crtrace"));
}

constexpr const char* kReason = "recovered after the recorder was ended";

/// Leaves the files of a recording that was ended after `iterations` complete ones and some ops of the next.
void leave_unfinished(const std::filesystem::path& path, std::uint32_t iterations) {
  const pid_t child = fork();
  if (child == 0) {
    Metadata metadata;
    metadata.framework = "test";
    auto writer = StreamWriter::create(path, metadata);
    for (std::uint32_t i = 0; i < iterations; ++i) {
      record_iteration(**writer, i);
      (void)end_iteration(**writer, i);
    }
    record_iteration(**writer, iterations);
    raise(SIGKILL);
  }
  int status = 0;
  waitpid(child, &status, 0);
}

TEST(Recover, TakesTheCompleteIterations) {
  const Folder folder;
  const auto path = folder / "a.crtrace";
  leave_unfinished(path, 5);
  EXPECT_EQ(folder.listing(), "a.crtrace.journal\na.crtrace.lock\na.crtrace.partial\n");
  const auto report = recover_file(path);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->iterations, 5u);
  EXPECT_EQ(report->ops, 2u + 3 + 4 + 5 + 6);
  EXPECT_EQ(report->damage, "");
  EXPECT_FALSE(report->was_finished);
  EXPECT_EQ(report->file_bytes, std::filesystem::file_size(path));
  EXPECT_EQ(folder.listing(), "a.crtrace\n");
  EXPECT_TRUE(check_file(path));
  EXPECT_EQ(describe(*read_file(path)), expected_text(5, kReason));
  const auto again = recover_file(path);
  ASSERT_FALSE(again);
  EXPECT_TRUE(has(again.error().message, "there is no " + path.string() + ".journal; a recording that was finished"))
      << again.error().message;
  EXPECT_EQ(folder.listing(), "a.crtrace\n");
}

TEST(Recover, WritesAnotherFileWhenAsked) {
  const Folder folder;
  leave_unfinished(folder / "a.crtrace", 3);
  const auto failed = recover_file(folder / "a.crtrace", folder / "none" / "b.crtrace");
  ASSERT_FALSE(failed);
  EXPECT_TRUE(has(failed.error().message, "create the folder first")) << failed.error().message;
  EXPECT_TRUE(has(folder.listing(), "a.crtrace.journal\na.crtrace.partial\n")) << folder.listing();
  const auto report = recover_file(folder / "a.crtrace", folder / "b.crtrace");
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(folder.listing(), "b.crtrace\n");
  EXPECT_TRUE(check_file(folder / "b.crtrace"));
  EXPECT_EQ(describe(*read_file(folder / "b.crtrace")), expected_text(3, kReason));
}

TEST(Recover, DoesNotWriteThroughALink) {
  for (const bool is_hard : {false, true}) {
    const Folder folder;
    const auto path = folder / "a.crtrace";
    leave_unfinished(path, 2);
    std::filesystem::rename(partial_path(path), folder / "victim");
    if (is_hard) std::filesystem::create_hard_link(folder / "victim", partial_path(path));
    if (!is_hard) std::filesystem::create_symlink("victim", partial_path(path));
    const std::vector<std::byte> before = samples::read_bytes(folder / "victim");
    EXPECT_FALSE(recover_file(path));
    EXPECT_EQ(samples::read_bytes(folder / "victim"), before);
  }
}

TEST(Recover, NoIterationWasComplete) {
  const Folder folder;
  leave_unfinished(folder / "a.crtrace", 0);
  const auto report = recover_file(folder / "a.crtrace");
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::kBadInput);
  EXPECT_EQ(report.error().message,
            "cannot recover " + (folder / "a.crtrace").string() + ": no iteration was complete");
}

TEST(Recover, JournalCutAtEveryByte) {
  const Folder folder;
  const auto path = folder / "a.crtrace";
  leave_unfinished(path, 3);
  const std::vector<std::byte> journal = samples::read_bytes(journal_path(path));
  const std::vector<std::byte> partial = samples::read_bytes(partial_path(path));
  std::array<std::size_t, 4> seen{};
  std::uint64_t before = 0;
  for (std::size_t size = 0; size <= journal.size(); ++size) {
    const auto content = read_journal(std::span(journal).first(size));
    const std::uint64_t iterations = content ? content->table(SectionId::kIterations).records : 0;
    ASSERT_GE(iterations, before);  // more bytes, more iterations
    const bool is_new = iterations > before;
    before = iterations;
    ++seen[iterations];
    ASSERT_TRUE(iterations == 0 || check_tables(*content)) << size;
    if (!is_new && size % 61 != 0) continue;  // the disk is slow: not all of them as files
    samples::write_bytes(journal_path(path), std::span(journal).first(size));
    samples::write_bytes(partial_path(path), partial);
    const auto report = recover_file(path);
    if (iterations == 0) {
      ASSERT_FALSE(report);
      ASSERT_TRUE(has(report.error().message, "no iteration was complete") ||
                  has(report.error().message, "no complete iteration"))
          << report.error().message;
      continue;
    }
    ASSERT_TRUE(report) << report.error().message;
    ASSERT_EQ(report->iterations, iterations);
    ASSERT_TRUE(check_file(path)) << size;
    const auto read = read_file(path);
    ASSERT_EQ(read->iterations.size(), iterations);
    ASSERT_TRUE(has(read->metadata.incomplete_reason, kReason));
  }
  for (const std::size_t count : seen) EXPECT_GT(count, 0u);
}

TEST(Recover, OneFlippedByteAnywhereInTheJournal) {
  const Folder folder;
  const auto path = folder / "a.crtrace";
  leave_unfinished(path, 3);
  const std::vector<std::byte> journal = samples::read_bytes(journal_path(path));
  const std::vector<std::byte> partial = samples::read_bytes(partial_path(path));
  std::size_t taken = 0;
  for (std::size_t at = 0; at < journal.size(); ++at) {
    std::vector<std::byte> flipped = journal;
    flipped[at] ^= static_cast<std::byte>(1u << (at % 8));
    const auto content = read_journal(flipped);
    if (!content) continue;  // in its start
    ASSERT_NE(content->damage, "") << at;
    ASSERT_TRUE(content->end <= at || content->commits == 0) << at;  // nothing behind the damage is taken
    if (content->commits == 0) continue;
    ASSERT_TRUE(check_tables(*content)) << at;
    ++taken;
    if (at % 37 != 0) continue;  // the disk is slow: not all of them as files
    samples::write_bytes(journal_path(path), flipped);
    samples::write_bytes(partial_path(path), partial);
    const auto report = recover_file(path);
    ASSERT_TRUE(report) << report.error().message;
    ASSERT_EQ(report->damage, content->damage);
    ASSERT_LE(report->iterations, 3u);
    ASSERT_TRUE(check_file(path)) << at;
    ASSERT_TRUE(has(read_file(path)->metadata.incomplete_reason, report->damage));
  }
  EXPECT_GT(taken, journal.size() / 4);
}

TEST(Recover, DamagedBlobEndsBeforeItsIteration) {
  const Folder folder;
  const auto path = folder / "a.crtrace";
  leave_unfinished(path, 4);
  const std::vector<std::byte> journal = samples::read_bytes(journal_path(path));
  const std::vector<std::byte> partial = samples::read_bytes(partial_path(path));
  const auto recover_with = [&](std::span<const std::byte> bytes) {
    samples::write_bytes(journal_path(path), journal);
    samples::write_bytes(partial_path(path), bytes);
    return recover_file(path);
  };
  const auto content = read_journal(journal);
  ASSERT_TRUE(content);
  // The third blob starts at the second one's end, rounded up; find it by flipping everywhere.
  std::array<std::size_t, 5> by_iterations{};
  std::size_t refused = 0;
  for (std::size_t at = kBlobAreaStart; at < partial.size(); at += 23) {
    std::vector<std::byte> flipped = partial;
    flipped[at] ^= std::byte{0x20};
    const auto report = recover_with(flipped);
    if (!report) {
      ++refused;
      ASSERT_TRUE(has(report.error().message, "no iteration was complete; blob 0 is damaged"));
      continue;
    }
    ++by_iterations[report->iterations];
    if (report->iterations < 4) {
      ASSERT_EQ(report->damage, "blob " + std::to_string(report->iterations) + " is damaged");
      ASSERT_TRUE(check_file(path));
    }
  }
  EXPECT_GT(refused, 3u);
  for (std::size_t i = 1; i < 4; ++i) EXPECT_GT(by_iterations[i], 3u) << i;
  // A partial file that is shorter than the journal says.
  const auto shorter = recover_with(std::span(partial).first(kBlobAreaStart + 210));
  ASSERT_TRUE(shorter) << shorter.error().message;
  EXPECT_EQ(shorter->iterations, 1u);
  const auto none = recover_with(std::span(partial).first(10));
  ASSERT_FALSE(none);
}

TEST(Recover, JournalWithoutPartialFile) {
  const Folder folder;
  const auto path = folder / "a.crtrace";
  leave_unfinished(path, 2);
  const std::vector<std::byte> journal = samples::read_bytes(journal_path(path));
  std::filesystem::rename(partial_path(path), folder / "kept");
  const auto missing = recover_file(path);
  ASSERT_FALSE(missing);
  EXPECT_TRUE(has(missing.error().message, "there is no " + path.string() + ".partial")) << missing.error().message;
  std::filesystem::rename(folder / "kept", partial_path(path));
  ASSERT_TRUE(recover_file(path));
  // As if it had been ended between the rename and the removal of the journal.
  samples::write_bytes(journal_path(path), journal);
  const auto report = recover_file(path);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->was_finished);
  EXPECT_EQ(report->iterations, 2u);
  EXPECT_EQ(folder.listing(), "a.crtrace\n");
}

TEST(Recover, ForeignFilesAreRefused) {
  const Folder folder;
  const auto path = folder / "a.crtrace";
  samples::write_bytes(partial_path(path), std::vector<std::byte>(2000));
  const auto refusal = [&](const std::vector<std::byte>& journal) {
    samples::write_bytes(journal_path(path), journal);
    const auto report = recover_file(path);
    return report ? "" : report.error().message;
  };
  EXPECT_TRUE(has(refusal(std::vector<std::byte>(100, std::byte{1})), "it does not start with CRJOURN"));
  EXPECT_TRUE(has(refusal({}), "no complete iteration: only 0 bytes of its start"));
  std::vector<std::byte> start = encode_journal_start();
  EXPECT_TRUE(has(refusal(start), "no iteration was complete"));
  start[8] = std::byte{2};
  EXPECT_TRUE(has(refusal(start), "its format version 2.1 is newer than 1.1, which this crucible reads"));
  start[8] = std::byte{1};
  start[20] ^= std::byte{1};
  EXPECT_TRUE(has(refusal(start), "its start is damaged"));
}

/// A recording that is killed after a while; returns how many iterations it said were complete.
std::uint32_t kill_at_random(const std::filesystem::path& path, unsigned seed) {
  int ends[2];
  if (pipe(ends) != 0) return 0;
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    Metadata metadata;
    metadata.framework = "test";
    auto writer = StreamWriter::create(path, metadata);
    for (std::uint32_t i = 0;; ++i) {
      record_iteration(**writer, i % 40);
      const std::uint32_t first = static_cast<std::uint32_t>((*writer)->count(SectionId::kOps)) - (i % 40 + 2);
      if (!(*writer)->end_iteration({first, i % 40 + 2, true, {}})) _exit(1);
      if (write(ends[1], "x", 1) != 1) _exit(2);
    }
  }
  close(ends[1]);
  std::uint32_t reported = 0;
  char buffer[256];
  // Three in four have begun to record, however slow the machine is; the others may be killed before.
  if (seed % 4 != 0 && read(ends[0], buffer, 1) == 1) ++reported;
  usleep(500 + seed * 7919 % 6000);
  kill(child, SIGKILL);
  for (ssize_t size = 0; (size = read(ends[0], buffer, sizeof buffer)) > 0;)
    reported += static_cast<std::uint32_t>(size);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status)) << WEXITSTATUS(status);
  return reported;
}

TEST(Recover, KilledAHundredTimesAtRandom) {
  std::size_t recovered = 0, empty = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    const Folder folder;
    const auto path = folder / "a.crtrace";
    const std::uint32_t reported = kill_at_random(path, seed);
    const auto report = recover_file(path);
    if (!report) {
      ASSERT_EQ(reported, 0u) << seed << ": " << report.error().message;
      ++empty;
      continue;
    }
    ++recovered;
    // The last one may have been complete before it could be reported.
    ASSERT_GE(report->iterations, reported) << seed;
    ASSERT_LE(report->iterations, reported + 1) << seed;
    ASSERT_TRUE(report->damage == "" || has(report->damage, "the journal ends inside its record")) << report->damage;
    ASSERT_TRUE(check_file(path)) << seed;
    const auto read = read_file(path);
    ASSERT_TRUE(read) << read.error().message;
    ASSERT_EQ(read->iterations.size(), report->iterations);
    std::uint32_t op = 0;
    for (std::uint32_t i = 0; i < read->iterations.size(); ++i) {
      ASSERT_EQ(read->iterations[i].first_op, op);
      ASSERT_EQ(read->iterations[i].op_count, i % 40 + 2);
      ASSERT_EQ(read->ops[op].args[1].real, i % 40);
      op += read->iterations[i].op_count;
    }
    ASSERT_EQ(folder.listing(), "a.crtrace\n") << seed;
  }
  EXPECT_GT(recovered, 50u) << empty << " were killed before their first iteration was complete";
}

}  // namespace
}  // namespace crucible::trace
