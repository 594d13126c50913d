// The text of a matrix kernel: see matrix_product.hpp. A block has a tile of the result, its waves parts of that. Each
// turn the block takes 32 steps of both operands: from memory into registers while it multiplies those of the turn
// before, then into the half of shared memory that nobody reads any more, where steps lie side by side whatever the
// operand's layout is. What lies outside of the operands counts as zero.
#include <string>
#include <string_view>

#include "plugins/sdk/error.hpp"
#include "plugins/sdk/matrix_product.hpp"

namespace crucible::sdk {
namespace {

/// What one unit's text knows: kernels are otherwise the same.
struct UnitText {
  std::string_view lanes, columns, elements;  // of a wave; of one instruction's result, and how many of them a lane has
  std::string_view meet;                      // what a block's threads meet at
  bool shares_multiprocessor = false;         // registers are kept to what several blocks need
  std::string_view functions;
};

// Fragments as NVIDIA's manual of PTX has them for m16n8k16, loaded by ldmatrix.
constexpr UnitText kMma = {"32", "8", "4", "__syncthreads()", true, R"(
struct Left { unsigned r[4]; };
struct Right { unsigned r[2]; };
struct Sums { float r[4]; };
CRUCIBLE_FN void load_left(Left& to, const uint16_t* from, int lane) {
  const unsigned at = (unsigned)__cvta_generic_to_shared(from + lane % 16 * kPitch + lane / 16 * 8);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to.r[0]), "=r"(to.r[1]), "=r"(to.r[2]), "=r"(to.r[3]) : "r"(at) : "memory");
}
CRUCIBLE_FN void load_right(Right& to, const uint16_t* from, int lane) {
  const unsigned at = (unsigned)__cvta_generic_to_shared(from + lane % 8 * kPitch + lane / 8 % 2 * 8);
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(to.r[0]), "=r"(to.r[1]) : "r"(at) : "memory");
}
CRUCIBLE_FN void multiply_add(Sums& sums, const Left& left, const Right& right) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." CRUCIBLE_TYPE "." CRUCIBLE_TYPE ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(sums.r[0]), "+f"(sums.r[1]), "+f"(sums.r[2]), "+f"(sums.r[3])
               : "r"(left.r[0]), "r"(left.r[1]), "r"(left.r[2]), "r"(left.r[3]), "r"(right.r[0]), "r"(right.r[1]));
}
CRUCIBLE_FN int row_of(int element, int lane) { return lane / 4 + element / 2 * 8; }
CRUCIBLE_FN int column_of(int element, int lane) { return lane % 4 * 2 + element % 2; }
)"};

constexpr std::string_view kAmdMeet =
    "__builtin_amdgcn_fence(__ATOMIC_RELEASE, \"workgroup\"); __builtin_amdgcn_s_barrier(); "
    "__builtin_amdgcn_fence(__ATOMIC_ACQUIRE, \"workgroup\")";

// Fragments as AMD's manuals of CDNA have them for 16x16x16: four steps for each lane, a result of four rows.
constexpr UnitText kMfma = {"64", "16", "4", kAmdMeet, false, R"(
#if CRUCIBLE_IS_BF16
typedef short CrucibleSteps __attribute__((ext_vector_type(4)));
#define CRUCIBLE_MFMA __builtin_amdgcn_mfma_f32_16x16x16bf16_1k
#else
typedef _Float16 CrucibleSteps __attribute__((ext_vector_type(4)));
#define CRUCIBLE_MFMA __builtin_amdgcn_mfma_f32_16x16x16f16
#endif
typedef float CrucibleSums __attribute__((ext_vector_type(4)));
struct Left { CrucibleSteps r; };
typedef Left Right;
struct Sums { CrucibleSums r; };
CRUCIBLE_FN void load_left(Left& to, const uint16_t* from, int lane) {
  to.r = *(const CrucibleSteps*)(from + lane % 16 * kPitch + lane / 16 * 4);
}
CRUCIBLE_FN void load_right(Right& to, const uint16_t* from, int lane) { load_left(to, from, lane); }
CRUCIBLE_FN void multiply_add(Sums& sums, const Left& left, const Right& right) { sums.r = CRUCIBLE_MFMA(left.r, right.r, sums.r, 0, 0, 0); }
CRUCIBLE_FN int row_of(int element, int lane) { return lane / 16 * 4 + element; }
CRUCIBLE_FN int column_of(int, int lane) { return lane % 16; }
)"};

