// Each function of device, memory, compile and plan by each error that it can be brought to: the right category, a
// message, nothing written. The optional tables are in api_optional.cpp, the order of teardown in api_teardown.cpp.
#include <fmt/format.h>

#include "plugins/conformance/api_cases.hpp"
#include "plugins/conformance/opened.hpp"

namespace crucible::conformance {
namespace {

constexpr auto kInvalid = CRUCIBLE_E_INVALID_ARGUMENT;

void device_enumerate(const Settings& settings) {
  Subject subject(settings);
  subject.start();
  const auto enumerate = must(subject.tables.device.enumerate, "device.enumerate");
  Items first, second;
  expect_ok(enumerate(first.sink(), first.user()), "device.enumerate");
  expect_ok(enumerate(second.sink(), second.user()), "device.enumerate again");
  expect(first.calls == second.calls, "device.enumerate gives the same twice", "it differs");
  for (const auto& call : first.calls) {
    for (const char* key : {"id", "name", "kind"})
      expect(call.contains(key) && !call.at(key).empty(), fmt::format("every device has {}", key),
             "it is missing or empty");
  }
  for (std::size_t i = 0; i < first.calls.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j)
      expect(first.calls[i].at("id") != first.calls[j].at("id"), "ids differ", first.calls[i].at("id") + " twice");
  }
  expect_error(enumerate(nullptr, nullptr), {kInvalid}, "device.enumerate without a sink");
}

void device_open(const Settings& settings) {
  Subject subject(settings);
  subject.start();
  const auto open = must(subject.tables.device.open, "device.open");
  const std::string id = device_ids(subject).front();
  for (const std::string& unknown : {std::string("no-such:99"), std::string(5000, 'x'), id + "0",
                                     id + std::string(1, '\0'), std::string("\xff\xfe")}) {
    Canary<crucible_device*> device;
    const std::string what = fmt::format("device.open of an unknown id of {} bytes", unknown.size());
    expect_error(open(borrow(unknown), device.out()), {kInvalid, CRUCIBLE_E_UNAVAILABLE, CRUCIBLE_E_UNSUPPORTED}, what);
    device.expect_untouched(what);
  }
  expect_error(open(borrow(id), nullptr), {kInvalid}, "device.open without a place for the device");
  if (const auto close = subject.tables.device.close) {
    // Closing nothing may be allowed; it may not crash.
    if (crucible_status status = close(nullptr)) take_error(status, "device.close of NULL");
  }
}

void device_properties(const Settings& settings) {
  Opened opened(settings);
  const auto properties = must(opened.tables.device.properties, "device.properties");
  Items items;
  expect_ok(properties(opened.device, items.sink(), items.user()), "device.properties");
  expect_error(properties(opened.device, nullptr, nullptr), {kInvalid}, "device.properties without a sink");
  expect_error(properties(nullptr, items.sink(), items.user()), {kInvalid}, "device.properties without a device");
}

void device_questions(const Settings& settings) {
  Opened opened(settings);
  const auto& table = opened.tables.device;
  need(table.capabilities, "device.capabilities");
  Items items;
  const std::string unknown = "no-such:99";
  const std::initializer_list<crucible_code> codes = {kInvalid, CRUCIBLE_E_UNAVAILABLE, CRUCIBLE_E_UNSUPPORTED};
  expect_error(table.capabilities(borrow(unknown), items.sink(), items.user()), codes,
               "device.capabilities of an unknown device");
  expect(items.calls.empty(), "nothing is reported of an unknown device", "items came");
  expect_error(table.capabilities(borrow(opened.id), nullptr, nullptr), {kInvalid},
               "device.capabilities without a sink");
  if (table.score == nullptr) return;
  Canary<std::uint64_t> score;
  expect_error(table.score(borrow(unknown), nullptr, 0, score.out(), items.sink(), items.user()), codes,
               "device.score of an unknown device");
  score.expect_untouched("device.score of an unknown device");
  expect_error(table.score(borrow(opened.id), nullptr, 3, score.out(), items.sink(), items.user()), {kInvalid},
               "device.score with a workload of 3 items at NULL");
  score.expect_untouched("device.score with a workload at NULL");
  expect_error(table.score(borrow(opened.id), nullptr, 0, nullptr, items.sink(), items.user()), {kInvalid},
               "device.score without a place for the score");
}

void memory_alloc(const Settings& settings) {
  Opened opened(settings);
  const auto alloc = must(opened.tables.memory.alloc, "memory.alloc");
  const auto refused = [&](crucible_device* device, std::uint64_t size, std::uint64_t align, const std::string& what) {
    Canary<crucible_buffer*> buffer;
    expect_error(alloc(device, size, align, buffer.out()), {kInvalid}, what);
    buffer.expect_untouched(what);
  };
  for (const std::uint64_t align : {0ull, 3ull, 12ull, 65ull, ~0ull})
    refused(opened.device, 64, align, fmt::format("memory.alloc with alignment {}", align));
  refused(nullptr, 64, 64, "memory.alloc without a device");
  expect_error(alloc(opened.device, 64, 64, nullptr), {kInvalid}, "memory.alloc without a place for the buffer");
  if (const auto free = opened.tables.memory.free) {
    if (crucible_status status = free(nullptr)) take_error(status, "memory.free of NULL");
  }
}

/// Calls with each range that is not inside a buffer of 100 bytes.
template <class Call>
void every_bad_range(const std::string& name, Call call) {
  static constexpr std::pair<std::uint64_t, std::uint64_t> kRanges[] = {
      {0, 101}, {100, 1}, {101, 0}, {99, 2}, {1ull << 40, 1}, {~0ull, 1}, {1, ~0ull}, {~0ull, ~0ull}, {50, ~0ull - 49}};
  for (const auto& [offset, size] : kRanges) {
    expect_error(call(offset, size), {kInvalid},
                 fmt::format("{} of {} bytes at {} of a buffer of 100", name, size, offset));
  }
}

void memory_ranges(const Settings& settings) {
  Opened opened(settings);
  const auto& table = opened.tables.memory;
  Memory buffer(opened, 100);
  const std::vector<std::byte> before = noise(100, 1);
  buffer.write(0, before);
  std::vector<std::byte> host(256, std::byte{0x77});
  every_bad_range("memory.write", [&](std::uint64_t offset, std::uint64_t size) {
    return must(table.write, "memory.write")(buffer.handle(), offset, host.data(), size);
  });
  every_bad_range("memory.read", [&](std::uint64_t offset, std::uint64_t size) {
    return must(table.read, "memory.read")(buffer.handle(), offset, host.data(), size);
  });
  every_bad_range("memory.fill", [&](std::uint64_t offset, std::uint64_t size) {
    return must(table.fill, "memory.fill")(buffer.handle(), offset, size, 9);
  });
  expect_bytes(buffer.read(0, 100), before, "the buffer after refused calls");
  expect_bytes(host, std::vector<std::byte>(256, std::byte{0x77}), "the host's memory after refused reads");
  expect_ok(table.write(buffer.handle(), 100, nullptr, 0), "memory.write of no bytes at the end");
  expect_ok(table.read(buffer.handle(), 100, nullptr, 0), "memory.read of no bytes at the end");
  expect_ok(table.fill(buffer.handle(), 100, 0, 1), "memory.fill of no bytes at the end");
}

void memory_nulls(const Settings& settings) {
  Opened opened(settings);
  const auto& table = opened.tables.memory;
  Memory buffer(opened, 16);
  std::byte host[16] = {};
  expect_error(must(table.write, "memory.write")(nullptr, 0, host, 16), {kInvalid}, "memory.write without a buffer");
  expect_error(table.write(buffer.handle(), 0, nullptr, 16), {kInvalid}, "memory.write of 16 bytes at NULL");
  expect_error(must(table.read, "memory.read")(nullptr, 0, host, 16), {kInvalid}, "memory.read without a buffer");
  expect_error(table.read(buffer.handle(), 0, nullptr, 16), {kInvalid}, "memory.read of 16 bytes to NULL");
  expect_error(must(table.fill, "memory.fill")(nullptr, 0, 16, 0), {kInvalid}, "memory.fill without a buffer");
  Canary<std::uint64_t> address;
  expect_error(must(table.address, "memory.address")(nullptr, address.out()), {kInvalid},
               "memory.address without a buffer");
  address.expect_untouched("memory.address without a buffer");
  expect_error(table.address(buffer.handle(), nullptr), {kInvalid}, "memory.address without a place for it");
  Items items;
  expect_error(must(table.stats, "memory.stats")(nullptr, items.sink(), items.user()), {kInvalid},
               "memory.stats without a device");
  expect_error(table.stats(opened.device, nullptr, nullptr), {kInvalid}, "memory.stats without a sink");
}

void compile_misuse(const Settings& settings) {
  Opened opened(settings);
  const auto& table = opened.tables.compile;
  const auto compile = must(table.compile, "compile.compile");
  const crucible_kernel_source source = source_of(test_kernels().front());
  Canary<crucible_module*> module;
  const auto refused = [&](crucible_status status, const std::string& what) {
    expect_error(status, {kInvalid}, what);
    module.expect_untouched(what);
  };
  refused(compile(nullptr, &source, 1, 0, module.out(), nullptr), "compile.compile without a device");
  refused(compile(opened.device, nullptr, 1, 0, module.out(), nullptr), "compile.compile of 1 kernel at NULL");
  refused(compile(opened.device, &source, 1, 0, nullptr, nullptr), "compile.compile without a place for the module");
}

constexpr std::size_t kVersionByte = 4;  // of kernel IR: behind its magic number

/// Kernels that are none, of each form; the device goes on.
void compile_broken(const Settings& settings) {
  Opened opened(settings);
  const auto compile = must(opened.tables.compile.compile, "compile.compile");
  const kernel::Kernel whole = writing_kernel("ck_bad", 1);
  const std::vector<std::byte> junk = noise(300, 5);
  std::vector<std::byte> older = whole.ir;
  older[kVersionByte] = std::byte{0xee};
  crucible_kernel_source nothing = source_of(whole), cut = nothing, random = nothing, version = nothing,
                         unnamed = nothing, opaque = nothing, unknown = nothing;
  nothing.data = nullptr, nothing.size = 0;
  cut.size -= 7;
  random.data = junk.data(), random.size = junk.size();
  version.data = older.data();
  unnamed.name = borrow("no name of C");
  opaque.form = CRUCIBLE_FORM_OPAQUE_OP, opaque.data = junk.data(), opaque.size = junk.size();
  unknown.form = 77;
  const std::pair<std::string, crucible_kernel_source> kBroken[] = {{"a kernel without data", nothing},
                                                                    {"kernel IR that is cut short", cut},
                                                                    {"300 bytes of noise as kernel IR", random},
                                                                    {"kernel IR of another version", version},
                                                                    {"a kernel whose name is not one of C", unnamed},
                                                                    {"300 bytes of noise as an opaque op", opaque},
                                                                    {"a kernel of form 77", unknown}};
  for (const auto& [what, source] : kBroken) {
    Canary<crucible_module*> module;
    const PluginError error = expect_error(
        compile(opened.device, &source, 1, 0, module.out(), nullptr),
        {kInvalid, CRUCIBLE_E_INTERNAL, CRUCIBLE_E_UNSUPPORTED, CRUCIBLE_E_DATA_CORRUPT, CRUCIBLE_E_INCOMPATIBLE},
        "compile.compile of " + what);
    module.expect_untouched("compile.compile of " + what);
    expect(error.message.size() > 10, "the message of a failed compilation says something", "'" + error.message + "'");
    if (source.form == 77)
      expect(error.payload("kernel") == "ck_bad", "the refusal of an unknown form names its kernel in the payload",
             "'" + error.payload("kernel") + "'");
  }
  Kernels still_works(opened);
}

void compile_kernel_lookup(const Settings& settings) {
  Opened opened(settings);
  const Kernels kernels(opened);
  const auto find = must(opened.tables.compile.kernel, "compile.kernel");
  for (const std::string& unknown : {std::string("no_such_kernel"), std::string(), std::string("ck_count\0", 9),
                                     std::string("main"), std::string("free")}) {
    Canary<crucible_kernel*> kernel;
    const std::string what = fmt::format("compile.kernel of the unknown name '{}'", unknown);
    expect_error(find(kernels.module(), borrow(unknown), kernel.out()), {kInvalid, CRUCIBLE_E_UNSUPPORTED}, what);
    kernel.expect_untouched(what);
  }
  Canary<crucible_kernel*> kernel;
  expect_error(find(nullptr, borrow("ck_count"), kernel.out()), {kInvalid}, "compile.kernel without a module");
  kernel.expect_untouched("compile.kernel without a module");
  expect_error(find(kernels.module(), borrow("ck_count"), nullptr), {kInvalid},
               "compile.kernel without a place for it");
}

void plan_misuse(const Settings& settings) {
  Opened opened(settings);
  Memory memory(opened, 64);
  const auto build = must(opened.tables.plan.build, "plan.build");
  const auto refused = [&](const OpList& list, std::uint32_t slots, const std::string& what) {
    Canary<crucible_plan*> plan;
    expect_error(build(opened.device, list.data(), list.count(), slots, plan.out()), {kInvalid, CRUCIBLE_E_UNSUPPORTED},
                 "plan.build with " + what);
    plan.expect_untouched("plan.build with " + what);
  };
  const auto with = [&](auto change) {
    OpList list;
    list.fill(memory.address(), 8, 1);
    list.fill(memory.address(), 64, 1);
    change(list.at(0));
    return list;
  };
  refused(with([](crucible_op& op) { op.kind = 77; }), 0, "an op of kind 77");
  refused(with([](crucible_op& op) { op.kind = 0; }), 0, "an op of kind 0");
  refused(with([](crucible_op& op) { op.struct_size = 8; }), 0, "an op of 8 bytes");
  refused(with([](crucible_op& op) { op.pattern = 256; }), 0, "a FILL of the pattern 256");
  refused(with([](crucible_op& op) { op.buffer_count = 0; }), 0, "a FILL without a buffer");
  refused(with([](crucible_op& op) { op.buffers = nullptr; }), 0, "a FILL whose buffers are at NULL");
  refused(with([](crucible_op& op) { op.kind = CRUCIBLE_OP_COPY; }), 0, "a COPY of one buffer");
  refused(with([](crucible_op& op) { op.kind = CRUCIBLE_OP_LAUNCH; }), 0, "a LAUNCH without a kernel");
  refused(with([](crucible_op& op) { op.kind = CRUCIBLE_OP_LIBRARY; }), 0, "a LIBRARY op without a description");
  OpList good;
  good.fill(memory.address(), 64, 1);
  Canary<crucible_plan*> plan;
  expect_error(build(nullptr, good.data(), 1, 0, plan.out()), {kInvalid}, "plan.build without a device");
  expect_error(build(opened.device, nullptr, 1, 0, plan.out()), {kInvalid}, "plan.build of one op at NULL");
  plan.expect_untouched("plan.build of one op at NULL");
  expect_error(build(opened.device, good.data(), 1, 0, nullptr), {kInvalid}, "plan.build without a place for the plan");
}

void plan_launch_misuse(const Settings& settings) {
  Opened opened(settings);
  const Kernels kernels(opened);
  Memory memory(opened, 64);
  const auto build = must(opened.tables.plan.build, "plan.build");
  const auto refused = [&](auto change, std::uint32_t slots, const std::string& what) {
    OpList list;
    list.launch(kernels.find("ck_scalars"), {memory.address()}, 2, 1, padded({fixed(1), slot(1)}));
    change(list.at(0));
    Canary<crucible_plan*> plan;
    expect_error(build(opened.device, list.data(), list.count(), slots, plan.out()), {kInvalid},
                 "plan.build with " + what);
    plan.expect_untouched("plan.build with " + what);
  };
  refused([](crucible_op& op) { op.grid = -1; }, 2, "a grid of -1 work items");
  refused([](crucible_op& op) { const_cast<crucible_scalar*>(op.scalars)[0].type = 2; }, 2, "a scalar of type 2");
  refused([](crucible_op&) {}, 1, "slot 1 of 1");
  refused([](crucible_op&) {}, 0, "slot 1 of 0");
  refused([](crucible_op& op) { op.scalars = nullptr; }, 2, "2 scalars at NULL");
}

void plan_calls(const Settings& settings) {
  Opened opened(settings);
  const auto& table = opened.tables.plan;
  Memory memory(opened, 64);
  OpList list;
  list.fill(memory.address(), 64, 7);
  list.fill(memory.address(), 32, 8);
  const Plan plan(opened, list, 2);
  const std::uint64_t values[3] = {1, 2, 3};
  expect_error(must(table.set_slots, "plan.set_slots")(plan.handle(), values, 1), {kInvalid},
               "plan.set_slots of 1 value for 2 slots");
  expect_error(table.set_slots(plan.handle(), values, 3), {kInvalid}, "plan.set_slots of 3 values for 2 slots");
  expect_error(table.set_slots(plan.handle(), nullptr, 2), {kInvalid}, "plan.set_slots of 2 values at NULL");
  expect_error(table.set_slots(nullptr, values, 2), {kInvalid}, "plan.set_slots without a plan");
  std::uint64_t times[4] = {11, 11, 11, 11};
  const auto profile = must(table.profile, "plan.profile");
  expect_error(profile(plan.handle(), times, 1), {kInvalid}, "plan.profile with room for 1 of 2 times");
  expect_error(profile(plan.handle(), times, 4), {kInvalid}, "plan.profile with room for 4 of 2 times");
  expect_error(profile(plan.handle(), nullptr, 2), {kInvalid}, "plan.profile with 2 times to NULL");
  expect_error(profile(nullptr, times, 2), {kInvalid}, "plan.profile without a plan");
  expect(times[0] == 11 && times[1] == 11, "plan.profile writes nothing on an error", "it wrote times");
  if (crucible_status status = must(table.destroy, "plan.destroy")(nullptr)) take_error(status, "plan.destroy of NULL");
}

void error_objects(const Settings& settings) {
  Opened opened(settings);
  const auto alloc = must(opened.tables.memory.alloc, "memory.alloc");
  // Many alive at once, destroyed in another order than they came; each keeps its own words.
  std::vector<crucible_status> errors;
  for (int i = 0; i < 200; ++i) {
    Canary<crucible_buffer*> buffer;
    errors.push_back(i % 2 == 0 ? alloc(opened.device, 64, 3, buffer.out()) : alloc(nullptr, 64, 64, buffer.out()));
    expect(errors.back() != nullptr, "a wrong memory.alloc answers an error", "success");
  }
  const std::string first = to_string(errors[0]->table->message(errors[0]));
  for (std::size_t i = 1; i < errors.size(); i += 2) take_error(errors[i], "memory.alloc without a device");
  for (std::size_t i = 0; i < errors.size(); i += 2) {
    const PluginError error = take_error(errors[i], "memory.alloc with alignment 3");
    expect(error.message == first, "an error keeps its message until it is destroyed",
           "'" + error.message + "' instead of '" + first + "'");
  }
}

void error_outlives(const Settings& settings) {
  Subject subject(settings);
  subject.start();
  crucible_device* device = nullptr;
  const std::string unknown = "no-such:99";
  crucible_status status = must(subject.tables.device.open, "device.open")(borrow(unknown), &device);
  expect(status != nullptr, "device.open of an unknown id fails", "it succeeded");
  subject.stop();
  take_error(status, "an error that is read after shutdown");
}

}  // namespace

