// The binary form by itself: what exists once, what is asked for only when it is used.
#include "plugins/spirv/spirv_module.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plugins/spirv/testing.hpp"

namespace crucible::spirv {
namespace {

using crucible::sdk::Type;
using ::testing::Contains;
using ::testing::Not;

std::vector<std::uint32_t> capabilities(const Words& module) {
  std::vector<std::uint32_t> found;
  for (std::size_t i = 5; i < module.size() && (module[i] & 0xffff) == static_cast<std::uint32_t>(Op::kCapability);
       i += 2)
    found.push_back(module[i + 1]);
  return found;
}

/// b[i] = a[i], in one type.
Words copy_of(Type type) {
  const Type types[] = {type, type};
  testing::OneKernel one(types);
  one.store(one.load(0));
  KernelModule module;
  module.add(one.kernel, "copy");
  return module.words();
}

TEST(SpirvModule, TypesAndConstantsExistOnce) {
  SpirvModule module;
  EXPECT_EQ(module.int_type(32), module.int_type(32));
  EXPECT_NE(module.int_type(32), module.int_type(64));
  EXPECT_EQ(module.int_constant(8, 0x1ff), module.int_constant(8, 0xff));
  EXPECT_NE(module.int_constant(8, 1), module.int_constant(16, 1));
  EXPECT_NE(module.float_constant(32, 0.0), module.float_constant(32, -0.0));
  EXPECT_EQ(module.pointer_type(Storage::kFunction, module.bool_type()),
            module.pointer_type(Storage::kFunction, module.bool_type()));
}

TEST(SpirvModule, CapabilitiesAreThoseInUse) {
  const auto of = [](Type type) { return capabilities(copy_of(type)); };
  const auto number = [](Capability capability) { return static_cast<std::uint32_t>(capability); };
  for (const Type type : {Type::kF32, Type::kI32, Type::kI64, Type::kU8, Type::kF16}) {
    EXPECT_THAT(of(type), Not(Contains(number(Capability::kFloat64)))) << crucible::name(type);
    EXPECT_THAT(of(type), Not(Contains(number(Capability::kFloat16Buffer))))
        << crucible::name(type);  // its bits are copied
  }
  EXPECT_THAT(of(Type::kF64), Contains(number(Capability::kFloat64)));
  EXPECT_THAT(of(Type::kF32), Not(Contains(number(Capability::kInt8))));
  EXPECT_THAT(of(Type::kBool), Contains(number(Capability::kInt8)));
  EXPECT_THAT(of(Type::kI16), Contains(number(Capability::kInt16)));
  EXPECT_THAT(of(Type::kI8), Not(Contains(number(Capability::kInt16))));
}

TEST(SpirvModule, ABrokenModuleIsRefusedByTheValidator) {
  if (const std::string reason = testing::no_validator(); !reason.empty()) GTEST_SKIP() << reason;
  Words module = copy_of(Type::kF32);
  EXPECT_EQ(testing::validate(module), "");
  module.resize(module.size() - 1);  // no end of the function
  EXPECT_NE(testing::validate(module), "");
}

}  // namespace
}  // namespace crucible::spirv
