// Convolutions through oneDNN, forward and both gradients, on dense NCHW views. A call is cut into parts of equal size,
// by images, by channels of the result or by groups, each of which the library does with one thread, so that the team's
// threads share them as they share all work. oneDNN chooses its own layouts for a part; what it chooses differently
// from the views is reordered on the way in and out, in scratch memory that the host's plan owns: what all parts read,
// first and once; what is a part's own, by the part.
#include "backends/cpu/library_onednn.hpp"
#include "backends/cpu/sdk.hpp"

#ifdef CRUCIBLE_HAVE_ONEDNN

#include <algorithm>
#include <array>
#include <atomic>
#include <span>
#include <utility>
#include <vector>


namespace crucible_cpu {
namespace {

constexpr std::uint32_t kF32 = 8;  // DType::kF32; the numbers are part of the ABI
constexpr std::uint64_t kAlign = 64;

[[noreturn]] void decline(const std::string& reason) {
  throw Failure(CRUCIBLE_E_UNSUPPORTED, "convolution: " + reason);
}

bool is_dense(const crucible_view& view) {
  std::int64_t expected = 1;
  for (int i = 3; i >= 0; --i) {
    if (view.sizes[i] < 1 || (view.sizes[i] != 1 && view.strides[i] != expected)) return false;
    expected *= view.sizes[i];
  }
  return true;
}

/// The three tensors by role, whatever order the kind of call has them in, and the geometry in oneDNN's terms.
struct Geometry {
  const crucible_view *x, *weight, *y;
  dnnl_dims_t x_dims, weight_dims, y_dims, stride, dilation, padding;
  int weight_rank;
};

/// Errors: UNSUPPORTED where oneDNN could not take it or the sizes disagree.
void check_geometry(const Geometry& g, const crucible_library_desc& desc) {
  for (const crucible_view* view : {g.x, g.weight, g.y}) {
    if (view->rank != 4 || view->dtype != kF32 || !is_dense(*view)) decline("only dense f32 views of four dimensions");
  }
  const std::int64_t groups = desc.groups;
  if (groups < 1 || g.x->sizes[1] % groups != 0 || g.weight->sizes[0] % groups != 0) decline("channels do not divide");
  if (g.x->sizes[1] / groups != g.weight->sizes[1] || g.y->sizes[1] != g.weight->sizes[0] ||
      g.x->sizes[0] != g.y->sizes[0]) {
    decline("channels or batch do not match");
  }
  for (int i = 0; i < 2; ++i) {
    if (desc.stride[i] < 1 || desc.dilation[i] < 1 || desc.padding[i] < 0) decline("stride, dilation or padding");
    const std::int64_t extent = (g.weight->sizes[2 + i] - 1) * desc.dilation[i] + 1;
    const std::int64_t room = g.x->sizes[2 + i] + 2 * desc.padding[i] - extent;
    if (room < 0 || g.y->sizes[2 + i] != room / desc.stride[i] + 1) decline("the result's size does not fit");
  }
}

Geometry read_geometry(const crucible_library_desc& desc) {
  const crucible_view* v = desc.views;
  Geometry g{};
  switch (desc.kind) {
    case CRUCIBLE_LIB_CONV2D:
      g.x = &v[0], g.weight = &v[1], g.y = &v[2];
      break;
    case CRUCIBLE_LIB_CONV2D_BACKWARD_INPUT:
      g.y = &v[0], g.weight = &v[1], g.x = &v[2];
      break;
    default:
      g.y = &v[0], g.x = &v[1], g.weight = &v[2];
      break;
  }
  check_geometry(g, desc);
  std::copy_n(g.x->sizes, 4, g.x_dims);
  std::copy_n(g.y->sizes, 4, g.y_dims);
  std::copy_n(g.weight->sizes, 4, g.weight_dims);
  g.weight_rank = 4;
  if (desc.groups > 1) {
    g.weight_rank = 5;
    g.weight_dims[0] = desc.groups;
    g.weight_dims[1] = g.weight->sizes[0] / desc.groups;
    std::copy_n(g.weight->sizes + 1, 3, g.weight_dims + 2);
  }
  for (int i = 0; i < 2; ++i) {
    g.stride[i] = desc.stride[i];
    g.dilation[i] = desc.dilation[i] - 1;  // oneDNN counts the gaps
    g.padding[i] = desc.padding[i];
  }
  return g;
}

/// Owners of oneDNN's objects; each keeps the library.
class Primitive {
 public:
  Primitive(const OneDnn& onednn, const_dnnl_primitive_desc_t desc) : onednn_(onednn) {
    onednn.check(onednn.dnnl_primitive_create(&primitive_, desc), "creating a primitive");
  }
  Primitive(Primitive&& other) noexcept
      : onednn_(other.onednn_), primitive_(std::exchange(other.primitive_, nullptr)) {}
  ~Primitive() {
    if (primitive_ != nullptr) onednn_.dnnl_primitive_destroy(primitive_);
  }
  dnnl_primitive_t get() const { return primitive_; }

