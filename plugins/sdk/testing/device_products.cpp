// The cases of DeviceProducts: see device_products.hpp.
#include "plugins/sdk/testing/device_products.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <random>

namespace crucible::backend {

using ::testing::HasSubstr;

namespace {

constexpr std::uint32_t kF16 = 6, kBF16 = 7, kF32 = 8, kF64 = 9;

std::size_t size_of(std::uint32_t dtype) { return dtype == kF64 ? 8 : dtype == kF32 ? 4 : 2; }

/// Small numbers with few bits, so that each type holds them: n / 8 for n from -8 to 8.
std::vector<double> numbers(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<double> values(count);
  for (double& value : values) value = static_cast<double>(static_cast<int>(random() % 17) - 8) / 8;
  return values;
}

template <class T>
void append(std::vector<std::byte>& bytes, T value) {
  const auto all = std::bit_cast<std::array<std::byte, sizeof(T)>>(value);
  bytes.insert(bytes.end(), all.begin(), all.end());
}

/// f16 of a number that is 0 or normal in it and has at most 11 bits.
std::uint16_t half_of(double value) {
  if (value == 0) return 0;
  int exponent = 0;
  const double fraction = std::frexp(std::fabs(value), &exponent);
  return static_cast<std::uint16_t>((value < 0 ? 0x8000 : 0) | (exponent + 14) << 10 |
                                    (static_cast<int>(fraction * 2048) & 1023));
}

double of_half(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const double magnitude =
      exponent == 0 ? std::ldexp(bits & 1023, -24) : std::ldexp((bits & 1023) | 1024, exponent - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}

std::vector<std::byte> bytes_of(const std::vector<double>& values, std::uint32_t dtype) {
  std::vector<std::byte> bytes;
  for (const double value : values) {
    if (dtype == kF64) append(bytes, value);
    if (dtype == kF32) append(bytes, static_cast<float>(value));
    if (dtype == kF16) append(bytes, half_of(value));
    if (dtype == kBF16)
      append(bytes, static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16));
  }
  return bytes;
}

double number_at(const std::vector<std::byte>& bytes, std::size_t index, std::uint32_t dtype) {
  const std::byte* const at = bytes.data() + index * size_of(dtype);
  const auto read = [at](auto value) {
    std::memcpy(&value, at, sizeof value);
    return value;
  };
  if (dtype == kF64) return read(double{});
  if (dtype == kF32) return static_cast<double>(read(float{}));
  const auto bits = read(std::uint16_t{});
  return dtype == kF16 ? of_half(bits)
                       : static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16));
}

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

double activated(std::uint32_t epilogue, double x) {
  if (epilogue == CRUCIBLE_EPILOGUE_BIAS_RELU) return std::max(x, 0.0);
  if (epilogue == CRUCIBLE_EPILOGUE_BIAS_GELU)
    return 0.5 * x * (1 + std::tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
  return x;
}

/// Sums in double over what c had before. `bias`: empty without an epilogue.
std::vector<double> expected_of(const crucible_library_desc& desc, const std::vector<double>& a,
                                const std::vector<double>& b, std::vector<double> c, const std::vector<double>& bias) {
  const crucible_view &va = desc.views[0], &vb = desc.views[1], &vc = desc.views[2];
  std::int64_t batch = 1;
  for (std::uint32_t i = 0; i + 2 < vc.rank; ++i) batch *= vc.sizes[i];
  for (std::int64_t e = 0; e < batch; ++e) {
    for (std::int64_t i = 0; i < vc.sizes[vc.rank - 2]; ++i) {
      for (std::int64_t j = 0; j < vc.sizes[vc.rank - 1]; ++j) {
        double sum = 0;
        for (std::int64_t p = 0; p < va.sizes[va.rank - 1]; ++p)
          sum += a[static_cast<std::size_t>(element(va, e, i, p))] * b[static_cast<std::size_t>(element(vb, e, p, j))];
        sum *= std::bit_cast<double>(desc.alpha_f64_bits);
        if (!bias.empty()) sum += bias[static_cast<std::size_t>(desc.extra.offset + j)];
        c[static_cast<std::size_t>(element(vc, e, i, j))] = activated(desc.epilogue, sum);
      }
    }
  }
  return c;
}

crucible_op op_of(std::uint32_t kind, const std::vector<std::uint64_t>& places) {
  crucible_op op = {};
  op.struct_size = sizeof(op);
  op.kind = kind;
  op.buffers = places.data();
  op.buffer_count = static_cast<std::uint32_t>(places.size());
  return op;
}

Buffer upload(const std::shared_ptr<Device>& device, const std::vector<std::byte>& bytes, std::uint64_t at = 0) {
  Buffer buffer = take(Buffer::allocate(device, at + bytes.size(), 256));
  EXPECT_TRUE(buffer.write(at, bytes));
  return buffer;
}

}  // namespace

