"""The inputs of this folder and what each must give: python rows.py lists the names.

A row is one command to record and what a replay of the recording must say. An input that is wrong in a new way gets a
row of its own.
"""

import dataclasses
import typing

# What a replay is asked for, by name. `opencl` and `interpreted` must end with the bits of `strict`.
WAYS = {
    "fast": ("--numerics", "fast"),
    "strict": ("--numerics", "strict"),
    "reference": ("--backend", "reference"),
    "interpreted": ("--backend", "reference", "--numerics", "strict"),
    "opencl": ("--device", "opencl:0", "--numerics", "strict"),
}


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    file: str                                       # in inputs/
    arguments: typing.Sequence[str] = ()            # of the script
    record: typing.Sequence[str] = ()               # further options of `crucible record`
    environment: typing.Mapping[str, str] = dataclasses.field(default_factory=dict)
    exit_code: int = 0                              # of the script, and so of `record`
    verified: bool = True                           # what each way's verdict must be
    bit_equal: bool = False                         # every output must have the recorded bits
    says: typing.Sequence[str] = ()                 # words that the verdict of each way must have
    summary: typing.Sequence[str] = ()              # words that the summary of `record` must have
    ops: typing.Sequence[str] = ()                  # ops that must be in the recording
    also: typing.Sequence[typing.Sequence[str]] = ()  # further commands; TRACE stands for the recording; exit code 0
    ways: typing.Sequence[str] = tuple(WAYS)
    forks: bool = False  # its ops run on threads of the framework's own, which may abort at the end (bugs_test.py)
    fresh: bool = False  # recorded in an interpreter of its own (tests/warm): how it starts is a part of it
    broken: str = ""                                # why it is not a test yet


