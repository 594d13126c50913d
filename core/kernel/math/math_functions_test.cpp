// The functions that kernels call by number against the host's library, over ranges and special values, and the
// arithmetic on integers where C leaves it undefined.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "plugins/kernel_ir/functions.hpp"
#include "core/kernel/testing/host_executor.hpp"

namespace crucible::kernel {
namespace {

using Reference = double (*)(double);

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Array versions of all functions on f64 and f32, and of those of integers on i8.
const HostKernels* compiled() {
  static const auto kernels = [] {
    std::string text;
    for (const FunctionInfo& function : kFunctions) {
      for (const char* type : {"f64", "f32", "i8"}) {
        if (function.of_floats == (std::string(type) == "i8")) continue;
        const char* c = std::string(type) == "f64" ? "double" : std::string(type) == "f32" ? "float" : "int8_t";
        text += fmt::format(
            "void {0}_{1}(const {2}* x, const {2}* z, {2}* y, int64_t n) {{ for (int64_t i = 0; i < n; ++i) y[i] = "
            "crucible_{0}_{1}(x[i]{3}); }}\n",
            function.name, type, c, function.operands == 2 ? ", z[i]" : "");
      }
    }
    return HostKernels::compile_text(text);
  }();
  EXPECT_TRUE(kernels) << kernels.error().message;
  return kernels ? &*kernels : nullptr;
}

template <class T>
std::vector<T> run_over(const std::string& name, const std::vector<T>& x, const std::vector<T>& z) {
  std::vector<T> y(x.size());
  if (const HostKernels* kernels = compiled()) {
    reinterpret_cast<void (*)(const T*, const T*, T*, std::int64_t)>(kernels->symbol(name))(
        x.data(), z.data(), y.data(), static_cast<std::int64_t>(x.size()));
  }
  return y;
}

/// Relative where the value is large, absolute where it is small.
double distance(double got, double want) {
  if (got == want || (std::isnan(got) && std::isnan(want))) return 0;
  if (!std::isfinite(got) || !std::isfinite(want)) return kInfinity;
  return std::fabs(got - want) / std::max(std::fabs(want), 1e-290);
}

class MathFunctions : public ::testing::Test {
 protected:
  void SetUp() override {
    if (HostKernels::compiler().empty()) GTEST_SKIP() << "no clang";
  }
};

struct Case {
  const char* name;
  Reference reference;
  double low, high, bound;
};

const Case kCases[] = {
    {"ceil", [](double v) { return std::ceil(v); }, -9, 9, 0},
    {"trunc", [](double v) { return std::trunc(v); }, -9, 9, 0},
    {"round", [](double v) { return std::nearbyint(v); }, -9, 9, 0},
    {"exp2", [](double v) { return std::exp2(v); }, -900, 900, 1e-15},
    {"expm1", [](double v) { return std::expm1(v); }, -5, 5, 1e-15},
    {"log1p", [](double v) { return std::log1p(v); }, -0.99, 9, 1e-15},
    {"log2", [](double v) { return std::log2(v); }, 0.01, 99, 1e-15},
    {"log10", [](double v) { return std::log10(v); }, 0.01, 99, 1e-15},
    {"tan", [](double v) { return std::tan(v); }, -9, 9, 1e-15},
    {"asin", [](double v) { return std::asin(v); }, -1, 1, 2e-15},
    {"acos", [](double v) { return std::acos(v); }, -1, 1, 2e-15},
    {"atan", [](double v) { return std::atan(v); }, -9, 9, 2e-15},
    {"sinh", [](double v) { return std::sinh(v); }, -9, 9, 1e-15},
    {"cosh", [](double v) { return std::cosh(v); }, -9, 9, 1e-15},
    {"asinh", [](double v) { return std::asinh(v); }, -9, 9, 1e-15},
    {"acosh", [](double v) { return std::acosh(v); }, 1, 9, 1e-15},
    {"atanh", [](double v) { return std::atanh(v); }, -1, 1, 1e-15},
    {"erfc", [](double v) { return std::erfc(v); }, -3, 25, 4e-13},
    {"lgamma", [](double v) { return std::lgamma(v); }, 2.5, 99, 1e-13},
};

TEST_F(MathFunctions, OfOneNumber) {
  const std::vector<double> special{0.0,  -0.0,   1,      -1,    0.5,       -0.5,       1.5,
                                    2.5,  -2.5,   40,     -40.5, 709.5,     -745,       800,
                                    -800, 1e-300, -1e-10, 1e300, kInfinity, -kInfinity, std::nan("")};
  std::mt19937_64 random(3);
  for (const Case& c : kCases) {
    std::vector<double> x = special;
    if (std::string(c.name) == "tan") std::erase_if(x, [](double v) { return std::fabs(v) > 1e9 && std::isfinite(v); });
    if (std::string(c.name) == "lgamma")
      std::erase_if(x, [](double v) { return v == 1.5 || v == -2.5; });  // near zeros
    if (std::string(c.name) == "lgamma")
      x.insert(x.end(), {-3, -0x1p60, -std::numeric_limits<double>::max(), 5e-324, -5e-324, 1e306});
    std::uniform_real_distribution<double> range(c.low, c.high);
    for (int i = 0; i < 20000; ++i) x.push_back(range(random));
    const auto y = run_over<double>(fmt::format("{}_f64", c.name), x, x);
    const std::vector<float> narrow(x.begin(), x.end());
    const auto y32 = run_over<float>(fmt::format("{}_f32", c.name), narrow, narrow);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double want = c.reference(x[i]);
      ASSERT_LE(distance(y[i], want), c.bound) << fmt::format("{}({}) is {}, not {}", c.name, x[i], y[i], want);
      if (std::isfinite(want)) {
        ASSERT_EQ(std::signbit(y[i]), std::signbit(want)) << c.name << " of " << x[i];
      }
      const auto want32 = static_cast<float>(c.reference(static_cast<double>(narrow[i])));
      const double bound32 = std::string(c.name) == "tan" ? 4e-7 : 1.3e-7;
      ASSERT_TRUE(distance(y32[i], want32) <= bound32 || std::fabs(want32) < 1e-37f)
          << fmt::format("{}({}) in f32 is {}, not {}", c.name, narrow[i], y32[i], want32);
    }
  }
}

TEST_F(MathFunctions, WithoutALibrary) {
  std::vector<double> y;
  for (int i = 1; i < 4000; ++i) y.push_back(-1 + i / 2000.0);
  const auto x = run_over<double>("erfinv_f64", y, y);
  for (std::size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(std::erf(x[i]), y[i], 1e-15) << y[i];
  const std::vector<double> edge{1, -1, 1.5, 0.0, -0.0};
  const auto at_edge = run_over<double>("erfinv_f64", edge, edge);
  EXPECT_EQ(at_edge[0], kInfinity);
  EXPECT_EQ(at_edge[1], -kInfinity);
  EXPECT_TRUE(std::isnan(at_edge[2]));
  EXPECT_TRUE(!std::signbit(at_edge[3]) && std::signbit(at_edge[4]));
  const std::vector<double> points{1, -0.5, 0.25, kInfinity, -3, 0.0, -0.0};
  const auto psi = run_over<double>("digamma_f64", points, points);
  EXPECT_NEAR(psi[0], -0.57721566490153286, 1e-14);
  EXPECT_NEAR(psi[1], 0.036489973978576520, 1e-14);
  EXPECT_NEAR(psi[2], -4.2274535333762654, 1e-13);
  EXPECT_EQ(psi[3], kInfinity);
  EXPECT_TRUE(std::isnan(psi[4]));
  EXPECT_EQ(psi[5], -kInfinity);
  EXPECT_EQ(psi[6], kInfinity);
}

TEST_F(MathFunctions, OfTwoNumbers) {
  const std::vector<double> values{0.0,     -0.0,   1,      -1, 2.5,       -7,         1e300,
                                   -1e-300, 5e-324, 0x1p53, 3,  kInfinity, -kInfinity, std::nan("")};
  std::vector<double> a, b;
  for (double x : values) {
    for (double y : values) a.push_back(x), b.push_back(y);
  }
  std::mt19937_64 random(4);
  std::uniform_real_distribution<double> range(-1e6, 1e6);
  for (int i = 0; i < 20000; ++i) a.push_back(range(random)), b.push_back(range(random) * 1e-3);
  const auto rest = run_over<double>("fmod_f64", a, b), angle = run_over<double>("atan2_f64", a, b);
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(distance(rest[i], std::fmod(a[i], b[i])), 0) << fmt::format("fmod({}, {}) is {}", a[i], b[i], rest[i]);
    const double want = std::atan2(a[i], b[i]);
    ASSERT_TRUE(distance(angle[i], want) <= 2e-15 || std::fabs(want) < 1e-300)
        << fmt::format("atan2({}, {}) is {}", a[i], b[i], angle[i]);
    if (!std::isnan(want)) {
      ASSERT_EQ(std::signbit(angle[i]), std::signbit(want));
    }
  }
}

TEST_F(MathFunctions, OfIntegers) {
  const std::vector<std::int8_t> a{-128, -128, 7, -7, 5, 1, 2, -1, -3}, b{-1, 0, -2, 2, 0, 7, 8, 40, -1};
  EXPECT_EQ(run_over("quotient_i8", a, b), (std::vector<std::int8_t>{-128, 0, -3, -3, 0, 0, 0, 0, 3}));
  EXPECT_EQ(run_over("modulus_i8", a, b), (std::vector<std::int8_t>{0, 0, 1, -1, 0, 1, 2, -1, 0}));
  EXPECT_EQ(run_over("shl_i8", a, b), (std::vector<std::int8_t>{0, -128, 0, -28, 5, -128, 0, 0, 0}));
  EXPECT_EQ(run_over("shr_i8", a, b), (std::vector<std::int8_t>{-1, -128, 0, -2, 5, 0, 0, -1, -1}));
  EXPECT_EQ(run_over("ipow_i8", a, b), (std::vector<std::int8_t>{0, 1, 0, 49, 1, 1, 0, 1, 0}));
  EXPECT_EQ(run_over("xor_i8", a, b), (std::vector<std::int8_t>{127, -128, -7, -5, 5, 6, 10, -41, 2}));
}

}  // namespace
}  // namespace crucible::kernel