crucible_view view_of(std::vector<std::int64_t> sizes, std::vector<std::int64_t> strides, std::int64_t offset,
                      std::uint32_t dtype) {
  crucible_view result = {};
  result.rank = static_cast<std::uint32_t>(sizes.size());
  result.dtype = dtype;
  result.offset = offset;
  std::copy(sizes.begin(), sizes.end(), result.sizes);
  std::copy(strides.begin(), strides.end(), result.strides);
  return result;
}

crucible_library_desc product_of(const crucible_view& a, const crucible_view& b, const crucible_view& c, double alpha) {
  crucible_library_desc desc = {};
  desc.struct_size = sizeof(desc);
  desc.kind = CRUCIBLE_LIB_MATMUL;
  desc.views[0] = a, desc.views[1] = b, desc.views[2] = c;
  desc.alpha_f64_bits = std::bit_cast<std::uint64_t>(alpha);
  return desc;
}

namespace {

std::string told(Device& device, const std::string& key) {
  for (const auto& [name, value] : take(device.properties())) {
    if (name == key) return value;
  }
  return "";
}

}  // namespace

void DeviceProducts::SetUp() {
  auto opened = try_open(GetParam());
  if (!opened) GTEST_SKIP() << opened.error().message;
  device_ = *opened;
  if (const std::string library = told(*device_, "library"); library.starts_with("none")) GTEST_SKIP() << library;
}

void DeviceMatrixProducts::SetUp() {
  auto opened = try_open(GetParam());
  if (!opened) GTEST_SKIP() << opened.error().message;
  device_ = *opened;
  if (told(*device_, "matrix_units") == "none")
    GTEST_SKIP() << device_->info().name << " has no matrix units that kernels are generated for";
  ASSERT_THAT(told(*device_, "library"), ::testing::StartsWith("none"));
}

Result<std::uint64_t> DeviceProducts::claim(const crucible_library_desc& desc) {
  std::uint64_t scratch = 0;
  CRUCIBLE_TRY_VOID(to_result(device_->backend().library_table().claim(device_->handle(), &desc, &scratch), "claim"));
  return scratch;
}

