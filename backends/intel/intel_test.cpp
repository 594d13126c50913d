// The plugin through the loader, by its one exported symbol. What needs a device runs on the emulated one of
// tests/emulators/intel, by Intel's OpenCL driver for processors, and is skipped where that is missing. CTest runs all
// of it several times: the plugin opens the emulator itself, or the vendor's loader (CRUCIBLE_TEST_LEVEL_ZERO) with the
// emulator behind it, also under its validation layer, and a driver without mutable lists.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <numeric>
#include <string_view>

#include "core/kernel/ir/ir_builder.hpp"
#include "core/kernel/schedule.hpp"
#include "plugins/kernel_ir/serialize.hpp"
#include "plugins/loader/backend.hpp"
#include "plugins/loader/testing/kept.hpp"
#include "plugins/loader/testing/run_plan.hpp"

namespace crucible::backend {
namespace {

using kernel::ExprId;
using kernel::IrBuilder;
using kernel::LoopMode;
using ::testing::HasSubstr;

template <class T>
T take(Result<T> result) {
  if (!result) {
    ADD_FAILURE() << result.error().message;
    std::abort();
  }
  return *std::move(result);
}

Result<std::shared_ptr<Device>> try_open(const Options& options, std::shared_ptr<store::Store> store = nullptr) {
  Result<std::shared_ptr<Backend>> backend = Backend::load(take(find_backend("intel")), options, std::move(store));
  if (!backend) return backend.error();
  return (*backend)->open("");
}

/// buffer[0][i] = the sum of all the others at i, times a scalar where there is one; with one type for all.
KernelSource sums(std::uint32_t buffers, DType type, bool scaled = false) {
  IrBuilder b;
  for (std::uint32_t i = 0; i < buffers; ++i) b.add_buffer(type, i == 0);
  std::uint32_t scale = 0;
  if (scaled) scale = b.add_scalar();
  const ExprId item = b.open_grid(LoopMode::kSerial);
  ExprId sum = b.let(b.convert(b.load(1, item), DType::kF32));
  for (std::uint32_t i = 2; i < buffers; ++i) sum = b.let(b.add(sum, b.convert(b.load(i, item), DType::kF32)));
  if (scaled) sum = b.binary(kernel::Operation::kMultiply, sum, b.scalar(scale, DType::kF32));
  b.store(0, item, b.convert(sum, type));
  b.close();
  return {"sums", "", kernel::serialize_ir(b.finish())};
}

class Intel : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = try_open(options());
    if (!opened) GTEST_SKIP() << opened.error().message;
    device_ = *opened;
  }
  static Options options() {
    const char* const loader = std::getenv("CRUCIBLE_TEST_LEVEL_ZERO");
    return {{"library", loader != nullptr ? loader : CRUCIBLE_EMULATED_LEVEL_ZERO}};
  }
  /// By the rule that CTest sets.
  static bool driver_has_mutable_lists() {
    const char* const faults = std::getenv("CRUCIBLE_EMU_FAULTS");
    return faults == nullptr ||
           std::string_view(faults).find("ZE_experimental_mutable_command_list") == std::string_view::npos;
  }
  void reopen(Options options) {
    device_ = nullptr;  // a plugin is started once, with one set of options
    device_ = take(try_open(options));
  }
  std::string property(const std::string& name) const {
    for (const auto& [key, value] : take(device_->properties())) {
      if (key == name) return value;
    }
    return "";
  }

  crucible_op launch(const Module& module, const KernelSource& kernel, const std::vector<std::uint64_t>& places,
                     std::size_t count) {
    crucible_op op = {};
    op.struct_size = sizeof(op);
    op.kind = CRUCIBLE_OP_LAUNCH;
    op.kernel = take(module.kernel(kernel.name));
    op.buffers = places.data();
    op.buffer_count = static_cast<std::uint32_t>(places.size());
    op.grid = static_cast<std::int64_t>(count);
    op.grain = 1;
    return op;
  }

