// Absolute paths are found in texts and shortened, whatever is around them.
#include "core/trace/path_shortener.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace crucible::trace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(AbsolutePaths, AreFoundInAnyText) {
  EXPECT_THAT(absolute_paths("python /home/ann/a.py --data=/data/x:/data/y '/tmp/z'"),
              ElementsAre("/home/ann/a.py", "/data/x", "/data/y", "/tmp/z"));
  EXPECT_THAT(absolute_paths("https://host/a 3/4 a/b ./c ../d ~/e / //"), IsEmpty());
  EXPECT_THAT(absolute_paths("file:///etc/hosts //etc/passwd"), ElementsAre("/etc/hosts", "/etc/passwd"));
}

class Shortener : public ::testing::Test {
 protected:
  const PathShortener paths_{{"/home/ann/project", "/home/ann/project/.venv/lib/site-packages/", "/usr/lib/python3.11"},
                             {"/opt/scripts"},
                             "ann"};
};

TEST_F(Shortener, MakesPathsRelativeToWhatIsKnown) {
  EXPECT_EQ(paths_.path("/home/ann/project/src/train.py"), "src/train.py");
  EXPECT_EQ(paths_.path("/home/ann/project/.venv/lib/site-packages/timm/layers.py"), "timm/layers.py");
  EXPECT_EQ(paths_.path("/usr/lib/python3.11/json/decoder.py"), "json/decoder.py");
  EXPECT_EQ(paths_.path("/opt/scripts/run.py"), "run.py");
  EXPECT_EQ(paths_.path("/home/ann/other/secret/a.py"), "a.py");
  EXPECT_EQ(paths_.path("/home/ann"), "~");
  EXPECT_EQ(paths_.path("/home/ann/"), "~");
  EXPECT_EQ(paths_.path("/home/ann/project"), ".");
  EXPECT_EQ(paths_.path("../ann/a.py"), "a.py");
  EXPECT_EQ(paths_.path("/home/ann/project/ann/a.py"), "a.py");
  EXPECT_EQ(paths_.path("src/train.py"), "src/train.py");
  EXPECT_EQ(paths_.path("<string>"), "<string>");
}

TEST_F(Shortener, LeavesNoAbsolutePathInATextAndAllElse) {
  EXPECT_EQ(paths_.text("python /home/ann/project/train.py --data=/data/ann/x.bin --lr 1/3 https://a.b/c"),
            "python train.py --data=x.bin --lr 1/3 https://a.b/c");
  EXPECT_EQ(paths_.text("[Errno 2] No such file: '/home/ann/my data/x'"), "[Errno 2] No such file: 'my data/x'");
  EXPECT_EQ(paths_.text("HOME=/home/ann PATH=/usr/bin:/bin"), "HOME=~ PATH=bin:bin");
  EXPECT_EQ(paths_.text(""), "");
  const PathShortener blank({"/home/ann lee/my project"}, {}, "ann lee");
  EXPECT_EQ(blank.text("open('/home/ann lee/my project/a b.txt')"), "open('a b.txt')");
  for (const char* text : {"//home/ann/x", "file:///home/ann/x", "a=/home/ann/x;/b"})
    EXPECT_THAT(absolute_paths(paths_.text(text)), IsEmpty()) << text;
}

}  // namespace
}  // namespace crucible::trace
