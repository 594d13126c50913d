// Makes the module, runs it on a grid: see instruction.hpp.
#include "tests/emulators/ptx/testing/instruction.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <sstream>

#include "tests/emulators/core/grid.hpp"
#include "tests/emulators/core/memory.hpp"
#include "tests/emulators/ptx/load.hpp"

namespace crucible::emulators::ptx::testing {
namespace {

unsigned operand_bits(const Case& one, std::size_t i) {
  return one.operand_bits[i] != 0 ? one.operand_bits[i] : one.bits;
}

std::string module_of(const std::vector<Case>& cases) {
  std::ostringstream out;
  out << ".version 8.0\n.target sm_90\n.address_size 64\n";
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Case& one = cases[i];
    out << ".visible .entry case_" << i << "(.param .u64 out, .param .u64 in, .param .u32 count)\n{\n"
        << ".reg .pred %q<4>; .reg .b16 %h<8>; .reg .b32 %t<8>, %i, %j, %k; .reg .b64 %u<8>, %w, %x;\n.reg .b"
        << one.bits << " %d;\n";
    for (std::size_t k = 0; k < 3; ++k)
      out << ".reg .b" << operand_bits(one, k) << " %"
          << "abc"[k] << ";\n";
    out << "mov.u32 %i, %ctaid.x; mov.u32 %j, %tid.x; mov.u32 %k, %ntid.x; mad.lo.u32 %i, %i, %k, %j;\n"
        << "ld.param.u32 %k, [count]; setp.ge.u32 %q0, %i, %k; @%q0 ret;\n"
        << "mul.wide.u32 %w, %i, 24; ld.param.u64 %x, [in]; add.s64 %w, %w, %x;\n";
    for (std::size_t k = 0; k < 3; ++k)
      out << "ld.global.b" << operand_bits(one, k) << " %"
          << "abc"[k] << ", [%w+" << 8 * k << "];\n";
    out << one.text << "\nmul.wide.u32 %w, %i, 8; ld.param.u64 %x, [out]; add.s64 %w, %w, %x; st.global.b" << one.bits
        << " [%w], %d;\nret;\n}\n";
  }
  return out.str();
}

std::uint64_t low(std::uint64_t value, unsigned bits) { return bits == 64 ? value : value & ((1ull << bits) - 1); }

}  // namespace

void expect_cases(const std::vector<Case>& cases, const std::vector<std::uint64_t>& values) {
  Translation translation;
  ASSERT_NO_THROW(translation = translate(module_of(cases))) << module_of(cases);
  auto library = Library::load(std::move(translation));
  ASSERT_TRUE(library) << library.error();

  std::vector<std::uint64_t> in;
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (std::size_t j = 0; j < values.size(); ++j) {
      const std::uint64_t third = values[(i * 7 + j * 3 + 1) % values.size()];
      in.insert(in.end(), {values[i], values[j], third});
      in.insert(in.end(), {values[i], values[j], values[(i + j * 11) % values.size()]});
    }
  }
  const std::size_t count = in.size() / 3;
  emulator::Memory memory(1, 1ull << 30, false);
  struct {
    std::uint64_t out, in;
    std::uint32_t count;
  } arguments = {memory.allocate(0, count * 8).value(), memory.allocate(0, in.size() * 8).value(),
                 static_cast<std::uint32_t>(count)};
  std::memcpy(emulator::host_address(arguments.in), in.data(), in.size() * 8);
  const auto* const out = reinterpret_cast<const std::uint64_t*>(emulator::host_address(arguments.out));
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Case& one = cases[i];
    const emulator::Launch launch = {
        {static_cast<std::uint32_t>(count + 95) / 96, 1, 1}, {96, 1, 1}, 0, reinterpret_cast<const char*>(&arguments)};
    ASSERT_EQ(emulator::run_grid(library->code(i), launch), emulator::Outcome::kDone) << one.text;
    for (std::size_t k = 0; k < count; ++k) {
      const std::uint64_t a = low(in[3 * k], operand_bits(one, 0)), b = low(in[3 * k + 1], operand_bits(one, 1)),
                          c = low(in[3 * k + 2], operand_bits(one, 2));
      const std::uint64_t got = low(out[k], one.bits), wanted = low(one.wanted(a, b, c), one.bits);
      if (got == wanted) continue;
      ADD_FAILURE() << one.text << std::hex << "\n  a 0x" << a << " b 0x" << b << " c 0x" << c << ": got 0x" << got
                    << ", wanted 0x" << wanted;
      break;
    }
  }
}

