// The CPU plugin with one thing wrong. It loads the real one, hands out its tables, and changes what its own file name
// says: a copy named libcrucible_faulty_NAME.so has the fault NAME. Each is what the author of a plugin could have done
// by mistake; faults.hpp says which case of the kit must find it.
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include <algorithm>
#include <atomic>
#include <clocale>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "plugins/abi/crucible_plugin.h"
#include "plugins/kernel_ir/serialize.hpp"

namespace {

char the_fault[64] = "";  // from the file's name, when the object is loaded
bool is(std::string_view fault) { return fault == the_fault; }

void read_own_name() {
  Dl_info info = {};
  if (dladdr(the_fault, &info) == 0) return;
  const std::string_view path = info.dli_fname, start = "libcrucible_faulty_";
  const std::size_t at = path.rfind(start);
  if (at == std::string_view::npos) return;
  const std::string_view name = path.substr(at + start.size());
  name.substr(0, std::min(name.rfind(".so"), sizeof(the_fault) - 1)).copy(the_fault, sizeof(the_fault) - 1);
}

// The real plugin's tables, and the ones that are handed out. Static storage, written once when the object is loaded.
crucible_plugin_query_fn real_query = nullptr;
crucible_plugin_api real_api, api;
crucible_if_device real_device, device;
crucible_if_memory real_memory, memory;
crucible_if_queue real_queue, queue;
crucible_if_compile real_compile, compile;
crucible_if_plan real_plan, plan;
crucible_if_profile real_profile, profile;
crucible_device* opened = nullptr;

template <class Table>
void take(std::uint32_t id, Table& real, Table& ours) {
  if (const void* table = real_api.interface_table(id)) std::memcpy(&real, table, sizeof(Table));
  ours = real;
}

const void* interface_table(std::uint32_t id) {
  switch (id) {
    case CRUCIBLE_IF_DEVICE:
      return &device;
    case CRUCIBLE_IF_MEMORY:
      return &memory;
    case CRUCIBLE_IF_QUEUE:
      return is("has_no_queues") ? nullptr : static_cast<const void*>(&queue);
    case CRUCIBLE_IF_COMPILE:
      return &compile;
    case CRUCIBLE_IF_PLAN:
      return &plan;
    case CRUCIBLE_IF_PROFILE:
      return &profile;
    case CRUCIBLE_IF_LIBRARY:
      if (is("claims_conv2d_without_it")) return nullptr;
      [[fallthrough]];
    default:
      return real_api.interface_table(id);
  }
}

// ---- errors of this file's own ----
struct OwnError : crucible_error {
  std::string text;
  crucible_code code = CRUCIBLE_E_INTERNAL;
};
const crucible_error_table kErrorTable = {
    sizeof(crucible_error_table),
    0,
    [](crucible_error* error) {
      auto* own = static_cast<OwnError*>(error);
      delete own;
      void (*volatile again)(void*) = std::free;  // not for the compiler to see through
      if (is("frees_error_twice")) again(error);
    },
    [](const crucible_error* error) { return static_cast<const OwnError*>(error)->code; },
    [](const crucible_error* error) {
      const std::string& text = static_cast<const OwnError*>(error)->text;
      return crucible_str{text.data(), text.size()};
    },
    nullptr};
crucible_status own_error(crucible_code code, const char* text) {
  auto* error = new OwnError;
  error->table = &kErrorTable;
  error->code = code;
  error->text = text;
  return error;
}

// ---- one function per entry that some fault changes ----
crucible_status init(const crucible_host_api* host) {
  if (is("changes_locale")) {
    static char name[] = "C.UTF-8";
    std::setlocale(LC_ALL, name);
  }
  if (is("installs_signal_handler")) signal(SIGUSR1, [](int) {});
  if (is("closes_stdout")) close(1);
  return real_api.init(host);
}

crucible_status shutdown() {
  if (is("leaves_thread_running")) std::thread([] { sleep(60); }).detach();
  return real_api.shutdown();
}

crucible_status device_open(crucible_str id, crucible_device** out) {
  if (is("exits") && id.size > 20) std::exit(0);
  crucible_status status = real_device.open(id, out);
  if (status == nullptr) opened = *out;
  if (is("writes_output_on_error") && status != nullptr && out != nullptr) *out = nullptr;
  return status;
}

void say_another_text(void* user, const crucible_kv* items, std::uint32_t count) {
  auto& [sink, inner] = *static_cast<std::pair<crucible_kv_sink, void*>*>(user);
  std::vector<crucible_kv> changed(items, items + count);
  for (crucible_kv& item : changed) {
    if (std::string_view(item.key.data, item.key.size) == "math") item.s = {"0123456789abcdef", 16};
  }
  sink(inner, changed.data(), count);
}

crucible_status device_properties(crucible_device* handle, crucible_kv_sink sink, void* user) {
  if (is("throws_exception") && sink == nullptr) throw std::runtime_error("a C++ exception");
  if (!is("other_mathematics") || sink == nullptr) return real_device.properties(handle, sink, user);
  std::pair<crucible_kv_sink, void*> inner{sink, user};
  return real_device.properties(handle, say_another_text, &inner);
}

crucible_status memory_alloc(crucible_device* handle, std::uint64_t size, std::uint64_t align, crucible_buffer** out) {
  static crucible_buffer* last = nullptr;
  if (is("hands_out_buffer_twice") && last != nullptr && size < 65537) {
    *out = last;
    return nullptr;
  }
  if (is("pretends_to_have_memory") && size > (1ull << 49)) size = 64;
  crucible_status status = real_memory.alloc(handle, size, align, out);
  if (status != nullptr) {
    if (is("writes_output_on_error") && out != nullptr) *out = nullptr;
    if (is("frees_error_twice")) {
      status->table->destroy(status);
      status = own_error(CRUCIBLE_E_INVALID_ARGUMENT, "the arguments are wrong");
    }
    return status;
  }
  if (is("hands_out_buffer_twice")) last = *out;
  if (is("memory_not_zero")) real_memory.fill(*out, 0, size, 0xcd);
  return nullptr;
}

crucible_status memory_free(crucible_buffer* buffer) {
  return is("hands_out_buffer_twice") ? nullptr : real_memory.free(buffer);
}

crucible_status memory_read(crucible_buffer* buffer, std::uint64_t offset, void* data, std::uint64_t size) {
  if (is("reads_one_byte_too_few") && size > 64 && data != nullptr)
    return real_memory.read(buffer, offset, data, size - 1);
  return real_memory.read(buffer, offset, data, size);
}

crucible_status memory_write(crucible_buffer* buffer, std::uint64_t offset, const void* data, std::uint64_t size) {
  if (is("no_range_check") && (offset > 100 || size > 100)) return nullptr;
  return real_memory.write(buffer, offset, data, size);
}

/// The kernel with a detour: each expression that is `of` is converted to `by` and back before anybody uses it.
template <class Of>
std::vector<std::byte> with_detour(const crucible_kernel_source& source, const Of& of, crucible::DType by) {
  using namespace crucible::kernel;
  auto read = deserialize_ir({static_cast<const std::byte*>(source.data), source.size});
  auto* const kernel = std::get_if<KernelIr>(&read);
  if (kernel == nullptr) return {};
  std::vector<ExprId> now;  // by the number that an expression had
  std::vector<Expr> exprs;
  const auto moved = [&](ExprId& id) {
    if (id != kNoId) id = now[id];
  };
  const auto convert = [&](crucible::DType type) {
    exprs.push_back(
        {.operation = Operation::kConvert, .type = type, .in = {static_cast<ExprId>(exprs.size() - 1), kNoId, kNoId}});
  };
  for (Expr expr : kernel->exprs) {
    for (ExprId& id : expr.in) moved(id);
    exprs.push_back(expr);
    if (of(expr)) convert(by), convert(expr.type);
    now.push_back(static_cast<ExprId>(exprs.size() - 1));
  }
  kernel->exprs = std::move(exprs);
  for (Tile& tile : kernel->tiles) moved(tile.base), moved(tile.left.base), moved(tile.right.base);
  for (Transpose& copy : kernel->transposes) moved(copy.to_base), moved(copy.from_base);
  const auto move_all = [&](const auto& self, std::vector<Stmt>& body) -> void {
    for (Stmt& stmt : body) moved(stmt.a), moved(stmt.b), self(self, stmt.body);
  };
  move_all(move_all, kernel->body);
  return serialize_ir(*kernel);
}

crucible_status compile_kernels(crucible_device* handle, const crucible_kernel_source* sources, std::uint32_t count,
                                std::uint32_t flags, crucible_module** out, crucible_compile_info* info) {
  using crucible::DType, crucible::kernel::Expr, crucible::kernel::Operation;
  if (sources == nullptr) return real_compile.compile(handle, sources, count, flags, out, info);
  std::vector<crucible_kernel_source> own(sources, sources + count);
  std::vector<std::vector<std::byte>> changed(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    if (is("takes_any_form")) own[i].form = CRUCIBLE_FORM_KERNEL_IR;
    if (is("kernels_read_doubles")) {
      const auto is_whole = [](const Expr& e) { return e.operation == Operation::kScalar && e.type == DType::kI64; };
      changed[i] = with_detour(own[i], is_whole, DType::kF64);
    }
    if (is("one_op_is_wrong")) {  // the result by way of a float of eleven bits
      const auto is_root = [](const Expr& e) {
        return e.operation == Operation::kReciprocalSqrt && e.type == DType::kF32;
      };
      changed[i] = with_detour(own[i], is_root, DType::kF16);
    }
    if (!changed[i].empty()) own[i].data = changed[i].data(), own[i].size = changed[i].size();
  }
  return real_compile.compile(handle, own.data(), count, flags, out, info);
}

/// What is left of a whole number that went through a double.
std::uint64_t through_double(std::uint64_t bits) {
  const auto number = static_cast<double>(static_cast<std::int64_t>(bits));
  return number >= 0x1p63 ? bits : static_cast<std::uint64_t>(static_cast<std::int64_t>(number));
}

std::uint64_t whole_slots = 0;  // a bit for each slot of the list that was built last

crucible_status plan_build(crucible_device* handle, const crucible_op* ops, std::uint32_t count, std::uint32_t slots,
                           crucible_plan** out) {
  if (is("stale_plan")) {  // after its destruction the first plan is handed out again
    static crucible_plan* first = nullptr;
    if (first != nullptr) return *out = first, nullptr;
    crucible_status status = real_plan.build(handle, ops, count, slots, out);
    if (status == nullptr) first = *out;
    return status;
  }
  if (is("aborts") && count > 0 && ops != nullptr && ops[0].kind == 77) std::abort();
  std::vector<crucible_op> own(ops, ops == nullptr ? ops : ops + count);
  whole_slots = 0;
  std::vector<std::vector<crucible_scalar>> scalars(own.size());
  for (std::size_t i = 0; i < own.size(); ++i) {
    if (own[i].struct_size != sizeof(crucible_op)) return real_plan.build(handle, ops, count, slots, out);
    if (own[i].kind == CRUCIBLE_OP_LAUNCH && own[i].scalars != nullptr && own[i].scalar_count > 0) {
      scalars[i].assign(own[i].scalars, own[i].scalars + own[i].scalar_count);
      // 0.1 becomes its neighbour: one unit in the last place.
      for (crucible_scalar& scalar : scalars[i]) {
        scalar.bits += is("one_ulp_off") && scalar.bits == 0x3fb999999999999aull ? 1 : 0;
        if (scalar.type != CRUCIBLE_SCALAR_I64) continue;
        if (scalar.slot < 64) whole_slots |= std::uint64_t{1} << scalar.slot;
        if (is("whole_scalar_as_double") && scalar.slot == CRUCIBLE_SLOT_NONE)
          scalar.bits = through_double(scalar.bits);
      }
      own[i].scalars = scalars[i].data();
    }
    if (is("drops_last_work_item") && own[i].kind == CRUCIBLE_OP_LAUNCH && own[i].grid > 1000) --own[i].grid;
    if (is("fill_stops_early") && own[i].kind == CRUCIBLE_OP_FILL && own[i].size > 4096) --own[i].size;
  }
  if (is("ops_out_of_order") && own.size() > 2 && own[own.size() - 1].kind != own[own.size() - 2].kind)
    std::swap(own[own.size() - 1], own[own.size() - 2]);
  return real_plan.build(handle, ops == nullptr ? nullptr : own.data(), count, slots, out);
}

crucible_status plan_destroy(crucible_plan* handle) { return is("stale_plan") ? nullptr : real_plan.destroy(handle); }

crucible_status plan_set_slots(crucible_plan* handle, const std::uint64_t* values, std::uint32_t count) {
  if (values != nullptr && is("whole_slot_as_double")) {
    std::vector<std::uint64_t> rounded(values, values + count);
    for (std::uint32_t i = 0; i < count && i < 64; ++i) {
      if ((whole_slots >> i & 1) != 0) rounded[i] = through_double(values[i]);
    }
    return real_plan.set_slots(handle, rounded.data(), count);
  }
  if (!is("slots_shifted") || values == nullptr || count < 2) return real_plan.set_slots(handle, values, count);
  std::vector<std::uint64_t> turned(values + 1, values + count);
  turned.push_back(values[0]);
  return real_plan.set_slots(handle, turned.data(), count);
}

/// What goes wrong with each submission; NULL while nothing does.
crucible_status go_wrong() {
  static std::atomic<int> replays{0};
  if (is("leaks_a_buffer_per_call") && opened != nullptr) {
    crucible_buffer* lost = nullptr;
    if (crucible_status status = real_memory.alloc(opened, 512, 64, &lost)) status->table->destroy(status);
  }
  if (is("device_lost_in_mid_run") && ++replays > 20)
    return own_error(CRUCIBLE_E_DEVICE_LOST, "the device fell off the bus");
  if (is("hangs") && ++replays > 3) {
    for (;;) pause();
  }
#if defined(__x86_64__)
  if (is("changes_mxcsr")) _mm_setcsr(_mm_getcsr() | 0x8040);
#endif
  return nullptr;
}

// ---- queues ----
crucible_status submit(crucible_queue* handle, crucible_plan* work, const crucible_point* waits,
                       std::uint32_t wait_count, const crucible_point* signals, std::uint32_t signal_count) {
  if (crucible_status wrong = go_wrong()) return wrong;
  if (is("swallows_failures") && signal_count == 2)
    return real_queue.submit(handle, work, waits, wait_count, signals + 1, 1);
  if (is("never_signals")) return real_queue.submit(handle, work, waits, wait_count, nullptr, 0);
  if (is("signals_too_early") && signals != nullptr && signal_count > 0) {
    crucible_status status = real_queue.submit(handle, work, waits, wait_count, nullptr, 0);
    for (std::uint32_t i = 0; status == nullptr && i < signal_count; ++i)
      status = real_queue.timeline_signal(signals[i].timeline, signals[i].value);
    return status;
  }
  if (is("ignores_waits")) return real_queue.submit(handle, work, nullptr, 0, signals, signal_count);
  return real_queue.submit(handle, work, waits, wait_count, signals, signal_count);
}

crucible_status timeline_query(crucible_timeline* handle, std::uint64_t* out) {
  crucible_status status = real_queue.timeline_query(handle, out);
  static std::atomic<int> calls{0};
  if (is("timeline_goes_back") && status == nullptr && ++calls % 3 == 0) *out /= 2;
  return status;
}

crucible_status timeline_wait(crucible_timeline* handle, std::uint64_t value, std::uint64_t timeout_ns) {
  return is("wait_returns_at_once") ? nullptr : real_queue.timeline_wait(handle, value, timeout_ns);
}

crucible_status flush(crucible_queue* handle) {
  return is("never_begins_by_itself") && handle != nullptr ? nullptr : real_queue.flush(handle);
}

crucible_status timeline_times(crucible_timeline* handle, std::uint64_t value, std::uint64_t* begin_ns,
                               std::uint64_t* end_ns, std::uint32_t* clock) {
  crucible_status status = real_queue.timeline_times(handle, value, begin_ns, end_ns, clock);
  if (is("wrong_times") && status == nullptr) *begin_ns /= 1000, *end_ns /= 1000;
  return status;
}

crucible_status clock_pair(crucible_device* handle, std::uint64_t* ticks, std::uint64_t* ns, std::uint64_t* rate) {
  crucible_status status = real_profile.clock_pair(handle, ticks, ns, rate);
  if (is("wrong_clock") && status == nullptr) *ns /= 1000;
  return status;
}

void say_yes(void* user, const crucible_kv* items, std::uint32_t count) {
  auto& [sink, inner] = *static_cast<std::pair<crucible_kv_sink, void*>*>(user);
  std::vector<crucible_kv> changed(items, items + count);
  for (crucible_kv& item : changed) {
    if (std::string_view(item.key.data, item.key.size) == "library.conv2d") item.u = 1;
  }
  sink(inner, changed.data(), count);
}

crucible_status capabilities(crucible_str id, crucible_kv_sink sink, void* user) {
  if (!is("claims_conv2d_without_it") || sink == nullptr) return real_device.capabilities(id, sink, user);
  std::pair<crucible_kv_sink, void*> inner{sink, user};
  return real_device.capabilities(id, say_yes, &inner);
}

__attribute__((constructor)) void load_real_plugin() {
  read_own_name();
  void* const object = dlopen(CRUCIBLE_REAL_PLUGIN, RTLD_NOW | RTLD_LOCAL);
  if (object == nullptr) return;
  real_query = reinterpret_cast<crucible_plugin_query_fn>(dlsym(object, CRUCIBLE_QUERY_SYMBOL));
  const crucible_query_in in = {sizeof(in), CRUCIBLE_MAGIC, CRUCIBLE_ABI_MAJOR, CRUCIBLE_ABI_MINOR};
  crucible_query_out out{};
  out.struct_size = sizeof(out);
  if (real_query(&in, &out) != 0) return;
  std::memcpy(&real_api, out.api, sizeof(real_api));
  api = real_api;
  take(CRUCIBLE_IF_DEVICE, real_device, device);
  take(CRUCIBLE_IF_MEMORY, real_memory, memory);
  take(CRUCIBLE_IF_QUEUE, real_queue, queue);
  take(CRUCIBLE_IF_COMPILE, real_compile, compile);
  take(CRUCIBLE_IF_PLAN, real_plan, plan);
  take(CRUCIBLE_IF_PROFILE, real_profile, profile);
  api.init = init, api.shutdown = shutdown, api.interface_table = interface_table;
  device.open = device_open, device.properties = device_properties, device.capabilities = capabilities;
  memory.alloc = memory_alloc, memory.free = memory_free, memory.read = memory_read, memory.write = memory_write;
  compile.compile = compile_kernels;
  plan.build = plan_build, plan.destroy = plan_destroy, plan.set_slots = plan_set_slots;
  queue.submit = submit, queue.timeline_query = timeline_query, queue.timeline_wait = timeline_wait;
  queue.flush = flush, queue.timeline_times = timeline_times;
  profile.clock_pair = clock_pair;
  if (is("missing_memory_fill")) memory.fill = nullptr;
}

}  // namespace

