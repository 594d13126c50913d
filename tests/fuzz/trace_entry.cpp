// fuzz_trace: a file or one section of it through the reader, and everything that was read through whoever uses it.
#include <algorithm>
#include <cstdlib>

#include "core/base/hash.hpp"
#include "core/trace/byte_stream.hpp"
#include "core/trace/content_hash.hpp"
#include "core/trace/sections.hpp"
#include "core/trace/summary.hpp"
#include "core/trace/text.hpp"
#include "core/trace/trace_file.hpp"
#include "core/trace/trace_samples.hpp"
#include "core/trace/validate.hpp"
#include "tests/fuzz/entries.hpp"

namespace crucible::fuzz {

namespace {

using trace::SectionEntry;
using trace::SectionId;
using trace::Trace;

/// small_trace() as a file whose sections are not compressed, so that every byte of it means something.
std::vector<std::byte> plain_file(const Trace& trace) {
  const trace::samples::Folder folder;
  if (!write_file(trace, folder / "a.crtrace")) std::abort();
  return trace::samples::rebuild(trace::samples::read_bytes(folder / "a.crtrace"), {});
}

/// Makes the checksums of header, table and sections those of the bytes. Nothing else is changed.
void repair(std::vector<std::byte>& file) {
  if (file.size() < trace::kHeaderBytes) return;
  const auto number = [&](std::size_t at, int width) {
    std::uint64_t value = 0;
    for (int i = 0; i < width; ++i) value |= static_cast<std::uint64_t>(file[at + i]) << (8 * i);
    return value;
  };
  const auto put = [&](std::size_t at, std::uint64_t value) {
    for (int i = 0; i < 8; ++i) file[at + i] = static_cast<std::byte>(value >> (8 * i));
  };
  const std::uint64_t count = number(16, 4);
  const std::uint64_t table_end = trace::kHeaderBytes + count * trace::kSectionEntryBytes;
  if (count <= trace::kMaxSections && table_end <= file.size()) {
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::size_t at = trace::kHeaderBytes + i * trace::kSectionEntryBytes;
      const std::uint64_t offset = number(at + 8, 8), stored = number(at + 16, 8);
      if (offset > file.size() || stored > file.size() - offset) continue;
      put(at + 32, checksum64(std::span(file).subspan(offset, stored)));
    }
    put(32, checksum64(std::span(file).subspan(trace::kHeaderBytes, table_end - trace::kHeaderBytes)));
  }
  put(trace::kHeaderBytes - 8, checksum64(std::span(file).first(trace::kHeaderBytes - 8)));
}

/// Uses everything, so that whatever was taken can be worked with.
void walk(const Trace& trace) {
  std::size_t length = 0;
  const trace::Compounds compounds(trace);
  for (const trace::Op& op : trace.ops) length += op_text(compounds, op).size() + trace.site_text(op.site).size();
  for (trace::TensorId id = 0; id < trace.tensors.size(); ++id) length += tensor_text(compounds, id).size();
  length += summarize(trace).ops_per_iteration.size();
  const trace::ContentHashes hashes = hash_content(trace);
  if (hashes.program == hashes.content) std::abort();
  for (trace::BlobId id = 0; trace.blob_store != nullptr && id < trace.blobs.size(); ++id) {
    const auto blob = trace.blob_store->load(id);
    if (blob && blob->size() != trace.blobs[id].size_bytes) std::abort();
  }
  if (length == ~std::size_t{0}) std::abort();
}

/// The bytes of a table that was read are those of the table: encoding must give them back, up to varints that were
/// longer than they had to be.
void encode_again(const Trace& trace, SectionId id) {
  const std::vector<std::byte> content = encode_section(trace, id);
  Trace again;
  if (!decode_section(content, id, again)) std::abort();
  if (encode_section(again, id) != content) std::abort();
}

void fuzz_section(SectionId id, std::span<const std::byte> content) {
  static const Trace base = trace::samples::small_trace();
  if (id == SectionId::kBlobIndex) {
    std::vector<trace::Blob> blobs;
    (void)trace::decode_blob_index(content, 4096, blobs);
    return;
  }
  Trace trace = base;
  if (id == SectionId::kMetadata)
    trace.metadata = {};
  else
    visit_table(id, trace, [](auto& records) { records.clear(); });
  if (!decode_section(content, id, trace)) return;
  encode_again(trace, id);
  if (validate(trace)) walk(trace);
}

void fuzz_file(std::span<const std::byte> input) {
  (void)trace::read_bytes(input);
  std::vector<std::byte> file(input.begin(), input.end());
  repair(file);
  const auto trace = trace::read_bytes(file);
  if (trace) walk(*trace);
  if (!trace && trace.error().code != ErrorCode::kBadInput) std::abort();
}

}  // namespace

void fuzz_trace(std::span<const std::byte> input) {
  if (input.empty()) return;
  const std::uint32_t which = static_cast<std::uint32_t>(input[0]);
  if (which == 0) return fuzz_file(input.subspan(1));
  if (which <= trace::kSectionCount && which != static_cast<std::uint32_t>(SectionId::kBlobs))
    fuzz_section(static_cast<SectionId>(which), input.subspan(1));
}

std::vector<std::vector<std::byte>> trace_seeds() {
  std::vector<std::vector<std::byte>> seeds;
  const std::vector<std::byte> file = plain_file(trace::samples::small_trace());
  const auto add = [&seeds](std::uint32_t which, std::span<const std::byte> rest) {
    std::vector<std::byte>& seed = seeds.emplace_back(1, static_cast<std::byte>(which));
    seed.insert(seed.end(), rest.begin(), rest.end());
  };
  add(0, plain_file(Trace{}));
  add(0, file);
  const auto container = trace::decode_container(file);
  if (!container) std::abort();
  for (const SectionEntry& entry : container->sections) {
    const SectionId id = static_cast<SectionId>(entry.id);
    if (id != SectionId::kBlobs) add(entry.id, trace::samples::content_of(file, id));
  }
  return seeds;
}

}  // namespace crucible::fuzz