std::vector<Case> api_cases() {
  const auto make = [](std::string name, std::string rule, void (*run)(const Settings&)) {
    return Case{"api." + std::move(name), Tier::kApi, std::move(rule), true, run, 60};
  };
  std::vector<Case> cases = {
      make("device.enumerate", "enumerate names each device once, the same every time", device_enumerate),
      make("device.open", "open refuses unknown ids and writes nothing", device_open),
      make("device.properties", "properties refuses NULL arguments", device_properties),
      make("device.questions", "capabilities and score refuse unknown ids and NULL arguments", device_questions),
      make("memory.alloc", "alloc refuses bad alignments and NULL arguments", memory_alloc),
      make("memory.ranges", "write, read and fill refuse ranges beyond the end and change nothing", memory_ranges),
      make("memory.nulls", "the memory functions refuse NULL arguments", memory_nulls),
      make("compile.misuse", "compile refuses NULL arguments", compile_misuse),
      make("compile.broken", "kernels that are none, and forms that nobody knows, are errors with words",
           compile_broken),
      make("compile.kernel", "kernel refuses names that are not in the module", compile_kernel_lookup),
      make("plan.build", "build refuses damaged ops", plan_misuse),
      make("plan.build_launch", "build refuses damaged launches", plan_launch_misuse),
      make("plan.calls", "set_slots, replay and profile refuse wrong counts and NULL arguments", plan_calls),
      make("error.objects", "errors live until they are destroyed, each with its own words", error_objects),
      make("error.outlives_shutdown", "an error object can be read and destroyed after shutdown", error_outlives),
  };
  for (auto* more : {api_optional_cases, api_teardown_cases}) {
    for (Case& entry : more()) cases.push_back(std::move(entry));
  }
  return cases;
}

}  // namespace crucible::conformance