std::uint64_t DeviceProducts::check(const crucible_library_desc& desc, std::size_t shift, bool gives_scratch) {
  const std::uint32_t dtype = desc.views[0].dtype, result = desc.views[2].dtype;
  const std::uint64_t scratch = take(claim(desc));
  const std::vector<double> a = numbers(extent(desc.views[0]), 1), b = numbers(extent(desc.views[1]), 2);
  std::vector<double> c = numbers(extent(desc.views[2]) + 8, 3);
  const std::uint64_t moved = shift * size_of(dtype), moved_c = shift * size_of(result);
  const Buffer buffer_a = upload(device_, bytes_of(a, dtype), moved),
               buffer_b = upload(device_, bytes_of(b, dtype), moved);
  Buffer buffer_c = upload(device_, bytes_of(c, result), moved_c), copy = upload(device_, bytes_of(c, result), 0);
  const Buffer workspace = take(Buffer::allocate(device_, scratch + 1, 256));
  const bool has_bias = desc.epilogue != CRUCIBLE_EPILOGUE_NONE;
  const std::vector<double> bias = numbers(has_bias ? extent(desc.extra) : 0, 4);
  const Buffer buffer_bias = upload(device_, bytes_of(has_bias ? bias : a, dtype), moved);
  std::vector<std::uint64_t> product = {buffer_a.address() + moved, buffer_b.address() + moved,
                                        buffer_c.address() + moved_c};
  if (has_bias) product.push_back(buffer_bias.address() + moved);
  product.push_back(workspace.address());
  const std::vector<std::uint64_t> fill = {buffer_c.address() + moved_c + extent(desc.views[2]) * size_of(result)};
  const std::vector<std::uint64_t> both = {copy.address(), buffer_c.address() + moved_c};
  // Behind the view: nobody else may write there.
  std::vector<crucible_op> ops = {op_of(CRUCIBLE_OP_FILL, fill), op_of(CRUCIBLE_OP_LIBRARY, product),
                                  op_of(CRUCIBLE_OP_COPY, both)};
  ops[0].size = 8 * size_of(result);
  ops[1].library = &desc;
  ops[1].scratch_bytes = gives_scratch ? scratch : 0;
  ops[2].size = c.size() * size_of(result);
  for (std::size_t i = c.size() - 8; i < c.size(); ++i) c[i] = 0;
  const std::vector<double> expected = expected_of(desc, a, b, c, bias);
  Plan plan = take(Plan::build(device_, ops, 0));
  const double tolerance = result == kF64 ? 1e-12 : result == kF32 ? 1e-5 : result == kF16 ? 1e-3 : 8e-3;
  for (const char* how : {"plan", "plan again", "op by op"}) {  // an old result must not be added
    EXPECT_TRUE(copy.fill(0, ops[2].size, 0xff));
    if (std::string(how) == "op by op") {
      EXPECT_GT(take(plan.profile())[1], 0u);
    } else if (const auto replayed = plan.replay(); !replayed) {
      ADD_FAILURE() << replayed.error().message;
    }
    std::vector<std::byte> bytes(ops[2].size);
    EXPECT_TRUE(copy.read(0, bytes));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const double got = number_at(bytes, i, result);
      if (std::fabs(got - expected[i]) <= tolerance * (1 + std::fabs(expected[i]))) continue;
      ADD_FAILURE() << how << ": element " << i << " is " << got << ", expected " << expected[i];
      return scratch;
    }
  }
  return scratch;
}

namespace {

crucible_view matrix(std::int64_t rows, std::int64_t columns, bool swapped, std::uint32_t dtype = kF32) {
  return swapped ? view_of({rows, columns}, {1, rows}, 0, dtype) : view_of({rows, columns}, {columns, 1}, 0, dtype);
}

}  // namespace

TEST_P(DeviceProducts, EveryTranspositionOfEveryOperand) {
  for (const auto& [m, n, k] :
       std::vector<std::array<std::int64_t, 3>>{{3, 5, 7}, {1, 9, 4}, {8, 1, 5}, {4, 6, 1}, {1, 1, 1}, {33, 17, 64}}) {
    for (int swapped = 0; swapped < 8; ++swapped) {
      SCOPED_TRACE(::testing::Message() << m << "x" << n << "x" << k << " " << swapped);
      check(product_of(matrix(m, k, swapped & 1), matrix(k, n, swapped & 2), matrix(m, n, swapped & 4)));
    }
  }
}

TEST_P(DeviceProducts, EveryFloatingType) {
  for (const std::uint32_t dtype : {kF16, kBF16, kF32, kF64}) {
    for (int swapped = 0; swapped < 8; ++swapped) {
      SCOPED_TRACE(::testing::Message() << "type " << dtype << " " << swapped);
      check(product_of(matrix(12, 40, swapped & 1, dtype), matrix(40, 9, swapped & 2, dtype),
                       matrix(12, 9, swapped & 4, dtype), 0.5));
      // Not rounded yet: something is added to it before it is.
      if (dtype == kF16 || dtype == kBF16)
        check(product_of(matrix(12, 40, swapped & 1, dtype), matrix(40, 9, swapped & 2, dtype),
                         matrix(12, 9, swapped & 4), 0.5),
              1);
    }
  }
}