 private:
  const OneDnn& onednn_;
  dnnl_primitive_t primitive_ = nullptr;
};

class PrimitiveDesc {
 public:
  PrimitiveDesc(const OneDnn& onednn, const_dnnl_op_desc_t op, const_dnnl_primitive_desc_t hint) : onednn_(onednn) {
    dnnl_primitive_attr_t attributes = nullptr;
    onednn.check(onednn.dnnl_primitive_attr_create(&attributes), "creating attributes");
    onednn.dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user);
    const dnnl_status_t status = onednn.dnnl_primitive_desc_create(&desc_, op, attributes, onednn.engine, hint);
    onednn.dnnl_primitive_attr_destroy(attributes);
    if (status == dnnl_unimplemented) decline("oneDNN has no implementation for it");
    onednn.check(status, "describing a convolution");
  }
  PrimitiveDesc(const PrimitiveDesc&) = delete;
  PrimitiveDesc& operator=(const PrimitiveDesc&) = delete;
  ~PrimitiveDesc() { onednn_.dnnl_primitive_desc_destroy(desc_); }
  const_dnnl_primitive_desc_t get() const { return desc_; }
  const dnnl_memory_desc_t& memory(dnnl_query_t what) const {
    return *onednn_.dnnl_primitive_desc_query_md(desc_, what, 0);
  }

 private:
  const OneDnn& onednn_;
  dnnl_primitive_desc_t desc_ = nullptr;
};

class Memory {
 public:
  Memory(const OneDnn& onednn, const dnnl_memory_desc_t& desc) : onednn_(onednn) {
    onednn.check(onednn.dnnl_memory_create(&memory_, &desc, onednn.engine, DNNL_MEMORY_NONE), "creating a memory");
  }
  Memory(Memory&& other) noexcept : onednn_(other.onednn_), memory_(std::exchange(other.memory_, nullptr)) {}
  ~Memory() {
    if (memory_ != nullptr) onednn_.dnnl_memory_destroy(memory_);
  }
  void point_to(void* data) const { onednn_.dnnl_memory_set_data_handle(memory_, data); }
  dnnl_memory_t get() const { return memory_; }

 private:
  const OneDnn& onednn_;
  dnnl_memory_t memory_ = nullptr;
};

class Stream {
 public:
  explicit Stream(const OneDnn& onednn) : onednn_(onednn) {
    onednn.check(onednn.dnnl_stream_create(&stream_, onednn.engine, dnnl_stream_default_flags), "creating a stream");
  }
  Stream(Stream&& other) noexcept : onednn_(other.onednn_), stream_(std::exchange(other.stream_, nullptr)) {}
  ~Stream() {
    if (stream_ != nullptr) onednn_.dnnl_stream_destroy(stream_);
  }
  dnnl_stream_t get() const { return stream_; }

