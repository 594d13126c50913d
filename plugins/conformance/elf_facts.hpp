// What the file of a plugin says about itself, read without running any of its code.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/base/result.hpp"

namespace crucible::conformance {

struct UndefinedSymbol {
  std::string name;
  std::string library;  // the file that must have it, where the symbol is versioned; else ""
  bool weak = false;
};

struct ElfFacts {
  std::uint16_t type = 0, machine = 0;  // ET_DYN, EM_X86_64
  std::vector<std::string> needed;      // DT_NEEDED
  std::vector<std::string> exported;    // defined, global or weak, of default visibility
  std::vector<UndefinedSymbol> undefined;
  std::string search_path;  // DT_RPATH or DT_RUNPATH
  bool executable_stack = false;
  bool text_relocations = false;
};

/// Reads a 64-bit little-endian ELF file; every offset in it is checked before it is followed.
/// Errors: kBadInput saying what is wrong with the file.
Result<ElfFacts> read_elf(const std::filesystem::path& file);

}  // namespace crucible::conformance
