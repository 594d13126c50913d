/* A plugin for tests: the CPU plugin behind another name, which refuses the kernels whose text has one of some words.
 *
 * It loads a copy of the CPU plugin's file (REFUSING_TARGET), so that the copy has a life of its own beside the real
 * one, and hands out the copy's tables but for some entries. Options:
 *
 * words: comma-separated; a kernel that has one of them is UNSUPPORTED (default: none is refused).
 *
 * silent=true: the refusal does not name the kernel, as a plugin of ABI 0.1 answers.
 *
 * emulated=true: the device says that it is emulated. memory: the bytes that it says it has (default 1 TiB).
 *
 * score: what score answers; without it there is none. absent=true: the device cannot be opened.
 *
 * overrun=true: each plan that is waited for damages the red zone that was filled last.
 *
 * math: what it tells of its mathematics, instead of the truth; none: nothing. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugins/abi/crucible_plugin.h"

static const crucible_host_api* host;
static const crucible_plugin_api* target;
static crucible_if_device device_table;
static crucible_if_compile compile_table;

static crucible_str str(const char* text) {
  crucible_str result = {text, strlen(text)};
  return result;
}

/* "" when the option is not set. */
static crucible_str option(const char* name) {
  crucible_str value = {"", 0};
  if (host != NULL) host->get_option(host->ctx, str(name), &value);
  return value;
}
static int is_true(const char* name) { return option(name).size == 4 && memcmp(option(name).data, "true", 4) == 0; }

/* ---- errors ---- */
typedef struct refusal {
  crucible_error base;
  crucible_code code;
  char message[160], kernel[80], op[16];
} refusal;

static void error_destroy(crucible_error* error) { free(error); }
static crucible_code error_code(const crucible_error* error) { return ((const refusal*)error)->code; }
static crucible_str error_message(const crucible_error* error) { return str(((const refusal*)error)->message); }
static uint32_t error_payload(const crucible_error* error, uint32_t index, crucible_str* key, crucible_str* value) {
  if (index > 1) return 0;
  if (index == 1) {
    if (((const refusal*)error)->op[0] == 0) return 0;
    *key = str("op");
    *value = str(((const refusal*)error)->op);
    return 1;
  }
  *key = str("kernel");
  *value = str(((const refusal*)error)->kernel);
  return 1;
}
static const crucible_error_table full = {sizeof(full), 0, error_destroy, error_code, error_message, error_payload};
/* As long as in ABI 0.1; what stands behind its end must not be called. */
static const crucible_error_table shorter = {
    offsetof(crucible_error_table, payload), 0, error_destroy, error_code, error_message, NULL};

static crucible_status refuse(crucible_code code, const char* message, crucible_str kernel) {
  refusal* error = calloc(1, sizeof(*error));
  error->base.table = is_true("silent") ? &shorter : &full;
  error->code = code;
  snprintf(error->message, sizeof(error->message), "%s", message);
  snprintf(error->kernel, sizeof(error->kernel), "%.*s", (int)kernel.size, kernel.data);
  return &error->base;
}

/* ---- losing the device ---- */
static int can_be_lost, is_lost; /* of the device that was opened last */
static unsigned calls;           /* of the site that loses it */

/* NULL while the device lives. */
static crucible_status lose(const char* site) {
  const crucible_str rule = option("lose");
  const size_t size = strlen(site);
  if (!can_be_lost) return NULL;
  if (!is_lost && rule.size > size + 1 && memcmp(rule.data, site, size) == 0 && rule.data[size] == '#') {
    char digits[16];
    snprintf(digits, sizeof(digits), "%.*s", (int)(rule.size - size - 1), rule.data + size + 1);
    is_lost = ++calls == (unsigned)atoi(digits);
  }
  if (!is_lost) return NULL;
  crucible_status status = refuse(CRUCIBLE_E_DEVICE_LOST, "refusing:0 fell off the bus", str(""));
  if (strcmp(site, "replay") == 0) snprintf(((refusal*)status)->op, sizeof(((refusal*)status)->op), "1");
  return status;
}