TEST_P(DeviceProducts, OffsetsPitchesAndAlpha) {
  check(product_of(view_of({5, 4}, {11, 1}, 3), view_of({4, 6}, {1, 9}, 7), view_of({5, 6}, {13, 1}, 2), 0.25));
  check(product_of(view_of({5, 4}, {1, 8}, 1), view_of({4, 6}, {6, 1}), view_of({5, 6}, {1, 17}, 5), -2));
  check(product_of(view_of({5, 4}, {1, 8}, 1, kF64), view_of({4, 6}, {6, 1}, 0, kF64),
                   view_of({5, 6}, {1, 17}, 5, kF64), 1.0 / 3));
}

TEST_P(DeviceProducts, BatchesOfAnyLayout) {
  check(product_of(view_of({3, 4, 5}, {20, 5, 1}), view_of({3, 5, 6}, {30, 6, 1}), view_of({3, 4, 6}, {24, 6, 1})));
  // Heads: [batch, head, token, width] views of a [batch, token, head, width] buffer, keys transposed.
  check(product_of(view_of({2, 3, 8, 4}, {96, 4, 12, 1}), view_of({2, 3, 4, 8}, {96, 4, 1, 12}),
                   view_of({2, 3, 8, 8}, {192, 64, 8, 1}), 0.5));
  // One weight for all: rows stack, also behind an outer batch that does not; one left operand for all.
  check(product_of(view_of({3, 4, 5}, {20, 5, 1}), view_of({3, 5, 6}, {0, 6, 1}), view_of({3, 4, 6}, {24, 6, 1})));
  check(product_of(view_of({2, 3, 4, 5}, {60, 20, 5, 1}), view_of({2, 3, 5, 6}, {30, 0, 6, 1}),
                   view_of({2, 3, 4, 6}, {72, 24, 6, 1})));
  check(product_of(view_of({3, 4, 5}, {0, 5, 1}), view_of({3, 5, 6}, {30, 6, 1}), view_of({3, 4, 6}, {24, 6, 1})));
}

namespace {

crucible_library_desc with_bias(crucible_library_desc desc, std::uint32_t epilogue, std::int64_t offset = 0) {
  desc.epilogue = epilogue;
  desc.extra = view_of({desc.views[2].sizes[desc.views[2].rank - 1]}, {1}, offset, desc.views[0].dtype);
  return desc;
}

constexpr std::uint32_t kEpilogues[] = {CRUCIBLE_EPILOGUE_BIAS, CRUCIBLE_EPILOGUE_BIAS_RELU,
                                        CRUCIBLE_EPILOGUE_BIAS_GELU};

}  // namespace

TEST_P(DeviceEpilogues, EveryOneOfEveryTypeAndTransposition) {
  for (const std::uint32_t dtype : {kF16, kBF16, kF32}) {
    for (const std::uint32_t epilogue : kEpilogues) {
      for (int swapped = 0; swapped < 4; ++swapped) {
        SCOPED_TRACE(::testing::Message() << "type " << dtype << ", epilogue " << epilogue << ", " << swapped);
        check(with_bias(product_of(matrix(12, 40, swapped & 1, dtype), matrix(40, 9, swapped & 2, dtype),
                                   matrix(12, 9, false, dtype), 0.5),
                        epilogue));
      }
    }
  }
}

TEST_P(DeviceEpilogues, OffsetsScratchBatchesAndWorsePlaces) {
  for (const std::uint32_t epilogue : kEpilogues) {
    SCOPED_TRACE(epilogue);
    check(with_bias(
        product_of(view_of({5, 4}, {11, 1}, 3), view_of({4, 6}, {1, 9}, 7), view_of({5, 6}, {13, 1}, 2), 0.25),
        epilogue, 3));
    check(with_bias(
        product_of(view_of({3, 4, 5}, {20, 5, 1}), view_of({3, 5, 6}, {30, 6, 1}), view_of({3, 4, 6}, {24, 6, 1})),
        epilogue));
    check(with_bias(product_of(view_of({2, 3, 8, 4}, {96, 4, 12, 1}), view_of({2, 3, 4, 8}, {96, 4, 1, 12}),
                               view_of({2, 3, 8, 8}, {192, 64, 8, 1})),
                    epilogue));
    const crucible_library_desc long_sums =
        with_bias(product_of(matrix(16, 300, false), matrix(300, 24, true), matrix(16, 24, false)), epilogue);
    check(long_sums);
    check(long_sums, 1);
    check(long_sums, 3, false);
  }
}

