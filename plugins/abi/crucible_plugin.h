/* The boundary between Crucible and a backend plugin: a C ABI, version 0.7. It is not frozen before 1.0.
 * Generated from abi.toml by gen/generate.py: change that. The reference with every rule is docs/abi-reference.md.
 *
 * A plugin is one shared object with one exported function, crucible_plugin_query. The host and the plugin exchange
 * tables of functions; neither links the other. This header compiles as C11 and as C++.
 *
 * Rules: fixed-width integers only; every struct that may grow begins with struct_size and grows at its end only; a NULL
 * crucible_status is success, anything else is an error object that the receiver destroys; out-parameters are written
 * only on success; no exception, longjmp, abort or exit crosses the boundary.
 * Thread tags: [ANY] any thread at any time; [OBJ] the caller serialises calls on the first handle; [CB] also from a
 * callback of the host; [NB] never waits for the device. */
#ifndef CRUCIBLE_PLUGIN_H_
#define CRUCIBLE_PLUGIN_H_
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

#define CRUCIBLE_ABI_MAJOR 0u
#define CRUCIBLE_ABI_MINOR 7u
#define CRUCIBLE_ABI_OLDEST_MINOR 4u /* the oldest minor whose hosts and plugins work with this one's */
#define CRUCIBLE_MAGIC 0x31435243u
#define CRUCIBLE_EXPORT __attribute__((visibility("default")))


/* Error codes: (detail << 8) | category. A host that does not know the detail acts on the category. */
typedef int32_t crucible_code;
#define CRUCIBLE_OK 0 /* success; never in an error object */
#define CRUCIBLE_E_INVALID_ARGUMENT 1 /* the caller's fault */
#define CRUCIBLE_E_UNSUPPORTED 2 /* this plugin or device can never do it */
#define CRUCIBLE_E_UNIMPLEMENTED 3 /* the table entry is absent; made by the fill-in */
#define CRUCIBLE_E_OUT_OF_MEMORY 4 /* payload requested, available */
#define CRUCIBLE_E_INCOMPATIBLE 5 /* ABI, driver or binary mismatch; payload have, need */
#define CRUCIBLE_E_UNAVAILABLE 6 /* a vendor library, driver, compiler or device is missing now */
#define CRUCIBLE_E_DEVICE_LOST 7 /* sticky for the device until it is closed */
#define CRUCIBLE_E_EXEC_FAULT 8 /* illegal address, trap or time-out in a kernel */
#define CRUCIBLE_E_CANCELLED 9 /* given up at the caller's wish */
#define CRUCIBLE_E_DATA_CORRUPT 10 /* checksum, ECC, damaged binary */
#define CRUCIBLE_E_PERMISSION 11 /* performance counters and the like need rights */
#define CRUCIBLE_E_INTERNAL 12 /* the plugin's own fault */

/* Types of a crucible_kv. */
#define CRUCIBLE_V_I64 1u /* u holds the two's complement */
#define CRUCIBLE_V_U64 2u /* u */
#define CRUCIBLE_V_F64_BITS 3u /* u holds the bits of a double */
#define CRUCIBLE_V_STR 4u /* s */
#define CRUCIBLE_V_TRISTATE 5u /* u: 0 no, 1 yes, 2 unknown; s: the reason */

/* Levels of host.log. */
#define CRUCIBLE_LOG_DEBUG 0u
#define CRUCIBLE_LOG_INFO 1u
#define CRUCIBLE_LOG_WARNING 2u /* shown */
#define CRUCIBLE_LOG_ERROR 3u /* shown */

