// Files that are cut, flipped, of another version, or not traces at all: refused with the section's name, never a
// crash.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/hash.hpp"
#include "core/trace/byte_stream.hpp"
#include "core/trace/limits.hpp"
#include "core/trace/trace_file.hpp"
#include "core/trace/trace_samples.hpp"

namespace crucible::trace {
namespace {

using samples::Folder;

class DamagedTrace : public ::testing::Test {
 protected:
  DamagedTrace() : path_(folder_ / "a.crtrace") {}

  std::vector<std::byte> good(const Trace& trace) {
    const auto done = write_file(trace, path_);
    EXPECT_TRUE(done) << done.error().message;
    return samples::read_bytes(path_);
  }

  /// The message with which a file of these bytes is refused; "" when it is taken.
  std::string refusal(std::span<const std::byte> bytes, bool check_blobs = false) {
    samples::write_bytes(path_, bytes);
    if (check_blobs) return message(check_file(path_));
    return message(read_file(path_));
  }

  template <class T>
  std::string message(const Result<T>& result) {
    if (result) return "";
    EXPECT_EQ(result.error().code, ErrorCode::kBadInput);
    EXPECT_NE(result.error().message.find(path_.string()), std::string::npos) << result.error().message;
    return result.error().message;
  }

  Folder folder_;
  std::filesystem::path path_;
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// The good file with its container changed by `change`, checksums made to fit.
template <class Change>
std::vector<std::byte> with_container(std::vector<std::byte> bytes, Change change) {
  Container container = *decode_container(bytes);
  change(container);
  std::ranges::copy(encode_container(container), bytes.begin());
  return bytes;
}

TEST_F(DamagedTrace, CutAtEveryByte) {
  const std::vector<std::byte> bytes = good(samples::small_trace());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const std::string text = refusal(std::span(bytes).first(size));
    ASSERT_TRUE(has(text, "section '") || has(text, "section table") || has(text, "header") || has(text, "empty"))
        << size << ": " << text;
  }
}

TEST_F(DamagedTrace, CutAtSectionBordersOfALargerFile) {
  const std::vector<std::byte> bytes = good(samples::random_trace(5, 2000));
  const Container container = *decode_container(bytes);
  for (const SectionEntry& entry : container.sections) {
    const std::uint64_t end = entry.offset + entry.stored_bytes;
    for (const std::uint64_t size : {entry.offset, entry.offset + 1, end - 1}) {
      const std::string text = refusal(std::span(bytes).first(size));
      ASSERT_TRUE(has(text, "section '" + section_name(entry.id) + "' is truncated")) << text;
    }
    if (end < bytes.size()) {
      EXPECT_TRUE(has(refusal(std::span(bytes).first(end)), "is truncated"));
    }
  }
}

TEST_F(DamagedTrace, OneFlippedByteAnywhere) {
  const std::vector<std::byte> bytes = good(samples::small_trace());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::vector<std::byte> flipped = bytes;
    flipped[i] ^= static_cast<std::byte>(1u << (i % 8));
    ASSERT_NE(refusal(flipped, true), "") << "byte " << i;
  }
}

TEST_F(DamagedTrace, OneFlippedByteInEachSectionNamesIt) {
  const std::vector<std::byte> bytes = good(samples::random_trace(5, 500));
  const Container container = *decode_container(bytes);
  for (const SectionEntry& entry : container.sections) {
    for (const std::uint64_t at : {std::uint64_t{0}, entry.stored_bytes / 2, entry.stored_bytes - 1}) {
      std::vector<std::byte> flipped = bytes;
      flipped[entry.offset + at] ^= std::byte{0x10};
      const bool is_blobs = entry.codec == Codec::kIndexed;
      EXPECT_TRUE(has(refusal(flipped, true), "section '" + section_name(entry.id) + "'")) << refusal(flipped, true);
      EXPECT_EQ(refusal(flipped) == "", is_blobs) << "blobs are looked at only on demand";
    }
  }
  std::vector<std::byte> header = bytes;
  header[20] ^= std::byte{1};
  EXPECT_TRUE(has(refusal(header), "header is damaged"));
  std::vector<std::byte> table = bytes;
  table[kHeaderBytes + 100] ^= std::byte{1};
  EXPECT_TRUE(has(refusal(table), "section table is damaged"));
}

TEST_F(DamagedTrace, FlippedBlobIsFoundWhenItIsLoaded) {
  std::vector<std::byte> bytes = good(samples::small_trace());
  bytes[decode_container(bytes)->find(SectionId::kBlobs)->offset + 17] ^= std::byte{1};
  samples::write_bytes(path_, bytes);
  const auto trace = read_file(path_);
  ASSERT_TRUE(trace);
  const auto blob = trace->blob_store->load(0);
  ASSERT_FALSE(blob);
  EXPECT_TRUE(has(blob.error().message, "section 'blobs' is damaged: blob 0: its checksum does not match"))
      << blob.error().message;
  EXPECT_TRUE(trace->blob_store->load(1));
}

TEST_F(DamagedTrace, WrongContentHashIsFoundByCheck) {
  const std::vector<std::byte> bytes = good(samples::small_trace());
  std::vector<std::byte> index = samples::content_of(bytes, SectionId::kBlobIndex);
  index[1] ^= std::byte{1};
  const std::vector<std::byte> rebuilt = samples::rebuild(bytes, {{SectionId::kBlobIndex, index}});
  EXPECT_EQ(refusal(rebuilt), "");
  EXPECT_TRUE(has(refusal(rebuilt, true), "blob 0: its content is not the one with SHA-256"));
}

TEST_F(DamagedTrace, NewerMajorVersion) {
  const auto newer = with_container(good(samples::small_trace()), [](Container& it) { it.major = 2; });
  EXPECT_TRUE(has(refusal(newer),
                  "header: format version 2.1 is newer than 1.1, which this crucible reads; use a newer crucible"));
}

TEST_F(DamagedTrace, NewerMinorVersionWithAnUnknownSectionIsRead) {
  std::vector<std::byte> bytes = good(samples::small_trace());
  const std::string expected = samples::describe(*read_file(path_));
  bytes = samples::rebuild(bytes, {{static_cast<SectionId>(99), std::vector<std::byte>(5, std::byte{1})}});
  bytes = with_container(bytes, [](Container& it) {
    it.minor = 7;
    it.sections.back().codec = static_cast<Codec>(42);
    it.sections.back().raw_bytes = 12345;
  });
  EXPECT_EQ(refusal(bytes, true), "");
  const auto trace = read_file(path_);
  ASSERT_TRUE(trace);
  EXPECT_EQ(samples::describe(*trace), expected);
  EXPECT_EQ(read_layout(path_)->minor, 7);
  EXPECT_EQ(read_layout(path_)->sections.back().name, "number 99");
}

TEST_F(DamagedTrace, NotATrace) {
  const std::string text =
      "PK\x03\x04 this is a zip file or whatever else somebody has lying around, 64 bytes and more";
  EXPECT_TRUE(
      has(refusal(std::as_bytes(std::span(text))), "header: not a crucible trace: it does not start with CRTRACE"));
  EXPECT_TRUE(has(refusal({}), "the file is empty (0 bytes)"));
}

TEST_F(DamagedTrace, MissingFileAndFolderAndPipe) {
  const auto missing = read_file(folder_ / "none.crtrace");
  ASSERT_FALSE(missing);
  EXPECT_TRUE(has(missing.error().message, "none.crtrace: No such file or directory; check the path"))
      << missing.error().message;
  const auto folder = read_file(folder_.path());
  ASSERT_FALSE(folder);
  EXPECT_TRUE(has(folder.error().message, "it is a directory; name a .crtrace file in it")) << folder.error().message;
  const auto device = check_file("/dev/zero");
  ASSERT_FALSE(device);
  EXPECT_TRUE(has(device.error().message, "it is not a regular file")) << device.error().message;
}

TEST_F(DamagedTrace, BytesBehindTheEnd) {
  std::vector<std::byte> bytes = good(samples::small_trace());
  bytes.push_back(std::byte{0});
  EXPECT_TRUE(has(refusal(bytes), "header: the file should have"));
}

TEST_F(DamagedTrace, MissingSection) {
  const auto bytes = with_container(good(samples::small_trace()), [](Container& it) {
    const auto draws = std::ranges::find(it.sections, static_cast<std::uint32_t>(SectionId::kDraws), &SectionEntry::id);
    draws->id = 77;
  });
  EXPECT_TRUE(has(refusal(bytes), "section 'draws' is missing"));
}

TEST_F(DamagedTrace, SectionsOfTheNextMinorVersionMayBeMissing) {
  const std::vector<std::byte> bytes = good(samples::small_trace());
  for (const SectionId id : kTableSections) {
    const auto without = with_container(bytes, [&](Container& it) {
      std::ranges::find(it.sections, static_cast<std::uint32_t>(id), &SectionEntry::id)->id = 77;
    });
    const std::string text = refusal(without);
    EXPECT_EQ(text == "", id >= SectionId::kGenerators) << text;
    EXPECT_EQ(has(text, "section '" + section_name(id) + "' is missing"), id < SectionId::kGenerators) << text;
  }
}

TEST_F(DamagedTrace, SectionThatIsThereTwice) {
  const std::vector<std::byte> bytes = good(samples::small_trace());
  for (const SectionId id : {SectionId::kDraws, SectionId::kOpHashes}) {
    const auto twice = with_container(bytes, [&](Container& it) {
      std::ranges::find(it.sections, static_cast<std::uint32_t>(SectionId::kOutputs), &SectionEntry::id)->id =
          static_cast<std::uint32_t>(id);
    });
    EXPECT_TRUE(has(refusal(twice), "section '" + section_name(id) + "' is damaged: it is in the section table twice"));
  }
}

TEST_F(DamagedTrace, FalseSizesAllocateNothing) {
  const std::vector<std::byte> bytes = good(samples::random_trace(5, 500));
  const auto with_entry = [&](SectionId id, auto change) {
    return refusal(with_container(bytes, [&](Container& it) { change(*const_cast<SectionEntry*>(it.find(id))); }));
  };
  const std::string huge = with_entry(SectionId::kOps, [](SectionEntry& it) { it.raw_bytes = 1ull << 60; });
  EXPECT_TRUE(has(huge, "section 'ops' is damaged: its size of 1152921504606846976 bytes is above the limit of"))
      << huge;
  const std::string dense = with_entry(SectionId::kOps, [](SectionEntry& it) { it.raw_bytes = limits().table_bytes; });
  EXPECT_TRUE(has(dense, "section 'ops' is damaged")) << dense;
  const std::string long_one = with_entry(SectionId::kOps, [](SectionEntry& it) { it.stored_bytes = ~0ull; });
  EXPECT_TRUE(has(long_one, "section 'ops' is truncated")) << long_one;
  const std::string far = with_entry(SectionId::kTensors, [](SectionEntry& it) { it.offset = 1ull << 62; });
  EXPECT_TRUE(has(far, "section 'tensors' is truncated")) << far;
  const std::string onto_header = with_entry(SectionId::kTensors, [](SectionEntry& it) { it.offset = 0; });
  EXPECT_TRUE(has(onto_header, "section 'tensors' is damaged: its offset 0")) << onto_header;
  const std::string overlap = with_entry(SectionId::kTensors, [](SectionEntry& it) { it.offset -= kAlignment; });
  EXPECT_TRUE(has(overlap, "inside what ends at")) << overlap;
  const std::string codec = with_entry(SectionId::kTensors, [](SectionEntry& it) { it.codec = static_cast<Codec>(9); });
  EXPECT_TRUE(has(codec, "section 'tensors' is damaged: its codec 9 is not known")) << codec;
}

TEST_F(DamagedTrace, WhatUnpacksToTooMuchIsReadWhereTheLimitIsRaised) {
  const Limits before = limits();
  set_limits({.free_bytes = 1 << 20});
  Trace dense = samples::small_trace();
  dense.modules.assign(2 << 20, "");  // a byte each, and next to nothing in the file
  const std::vector<std::byte> bytes = good(dense);
  const std::string refused = refusal(bytes);
  EXPECT_TRUE(has(refused, "which no recording's do (--table-limit 2097156 would read them)")) << refused;
  set_limits(tables_of(2097156));
  const auto read = read_bytes(bytes);
  set_limits(tables_of(2097155));
  const std::string larger = refusal(bytes);
  set_limits(before);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->modules.size(), dense.modules.size());
  EXPECT_TRUE(has(larger, "its size of 2097156 bytes is above the limit of 2097155 (--table-limit lets more be read)"))
      << larger;
}

