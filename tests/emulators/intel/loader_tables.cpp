// How the vendor's loader, libze_loader.so.1, finds a driver's functions: it opens the library that
// ZE_ENABLE_ALT_DRIVERS names and asks for tables of them, all of which must be there before zeInit finds the driver.
// Entries are looked up in this library by their names, so that a function written in any of its files is behind the
// loader too.
#include <dlfcn.h>

#include <string>
#include <string_view>

#include "tests/emulators/intel/machine.hpp"

namespace {

constexpr std::uint32_t kMajor = 1, kMinor = 4;  // of the interface whose tables are in loader_tables.inc

/// This library, and no other with functions of the same names: the loader's own are in the process too.
void* this_library() {
  static void* const handle = [] {
    Dl_info here = {};
    return dladdr(reinterpret_cast<const void*>(&this_library), &here) != 0
               ? dlopen(here.dli_fname, RTLD_NOW | RTLD_NOLOAD)
               : nullptr;
  }();
  return handle;
}

ze_result_t fill(std::uint32_t version, void** table, const char* what, std::string_view names) {
  if (table == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  if (version >> 16 != kMajor || (version & 0xffff) < kMinor || this_library() == nullptr) {
    crucible::emulator::faults().note(std::string(what) + ": a loader of " + std::to_string(version >> 16) + "." +
                                      std::to_string(version & 0xffff) + ", 1." + std::to_string(kMinor) +
                                      " or newer is needed");
    return ZE_RESULT_ERROR_UNSUPPORTED_VERSION;
  }
  while (!names.empty()) {
    const std::string name(names.substr(0, names.find(' ')));
    *table++ = dlsym(this_library(), name.c_str());
    names.remove_prefix(std::min(names.size(), name.size() + 1));
  }
  return ZE_RESULT_SUCCESS;
}

}  // namespace

#define CRUCIBLE_TABLE(function, names)                                  \
  extern "C" ze_result_t function(std::uint32_t version, void** table) { \
    return fill(version, table, #function, names);                       \
  }
#include "tests/emulators/intel/loader_tables.inc"
