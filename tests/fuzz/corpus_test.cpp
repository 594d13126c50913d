// The fuzzers' corpus and what they have found so far, through the same entries without libFuzzer, in every build.
#include <gtest/gtest.h>

#include <filesystem>

#include "core/trace/trace_samples.hpp"
#include "tests/fuzz/entries.hpp"

namespace crucible::fuzz {
namespace {

/// Runs every file of a folder of the corpus; the number of files.
std::size_t run_all(const char* name, void (*entry)(std::span<const std::byte>)) {
  std::size_t count = 0;
  for (const auto& file : std::filesystem::directory_iterator(std::filesystem::path(CRUCIBLE_FUZZ_CORPUS) / name)) {
    SCOPED_TRACE(file.path().string());
    entry(trace::samples::read_bytes(file.path()));
    ++count;
  }
  return count;
}

TEST(FuzzCorpus, Trace) { EXPECT_GE(run_all("trace", fuzz_trace), trace_seeds().size()); }

TEST(FuzzCorpus, Journal) { EXPECT_GE(run_all("journal", fuzz_journal), journal_seeds().size()); }

TEST(FuzzCorpus, Program) { EXPECT_GE(run_all("program", fuzz_program), program_seeds().size()); }

TEST(FuzzCorpus, Instance) { EXPECT_GE(run_all("instance", fuzz_instance), instance_seeds().size()); }

TEST(FuzzCorpus, IsSmallAndMadeByTheGenerator) {
  // The committed seeds are the generator's: tests/fuzz/make_corpus writes them.
  const std::filesystem::path folder = CRUCIBLE_FUZZ_CORPUS;
  std::uintmax_t bytes = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder)) {
    if (file.is_regular_file()) bytes += file.file_size();
  }
  EXPECT_LT(bytes, 64u << 10);
  const auto expect_equal = [&](const char* name, const std::vector<std::vector<std::byte>>& seeds) {
    for (std::size_t i = 0; i < seeds.size(); ++i)
      EXPECT_EQ(trace::samples::read_bytes(folder / name / ("seed_" + std::to_string(i))), seeds[i]) << name << i;
  };
  expect_equal("trace", trace_seeds());
  expect_equal("journal", journal_seeds());
  expect_equal("program", program_seeds());
  expect_equal("instance", instance_seeds());
}

}  // namespace
}  // namespace crucible::fuzz
