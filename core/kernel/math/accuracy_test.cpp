// Each function's error, measured against the host's 80-bit library over all exponents, the ranges that matter and
// awkward numbers, is within what accuracy.hpp promises; and docs/numerics.md has that table.
#include "core/kernel/math/accuracy.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <map>
#include <random>
#include <sstream>
#include <vector>

#include "core/kernel/math/native_math.hpp"

namespace crucible::kernel {

static void PrintTo(const Accuracy& row, std::ostream* out) { *out << row.function; }

namespace {

using Exact = long double (*)(long double, long double);

const std::map<std::string_view, Exact> kExact = {
    {"sqrt", [](long double x, long double) { return std::sqrt(x); }},
    {"rsqrt", [](long double x, long double) { return 1 / std::sqrt(x); }},
    {"exp", [](long double x, long double) { return std::exp(x); }},
    {"exp2", [](long double x, long double) { return std::exp2(x); }},
    {"expm1", [](long double x, long double) { return std::expm1(x); }},
    {"log", [](long double x, long double) { return std::log(x); }},
    {"log2", [](long double x, long double) { return std::log2(x); }},
    {"log10", [](long double x, long double) { return std::log10(x); }},
    {"log1p", [](long double x, long double) { return std::log1p(x); }},
    {"sin", [](long double x, long double) { return std::sin(x); }},
    {"cos", [](long double x, long double) { return std::cos(x); }},
    {"tan", [](long double x, long double) { return std::tan(x); }},
    {"asin", [](long double x, long double) { return std::asin(x); }},
    {"acos", [](long double x, long double) { return std::acos(x); }},
    {"atan", [](long double x, long double) { return std::atan(x); }},
    {"sinh", [](long double x, long double) { return std::sinh(x); }},
    {"cosh", [](long double x, long double) { return std::cosh(x); }},
    {"tanh", [](long double x, long double) { return std::tanh(x); }},
    {"asinh", [](long double x, long double) { return std::asinh(x); }},
    {"acosh", [](long double x, long double) { return std::acosh(x); }},
    {"atanh", [](long double x, long double) { return std::atanh(x); }},
    {"sigmoid", [](long double x, long double) { return 1 / (1 + std::exp(-x)); }},
    {"erf", [](long double x, long double) { return std::erf(x); }},
    {"erfc", [](long double x, long double) { return std::erfc(x); }},
    {"pow", [](long double x, long double y) { return std::pow(x, y); }},
    {"atan2", [](long double x, long double y) { return std::atan2(x, y); }},
    {"fmod", [](long double x, long double y) { return std::fmod(x, y); }},
    {"floor", [](long double x, long double) { return std::floor(x); }},
    {"ceil", [](long double x, long double) { return std::ceil(x); }},
    {"round", [](long double x, long double) { return std::nearbyint(x); }},
};

/// The distance of `got` from `want` in units in the last place of T; huge where one is a NaN, an infinity or of the
/// other sign.
template <class T>
double ulps(T got, long double want) {
  constexpr double kWrong = 1e30;
  if (std::isnan(want)) return std::isnan(got) ? 0 : kWrong;
  const T rounded = static_cast<T>(want);
  if (got == rounded) return got != 0 || std::signbit(got) == std::signbit(want) ? 0 : kWrong;
  if (!std::isfinite(got) || (std::isinf(rounded) && std::fabs(want) > 1.001L * std::numeric_limits<T>::max()))
    return kWrong;
  const T magnitude =
      std::max(std::fabs(static_cast<T>(std::isinf(rounded) ? got : rounded)), std::numeric_limits<T>::min());
  return static_cast<double>(std::fabs(static_cast<long double>(got) - want) /
                             std::ldexp(1.0L, std::ilogb(magnitude) - (std::numeric_limits<T>::digits - 1)));
}

/// All exponents evenly, the middle densely, and numbers at which functions change their method or their sign.
template <class T>
std::vector<T> arguments() {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  std::mt19937_64 random(11);
  std::vector<T> list;
  for (const double value : {0.0,   1.0,    2.0,    3.0,    10.0,   0.5,    0.25,   0.75,       1.5,        2.5,
                             88.72, 103.9,  709.78, 745.1,  0.625,  0.9275, 4.0,    3.14159274, 1.57079637, 131072.0,
                             1e-40, 5e-324, 1e300,  1e-300, 0x1p30, 0x1p52, 0x1p53, 16777216.0})
    list.push_back(static_cast<T>(value));
  for (T value : {std::numeric_limits<T>::infinity(), std::numeric_limits<T>::quiet_NaN(),
                  std::numeric_limits<T>::max(), std::numeric_limits<T>::min(), std::numeric_limits<T>::denorm_min(),
                  std::nextafter(T{1}, T{0}), std::nextafter(T{1}, T{2})})
    list.push_back(value);
  for (int i = 0; i < 60000; ++i) list.push_back(std::bit_cast<T>(static_cast<Bits>(random())));
  for (const double range : {1.0, 10.0, 100.0, 1000.0}) {
    std::uniform_real_distribution<double> uniform(-range, range);
    for (int i = 0; i < 15000; ++i) list.push_back(static_cast<T>(uniform(random)));
  }
  const std::size_t count = list.size();
  for (std::size_t i = 0; i < count; ++i) list.push_back(-list[i]);
  return list;
}

bool is_promised(const Accuracy& row, bool is_double, long double x) {
  return row.where.empty() || !is_double || !std::isfinite(x) || std::fabs(x) <= 0x1p30L;
}

template <class T>
void expect_within(const Accuracy& row, std::string_view type, double bound) {
  const NativeFunction function = native_function(fmt::format("{}_{}", row.function, type));
  ASSERT_NE(function, nullptr) << row.function << "_" << type;
  const Exact exact = kExact.at(row.function);
  const std::vector<T> list = arguments<T>();
  double worst = 0;
  T worst_x = 0, worst_y = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const T x = list[i], y = list[(i * 7919 + 13) % list.size()];
    if (!is_promised(row, sizeof(T) == 8, x)) continue;
    T got = 0;
    function(&x, &y, &got);
    const double error = ulps(got, exact(x, y));
    if (error > worst) worst = error, worst_x = x, worst_y = y;
  }
  EXPECT_LE(worst, bound) << fmt::format("{}_{}({:a}, {:a})", row.function, type, worst_x, worst_y);
  ::testing::Test::RecordProperty(fmt::format("worst_ulp_{}", type), fmt::format("{:.3g}", worst));
}

class AccuracyTest : public ::testing::TestWithParam<Accuracy> {};

TEST_P(AccuracyTest, IsWithinWhatIsPromised) {
  expect_within<float>(GetParam(), "f32", GetParam().f32);
  expect_within<double>(GetParam(), "f64", GetParam().f64);
}

INSTANTIATE_TEST_SUITE_P(Functions, AccuracyTest, ::testing::ValuesIn(kAccuracies),
                         [](const auto& info) { return std::string(info.param.function); });

/// The table of docs/numerics.md, between its two markers.
std::string accuracy_table() {
  const auto bound = [](double ulp) {
    return ulp == 0 ? "exact" : ulp == 0.5 ? "correctly rounded" : fmt::format("{:g}", ulp);
  };
  std::string text = "| function | f32, ulp | f64, ulp | of which arguments |\n|---|---:|---:|---|\n";
  for (const Accuracy& row : kAccuracies)
    text += fmt::format("| {} | {} | {} | {} |\n", row.function, bound(row.f32), bound(row.f64),
                        row.where.empty() ? "all" : row.where);
  return text;
}

/// CRUCIBLE_WRITE_DOCS=1 writes the table instead.
TEST(Accuracy, TheDocumentHasTheTable) {
  const std::string path = CRUCIBLE_SOURCE_FOLDER "/docs/numerics.md";
  std::ifstream file(path);
  std::stringstream stream;
  stream << file.rdbuf();
  std::string text = stream.str();
  constexpr std::string_view kBegin = "<!-- accuracy: core/kernel/math/accuracy.hpp -->\n",
                             kEnd = "<!-- end of accuracy -->\n";
  const std::size_t begin = text.find(kBegin), end = text.find(kEnd);
  ASSERT_NE(begin, std::string::npos);
  ASSERT_NE(end, std::string::npos);
  const std::size_t from = begin + kBegin.size();
  if (std::getenv("CRUCIBLE_WRITE_DOCS") != nullptr) {
    text.replace(from, end - from, accuracy_table());
    std::ofstream(path) << text;
    return;
  }
  EXPECT_EQ(text.substr(from, end - from), accuracy_table())
      << "write it: CRUCIBLE_WRITE_DOCS=1 kernel_test --gtest_filter=Accuracy.*";
}

}  // namespace
}  // namespace crucible::kernel
