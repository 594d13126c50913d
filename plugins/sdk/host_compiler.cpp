// One compiler process per text (child_program.hpp), and what it made loaded into this process.
#include "plugins/sdk/host_compiler.hpp"

#include <dlfcn.h>
#include <link.h>

#include <filesystem>
#include <system_error>

#include "plugins/sdk/child_program.hpp"
#include "plugins/sdk/error.hpp"

namespace crucible::sdk {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kNames[] = {"clang-19", "clang-22", "clang-21", "clang-20", "clang-18",
                                       "clang-17", "clang",    "cc",       "gcc"};

fs::path find_compiler(const std::string& wanted) {
  return require_program(wanted, kNames, "compiler", "install clang-19");
}

}  // namespace

std::unique_ptr<HostLibrary> HostLibrary::compile(const std::string& text, const std::string& compiler) {
  std::string log;
  std::unique_ptr<HostLibrary> library = load(build(text, compiler, log));
  library->log_ = log;
  return library;
}

std::string HostLibrary::compiler_id(const std::string& compiler) {
  std::error_code error;
  const fs::path program = find_compiler(compiler);
  const auto age = fs::last_write_time(program, error).time_since_epoch().count();
  return program.string() + " " + std::to_string(fs::file_size(program, error)) + " " + std::to_string(age);
}

std::string HostLibrary::build(const std::string& text, const std::string& compiler, std::string& log) {
  const fs::path program = find_compiler(compiler);
  const ScratchFolder folder;
  const fs::path source = folder.write("kernels.c", text), object = folder.path() / "kernels.so",
                 words_file = folder.path() / "log";
  std::error_code error;
  // Every rounding stays where the text has it; -nostdlib: what the compiler makes of copies is found in this process.
  std::vector<std::string> words = {program.string(),
                                    "-x",
                                    "c",
                                    "-std=gnu17",
                                    "-O2",
                                    "-march=native",
                                    "-fno-math-errno",
                                    "-fno-trapping-math",
                                    "-ffp-contract=off",
                                    "-fPIC",
                                    "-shared",
                                    "-nostdlib",
                                    "-w",
                                    "-o",
                                    object.string(),
                                    source.string()};
  // VectorCombine of LLVM 19 to 22 miscompiles products of a vector with itself: llvm/llvm-project issue 180338.
  const bool is_clang = fs::canonical(program, error).filename().string().find("clang") != std::string::npos;
  if (is_clang) words.insert(words.begin() + 1, {"-mllvm", "-disable-vector-combine"});
  const int status = run_program(words, words_file);
  if (status != 0 || !fs::exists(object, error)) {
    throw Failure(CRUCIBLE_E_INTERNAL, program.string() + " ended with status " + std::to_string(status) + ":\n" +
                                           read_bytes(words_file, 4000));
  }
  log = read_bytes(words_file, 65536);
  return read_bytes(object);
}

std::unique_ptr<HostLibrary> HostLibrary::load(const std::string& bytes) {
  const ScratchFolder folder;
  const fs::path object = folder.write("kernels.so", bytes);
  std::unique_ptr<HostLibrary> library(new HostLibrary);
  library->binary_bytes_ = bytes.size();
  library->handle_ = dlopen(object.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library->handle_ == nullptr) {
    throw Failure(CRUCIBLE_E_INTERNAL, std::string("what the C compiler made does not load: ") + dlerror());
  }
  return library;
}

HostLibrary::~HostLibrary() {
  if (handle_ != nullptr) dlclose(handle_);
}

HostKernel HostLibrary::kernel(const std::string& name) const {
  return reinterpret_cast<HostKernel>(dlsym(handle_, name.c_str()));
}

std::uint64_t HostLibrary::kernel_bytes(const std::string& name) const {
  Dl_info info = {};
  const ElfW(Sym)* symbol = nullptr;
  void* const address = dlsym(handle_, name.c_str());
  if (address == nullptr) return 0;
  const int found = dladdr1(address, &info, reinterpret_cast<void**>(const_cast<ElfW(Sym)**>(&symbol)), RTLD_DL_SYMENT);
  return found == 0 || symbol == nullptr ? 0 : symbol->st_size;
}

bool is_c_name(std::string_view name) {
  for (std::size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    if (!letter && (i == 0 || c < '0' || c > '9')) return false;
  }
  return !name.empty();
}

}  // namespace crucible::sdk
