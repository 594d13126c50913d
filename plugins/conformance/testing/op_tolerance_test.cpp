// docs/numerics.md has the table of what ops may be off by.
#include "plugins/conformance/op_tolerance.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string_view>

namespace crucible::conformance {
namespace {

/// CRUCIBLE_WRITE_DOCS=1 writes the table instead.
TEST(OpTolerance, TheDocumentHasTheTable) {
  std::ifstream file(CRUCIBLE_NUMERICS_PAGE);
  std::stringstream stream;
  stream << file.rdbuf();
  std::string text = stream.str();
  constexpr std::string_view kBegin = "<!-- tolerances: plugins/conformance/op_tolerance.cpp -->\n",
                             kEnd = "<!-- end of tolerances -->\n";
  const std::size_t begin = text.find(kBegin), end = text.find(kEnd);
  ASSERT_NE(begin, std::string::npos);
  ASSERT_NE(end, std::string::npos);
  const std::size_t from = begin + kBegin.size();
  if (std::getenv("CRUCIBLE_WRITE_DOCS") != nullptr) {
    text.replace(from, end - from, tolerance_table());
    std::ofstream(CRUCIBLE_NUMERICS_PAGE) << text;
    return;
  }
  EXPECT_EQ(text.substr(from, end - from), tolerance_table())
      << "write it: CRUCIBLE_WRITE_DOCS=1 conformance_parts_test --gtest_filter=OpTolerance.*";
}

TEST(OpTolerance, GrowsWithTheSquareOfTheTerms) {
  EXPECT_EQ(sum_tolerance(10, 1, DType::kF32), 4 * sum_tolerance(5, 1, DType::kF32));
  EXPECT_LT(sum_tolerance(10, 1, DType::kF64), sum_tolerance(10, 1, DType::kF32));
  EXPECT_EQ(sum_tolerance(0, 1, DType::kF32), 0);
}

TEST(OpTolerance, NarrowTypesRoundOnce) {
  for (const graph::OpKind kind : {graph::OpKind::kExp, graph::OpKind::kErfc, graph::OpKind::kPower}) {
    EXPECT_EQ(allowed_ulp(kind, DType::kBF16), 1);
    EXPECT_GT(allowed_ulp(kind, DType::kF32), 1);
  }
  EXPECT_EQ(allowed_ulp(graph::OpKind::kAdd, DType::kF16), 0);
}

}  // namespace
}  // namespace crucible::conformance
