// Kernels of tests in C, on the CPU plugin.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <utility>

#include "plugins/kernel_ir/serialize.hpp"
#include "plugins/loader/backend.hpp"

namespace crucible::backend {

/// "" where there is none.
inline std::string clang_path() {
  if (const char* const named = std::getenv("CRUCIBLE_CLANG")) return named;
  for (const char* name : {"clang-19", "clang-22", "clang-21", "clang-20", "clang-18", "clang-17"}) {
    const std::string path = std::string("/usr/bin/") + name;
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  return "";
}

/// Kernels in C, for what no kernel IR says. A host hands over kernel IR alone: each kernel comes as IR that is another
/// one for another text, and a compiler of the test's own, a script around clang, puts the text in its place.
class KernelsInC {
 public:
  /// The script and the texts are kept in `folder`; a script that is there already stays the same.
  explicit KernelsInC(std::filesystem::path folder) : folder_(std::move(folder)) {
    if (std::filesystem::exists(compiler())) return;
    std::ofstream(compiler())
        << "#!/bin/sh\nfor source; do :; done\n"
           "if [ -f \"$source\" ]; then\n"
           "  awk -v folder='"
        << folder_.string()
        << "' '"
           "/^void [a-z_0-9]*\\(/ { name = $2; sub(/\\(.*/, \"\", name); file = folder \"/\" name "
           "\".c\";\n"
           "  if ((getline line < file) > 0) { do print line; while ((getline line < file) > 0); "
           "close(file); skips = 1 } }\n"
           "!skips { print }\n"
           "/^}/ { skips = 0 }' \"$source\" > \"$source.planted\" && mv \"$source.planted\" "
           "\"$source\"\nfi\n"
           "exec "
        << clang_path() << " \"$@\"\n";
    std::filesystem::permissions(compiler(), std::filesystem::perms::owner_all);
  }
  /// For the option of this name.
  std::string compiler() const { return (folder_ / "clang-that-plants").string(); }

  KernelSource add(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / (name + ".c")) << text << "\n";
    kernel::KernelIr ir;
    ir.variables = {{DType::kI64, false}, {DType::kI64, false}};
    ir.exprs = {{.operation = kernel::Operation::kInteger,
                 .type = DType::kI64,
                 .integer = static_cast<std::int64_t>(std::hash<std::string>()(text) >> 1)}};
    ir.body = {{.kind = kernel::StmtKind::kGrid, .id = 0, .body = {{.kind = kernel::StmtKind::kLet, .id = 1, .a = 0}}}};
    return {name, "", kernel::serialize_ir(ir)};
  }

 private:
  std::filesystem::path folder_;
};

}  // namespace crucible::backend
