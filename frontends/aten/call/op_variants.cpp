// Functional forms of in-place and out= ops: see op_variants.hpp.
#include "frontends/aten/call/op_variants.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace crucible::aten {
namespace {

using Pair = std::pair<std::string_view, std::string_view>;

/// Where the naming rules lead elsewhere or nowhere.
constexpr std::array<Pair, 48> kIrregular = {{
    {"aten::__ilshift__.Scalar", "aten::__lshift__.Scalar"},
    {"aten::__ilshift__.Tensor", "aten::__lshift__.Tensor"},
    {"aten::__irshift__.Scalar", "aten::__rshift__.Scalar"},
    {"aten::__irshift__.Tensor", "aten::__rshift__.Tensor"},
    {"aten::adaptive_avg_pool2d.out", "aten::_adaptive_avg_pool2d"},
    {"aten::adaptive_avg_pool3d.out", "aten::_adaptive_avg_pool3d"},
    {"aten::adaptive_avg_pool3d_backward.grad_input", "aten::_adaptive_avg_pool3d_backward"},
    {"aten::ldexp_", "aten::ldexp.Tensor"},
    {"aten::softmax.int_out", "aten::_softmax"},
    {"aten::log_softmax.int_out", "aten::_log_softmax"},
    {"aten::all.all_out", "aten::all"},
    {"aten::all.out", "aten::all.dim"},
    {"aten::any.all_out", "aten::any"},
    {"aten::any.out", "aten::any.dim"},
    {"aten::arange.start_out", "aten::arange.start_step"},
    {"aten::bernoulli.float_out", "aten::bernoulli.p"},
    {"aten::div.out_mode", "aten::div.Tensor_mode"},
    {"aten::empty.out", "aten::empty.memory_format"},
    {"aten::float_power_.Scalar", "aten::float_power.Tensor_Scalar"},
    {"aten::float_power_.Tensor", "aten::float_power.Tensor_Tensor"},
    {"aten::floor_divide_.Tensor", "aten::floor_divide"},
    {"aten::frobenius_norm.out", "aten::frobenius_norm.dim"},
    {"aten::linalg_pinv.out_rcond_tensor", "aten::linalg_pinv.rcond_tensor"},
    {"aten::max.dim_max", "aten::max.dim"},
    {"aten::max.out", "aten::max.other"},
    {"aten::max.unary_out", "aten::max"},
    {"aten::mean.dtype_out", "aten::mean"},
    {"aten::mean.out", "aten::mean.dim"},
    {"aten::median.dim_values", "aten::median.dim"},
    {"aten::min.dim_min", "aten::min.dim"},
    {"aten::min.out", "aten::min.other"},
    {"aten::min.unary_out", "aten::min"},
    {"aten::nanmedian.dim_values", "aten::nanmedian.dim"},
    {"aten::norm.dtype_out", "aten::norm.ScalarOpt_dim_dtype"},
    {"aten::norm.out", "aten::norm.ScalarOpt_dim"},
    {"aten::pow_.Scalar", "aten::pow.Tensor_Scalar"},
    {"aten::pow_.Tensor", "aten::pow.Tensor_Tensor"},
    {"aten::prod.int_out", "aten::prod.dim_int"},
    {"aten::range.out", "aten::range.step"},
    {"aten::range.out_", "aten::range"},
    {"aten::sort.values_stable", "aten::sort.stable"},
    {"aten::std.out", "aten::std.dim"},
    {"aten::sum.IntList_out", "aten::sum.dim_IntList"},
    {"aten::transpose_", "aten::transpose.int"},
    {"aten::var.out", "aten::var.dim"},
    {"aten::xlogy.OutScalar_Other", "aten::xlogy.Scalar_Other"},
    {"aten::xlogy.OutScalar_Self", "aten::xlogy.Scalar_Self"},
    {"aten::xlogy.OutTensor", "aten::xlogy.Tensor"},
}};

/// Overloads named after their first out argument; the functional form is the default overload.
constexpr std::array<std::string_view, 16> kNamedAfterResult = {
    "grad_input", "output",  "values", "result", "L",       "U",           "Q",       "X",
    "a",          "inverse", "sign",   "LU",     "eigvals", "eigenvalues", "indices", "tau",
};

std::string joined(std::string_view packet, std::string_view overload) {
  std::string name(packet);
  if (!overload.empty()) name.append(".").append(overload);
  return name;
}

}  // namespace

std::vector<std::string> functional_names(std::string_view full_name) {
  const auto irregular =
      std::find_if(kIrregular.begin(), kIrregular.end(), [&](const Pair& pair) { return pair.first == full_name; });
  if (irregular != kIrregular.end()) return {std::string(irregular->second)};
  const auto dot = full_name.find('.');
  std::string_view packet = full_name.substr(0, dot);
  const std::string_view overload = dot == std::string_view::npos ? std::string_view() : full_name.substr(dot + 1);
  if (packet.ends_with('_') && !packet.ends_with("__")) {
    packet.remove_suffix(1);
    return {joined(packet, overload)};
  }
  if (overload == "out") return {joined(packet, ""), joined(packet, "Tensor")};
  if (overload.ends_with("_out")) return {joined(packet, overload.substr(0, overload.size() - 4))};
  if (std::find(kNamedAfterResult.begin(), kNamedAfterResult.end(), overload) != kNamedAfterResult.end()) {
    return {joined(packet, "")};
  }
  return {};
}

}  // namespace crucible::aten
