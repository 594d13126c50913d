// What the dialects print is taken by a compiler of each language: clang checks the texts of many kernels and the
// prelude. Nothing is run: there is no device here. CUDA and HIP are checked without their vendors' headers, against
// the few declarations below; that the real ones agree is for a machine that has them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "core/graph/random_program.hpp"
#include "core/kernel/schedule.hpp"
#include "plugins/sdk/batch_kernel.hpp"
#include "plugins/sdk/mathematics.hpp"
#include "plugins/sdk/thread_kernel.hpp"

namespace crucible::sdk {
namespace {

constexpr const char* kClang = "/usr/bin/clang-19";

/// What the compiler's own headers declare, as far as the texts use it.
constexpr std::string_view kCudaDeclarations = R"(
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __forceinline__ inline __attribute__((always_inline))
struct crucible_index { unsigned x, y, z; };
extern const __device__ crucible_index blockIdx, blockDim, gridDim, threadIdx;
__device__ float fmaf(float, float, float); __device__ double fma(double, double, double);
__device__ float sqrtf(float); __device__ double sqrt(double); __device__ float floorf(float); __device__ double floor(double);
__device__ float __int_as_float(int); __device__ double __longlong_as_double(long long);
__device__ unsigned __float_as_uint(float); __device__ float __uint_as_float(unsigned);
__device__ long long __double_as_longlong(double); __device__ void* __cvta_global_to_generic(unsigned long);
template <class T> __device__ T __shfl_xor_sync(unsigned, T, int);
template <class T> __device__ T __shfl_down_sync(unsigned, T, int);
template <class T> __device__ T __shfl_sync(unsigned, T, int);
)";
constexpr std::string_view kHipDeclarations = R"(
struct crucible_index { unsigned x, y, z; };
extern const __attribute__((device)) crucible_index blockIdx, blockDim, gridDim, threadIdx;
)";

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "crucible-dialect-test-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) std::abort();
    path = name;
  }
  ~Folder() {
    std::error_code error;
    if (std::getenv("CRUCIBLE_KEEP_KERNELS") == nullptr) std::filesystem::remove_all(path, error);
  }
  std::filesystem::path path;
};

/// "" when clang takes the prelude and the kernels of some random programs; else its words. `lanes`: of teams, whose
/// kernels then stand without those of many launches.
std::string check(const Dialect& dialect, const std::string& declarations, const std::string& flags,
                  std::uint32_t lanes = 1) {
  const Folder folder;
  std::string text = math_text(dialect);
  std::set<std::string> names;
  std::vector<BatchPart> parts;
  std::size_t teams = 0;
  for (std::uint64_t seed = 200; seed < 215; ++seed) {
    const graph::RandomProgram random = graph::random_program({.seed = seed});
    const auto scheduled =
        kernel::schedule(random.program, {.device = {.workers = 64, .lanes = static_cast<int>(lanes)}});
    if (!scheduled) return scheduled.error().message;
    for (const kernel::Kernel& kernel : scheduled->kernels) {
      if (!names.insert(kernel.name).second) continue;
      const Kernel ir = read_kernel(kernel.ir.data(), kernel.ir.size());
      const Team team = lanes > 1 ? plan_threads(ir, lanes) : Team();
      text += print_kernel(ir, dialect, kernel.name, team);
      teams += team.lanes > 1 ? 1 : 0;
      if (dialect.meet.empty() || lanes > 1) continue;
      parts.push_back(print_thread_kernel(ir, dialect, kernel.name).batch);
      if (parts.back().text.empty()) return kernel.name + " cannot be in a batch";
      if (parts.size() < 3) continue;
      text += print_batch_kernel(parts, dialect, kernel.name + "_batch");
      text += print_batch_kernel(parts, dialect, kernel.name + "_batch_again");
      parts.clear();
    }
  }
  if (lanes > 1 && teams < 20) return "too few teams to mean anything";
  if (names.size() < 50) return "too few kernels to mean anything";
  std::ofstream(folder.path / "declarations.h") << declarations;
  std::ofstream(folder.path / "kernels.txt") << text;
  const std::string log = (folder.path / "log").string();
  const std::string command = std::string(kClang) + " " + flags + " -fsyntax-only -Wall -Werror -Wno-unused -I" +
                              folder.path.string() + " -include " + (folder.path / "declarations.h").string() + " " +
                              (folder.path / "kernels.txt").string() + " >" + log + " 2>&1";
  if (std::system(command.c_str()) == 0) return "";
  std::stringstream words;
  words << std::ifstream(log).rdbuf();
  return "clang does not take it: " + words.str().substr(0, 3000);
}

bool has_clang() { return access(kClang, X_OK) == 0; }

TEST(SdkDialects, ClangTakesTheTextsInC) {
  if (!has_clang()) GTEST_SKIP() << "no clang-19";
  EXPECT_EQ(check(dialect_c(), "", "-x c -std=gnu17"), "");
}

TEST(SdkDialects, ClangTakesTheTextsInOpenCl) {
  if (!has_clang()) GTEST_SKIP() << "no clang-19";
  EXPECT_EQ(check(dialect_opencl(), "", "-x cl -cl-std=CL3.0 -target spir64 -Xclang -finclude-default-header"), "");
  EXPECT_EQ(check(dialect_opencl(), "", "-x cl -cl-std=CL1.2 -target spir64 -Xclang -finclude-default-header"), "");
}

TEST(SdkDialects, ClangTakesTheTextsOfTeamsInOpenCl) {
  if (!has_clang()) GTEST_SKIP() << "no clang-19";
  const std::string flags = "-x cl -target spir64 -Xclang -finclude-default-header -cl-std=";
  Dialect groups = dialect_opencl_groups(), subgroups = dialect_opencl_subgroups();
  groups.kernel = subgroups.kernel = "static inline void ";  // a kernel cannot take the arrays of a group
  EXPECT_EQ(check(groups, "", flags + "CL1.2", 16), "");
  EXPECT_EQ(check(groups, "", flags + "CL3.0", 32), "");
  EXPECT_EQ(check(subgroups, "", flags + "CL3.0 -Ucl_intel_subgroups", 32), "");
  // clang has the macro and not the functions.
  const std::string intels = "uint __attribute__((overloadable)) intel_sub_group_shuffle(uint, uint);\n";
  EXPECT_EQ(check(subgroups, intels, flags + "CL1.2 -Dcl_intel_subgroups", 16), "");
}

TEST(SdkDialects, ClangTakesTheTextsInCuda) {
  if (!has_clang()) GTEST_SKIP() << "no clang-19";
  EXPECT_EQ(check(dialect_cuda(), std::string(kCudaDeclarations),
                  "-x cuda --cuda-device-only --cuda-gpu-arch=sm_70 -nocudainc -nocudalib -Wno-unknown-cuda-version"),
            "");
}

TEST(SdkDialects, ClangTakesTheTextsInHip) {
  if (!has_clang()) GTEST_SKIP() << "no clang-19";
  EXPECT_EQ(check(dialect_hip(), std::string(kHipDeclarations),
                  "-x hip --cuda-device-only --offload-arch=gfx90a -nogpuinc -nogpulib"),
            "");
}

}  // namespace
}  // namespace crucible::sdk
