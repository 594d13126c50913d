// (7) From text to something that the device runs. Replace the bodies and the two handles, which no other file knows.
// In the dialect c a kernel is a function
//   void NAME(void* const* buffers, const double* scalars, int64_t begin, int64_t end)
// that does the work items [begin, end) of a launch; in the others it is
//   NAME(T* b0, T* b1, ..., double s0, ..., int64_t begin, int64_t end)
// started with as many threads as you like. Items are independent of each other. The SDK prints and keeps programs.
#include <crucible/sdk/host_compiler.hpp>
#include <crucible/sdk/text_module.hpp>

#include "device.hpp"

struct crucible_kernel : crucible::sdk::TextKernel {
  crucible::sdk::HostKernel function = nullptr;  // your driver's handle of a kernel
};
struct crucible_module : crucible::sdk::TextModule<crucible_device, crucible_kernel> {
  std::unique_ptr<crucible::sdk::HostLibrary> library;  // your driver's handle of a program
};

namespace acme {
namespace {

struct Programs {
  static const sdk::Dialect& dialect() { return acme::dialect(); }
  /// What a compiled program depends on beside its text: your device's capability (target), driver and compiler.
  static sdk::KeptKey key(crucible_device&) {
    return {.toolchain = sdk::HostLibrary::compiler_id(options().get_text("compiler"))};
  }
  /// Yours takes program.text, with dialect().flags. Errors: sdk::Failure(CRUCIBLE_E_INTERNAL, the compiler's words).
  static std::string compile(crucible_device&, const sdk::ProgramText& program, std::string& log) {
    return sdk::HostLibrary::build(program.in(sdk::dialect_c()), options().get_text("compiler"), log);
  }
  static void load(crucible_module& module, const std::string& bytes) {
    module.library = sdk::HostLibrary::load(bytes);
    for (auto& [name, kernel] : module.kernels) {
      kernel.function = module.library->kernel(name);
      kernel.binary_bytes = module.library->kernel_bytes(name);
      sdk::require(kernel.function != nullptr, "a kernel's text defines no function of its name");
    }
  }
};

}  // namespace

sdk::KernelShape shape_of(const crucible_kernel& kernel) { return sdk::shape_of(kernel); }

void launch(crucible_device&, const sdk::ListedOp& op) {
  op.kernel->function(arguments(op).data(), op.numbers(), 0, op.grid);
}

const crucible_if_compile kCompileTable =
    sdk::make_text_compile_table<crucible_device, crucible_module, crucible_kernel, Programs>();

}  // namespace acme
