// fuzz_journal: the records of a journal, then the rules that recover_file applies before it writes.
#include <cstdlib>

#include "core/base/hash.hpp"
#include "core/trace/journal.hpp"
#include "core/trace/journal_tables.hpp"
#include "core/trace/stream_writer.hpp"
#include "core/trace/trace_samples.hpp"
#include "tests/fuzz/entries.hpp"

namespace crucible::fuzz {

namespace {

constexpr std::size_t kStart = 24, kHead = 28;

void put(std::vector<std::byte>& bytes, std::size_t at, std::uint64_t value) {
  for (int i = 0; i < 8; ++i) bytes[at + i] = static_cast<std::byte>(value >> (8 * i));
}

/// Makes the checksums of the start and of every record those of the bytes.
void repair(std::vector<std::byte>& journal) {
  if (journal.size() < kStart) return;
  put(journal, kStart - 8, checksum64(std::span(journal).first(kStart - 8)));
  for (std::size_t at = kStart; journal.size() - at >= kHead;) {
    std::uint64_t size = 0;
    for (int i = 0; i < 8; ++i) size |= static_cast<std::uint64_t>(journal[at + 20 + i]) << (8 * i);
    if (size > journal.size() - at - kHead) return;
    put(journal, at, checksum64(std::span(journal).subspan(at + 8, kHead - 8 + size)));
    at += kHead + size;
  }
}

}  // namespace

void fuzz_journal(std::span<const std::byte> input) {
  std::vector<std::byte> journal(input.begin(), input.end());
  repair(journal);
  for (const std::uint64_t max_blobs : {~std::uint64_t{0}, std::uint64_t{1}}) {
    const auto content = trace::read_journal(journal, max_blobs);
    if (!content) return;
    if (content->end > journal.size()) std::abort();
    if (content->commits == 0) continue;
    const auto tables = trace::check_tables(*content);
    if (!tables && tables.error().code != ErrorCode::kBadInput) std::abort();
  }
}

std::vector<std::vector<std::byte>> journal_seeds() {
  std::vector<std::vector<std::byte>> seeds;
  const trace::Trace trace = trace::samples::small_trace();
  for (const bool has_changes : {false, true}) {
    const trace::samples::Folder folder;
    const auto path = folder / "a.crtrace";
    {
      const auto writer = trace::StreamWriter::create(path, trace.metadata);
      if (!writer) std::abort();
      trace::samples::stream(trace, **writer);
      if (has_changes) {
        (*writer)->set_storage_bytes(0, 4096);
        (*writer)->name_external(1, trace::Role::kBuffer, "b");
        if (!(*writer)->end_iteration({3, 0, true, {}})) std::abort();
        (*writer)->drop_unfinished();
        if (!(*writer)->end_iteration({3, 0, true, {}})) std::abort();
      }
    }
    seeds.push_back(trace::samples::read_bytes(trace::journal_path(path)));
  }
  return seeds;
}

}  // namespace crucible::fuzz
