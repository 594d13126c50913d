// The cases of DevicePlugin: see device_plugin.hpp.
#include "plugins/sdk/testing/device_plugin.hpp"

#include <bit>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <numeric>

#include "plugins/kernel_ir/serialize.hpp"

namespace crucible::backend {

using kernel::ExprId;
using kernel::IrBuilder;
using kernel::LoopMode;
using ::testing::HasSubstr;

Result<std::shared_ptr<Device>> try_open(const PluginUnderTest& plugin, const Options& more,
                                         std::shared_ptr<store::Store> store) {
  Options options = plugin.options;
  for (const auto& [name, value] : more) options[name] = value;
  Result<std::shared_ptr<Backend>> backend = Backend::load(take(find_backend(plugin.name)), options, std::move(store));
  if (!backend) return backend.error();
  return (*backend)->open("");
}

KernelSource sums(std::uint32_t buffers, DType type) {
  IrBuilder b;
  for (std::uint32_t i = 0; i < buffers; ++i) b.add_buffer(type, i == 0);
  const ExprId item = b.open_grid(LoopMode::kSerial);
  ExprId sum = b.let(b.convert(b.load(1, item), DType::kF32));
  for (std::uint32_t i = 2; i < buffers; ++i) sum = b.let(b.add(sum, b.convert(b.load(i, item), DType::kF32)));
  b.store(0, item, b.convert(sum, type));
  b.close();
  return {"sums", "", kernel::serialize_ir(b.finish())};
}

namespace {

/// buffer[0][i] = buffer[0][i] + the scalar
KernelSource adds_scalar() {
  IrBuilder b;
  b.add_buffer(DType::kF32, true);
  const std::uint32_t scalar = b.add_scalar();
  const ExprId item = b.open_grid(LoopMode::kSerial);
  b.store(0, item, b.add(b.load(0, item), b.scalar(scalar, DType::kF32)));
  b.close();
  return {"adds_scalar", "", kernel::serialize_ir(b.finish())};
}

/// buffer[0][i] = buffer[0][i] + the whole scalar, in i64
KernelSource adds_whole_scalar() {
  IrBuilder b;
  b.add_buffer(DType::kI64, true);
  const std::uint32_t scalar = b.add_scalar(DType::kI64);
  const ExprId item = b.open_grid(LoopMode::kSerial);
  b.store(0, item, b.add(b.load(0, item), b.scalar(scalar, DType::kI64)));
  b.close();
  return {"adds_whole_scalar", "", kernel::serialize_ir(b.finish())};
}

crucible_op op_of(std::uint32_t kind, const std::vector<std::uint64_t>& places) {
  crucible_op op = {};
  op.struct_size = sizeof(op);
  op.kind = kind;
  op.buffers = places.data();
  op.buffer_count = static_cast<std::uint32_t>(places.size());
  op.grain = 1;
  return op;
}

}  // namespace

std::string run_under_faults(const PluginUnderTest& plugin, const char* rules) {
  setenv("CRUCIBLE_EMU_FAULTS", rules, 1);
  const auto device = try_open(plugin);
  if (!device) return device.error().message;
  std::string told;
  const auto tell = [&](const Error& error) { told += (told.empty() ? "" : "; then ") + error.message; };
  auto buffer = Buffer::allocate(*device, 64, 64);
  if (!buffer) {
    tell(buffer.error());
    buffer = Buffer::allocate(*device, 64, 64);
    if (!buffer) {
      tell(buffer.error());
      return told;
    }
  }
  const KernelSource kernel = sums(2, DType::kF32);
  const auto module = Module::compile(*device, std::span(&kernel, 1));
  if (!module) {
    tell(module.error());
    return told;
  }
  const std::vector<std::uint64_t> places = {buffer->address(), buffer->address() + 32};
  crucible_op op = op_of(CRUCIBLE_OP_LAUNCH, places);
  op.kernel = take(module->kernel(kernel.name));
  op.grid = 8;
  auto plan = Plan::build(*device, std::span(&op, 1), 0);
  if (!plan) {
    tell(plan.error());
    return told;
  }
  if (const auto replayed = plan->replay(); !replayed) tell(replayed.error());
  std::vector<std::byte> bytes(64);
  if (const auto read = buffer->read(0, bytes); !read) tell(read.error());
  return told;
}

void DevicePlugin::SetUp() {
  auto opened = try_open(GetParam());
  if (!opened) GTEST_SKIP() << opened.error().message;
  device_ = *opened;
}

std::shared_ptr<Device> DevicePlugin::reopen(const Options& more, std::shared_ptr<store::Store> store) {
  device_ = nullptr;
  device_ = take(try_open(GetParam(), more, std::move(store)));
  return device_;
}

std::vector<std::byte> DevicePlugin::run_bytes(const KernelSource& kernel, std::uint32_t buffers,
                                               const std::vector<std::byte>& values, std::size_t element) {
  const Module module = take(Module::compile(device_, std::span(&kernel, 1)));
  const std::uint64_t step = values.size() + 12 * element;
  Buffer arena = take(Buffer::allocate(device_, step * buffers, 64));
  std::vector<std::uint64_t> places;
  for (std::uint32_t i = 0; i < buffers; ++i) {
    places.push_back(arena.address() + i * step + element);
    EXPECT_TRUE(arena.write(i * step + element, values));
  }
  crucible_op op = op_of(CRUCIBLE_OP_LAUNCH, places);
  op.kernel = take(module.kernel(kernel.name));
  op.grid = static_cast<std::int64_t>(values.size() / element);
  Plan plan = take(Plan::build(device_, std::span(&op, 1), 0));
  EXPECT_TRUE(plan.replay());
  std::vector<std::byte> result(values.size());
  EXPECT_TRUE(arena.read(element, result));
  return result;
}

TEST_P(DevicePlugin, TellsWhoItIs) {
  std::map<std::string, std::string> told;
  for (const auto& [key, value] : take(device_->properties())) told[key] = value;
  for (const char* key : {"name", "vendor", "driver", "architecture", "compiler"}) EXPECT_NE(told[key], "") << key;
  EXPECT_EQ(told["dialect"], GetParam().dialect);
  // Only its name tells an emulation, and auto never chooses one.
  EXPECT_EQ(device_->info().emulated, device_->info().name.find("emulated, not a GPU") != std::string::npos);
}

TEST_P(DevicePlugin, AnUnknownDeviceIsRefusedWithThoseThatThereAre) {
  device_ = nullptr;
  Options options = GetParam().options;
  const auto opened = take(Backend::load(take(find_backend(GetParam().name)), options))->open(GetParam().name + ":99");
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message,
              HasSubstr("no device '" + GetParam().name + ":99': it has " + GetParam().name + ":0"));
}

