// Work-items that do an item together, on the drivers that are here: PoCL, which has no sub-groups, and Intel's for
// processors, where CRUCIBLE_INTEL_OPENCL names it. On processors they have to be asked for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

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

std::string intel() {
  const char* library = std::getenv("CRUCIBLE_INTEL_OPENCL");
  return library == nullptr ? "" : library;
}

Result<std::shared_ptr<Device>> try_open(Options options) {
  Result<std::shared_ptr<Backend>> backend = Backend::load(take(find_backend("opencl")), options);
  if (!backend) return backend.error();
  return (*backend)->open("");
}

std::map<std::string, std::string> told_by(const Device& device) {
  std::map<std::string, std::string> told;
  for (const auto& [key, value] : take(device.properties())) told[key] = value;
  return told;
}

/// buffer[0][row] = the sum of buffer[1][row * columns ...], in any order; buffer[2] = twice buffer[1].
KernelSource row_sums(std::int64_t columns) {
  IrBuilder b;
  b.add_buffer(DType::kF32, true);
  b.add_buffer(DType::kF32, false);
  b.add_buffer(DType::kF32, true);
  const ExprId row = b.open_grid(LoopMode::kSerial);
  const ExprId first = b.let(b.multiply(row, columns));
  const auto sum = b.declare(b.real(0, DType::kF32));
  const ExprId column = b.open_for(b.integer(0), b.integer(columns), LoopMode::kVector);
  const ExprId value = b.let(b.load(1, b.add(first, column)));
  b.store(2, b.add(first, column), b.add(value, value));
  b.set(sum, b.add(b.variable(sum), value));
  b.close();
  b.store(0, row, b.variable(sum));
  b.close();
  return {"rows_" + std::to_string(columns), "", kernel::serialize_ir(b.finish())};
}

std::uint64_t lanes_of(const Device& device, crucible_kernel* kernel) {
  std::uint64_t lanes = 0;
  const auto sink = [](void* user, const crucible_kv* items, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
      if (std::string_view(items[i].key.data, items[i].key.size) == "lanes")
        *static_cast<std::uint64_t*>(user) = items[i].u;
    }
  };
  EXPECT_TRUE(to_result(device.backend().compile_table().kernel_info(kernel, sink, &lanes), "kernel_info"));
  return lanes;
}

crucible_op launch(crucible_kernel* kernel, const std::vector<std::uint64_t>& places, std::int64_t rows) {
  crucible_op op = {};
  op.struct_size = sizeof(op);
  op.kind = CRUCIBLE_OP_LAUNCH;
  op.kernel = kernel;
  op.buffers = places.data();
  op.buffer_count = static_cast<std::uint32_t>(places.size());
  op.grid = rows;
  op.grain = 1;
  return op;
}

/// Both results of a kernel of row_sums() for `rows` rows; numbers are small, so that no order of a sum rounds.
void expect_sums(const std::shared_ptr<Device>& device, std::int64_t columns, std::int64_t rows,
                 std::uint64_t expected_lanes) {
  const KernelSource source = row_sums(columns);
  const Module module = take(Module::compile(device, std::span(&source, 1)));
  crucible_kernel* const kernel = take(module.kernel(source.name));
  EXPECT_EQ(lanes_of(*device, kernel), expected_lanes) << columns;
  const auto count = static_cast<std::size_t>(rows * columns);
  std::vector<float> values(count), doubled(count), sums(static_cast<std::size_t>(rows)),
      expected(static_cast<std::size_t>(rows), 0.0f);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(i * 7 % 13) - 4;
    expected[i / static_cast<std::size_t>(columns)] += values[i];
  }
  Buffer input = take(Buffer::allocate(device, count * sizeof(float), 256)),
         output = take(Buffer::allocate(device, count * sizeof(float), 256)),
         totals = take(Buffer::allocate(device, sums.size() * sizeof(float) + 64, 256));
  EXPECT_TRUE(input.write(0, std::as_bytes(std::span(values))));
  const std::vector<std::uint64_t> places = {totals.address(), input.address(), output.address()};
  const crucible_op op = launch(kernel, places, rows);
  Plan plan = take(Plan::build(device, std::span(&op, 1), 0));
  ASSERT_TRUE(plan.replay());
  ASSERT_TRUE(totals.read(0, std::as_writable_bytes(std::span(sums))));
  ASSERT_TRUE(output.read(0, std::as_writable_bytes(std::span(doubled))));
  EXPECT_EQ(sums, expected) << columns << " " << rows;
  for (float& value : values) value *= 2;
  EXPECT_EQ(doubled, values) << columns << " " << rows;
}

