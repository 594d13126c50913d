// A plugin that is wrong in the way that its file name says: libcrucible_KIND.so. The tests build it once and copy it
// under every name of the table in broken_kinds.hpp; under a name that is not there it is a sound plugin without
// devices.
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cfenv>
#include <clocale>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "plugins/abi/crucible_plugin.h"

namespace {

/// "query_abort" of ".../libcrucible_query_abort.so": how this copy is to behave.
const std::string& kind() {
  static const std::string name = [] {
    Dl_info info = {};
    dladdr(reinterpret_cast<const void*>(&crucible_plugin_query), &info);
    std::string file = info.dli_fname == nullptr ? "" : info.dli_fname;
    if (file.starts_with("/proc/self/fd")) return std::string("sound");  // a sealed copy has no name
    file = file.substr(file.rfind('/') + 1);
    constexpr std::size_t kBefore = sizeof("libcrucible_") - 1, kAfter = sizeof(".so") - 1;
    return file.size() > kBefore + kAfter ? file.substr(kBefore, file.size() - kBefore - kAfter) : file;
  }();
  return name;
}

bool is(const char* name) { return kind() == name; }

/// The crash or hang of "<moment>_<what>". A sanitizer, where there is one, would make exits of the crashes.
__attribute__((no_sanitize("undefined"))) void misbehave(const std::string& moment) {
  volatile int* const nowhere = nullptr;
  if (is((moment + "_aborts").c_str())) std::abort();
  if (is((moment + "_segfaults").c_str())) ::signal(SIGSEGV, SIG_DFL), *nowhere = 1;
  if (is((moment + "_illegal").c_str())) ::signal(SIGILL, SIG_DFL), __builtin_trap();
  if (is((moment + "_exits").c_str())) std::exit(0);
  if (is((moment + "_complains").c_str())) std::fprintf(stderr, "fatal: the device file is\nmissing\n"), std::abort();
  if (is((moment + "_throws").c_str())) throw std::runtime_error("an unhandled exception");
  if (is((moment + "_throws_int").c_str())) throw 42;
  while (is((moment + "_loops").c_str())) {
  }
  while (is((moment + "_hogs").c_str())) {
    constexpr std::size_t kMuch = 16 << 20;
    std::memset(std::malloc(kMuch), 1, kMuch);  // until there is no more
  }
}

void* sleep_long(void*) { return sleep(1000), nullptr; }

/// What the state of the host must survive.
void change_the_process() {
  if (is("changes_locale")) std::setlocale(LC_ALL, "C.UTF-8");
  if (is("installs_handler")) signal(SIGSEGV, [](int) { _exit(3); });
  if (is("closes_stdout")) close(1);
  if (is("redirects_stderr")) (void)!freopen("/dev/null", "w", stderr);
  if (is("changes_folder")) (void)!chdir("/");
  if (is("writes_on_stdout")) std::printf("hello from the plugin\n"), std::fflush(stdout);
#if defined(__x86_64__)
  if (is("changes_mxcsr")) _mm_setcsr(_mm_getcsr() | 0x8040u);  // denormals are zero, as -ffast-math makes it
#endif
  if (is("changes_rounding")) std::fesetround(FE_UPWARD);
  if (is("leaves_thread")) {
    pthread_t thread;
    pthread_create(&thread, nullptr, sleep_long, nullptr);
  }
}

__attribute__((constructor)) void construct() {
  misbehave("constructor");
  if (is("reads_secrets") && std::getenv("API_TOKEN") != nullptr)
    std::fprintf(stderr, "the token is %s\n", std::getenv("API_TOKEN")), std::abort();
}

crucible_str str(const char* text) { return {text, std::strlen(text)}; }

void error_destroy(crucible_error*) {}
crucible_code error_code(const crucible_error*) { return CRUCIBLE_E_UNAVAILABLE; }
std::string the_message = "no device is plugged in";
crucible_str error_message(const crucible_error*) { return str(the_message.c_str()); }
const crucible_error_table kErrorTable = {sizeof(kErrorTable), 0, error_destroy, error_code, error_message, nullptr};
crucible_error the_error = {&kErrorTable};
const crucible_error_table kNoErrorTable = {4, 0, nullptr, nullptr, nullptr, nullptr};
crucible_error junk_error = {&kNoErrorTable};

crucible_status enumerate(crucible_kv_sink, void*) {
  misbehave("devices");
  return is("devices_fail") ? &the_error : is("error_without_functions") ? &junk_error : nullptr;
}

crucible_status close_nothing(crucible_device*) { return nullptr; }

/// One table with something behind its end, as a newer plugin would have.
struct LongDevice {
  crucible_if_device table;
  void (*more[8])();
};
LongDevice device_table = {{sizeof(crucible_if_device), 1, enumerate, nullptr, close_nothing}, {}};
alignas(16) unsigned char unaligned_space[sizeof(crucible_if_device) + 16];
crucible_if_memory memory_table = {sizeof(memory_table), 1};
crucible_if_compile compile_table = {sizeof(compile_table), 1};
crucible_if_plan plan_table = {sizeof(plan_table), 1};
crucible_if_queue queue_table = {sizeof(queue_table), 1};

const void* interface_table(uint32_t id) {
  if (is("tables_throw")) throw std::runtime_error("tables");
  if (id == CRUCIBLE_IF_DEVICE) {
    if (is("table_at_nonsense")) return reinterpret_cast<const void*>(std::uintptr_t{0x1000});
    if (is("table_unaligned")) return std::memcpy(unaligned_space + 3, &device_table.table, sizeof(crucible_if_device));
    if (is("table_too_long")) device_table.table.struct_size = 0xfffffff8u;
    if (is("table_too_short")) device_table.table.struct_size = 8;
    if (is("table_odd_size")) device_table.table.struct_size = 45;
    if (is("table_shorter")) device_table.table.struct_size = offsetof(crucible_if_device, open);
    if (is("table_longer")) device_table.table.struct_size = sizeof(device_table);
    return &device_table;
  }
  if (id == CRUCIBLE_IF_PLAN && is("table_missing")) return nullptr;
  if (id == CRUCIBLE_IF_MEMORY) return &memory_table;
  if (id == CRUCIBLE_IF_COMPILE) return &compile_table;
  if (id == CRUCIBLE_IF_QUEUE) return &queue_table;
  return id == CRUCIBLE_IF_PLAN ? &plan_table : nullptr;
}

/// Starts with the option that it describes and with no other word in it.
crucible_status start_with_key(const crucible_host_api* host) {
  crucible_str key = {};
  if (host->get_option(host->ctx, str("key"), &key) == 0) return the_message = "no key was given", &the_error;
  const std::string given(key.data, key.size);
  return given == "open" ? nullptr : (the_message = "the key " + given + " does not fit", &the_error);
}

crucible_status init(const crucible_host_api* host) {
  misbehave("init");
  if (is("needs_a_key")) return start_with_key(host);
  return is("init_fails") ? &the_error : nullptr;
}
crucible_status shutdown_plugin() { return nullptr; }

crucible_status describe_options(crucible_kv_sink sink, void* user) {
  misbehave("options");
  const crucible_kv unnamed = {str("type"), CRUCIBLE_V_STR, 0, 0, str("bool")};
  if (is("option_unnamed")) sink(user, &unnamed, 1);
  const crucible_kv untyped[] = {{str("name"), CRUCIBLE_V_STR, 0, 0, str("speed")},
                                 {str("type"), CRUCIBLE_V_STR, 0, 0, str("warp")}};
  const crucible_kv key[] = {{str("name"), CRUCIBLE_V_STR, 0, 0, str("key")},
                             {str("type"), CRUCIBLE_V_STR, 0, 0, str("str")},
                             {str("env"), CRUCIBLE_V_STR, 0, 0, str("CRUCIBLE_BROKEN_KEY")}};
  if (is("needs_a_key")) sink(user, key, 3);
  if (is("option_of_no_type")) sink(user, untyped, 2);
  return nullptr;
}

crucible_plugin_api api = {sizeof(api), CRUCIBLE_ABI_MINOR, init, shutdown_plugin, interface_table, describe_options};

}  // namespace

