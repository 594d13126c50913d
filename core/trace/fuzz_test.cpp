// Valid files, changed at random with every checksum made to fit, so that the decoders themselves are reached: each is
// refused or read, and what was read can be walked. The same cases on every machine.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "core/trace/summary.hpp"
#include "core/trace/text.hpp"
#include "core/trace/trace_file.hpp"
#include "core/trace/trace_samples.hpp"

namespace crucible::trace {
namespace {

using samples::Folder;

class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : random_(seed) {}
  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }

  void change(std::vector<std::byte>& bytes) {
    for (std::uint64_t i = 1 + below(3); i > 0; --i) change_once(bytes);
  }

 private:
  void change_once(std::vector<std::byte>& bytes) {
    const std::size_t at = below(bytes.size() + 1);
    const auto place = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    switch (below(5)) {
      case 0:
        bytes.insert(place, static_cast<std::byte>(below(256)));
        break;
      case 1:
        bytes.insert(place, 1 + below(9), std::byte{0xff});
        break;
      case 2:
        bytes.erase(place, place + static_cast<std::ptrdiff_t>(std::min<std::size_t>(bytes.size() - at, 1 + below(8))));
        break;
      case 3:
        if (at < bytes.size()) *place ^= static_cast<std::byte>(1u << below(8));
        break;
      case 4:
        if (at < bytes.size()) *place = static_cast<std::byte>(below(256));
        break;
    }
  }
  std::mt19937_64 random_;
};

/// Reads the file and uses everything that was read; returns whether it was taken.
bool read_and_walk(const std::filesystem::path& path) {
  const auto trace = read_file(path);
  if (!trace) {
    EXPECT_EQ(trace.error().code, ErrorCode::kBadInput);
    EXPECT_NE(trace.error().message, "");
    return false;
  }
  std::size_t length = samples::describe(*trace).size();
  const Compounds compounds(*trace);
  for (const Op& op : trace->ops) length += op_text(compounds, op).size() + trace->site_text(op.site).size();
  (void)summarize(*trace);
  EXPECT_GT(length, 0u);
  return true;
}

TEST(TraceFuzz, ChangedSections) {
  const Folder folder;
  const auto path = folder / "a.crtrace";
  std::size_t taken = 0, refused = 0;
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    ASSERT_TRUE(write_file(seed == 0 ? samples::small_trace() : samples::random_trace(seed, seed * 5), path));
    const std::vector<std::byte> good = samples::read_bytes(path);
    Mutator mutator(seed);
    for (int round = 0; round < 700; ++round) {
      const std::uint64_t number = mutator.below(kTableSections.size() + 1);
      const SectionId id = number < kTableSections.size() ? kTableSections[number] : SectionId::kBlobIndex;
      if (decode_container(good)->find(id) == nullptr) continue;
      std::vector<std::byte> content = samples::content_of(good, id);
      mutator.change(content);
      samples::write_bytes(path, samples::rebuild(good, {{id, content}}));
      ++(read_and_walk(path) ? taken : refused);
    }
  }
  // Many changes only alter a text or a number; many others break the structure. Both must occur.
  EXPECT_GT(taken, 300u);
  EXPECT_GT(refused, 500u);
}

TEST(TraceFuzz, ChangedContainer) {
  const Folder folder;
  const auto path = folder / "a.crtrace";
  ASSERT_TRUE(write_file(samples::random_trace(9, 60), path));
  const std::vector<std::byte> good = samples::read_bytes(path);
  Mutator mutator(1);
  for (int round = 0; round < 2000; ++round) {
    Container container = *decode_container(good);
    SectionEntry& entry = container.sections[mutator.below(container.sections.size())];
    const std::uint64_t number = mutator.below(3) == 0 ? ~0ull >> mutator.below(64) : mutator.below(2 * good.size());
    switch (mutator.below(6)) {
      case 0:
        entry.offset = number / kAlignment * kAlignment;
        break;
      case 1:
        entry.stored_bytes = number;
        break;
      case 2:
        entry.raw_bytes = number;
        break;
      case 3:
        entry.id = static_cast<std::uint32_t>(mutator.below(20));
        break;
      case 4:
        entry.codec = static_cast<Codec>(mutator.below(5));
        break;
      case 5:
        container.file_bytes = number;
        break;
    }
    std::vector<std::byte> bytes = good;
    std::ranges::copy(encode_container(container), bytes.begin());
    samples::write_bytes(path, bytes);
    read_and_walk(path);
  }
}

TEST(TraceFuzz, ChangedFileWithoutRepair) {
  const Folder folder;
  const auto path = folder / "a.crtrace";
  ASSERT_TRUE(write_file(samples::small_trace(), path));
  const std::vector<std::byte> good = samples::read_bytes(path);
  Mutator mutator(2);
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::byte> bytes = good;
    mutator.change(bytes);
    if (bytes == good) continue;
    samples::write_bytes(path, bytes);
    EXPECT_FALSE(check_file(path)) << "round " << round;
  }
}

}  // namespace
}  // namespace crucible::trace
