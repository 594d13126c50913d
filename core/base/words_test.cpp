// Words of others lose what a terminal, a page or a line would obey, and nothing else.
#include "core/base/words.hpp"

#include <gtest/gtest.h>

#include <array>
#include <random>

namespace crucible {
namespace {

// One of each kind that a terminal obeys, as UTF-8.
constexpr std::array<std::string_view, 13> kCommands = {"\033[2J", "\r",        "\b",     "\a",     "\x7f",
                                                        "\u0085",  "\u009b31m", "\u061c", "\u200e", "\u2028",
                                                        "\u202e",  "\u2066",    "\u2069"};

TEST(Words, CommandsAreShownAndNothingElseIsChanged) {
  EXPECT_EQ(printable("blocks.0.größe"), "blocks.0.größe");
  EXPECT_EQ(printable("a\033[31mb"), "\"a\\x1b[31mb\"");
  EXPECT_EQ(printable("a\nb"), "\"a\\nb\"");
  EXPECT_EQ(without_commands("größe\tof\n\033[2Jall\r\u009b\u202e\x7f"),
            "größe\tof\n\\x1b[2Jall\\x0d\\xc2\\x9b\\xe2\\x80\\xae\\x7f");
  for (const std::string_view command : kCommands) {
    const std::string text = "a" + std::string(command) + "b";
    for (const std::string& clean : {printable(text), without_commands(text)})
      for (const std::string_view other : kCommands)
        EXPECT_EQ(clean.find(other.substr(0, other.size() > 3 ? 1 : other.size())), std::string::npos) << clean;
  }
}

TEST(Words, JsonStaysTheSameDocument) {
  EXPECT_EQ(json_without_commands("{\n  \"größe\": \"a\x7f\u009b\u202e\u061c\"\n}"),
            "{\n  \"größe\": \"a\\u007f\\u009b\\u202e\\u061c\"\n}");
}

TEST(Words, MarkupIsText) {
  EXPECT_EQ(escape_markup("<a href='x' title=\"y\"> & ü\n"),
            "&lt;a href=&#39;x&#39; title=&quot;y&quot;&gt; &amp; ü\n");
  EXPECT_EQ(escape_markup("a\x01\u202e\xff\xc2"), "a\ufffd\ufffd\ufffd\ufffd");
  EXPECT_EQ(escape_markup("\xed\xa0\x80\xef\xbf\xbe"), "\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd")
      << "half a pair, and no character";
}

// Whatever the bytes are: no control character but newline and tab is left, and what is clean already stays as it is.
TEST(Words, RandomBytes) {
  std::mt19937 random(1);
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (unsigned i = random() % 24; i > 0; --i)
      text += static_cast<char>(random() % 3 == 0 ? random() % 256 : "\xe2\x80\xae\xc2\x9b<&\033"[random() % 8]);
    const std::string clean = without_commands(text);
    for (const char letter : clean)
      EXPECT_TRUE(static_cast<unsigned char>(letter) >= 0x20 || letter == '\n' || letter == '\t');
    EXPECT_EQ(clean.find("\u009b"), std::string::npos);
    EXPECT_EQ(clean.find("\u202e"), std::string::npos);
    EXPECT_EQ(without_commands(clean), clean);
    const std::string page = escape_markup(text);
    EXPECT_EQ(page.find('<'), std::string::npos);
    EXPECT_EQ(page.find("\u202e"), std::string::npos);
    EXPECT_EQ(page.find('\033'), std::string::npos);
  }
}

}  // namespace
}  // namespace crucible
