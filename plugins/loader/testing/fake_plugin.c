/* A plugin for the loader's tests, in plain C. FAKE_GOOD does what a plugin must, on host memory; each other macro
 * makes it wrong in one way. Its kernels do nothing: what is tested is the host. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "plugins/abi/crucible_plugin.h"

struct crucible_buffer {
  uint64_t size;
  unsigned char* data;
};

static const crucible_host_api* host;
static uint64_t live_bytes, peak_bytes;
static int starts, stops;

static crucible_str str(const char* text) {
  crucible_str result = {text, strlen(text)};
  return result;
}

static void error_destroy(crucible_error* error) { (void)error; }
static crucible_code error_code(const crucible_error* error) { return error == NULL ? 0 : CRUCIBLE_E_OUT_OF_MEMORY; }
static crucible_str error_message(const crucible_error* error) {
  return (void)error, str("asked for 99 bytes, have 7");
}
static const crucible_error_table error_table = {sizeof(crucible_error_table), 0, error_destroy, error_code,
                                                 error_message};
static crucible_error the_error = {&error_table};

static crucible_status enumerate(crucible_kv_sink sink, void* user) {
  for (int i = 0; i < 2; ++i) {
    const crucible_kv items[] = {{{"id", 2}, CRUCIBLE_V_STR, 0, 0, str(i == 0 ? "fake:0" : "fake:1")},
                                 {{"kind", 4}, CRUCIBLE_V_STR, 0, 0, str("fake")},
                                 {{"unknown", 7}, CRUCIBLE_V_STR, 0, 0, str("ignored")},
                                 {{"threads", 7}, CRUCIBLE_V_U64, 0, 3, {NULL, 0}}};
    sink(user, items, 4);
  }
  return NULL;
}
static crucible_status device_open(crucible_str id, crucible_device** out) {
  static int device;
  (void)id;
  host->log(host->ctx, 0, str("fake"), str("a debug line"));
  host->log(host->ctx, 2, str("fake"), str("a warning line"));
  *out = (crucible_device*)&device;
  return NULL;
}
static crucible_status device_close(crucible_device* device) { return (void)device, (crucible_status)NULL; }
static crucible_status properties(crucible_device* device, crucible_kv_sink sink, void* user) {
  (void)device;
  crucible_str value = str("unset");
  host->get_option(host->ctx, str("library"), &value);
  const crucible_kv items[] = {{{"library", 7}, CRUCIBLE_V_STR, 0, 0, value},
                               {{"starts", 6}, CRUCIBLE_V_U64, 0, (uint64_t)starts, {NULL, 0}},
                               {{"stops", 5}, CRUCIBLE_V_U64, 0, (uint64_t)stops, {NULL, 0}}};
  sink(user, items, 3);
  return NULL;
}

static crucible_status memory_alloc(crucible_device* device, uint64_t size, uint64_t align, crucible_buffer** out) {
  (void)device, (void)align;
  if (size == 99) return &the_error;
  crucible_buffer* buffer = malloc(sizeof(*buffer));
  buffer->size = size;
  buffer->data = calloc(size, 1);
  live_bytes += size;
  if (live_bytes > peak_bytes) peak_bytes = live_bytes;
  *out = buffer;
  return NULL;
}
static crucible_status memory_free(crucible_buffer* buffer) {
  live_bytes -= buffer->size;
  free(buffer->data);
  free(buffer);
  return NULL;
}
static crucible_status memory_write(crucible_buffer* buffer, uint64_t offset, const void* data, uint64_t size) {
  return memcpy(buffer->data + offset, data, size), (crucible_status)NULL;
}
static crucible_status memory_read(crucible_buffer* buffer, uint64_t offset, void* data, uint64_t size) {
  return memcpy(data, buffer->data + offset, size), (crucible_status)NULL;
}
#if !defined(FAKE_NULL_ENTRIES)
static crucible_status memory_fill(crucible_buffer* buffer, uint64_t offset, uint64_t size, uint8_t byte) {
  return memset(buffer->data + offset, byte, size), (crucible_status)NULL;
}
#endif
static crucible_status memory_address(crucible_buffer* buffer, uint64_t* out) {
  *out = (uint64_t)(uintptr_t)buffer->data;
  return NULL;
}
#if !defined(FAKE_SHORT_TABLES)
static crucible_status memory_stats(crucible_device* device, crucible_kv_sink sink, void* user) {
  (void)device;
  const crucible_kv items[] = {{{"peak_bytes", 10}, CRUCIBLE_V_U64, 0, peak_bytes, {NULL, 0}}};
  sink(user, items, 1);
  return NULL;
}
#endif

static const crucible_if_device device_table = {sizeof(device_table), 1,         enumerate, device_open,
                                                device_close,         properties};
static const crucible_if_memory memory_table = {
#if defined(FAKE_SHORT_TABLES)
    offsetof(crucible_if_memory, stats),
    1,
    memory_alloc,
    memory_free,
    memory_write,
    memory_read,
    memory_fill,
    memory_address,
    (crucible_status(*)(crucible_device*, crucible_kv_sink, void*))(uintptr_t)1 /* behind the end: must not be called */
