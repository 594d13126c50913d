// A HIP runtime whose modules are real code objects for AMD's devices, for tests of the way there: it reads them as the
// loader of ROCm does (the machine, the architecture, a descriptor per kernel) and runs nothing. Everything else is the
// emulated runtime's, which this library is linked with. CRUCIBLE_CODE_LOADER_ARCH is the architecture that it takes,
// as the number in the head of the file (gfx90a: 3f).
#include <elf.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

using hipError_t = int;
constexpr hipError_t kSuccess = 0, kInvalidImage = 200, kNoBinary = 209, kNotFound = 500;
constexpr unsigned char kAmdHsa = 64;
constexpr std::uint16_t kAmdGpu = 224;
constexpr std::uint32_t kArchitectureMask = 0xff;

struct CodeModule {
  std::vector<std::string> descriptors;  // "NAME.kd"
};

const Elf64_Shdr* sections_of(const char* image) {
  return reinterpret_cast<const Elf64_Shdr*>(image + reinterpret_cast<const Elf64_Ehdr*>(image)->e_shoff);
}

CodeModule* read(const char* image) {
  auto* const module = new CodeModule;
  const auto* const head = reinterpret_cast<const Elf64_Ehdr*>(image);
  const Elf64_Shdr* const sections = sections_of(image);
  for (unsigned i = 0; i < head->e_shnum; ++i) {
    if (sections[i].sh_type != SHT_DYNSYM) continue;
    const auto* const symbols = reinterpret_cast<const Elf64_Sym*>(image + sections[i].sh_offset);
    const char* const names = image + sections[sections[i].sh_link].sh_offset;
    for (std::size_t s = 0; s < sections[i].sh_size / sizeof(Elf64_Sym); ++s)
      module->descriptors.emplace_back(names + symbols[s].st_name);
  }
  return module;
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) hipError_t hipModuleLoadData(void** module, const void* image) {
  const auto* const head = static_cast<const Elf64_Ehdr*>(image);
  if (std::memcmp(head->e_ident, ELFMAG, SELFMAG) != 0) return kInvalidImage;
  if (head->e_machine != kAmdGpu || head->e_ident[EI_OSABI] != kAmdHsa || head->e_type != ET_DYN) return kInvalidImage;
  const char* const wanted = std::getenv("CRUCIBLE_CODE_LOADER_ARCH");
  if (wanted != nullptr && std::strtoul(wanted, nullptr, 16) != (head->e_flags & kArchitectureMask)) return kNoBinary;
  *module = read(static_cast<const char*>(image));
  return kSuccess;
}

__attribute__((visibility("default"))) hipError_t hipModuleUnload(void* module) {
  delete static_cast<CodeModule*>(module);
  return kSuccess;
}

__attribute__((visibility("default"))) hipError_t hipModuleGetFunction(void** function, void* module,
                                                                       const char* name) {
  for (std::string& descriptor : static_cast<CodeModule*>(module)->descriptors) {
    if (descriptor != std::string(name) + ".kd") continue;
    *function = &descriptor;
    return kSuccess;
  }
  return kNotFound;
}

__attribute__((visibility("default"))) hipError_t hipFuncGetAttribute(int* value, int, void*) {
  *value = 64;
  return kSuccess;
}
}
