// Folding views into BLAS's terms: see gemm.hpp.
#include "plugins/sdk/gemm.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <limits>
#include <optional>
#include <utility>

#include "plugins/sdk/error.hpp"
#include "plugins/sdk/text.hpp"

namespace crucible::sdk {
namespace {

constexpr std::size_t kSmallestDescription = offsetof(crucible_library_desc, epilogue);  // of ABI 0.1
constexpr std::uint32_t kF16 = 6, kBF16 = 7, kF32 = 8, kF64 = 9;  // DType; the numbers are part of the ABI
constexpr std::size_t kMostPlaces = 1024;                         // more calls than that cost more than they save
constexpr std::uint64_t kMostAlignment = 256;
constexpr std::int64_t kMost =
    std::numeric_limits<std::int32_t>::max();  // of BLAS's own integers; products of two fit into 64 bits

[[noreturn]] void decline(const std::string& reason) { throw Failure(CRUCIBLE_E_UNSUPPORTED, "matmul: " + reason); }

/// One view's last two dimensions: rows of `pitch` elements, or columns.
struct Matrix {
  bool has_columns = false;  // consecutive elements are of one column
  std::int64_t pitch = 0;
};

/// Nothing when neither dimension has unit stride, or when rows overlap.
std::optional<Matrix> as_matrix(const crucible_view& view) {
  const std::uint32_t row = view.rank - 2, column = view.rank - 1;
  const std::int64_t rows = view.sizes[row], columns = view.sizes[column];
  if (columns == 1 || view.strides[column] == 1) {
    if (rows == 1) return Matrix{false, columns};
    if (view.strides[row] >= columns) return Matrix{false, view.strides[row]};
  }
  if (rows == 1 || view.strides[row] == 1) {
    if (columns == 1) return Matrix{true, rows};
    if (view.strides[column] >= rows) return Matrix{true, view.strides[column]};
  }
  return std::nullopt;
}

void check_sizes(const crucible_view* views) {
  const crucible_view &a = views[0], &b = views[1], &c = views[2];
  if (a.dtype < kF16 || a.dtype > kF64) decline("only f16, bf16, f32 and f64");
  if (b.dtype != a.dtype) decline("the operands' types differ");
  if (c.dtype != a.dtype && (c.dtype != kF32 || a.dtype > kBF16))
    decline("the result's type is neither the operands' nor f32 of f16 and bf16");
  const std::uint32_t rank = a.rank;
  if (rank < 2 || rank > CRUCIBLE_MAX_RANK || b.rank != rank || c.rank != rank) decline("ranks differ or are below 2");
  const std::uint32_t row = rank - 2, column = rank - 1;
  for (int v = 0; v < 3; ++v) {
    if (views[v].offset < 0 || views[v].offset > (std::int64_t{1} << 48)) decline("an offset that no buffer has");
  }
  for (std::uint32_t i = 0; i < rank; ++i) {
    for (int v = 0; v < 3; ++v) {
      if (views[v].sizes[i] < 1) decline("an empty operand");
      if (views[v].sizes[i] > kMost) decline("a size of more than 31 bits");
      if (views[v].sizes[i] > 1 && views[v].strides[i] < 0) decline("a negative stride");
      if (views[v].strides[i] > kMost || views[v].strides[i] < -kMost) decline("a stride of more than 31 bits");
    }
    if (i < row && (a.sizes[i] != c.sizes[i] || b.sizes[i] != c.sizes[i])) decline("batch sizes differ");
    if (c.sizes[i] > 1 && c.strides[i] == 0) decline("the result overlaps itself");
  }
  if (a.sizes[row] != c.sizes[row] || b.sizes[column] != c.sizes[column] || a.sizes[column] != b.sizes[row])
    decline("sizes do not match");
}

/// A batch dimension, or several that follow each other like one: how many, and the strides of a, b and c.
struct Batch {
  std::int64_t size, strides[3];
};

/// The batch dimensions, outermost first; neighbours whose strides fit together are one.
std::vector<Batch> read_batches(const crucible_view* views) {
  std::vector<Batch> batches;
  for (std::uint32_t i = 0; i + 2 < views[0].rank; ++i) {
    const Batch next = {views[2].sizes[i], {views[0].strides[i], views[1].strides[i], views[2].strides[i]}};
    if (next.size == 1) continue;
    const auto follows = [&](int v) { return batches.back().strides[v] == next.strides[v] * next.size; };
    if (!batches.empty() && batches.back().size <= kMost / next.size && follows(0) && follows(1) && follows(2)) {
      batches.back().size *= next.size;
      std::ranges::copy(next.strides, batches.back().strides);
    } else {
      batches.push_back(next);
    }
  }
  return batches;
}

/// The largest of them goes into the call, the others become places.
void place(Gemm& gemm, const crucible_view* views, std::vector<Batch> batches) {
  GemmOperand& a = gemm.is_swapped ? gemm.y : gemm.x;
  GemmOperand& b = gemm.is_swapped ? gemm.x : gemm.y;
  if (!batches.empty()) {
    const auto largest = std::ranges::max_element(batches, {}, &Batch::size);
    gemm.batch = largest->size;
    a.batch_stride = largest->strides[0];
    b.batch_stride = largest->strides[1];
    gemm.d.batch_stride = largest->strides[2];
    batches.erase(largest);
  }
  std::size_t count = 1;
  for (const Batch& batch : batches) {
    if (static_cast<std::uint64_t>(batch.size) > kMostPlaces / count)
      decline("its batch comes to more than 1024 calls");
    count *= static_cast<std::size_t>(batch.size);
  }
  for (std::size_t index = 0; index < count; ++index) {
    std::int64_t offsets[3] = {views[0].offset, views[1].offset, views[2].offset};
    std::size_t rest = index;
    for (std::size_t i = batches.size(); i-- > 0;) {
      const auto size = static_cast<std::size_t>(batches[i].size);
      for (int v = 0; v < 3; ++v) offsets[v] += static_cast<std::int64_t>(rest % size) * batches[i].strides[v];
      rest /= size;
    }
    gemm.places.push_back({offsets[gemm.x_view()], offsets[gemm.y_view()], offsets[2]});
  }
}

/// Rows of the column-major product are columns of the result: of another one the bias runs along its columns, which no
/// library has.
void read_epilogue(Gemm& gemm, const crucible_library_desc& desc) {
  const crucible_view& bias = desc.extra;
  if (desc.epilogue > CRUCIBLE_EPILOGUE_BIAS_GELU)
    decline("epilogue " + std::to_string(desc.epilogue) + " is not known");
  if (!gemm.is_swapped) decline("an epilogue of a result that lies by columns");
  if (gemm.keeps_f32) decline("an epilogue of a result that is not rounded to the operands' type");
  if (bias.dtype != gemm.dtype) decline("the bias is of another type");
  if (bias.rank != 1 || bias.sizes[0] != gemm.m) decline("the bias has not one number per column of the result");
  if (bias.sizes[0] > 1 && bias.strides[0] != 1) decline("the bias does not lie side by side");
  if (bias.offset < 0 || bias.offset > (std::int64_t{1} << 48)) decline("an offset that no buffer has");
  gemm.epilogue = desc.epilogue;
  gemm.bias = bias.offset;
}

void check_limits(const Gemm& gemm) {
  for (const std::int64_t number : {gemm.m, gemm.n, gemm.k, gemm.batch, gemm.x.pitch, gemm.y.pitch, gemm.d.pitch}) {
    if (number > kMost) decline("a size of more than 31 bits");
  }
}

}  // namespace

Gemm read_gemm(const crucible_library_desc* theirs, Epilogues epilogues) {
  require(theirs != nullptr && theirs->struct_size >= kSmallestDescription,
          "library.claim: the description is too short");
  const crucible_library_desc desc = read_sized(theirs);
  if (desc.kind != CRUCIBLE_LIB_MATMUL)
    throw Failure(CRUCIBLE_E_UNSUPPORTED, "only matrix products are taken, this is kind " + std::to_string(desc.kind));
  const bool has_epilogue = desc.epilogue != CRUCIBLE_EPILOGUE_NONE;
  if (has_epilogue && epilogues == Epilogues::kDeclined) decline("epilogues are not taken");
  check_sizes(desc.views);
  Matrix matrices[3];
  for (int i = 0; i < 3; ++i) {
    const auto matrix = as_matrix(desc.views[i]);
    if (!matrix) decline("an operand has no dimension with unit stride");
    matrices[i] = *matrix;
  }
  const std::uint32_t row = desc.views[0].rank - 2, column = desc.views[0].rank - 1;
  std::int64_t rows = desc.views[2].sizes[row];
  const std::int64_t columns = desc.views[2].sizes[column];
  std::vector<Batch> batches = read_batches(desc.views);
  // A batch that only stacks rows of a and c under one b is one taller product.
  if (!batches.empty() && batches.back().strides[1] == 0 && !matrices[0].has_columns && !matrices[2].has_columns &&
      batches.back().strides[0] == rows * matrices[0].pitch && batches.back().strides[2] == rows * matrices[2].pitch) {
    rows *= batches.back().size;
    batches.pop_back();
  }
  Gemm gemm;
  gemm.dtype = desc.views[0].dtype;
  gemm.keeps_f32 = desc.views[2].dtype != gemm.dtype;
  gemm.alpha = std::bit_cast<double>(desc.alpha_f64_bits);
  gemm.k = desc.views[0].sizes[column];
  // Rows of the result are the columns of its transpose, which is the product of the transposes the other way round.
  gemm.is_swapped = !matrices[2].has_columns;
  gemm.m = gemm.is_swapped ? columns : rows;
  gemm.n = gemm.is_swapped ? rows : columns;
  const auto operand = [&](int view) {
    return GemmOperand{matrices[view].has_columns == gemm.is_swapped, matrices[view].pitch, 0};
  };
  gemm.x = operand(gemm.x_view());
  gemm.y = operand(gemm.y_view());
  gemm.d = {false, matrices[2].pitch, 0};
  place(gemm, desc.views, std::move(batches));
  check_limits(gemm);
  if (has_epilogue) read_epilogue(gemm, desc);
  return gemm;
}

std::uint64_t Gemm::element_bytes() const { return dtype == kF64 ? 8 : dtype == kF32 ? 4 : 2; }
std::uint64_t Gemm::element_bytes(int view) const { return view == 2 && keeps_f32 ? 4 : element_bytes(); }

std::string Gemm::shape() const {
  const char* const types[] = {"f16", "bf16", "f32", "f64"};
  std::string text = types[dtype - kF16];
  if (keeps_f32) text += " to f32";
  for (const GemmOperand* operand : {&x, &y}) text += operand->transposed ? " t" : " n";
  text += " " + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) + " pitches";
  for (const GemmOperand* operand : {&x, &y, &d}) text += " " + std::to_string(operand->pitch);
  text += " batch " + std::to_string(batch);
  if (batch > 1) {
    for (const GemmOperand* operand : {&x, &y, &d}) text += " " + std::to_string(operand->batch_stride);
  }
  const char* const epilogues[] = {"", " bias", " bias relu", " bias gelu"};
  return text + epilogues[epilogue];
}

