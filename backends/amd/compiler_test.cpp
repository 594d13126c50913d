// clang in HIPRTC's place: that it is found and makes code objects, that a broken HIPRTC is noticed without harm, and
// what is said where neither can be used. The runtime is testing/code_loader.cpp: it takes real code objects and runs
// nothing.
#include "backends/amd/compiler.hpp"

#include <elf.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "plugins/layers/kept_in_memory.hpp"
#include "plugins/sdk/child_program.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/host.hpp"
#include "plugins/sdk/mathematics.hpp"
#include "plugins/sdk/matrix_product.hpp"
#include "plugins/sdk/testing/device_plugin.hpp"
#include "plugins/sdk/thread_kernel.hpp"

namespace crucible_amd {
namespace {

using namespace crucible;
using backend::KernelSource;
using backend::PluginUnderTest;
using backend::sums;
using backend::take;
using backend::try_open;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

const std::string kLoader = CRUCIBLE_TEST_CODE_LOADER, kBroken = CRUCIBLE_TEST_BROKEN_HIPRTC,
                  kClang = CRUCIBLE_TEST_CLANG;

std::map<std::string, std::string, std::less<>> set_options;

/// The sources of the plugin that are linked here ask this host.
void use(const std::map<std::string, std::string, std::less<>>& options) {
  set_options = options;
  crucible_host_api host = {};
  host.struct_size = sizeof(host);
  host.abi_minor = CRUCIBLE_ABI_MINOR;
  host.get_option = [](void*, crucible_str key, crucible_str* value) -> std::uint32_t {
    const auto found = set_options.find(std::string_view(key.data, key.size));
    if (found == set_options.end()) return 0;
    *value = {found->second.data(), found->second.size()};
    return 1;
  };
  host.find_kept = layers::kept_in_memory::find;
  host.free_kept = layers::kept_in_memory::give_back;
  host.keep = layers::kept_in_memory::keep;
  sdk::set_host(&host);
}

template <class Work>
std::string words_of(Work work) {
  try {
    work();
  } catch (const sdk::Failure& failure) {
    return failure.what();
  }
  return "";
}

/// A program of shell text that stands for a compiler.
class Script {
 public:
  explicit Script(const std::string& text) {
    file_ = folder_.write("clang", "#!/bin/sh\n" + text + "\n");
    fs::permissions(file_, fs::perms::owner_all);
  }
  std::string file() const { return file_.string(); }

