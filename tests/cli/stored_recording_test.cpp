// Recordings in a store as a user meets them: put in, shown without a file, taken out again bit by bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/trace/trace_file.hpp"
#include "core/trace/trace_samples.hpp"
#include "frontends/aten/testing/trace_builder.hpp"
#include "store/store.hpp"
#include "tests/cli/run_command.hpp"

namespace crucible {
namespace {

using aten::TraceBuilder;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// loss = sum(x x w) for `factor` times the same x; all recordings have one w.
trace::Trace recording(float factor) {
  TraceBuilder b;
  const auto t = [](trace::TensorId id) { return TraceBuilder::tensor(id); };
  const trace::TensorId x = b.fresh({64, 64}), w = b.fresh({64, 64}), square = b.fresh({64, 64}),
                        product = b.fresh({64, 64}), sum = b.fresh({});
  b.external(b.storage_of(x), std::vector<float>(4096, factor), trace::Role::kInput, "x");
  b.external(b.storage_of(w), std::vector<float>(4096, 0.25f), trace::Role::kParameter, "w");
  b.op(aten::kMul, {t(x), t(x)}, {t(square)});
  b.op(aten::kMul, {t(square), t(w)}, {t(product)});
  b.op(aten::kSum, {t(product), TraceBuilder::none()}, {t(sum)});
  b.loss(sum, 4096.0 * factor * factor * 0.25);
  b.end_iteration();
  return b.trace();
}

std::string content_of(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

class StoredRecording : public ::testing::Test {
 protected:
  StoredRecording() {
    EXPECT_TRUE(trace::write_file(recording(1), folder_ / "one.crtrace"));
    EXPECT_TRUE(trace::write_file(recording(2), folder_ / "two.crtrace"));
  }
  CommandOutcome run(const std::string& arguments) {
    return run_line("cd " + folder_.path().string() + " && env -i PATH=/usr/bin:/bin HOME=" + folder_.path().string() +
                    " CRUCIBLE_STORE_DIR=" + (folder_ / "store").string() + " " + CRUCIBLE_COMMAND + " " + arguments);
  }
  json document(const std::string& arguments) {
    const CommandOutcome outcome = run(arguments + " --json");
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return json::parse(outcome.out, nullptr, false);
  }

  trace::samples::Folder folder_;
};

TEST_F(StoredRecording, ComesOutAsItWentInAndSharesWhatIsTheSame) {
  const json one = document("store add one.crtrace"), two = document("store add two.crtrace");
  EXPECT_EQ(one["file"], "one.crtrace");
  EXPECT_GE(one["blobs"], 2);
  EXPECT_GE(one["new_bytes"], one["blob_bytes"]);
  EXPECT_LE(two["new_bytes"].get<std::uint64_t>(), one["new_bytes"].get<std::uint64_t>() - 16384) << "w is there twice";
  EXPECT_NE(one["key"], two["key"]);
  std::filesystem::rename(folder_ / "one.crtrace", folder_ / "moved.crtrace");
  for (const char* name : {"key", "content"}) {
    const CommandOutcome taken = run("store take " + one[name].get<std::string>().substr(0, 10) + " -o again.crtrace");
    EXPECT_EQ(taken.code, 0) << taken.err;
    EXPECT_THAT(taken.out, HasSubstr("took out one.crtrace as "));
    EXPECT_EQ(content_of(folder_ / "again.crtrace"), content_of(folder_ / "moved.crtrace"));
    std::filesystem::remove(folder_ / "again.crtrace");
  }
  EXPECT_EQ(document("store add two.crtrace")["new_bytes"], 0);
  EXPECT_THAT(run("store list --kind recording").out, HasSubstr("2 entries\n"));
}

TEST_F(StoredRecording, RegionsAreShownWithoutAFile) {
  const json regions = document("graph one.crtrace --regions --format json")["regions"];
  const std::string digits = regions.back()["content"].get<std::string>().substr(0, 12);
  const CommandOutcome before = run("show " + digits);
  EXPECT_EQ(before.code, 3) << before.out << before.err;
  EXPECT_THAT(before.err, HasSubstr("there is no store in "));
  (void)document("store add one.crtrace");
  const CommandOutcome shown = run("show " + digits), of_file = run("show " + digits + " one.crtrace");
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_EQ(shown.out, of_file.out);
  EXPECT_THAT(shown.err, HasSubstr("of one.crtrace, which the store has"));
  const CommandOutcome other = run("show 0000000000");
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err, AllOf(HasSubstr("has a region 0000000000"), HasSubstr("crucible store add")));
}

TEST_F(StoredRecording, WhatIsGoneOrUnknownIsSaid) {
  const std::string key = document("store add one.crtrace")["key"].get<std::string>();
  (void)document("store add two.crtrace");
  EXPECT_THAT(run("store take ffff -o x.crtrace").err, HasSubstr("no recording in the store begins with ffff"));
  EXPECT_THAT(run("store take '' -o x.crtrace").err, HasSubstr("2 recordings in the store begin with"));
  EXPECT_THAT(run("store take " + key + " -o no/such/folder.crtrace").err, HasSubstr("no/such"));
  for (const auto& blob : std::filesystem::recursive_directory_iterator(folder_ / "store" / "cas"))
    if (blob.is_regular_file()) std::filesystem::resize_file(blob.path(), blob.file_size() / 2);
  const CommandOutcome damaged = run("store take " + key + " -o x.crtrace");
  EXPECT_EQ(damaged.code, 3) << damaged.out;
  EXPECT_THAT(damaged.err, HasSubstr("crucible store add"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "x.crtrace"));
  EXPECT_EQ(run("store add one.crtrace").code, 0);
  EXPECT_EQ(run("store take " + key + " -o x.crtrace").code, 0);
  EXPECT_EQ(content_of(folder_ / "x.crtrace"), content_of(folder_ / "one.crtrace"));
}

/// An entry of one recording with another one inside, each part of it sound.
TEST_F(StoredRecording, WhatIsAnotherRecordingThanItsEntrySaysIsNotUsed) {
  const json one = document("store add one.crtrace");
  (void)document("store add two.crtrace");
  store::StoreOptions options;
  options.folder = folder_ / "store";
  auto opened = store::Store::open(std::move(options));
  ASSERT_TRUE(opened) << opened.error().message;
  std::vector<store::ActionKey> keys;
  ASSERT_TRUE((*opened)->list("recording", 0, [&](const store::EntryRow& row) {
    keys.push_back(row.fields);
    return true;
  }));
  ASSERT_EQ(keys.size(), 2u);
  if (keys[0].region.hex() != one["content"]) std::swap(keys[0], keys[1]);
  const auto other = (*opened)->get(keys[1]);
  ASSERT_TRUE(other);
  std::vector<std::string> contents;
  for (const store::Output& output : other->outputs) contents.push_back((*opened)->read(output).value_or(""));
  std::vector<store::NewOutput> outputs;
  for (std::size_t i = 0; i < contents.size(); ++i) outputs.push_back({other->outputs[i].name, contents[i]});
  ASSERT_TRUE((*opened)->put(keys[0], outputs, "a test"));
  const CommandOutcome taken = run("store take " + one["key"].get<std::string>() + " -o x.crtrace");
  EXPECT_EQ(taken.code, 3) << taken.out;
  EXPECT_THAT(taken.err, HasSubstr("another recording than its entry says"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "x.crtrace"));
}

}  // namespace
}  // namespace crucible
