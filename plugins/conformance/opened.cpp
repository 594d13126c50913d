// What cases make on a device; every call goes through the raw tables and must succeed.
#include "plugins/conformance/opened.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace crucible::conformance {

std::vector<std::string> device_ids(const Subject& subject) {
  Items items;
  expect_ok(must(subject.tables.device.enumerate, "device.enumerate")(items.sink(), items.user()), "device.enumerate");
  std::vector<std::string> ids;
  for (const auto& call : items.calls) {
    expect(call.contains("id"), "device.enumerate gives an id for each device", "a device without the key id");
    ids.push_back(call.at("id"));
  }
  expect(!ids.empty(), "the plugin has a device to be tested on", "device.enumerate reports none");
  return ids;
}

Opened::Opened(const Settings& settings) : subject(settings), tables(subject.tables) {
  subject.start();
  id = settings.device.empty() ? device_ids(subject).front() : settings.device;
  expect_ok(must(tables.device.open, "device.open")(borrow(id), &device), fmt::format("device.open of {}", id));
  expect(device != nullptr, "device.open hands out a device", "NULL");
}

Opened::~Opened() {
  expect_ok(must(tables.device.close, "device.close")(device), "device.close");
  subject.stop();
}

bool Opened::may_have(const std::string& key) {
  if (tables.device.capabilities == nullptr) return true;
  Items items;
  expect_ok(tables.device.capabilities(borrow(id), items.sink(), items.user()), "device.capabilities");
  const auto found = items.tristates.find(key);
  return found == items.tristates.end() || found->second.first != 0;
}

Memory::Memory(Opened& opened, std::uint64_t size, std::uint64_t align) : opened_(opened), size_(size) {
  const std::string what = fmt::format("memory.alloc of {} bytes, alignment {}", size, align);
  expect_ok(must(opened.tables.memory.alloc, "memory.alloc")(opened.device, size, align, &handle_), what);
  expect(handle_ != nullptr, what + " hands out a buffer", "NULL");
  expect_ok(must(opened.tables.memory.address, "memory.address")(handle_, &address_), "memory.address");
}

Memory::Memory(Memory&& other) noexcept
    : opened_(other.opened_),
      size_(other.size_),
      address_(other.address_),
      handle_(std::exchange(other.handle_, nullptr)) {}

Memory::~Memory() {
  if (handle_ != nullptr) expect_ok(must(opened_.tables.memory.free, "memory.free")(handle_), "memory.free");
}

void Memory::write(std::uint64_t offset, std::span<const std::byte> data) {
  expect_ok(must(opened_.tables.memory.write, "memory.write")(handle_, offset, data.data(), data.size()),
            fmt::format("memory.write of {} bytes at {}", data.size(), offset));
}

std::vector<std::byte> Memory::read(std::uint64_t offset, std::uint64_t size) const {
  std::vector<std::byte> data(size, std::byte{0x5a});
  expect_ok(must(opened_.tables.memory.read, "memory.read")(handle_, offset, data.data(), size),
            fmt::format("memory.read of {} bytes at {}", size, offset));
  return data;
}

void Memory::fill(std::uint64_t offset, std::uint64_t size, std::uint8_t byte) {
  expect_ok(must(opened_.tables.memory.fill, "memory.fill")(handle_, offset, size, byte),
            fmt::format("memory.fill of {} bytes at {}", size, offset));
}

crucible_kernel_source source_of(const kernel::Kernel& kernel) {
  crucible_kernel_source source{};
  source.struct_size = sizeof(source);
  source.form = kernel.is_opaque() ? CRUCIBLE_FORM_OPAQUE_OP : CRUCIBLE_FORM_KERNEL_IR;
  source.name = borrow(kernel.name);
  source.data = kernel.is_opaque() ? static_cast<const void*>(kernel.opaque.data()) : kernel.ir.data();
  source.size = kernel.is_opaque() ? kernel.opaque.size() : kernel.ir.size();
  return source;
}

Kernels::Kernels(Opened& opened, const std::vector<kernel::Kernel>& kernels, std::uint32_t flags) : opened_(opened) {
  if (!opened.may_have("compile.ir")) unsupported("the device takes no kernel IR, and the kit's kernels are that");
  std::vector<crucible_kernel_source> sources;
  for (const kernel::Kernel& kernel : kernels) sources.push_back(source_of(kernel));
  const std::string what = fmt::format("compiling {} kernels", sources.size());
  expect_ok(must(opened.tables.compile.compile, "compile.compile")(
                opened.device, sources.data(), static_cast<std::uint32_t>(sources.size()), flags, &module_, nullptr),
            what);
  expect(module_ != nullptr, what + " hands out a module", "NULL");
}

Kernels::~Kernels() { expect_ok(must(opened_.tables.compile.unload, "compile.unload")(module_), "compile.unload"); }

crucible_kernel* Kernels::find(std::string_view name) const {
  crucible_kernel* kernel = nullptr;
  expect_ok(must(opened_.tables.compile.kernel, "compile.kernel")(module_, borrow(name), &kernel),
            fmt::format("compile.kernel of {}", name));
  expect(kernel != nullptr, fmt::format("compile.kernel of {} hands out a kernel", name), "NULL");
  return kernel;
}

