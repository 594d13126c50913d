// (7) From text to something that the device runs. Replace the body by your compiler, with dialect().flags, and drop
// `host_text`. In the dialect c a kernel is a function
//   void NAME(void* const* buffers, const double* scalars, int64_t begin, int64_t end)
// that does the work items [begin, end) of a launch; in the others it is
//   NAME(T* b0, T* b1, ..., double s0, ..., int64_t begin, int64_t end)
// started with as many threads as you like. Items are independent of each other.
#include <crucible/sdk/error.hpp>

#include "kernel.hpp"

namespace acme {

using namespace crucible;

void build_module(crucible_module& module, const std::string& text, const std::string& host_text) {
  module.text = text;
  module.library = sdk::HostLibrary::compile(host_text, module.device->compiler);
  for (auto& [name, kernel] : module.kernels) {
    kernel.function = module.library->kernel(name);
    kernel.binary_bytes = module.library->kernel_bytes(name);
    if (kernel.function != nullptr) continue;
    throw sdk::Failure(CRUCIBLE_E_INVALID_ARGUMENT, "the text of kernel " + name + " defines no such function",
                       {{"kernel", name}});
  }
}

}  // namespace acme