struct Way {
  std::string name, language, teams, lanes;
  std::uint64_t expected = 0;
  bool is_intels = false;
};
void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }

class OpenClTeams : public ::testing::TestWithParam<Way> {};

TEST_P(OpenClTeams, DoRowsTogether) {
  const Way& way = GetParam();
  Options options = {{"language", way.language}, {"teams", way.teams}, {"lanes", way.lanes}};
  if (way.is_intels) {
    if (intel().empty()) GTEST_SKIP() << "CRUCIBLE_INTEL_OPENCL does not name Intel's OpenCL driver (ci/test sets it)";
    options["library"] = intel();
  }
  const auto opened = try_open(options);
  if (!opened) GTEST_SKIP() << opened.error().message;
  auto told = told_by(**opened);
  EXPECT_EQ(told["teams"], way.teams);
  EXPECT_EQ(told["lanes"], std::to_string(way.expected));
  EXPECT_EQ(told["mapping"], "items");
  // In OpenCL C a whole group of several warps does rows of thousands.
  const std::uint64_t long_rows = way.language == "c" ? 8 * way.expected : way.expected;
  for (const std::int64_t rows : {1, 7, 300}) expect_sums(*opened, 96, rows, way.expected);
  expect_sums(*opened, 97, 5, way.expected);  // no access of several elements
  expect_sums(*opened, 8192, 3, long_rows);
  expect_sums(*opened, 3, 50, 1);  // too few turns for a team
}

INSTANTIATE_TEST_SUITE_P(, OpenClTeams,
                         ::testing::Values(Way{"loader_groups", "c", "groups", "0", 32},
                                           Way{"loader_groups_of_16", "c", "groups", "16", 16},
                                           Way{"intel_groups", "c", "groups", "0", 32, true},
                                           Way{"intel_subgroups", "c", "subgroups", "0", 16, true},
                                           Way{"intel_subgroups_of_32", "c", "subgroups", "32", 32, true},
                                           Way{"intel_spirv_groups", "spirv", "groups", "0", 32, true},
                                           Way{"intel_spirv_subgroups", "spirv", "subgroups", "0", 16, true},
                                           Way{"intel_spirv_subgroups_of_8", "spirv", "subgroups", "8", 8, true}),
                         [](const auto& info) { return info.param.name; });

TEST(OpenClTeamsOptions, AProcessorHasNoneByItself) {
  const auto opened = try_open({});
  if (!opened) GTEST_SKIP() << opened.error().message;
  auto told = told_by(**opened);
  EXPECT_EQ(told["teams"], "none");
  EXPECT_EQ(told["lanes"], "1");
}

TEST(OpenClTeamsOptions, WhatCannotBeHadIsRefusedWithTheReason) {
  if (const auto opened = try_open({}); !opened) GTEST_SKIP() << opened.error().message;
  const auto refused = [](const Options& options) {
    const auto opened = try_open(options);
    return opened ? "" : opened.error().message;
  };
  EXPECT_THAT(refused({{"teams", "groups"}, {"mapping", "chunks"}}), HasSubstr("set mapping to items"));
  EXPECT_THAT(refused({{"teams", "groups"}, {"lanes", "24"}}), HasSubstr("lanes are a power of two, and not 24"));
  std::string platform;
  if (const auto device = try_open({})) platform = told_by(**device)["platform"];
  if (platform != "Portable Computing Language") return;
  EXPECT_THAT(refused({{"teams", "subgroups"}}), HasSubstr("set teams to groups"));
}

TEST(OpenClTeamsOptions, AnAddressThatWideAccessesCannotUseIsRefused) {
  const auto opened = try_open({{"teams", "groups"}});
  if (!opened) GTEST_SKIP() << opened.error().message;
  const KernelSource source = row_sums(512);
  const Module module = take(Module::compile(*opened, std::span(&source, 1)));
  Buffer arena = take(Buffer::allocate(*opened, 64 * 1024, 256));
  const std::vector<std::uint64_t> places = {arena.address(), arena.address() + 1028, arena.address() + 8192};
  const crucible_op op = launch(take(module.kernel(source.name)), places, 2);
  const auto plan = Plan::build(*opened, std::span(&op, 1), 0);
  ASSERT_FALSE(plan);
  EXPECT_THAT(plan.error().message, HasSubstr("lies at an address that is no multiple of 16 bytes"));
}

}  // namespace
}  // namespace crucible::backend
