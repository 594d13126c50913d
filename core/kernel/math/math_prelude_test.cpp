// The prelude's functions against the host's double-precision library, over all exponents and the special values.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "core/kernel/math/accuracy.hpp"
#include "core/kernel/testing/host_executor.hpp"

namespace crucible::kernel {
namespace {

using LongReference = long double (*)(long double);

const float kInfinity = std::numeric_limits<float>::infinity();
const float kNan = std::numeric_limits<float>::quiet_NaN();

/// Compiled once: array versions of every function, so that the vectorised code is what is tested.
const HostKernels* compiled() {
  static const auto kernels = [] {
    std::string text;
    for (const char* type : {"f32", "f64"}) {
      const char* c = std::string(type) == "f32" ? "float" : "double";
      for (const char* f : {"exp", "log", "tanh", "erf", "sigmoid", "rsqrt", "sqrt", "sin", "cos", "abs", "floor"}) {
        text += fmt::format(
            "void {0}_{1}(const {2}* restrict x, {2}* restrict y, int64_t n) {{ for (int64_t i = 0; i < n; ++i) y[i] = "
            "crucible_{0}_{1}(x[i]); }}\n",
            f, type, c);
      }
      for (const char* f : {"pow", "max", "min"}) {
        text += fmt::format(
            "void {0}_{1}(const {2}* restrict x, const {2}* restrict z, {2}* restrict y, int64_t n) {{ for (int64_t i "
            "= 0; i < n; ++i) y[i] = crucible_{0}_{1}(x[i], z[i]); }}\n",
            f, type, c);
      }
      text += fmt::format(
          "void key_{0}(const {1}* restrict x, {1}* restrict y, int64_t n) {{ for (int64_t i = 0; i < n; ++i) y[i] = "
          "crucible_from_order_key_{0}(crucible_order_key_{0}(x[i])); }}\n",
          type, c);
    }
    text +=
        "void bf16(const float* x, float* y, int64_t n) { for (int64_t i = 0; i < n; ++i) y[i] = "
        "crucible_bf16_to_f32(crucible_f32_to_bf16(x[i])); }\n";
    text +=
        "void to_i64(const double* x, int64_t* y, int64_t n) { for (int64_t i = 0; i < n; ++i) y[i] = "
        "crucible_f64_to_i64(x[i]); }\n"
        "void to_i32(const double* x, int64_t* y, int64_t n) { for (int64_t i = 0; i < n; ++i) y[i] = "
        "crucible_f64_to_i32(x[i]); }\n"
        "void single_to_i64(const double* x, int64_t* y, int64_t n) { for (int64_t i = 0; i < n; ++i) y[i] = "
        "crucible_f32_to_i64((float)x[i]); }\n"
        "void single_to_i32(const double* x, int64_t* y, int64_t n) { for (int64_t i = 0; i < n; ++i) y[i] = "
        "crucible_f32_to_i32((float)x[i]); }\n";
    return HostKernels::compile_text(text);
  }();
  EXPECT_TRUE(kernels) << kernels.error().message;
  return kernels ? &*kernels : nullptr;
}

template <class T>
std::vector<T> run_over(const std::string& name, const std::vector<T>& x) {
  std::vector<T> y(x.size());
  if (const HostKernels* kernels = compiled()) {
    reinterpret_cast<void (*)(const T*, T*, std::int64_t)>(kernels->symbol(name))(x.data(), y.data(),
                                                                                  static_cast<std::int64_t>(x.size()));
  }
  return y;
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

/// Bit patterns spread over all floats, and the corners.
std::vector<float> all_kinds_of_floats() {
  std::vector<float> x;
  for (std::uint64_t u = 0; u < (std::uint64_t{1} << 32); u += 6151)
    x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(u)));
  for (float v : {0.0f, 1.0f, 0.5f, 2.0f, 88.72f, 88.73f, 103.9f, 0.625f, 0.9275f, 4.0f, 1e-40f, 3.14159274f,
                  1.57079637f, 131072.0f, kInfinity, kNan}) {
    x.push_back(v);
    x.push_back(-v);
  }
  return x;
}

/// Ordinary numbers of the size that functions see, more densely.
std::vector<double> ordinary_doubles(double range) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> uniform(-range, range);
  std::vector<double> x{0.0,
                        -0.0,
                        std::numeric_limits<double>::infinity(),
                        -std::numeric_limits<double>::infinity(),
                        std::numeric_limits<double>::quiet_NaN(),
                        1.0,
                        -1.0};
  for (int i = 0; i < 200000; ++i) x.push_back(uniform(random));
  for (int i = -1000; i < 1000; ++i) x.push_back(std::ldexp(uniform(random), i / 4));
  return x;
}

