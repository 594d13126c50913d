// The table as text: see accuracy.hpp.
#include "core/kernel/math/accuracy.hpp"

#include <fmt/format.h>

namespace crucible::kernel {
namespace {

std::string bound(double ulp) {
  return ulp == 0 ? "exact" : ulp == 0.5 ? "correctly rounded" : fmt::format("{:g}", ulp);
}

}  // namespace

std::string accuracy_table() {
  std::string text = "| function | f32, ulp | f64, ulp | of which arguments |\n|---|---:|---:|---|\n";
  for (const Accuracy& row : kAccuracies)
    text += fmt::format("| {} | {} | {} | {} |\n", row.function, bound(row.f32), bound(row.f64), row.where.empty() ? "all" : row.where);
  return text;
}

}  // namespace crucible::kernel
