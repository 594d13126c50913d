// Writing, reading and loading code objects: see code_object.hpp.
#include "tests/emulators/amd/code_object.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "tests/emulators/core/compiler.hpp"
#include "tests/emulators/core/faults.hpp"

namespace crucible::emulator {
namespace {

constexpr std::string_view kMark = "crucible emulated AMD code object 1\n";
constexpr std::size_t kMostHead = 1 << 20;
constexpr std::uint32_t kMostParameters = 1024;

std::uint64_t sum_of(std::string_view bytes) {
  std::uint64_t sum = 14695981039346656037ull;
  for (const char c : bytes) sum = (sum ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return sum;
}

/// The words of the line at `at`, which moves behind it. Empty when there is no further line.
std::vector<std::string> read_line(const char*& at, const char* end) {
  std::vector<std::string> words(1);
  while (at < end && *at != '\n' && *at != '\0') {
    if (*at == ' ') {
      words.emplace_back();
    } else {
      words.back() += *at;
    }
    ++at;
  }
  if (at == end || *at != '\n') return {};
  ++at;
  return words;
}

template <class T>
bool read_number(const std::string& word, T& out) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), out);
  return error == std::errc() && end == word.data() + word.size();
}

/// What static __shared__ variables take in thread-local memory: those of the kernel's own, and those of functions.
std::uint32_t shared_bytes_of(const std::string& elf, const std::string& kernel) {
  const auto* const head = reinterpret_cast<const ElfW(Ehdr)*>(elf.data());
  const auto* const sections = reinterpret_cast<const ElfW(Shdr)*>(elf.data() + head->e_shoff);
  const std::string own = "_ZZ" + std::to_string(kernel.size()) + kernel;
  std::uint64_t bytes = 0;
  for (unsigned s = 0; s < head->e_shnum; ++s) {
    if (sections[s].sh_type != SHT_SYMTAB) continue;
    const auto* const symbols = reinterpret_cast<const ElfW(Sym)*>(elf.data() + sections[s].sh_offset);
    const char* const names = elf.data() + sections[sections[s].sh_link].sh_offset;
    for (std::size_t i = 0; i < sections[s].sh_size / sizeof(ElfW(Sym)); ++i) {
      if (ELF64_ST_TYPE(symbols[i].st_info) != STT_TLS) continue;
      const std::string_view name = names + symbols[i].st_name;
      if (name.starts_with(own)) bytes += symbols[i].st_size;
    }
  }
  return static_cast<std::uint32_t>(bytes);
}

std::size_t thread_local_bytes(const std::string& elf) {
  const auto* const head = reinterpret_cast<const ElfW(Ehdr)*>(elf.data());
  const auto* const segments = reinterpret_cast<const ElfW(Phdr)*>(elf.data() + head->e_phoff);
  for (unsigned i = 0; i < head->e_phnum; ++i) {
    if (segments[i].p_type == PT_TLS) return segments[i].p_memsz;
  }
  return 0;
}

/// By a file whose name is new: the loader takes a name that it has seen for the library that it has.
void* open_library(const std::string& elf) {
  const ScratchFolder folder;
  const std::string file = (folder.path() / "code.so").string();
  if (folder.path().empty() || !folder.write("code.so", elf)) {
    faults().note("load: " + file + " cannot be written: set CRUCIBLE_EMU_CACHE");
    return nullptr;
  }
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) faults().note(std::string("load: ") + dlerror());
  return library;
}

}  // namespace

std::string serialize(const CodeObject& code) {
  std::string text(kMark);
  text += "arch " + code.arch + " " + std::to_string(code.wave) + "\n";
  for (const CodeObject::Kernel& kernel : code.kernels) {
    text +=
        "kernel " + kernel.name + (kernel.meets ? " thread " : " block ") + std::to_string(kernel.most_threads) + "\n";
  }
  text +=
      "bytes " + std::to_string(code.shared_object.size()) + " " + std::to_string(sum_of(code.shared_object)) + "\n";
  return text + code.shared_object;
}