// Fragments as AMD's manual of RDNA3 has them: both halves of a wave hold the same rows, with all steps, and every
// other row of the result.
constexpr UnitText kWmma = {"32", "16", "8", kAmdMeet, false, R"(
#if CRUCIBLE_IS_BF16
typedef short CrucibleSteps __attribute__((ext_vector_type(16)));
typedef short CrucibleStepsInShared __attribute__((ext_vector_type(16), aligned(16)));
#define CRUCIBLE_WMMA __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32
#else
typedef _Float16 CrucibleSteps __attribute__((ext_vector_type(16)));
typedef _Float16 CrucibleStepsInShared __attribute__((ext_vector_type(16), aligned(16)));
#define CRUCIBLE_WMMA __builtin_amdgcn_wmma_f32_16x16x16_f16_w32
#endif
typedef float CrucibleSums __attribute__((ext_vector_type(8)));
struct Left { CrucibleSteps r; };
typedef Left Right;
struct Sums { CrucibleSums r; };
CRUCIBLE_FN void load_left(Left& to, const uint16_t* from, int lane) { to.r = *(const CrucibleStepsInShared*)(from + lane % 16 * kPitch); }
CRUCIBLE_FN void load_right(Right& to, const uint16_t* from, int lane) { load_left(to, from, lane); }
CRUCIBLE_FN void multiply_add(Sums& sums, const Left& left, const Right& right) { sums.r = CRUCIBLE_WMMA(left.r, right.r, sums.r); }
CRUCIBLE_FN int row_of(int element, int lane) { return element * 2 + lane / 16; }
CRUCIBLE_FN int column_of(int, int lane) { return lane % 16; }
)"};

constexpr std::string_view kNumbers = R"(
#if CRUCIBLE_KEEPS_F32
typedef float Result;
#else
typedef uint16_t Result;
#endif
CRUCIBLE_FN Result rounded(float x) {
#if CRUCIBLE_KEEPS_F32
  return x;
#elif CRUCIBLE_IS_BF16
  union { float f; uint32_t u; } of = {x};
  if ((of.u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(of.u >> 16 | 0x40u);
  return (uint16_t)((of.u + 0x7fffu + (of.u >> 16 & 1u)) >> 16);
#elif defined(__CUDACC__)
  return crucible_f32_to_f16(x);
#else
  union { _Float16 f; uint16_t u; } of = {(_Float16)x};
  return of.u;
#endif
}
)";

// Of an element of a bias, in the column that it is added to. As torch's, this ReLU keeps NaN.
constexpr std::string_view kEpilogue = R"(
CRUCIBLE_FN float widened(uint16_t x) {
#if CRUCIBLE_IS_BF16
  union { uint32_t u; float f; } of = {(uint32_t)x << 16};
  return of.f;
#elif defined(__CUDACC__)
  return crucible_f16_to_f32(x);
#else
  union { uint16_t u; _Float16 f; } of = {x};
  return (float)of.f;
#endif
}
CRUCIBLE_FN float finished(float x, const uint16_t* bias, int64_t column) {
#if CRUCIBLE_HAS_BIAS
  x += widened(bias[column]);
#endif
#if CRUCIBLE_HAS_RELU
  x = x < 0 ? 0 : x;
#endif
  return x;
}
)";

// Eight elements side by side, two in a number.
constexpr std::string_view kLoads = R"(
struct __attribute__((aligned(16))) Eight { uint32_t x, y, z, w; };
constexpr int kTurn = 32, kPitch = kTurn + 8;  // steps; of a row in shared memory, so that no two rows that are read together share a bank
constexpr int kEachLoads = 2;                  // eights of an operand that a thread takes in a turn

CRUCIBLE_FN Eight take(const uint16_t* from, int64_t count) {
#if CRUCIBLE_IS_ALIGNED
  if (count >= 8) return *(const Eight*)from;
#endif
  uint32_t e[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) e[i] = i < count ? from[i] : 0u;
  return Eight{e[0] | e[1] << 16, e[2] | e[3] << 16, e[4] | e[5] << 16, e[6] | e[7] << 16};
}

/// A thread's part of 32 steps from `step` on, for kTile rows from `row` on; columns of the right operand are rows here.
template <int kTile, bool kAlong>
CRUCIBLE_FN void fetch(Eight* to, const uint16_t* from, int64_t pitch, int64_t row, int64_t rows, int64_t step, int64_t steps) {
#pragma unroll
  for (int i = 0; i < kEachLoads; ++i) {
    int64_t r, s, count;
    if (kAlong) {
      const int eight = (int)threadIdx.x + i * kThreads;
      r = row + eight / 4, s = step + eight % 4 * 8;
      count = r < rows ? steps - s : 0;
    } else {  // two steps below each other
      r = row + (int)threadIdx.x / 16 * 8, s = step + (int)threadIdx.x % 16 * 2 + i;
      count = s < steps ? rows - r : 0;
    }
    to[i] = count <= 0 ? Eight{0, 0, 0, 0} : take(from + (kAlong ? r * pitch + s : s * pitch + r), count);
  }
}