 private:
  const OneDnn& onednn_;
  dnnl_stream_t stream_ = nullptr;
};

/// A copy between two layouts of one tensor.
Primitive make_reorder(const OneDnn& onednn, const dnnl_memory_desc_t& from, const dnnl_memory_desc_t& to) {
  dnnl_primitive_desc_t desc = nullptr;
  onednn.check(onednn.dnnl_reorder_primitive_desc_create(&desc, &from, onednn.engine, &to, onednn.engine, nullptr),
               "describing a reorder");
  try {
    Primitive reorder(onednn, desc);
    onednn.dnnl_primitive_desc_destroy(desc);
    return reorder;
  } catch (...) {
    onednn.dnnl_primitive_desc_destroy(desc);
    throw;
  }
}

/// Where an operand of a primitive lies: bytes behind the beginning of a buffer of the call, or of its scratch.
struct Place {
  static constexpr std::size_t kScratch = 3;
  std::size_t buffer = 0;
  std::uint64_t bytes = 0;
};

/// One primitive and its operands, which are this piece's own: pieces run at the same time.
struct Execution {
  struct Operand {
    int number;  // DNNL_ARG_...
    Memory memory;
    Place place;
  };
  dnnl_primitive_t primitive;
  std::vector<Operand> operands;
};

struct Piece {
  Stream stream;
  std::vector<Execution> executions;  // one after the other
};

/// Into which parts a call is cut, along one dimension each of x, the weights and y; -1: each part has all of that
/// tensor.
struct Cut {
  std::int64_t parts = 1;
  std::array<int, 3> dimension = {-1, -1, -1};
};

enum Role : std::size_t { kX, kWeight, kY };

/// Fewest multiply-adds that are worth a part of their own.
constexpr double kWorthAPart = 2e6;

/// The most parts, at most `most`, that divide the extent into multiples of `unit`.
std::int64_t parts_of(std::int64_t extent, std::int64_t unit, std::int64_t most) {
  for (std::int64_t parts = std::min(most, extent / unit); parts > 1; --parts) {
    if (extent % (parts * unit) == 0) return parts;
  }
  return 1;
}

/// Multiply-adds of a convolution or a gradient of one.
double products(const Geometry& g) {
  double count = 1;
  for (const dnnl_dim_t size : std::span(g.y_dims, 4)) count *= static_cast<double>(size);
  for (int i = g.weight_rank - 3; i < g.weight_rank; ++i) count *= static_cast<double>(g.weight_dims[i]);
  return count;
}

/// By groups where there are enough of them, else gradients of weights by their rows (images would have to be added up)
/// and the rest by images, or by rows where there is one image. `threads`: of the device; twice as many parts, so that
/// one who comes late finds less to wait for.
Cut choose_cut(const Geometry& g, std::uint32_t kind, int threads) {
  const double work = products(g);
  const auto most = static_cast<std::int64_t>(std::min(work / kWorthAPart, 2.0 * threads));
  if (threads == 1 || most < 2) return {};
  const bool has_groups = g.weight_rank == 5;
  constexpr std::int64_t kBlock = 16;  // channels that oneDNN packs together
  Cut cut;
  if (kind != CRUCIBLE_LIB_CONV2D_BACKWARD_WEIGHT) {
    const std::int64_t parts = parts_of(g.x_dims[0], 1, most);
    cut = {parts > 1 ? parts : parts_of(g.x_dims[0], 1, 2 * most), {0, -1, 0}};
  }
  if (cut.parts == 1 && has_groups) cut = {parts_of(g.weight_dims[0], 1, most), {1, 0, 1}};
  if (cut.parts == 1 && !has_groups && kind != CRUCIBLE_LIB_CONV2D_BACKWARD_INPUT)
    cut = {parts_of(g.weight_dims[0], kBlock, most), {-1, 0, 1}};
  return cut.parts == 1 ? Cut{} : cut;
}

class Convolution final : public LibraryCall {
 public:
  Convolution(std::shared_ptr<const OneDnn> onednn, const crucible_library_desc& desc, int threads)
      : onednn_(std::move(onednn)), geometry_(read_geometry(desc)), cut_(choose_cut(geometry_, desc.kind, threads)) {
    const crucible_view* const views[3] = {geometry_.x, geometry_.weight, geometry_.y};
    const dnnl_dim_t* const dims[3] = {geometry_.x_dims, geometry_.weight_dims, geometry_.y_dims};
    for (std::size_t role = 0; role < 3; ++role) {
      Tensor& t = tensors_[role];
      t.rank = role == kWeight ? geometry_.weight_rank : 4;
      t.buffer = static_cast<std::size_t>(views[role] - desc.views);
      t.offset = views[role]->offset;
      std::copy_n(dims[role], t.rank, t.dims);
      std::copy_n(dims[role], t.rank, t.part_dims);
      if (cut_.dimension[role] >= 0) t.part_dims[cut_.dimension[role]] /= cut_.parts;
      dnnl_dim_t stride = 1;
      for (int i = t.rank - 1; i >= 0; --i) {
        t.strides[i] = stride;
        stride *= t.dims[i];
      }
    }
    prepare(desc.kind);
  }

