// dlopen round the compiler of core/.
#include "tests/emulators/ptx/load.hpp"

#include <dlfcn.h>

#include <fstream>
#include <utility>

#include "tests/emulators/core/compiler.hpp"

namespace crucible::emulators::ptx {
namespace {

/// -march=native: a cache that two machines share must not give one the other's code.
std::string processor() {
  std::ifstream stream("/proc/cpuinfo");
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with("flags")) return line;
  }
  return "";
}

}  // namespace

std::expected<Library, std::string> Library::load(Translation translation) {
  emulator::SharedObjectText source;
  source.text = translation.text + "/* " + processor() + " */\n";
  // -O2 keeps each rounding where the text has it; the C library's errno and the traps of floats are nobody's.
  source.flags = {"-std=gnu17", "-O2", "-march=native", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math",
                  "-fwrapv",    "-w"};
  const auto file = emulator::compile_shared_object(source);
  if (!file) return std::unexpected(file.error());
  void* const handle = dlopen(file->c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return std::unexpected(std::string("what the compiler made does not load: ") + dlerror());
  return Library(std::move(translation), handle);
}

Library::Library(Library&& other) noexcept
    : translation_(std::move(other.translation_)), handle_(std::exchange(other.handle_, nullptr)) {}

Library& Library::operator=(Library&& other) noexcept {
  std::swap(translation_, other.translation_);
  std::swap(handle_, other.handle_);
  return *this;
}

Library::~Library() {
  if (handle_ != nullptr) dlclose(handle_);
}

emulator::KernelCode Library::code(std::size_t index) const {
  const Kernel& kernel = translation_.kernels.at(index);
  emulator::KernelCode code;
  if (kernel.resumable) {
    code.thread =
        reinterpret_cast<decltype(code.thread)>(dlsym(handle_, ("emu_thread_" + std::to_string(index)).c_str()));
  } else {
    code.block = reinterpret_cast<decltype(code.block)>(dlsym(handle_, ("emu_block_" + std::to_string(index)).c_str()));
  }
  code.shared_bytes = kernel.shared_bytes;
  code.local_bytes = kernel.local_bytes;
  code.save_words = kernel.save_words;
  code.observed = translation_.telling.any();
  code.races = translation_.telling.shared;
  code.name = kernel.name;
  return code;
}

char* Library::address(const Global& global) const { return static_cast<char*>(dlsym(handle_, global.c_name.c_str())); }

}  // namespace crucible::emulators::ptx