/// The distance of `got` from the exact value in units of the last place of T.
template <class T>
double ulps(T got, long double want) {
  if (std::isnan(want)) return std::isnan(got) ? 0 : 1e30;
  const T rounded = static_cast<T>(want);
  if (std::isinf(rounded) || got == rounded) {
    return got == rounded && std::signbit(got) == std::signbit(rounded) ? 0 : 1e30;
  }
  if (std::isnan(got) || std::isinf(got)) return 1e30;
  const T magnitude = std::max(std::fabs(rounded), std::numeric_limits<T>::min());
  const int exponent = std::ilogb(magnitude) - (std::numeric_limits<T>::digits - 1);
  return static_cast<double>(std::fabs(static_cast<long double>(got) - want) / std::ldexp(1.0L, exponent));
}

/// Of accuracy.hpp; of functions that are not there, 0: exact.
double promised(std::string_view name, bool is_double) {
  const auto row = std::ranges::find(kAccuracies, name.substr(0, name.find('_')), &Accuracy::function);
  return row == kAccuracies.end() ? 0 : is_double ? row->f64 : row->f32;
}

template <class T>
void expect_within(const std::string& name, const std::vector<T>& x, LongReference reference) {
  const double bound = promised(name, sizeof(T) == 8);
  const std::vector<T> y = run_over(name, x);
  double worst = 0;
  T where = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double error = ulps(y[i], reference(static_cast<long double>(x[i])));
    if (error > worst) worst = error, where = x[i];
  }
  EXPECT_LE(worst, bound) << name << " is off by " << worst << " ulp at " << fmt::format("{:a}", where);
}

class MathPrelude : public ::testing::Test {
 protected:
  void SetUp() override {
    if (HostKernels::compiler().empty()) GTEST_SKIP() << "no clang";
  }
};

long double sigmoid(long double x) { return 1 / (1 + std::exp(-x)); }
long double reciprocal_sqrt(long double x) { return 1 / std::sqrt(x); }

TEST_F(MathPrelude, FloatFunctionsAreWithinWhatIsPromised) {
  const auto x = all_kinds_of_floats();
  expect_within<float>("exp_f32", x, [](long double v) { return std::exp(v); });
  expect_within<float>("log_f32", x, [](long double v) { return std::log(v); });
  expect_within<float>("tanh_f32", x, [](long double v) { return std::tanh(v); });
  expect_within<float>("erf_f32", x, [](long double v) { return std::erf(v); });
  expect_within<float>("sigmoid_f32", x, sigmoid);
  expect_within<float>("rsqrt_f32", x, reciprocal_sqrt);
  expect_within<float>("sqrt_f32", x, [](long double v) { return std::sqrt(v); });
  expect_within<float>("sin_f32", x, [](long double v) { return std::sin(v); });
  expect_within<float>("cos_f32", x, [](long double v) { return std::cos(v); });
  expect_within<float>("abs_f32", x, [](long double v) { return std::fabs(v); });
  expect_within<float>("floor_f32", x, [](long double v) { return std::floor(v); });
  expect_within<float>("key_f32", x, [](long double v) { return v; });
}

TEST_F(MathPrelude, DoubleFunctionsAreWithinWhatIsPromised) {
  const auto x = ordinary_doubles(700);
  const auto small = ordinary_doubles(6);
  expect_within<double>("exp_f64", x, [](long double v) { return std::exp(v); });
  expect_within<double>("log_f64", x, [](long double v) { return std::log(v); });
  expect_within<double>("tanh_f64", small, [](long double v) { return std::tanh(v); });
  expect_within<double>("erf_f64", small, [](long double v) { return std::erf(v); });
  expect_within<double>("sigmoid_f64", small, sigmoid);
  expect_within<double>("sqrt_f64", x, [](long double v) { return std::sqrt(v); });
  std::vector<double> angles = ordinary_doubles(1e6);
  std::erase_if(angles, [](double v) { return std::fabs(v) > 0x1p30 && !std::isinf(v); });
  expect_within<double>("sin_f64", angles, [](long double v) { return std::sin(v); });
  expect_within<double>("cos_f64", angles, [](long double v) { return std::cos(v); });
  expect_within<double>("key_f64", x, [](long double v) { return v; });
}

