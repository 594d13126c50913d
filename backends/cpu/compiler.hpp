// Which C compiler turns kernels into machine code, with which flags, and what identifies the result of using it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace crucible_cpu {

struct Compiler {
  std::filesystem::path path;
  std::vector<std::string> flags;
  std::string before;    // C text that stands before the mathematics
  // What its objects depend on beside the text: equal ones make equal objects.
  std::string toolchain;  // the program's file and version
  std::string target;     // the processor
};

/// How kernels are to be compiled.
struct CompileWay {
  bool is_careful = false;     // with less optimisation, for kernels that came out wrong with all of it
  bool is_sanitizing = false;  // so that they check themselves (sanitize.hpp)
};

/// `wanted` is a path or a name; "" looks for clang-19, then for other versions from 17 on, then for gcc. Threads: any.
/// Errors: UNAVAILABLE, with what was looked for and what to install.
Compiler find_compiler(const std::string& wanted, const CompileWay& way = {});

/// Its path, for people; "none found" where find_compiler() would fail.
std::string compiler_in_words(const std::string& wanted);

}  // namespace crucible_cpu