/* Kinds of library calls; the views of each. */
#define CRUCIBLE_LIB_MATMUL 0u /* a, b, c: c = alpha * a b, then the epilogue */
#define CRUCIBLE_LIB_CONV2D 1u /* x, weight, y */
#define CRUCIBLE_LIB_CONV2D_BACKWARD_INPUT 2u /* dy, weight, dx */
#define CRUCIBLE_LIB_CONV2D_BACKWARD_WEIGHT 3u /* dy, x, dweight */
#define CRUCIBLE_LIB_ATTENTION 4u /* q, k, v; `extra` is o = softmax(alpha * q k^T, masked) v, all [batch, heads, rows, width]; the buffers are q, k, v, o (since 0.2) */
#define CRUCIBLE_LIB_REDUCE 5u /* x, nothing, y: sums over the sizes that y lacks (since 0.2) */
#define CRUCIBLE_LIB_ATTENTION_FORWARD 6u /* an ATTENTION for training: `more[0]` is l, f32 [batch, heads, rows, 1], the logarithm of the sum of each row's exponentials, a second result; the buffers are q, k, v, o, l (since 0.5) */
#define CRUCIBLE_LIB_ATTENTION_BACKWARD 7u /* its gradient: views and `extra` as there, `more` is l, do, dq, dk, dv, of which the last three are results; the buffers are q, k, v, o, l, do, dq, dk, dv (since 0.5) */

/* What a MATMUL does to each element before it stores it. */
#define CRUCIBLE_EPILOGUE_NONE 0u
#define CRUCIBLE_EPILOGUE_BIAS 1u /* adds `extra`, of rank 1: a number for each column of c */
#define CRUCIBLE_EPILOGUE_BIAS_RELU 2u
#define CRUCIBLE_EPILOGUE_BIAS_GELU 3u

/* Which keys a query of an ATTENTION sees. */
#define CRUCIBLE_MASK_NONE 0u /* all of them */
#define CRUCIBLE_MASK_CAUSAL 1u /* query i the keys 0 to i, whatever the numbers of queries and keys are */

/* Kinds of ops in a list. */
#define CRUCIBLE_OP_LAUNCH 1u /* kernel over `grid` work items */
#define CRUCIBLE_OP_COPY 2u /* buffers[0] = destination, buffers[1] = source, `size` bytes; may not overlap */
#define CRUCIBLE_OP_FILL 3u /* buffers[0], `size` bytes of value `pattern` */
#define CRUCIBLE_OP_LIBRARY 4u /* buffers as in the description, then the scratch if it asked for some */

/* What the data of a crucible_kernel_source is. */
#define CRUCIBLE_FORM_KERNEL_IR 1u /* serialised kernel IR (docs/kernel-ir.md) */
#define CRUCIBLE_FORM_OPAQUE_OP 2u /* the description of a framework's op (docs/opaque-ops.md) */

/* Flags of compile.compile; a plugin leaves those alone that it does not know. */
#define CRUCIBLE_COMPILE_CAREFUL 1u /* the kernels came out wrong: with less optimisation, where the compiler has less */

/* By what the times of queue.timeline_times are measured. */
#define CRUCIBLE_CLOCK_HOST 0u /* the host's clock, before the plan was handed to the device and when it was seen to be done */
#define CRUCIBLE_CLOCK_DEVICE 1u /* events of the device, brought to the host's clock */

/* Answers of health.state. */
#define CRUCIBLE_STATE_OK 0u
#define CRUCIBLE_STATE_DEGRADED 1u
#define CRUCIBLE_STATE_LOST 2u

/* A scalar that no slot patches. */
#define CRUCIBLE_SLOT_NONE 0xffffffffu

/* Types of a scalar: what its eight bytes are. */
#define CRUCIBLE_SCALAR_F64 0u /* those of a double */
#define CRUCIBLE_SCALAR_I64 1u /* a whole number in two's complement (since 0.2) */

/* Limits. */
#define CRUCIBLE_MAX_RANK 8u /* dimensions of a view */