TEST_P(DevicePlugin, EveryItemIsDoneOnce) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{31}, std::size_t{257}, std::size_t{10'007}}) {
    std::vector<float> values(count);
    std::iota(values.begin(), values.end(), 1.0f);
    std::vector<float> expected = values;
    for (float& value : expected) value *= 2;
    EXPECT_EQ(run(sums(3, DType::kF32), 3, values), expected) << count;
  }
}

TEST_P(DevicePlugin, AKernelWithMoreBuffersThanArgumentsGetsATable) {
  EXPECT_EQ(run(sums(600, DType::kF32), 600, std::vector<float>{1, 2, 3, -4}),
            (std::vector<float>{599, 1198, 1797, -2396}));
}

TEST_P(DevicePlugin, HalfPrecisionIsRoundedOnce) {
  // 1, the largest, infinity, the smallest subnormal, 65504 + 65504 = infinity
  EXPECT_EQ(run(sums(3, DType::kF16), 3, std::vector<std::uint16_t>{0x3c00, 0x7bff, 0x7c00, 0x0001, 0xbc00}),
            (std::vector<std::uint16_t>{0x4000, 0x7c00, 0x7c00, 0x0002, 0xc000}));
  EXPECT_EQ(run(sums(3, DType::kBF16), 3, std::vector<std::uint16_t>{0x3f80, 0x0001, 0x7f80}),
            (std::vector<std::uint16_t>{0x4000, 0x0002, 0x7f80}));
}

TEST_P(DevicePlugin, ACompilersWordsAndTheKernelsNameAreInTheError) {
  KernelSource kernel = sums(3, DType::kF32);
  kernel.name = "while";  // a name for the SDK, and a word of every language that is printed
  const auto module = Module::compile(device_, std::span(&kernel, 1));
  ASSERT_FALSE(module);
  EXPECT_THAT(module.error().message, HasSubstr("refuses the kernels while"));
  EXPECT_THAT(module.error().message, HasSubstr("error"));
}

TEST_P(DevicePlugin, TooMuchMemoryIsSaidInNumbers) {
  const auto buffer = Buffer::allocate(device_, std::uint64_t{1} << 50, 64);
  ASSERT_FALSE(buffer);
  EXPECT_THAT(buffer.error().message, HasSubstr("cannot have 1125899906842624 bytes on " + GetParam().name + ":0"));
  EXPECT_THAT(buffer.error().message, HasSubstr("are free"));
}

