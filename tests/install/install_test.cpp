// From an installed Crucible to a plugin of one's own, as its author would do it: install, `crucible plugin new`,
// configure, build, find it, run a kernel on it. And what `plugin new` refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bit>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "core/kernel/ir/ir_builder.hpp"
#include "plugins/kernel_ir/serialize.hpp"
#include "plugins/loader/backend.hpp"

namespace crucible {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

struct Outcome {
  int code = -1;
  std::string output;  // both streams
};

class Installed : public ::testing::Test {
 protected:
  Installed() {
    std::string name = (fs::temp_directory_path() / "crucible-install-test-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) std::abort();
    folder_ = name;
  }
  ~Installed() override {
    std::error_code error;
    fs::remove_all(folder_, error);
  }

  /// Runs in the test's folder, with the installed (or, before install(), the built) crucible in PATH.
  Outcome run(const std::string& command) const {
    const std::string bin = fs::exists(prefix() / "bin") ? (prefix() / "bin").string() : CRUCIBLE_BUILD_FOLDER;
    const std::string line = "cd " + folder_.string() +
                             " && env -u CRUCIBLE_PLUGIN_PATH XDG_CONFIG_HOME=" + (folder_ / "config").string() +
                             " PATH=" + bin + ":$PATH " + command + " 2>&1";
    Outcome outcome;
    FILE* pipe = popen(line.c_str(), "r");
    if (pipe == nullptr) return outcome;
    char buffer[4096];
    for (std::size_t n = 0; (n = fread(buffer, 1, sizeof(buffer), pipe)) > 0;) outcome.output.append(buffer, n);
    const int status = pclose(pipe);
    outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return outcome;
  }
  void must(const std::string& command) const {
    const Outcome outcome = run(command);
    ASSERT_EQ(outcome.code, 0) << command << "\n" << outcome.output;
  }
  fs::path prefix() const { return folder_ / "prefix"; }

  fs::path folder_;
};

/// y[i] = s * x[i] on a device of the plugin.
void scale_on(const fs::path& plugin) {
  auto loaded = backend::Backend::load(plugin, {});
  ASSERT_TRUE(loaded) << loaded.error().message;
  auto device = (*loaded)->open("");
  ASSERT_TRUE(device) << device.error().message;
  auto buffer = backend::Buffer::allocate(*device, 8 * sizeof(float), 64);
  ASSERT_TRUE(buffer) << buffer.error().message;
  std::vector<float> values = {1, 2, 3, 4, 5, 6, 7, 8};
  ASSERT_TRUE(buffer->write(0, std::as_bytes(std::span(values))));
  kernel::IrBuilder b;
  b.add_buffer(DType::kF32, true);
  b.add_scalar();
  const kernel::ExprId item = b.open_grid(kernel::LoopMode::kSerial);
  b.store(0, item, b.binary(kernel::Operation::kMultiply, b.let(b.load(0, item)), b.scalar(0, DType::kF32)));
  b.close();
  const std::vector<backend::KernelSource> kernels = {{"scale", "", kernel::serialize_ir(b.finish())}};
  auto module = backend::Module::compile(*device, kernels);
  ASSERT_TRUE(module) << module.error().message;
  const auto kernel = module->kernel("scale");
  ASSERT_TRUE(kernel) << kernel.error().message;
  const std::uint64_t address = buffer->address() + 4 * sizeof(float);
  const crucible_scalar scalar = {0, 0, 0};  // slot 0
  crucible_op op = {};
  op.struct_size = sizeof(op);
  op.kind = CRUCIBLE_OP_LAUNCH;
  op.kernel = *kernel;
  op.buffers = &address;
  op.buffer_count = 1;
  op.scalars = &scalar;
  op.scalar_count = 1;
  op.grid = 3;
  auto plan = backend::Plan::build(*device, std::span(&op, 1), 1);
  ASSERT_TRUE(plan) << plan.error().message;
  const auto factor = std::bit_cast<std::uint64_t>(10.0);
  ASSERT_TRUE(plan->set_slots(std::span(&factor, 1)));
  ASSERT_TRUE(plan->replay());
  ASSERT_TRUE(buffer->read(0, std::as_writable_bytes(std::span(values))));
  EXPECT_THAT(values, ::testing::ElementsAre(1, 2, 3, 4, 50, 60, 70, 8));
}

TEST_F(Installed, APluginIsWrittenBuiltFoundAndRun) {
  ASSERT_NO_FATAL_FAILURE(
      must(std::string(CRUCIBLE_CMAKE) + " --install " CRUCIBLE_BUILD_FOLDER " --prefix " + prefix().string()));
  // The prefix may be moved: nothing in it knows where it was made.
  fs::rename(prefix(), folder_ / "elsewhere");
  fs::rename(folder_ / "elsewhere", prefix());
  for (const char* file : {"bin/crucible", "lib/crucible/libcrucible_cpu.so", "include/crucible/crucible_plugin.h"}) {
    EXPECT_TRUE(fs::exists(prefix() / file)) << file;
  }
  EXPECT_THAT(run("crucible plugin list").output,
              HasSubstr("in " + (prefix() / "lib/crucible").string() + ": libcrucible_"));
  ASSERT_NO_FATAL_FAILURE(must("crucible plugin new acme_1"));
  const std::string cmake = CRUCIBLE_CMAKE, in = "sh -c 'cd acme_1 && " + cmake;
  ASSERT_NO_FATAL_FAILURE(must(in + " --preset release -DCMAKE_CXX_FLAGS=-Werror'"));
  ASSERT_NO_FATAL_FAILURE(must(in + " --build --preset release'"));
  const fs::path built = folder_ / "acme_1/build/release";
  ASSERT_TRUE(fs::exists(built / "libcrucible_acme_1.so"));
  const Outcome listed = run("CRUCIBLE_PLUGIN_PATH=" + built.string() + " crucible plugin list --json");
  EXPECT_EQ(listed.code, 0);
  EXPECT_THAT(listed.output, HasSubstr("\"acme_1\""));
  // Installed beside Crucible it is found without being told of, with its manifest anywhere.
  const fs::path manifest = folder_ / "config/crucible/plugins.d/acme_1.json";
  for (const fs::path& where : {prefix(), folder_ / "apart"}) {
    ASSERT_NO_FATAL_FAILURE(must(in + " --install build/release --strip --prefix " + where.string() + "'"));
    const fs::path installed = where / "lib/crucible/libcrucible_acme_1.so";
    EXPECT_THAT(run("crucible plugin list --json").output, HasSubstr("\"" + installed.string() + "\""));
    const Outcome explained = run("crucible plugin explain acme_1");
    EXPECT_EQ(explained.code, 0);
    EXPECT_THAT(explained.output, HasSubstr("the pinned SHA-256"));
    EXPECT_THAT(explained.output, HasSubstr(manifest.string()));
    std::ofstream(installed.string() + ".certificate.json") << "{}";
  }
  // What is another file now is refused, by the manifest that is named, with what to do.
  fs::copy_file(built / "libcrucible_acme_1.so", folder_ / "apart/lib/crucible/libcrucible_acme_1.so",
                fs::copy_options::overwrite_existing);
  EXPECT_THAT(run("crucible plugin explain acme_1").output,
              HasSubstr(" by the manifest " + manifest.string() + ": install the plugin again, or correct its sha256"));
  // Nothing of it is left but what is named.
  const Outcome removed = run(in + " --build build/release --target uninstall'");
  EXPECT_EQ(removed.code, 0) << removed.output;
  EXPECT_THAT(removed.output, HasSubstr("kernels that were compiled for acme_1, in "));
  EXPECT_THAT(removed.output, HasSubstr("crucible/acme_1 of each user"));
  EXPECT_FALSE(fs::exists(manifest));
  EXPECT_TRUE(fs::is_empty(folder_ / "apart/lib/crucible"));
  EXPECT_FALSE(fs::exists(prefix() / "lib/crucible/libcrucible_acme_1.so"));
  EXPECT_FALSE(fs::exists(prefix() / "lib/crucible/libcrucible_acme_1.so.certificate.json"));
  EXPECT_THAT(run(in + " --build build/release --target uninstall'").output, HasSubstr("was not installed from this"));
  // A package has the manifest for all users, about where the file will be.
  ASSERT_NO_FATAL_FAILURE(
      must("env DESTDIR=" + (folder_ / "stage").string() + " " + in + " --install build/release --prefix /opt/acme'"));
  std::ifstream staged(folder_ / "stage/etc/crucible/plugins.d/acme_1.json");
  EXPECT_EQ(nlohmann::json::parse(staged).at("path"), "/opt/acme/lib/crucible/libcrucible_acme_1.so");
  // The name of the package may be written as that of the command.
  std::ofstream(folder_ / "CMakeLists.txt")
      << "cmake_minimum_required(VERSION 3.25)\nproject(lower CXX)\nfind_package(crucible 0.1 REQUIRED)\n"
         "if(NOT TARGET Crucible::sdk)\n  message(FATAL_ERROR nothing)\nendif()\n";
  ASSERT_NO_FATAL_FAILURE(must(cmake + " -S . -B lower"));
  const Outcome symbols = run("nm -D --defined-only " + (built / "libcrucible_acme_1.so").string());
  EXPECT_EQ(std::count(symbols.output.begin(), symbols.output.end(), '\n'), 1) << symbols.output;
  scale_on(built / "libcrucible_acme_1.so");
}

TEST_F(Installed, PluginNewRefusesWhatWouldNotWork) {
  for (const char* name :
       {"Acme", "1st", "a-b", "\"\"", "a/b", "int", "crucible", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}) {
    const Outcome outcome = run(std::string("crucible plugin new ") + name);
    EXPECT_EQ(outcome.code, 2) << name;
    EXPECT_THAT(outcome.output, HasSubstr("cannot be a plugin's name")) << name;
  }
  Outcome outcome = run("crucible plugin new cpu");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.output, HasSubstr("there is a plugin cpu already"));
  outcome = run("crucible plugin new acme --dialect fortran");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.output, HasSubstr("no dialect 'fortran': use one of c, opencl, cuda, hip, own"));
  outcome = run("crucible plugin new acme --memory paper");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.output, HasSubstr("no memory model 'paper': use one of host, pointers, handles"));
  EXPECT_TRUE(fs::is_empty(folder_));
  outcome = run("crucible plugin new acme --folder /proc/nowhere");
  EXPECT_EQ(outcome.code, 4);
  EXPECT_THAT(outcome.output, HasSubstr("cannot make the folder /proc/nowhere"));
}

