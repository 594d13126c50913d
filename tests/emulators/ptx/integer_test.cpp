// Integers, bits, comparisons and conversions between integers, against the same written in C++ or, where that would be
// the emulator's own text again, bit by bit as NVIDIA's manual has it.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include "tests/emulators/ptx/testing/instruction.hpp"

namespace crucible::emulators::ptx::testing {
namespace {

using u64 = std::uint64_t;
using s64 = std::int64_t;
using u32 = std::uint32_t;
using s32 = std::int32_t;
__extension__ typedef unsigned __int128 u128;
__extension__ typedef __int128 s128;

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size()))
    text.replace(at, what.size(), with);
  return text;
}

/// The number that `bits` low bits are.
s64 as_signed(u64 value, unsigned bits) { return static_cast<s64>(value << (64 - bits)) >> (64 - bits); }

void arithmetic(unsigned n, const std::vector<u64>& values) {
  const std::string t = std::to_string(n);
  const u64 all = n == 64 ? ~0ull : (1ull << n) - 1, top = 1ull << (n - 1);
  const auto s = [n](u64 v) { return as_signed(v, n); };
  std::vector<Case> cases = {
      {"add.sN %d, %a, %b;", n, {}, [](u64 a, u64 b, u64) { return a + b; }},
      {"sub.uN %d, %a, %b;", n, {}, [](u64 a, u64 b, u64) { return a - b; }},
      {"mul.lo.sN %d, %a, %b;", n, {}, [](u64 a, u64 b, u64) { return a * b; }},
      {"mul.hi.uN %d, %a, %b;", n, {}, [n](u64 a, u64 b, u64) { return static_cast<u64>(u128{a} * b >> n); }},
      {"mul.hi.sN %d, %a, %b;", n, {}, [n, s](u64 a, u64 b, u64) { return static_cast<u64>(s128{s(a)} * s(b) >> n); }},
      {"mad.lo.uN %d, %a, %b, %c;", n, {}, [](u64 a, u64 b, u64 c) { return a * b + c; }},
      {"mad.hi.sN %d, %a, %b, %c;",
       n,
       {},
       [n, s](u64 a, u64 b, u64 c) { return static_cast<u64>(s128{s(a)} * s(b) >> n) + c; }},
      {"div.uN %d, %a, %b;", n, {}, [all](u64 a, u64 b, u64) { return b == 0 ? all : a / b; }},
      {"rem.uN %d, %a, %b;", n, {}, [](u64 a, u64 b, u64) { return b == 0 ? a : a % b; }},
      {"div.sN %d, %a, %b;",
       n,
       {},
       [=](u64 a, u64 b, u64) { return b == 0 ? all : static_cast<u64>(s128{s(a)} / s(b)); }},
      {"rem.sN %d, %a, %b;",
       n,
       {},
       [=](u64 a, u64 b, u64) { return b == 0 ? a : static_cast<u64>(s128{s(a)} % s(b)); }},
      {"min.sN %d, %a, %b;", n, {}, [s](u64 a, u64 b, u64) { return static_cast<u64>(std::min(s(a), s(b))); }},
      {"max.uN %d, %a, %b;", n, {}, [](u64 a, u64 b, u64) { return std::max(a, b); }},
      {"abs.sN %d, %a;", n, {}, [top](u64 a, u64, u64) { return (a & top) != 0 ? 0 - a : a; }},
      {"neg.sN %d, %a;", n, {}, [](u64 a, u64, u64) { return 0 - a; }},
      {"and.bN %d, %a, %b;", n, {}, [](u64 a, u64 b, u64) { return a & b; }},
      {"xor.bN %d, %a, -3;", n, {}, [](u64 a, u64, u64) { return a ^ ~2ull; }},
      {"or.bN %d, %a, 0x55;", n, {}, [](u64 a, u64, u64) { return a | 0x55; }},
      {"not.bN %d, %a;", n, {}, [](u64 a, u64, u64) { return ~a; }},
      {"cnot.bN %d, %a;", n, {}, [](u64 a, u64, u64) { return u64{a == 0}; }},
      {"shl.bN %d, %a, %b;", n, {n, 32, 0}, [n](u64 a, u64 b, u64) { return b >= n ? 0 : a << b; }},
      {"shr.uN %d, %a, %b;", n, {n, 32, 0}, [n](u64 a, u64 b, u64) { return b >= n ? 0 : a >> b; }},
      {"shr.sN %d, %a, %b;",
       n,
       {n, 32, 0},
       [s, n](u64 a, u64 b, u64) { return static_cast<u64>(s(a) >> std::min<u64>(b, n - 1)); }},
      {"setp.gt.uN %q1, %a, %b; selp.bN %d, %a, %c, %q1;", n, {}, [](u64 a, u64 b, u64 c) { return a > b ? a : c; }},
  };
  for (Case& one : cases) one.text = replaced(one.text, "N ", t + " ");
  expect_cases(cases, values);
}