/* ---- device ---- */
static crucible_status enumerate(crucible_kv_sink sink, void* user) {
  const crucible_str memory = option("memory");
  char digits[32] = "1099511627776";
  if (memory.size > 0) snprintf(digits, sizeof(digits), "%.*s", (int)memory.size, memory.data);
  const crucible_kv items[] = {{{"id", 2}, CRUCIBLE_V_STR, 0, 0, str("refusing:0")},
                               {{"name", 4}, CRUCIBLE_V_STR, 0, 0, str("a device that refuses")},
                               {{"kind", 4}, CRUCIBLE_V_STR, 0, 0, str("cpu")},
                               {{"uuid", 4}, CRUCIBLE_V_STR, 0, 0, str("0a1b2c3d-0000-1111-2222-333344445555")},
                               {{"pci", 3}, CRUCIBLE_V_STR, 0, 0, str("0000:65:00.0")},
                               {{"threads", 7}, CRUCIBLE_V_U64, 0, 1, {NULL, 0}},
                               {{"memory_bytes", 12}, CRUCIBLE_V_U64, 0, strtoull(digits, NULL, 10), {NULL, 0}},
                               {{"emulated", 8}, CRUCIBLE_V_U64, 0, (uint64_t)is_true("emulated"), {NULL, 0}}};
  sink(user, items, sizeof(items) / sizeof(items[0]));
  const crucible_str devices = option("devices");
  const int count = devices.size == 0 ? 1 : devices.data[0] - '0';
  for (int i = 1; i < count; ++i) {
    char id[16];
    snprintf(id, sizeof(id), "refusing:%d", i);
    const crucible_kv more[] = {{{"id", 2}, CRUCIBLE_V_STR, 0, 0, str(id)},
                                {{"name", 4}, CRUCIBLE_V_STR, 0, 0, str("a neighbour of it")},
                                {{"kind", 4}, CRUCIBLE_V_STR, 0, 0, str("cpu")},
                                {{"memory_bytes", 12}, CRUCIBLE_V_U64, 0, strtoull(digits, NULL, 10), {NULL, 0}},
                                {{"emulated", 8}, CRUCIBLE_V_U64, 0, (uint64_t)is_true("emulated"), {NULL, 0}}};
    sink(user, more, sizeof(more) / sizeof(more[0]));
  }
  return NULL;
}

static crucible_status device_open(crucible_str id, crucible_device** out) {
  can_be_lost = id.size == 0 || id.data[id.size - 1] == '0';
  is_lost = 0;
  calls = 0;
  if (is_true("absent")) return refuse(CRUCIBLE_E_UNAVAILABLE, "the device is absent", str(""));
  const crucible_if_device* table = target->interface_table(CRUCIBLE_IF_DEVICE);
  return table->open(str("cpu:0"), out);
}

/* ---- properties: those of the copy, with other mathematics or none ---- */
typedef struct listener {
  crucible_kv_sink sink;
  void* user;
} listener;

static void tell(void* user, const crucible_kv* items, uint32_t count) {
  const listener* to = user;
  const crucible_str math = option("math");
  for (uint32_t i = 0; i < count; ++i) {
    crucible_kv item = items[i];
    const int is_math = item.key.size == 4 && memcmp(item.key.data, "math", 4) == 0;
    if (is_math && math.size == 4 && memcmp(math.data, "none", 4) == 0) continue;
    if (is_math && math.size != 0) item.s = math;
    to->sink(to->user, &item, 1);
  }
}

static crucible_status properties(crucible_device* device, crucible_kv_sink sink, void* user) {
  const crucible_if_device* table = target->interface_table(CRUCIBLE_IF_DEVICE);
  listener to = {sink, user};
  return table->properties(device, tell, &to);
}

static crucible_status score(crucible_str id, const crucible_kv* workload, uint32_t count, uint64_t* out,
                             crucible_kv_sink why, void* user) {
  (void)id;
  const crucible_str text = option("score");
  if (text.size == 0) return refuse(CRUCIBLE_E_UNIMPLEMENTED, "no score was given", str(""));
  char digits[32];
  snprintf(digits, sizeof(digits), "%.*s", (int)text.size, text.data);
  for (uint32_t i = 0; i < count; ++i) {
    if (workload[i].key.size == 10 && memcmp(workload[i].key.data, "peak_bytes", 10) == 0) why(user, &workload[i], 1);
  }
  *out = strtoull(digits, NULL, 10);
  return NULL;
}

/* ---- compile ---- */
int refusing_has_word(const crucible_kernel_source* source, crucible_str words); /* refusing_words.cpp */

