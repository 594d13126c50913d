// Products through the plugin's library against sums in double: every transposition, pitch, offset and batch layout
// that it claims, and the reasons with which it declines the others.
#include <gmock/gmock.h>

#include "backends/cpu/testing.hpp"

namespace crucible::backend {
namespace {

using testing::HasSubstr;

constexpr std::uint32_t kF32 = 8;

crucible_view view(std::vector<std::int64_t> sizes, std::vector<std::int64_t> strides, std::int64_t offset = 0) {
  crucible_view result{};
  result.rank = static_cast<std::uint32_t>(sizes.size());
  result.dtype = kF32;
  result.offset = offset;
  std::copy(sizes.begin(), sizes.end(), result.sizes);
  std::copy(strides.begin(), strides.end(), result.strides);
  return result;
}

/// Offset of element (batch index counted through, row, column).
std::int64_t element(const crucible_view& v, std::int64_t batch, std::int64_t row, std::int64_t column) {
  std::int64_t offset = v.offset + row * v.strides[v.rank - 2] + column * v.strides[v.rank - 1];
  for (int i = static_cast<int>(v.rank) - 3; i >= 0; --i) {
    offset += batch % v.sizes[i] * v.strides[i];
    batch /= v.sizes[i];
  }
  return offset;
}

std::size_t extent(const crucible_view& v) {
  std::int64_t last = v.offset;
  for (std::uint32_t i = 0; i < v.rank; ++i) last += (v.sizes[i] - 1) * v.strides[i];
  return static_cast<std::size_t>(last + 1);
}

crucible_library_desc describe(const crucible_view& a, const crucible_view& b, const crucible_view& c,
                               double alpha = 1) {
  crucible_library_desc desc{};
  desc.struct_size = sizeof(desc);
  desc.kind = CRUCIBLE_LIB_MATMUL;
  desc.views[0] = a, desc.views[1] = b, desc.views[2] = c;
  desc.alpha_f64_bits = std::bit_cast<std::uint64_t>(alpha);
  return desc;
}

class CpuMatMul : public CpuTest {
 protected:
  void open_with(int threads) {
    device_ = open({{"threads", std::to_string(threads)}});
    if (!has_onednn(*device_)) GTEST_SKIP() << library_note(*device_);
  }
  Result<std::uint64_t> claim(const crucible_library_desc& desc) {
    std::uint64_t scratch = 0;
    CRUCIBLE_TRY_VOID(to_result(device_->backend().library_table().claim(device_->handle(), &desc, &scratch), "claim"));
    return scratch;
  }
  /// Runs the product and compares every element with a sum in double; elements outside the view must stay as they are.
  void check(const crucible_library_desc& desc) {
    const crucible_view &va = desc.views[0], &vb = desc.views[1], &vc = desc.views[2];
    const std::uint64_t scratch = take(claim(desc));
    ASSERT_EQ(scratch, 0u);
    const std::vector<float> a = random_floats(extent(va), 1), b = random_floats(extent(vb), 2);
    std::vector<float> expected = random_floats(extent(vc) + 8, 3);
    const Buffer buffer_a = upload(device_, a), buffer_b = upload(device_, b), buffer_c = upload(device_, expected);
    std::int64_t batch = 1;
    for (std::uint32_t i = 0; i + 2 < vc.rank; ++i) batch *= vc.sizes[i];
    const std::int64_t m = vc.sizes[vc.rank - 2], n = vc.sizes[vc.rank - 1], k = va.sizes[va.rank - 1];
    for (std::int64_t e = 0; e < batch; ++e) {
      for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t j = 0; j < n; ++j) {
          double sum = 0;
          for (std::int64_t p = 0; p < k; ++p) {
            sum += static_cast<double>(a[static_cast<std::size_t>(element(va, e, i, p))]) *
                   static_cast<double>(b[static_cast<std::size_t>(element(vb, e, p, j))]);
          }
          expected[static_cast<std::size_t>(element(vc, e, i, j))] =
              static_cast<float>(std::bit_cast<double>(desc.alpha_f64_bits) * sum);
        }
      }
    }
    OpList list;
    list.library(desc, {buffer_a.address(), buffer_b.address(), buffer_c.address()}, 0);
    Plan plan = take(Plan::build(device_, list.ops(), 0));
    CRUCIBLE_ASSERT_OK(plan.replay());
    CRUCIBLE_ASSERT_OK(plan.replay());  // the old result must not be added
    const std::vector<float> result = download<float>(buffer_c, expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(result[i], expected[i], 1e-5 * static_cast<double>(k) + 1e-6) << "element " << i;
    }
  }
  std::shared_ptr<Device> device_;
};