/* Objects; the plugin defines what they are. */
typedef struct crucible_device crucible_device; /* An opened device. close after everything made from it is gone. */
typedef struct crucible_buffer crucible_buffer; /* Memory on a device. */
typedef struct crucible_module crucible_module; /* Compiled kernels on a device. */
typedef struct crucible_kernel crucible_kernel; /* One kernel; borrowed from its module. */
typedef struct crucible_plan crucible_plan; /* A list of ops, ready to be submitted. */
typedef struct crucible_queue crucible_queue; /* Work of one device in the order of its submission (since 0.2). */
typedef struct crucible_timeline crucible_timeline; /* A number that only grows; waiting for a value is the only way to wait (since 0.2). */

/* Borrowed text, not NUL-terminated. */
typedef struct crucible_str {
  const char* data;
  uint64_t size;
} crucible_str;

typedef struct crucible_error crucible_error;

/* Every error carries its own functions, so that it outlives its plugin's tables. */
typedef struct crucible_error_table {
  uint32_t struct_size, reserved;
  void (*destroy)(crucible_error* self); /* [ANY] */
  crucible_code (*code)(const crucible_error* self); /* [ANY] */
  crucible_str (*message)(const crucible_error* self); /* [ANY] what, where, what to do; valid until destroy */
  uint32_t (*payload)(const crucible_error* self, uint32_t index, crucible_str* out_key, crucible_str* out_value); /* [ANY] 1 and a pair, 0 past the end; keys vendor.code where hint retry kernel op requested available have need; since 0.2 */
} crucible_error_table;
struct crucible_error { const crucible_error_table* table; };
typedef crucible_error* crucible_status;

/* A typed key and value, for properties, options, capabilities and statistics. */
typedef struct crucible_kv {
  crucible_str key;
  uint32_t type;
  uint32_t reserved;
  uint64_t u;
  crucible_str s;
} crucible_kv;

/* A value of a timeline, to wait for or to signal. */
typedef struct crucible_point {
  crucible_timeline* timeline;
  uint64_t value;
} crucible_point;

/* What a compilation took. */
typedef struct crucible_compile_info {
  uint32_t struct_size;
  uint32_t from_cache;
  uint64_t compile_ns;
  uint64_t binary_bytes;
} crucible_compile_info;

/* One kernel. A form that the device does not take, or that the plugin does not know, is UNSUPPORTED with payload kernel. */
typedef struct crucible_kernel_source {
  uint32_t struct_size;
  uint32_t form;
  crucible_str name;
  const void* data;
  uint64_t size;
} crucible_kernel_source;

/* What kept bytes depend on, each part as words of the plugin's own: kind (kernel, or another), content (the text that is compiled), target (the device's capability), toolchain (compiler and driver, with their versions), options (flags). Two keys are one when all parts are. */
typedef struct crucible_kept_key {
  crucible_str kind;
  crucible_str content;
  crucible_str target;
  crucible_str toolchain;
  crucible_str options;
} crucible_kept_key;

/* Kept bytes: data is NULL where there are none. Those of two keys that were kept together have one address. */
typedef struct crucible_kept_bytes {
  const void* data;
  uint64_t size;
} crucible_kept_bytes;

/* A tensor's elements in a buffer, in elements; rank <= CRUCIBLE_MAX_RANK. */
typedef struct crucible_view {
  uint32_t rank;
  uint32_t dtype;
  int64_t offset;
  int64_t sizes[8];
  int64_t strides[8];
} crucible_view;

/* A call of a vendor's library. */
typedef struct crucible_library_desc {
  uint32_t struct_size;
  uint32_t kind;
  crucible_view views[3];
  uint64_t alpha_f64_bits;
  int64_t stride[2];
  int64_t padding[2];
  int64_t dilation[2];
  int64_t groups;
  uint32_t epilogue; /* since 0.2 */
  uint32_t mask; /* since 0.2 */
  crucible_view extra; /* since 0.2 */
  crucible_view more[5]; /* since 0.5 */
} crucible_library_desc;

/* A number of a launch, in the type in which the kernel takes it; slot != CRUCIBLE_SLOT_NONE: patched by plan.set_slots. All scalars of one slot have one type. */
typedef struct crucible_scalar {
  uint64_t bits;
  uint32_t slot;
  uint32_t type;
} crucible_scalar;

