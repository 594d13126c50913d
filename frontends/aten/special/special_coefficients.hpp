// Coefficients of special functions: sums of Chebyshev polynomials and ratios of polynomials, highest term first.
//
// Source: those of Bessel and Airy functions and of the normal quantile are the published ones of the Cephes Math
// Library (S. Moshier), which the framework uses too; that of erfcx was computed with 40 digits.
#pragma once

#include <span>

namespace crucible::aten {

using Coefficients = std::span<const double>;

Coefficients i0_near();  // exp(-x) I0(x) for x in [0, 8], at x / 2 - 2
Coefficients i0_far();  // exp(-x) sqrt(x) I0(x) from 8, at 32 / x - 2
Coefficients i1_near();  // exp(-x) I1(x) / x for x in [0, 8], at x / 2 - 2
Coefficients i1_far();  // exp(-x) sqrt(x) I1(x) from 8, at 32 / x - 2
Coefficients k0_near();  // K0(x) + log(x / 2) I0(x) for x in [0, 2], at x x - 2
Coefficients k0_far();  // exp(x) sqrt(x) K0(x) from 2, at 8 / x - 2
Coefficients k1_near();  // x (K1(x) - log(x / 2) I1(x)) for x in [0, 2], at x x - 2
Coefficients k1_far();  // exp(x) sqrt(x) K1(x) from 2, at 8 / x - 2
Coefficients even_over_0();  // numerator of the cosine's amplitude of order 0 from 5, at 25 / (x x)
Coefficients even_under_0();  // denominator of the cosine's amplitude of order 0 from 5, at 25 / (x x)
Coefficients odd_over_0();  // numerator of the sine's amplitude of order 0 from 5, at 25 / (x x)
Coefficients odd_under_0();  // denominator of the sine's amplitude of order 0 from 5, at 25 / (x x)
Coefficients j0_over();  // numerator for x in [0, 5], at x x
Coefficients j0_under();  // its denominator
Coefficients even_over_1();  // numerator of the cosine's amplitude of order 1 from 5, at 25 / (x x)
Coefficients even_under_1();  // denominator of the cosine's amplitude of order 1 from 5, at 25 / (x x)
Coefficients odd_over_1();  // numerator of the sine's amplitude of order 1 from 5, at 25 / (x x)
Coefficients odd_under_1();  // denominator of the sine's amplitude of order 1 from 5, at 25 / (x x)
Coefficients j1_over();  // numerator for x in [0, 5], at x x
Coefficients j1_under();  // its denominator
Coefficients y0_over();  // numerator for x in (0, 5], at x x
Coefficients y0_under();  // its denominator
Coefficients y1_over();  // numerator for x in (0, 5], at x x
Coefficients y1_under();  // its denominator
Coefficients normal_middle_over();  // the normal quantile's numerator between exp(-2) and 1 - exp(-2), at (y - 1/2)^2
Coefficients normal_middle_under();  // its denominator
Coefficients normal_tail_over();  // of z = 1 / sqrt(-2 log y) above 1/8
Coefficients normal_tail_under();  // its denominator
Coefficients normal_far_tail_over();  // below 1/8
Coefficients normal_far_tail_under();  // its denominator
Coefficients airy_over();  // Airy function from 2.09, at 1 / zeta: numerator
Coefficients airy_under();  // its denominator
Coefficients airy_sine_over();  // below -2.09, at z z: of the sine, numerator
Coefficients airy_sine_under();  // its denominator
Coefficients airy_cosine_over();  // of the cosine, numerator
Coefficients airy_cosine_under();  // its denominator
Coefficients erfcx_ratio();  // (1 + 2 x) exp(x x) erfc(x) for x from 0, at 2 (x - 3.75) / (x + 3.75)

}  // namespace crucible::aten