TEST_P(DeviceEpilogues, ABiasThatIsNotInItsBufferIsRefused) {
  const Buffer small = take(Buffer::allocate(device_, 4 * 63, 256)),
               large = take(Buffer::allocate(device_, 4 * 64 * 64, 256));
  const crucible_library_desc desc = with_bias(
      product_of(matrix(64, 64, false), matrix(64, 64, false), matrix(64, 64, false)), CRUCIBLE_EPILOGUE_BIAS);
  const std::vector<std::uint64_t> places = {large.address(), large.address(), large.address(), small.address()};
  crucible_op op = op_of(CRUCIBLE_OP_LIBRARY, places);
  op.library = &desc;
  const auto plan = Plan::build(device_, std::span(&op, 1), 0);
  ASSERT_FALSE(plan);
  EXPECT_THAT(plan.error().message, HasSubstr("256 bytes, where buffer 3 has 252 left"));
  op.buffer_count = 3;
  const auto none = Plan::build(device_, std::span(&op, 1), 0);
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, HasSubstr("it has 3 buffers and needs 4"));
}

TEST_P(DeviceEpilogues, WhatTheLibraryDoesNotHaveIsUnsupported) {
  const auto refused = [&](const crucible_library_desc& desc) {
    const auto answer = claim(desc);
    return answer ? "taken" : answer.error().message;
  };
  EXPECT_THAT(
      refused(with_bias(product_of(matrix(4, 5, false, kF64), matrix(5, 6, false, kF64), matrix(4, 6, false, kF64)),
                        CRUCIBLE_EPILOGUE_BIAS)),
      HasSubstr("has no algorithm for f64"));
  EXPECT_THAT(refused(with_bias(product_of(matrix(4, 5, false), matrix(5, 6, false), matrix(4, 6, true)),
                                CRUCIBLE_EPILOGUE_BIAS)),
              HasSubstr("a result that lies by columns"));
}

TEST_P(DeviceProducts, LongSumsUseTheScratchThatTheyAskedFor) {
  const crucible_library_desc desc = product_of(matrix(16, 300, false), matrix(300, 24, true), matrix(16, 24, false));
  const std::uint64_t scratch = check(desc);
  if (device_->info().emulated) {
    EXPECT_EQ(scratch, 16u * 24 * 8);  // the emulated libraries' own rule
  }
}

TEST_P(DeviceProducts, WorsePlacesAndLessScratchThanWereClaimedWorkToo) {
  const crucible_library_desc desc = product_of(matrix(16, 300, false), matrix(300, 24, true), matrix(16, 24, false));
  check(desc);
  check(desc, 1);
  check(desc, 0, false);
  check(desc, 3, false);
}

TEST_P(DeviceProducts, WhatIsNotTakenIsUnsupportedAndLeavesTheAnswerAlone) {
  const auto refused = claim(product_of(view_of({4, 5}, {10, 2}), matrix(5, 6, false), matrix(4, 6, false)));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("unit stride"));
}

TEST_P(DeviceMatrixProducts, EveryTranspositionAndType) {
  const std::vector<std::array<std::int64_t, 3>> sizes = {{16, 16, 16}, {64, 64, 32}, {17, 70, 33}, {129, 40, 100}};
  for (const std::uint32_t dtype : {kF16, kBF16}) {
    for (const auto& [m, n, k] : sizes) {
      for (int swapped = 0; swapped < 8; ++swapped) {
        SCOPED_TRACE(::testing::Message() << "type " << dtype << ", " << m << "x" << n << "x" << k << " " << swapped);
        check(product_of(matrix(m, k, swapped & 1, dtype), matrix(k, n, swapped & 2, dtype),
                         matrix(m, n, swapped & 4, dtype), 0.5));
        if (swapped % 3 == 0)
          check(product_of(matrix(m, k, swapped & 1, dtype), matrix(k, n, swapped & 2, dtype),
                           matrix(m, n, swapped & 4), 0.5));
      }
    }
  }
}