TEST_F(DamagedTrace, FalseCountsAllocateNothing) {
  const std::vector<std::byte> bytes = good(samples::small_trace());
  for (std::uint32_t number = 1; number <= kSectionCount; ++number) {
    const SectionId id = static_cast<SectionId>(number);
    if (id == SectionId::kBlobs) continue;
    ByteWriter out;
    out.varint(1ull << 59);
    const std::string text = refusal(samples::rebuild(bytes, {{id, out.take()}}));
    EXPECT_TRUE(has(text, "section '" + section_name(id) + "' is damaged")) << text;
    EXPECT_TRUE(has(text, "576460752303423488 records")) << text;
  }
}

TEST_F(DamagedTrace, BytesAfterTheLastRecord) {
  const std::vector<std::byte> bytes = good(samples::small_trace());
  for (std::uint32_t number = 1; number <= kSectionCount; ++number) {
    const SectionId id = static_cast<SectionId>(number);
    if (id == SectionId::kBlobs) continue;
    std::vector<std::byte> content = samples::content_of(bytes, id);
    content.push_back(std::byte{0});
    const std::string text = refusal(samples::rebuild(bytes, {{id, content}}));
    EXPECT_TRUE(has(text, "section '" + section_name(id) + "' is damaged: 1 bytes are left")) << text;
  }
}

TEST_F(DamagedTrace, ListsNestedTooDeep) {
  const std::vector<std::byte> bytes = good(samples::small_trace());
  ByteWriter out;
  out.varint(1);                            // one op
  out.id(0), out.id(kNone), out.id(kNone);  // schema, site, module
  out.u8(0), out.varint(0), out.varint(1);  // phase, thread, one argument
  for (int depth = 0; depth < 100'000; ++depth) {
    out.u8(static_cast<std::uint8_t>(Arg::Kind::kList));
    out.varint(1);
  }
  out.u8(0), out.varint(0);
  const std::string text = refusal(samples::rebuild(bytes, {{SectionId::kOps, out.take()}}));
  EXPECT_TRUE(has(text, "lists are nested deeper than 16")) << text;
}

}  // namespace
}  // namespace crucible::trace
