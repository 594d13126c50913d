/* A host that knows ABI 0.1 and nothing later: compiled against the header of that time (beside this file), it loads
 * the plugin given on the command line, compiles a kernel, runs it in a plan with a fill, a copy and a slot, and checks
 * the numbers. Today's plugin must serve it: its longer tables, structs and answers may not be noticed. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crucible_plugin.h"

#if CRUCIBLE_ABI_MINOR != 1
#error "this host is about ABI 0.1: keep the archived header"
#endif

static crucible_str str(const char* text) {
  crucible_str result = {text, strlen(text)};
  return result;
}

static void need(int condition, const char* what) {
  if (condition) return;
  fprintf(stderr, "old host: %s failed\n", what);
  exit(1);
}

static void ok(crucible_status status, const char* what) {
  if (status == NULL) return;
  const crucible_str message = status->table->message(status);
  fprintf(stderr, "old host: %s: %.*s\n", what, (int)message.size, message.data);
  status->table->destroy(status);
  exit(1);
}

static void host_log(void* ctx, uint32_t level, crucible_str component, crucible_str text) {
  (void)ctx;
  fprintf(stderr, "log %u %.*s: %.*s\n", level, (int)component.size, component.data, (int)text.size, text.data);
}

static uint32_t get_option(void* ctx, crucible_str key, crucible_str* out) {
  const char* folder = ctx;
  if (key.size != 9 || memcmp(key.data, "cache_dir", 9) != 0) return 0;
  *out = str(folder);
  return 1;
}

static void count_devices(void* user, const crucible_kv* items, uint32_t count) {
  (void)items, (void)count;
  ++*(int*)user;
}

int main(int argc, char** argv) {
  need(argc == 3, "usage: old_host PLUGIN CACHE_FOLDER;");
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) fprintf(stderr, "%s\n", dlerror());
  need(library != NULL, "dlopen");
  crucible_plugin_query_fn query = NULL;
  *(void**)&query = dlsym(library, CRUCIBLE_QUERY_SYMBOL);
  need(query != NULL, "the query symbol");

  /* The answer ends where 0.1's does; the bytes behind it belong to somebody else. */
  struct {
    crucible_query_out out;
    unsigned char guard[64];
  } answer;
  memset(&answer, 0, sizeof(answer));
  memset(answer.guard, 0xa5, sizeof(answer.guard));
  answer.out.struct_size = sizeof(answer.out);
  const crucible_query_in in = {sizeof(in), CRUCIBLE_MAGIC, 0, 1};
  need(query(&in, &answer.out) == 0, answer.out.reject_reason);
  for (size_t i = 0; i < sizeof(answer.guard); ++i)
    need(answer.guard[i] == 0xa5, "writing only into struct_size bytes");
  need(answer.out.magic == CRUCIBLE_MAGIC && answer.out.abi_major == 0, "magic and major");

  const crucible_plugin_api* api = answer.out.api;
  const crucible_host_api host = {sizeof(host), 1, argv[2], host_log, get_option};
  ok(api->init(&host), "init");
  const crucible_if_device* devices = api->interface_table(CRUCIBLE_IF_DEVICE);
  const crucible_if_memory* memory = api->interface_table(CRUCIBLE_IF_MEMORY);
  const crucible_if_compile* compile = api->interface_table(CRUCIBLE_IF_COMPILE);
  const crucible_if_plan* plans = api->interface_table(CRUCIBLE_IF_PLAN);
  const crucible_if_library* library_calls = api->interface_table(CRUCIBLE_IF_LIBRARY);
  need(devices && memory && compile && plans && library_calls, "the five tables of 0.1");

  int count = 0;
  ok(devices->enumerate(count_devices, &count), "enumerate");
  need(count >= 1, "a device");
  crucible_device* device = NULL;
  ok(devices->open(str(""), &device), "open");
  crucible_buffer *a = NULL, *b = NULL;
  ok(memory->alloc(device, 4000, 64, &a), "alloc");
  ok(memory->alloc(device, 4000, 64, &b), "alloc");
  uint64_t address_a = 0, address_b = 0;
  ok(memory->address(a, &address_a), "address");
  ok(memory->address(b, &address_b), "address");

  const crucible_str name = str("old_scale");
  const crucible_str text =
      str("void old_scale(void* const* b, const double* s, long begin, long end) {\n"
          "  float* x = b[0]; for (long i = begin; i < end; ++i) x[i] = (float)(i * s[0] + s[1]);\n}\n");
  crucible_module* module = NULL;
  crucible_compile_info info = {sizeof(info), 0, 0, 0};
  ok(compile->compile(device, str(""), &name, &text, 1, &module, &info), "compile");
  crucible_kernel* kernel = NULL;
  ok(compile->kernel(module, name, &kernel), "kernel");

  union {
    double number;
    uint64_t bits;
  } half = {0.5};
  const uint64_t launch_buffers[] = {address_a}, copy_buffers[] = {address_b, address_a}, fill_buffers[] = {address_a};
  const crucible_scalar scalars[] = {{0, 0, 0}, {half.bits, CRUCIBLE_SLOT_NONE, 0}};
  crucible_op ops[3];
  memset(ops, 0, sizeof(ops));
  for (int i = 0; i < 3; ++i) ops[i].struct_size = sizeof(crucible_op);
  ops[0].kind = CRUCIBLE_OP_LAUNCH, ops[0].kernel = kernel, ops[0].buffers = launch_buffers, ops[0].buffer_count = 1;
  ops[0].scalars = scalars, ops[0].scalar_count = 2, ops[0].grid = 1000, ops[0].grain = 100;
  ops[1].kind = CRUCIBLE_OP_COPY, ops[1].buffers = copy_buffers, ops[1].buffer_count = 2, ops[1].size = 4000;
  ops[2].kind = CRUCIBLE_OP_FILL, ops[2].buffers = fill_buffers, ops[2].buffer_count = 1, ops[2].size = 4000,
  ops[2].pattern = 0xff;
  crucible_plan* plan = NULL;
  ok(plans->build(device, ops, 3, 1, &plan), "build");
  const double slot = 3;
  ok(plans->set_slots(plan, &slot, 1), "set_slots");
  ok(plans->replay(plan), "replay");
  float result[1000];
  ok(memory->read(b, 0, result, 4000), "read");
  for (int i = 0; i < 1000; ++i) need(result[i] == (float)(i * 3 + 0.5), "the kernel's numbers");

  /* A description of 0.1's length, and an error object as 0.1 reads it. */
  crucible_library_desc desc;
  memset(&desc, 0, sizeof(desc));
  desc.struct_size = sizeof(desc), desc.kind = 999;
  uint64_t scratch = 0;
  crucible_status refused = library_calls->claim(device, &desc, &scratch);
  need(refused != NULL && refused->table->code(refused) == CRUCIBLE_E_UNSUPPORTED,
       "an unknown library call is refused");
  refused->table->destroy(refused);

  ok(plans->destroy(plan), "destroy");
  ok(compile->unload(module), "unload");
  ok(memory->free(a), "free");
  ok(memory->free(b), "free");
  ok(devices->close(device), "close");
  ok(api->shutdown(), "shutdown");
  printf("a host of ABI 0.1 ran a kernel on %.*s %.*s (ABI %u.%u)\n", (int)answer.out.name.size, answer.out.name.data,
         (int)answer.out.version.size, answer.out.version.data, answer.out.abi_major, answer.out.abi_minor);
  return 0;
}
