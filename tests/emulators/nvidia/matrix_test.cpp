// Matrix instructions, the loads that bring their operands, and asynchronous copies: kernels by NVIDIA's real compiler
// with inline PTX, against products in double.
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <random>

#include "tests/emulators/core/product.hpp"
#include "tests/emulators/nvidia/testing/cuda_session.hpp"

namespace crucible::emulators::nvidia::testing {
namespace {

using ::testing::HasSubstr;

enum class Element { kF16, kBf16, kTf32, kS8, kU8, kF32, kS32 };

std::size_t bytes_of(Element type) {
  if (type == Element::kF16 || type == Element::kBf16) return 2;
  return type == Element::kS8 || type == Element::kU8 ? 1 : 4;
}

template <typename T>
T bits_at(const std::vector<std::uint32_t>& words, std::size_t i) {
  T bits = {};
  std::memcpy(&bits, reinterpret_cast<const char*>(words.data()) + i * sizeof(T), sizeof(T));
  return bits;
}

double value_of(Element type, const std::vector<std::uint32_t>& words, std::size_t i) {
  const auto as_float = [](std::uint32_t bits) {
    float x = 0;
    std::memcpy(&x, &bits, 4);
    return double{x};
  };
  switch (type) {
    case Element::kF16:
      return emulator::read_element(emulator::ElementType::kF16, reinterpret_cast<const char*>(words.data()),
                                    static_cast<std::int64_t>(i));
    case Element::kBf16:
      return emulator::read_element(emulator::ElementType::kBF16, reinterpret_cast<const char*>(words.data()),
                                    static_cast<std::int64_t>(i));
    case Element::kTf32:
      return as_float(words[i] & ~0x1fffu);  // the lowest bits are not looked at
    case Element::kF32:
      return as_float(words[i]);
    case Element::kS8:
      return bits_at<std::int8_t>(words, i);
    case Element::kU8:
      return bits_at<std::uint8_t>(words, i);
    case Element::kS32:
      return bits_at<std::int32_t>(words, i);
  }
  return 0;
}

/// Elements of both signs, from about 2^-4 to 2^4; integers over the whole range, those of 32 bits over a part of it.
std::vector<std::uint32_t> random_elements(Element type, std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::uint32_t> words((count * bytes_of(type) + 3) / 4);
  for (std::uint32_t& word : words) {
    const std::uint32_t x = static_cast<std::uint32_t>(random()), low = x & 0xffff, high = x >> 16;
    const auto half = [](std::uint32_t bits) { return (bits & 0x83ff) | (11 + (bits >> 10) % 8) << 10; };
    const auto bfloat = [](std::uint32_t bits) { return (bits & 0x807f) | (123 + (bits >> 7) % 8) << 7; };
    word = x;
    if (type == Element::kF16) word = half(low) | half(high) << 16;
    if (type == Element::kBf16) word = bfloat(low) | bfloat(high) << 16;
    if (type == Element::kTf32 || type == Element::kF32) word = bfloat(high) << 16 | low;
    if (type == Element::kS32) word = static_cast<std::uint32_t>(static_cast<std::int32_t>(x) >> 8);
  }
  return words;
}

struct Product {
  const char* modifiers;
  std::size_t k;
  Element a, b, c;
};

/// Registers of lanes as PTX's manual lays them out, read from A by rows and B by columns, word by word.
std::string kernel_of(const Product& product) {
  const std::size_t words = product.k * bytes_of(product.a) / 4, a = words / 2, b = words / 4, c = bytes_of(product.c);
  const auto list = [](std::size_t first, std::size_t count) {
    std::string text;
    for (std::size_t i = 0; i < count; ++i) text += (i == 0 ? "%" : ", %") + std::to_string(first + i);
    return "{" + text + "}";
  };
  const auto inputs = [](const char* name, std::size_t count) {
    std::string text;
    for (std::size_t i = 0; i < count; ++i)
      text += std::string(text.empty() ? "" : ", ") + "\"r\"(" + name + "[" + std::to_string(i) + "])";
    return text;
  };
  std::string outputs;
  for (std::size_t i = 0; i < c; ++i) outputs += (i == 0 ? "\"=r\"(d[" : ", \"=r\"(d[") + std::to_string(i) + "])";
  return "enum { W = " + std::to_string(words) + ", NA = " + std::to_string(a) + ", NB = " + std::to_string(b) +
         ", NC = " + std::to_string(c) + R"( };
    extern "C" __global__ void product(unsigned* to, const unsigned* a_all, const unsigned* b_all, const unsigned* c_all) {
      unsigned warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4, a[NA], b[NB], c[4], d[4];
      const unsigned *pa = a_all + warp * 16 * W, *pb = b_all + warp * 8 * W, *pc = c_all + warp * 32 * NC;
      for (int r = 0; r < NA; r++) a[r] = pa[(g + 8 * (r & 1)) * W + 4 * (r >> 1) + t];
      for (int r = 0; r < NB; r++) b[r] = pb[g * W + 4 * r + t];
      for (int r = 0; r < NC; r++) c[r] = NC == 2 ? pc[(g + 8 * r) * 4 + t] : pc[(g + 8 * (r >> 1)) * 8 + 2 * t + (r & 1)];
      asm volatile("mma.sync.aligned.)" +
         product.modifiers + " " + list(0, c) + ", " + list(c, a) + ", " + list(c + a, b) + ", " + list(c + a + b, c) +
         ";\" : " + outputs + " : " + inputs("a", a) + ", " + inputs("b", b) + ", " + inputs("c", c) + R"();
      unsigned* pd = to + warp * 32 * NC;
      for (int r = 0; r < NC; r++) (NC == 2 ? pd[(g + 8 * r) * 4 + t] : pd[(g + 8 * (r >> 1)) * 8 + 2 * t + (r & 1)]) = d[r];
    })";
}

class EmulatedCudaMatrix : public CudaSession {
 protected:
  static constexpr std::size_t kWarps = 6;
  /// What six warps compute, with what they computed it from.
  struct Run {
    std::vector<std::uint32_t> a, b, c, d;
  };
  Run run_product(const Product& product) {
    Run made = {random_elements(product.a, kWarps * 16 * product.k, 1),
                random_elements(product.b, kWarps * 8 * product.k, 2),
                random_elements(product.c, kWarps * 128, 3),
                {}};
    const CUdeviceptr to = allocate(made.c.size() * 4);
    const CUfunction kernel = function(load(compile_cuda(kernel_of(product))), "product");
    EXPECT_CUDA(CUDA_SUCCESS,
                run(kernel, {.grid_x = 2, .block_x = 96}, to, upload(made.a), upload(made.b), upload(made.c)));
    made.d = download<std::uint32_t>(to, made.c.size());
    return made;
  }
  static double wanted(const Product& product, const Run& run, std::size_t warp, std::size_t row, std::size_t column) {
    double sum = value_of(product.c, run.c, warp * 128 + row * 8 + column);
    for (std::size_t k = 0; k < product.k; ++k) {
      sum += value_of(product.a, run.a, (warp * 16 + row) * product.k + k) *
             value_of(product.b, run.b, (warp * 8 + column) * product.k + k);
    }
    return sum;
  }
  /// Each element is the sum rounded once, to `bits` of a significand.
  void expect_rounded_once(const Product& product, int bits) {
    SCOPED_TRACE(product.modifiers);
    const Run run = run_product(product);
    for (std::size_t i = 0; i < kWarps * 128; ++i) {
      const double sum = wanted(product, run, i / 128, i / 8 % 16, i % 8);
      // Half a unit in the last place, and what the order of a sum in double is worth.
      const double limit = sum == 0 ? 1e-12 : std::ldexp(1.0, std::max(std::ilogb(sum), -14) - bits) + 1e-12;
      ASSERT_NEAR(value_of(product.c, run.d, i), sum, limit) << "element " << i;
    }
  }
  void expect_exact(const Product& product) {
    SCOPED_TRACE(product.modifiers);
    const Run run = run_product(product);
    for (std::size_t i = 0; i < kWarps * 128; ++i) {
      ASSERT_EQ(value_of(product.c, run.d, i), wanted(product, run, i / 128, i / 8 % 16, i % 8)) << "element " << i;
    }
  }
  CUresult run_text(const std::string& body, unsigned threads) {
    const std::string text =
        "extern \"C\" __global__ void k(unsigned* p) { unsigned i = threadIdx.x, d[4], a = p[0]; " + body + " }";
    return run(function(load(compile_cuda(text)), "k"), {.block_x = threads}, upload(std::vector<unsigned>(1024)));
  }
};

TEST_F(EmulatedCudaMatrix, ProductsOfFloatsAreRoundedOnce) {
  expect_rounded_once({"m16n8k16.row.col.f32.f16.f16.f32", 16, Element::kF16, Element::kF16, Element::kF32}, 24);
  expect_rounded_once({"m16n8k16.row.col.f32.bf16.bf16.f32", 16, Element::kBf16, Element::kBf16, Element::kF32}, 24);
  expect_rounded_once({"m16n8k8.row.col.f32.f16.f16.f32", 8, Element::kF16, Element::kF16, Element::kF32}, 24);
  expect_rounded_once({"m16n8k8.row.col.f32.bf16.bf16.f32", 8, Element::kBf16, Element::kBf16, Element::kF32}, 24);
  expect_rounded_once({"m16n8k8.row.col.f32.tf32.tf32.f32", 8, Element::kTf32, Element::kTf32, Element::kF32}, 24);
  expect_rounded_once({"m16n8k4.row.col.f32.tf32.tf32.f32", 4, Element::kTf32, Element::kTf32, Element::kF32}, 24);
  expect_rounded_once({"m16n8k16.row.col.f16.f16.f16.f16", 16, Element::kF16, Element::kF16, Element::kF16}, 11);
  expect_rounded_once({"m16n8k8.row.col.f16.f16.f16.f16", 8, Element::kF16, Element::kF16, Element::kF16}, 11);
}

TEST_F(EmulatedCudaMatrix, ProductsOfIntegersAreExact) {
  const std::pair<const char*, Element> types[] = {{"s8", Element::kS8}, {"u8", Element::kU8}};
  for (const auto& [a, type_a] : types) {
    for (const auto& [b, type_b] : types) {
      const std::string types_of = std::string(".s32.") + a + "." + b + ".s32";
      expect_exact({("m16n8k32.row.col" + types_of).c_str(), 32, type_a, type_b, Element::kS32});
      expect_exact({("m16n8k16.row.col.satfinite" + types_of).c_str(), 16, type_a, type_b, Element::kS32});
    }
  }
}

TEST_F(EmulatedCudaMatrix, SumsOfIntegersWrapUnlessTheySaturate) {
  for (const bool saturates : {false, true}) {
    const std::string text = std::string(R"(extern "C" __global__ void k(int* p) {
      int d[4], most = 0x7fffffff, ones = 0x01010101;
      asm volatile("mma.sync.aligned.m16n8k32.row.col)") +
                             (saturates ? ".satfinite" : "") +
                             R"(.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%4,%4,%4}, {%4,%4}, {%5,%5,%5,%5};"
        : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(ones), "r"(most));
      p[threadIdx.x] = d[3]; })";
    const CUdeviceptr p = allocate(32 * 4);
    EXPECT_CUDA(CUDA_SUCCESS, run(function(load(compile_cuda(text)), "k"), {.block_x = 32}, p));
    EXPECT_EQ(download<int>(p, 1)[0], saturates ? 0x7fffffff : static_cast<int>(0x7fffffffu + 32u));
  }
}

