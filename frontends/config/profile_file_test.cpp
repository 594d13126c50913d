// Device profiles as files: the shipped ones, every mistake with its words, and bytes of any kind.
#include "frontends/config/profile_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "core/trace/trace_samples.hpp"
#include "hwprofiles/embedded.hpp"

namespace crucible::config {
namespace {

using hardware::DeviceProfile;
using hardware::Figure;
using hardware::Provenance;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kGood = R"(name = "toy"
source = "made up"
[memory]
size = { value = "1.5 GiB", provenance = "datasheet" }
[level.dram]
bandwidth = { value = "5 GB/s", provenance = "calibrated", spread = "12.5 %" }
[peak.vector]
f32 = { value = "2 TFLOP/s", provenance = "guessed", note = "why not" }
[cost]
launch = { value = "250 ns", provenance = "guessed", note = "so" }
[units]
count = { value = 7, provenance = "datasheet" }
)";

std::string replaced(const std::string& from, const std::string& to) {
  std::string text = kGood;
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string error_of(const std::string& text) {
  const Result<DeviceProfile> profile = read_profile(text, "toy.toml");
  EXPECT_FALSE(profile) << text;
  if (profile) return "";
  EXPECT_EQ(profile.error().code, ErrorCode::kBadInput);
  return profile.error().message;
}

TEST(ProfileFile, IsReadWithUnits) {
  const Result<DeviceProfile> profile = read_profile(kGood, "toy.toml");
  ASSERT_TRUE(profile) << profile.error().message;
  EXPECT_EQ(profile->name, "toy");
  EXPECT_EQ(profile->memory_bytes(), std::uint64_t{3} << 29);
  EXPECT_EQ(profile->memory_bytes_per_second(), 5'000'000'000u);
  EXPECT_EQ(profile->f32_flops_per_second(), 2'000'000'000'000u);
  EXPECT_DOUBLE_EQ(profile->value("cost.launch"), 250e-9);
  EXPECT_EQ(profile->value("units.count"), 7);
  EXPECT_EQ(profile->find("peak.vector.f32")->provenance, Provenance::kGuessed);
  EXPECT_DOUBLE_EQ(profile->find("level.dram.bandwidth")->spread, 0.125);
  EXPECT_EQ(profile->find("level.l1.size"), nullptr);
}

TEST(ProfileFile, EveryMistakeIsNamedWithItsPlace) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {replaced("size = {", "siz = {"), "toy.toml:4:9: unknown key 'memory.siz'; did you mean 'memory.size'?"},
      {replaced("source", "sorce"), "toy.toml:2:1: unknown key 'sorce'; did you mean 'source'?"},
      {replaced("[level.dram]", "[level.drum]"),
       "unknown key 'level.drum.bandwidth'; did you mean 'level.dram.bandwidth'?"},
      {replaced("value = \"1.5 GiB\"", "valeu = \"1.5 GiB\""),
       "toy.toml:4:10: unknown key 'valeu' of memory.size; did you mean 'value'?"},
      {replaced("1.5 GiB", "1.5 GB/s"), "toy.toml:4:10: memory.size is '1.5 GB/s', a bandwidth: a size (B, KiB"},
      {replaced("1.5 GiB", "1.5 gib"), "toy.toml:4:10: memory.size is '1.5 gib': a size"},
      {replaced("1.5 GiB", "much"), "memory.size is 'much': a size"},
      {replaced("1.5 GiB", "-1 GiB"), "memory.size is '-1 GiB', out of range"},
      {replaced("1.5 GiB", "nan GiB"), "memory.size is 'nan GiB', out of range"},
      {replaced("1.5 GiB", "1e300 GiB"), "memory.size is '1e300 GiB', out of range"},
      {replaced("\"5 GB/s\"", "5"),
       "toy.toml:6:15: level.dram.bandwidth is an integer without a unit: a bandwidth (MB/s, GB/s, TB/s) is wanted"},
      {replaced("250 ns", "250 MHz"), "cost.launch is '250 MHz', a frequency: a time (ns, us, ms, s) is wanted"},
      {replaced("value = 7", "value = \"7\""),
       "toy.toml:12:11: units.count is a text: a whole number without unit is wanted"},
      {replaced("value = 7", "value = 0"), "units.count is 0"},
      {replaced("\"datasheet\"", "\"datashet\""),
       "toy.toml:4:29: provenance of memory.size is 'datashet'; did you mean 'datasheet'?"},
      {replaced(", provenance = \"datasheet\"", ""),
       "toy.toml:4:10: memory.size has no provenance: datasheet, calibrated or guessed"},
      {replaced("value = \"1.5 GiB\", ", ""), "memory.size has no value"},
      {replaced(", note = \"so\"", ""), "cost.launch is guessed and has no note: say why"},
      {replaced("12.5 %", "much"), "spread of level.dram.bandwidth is 'much'"},
      {replaced("size = { value = \"1.5 GiB\", provenance = \"datasheet\" }", "size = \"1.5 GiB\""),
       "toy.toml:4:1: 'memory.size' is a text: a table is wanted, { value = ..., provenance = \"...\" }"},
      {replaced("[memory]\nsize = { value = \"1.5 GiB\", provenance = \"datasheet\" }\n", ""),
       "toy.toml:1:1: memory.size is missing"},
      {replaced("name = \"toy\"", "name = \"Toy\""), "name 'Toy': lower case letters"},
      {replaced("name = \"toy\"", "name = 5"), "'name' is an integer: a text is wanted"},
      {replaced("name = \"toy\"\n", ""), "name is missing"},
      {replaced("source = \"made up\"\n", ""), "source is missing"},
      {replaced("source", "devices = 5\nsource"), "'devices' is an integer: a list of texts is wanted"},
      {replaced("source", "threads = 0\nsource"), "'threads' must be an integer from 1 to 1000000"},
      {replaced("[memory]", "[memory"), "toy.toml:3:"},
      {"", "toy.toml:1:1: name is missing"},
  };
  for (const auto& [text, words] : cases) EXPECT_THAT(error_of(text), HasSubstr(words)) << text;
  EXPECT_THAT(error_of(replaced("250 ns", "x") + "[sub_group]\nsmalest = 1\n"),
              AllOf(HasSubstr("2 problems in the device profile toy.toml:\n  "), HasSubstr("\n  toy.toml:")));
}

TEST(ProfileFile, IsWrittenAsItIsRead) {
  Result<DeviceProfile> profile = read_profile(kGood, "toy.toml");
  ASSERT_TRUE(profile);
  profile->description = "with \"quotes\", a \\ and\na new line";
  profile->devices = {"Card (R)", "other"};
  profile->threads = 4;
  profile->date = "2026-01-31";
  profile->backend = "cpu";
  profile->driver = "0.1";
  const std::string text = write_profile(*profile);
  const Result<DeviceProfile> again = read_profile(text, "again.toml");
  ASSERT_TRUE(again) << again.error().message << text;
  EXPECT_EQ(again->description, profile->description);
  EXPECT_EQ(again->devices, profile->devices);
  EXPECT_EQ(again->threads, 4u);
  EXPECT_EQ(again->figures.size(), profile->figures.size());
  for (const auto& [key, figure] : profile->figures) {
    ASSERT_NE(again->find(key), nullptr) << key;
    EXPECT_NEAR(again->value(key) / figure.value, 1, 1e-5) << key;
    EXPECT_EQ(again->find(key)->provenance, figure.provenance);
    EXPECT_EQ(again->find(key)->note, figure.note);
  }
  EXPECT_EQ(write_profile(*again), text);
}

TEST(ProfileFile, EveryShippedOneIsWhole) {
  const Result<std::vector<DeviceProfile>> profiles = shipped_profiles();
  ASSERT_TRUE(profiles) << profiles.error().message;
  EXPECT_GE(profiles->size(), 30u);
  for (std::size_t i = 0; i < profiles->size(); ++i) {
    const DeviceProfile& profile = (*profiles)[i];
    if (i > 0) {
      EXPECT_LT((*profiles)[i - 1].name, profile.name);  // no name twice
    }
    EXPECT_FALSE(profile.description.empty()) << profile.name;
    EXPECT_FALSE(profile.is_calibrated()) << profile.name;
    EXPECT_GE(profile.memory_bytes(), std::uint64_t{4} << 30) << profile.name;
    EXPECT_LT(profile.usable_bytes(), profile.memory_bytes()) << profile.name;
    // Units slip by a thousand, not by less.
    EXPECT_GT(profile.memory_bytes_per_second(), 50'000'000'000u) << profile.name;
    EXPECT_LT(profile.memory_bytes_per_second(), 10'000'000'000'000u) << profile.name;
    EXPECT_GT(profile.f32_flops_per_second(), 1'000'000'000'000u) << profile.name;
    EXPECT_LT(profile.f32_flops_per_second(), 300'000'000'000'000u) << profile.name;
    EXPECT_LE(profile.host_link_bytes_per_second(), profile.memory_bytes_per_second()) << profile.name;
    EXPECT_GT(profile.value("cost.launch"), 1e-8) << profile.name;
    EXPECT_LT(profile.value("cost.launch"), 1e-4) << profile.name;
    for (const auto& [key, figure] : profile.figures) {
      EXPECT_NE(figure.provenance, Provenance::kCalibrated) << profile.name << " " << key;
    }
  }
  for (const char* name : {"a10",
                           "a100-40g",
                           "a100-80g",
                           "arc-a770",
                           "h100-80g",
                           "h200",
                           "jetson-agx-orin-64g",
                           "jetson-orin-nano-8g",
                           "l4",
                           "l40s",
                           "max-1550",
                           "mi210",
                           "mi250",
                           "mi300x",
                           "rtx-3060",
                           "rtx-3090",
                           "rtx-4090",
                           "rtx-5090",
                           "rx-7900-xtx",
                           "t4",
                           "v100-32g"}) {
    EXPECT_NE(hardware::find_profile(*profiles, name), nullptr) << name << " was there before there were files";
  }
  for (const hwprofiles::File& file : hwprofiles::files()) {
    const Result<DeviceProfile> profile = read_profile(std::string(file.text), std::string(file.name));
    ASSERT_TRUE(profile) << profile.error().message;
    EXPECT_EQ(profile->name + ".toml", file.name);
  }
}

TEST(ProfileFile, AFolderHasOneProfileOfAName) {
  const trace::samples::Folder folder;
  const auto write = [&](const char* name, const std::string& text) { std::ofstream(folder / name) << text; };
  EXPECT_TRUE(read_profile_folder(folder / "none")->empty());
  write("a.toml", kGood);
  write("notes.txt", "not a profile");
  EXPECT_EQ(read_profile_folder(folder.path())->size(), 1u);
  write("b.toml", kGood);
  EXPECT_THAT(read_profile_folder(folder.path()).error().message,
              AllOf(HasSubstr("b.toml"), HasSubstr("also has the profile 'toy'")));
  write("b.toml", "name = \n");
  EXPECT_THAT(read_profile_folder(folder.path()).error().message, HasSubstr("b.toml:1:"));
  EXPECT_THAT(read_profile_file(folder / "c.toml").error().message, HasSubstr("cannot read the device profile"));
}

/// Whatever the bytes: a profile or an error, never a crash.
TEST(ProfileFile, SurvivesAnyBytes) {
  std::mt19937 random(11);
  const std::span<const hwprofiles::File> files = hwprofiles::files();
  for (std::size_t cut = 0; cut <= std::string_view(kGood).size(); ++cut)
    (void)read_profile(std::string(kGood).substr(0, cut), "cut.toml");
  for (int round = 0; round < 3000; ++round) {
    std::string text(files[random() % files.size()].text);
    const std::size_t edits = 1 + random() % 8;
    for (std::size_t i = 0; i < edits; ++i) {
      const std::size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, random() % 20);
          break;
        case 2:
          text.insert(at, text.substr(random() % text.size(), random() % 30));
          break;
        default:
          text[at] = "\"{}[]=.,0\n %"[random() % 12];
      }
      if (text.empty()) text = " ";
    }
    if (const Result<DeviceProfile> profile = read_profile(text, "mutated.toml")) {
      EXPECT_TRUE(hardware::check(*profile).empty());
    } else {
      EXPECT_THAT(profile.error().message, HasSubstr("mutated.toml"));
    }
  }
  for (int round = 0; round < 2000; ++round) {
    std::string text(random() % 300, ' ');
    for (char& c : text) c = static_cast<char>(random());
    EXPECT_FALSE(read_profile(text, "random.toml"));
  }
}

}  // namespace
}  // namespace crucible::config