/* One op of a list. */
typedef struct crucible_op {
  uint32_t struct_size;
  uint32_t kind;
  crucible_kernel* kernel;
  const crucible_library_desc* library;
  const uint64_t* buffers;
  const crucible_scalar* scalars;
  uint32_t buffer_count;
  uint32_t scalar_count;
  int64_t grid;
  int64_t grain;
  uint64_t size;
  uint64_t scratch_bytes;
  uint32_t pattern;
  uint32_t reserved;
} crucible_op;

/* Where a buffer of an op of a plan lies from now on: number `buffer` of op `op`, both as plan.build had them. As many bytes are used there as before. */
typedef struct crucible_rebinding {
  uint32_t op;
  uint32_t buffer;
  uint64_t address;
} crucible_rebinding;

/* Called by the plugin during the call that it was given to; items are borrowed. */
typedef void (*crucible_kv_sink)(void* user, const crucible_kv* items, uint32_t count);

/* What the host gives to a plugin; valid from init until the process ends. */
typedef struct crucible_host_api {
  uint32_t struct_size, abi_minor;
  void* ctx; /* the first argument of every service */
  void (*log)(void* ctx, uint32_t level, crucible_str component, crucible_str text); /* [ANY] */
  uint32_t (*get_option)(void* ctx, crucible_str key, crucible_str* out_value); /* [ANY] 1 when set; the text lives as long as the host */
  void* (*alloc)(void* ctx, uint64_t size, uint64_t align); /* [ANY] host memory from the host's own allocator, or NULL; since 0.2 */
  void (*free)(void* ctx, void* memory, uint64_t size, uint64_t align); /* [ANY]; since 0.2 */
  void (*metric)(void* ctx, const crucible_kv* items, uint32_t count); /* [ANY] numbers for the run's receipt; since 0.2 */
  void (*find_kept)(void* ctx, const crucible_kept_key* keys, uint32_t count, crucible_kept_bytes* out_found); /* [ANY] what the host's store has for each key, in `count` elements of `found`, checked; given back by free_kept; since 0.6 */
  void (*free_kept)(void* ctx, const crucible_kept_bytes* found, uint32_t count); /* [ANY]; since 0.6 */
  uint32_t (*keep)(void* ctx, const crucible_kept_key* keys, uint32_t count, const void* data, uint64_t size); /* [ANY] keeps the bytes under each key; 1 when they are kept. Where they cannot be, the host says so and nothing else happens; since 0.6 */
  uint32_t (*claim_kept)(void* ctx, const crucible_kept_key* key); /* [ANY] whether the caller shall make what this key stands for: 0 while another thread or process does; ends with unclaim_kept, or with the process. 1 as well where the host keeps nothing; since 0.6 */
  void (*unclaim_kept)(void* ctx, const crucible_kept_key* key); /* [ANY]; since 0.6 */
} crucible_host_api;

/* Which devices there are, and opening them. */
#define CRUCIBLE_IF_DEVICE 0x0001u /* mandatory */
typedef struct crucible_if_device {
  uint32_t struct_size, if_minor;
  crucible_status (*enumerate)(crucible_kv_sink sink, void* user); /* [ANY] one call of the sink per device; opens nothing; keys id name kind uuid pci (str) threads memory_bytes emulated (u64) */
  crucible_status (*open)(crucible_str device_id, crucible_device** out_device); /* [ANY] options come through host.get_option */
  crucible_status (*close)(crucible_device* device); /* [OBJ] after everything made from it is gone */
  crucible_status (*properties)(crucible_device* device, crucible_kv_sink sink, void* user); /* [ANY] also notes: what is missing and what that costs; math, where it takes kernel IR: the identity of the mathematics that its kernels call, which strict numerics compare with the host's */
  crucible_status (*capabilities)(crucible_str device_id, crucible_kv_sink sink, void* user); /* [ANY] yes, no or unknown with a reason, before anything is opened; keys library.matmul library.conv2d compile.ir compile.opaque f64 f16 bf16 profile health async; since 0.2 */
  crucible_status (*score)(crucible_str device_id, const crucible_kv* workload, uint32_t count, uint64_t* out_score, crucible_kv_sink why, void* user); /* [ANY] 0 cannot run it; higher is faster, comparable between plugins: expected GFLOP/s or GB/s times 1000; workload keys ops flops bytes peak_bytes; since 0.2 */
  crucible_status (*wait_idle)(crucible_device* device, uint64_t timeout_ns); /* [ANY] all queues empty; CANCELLED when the time is over; since 0.2 */
  crucible_status (*self_test)(crucible_device* device, uint32_t level, crucible_kv_sink sink, void* user); /* [OBJ] asked by crucible doctor: a small computation, checked; since 0.2 */
} crucible_if_device;