 private:
  sdk::ScratchFolder folder_;
  fs::path file_;
};

std::string sums_text() {
  const KernelSource kernel = sums(3, DType::kF32);
  const auto printed =
      sdk::print_thread_kernel(sdk::read_kernel(kernel.ir.data(), kernel.ir.size()), sdk::dialect_hip(), "sums");
  return sdk::math_text(sdk::dialect_hip()) + "\n" + printed.text;
}

TEST(AmdClang, MakesCodeObjectsForEveryGeneration) {
  use({{"clang", kClang}});
  const Clang& compiler = clang();
  EXPECT_EQ(compiler.describe().substr(0, 6), "clang ");
  for (const auto& [architecture, number] : {std::pair("gfx90a", 0x3fu), {"gfx942", 0x4cu}, {"gfx1100", 0x41u}}) {
    for (const int runtime : {5, 6}) {
      const Hiprtc::Compiled compiled = compiler.compile(sums_text(), architecture, runtime, "sums");
      ASSERT_GT(compiled.bytes.size(), sizeof(Elf64_Ehdr));
      const auto* const head = reinterpret_cast<const Elf64_Ehdr*>(compiled.bytes.data());
      EXPECT_EQ(head->e_machine, 224) << architecture;  // EM_AMDGPU
      EXPECT_EQ(head->e_type, ET_DYN);
      EXPECT_EQ(head->e_flags & 0xff, number) << architecture;
      EXPECT_EQ(head->e_ident[EI_ABIVERSION], runtime == 5 ? 2 : 3);  // code objects 4 and 5
      EXPECT_EQ(compiled.log, "");
    }
  }
}

TEST(AmdClang, MatrixKernelsAreCodeForEveryGenerationThatHasTheUnits) {
  use({{"clang", kClang}});
  for (const auto& [architecture, step] :
       {std::pair("gfx90a", 7u), {"gfx942", 3u}, {"gfx908", 14u}, {"gfx1100", 3u}, {"gfx1151", 9u}}) {
    const sdk::MatrixUnit unit = sdk::matrix_unit_of_amd(architecture);
    for (unsigned bits = 0; bits < 32; bits += step) {
      const sdk::MatrixVariant variant{(bits & 1) != 0,  (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0,
                                       (bits & 16) != 0, bits % 3 != 0,   bits % 3 == 2};
      const sdk::KernelBatch batch = sdk::write_matrix_kernel(variant, unit, sdk::dialect_hip());
      const Hiprtc::Compiled compiled = clang().compile(batch.text, architecture, 6, batch.names.front());
      EXPECT_EQ(compiled.bytes.substr(0, 4),
                "\x7f"
                "ELF")
          << architecture << " " << batch.names.front();
      EXPECT_EQ(compiled.log, "");
    }
  }
  const sdk::KernelBatch batch = sdk::write_matrix_kernel({}, sdk::MatrixUnit::kWmma, sdk::dialect_hip());
  EXPECT_THAT(words_of([&] { clang().compile(batch.text, "gfx1030", 6, "k"); }), HasSubstr("wmma"))
      << "a device without the units";
}

TEST(AmdClang, ItsWordsAndTheKernelsNamesAreInTheError) {
  use({{"clang", kClang}});
  const Clang& compiler = clang();
  EXPECT_THAT(words_of([&] { compiler.compile("this is no HIP;\n", "gfx942", 6, "k1, k2"); }),
              HasSubstr("refuses the kernels k1, k2 for gfx942 (status 1): crucible.hip:1:1: error"));
  EXPECT_THAT(words_of([&] { compiler.compile("", "sm_90", 6, "k"); }), HasSubstr("sm_90"));
}

TEST(AmdClang, WhatIsNoUsableClangIsNamed) {
  use({{"clang", "/nowhere/clang"}});
  EXPECT_THAT(words_of([] { clang(); }), HasSubstr("the compiler /nowhere/clang of the option clang is no program"));
  const Script old("echo 'Debian clang version 15.0.6'"), other("echo 'gcc (Debian) 12.2.0'");
  use({{"clang", old.file()}});
  EXPECT_THAT(words_of([] { clang(); }), HasSubstr("is clang 15.0.6: clang 18 or newer is needed"));
  use({{"clang", other.file()}});
  EXPECT_THAT(words_of([] { clang(); }), HasSubstr("is no clang"));
}

TEST(AmdClang, AMissingLinkerIsNamedWithItsPackage) {
  const Script without(
      "[ \"$1\" = --version ] && echo 'clang version 19.1.7' && exit\necho 'error: unable to execute command: "
      "Executable \"lld\" does not exist!'\nexit 1");
  use({{"clang", without.file()}});
  EXPECT_THAT(words_of([] { clang().compile("", "gfx942", 6, "k"); }),
              HasSubstr("install lld beside it, Debian's lld-19"));
}

/// The library of testing/broken_hiprtc.cpp, loaded as the plugin loads it.
const Hiprtc& broken() {
  use({{"library", CRUCIBLE_TEST_EMULATED_HIP}, {"hiprtc", kBroken}});
  return hiprtc(hip());
}

TEST(AmdTrial, EveryWayToBeBrokenIsToldAndHarmsNobody) {
  if (!fs::exists(CRUCIBLE_TEST_EMULATED_HIP)) GTEST_SKIP() << "no emulated runtime was built";
  const Hiprtc& compiler = broken();
  for (const auto& [how, words] : {std::pair("crash", "signal 11"),
                                   {"abort", "signal 6"},
                                   {"exit", "status 9"},
                                   {"refuse", "cannot compile one small kernel"},
                                   {"hang", "after 1 s"}}) {
    setenv("CRUCIBLE_BROKEN_HIPRTC", how, 1);
    EXPECT_THAT(try_hiprtc(compiler, "gfx942", 1), HasSubstr(words));
  }
  setenv("CRUCIBLE_BROKEN_HIPRTC", "", 1);
  EXPECT_EQ(try_hiprtc(compiler, "gfx942", 1), "");
}

TEST(AmdArchitecture, IsTheRuntimesWordOrTheUsers) {
  if (!fs::exists(CRUCIBLE_TEST_EMULATED_HIP)) GTEST_SKIP() << "no emulated runtime was built";
  use({{"library", CRUCIBLE_TEST_EMULATED_HIP}});
  EXPECT_EQ(architecture_of(hip(), 0), "gfx90a");
  use({{"library", CRUCIBLE_TEST_EMULATED_HIP}, {"arch", "gfx1100"}});
  EXPECT_EQ(architecture_of(hip(), 0), "gfx1100");
}

/// The whole plugin on the runtime that takes real code objects.
class AmdCodeObjects : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(kLoader)) GTEST_SKIP() << "no emulated runtime was built";
    unsetenv("CRUCIBLE_CODE_LOADER_ARCH");
    setenv("CRUCIBLE_BROKEN_HIPRTC", "crash", 1);
  }
  static Result<backend::Module> compile(const backend::Options& more) {
    PluginUnderTest plugin = {"amd", "hip", {{"library", kLoader}, {"clang", kClang}}};
    auto device = try_open(plugin, more);
    if (!device) return device.error();
    const KernelSource kernel = sums(3, DType::kF32);
    return backend::Module::compile(*device, std::span(&kernel, 1));
  }
  static std::string error_of(const backend::Options& more) {
    const auto module = compile(more);
    return module ? "" : module.error().message;
  }
};