TEST_F(MathPrelude, PowersAreRightIncludingSpecialOperands) {
  std::mt19937 random(2);
  std::vector<float> x, y;
  const std::vector<float> corners{0.0f, -0.0f, 1.0f,   -1.0f,       2.0f,      -2.0f,      0.5f,
                                   3.0f, -3.0f, 1e-40f, 16777216.0f, kInfinity, -kInfinity, kNan};
  for (float a : corners) {
    for (float b : corners) x.push_back(a), y.push_back(b);
  }
  std::uniform_real_distribution<float> base(-6, 6), exponent(-20, 20);
  for (int i = 0; i < 200000; ++i) {
    x.push_back(std::exp2(base(random)));
    y.push_back(exponent(random));
  }
  const auto got = run_over("pow_f32", x, y);
  const auto got64 =
      run_over("pow_f64", std::vector<double>(x.begin(), x.end()), std::vector<double>(y.begin(), y.end()));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const long double want = std::pow(static_cast<long double>(x[i]), static_cast<long double>(y[i]));
    ASSERT_LE(ulps(got[i], want), 2) << fmt::format("pow({:a}, {:a}) is {:a}", x[i], y[i], got[i]);
    const bool close = std::fabs(static_cast<long double>(got64[i]) - want) <= 1e-13L * std::fabs(want);
    ASSERT_TRUE(close || ulps(got64[i], want) == 0)
        << fmt::format("pow({:a}, {:a}) in double is {:a}", x[i], y[i], got64[i]);
  }
}

TEST_F(MathPrelude, MaximumAndMinimumKeepNanAndSignedZeros) {
  const std::vector<float> a{1, kNan, 2, 0.0f, -0.0f, -kInfinity, 3}, b{2, 1, kNan, -0.0f, 0.0f, 5, 3};
  const auto high = run_over("max_f32", a, b), low = run_over("min_f32", a, b);
  const std::vector<float> want_high{2, kNan, kNan, 0.0f, 0.0f, 5, 3},
      want_low{1, kNan, kNan, -0.0f, -0.0f, -kInfinity, 3};
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(ulps(high[i], want_high[i]), 0) << i;
    EXPECT_EQ(ulps(low[i], want_low[i]), 0) << i;
  }
}

TEST_F(MathPrelude, ConversionsToBf16Round) {
  const std::vector<float> x{1.0f, 1.00390625f, 1.01171875f, -1.00390625f, 3.4e38f, kInfinity, kNan, 0.0f};
  const auto y = run_over("bf16", x);
  EXPECT_EQ(y[1], 1.0f);       // halfway, to even
  EXPECT_EQ(y[2], 1.015625f);  // halfway, to even
  EXPECT_EQ(y[3], -1.0f);
  EXPECT_EQ(y[4], kInfinity);
  EXPECT_EQ(y[5], kInfinity);
  EXPECT_TRUE(std::isnan(y[6]));
}

/// What processors of the x86 line give, and with them eager PyTorch.
TEST_F(MathPrelude, NumbersWithoutAPlaceBecomeTheLowestInteger) {
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min(),
                         kLeast32 = std::numeric_limits<std::int32_t>::min();
  const std::vector<double> d{1.9,    -1.9,    1e300,  -1e300,  std::nan(""), -std::nan(""), 0x1p62,
                              0x1p63, -0x1p63, 0x1p31, -0x1p31, 0x1p30,       -0x1p31 - 0.5, -0x1p31 - 1};
  const auto converted = [&](const char* name) {
    std::vector<std::int64_t> i(d.size());
    const HostKernels* kernels = compiled();
    if (kernels == nullptr) return i;
    reinterpret_cast<void (*)(const double*, std::int64_t*, std::int64_t)>(kernels->symbol(name))(
        d.data(), i.data(), static_cast<std::int64_t>(d.size()));
    return i;
  };
  const std::vector<std::int64_t> wide{1,
                                       -1,
                                       kLeast,
                                       kLeast,
                                       kLeast,
                                       kLeast,
                                       std::int64_t{1} << 62,
                                       kLeast,
                                       kLeast,
                                       std::int64_t{1} << 31,
                                       kLeast32,
                                       1 << 30,
                                       kLeast32,
                                       kLeast32 - 1};
  EXPECT_EQ(converted("to_i64"), wide);
  std::vector<std::int64_t> single = wide;
  single.back() = kLeast32;  // as a float it is -2^31
  EXPECT_EQ(converted("single_to_i64"), single);
  const std::vector<std::int64_t> narrow{1,        -1,       kLeast32, kLeast32, kLeast32, kLeast32, kLeast32,
                                         kLeast32, kLeast32, kLeast32, kLeast32, 1 << 30,  kLeast32, kLeast32};
  EXPECT_EQ(converted("to_i32"), narrow);
  EXPECT_EQ(converted("single_to_i32"), narrow);
}

}  // namespace
}  // namespace crucible::kernel