/// Rows of 64 halves through two stages of shared memory, each copied while the other is used; A by rows, B by rows, so
/// that B is transposed on the way.
std::string staged_product(const std::string& wait) {
  return R"(extern "C" __global__ void staged(float* to, const unsigned short* a, const unsigned short* b) {
      __shared__ __align__(16) unsigned short as[2][16][24], bs[2][16][8];
      int lane = threadIdx.x, g = lane / 4, t = lane % 4;
      float d[4] = {0, 0, 0, 0};
      auto copy = [&](int s) {
        unsigned pa = __cvta_generic_to_shared(&as[s & 1][lane / 2][lane % 2 * 8]), pb = __cvta_generic_to_shared(&bs[s & 1][lane % 16][0]);
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(pa), "l"(a + lane / 2 * 64 + s * 16 + lane % 2 * 8));
        if (lane < 16) asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" :: "r"(pb), "l"(b + (s * 16 + lane) * 8));
        asm volatile("cp.async.commit_group;");
      };
      copy(0);
      for (int s = 0; s < 4; s++) {
        if (s + 1 < 4) { copy(s + 1); )" +
         wait + R"( } else { asm volatile("cp.async.wait_all;"); }
        __syncwarp();
        unsigned x[4], y[2];
        unsigned pa = __cvta_generic_to_shared(&as[s & 1][lane % 16][lane / 16 * 8]), pb = __cvta_generic_to_shared(&bs[s & 1][lane % 16][0]);
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(pa));
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];" : "=r"(y[0]), "=r"(y[1]) : "r"(pb));
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
          : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
        __syncwarp();
      }
      for (int r = 0; r < 4; r++) to[(g + 8 * (r >> 1)) * 8 + 2 * t + (r & 1)] = d[r];
    })";
}