std::vector<std::uint64_t> integers32() {
  return {0,          1,          2,          3,          5,          7,          31,         32,
          33,         63,         127,        128,        255,        256,        0x7fff,     0x8000,
          0xffff,     0x10000,    0x12345,    0xff00ff,   0x7fffffff, 0x80000000, 0x80000001, 0xaaaaaaaa,
          0xdeadbeef, 0xfffffffe, 0xffffffff, 0x00ff8001, 0x40000000, 1000003};
}
std::vector<std::uint64_t> integers64() {
  std::vector<std::uint64_t> made = integers32();
  for (const std::uint64_t value : {0x100000000ull, 0x123456789abcdefull, 0x7fffffffffffffffull, 0x8000000000000000ull,
                                    0x8000000000000001ull, 0xfffffffffffffffeull, 0xffffffffffffffffull,
                                    0xffffffff00000000ull, 0x20000000000001ull, 0x8000008000000001ull}) {
    made.push_back(value);
  }
  return made;
}
std::vector<std::uint64_t> floats32() {
  return {0,          0x80000000, 1,          0x80000001, 0x007fffff, 0x00800000, 0x80800000, 0x33800000, 0x3f7fffff,
          0x3f800000, 0xbf800000, 0x3f800001, 0x3fc00000, 0xbfc00001, 0x40000000, 0x40490fdb, 0x3e000000, 0x4b000001,
          0x4b7fffff, 0xcb800001, 0x4f000000, 0xcf000000, 0x4effffff, 0x5f000000, 0x5f800000, 0xdf000001, 0x7f7fffff,
          0xff7fffff, 0x7f000001, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc12345, 0x7f800001, 0x477fe000, 0x477ff000,
          0x38800000, 0x33000000, 0x42ff0000, 0x1a800000, 0x9a8fffff, 0x3f008000};
}
std::vector<std::uint64_t> floats64() {
  return {0,
          0x8000000000000000,
          1,
          0x8000000000000001,
          0x000fffffffffffff,
          0x0010000000000000,
          0x3ff0000000000000,
          0xbff0000000000000,
          0x3ff0000000000001,
          0x3fefffffffffffff,
          0x3ff8000000000000,
          0xbfe0000000000001,
          0x400921fb54442d18,
          0x3ca0000000000000,
          0x4330000000000001,
          0xc340000000000001,
          0x41dfffffffc00000,
          0x41e0000000000000,
          0x43e0000000000000,
          0x43f0000000000000,
          0xc3e0000000000000,
          0x47efffffe0000000,
          0x47efffffefffffff,
          0x36a0000000000000,
          0x3690000000000001,
          0x3810000000000000,
          0x380fffffffffffff,
          0x7fefffffffffffff,
          0xffefffffffffffff,
          0x7ff0000000000000,
          0xfff0000000000000,
          0x7ff8000000000000,
          0xfff8000000012345,
          0x3fd5555555555555,
          0x40efffffffffffff,
          0x3e60000000000000};
}
std::vector<std::uint64_t> halves() {
  return {0,      0x8000, 1,      0x8001, 0x03ff, 0x0400, 0x8400, 0x3bff, 0x3c00, 0xbc00,
          0x3c01, 0x3e00, 0xc001, 0x4248, 0x7bff, 0xfbff, 0x7800, 0x7c00, 0xfc00, 0x7e00,
          0xfd23, 0x5640, 0x1400, 0x9401, 0x6bff, 0x2e66, 0x0fff, 0x37ff, 0x4800, 0xb555};
}
std::vector<std::uint64_t> bfloats() {
  return {0,      0x8000, 1,      0x8001, 0x007f, 0x0080, 0x8080, 0x3f7f, 0x3f80, 0xbf80,
          0x3f81, 0x3fc0, 0xc001, 0x4049, 0x7f7f, 0xff7f, 0x7f00, 0x7f80, 0xff80, 0x7fc0,
          0xffa3, 0x4640, 0x3b80, 0xbb81, 0x5bff, 0x2e66, 0x0fff, 0x37ff, 0x4380, 0xb555};
}

}  // namespace crucible::emulators::ptx::testing
