// oneDNN, found at run time: the functions that this plugin calls, by name, and the calls that are made of them. Built
// without oneDNN's header, or run without its library, every claim is declined.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "plugins/abi/crucible_plugin.h"

#if __has_include(<oneapi/dnnl/dnnl.h>)
#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_debug.h>
#if DNNL_VERSION_MAJOR == 2
#define CRUCIBLE_HAVE_ONEDNN 1
#endif
#endif

namespace crucible_cpu {

class OneDnn;

/// A description of ABI 0.1; the fields after it may be missing.
inline constexpr std::size_t kSmallestDescription = offsetof(crucible_library_desc, epilogue);

/// One claimed call, ready to run again and again on other addresses: stages one after the other, and the pieces of a
/// stage in any order and on any threads, where each uses the calling thread alone (NoOpenMpThreads). Threads: one run
/// at a time.
class LibraryCall {
 public:
  virtual ~LibraryCall() = default;
  virtual std::uint64_t scratch_bytes() const { return 0; }
  virtual std::uint32_t stages() const { return 1; }
  virtual std::uint32_t pieces(std::uint32_t stage) const = 0;
  /// Floating-point operations of all pieces, about.
  virtual double flops() const = 0;
  /// `buffers` as crucible_library_desc has them; `scratch` has scratch_bytes(). What goes wrong is kept for check().
  virtual void run_piece(void* const* buffers, std::byte* scratch, std::uint32_t stage,
                         std::uint32_t piece) noexcept = 0;
  /// After a run. Errors: INTERNAL or OUT_OF_MEMORY where oneDNN failed in it.
  virtual void check() = 0;
};

/// oneDNN, or null and the reason in `note`. `wanted` is the option "library": auto, onednn or none. Loaded once and
/// kept. Errors: UNAVAILABLE when "onednn" was asked for and is not there; UNSUPPORTED for another word.
std::shared_ptr<const OneDnn> open_onednn(const std::string& wanted, std::string& note);

/// The call for a description, cut for a device of so many threads. Errors: UNSUPPORTED with the reason when oneDNN
/// does not take it.
std::unique_ptr<LibraryCall> make_library_call(std::shared_ptr<const OneDnn> onednn, const crucible_library_desc& desc,
                                               int threads);

#ifdef CRUCIBLE_HAVE_ONEDNN

#define CRUCIBLE_ONEDNN_FUNCTIONS(X)                                                                                  \
  X(dnnl_version)                                                                                                     \
  X(dnnl_status2str)                                                                                                  \
  X(dnnl_sgemm)                                                                                                       \
  X(dnnl_engine_create) X(dnnl_stream_create) X(dnnl_stream_destroy) X(dnnl_memory_desc_init_by_tag)                  \
      X(dnnl_memory_desc_init_by_strides) X(dnnl_memory_desc_init_submemory)                                           \
      X(dnnl_memory_desc_equal) X(dnnl_memory_desc_get_size) X(dnnl_memory_create) X(dnnl_memory_destroy)             \
          X(dnnl_memory_set_data_handle) X(dnnl_primitive_attr_create) X(dnnl_primitive_attr_destroy)                 \
              X(dnnl_primitive_attr_set_scratchpad_mode) X(dnnl_primitive_desc_create) X(dnnl_primitive_desc_destroy) \
                  X(dnnl_primitive_desc_query_md) X(dnnl_primitive_create) X(dnnl_primitive_destroy)                  \
                      X(dnnl_primitive_execute) X(dnnl_reorder_primitive_desc_create)                                 \
                          X(dnnl_dilated_convolution_forward_desc_init)                                               \
                              X(dnnl_dilated_convolution_backward_data_desc_init)                                     \
                                  X(dnnl_dilated_convolution_backward_weights_desc_init)

/// The library's functions and its CPU engine. Threads: read-only after it was opened.
class OneDnn {
 public:
#define CRUCIBLE_ONEDNN_MEMBER(name) decltype(&::name) name = nullptr;
  CRUCIBLE_ONEDNN_FUNCTIONS(CRUCIBLE_ONEDNN_MEMBER)
#undef CRUCIBLE_ONEDNN_MEMBER
  dnnl_engine_t engine = nullptr;

  /// Errors: INTERNAL naming `what` when the status is not success.
  void check(dnnl_status_t status, const char* what) const;
};

std::unique_ptr<LibraryCall> make_matmul(std::shared_ptr<const OneDnn> onednn, const crucible_library_desc& desc,
                                         int threads);
std::unique_ptr<LibraryCall> make_convolution(std::shared_ptr<const OneDnn> onednn, const crucible_library_desc& desc,
                                              int threads);

#else

class OneDnn {};  // never made

#endif  // CRUCIBLE_HAVE_ONEDNN

}  // namespace crucible_cpu
