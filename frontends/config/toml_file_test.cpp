// Reading TOML: kinds of values, places, damaged files; and the distance behind "did you mean".
#include "frontends/config/toml_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "frontends/config/suggest.hpp"

namespace crucible::config {
namespace {

using ::testing::HasSubstr;

TEST(TomlFile, KindsOfValues) {
  const FileContent content = read_toml(
      "t = \"x\"\nb = true\ni = -7\nl = [\"a\", \"b\"]\nf = 1.5\nd = 2020-01-01\nm = [1, \"a\"]\ne = "
      "[]\n[deep.table]\nk = 1\n",
      Layer::kUser, "f.toml");
  ASSERT_TRUE(content.problems.empty());
  ASSERT_EQ(content.entries.size(), 9u);
  EXPECT_EQ(content.entries[0].value, Value("x"));
  EXPECT_EQ(content.entries[1].value, Value(true));
  EXPECT_EQ(content.entries[2].value, Value(std::int64_t{-7}));
  EXPECT_EQ(content.entries[3].value, Value(List{"a", "b"}));
  EXPECT_EQ(content.entries[4].value, Value(Foreign{"a float"}));
  EXPECT_EQ(content.entries[5].value, Value(Foreign{"a date"}));
  EXPECT_EQ(content.entries[6].value, Value(Foreign{"a list of something else than texts"}));
  EXPECT_EQ(content.entries[7].value, Value(List{}));
  EXPECT_EQ(content.entries[8].key, "deep.table.k");
  EXPECT_EQ(content.entries[8].origin.place(), "f.toml:10:1");
}

TEST(TomlFile, AByteOrderMarkBeforeTheTextIsPassedOver) {
  const FileContent content =
      read_toml("\xef\xbb\xbfnumerics = \"strict\"\r\ndevice = \"cpu:0\"\r\n", Layer::kUser, "f.toml");
  ASSERT_TRUE(content.problems.empty()) << content.problems[0].message;
  ASSERT_EQ(content.entries.size(), 2u);
  EXPECT_EQ(content.entries[0].origin.place(), "f.toml:1:1");
  EXPECT_EQ(content.entries[1].origin.place(), "f.toml:2:1");
  EXPECT_FALSE(read_toml("a = 1\n\xef\xbb\xbf", Layer::kUser, "f.toml").problems.empty());  // only before the text
  for (const std::string mark : {"\xff\xfe", "\xfe\xff"}) {
    const FileContent wide = read_toml(mark + "n\0", Layer::kUser, "f.toml");
    ASSERT_EQ(wide.problems.size(), 1u);
    EXPECT_THAT(wide.problems[0].message, HasSubstr("is UTF-16, as its byte order mark says: save it as UTF-8"));
  }
}

TEST(TomlFile, TheNameOfTheBackendHasTwoSpellings) {
  EXPECT_EQ(read_toml("backend = \"a\"\n", Layer::kUser, "").entries[0].key, "backend");
  const FileContent content = read_toml("[backend]\nname = \"a\"\n[backend.a]\nthreads = 1\n", Layer::kUser, "");
  ASSERT_EQ(content.entries.size(), 2u);
  EXPECT_EQ(content.entries[0].key, "backend");
  EXPECT_EQ(content.entries[1].key, "backend.a.threads");
}

TEST(TomlFile, KeysAndListsThatGoTooDeepAreRefusedBeforeTheyAreRead) {
  const auto problem = [](const std::string& text) {
    const FileContent content = read_toml(text, Layer::kProject, "f.toml");
    return content.problems.empty() ? "" : content.problems[0].origin.place() + ": " + content.problems[0].message;
  };
  const auto repeated = [](const std::string& part, int times) {
    std::string text;
    for (int i = 0; i < times; ++i) text += part;
    return text;
  };
  EXPECT_EQ(problem(repeated("a.", 31) + "a = 1\n"), "");
  EXPECT_THAT(problem("\n" + repeated("a.", 32) + "a = 1\n"), HasSubstr("f.toml:2:64: too deep"));
  for (const std::string& deep :
       {repeated("a.", 400000) + "a = 1\n", "[" + repeated("a.", 400000) + "a]\nb = 1\n",
        "[[" + repeated("'a' . ", 100000) + "a]]\n", "x = " + repeated("[", 400000) + repeated("]", 400000) + "\n",
        "x = " + repeated("{a=", 200000),
        "x = { a = \"\"\"b\"\"\"\", " + repeated("\"a\".", 100000) + "a = 1 }\n",  // four quotes end the text
        "x = { a = '''b''''', " + repeated("a.", 100000) + "a = 1 }\n",
        "# \" \n" + repeated("a.", 100000) + "a = 1\n"}) {
    EXPECT_THAT(problem(deep), HasSubstr("too deep")) << deep.substr(0, 40);
  }
  // What stands in texts and comments is no key and no list.
  EXPECT_EQ(problem("t = \"" + repeated("a.", 1000) + "[[[[\"\nl = [\n" + repeated("'a', # ....[[[\n", 500) + "]\n"),
            "");
}

TEST(TomlFile, ErrorsHaveLineAndColumn) {
  const FileContent content = read_toml("a = 1\nb = [1,\n\nc = 2\n", Layer::kProject, "x.toml");
  ASSERT_EQ(content.problems.size(), 1u);
  EXPECT_TRUE(content.entries.empty());
  EXPECT_GE(content.problems[0].origin.line, 2u);
  EXPECT_GE(content.problems[0].origin.column, 1u);
  EXPECT_THAT(content.problems[0].message, HasSubstr("not TOML: "));
}

/// Whatever the bytes: an answer, with a place for each thing that is said, and never entries beside a syntax error.
void expect_sound(const std::string& text) {
  const FileContent content = read_toml(text, Layer::kProject, "x.toml");
  EXPECT_TRUE(content.problems.empty() || content.entries.empty());
  for (const Entry& entry : content.entries) EXPECT_GE(entry.origin.line, 1u) << text;
  for (const Problem& problem : content.problems) EXPECT_FALSE(problem.message.empty());
}

TEST(TomlFile, DamagedFilesAreAnsweredToo) {
  const std::string good =
      "backend = \"cpu\"\nfallback = 'allow'\n[plugins]\nfolders = [\"/a\", \"b\"]\npins.acme = \"00ff\"\n[[x]]\ny = "
      "{a = 1, b = [2.5, 1979-05-27]}\n\"quoted key\" = \"\"\"many\nlines\"\"\"\n";
  std::mt19937 random(7);
  std::size_t refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = good;
    for (std::uint32_t edits = 1 + random() % 4; edits > 0 && !text.empty(); --edits) {
      const std::size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = static_cast<char>(random() % 256);
          break;
        case 1:
          text.erase(at, 1 + random() % 5);
          break;
        case 2:
          text.insert(at, 1, "[]{}=.\"'\n#,0a"[random() % 13]);
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 20));
          break;
      }
    }
    expect_sound(text);
    refused += read_toml(text, Layer::kProject, "").problems.size();
  }
  EXPECT_GT(refused, 1000u);   // the damage is damage
  EXPECT_LT(refused, 20000u);  // and some of it is harmless
}

