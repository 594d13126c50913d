// Elements whose gradient is rounding noise: see noise.hpp.
#include "core/runtime/noise.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/runtime/compare.hpp"

namespace crucible::runtime {
namespace {

// Adam and its kin; RMSprop, Adadelta; Adagrad.
constexpr std::array<std::string_view, 3> kSecondMoments = {"exp_avg_sq", "square_avg", "sum"};
// What RMSprop and Adadelta keep of steps: gradients over their own size, so noise is as large in them as anything.
constexpr std::array<std::string_view, 2> kSteps = {"momentum_buffer", "acc_delta"};

/// "exp_avg_sq of blocks.0.weight" as its two parts; the first is empty for a parameter's own name.
std::pair<std::string_view, std::string_view> parts_of(std::string_view name) {
  const auto at = name.find(" of ");
  if (at == std::string_view::npos) return {"", name};
  return {name.substr(0, at), name.substr(at + 4)};
}

bool is_of_steps(std::string_view kind) { return std::ranges::find(kSteps, kind) != kSteps.end(); }
bool is_second_moment(std::string_view kind) { return std::ranges::find(kSecondMoments, kind) != kSecondMoments.end(); }

std::vector<double> elements_of(DType dtype, std::span<const std::byte> bytes) {
  const std::size_t width = size_bytes(dtype);
  std::vector<double> elements;
  if (width == 0) return elements;
  elements.reserve(bytes.size() / width);
  for (std::size_t at = 0; at + width <= bytes.size(); at += width) {
    elements.push_back(element_as_double(dtype, bytes.subspan(at, width)));
  }
  return elements;
}

double largest_of(const std::vector<double>& elements) {
  double largest = 0;
  for (const double element : elements) {
    if (std::isfinite(element)) largest = std::max(largest, std::fabs(element));
  }
  return largest;
}

/// The operands that an op hands on as they are, up to a factor that does not depend on them: what adds up, selects and scales.
std::span<const graph::Operand> linear_operands(const graph::Op& op) {
  const std::span<const graph::Operand> all = op.inputs;
  switch (op.kind) {
    case graph::OpKind::kCopy:
    case graph::OpKind::kNegate:
    case graph::OpKind::kAdd:
    case graph::OpKind::kSubtract:
    case graph::OpKind::kReduceSum:
    case graph::OpKind::kConcat:
    case graph::OpKind::kUpdate:
      return all;
    case graph::OpKind::kSelect:
      return all.subspan(1);
    case graph::OpKind::kDivide:  // by a count
    case graph::OpKind::kTake:
    case graph::OpKind::kGatherRows:
      return all.first(1);
    case graph::OpKind::kMultiply:
      // A product of two results may be a square, whose roundings shrink with it.
      return all[1].is_scalar() ? all.first(1) : all[0].is_scalar() ? all.subspan(1, 1) : all.first(0);
    default:
      return {};
  }
}

double unit_of(DType dtype) {
  return dtype == DType::kF64   ? std::numeric_limits<double>::epsilon()
         : dtype == DType::kF16 ? 0x1p-10
         : dtype == DType::kBF16 ? 0x1p-7
                                : std::numeric_limits<float>::epsilon();
}

}  // namespace

Tolerances tolerances_of(const graph::Program& program) {
  bool has_f16 = false;
  for (const graph::Value& value : program.values) {
    if (value.elements <= 1) continue;
    if (value.dtype == DType::kBF16) return {1e-2, 6e-2, 1e-3};
    has_f16 = has_f16 || value.dtype == DType::kF16;
  }
  return has_f16 ? Tolerances{1e-3, 8e-3, 1e-4} : Tolerances{};
}

double rounding_of_loss(const graph::Program& program, const graph::Output& output) {
  constexpr double kUnits = 4;
  if (output.operand.is_scalar()) return 0;
  std::vector<bool> is_seen(program.values.size());
  std::vector<graph::ValueId> open = {output.operand.value};
  while (!open.empty()) {
    const graph::ValueId value = open.back();
    open.pop_back();
    if (is_seen[value]) continue;
    is_seen[value] = true;
    const graph::OpId producer = program.values[value].producer;
    if (producer == graph::kNone) continue;
    const graph::Op& op = program.ops[producer];
    if (op.kind == graph::OpKind::kLog || op.kind == graph::OpKind::kLog1p) return kUnits * unit_of(program.values[value].dtype);
    for (const graph::Operand& operand : linear_operands(op)) {
      if (!operand.is_scalar()) open.push_back(operand.value);
    }
  }
  return 0;
}

Result<Noise> Noise::find(const graph::Program& program, const trace::BlobStore& blobs, double share) {
  Noise noise;
  noise.share_ = share;
  std::map<std::string, std::vector<double>, std::less<>> sizes;  // of the gradient's elements, by parameter
  for (const graph::State& state : program.states) {
    const graph::Value& value = program.values[state.start];
    const auto [kind, parameter] = parts_of(value.name);
    if (!is_second_moment(kind) || state.final_blob == graph::kNone || !is_floating(value.dtype)) continue;
    CRUCIBLE_TRY(const auto bytes, blobs.load(state.final_blob));
    std::vector<double> gradient = elements_of(value.dtype, bytes);
    for (double& element : gradient) element = std::sqrt(element);
    noise.largest_gradient_ = std::max(noise.largest_gradient_, largest_of(gradient));
    sizes[std::string(parameter)] = std::move(gradient);
  }
  for (const auto& [parameter, gradient] : sizes) {
    std::vector<bool> mask(gradient.size());
    std::size_t found = 0;
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      mask[i] = gradient[i] <= share * noise.largest_gradient_;
      found += mask[i];
    }
    if (found == 0) continue;
    noise.count_ += found;
    noise.masks_.emplace(parameter, std::move(mask));
  }
  if (noise.masks_.empty()) return noise;
  for (const graph::State& state : program.states) {  // how far parameters went, and what was kept of their steps
    const graph::Value& value = program.values[state.start];
    if (const auto kind = parts_of(value.name).first; is_of_steps(kind) && state.final_blob != graph::kNone && is_floating(value.dtype)) {
      CRUCIBLE_TRY(const auto bytes, blobs.load(state.final_blob));
      double& largest = noise.largest_step_[std::string(kind)];
      largest = std::max(largest, largest_of(elements_of(value.dtype, bytes)));
    }
    const bool has_both = state.initial_blob != graph::kNone && state.final_blob != graph::kNone;
    if (!has_both || !sizes.contains(value.name) || !is_floating(value.dtype)) continue;
    CRUCIBLE_TRY(const auto before, blobs.load(state.initial_blob));
    CRUCIBLE_TRY(const auto after, blobs.load(state.final_blob));
    const auto a = elements_of(value.dtype, before), b = elements_of(value.dtype, after);
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
      if (std::isfinite(a[i] - b[i])) noise.largest_move_ = std::max(noise.largest_move_, std::fabs(a[i] - b[i]));
    }
  }
  return noise;
}

