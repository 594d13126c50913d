/* The boundary between Crucible and a backend plugin: a C ABI, version 0.1. It is not frozen before 1.0.
 *
 * A plugin is one shared object with one exported function, crucible_plugin_query. The host and the plugin exchange
 * tables of functions; neither links the other. This header compiles as C11 and as C++.
 *
 * Rules: fixed-width integers only; every struct that may grow begins with struct_size and grows at its end only; a
 * NULL crucible_status is success, anything else is an error object that the receiver destroys; out-parameters are
 * written only on success; no exception, longjmp, abort or exit crosses the boundary. Thread tags: [ANY] any thread at
 * any time; [OBJ] the caller serialises calls on the first handle. */
#ifndef CRUCIBLE_PLUGIN_H_
#define CRUCIBLE_PLUGIN_H_
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

#define CRUCIBLE_ABI_MAJOR 0u
#define CRUCIBLE_ABI_MINOR 1u
#define CRUCIBLE_MAGIC 0x31435243u /* "CRC1" */
#define CRUCIBLE_EXPORT __attribute__((visibility("default")))

typedef struct crucible_str { const char* data; uint64_t size; } crucible_str;   /* borrowed, not NUL-terminated */

/* ---- errors ---- */
typedef int32_t crucible_code;
#define CRUCIBLE_OK 0
#define CRUCIBLE_E_INVALID_ARGUMENT 1 /* the caller's fault */
#define CRUCIBLE_E_UNSUPPORTED 2      /* this plugin or device can never do it */
#define CRUCIBLE_E_UNIMPLEMENTED 3    /* the table entry is absent; made by the host's fill-in */
#define CRUCIBLE_E_OUT_OF_MEMORY 4
#define CRUCIBLE_E_INCOMPATIBLE 5     /* ABI, driver or binary mismatch */
#define CRUCIBLE_E_UNAVAILABLE 6      /* a vendor library, driver, compiler or device is missing now */
#define CRUCIBLE_E_DEVICE_LOST 7
#define CRUCIBLE_E_EXEC_FAULT 8
#define CRUCIBLE_E_DATA_CORRUPT 10
#define CRUCIBLE_E_INTERNAL 12
typedef struct crucible_error crucible_error;
typedef struct crucible_error_table {
  uint32_t struct_size, reserved;
  void (*destroy)(crucible_error*);                 /* [ANY] */
  crucible_code (*code)(const crucible_error*);     /* [ANY] */
  crucible_str (*message)(const crucible_error*);   /* [ANY] valid until destroy; what, where, what to do */
} crucible_error_table;
struct crucible_error { const crucible_error_table* table; };
typedef crucible_error* crucible_status;

/* ---- typed key and value, for properties and statistics ---- */
#define CRUCIBLE_V_U64 2u
#define CRUCIBLE_V_STR 4u
typedef struct crucible_kv { crucible_str key; uint32_t type, reserved; uint64_t u; crucible_str s; } crucible_kv;
typedef void (*crucible_kv_sink)(void* user, const crucible_kv* items, uint32_t count); /* borrowed during the call */

typedef struct crucible_device crucible_device;
typedef struct crucible_buffer crucible_buffer;
typedef struct crucible_module crucible_module;
typedef struct crucible_kernel crucible_kernel; /* borrowed from its module */
typedef struct crucible_plan crucible_plan;

/* ---- services of the host ---- */
typedef struct crucible_host_api {
  uint32_t struct_size, abi_minor;
  void* ctx;
  void (*log)(void* ctx, uint32_t level, crucible_str component,
              crucible_str text); /* [ANY] 0 debug 1 info 2 warning 3 error */
  uint32_t (*get_option)(void* ctx, crucible_str key,
                         crucible_str* out); /* [ANY] 1 when set; lives as long as the host */
} crucible_host_api;