std::expected<CodeObject, ImageError> read_code_object(const char* image) {
  if (std::strncmp(image, kMark.data(), kMark.size()) != 0) return std::unexpected(ImageError::kNotOurs);
  const char* at = image + kMark.size();
  CodeObject code;
  while (true) {
    const std::vector<std::string> words = read_line(at, image + kMostHead);
    if (words.size() == 3 && words[0] == "arch" && read_number(words[2], code.wave)) {
      code.arch = words[1];
    } else if (words.size() == 4 && words[0] == "kernel" && (words[2] == "thread" || words[2] == "block")) {
      code.kernels.push_back({.name = words[1], .meets = words[2] == "thread"});
      if (!read_number(words[3], code.kernels.back().most_threads)) return std::unexpected(ImageError::kDamaged);
    } else if (words.size() == 3 && words[0] == "bytes") {
      std::size_t size = 0;
      std::uint64_t sum = 0;
      if (!read_number(words[1], size) || !read_number(words[2], sum)) return std::unexpected(ImageError::kDamaged);
      code.shared_object.assign(at, size);
      const bool whole = sum_of(code.shared_object) == sum && size > sizeof(ElfW(Ehdr)) && !code.arch.empty();
      if (!whole) return std::unexpected(ImageError::kDamaged);
      return code;
    } else {
      return std::unexpected(ImageError::kDamaged);
    }
  }
}

std::expected<std::shared_ptr<const LoadedCode>, ImageError> LoadedCode::load(const CodeObject& code) {
  std::shared_ptr<LoadedCode> loaded(new LoadedCode);
  loaded->arch_ = code.arch;
  loaded->library_ = open_library(code.shared_object);
  if (loaded->library_ == nullptr) return std::unexpected(ImageError::kNotLoadable);
  loaded->thread_local_bytes_ = thread_local_bytes(code.shared_object);
  for (const CodeObject::Kernel& kernel : code.kernels) {
    if (!loaded->add(kernel, code.wave, code.shared_object)) return std::unexpected(ImageError::kNotLoadable);
  }
  return loaded;
}

bool LoadedCode::add(const CodeObject::Kernel& kernel, std::uint32_t wave, const std::string& elf) {
  auto loaded = std::make_unique<LoadedKernel>();
  loaded->name = loaded->code.name = kernel.name;
  loaded->most_threads = kernel.most_threads;
  loaded->static_shared_bytes = shared_bytes_of(elf, kernel.name);
  loaded->code.warp = wave;
  loaded->code.fibers = kernel.meets;
  const std::string entry = (kernel.meets ? "emu_thread_" : "emu_block_") + kernel.name;
  void* const function = dlsym(library_, entry.c_str());
  void* const describe = dlsym(library_, ("emu_describe_" + kernel.name).c_str());
  void* const touch = dlsym(library_, "emu_touch");
  if (function == nullptr || describe == nullptr || touch == nullptr) return false;
  if (kernel.meets) {
    loaded->code.thread = reinterpret_cast<int (*)(EmuBlock*, EmuThread*)>(function);
  } else {
    loaded->code.block = reinterpret_cast<void (*)(EmuBlock*, EmuThread*)>(function);
  }
  std::vector<unsigned> numbers(3 * kMostParameters);
  const unsigned count = reinterpret_cast<unsigned (*)(unsigned*, unsigned)>(describe)(numbers.data(), kMostParameters);
  if (count > kMostParameters) return false;
  for (unsigned i = 0; i < count; ++i) {
    const std::uint32_t size = numbers[3 * i], align = numbers[3 * i + 1];
    const std::uint32_t offset = (loaded->argument_bytes + align - 1) / align * align;
    loaded->parameters.push_back({offset, size, static_cast<Parameter::Kind>(numbers[3 * i + 2])});
    loaded->argument_bytes = offset + size;
  }
  if (!kernel.meets && loaded->static_shared_bytes == 0) {
    kernels_.push_back(std::move(loaded));
    return true;
  }
  // Shared memory is not zero when a block begins. The pointers that the text keeps there are set behind this.
  loaded->code.before_block = [library = library_, bytes = thread_local_bytes_, touch] {
    reinterpret_cast<void (*)()>(touch)();
    void* own = nullptr;
    if (dlinfo(library, RTLD_DI_TLS_DATA, &own) == 0 && own != nullptr) std::memset(own, 0xCD, bytes);
  };
  kernels_.push_back(std::move(loaded));
  return true;
}

LoadedCode::~LoadedCode() {
  if (library_ != nullptr) dlclose(library_);
}

const LoadedKernel* LoadedCode::find(const std::string& name) const {
  for (const auto& kernel : kernels_) {
    if (kernel->name == name) return kernel.get();
  }
  return nullptr;
}

}  // namespace crucible::emulator