TEST_F(Installed, PluginNewOverwritesNothing) {
  fs::create_directories(folder_ / "acme/src");
  std::ofstream(folder_ / "acme/src/plan.cpp") << "mine";
  const Outcome careful = run("crucible plugin new acme");
  EXPECT_EQ(careful.code, 2);
  EXPECT_THAT(careful.output, HasSubstr("the folder acme is not empty: nothing was written; give another one with "
                                        "--folder, or --force to write beside what is there"));
  const Outcome outcome = run("crucible plugin new acme --force");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.output, HasSubstr("acme/src/plan.cpp is there already: nothing was written"));
  std::ifstream stream(folder_ / "acme/src/plan.cpp");
  std::string text;
  stream >> text;
  EXPECT_EQ(text, "mine");
  EXPECT_FALSE(fs::exists(folder_ / "acme/CMakeLists.txt"));
}

TEST_F(Installed, PluginNewWritesBesideOtherFilesWhenItIsForced) {
  fs::create_directories(folder_ / "acme");
  std::ofstream(folder_ / "acme/notes.txt") << "mine";
  EXPECT_EQ(run("crucible plugin new acme").code, 2);
  EXPECT_FALSE(fs::exists(folder_ / "acme/CMakeLists.txt"));
  const Outcome outcome = run("crucible plugin new acme --force");
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_TRUE(fs::exists(folder_ / "acme/CMakeLists.txt") && fs::exists(folder_ / "acme/notes.txt"));
  fs::create_directories(folder_ / "empty");
  EXPECT_EQ(run("crucible plugin new other --folder empty").code, 0);
}