/* Buffers, and copies that are done on return. */
#define CRUCIBLE_IF_MEMORY 0x0002u /* mandatory */
typedef struct crucible_if_memory {
  uint32_t struct_size, if_minor;
  crucible_status (*alloc)(crucible_device* device, uint64_t size, uint64_t align, crucible_buffer** out_buffer); /* [ANY] zero-filled */
  crucible_status (*free)(crucible_buffer* buffer); /* [OBJ] */
  crucible_status (*write)(crucible_buffer* buffer, uint64_t offset, const void* data, uint64_t size); /* [OBJ] host to device, done on return */
  crucible_status (*read)(crucible_buffer* buffer, uint64_t offset, void* data, uint64_t size); /* [OBJ] device to host, done on return */
  crucible_status (*fill)(crucible_buffer* buffer, uint64_t offset, uint64_t size, uint8_t byte); /* [OBJ] */
  crucible_status (*address)(crucible_buffer* buffer, uint64_t* out_address); /* [ANY] device address of byte 0 */
  crucible_status (*stats)(crucible_device* device, crucible_kv_sink sink, void* user); /* [ANY] keys live_bytes peak_bytes */
  crucible_status (*adopt)(crucible_device* device, void* memory, uint64_t size, crucible_buffer** out_buffer); /* [ANY] memory of the host's, as a buffer that lies there: the caller keeps it alive until free, which leaves it as it is; UNSUPPORTED where the device cannot reach it; since 0.7 */
} crucible_if_memory;

/* Work in flight: plans run when they are submitted to a queue, and in no other way. Since 0.2. */
#define CRUCIBLE_IF_QUEUE 0x0003u /* mandatory */
typedef struct crucible_if_queue {
  uint32_t struct_size, if_minor;
  crucible_status (*create)(crucible_device* device, crucible_queue** out_queue); /* [ANY] */
  crucible_status (*destroy)(crucible_queue* queue); /* [OBJ] starts and waits for what was submitted */
  crucible_status (*timeline_create)(crucible_device* device, uint64_t initial, crucible_timeline** out_timeline); /* [ANY] */
  crucible_status (*timeline_destroy)(crucible_timeline* timeline); /* [OBJ] not while submitted work names it: ended by destroy or seen by a wait, it no longer does */
  crucible_status (*timeline_query)(crucible_timeline* timeline, uint64_t* out_value); /* [ANY][NB] answers the error of a failed timeline */
  crucible_status (*timeline_signal)(crucible_timeline* timeline, uint64_t value); /* [ANY][CB] INVALID_ARGUMENT when the value does not grow */
  crucible_status (*timeline_wait)(crucible_timeline* timeline, uint64_t value, uint64_t timeout_ns); /* [ANY] starts everything that was submitted to the device's queues; CANCELLED when the time is over; a value that was reached before a failure stays reached */
  crucible_status (*submit)(crucible_queue* queue, crucible_plan* plan, const crucible_point* waits, uint32_t wait_count, const crucible_point* signals, uint32_t signal_count); /* [OBJ][NB] runs the plan once when all waits are reached and what was submitted to this queue before is done, then signals; may begin as late as flush, timeline_wait, device.wait_idle or destroy; a failure poisons the signalled timelines, a lost device all timelines of it, with one error */
  crucible_status (*flush)(crucible_queue* queue); /* [ANY][NB] what was submitted begins as soon as its waits are reached, whether anybody waits for it or not; since 0.3 */
  crucible_status (*timeline_times)(crucible_timeline* timeline, uint64_t value, uint64_t* out_begin_ns, uint64_t* out_end_ns, uint32_t* out_clock); /* [ANY][NB] when the work that signalled this value began and ended, in nanoseconds of the host's CLOCK_MONOTONIC, and by which clock that was measured; UNAVAILABLE where no work did, or more than 16 values ago; since 0.3 */
} crucible_if_queue;

