// The layout of every struct of the plugin ABI, as each minor version from CRUCIBLE_ABI_OLDEST_MINOR on was released: a
// plugin that was built yesterday must fit the host of today. golden/MAJOR.MINOR.tsv is never edited once that version
// is released; a new minor gets a new file. A struct may be larger than in an older file, its fields may not move.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <map>
#include <string>

#include "plugins/abi/crucible_plugin.h"

extern "C" std::uint64_t crucible_abi_row_in_c(int index);

namespace {

struct Row {
  std::string name;
  std::size_t here;  // a struct's size or a field's offset
};

const Row kRows[] = {
#define CRUCIBLE_STRUCT(type) {#type, sizeof(type)},
#define CRUCIBLE_FIELD(type, field) {#type "." #field, offsetof(type, field)},
#include "plugins/abi/layout_rows.inc"
#undef CRUCIBLE_STRUCT
#undef CRUCIBLE_FIELD
};

bool is_struct(const std::string& name) { return name.find('.') == std::string::npos; }

std::map<std::string, std::size_t> here() {
  std::map<std::string, std::size_t> rows;
  for (const Row& row : kRows) rows[row.name] = row.here;
  return rows;
}

std::map<std::string, std::size_t> golden(const std::string& version) {
  std::ifstream file(CRUCIBLE_GOLDEN_FOLDER "/" + version + ".tsv");
  std::map<std::string, std::size_t> rows;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    rows[line.substr(0, line.find('\t'))] = std::stoull(line.substr(line.find('\t')));
  }
  return rows;
}

class AbiLayout : public testing::TestWithParam<std::string> {};

TEST_P(AbiLayout, FieldsDoNotMove) {
  static_assert(sizeof(void*) == 8, "the golden numbers are those of 64-bit machines");
  const auto now = here(), then = golden(GetParam());
  ASSERT_GT(then.size(), 90u);
  for (const auto& [name, number] : then) {
    ASSERT_TRUE(now.contains(name)) << name << " was in ABI " << GetParam() << " and is gone";
    if (is_struct(name)) {
      EXPECT_GE(now.at(name), number) << name << " became smaller than in ABI " << GetParam();
    } else {
      EXPECT_EQ(now.at(name), number) << name << " moved since ABI " << GetParam();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EachMinor, AbiLayout, testing::Values("0.4", "0.5", "0.6", "0.7"),
                         [](const auto& each) { return "v" + each.param.substr(0, 1) + "_" + each.param.substr(2); });

TEST(AbiLayoutOfToday, IsTheNewestGoldenOne) {
  const std::string version = std::to_string(CRUCIBLE_ABI_MAJOR) + "." + std::to_string(CRUCIBLE_ABI_MINOR);
  EXPECT_EQ(here(), golden(version)) << "ABI " << version << " differs from golden/" << version << ".tsv";
}

TEST(AbiLayoutOfToday, IsTheSameInC) {
  for (int i = 0; i < static_cast<int>(std::size(kRows)); ++i)
    EXPECT_EQ(crucible_abi_row_in_c(i), kRows[i].here) << kRows[i].name;
}

TEST(AbiLayoutOfToday, HasItsNumbers) {
  EXPECT_EQ(CRUCIBLE_ABI_MAJOR, 0u);
  EXPECT_EQ(CRUCIBLE_MAGIC, 0x31435243u);
  EXPECT_EQ(CRUCIBLE_IF_DEVICE, 1u);
  EXPECT_EQ(CRUCIBLE_IF_MEMORY, 2u);
  EXPECT_EQ(CRUCIBLE_IF_QUEUE, 3u);
  EXPECT_EQ(CRUCIBLE_IF_COMPILE, 4u);
  EXPECT_EQ(CRUCIBLE_IF_PLAN, 5u);
  EXPECT_EQ(CRUCIBLE_IF_LIBRARY, 6u);
  EXPECT_EQ(CRUCIBLE_OP_LAUNCH, 1u);
  EXPECT_EQ(CRUCIBLE_OP_LIBRARY, 4u);
  EXPECT_EQ(CRUCIBLE_LIB_CONV2D_BACKWARD_WEIGHT, 3u);
  EXPECT_EQ(CRUCIBLE_LIB_ATTENTION_FORWARD, 6u);
  EXPECT_EQ(CRUCIBLE_LIB_ATTENTION_BACKWARD, 7u);
  EXPECT_EQ(CRUCIBLE_E_INTERNAL, 12);
}

}  // namespace