  /// `kernel` over `count` items; all buffers lie in one arena, one behind the other, at odd places.
  template <class T>
  std::vector<T> run(const KernelSource& kernel, std::uint32_t buffers, std::size_t count,
                     const std::vector<T>& values) {
    const Module module = take(Module::compile(device_, std::span(&kernel, 1)));
    const std::uint64_t bytes = count * sizeof(T), step = bytes + 12 * sizeof(T);
    Buffer arena = take(Buffer::allocate(device_, step * buffers, 64));
    std::vector<std::uint64_t> places;
    for (std::uint32_t i = 0; i < buffers; ++i) {
      places.push_back(arena.address() + i * step + sizeof(T));
      EXPECT_TRUE(arena.write(i * step + sizeof(T), std::as_bytes(std::span(values))));
    }
    const crucible_op op = launch(module, kernel, places, count);
    Plan plan = take(Plan::build(device_, std::span(&op, 1), 0));
    EXPECT_TRUE(plan.replay());
    std::vector<T> result(count);
    EXPECT_TRUE(arena.read(sizeof(T), std::as_writable_bytes(std::span(result))));
    return result;
  }
  std::shared_ptr<Device> device_;
};

TEST(IntelLibrary, AMissingLibraryIsNamedWithWhatToInstall) {
  const auto opened = try_open({{"library", "/nowhere/libze_loader.so.1"}});
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, HasSubstr("/nowhere/libze_loader.so.1 cannot be loaded"));
  EXPECT_THAT(opened.error().message, HasSubstr("install the loader (Debian: libze1)"));
}

TEST(IntelLibrary, ALibraryOfSomethingElseIsRefused) {
  const auto opened = try_open({{"library", "libz.so.1"}});
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, HasSubstr("lacks zeInit"));
}

TEST(IntelLibrary, AWrongOptionNamesWhatIsRight) {
  const auto opened = try_open({{"library", "libz.so.1"}, {"group_size", "many"}});
  ASSERT_FALSE(opened);
}

TEST_F(Intel, TellsWhoItIs) {
  std::map<std::string, std::string> told;
  for (const auto& [key, value] : take(device_->properties())) told[key] = value;
  for (const char* key : {"name", "driver"}) EXPECT_NE(told[key], "") << key;
  EXPECT_EQ(told["dialect"], "spirv");
  EXPECT_THAT(told["name"], HasSubstr("emulated"));
}

TEST_F(Intel, TheRunHasTheLibrariesThatItIsAbout) {
  std::ifstream maps("/proc/self/maps");
  const std::string all((std::istreambuf_iterator<char>(maps)), {});
  const char* const checks = std::getenv("ZE_ENABLE_VALIDATION_LAYER");
  const bool has_loader = std::getenv("CRUCIBLE_TEST_LEVEL_ZERO") != nullptr,
             is_validated = checks != nullptr && std::string_view(checks) == "1";
  EXPECT_THAT(all, HasSubstr("libze_emulated.so"));
  EXPECT_EQ(all.find("libze_loader.so") != std::string::npos, has_loader);
  EXPECT_EQ(all.find("libze_validation_layer.so") != std::string::npos, is_validated);
  if (!is_validated) return;
  void* const loader = dlopen("libze_loader.so.1", RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(loader, nullptr);
  std::uint32_t version = 0;
  const auto get = reinterpret_cast<std::uint32_t (*)(void*, std::uint32_t*)>(dlsym(loader, "zeDriverGetApiVersion"));
  EXPECT_EQ(get(nullptr, &version),
            0x78000005u);  // ZE_RESULT_ERROR_INVALID_NULL_HANDLE, for which the emulator does not look
}

TEST_F(Intel, EveryItemIsDoneOnce) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{127}, std::size_t{129}, std::size_t{10'007}}) {
    std::vector<float> values(count);
    std::iota(values.begin(), values.end(), 1.0f);
    std::vector<float> expected = values;
    for (float& value : expected) value *= 2;
    EXPECT_EQ(run(sums(3, DType::kF32), 3, count, values), expected) << count;
  }
}

TEST_F(Intel, AKernelWithMoreBuffersThanArgumentsGetsATable) {
  const std::vector<float> values = {1, 2, 3, -4};
  const auto sum = run(sums(600, DType::kF32), 600, 4, values);
  EXPECT_EQ(sum, (std::vector<float>{599, 1198, 1797, -2396}));
}

TEST_F(Intel, HalfPrecisionNeedsNoHelpOfTheDevice) {
  // 1, the largest, infinity, the smallest subnormal, 65504 + 65504 = infinity
  const std::vector<std::uint16_t> values = {0x3c00, 0x7bff, 0x7c00, 0x0001, 0xbc00};
  EXPECT_EQ(run(sums(3, DType::kF16), 3, values.size(), values),
            (std::vector<std::uint16_t>{0x4000, 0x7c00, 0x7c00, 0x0002, 0xc000}));
}

