// Opening libraries by name: see vendor_library.hpp.
#include "plugins/sdk/vendor_library.hpp"

#include <dlfcn.h>
#include <link.h>

#include "plugins/abi/crucible_plugin.h"
#include "plugins/sdk/error.hpp"

namespace crucible::sdk {

VendorLibrary VendorLibrary::open(std::string_view what, std::span<const std::string> names, std::string_view advice) {
  std::string tried;
  for (const std::string& name : names) {
    if (void* const handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return {handle, name};
    const char* const reason = dlerror();
    tried += (tried.empty() ? "" : "; ") + (reason != nullptr ? std::string(reason) : name + ": no reason is told");
  }
  throw Failure(CRUCIBLE_E_UNAVAILABLE,
                std::string(what) + (names.size() == 1 ? " " + names.front() : "") + " cannot be loaded (" + tried +
                    "): " + std::string(advice),
                {{"where", names.empty() ? "" : names.front()}});
}

void* VendorLibrary::find(const char* symbol) const { return dlsym(handle_, symbol); }

void VendorLibrary::require_complete(const std::string& missing, std::string_view needed) const {
  if (missing.empty()) return;
  throw Failure(CRUCIBLE_E_INCOMPATIBLE,
                "the library " + file() + " lacks " + missing + ": it is no " + std::string(needed));
}

std::string VendorLibrary::file() const {
  link_map* map = nullptr;
  if (dlinfo(handle_, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr || map->l_name == nullptr) return name_;
  return *map->l_name != '\0' ? map->l_name : name_;
}

}  // namespace crucible::sdk
