// Matrix instructions on the emulated device, where each architecture has them, against products in double; the same
// texts are really compiled for that architecture.
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <random>

#include "tests/emulators/amd/testing.hpp"
#include "tests/emulators/core/product.hpp"

namespace crucible::emulator {
namespace {

using ::testing::HasSubstr;

enum class Element { kHalf, kBfloat, kByte, kUnsignedByte };

struct Instruction {
  const char* builtin;
  int size, k, lane_elements;  // rows and columns; of a lane's operand, all k for WMMA
  Element type;
  const char* operand;  // its type
  bool is_wmma() const { return std::strstr(builtin, "wmma") != nullptr; }
  int element_bytes() const { return type == Element::kHalf || type == Element::kBfloat ? 2 : 1; }
  bool is_float() const { return element_bytes() == 2; }
};

constexpr Instruction kF16 = {"mfma_f32_16x16x16f16", 16, 16, 4, Element::kHalf, "half4"},
                      kF16Large = {"mfma_f32_32x32x8f16", 32, 8, 4, Element::kHalf, "half4"},
                      kBf16 = {"mfma_f32_16x16x16bf16_1k", 16, 16, 4, Element::kBfloat, "short4"},
                      kBf16Large = {"mfma_f32_32x32x8bf16_1k", 32, 8, 4, Element::kBfloat, "short4"},
                      kI8 = {"mfma_i32_16x16x16i8", 16, 16, 4, Element::kByte, "int"},
                      kI8Large = {"mfma_i32_32x32x8i8", 32, 8, 4, Element::kByte, "int"},
                      kI8Wide = {"mfma_i32_16x16x32_i8", 16, 32, 8, Element::kByte, "long"},
                      kI8WideLarge = {"mfma_i32_32x32x16_i8", 32, 16, 8, Element::kByte, "long"},
                      kWaveF16 = {"wmma_f32_16x16x16_f16_w32", 16, 16, 16, Element::kHalf, "half16"},
                      kWaveBf16 = {"wmma_f32_16x16x16_bf16_w32", 16, 16, 16, Element::kBfloat, "short16"},
                      kWaveI8 = {"wmma_i32_16x16x16_iu8_w32", 16, 16, 16, Element::kByte, "int4v"},
                      kWaveU8 = {"wmma_i32_16x16x16_iu8_w32", 16, 16, 16, Element::kUnsignedByte, "int4v"};

struct Architecture {
  const char* name;
  std::vector<Instruction> has, lacks;
};

void PrintTo(const Architecture& architecture, std::ostream* out) { *out << architecture.name; }

/// Each lane's operands as AMD's manuals lay them out, from A by rows and B by columns. `reads` is the lane whose
/// operands it takes.
std::string text_of(const Instruction& instruction, const std::string& reads = "lane", const std::string& guard = "") {
  const std::string size = std::to_string(instruction.size), depth = std::to_string(instruction.k);
  const std::string elements = std::to_string(instruction.size * instruction.size / (instruction.is_wmma() ? 32 : 64));
  std::string operands = "a, b, c, 0, 0, 0";
  if (instruction.is_wmma()) {
    const std::string sign = instruction.type == Element::kUnsignedByte ? "false, " : "true, ";
    operands = instruction.is_float() ? "a, b, c" : sign + "a, true, b, c, false";
  }
  const std::string sum = instruction.is_float() ? "float" : "int";
  return R"(
    typedef _Float16 half4 __attribute__((ext_vector_type(4)));
    typedef _Float16 half16 __attribute__((ext_vector_type(16)));
    typedef short short4 __attribute__((ext_vector_type(4)));
    typedef short short16 __attribute__((ext_vector_type(16)));
    typedef int int4v __attribute__((ext_vector_type(4)));
    typedef )" +
         sum + " sums __attribute__((ext_vector_type(" + elements + R"()));
    extern "C" __global__ void product()" +
         sum + "* to, const char* a_all, const char* b_all, const " + sum + R"(* c_all) {
      const int wave = (blockIdx.x * blockDim.x + threadIdx.x) / warpSize, lane = threadIdx.x % warpSize;
      )" +
         guard + R"(
      const int reads = )" +
         reads + ", from = reads % " + size + " * " + depth + " + " +
         (instruction.is_wmma() ? "0" : std::to_string(instruction.lane_elements) + " * (reads / " + size + ")") + R"(;
      const )" +
         instruction.operand + " a = *(const " + instruction.operand + "*)(a_all + (wave * " + size + " * " + depth +
         " + from) * " + std::to_string(instruction.element_bytes()) + "), b = *(const " + instruction.operand +
         "*)(b_all + (wave * " + size + " * " + depth + " + from) * " + std::to_string(instruction.element_bytes()) +
         R"();
      sums c;
      #define PLACE(i) ()" +
         (instruction.is_wmma() ? "2 * (i) + lane / 16"
                                : "256 / " + size + " * ((i) / 4) + 4 * (lane / " + size + ") + (i) % 4") +
         ") * " + size + " + lane % " + size + R"(
      for (int i = 0; i < )" +
         elements + "; i++) c[i] = c_all[wave * " + size + " * " + size + R"( + PLACE(i)];
      c = __builtin_amdgcn_)" +
         instruction.builtin + "(" + operands + R"();
      for (int i = 0; i < )" +
         elements + "; i++) to[wave * " + size + " * " + size + R"( + PLACE(i)] = c[i];
    })";
}