ROWS = [
    Row("dtype_view", "02_dtype_view.py", bit_equal=True),
    Row("bits_in_states", "02b_bits_in_states.py"),
    Row("bits_of_numbers", "02c_bits_of_numbers.py", ways=("fast", "reference")),
    Row("mark_then_list", "05b_mark_then_list.py", bit_equal=True, also=[("replay", "TRACE", "--verify", "--no-fuse")]),
    Row("pool_nan", "10_pool_nan.py"),
    Row("number_changes_kind", "11b_number_changes_kind.py"),
    Row("kinds_of_numbers", "kinds_of_numbers.py"),
    Row("kinds_of_numbers_compared", "kinds_of_numbers.py", ["compare"]),
    Row("max_pool1d", "17_max_pool1d_inference.py", bit_equal=True),
    Row("conv_pool1d_linear", "17b_conv_pool1d_linear.py", ops=["aten::convolution", "aten::relu", "aten::addmm"]),
    Row("bias_before_batch_norm", "20b_bias_before_batch_norm.py"),
    Row("time_stamps", "24c_time_stamps.py", bit_equal=True),
    Row("whole_numbers", "whole_numbers.py"),
    Row("whole_numbers_constant", "whole_numbers.py", ["constant"]),
    Row("training_that_diverges", "26_training_that_diverges.py"),
    *(Row(f"nan_states_{which}", "26b_nan_states.py", [which]) for which in ("f32", "f16", "bf16", "f64", "all")),
    *(Row(f"nan_everywhere_{which}", "nan_everywhere.py", [which]) for which in ("f32", "f16", "bf16", "f64")),
    Row("half_linear_bias", "27_half_linear_bias.py", bit_equal=True),
    Row("half_bias_everywhere", "half_bias_everywhere.py", bit_equal=True),
    Row("gradients_through_nan", "29_gradients_through_nan.py", also=[("replay", "TRACE", "--verify", "--no-fuse")]),
    Row("layers_that_write", "30_layers_that_write.py"),
    Row("many_pieces", "many_pieces.py"),
    Row("transformer_fast_path", "31_transformer_fast_path.py"),
    Row("transformer_fast_path_masked", "31_transformer_fast_path.py", ["--masked"]),
    Row("attention_masks", "31b_attention_masks.py", ways=("fast", "reference")),
    Row("complex_filter", "32d_complex_filter.py", ways=("fast", "reference")),
    Row("kv_cache", "32_kv_cache.py"),
    Row("kv_cache_narrow", "32b_kv_cache_narrow.py"),
    *(Row(f"complex_layers_{how}", "32c_complex_layers.py", [how]) for how in ("sgd", "adam", "double")),
    Row("dataloader_worker", "dataloader_worker.py"),
    *(Row(f"loader_workers_{kind}", "loader_workers.py", [kind]) for kind in ("int", "float")),
    *(Row(f"step_{'_'.join(how).replace('-', '') or 'plain'}", "33_step.py", how,
          fresh="--exec" in how or "--workers" in how)
      for how in ([], ["--chdir"], ["--exec"], ["--workers"], ["--workers", "--spawn"], ["--main-guard"])),
    Row("step_exit", "33_step.py", ["--exit"],
        exit_code=7), *(Row(f"values_by_{how}", "44_values_by_list_and_numpy.py", [how], says=[
            "yes, but in each iteration 9 values left the program at 44_values_by_list"
        ], summary=["3 tensors that entered afterwards", "what Python did in between is not replayed"])
                        for how in ("tolist", "numpy", "item")),
    Row("values_by_clone", "44_values_by_list_and_numpy.py", ["clone"]),
    Row("identity", "52_identity.py", verified=False, also=[("plan", "TRACE", "--objective", "least-memory")]),
    Row("product_with_itself", "53_product_with_itself.py", bit_equal=True),
    *(Row(f"transformed_{how}", "57_scripted_and_transformed.py", [how], forks=how.startswith("fork"),
          fresh=how in ("compile", "fork", "fork_grad"))
      for how in ("plain", "compile", "trace", "script", "fork", "fork_grad", "vmap", "double", "hooks")),
    Row("transformed_thread", "57_scripted_and_transformed.py", ["thread"],
        says=["yes, but 8 ops ran on threads that are not recorded"],
        summary=["not recorded: ops on threads that are not recorded"]),
    Row("bn_bias_adam", "bn_bias_adam.py"),
    Row("bn_bias_sgd", "bn_bias_sgd.py"),
    Row("conv_bias_before_batchnorm", "conv_bias_before_batchnorm.py"),
    Row("running_mean_of_zero", "running_mean_of_zero.py"),
    Row("noise_rule_gan_betas", "noise_rule_gan_betas.py"),
    Row("clip_norm_order", "clip_norm_order.py"),
    Row("clip_sgd", "clip_sgd.py"),
    Row("cancelling_loss", "cancelling_loss.py"),
    Row("two_optimizers_one_parameter", "two_optimizers_one_parameter.py"),
    Row("autoencoder_adamax", "autoencoder_adamax.py"),
    Row("mobilenet_rmsprop", "mobilenet_rmsprop.py"),
    Row("divided_by_noise", "divided_by_noise.py"),
    Row("number_then_tensor", "number_then_tensor.py"),
    Row("zeros_shared", "zeros_shared.py", also=[("replay", "TRACE", "--verify", "--no-fuse")]),
    Row("mining_mask", "mining_mask.py"),
    Row("compare_memory_plan", "compare_memory_plan.py", also=[("compare", "TRACE", "--backends", "reference,cpu")]),
    Row("hann_window", "hann_window.py", ops=("aten::hann_window",)),
    Row("mask_and_index_put", "mask_and_index_put.py"),
    Row("complex_roll", "complex_roll.py", ops=("aten::roll",)),
    Row("sparse_coo_mm", "sparse_coo_mm.py", ops=("aten::mm",)),
    *(Row(f"sparse_weights_{how}", "sparse_weights.py", (how,)) for how in ("coo", "csr", "sum")),
    Row("packed_sequences", "packed_sequences.py", ops=("aten::_pack_padded_sequence",)),
    *(Row(f"quantization_aware_{how}", "quantization_aware.py", (how,),
          ops=("aten::_fused_moving_avg_obs_fq_helper",)) for how in ("fbgemm", "qnnpack")),
    Row("detection_head", "detection_head.py", ops=("torchvision::nms", "torchvision::_roi_align_backward")),
    Row("ctc_lengths_list", "ctc_lengths.py", ("list",), ops=("aten::_ctc_loss", "aten::stack")),
    Row("ctc_lengths_tensor", "ctc_lengths.py", ("tensor",), ops=("aten::_ctc_loss",)),
    Row("ctc_lengths_one", "ctc_lengths.py", ("one",)),
]

if __name__ == "__main__":
    print(*(row.name for row in ROWS if not row.broken), sep="\n")