template <bool kAlong>
CRUCIBLE_FN void put(uint16_t* to, const Eight* from) {
  if (kAlong) {
#pragma unroll
    for (int i = 0; i < kEachLoads; ++i) {
      const int eight = (int)threadIdx.x + i * kThreads;
      *(Eight*)(to + eight / 4 * kPitch + eight % 4 * 8) = from[i];
    }
  } else {
    uint32_t* const pairs = (uint32_t*)(to + (int)threadIdx.x / 16 * 8 * kPitch + (int)threadIdx.x % 16 * 2);
    const uint32_t a[4] = {from[0].x, from[0].y, from[0].z, from[0].w}, b[4] = {from[1].x, from[1].y, from[1].z, from[1].w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      pairs[2 * i * (kPitch / 2)] = (a[i] & 0xffffu) | b[i] << 16;
      pairs[(2 * i + 1) * (kPitch / 2)] = a[i] >> 16 | (b[i] & 0xffff0000u);
    }
  }
}
)";

// Where the tile of a wave begins is found by its number; each wave has kWaveRows times kWaveColumns of the block's
// tile.
constexpr std::string_view kTileText = R"(
constexpr int kInRows = kWaveRows / 16, kInColumns = kWaveColumns / kUnitColumns;
struct __attribute__((aligned(16))) Half { uint16_t left[kTileRows * kPitch], right[kTileColumns * kPitch]; };

CRUCIBLE_FN void multiply(Sums (&sums)[kInRows][kInColumns], const Half& half, int wave, int lane) {
  const uint16_t* const left = half.left + wave / kWavesAbreast * kWaveRows * kPitch;
  const uint16_t* const right = half.right + wave % kWavesAbreast * kWaveColumns * kPitch;
#pragma unroll
  for (int step = 0; step < kTurn; step += 16) {
    Left rows[kInRows];
    Right columns[kInColumns];
#pragma unroll
    for (int i = 0; i < kInRows; ++i) load_left(rows[i], left + i * 16 * kPitch + step, lane);
#pragma unroll
    for (int j = 0; j < kInColumns; ++j) load_right(columns[j], right + j * kUnitColumns * kPitch + step, lane);
#pragma unroll
    for (int i = 0; i < kInRows; ++i)
#pragma unroll
      for (int j = 0; j < kInColumns; ++j) multiply_add(sums[i][j], rows[i], columns[j]);
  }
}

CRUCIBLE_FN void store(Result* to, int64_t pitch, const Sums (&sums)[kInRows][kInColumns], int64_t row, int64_t rows, int64_t column, int64_t columns,
                       int lane, float alpha, const uint16_t* bias) {
#pragma unroll
  for (int i = 0; i < kInRows; ++i)
#pragma unroll
    for (int j = 0; j < kInColumns; ++j)
#pragma unroll
      for (int e = 0; e < kUnitElements; ++e) {
        const int64_t r = row + i * 16 + row_of(e, lane), c = column + j * kUnitColumns + column_of(e, lane);
        if (r < rows && c < columns) to[r * pitch + c] = rounded(finished(alpha * sums[i][j].r[e], bias, c));
      }
}
)";

// The turns of one tile. A half is written again two turns later: between lies a barrier that its readers have passed.
constexpr std::string_view kBody =
    R"((const uint16_t* left, const uint16_t* right, Result* result, int64_t rows, int64_t columns,
    int64_t steps, int64_t batch, int64_t left_pitch, int64_t right_pitch, int64_t pitch, int64_t left_apart, int64_t right_apart, int64_t apart,
    double alpha, const uint16_t* bias) {
  __shared__ Half halves[2];
  const int lane = (int)threadIdx.x % kLanes, wave = (int)threadIdx.x / kLanes;
  const int64_t column = (int64_t)blockIdx.x * kTileColumns;
  for (int64_t b = blockIdx.z; b < batch; b += gridDim.z)
    for (int64_t row = (int64_t)blockIdx.y * kTileRows; row < rows; row += (int64_t)gridDim.y * kTileRows) {
      Sums sums[kInRows][kInColumns];
#pragma unroll
      for (int i = 0; i < kInRows; ++i)
#pragma unroll
        for (int j = 0; j < kInColumns; ++j)
#pragma unroll
          for (int e = 0; e < kUnitElements; ++e) sums[i][j].r[e] = 0;
      Eight from_left[kEachLoads], from_right[kEachLoads];
      fetch<kTileRows, kLeftAlong>(from_left, left + b * left_apart, left_pitch, row, rows, 0, steps);
      fetch<kTileColumns, kRightAlong>(from_right, right + b * right_apart, right_pitch, column, columns, 0, steps);
      CRUCIBLE_MEET;  // the last turn of the tile before is read
#pragma unroll 1
      for (int64_t step = 0; step < steps; step += kTurn) {
        Half& half = halves[step / kTurn % 2];
        put<kLeftAlong>(half.left, from_left);
        put<kRightAlong>(half.right, from_right);
        CRUCIBLE_MEET;
        if (step + kTurn < steps) {
          fetch<kTileRows, kLeftAlong>(from_left, left + b * left_apart, left_pitch, row, rows, step + kTurn, steps);
          fetch<kTileColumns, kRightAlong>(from_right, right + b * right_apart, right_pitch, column, columns, step + kTurn, steps);
        }
        multiply(sums, half, wave, lane);
      }
      store(result + b * apart, pitch, sums, row + wave / kWavesAbreast * kWaveRows, rows, column + wave % kWavesAbreast * kWaveColumns, columns, lane,
            (float)alpha, bias);
    }
}
)";