static crucible_status compile(crucible_device* device, const crucible_kernel_source* sources, uint32_t count,
                               uint32_t flags, crucible_module** module, crucible_compile_info* info) {
  crucible_status lost = lose("compile");
  if (lost != NULL) return lost;
  for (uint32_t i = 0; i < count; ++i) {
    if (refusing_has_word(&sources[i], option("words")))
      return refuse(CRUCIBLE_E_UNSUPPORTED, "this device has no such word", sources[i].name);
  }
  const crucible_if_compile* table = target->interface_table(CRUCIBLE_IF_COMPILE);
  return table->compile(device, sources, count, flags, module, info);
}

/* ---- memory and plans: a write behind the end of a buffer ---- */
static crucible_if_memory memory_table;
static crucible_if_plan plan_table;
static crucible_if_queue queue_table;
static crucible_buffer* zone_buffer;
static uint64_t zone_offset;

static crucible_status fill(crucible_buffer* buffer, uint64_t offset, uint64_t size, uint8_t byte) {
  const crucible_if_memory* table = target->interface_table(CRUCIBLE_IF_MEMORY);
  if (byte == 0xc5 && is_true("overrun")) {
    zone_buffer = buffer;
    zone_offset = offset;
  }
  return table->fill(buffer, offset, size, byte);
}

static crucible_status submit(crucible_queue* queue, crucible_plan* plan, const crucible_point* waits,
                              uint32_t wait_count, const crucible_point* signals, uint32_t signal_count) {
  const crucible_if_queue* table = target->interface_table(CRUCIBLE_IF_QUEUE);
  crucible_status lost = lose("replay");
  return lost != NULL ? lost : table->submit(queue, plan, waits, wait_count, signals, signal_count);
}

static crucible_status timeline_wait(crucible_timeline* timeline, uint64_t value, uint64_t timeout_ns) {
  const crucible_if_queue* table = target->interface_table(CRUCIBLE_IF_QUEUE);
  const crucible_if_memory* memory = target->interface_table(CRUCIBLE_IF_MEMORY);
  crucible_status status = table->timeline_wait(timeline, value, timeout_ns);
  if (status == NULL && zone_buffer != NULL) status = memory->fill(zone_buffer, zone_offset + 2, 1, 0);
  zone_buffer = NULL;
  return status;
}

static crucible_status allocate(crucible_device* device, uint64_t size, uint64_t align, crucible_buffer** out) {
  const crucible_if_memory* table = target->interface_table(CRUCIBLE_IF_MEMORY);
  crucible_status lost = lose("alloc");
  return lost != NULL ? lost : table->alloc(device, size, align, out);
}

static crucible_status write_buffer(crucible_buffer* buffer, uint64_t offset, const void* data, uint64_t size) {
  const crucible_if_memory* table = target->interface_table(CRUCIBLE_IF_MEMORY);
  crucible_status lost = lose("write");
  return lost != NULL ? lost : table->write(buffer, offset, data, size);
}

static crucible_status read_buffer(crucible_buffer* buffer, uint64_t offset, void* data, uint64_t size) {
  const crucible_if_memory* table = target->interface_table(CRUCIBLE_IF_MEMORY);
  crucible_status lost = lose("read");
  return lost != NULL ? lost : table->read(buffer, offset, data, size);
}

static crucible_status build(crucible_device* device, const crucible_op* ops, uint32_t count, uint32_t slots,
                             crucible_plan** out) {
  const crucible_if_plan* table = target->interface_table(CRUCIBLE_IF_PLAN);
  crucible_status lost = lose("build");
  return lost != NULL ? lost : table->build(device, ops, count, slots, out);
}