namespace {

const GemmOperand& operand_of(const Gemm& gemm, int view) {
  return view == 2 ? gemm.d : view == gemm.x_view() ? gemm.x : gemm.y;
}

std::int64_t offset_of(const Gemm& gemm, const Gemm::Place& place, int view) {
  return view == 2 ? place.d : view == gemm.x_view() ? place.x : place.y;
}

}  // namespace

std::uint64_t gemm_alignment(const Gemm& gemm, int view, std::uint64_t address) {
  if (view == 3) {
    const std::uint64_t bits =
        address | kMostAlignment | static_cast<std::uint64_t>(gemm.bias) * gemm.element_bytes(view);
    return bits & (~bits + 1);
  }
  const GemmOperand& operand = operand_of(gemm, view);
  std::uint64_t bits = address | kMostAlignment;
  if (gemm.batch > 1) bits |= static_cast<std::uint64_t>(operand.batch_stride) * gemm.element_bytes(view);
  for (const Gemm::Place& place : gemm.places) {
    bits |= static_cast<std::uint64_t>(offset_of(gemm, place, view)) * gemm.element_bytes(view);
  }
  return bits & (~bits + 1);
}

std::uint64_t gemm_extent_bytes(const Gemm& gemm, int view) {
  if (view == 3) return static_cast<std::uint64_t>(gemm.bias + gemm.m) * gemm.element_bytes(view);
  const GemmOperand& operand = operand_of(gemm, view);
  // Rows and columns of an operand as it lies in memory.
  std::int64_t rows = view == 2 || view == gemm.x_view() ? gemm.m : gemm.k;
  std::int64_t columns = view == 2 || view != gemm.x_view() ? gemm.n : gemm.k;
  if (operand.transposed) std::swap(rows, columns);
  std::int64_t offset = 0;
  for (const Gemm::Place& place : gemm.places) offset = std::max(offset, offset_of(gemm, place, view));
  const std::int64_t last = offset + (columns - 1) * operand.pitch + rows - 1 + (gemm.batch - 1) * operand.batch_stride;
  return static_cast<std::uint64_t>(last + 1) * gemm.element_bytes(view);
}

}  // namespace crucible::sdk