  std::uint64_t scratch_bytes() const override { return scratch_bytes_; }
  std::uint32_t stages() const override { return static_cast<std::uint32_t>(stages_.size()); }
  std::uint32_t pieces(std::uint32_t stage) const override { return static_cast<std::uint32_t>(stages_[stage].size()); }

  double flops() const override { return 2 * products(geometry_); }

  void run_piece(void* const* buffers, std::byte* scratch, std::uint32_t stage, std::uint32_t index) noexcept override {
    Piece& piece = stages_[stage][index];
    std::array<dnnl_exec_arg_t, 4> arguments;
    for (Execution& execution : piece.executions) {
      int count = 0;
      for (Execution::Operand& operand : execution.operands) {
        std::byte* const base =
            operand.place.buffer == Place::kScratch ? scratch : static_cast<std::byte*>(buffers[operand.place.buffer]);
        operand.memory.point_to(base + operand.place.bytes);
        arguments[static_cast<std::size_t>(count++)] = {operand.number, operand.memory.get()};
      }
      const dnnl_status_t status =
          onednn_->dnnl_primitive_execute(execution.primitive, piece.stream.get(), count, arguments.data());
      if (status != dnnl_success) status_.store(status, std::memory_order_relaxed);
    }
  }

  void check() override { onednn_->check(status_.exchange(dnnl_success, std::memory_order_relaxed), "a convolution"); }

 private:
  struct Tensor {
    int rank = 4;
    std::size_t buffer = 0;
    std::int64_t offset = 0;                     // in elements
    dnnl_dims_t dims, part_dims, strides;        // of the whole, of a part; of the view, in elements
  };

  dnnl_memory_desc_t any_layout(std::size_t role) const {
    const Tensor& t = tensors_[role];
    dnnl_memory_desc_t desc;
    onednn_->check(onednn_->dnnl_memory_desc_init_by_tag(&desc, t.rank, t.part_dims, dnnl_f32, dnnl_format_tag_any),
                   "describing a tensor");
    return desc;
  }
  /// As a part lies in its view, behind the part's first element.
  dnnl_memory_desc_t as_viewed(std::size_t role) const {
    const Tensor& t = tensors_[role];
    dnnl_memory_desc_t desc;
    onednn_->check(onednn_->dnnl_memory_desc_init_by_strides(&desc, t.rank, t.part_dims, dnnl_f32, t.strides),
                   "describing a tensor");
    return desc;
  }
  Place place_in_view(std::size_t role, std::int64_t part) const {
    const Tensor& t = tensors_[role];
    const int dimension = cut_.dimension[role];
    const std::int64_t skipped = dimension < 0 ? 0 : part * t.part_dims[dimension] * t.strides[dimension];
    return {t.buffer, static_cast<std::uint64_t>(t.offset + skipped) * sizeof(float)};
  }

