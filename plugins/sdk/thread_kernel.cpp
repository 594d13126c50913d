// Printing kernels for devices with threads, and dealing them out to compilers: see thread_kernel.hpp.
#include "plugins/sdk/thread_kernel.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

#include "plugins/sdk/batch_kernel.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/mathematics.hpp"

namespace crucible::sdk {
namespace {

// Kernels of one text: fewer, and most of the time goes into the mathematics; more, and one core compiles while others
// wait.
constexpr std::size_t kBatch = 4;
// Of a block; fewer than kMostBlockThreads where a launch has too few items for all multiprocessors.
constexpr std::uint32_t kLeastThreads = 32;
constexpr std::int64_t kMostBlocks = std::int64_t{1} << 20;

/// The function of the items, and a kernel that takes its buffers' addresses from a table.
std::string text_with_table(const Kernel& kernel, const Dialect& dialect, const std::string& name, const Team& team) {
  const std::string function = "items_of_" + name;
  Dialect inner = dialect;
  inner.kernel = "CRUCIBLE_FN void ";
  std::string text = print_kernel(kernel, inner, function, team), parameters, arguments;
  for (std::size_t i = 0; i < kernel.buffers.size(); ++i)
    arguments += "(" + pointee(kernel.buffers[i]) + "*)table[" + std::to_string(i) + "], ";
  for (std::uint32_t i = 0; i < kernel.scalars.size(); ++i) {
    parameters += std::string(scalar_type(kernel.scalars[i])) + " s" + std::to_string(i) + ", ";
    arguments += "s" + std::to_string(i) + ", ";
  }
  return text + std::string(dialect.kernel) + name + "(const uint64_t* table, " + parameters +
         "int64_t begin, int64_t end) {\n  " + function + "(" + arguments + "begin, end);\n}\n";
}

}  // namespace

ThreadKernel print_thread_kernel(const Kernel& kernel, const Dialect& dialect, const std::string& name,
                                 std::uint32_t lanes) {
  ThreadKernel result;
  result.buffer_count = static_cast<std::uint32_t>(kernel.buffers.size());
  result.scalar_count = static_cast<std::uint32_t>(kernel.scalars.size());
  const std::uint64_t scalars = 8 * (std::uint64_t{kernel.scalars.size()} + 2);  // and begin and end
  if (scalars + 8 > kMostArgumentBytes) {
    throw Failure(CRUCIBLE_E_UNSUPPORTED,
                  "kernel " + name + " has " + std::to_string(kernel.scalars.size()) +
                      " scalars, more than a launch can hand over",
                  {{"kernel", name}});
  }
  result.has_table = scalars + 8 * kernel.buffers.size() > kMostArgumentBytes;
  const Team team = dialect.meet.empty() ? Team() : plan_threads(kernel, lanes);
  result.alignment = assumed_alignment(kernel, dialect, team);
  result.lanes = team.lanes;
  if (team.lanes > 1) result.most_threads = team.lanes * team.most;
  for (const Stmt& stmt : kernel.body) {
    const auto wide = team.wide.find(&stmt);
    if (wide != team.wide.end()) result.items = wide->second.width;
  }
  result.text =
      result.has_table ? text_with_table(kernel, dialect, name, team) : print_kernel(kernel, dialect, name, team);
  result.batch = batch_part(kernel, dialect, name, result);
  for (const IrBuffer& buffer : kernel.buffers) result.written.push_back(buffer.written);
  return result;
}

ThreadKernels print_thread_kernels(const std::map<std::string, Kernel>& kernels, const Dialect& dialect,
                                   std::uint32_t lanes) {
  ThreadKernels printed;
  for (const auto& [name, kernel] : kernels) printed.emplace(name, print_thread_kernel(kernel, dialect, name, lanes));
  return printed;
}

std::vector<KernelBatch> batch_kernels(const ThreadKernels& kernels, const Dialect& dialect, bool is_careful) {
  const std::string mathematics = math_text(dialect);
  std::vector<KernelBatch> batches;
  for (const auto& [name, kernel] : kernels) {
    if (batches.empty() || batches.back().names.size() == kBatch)
      batches.push_back({.names = {}, .text = mathematics + "\n", .is_careful = is_careful});
    batches.back().names.push_back(name);
    batches.back().text += kernel.text + "\n";
  }
  return batches;
}

void for_each_batch(std::size_t count, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  const auto serve = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
      }
    }
  };
  std::vector<std::thread> threads;
  const std::size_t most = std::min<std::size_t>(count, std::max(1u, std::thread::hardware_concurrency()));
  for (std::size_t i = 1; i < most; ++i) threads.emplace_back(serve);
  serve();
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
}

LaunchShape launch_shape(std::int64_t items, std::uint32_t most_threads, std::uint64_t units, std::uint32_t lanes) {
  const std::int64_t wanted = std::max<std::int64_t>(items, 1) * lanes;
  const auto per_unit = static_cast<std::uint64_t>(wanted - 1) / std::max<std::uint64_t>(units, 1) + 1;
  std::uint32_t threads = std::max(kLeastThreads, lanes);
  while (threads < kMostBlockThreads && threads * 2 <= most_threads && threads < per_unit) threads *= 2;
  threads = std::min(threads, std::max(most_threads, 1u));
  return {blocks_of(items, threads, lanes), threads};
}

std::uint32_t blocks_of(std::int64_t items, std::uint32_t threads, std::uint32_t lanes) {
  const std::int64_t wanted = std::max<std::int64_t>(items, 1) * lanes;
  return static_cast<std::uint32_t>(std::min((wanted - 1) / threads + 1, kMostBlocks));
}

}  // namespace crucible::sdk