TEST_F(EmulatedCudaMatrix, StagesOfAsynchronousCopiesFeedAProduct) {
  const auto a = random_elements(Element::kF16, 16 * 64, 5), b = random_elements(Element::kF16, 64 * 8, 6);
  for (const bool waits : {true, false}) {
    const CUfunction kernel = function(
        load(compile_cuda(staged_product(waits ? "asm volatile(\"cp.async.wait_group 1;\");" : ""))), "staged");
    const CUdeviceptr to = allocate(128 * 4);
    EXPECT_CUDA(CUDA_SUCCESS, run(kernel, {.block_x = 32}, to, upload(a), upload(b)));
    const auto got = download<float>(to, 128);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < 128; ++i) {
      double sum = 0;
      for (std::size_t k = 0; k < 64; ++k)
        sum += value_of(Element::kF16, a, i / 8 * 64 + k) * value_of(Element::kF16, b, k * 8 + i % 8);
      wrong += !(std::fabs(got[i] - sum) <= 1e-5 * (1 + std::fabs(sum)));
    }
    EXPECT_EQ(wrong, waits ? 0u : 128u) << (waits ? "" : "what is not waited for has not come");
  }
}

TEST_F(EmulatedCudaMatrix, EachShapeOfLdmatrix) {
  std::string body;
  for (const auto& [count, trans] : {std::pair(1, false), {1, true}, {2, false}, {2, true}, {4, false}, {4, true}}) {
    body += "{ unsigned d[4] = {}; asm volatile(\"ldmatrix.sync.aligned.m8n8.x" + std::to_string(count) +
            (trans ? ".trans" : "") + ".shared.b16 {";
    for (int i = 0; i < count; ++i) body += (i == 0 ? "%" : ", %") + std::to_string(i);
    body += "}, [%" + std::to_string(count) + "];\" : ";
    for (int i = 0; i < count; ++i) body += (i == 0 ? "\"=r\"(d[" : ", \"=r\"(d[") + std::to_string(i) + "])";
    // Lanes whose address is not asked for give one that is none.
    body += " : \"r\"(l < " + std::to_string(8 * count) +
            " ? row : ~0u)); for (int i = 0; i < 4; i++) to[l * 4 + i] = d[i]; to += 128; }\n";
  }
  const CUfunction kernel = function(load(compile_cuda(R"(extern "C" __global__ void k(unsigned* to) {
      __shared__ __align__(16) unsigned short s[32][8];
      unsigned l = threadIdx.x, row = __cvta_generic_to_shared(s[l]);
      for (int i = 0; i < 8; i++) s[l][i] = l * 8 + i;
      __syncwarp();
  )" + body + "}")), "k");
  const CUdeviceptr to = allocate(6 * 128 * 4);
  EXPECT_CUDA(CUDA_SUCCESS, run(kernel, {.block_x = 32}, to));
  const auto got = download<unsigned>(to, 6 * 128);
  for (unsigned shape = 0; shape < 6; ++shape) {
    for (unsigned i = 0; i < 128; ++i) {
      const unsigned lane = i / 4, matrix = i % 4, row = lane / 4, column = lane % 4 * 2, count = 1u << shape / 2;
      const unsigned low = shape % 2 == 0 ? row * 8 + column : column * 8 + row,
                     high = shape % 2 == 0 ? low + 1 : low + 8;
      const unsigned wanted = matrix >= count ? 0 : (matrix * 64 + low) | (matrix * 64 + high) << 16;
      ASSERT_EQ(got[shape * 128 + i], wanted) << "shape " << shape << ", lane " << lane << ", register " << matrix;
    }
  }
}

TEST_F(EmulatedCudaMatrix, CopiesOfEachSizeAndZerosBehindTheSource) {
  const CUfunction kernel = function(load(compile_cuda(R"(extern "C" __global__ void k(unsigned* p) {
      __shared__ __align__(16) unsigned s[12];
      for (int i = 0; i < 12; i++) s[i] = 7;
      unsigned at = __cvta_generic_to_shared(s);
      asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(at), "l"(p));
      asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" :: "r"(at + 8), "l"(p + 2));
      asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" :: "r"(at + 16), "l"(p + 4), "r"(6));
      asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" :: "r"(at + 32), "l"(p + 8), "r"(0));
      asm volatile("cp.async.wait_all;");
      for (int i = 0; i < 12; i++) p[16 + i] = s[i];
    })")), "k");
  std::vector<unsigned> values(28);
  for (unsigned i = 0; i < 16; ++i) values[i] = 0x01010101u * (i + 1);
  const CUdeviceptr p = upload(values);
  EXPECT_CUDA(CUDA_SUCCESS, run(kernel, {.block_x = 1}, p));
  const auto got = download<unsigned>(p, 28);
  EXPECT_EQ(std::vector<unsigned>(got.begin() + 16, got.end()),
            (std::vector<unsigned>{0x01010101, 7, 0x03030303, 0x04040404, 0x05050505, 0x0606, 0, 0, 0, 0, 7, 7}));
}

TEST_F(EmulatedCudaMatrix, MoreCopiesThanAreKeptStillArriveInOrder) {
  const CUfunction kernel = function(load(compile_cuda(R"(extern "C" __global__ void k(unsigned* p) {
      __shared__ unsigned s[100];
      for (int i = 0; i < 100; i++) {
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"((unsigned)__cvta_generic_to_shared(s + i)), "l"(p + i));
        asm volatile("cp.async.commit_group;");
      }
      asm volatile("cp.async.wait_group 3;");
      for (int i = 0; i < 100; i++) p[i] = s[i] + 1;
    })")),
                                     "k");
  const CUdeviceptr p = upload(std::vector<unsigned>(100, 5));
  EXPECT_CUDA(CUDA_SUCCESS, run(kernel, {.block_x = 1}, p));
  std::vector<unsigned> wanted(97, 6);
  wanted.insert(wanted.end(), 3, 0xcdcdcdceu);  // fresh shared memory
  EXPECT_EQ(download<unsigned>(p, 100), wanted);
}

const std::string kProduct =
    R"(asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%4}, {%4}, {%4,%4,%4,%4};"
  : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(a)); p[i] = d[0];)";