/* ---- interface tables ---- */
#define CRUCIBLE_IF_DEVICE 0x0001u  /* mandatory */
#define CRUCIBLE_IF_MEMORY 0x0002u  /* mandatory */
#define CRUCIBLE_IF_COMPILE 0x0004u /* mandatory */
#define CRUCIBLE_IF_PLAN 0x0005u    /* mandatory in 0.1 */
#define CRUCIBLE_IF_LIBRARY 0x0006u /* optional: without it the host generates everything */

typedef struct crucible_if_device {
  uint32_t struct_size, if_minor;
  crucible_status (*enumerate)(
      crucible_kv_sink one_call_per_device,
      void* user); /* [ANY] opens nothing; keys id name kind (str) threads memory_bytes (u64) */
  crucible_status (*open)(crucible_str device_id,
                          crucible_device** out); /* [ANY] options come through get_option: "threads" */
  crucible_status (*close)(crucible_device*);     /* [OBJ] after everything made from it is gone */
  crucible_status (*properties)(crucible_device*, crucible_kv_sink,
                                void* user); /* [ANY] also notes: what is missing and what that costs */
} crucible_if_device;

typedef struct crucible_if_memory {
  uint32_t struct_size, if_minor;
  crucible_status (*alloc)(crucible_device*, uint64_t size, uint64_t align,
                           crucible_buffer** out); /* [ANY] zero-filled */
  crucible_status (*free)(crucible_buffer*);                                                        /* [OBJ] */
  crucible_status (*write)(crucible_buffer*, uint64_t offset, const void* data,
                           uint64_t size); /* [OBJ] host to device, done on return */
  crucible_status (*read)(crucible_buffer*, uint64_t offset, void* data,
                          uint64_t size); /* [OBJ] device to host, done on return */
  crucible_status (*fill)(crucible_buffer*, uint64_t offset, uint64_t size, uint8_t byte);          /* [OBJ] */
  crucible_status (*address)(crucible_buffer*, uint64_t* out);              /* [ANY] device address of byte 0 */
  crucible_status (*stats)(crucible_device*, crucible_kv_sink, void* user); /* [ANY] keys live_bytes peak_bytes */
} crucible_if_memory;

/* Text in a dialect that the plugin declares, to a loaded module. The CPU plugin's dialect is "c". */
typedef struct crucible_compile_info {
  uint32_t struct_size, from_cache;
  uint64_t compile_ns, binary_bytes;
} crucible_compile_info;
typedef struct crucible_if_compile {
  uint32_t struct_size, if_minor;
  crucible_status (*dialect)(crucible_device*, crucible_str* out); /* [ANY] */
  /* Compiles `count` kernels that share the text `prelude`; each `texts[i]` defines the function `names[i]`.
   * Cached on disk by content (option "cache_dir"); the plugin may batch and use several processes. [ANY] */
  crucible_status (*compile)(crucible_device*, crucible_str prelude, const crucible_str* names,
                             const crucible_str* texts, uint32_t count, crucible_module** out,
                             crucible_compile_info* info);
  crucible_status (*kernel)(crucible_module*, crucible_str name, crucible_kernel** out); /* [ANY] */
  crucible_status (*unload)(crucible_module*); /* [OBJ] after plans that use it */
} crucible_if_compile;

/* ---- library calls ---- */
#define CRUCIBLE_LIB_MATMUL 0u
#define CRUCIBLE_LIB_CONV2D 1u
#define CRUCIBLE_LIB_CONV2D_BACKWARD_INPUT 2u
#define CRUCIBLE_LIB_CONV2D_BACKWARD_WEIGHT 3u
#define CRUCIBLE_MAX_RANK 8u
typedef struct crucible_view { /* in elements; rank <= CRUCIBLE_MAX_RANK */
  uint32_t rank, dtype; int64_t offset; int64_t sizes[CRUCIBLE_MAX_RANK]; int64_t strides[CRUCIBLE_MAX_RANK];
} crucible_view;
/* views: matmul a, b, c (c = alpha * a b); conv2d x, weight, y; backward input dy, weight, dx; backward weight dy, x,
 * dweight */