/// What plan.describe tells.
std::map<std::string, std::string> describe(const Device& device, crucible_plan* plan) {
  std::map<std::string, std::string> told;
  const auto sink = [](void* user, const crucible_kv* items, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
      const crucible_kv& item = items[i];
      const std::string value =
          item.type == CRUCIBLE_V_STR ? std::string(item.s.data, item.s.size) : std::to_string(item.u);
      (*static_cast<std::map<std::string, std::string>*>(user))[std::string(item.key.data, item.key.size)] = value;
    }
  };
  EXPECT_TRUE(to_result(device.backend().plan_table().describe(plan, sink, &told), "describe"));
  return told;
}

TEST_F(Intel, AChangedSlotIsPatchedOrRecordedAgainAndAnEqualOneIsNeither) {
  for (const std::string plans : {"auto", "recorded"}) {
    Options with = options();
    with["plans"] = plans;
    reopen(with);
    const bool patches = plans == "auto" && driver_has_mutable_lists();
    EXPECT_THAT(property("plans"), HasSubstr(patches ? "mutable" : "recorded ("));
    // f16 takes its scalar as the bits of a half: what is patched is converted as what is recorded.
    const KernelSource kernel = sums(2, DType::kF16, true);
    const Module module = take(Module::compile(device_, std::span(&kernel, 1)));
    Buffer buffer = take(Buffer::allocate(device_, 8, 64));
    const std::vector<std::uint64_t> places = {buffer.address(), buffer.address() + 4};
    const std::uint16_t one = 0x3c00;
    ASSERT_TRUE(buffer.write(4, std::as_bytes(std::span(&one, 1))));
    crucible_op op = launch(module, kernel, places, 1);
    const crucible_scalar scalar = {.bits = 0, .slot = 0, .type = CRUCIBLE_SCALAR_F64};
    op.scalars = &scalar;
    op.scalar_count = 1;
    const crucible_op list[] = {op, op};
    const crucible_if_plan& table = device_->backend().plan_table();
    crucible_plan* plan = nullptr;
    ASSERT_TRUE(to_result(table.build(device_->handle(), list, 2, 1, &plan), "build"));
    for (const auto& [value, bits] : {std::pair{3.0, 0x4200}, {3.0, 0x4200}, {5.0, 0x4500}}) {
      const auto word = std::bit_cast<std::uint64_t>(value);
      ASSERT_TRUE(to_result(table.set_slots(plan, &word, 1), "set_slots"));
      const auto replayed = run_plan(*device_, plan);
      ASSERT_TRUE(replayed) << replayed.error().message;
      std::uint16_t result = 0;
      ASSERT_TRUE(buffer.read(0, std::as_writable_bytes(std::span(&result, 1))));
      EXPECT_EQ(result, bits);
    }
    auto told = describe(*device_, plan);
    EXPECT_EQ(told["recorded"], patches ? "1" : "2") << plans;
    EXPECT_EQ(told["patched"], patches ? "2" : "0") << plans;  // once, in two launches
    EXPECT_THAT(told["slots"],
                HasSubstr(patches ? "patched in the mutable command list" : "records the command list again: "));
    EXPECT_TRUE(to_result(table.destroy(plan), "destroy"));
  }
}

/// What went wrong, in a process of its own: rules are read once.
std::string patch_under_a_fault() {
  setenv("CRUCIBLE_EMU_FAULTS", "fail@record(update)#1", 1);
  const auto device = try_open({{"library", CRUCIBLE_EMULATED_LEVEL_ZERO}});
  if (!device) return device.error().message;
  const KernelSource kernel = sums(2, DType::kF32, true);
  const Module module = take(Module::compile(*device, std::span(&kernel, 1)));
  Buffer buffer = take(Buffer::allocate(*device, 8, 64));
  const std::uint64_t places[] = {buffer.address(), buffer.address() + 4};
  const float one = 1;
  if (!buffer.write(4, std::as_bytes(std::span(&one, 1)))) return "write";
  const crucible_scalar scalar = {.bits = 0, .slot = 0, .type = CRUCIBLE_SCALAR_F64};
  crucible_op op = {};
  op.struct_size = sizeof(op);
  op.kind = CRUCIBLE_OP_LAUNCH;
  op.kernel = take(module.kernel(kernel.name));
  op.buffers = places;
  op.buffer_count = 2;
  op.grid = op.grain = 1;
  op.scalars = &scalar;
  op.scalar_count = 1;
  Plan plan = take(Plan::build(*device, std::span(&op, 1), 1));
  if (!plan.replay()) return "replay";
  const auto seven = std::bit_cast<std::uint64_t>(7.0);
  const auto patched = plan.set_slots(std::span(&seven, 1));
  if (patched || patched.error().message.find(
                     "zeCommandListUpdateMutableCommandsExp of 1 arguments: ZE_RESULT_ERROR_INVALID_ARGUMENT") ==
                     std::string::npos)
    return patched ? "the fault did not show" : patched.error().message;
  float result = 0;  // the list was dropped: it is recorded with the new scalar
  if (!plan.replay() || !buffer.read(0, std::as_writable_bytes(std::span(&result, 1))) || result != 7)
    return "the replay behind it: " + std::to_string(result);
  return "";
}

