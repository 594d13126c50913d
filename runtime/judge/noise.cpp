// Elements whose gradient is rounding noise: see noise.hpp.
#include "runtime/judge/noise.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "runtime/judge/elements.hpp"

namespace crucible::runtime {
namespace {

// Adam and its kin; RMSprop, Adadelta; Adagrad; Adamax, which keeps sizes and not their squares.
constexpr std::string_view kLargest = "exp_inf";
constexpr std::array<std::string_view, 4> kSecondMoments = {"exp_avg_sq", "square_avg", "sum", kLargest};
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
  with_numbers(dtype, [&](const auto& number) {
    for (std::size_t at = 0; at + width <= bytes.size(); at += width) elements.push_back(number(&bytes[at]));
  });
  return elements;
}

double largest_of(const std::vector<double>& elements) {
  double largest = 0;
  for (const double element : elements) {
    if (std::isfinite(element)) largest = std::max(largest, std::fabs(element));
  }
  return largest;
}

/// The operands that an op hands on as they are, up to a factor that does not depend on them: what adds up, selects and
/// scales.
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

}  // namespace

Tolerances tolerances_of(const graph::Program& program) {
  bool has_f16 = false;
  for (const graph::Value& value : program.values) {
    if (value.elements <= 1) continue;
    if (value.dtype == DType::kBF16) return {1e-2, 6e-2, 1e-3, {2e-2, 2e-3}};
    has_f16 = has_f16 || value.dtype == DType::kF16;
  }
  // TF32 keeps as many bits of an operand as f16.
  return has_f16 || program.was_tf32 ? Tolerances{1e-3, 8e-3, 1e-4, {2e-3, 2e-4}} : Tolerances{};
}

Tolerances tolerances_of(const graph::Variants& variants) {
  Tolerances widest = tolerances_of(*variants.programs[0]);
  for (const auto& program : variants.programs) {
    const Tolerances own = tolerances_of(*program);
    if (own.state > widest.state) widest = own;
  }
  return widest;
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
    if (op.kind == graph::OpKind::kLog || op.kind == graph::OpKind::kLog1p)
      return kUnits * unit_of(program.values[value].dtype);
    for (const graph::Operand& operand : linear_operands(op)) {
      if (!operand.is_scalar()) open.push_back(operand.value);
    }
  }
  return 0;
}

/// The gradient's size by one second moment.
struct Noise::Moments {
  std::string parameter;
  std::size_t place = 0;  // among the second moments of that name
  std::vector<bool> is_noise;
  std::vector<double> gradient = {};
};

namespace {

/// Which of `count` things of one name the next one is.
std::size_t count_up(std::map<std::string, std::size_t, std::less<>>& seen, const std::string& name) {
  return seen[name]++;
}

}  // namespace

