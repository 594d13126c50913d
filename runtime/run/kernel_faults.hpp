// A compiled kernel that reaches beyond its memory, on a device that is the host: the process says which op of the
// recorded program the kernel is of, and ends. What lies around a kernel's memory are pages that nobody may touch (the
// CPU plugin makes them).
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace crucible::runtime {

struct KernelTable;  // of the other file

/// Names of kernels, each with the ops that it is of, for the report of a fault; known while it lives. Threads: any.
class NamedKernels {
 public:
  NamedKernels();
  explicit NamedKernels(std::vector<std::pair<std::string, std::string>> kernels);
  NamedKernels(NamedKernels&& other) noexcept;
  NamedKernels& operator=(NamedKernels&& other) noexcept;
  ~NamedKernels();

 private:
  void forget();
  std::unique_ptr<KernelTable> table_;
};

/// From now on a fault (SIGSEGV, SIGBUS) inside a named kernel prints "crucible: error: the kernel of OPS left its
/// memory ..." and ends the process with exit code 3. Every other fault does what it did. Of the program, once, never
/// of a library: a signal is the whole process's.
void report_kernel_faults();

}  // namespace crucible::runtime