/// Places that no access of 16 bytes fits, by the buffers and by the views; and rows of which only the whole ones are
/// in the result.
TEST_P(DeviceMatrixProducts, PlacesPitchesAndAlpha) {
  const auto view = [](std::int64_t rows, std::int64_t columns, std::int64_t row, std::int64_t column,
                       std::int64_t offset) { return view_of({rows, columns}, {row, column}, offset, kBF16); };
  for (const std::size_t shift : {0u, 1u, 4u}) {
    SCOPED_TRACE(shift);
    check(product_of(view(20, 48, 48, 1, 0), view(48, 24, 24, 1, 0), view(20, 24, 24, 1, 0)), shift);
    check(product_of(view(20, 44, 51, 1, 3), view(44, 24, 1, 49, 7), view(20, 24, 33, 1, 2), 0.25), shift);
    check(product_of(view(20, 44, 1, 24, 8), view(44, 24, 32, 1, 16), view(20, 24, 1, 27, 5), -2), shift);
  }
}

TEST_P(DeviceMatrixProducts, BatchesOfAnyLayout) {
  const auto view = [](std::vector<std::int64_t> sizes, std::vector<std::int64_t> strides) {
    return view_of(std::move(sizes), std::move(strides), 0, kF16);
  };
  check(product_of(view({3, 20, 24}, {480, 24, 1}), view({3, 24, 16}, {384, 16, 1}), view({3, 20, 16}, {320, 16, 1})));
  // Heads: [batch, head, token, width] views of a [batch, token, head, width] buffer, keys transposed.
  check(product_of(view({2, 3, 24, 16}, {1152, 16, 48, 1}), view({2, 3, 16, 24}, {1152, 16, 1, 48}),
                   view({2, 3, 24, 24}, {1728, 576, 24, 1}), 0.25));
  check(product_of(view({3, 20, 24}, {0, 24, 1}), view({3, 24, 16}, {384, 16, 1}), view({3, 20, 16}, {320, 16, 1})));
}

/// More tiles of 128 than two for each multiprocessor, and sums over several turns.
TEST_P(DeviceMatrixProducts, LargeTiles) {
  check(product_of(view_of({140, 130, 40}, {5200, 40, 1}, 0, kBF16), view_of({140, 40, 72}, {2880, 1, 40}, 0, kBF16),
                   view_of({140, 130, 72}, {9360, 72, 1}, 0, kBF16)));
}

TEST_P(DeviceMatrixProducts, BiasesWithAndWithoutRelu) {
  for (const std::uint32_t epilogue : {CRUCIBLE_EPILOGUE_BIAS, CRUCIBLE_EPILOGUE_BIAS_RELU}) {
    for (const std::uint32_t dtype : {kF16, kBF16}) {
      SCOPED_TRACE(::testing::Message() << "type " << dtype << ", epilogue " << epilogue);
      check(with_bias(
          product_of(matrix(17, 33, dtype == kF16, dtype), matrix(33, 70, epilogue == CRUCIBLE_EPILOGUE_BIAS, dtype),
                     matrix(17, 70, false, dtype), 0.5),
          epilogue, 3));
      const auto view = [&](std::vector<std::int64_t> sizes, std::vector<std::int64_t> strides) {
        return view_of(std::move(sizes), std::move(strides), 0, dtype);
      };
      check(with_bias(product_of(view({2, 3, 24, 16}, {1152, 16, 48, 1}), view({2, 3, 16, 24}, {1152, 16, 1, 48}),
                                 view({2, 3, 24, 24}, {1728, 576, 24, 1})),
                      epilogue));
    }
  }
  const auto refused = claim(
      with_bias(product_of(matrix(64, 64, false, kBF16), matrix(64, 64, false, kBF16), matrix(64, 64, false, kBF16)),
                CRUCIBLE_EPILOGUE_BIAS_GELU));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("have the epilogues bias and bias with ReLU"));
}

