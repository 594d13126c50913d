// Loading the plugin under test by hand, and the host's services as the kit gives them.
#include "plugins/conformance/subject.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "core/base/terminal.hpp"
#include "plugins/conformance/verdict.hpp"
#include "plugins/layers/kept_in_memory.hpp"

namespace crucible::conformance {
namespace {

/// The bytes that plugin and host both know; the rest stays NULL.
template <class Table>
void copy_table(const void* source, std::string_view name, Table& out) {
  if (source == nullptr) return;
  std::uint32_t size = 0;
  std::memcpy(&size, source, sizeof(size));
  expect(size >= offsetof(crucible_if_device, enumerate),
         fmt::format("struct_size of the table {} covers its head", name), fmt::format("struct_size is {}", size));
  std::memcpy(static_cast<void*>(&out), source, std::min<std::size_t>(size, sizeof(Table)));
}

std::map<std::string, std::string>* options = nullptr;  // never destroyed: the plugin may ask until the process ends
std::atomic<std::int64_t> live_bytes{0};

void host_log(void*, std::uint32_t level, crucible_str component, crucible_str text) {
  static constexpr const char* kLevels[] = {"debug", "info", "warning", "error"};
  expect(level <= CRUCIBLE_LOG_ERROR, "host.log is called with a level from 0 to 3", fmt::format("level {}", level));
  if (level < CRUCIBLE_LOG_WARNING) return;
  tell("plugin says ({}, {}): {}\n", kLevels[level], to_string(component), to_string(text));
}

std::uint32_t host_get_option(void*, crucible_str key, crucible_str* out) {
  const auto found = options->find(to_string(key));
  if (found == options->end() || found->second.empty()) return 0;
  *out = borrow(found->second);
  return 1;
}

void* host_alloc(void*, std::uint64_t size, std::uint64_t align) {
  if (!std::has_single_bit(align)) return nullptr;
  const std::uint64_t least = std::max<std::uint64_t>(align, sizeof(void*));
  void* memory = nullptr;
  if (posix_memalign(&memory, least, std::max<std::uint64_t>(size, 1)) != 0) return nullptr;
  live_bytes += static_cast<std::int64_t>(size);
  return memory;
}

void host_free(void*, void* memory, std::uint64_t size, std::uint64_t) {
  if (memory == nullptr) return;
  live_bytes -= static_cast<std::int64_t>(size);
  std::free(memory);
}

void host_metric(void*, const crucible_kv*, std::uint32_t) {}

}  // namespace

std::int64_t host_live_bytes() { return live_bytes; }

const crucible_host_api* host_services(const Settings& settings) {
  if (options == nullptr) options = new std::map<std::string, std::string>(settings.options);
  // Static: the plugin may call its host until the process is over.
  static constexpr crucible_host_api kServices = {sizeof(crucible_host_api),
                                                  CRUCIBLE_ABI_MINOR,
                                                  nullptr,
                                                  host_log,
                                                  host_get_option,
                                                  host_alloc,
                                                  host_free,
                                                  host_metric,
                                                  layers::kept_in_memory::find,
                                                  layers::kept_in_memory::give_back,
                                                  layers::kept_in_memory::keep,
                                                  layers::kept_in_memory::claim,
                                                  layers::kept_in_memory::unclaim};
  return &kServices;
}

crucible_plugin_query_fn load_query(const Settings& settings) {
  void* const object = dlopen(settings.plugin.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (object == nullptr) {
    const char* words = dlerror();
    fail("the dynamic loader takes the plugin", words == nullptr ? "it gave no reason" : words);
  }
  void* const symbol = dlsym(object, CRUCIBLE_QUERY_SYMBOL);
  expect(symbol != nullptr, fmt::format("it exports {}", CRUCIBLE_QUERY_SYMBOL), "it does not");
  return reinterpret_cast<crucible_plugin_query_fn>(symbol);
}

void missing_entry(std::string_view name) {
  fail(fmt::format("the plugin has {}, which is mandatory", name), "the entry is NULL or behind the end of its table");
}

void absent_entry(std::string_view name) { unsupported(fmt::format("the plugin has no {}", name)); }

Subject::Subject(const Settings& given) : settings(given) {
  const crucible_plugin_query_fn query = load_query(settings);
  const crucible_query_in in = {sizeof(in), CRUCIBLE_MAGIC, CRUCIBLE_ABI_MAJOR, CRUCIBLE_ABI_MINOR};
  answer.struct_size = sizeof(crucible_query_out);
  const std::int32_t code = query(&in, &answer);
  expect(code == 0, fmt::format("the query accepts a host of ABI {}.{}", CRUCIBLE_ABI_MAJOR, CRUCIBLE_ABI_MINOR),
         fmt::format("code {}: {}", code, std::string_view(answer.reject_reason, strnlen(answer.reject_reason, 192))));
  expect(answer.magic == CRUCIBLE_MAGIC && answer.abi_major == CRUCIBLE_ABI_MAJOR, "the query answers magic and major",
         fmt::format("magic {:#x}, major {}", answer.magic, answer.abi_major));
  expect(answer.api != nullptr, "the query hands out the plugin's functions", "api is NULL");
  expect(answer.api->struct_size >= offsetof(crucible_plugin_api, describe_options),
         "the plugin's own table has init, shutdown and interface_table",
         fmt::format("struct_size is {}", answer.api->struct_size));
  std::memcpy(static_cast<void*>(&api), answer.api, std::min<std::size_t>(answer.api->struct_size, sizeof(api)));
  expect(api.init != nullptr && api.shutdown != nullptr && api.interface_table != nullptr,
         "init, shutdown and interface_table are there", "one of them is NULL");
  const auto table = [&](std::uint32_t id) { return api.interface_table(id); };
  copy_table(table(CRUCIBLE_IF_DEVICE), "device", tables.device);
  copy_table(table(CRUCIBLE_IF_MEMORY), "memory", tables.memory);
  copy_table(table(CRUCIBLE_IF_QUEUE), "queue", tables.queue);
  copy_table(table(CRUCIBLE_IF_COMPILE), "compile", tables.compile);
  copy_table(table(CRUCIBLE_IF_PLAN), "plan", tables.plan);
  copy_table(table(CRUCIBLE_IF_LIBRARY), "library", tables.library);
  copy_table(table(CRUCIBLE_IF_PROFILE), "profile", tables.profile);
  copy_table(table(CRUCIBLE_IF_HEALTH), "health", tables.health);
}

Subject::~Subject() { stop(); }

void Subject::start() {
  expect_ok(api.init(host_services(settings)), "init");
  started_ = true;
}

void Subject::stop() {
  if (!started_) return;
  started_ = false;
  expect_ok(api.shutdown(), "shutdown");
}

std::uint64_t Items::number(const std::string& key) const {
  const auto found = all.find(key);
  return found == all.end() ? 0 : std::strtoull(found->second.c_str(), nullptr, 10);
}

void Items::collect(void* user, const crucible_kv* items, std::uint32_t count) {
  auto& self = *static_cast<Items*>(user);
  std::map<std::string, std::string>& call = self.calls.emplace_back();
  expect(items != nullptr || count == 0, "the sink gets items", "items is NULL");
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::string key = to_string(items[i].key);
    expect(!key.empty(), "every item that the plugin reports has a key", "an empty key");
    std::string value;
    switch (items[i].type) {
      case CRUCIBLE_V_I64:
        value = std::to_string(static_cast<std::int64_t>(items[i].u));
        break;
      case CRUCIBLE_V_U64:
        value = std::to_string(items[i].u);
        break;
      case CRUCIBLE_V_F64_BITS:
        value = fmt::format("{}", std::bit_cast<double>(items[i].u));
        break;
      case CRUCIBLE_V_STR:
        value = to_string(items[i].s);
        break;
      case CRUCIBLE_V_TRISTATE:
        expect(items[i].u <= 2, fmt::format("'{}' is no, yes or unknown", key), fmt::format("{}", items[i].u));
        value = items[i].u == 0 ? "no" : items[i].u == 1 ? "yes" : "unknown";
        self.tristates[key] = {items[i].u, to_string(items[i].s)};
        break;
      default:
        fail(fmt::format("'{}' has one of the ABI's types", key), fmt::format("type {}", items[i].type));
    }
    self.all[key] = value;
    call[key] = value;
  }
}

}  // namespace crucible::conformance