class EmulatedHipMatrix : public HipTest {
 protected:
  static constexpr int kWaves = 6;
  using Bytes = std::vector<char>;

  void use(const std::string& architecture) {
    set("CRUCIBLE_EMU_ARCH", architecture);
    set("CRUCIBLE_EMU_CHECK_ARCH", architecture);
    wave_ = architecture == "gfx1100" ? 32 : 64;
  }
  static Bytes random_elements(const Instruction& instruction, unsigned seed) {
    std::mt19937 random(seed);
    const int count = kWaves * instruction.size * instruction.k;
    Bytes made(static_cast<std::size_t>(count * instruction.element_bytes()));
    for (int i = 0; i < count; ++i) {
      const std::uint32_t bits = static_cast<std::uint32_t>(random());
      if (instruction.is_float()) {
        write_element(format(instruction), made.data(), i,
                      std::ldexp(static_cast<double>(static_cast<std::int32_t>(bits)), -29));
      } else {
        made[static_cast<std::size_t>(i)] = static_cast<char>(bits);
      }
    }
    return made;
  }
  static ElementType format(const Instruction& instruction) {
    return instruction.type == Element::kHalf ? ElementType::kF16 : ElementType::kBF16;
  }
  static double value(const Instruction& instruction, bool is_a, const Bytes& bytes, int i) {
    if (instruction.is_float()) return read_element(format(instruction), bytes.data(), i);
    const char byte = bytes[static_cast<std::size_t>(i)];
    return is_a && instruction.type == Element::kUnsignedByte ? static_cast<double>(static_cast<unsigned char>(byte))
                                                              : static_cast<double>(static_cast<signed char>(byte));
  }

  template <class Sum>
  void expect_product(const Instruction& instruction) {
    SCOPED_TRACE(instruction.builtin);
    const Bytes a = random_elements(instruction, 1), b = random_elements(instruction, 2);
    const int size = instruction.size, k = instruction.k;
    std::vector<Sum> c(static_cast<std::size_t>(kWaves * size * size));
    for (std::size_t i = 0; i < c.size(); ++i)
      c[i] = static_cast<Sum>(static_cast<int>(i * 2654435761u >> 16) % 2000 - 1000) / 3;
    Sum* const to = allocate<Sum>(c.size());
    const auto threads = static_cast<unsigned>(kWaves / 2 * wave_);
    ASSERT_HIP_OK(launch(kernel(text_of(instruction), "product"), {.grid_x = 2, .block_x = threads}, to, upload(a),
                         upload(b), upload(c)));
    ASSERT_HIP_OK(hip().hipDeviceSynchronize());
    const std::vector<Sum> got = download(to, c.size());
    for (int i = 0; i < kWaves * size * size; ++i) {
      double sum = c[static_cast<std::size_t>(i)];
      const int row = i / size, column = i / (size * size) * size + i % size;
      for (int j = 0; j < k; ++j)
        sum += value(instruction, true, a, row * k + j) * value(instruction, false, b, column * k + j);
      // Of floats half a unit in the last place, and what the order of a sum in double is worth.
      const double limit = !instruction.is_float() ? 0
                           : sum == 0              ? 1e-12
                                                   : std::ldexp(1.0, std::ilogb(sum) - 24) + 1e-12;
      ASSERT_NEAR(got[static_cast<std::size_t>(i)], sum, limit) << "element " << i;
    }
  }

  /// One launch of a text that runs; how the device is then.
  hipError_t state_after(const std::string& text, unsigned threads) {
    EXPECT_HIP(launch(kernel(text, "product"), {.block_x = threads}, allocate<float>(4096), upload(Bytes(4096)),
                      upload(Bytes(4096)), allocate<float>(4096)));
    const hipError_t state = hip().hipDeviceSynchronize();
    hip().hipDeviceReset();
    return state;
  }
  int wave_ = 64;
};