/* Kernels, each in a form that the device takes (capabilities compile.ir and compile.opaque), to a loaded module. */
#define CRUCIBLE_IF_COMPILE 0x0004u /* mandatory */
typedef struct crucible_if_compile {
  uint32_t struct_size, if_minor;
  crucible_status (*compile)(crucible_device* device, const crucible_kernel_source* sources, uint32_t count, uint32_t flags, crucible_module** out_module, crucible_compile_info* out_info); /* [ANY] in this form since 0.4; one name twice stands for one kernel; the plugin prints, compiles and gives to the host what is worth keeping (host.keep); UNSUPPORTED with payload kernel names one that the device refuses; flags: CRUCIBLE_COMPILE_CAREFUL */
  crucible_status (*kernel)(crucible_module* module, crucible_str name, crucible_kernel** out_kernel); /* [ANY] */
  crucible_status (*unload)(crucible_module* module); /* [OBJ] after plans that use it */
  crucible_status (*kernel_info)(crucible_kernel* kernel, crucible_kv_sink sink, void* user); /* [ANY] keys binary_bytes registers shared_bytes, from_cache (0: compiled for this module); since 0.2 */
  crucible_status (*compile_log)(crucible_module* module, crucible_kv_sink sink, void* user); /* [ANY] the compiler's own words, key log; since 0.2 */
} crucible_if_compile;

/* Lists of ops, built once and run in order each time that they are submitted (queue.submit). */
#define CRUCIBLE_IF_PLAN 0x0005u /* mandatory */
typedef struct crucible_if_plan {
  uint32_t struct_size, if_minor;
  crucible_status (*build)(crucible_device* device, const crucible_op* ops, uint32_t count, uint32_t slot_count, crucible_plan** out_plan); /* [ANY] copies all that it needs */
  crucible_status (*set_slots)(crucible_plan* plan, const uint64_t* values, uint32_t count); /* [OBJ] all of them, in order: of each the eight bytes, in the type of the scalars that name the slot; not while it is submitted */
  crucible_status (*profile)(crucible_plan* plan, uint64_t* out_ns, uint32_t count); /* [OBJ] runs it once, done on return: nanoseconds per op; not while it is submitted */
  crucible_status (*destroy)(crucible_plan* plan); /* [OBJ] not while submitted work names it */
  crucible_status (*describe)(crucible_plan* plan, crucible_kv_sink sink, void* user); /* [ANY] keys form (native or list) ops, and times: where plan.profile has its times from; since 0.2 */
  crucible_status (*rebind)(crucible_plan* plan, const crucible_rebinding* rebindings, uint32_t count); /* [OBJ] buffers of ops lie elsewhere from now on, in buffers that live; on an error none has moved; not while it is submitted; since 0.7 */
} crucible_if_plan;

/* Calls of a vendor's library. Without it the host generates everything. */
#define CRUCIBLE_IF_LIBRARY 0x0006u /* optional */
typedef struct crucible_if_library {
  uint32_t struct_size, if_minor;
  crucible_status (*claim)(crucible_device* device, const crucible_library_desc* desc, uint64_t* out_scratch_bytes); /* [ANY] success: the plugin takes the call and needs so much workspace; UNSUPPORTED: it does not */
} crucible_if_library;

