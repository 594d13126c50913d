// Reading ELF files: a real plugin, and damaged ones, which must never be followed out of the file.
#include "plugins/conformance/elf_facts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <fstream>
#include <iterator>

namespace crucible::conformance {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(ElfFacts, OfTheCpuPlugin) {
  const auto facts = read_elf(CRUCIBLE_CPU_PLUGIN);
  ASSERT_TRUE(static_cast<bool>(facts)) << facts.error().message;
  EXPECT_THAT(facts->exported, ElementsAre("crucible_plugin_query"));
  EXPECT_THAT(facts->needed, Contains("libc.so.6"));
  EXPECT_GT(facts->undefined.size(), 20u);
  const auto of_libc =
      std::ranges::find(facts->undefined, "dlsym", &UndefinedSymbol::name);  // no sanitizer stands in for it
  ASSERT_NE(of_libc, facts->undefined.end());
  EXPECT_EQ(of_libc->library, "libc.so.6");
  EXPECT_FALSE(facts->executable_stack);
}

TEST(ElfFacts, RefusesWhatIsNoSharedObject) {
  EXPECT_THAT(read_elf("/etc/passwd").error().message, HasSubstr("no ELF file"));
  EXPECT_THAT(read_elf("/no/such/file").error().message, HasSubstr("cannot be read"));
}

TEST(ElfFacts, SurvivesDamage) {
  const std::string good = bytes_of(CRUCIBLE_CPU_PLUGIN);
  ASSERT_GT(good.size(), 10'000u);
  std::string name = "/tmp/crucible-elf-test-XXXXXX";
  const int descriptor = mkstemp(name.data());
  ASSERT_GE(descriptor, 0);
  const auto write_file = [&](const std::string& bytes) {
    std::ofstream(name, std::ios::binary | std::ios::trunc) << bytes;
  };
  std::uint64_t state = 1;
  int read = 0;
  for (int i = 0; i < 150; ++i) {
    std::string bytes = good;
    for (int k = 0; k < 20; ++k) {  // in the headers and the dynamic tables, where offsets are
      state = state * 6364136223846793005ull + 1442695040888963407ull;
      bytes[(state >> 33) % (i % 2 == 0 ? 4096 : 20'000) % bytes.size()] = static_cast<char>(state >> 50);
    }
    bytes.replace(0, 6, good, 0, 6);
    write_file(bytes);
    read += read_elf(name).has_value();
  }
  for (std::size_t keep = 0; keep < 5000; keep += 97) {
    write_file(good.substr(0, keep));
    read += read_elf(name).has_value();
  }
  EXPECT_GT(read, 0);  // some damage does not matter; none crashed
  std::filesystem::remove(name);
}

}  // namespace
}  // namespace crucible::conformance
