// A stripped recording has nothing of the original's texts and data, in no section and no blob, and is whole otherwise.
#include "core/trace/strip.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "core/trace/content_hash.hpp"
#include "core/trace/memory_blob_store.hpp"
#include "core/trace/records.hpp"
#include "core/trace/sections.hpp"
#include "core/trace/text.hpp"
#include "core/trace/trace_file.hpp"
#include "core/trace/trace_samples.hpp"

namespace crucible::trace {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using Bytes = std::vector<std::byte>;

constexpr std::string_view kSecret = "s3cretOf";  // what every text of the original begins with

std::string secret(std::string_view what) { return std::string(kSecret) + std::string(what); }

/// 400 floats that no noise has.
Bytes marker() {
  Bytes bytes(1600);
  for (int i = 0; i < 400; ++i) {
    const float number = std::sin(static_cast<float>(i) * 1.37f) * 3;
    std::memcpy(bytes.data() + i * 4, &number, 4);
  }
  return bytes;
}

/// small_trace() with a secret in every text that is not a schema or a word of the framework's.
Trace telling_trace() {
  auto store = std::make_shared<MemoryBlobStore>();
  Trace trace = samples::small_trace();
  trace.metadata = {.framework = "torch 2.11.0+" + secret("Build") + ", built for the CPU",
                    .frontend = "crucible 0.1.0, typed kernels",
                    .device = "cpu",
                    .command = "python /home/" + secret("User") + "/train.py --key=" + secret("Key"),
                    .created = secret("Time"),
                    .incomplete_reason = "raised " + secret("Error"),
                    .blob_folder = secret("Folder")};
  trace.sites = {{"/home/" + secret("User") + "/train.py", 31, secret("Class") + ".forward"}};
  trace.modules = {secret("Blocks") + ".0." + secret("Norm"), ""};
  Arg text, device, opaque, equation;
  text.kind = equation.kind = Arg::Kind::kString;
  device.kind = Arg::Kind::kDevice;
  opaque.kind = Arg::Kind::kOpaque;
  text.text = secret("Text");
  device.text = secret("Chip") + ":0";
  opaque.text = "process group '" + secret("Group") + "' rank 0 of 2";
  equation.text = "ij,jk->ik";
  Arg list;
  list.kind = Arg::Kind::kList;
  list.list = {text, device, opaque, equation};
  trace.ops[1].args = {list, text};
  trace.ops[1].outputs = {text};
  trace.storages[1].device = secret("Chip") + ":0";
  trace.storages[0].size_bytes = 1600;
  trace.tensors[0].sizes = {400};
  trace.tensors[0].strides = {1};
  const BlobId data = store->add(marker());
  const BlobId end = store->add(Bytes(1600, std::byte{0x41}));
  trace.externals = {{0, 0, 0, Role::kParameter, secret("Block") + ".0.weight", data}};
  trace.draws = {{0, 0, data}};
  trace.final_states = {{0, Role::kOptimizerState, "exp_avg of " + secret("Block") + ".0.weight", end}};
  trace.not_recorded = {{secret("Reason"), 3, 0}, {"outputs that were changed before the iteration ended", 1, kNone}};
  trace.generators = {{0, secret("Generator"), data}};
  trace.outputs = {{1, secret("Logits") + ".1", 0, data}};
  trace.compounds = {{2, secret("Compound"), {{secret("Part"), text}}}};
  trace.blobs = store->blobs();
  trace.blob_store = store;
  return trace;
}

Stripped stripped(const Trace& trace, std::uint8_t key = 7) {
  ContentHash random;
  random.bytes.fill(key);
  auto made = strip(trace, random);
  EXPECT_TRUE(made) << made.error().message;
  return *std::move(made);
}

/// All that a file says: its bytes, each section and each blob uncompressed. Knows no field of any record.
std::vector<Bytes> everything_in(const std::filesystem::path& path) {
  const Bytes file = samples::read_bytes(path);
  std::vector<Bytes> all = {file};
  const auto container = decode_container(file);
  EXPECT_TRUE(container);
  for (const SectionEntry& entry : container->sections) {
    if (entry.codec != Codec::kIndexed) all.push_back(*load_section(file, entry));
  }
  const auto trace = read_file(path);
  EXPECT_TRUE(trace) << trace.error().message;
  for (BlobId id = 0; id < trace->blobs.size(); ++id) all.push_back(*trace->blob_store->load(id));
  return all;
}

bool contains(const std::vector<Bytes>& all, std::span<const std::byte> wanted) {
  return std::ranges::any_of(all, [&](const Bytes& bytes) { return !std::ranges::search(bytes, wanted).empty(); });
}
bool contains(const std::vector<Bytes>& all, std::string_view wanted) {
  return contains(all, std::as_bytes(std::span(wanted)));
}

class Strip : public ::testing::Test {
 protected:
  std::vector<Bytes> written(const Trace& trace) {
    const auto done = write_file(trace, folder_ / "a.crtrace");
    EXPECT_TRUE(done) << done.error().message;
    EXPECT_TRUE(check_file(folder_ / "a.crtrace"));
    return everything_in(folder_ / "a.crtrace");
  }
  samples::Folder folder_;
};

TEST_F(Strip, LeavesNoTextOfTheOriginal) {
  const Trace original = telling_trace();
  const std::vector<Bytes> before = written(original);
  EXPECT_TRUE(contains(before, kSecret)) << "the scan finds nothing anywhere";
  EXPECT_TRUE(contains(before, secret("Part"))) << "the scan does not look into sections";
  const std::vector<Bytes> after = written(stripped(original).trace);
  EXPECT_FALSE(contains(after, kSecret));
  for (const std::string_view word : {"/home", "train.py", "Z\"", "forward\0"})
    EXPECT_FALSE(contains(after, word)) << word;
  EXPECT_TRUE(contains(after, "ij,jk->ik"));
  EXPECT_TRUE(contains(after, kStripped));
}

TEST_F(Strip, LeavesNoTextInTracesOfAnyKind) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    const Trace original = samples::random_trace(seed, 15);
    const Stripped made = stripped(original);
    const auto all = written(made.trace);
    const auto is_gone = [&](const std::string& text) {
      EXPECT_FALSE(text.size() >= 6 && contains(all, text)) << seed << ": " << text;
    };
    for (const Site& site : original.sites) is_gone(site.file), is_gone(site.function);
    for (const std::string& module : original.modules) is_gone(module);
    for (const External& external : original.externals) is_gone(external.name);
    for (const FinalState& state : original.final_states) is_gone(state.name);
    for (const Output& output : original.outputs) is_gone(output.name);
    is_gone(original.metadata.command);
    EXPECT_TRUE(is_stripped(made.trace));
    EXPECT_FALSE(is_stripped(original));
  }
}

