// The plugin through the loader, by its one exported symbol. What needs a device is skipped where there is none:
// install ocl-icd-libopencl1 and pocl-opencl-icd to have one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <numeric>

#include "core/kernel/ir/ir_builder.hpp"
#include "core/kernel/schedule.hpp"
#include "plugins/kernel_ir/serialize.hpp"
#include "plugins/loader/backend.hpp"

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

Result<std::shared_ptr<Device>> try_open(const Options& options) {
  Result<std::shared_ptr<Backend>> backend = Backend::load(take(find_backend("opencl")), options);
  if (!backend) return backend.error();
  return (*backend)->open("");
}

/// buffer[0][i] = the sum of all the others at i; with one type for all.
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

class OpenCl : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = try_open({});
    if (!opened) GTEST_SKIP() << opened.error().message;
    device_ = *opened;
  }
  /// `kernel` over `count` items; all buffers lie in one arena, one behind the other, at odd places.
  template <class T>
  std::vector<T> run(const KernelSource& kernel, std::uint32_t buffers, std::size_t count, const std::vector<T>& values,
                     const std::shared_ptr<Device>& device) {
    const Module module = take(Module::compile(device, std::span(&kernel, 1)));
    const std::uint64_t bytes = count * sizeof(T), step = bytes + 12 * sizeof(T);
    Buffer arena = take(Buffer::allocate(device, step * buffers, 64));
    std::vector<std::uint64_t> places;
    for (std::uint32_t i = 0; i < buffers; ++i) {
      places.push_back(arena.address() + i * step + sizeof(T));
      EXPECT_TRUE(arena.write(i * step + sizeof(T), std::as_bytes(std::span(values))));
    }
    crucible_op op = {};
    op.struct_size = sizeof(op);
    op.kind = CRUCIBLE_OP_LAUNCH;
    op.kernel = take(module.kernel(kernel.name));
    op.buffers = places.data();
    op.buffer_count = buffers;
    op.grid = static_cast<std::int64_t>(count);
    op.grain = 1;
    Plan plan = take(Plan::build(device, std::span(&op, 1), 0));
    EXPECT_TRUE(plan.replay());
    std::vector<T> result(count);
    EXPECT_TRUE(arena.read(sizeof(T), std::as_writable_bytes(std::span(result))));
    return result;
  }
  std::shared_ptr<Device> device_;
};

TEST(OpenClLibrary, AMissingLibraryIsNamedWithWhatToInstall) {
  const auto opened = try_open({{"library", "/nowhere/libOpenCL.so.1"}});
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, HasSubstr("/nowhere/libOpenCL.so.1 cannot be loaded"));
  EXPECT_THAT(opened.error().message, HasSubstr("install a loader (Debian: ocl-icd-libopencl1)"));
}

TEST(OpenClLibrary, ALibraryOfSomethingElseIsRefused) {
  const auto opened = try_open({{"library", "libz.so.1"}});
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, HasSubstr("lacks clGetPlatformIDs"));
}

TEST(OpenClLibrary, AWrongOptionNamesWhatIsRight) {
  const auto opened = try_open({{"mapping", "sideways"}});
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, HasSubstr("sideways"));
}

TEST_F(OpenCl, TellsWhoItIs) {
  std::map<std::string, std::string> told;
  for (const auto& [key, value] : take(device_->properties())) told[key] = value;
  for (const char* key : {"name", "platform", "driver", "version"}) EXPECT_NE(told[key], "") << key;
  EXPECT_EQ(told["dialect"], "opencl");
}

TEST_F(OpenCl, AnUnknownDeviceIsRefusedWithThoseThatThereAre) {
  const auto library = take(find_backend("opencl"));
  device_ = nullptr;  // a plugin is started once, with one set of options
  const auto opened = take(Backend::load(library, {}))->open("opencl:99");
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, HasSubstr("no device 'opencl:99': it has opencl:0"));
}

TEST_F(OpenCl, BothMappingsDoEveryItemOnce) {
  for (const char* mapping : {"chunks", "items"}) {
    device_ = nullptr;  // a plugin is started once, with one set of options
    const auto device = take(try_open({{"mapping", mapping}}));
    for (const std::size_t count : {std::size_t{1}, std::size_t{127}, std::size_t{129}, std::size_t{10'007}}) {
      std::vector<float> values(count);
      std::iota(values.begin(), values.end(), 1.0f);
      std::vector<float> expected = values;
      for (float& value : expected) value *= 2;
      EXPECT_EQ(run(sums(3, DType::kF32), 3, count, values, device), expected) << mapping << " " << count;
    }
  }
}

TEST_F(OpenCl, AKernelWithMoreBuffersThanArgumentsGetsATable) {
  const std::vector<float> values = {1, 2, 3, -4};
  const auto sum = run(sums(100, DType::kF32), 100, 4, values, device_);
  EXPECT_EQ(sum, (std::vector<float>{99, 198, 297, -396}));
}

TEST_F(OpenCl, HalfPrecisionNeedsNoHelpOfTheDevice) {
  // 1, the largest, infinity, the smallest subnormal, 65504 + 65504 = infinity
  const std::vector<std::uint16_t> values = {0x3c00, 0x7bff, 0x7c00, 0x0001, 0xbc00};
  EXPECT_EQ(run(sums(3, DType::kF16), 3, values.size(), values, device_),
            (std::vector<std::uint16_t>{0x4000, 0x7c00, 0x7c00, 0x0002, 0xc000}));
}

TEST_F(OpenCl, ACompilersWordsAreInTheError) {
  KernelSource kernel = sums(3, DType::kF32);
  kernel.name = "while";  // a name for the SDK, and a word of OpenCL C
  const auto module = Module::compile(device_, std::span(&kernel, 1));
  ASSERT_FALSE(module);
  EXPECT_THAT(module.error().message, HasSubstr("refuses the kernels"));
  EXPECT_THAT(module.error().message, HasSubstr("error"));
}

TEST_F(OpenCl, TooMuchMemoryIsSaidInNumbers) {
  const auto buffer = Buffer::allocate(device_, std::uint64_t{1} << 50, 64);
  ASSERT_FALSE(buffer);
  EXPECT_THAT(buffer.error().message, HasSubstr("cannot have 1125899906842624 bytes on opencl:0"));
  EXPECT_THAT(buffer.error().message, HasSubstr("in one piece"));
}

TEST_F(OpenCl, AddressesOfNoBufferAreRefused) {
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
