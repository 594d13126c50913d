// Convolutions through oneDNN, forward and both gradients, on dense NCHW views. oneDNN chooses its own layouts; what it
// chooses differently from the views is reordered on the way in and out, in scratch memory that the host's plan owns.
#include "backends/cpu/library_onednn.hpp"
#include "backends/cpu/sdk.hpp"

#ifdef CRUCIBLE_HAVE_ONEDNN

#include <algorithm>
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
  void point_to(void* data) { onednn_.dnnl_memory_set_data_handle(memory_, data); }
  dnnl_memory_t get() const { return memory_; }

 private:
  const OneDnn& onednn_;
  dnnl_memory_t memory_ = nullptr;
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

/// One tensor of the call: the host's view and, where oneDNN wants another layout, a place in scratch and the copy.
struct Argument {
  int number;           // DNNL_ARG_...
  std::size_t buffer;   // index in the call's buffers
  std::int64_t offset;  // in elements
  bool is_result;
  Memory plain, chosen;  // the same layout when there is no reorder
  std::uint64_t scratch_offset = 0;
  std::vector<Primitive> reorder;  // one or none
};

class Convolution final : public LibraryCall {
 public:
  Convolution(std::shared_ptr<const OneDnn> onednn, const crucible_library_desc& desc) : onednn_(std::move(onednn)) {
    const Geometry g = read_geometry(desc);
    const Descriptions any{describe(4, g.x_dims, dnnl_format_tag_any),
                           describe(g.weight_rank, g.weight_dims, dnnl_format_tag_any),
                           describe(4, g.y_dims, dnnl_format_tag_any)};
    const Descriptions plain{describe(4, g.x_dims, dnnl_abcd),
                             describe(g.weight_rank, g.weight_dims, g.weight_rank == 4 ? dnnl_abcd : dnnl_abcde),
                             describe(4, g.y_dims, dnnl_abcd)};
    switch (desc.kind) {
      case CRUCIBLE_LIB_CONV2D:
        prepare_forward(desc, g, any, plain);
        break;
      case CRUCIBLE_LIB_CONV2D_BACKWARD_INPUT:
        prepare_backward_input(desc, g, any, plain);
        break;
      default:
        prepare_backward_weight(desc, g, any, plain);
        break;
    }
  }

  std::uint64_t scratch_bytes() const override { return scratch_bytes_; }

  void run(void* const* buffers, std::byte* scratch, Team&) override {
    std::vector<dnnl_exec_arg_t>& arguments = execute_arguments_;
    arguments.clear();
    for (Argument& argument : arguments_) {
      float* data = static_cast<float*>(buffers[argument.buffer]) + argument.offset;
      argument.plain.point_to(data);
      argument.chosen.point_to(argument.reorder.empty() ? static_cast<void*>(data) : scratch + argument.scratch_offset);
      arguments.push_back({argument.number, argument.chosen.get()});
      if (!argument.is_result) reorder(argument, argument.plain, argument.chosen);
    }
    for (Memory& pad : scratchpad_) {
      pad.point_to(scratch + scratchpad_offset_);
      arguments.push_back({DNNL_ARG_SCRATCHPAD, pad.get()});
    }
    execute(primitive_.front(), arguments);
    for (Argument& argument : arguments_) {
      if (argument.is_result) reorder(argument, argument.chosen, argument.plain);
    }
  }

 private:
  struct Descriptions {
    dnnl_memory_desc_t x, weight, y;
  };

  dnnl_convolution_desc_t forward_op(const Geometry& g, const Descriptions& d) const {
    dnnl_convolution_desc_t op;
    onednn_->check(onednn_->dnnl_dilated_convolution_forward_desc_init(
                       &op, dnnl_forward_training, dnnl_convolution_direct, &d.x, &d.weight, nullptr, &d.y, g.stride,
                       g.dilation, g.padding, g.padding),
                   "describing a convolution");
    return op;
  }

  void prepare_forward(const crucible_library_desc& desc, const Geometry& g, const Descriptions& any,
                       const Descriptions& plain) {
    const dnnl_convolution_desc_t op = forward_op(g, any);
    const PrimitiveDesc forward(*onednn_, &op, nullptr);
    primitive_.emplace_back(*onednn_, forward.get());
    add(0, DNNL_ARG_SRC, desc, plain.x, forward.memory(dnnl_query_src_md), false);
    add(1, DNNL_ARG_WEIGHTS, desc, plain.weight, forward.memory(dnnl_query_weights_md), false);
    add(2, DNNL_ARG_DST, desc, plain.y, forward.memory(dnnl_query_dst_md), true);
    add_scratchpad(forward);
  }

