"""Ops of the lowering table that only a build of the framework for a device runs, only inference mode, or only torch 1.

frontends/aten has them in traces written by hand and compares them with what the CPU build runs.
"""

DEVICE_ONLY = {
    "aten::convolution_overrideable", "aten::convolution_backward_overrideable",
    "aten::cudnn_convolution", "aten::cudnn_convolution_transpose", "aten::cudnn_convolution_relu",
    "aten::cudnn_convolution_add_relu", "aten::miopen_convolution", "aten::miopen_convolution_transpose",
    "aten::miopen_depthwise_convolution", "aten::miopen_convolution_relu", "aten::miopen_convolution_add_relu",
    "aten::_conv_depthwise2d", "aten::conv_depthwise3d",
    "aten::_scaled_dot_product_flash_attention", "aten::_scaled_dot_product_flash_attention_backward",
    "aten::_scaled_dot_product_efficient_attention", "aten::_scaled_dot_product_efficient_attention_backward",
    "aten::_scaled_dot_product_cudnn_attention", "aten::_scaled_dot_product_cudnn_attention_backward",
    "aten::_scaled_dot_product_fused_attention_overrideable",
    "aten::_scaled_dot_product_fused_attention_overrideable_backward",
    "aten::_cudnn_attention_forward", "aten::_cudnn_attention_backward",
    "aten::_flash_attention_forward", "aten::_flash_attention_backward",
    "aten::_efficient_attention_forward", "aten::_efficient_attention_backward",
    "aten::_scaled_dot_product_attention_math", "aten::_scaled_dot_product_attention_math_for_mps",
    "aten::cudnn_batch_norm", "aten::cudnn_batch_norm_backward",
    "aten::miopen_batch_norm", "aten::miopen_batch_norm_backward",
    "aten::batch_norm_stats", "aten::batch_norm_elemt", "aten::batch_norm_gather_stats",
    "aten::batch_norm_gather_stats_with_counts", "aten::batch_norm_backward_reduce", "aten::batch_norm_backward_elemt",
    "aten::_cudnn_rnn", "aten::_cudnn_rnn_backward", "aten::miopen_rnn", "aten::miopen_rnn_backward",
    "aten::_thnn_fused_lstm_cell", "aten::_thnn_fused_lstm_cell_backward_impl", "aten::_thnn_fused_gru_cell",
    "aten::_thnn_fused_gru_cell_backward",
    "aten::_fused_rms_norm", "aten::_fused_rms_norm_backward",
    "aten::to.dtype_layout", "aten::_fused_dropout", "aten::_masked_scale", "aten::_foreach_powsum.Scalar",
    "aten::im2col_backward", "aten::col2im_backward",
    "aten::mm.dtype", "aten::bmm.dtype", "aten::addmm.dtype", "aten::baddbmm.dtype",
    "aten::_cudnn_ctc_loss", "aten::_cudnn_ctc_loss.Tensor", "aten::miopen_ctc_loss", "aten::miopen_ctc_loss.Tensor",
    "aten::cudnn_affine_grid_generator_backward",
    "aten::cudnn_grid_sampler", "aten::cudnn_grid_sampler_backward", "aten::cudnn_affine_grid_generator",
}