TEST_P(DevicePlugin, AddressesOfNoBufferAreRefused) {
  const Buffer buffer = take(Buffer::allocate(device_, 100, 4096));
  EXPECT_EQ(buffer.address() % 4096, 0u);
  for (const std::uint64_t address : {std::uint64_t{16}, buffer.address() - 1, buffer.address() + 101}) {
    const std::vector<std::uint64_t> places = {address};
    crucible_op op = op_of(CRUCIBLE_OP_FILL, places);
    op.size = 1;
    const auto plan = Plan::build(device_, std::span(&op, 1), 0);
    ASSERT_FALSE(plan);
    EXPECT_THAT(plan.error().message, HasSubstr("is in none of the"));
  }
}

TEST_P(DevicePlugin, AListIsRunInOrderAndItsSlotsArePatched) {
  const KernelSource kernel = adds_scalar();
  const Module module = take(Module::compile(device_, std::span(&kernel, 1)));
  constexpr std::size_t kCount = 1000, kBytes = 4 * kCount;
  Buffer memory = take(Buffer::allocate(device_, 2 * kBytes + 8, 64));
  const std::vector<std::uint64_t> first = {memory.address()}, both = {memory.address() + kBytes + 4, memory.address()};
  // fill with 0, add slot 0, add slot 1, copy behind, overwrite the front by an odd fill: each depends on the one
  // before.
  const crucible_scalar slots[] = {{0, 0, 0}, {0, 1, 0}};
  std::vector<crucible_op> ops = {op_of(CRUCIBLE_OP_FILL, first),   op_of(CRUCIBLE_OP_LAUNCH, first),
                                  op_of(CRUCIBLE_OP_LAUNCH, first), op_of(CRUCIBLE_OP_COPY, both),
                                  op_of(CRUCIBLE_OP_FILL, first),   op_of(CRUCIBLE_OP_LAUNCH, first)};
  ops[0].size = ops[3].size = kBytes;
  ops[4].size = 3;
  ops[4].pattern = 0xab;
  for (const std::size_t i : {1, 2, 5}) {
    ops[i].kernel = take(module.kernel(kernel.name));
    ops[i].scalars = &slots[i == 2 ? 1 : 0];
    ops[i].scalar_count = 1;
    ops[i].grid = i == 5 ? 0 : static_cast<std::int64_t>(kCount);
  }
  Plan plan = take(Plan::build(device_, ops, 2));
  const auto result = [&] {
    std::vector<float> values(kCount);
    EXPECT_TRUE(memory.read(kBytes + 4, std::as_writable_bytes(std::span(values))));
    return values;
  };
  for (const double round : {1.0, 2.0}) {
    ASSERT_TRUE(plan.set_slots(std::vector{std::bit_cast<std::uint64_t>(round), std::bit_cast<std::uint64_t>(0.25)}));
    ASSERT_TRUE(plan.replay());
    EXPECT_EQ(result(), std::vector<float>(kCount, static_cast<float>(round + 0.25)));
    std::vector<std::uint8_t> front(4);
    EXPECT_TRUE(memory.read(0, std::as_writable_bytes(std::span(front))));
    EXPECT_EQ(std::vector<std::uint8_t>(front.begin(), front.begin() + 3), std::vector<std::uint8_t>(3, 0xab));
    EXPECT_NE(front[3], 0xab);
  }
  // By itself each op does the same, and has a time; one that does nothing has none.
  ASSERT_TRUE(plan.set_slots(std::vector{std::bit_cast<std::uint64_t>(7.0), std::bit_cast<std::uint64_t>(0.5)}));
  const std::vector<std::uint64_t> times = take(plan.profile());
  EXPECT_NE(plan.times_from(), "");
  EXPECT_EQ(result(), std::vector<float>(kCount, 7.5f));
  ASSERT_EQ(times.size(), ops.size());
  EXPECT_GT(times[1] + times[2], 0u);
  EXPECT_EQ(times[5], 0u);
}

