// cl_khr_command_buffer and cl_khr_command_buffer_mutable_dispatch as drivers have had them: the extensions' functions
// changed their parameters between provisional versions, so the declarations are our own and the driver's version
// chooses among them.
//   cl_khr_command_buffer            0.9.4 added copies and fills of pointers; 0.9.5 gave every recorded command a list
//   of properties
//   ..._mutable_dispatch             0.9.2 made the changes an array, where they were a chain of structs
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "backends/opencl/opencl.hpp"

namespace crucible_opencl {

struct DeviceFacts;

using CommandBufferHandle = struct CommandBufferObject*;
using MutableCommand = struct MutableCommandObject*;  // of one command buffer

/// Argument `index` of a recorded launch becomes the `size` bytes at `value`.
struct CommandChange {
  MutableCommand command = nullptr;
  cl_uint index = 0;
  std::size_t size = 0;
  const void* value = nullptr;
};

/// The extension of one device's driver.
struct CommandBufferFunctions {
  cl_int (*release)(CommandBufferHandle) = nullptr;
  cl_int (*finalize)(CommandBufferHandle) = nullptr;
  CommandBufferHandle (*create)(cl_uint, const cl_command_queue*, const cl_ulong*, cl_int*) = nullptr;
  cl_int (*enqueue)(cl_uint, cl_command_queue*, CommandBufferHandle, cl_uint, const cl_event*, cl_event*) = nullptr;
  cl_int (*launch)(CommandBufferHandle, cl_command_queue, const cl_ulong*, cl_kernel, cl_uint, const std::size_t*,
                   const std::size_t*, const std::size_t*, cl_uint, const cl_uint*, cl_uint*,
                   MutableCommand*) = nullptr;
  // Their parameters depend on the version.
  void *copy_buffer = nullptr, *fill_buffer = nullptr, *copy_pointer = nullptr, *fill_pointer = nullptr,
       *update = nullptr;
  cl_version version = 0, mutable_version = 0;
  std::string why_not;         // command buffers are not used; "": they are
  std::string why_not_change;  // a recorded launch cannot be changed; "": it can

  bool usable() const { return why_not.empty(); }
  bool can_change() const { return usable() && why_not_change.empty(); }
};

/// Threads: any. Errors: none; what is missing is in the answer.
CommandBufferFunctions find_command_buffers(const Functions& cl, const DeviceFacts& facts);

/// "0.9.0"
std::string version_text(cl_version version);

/// Commands recorded once and enqueued together, in their order. Threads: one at a time.
class CommandBuffer {
 public:
  CommandBuffer() = default;
  /// Errors: the driver's code.
  CommandBuffer(const CommandBufferFunctions& functions, cl_command_queue queue);
  CommandBuffer(CommandBuffer&& other) noexcept;
  CommandBuffer& operator=(CommandBuffer&& other) noexcept;
  ~CommandBuffer();
  explicit operator bool() const { return handle_ != nullptr; }

  /// Recording. Errors: the driver's code; UNSUPPORTED for pointers where the version has no such command.
  void launch(cl_kernel kernel, std::size_t global_size, std::size_t local_size, MutableCommand* out_changeable);
  void copy(cl_mem to, std::size_t to_offset, cl_mem from, std::size_t from_offset, std::size_t size);
  void copy(void* to, const void* from, std::size_t size);
  void fill(cl_mem memory, const void* pattern, std::size_t pattern_size, std::size_t offset, std::size_t size);
  void fill(void* to, const void* pattern, std::size_t pattern_size, std::size_t size);
  void finalize();

  /// Behind finalize(). Errors: the driver's code.
  void enqueue();
  /// Behind finalize(), while it is not running; all changes or none. Errors: the driver's code.
  void change(std::span<const CommandChange> changes);

 private:
  bool has_properties() const;
  const CommandBufferFunctions* functions_ = nullptr;
  CommandBufferHandle handle_ = nullptr;
};

}  // namespace crucible_opencl