TEST(PtxIntegers, Of16Bits) { arithmetic(16, integers32()); }
TEST(PtxIntegers, Of32Bits) { arithmetic(32, integers32()); }
TEST(PtxIntegers, Of64Bits) { arithmetic(64, integers64()); }

TEST(PtxIntegers, WideAndCarriedProducts) {
  expect_cases(
      {
          {"mul.wide.u32 %d, %a, %b;", 64, {32, 32, 32}, [](u64 a, u64 b, u64) { return a * b; }},
          {"mul.wide.s32 %d, %a, %b;",
           64,
           {32, 32, 32},
           [](u64 a, u64 b, u64) { return static_cast<u64>(as_signed(a, 32) * as_signed(b, 32)); }},
          {"mul.wide.s16 %d, %a, %b;",
           32,
           {16, 16, 16},
           [](u64 a, u64 b, u64) { return static_cast<u64>(as_signed(a, 16) * as_signed(b, 16)); }},
          {"mad.wide.s32 %d, %a, %b, %c;",
           64,
           {32, 32, 64},
           [](u64 a, u64 b, u64 c) { return static_cast<u64>(as_signed(a, 32) * as_signed(b, 32)) + c; }},
          {"mad.wide.u16 %d, %a, %b, %c;", 32, {16, 16, 32}, [](u64 a, u64 b, u64 c) { return a * b + c; }},
          // A sum and a difference of 64 bits in two halves.
          {"mov.b64 {%t0, %t1}, %a; mov.b64 {%t2, %t3}, %b; add.cc.u32 %t4, %t0, %t2; addc.u32 %t5, %t1, %t3; mov.b64 "
           "%d, {%t4, %t5};",
           64,
           {},
           [](u64 a, u64 b, u64) { return a + b; }},
          {"mov.b64 {%t0, %t1}, %a; mov.b64 {%t2, %t3}, %b; sub.cc.u32 %t4, %t0, %t2; subc.u32 %t5, %t1, %t3; mov.b64 "
           "%d, {%t4, %t5};",
           64,
           {},
           [](u64 a, u64 b, u64) { return a - b; }},
          // The high half of a product of 64 bits by halves, as compilers do it.
          {"mov.b64 {%t0, %t1}, %a; mov.b64 {%t2, %t3}, %b; mul.lo.u32 %t4, %t0, %t2; mul.hi.u32 %t5, %t0, %t2;\n"
           "mad.lo.cc.u32 %t5, %t0, %t3, %t5; madc.hi.u32 %t6, %t0, %t3, 0; mad.lo.cc.u32 %t5, %t1, %t2, %t5; "
           "madc.hi.cc.u32 %t6, %t1, "
           "%t2, %t6; addc.u32 %t7, 0, 0;\n"
           "mad.lo.cc.u32 %t6, %t1, %t3, %t6; madc.hi.u32 %t7, %t1, %t3, %t7; mov.b64 %d, {%t6, %t7};",
           64,
           {},
           [](u64 a, u64 b, u64) { return static_cast<u64>(u128{a} * b >> 64); }},
      },
      integers64());
}

