// Full-size copies of tables that came from the other side. Generated from abi.toml by gen/generate.py.
//
// A received table is as long as its maker knew it. copy_table() takes the bytes that are there; fill() turns each entry
// that is missing, because the table is older or because it was left NULL, into a function of the same type that answers
// CRUCIBLE_E_UNIMPLEMENTED and its own name. So nobody tests versions, neither the host nor a plugin. Header-only and
// without dependencies: the loader uses it for plugins' tables, the SDK for the host's.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "plugins/abi/crucible_plugin.h"

namespace crucible::abi {

/// Whether host and plugin understand each other: the other side's numbers are given. Newer minors have only more at the
/// end; minors before CRUCIBLE_ABI_OLDEST_MINOR hand over kernels in a way that is gone. The only place where minors are compared.
constexpr bool understands(std::uint32_t major, std::uint32_t minor) {
  return major == CRUCIBLE_ABI_MAJOR && minor >= CRUCIBLE_ABI_OLDEST_MINOR;
}

/// A text that can be a template argument.
template <std::size_t N>
struct FixedText {
  char text[N]{};
  constexpr FixedText(const char (&literal)[N]) { std::copy_n(literal, N, text); }  // NOLINT: implicit on purpose
};

/// The error of one missing entry: static, so that answering it allocates nothing and destroying it is free.
template <FixedText Name>
crucible_status unimplemented() {
  static constexpr FixedText kMessage = Name;
  static const crucible_error_table kTable = {
      sizeof(crucible_error_table), 0, [](crucible_error*) {},
      [](const crucible_error*) -> crucible_code { return CRUCIBLE_E_UNIMPLEMENTED; },
      [](const crucible_error*) { return crucible_str{kMessage.text, sizeof(kMessage.text) - 1}; },
      [](const crucible_error*, std::uint32_t, crucible_str*, crucible_str*) -> std::uint32_t { return 0; }};
  static crucible_error error = {&kTable};
  return &error;
}

/// The first min(theirs, ours) bytes of a sized struct at any alignment; the rest is zero, struct_size is ours.
template <class Table>
Table copy_table(const void* source) {
  Table table{};
  std::uint32_t size = 0;
  std::memcpy(&size, source, sizeof(size));
  std::memcpy(static_cast<void*>(&table), source, std::min<std::size_t>(size, sizeof(Table)));
  table.struct_size = sizeof(Table);
  return table;
}

namespace missing::error_table {
inline void destroy(crucible_error*) {}
inline crucible_code code(const crucible_error*) { return CRUCIBLE_E_INTERNAL; }
inline crucible_str message(const crucible_error*) { return {nullptr, 0}; }
inline uint32_t payload(const crucible_error*, uint32_t, crucible_str*, crucible_str*) { return {}; }
}  // namespace missing::error_table

namespace missing::host_api {
inline void log(void*, uint32_t, crucible_str, crucible_str) {}
inline uint32_t get_option(void*, crucible_str, crucible_str*) { return {}; }
inline void* alloc(void*, uint64_t, uint64_t) { return {}; }
inline void free(void*, void*, uint64_t, uint64_t) {}
inline void metric(void*, const crucible_kv*, uint32_t) {}
inline void find_kept(void*, const crucible_kept_key*, uint32_t, crucible_kept_bytes*) {}
inline void free_kept(void*, const crucible_kept_bytes*, uint32_t) {}
inline uint32_t keep(void*, const crucible_kept_key*, uint32_t, const void*, uint64_t) { return {}; }
inline uint32_t claim_kept(void*, const crucible_kept_key*) { return {}; }
inline void unclaim_kept(void*, const crucible_kept_key*) {}
}  // namespace missing::host_api

namespace missing::device {
inline crucible_status enumerate(crucible_kv_sink, void*) { return unimplemented<"the plugin has no device.enumerate: use a newer one">(); }
inline crucible_status open(crucible_str, crucible_device**) { return unimplemented<"the plugin has no device.open: use a newer one">(); }
inline crucible_status close(crucible_device*) { return unimplemented<"the plugin has no device.close: use a newer one">(); }
inline crucible_status properties(crucible_device*, crucible_kv_sink, void*) { return unimplemented<"the plugin has no device.properties: use a newer one">(); }
inline crucible_status capabilities(crucible_str, crucible_kv_sink, void*) { return unimplemented<"the plugin has no device.capabilities: use a newer one">(); }
inline crucible_status score(crucible_str, const crucible_kv*, uint32_t, uint64_t*, crucible_kv_sink, void*) { return unimplemented<"the plugin has no device.score: use a newer one">(); }
inline crucible_status wait_idle(crucible_device*, uint64_t) { return unimplemented<"the plugin has no device.wait_idle: use a newer one">(); }
inline crucible_status self_test(crucible_device*, uint32_t, crucible_kv_sink, void*) { return unimplemented<"the plugin has no device.self_test: use a newer one">(); }
}  // namespace missing::device

namespace missing::memory {
inline crucible_status alloc(crucible_device*, uint64_t, uint64_t, crucible_buffer**) { return unimplemented<"the plugin has no memory.alloc: use a newer one">(); }
inline crucible_status free(crucible_buffer*) { return unimplemented<"the plugin has no memory.free: use a newer one">(); }
inline crucible_status write(crucible_buffer*, uint64_t, const void*, uint64_t) { return unimplemented<"the plugin has no memory.write: use a newer one">(); }
inline crucible_status read(crucible_buffer*, uint64_t, void*, uint64_t) { return unimplemented<"the plugin has no memory.read: use a newer one">(); }
inline crucible_status fill(crucible_buffer*, uint64_t, uint64_t, uint8_t) { return unimplemented<"the plugin has no memory.fill: use a newer one">(); }
inline crucible_status address(crucible_buffer*, uint64_t*) { return unimplemented<"the plugin has no memory.address: use a newer one">(); }
inline crucible_status stats(crucible_device*, crucible_kv_sink, void*) { return unimplemented<"the plugin has no memory.stats: use a newer one">(); }
inline crucible_status adopt(crucible_device*, void*, uint64_t, crucible_buffer**) { return unimplemented<"the plugin has no memory.adopt: use a newer one">(); }
}  // namespace missing::memory

namespace missing::queue {
inline crucible_status create(crucible_device*, crucible_queue**) { return unimplemented<"the plugin has no queue.create: use a newer one">(); }
inline crucible_status destroy(crucible_queue*) { return unimplemented<"the plugin has no queue.destroy: use a newer one">(); }
inline crucible_status timeline_create(crucible_device*, uint64_t, crucible_timeline**) { return unimplemented<"the plugin has no queue.timeline_create: use a newer one">(); }
inline crucible_status timeline_destroy(crucible_timeline*) { return unimplemented<"the plugin has no queue.timeline_destroy: use a newer one">(); }
inline crucible_status timeline_query(crucible_timeline*, uint64_t*) { return unimplemented<"the plugin has no queue.timeline_query: use a newer one">(); }
inline crucible_status timeline_signal(crucible_timeline*, uint64_t) { return unimplemented<"the plugin has no queue.timeline_signal: use a newer one">(); }
inline crucible_status timeline_wait(crucible_timeline*, uint64_t, uint64_t) { return unimplemented<"the plugin has no queue.timeline_wait: use a newer one">(); }
inline crucible_status submit(crucible_queue*, crucible_plan*, const crucible_point*, uint32_t, const crucible_point*, uint32_t) { return unimplemented<"the plugin has no queue.submit: use a newer one">(); }
inline crucible_status flush(crucible_queue*) { return unimplemented<"the plugin has no queue.flush: use a newer one">(); }
inline crucible_status timeline_times(crucible_timeline*, uint64_t, uint64_t*, uint64_t*, uint32_t*) { return unimplemented<"the plugin has no queue.timeline_times: use a newer one">(); }
}  // namespace missing::queue

namespace missing::compile {
inline crucible_status compile(crucible_device*, const crucible_kernel_source*, uint32_t, uint32_t, crucible_module**, crucible_compile_info*) { return unimplemented<"the plugin has no compile.compile: use a newer one">(); }
inline crucible_status kernel(crucible_module*, crucible_str, crucible_kernel**) { return unimplemented<"the plugin has no compile.kernel: use a newer one">(); }
inline crucible_status unload(crucible_module*) { return unimplemented<"the plugin has no compile.unload: use a newer one">(); }
inline crucible_status kernel_info(crucible_kernel*, crucible_kv_sink, void*) { return unimplemented<"the plugin has no compile.kernel_info: use a newer one">(); }
inline crucible_status compile_log(crucible_module*, crucible_kv_sink, void*) { return unimplemented<"the plugin has no compile.compile_log: use a newer one">(); }
}  // namespace missing::compile

namespace missing::plan {
inline crucible_status build(crucible_device*, const crucible_op*, uint32_t, uint32_t, crucible_plan**) { return unimplemented<"the plugin has no plan.build: use a newer one">(); }
inline crucible_status set_slots(crucible_plan*, const uint64_t*, uint32_t) { return unimplemented<"the plugin has no plan.set_slots: use a newer one">(); }
inline crucible_status profile(crucible_plan*, uint64_t*, uint32_t) { return unimplemented<"the plugin has no plan.profile: use a newer one">(); }
inline crucible_status destroy(crucible_plan*) { return unimplemented<"the plugin has no plan.destroy: use a newer one">(); }
inline crucible_status describe(crucible_plan*, crucible_kv_sink, void*) { return unimplemented<"the plugin has no plan.describe: use a newer one">(); }
inline crucible_status rebind(crucible_plan*, const crucible_rebinding*, uint32_t) { return unimplemented<"the plugin has no plan.rebind: use a newer one">(); }
}  // namespace missing::plan

namespace missing::library {
inline crucible_status claim(crucible_device*, const crucible_library_desc*, uint64_t*) { return unimplemented<"the plugin has no library.claim: use a newer one">(); }
}  // namespace missing::library

namespace missing::profile {
inline crucible_status clock_pair(crucible_device*, uint64_t*, uint64_t*, uint64_t*) { return unimplemented<"the plugin has no profile.clock_pair: use a newer one">(); }
inline crucible_status counters(crucible_str, crucible_kv_sink, void*) { return unimplemented<"the plugin has no profile.counters: use a newer one">(); }
inline crucible_status begin(crucible_device*, const crucible_str*, uint32_t) { return unimplemented<"the plugin has no profile.begin: use a newer one">(); }
inline crucible_status read(crucible_device*, crucible_kv_sink, void*) { return unimplemented<"the plugin has no profile.read: use a newer one">(); }
inline crucible_status end(crucible_device*) { return unimplemented<"the plugin has no profile.end: use a newer one">(); }
}  // namespace missing::profile

namespace missing::health {
inline crucible_status sample(crucible_str, crucible_kv_sink, void*) { return unimplemented<"the plugin has no health.sample: use a newer one">(); }
inline crucible_status state(crucible_str, uint32_t*, crucible_kv_sink, void*) { return unimplemented<"the plugin has no health.state: use a newer one">(); }
}  // namespace missing::health

namespace missing::plugin_api {
inline crucible_status init(const crucible_host_api*) { return nullptr; }
inline crucible_status shutdown() { return nullptr; }
inline const void* interface_table(uint32_t) { return {}; }
inline crucible_status describe_options(crucible_kv_sink, void*) { return unimplemented<"the plugin has no plugin_api.describe_options: use a newer one">(); }
}  // namespace missing::plugin_api

inline void fill(crucible_error_table& table) {
  if (table.destroy == nullptr) table.destroy = missing::error_table::destroy;
  if (table.code == nullptr) table.code = missing::error_table::code;
  if (table.message == nullptr) table.message = missing::error_table::message;
  if (table.payload == nullptr) table.payload = missing::error_table::payload;
}

inline void fill(crucible_host_api& table) {
  if (table.log == nullptr) table.log = missing::host_api::log;
  if (table.get_option == nullptr) table.get_option = missing::host_api::get_option;
  if (table.alloc == nullptr) table.alloc = missing::host_api::alloc;
  if (table.free == nullptr) table.free = missing::host_api::free;
  if (table.metric == nullptr) table.metric = missing::host_api::metric;
  if (table.find_kept == nullptr) table.find_kept = missing::host_api::find_kept;
  if (table.free_kept == nullptr) table.free_kept = missing::host_api::free_kept;
  if (table.keep == nullptr) table.keep = missing::host_api::keep;
  if (table.claim_kept == nullptr) table.claim_kept = missing::host_api::claim_kept;
  if (table.unclaim_kept == nullptr) table.unclaim_kept = missing::host_api::unclaim_kept;
}

inline void fill(crucible_if_device& table) {
  if (table.enumerate == nullptr) table.enumerate = missing::device::enumerate;
  if (table.open == nullptr) table.open = missing::device::open;
  if (table.close == nullptr) table.close = missing::device::close;
  if (table.properties == nullptr) table.properties = missing::device::properties;
  if (table.capabilities == nullptr) table.capabilities = missing::device::capabilities;
  if (table.score == nullptr) table.score = missing::device::score;
  if (table.wait_idle == nullptr) table.wait_idle = missing::device::wait_idle;
  if (table.self_test == nullptr) table.self_test = missing::device::self_test;
}

inline void fill(crucible_if_memory& table) {
  if (table.alloc == nullptr) table.alloc = missing::memory::alloc;
  if (table.free == nullptr) table.free = missing::memory::free;
  if (table.write == nullptr) table.write = missing::memory::write;
  if (table.read == nullptr) table.read = missing::memory::read;
  if (table.fill == nullptr) table.fill = missing::memory::fill;
  if (table.address == nullptr) table.address = missing::memory::address;
  if (table.stats == nullptr) table.stats = missing::memory::stats;
  if (table.adopt == nullptr) table.adopt = missing::memory::adopt;
}

inline void fill(crucible_if_queue& table) {
  if (table.create == nullptr) table.create = missing::queue::create;
  if (table.destroy == nullptr) table.destroy = missing::queue::destroy;
  if (table.timeline_create == nullptr) table.timeline_create = missing::queue::timeline_create;
  if (table.timeline_destroy == nullptr) table.timeline_destroy = missing::queue::timeline_destroy;
  if (table.timeline_query == nullptr) table.timeline_query = missing::queue::timeline_query;
  if (table.timeline_signal == nullptr) table.timeline_signal = missing::queue::timeline_signal;
  if (table.timeline_wait == nullptr) table.timeline_wait = missing::queue::timeline_wait;
  if (table.submit == nullptr) table.submit = missing::queue::submit;
  if (table.flush == nullptr) table.flush = missing::queue::flush;
  if (table.timeline_times == nullptr) table.timeline_times = missing::queue::timeline_times;
}

inline void fill(crucible_if_compile& table) {
  if (table.compile == nullptr) table.compile = missing::compile::compile;
  if (table.kernel == nullptr) table.kernel = missing::compile::kernel;
  if (table.unload == nullptr) table.unload = missing::compile::unload;
  if (table.kernel_info == nullptr) table.kernel_info = missing::compile::kernel_info;
  if (table.compile_log == nullptr) table.compile_log = missing::compile::compile_log;
}

inline void fill(crucible_if_plan& table) {
  if (table.build == nullptr) table.build = missing::plan::build;
  if (table.set_slots == nullptr) table.set_slots = missing::plan::set_slots;
  if (table.profile == nullptr) table.profile = missing::plan::profile;
  if (table.destroy == nullptr) table.destroy = missing::plan::destroy;
  if (table.describe == nullptr) table.describe = missing::plan::describe;
  if (table.rebind == nullptr) table.rebind = missing::plan::rebind;
}

inline void fill(crucible_if_library& table) {
  if (table.claim == nullptr) table.claim = missing::library::claim;
}

inline void fill(crucible_if_profile& table) {
  if (table.clock_pair == nullptr) table.clock_pair = missing::profile::clock_pair;
  if (table.counters == nullptr) table.counters = missing::profile::counters;
  if (table.begin == nullptr) table.begin = missing::profile::begin;
  if (table.read == nullptr) table.read = missing::profile::read;
  if (table.end == nullptr) table.end = missing::profile::end;
}

inline void fill(crucible_if_health& table) {
  if (table.sample == nullptr) table.sample = missing::health::sample;
  if (table.state == nullptr) table.state = missing::health::state;
}

inline void fill(crucible_plugin_api& table) {
  if (table.init == nullptr) table.init = missing::plugin_api::init;
  if (table.shutdown == nullptr) table.shutdown = missing::plugin_api::shutdown;
  if (table.interface_table == nullptr) table.interface_table = missing::plugin_api::interface_table;
  if (table.describe_options == nullptr) table.describe_options = missing::plugin_api::describe_options;
}

/// Every interface table of a plugin, full-size.
struct Tables {
  crucible_if_device device;
  crucible_if_memory memory;
  crucible_if_queue queue;
  crucible_if_compile compile;
  crucible_if_plan plan;
  crucible_if_library library;
  crucible_if_profile profile;
  crucible_if_health health;
};

/// Calls f(table, id, name, mandatory) for each interface table of `tables`.
template <class AnyTables, class F>
void for_each_interface(AnyTables& tables, F f) {
  f(tables.device, CRUCIBLE_IF_DEVICE, "device", true);
  f(tables.memory, CRUCIBLE_IF_MEMORY, "memory", true);
  f(tables.queue, CRUCIBLE_IF_QUEUE, "queue", true);
  f(tables.compile, CRUCIBLE_IF_COMPILE, "compile", true);
  f(tables.plan, CRUCIBLE_IF_PLAN, "plan", true);
  f(tables.library, CRUCIBLE_IF_LIBRARY, "library", false);
  f(tables.profile, CRUCIBLE_IF_PROFILE, "profile", false);
  f(tables.health, CRUCIBLE_IF_HEALTH, "health", false);
}

/// Tables that answer "unimplemented" to everything.
inline Tables unimplemented_tables() {
  Tables tables{};
  for_each_interface(tables, [](auto& table, std::uint32_t, const char*, bool) {
    table.struct_size = sizeof(table);
    fill(table);
  });
  return tables;
}

/// The functions of an error object, full-size: `status` must not be null.
inline crucible_error_table error_functions(crucible_status status) {
  auto table = copy_table<crucible_error_table>(status->table);
  fill(table);
  return table;
}

}  // namespace crucible::abi