const UnitText& text_of(MatrixUnit unit) {
  if (unit == MatrixUnit::kMma) return kMma;
  return unit == MatrixUnit::kWmma ? kWmma : kMfma;
}

std::string name_of(const MatrixVariant& variant) {
  std::string name = "crucible_matrix_";
  name += variant.is_bf16 ? "bf16" : "f16";
  name += variant.left_is_along ? "_t" : "_n";
  name += variant.right_is_along ? "t" : "n";
  if (variant.keeps_f32) name += "_to_f32";
  if (variant.is_aligned) name += "_aligned";
  name += variant.has_large_tiles ? "_128" : "_64";
  if (variant.has_bias) name += "_bias";
  return name + (variant.has_relu ? "_relu" : "");
}

}  // namespace

KernelBatch write_matrix_kernel(const MatrixVariant& variant, MatrixUnit unit, const Dialect& dialect) {
  require(unit != MatrixUnit::kNone, "a matrix kernel for no unit");
  const UnitText& words = text_of(unit);
  std::string text(dialect.preamble);
  const auto define = [&](std::string_view name, std::string_view value) {
    text += "#define " + std::string(name) + " " + std::string(value) + "\n";
  };
  const auto constant = [&](std::string_view name, std::string_view value) {
    text += "constexpr int " + std::string(name) + " = " + std::string(value) + ";\n";
  };
  define("CRUCIBLE_MEET", words.meet);
  define("CRUCIBLE_TYPE", variant.is_bf16 ? "\"bf16\"" : "\"f16\"");
  define("CRUCIBLE_IS_BF16", variant.is_bf16 ? "1" : "0");
  define("CRUCIBLE_KEEPS_F32", variant.keeps_f32 ? "1" : "0");
  define("CRUCIBLE_HAS_BIAS", variant.has_bias ? "1" : "0");
  define("CRUCIBLE_HAS_RELU", variant.has_relu ? "1" : "0");
  define("CRUCIBLE_IS_ALIGNED", variant.is_aligned ? "1" : "0");
  constant("kLanes", words.lanes);
  constant("kUnitColumns", words.columns);
  constant("kUnitElements", words.elements);
  constant("kThreads", variant.has_large_tiles ? "256" : "128");
  constant("kTileRows", variant.has_large_tiles ? "128" : "64");
  constant("kTileColumns", variant.has_large_tiles ? "128" : "64");
  constant("kWavesAbreast", "kThreads / kLanes >= 8 ? 4 : kThreads / kLanes >= 4 ? 2 : 1");
  constant("kWaveRows", "kTileRows / (kThreads / kLanes / kWavesAbreast)");
  constant("kWaveColumns", "kTileColumns / kWavesAbreast");
  text += variant.left_is_along ? "constexpr bool kLeftAlong = true" : "constexpr bool kLeftAlong = false";
  text += variant.right_is_along ? ", kRightAlong = true;\n" : ", kRightAlong = false;\n";
  text += kNumbers;
  text += kEpilogue;
  text += kLoads;
  text += words.functions;
  text += kTileText;
  const std::string name = name_of(variant);
  text += std::string(dialect.kernel) + "__launch_bounds__(" + (variant.has_large_tiles ? "256" : "128");
  if (words.shares_multiprocessor) text += variant.has_large_tiles ? ", 2" : ", 4";
  text += ") " + name + std::string(kBody);
  return {{name}, text};
}

}  // namespace crucible::sdk