TEST_P(DevicePlugin, LaunchesThatAreOneHaveSlotsOfTheirOwn) {
  const KernelSource kernel = adds_scalar();
  const Module module = take(Module::compile(device_, std::span(&kernel, 1)));
  const std::size_t counts[] = {1000, 10, 300};
  std::vector<Buffer> memory;
  std::vector<std::vector<std::uint64_t>> places;
  for (const std::size_t count : counts) {
    memory.push_back(take(Buffer::allocate(device_, 4 * count, 64)));
    places.push_back({memory.back().address()});
  }
  // Each buffer is filled and gets its number; the first one gets another, behind both.
  const crucible_scalar scalars[] = {{0, 0, 0}, {0, 1, 0}, {0, 2, 0}, {0, 1, 0}};
  std::vector<crucible_op> ops;
  for (const std::size_t i : {0, 1, 2, 0}) {
    if (ops.size() < 6) {
      ops.push_back(op_of(CRUCIBLE_OP_FILL, places[i]));
      ops.back().size = 4 * counts[i];
    }
    const std::size_t number = ops.size() / 2;
    ops.push_back(op_of(CRUCIBLE_OP_LAUNCH, places[i]));
    ops.back().kernel = take(module.kernel(kernel.name));
    ops.back().scalars = &scalars[number];
    ops.back().scalar_count = 1;
    ops.back().grid = static_cast<std::int64_t>(counts[i]);
  }
  Plan plan = take(Plan::build(device_, ops, 3));
  std::map<std::string, std::string> facts;
  for (const auto& [key, value] : plan.facts()) facts[key] = value;
  EXPECT_EQ(facts["batches"], "1");
  EXPECT_EQ(facts["launches"], "2");
  for (const double round : {1.0, 2.0, 2.0, 5.0}) {
    const std::vector slots = {std::bit_cast<std::uint64_t>(round), std::bit_cast<std::uint64_t>(0.25 * round),
                               std::bit_cast<std::uint64_t>(-round)};
    ASSERT_TRUE(plan.set_slots(slots));
    if (round == 5.0) {
      const std::vector<std::uint64_t> times = take(plan.profile());
      EXPECT_GT(times[1] + times[3] + times[5], 0u);
      EXPECT_GE(times[1] + 1, times[5]) << "shared by bytes";
      EXPECT_GE(times[5] + 1, times[3]);
    } else {
      ASSERT_TRUE(plan.replay());
    }
    const double expected[] = {1.25 * round, 0.25 * round, -round};
    for (std::size_t i = 0; i < 3; ++i) {
      std::vector<float> values(counts[i]);
      EXPECT_TRUE(memory[i].read(0, std::as_writable_bytes(std::span(values))));
      EXPECT_EQ(values, std::vector<float>(counts[i], static_cast<float>(expected[i]))) << i;
    }
  }
}

TEST_P(DevicePlugin, WholeSlotsKeepEveryDigit) {
  const KernelSource kernel = adds_whole_scalar();
  const Module module = take(Module::compile(device_, std::span(&kernel, 1)));
  constexpr std::size_t kCount = 100, kBytes = 8 * kCount;
  Buffer memory = take(Buffer::allocate(device_, kBytes, 64));
  const std::vector<std::uint64_t> places = {memory.address()};
  constexpr std::int64_t kFixed = (std::int64_t{1} << 53) + 1;
  const crucible_scalar scalars[] = {{0, 0, CRUCIBLE_SCALAR_I64},
                                     {static_cast<std::uint64_t>(kFixed), CRUCIBLE_SLOT_NONE, CRUCIBLE_SCALAR_I64}};
  std::vector<crucible_op> ops = {op_of(CRUCIBLE_OP_FILL, places), op_of(CRUCIBLE_OP_LAUNCH, places),
                                  op_of(CRUCIBLE_OP_LAUNCH, places)};
  ops[0].size = kBytes;
  for (const std::size_t i : {1, 2}) {
    ops[i].kernel = take(module.kernel(kernel.name));
    ops[i].scalars = &scalars[i - 1];
    ops[i].scalar_count = 1;
    ops[i].grid = static_cast<std::int64_t>(kCount);
  }
  Plan plan = take(Plan::build(device_, ops, 1));
  for (const std::int64_t number : {kFixed, (std::int64_t{1} << 62) + 3, INT64_MIN, INT64_MAX, std::int64_t{-1}}) {
    const auto bits = static_cast<std::uint64_t>(number);
    ASSERT_TRUE(plan.set_slots(std::span(&bits, 1)));
    ASSERT_TRUE(plan.replay());
    std::vector<std::uint64_t> result(kCount);
    EXPECT_TRUE(memory.read(0, std::as_writable_bytes(std::span(result))));
    EXPECT_EQ(result, std::vector<std::uint64_t>(kCount, bits + static_cast<std::uint64_t>(kFixed)));
  }
}

TEST_P(DevicePlugin, ACompiledProgramIsTakenFromTheStoreAndADamagedOneIsNot) {
  std::string folder = (std::filesystem::temp_directory_path() / "crucible-device-test-XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  reopen({}, keep_in(folder));
  const KernelSource kernel = sums(3, DType::kF32);
  const auto compile = [&] { return take(Module::compile(device_, std::span(&kernel, 1))).from_cache(); };
  EXPECT_FALSE(compile());
  EXPECT_TRUE(compile());
  for (const auto& entry : std::filesystem::recursive_directory_iterator(std::filesystem::path(folder) / "cas"))
    if (entry.is_regular_file()) std::filesystem::resize_file(entry.path(), 20);
  EXPECT_FALSE(compile());
  EXPECT_TRUE(compile());
  std::filesystem::remove_all(folder);
}

}  // namespace crucible::backend