  void prepare(std::uint32_t kind) {
    const Geometry& g = geometry_;
    const dnnl_memory_desc_t x = any_layout(kX), weight = any_layout(kWeight), y = any_layout(kY);
    dnnl_convolution_desc_t op;
    onednn_->check(onednn_->dnnl_dilated_convolution_forward_desc_init(&op, dnnl_forward_training,
                                                                       dnnl_convolution_direct, &x, &weight, nullptr,
                                                                       &y, g.stride, g.dilation, g.padding, g.padding),
                   "describing a convolution");
    const PrimitiveDesc forward(*onednn_, &op, nullptr);
    if (kind == CRUCIBLE_LIB_CONV2D) {
      return prepare_parts(forward, {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST},
                           {dnnl_query_src_md, dnnl_query_weights_md, dnnl_query_dst_md}, kY);
    }
    dnnl_convolution_desc_t gradient;
    if (kind == CRUCIBLE_LIB_CONV2D_BACKWARD_INPUT) {
      onednn_->check(
          onednn_->dnnl_dilated_convolution_backward_data_desc_init(&gradient, dnnl_convolution_direct, &x, &weight, &y,
                                                                    g.stride, g.dilation, g.padding, g.padding),
          "describing a convolution's gradient");
      const PrimitiveDesc backward(*onednn_, &gradient, forward.get());
      return prepare_parts(backward, {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST},
                           {dnnl_query_diff_src_md, dnnl_query_weights_md, dnnl_query_diff_dst_md}, kX);
    }
    onednn_->check(
        onednn_->dnnl_dilated_convolution_backward_weights_desc_init(
            &gradient, dnnl_convolution_direct, &x, &weight, nullptr, &y, g.stride, g.dilation, g.padding, g.padding),
        "describing a convolution's gradient");
    const PrimitiveDesc backward(*onednn_, &gradient, forward.get());
    prepare_parts(backward, {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST},
                  {dnnl_query_src_md, dnnl_query_diff_weights_md, dnnl_query_diff_dst_md}, kWeight);
  }

  /// `desc`: the primitive of one part; by role its arguments' numbers, and what tells their layouts.
  void prepare_parts(const PrimitiveDesc& desc, const std::array<int, 3>& numbers,
                     const std::array<dnnl_query_t, 3>& layouts, std::size_t result) {
    primitives_.emplace_back(*onednn_, desc.get());
    const dnnl_primitive_t primitive = primitives_.back().get();
    std::vector<Piece> shared, parts;
    for (std::int64_t part = 0; part < cut_.parts; ++part) parts.push_back({Stream(*onednn_), {}});
    std::vector<std::vector<Execution::Operand>> operands(parts.size());
    std::vector<std::vector<Execution>> after(parts.size());
    for (std::size_t role = 0; role < 3; ++role) {
      const dnnl_memory_desc_t viewed = as_viewed(role), &chosen = desc.memory(layouts[role]);
      const bool is_same = onednn_->dnnl_memory_desc_equal(&viewed, &chosen) != 0;
      const bool is_own = cut_.dimension[role] >= 0 || cut_.parts == 1;
      Place copy{Place::kScratch, 0};
      if (!is_same && !is_own) {
        copy.bytes = take_scratch(chosen);
        share(shared, role, viewed, chosen, copy);
      }
      for (std::int64_t part = 0; part < cut_.parts; ++part) {
        const auto p = static_cast<std::size_t>(part);
        const Place place = place_in_view(role, part);
        if (!is_same && is_own) {
          copy.bytes = take_scratch(chosen);
          if (role == result) {
            after[p].push_back(reorder(chosen, copy, viewed, place));
          } else {
            parts[p].executions.push_back(reorder(viewed, place, chosen, copy));
          }
        }
        operands[p].push_back({numbers[role], Memory(*onednn_, chosen), is_same ? place : copy});
      }
    }
    const dnnl_memory_desc_t& pad = desc.memory(dnnl_query_scratchpad_md);
    const bool has_pad = onednn_->dnnl_memory_desc_get_size(&pad) != 0;
    for (std::size_t p = 0; p < parts.size(); ++p) {
      if (has_pad)
        operands[p].push_back({DNNL_ARG_SCRATCHPAD, Memory(*onednn_, pad), {Place::kScratch, take_scratch(pad)}});
      parts[p].executions.push_back({primitive, std::move(operands[p])});
      for (Execution& execution : after[p]) parts[p].executions.push_back(std::move(execution));
    }
    if (!shared.empty()) stages_.push_back(std::move(shared));
    stages_.push_back(std::move(parts));
  }