TEST_F(EmulatedCudaMatrix, AWarpThatIsNotWholeNeverMeets) {
  EXPECT_CUDA(CUDA_SUCCESS, run_text(kProduct, 64));
  EXPECT_CUDA(CUDA_ERROR_LAUNCH_TIMEOUT, run_text(kProduct, 48)) << "half a warp";
  cuDevicePrimaryCtxReset(0);
  EXPECT_CUDA(CUDA_ERROR_LAUNCH_TIMEOUT, run_text("if (i == 5) return; " + kProduct, 32)) << "a lane has ended";
  cuDevicePrimaryCtxReset(0);
  EXPECT_CUDA(CUDA_ERROR_LAUNCH_TIMEOUT, run_text("if (i == 5) __syncthreads(); " + kProduct, 32))
      << "a lane waits elsewhere";
  cuDevicePrimaryCtxReset(0);
  EXPECT_CUDA(CUDA_ERROR_LAUNCH_TIMEOUT,
              run_text("if (i < 16) { " + kProduct + " } else { a += 1; " + kProduct + " }", 32))
      << "two instructions";
}

TEST_F(EmulatedCudaMatrix, AddressesThatAreNotAlignedFault) {
  const std::string text =
      "__shared__ __align__(16) unsigned s[128]; unsigned at = __cvta_generic_to_shared(s + i % 8 * 4)";
  const std::string matrix =
      R"(asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(d[0]) : "r"(at)); p[i] = d[0];)";
  EXPECT_CUDA(CUDA_SUCCESS, run_text(text + "; " + matrix, 32));
  EXPECT_CUDA(CUDA_ERROR_ILLEGAL_ADDRESS, run_text(text + " + 4; " + matrix, 32));
  cuDevicePrimaryCtxReset(0);
  const std::string copy =
      R"(asm volatile("cp.async.cg.shared.global [%0], [%1], 16; cp.async.wait_all;" :: "r"(at), "l"(p + 1));)";
  EXPECT_CUDA(CUDA_ERROR_ILLEGAL_ADDRESS, run_text(text + "; " + copy, 32));
  for (const char* access : {"ld.global.v4.u32 {%0,%0,%0,%0}, [%1];", "ld.global.v2.u32 {%0,%0}, [%1];",
                             "st.global.v4.u32 [%1], {%0,%0,%0,%0};"}) {
    cuDevicePrimaryCtxReset(0);
    const std::string body =
        std::string("asm volatile(\"") + access + "\" : \"+r\"(a) : \"l\"(p + SHIFT) : \"memory\"); p[i] = a;";
    const auto shifted = [&](const char* by) { return std::string(body).replace(body.find("SHIFT"), 5, by); };
    EXPECT_CUDA(CUDA_SUCCESS, run_text(shifted("4"), 32)) << access;
    EXPECT_CUDA(CUDA_ERROR_ILLEGAL_ADDRESS, run_text(shifted("5"), 32)) << access;
  }
}

