"""Ops of the lowering table that only a build of the framework for a device runs.

frontends/aten has them in traces written by hand and compares them with what the CPU build runs.
"""

DEVICE_ONLY = {
    "aten::convolution_overrideable", "aten::convolution_backward_overrideable",
    "aten::cudnn_convolution", "aten::cudnn_convolution_transpose", "aten::cudnn_convolution_relu",
    "aten::cudnn_convolution_add_relu", "aten::miopen_convolution", "aten::miopen_convolution_transpose",
    "aten::miopen_depthwise_convolution", "aten::miopen_convolution_relu", "aten::miopen_convolution_add_relu",
    "aten::_conv_depthwise2d", "aten::conv_depthwise3d",
}