TEST(IntelFaults, AListThatCannotBePatchedIsAnErrorAndIsRecordedAgain) {
  if (std::getenv("CRUCIBLE_INTEL_OPENCL") == nullptr)
    GTEST_SKIP() << "CRUCIBLE_INTEL_OPENCL does not name Intel's OpenCL driver (ci/test sets it)";
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(
      {
        const std::string wrong = patch_under_a_fault();
        std::fprintf(stderr, "%s\n", wrong.c_str());
        _exit(wrong.empty() ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST_F(Intel, MutableListsThatADriverDoesNotHaveAreRefusedWithTheReason) {
  Options with = options();
  with["plans"] = "mutable";
  device_ = nullptr;
  const auto opened = try_open(with);
  ASSERT_EQ(bool(opened), driver_has_mutable_lists());
  if (opened) return;
  EXPECT_THAT(opened.error().message, HasSubstr("plans = mutable cannot be had on intel:0"));
  EXPECT_THAT(opened.error().message,
              HasSubstr("the driver has no ZE_experimental_mutable_command_list; set plans to auto"));
}

TEST_F(Intel, DevicesOfOneDriverRunBesideEachOther) {
  const auto devices = take(device_->backend().devices());
  const char* const asked = std::getenv("CRUCIBLE_EMU_DEVICES");
  ASSERT_EQ(devices.size(), asked == nullptr ? 1u : std::stoul(asked));
  if (devices.size() < 2) GTEST_SKIP() << "one device (CTest sets CRUCIBLE_EMU_DEVICES for one of the runs)";
  const std::shared_ptr<Device> first = device_;
  auto backend = take(Backend::load(take(find_backend("intel")), options()));
  const std::shared_ptr<Device> second = take(backend->open("intel:1"));
  EXPECT_NE(first->info().uuid, second->info().uuid);
  const std::vector<float> values = {1, 2, 3}, twice = {2, 4, 6};
  EXPECT_EQ(run(sums(3, DType::kF32), 3, 3, values), twice);
  device_ = second;
  EXPECT_EQ(run(sums(3, DType::kF32), 3, 3, values), twice);
  // The other's addresses are none of this one's.
  const Buffer foreign = take(Buffer::allocate(first, 100, 64));
  const std::uint64_t address = foreign.address();
  crucible_op op = {};
  op.struct_size = sizeof(op);
  op.kind = CRUCIBLE_OP_FILL;
  op.buffers = &address;
  op.buffer_count = 1;
  op.size = 1;
  const auto plan = Plan::build(second, std::span(&op, 1), 0);
  ASSERT_FALSE(plan);
  EXPECT_THAT(plan.error().message, HasSubstr("buffers of intel:1"));
}

TEST_F(Intel, CompiledModulesAreKeptAndADamagedOneIsMadeAgain) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("crucible-intel-" + std::to_string(getpid()));
  device_ = nullptr;  // a plugin is started once, with one set of options
  const auto device = take(try_open(options(), keep_in(folder)));
  const KernelSource kernel = sums(3, DType::kF32);
  const auto from_cache = [&] { return take(Module::compile(device, std::span(&kernel, 1))).from_cache(); };
  EXPECT_FALSE(from_cache());
  EXPECT_TRUE(from_cache());
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder / "cas"))
    if (file.is_regular_file()) std::filesystem::resize_file(file.path(), file.file_size() - 1);
  EXPECT_FALSE(from_cache());
  std::filesystem::remove_all(folder);
}

/// buffer[0][i] = the sum of `count` products of buffer[1][i] with 1, 2, ..., all of which are kept to the end.
KernelSource many_sums(std::int64_t count) {
  IrBuilder b;
  for (std::uint32_t i = 0; i < 2; ++i) b.add_buffer(DType::kF32, i == 0);
  const ExprId item = b.open_grid(LoopMode::kSerial);
  std::vector<kernel::VariableId> kept;
  for (std::int64_t i = 0; i < count; ++i) kept.push_back(b.declare(b.real(0, DType::kF32)));
  b.open_for(b.integer(0), b.integer(2), LoopMode::kSerial);
  const ExprId value = b.let(b.load(1, item));
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const ExprId factor = b.real(static_cast<double>(i + 1), DType::kF32);
    b.set(kept[i], b.add(b.variable(kept[i]), b.binary(kernel::Operation::kMultiply, value, factor)));
  }
  b.close();
  ExprId sum = b.let(b.variable(kept[0]));
  for (std::size_t i = 1; i < kept.size(); ++i) sum = b.let(b.add(sum, b.variable(kept[i])));
  b.store(0, item, sum);
  b.close();
  return {"many_" + std::to_string(count), "", kernel::serialize_ir(b.finish())};
}