  void prepare_backward_input(const crucible_library_desc& desc, const Geometry& g, const Descriptions& any,
                              const Descriptions& plain) {
    const dnnl_convolution_desc_t hint = forward_op(g, any);
    const PrimitiveDesc forward(*onednn_, &hint, nullptr);
    dnnl_convolution_desc_t op;
    onednn_->check(
        onednn_->dnnl_dilated_convolution_backward_data_desc_init(&op, dnnl_convolution_direct, &any.x, &any.weight,
                                                                  &any.y, g.stride, g.dilation, g.padding, g.padding),
        "describing a convolution's gradient");
    const PrimitiveDesc backward(*onednn_, &op, forward.get());
    primitive_.emplace_back(*onednn_, backward.get());
    add(0, DNNL_ARG_DIFF_DST, desc, plain.y, backward.memory(dnnl_query_diff_dst_md), false);
    add(1, DNNL_ARG_WEIGHTS, desc, plain.weight, backward.memory(dnnl_query_weights_md), false);
    add(2, DNNL_ARG_DIFF_SRC, desc, plain.x, backward.memory(dnnl_query_diff_src_md), true);
    add_scratchpad(backward);
  }

  void prepare_backward_weight(const crucible_library_desc& desc, const Geometry& g, const Descriptions& any,
                               const Descriptions& plain) {
    const dnnl_convolution_desc_t hint = forward_op(g, any);
    const PrimitiveDesc forward(*onednn_, &hint, nullptr);
    dnnl_convolution_desc_t op;
    onednn_->check(onednn_->dnnl_dilated_convolution_backward_weights_desc_init(&op, dnnl_convolution_direct, &any.x,
                                                                                &any.weight, nullptr, &any.y, g.stride,
                                                                                g.dilation, g.padding, g.padding),
                   "describing a convolution's gradient");
    const PrimitiveDesc backward(*onednn_, &op, forward.get());
    primitive_.emplace_back(*onednn_, backward.get());
    add(0, DNNL_ARG_DIFF_DST, desc, plain.y, backward.memory(dnnl_query_diff_dst_md), false);
    add(1, DNNL_ARG_SRC, desc, plain.x, backward.memory(dnnl_query_src_md), false);
    add(2, DNNL_ARG_DIFF_WEIGHTS, desc, plain.weight, backward.memory(dnnl_query_diff_weights_md), true);
    add_scratchpad(backward);
  }

  dnnl_memory_desc_t describe(int rank, const dnnl_dims_t dims, dnnl_format_tag_t tag) const {
    dnnl_memory_desc_t desc;
    onednn_->check(onednn_->dnnl_memory_desc_init_by_tag(&desc, rank, dims, dnnl_f32, tag), "describing a tensor");
    return desc;
  }

  std::uint64_t take_scratch(const dnnl_memory_desc_t& desc) {
    const std::uint64_t offset = scratch_bytes_;
    scratch_bytes_ = (offset + onednn_->dnnl_memory_desc_get_size(&desc) + kAlign - 1) / kAlign * kAlign;
    return offset;
  }

  void add(std::size_t buffer, int number, const crucible_library_desc& desc, const dnnl_memory_desc_t& plain,
           const dnnl_memory_desc_t& chosen, bool is_result) {
    Argument argument{
        number, buffer, desc.views[buffer].offset, is_result, Memory(*onednn_, plain), Memory(*onednn_, chosen), 0, {}};
    if (onednn_->dnnl_memory_desc_equal(&plain, &chosen) == 0) {
      argument.scratch_offset = take_scratch(chosen);
      argument.reorder.push_back(is_result ? make_reorder(*onednn_, chosen, plain)
                                           : make_reorder(*onednn_, plain, chosen));
    }
    arguments_.push_back(std::move(argument));
  }

  void add_scratchpad(const PrimitiveDesc& desc) {
    const dnnl_memory_desc_t& pad = desc.memory(dnnl_query_scratchpad_md);
    if (onednn_->dnnl_memory_desc_get_size(&pad) == 0) return;
    scratchpad_offset_ = take_scratch(pad);
    scratchpad_.emplace_back(*onednn_, pad);
  }

  void reorder(const Argument& argument, const Memory& from, const Memory& to) {
    if (argument.reorder.empty()) return;
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, from.get()}, {DNNL_ARG_TO, to.get()}};
    onednn_->check(onednn_->dnnl_primitive_execute(argument.reorder.front().get(), onednn_->stream, 2, arguments),
                   "a reorder");
  }

  void execute(const Primitive& primitive, const std::vector<dnnl_exec_arg_t>& arguments) {
    onednn_->check(onednn_->dnnl_primitive_execute(primitive.get(), onednn_->stream, static_cast<int>(arguments.size()),
                                                   arguments.data()),
                   "a convolution");
  }

  std::shared_ptr<const OneDnn> onednn_;  // first: everything below is destroyed through it
  std::vector<Primitive> primitive_;      // one
  std::vector<Argument> arguments_;
  std::vector<Memory> scratchpad_;  // one or none
  std::uint64_t scratchpad_offset_ = 0, scratch_bytes_ = 0;
  std::vector<dnnl_exec_arg_t> execute_arguments_;  // kept between runs, so that a run allocates nothing
};

}  // namespace

std::unique_ptr<LibraryCall> make_convolution(std::shared_ptr<const OneDnn> onednn, const crucible_library_desc& desc) {
  return std::make_unique<Convolution>(std::move(onednn), desc);
}

}  // namespace crucible_cpu

#endif  // CRUCIBLE_HAVE_ONEDNN