#elif defined(FAKE_NULL_ENTRIES)
    sizeof(memory_table), 1, memory_alloc, memory_free, memory_write, memory_read, NULL, memory_address, memory_stats
#else
    sizeof(memory_table), 1,           memory_alloc,   memory_free, memory_write,
    memory_read,          memory_fill, memory_address, memory_stats
#endif
};
/* Large enough to be tables, with nothing in them. */
static const crucible_if_compile compile_table = {sizeof(compile_table), 1, NULL, NULL, NULL, NULL};
static const crucible_if_plan plan_table = {sizeof(plan_table), 1, NULL, NULL, NULL, NULL, NULL};
static const crucible_if_queue queue_table = {sizeof(queue_table), 1, NULL, NULL, NULL, NULL, NULL};

static crucible_status init(const crucible_host_api* api) {
#if defined(FAKE_EMPTY_INIT_ERROR)
  (void)api;
  return &the_error;
#else
  host = api;
  ++starts;
  return NULL;
#endif
}
static crucible_status shutdown_plugin(void) { return ++stops, (crucible_status)NULL; }
static const void* interface_table(uint32_t id) {
  switch (id) {
    case CRUCIBLE_IF_DEVICE: return &device_table;
    case CRUCIBLE_IF_MEMORY: return &memory_table;
    case CRUCIBLE_IF_COMPILE: return &compile_table;
    case CRUCIBLE_IF_QUEUE: return &queue_table;
#if !defined(FAKE_MISSING_TABLE)
    case CRUCIBLE_IF_PLAN: return &plan_table;
#endif
    default: return NULL;
  }
}
static const crucible_plugin_api api = {sizeof(api), CRUCIBLE_ABI_MINOR, init, shutdown_plugin, interface_table};
#if defined(FAKE_MISSING_TABLE)
const void* fake_unused(void);
CRUCIBLE_EXPORT const void* fake_unused(void) { return &plan_table; }
#endif

#if defined(FAKE_MISSING_SYMBOL)
int32_t some_other_name(const crucible_query_in* in, crucible_query_out* out);
#define crucible_plugin_query some_other_name
#endif
#if defined(FAKE_UNDEFINED)
int32_t a_function_that_no_library_has(void);
#endif

int32_t crucible_plugin_query(const crucible_query_in* in, crucible_query_out* out) {
  (void)in;
  out->magic = CRUCIBLE_MAGIC;
  out->abi_major = CRUCIBLE_ABI_MAJOR;
  out->abi_minor = CRUCIBLE_ABI_MINOR;
#if defined(FAKE_WRONG_MAGIC)
  out->magic = 0x1badbadu;
#elif defined(FAKE_NEWER_MAJOR)
  out->abi_major = CRUCIBLE_ABI_MAJOR + 7;
#elif defined(FAKE_REJECTING)
  strcpy(out->reject_reason, "the moon is not full");
  return 5;
#elif defined(FAKE_UNDEFINED)
  return a_function_that_no_library_has();
#endif
  out->name = str("fake");
  out->vendor = str("nobody");
  out->version = str("1.2.3");
  out->api = &api;
  return 0;
}