TEST_F(Intel, KernelsThatKeepManyNumbersHaveLargeRegisters) {
  const auto files_of = [&](const std::vector<KernelSource>& kernels) {
    const Module module = take(Module::compile(device_, kernels));
    std::map<std::string, std::string> files;
    const auto sink = [](void* user, const crucible_kv* items, std::uint32_t count) {
      for (std::uint32_t i = 0; i < count; ++i) {
        if (std::string_view(items[i].key.data, items[i].key.size) == "register_file")
          *static_cast<std::string*>(user) = std::string(items[i].s.data, items[i].s.size);
      }
    };
    for (const KernelSource& kernel : kernels) {
      std::string& file = files[kernel.name];
      const auto told = device_->backend().compile_table().kernel_info(take(module.kernel(kernel.name)), sink, &file);
      EXPECT_TRUE(to_result(told, "kernel_info"));
    }
    return files;
  };
  using Files = std::map<std::string, std::string>;
  EXPECT_EQ(files_of({many_sums(4), many_sums(64)}), (Files{{"many_4", "usual"}, {"many_64", "large"}}));
  const std::vector<float> values = {1, 2, 3, -4};
  for (const char* registers : {"auto", "usual", "large"}) {
    Options wanted = options();
    wanted["registers"] = registers;
    reopen(wanted);
    if (std::string_view(registers) != "auto") {
      EXPECT_EQ(files_of({many_sums(4), many_sums(64)}), (Files{{"many_4", registers}, {"many_64", registers}}));
    }
    EXPECT_EQ(run(many_sums(64), 2, 4, values), (std::vector<float>{4160, 8320, 12480, -16640})) << registers;
  }
}

TEST_F(Intel, TeamsAreSubgroupsUnlessGroupsAreAskedFor) {
  EXPECT_EQ(property("teams"), "subgroups");
  EXPECT_EQ(property("lanes"), "16");
  Options wanted = options();
  wanted["subgroups"] = "false";
  reopen(wanted);
  EXPECT_EQ(property("teams"), "groups");
  wanted["teams"] = "false";
  reopen(wanted);
  EXPECT_EQ(property("teams"), "none");
}

TEST_F(Intel, TooMuchMemoryIsSaidInNumbers) {
  const auto buffer = Buffer::allocate(device_, std::uint64_t{1} << 50, 64);
  ASSERT_FALSE(buffer);
  EXPECT_THAT(buffer.error().message, HasSubstr("cannot have 1125899906842624 bytes on intel:0"));
}

TEST_F(Intel, AddressesOfNoBufferAreRefused) {
  const Buffer buffer = take(Buffer::allocate(device_, 100, 64));
  for (const std::uint64_t address : {std::uint64_t{16}, buffer.address() - 1, buffer.address() + 101}) {
    crucible_op op = {};
    op.struct_size = sizeof(op);
    op.kind = CRUCIBLE_OP_FILL;
    op.buffers = &address;
    op.buffer_count = 1;
    op.size = 1;
    const auto plan = Plan::build(device_, std::span(&op, 1), 0);
    ASSERT_FALSE(plan);
    EXPECT_THAT(plan.error().message, HasSubstr("is in none of the"));
  }
}

}  // namespace
}  // namespace crucible::backend
