// The list of known ops without a lowering: see refusals.hpp. An entry of the lowering table goes before it, so that a
// pattern may cover more than what is missing.
#include "frontends/aten/call/refusals.hpp"

#include <algorithm>
#include <array>

namespace crucible::aten {
namespace {

constexpr std::string_view kRecordTheProgram = "record the program itself rather than a graph that was traced from it";
constexpr std::string_view kFunctional =
    "it is a functional form that tracing makes of an op that writes in place, and no program calls it";
constexpr std::string_view kViewCopy = "it is a copy in place of a view, which tracing alone asks for";
constexpr std::string_view kEightBits = "it computes with 8-bit floats, a dtype that recordings do not have";
constexpr std::string_view kInBf16 = "record the model in bf16, without its layers of 8-bit floats";
constexpr std::string_view kQuantized =
    "quantized tensors have a scale and a zero point beside their integers, and are not replayed";
constexpr std::string_view kFake =
    "use fake quantization (torch.ao.quantization.FakeQuantize), or the model before it was converted";
constexpr std::string_view kNested = "tensors of tensors are recorded as their parts and not computed with";
constexpr std::string_view kPadded = "pad the sequences (torch.nested.to_padded_tensor) and give a mask";
constexpr std::string_view kPacked = "its weights are packed for one kernel in a form that is not public";
constexpr std::string_view kUnpacked = "record the model before its weights are packed";
constexpr std::string_view kSemi = "weights of which two of four are kept have a form of one kernel's own";
constexpr std::string_view kBlocks =
    "it makes or reads a compressed sparse tensor, of which only reading as dense is known";
constexpr std::string_view kDense = "use to_dense(), or a COO tensor with torch.sparse.mm";
constexpr std::string_view kLayout = "oneDNN's own layouts of tensors are not public";
constexpr std::string_view kPlain = "leave to_mkldnn() out";
constexpr std::string_view kMetal = "it is an op of Apple's devices, on which nothing was ever recorded";
constexpr std::string_view kOfTests = "it is an op of the framework's own tests";
constexpr std::string_view kForward = "it belongs to forward-mode differentiation";
constexpr std::string_view kReverse = "record with torch.autograd's backward";
constexpr std::string_view kInner = "it is a step inside another op, which is recorded in its place";
constexpr std::string_view kHandle = "it moves no numbers but tells the framework of memory or of a dependence";
constexpr std::string_view kOutOfComposite = "it writes what a composite op computes into memory of its caller";
constexpr std::string_view kWithoutOut = "call it without out=";
constexpr std::string_view kNamed = "it names dimensions, which recordings do not keep";
constexpr std::string_view kWithoutNames = "make the tensor without names";

constexpr std::array kRefusals = std::to_array<Refusal>({
    // What a device's build alone has.
    {"aten::_scaled_mm*", kEightBits, kInBf16},
    {"aten::_scaled_grouped_mm*", kEightBits, kInBf16},
    {"*.quantized", kEightBits, kInBf16},
    {"aten::_mixed_dtypes_linear", kPacked, kUnpacked},
    {"aten::_weight_int4pack_mm*", kPacked, kUnpacked},
    {"aten::_convert_weight_to_int4pack*", kPacked, kUnpacked},
    {"aten::_dyn_quant_*", kPacked, kUnpacked},
    {"aten::_weight_int8pack_mm", kPacked, kUnpacked},
    {"aten::_cslt_*", kSemi, "record the model with its dense weights"},
    {"aten::_sparse_semi_structured_*", kSemi, "record the model with its dense weights"},
    {"aten::_to_sparse_semi_structured", kSemi, "record the model with its dense weights"},
    {"aten::_cudnn_rnn_flatten_weight",
     "it moves a layer's weights into one piece of memory, so that parameters change without an op",
     "call flatten_parameters() before the first iteration (moving the module to its device does)"},
    {"aten::_triton_multi_head_attention", "it is an attention of one kernel's own, which no version calls", ""},
    {"aten::_fill_mem_eff_dropout_mask_", "it draws a mask of seed and offset for tests",
     "use torch.nn.functional.scaled_dot_product_attention, whose masks are drawn again"},
    // Numbers that no recording and no kind of op has.
    {"aten::hash_tensor", "its result is u64, a dtype that recordings do not have", ""},
    {"aten::linalg_eig", "its results are complex whatever the matrix, and no kind computes them",
     "use torch.linalg.eigh where the matrix is symmetric"},
    {"aten::_triton_scaled_dot_attention", "it is an attention of one kernel's own, which no version calls", ""},
    {"aten::linalg_eigvals", "its results are complex whatever the matrix, and no kind computes them",
     "use torch.linalg.eigvalsh where the matrix is symmetric"},
    {"aten::_linalg_eigvals", "its results are complex whatever the matrix, and no kind computes them",
     "use torch.linalg.eigvalsh where the matrix is symmetric"},
    {"aten::linalg_ldl_*", "no kind computes the LDL factorization of indefinite matrices",
     "use torch.linalg.cholesky or torch.linalg.solve"},
    {"aten::_standard_gamma_grad", "it is the implicit gradient of a gamma sample, for which there is no kind", ""},
    {"aten::_dirichlet_grad", "it is the implicit gradient of a Dirichlet sample, for which there is no kind", ""},
    // Quantized, nested and compressed tensors, and those of one library's layout.
    {"aten::quantize*", kQuantized, kFake},
    {"aten::dequantize", kQuantized, kFake},
    {"aten::int_repr", kQuantized, kFake},
    {"aten::q_per_channel_*", kQuantized, kFake},
    {"aten::empty_quantized*", kQuantized, kFake},
    {"aten::_empty_affine_quantized*", kQuantized, kFake},
    {"aten::_empty_per_channel_affine_quantized*", kQuantized, kFake},
    {"aten::_make_per_*", kQuantized, kFake},
    {"aten::_add_relu*", kQuantized, kFake},
    {"aten::_nnpack_spatial_convolution", "it is a convolution that no version chooses",
     "use torch.nn.functional.conv2d"},
    {"aten::_fake_quantize_learnable_*", "its gradient for scale and zero point is not written yet",
     "use torch.ao.quantization.FakeQuantize, whose scale comes from observers"},
    {"aten::_fused_moving_avg_obs_fq_helper_functional", kFunctional, kRecordTheProgram},
    {"aten::_nested_*", kNested, kPadded},
    {"aten::_jagged_to_padded_dense_forward", kNested, kPadded},
    {"aten::_padded_dense_to_jagged_forward", kNested, kPadded},
    {"aten::linear_backward", kNested, kPadded},
    {"aten::matmul_backward", kNested, kPadded},
    {"aten::_to_sparse_bs*", kBlocks, kDense},
    {"aten::_convert_indices_from_*", kBlocks, kDense},
    {"aten::_sparse_compressed_tensor_with_dims", kBlocks, kDense},
    {"aten::sparse_compressed_tensor*", kBlocks, kDense},
    {"aten::_sparse_csr_*", kBlocks, kDense},
    {"aten::_sparse_mm_reduce_impl*", kBlocks, kDense},
    {"aten::sparse_sampled_addmm*", kBlocks, kDense},
    {"aten::_spsolve", kBlocks, kDense},
    {"aten::_sparse_*", "no sparse form of it is known", kDense},
    {"aten::_spdiags", "no sparse form of it is known", kDense},
    {"aten::hspmm", "no sparse form of it is known", kDense},
    {"aten::sspaddmm", "no sparse form of it is known", kDense},
    {"aten::native_norm", "no sparse form of it is known", kDense},
    {"aten::_coalesced*", "it says of a sparse tensor that its indices are in order, and nothing shows that they are",
     "call coalesce() instead"},
    {"aten::copy_sparse_to_sparse*", "it gives a sparse tensor other places", kDense},
    {"aten::sparse_resize*", "it gives a sparse tensor other places", kDense},
    {"aten::resize_as_sparse*", "it gives a sparse tensor other places", kDense},
    {"aten::sparse_coo_tensor.size*", "it makes a sparse tensor without places, to be filled in place", kDense},
    {"aten::to_mkldnn", kLayout, kPlain},
    {"aten::mkldnn_*", kLayout, kPlain},
    {"aten::_mkldnn_*", kLayout, kPlain},
    {"aten::max_pool2d_backward", kMetal, ""},
    {"aten::_mps_*", kMetal, ""},
    {"aten::mps_*", kMetal, ""},
    {"aten::lstm_mps_backward", kMetal, ""},
    // What tracing makes, and what no program sees.
    {"*_copy", kViewCopy, kRecordTheProgram},
    {"*_copy.out", kViewCopy, kRecordTheProgram},
    {"aten::_fused_adagrad*", kFunctional, kRecordTheProgram},
    {"aten::_fused_adam*", kFunctional, kRecordTheProgram},
    {"aten::_fused_sgd*", kFunctional, kRecordTheProgram},
    {"aten::_amp_foreach_*", kFunctional, kRecordTheProgram},
    {"aten::_amp_update_scale", kFunctional, kRecordTheProgram},
    {"aten::_index_put_impl", kFunctional, kRecordTheProgram},
    {"aten::_resize_output", kFunctional, kRecordTheProgram},
    {"aten::_resize_output_", kInner, ""},
    {"aten::resize", kFunctional, kRecordTheProgram},
    {"aten::resize_as", kFunctional, kRecordTheProgram},
    {"aten::set", kFunctional, kRecordTheProgram},
    {"aten::zero", kFunctional, kRecordTheProgram},
    {"aten::_functional_*", kFunctional, kRecordTheProgram},
    {"aten::lift", "it brings a constant of the call into a traced graph", kRecordTheProgram},
    {"aten::_new_zeros_with_same_feature_meta", kForward, kReverse},
    {"aten::_fw_primal", kForward, kReverse},
    {"aten::_make_dual", kForward, kReverse},
    {"aten::glu_jvp", kForward, kReverse},
    {"aten::glu_backward_jvp", kForward, kReverse},
    {"aten::slice_inverse", kForward, kReverse},
    {"aten::_cummax_helper", kInner, ""},
    {"aten::_cummin_helper", kInner, ""},
    {"aten::_compute_linear_combination", kInner, ""},
    {"aten::_slow_conv2d_backward", kInner, ""},
    {"aten::_copy_from*", kInner, ""},
    {"aten::_stack", kInner, ""},
    {"aten::_pin_memory", kHandle, ""},
    {"aten::_lazy_clone", kHandle, ""},
    {"aten::_make_dep_token", kHandle, ""},
    {"aten::record_stream", kHandle, ""},
    {"aten::from_file", "its memory is a file's, which the recording does not have",
     "read the file and make a tensor of it"},
    {"aten::linear.out", kOutOfComposite, kWithoutOut},
    {"aten::avg_pool1d.out", kOutOfComposite, kWithoutOut},
    {"aten::adaptive_avg_pool1d.out", kOutOfComposite, kWithoutOut},
    {"*.vec_out", kOutOfComposite, kWithoutOut},
    {"*.names", kNamed, kWithoutNames},
    {"*.names_out", kNamed, kWithoutNames},
    {"aten::_test_*", kOfTests, ""},
    {"aten::_foobar", kOfTests, ""},
});

bool matches(std::string_view pattern, std::string_view name) {
  if (pattern.ends_with('*')) return name.starts_with(pattern.substr(0, pattern.size() - 1));
  if (pattern.starts_with('*')) return name.ends_with(pattern.substr(1));
  return name == pattern || (name.starts_with(pattern) && name[pattern.size()] == '.');
}

}  // namespace

std::span<const Refusal> refusals() { return kRefusals; }

const Refusal* find_refusal(std::string_view full_name) {
  const auto found =
      std::ranges::find_if(kRefusals, [full_name](const Refusal& r) { return matches(r.names, full_name); });
  return found == kRefusals.end() ? nullptr : &*found;
}

std::string refusal_text(std::string_view full_name) {
  const Refusal* refusal = find_refusal(full_name);
  if (refusal == nullptr) return "";
  std::string text(refusal->why);
  if (!refusal->advice.empty()) text.append("; ").append(refusal->advice);
  return text;
}

}  // namespace crucible::aten
