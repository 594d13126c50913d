// Running clang for amdgcn: see real_compile.hpp.
#include "tests/emulators/amd/real_compile.hpp"

#include <fstream>
#include <iterator>
#include <string_view>

#include "tests/emulators/core/compiler.hpp"

extern "C" const char emulator_device_on_amdgcn[];

namespace crucible::emulator {
namespace {

/// The descriptor's field, for each kernel that has one, has to be `wanted`.
std::string wrong_modes(const std::string& assembly, std::string_view field, std::string_view wanted) {
  for (std::size_t at = assembly.find(field); at != std::string::npos; at = assembly.find(field, at + 1)) {
    const std::size_t begin = assembly.find_first_not_of(" \t", at + field.size());
    const std::string value = assembly.substr(begin, assembly.find_first_of(" \t\n", begin) - begin);
    if (value != wanted) {
      return "a kernel's " + std::string(field) + " is " + value + ", not " + std::string(wanted) +
             ": it would flush subnormals or round otherwise";
    }
  }
  return "";
}

bool asks_for(const std::vector<std::string>& flags, std::string_view flag) {
  for (const std::string& word : flags) {
    if (word == flag) return true;
  }
  return false;
}

}  // namespace

std::string compile_really(const RealCompile& source) {
  const ScratchFolder folder;
  bool written = !folder.path().empty() && folder.write("hip/hip_runtime.h", "") && folder.write("hip/hip_fp16.h", "");
  for (const auto& [name, text] : source.headers) written = written && folder.write(name, text);
  written = written &&
            folder.write("kernels.hip", std::string(emulator_device_on_amdgcn) + "#line 1 \"kernels\"\n" + source.text);
  if (!written) return "the emulator cannot write its files: set CRUCIBLE_EMU_CACHE";
  const std::string result = (folder.path() / "kernels.s").string();
  std::vector<std::string> words = {compiler(), "-x", "hip", "--cuda-device-only", "--offload-arch=" + source.arch,
                                    "-nogpulib", "-nogpuinc", "-fdeclspec", "-O3", "-w", "-S",
                                    "-I" + folder.path().string()};
  for (const std::string& word : source.preprocessor) {
    // clang has these itself, by the architecture.
    if (word.starts_with("-D__HIP") || word.starts_with("-D__AMDGCN") || word.starts_with("-D__gfx") ||
        word.starts_with("-D__GFX"))
      continue;
    words.push_back(word);
  }
  words.insert(words.end(), source.flags.begin(), source.flags.end());
  words.insert(words.end(), {(folder.path() / "kernels.hip").string(), "-o", result});
  const CommandResult ran = run_command(words);
  if (ran.status != 0) return ran.output;
  std::ifstream stream(result, std::ios::binary);
  const std::string assembly(std::istreambuf_iterator<char>(stream), {});
  if (assembly.find(".amdhsa_kernel") == std::string::npos) return "the assembly has no kernel";
  std::string problem = wrong_modes(assembly, ".amdhsa_float_round_mode_32", "0");
  if (problem.empty() && !asks_for(source.flags, "-fgpu-flush-denormals-to-zero")) {
    problem = wrong_modes(assembly, ".amdhsa_float_denorm_mode_32", "3");
  }
  return problem;
}

}  // namespace crucible::emulator