TEST_P(DeviceMatrixProducts, WhatTheUnitsDoNotTakeIsUnsupportedWithBothReasons) {
  const auto refused = [&](std::int64_t m, std::int64_t n, std::int64_t k, std::uint32_t dtype) {
    const auto answer =
        claim(product_of(matrix(m, k, false, dtype), matrix(k, n, false, dtype), matrix(m, n, false, dtype)));
    return answer ? "taken" : answer.error().message;
  };
  EXPECT_THAT(refused(64, 64, 64, kF32),
              ::testing::AllOf(HasSubstr("there is no library of products"), HasSubstr("for f16 and bf16 alone")));
  EXPECT_THAT(refused(64, 64, 64, kF64), HasSubstr("for f16 and bf16 alone"));
  for (const auto& [m, n, k] : std::vector<std::array<std::int64_t, 3>>{{15, 64, 64}, {64, 15, 64}, {64, 64, 15}}) {
    EXPECT_THAT(refused(m, n, k, kBF16), HasSubstr("fewer than 16 rows, columns or steps"));
  }
  EXPECT_EQ(refused(16, 16, 16, kBF16), "taken");
}

TEST_P(DeviceProducts, AnOperandThatIsNotInItsBufferIsRefused) {
  const Buffer small = take(Buffer::allocate(device_, 4 * 64 * 64 - 4, 256)),
               large = take(Buffer::allocate(device_, 4 * 64 * 64, 256));
  const crucible_library_desc desc = product_of(matrix(64, 64, false), matrix(64, 64, false), matrix(64, 64, false));
  for (std::size_t place = 0; place < 3; ++place) {
    std::vector<std::uint64_t> places(3, large.address());
    places[place] = small.address();
    crucible_op op = op_of(CRUCIBLE_OP_LIBRARY, places);
    op.library = &desc;
    const auto plan = Plan::build(device_, std::span(&op, 1), 0);
    ASSERT_FALSE(plan);
    EXPECT_THAT(plan.error().message,
                HasSubstr("16384 bytes, where buffer " + std::to_string(place) + " has 16380 left"));
  }
}

std::string run_product_under_faults(const PluginUnderTest& plugin, const char* rules, std::int64_t k) {
  setenv("CRUCIBLE_EMU_FAULTS", rules, 1);
  const auto device = try_open(plugin);
  if (!device) return device.error().message;
  const crucible_library_desc desc = product_of(matrix(64, k, false), matrix(k, 64, false), matrix(64, 64, false));
  std::uint64_t scratch = 0;
  const auto claimed =
      to_result((*device)->backend().library_table().claim((*device)->handle(), &desc, &scratch), "claim");
  if (!claimed) return claimed.error().message;
  const std::vector<double> ones(static_cast<std::size_t>(64 * k), 1);
  const Buffer a = upload(*device, bytes_of(ones, kF32));
  Buffer c = take(Buffer::allocate(*device, 4 * 64 * 64, 256));
  const Buffer workspace = take(Buffer::allocate(*device, scratch + 1, 256));
  const std::vector<std::uint64_t> places = {a.address(), a.address(), c.address(), workspace.address()};
  crucible_op op = op_of(CRUCIBLE_OP_LIBRARY, places);
  op.library = &desc;
  op.scratch_bytes = scratch;
  auto plan = Plan::build(*device, std::span(&op, 1), 0);
  if (!plan) return plan.error().message;
  if (const auto replayed = plan->replay(); !replayed) return replayed.error().message;
  std::vector<std::byte> bytes(4 * 64 * 64);
  if (const auto read = c.read(0, bytes); !read) return read.error().message;
  for (std::size_t i = 0; i < 64 * 64; ++i) {
    if (number_at(bytes, i, kF32) != static_cast<double>(k)) return "wrong result";
  }
  return "";
}

}  // namespace crucible::backend