const std::vector<bool>& Noise::elements(std::string_view name) const {
  static const std::vector<bool> kNone;
  const auto found = masks_.find(parts_of(name).second);
  return found == masks_.end() ? kNone : found->second;
}

double Noise::difference(std::string_view name, DType dtype, std::span<const std::byte> actual, std::span<const std::byte> expected) const {
  constexpr double kFar = std::numeric_limits<double>::infinity();
  const std::vector<bool>& mask = elements(name);
  const auto a = elements_of(dtype, actual), b = elements_of(dtype, expected);
  if (a.size() != b.size() || (!mask.empty() && mask.size() != b.size())) return kFar;
  const std::string_view kind = parts_of(name).first;
  // Ten times: noise of other roundings may be larger than the recorded one, not of another order.
  const double gradient = 10 * share_ * largest_gradient_;
  const double allowed = is_second_moment(kind) ? gradient * gradient : gradient;
  const auto step = largest_step_.find(kind);
  const auto is_too_large = [&](double was, double is) {
    if (kind.empty()) return std::fabs(is - was) > 2 * largest_move_;
    return std::fabs(is) > (step == largest_step_.end() ? allowed : 2 * step->second);
  };
  double largest = std::numeric_limits<float>::min(), far = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    if (std::isfinite(b[i])) largest = std::max(largest, std::fabs(b[i]));
  }
  for (std::size_t i = 0; i < b.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) return kFar;
    const double distance = std::fabs(a[i] - b[i]);
    if (mask.empty() || !mask[i]) {
      far = std::max(far, distance);
    } else if (is_too_large(b[i], a[i])) {
      return kFar;
    }
  }
  return far / largest;
}

}  // namespace crucible::runtime
