// What the file must be before any of its code runs.
#include <elf.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "plugins/abi/crucible_plugin.h"
#include "plugins/conformance/case.hpp"
#include "plugins/conformance/elf_facts.hpp"
#include "plugins/conformance/verdict.hpp"

namespace crucible::conformance {
namespace {

/// Libraries that every Linux system has; all others must be opened at run time, so that their absence can be told.
bool is_allowed(std::string_view library) {
  static constexpr std::string_view kAllowed[] = {
      "libc.so.6",  "libm.so.6",  "libstdc++.so.6",       "libgcc_s.so.1",         "libpthread.so.0",
      "libdl.so.2", "librt.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1", "ld-linux-riscv64-lp64d.so.1"};
  if (std::ranges::find(kAllowed, library) != std::end(kAllowed)) return true;
  // A plugin that was built for a sanitizer's run.
  return library.starts_with("libasan.so") || library.starts_with("libubsan.so") || library.starts_with("libtsan.so");
}

ElfFacts facts_of(const Settings& settings) {
  Result<ElfFacts> facts = read_elf(settings.plugin);
  if (!facts) fail("a shared object that can be read", facts.error().message);
  return *std::move(facts);
}

void one_symbol(const Settings& settings) {
  const ElfFacts facts = facts_of(settings);
  std::string others;
  bool found = false;
  for (const std::string& name : facts.exported) {
    if (name == CRUCIBLE_QUERY_SYMBOL) {
      found = true;
    } else if (others.size() < 300) {
      others += (others.empty() ? "" : ", ") + name;
    }
  }
  expect(found, fmt::format("{} is exported", CRUCIBLE_QUERY_SYMBOL), "it is not");
  expect(others.empty(), "nothing else is exported", "also " + others);
}

void libraries(const Settings& settings) {
  for (const std::string& library : facts_of(settings).needed) {
    expect(is_allowed(library), "only the C and C++ run-time libraries are linked; a vendor's are opened with dlopen",
           "it needs " + library);
  }
}

void undefined_symbols(const Settings& settings) {
  for (const UndefinedSymbol& symbol : facts_of(settings).undefined) {
    if (symbol.weak) continue;
    if (symbol.library.empty()) {
      // Sanitizers' own functions carry no version.
      if (symbol.name.starts_with("__asan_") || symbol.name.starts_with("__ubsan_") ||
          symbol.name.starts_with("__tsan_") || symbol.name.starts_with("__sanitizer_"))
        continue;
      fail("every undefined symbol belongs to a run-time library",
           symbol.name + " belongs to none: link what defines it into the plugin");
    }
    expect(is_allowed(symbol.library), "every undefined symbol belongs to the C or C++ run-time library",
           symbol.name + " is from " + symbol.library);
  }
}

void machine(const Settings& settings) {
  const ElfFacts facts = facts_of(settings);
  const Result<ElfFacts> own = read_elf("/proc/self/exe");
  if (own) expect_equal(facts.machine, own->machine, "the ELF machine");
  expect(!facts.executable_stack, "its stack is not executable", "PT_GNU_STACK asks for an executable one");
  expect(!facts.text_relocations, "its code is position-independent",
         "it has relocations in its code: build it with -fPIC");
}

void search_path(const Settings& settings) {
  const std::string path = facts_of(settings).search_path;
  for (std::size_t start = 0; start < path.size();) {
    const std::size_t end = std::min(path.find(':', start), path.size());
    const std::string entry = path.substr(start, end - start);
    expect(entry.starts_with("/") || entry.starts_with("$ORIGIN") || entry.starts_with("${ORIGIN}"),
           "its search path has absolute folders or $ORIGIN alone", "'" + entry + "' depends on the current folder");
    start = end + 1;
  }
}

void mode(const Settings& settings) {
  struct stat status = {};
  expect(stat(settings.plugin.c_str(), &status) == 0, "the file can be looked at", settings.plugin.string());
  expect((status.st_mode & S_IWOTH) == 0, "nobody but owner and group may write the file",
         fmt::format("its mode is {:o}", status.st_mode & 07777));
  expect((status.st_mode & (S_ISUID | S_ISGID)) == 0, "the file has neither setuid nor setgid",
         fmt::format("its mode is {:o}", status.st_mode & 07777));
}

}  // namespace

std::vector<Case> static_cases() {
  const auto make = [](std::string name, std::string rule, void (*run)(const Settings&)) {
    return Case{"static." + std::move(name), Tier::kStatic, std::move(rule), true, run, 20};
  };
  return {
      make("exports.query_alone", "the plugin exports crucible_plugin_query and nothing else", one_symbol),
      make("needs.run_time_libraries_alone", "the plugin links the C and C++ run-time libraries alone", libraries),
      make("undefined.in_allowed_libraries", "no symbol is undefined outside the run-time libraries",
           undefined_symbols),
      make("elf.machine_and_protection", "the file is for this machine, with code that is not written", machine),
      make("elf.search_path", "the file looks for libraries in fixed places alone", search_path),
      make("file.mode", "others cannot change the file", mode),
  };
}

}  // namespace crucible::conformance