Result<Noise> Noise::find(const graph::Program& program, const trace::BlobStore& blobs, double share) {
  Noise noise;
  noise.share_ = share;
  noise.masks_.resize(program.states.size());
  std::vector<Moments> all;
  std::map<std::string, std::size_t, std::less<>> seen, of_name;
  for (const graph::State& state : program.states) {
    const graph::Value& value = program.values[state.start];
    const auto [kind, parameter] = parts_of(value.name);
    noise.kinds_.emplace_back(kind);
    ++of_name[value.name];
    if (!is_second_moment(kind) || state.final_blob == graph::kNone || !is_floating(value.dtype)) continue;
    CRUCIBLE_TRY(const auto bytes, blobs.load(state.final_blob));
    Moments moments{.parameter = std::string(parameter),
                    .place = count_up(seen, value.name),
                    .is_noise = {},
                    .gradient = elements_of(value.dtype, bytes)};
    if (kind != kLargest)
      std::ranges::for_each(moments.gradient, [](double& element) { element = std::sqrt(element); });
    noise.largest_gradient_ = std::max(noise.largest_gradient_, largest_of(moments.gradient));
    all.push_back(std::move(moments));
  }
  std::map<std::string, std::vector<const Moments*>, std::less<>> by_parameter;
  for (Moments& moments : all) {
    std::size_t found = 0;
    for (const double element : moments.gradient) {
      moments.is_noise.push_back(element <= share * noise.largest_gradient_);
      found += moments.is_noise.back();
    }
    by_parameter[moments.parameter].push_back(&moments);
    if (found == 0) moments.is_noise.clear();
    noise.count_ += found;
    noise.parameters_ += found > 0;
  }
  if (noise.count_ == 0) return noise;
  std::map<std::string, std::size_t, std::less<>> place_of;
  for (std::size_t i = 0; i < program.states.size(); ++i) {
    const graph::Value& value = program.values[program.states[i].start];
    const auto [kind, parameter] = parts_of(value.name);
    const std::size_t place = count_up(place_of, value.name);
    const auto found = by_parameter.find(parameter);
    if (found == by_parameter.end()) continue;
    std::vector<const Moments*> its = found->second;
    // Of one optimizer or one module the others are as many, in the same order. A parameter that several optimizers
    // move is noise where it is for all.
    if (of_name[value.name] == its.size()) its = {its[place]};
    std::vector<bool> mask = its[0]->is_noise;
    for (const Moments* other : its) {
      if (other->is_noise.size() != mask.size()) mask.clear();
      for (std::size_t e = 0; e < mask.size(); ++e) mask[e] = mask[e] && other->is_noise[e];
    }
    if (mask.size() == static_cast<std::size_t>(value.elements)) noise.masks_[i] = std::move(mask);
  }
  for (const graph::State& state : program.states) {  // how far parameters went, and what was kept of their steps
    const graph::Value& value = program.values[state.start];
    if (const auto kind = parts_of(value.name).first;
        is_of_steps(kind) && state.final_blob != graph::kNone && is_floating(value.dtype)) {
      CRUCIBLE_TRY(const auto bytes, blobs.load(state.final_blob));
      double& largest = noise.largest_step_[std::string(kind)];
      largest = std::max(largest, largest_of(elements_of(value.dtype, bytes)));
    }
    const bool has_both = state.initial_blob != graph::kNone && state.final_blob != graph::kNone;
    if (!has_both || !by_parameter.contains(value.name) || !is_floating(value.dtype)) continue;
    CRUCIBLE_TRY(const auto before, blobs.load(state.initial_blob));
    CRUCIBLE_TRY(const auto after, blobs.load(state.final_blob));
    const auto a = elements_of(value.dtype, before), b = elements_of(value.dtype, after);
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
      if (std::isfinite(a[i] - b[i])) noise.largest_move_ = std::max(noise.largest_move_, std::fabs(a[i] - b[i]));
    }
  }
  return noise;
}

const std::vector<bool>& Noise::elements(std::size_t state) const {
  static const std::vector<bool> kNone;
  return state < masks_.size() ? masks_[state] : kNone;
}

std::vector<bool> Noise::excused(std::size_t state, DType dtype, std::span<const std::byte> actual,
                                 std::span<const std::byte> expected) const {
  std::vector<bool> mask = elements(state);
  const std::size_t size = size_bytes(dtype);
  if (mask.empty() || actual.size() != expected.size() || mask.size() * size != actual.size()) return {};
  const std::string& kind = kinds_[state];
  // Ten times: noise of other roundings may be larger than the recorded one, not of another order.
  const double gradient = 10 * share_ * largest_gradient_;
  const double allowed = is_second_moment(kind) && kind != kLargest ? gradient * gradient : gradient;
  const auto step = largest_step_.find(kind);
  for (std::size_t i = 0; i < mask.size(); ++i) {
    if (!mask[i]) continue;
    const double was = element_as_double(dtype, expected.subspan(i * size, size)),
                 is = element_as_double(dtype, actual.subspan(i * size, size));
    // What is not finite compares as false. Where a size is beyond what noise may have, the difference counts as any
    // other does.
    mask[i] = kind.empty() ? std::fabs(is - was) <= 2 * largest_move_
                           : std::fabs(is) <= (step == largest_step_.end() ? allowed : 2 * step->second);
  }
  return mask;
}

}  // namespace crucible::runtime