class EmulatedHipMatrixOf : public EmulatedHipMatrix, public ::testing::WithParamInterface<Architecture> {};
INSTANTIATE_TEST_SUITE_P(
    Architectures, EmulatedHipMatrixOf,
    ::testing::Values(
        Architecture{"gfx90a", {kF16, kF16Large, kBf16, kBf16Large, kI8, kI8Large}, {kI8Wide, kI8WideLarge, kWaveF16}},
        Architecture{"gfx942", {kF16, kF16Large, kBf16, kBf16Large, kI8Wide, kI8WideLarge}, {kI8, kI8Large, kWaveI8}},
        Architecture{"gfx1100", {kWaveF16, kWaveBf16, kWaveI8, kWaveU8}, {kF16, kBf16Large, kI8Wide}}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_P(EmulatedHipMatrixOf, ProductsAreRoundedOnce) {
  use(GetParam().name);
  for (const Instruction& instruction : GetParam().has) {
    if (instruction.is_float()) {
      expect_product<float>(instruction);
    } else {
      expect_product<int>(instruction);
    }
  }
}

TEST_P(EmulatedHipMatrixOf, WhatTheArchitectureLacksIsRefusedByName) {
  use(GetParam().name);
  set("CRUCIBLE_EMU_CHECK_ARCH", "");
  for (const Instruction& instruction : GetParam().lacks) {
    compile(text_of(instruction));
    EXPECT_EQ(result_, HIPRTC_ERROR_COMPILATION) << instruction.builtin;
    EXPECT_THAT(words_, HasSubstr(std::string("'__builtin_amdgcn_") + instruction.builtin + "' is unavailable: "));
  }
}

TEST_F(EmulatedHipMatrix, AnArchitectureWithoutMatrixUnitsHasNone) {
  use("gfx1030");
  for (const Instruction& instruction : {kF16, kWaveF16}) {
    compile(text_of(instruction));
    EXPECT_EQ(result_, HIPRTC_ERROR_COMPILATION);
    EXPECT_THAT(words_, HasSubstr("needs target feature"));
  }
}

TEST_F(EmulatedHipMatrix, AWaveThatIsNotWholeTraps) {
  use("gfx90a");
  EXPECT_HIP(state_after(text_of(kF16), 128));
  EXPECT_HIP_ERROR(state_after(text_of(kF16), 96), hipErrorLaunchFailure) << "half a wave";
  EXPECT_HIP_ERROR(state_after(text_of(kF16, "lane", "if (lane == 5) return;"), 64), hipErrorLaunchFailure)
      << "a lane has ended";
}

TEST_F(EmulatedHipMatrix, HalvesOfAWaveThatHaveOtherRowsTrap) {
  use("gfx1100");
  const std::string distinct = "for (int i = 0; i < 2048; i++) ((char*)a_all)[i] = i / 7;";
  EXPECT_HIP(state_after(text_of(kWaveI8, "lane", distinct), 32));
  EXPECT_HIP_ERROR(state_after(text_of(kWaveI8, "lane < 16 ? lane : 47 - lane", distinct), 32), hipErrorLaunchFailure);
}

TEST_F(EmulatedHipMatrix, SumsOfBytesWrapUnlessTheyAreClamped) {
  use("gfx1100");
  for (const bool clamps : {false, true}) {
    const std::string text = std::string(R"(
      typedef int int4v __attribute__((ext_vector_type(4)));
      typedef int int8v __attribute__((ext_vector_type(8)));
      extern "C" __global__ void clamped(int* to) {
        const int4v ones = 0x01010101;
        const int8v sums = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(true, ones, false, ones, (int8v)0x7fffffff, )") +
                             (clamps ? "true" : "false") + R"();
        to[threadIdx.x] = sums[7];
      })";
    int* const to = allocate<int>(32);
    ASSERT_HIP_OK(launch(kernel(text, "clamped"), {.block_x = 32}, to));
    EXPECT_EQ(download(to, 32), std::vector<int>(32, clamps ? 0x7fffffff : static_cast<int>(0x7fffffffu + 16)));
  }
}

TEST_F(EmulatedHipMatrix, BroadcastsOfBlocksAreRefused) {
  use("gfx90a");
  std::string text = text_of(kF16);
  text.replace(text.find("a, b, c, 0, 0, 0"), 16, "a, b, c, 1, 0, 0");
  compile(text);
  EXPECT_EQ(result_, HIPRTC_ERROR_COMPILATION);
  EXPECT_THAT(words_, HasSubstr("cbsz, abid and blgp have to be 0"));
}

}  // namespace
}  // namespace crucible::emulator
