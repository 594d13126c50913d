// Words become a line and words again, and a line that a user typed is read as a shell reads it.
#include "frontends/cli/command_words.hpp"

#include <gtest/gtest.h>

namespace crucible::cli {
namespace {

using Words = std::vector<std::string>;

TEST(CommandWords, LinesAreReadAsAShellReadsThem) {
  EXPECT_EQ(*words_of("python train.py --epochs 1"), (Words{"python", "train.py", "--epochs", "1"}));
  EXPECT_EQ(*words_of("  python\t-c 'print(\"a b\")'  "), (Words{"python", "-c", "print(\"a b\")"}));
  EXPECT_EQ(*words_of(R"(a\ b "c \"d\" $e" '' f"g"h "\n" \)"), (Words{"a b", "c \"d\" $e", "", "fgh", "\\n", "\\"}));
  EXPECT_EQ(*words_of(""), Words{});
}

TEST(CommandWords, PlainWordsStandAsTheyAre) {
  EXPECT_EQ(line_of({"/usr/bin/python3.11", "train.py", "--lr=1e-3"}), "/usr/bin/python3.11 train.py --lr=1e-3");
}

TEST(CommandWords, EveryWordComesBack) {
  for (const Words& words :
       {Words{"a", "b c", "", "it's", "\"", "\\", "$HOME *", "new\nline", "\xc3\xa4"}, Words{""}, Words{"'"}}) {
    const auto again = words_of(line_of(words));
    ASSERT_TRUE(again) << line_of(words);
    EXPECT_EQ(*again, words) << line_of(words);
  }
}

TEST(CommandWords, AnOpenQuoteIsRefused) {
  for (const char* const line : {"python 'a", "python \"a\\\"", "\""}) {
    const auto words = words_of(line);
    ASSERT_FALSE(words) << line;
    EXPECT_EQ(words.error().code, ErrorCode::kUsage);
    EXPECT_NE(words.error().message.find("is not closed"), std::string::npos);
  }
}

}  // namespace
}  // namespace crucible::cli
