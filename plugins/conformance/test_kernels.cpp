// The kit's own kernels, in the dialect c; test_kernels_ir.cpp has them as kernel IR. Each shows one thing about how a
// plugin launches.
#include "plugins/conformance/opened.hpp"

namespace crucible::conformance {
namespace {

KernelText kernel(const std::string& name, const std::string& body) {
  return {
      name,
      "void " + name + "(void* const* buffers, const double* scalars, int64_t begin, int64_t end) {\n" + body + "}\n",
      test_kernel_ir(name)};
}

}  // namespace

const std::vector<KernelText>& test_kernels() {
  static const std::vector<KernelText> kernels = {
      // every work item exactly once, and no other
      kernel("ck_count", "  int32_t* counts = buffers[0];\n  for (int64_t i = begin; i < end; ++i) counts[i] += 1;\n"),
      // out = in * s0 + s1, in double: the scalars arrive whole
      kernel("ck_scale",
             "  double* out = buffers[0];\n  const double* in = buffers[1];\n"
             "  for (int64_t i = begin; i < end; ++i) out[i] = in[i] * scalars[0] + scalars[1];\n"),
      // out = in backwards, of s0 elements: an op that runs before the one before it has ended reads old values
      kernel("ck_reverse",
             "  double* out = buffers[0];\n  const double* in = buffers[1];\n  const int64_t n = (int64_t)scalars[0];\n"
             "  for (int64_t i = begin; i < end; ++i) out[i] = in[n - 1 - i] + 1;\n"),
      // the bits of the scalars as they arrive
      kernel("ck_scalars",
             "  double* out = buffers[0];\n  for (int64_t i = begin; i < end; ++i) out[i] = scalars[i];\n"),
      // the same of whole numbers
      kernel("ck_integers",
             "  int64_t* out = buffers[0];\n  for (int64_t i = begin; i < end; ++i) __builtin_memcpy(&out[i], "
             "&scalars[i], 8);\n"),
      // f32: in * 2^-10, so that the smallest normal numbers become subnormal
      kernel("ck_tiny",
             "  float* out = buffers[0];\n  const float* in = buffers[1];\n"
             "  for (int64_t i = begin; i < end; ++i) out[i] = in[i] * 0x1p-10f;\n"),
      // eight buffers in their order
      kernel("ck_sum8",
             "  int64_t* out = buffers[0];\n"
             "  for (int64_t i = begin; i < end; ++i) {\n    out[i] = 0;\n"
             "    for (int b = 1; b < 8; ++b) out[i] = out[i] * 10 + ((const int64_t*)buffers[b])[i];\n  }\n"),
      // some work: s0 rounds of a dependent product
      kernel("ck_spin",
             "  double* out = buffers[0];\n"
             "  for (int64_t i = begin; i < end; ++i) {\n    double x = 1;\n"
             "    for (int64_t k = 0; k < (int64_t)scalars[0]; ++k) x = x * 0.999999 + 1e-9;\n    out[i] = x;\n  }\n"),
  };
  return kernels;
}

}  // namespace crucible::conformance