TEST(TomlFile, RandomBytesAreAnsweredToo) {
  std::mt19937 random(11);
  for (int round = 0; round < 5000; ++round) {
    std::string text(random() % 80, '\0');
    for (char& c : text) c = static_cast<char>(random() % 3 == 0 ? random() % 256 : 32 + random() % 95);
    expect_sound(text);
  }
  expect_sound(std::string(5000, '['));
}

TEST(TomlFile, CharactersBeyondAsciiBelongIntoQuotesAndComments) {
  const auto problem = [](const std::string& text) {
    const FileContent content = read_toml(text, Layer::kUser, "u.toml");
    return content.problems.empty() ? std::string() : content.problems.front().message;
  };
  const auto is_stray = testing::HasSubstr("not ASCII stands outside");
  EXPECT_EQ(problem("device = \"caf\xc3\xa9\" # \xc3\xa9\nfallback = 'warn'\n"), "");
  EXPECT_EQ(problem("device = \"a\\\"\xc3\xa9\"\n"), "");
  EXPECT_EQ(problem("device = \"\"\"\n\xc3\xa9\n\"\"\"\n"), "");
  EXPECT_THAT(problem("device = \"a\"\n\xc2\xa1 = 1\n"), is_stray);
  EXPECT_THAT(problem("x = 'a' \xc3\xa9\n"), is_stray);
  EXPECT_THAT(problem("x = \"forgotten\n\xc3\xa9\n"), is_stray);
}

TEST(Suggest, DistanceCountsEdits) {
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("abc", "abc"), 0u);
  EXPECT_EQ(edit_distance("thread", "threads"), 1u);
  EXPECT_EQ(edit_distance("tarce", "trace"), 1u);  // neighbours swapped
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
}

TEST(Suggest, OnlyWhatIsCloseIsMeant) {
  const std::vector<std::string> known = {"threads", "compiler", "cache_dir"};
  EXPECT_EQ(closest("thread", known), "threads");
  EXPECT_EQ(closest("cachedir", known), "cache_dir");
  EXPECT_EQ(closest("colour", known), "");
  EXPECT_EQ(closest("x", known), "");
  EXPECT_EQ(closest("", known), "");
  EXPECT_EQ(did_you_mean("compilr", known), "; did you mean 'compiler'?");
}

}  // namespace
}  // namespace crucible::config