/* ---- the plugin ---- */
/* The copy's tables with our entries in them; before the host looks at them, which is right behind the query. */
static void fill_tables(void) {
  const crucible_if_device* device = target->interface_table(CRUCIBLE_IF_DEVICE);
  const crucible_if_compile* compiler = target->interface_table(CRUCIBLE_IF_COMPILE);
  memcpy(&device_table, device,
         device->struct_size < sizeof(device_table) ? device->struct_size : sizeof(device_table));
  memcpy(&compile_table, compiler,
         compiler->struct_size < sizeof(compile_table) ? compiler->struct_size : sizeof(compile_table));
  device_table.enumerate = enumerate;
  device_table.open = device_open;
  device_table.score = score;
  device_table.properties = properties;
  device_table.capabilities = NULL;
  device_table.struct_size = sizeof(device_table);
  compile_table.compile = compile;
  compile_table.struct_size = sizeof(compile_table);
  const crucible_if_memory* memory = target->interface_table(CRUCIBLE_IF_MEMORY);
  const crucible_if_plan* plan = target->interface_table(CRUCIBLE_IF_PLAN);
  memcpy(&memory_table, memory,
         memory->struct_size < sizeof(memory_table) ? memory->struct_size : sizeof(memory_table));
  memcpy(&plan_table, plan, plan->struct_size < sizeof(plan_table) ? plan->struct_size : sizeof(plan_table));
  memory_table.fill = fill;
  memory_table.alloc = allocate;
  memory_table.write = write_buffer;
  memory_table.read = read_buffer;
  plan_table.build = build;
  const crucible_if_queue* queue = target->interface_table(CRUCIBLE_IF_QUEUE);
  memcpy(&queue_table, queue, queue->struct_size < sizeof(queue_table) ? queue->struct_size : sizeof(queue_table));
  queue_table.submit = submit;
  queue_table.timeline_wait = timeline_wait;
}

static crucible_status init(const crucible_host_api* given) {
  host = given;
  return target->init(given);
}
static crucible_status shutdown_plugin(void) { return target->shutdown(); }

static const void* interface_table(uint32_t id) {
  switch (id) {
    case CRUCIBLE_IF_DEVICE:
      return &device_table;
    case CRUCIBLE_IF_COMPILE:
      return &compile_table;
    case CRUCIBLE_IF_MEMORY:
      return &memory_table;
    case CRUCIBLE_IF_PLAN:
      return &plan_table;
    case CRUCIBLE_IF_QUEUE:
      return &queue_table;
    case CRUCIBLE_IF_LIBRARY:
      return target->interface_table(id);
    default:
      return NULL;
  }
}

static crucible_status describe_options(crucible_kv_sink sink, void* user) {
  static const char* const kOptions[][3] = {
      {"words", "str", ""},   {"silent", "bool", "false"}, {"emulated", "bool", "false"}, {"memory", "u64", ""},
      {"score", "u64", ""},   {"absent", "bool", "false"}, {"threads", "u64", ""},        {"cache_dir", "path", ""},
      {"library", "str", ""}, {"compiler", "path", ""},    {"overrun", "bool", "false"},  {"devices", "u64", ""},
      {"lose", "str", ""},    {"math", "str", ""}};
  static const char* const kVariables[] = {
      "", "", "", "", "", "", "CRUCIBLE_THREADS", "CRUCIBLE_CACHE_DIR", "CRUCIBLE_LIBRARY", "CRUCIBLE_CLANG",
      "", "", "", ""};
  for (size_t i = 0; i < sizeof(kOptions) / sizeof(kOptions[0]); ++i) {
    const crucible_kv items[] = {{{"name", 4}, CRUCIBLE_V_STR, 0, 0, str(kOptions[i][0])},
                                 {{"type", 4}, CRUCIBLE_V_STR, 0, 0, str(kOptions[i][1])},
                                 {{"default", 7}, CRUCIBLE_V_STR, 0, 0, str(kOptions[i][2])},
                                 {{"env", 3}, CRUCIBLE_V_STR, 0, 0, str(kVariables[i])}};
    sink(user, items, 4);
  }
  return NULL;
}

static const crucible_plugin_api api = {sizeof(api),     CRUCIBLE_ABI_MINOR, init,
                                        shutdown_plugin, interface_table,    describe_options};

CRUCIBLE_EXPORT int32_t crucible_plugin_query(const crucible_query_in* in, crucible_query_out* out) {
  void* library = dlopen(REFUSING_TARGET, RTLD_NOW | RTLD_LOCAL);
  void* symbol = library == NULL ? NULL : dlsym(library, CRUCIBLE_QUERY_SYMBOL);
  crucible_plugin_query_fn query;
  memcpy(&query, &symbol, sizeof(query)); /* ISO C has no conversion from objects to functions */
  if (symbol == NULL || query(in, out) != 0) {
    snprintf(out->reject_reason, sizeof(out->reject_reason), "the CPU plugin's copy cannot be used");
    return 1;
  }
  target = out->api;
  fill_tables();
  out->name = str("refusing");
  out->version = str("1.0.0");
  out->api = &api;
  return 0;
}
