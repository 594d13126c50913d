// Matrix products through dnnl_sgemm: c = alpha * a b, over any number of batch dimensions. Views decide which operand
// is transposed; a batch that only stacks rows of `a` under one `b` becomes one taller product. Pieces are products of
// the batch, or blocks of rows or columns of one, each done by one thread.
#include "backends/cpu/library_onednn.hpp"

#ifdef CRUCIBLE_HAVE_ONEDNN

#include <algorithm>
#include <atomic>
#include <bit>
#include <optional>
#include <vector>

#include "backends/cpu/plan.hpp"
#include "backends/cpu/sdk.hpp"

namespace crucible_cpu {
namespace {

constexpr std::uint32_t kF32 = 8;  // DType::kF32; the numbers are part of the ABI

// Fewest floating-point operations that are worth a piece of their own.
constexpr double kFlopsOfAPiece = 0.5e6;
constexpr std::int64_t kRowsOfABlock = 16;  // and columns: blocks are multiples, so that vectors are full

[[noreturn]] void decline(const std::string& reason) { throw Failure(CRUCIBLE_E_UNSUPPORTED, "matmul: " + reason); }

/// One operand's last two dimensions as sgemm wants them: rows of `pitch` elements, or the same transposed.
struct Matrix {
  bool transposed = false;
  std::int64_t pitch = 0;
};

/// Nothing when neither dimension has unit stride, or when rows overlap.
std::optional<Matrix> as_matrix(std::int64_t rows, std::int64_t columns, std::int64_t row_stride,
                                std::int64_t column_stride) {
  if (columns == 1 || column_stride == 1) {
    if (rows == 1) return Matrix{false, columns};
    if (row_stride >= columns) return Matrix{false, row_stride};
  }
  if (rows == 1 || row_stride == 1) {
    if (columns == 1) return Matrix{true, rows};
    if (column_stride >= rows) return Matrix{true, column_stride};
  }
  return std::nullopt;
}

struct Shape {
  std::int64_t m = 0, n = 0, k = 0;
  Matrix a, b, c;
};

struct BatchDimension {
  std::int64_t size, a, b, c;  // count and strides
};

struct Entry {
  std::int64_t a, b, c;  // offsets in elements
};

void check_sizes(const crucible_view& a, const crucible_view& b, const crucible_view& c) {
  if (a.dtype != kF32 || b.dtype != kF32 || c.dtype != kF32) decline("only f32");
  const std::uint32_t rank = a.rank;
  if (rank < 2 || rank > CRUCIBLE_MAX_RANK || b.rank != rank || c.rank != rank) decline("ranks differ or are below 2");
  const std::uint32_t row = rank - 2, column = rank - 1;
  for (std::uint32_t i = 0; i < rank; ++i) {
    if (a.sizes[i] < 1 || b.sizes[i] < 1 || c.sizes[i] < 1) decline("an empty operand");
    if (i < row && (a.sizes[i] != c.sizes[i] || b.sizes[i] != c.sizes[i])) decline("batch sizes differ");
    if (c.sizes[i] > 1 && c.strides[i] == 0) decline("the result overlaps itself");
  }
  if (a.sizes[row] != c.sizes[row] || b.sizes[column] != c.sizes[column] || a.sizes[column] != b.sizes[row]) {
    decline("sizes do not match");
  }
}

Shape read_shape(const crucible_view* views) {
  const std::uint32_t row = views[0].rank - 2, column = views[0].rank - 1;
  Matrix matrices[3];
  for (int i = 0; i < 3; ++i) {
    const crucible_view& view = views[i];
    const auto matrix = as_matrix(view.sizes[row], view.sizes[column], view.strides[row], view.strides[column]);
    if (!matrix) decline("an operand has no dimension with unit stride");
    matrices[i] = *matrix;
  }
  return {views[2].sizes[row], views[2].sizes[column], views[0].sizes[column], matrices[0], matrices[1], matrices[2]};
}

/// The batch dimensions that are left when those that stack rows of a and c under one b have joined the rows.
std::vector<BatchDimension> read_batch(const crucible_view* views, Shape& shape) {
  std::vector<BatchDimension> batch;
  for (std::uint32_t i = 0; i + 2 < views[0].rank; ++i) {
    if (views[2].sizes[i] == 1) continue;
    batch.push_back({views[2].sizes[i], views[0].strides[i], views[1].strides[i], views[2].strides[i]});
  }
  while (!batch.empty()) {
    const BatchDimension& last = batch.back();
    const bool stacks = last.b == 0 && !shape.a.transposed && !shape.c.transposed &&
                        last.a == shape.m * shape.a.pitch && last.c == shape.m * shape.c.pitch;
    if (!stacks) break;
    shape.m *= last.size;
    batch.pop_back();
  }
  return batch;
}

std::vector<Entry> list_entries(const crucible_view* views, const std::vector<BatchDimension>& batch) {
  std::vector<Entry> entries{{views[0].offset, views[1].offset, views[2].offset}};
  for (const BatchDimension& dimension : batch) {
    std::vector<Entry> more;
    more.reserve(entries.size() * static_cast<std::size_t>(dimension.size));
    for (const Entry& entry : entries) {
      for (std::int64_t i = 0; i < dimension.size; ++i) {
        more.push_back({entry.a + i * dimension.a, entry.b + i * dimension.b, entry.c + i * dimension.c});
      }
    }
    entries = std::move(more);
  }
  return entries;
}

class MatMul final : public LibraryCall {
 public:
  MatMul(std::shared_ptr<const OneDnn> onednn, const crucible_library_desc& desc, int threads)
      : onednn_(std::move(onednn)) {
    check_sizes(desc.views[0], desc.views[1], desc.views[2]);
    shape_ = read_shape(desc.views);
    entries_ = list_entries(desc.views, read_batch(desc.views, shape_));
    alpha_ = static_cast<float>(std::bit_cast<double>(desc.alpha_f64_bits));
    cut(threads);
  }

