// What can be known of a shared object without running any of its code: read from the file by position, every offset
// checked before it is followed, so that a damaged file is a reason and never a crash.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace crucible::backend {

/// What the headers of one file say.
struct Inspection {
  std::string problem;  // why it can never be loaded here ("it is not an ELF file"); empty: nothing is wrong
  std::vector<std::string> exports;  // names that its dynamic symbol table defines for others
  std::vector<std::string> needed;   // the libraries that it needs, as it names them
  std::vector<std::string> folders;  // where it says that they are: RUNPATH or RPATH, $ORIGIN not yet replaced
  bool exports_symbol(std::string_view name) const;
};

/// Reads the open file. Threads: any.
Inspection inspect_file(int descriptor);

/// `needed` and `folders` alone, which is quick for a library of a hundred thousand symbols. Threads: any.
Inspection inspect_needs(int descriptor);

/// True when `file` is a shared object for this machine whose dynamic symbol table defines `symbol`. False for
/// everything else, damaged files included. Threads: any.
bool exports_symbol(const std::filesystem::path& file, std::string_view symbol);

}  // namespace crucible::backend