TEST(PtxIntegers, OneSizeOnly) {
  expect_cases(
      {
          {"add.sat.s32 %d, %a, %b;",
           32,
           {},
           [](u64 a, u64 b, u64) {
             return static_cast<u64>(std::clamp<s64>(as_signed(a, 32) + as_signed(b, 32), INT32_MIN, INT32_MAX));
           }},
          {"sub.sat.s32 %d, %a, %b;",
           32,
           {},
           [](u64 a, u64 b, u64) {
             return static_cast<u64>(std::clamp<s64>(as_signed(a, 32) - as_signed(b, 32), INT32_MIN, INT32_MAX));
           }},
          {"min.relu.s32 %d, %a, %b;",
           32,
           {},
           [](u64 a, u64 b, u64) {
             return static_cast<u64>(std::max<s64>(0, std::min(as_signed(a, 32), as_signed(b, 32))));
           }},
          {"mul24.lo.u32 %d, %a, %b;", 32, {}, [](u64 a, u64 b, u64) { return (a & 0xffffff) * (b & 0xffffff); }},
          {"mul24.lo.s32 %d, %a, %b;",
           32,
           {},
           [](u64 a, u64 b, u64) {
             return static_cast<u64>(as_signed(a & 0xffffff, 24) * as_signed(b & 0xffffff, 24));
           }},
          {"sad.s32 %d, %a, %b, %c;",
           32,
           {},
           [](u64 a, u64 b, u64 c) {
             const s64 x = as_signed(a, 32) - as_signed(b, 32);
             return static_cast<u64>(x < 0 ? -x : x) + c;
           }},
          {"sad.u32 %d, %a, %b, %c;", 32, {}, [](u64 a, u64 b, u64 c) { return (a > b ? a - b : b - a) + c; }},
          {"dp4a.s32.u32 %d, %a, %b, %c;",
           32,
           {},
           [](u64 a, u64 b, u64 c) {
             for (int i = 0; i < 4; ++i)
               c += static_cast<u64>(as_signed(a >> 8 * i & 255, 8) * static_cast<s64>(b >> 8 * i & 255));
             return c;
           }},
          {"dp4a.s32.s32 %d, %a, %b, %c;",
           32,
           {},
           [](u64 a, u64 b, u64 c) {
             for (int i = 0; i < 4; ++i)
               c += static_cast<u64>(as_signed(a >> 8 * i & 255, 8) * as_signed(b >> 8 * i & 255, 8));
             return c;
           }},
          {"dp2a.lo.s32.s32 %d, %a, %b, %c;",
           32,
           {},
           [](u64 a, u64 b, u64 c) {
             for (int i = 0; i < 2; ++i)
               c += static_cast<u64>(as_signed(a >> 16 * i & 0xffff, 16) * as_signed(b >> 8 * i & 255, 8));
             return c;
           }},
          {"dp2a.hi.u32.u32 %d, %a, %b, %c;",
           32,
           {},
           [](u64 a, u64 b, u64 c) {
             for (int i = 0; i < 2; ++i) c += (a >> 16 * i & 0xffff) * (b >> (16 + 8 * i) & 255);
             return c;
           }},
      },
      integers32());
}

u64 extracted(u64 a, u64 position, u64 length, unsigned n, bool is_signed) {
  position &= 255, length &= 255;
  const u64 last = std::min<u64>(position + length - 1, n - 1);
  const u64 sign = !is_signed || length == 0 ? 0 : a >> last & 1;
  u64 result = 0;
  for (u64 i = 0; i < n; ++i) result |= (i < length && position + i < n ? a >> (position + i) & 1 : sign) << i;
  return result;
}
u64 inserted(u64 a, u64 into, u64 position, u64 length, unsigned n) {
  position &= 255, length &= 255;
  for (u64 i = 0; i < length && position + i < n; ++i)
    into = (into & ~(1ull << (position + i))) | (a >> i & 1) << (position + i);
  return into;
}