  std::uint32_t pieces(std::uint32_t) const override { return static_cast<std::uint32_t>(groups_ * blocks_); }

  double flops() const override { return flops_of_one() * static_cast<double>(entries_.size()); }

  void run_piece(void* const* buffers, std::byte*, std::uint32_t, std::uint32_t piece) noexcept override {
    const Range rows = chunk_range(in_blocks(shape_.m), by_rows_ ? blocks_ : 1, by_rows_ ? piece % blocks_ : 0);
    const Range columns = chunk_range(in_blocks(shape_.n), by_rows_ ? 1 : blocks_, by_rows_ ? 0 : piece % blocks_);
    const Range group = chunk_range(static_cast<std::int64_t>(entries_.size()), groups_, piece / blocks_);
    for (std::int64_t i = group.begin; i < group.end; ++i) {
      multiply(buffers, entries_[static_cast<std::size_t>(i)], elements(rows, shape_.m), elements(columns, shape_.n));
    }
  }

  void check() override { onednn_->check(status_.exchange(dnnl_success, std::memory_order_relaxed), "sgemm"); }

 private:
  double flops_of_one() const {
    return 2.0 * static_cast<double>(shape_.m) * static_cast<double>(shape_.n) * static_cast<double>(shape_.k);
  }

  /// Pieces of at least kFlopsOfAPiece: four for each thread where the batch has so many; one of a single product,
  /// which copies an operand for each.
  void cut(int threads) {
    const auto count = static_cast<std::int64_t>(entries_.size());
    const double flops = flops_of_one();
    if (threads == 1 || flops * static_cast<double>(count) < 2 * kFlopsOfAPiece) return;
    const double worth = flops * static_cast<double>(count) / kFlopsOfAPiece;
    groups_ = std::clamp<std::int64_t>(static_cast<std::int64_t>(std::min(worth, 4.0 * threads)), 1, count);
    if (count >= 2 * threads) return;
    groups_ = count;
    by_rows_ = shape_.m >= shape_.n;
    const std::int64_t wanted = (threads + count - 1) / count;
    blocks_ = std::clamp<std::int64_t>(std::min(wanted, static_cast<std::int64_t>(flops / kFlopsOfAPiece)), 1,
                                       in_blocks(by_rows_ ? shape_.m : shape_.n));
  }

  static std::int64_t in_blocks(std::int64_t extent) { return (extent + kRowsOfABlock - 1) / kRowsOfABlock; }
  static Range elements(Range blocks, std::int64_t extent) {
    return {blocks.begin * kRowsOfABlock, std::min(extent, blocks.end * kRowsOfABlock)};
  }

  /// Elements from the first of a matrix to the first of a block of it.
  static std::int64_t skip(const Matrix& matrix, std::int64_t row, std::int64_t column) {
    return matrix.transposed ? row + column * matrix.pitch : row * matrix.pitch + column;
  }

  void multiply(void* const* buffers, const Entry& entry, Range rows, Range columns) {
    const Shape& s = shape_;
    const float* a = static_cast<const float*>(buffers[0]) + entry.a + skip(s.a, rows.begin, 0);
    const float* b = static_cast<const float*>(buffers[1]) + entry.b + skip(s.b, 0, columns.begin);
    float* c = static_cast<float*>(buffers[2]) + entry.c + skip(s.c, rows.begin, columns.begin);
    const std::int64_t m = rows.end - rows.begin, n = columns.end - columns.begin;
    const auto letter = [](bool transposed) { return transposed ? 'T' : 'N'; };
    dnnl_status_t status = dnnl_success;
    if (!s.c.transposed) {
      status = onednn_->dnnl_sgemm(letter(s.a.transposed), letter(s.b.transposed), m, n, s.k, alpha_, a, s.a.pitch, b,
                                   s.b.pitch, 0.0f, c, s.c.pitch);
    } else {  // the transposed result is the product of the transposed operands, the other way round
      status = onednn_->dnnl_sgemm(letter(!s.b.transposed), letter(!s.a.transposed), n, m, s.k, alpha_, b, s.b.pitch, a,
                                   s.a.pitch, 0.0f, c, s.c.pitch);
    }
    if (status != dnnl_success) status_.store(status, std::memory_order_relaxed);
  }

  std::shared_ptr<const OneDnn> onednn_;
  Shape shape_;
  std::vector<Entry> entries_;
  float alpha_ = 1;
  std::int64_t groups_ = 1;  // of products of the batch
  std::int64_t blocks_ = 1;  // of each product: of its rows, or of its columns
  bool by_rows_ = true;
  std::atomic<dnnl_status_t> status_{dnnl_success};
};

}  // namespace

std::unique_ptr<LibraryCall> make_matmul(std::shared_ptr<const OneDnn> onednn, const crucible_library_desc& desc,
                                         int threads) {
  return std::make_unique<MatMul>(std::move(onednn), desc, threads);
}

}  // namespace crucible_cpu

#endif  // CRUCIBLE_HAVE_ONEDNN
