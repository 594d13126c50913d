// Libraries opened from sealed copies: each is its own, though the numbers of descriptors come again, and what is none
// says why.
#include "backends/cpu/sealed.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace crucible_cpu {
namespace {

/// The bytes of a library whose function `answer` returns the number.
std::string library_of(int number) {
  std::string folder = (std::filesystem::temp_directory_path() / "crucible-sealed-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return "";
  std::ofstream(folder + "/a.cpp") << "extern \"C\" int answer() { return " << number << "; }\n";
  const std::string command =
      std::string(CRUCIBLE_TEST_COMPILER) + " -shared -fPIC -o " + folder + "/a.so " + folder + "/a.cpp";
  std::string bytes;
  if (std::system(command.c_str()) == 0) {
    std::ifstream file(folder + "/a.so", std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(file), {});
  }
  std::filesystem::remove_all(folder);
  return bytes;
}

int answer_of(void* handle) { return reinterpret_cast<int (*)()>(dlsym(handle, "answer"))(); }

TEST(Sealed, EachLibraryIsItsOwn) {
  const std::string one = library_of(1), two = library_of(2);
  ASSERT_FALSE(one.empty() || two.empty());
  std::string problem;
  void* const first = open_sealed(one, problem);
  void* const second = open_sealed(two, problem);
  ASSERT_TRUE(first != nullptr && second != nullptr) << problem;
  EXPECT_EQ(answer_of(first), 1);
  EXPECT_EQ(answer_of(second), 2);
  dlclose(first);
  void* const third = open_sealed(two, problem);
  ASSERT_NE(third, nullptr) << problem;
  EXPECT_EQ(answer_of(third), 2);
  dlclose(second);
  dlclose(third);
}

TEST(Sealed, WhatIsNoLibrarySaysWhy) {
  std::string problem;
  EXPECT_EQ(open_sealed("no library", problem), nullptr);
  EXPECT_FALSE(problem.empty());
}

}  // namespace
}  // namespace crucible_cpu