/* The device's clock and counters. Since 0.2. */
#define CRUCIBLE_IF_PROFILE 0x0010u /* optional */
typedef struct crucible_if_profile {
  uint32_t struct_size, if_minor;
  crucible_status (*clock_pair)(crucible_device* device, uint64_t* out_device_ticks, uint64_t* out_host_ns, uint64_t* out_ticks_per_second); /* [ANY] */
  crucible_status (*counters)(crucible_str device_id, crucible_kv_sink sink, void* user); /* [ANY] one item per counter: its name and what it counts */
  crucible_status (*begin)(crucible_device* device, const crucible_str* counters, uint32_t count); /* [OBJ] UNSUPPORTED names the first that cannot be had */
  crucible_status (*read)(crucible_device* device, crucible_kv_sink sink, void* user); /* [OBJ] since begin */
  crucible_status (*end)(crucible_device* device); /* [OBJ] */
} crucible_if_profile;

/* How the device is. Since 0.2. */
#define CRUCIBLE_IF_HEALTH 0x0011u /* optional */
typedef struct crucible_if_health {
  uint32_t struct_size, if_minor;
  crucible_status (*sample)(crucible_str device_id, crucible_kv_sink sink, void* user); /* [ANY] keys temperature_celsius power_milliwatt clock_hz memory_used_bytes ecc_errors throttle_reason, energy_microjoule and those of docs/health.md; only those that it can measure, and not_measured, a text KEY: REASON, for each that it cannot */
  crucible_status (*state)(crucible_str device_id, uint32_t* out_state, crucible_kv_sink why, void* user); /* [ANY] */
} crucible_if_health;

/* What the query hands out. */
typedef struct crucible_plugin_api {
  uint32_t struct_size, abi_minor;
  crucible_status (*init)(const crucible_host_api* host); /* [OBJ] before anything below, and again only after shutdown */
  crucible_status (*shutdown)(void); /* [OBJ] the end of what init began: no thread of the plugin runs */
  const void* (*interface_table)(uint32_t id); /* [ANY] static storage, or NULL */
  crucible_status (*describe_options)(crucible_kv_sink sink, void* user); /* [ANY] pure, before init: one call per option with keys name type (bool u64 str choice path) default choices (words with spaces between) min max help env folder (harmless: a configuration file of a folder that nobody vouches for may set it); all are texts; since 0.2 */
} crucible_plugin_api;

#define CRUCIBLE_IF_INTEROP 0x0013u /* reserved: no table yet */
#define CRUCIBLE_IF_COLLECTIVES 0x0015u /* reserved: no table yet */

/* What the host says of itself. */
typedef struct crucible_query_in {
  uint32_t struct_size;
  uint32_t magic;
  uint32_t host_major;
  uint32_t host_minor;
} crucible_query_in;

/* What the plugin answers; it writes no more than the first struct_size bytes. */
typedef struct crucible_query_out {
  uint32_t struct_size;
  uint32_t magic;
  uint32_t abi_major;
  uint32_t abi_minor;
  crucible_str name;
  crucible_str vendor;
  crucible_str version;
  const crucible_plugin_api* api;
  char reject_reason[192];
  crucible_str build_id; /* since 0.2 */
  crucible_str needs; /* since 0.2 */
  uint64_t feature_bits; /* since 0.2 */
} crucible_query_out;

/* The only exported symbol. Touches no vendor library, allocates nothing, starts no thread, reads no environment.
 * 0: `out` is filled; anything else: reject_reason says why not. */
typedef int32_t (*crucible_plugin_query_fn)(const crucible_query_in*, crucible_query_out*);
#define CRUCIBLE_QUERY_SYMBOL "crucible_plugin_query"
CRUCIBLE_EXPORT int32_t crucible_plugin_query(const crucible_query_in*, crucible_query_out*);

#ifdef __cplusplus
}
#endif
#endif /* CRUCIBLE_PLUGIN_H_ */