TEST(PtxBits, CountedFoundTurnedAndCutOut) {
  for (const unsigned n : {32u, 64u}) {
    std::vector<Case> cases = {
        {"popc.bN %t0, %a; mov.b32 %d, %t0;",
         32,
         {n, n, n},
         [](u64 a, u64, u64) { return static_cast<u64>(std::popcount(a)); }},
        {"clz.bN %d, %a;",
         32,
         {n, n, n},
         [n](u64 a, u64, u64) { return static_cast<u64>(std::countl_zero(a)) - (64 - n); }},
        {"bfind.uN %d, %a;",
         32,
         {n, n, n},
         [](u64 a, u64, u64) { return a == 0 ? ~0ull : static_cast<u64>(63 - std::countl_zero(a)); }},
        {"bfind.sN %d, %a;",
         32,
         {n, n, n},
         [n](u64 a, u64, u64) {
           const u64 v = a >> (n - 1) & 1 ? ~static_cast<u64>(as_signed(a, n)) : a;
           return v == 0 ? ~0ull : static_cast<u64>(63 - std::countl_zero(v));
         }},
        {"bfind.shiftamt.uN %d, %a;",
         32,
         {n, n, n},
         [n](u64 a, u64, u64) { return a == 0 ? ~0ull : static_cast<u64>(std::countl_zero(a)) - (64 - n); }},
        {"brev.bN %d, %a;",
         n,
         {},
         [n](u64 a, u64, u64) {
           u64 r = 0;
           for (unsigned i = 0; i < n; ++i) r |= (a >> i & 1) << (n - 1 - i);
           return r;
         }},
        {"bfe.uN %d, %a, %b, %c;", n, {n, 32, 32}, [n](u64 a, u64 b, u64 c) { return extracted(a, b, c, n, false); }},
        {"bfe.sN %d, %a, %b, %c;", n, {n, 32, 32}, [n](u64 a, u64 b, u64 c) { return extracted(a, b, c, n, true); }},
        {"bfi.bN %d, %a, 0x1234567, %b, %c;",
         n,
         {n, 32, 32},
         [n](u64 a, u64 b, u64 c) { return inserted(a, 0x1234567, b, c, n); }},
    };
    for (Case& one : cases) one.text = replaced(one.text, "N ", std::to_string(n) + " ");
    expect_cases(cases, integers64());
  }
}

TEST(PtxBits, OfThreeOperands) {
  expect_cases(
      {
          {"lop3.b32 %d, %a, %b, %c, 0x96;", 32, {}, [](u64 a, u64 b, u64 c) { return a ^ b ^ c; }},
          {"lop3.b32 %d, %a, %b, %c, 0xe2;",
           32,
           {},
           [](u64 a, u64 b, u64 c) {
             u64 r = 0;
             for (int i = 0; i < 32; ++i)
               r |= (0xe2ull >> ((a >> i & 1) * 4 + (b >> i & 1) * 2 + (c >> i & 1)) & 1) << i;
             return r;
           }},
          {"lop3.b32 %d, %a, %b, %c, 0xf8;", 32, {}, [](u64 a, u64 b, u64 c) { return a | (b & c); }},
          {"shf.l.wrap.b32 %d, %a, %b, %c;",
           32,
           {},
           [](u64 a, u64 b, u64 c) { return ((b << 32 | a) << (c & 31)) >> 32; }},
          {"shf.r.clamp.b32 %d, %a, %b, %c;",
           32,
           {},
           [](u64 a, u64 b, u64 c) { return (b << 32 | a) >> std::min<u64>(c, 32); }},
          {"prmt.b32 %d, %a, %b, %c;",
           32,
           {},
           [](u64 a, u64 b, u64 c) {
             u64 r = 0;
             for (int i = 0; i < 4; ++i) {
               const u64 byte = (b << 32 | a) >> (8 * (c >> 4 * i & 7)) & 255;
               r |= (c >> 4 * i & 8 ? (byte >> 7) * 255 : byte) << 8 * i;
             }
             return r;
           }},
      },
      integers32());
}

