// Kernels' texts become shared objects, once; a compiler's words come back.
#include "tests/emulators/core/compiler.hpp"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/emulators/core/settings.hpp"

namespace crucible::emulator {
namespace {

using ::testing::HasSubstr;

class EmulatorCompiler : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("crucible-emulator-cache-" + std::to_string(getpid()));
    setenv("CRUCIBLE_EMU_CACHE", folder_.c_str(), 1);
    reload_environment();
    if (run_command({compiler(), "--version"}).status != 0) GTEST_SKIP() << "no " << compiler();
  }
  void TearDown() override {
    std::filesystem::remove_all(folder_);
    unsetenv("CRUCIBLE_EMU_CACHE");
    unsetenv("CRUCIBLE_EMU_COMPILER");
    reload_environment();
  }
  std::filesystem::path folder_;
};

TEST_F(EmulatorCompiler, CompilesOnceAndKeepsNothingElse) {
  const SharedObjectText source = {.text = "#include \"seven.h\"\nint seven(void) { return SEVEN + OFFSET; }\n",
                                   .files = {{"seven.h", "#define SEVEN 7\n"}},
                                   .flags = {"-O1", "-DOFFSET=10"}};
  const auto made = compile_shared_object(source);
  ASSERT_TRUE(made) << made.error();
  void* const library = dlopen(made->c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  EXPECT_EQ(reinterpret_cast<int (*)()>(dlsym(library, "seven"))(), 17);
  dlclose(library);
  const auto time = std::filesystem::last_write_time(*made);
  EXPECT_EQ(*compile_shared_object(source), *made);
  EXPECT_EQ(std::filesystem::last_write_time(*made), time);
  SharedObjectText other = source;
  other.flags[1] = "-DOFFSET=11";
  EXPECT_NE(*compile_shared_object(other), *made);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), std::filesystem::directory_iterator()), 2);
}

TEST_F(EmulatorCompiler, TheCompilersWordsComeBack) {
  const auto made = compile_shared_object({.text = "int f(void) { return nowhere; }\n"});
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error(), HasSubstr("nowhere"));
}

TEST_F(EmulatorCompiler, AMissingCompilerIsNamedWithWhatToDo) {
  setenv("CRUCIBLE_EMU_COMPILER", "/nowhere/clang", 1);
  reload_environment();
  const auto made = compile_shared_object({.text = "int f;\n"});
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error(), HasSubstr("cannot start /nowhere/clang"));
  EXPECT_THAT(made.error(), HasSubstr("CRUCIBLE_EMU_COMPILER"));
}

}  // namespace
}  // namespace crucible::emulator