  /// The reorder of what all parts read, itself in as many pieces as there are parts where its first dimension and the
  /// chosen layout can be cut so.
  void share(std::vector<Piece>& pieces, std::size_t role, const dnnl_memory_desc_t& viewed,
             const dnnl_memory_desc_t& chosen, const Place& copy) {
    const Tensor& t = tensors_[role];
    const Place place = place_in_view(role, 0);
    constexpr std::int64_t kRows = 64;  // of weights that no layout of oneDNN packs together with the next
    const std::int64_t count = parts_of(t.dims[0], role == kWeight && t.rank == 4 ? kRows : 1, cut_.parts);
    std::vector<Piece> cut;
    for (std::int64_t i = 0; i < count && count > 1; ++i) {
      dnnl_dims_t dims, starts = {};
      std::copy_n(t.dims, t.rank, dims);
      dims[0] /= count;
      starts[0] = i * dims[0];
      dnnl_memory_desc_t from, to;
      if (onednn_->dnnl_memory_desc_init_submemory(&from, &viewed, dims, starts) != dnnl_success ||
          onednn_->dnnl_memory_desc_init_submemory(&to, &chosen, dims, starts) != dnnl_success) {
        cut.clear();
        break;
      }
      cut.push_back({Stream(*onednn_), {}});
      cut.back().executions.push_back(reorder(from, place, to, copy));
    }
    if (cut.empty()) {
      cut.push_back({Stream(*onednn_), {}});
      cut.back().executions.push_back(reorder(viewed, place, chosen, copy));
    }
    for (Piece& piece : cut) pieces.push_back(std::move(piece));
  }

  Execution reorder(const dnnl_memory_desc_t& from, const Place& from_place, const dnnl_memory_desc_t& to,
                    const Place& to_place) {
    primitives_.push_back(make_reorder(*onednn_, from, to));
    Execution execution{primitives_.back().get(), {}};
    execution.operands.push_back({DNNL_ARG_FROM, Memory(*onednn_, from), from_place});
    execution.operands.push_back({DNNL_ARG_TO, Memory(*onednn_, to), to_place});
    return execution;
  }

  std::uint64_t take_scratch(const dnnl_memory_desc_t& desc) {
    const std::uint64_t offset = scratch_bytes_;
    scratch_bytes_ = (offset + onednn_->dnnl_memory_desc_get_size(&desc) + kAlign - 1) / kAlign * kAlign;
    return offset;
  }

  std::shared_ptr<const OneDnn> onednn_;  // first: everything below is destroyed through it
  Geometry geometry_;                     // its views are the host's, and are not looked at after construction
  Cut cut_;
  std::array<Tensor, 3> tensors_;  // by role
  std::uint64_t scratch_bytes_ = 0;
  std::vector<Primitive> primitives_;
  std::vector<std::vector<Piece>> stages_;
  std::atomic<dnnl_status_t> status_{dnnl_success};
};

}  // namespace

std::unique_ptr<LibraryCall> make_convolution(std::shared_ptr<const OneDnn> onednn, const crucible_library_desc& desc,
                                              int threads) {
  return std::make_unique<Convolution>(std::move(onednn), desc, threads);
}

}  // namespace crucible_cpu

#endif  // CRUCIBLE_HAVE_ONEDNN