TEST_F(EmulatedCudaMatrix, WhatIsNotThereIsRefusedByName) {
  const std::pair<const char*, const char*> lines[] = {
      {"mma.sync.aligned.m16n8k16.row.col.f32.f16.bf16.f32 {%r1,%r1,%r1,%r1}, {%r1,%r1,%r1,%r1}, {%r1,%r1}, "
       "{%r1,%r1,%r1,%r1};",
       "no instruction mma.sync.aligned.m16n8k16.row.col.f32.f16.bf16.f32"},
      {"mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%r1,%r1,%r1,%r1}, {%r1,%r1,%r1,%r1}, {%r1,%r1}, "
       "{%r1,%r1,%r1,%r1};",
       "no instruction mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32"},
      {"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r1,%r1,%r1,%r1}, {%r1,%r1}, {%r1,%r1}, {%r1,%r1,%r1,%r1};",
       "operand 2 has 2 registers, not 4"},
      {"ldmatrix.sync.aligned.m8n8.x3.shared.b16 {%r1,%r1,%r1}, [%r1];",
       "no instruction ldmatrix.sync.aligned.m8n8.x3.shared.b16"},
      {"cp.async.cg.shared.global [%r1], [%d1], 8;", "cp.async.cg.shared.global copies 16 bytes, not 8"},
      {"cp.async.ca.shared.global [%r1], [%d1], 12;", "cp.async.ca.shared.global copies 4, 8 or 16 bytes, not 12"},
      {"wmma.load.a.sync.aligned.row.m16n16k16.f16 {%r1}, [%d1];",
       "no instruction wmma.load.a.sync.aligned.row.m16n16k16.f16"},
  };
  for (const auto& [line, said] : lines) {
    CUmodule module = nullptr;
    std::string log;
    const std::string ptx = std::string(
                                ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k()\n{\n.reg .b32 "
                                "%r<2>; .reg .b64 %d<2>;\n") +
                            line + "\nret;\n}\n";
    EXPECT_CUDA(CUDA_ERROR_INVALID_PTX, load(ptx, &module, &log)) << line;
    EXPECT_THAT(log, HasSubstr(said));
  }
}

}  // namespace
}  // namespace crucible::emulators::nvidia::testing