TEST(PtxComparisons, OfIntegers) {
  std::vector<Case> cases;
  const auto add = [&](const std::string& op, const std::string& type, auto compare) {
    cases.push_back({"setp." + op + "." + type +
                         " %q1|%q2, %a, %b; selp.b32 %t0, 1, 0, %q1; selp.b32 %t1, 2, 0, %q2; add.u32 %d, %t0, %t1;",
                     32,
                     {},
                     [compare](u64 a, u64 b, u64) { return compare(a, b) ? u64{1} : u64{2}; }});
  };
  add("eq", "b32", [](u64 a, u64 b) { return a == b; });
  add("ne", "s32", [](u64 a, u64 b) { return a != b; });
  add("lt", "u32", [](u64 a, u64 b) { return a < b; });
  add("lt", "s32", [](u64 a, u64 b) { return as_signed(a, 32) < as_signed(b, 32); });
  add("ge", "s32", [](u64 a, u64 b) { return as_signed(a, 32) >= as_signed(b, 32); });
  add("lo", "u32", [](u64 a, u64 b) { return a < b; });
  add("hs", "u32", [](u64 a, u64 b) { return a >= b; });
  cases.push_back(
      {"setp.eq.u32 %q2, %c, 5; setp.le.and.s32 %q1|%q3, %a, %b, !%q2; selp.b32 %t0, 1, 0, %q1; selp.b32 %d, 3, %t0, "
       "%q3;",
       32,
       {},
       [](u64 a, u64 b, u64 c) {
         const bool x = as_signed(a, 32) <= as_signed(b, 32), y = c != 5;
         return !x && y ? u64{3} : u64{x && y};
       }});
  cases.push_back({"set.gt.u32.s32 %d, %a, %b;", 32, {}, [](u64 a, u64 b, u64) {
                     return as_signed(a, 32) > as_signed(b, 32) ? ~0ull : 0;
                   }});
  cases.push_back(
      {"slct.u32.s32 %d, %a, %b, %c;", 32, {}, [](u64 a, u64 b, u64 c) { return as_signed(c, 32) >= 0 ? a : b; }});
  expect_cases(cases, integers32());
}

TEST(PtxConversions, OfIntegers) {
  std::vector<Case> cases;
  for (const unsigned to : {8u, 16u, 32u, 64u}) {
    for (const unsigned from : {8u, 16u, 32u, 64u}) {
      const unsigned width = std::max(16u, to), from_width = std::max(16u, from);  // no registers of 8 bits
      for (const char* const signs : {"uu", "us", "su", "ss"}) {
        const bool to_signed = signs[0] == 's', from_signed = signs[1] == 's';
        const std::string types = std::string(1, signs[0]) + std::to_string(to) + "." + signs[1] + std::to_string(from);
        const auto source = [=](u64 a) {
          return from_signed ? s128{as_signed(a & (from == 64 ? ~0ull : (1ull << from) - 1), from)}
                             : s128{a & (from == 64 ? ~0ull : (1ull << from) - 1)};
        };
        const auto widened = [=](u64 v) {
          return to_signed ? static_cast<u64>(as_signed(v & (to == 64 ? ~0ull : (1ull << to) - 1), to))
                           : v & (to == 64 ? ~0ull : (1ull << to) - 1);
        };
        cases.push_back({"cvt." + types + " %d, %a;", width, {from_width, 32, 32}, [=](u64 a, u64, u64) {
                           return widened(static_cast<u64>(source(a)));
                         }});
        const s128 low = to_signed ? -(s128{1} << (to - 1)) : s128{0},
                   high = to_signed ? (s128{1} << (to - 1)) - 1 : (s128{1} << to) - 1;
        cases.push_back({"cvt.sat." + types + " %d, %a;", width, {from_width, 32, 32}, [=](u64 a, u64, u64) {
                           return widened(static_cast<u64>(std::clamp(source(a), low, high)));
                         }});
      }
    }
  }
  expect_cases(cases, integers64());
}

/// Which is compiled without optimization: see translate.cpp.
TEST(PtxIntegers, AKernelOfManyInstructions) {
  constexpr u64 kTimes = 11'000;
  std::string text = "mov.b32 %d, %b;";
  for (u64 i = 0; i < kTimes; ++i) text += " add.s32 %d, %d, %a;";
  expect_cases({{text, 32, {}, [](u64 a, u64 b, u64) { return a * kTimes + b; }}}, integers32());
}

}  // namespace
}  // namespace crucible::emulators::ptx::testing
