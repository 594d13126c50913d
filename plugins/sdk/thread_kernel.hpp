// Kernels as C++ whose threads do neighbouring items (CUDA, HIP), and how such a kernel gets its buffers: as arguments,
// or, where it has more than a driver takes, from a table in the device's memory. Also the launch's shape.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "plugins/sdk/c_dialect.hpp"

namespace crucible::sdk {

/// What drivers of any age take as one kernel's arguments.
inline constexpr std::uint64_t kMostArgumentBytes = 4096;

/// What a kernel is in one that does many launches (batch_kernel.hpp).
struct BatchPart {
  std::string text, call;  // a function, and the words that call it
  bool operator==(const BatchPart&) const = default;
};

struct ThreadKernel {
  std::string text;
  BatchPart batch = {};       // empty: it cannot be in one
  std::vector<bool> written;  // of each buffer
  std::uint32_t buffer_count = 0, scalar_count = 0;
  // Its arguments, eight bytes each: the buffers (or the table's address, if has_table), the scalars (f64 or i64),
  // begin and end.
  bool has_table = false;
  std::uint32_t alignment = 1;  // of the buffers' addresses
  // The threads that do an item together, and the most that a block may have of them all, as the text has room for.
  std::uint32_t lanes = 1, most_threads = kMostBlockThreads;
  std::uint32_t items = 1;  // neighbouring ones, that a thread does at once
  bool operator==(const ThreadKernel&) const = default;
};
using ThreadKernels = std::map<std::string, ThreadKernel, std::less<>>;

/// The kernel `name` in `dialect`, which is one of C++. `lanes`: threads that run in step, which do an item together
/// where that suits the kernel (team_kernel.hpp); 1: none do. Errors: throws Failure UNSUPPORTED, naming the kernel,
/// when its scalars alone are more than kMostArgumentBytes.
ThreadKernel print_thread_kernel(const Kernel& kernel, const Dialect& dialect, const std::string& name,
                                 std::uint32_t lanes = 1);

/// Each by its name. Errors: those of print_thread_kernel().
ThreadKernels print_thread_kernels(const std::map<std::string, Kernel>& kernels, const Dialect& dialect,
                                   std::uint32_t lanes = 1);

/// The kernels dealt out to texts that may be compiled side by side, each with the mathematics in front: the same
/// kernels give the same texts, on whatever machine.
struct KernelBatch {
  std::vector<std::string> names;
  std::string text;
  bool is_careful = false;  // to be compiled with less optimisation
};
std::vector<KernelBatch> batch_kernels(const ThreadKernels& kernels, const Dialect& dialect, bool is_careful = false);

/// Runs work(i) for each i below `count` on as many threads as the machine has; the first failure is thrown when all
/// are done.
void for_each_batch(std::size_t count, const std::function<void(std::size_t)>& work);

/// Blocks and threads of a block for `items` work items; each thread, or team of them, goes on by the width of the
/// grid.
struct LaunchShape {
  std::uint32_t blocks = 1, threads = 32;
};
/// `most_threads` is what the kernel's registers and shared memory leave of a block, at least `lanes`; `units` how many
/// multiprocessors share the launch; `lanes` how many threads do an item together, a power of two.
LaunchShape launch_shape(std::int64_t items, std::uint32_t most_threads, std::uint64_t units, std::uint32_t lanes = 1);
/// How many of them where a block has `threads`.
std::uint32_t blocks_of(std::int64_t items, std::uint32_t threads, std::uint32_t lanes);

}  // namespace crucible::sdk
