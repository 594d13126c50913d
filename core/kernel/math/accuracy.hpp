// How far the functions of the prelude may be from the exact result: the one source for the table of docs/numerics.md
// and for the test that measures them (accuracy_test.cpp). Strict and fast numerics use the same functions.
#pragma once

#include <array>
#include <string_view>

namespace crucible::kernel {

struct Accuracy {
  std::string_view function;  // as in native_math.hpp, without its type
  double f32 = 0, f64 = 0;  // the largest error in units in the last place of the result's type; 0.5: rounded correctly
  std::string_view
      where{};  // of which arguments it is promised; "": of all, special values, subnormal and infinite ones too
};

inline constexpr std::array<Accuracy, 30> kAccuracies = {{
    {"sqrt", 0.5, 0.5},
    {"rsqrt", 1.6, 1.6},
    {"exp", 1.1, 1.5},
    {"exp2", 0.51, 1.5},
    {"expm1", 0.51, 2.5},
    {"log", 1.1, 1.5},
    {"log2", 0.51, 2},
    {"log10", 0.51, 2.5},
    {"log1p", 0.51, 2},
    {"sin", 1.1, 1.5, "f64: |x| up to 2^30"},
    {"cos", 1.1, 1.5, "f64: |x| up to 2^30"},
    {"tan", 3, 3, "f64: |x| up to 2^30"},
    {"asin", 0.51, 6},
    {"acos", 0.51, 5},
    {"atan", 0.51, 5},
    {"sinh", 0.51, 3},
    {"cosh", 0.51, 3},
    {"tanh", 1.6, 3},
    {"asinh", 0.51, 3},
    {"acosh", 0.51, 3},
    {"atanh", 0.51, 3},
    {"sigmoid", 1.6, 3},
    {"erf", 1.6, 16},
    {"erfc", 0.51, 1000},
    {"pow", 2, 300},
    {"atan2", 0.51, 6},
    {"fmod", 0, 0},
    {"floor", 0, 0},
    {"ceil", 0, 0},
    {"round", 0, 0},
}};

}  // namespace crucible::kernel