TEST_F(Installed, PluginNewWritesEachDialectUnderItsName) {
  constexpr std::size_t kMostLines = 300;
  const char* const models[] = {"handles", "pointers", "handles", "host", "handles"};
  int next = 0;
  for (const char* dialect : {"c", "opencl", "cuda", "hip", "own"}) {
    const char* const model = models[next++];
    const Outcome outcome = run(std::string("crucible plugin new --force cpu --json --folder ") + dialect +
                                " --dialect " + dialect + " --memory " + model);
    std::size_t lines = 0;
    ASSERT_EQ(outcome.code, 0) << outcome.output;
    const auto document = nlohmann::json::parse(outcome.output);
    EXPECT_EQ(document.at("dialect"), dialect);
    EXPECT_EQ(document.at("memory"), model);
    for (const auto& file : document.at("files")) {
      const fs::path path = folder_ / file.get<std::string>();
      std::ifstream stream(path);
      const std::string text(std::istreambuf_iterator<char>(stream), {});
      EXPECT_FALSE(text.empty()) << path;
      EXPECT_EQ(text.find("acme"), std::string::npos) << path;
      for (const char* ending : {".own", ".table", ".host", ".pointers", ".handles"})
        EXPECT_NE(path.extension(), ending) << path;
      lines += static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
    }
    EXPECT_LE(lines, kMostLines) << dialect << " " << model;
    EXPECT_TRUE(fs::exists(folder_ / dialect / ".gitignore"));
  }
}

}  // namespace
}  // namespace crucible