extern "C" int32_t crucible_plugin_query(const crucible_query_in*, crucible_query_out* out) {
  misbehave("query");
  change_the_process();
  out->magic = is("wrong_magic") ? 0x1badbadu : CRUCIBLE_MAGIC;
  out->abi_major = CRUCIBLE_ABI_MAJOR + (is("newer_major") ? 1 : 0);
  out->abi_minor =
      is("older_minor") ? CRUCIBLE_ABI_OLDEST_MINOR - 1 : CRUCIBLE_ABI_MINOR + (is("newer_minor") ? 40 : 0);
  if (is("rejects")) return std::strcpy(out->reject_reason, "the moon is not full"), 5;
  if (is("rejects_silently")) return -1;
  out->name = str(kind().c_str());
  out->vendor = str("nobody");
  out->version = str("1.0");
  out->api = &api;
  if (is("rejects_and_writes")) return std::strcpy(out->reject_reason, "not today"), 6;
  if (is("answer_empty")) out->api = nullptr;
  if (is("answer_short")) out->struct_size = 4;
  if (is("name_too_long")) out->name.size = ~std::uint64_t{0};
  if (is("name_at_nonsense")) out->name = {reinterpret_cast<const char*>(std::uintptr_t{8}), 5};
  if (is("api_unaligned"))
    out->api = reinterpret_cast<const crucible_plugin_api*>(reinterpret_cast<const char*>(&api) + 2);
  if (is("api_null_entries")) api = {sizeof(api), CRUCIBLE_ABI_MINOR, nullptr, nullptr, interface_table, nullptr};
  if (is("api_too_short")) api.struct_size = 3;
  if (is("writes_behind_answer")) std::memset(out + 1, 0, 64);
  return 0;
}
