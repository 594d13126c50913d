// Numbers that stand for elements are sent both ways: see library_epilogue_check.hpp.
#include "core/kernel/fuse/library_epilogue_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <vector>

#include "core/graph/queries.hpp"
#include "core/graph/view.hpp"

namespace crucible::kernel {
namespace {

using graph::kNone;
using graph::Op;
using graph::OpId;
using graph::OpKind;
using graph::ValueId;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

double product_number(std::int64_t element) { return 1.5 * std::sin(0.7 * static_cast<double>(element)); }
double bias_number(std::int64_t element) { return 1.5 * std::sin(0.7 * static_cast<double>(element) + 1.3); }

double by_formula(LibraryEpilogue epilogue, double product, double bias) {
  const double x = product + bias;
  if (epilogue == LibraryEpilogue::kBiasRelu) return std::max(x, 0.0);
  if (epilogue == LibraryEpilogue::kBiasGelu)
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
  return x;
}

class Samples {
 public:
  Samples(const graph::Program& program, const Step& step) : program_(program), step_(step) {}

  /// An element of what an op of the step makes; NaN where other elements than these two of the product and the bias
  /// are in it.
  double computed(OpId id, std::int64_t element, std::int64_t of_product, std::int64_t of_bias) const {
    const Op& op = program_.ops[id];
    if (op.kind == OpKind::kMatMul) return element == of_product ? product_number(element) : kNan;
    if (op.outputs[0].view.offset != 0 || !op.outputs[0].view.is_contiguous()) return kNan;
    const std::vector<std::int64_t> point = graph::point_of(element, op.outputs[0].view.sizes);
    double x[2] = {kNan, kNan};
    for (std::size_t i = 0; i < std::min<std::size_t>(op.inputs.size(), 2); ++i) {
      const graph::Operand& input = op.inputs[i];
      if (input.is_scalar()) {
        x[i] = graph::fixed_number(input).value_or(kNan);
        continue;
      }
      const std::int64_t at = graph::element_at(input.view, point);
      if (const OpId producer = program_.values[input.value].producer; is_in_step(producer)) {
        x[i] = computed(producer, at, of_product, of_bias);
      } else if (input.value == step_.buffers[3].value && at == of_bias) {
        x[i] = bias_number(at);
      }
    }
    if (op.kind == OpKind::kCopy) return x[0];
    if (op.kind == OpKind::kTanh) return std::tanh(x[0]);
    if (op.kind == OpKind::kAdd) return x[0] + x[1];
    if (op.kind == OpKind::kMultiply) return x[0] * x[1];
    return op.kind == OpKind::kMaximum && !std::isnan(x[0] + x[1]) ? std::max(x[0], x[1]) : kNan;
  }

 private:
  bool is_in_step(OpId op) const { return op != kNone && std::ranges::find(step_.ops, op) != step_.ops.end(); }

  const graph::Program& program_;
  const Step& step_;
};

}  // namespace

std::string library_epilogue_fault(const graph::Program& program, const Step& step) {
  constexpr std::int64_t kSamples = 61;
  const auto products = std::ranges::count(step.ops, OpKind::kMatMul, [&](OpId op) { return program.ops[op].kind; });
  if (step.library.kind != LibraryKind::kMatMul || products != 1)
    return fmt::format("a library's epilogue is of {} matrix products", products);
  const OpId last = program.values[step.buffers[2].value].producer;
  if (std::ranges::find(step.ops, last) == step.ops.end()) return "a library's epilogue does not end in its result";
  for (std::size_t i = 0; i < step.buffers.size(); ++i) {
    if (program.values[step.buffers[i].value].dtype != step.library.dtype)
      return fmt::format("buffer {} of a library's product has another type", i);
  }
  const graph::View &result = step.library.views[2], &bias = step.library.extra;
  if (bias.sizes != std::vector<std::int64_t>{result.sizes.back()})
    return "the bias of a library's product has not one number per column";
  const Samples samples(program, step);
  const std::int64_t elements = result.elements();
  for (std::int64_t i = 0; i < std::min(elements, kSamples); ++i) {
    const std::int64_t sample = elements <= kSamples ? i : i * ((elements - 1) / (kSamples - 1));
    const std::vector<std::int64_t> point = graph::point_of(sample, result.sizes);
    const std::int64_t at = graph::element_at(result, point), of_bias = bias.offset + point.back() * bias.strides[0];
    const double got = samples.computed(last, at, at, of_bias);
    const double want = by_formula(step.library.epilogue, product_number(at), bias_number(of_bias));
    if (!(std::abs(got - want) <= 1e-12))
      return fmt::format("element {} of a library's result is {} by its ops and {} by its epilogue", at, got, want);
  }
  return "";
}

}  // namespace crucible::kernel
