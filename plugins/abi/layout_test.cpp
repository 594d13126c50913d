// The layout of every struct of the plugin ABI, as released: a plugin that was built yesterday must fit the host of
// today. Within a major number rows are appended, never changed; a row that differs is a break of the ABI.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>

#include "plugins/abi/crucible_plugin.h"

extern "C" std::uint64_t crucible_abi_size_in_c(int index);

namespace {

struct Row {
  const char* name;
  std::size_t golden;  // of ABI 0.1 on 64-bit machines: offset of a field, size of a struct
  std::size_t here;
};

const Row kRows[] = {
    {"crucible_str", 16, sizeof(crucible_str)},
    {"crucible_str.data", 0, offsetof(crucible_str, data)},
    {"crucible_str.size", 8, offsetof(crucible_str, size)},
    {"crucible_error_table", 32, sizeof(crucible_error_table)},
    {"crucible_error_table.struct_size", 0, offsetof(crucible_error_table, struct_size)},
    {"crucible_error_table.reserved", 4, offsetof(crucible_error_table, reserved)},
    {"crucible_error_table.destroy", 8, offsetof(crucible_error_table, destroy)},
    {"crucible_error_table.code", 16, offsetof(crucible_error_table, code)},
    {"crucible_error_table.message", 24, offsetof(crucible_error_table, message)},
    {"crucible_kv", 48, sizeof(crucible_kv)},
    {"crucible_kv.key", 0, offsetof(crucible_kv, key)},
    {"crucible_kv.type", 16, offsetof(crucible_kv, type)},
    {"crucible_kv.reserved", 20, offsetof(crucible_kv, reserved)},
    {"crucible_kv.u", 24, offsetof(crucible_kv, u)},
    {"crucible_kv.s", 32, offsetof(crucible_kv, s)},
    {"crucible_host_api", 32, sizeof(crucible_host_api)},
    {"crucible_host_api.struct_size", 0, offsetof(crucible_host_api, struct_size)},
    {"crucible_host_api.abi_minor", 4, offsetof(crucible_host_api, abi_minor)},
    {"crucible_host_api.ctx", 8, offsetof(crucible_host_api, ctx)},
    {"crucible_host_api.log", 16, offsetof(crucible_host_api, log)},
    {"crucible_host_api.get_option", 24, offsetof(crucible_host_api, get_option)},
    {"crucible_if_device", 40, sizeof(crucible_if_device)},
    {"crucible_if_device.struct_size", 0, offsetof(crucible_if_device, struct_size)},
    {"crucible_if_device.if_minor", 4, offsetof(crucible_if_device, if_minor)},
    {"crucible_if_device.enumerate", 8, offsetof(crucible_if_device, enumerate)},
    {"crucible_if_device.open", 16, offsetof(crucible_if_device, open)},
    {"crucible_if_device.close", 24, offsetof(crucible_if_device, close)},
    {"crucible_if_device.properties", 32, offsetof(crucible_if_device, properties)},
    {"crucible_if_memory", 64, sizeof(crucible_if_memory)},
    {"crucible_if_memory.struct_size", 0, offsetof(crucible_if_memory, struct_size)},
    {"crucible_if_memory.if_minor", 4, offsetof(crucible_if_memory, if_minor)},
    {"crucible_if_memory.alloc", 8, offsetof(crucible_if_memory, alloc)},
    {"crucible_if_memory.free", 16, offsetof(crucible_if_memory, free)},
    {"crucible_if_memory.write", 24, offsetof(crucible_if_memory, write)},
    {"crucible_if_memory.read", 32, offsetof(crucible_if_memory, read)},
    {"crucible_if_memory.fill", 40, offsetof(crucible_if_memory, fill)},
    {"crucible_if_memory.address", 48, offsetof(crucible_if_memory, address)},
    {"crucible_if_memory.stats", 56, offsetof(crucible_if_memory, stats)},
    {"crucible_compile_info", 24, sizeof(crucible_compile_info)},
    {"crucible_compile_info.struct_size", 0, offsetof(crucible_compile_info, struct_size)},
    {"crucible_compile_info.from_cache", 4, offsetof(crucible_compile_info, from_cache)},
    {"crucible_compile_info.compile_ns", 8, offsetof(crucible_compile_info, compile_ns)},
    {"crucible_compile_info.binary_bytes", 16, offsetof(crucible_compile_info, binary_bytes)},
    {"crucible_if_compile", 40, sizeof(crucible_if_compile)},
    {"crucible_if_compile.struct_size", 0, offsetof(crucible_if_compile, struct_size)},
    {"crucible_if_compile.if_minor", 4, offsetof(crucible_if_compile, if_minor)},
    {"crucible_if_compile.dialect", 8, offsetof(crucible_if_compile, dialect)},
    {"crucible_if_compile.compile", 16, offsetof(crucible_if_compile, compile)},
    {"crucible_if_compile.kernel", 24, offsetof(crucible_if_compile, kernel)},
    {"crucible_if_compile.unload", 32, offsetof(crucible_if_compile, unload)},
    {"crucible_view", 144, sizeof(crucible_view)},
    {"crucible_view.rank", 0, offsetof(crucible_view, rank)},
    {"crucible_view.dtype", 4, offsetof(crucible_view, dtype)},
    {"crucible_view.offset", 8, offsetof(crucible_view, offset)},
    {"crucible_view.sizes", 16, offsetof(crucible_view, sizes)},
    {"crucible_view.strides", 80, offsetof(crucible_view, strides)},
    {"crucible_library_desc", 504, sizeof(crucible_library_desc)},
    {"crucible_library_desc.struct_size", 0, offsetof(crucible_library_desc, struct_size)},
    {"crucible_library_desc.kind", 4, offsetof(crucible_library_desc, kind)},
    {"crucible_library_desc.views", 8, offsetof(crucible_library_desc, views)},
    {"crucible_library_desc.alpha_f64_bits", 440, offsetof(crucible_library_desc, alpha_f64_bits)},
    {"crucible_library_desc.stride", 448, offsetof(crucible_library_desc, stride)},
    {"crucible_library_desc.padding", 464, offsetof(crucible_library_desc, padding)},
    {"crucible_library_desc.dilation", 480, offsetof(crucible_library_desc, dilation)},
    {"crucible_library_desc.groups", 496, offsetof(crucible_library_desc, groups)},
    {"crucible_if_library", 16, sizeof(crucible_if_library)},
    {"crucible_if_library.struct_size", 0, offsetof(crucible_if_library, struct_size)},
    {"crucible_if_library.if_minor", 4, offsetof(crucible_if_library, if_minor)},
    {"crucible_if_library.claim", 8, offsetof(crucible_if_library, claim)},
    {"crucible_scalar", 16, sizeof(crucible_scalar)},
    {"crucible_scalar.f64_bits", 0, offsetof(crucible_scalar, f64_bits)},
    {"crucible_scalar.slot", 8, offsetof(crucible_scalar, slot)},
    {"crucible_scalar.reserved", 12, offsetof(crucible_scalar, reserved)},
    {"crucible_op", 88, sizeof(crucible_op)},
    {"crucible_op.struct_size", 0, offsetof(crucible_op, struct_size)},
    {"crucible_op.kind", 4, offsetof(crucible_op, kind)},
    {"crucible_op.kernel", 8, offsetof(crucible_op, kernel)},
    {"crucible_op.library", 16, offsetof(crucible_op, library)},
    {"crucible_op.buffers", 24, offsetof(crucible_op, buffers)},
    {"crucible_op.scalars", 32, offsetof(crucible_op, scalars)},
    {"crucible_op.buffer_count", 40, offsetof(crucible_op, buffer_count)},
    {"crucible_op.scalar_count", 44, offsetof(crucible_op, scalar_count)},
    {"crucible_op.grid", 48, offsetof(crucible_op, grid)},
    {"crucible_op.grain", 56, offsetof(crucible_op, grain)},
    {"crucible_op.size", 64, offsetof(crucible_op, size)},
    {"crucible_op.scratch_bytes", 72, offsetof(crucible_op, scratch_bytes)},
    {"crucible_op.pattern", 80, offsetof(crucible_op, pattern)},
    {"crucible_op.reserved", 84, offsetof(crucible_op, reserved)},
    {"crucible_if_plan", 48, sizeof(crucible_if_plan)},
    {"crucible_if_plan.struct_size", 0, offsetof(crucible_if_plan, struct_size)},
    {"crucible_if_plan.if_minor", 4, offsetof(crucible_if_plan, if_minor)},
    {"crucible_if_plan.build", 8, offsetof(crucible_if_plan, build)},
    {"crucible_if_plan.set_slots", 16, offsetof(crucible_if_plan, set_slots)},
    {"crucible_if_plan.replay", 24, offsetof(crucible_if_plan, replay)},
    {"crucible_if_plan.profile", 32, offsetof(crucible_if_plan, profile)},
    {"crucible_if_plan.destroy", 40, offsetof(crucible_if_plan, destroy)},
    {"crucible_plugin_api", 32, sizeof(crucible_plugin_api)},
    {"crucible_plugin_api.struct_size", 0, offsetof(crucible_plugin_api, struct_size)},
    {"crucible_plugin_api.abi_minor", 4, offsetof(crucible_plugin_api, abi_minor)},
    {"crucible_plugin_api.init", 8, offsetof(crucible_plugin_api, init)},
    {"crucible_plugin_api.shutdown", 16, offsetof(crucible_plugin_api, shutdown)},
    {"crucible_plugin_api.interface_table", 24, offsetof(crucible_plugin_api, interface_table)},
    {"crucible_query_in", 16, sizeof(crucible_query_in)},
    {"crucible_query_in.struct_size", 0, offsetof(crucible_query_in, struct_size)},
    {"crucible_query_in.magic", 4, offsetof(crucible_query_in, magic)},
    {"crucible_query_in.host_major", 8, offsetof(crucible_query_in, host_major)},
    {"crucible_query_in.host_minor", 12, offsetof(crucible_query_in, host_minor)},
    {"crucible_query_out", 264, sizeof(crucible_query_out)},
    {"crucible_query_out.struct_size", 0, offsetof(crucible_query_out, struct_size)},
    {"crucible_query_out.magic", 4, offsetof(crucible_query_out, magic)},
    {"crucible_query_out.abi_major", 8, offsetof(crucible_query_out, abi_major)},
    {"crucible_query_out.abi_minor", 12, offsetof(crucible_query_out, abi_minor)},
    {"crucible_query_out.name", 16, offsetof(crucible_query_out, name)},
    {"crucible_query_out.vendor", 32, offsetof(crucible_query_out, vendor)},
    {"crucible_query_out.version", 48, offsetof(crucible_query_out, version)},
    {"crucible_query_out.api", 64, offsetof(crucible_query_out, api)},
    {"crucible_query_out.reject_reason", 72, offsetof(crucible_query_out, reject_reason)},
    {"crucible_error", 8, sizeof(crucible_error)},
    {"crucible_error.table", 0, offsetof(crucible_error, table)},
};

TEST(AbiLayout, IsTheReleasedOne) {
  static_assert(sizeof(void*) == 8, "the golden numbers are those of 64-bit machines");
  for (const Row& row : kRows) EXPECT_EQ(row.here, row.golden) << row.name;
}

TEST(AbiLayout, HasEachRowOnce) {
  std::set<std::string> names;
  for (const Row& row : kRows) EXPECT_TRUE(names.insert(row.name).second) << row.name;
}

TEST(AbiLayout, IsTheSameInC) {
  const std::size_t sizes[] = {sizeof(crucible_op),           sizeof(crucible_library_desc),
                               sizeof(crucible_view),         sizeof(crucible_query_out),
                               sizeof(crucible_if_memory),    sizeof(crucible_if_plan),
                               sizeof(crucible_compile_info), sizeof(crucible_kv)};
  for (int i = 0; i < 8; ++i) EXPECT_EQ(crucible_abi_size_in_c(i), sizes[i]) << i;
}

TEST(AbiLayout, HasItsNumbers) {
  EXPECT_EQ(CRUCIBLE_ABI_MAJOR, 0u);
  EXPECT_EQ(CRUCIBLE_ABI_MINOR, 1u);
  EXPECT_EQ(CRUCIBLE_MAGIC, 0x31435243u);
  EXPECT_EQ(CRUCIBLE_IF_DEVICE, 1u);
  EXPECT_EQ(CRUCIBLE_IF_MEMORY, 2u);
  EXPECT_EQ(CRUCIBLE_IF_COMPILE, 4u);
  EXPECT_EQ(CRUCIBLE_IF_PLAN, 5u);
  EXPECT_EQ(CRUCIBLE_IF_LIBRARY, 6u);
  EXPECT_EQ(CRUCIBLE_OP_LAUNCH, 1u);
  EXPECT_EQ(CRUCIBLE_OP_LIBRARY, 4u);
  EXPECT_EQ(CRUCIBLE_LIB_CONV2D_BACKWARD_WEIGHT, 3u);
  EXPECT_EQ(CRUCIBLE_E_INTERNAL, 12);
}

}  // namespace