std::vector<crucible_scalar> padded(std::vector<crucible_scalar> scalars) {
  scalars.resize(std::max<std::size_t>(scalars.size(), kTestScalars), fixed(0));
  return scalars;
}

crucible_op& OpList::add(std::uint32_t kind, std::vector<std::uint64_t> buffers) {
  crucible_op& op = ops_.emplace_back();
  op.struct_size = sizeof(op);
  op.kind = kind;
  const std::vector<std::uint64_t>& kept = buffers_.emplace_back(std::move(buffers));
  op.buffers = kept.data();
  op.buffer_count = static_cast<std::uint32_t>(kept.size());
  return op;
}

void OpList::launch(crucible_kernel* kernel, std::vector<std::uint64_t> buffers, std::int64_t grid, std::int64_t grain,
                    std::vector<crucible_scalar> scalars) {
  crucible_op& op = add(CRUCIBLE_OP_LAUNCH, std::move(buffers));
  op.kernel = kernel;
  op.grid = grid;
  op.grain = grain;
  const std::vector<crucible_scalar>& kept = scalars_.emplace_back(std::move(scalars));
  op.scalars = kept.data();
  op.scalar_count = static_cast<std::uint32_t>(kept.size());
}

void OpList::copy(std::uint64_t destination, std::uint64_t source, std::uint64_t size) {
  add(CRUCIBLE_OP_COPY, {destination, source}).size = size;
}

void OpList::fill(std::uint64_t destination, std::uint64_t size, std::uint32_t pattern) {
  crucible_op& op = add(CRUCIBLE_OP_FILL, {destination});
  op.size = size;
  op.pattern = pattern;
}

void OpList::library(const crucible_library_desc& desc, std::vector<std::uint64_t> buffers,
                     std::uint64_t scratch_bytes) {
  crucible_op& op = add(CRUCIBLE_OP_LIBRARY, std::move(buffers));
  op.library = &descs_.emplace_back(desc);
  op.scratch_bytes = scratch_bytes;
}

Plan::Plan(Opened& opened, const OpList& list, std::uint32_t slots) : opened_(opened) {
  const std::string what = fmt::format("plan.build of {} ops", list.count());
  expect_ok(must(opened.tables.plan.build, "plan.build")(opened.device, list.data(), list.count(), slots, &handle_),
            what);
  expect(handle_ != nullptr, what + " hands out a plan", "NULL");
}

Plan::Plan(Plan&& other) noexcept
    : opened_(other.opened_),
      handle_(std::exchange(other.handle_, nullptr)),
      queue_(std::exchange(other.queue_, nullptr)),
      done_(std::exchange(other.done_, nullptr)),
      runs_(other.runs_) {}

Plan::~Plan() {
  const crucible_if_queue& queues = opened_.tables.queue;
  if (queue_ != nullptr) expect_ok(must(queues.destroy, "queue.destroy")(queue_), "queue.destroy");
  if (done_ != nullptr)
    expect_ok(must(queues.timeline_destroy, "queue.timeline_destroy")(done_), "queue.timeline_destroy");
  if (handle_ != nullptr) expect_ok(must(opened_.tables.plan.destroy, "plan.destroy")(handle_), "plan.destroy");
}

void Plan::set_slots(const std::vector<double>& values) {
  std::vector<std::uint64_t> words;
  for (const double value : values) words.push_back(std::bit_cast<std::uint64_t>(value));
  set_words(words);
}

void Plan::set_words(const std::vector<std::uint64_t>& words) {
  expect_ok(must(opened_.tables.plan.set_slots, "plan.set_slots")(handle_, words.data(),
                                                                  static_cast<std::uint32_t>(words.size())),
            fmt::format("plan.set_slots of {} values", words.size()));
}

void Plan::replay() {
  const crucible_if_queue& queues = opened_.tables.queue;
  if (queue_ == nullptr) {
    expect_ok(must(queues.create, "queue.create")(opened_.device, &queue_), "queue.create");
    expect_ok(must(queues.timeline_create, "queue.timeline_create")(opened_.device, 0, &done_),
              "queue.timeline_create");
  }
  const crucible_point end = {done_, ++runs_};
  expect_ok(must(queues.submit, "queue.submit")(queue_, handle_, nullptr, 0, &end, 1), "queue.submit");
  expect_ok(must(queues.timeline_wait, "queue.timeline_wait")(done_, runs_, UINT64_MAX),
            "queue.timeline_wait for a plan that was submitted");
}

void run_once(Opened& opened, const OpList& list) { Plan(opened, list).replay(); }

std::vector<std::byte> noise(std::size_t size, std::uint32_t seed) {
  std::vector<std::byte> bytes(size);
  std::uint64_t state = seed * 2654435761u + 12345;
  for (std::byte& byte : bytes) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    byte = static_cast<std::byte>(state >> 56);
  }
  return bytes;
}

void expect_bytes(std::span<const std::byte> got, std::span<const std::byte> wanted, std::string_view what) {
  expect_equal(got.size(), wanted.size(), fmt::format("the number of bytes of {}", what));
  const auto [a, b] = std::mismatch(got.begin(), got.end(), wanted.begin());
  if (a == got.end()) return;
  fail(fmt::format("{}: byte {} of {} is {:#04x}", what, a - got.begin(), got.size(), std::to_integer<int>(*b)),
       fmt::format("{:#04x}", std::to_integer<int>(*a)));
}

}  // namespace crucible::conformance
