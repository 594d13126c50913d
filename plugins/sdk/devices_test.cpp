// What plugins for devices with drivers share: opening libraries by name, addresses, lists of ops, shapes of launches,
// batches.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "plugins/sdk/address_map.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/mathematics.hpp"
#include "plugins/sdk/op_list.hpp"
#include "plugins/sdk/thread_kernel.hpp"
#include "plugins/sdk/thread_plan.hpp"
#include "plugins/sdk/vendor_library.hpp"

struct crucible_kernel : crucible::sdk::DeviceKernel {
  crucible::sdk::KernelShape shape;
};

namespace crucible::sdk {
namespace {

using ::testing::HasSubstr;

template <class Body>
std::string words_of(crucible_code code, Body body) {
  try {
    body();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), code) << failure.what();
    return failure.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

TEST(SdkVendorLibrary, OpensTheFirstThatThereIs) {
  const std::string names[] = {"libnowhere.so.9", "libm.so.6", "libdl.so.2"};
  const VendorLibrary library = VendorLibrary::open("the library", names, "install it");
  EXPECT_EQ(library.name(), "libm.so.6");
  EXPECT_THAT(library.file(), HasSubstr("/libm.so.6"));
  EXPECT_NE(library.find("cos"), nullptr);
  EXPECT_EQ(library.find("no_such_function"), nullptr);
}

TEST(SdkVendorLibrary, NamesAllThatWereTriedAndWhatToInstall) {
  const std::string names[] = {"libnowhere.so.9", "/nowhere/libnowhere.so.8"};
  const std::string words = words_of(CRUCIBLE_E_UNAVAILABLE,
                                     [&] { VendorLibrary::open("the library of nowhere", names, "install nowhere"); });
  for (const char* part :
       {"the library of nowhere cannot be loaded", "libnowhere.so.9", "/nowhere/libnowhere.so.8", "install nowhere"})
    EXPECT_THAT(words, HasSubstr(part));
}

TEST(SdkAddressMap, GivesNumbersForHandlesThatNoOtherBufferHas) {
  AddressMap map;
  const auto handle = std::make_shared<int>(7);
  const std::uint64_t first = map.number(100, 64), second = map.number(1, std::uint64_t{1} << 20);
  EXPECT_EQ(first % 64, 0u);
  EXPECT_EQ(second % (std::uint64_t{1} << 20), 0u);
  map.add(first, 100, handle, 3);
  map.add(second, 1, nullptr);
  const Place place = map.find(first + 40, "d");
  EXPECT_EQ(&place.in<int>(), handle.get());
  EXPECT_EQ(place.address, first + 40);
  EXPECT_EQ(place.offset, 43u);
  EXPECT_EQ(place.left, 60u);
  EXPECT_EQ(map.bytes_left(first + 100, "d"), 0u);
  words_of(CRUCIBLE_E_INVALID_ARGUMENT, [&] { map.find(first + 101, "d"); });  // a gap before the next one
  map.remove(first, 100);
  EXPECT_GE(map.number(1, 1), second + 1);  // nor after it was given back
  EXPECT_EQ(handle.use_count(), 2);         // the place holds it
}

TEST(SdkAddressMap, KnowsEachByteOfABufferAndItsEnd) {
  AddressMap map;
  map.add(1000, 100);
  map.add(1000, 0);
  map.add(2000, 10);
  EXPECT_EQ(map.bytes_left(1000, "d"), 100u);
  EXPECT_EQ(map.bytes_left(1099, "d"), 1u);
  EXPECT_EQ(map.bytes_left(1100, "d"), 0u);
  EXPECT_EQ(map.bytes_left(2003, "d"), 7u);
  for (const std::uint64_t wrong : {0u, 999u, 1101u, 1999u, 2011u}) {
    EXPECT_THAT(words_of(CRUCIBLE_E_INVALID_ARGUMENT, [&] { map.bytes_left(wrong, "d:0"); }),
                HasSubstr("the address " + std::to_string(wrong) + " is in none of the 3 buffers of d:0"));
  }
  map.remove(1000, 100);
  EXPECT_EQ(map.bytes_left(1000, "d"), 0u);
  words_of(CRUCIBLE_E_INVALID_ARGUMENT, [&] { map.bytes_left(1001, "d"); });
}

class SdkOpList : public testing::Test {
 protected:
  OpList read(const crucible_op& op, std::uint32_t slots = 0) {
    return read_ops(&op, 1, slots,
                    {[](const crucible_kernel& kernel) { return kernel.shape; },
                     [](std::uint64_t address) {
                       if (address >= 100 && address <= 200) return Place{.address = address, .left = 200 - address};
                       throw Failure(CRUCIBLE_E_INVALID_ARGUMENT, "in none of the buffers");
                     }});
  }
  crucible_op op(std::uint32_t kind) const {
    crucible_op result = {};
    result.struct_size = sizeof(result);
    result.kind = kind;
    result.buffers = places_;
    result.buffer_count = 2;
    return result;
  }
  crucible_kernel kernel_ = {{.name = "k"}, {"k", 2, 1}};
  std::uint64_t places_[2] = {100, 150};
  crucible_scalar scalars_[1] = {{0x3ff0000000000000u, 0, 0}};
};

TEST_F(SdkOpList, ReadsALaunchWithItsSlots) {
  crucible_op launch = op(CRUCIBLE_OP_LAUNCH);
  launch.kernel = &kernel_;
  launch.scalars = scalars_;
  launch.scalar_count = 1;
  launch.grid = 7;
  const OpList list = read(launch, 1);
  ASSERT_EQ(list.ops.size(), 1u);
  EXPECT_EQ(list.ops[0].addresses, (std::vector<std::uint64_t>{100, 150}));
  EXPECT_EQ(list.ops[0].scalars, std::vector<std::uint64_t>{0x3ff0000000000000u});
  EXPECT_TRUE(list.ops[0].does_something());
  ASSERT_EQ(list.slot_uses.size(), 1u);
  EXPECT_THAT(words_of(CRUCIBLE_E_INVALID_ARGUMENT, [&] { read(launch, 0); }), HasSubstr("op 0: slot 0 of 0"));
  launch.buffer_count = 1;
  EXPECT_THAT(words_of(CRUCIBLE_E_INVALID_ARGUMENT, [&] { read(launch, 1); }),
              HasSubstr("kernel k has 2 buffers and 1 scalars, it got 1 and 1"));
}

/// A load of four numbers at once from another address ends a device's context.
TEST_F(SdkOpList, KernelsThatRelyOnAlignmentGetNoOtherAddresses) {
  crucible_op launch = op(CRUCIBLE_OP_LAUNCH);
  launch.kernel = &kernel_;
  launch.scalars = scalars_;
  launch.scalar_count = 1;
  launch.grid = 7;
  const OpList list = read(launch, 1);
  const auto plan = [&] { return plan_launches<crucible_kernel>(list, 0, {0}, 1); };
  EXPECT_EQ(plan()[0].arguments.size(), 5u);  // 100 and 150, the scalar, begin and end
  kernel_.alignment = 50;
  EXPECT_EQ(plan()[0].first_scalar, 2u);
  kernel_.alignment = 4;
  EXPECT_THAT(words_of(CRUCIBLE_E_INVALID_ARGUMENT, plan),
              HasSubstr("op 0: buffer 1 of kernel k lies at an address that is no multiple of 4 bytes"));
}

TEST_F(SdkOpList, CopiesAndFillsStayInTheirBuffers) {
  crucible_op copy = op(CRUCIBLE_OP_COPY);
  copy.size = 50;
  EXPECT_EQ(read(copy).ops[0].size, 50u);
  copy.size = 51;
  EXPECT_THAT(words_of(CRUCIBLE_E_INVALID_ARGUMENT, [&] { read(copy); }),
              HasSubstr("51 bytes, where buffer 1 has 50 left"));
  crucible_op fill = op(CRUCIBLE_OP_FILL);
  fill.size = 100;
  fill.pattern = 256;
  EXPECT_THAT(words_of(CRUCIBLE_E_INVALID_ARGUMENT, [&] { read(fill); }), HasSubstr("the pattern 256 is not a byte"));
  fill.pattern = 255;
  EXPECT_EQ(read(fill).ops[0].addresses, std::vector<std::uint64_t>{100});
}

TEST_F(SdkOpList, RefusesWhatIsNoOp) {
  EXPECT_THAT(words_of(CRUCIBLE_E_INVALID_ARGUMENT, [&] { read(op(99)); }), HasSubstr("kind 99"));
  EXPECT_THAT(words_of(CRUCIBLE_E_UNSUPPORTED, [&] { read(op(CRUCIBLE_OP_LIBRARY)); }), HasSubstr("library call"));
  crucible_op lost = op(CRUCIBLE_OP_FILL);
  places_[1] = 201;
  EXPECT_THAT(words_of(CRUCIBLE_E_INVALID_ARGUMENT, [&] { read(lost); }), HasSubstr("in none of the buffers"));
}

TEST(SdkThreadKernel, LaunchesCoverEveryItemOnAllUnits) {
  for (const std::int64_t items : {1, 31, 33, 1000, 100'000, 1'000'000'000}) {
    for (const std::uint32_t most : {1024u, 256u, 96u, 7u}) {
      const LaunchShape shape = launch_shape(items, most, 100);
      EXPECT_LE(shape.threads, std::min(most, 256u));
      EXPECT_GE(shape.threads, std::min(most, 32u));
      // One block less would not do, unless each thread does several items.
      EXPECT_TRUE(std::int64_t{shape.blocks - 1} * shape.threads < items) << items << " " << most;
      EXPECT_TRUE(std::int64_t{shape.blocks} * shape.threads >= items || shape.blocks == 1u << 20)
          << items << " " << most;
    }
  }
  EXPECT_EQ(launch_shape(3200, 1024, 100).blocks, 100u);  // few items: all units have some
}

TEST(SdkThreadKernel, LaunchesOfTeamsHaveWholeTeamsForEveryItem) {
  for (const std::int64_t items : {1, 31, 1000, 100'000}) {
    for (const std::uint32_t lanes : {16u, 32u, 64u}) {
      for (const std::uint32_t most : {64u, 128u, 1024u}) {
        const LaunchShape shape = launch_shape(items, most, 100, lanes);
        EXPECT_EQ(shape.threads % lanes, 0u) << items << " " << lanes << " " << most;
        EXPECT_LE(shape.threads, std::min(most, 256u));
        const std::int64_t teams = std::int64_t{shape.blocks} * shape.threads / lanes;
        EXPECT_TRUE(teams >= items && teams - items < shape.threads / lanes) << items << " " << lanes << " " << most;
      }
    }
  }
}

TEST(SdkThreadKernel, ManyBuffersComeFromATable) {
  Kernel kernel;
  kernel.buffers.assign(509, {Type::kF32, true, false});
  kernel.scalars = {Type::kF64};
  EXPECT_FALSE(print_thread_kernel(kernel, dialect_cuda(), "k").has_table);
  kernel.buffers.emplace_back();
  const ThreadKernel table = print_thread_kernel(kernel, dialect_hip(), "k");
  EXPECT_TRUE(table.has_table);
  EXPECT_THAT(table.text, HasSubstr("void k(const uint64_t* table, double s0, int64_t begin, int64_t end)"));
  EXPECT_THAT(table.text, HasSubstr("(const float*)table[509], s0, begin, end)"));
  kernel.scalars = {Type::kI64};
  EXPECT_THAT(print_thread_kernel(kernel, dialect_hip(), "k").text,
              HasSubstr("void k(const uint64_t* table, int64_t s0, int64_t begin, int64_t end)"));
  kernel.scalars.resize(600, Type::kF64);
  EXPECT_THAT(words_of(CRUCIBLE_E_UNSUPPORTED, [&] { print_thread_kernel(kernel, dialect_cuda(), "k"); }),
              HasSubstr("kernel k has 600 scalars"));
}

TEST(SdkThreadKernel, BatchesHaveEveryKernelOnce) {
  ThreadKernels kernels;
  for (int i = 0; i < 20; ++i) kernels["k" + std::to_string(i)].text = "<k" + std::to_string(i) + ">";
  std::vector<std::string> names;
  for (const KernelBatch& batch : batch_kernels(kernels, dialect_hip(), true)) {
    EXPECT_TRUE(batch.text.starts_with(math_text(dialect_hip()) + "\n"));
    EXPECT_TRUE(batch.is_careful);
    for (const std::string& name : batch.names) EXPECT_THAT(batch.text, HasSubstr("<" + name + ">"));
    names.insert(names.end(), batch.names.begin(), batch.names.end());
  }
  EXPECT_EQ(names.size(), kernels.size());
  EXPECT_EQ(batch_kernels(kernels, dialect_cuda()).size(), 5u);
}

TEST(SdkThreadKernel, AllBatchesAreTriedAndOneFailureIsTold) {
  std::atomic<int> done = 0;
  EXPECT_THAT(words_of(CRUCIBLE_E_INTERNAL,
                       [&] {
                         for_each_batch(9, [&](std::size_t i) {
                           ++done;
                           if (i == 4) throw Failure(CRUCIBLE_E_INTERNAL, "the fifth");
                         });
                       }),
              HasSubstr("the fifth"));
  EXPECT_EQ(done, 9);
}

}  // namespace
}  // namespace crucible::sdk