TEST_F(AmdCodeObjects, OfClangAreLoadedAndHaveTheirKernels) {
  const auto module = compile({{"compiler", "clang"}});
  ASSERT_TRUE(module) << module.error().message;
  EXPECT_TRUE(module->kernel("sums"));
}

TEST_F(AmdCodeObjects, AreClangsWhereHiprtcCrashesOrIsMissing) {
  for (const std::string& hiprtc : {kBroken, std::string("/nowhere/libhiprtc.so.6")}) {
    const auto module = compile({{"hiprtc", hiprtc}});  // compiler = auto
    ASSERT_TRUE(module) << module.error().message;
    EXPECT_TRUE(module->kernel("sums"));
  }
}

TEST_F(AmdCodeObjects, BothReasonsAreToldWhereNeitherCompilerCanBeUsed) {
  const std::string words = error_of({{"hiprtc", kBroken}, {"clang", "/nowhere/clang"}});
  EXPECT_THAT(words, HasSubstr("is broken here: signal 11"));
  EXPECT_THAT(words, HasSubstr("/nowhere/clang"));
  const std::string missing = error_of({{"hiprtc", "/nowhere/libhiprtc.so.6"}, {"clang", "/nowhere/clang"}});
  EXPECT_THAT(missing, HasSubstr("/nowhere/libhiprtc.so.6"));
  EXPECT_THAT(missing, HasSubstr("/nowhere/clang"));
}

TEST_F(AmdCodeObjects, AWrongChoiceIsRefusedWithThoseThatThereAre) {
  EXPECT_THAT(error_of({{"compiler", "nvcc"}}), HasSubstr("auto hiprtc clang"));
}

TEST_F(AmdCodeObjects, OfAnotherArchitectureAreRefusedWithWhatToSet) {
  setenv("CRUCIBLE_CODE_LOADER_ARCH", "4c", 1);  // a gfx942 behind an emulated gfx90a
  EXPECT_THAT(error_of({{"compiler", "clang"}}), HasSubstr("name the device's architecture with the option arch"));
  EXPECT_EQ(error_of({{"compiler", "clang"}, {"arch", "gfx942"}}), "");
}

TEST(AmdTrial, AVerdictIsKeptAndBelongsToItsFile) {
  if (!fs::exists(CRUCIBLE_TEST_EMULATED_HIP)) GTEST_SKIP() << "no emulated runtime was built";
  const sdk::ScratchFolder folder;
  const std::string copy = (folder.path() / "libhiprtc.so.6").string();
  fs::copy_file(kBroken, copy);
  use({{"library", CRUCIBLE_TEST_EMULATED_HIP}, {"hiprtc", copy}});
  const Hiprtc& compiler = hiprtc(hip());
  setenv("CRUCIBLE_BROKEN_HIPRTC", "crash", 1);
  EXPECT_THAT(verdict_on(compiler, "gfx942", "a device"), HasSubstr("signal 11"));
  setenv("CRUCIBLE_BROKEN_HIPRTC", "", 1);
  EXPECT_THAT(verdict_on(compiler, "gfx942", "a device"), HasSubstr("signal 11"));  // it is not asked again
  EXPECT_EQ(verdict_on(compiler, "gfx90a", "a device"), "");                        // for another architecture it is
  EXPECT_THAT(verdict_on(compiler, "gfx942", "a device"), HasSubstr("signal 11"));
  fs::last_write_time(copy, fs::file_time_type::clock::now() + std::chrono::hours(1));
  EXPECT_EQ(verdict_on(compiler, "gfx942", "a device"), "");  // and when it is another file
  setenv("CRUCIBLE_BROKEN_HIPRTC", "crash", 1);
  EXPECT_EQ(verdict_on(compiler, "gfx942", "a device"), "");
}

}  // namespace
}  // namespace crucible_amd

namespace crucible::backend {
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DevicePlugin);  // its cases are amd_test's
}