TEST_F(CpuMatMul, TakesEveryTranspositionOfEveryOperand) {
  open_with(2);
  if (IsSkipped()) return;
  for (const auto& [m, n, k] : std::vector<std::array<std::int64_t, 3>>{
           {3, 5, 7}, {64, 48, 32}, {1, 9, 4}, {8, 1, 5}, {4, 6, 1}, {1, 1, 1}, {130, 70, 200}}) {
    for (int transposed = 0; transposed < 8; ++transposed) {
      const auto matrix = [](std::int64_t rows, std::int64_t columns, bool swapped) {
        return swapped ? view({rows, columns}, {1, rows}) : view({rows, columns}, {columns, 1});
      };
      SCOPED_TRACE(testing::Message() << m << "x" << n << "x" << k << " " << transposed);
      check(describe(matrix(m, k, transposed & 1), matrix(k, n, transposed & 2), matrix(m, n, transposed & 4)));
    }
  }
}

TEST_F(CpuMatMul, TakesOffsetsAndPitches) {
  open_with(2);
  if (IsSkipped()) return;
  check(describe(view({5, 4}, {11, 1}, 3), view({4, 6}, {1, 9}, 7), view({5, 6}, {13, 1}, 2), 0.25));
  check(describe(view({5, 4}, {1, 8}, 1), view({4, 6}, {6, 1}), view({5, 6}, {1, 17}, 5), -2));
}

TEST_F(CpuMatMul, TakesBatchesOfAnyLayout) {
  for (const int threads : {1, 2, 3}) {
    open_with(threads);
    if (IsSkipped()) return;
    check(describe(view({3, 4, 5}, {20, 5, 1}), view({3, 5, 6}, {30, 6, 1}), view({3, 4, 6}, {24, 6, 1})));
    // heads: [batch, head, token, width] views of a [batch, token, head, width] buffer, keys transposed
    check(describe(view({2, 3, 8, 4}, {96, 4, 12, 1}), view({2, 3, 4, 8}, {96, 4, 1, 12}),
                   view({2, 3, 8, 8}, {192, 64, 8, 1}), 0.5));
    // one weight for all entries: rows stack, also behind an outer batch that does not
    check(describe(view({3, 4, 5}, {20, 5, 1}), view({3, 5, 6}, {0, 6, 1}), view({3, 4, 6}, {24, 6, 1})));
    check(describe(view({2, 3, 4, 5}, {60, 20, 5, 1}), view({2, 3, 5, 6}, {30, 0, 6, 1}),
                   view({2, 3, 4, 6}, {72, 24, 6, 1})));
    // one left operand for all
    check(describe(view({3, 4, 5}, {0, 5, 1}), view({3, 5, 6}, {30, 6, 1}), view({3, 4, 6}, {24, 6, 1})));
    check(
        describe(view({1, 1, 4, 5}, {7, 9, 5, 1}), view({1, 1, 5, 6}, {1, 1, 6, 1}), view({1, 1, 4, 6}, {3, 3, 6, 1})));
    // many large entries, and few
    check(describe(view({16, 64, 32}, {2048, 32, 1}), view({16, 32, 64}, {2048, 64, 1}),
                   view({16, 64, 64}, {4096, 64, 1})));
    check(describe(view({2, 160, 96}, {15360, 96, 1}), view({2, 96, 80}, {7680, 80, 1}),
                   view({2, 160, 80}, {12800, 80, 1})));
    device_.reset();
  }
}

TEST_F(CpuMatMul, DeclinesWhatItCannotDo) {
  open_with(2);
  if (IsSkipped()) return;
  const crucible_view a = view({4, 5}, {5, 1}), b = view({5, 6}, {6, 1}), c = view({4, 6}, {6, 1});
  const auto reason = [&](const crucible_library_desc& desc) {
    const auto result = claim(desc);
    return result ? "taken" : result.error().message;
  };
  EXPECT_EQ(reason(describe(a, b, c)), "taken");
  EXPECT_THAT(reason(describe(view({4, 5}, {10, 2}), b, c)), HasSubstr("unit stride"));
  EXPECT_THAT(reason(describe(view({4, 5}, {0, 1}), b, c)), HasSubstr("unit stride"));
  EXPECT_THAT(reason(describe(a, b, view({4, 6}, {0, 1}))), HasSubstr("overlaps"));
  EXPECT_THAT(reason(describe(a, b, view({4, 7}, {7, 1}))), HasSubstr("sizes do not match"));
  EXPECT_THAT(reason(describe(a, b, view({1, 4, 6}, {24, 6, 1}))), HasSubstr("ranks differ"));
  EXPECT_THAT(reason(describe(view({4, 0}, {1, 1}), view({0, 6}, {6, 1}), c)), HasSubstr("empty"));
  crucible_library_desc doubles = describe(a, b, c);
  doubles.views[1].dtype = 9;
  EXPECT_THAT(reason(doubles), HasSubstr("only f32"));
  doubles.kind = 99;
  EXPECT_THAT(reason(doubles), HasSubstr("kind 99 is not known"));
}

TEST_F(CpuMatMul, IsDeclinedWithoutTheLibrary) {
  device_ = open({{"library", "none"}});
  EXPECT_THAT(library_note(*device_), HasSubstr("none"));
  EXPECT_THAT(library_note(*device_), HasSubstr("generated and slower"));
  const auto result = claim(describe(view({4, 5}, {5, 1}), view({5, 6}, {6, 1}), view({4, 6}, {6, 1})));
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message, HasSubstr("there is no library"));
}

}  // namespace
}  // namespace crucible::backend