typedef struct crucible_library_desc {
  uint32_t struct_size, kind;
  crucible_view views[3];
  uint64_t alpha_f64_bits;
  int64_t stride[2], padding[2], dilation[2], groups;
} crucible_library_desc;
typedef struct crucible_if_library {
  uint32_t struct_size, if_minor;
  /* NULL when the plugin takes the call, and out_scratch is the workspace it needs per call; UNSUPPORTED when not.
   * [ANY] */
  crucible_status (*claim)(crucible_device*, const crucible_library_desc*, uint64_t* out_scratch_bytes);
} crucible_if_library;

/* ---- plans: a list of ops, run in order by one call ---- */
#define CRUCIBLE_OP_LAUNCH 1u
#define CRUCIBLE_OP_COPY 2u    /* buffers[0] = destination, buffers[1] = source, `size` bytes; may not overlap */
#define CRUCIBLE_OP_FILL 3u    /* buffers[0], `size` bytes of value `pattern` */
#define CRUCIBLE_OP_LIBRARY 4u /* buffers as in the description, then the scratch if it asked for some */
#define CRUCIBLE_SLOT_NONE 0xffffffffu
typedef struct crucible_scalar {
  uint64_t f64_bits;
  uint32_t slot, reserved;
} crucible_scalar; /* slot != NONE: patched */
typedef struct crucible_op {
  uint32_t struct_size, kind;
  crucible_kernel* kernel;                 /* LAUNCH */
  const crucible_library_desc* library;    /* LIBRARY */
  const uint64_t* buffers;                 /* device addresses */
  const crucible_scalar* scalars;          /* LAUNCH */
  uint32_t buffer_count, scalar_count;
  int64_t grid, grain;                     /* LAUNCH: work items; fewest that are worth a thread */
  uint64_t size, scratch_bytes;
  uint32_t pattern, reserved;
} crucible_op;
typedef struct crucible_if_plan {
  uint32_t struct_size, if_minor;
  crucible_status (*build)(crucible_device*, const crucible_op*, uint32_t count, uint32_t slot_count,
                           crucible_plan** out);                                       /* [ANY] copies all it needs */
  crucible_status (*set_slots)(crucible_plan*, const double* values, uint32_t count);  /* [OBJ] all of them, in order */
  crucible_status (*replay)(crucible_plan*);                                           /* [OBJ] done on return */
  crucible_status (*profile)(crucible_plan*, uint64_t* out_ns,
                             uint32_t count); /* [OBJ] one replay, nanoseconds per op */
  crucible_status (*destroy)(crucible_plan*);                                          /* [OBJ] */
} crucible_if_plan;

/* ---- the plugin ---- */
typedef struct crucible_plugin_api {
  uint32_t struct_size, abi_minor;
  crucible_status (*init)(const crucible_host_api*);  /* before anything below, and again only after shutdown */
  crucible_status (*shutdown)(void);                  /* the end of what init began: no thread of the plugin runs */
  const void* (*interface_table)(uint32_t id);        /* [ANY] static storage, or NULL */
} crucible_plugin_api;
typedef struct crucible_query_in { uint32_t struct_size, magic, host_major, host_minor; } crucible_query_in;
typedef struct crucible_query_out {
  uint32_t struct_size, magic, abi_major, abi_minor;
  crucible_str name, vendor, version;
  const crucible_plugin_api* api;
  char reject_reason[192];                            /* filled when the query returns non-zero */
} crucible_query_out;
/* The only exported symbol. Touches no vendor library, allocates nothing, starts no thread, reads no environment. */
typedef int32_t (*crucible_plugin_query_fn)(const crucible_query_in*, crucible_query_out*);
#define CRUCIBLE_QUERY_SYMBOL "crucible_plugin_query"
CRUCIBLE_EXPORT int32_t crucible_plugin_query(const crucible_query_in*, crucible_query_out*);

#ifdef __cplusplus
}
#endif
#endif /* CRUCIBLE_PLUGIN_H_ */