extern "C" CRUCIBLE_EXPORT int32_t crucible_plugin_query(const crucible_query_in* in, crucible_query_out* out) {
  if (is("query_reads_environment") && std::getenv("PATH") == nullptr) return 9;
  if (is("query_opens_file")) (void)!open("/dev/null", O_RDONLY);
  if (is("query_writes_behind_answer") && in != nullptr && out != nullptr && out->struct_size < sizeof(*out))
    out->feature_bits = 0;
  if (is("query_takes_any_major") && in != nullptr && out != nullptr) {
    crucible_query_in own = *in;
    own.host_major = CRUCIBLE_ABI_MAJOR;
    const int32_t code = real_query(&own, out);
    if (code == 0) out->api = &api;
    return code;
  }
  if (is("takes_old_hosts") && in != nullptr && out != nullptr && in->host_major == CRUCIBLE_ABI_MAJOR) {
    crucible_query_in own = *in;
    own.host_minor = CRUCIBLE_ABI_MINOR;
    const int32_t code = real_query(&own, out);
    if (code == 0) out->api = &api;
    return code;
  }
  const int32_t code = real_query == nullptr ? 7 : real_query(in, out);
  if (code == 0) out->api = &api;
  return code;
}

#if defined(CRUCIBLE_SECOND_EXPORT)
extern "C" CRUCIBLE_EXPORT void another_symbol() {}
#endif
