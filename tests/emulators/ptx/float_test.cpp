// Floating point: each rounding, each edge. The host's processor rounds f32 and f64; halves are rounded here from exact
// sums, by a text that has nothing in common with the emulator's.
#include <gtest/gtest.h>

#include <bit>
#include <cfenv>
#include <cmath>

#include "tests/emulators/ptx/testing/instruction.hpp"

namespace crucible::emulators::ptx::testing {
namespace {

using u64 = std::uint64_t;
using u32 = std::uint32_t;

float f32(u64 bits) { return std::bit_cast<float>(static_cast<u32>(bits)); }
double f64(u64 bits) { return std::bit_cast<double>(bits); }
// The device's only patterns for what is no number.
u64 bits(float x) { return std::isnan(x) ? 0x7fffffff : std::bit_cast<u32>(x); }
u64 bits(double x) { return std::isnan(x) ? 0xfff8000000000000 : std::bit_cast<u64>(x); }

constexpr std::pair<const char*, int> kModes[] = {
    {"rn", FE_TONEAREST}, {"rz", FE_TOWARDZERO}, {"rm", FE_DOWNWARD}, {"rp", FE_UPWARD}};

/// `work` under a rounding mode. Its operands have to be volatile.
template <typename Work>
auto rounded(int mode, Work work) {
  std::fesetround(mode);
  const volatile auto result = work();
  std::fesetround(FE_TONEAREST);
  return static_cast<std::remove_const_t<std::remove_volatile_t<decltype(result)>>>(result);
}

template <typename Float, typename Get>
void arithmetic(const std::string& type, unsigned n, Get get, const std::vector<u64>& values) {
  std::vector<Case> cases;
  for (const auto& [name, mode] : kModes) {
    const std::string suffix = std::string(".") + name + "." + type;
    const int m = mode;
    const auto add = [&](const std::string& op, auto work) {
      cases.push_back({op, n, {}, [=](u64 a, u64 b, u64 c) {
                         volatile Float x = get(a), y = get(b), z = get(c);
                         return bits(rounded(m, [&] { return work(x, y, z); }));
                       }});
    };
    using V = const volatile Float&;
    add("add" + suffix + " %d, %a, %b;", [](V x, V y, V) { return x + y; });
    add("sub" + suffix + " %d, %a, %b;", [](V x, V y, V) { return x - y; });
    add("mul" + suffix + " %d, %a, %b;", [](V x, V y, V) { return x * y; });
    add("fma" + suffix + " %d, %a, %b, %c;",
        [](V x, V y, V z) { return std::fma(static_cast<Float>(x), static_cast<Float>(y), static_cast<Float>(z)); });
    add("div" + suffix + " %d, %a, %b;", [](V x, V y, V) { return x / y; });
    add("rcp" + suffix + " %d, %a;", [](V x, V, V) { return 1 / x; });
    add("sqrt" + suffix + " %d, %a;", [](V x, V, V) { return std::sqrt(static_cast<Float>(x)); });
  }
  expect_cases(cases, values);
}

TEST(PtxFloats, Of32BitsInAllRoundings) { arithmetic<float>("f32", 32, f32, floats32()); }
TEST(PtxFloats, Of64BitsInAllRoundings) { arithmetic<double>("f64", 64, f64, floats64()); }

u64 flushed(u64 a) { return (a & 0x7f800000) == 0 ? a & 0x80000000 : a; }
u64 saturated(u64 a) { return f32(a) > 0 ? (f32(a) < 1 ? a : 0x3f800000) : 0; }

TEST(PtxFloats, FlushedAndSaturated) {
  expect_cases(
      {
          {"add.ftz.f32 %d, %a, %b;",
           32,
           {},
           [](u64 a, u64 b, u64) { return flushed(bits(f32(flushed(a)) + f32(flushed(b)))); }},
          {"mul.rn.ftz.f32 %d, %a, %b;",
           32,
           {},
           [](u64 a, u64 b, u64) { return flushed(bits(f32(flushed(a)) * f32(flushed(b)))); }},
          {"fma.rn.ftz.sat.f32 %d, %a, %b, %c;",
           32,
           {},
           [](u64 a, u64 b, u64 c) {
             return flushed(saturated(bits(std::fma(f32(flushed(a)), f32(flushed(b)), f32(flushed(c))))));
           }},
          {"add.sat.f32 %d, %a, %b;", 32, {}, [](u64 a, u64 b, u64) { return saturated(bits(f32(a) + f32(b))); }},
          {"cvt.sat.f32.f32 %d, %a;", 32, {}, [](u64 a, u64, u64) { return saturated(a); }},
          {"neg.f32 %d, %a;", 32, {}, [](u64 a, u64, u64) { return a ^ 0x80000000; }},
          {"abs.f32 %d, %a;", 32, {}, [](u64 a, u64, u64) { return a & 0x7fffffff; }},
          {"copysign.f32 %d, %a, %b;", 32, {}, [](u64 a, u64 b, u64) { return (a & 0x80000000) | (b & 0x7fffffff); }},
          {"mov.f32 %d, 0f3FC00000;", 32, {}, [](u64, u64, u64) { return u64{0x3fc00000}; }},
          {"div.full.f32 %d, %a, %b;", 32, {}, [](u64 a, u64 b, u64) { return bits(f32(a) / f32(b)); }},
      },
      floats32());
}

/// Of a number and what is none, the number; +0 is greater than -0.
template <typename Float>
Float extreme(Float a, Float b, bool is_max, bool keeps_nan) {
  if (std::isnan(a) || std::isnan(b))
    return keeps_nan || (std::isnan(a) && std::isnan(b)) ? NAN : std::isnan(a) ? b : a;
  if (a == 0 && b == 0) return std::signbit(a) == is_max ? b : a;
  return (a > b) == is_max ? a : b;
}

TEST(PtxFloats, TheGreaterAndTheSmaller) {
  std::vector<Case> cases, wide;
  for (const bool is_max : {false, true}) {
    for (const bool keeps : {false, true}) {
      const std::string op = std::string(is_max ? "max" : "min") + (keeps ? ".NaN" : "");
      cases.push_back({op + ".f32 %d, %a, %b;", 32, {}, [=](u64 a, u64 b, u64) {
                         return bits(extreme(f32(a), f32(b), is_max, keeps));
                       }});
      if (!keeps)
        wide.push_back({op + ".f64 %d, %a, %b;", 64, {}, [=](u64 a, u64 b, u64) {
                          return bits(extreme(f64(a), f64(b), is_max, keeps));
                        }});
    }
  }
  expect_cases(cases, floats32());
  expect_cases(wide, floats64());
}

TEST(PtxFloats, Compared) {
  const std::pair<const char*, bool (*)(float, float)> kTests[] = {
      {"eq", [](float a, float b) { return a == b; }},
      {"ne", [](float a, float b) { return a < b || a > b; }},
      {"lt", [](float a, float b) { return a < b; }},
      {"le", [](float a, float b) { return a <= b; }},
      {"gt", [](float a, float b) { return a > b; }},
      {"ge", [](float a, float b) { return a >= b; }},
      {"equ", [](float a, float b) { return !(a < b || a > b); }},
      {"neu", [](float a, float b) { return !(a == b); }},
      {"ltu", [](float a, float b) { return !(a >= b); }},
      {"leu", [](float a, float b) { return !(a > b); }},
      {"gtu", [](float a, float b) { return !(a <= b); }},
      {"geu", [](float a, float b) { return !(a < b); }},
      {"num", [](float a, float b) { return !std::isunordered(a, b); }},
      {"nan", [](float a, float b) { return std::isunordered(a, b); }},
  };
  std::vector<Case> cases;
  for (const auto& [name, test] : kTests) {
    const auto compare = test;
    cases.push_back(
        {std::string("setp.") + name + ".f32 %q1, %a, %b; selp.b32 %d, 1, 0, %q1;", 32, {}, [=](u64 a, u64 b, u64) {
           return u64{compare(f32(a), f32(b))};
         }});
  }
  cases.push_back({"setp.lt.f32 %q2, %c, 0f00000000; setp.gt.xor.ftz.f32 %q1, %a, %b, %q2; selp.b32 %d, 1, 0, %q1;",
                   32,
                   {},
                   [](u64 a, u64 b, u64 c) { return u64{(f32(flushed(a)) > f32(flushed(b))) != (f32(c) < 0)}; }});
  const std::pair<const char*, bool (*)(float)> kClasses[] = {
      {"finite", [](float a) { return bool(std::isfinite(a)); }},
      {"infinite", [](float a) { return bool(std::isinf(a)); }},
      {"notanumber", [](float a) { return bool(std::isnan(a)); }},
      {"normal", [](float a) { return bool(std::isnormal(a)); }},
      {"subnormal", [](float a) { return std::fpclassify(a) == FP_SUBNORMAL; }},
      {"number", [](float a) { return !std::isnan(a); }}};
  for (const auto& [name, test] : kClasses) {
    const auto is = test;
    cases.push_back(
        {std::string("testp.") + name + ".f32 %q1, %a; selp.b32 %d, 1, 0, %q1;", 32, {}, [=](u64 a, u64, u64) {
           return u64{is(f32(a))};
         }});
  }
  expect_cases(cases, floats32());
}

/// A float as an integer, as NVIDIA's manual has it for what does not fit and for what is no number.
u64 as_integer(double x, int mode, unsigned n, bool is_signed, bool from_double) {
  // A signed one of 8 bits fills its register.
  if (std::isnan(x)) return from_double || n == 64 ? (is_signed ? ~0ull : 1ull) << (n - 1) : 0;
  volatile double value = x;
  const double whole = rounded(mode, [&] { return std::nearbyint(static_cast<double>(value)); });
  const double high = std::ldexp(1.0, static_cast<int>(is_signed ? n - 1 : n)), low = is_signed ? -high : 0;
  if (whole <= low) return is_signed ? ~0ull << (n - 1) : 0;
  if (whole >= high) return ~0ull >> (64 - (is_signed ? n - 1 : n));
  return is_signed ? static_cast<u64>(static_cast<std::int64_t>(whole)) : static_cast<u64>(whole);
}

TEST(PtxConversions, BetweenFloatsAndIntegers) {
  std::vector<Case> narrow, wide, integers;
  for (const auto& [name, mode] : kModes) {
    const int m = mode;
    for (const unsigned n : {8u, 16u, 32u, 64u}) {
      for (const bool is_signed : {false, true}) {
        const std::string type = (is_signed ? "s" : "u") + std::to_string(n), rounding = std::string(".") + name;
        const unsigned width = std::max(16u, n);
        narrow.push_back({"cvt" + rounding + "i." + type + ".f32 %d, %a;", width, {32, 32, 32}, [=](u64 a, u64, u64) {
                            return as_integer(f32(a), m, n, is_signed, false);
                          }});
        wide.push_back({"cvt" + rounding + "i." + type + ".f64 %d, %a;", width, {64, 32, 32}, [=](u64 a, u64, u64) {
                          return as_integer(f64(a), m, n, is_signed, true);
                        }});
        if (n < 32) continue;
        const auto convert = [=]<typename Float>(u64 a, Float) {
          volatile u64 u = a;
          volatile std::int64_t s = n == 64 ? static_cast<std::int64_t>(a) : static_cast<std::int32_t>(a);
          return rounded(m, [&] { return is_signed ? static_cast<Float>(s) : static_cast<Float>(u); });
        };
        integers.push_back({"cvt" + rounding + ".f32." + type + " %d, %a;", 32, {n, 32, 32}, [=](u64 a, u64, u64) {
                              return bits(convert(a, 0.0f));
                            }});
        integers.push_back({"cvt" + rounding + ".f64." + type + " %d, %a;", 64, {n, 32, 32}, [=](u64 a, u64, u64) {
                              return bits(convert(a, 0.0));
                            }});
      }
    }
    const std::string rounding = std::string(".") + name;
    narrow.push_back({"cvt" + rounding + "i.f32.f32 %d, %a;", 32, {}, [=](u64 a, u64, u64) {
                        volatile float x = f32(a);
                        return bits(rounded(m, [&] { return std::nearbyint(static_cast<float>(x)); }));
                      }});
    wide.push_back({"cvt" + rounding + ".f32.f64 %d, %a;", 32, {64, 32, 32}, [=](u64 a, u64, u64) {
                      volatile double x = f64(a);
                      return bits(rounded(m, [&] { return static_cast<float>(x); }));
                    }});
  }
  narrow.push_back(
      {"cvt.f64.f32 %d, %a;", 64, {32, 32, 32}, [](u64 a, u64, u64) { return bits(static_cast<double>(f32(a))); }});
  expect_cases(narrow, floats32());
  expect_cases(wide, floats64());
  expect_cases(integers, integers64());
}

/// A format of 16 bits.
struct Small {
  int exponent_bits, fraction_bits;
  double value(u64 pattern) const {
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const int exponent = static_cast<int>(pattern >> fraction_bits) & ((1 << exponent_bits) - 1);
    const double fraction = static_cast<double>(pattern & ((1ull << fraction_bits) - 1));
    const double sign = (pattern & 0x8000) != 0 ? -1 : 1;
    if (exponent == (1 << exponent_bits) - 1) return fraction == 0 ? sign * INFINITY : NAN;
    if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
    return sign * std::ldexp(fraction + std::ldexp(1, fraction_bits), exponent - bias - fraction_bits);
  }
  /// The nearest pattern to x, which is odd where it is not exact: then ties are none.
  u64 nearest(double x, int mode = FE_TONEAREST) const {
    if (std::isnan(x)) return 0x7fff;
    const u64 sign = std::signbit(x) ? 0x8000 : 0;
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const u64 infinity = ((1ull << exponent_bits) - 1) << fraction_bits;
    if (std::isinf(x)) return sign | infinity;
    if (x == 0) return sign;
    const int exponent = std::max(std::ilogb(x), 1 - bias);
    volatile double scaled = std::ldexp(x, fraction_bits - exponent);
    const double whole = std::fabs(rounded(mode, [&] { return std::nearbyint(static_cast<double>(scaled)); }));
    // The fraction carries into the exponent by itself.
    const u64 pattern = static_cast<u64>(whole) + (static_cast<u64>(exponent + bias - 1) << fraction_bits);
    const bool outward = mode == FE_TONEAREST || mode == (sign != 0 ? FE_DOWNWARD : FE_UPWARD);
    return sign | (pattern < infinity ? pattern : outward ? infinity : infinity - 1);
  }
};
constexpr Small kHalf = {5, 10}, kBfloat = {8, 7};

/// a * b + c: the nearest double towards zero, with its last bit set when it is not exact.
double odd_fma(double a, double b, double c) {
  volatile double x = a, y = b, z = c;
  std::feclearexcept(FE_ALL_EXCEPT);
  const double result = rounded(
      FE_TOWARDZERO, [&] { return std::fma(static_cast<double>(x), static_cast<double>(y), static_cast<double>(z)); });
  if (std::fetestexcept(FE_INEXACT) == 0 || !std::isfinite(result)) {
    // Towards zero gives +0 for x - x as to nearest does.
    return result;
  }
  return std::bit_cast<double>(std::bit_cast<u64>(result) | 1);
}

void small_arithmetic(const std::string& type, Small format, const std::vector<u64>& values) {
  const auto v = [format](u64 pattern) { return format.value(pattern); };
  const auto fma = [=](u64 a, u64 b, u64 c) { return format.nearest(odd_fma(v(a), v(b), v(c))); };
  // A product alone has the sign of its factors, also when it is zero.
  const auto product = [=](u64 a, u64 b) { return format.nearest(v(a) * v(b)); };
  const auto both = [](auto one) {
    return [one](u64 a, u64 b, u64 c) {
      return one(a >> 16, b >> 16, c >> 16) << 16 | one(a & 0xffff, b & 0xffff, c & 0xffff);
    };
  };
  const auto max = [=](u64 a, u64 b, u64) { return format.nearest(extreme(v(a), v(b), true, false)); };
  const auto min_nan = [=](u64 a, u64 b, u64) { return format.nearest(extreme(v(a), v(b), false, true)); };
  const auto add = [=](u64 a, u64 b, u64) { return fma(a, format.nearest(1), b); };
  const auto sub = [=](u64 a, u64 b, u64) { return fma(a, format.nearest(1), b ^ 0x8000); };
  const auto mul = [=](u64 a, u64 b, u64) { return product(a, b); };
  const auto relu = [=](u64 a, u64 b, u64 c) {
    const u64 x = fma(a, b, c);
    return x != 0x7fff && (x & 0x8000) != 0 ? 0 : x;
  };
  expect_cases(
      {
          {"add.rn." + type + " %d, %a, %b;", 16, {}, add},
          {"sub." + type + " %d, %a, %b;", 16, {}, sub},
          {"mul.rn." + type + " %d, %a, %b;", 16, {}, mul},
          {"fma.rn." + type + " %d, %a, %b, %c;", 16, {}, fma},
          {"fma.rn.relu." + type + " %d, %a, %b, %c;", 16, {}, relu},
          {"max." + type + " %d, %a, %b;", 16, {}, max},
          {"min.NaN." + type + " %d, %a, %b;", 16, {}, min_nan},
          {"neg." + type + " %d, %a;", 16, {}, [](u64 a, u64, u64) { return a ^ 0x8000; }},
          {"setp.lt." + type + " %q1, %a, %b; selp.b16 %d, 1, 0, %q1;",
           16,
           {},
           [=](u64 a, u64 b, u64) { return u64{v(a) < v(b)}; }},
          {"cvt.f32." + type + " %d, %a;",
           32,
           {16, 16, 16},
           [=](u64 a, u64, u64) { return bits(static_cast<float>(v(a))); }},
      },
      values);
  std::vector<u64> pairs;
  for (std::size_t i = 0; i < values.size(); ++i)
    pairs.push_back(values[i] << 16 | values[(i * 7 + 3) % values.size()]);
  expect_cases(
      {
          {"add.rn." + type + "x2 %d, %a, %b;", 32, {}, both(add)},
          {"mul." + type + "x2 %d, %a, %b;", 32, {}, both(mul)},
          {"fma.rn." + type + "x2 %d, %a, %b, %c;", 32, {}, both(fma)},
          {"max." + type + "x2 %d, %a, %b;", 32, {}, both(max)},
          {"abs." + type + "x2 %d, %a;", 32, {}, [](u64 a, u64, u64) { return a & 0x7fff7fff; }},
          {"mov.b32 {%h0, %h1}, %a; mov.b32 %d, {%h1, %h0};",
           32,
           {},
           [](u64 a, u64, u64) { return a >> 16 | a << 16; }},
      },
      pairs);
}

TEST(PtxHalves, Of5BitsOfExponent) { small_arithmetic("f16", kHalf, halves()); }
TEST(PtxHalves, Of8BitsOfExponent) { small_arithmetic("bf16", kBfloat, bfloats()); }

TEST(PtxHalves, FromFloats) {
  std::vector<Case> cases, wide;
  for (const auto& [name, mode] : kModes) {
    const int m = mode;
    cases.push_back({std::string("cvt.") + name + ".f16.f32 %d, %a;", 16, {32, 32, 32}, [=](u64 a, u64, u64) {
                       return kHalf.nearest(f32(a), m);
                     }});
    if (m == FE_TONEAREST || m == FE_TOWARDZERO) {
      cases.push_back({std::string("cvt.") + name + ".bf16.f32 %d, %a;", 16, {32, 32, 32}, [=](u64 a, u64, u64) {
                         return kBfloat.nearest(f32(a), m);
                       }});
    }
  }
  cases.push_back({"cvt.rn.f16x2.f32 %d, %a, %b;", 32, {}, [](u64 a, u64 b, u64) {
                     return kHalf.nearest(f32(a)) << 16 | kHalf.nearest(f32(b));
                   }});
  cases.push_back({"cvt.rn.bf16x2.f32 %d, %a, %b;", 32, {}, [](u64 a, u64 b, u64) {
                     return kBfloat.nearest(f32(a)) << 16 | kBfloat.nearest(f32(b));
                   }});
  expect_cases(cases, floats32());
  expect_cases({{"cvt.rn.f16.f64 %d, %a;", 16, {64, 32, 32}, [](u64 a, u64, u64) { return kHalf.nearest(f64(a)); }},
                {"cvt.rn.bf16.f64 %d, %a;", 16, {64, 32, 32}, [](u64 a, u64, u64) { return kBfloat.nearest(f64(a)); }}},
               floats64());
  expect_cases({{"cvt.rn.f16.s32 %d, %a;",
                 16,
                 {32, 32, 32},
                 [](u64 a, u64, u64) { return kHalf.nearest(static_cast<std::int32_t>(a)); }},
                {"cvt.rn.bf16.u32 %d, %a;",
                 16,
                 {32, 32, 32},
                 [](u64 a, u64, u64) { return kBfloat.nearest(static_cast<double>(a)); }}},
               integers32());
}

}  // namespace
}  // namespace crucible::emulators::ptx::testing
