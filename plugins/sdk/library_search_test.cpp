// Finding a library that a plugin can do without: what is tried, what is said when there is none, and that one is
// opened once.
#include "plugins/sdk/library_search.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace crucible::sdk {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const LibrarySearch kSearch = {.title = "libm",
                               .otherwise = "cosines are generated and slower",
                               .choice = "trigonometry",
                               .option = "libm",
                               .advice = "install libc6",
                               .names = {"libnowhere.so.9", "libm.so.6"}};

std::string words_of(const std::string& wanted, const std::string& named, bool is_emulated) {
  try {
    (void)files_to_try(kSearch, wanted, named, is_emulated);
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), CRUCIBLE_E_UNAVAILABLE);
    return failure.what();
  }
  return "";
}

TEST(SdkLibrarySearch, TriesTheNamesUnlessTheOptionNamesAFile) {
  EXPECT_THAT(files_to_try(kSearch, "auto", "", false), ElementsAre("libnowhere.so.9", "libm.so.6"));
  EXPECT_THAT(files_to_try(kSearch, "auto", "/lib/libm.so.6", false), ElementsAre("/lib/libm.so.6"));
  EXPECT_THAT(files_to_try(kSearch, "auto", "/lib/libm.so.6", true), ElementsAre("/lib/libm.so.6"));
}

TEST(SdkLibrarySearch, AFolderHasOneOfTheNames) {
  const std::string names[] = {"libm.so.6"};
  const std::string folder = std::filesystem::path(VendorLibrary::open("libm", names, "").file()).parent_path();
  EXPECT_THAT(files_to_try(kSearch, "auto", folder, false), ElementsAre(folder + "/libm.so.6"));
  EXPECT_EQ(words_of("auto", "/", false),
            "the folder / of the option libm has none of libnowhere.so.9, libm.so.6: install libc6");
}

TEST(SdkLibrarySearch, SaysWhyNothingIsTried) {
  EXPECT_EQ(words_of("none", "/lib/libm.so.6", false), "the option trigonometry is none");
  EXPECT_EQ(words_of("auto", "", true), "an emulated device takes only a libm that the option libm names");
}

TEST(SdkLibrarySearch, AbsenceIsToldUnlessTheLibraryIsDemanded) {
  const Failure reason(CRUCIBLE_E_UNAVAILABLE, "it rains");
  EXPECT_EQ(told_absence(kSearch, "auto", reason), "none (it rains; cosines are generated and slower)");
  try {
    (void)told_absence(kSearch, "libm", reason);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), CRUCIBLE_E_UNAVAILABLE);
    EXPECT_STREQ(failure.what(), "the option trigonometry demands libm: it rains");
  }
}

struct Trigonometry {
  double (*cos)(double) = nullptr;
  void (*no_such_function)() = nullptr;
  std::string file;
  static inline int made = 0;
  static inline bool wants_all = false;

  explicit Trigonometry(const VendorLibrary& library) : file(library.file()) {
    std::string missing;
    library.find("cos", cos, missing);
    if (wants_all) library.find("no_such_function", no_such_function, missing);
    library.require_complete(missing, "library of functions");
    ++made;
  }
  std::string describe() const { return "libm 6"; }
};

TEST(SdkLibrarySearch, OpensALibraryOnceAndLooksAgainForOneThatWasNotThere) {
  constexpr OptionSpec specs[] = {
      {.name = "trigonometry", .type = OptionType::kChoice, .default_value = "auto", .choices = "auto libm none"},
      {.name = "libm", .type = OptionType::kPath}};
  const Options options(specs);
  FoundLibraries<Trigonometry> libraries;
  std::string note;
  Trigonometry::wants_all = true;
  EXPECT_EQ(libraries.find(kSearch, options, false, note), nullptr);
  EXPECT_THAT(note,
              HasSubstr("lacks no_such_function: it is no library of functions; cosines are generated and slower)"));
  Trigonometry::wants_all = false;
  const Trigonometry* const found = libraries.find(kSearch, options, false, note);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->cos(0), 1);
  EXPECT_EQ(note, "libm 6 (" + found->file + ")");
  EXPECT_EQ(libraries.find(kSearch, options, false, note), found);
  EXPECT_EQ(Trigonometry::made, 1);
  EXPECT_EQ(libraries.find(kSearch, options, true, note), nullptr);
}

}  // namespace
}  // namespace crucible::sdk
