// Looking a function up by its name: see native_math.hpp.
#include "core/kernel/math/native_math.hpp"

#include <cstddef>
#include <unordered_map>

/// What write_native_math.cpp writes.
struct CrucibleNativeFunction {
  const char* name;
  crucible::kernel::NativeFunction function;
};
extern "C" const CrucibleNativeFunction crucible_native_functions[];
extern "C" const std::size_t crucible_native_function_count;

namespace crucible::kernel {

NativeFunction native_function(std::string_view name) {
  static const std::unordered_map<std::string_view, NativeFunction> kByName = [] {
    std::unordered_map<std::string_view, NativeFunction> found;
    for (std::size_t i = 0; i < crucible_native_function_count; ++i)
      found.emplace(crucible_native_functions[i].name, crucible_native_functions[i].function);
    return found;
  }();
  const auto at = kByName.find(name);
  return at == kByName.end() ? nullptr : at->second;
}

}  // namespace crucible::kernel