TEST_F(Strip, LeavesNoDataOfTheOriginal) {
  const Trace original = telling_trace();
  const Bytes data = marker();
  ASSERT_TRUE(contains(written(original), std::span(data).subspan(800, 8)));
  const std::vector<Bytes> after = written(stripped(original).trace);
  for (std::size_t at = 0; at + 8 <= data.size(); at += 4)
    ASSERT_FALSE(contains(after, std::span(data).subspan(at, 8))) << at;
  for (const Blob& blob : original.blobs)
    EXPECT_FALSE(contains(after, std::as_bytes(std::span(blob.hash.bytes)))) << "a hash lets content be guessed";
}

TEST_F(Strip, KeepsWhatReplays) {
  const Trace original = telling_trace();
  const Trace copy = stripped(original).trace;
  ASSERT_EQ(copy.ops.size(), original.ops.size());
  EXPECT_EQ(op_text(Compounds(copy), copy.ops[0]).substr(0, 30),
            op_text(Compounds(original), original.ops[0]).substr(0, 30));
  EXPECT_EQ(copy.tensors, original.tensors);
  EXPECT_EQ(copy.storages[0].size_bytes, 1600u);
  EXPECT_EQ(copy.sites[0].line, 31u);
  EXPECT_THAT(copy.sites[0].file, MatchesRegex("n[0-9a-f]{10}\\.py"));
  EXPECT_THAT(copy.modules[0], MatchesRegex("n[0-9a-f]{10}\\.0\\.n[0-9a-f]{10}"));
  EXPECT_THAT(copy.final_states[0].name, MatchesRegex("exp_avg of n[0-9a-f]{10}\\.0\\.n[0-9a-f]{10}"));
  EXPECT_EQ(copy.final_states[0].name.substr(11), copy.externals[0].name) << "one name, one hash";
  EXPECT_EQ(copy.storages[1].device, copy.ops[1].args[0].list[1].text);
  EXPECT_EQ(copy.metadata.framework, "torch 2.11.0, built for the CPU");
  EXPECT_EQ(copy.metadata.command, "");
  EXPECT_TRUE(copy.generators.empty());
  EXPECT_TRUE(copy.op_hashes.empty());
  EXPECT_TRUE(std::isnan(copy.iterations[0].losses[0].value));
  EXPECT_NE(stripped(original, 8).trace.modules[0], copy.modules[0]) << "hashes without a key can be guessed";
  EXPECT_EQ(stripped(copy, 9).trace.not_recorded.size(), copy.not_recorded.size()) << "the mark is there once";
}

TEST_F(Strip, KeepsPythonNumbersAndWhatStaysTheSame) {
  auto store = std::make_shared<MemoryBlobStore>();
  Trace trace = samples::scalar_trace({0.5, 0.25});
  trace.storages.push_back({8, "cpu"});
  trace.tensors.push_back({2, DType::kF64, false, true, 0, {}, {}});
  trace.ops[0].args[0].tensor = 2;
  const double rate = 0.0123;
  const BlobId number =
      store->add(Bytes(reinterpret_cast<const std::byte*>(&rate), reinterpret_cast<const std::byte*>(&rate) + 8));
  const BlobId data = store->add(marker());
  trace.externals = {
      {2, 0, 0, Role::kUnknown, "", number}, {0, 0, 0, Role::kBuffer, "b", data}, {1, 1, 1, Role::kInput, "", data}};
  trace.final_states = {{0, Role::kBuffer, "b", data}};
  trace.blobs = store->blobs();
  trace.blob_store = store;
  const Stripped made = stripped(trace);
  EXPECT_EQ(made.numbers, 1u);
  EXPECT_EQ(*made.trace.blob_store->load(made.trace.externals[0].blob), *store->load(number));
  EXPECT_EQ(made.trace.externals[1].blob, made.trace.externals[2].blob) << "equal bytes stay equal";
  EXPECT_EQ(made.trace.externals[1].blob, made.trace.final_states[0].blob) << "a state that nothing changed stays that";
  EXPECT_EQ(made.trace.ops[1].args[1].real, 0.25);
}

}  // namespace
}  // namespace crucible::trace
