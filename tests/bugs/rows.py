"""The inputs of this folder and what each must give: python rows.py lists the names.

A row is one command to record and what a replay of the recording must say. An input that is wrong in a new way gets a row of its own.
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
    refused: str = ""                               # in place of a verdict: words of the refusal, exit code 3
    says: typing.Sequence[str] = ()                 # words that the verdict of each way must have
    summary: typing.Sequence[str] = ()              # words that the summary of `record` must have
    ops: typing.Sequence[str] = ()                  # ops that must be in the recording
    also: typing.Sequence[typing.Sequence[str]] = ()  # further commands; TRACE stands for the recording; exit code 0
    ways: typing.Sequence[str] = tuple(WAYS)
    broken: str = ""                                # why it is not a test yet


ROWS = [
    Row("dtype_view", "02_dtype_view.py", bit_equal=True, broken="views that reinterpret bits are refused"),
    Row("mark_then_list", "05b_mark_then_list.py", bit_equal=True, also=[("replay", "TRACE", "--verify", "--no-fuse")], broken="exit code 5"),
    Row("pool_nan", "10_pool_nan.py", broken="max_pool1d writes unseen"),
    Row("number_changes_kind", "11b_number_changes_kind.py", broken="a number that becomes a float is refused"),
    Row("max_pool1d", "17_max_pool1d_inference.py", bit_equal=True, broken="the pool's kernel writes unseen"),
    Row("conv_pool1d_linear", "17b_conv_pool1d_linear.py", ops=["aten::convolution", "aten::relu", "aten::addmm"], broken="the pool's kernel writes unseen"),
    Row("bias_before_batch_norm", "20b_bias_before_batch_norm.py", broken="noise is judged as difference"),
    Row("time_stamps", "24c_time_stamps.py", bit_equal=True, broken="slots are doubles"),
    Row("training_that_diverges", "26_training_that_diverges.py", broken="bits of NaN"),
    *(Row(f"nan_states_{which}", "26b_nan_states.py", [which], broken="bits of NaN") for which in ("f32", "f16", "bf16", "f64", "all")),
    Row("half_linear_bias", "27_half_linear_bias.py", bit_equal=True, broken="rounded twice"),
    Row("gradients_through_nan", "29_gradients_through_nan.py", also=[("replay", "TRACE", "--verify", "--no-fuse")], broken="exit code 5 with --no-fuse"),
    Row("layers_that_write", "30_layers_that_write.py", broken="refused"),
    Row("transformer_fast_path", "31_transformer_fast_path.py", broken="refused"),
    Row("transformer_fast_path_masked", "31_transformer_fast_path.py", ["--masked"], broken="refused"),
    Row("kv_cache", "32_kv_cache.py", broken="refused"),
    Row("kv_cache_narrow", "32b_kv_cache_narrow.py", broken="refused"),
    *(Row(f"step_{'_'.join(how).replace('-', '') or 'plain'}", "33_step.py", how)
      for how in ([], ["--chdir"], ["--exec"], ["--workers"], ["--workers", "--spawn"], ["--main-guard"])),
    Row("step_exit", "33_step.py", ["--exit"], exit_code=7),
    *(Row(f"values_by_{how}", "44_values_by_list_and_numpy.py", [how], says=["yes, but in each iteration 9 values left the program at 44_values_by_list"],
          summary=["3 tensors that entered afterwards", "what Python did in between is not replayed"]) for how in ("tolist", "numpy", "item")),
    Row("values_by_clone", "44_values_by_list_and_numpy.py", ["clone"]),
    Row("identity", "52_identity.py", also=[("plan", "TRACE", "--objective", "least-memory")], broken="never ends"),
    Row("product_with_itself", "53_product_with_itself.py", bit_equal=True, broken="a kernel that the compiler breaks"),
    *(Row(f"transformed_{how}", "57_scripted_and_transformed.py", [how])
      for how in ("plain", "compile", "trace", "script", "fork", "fork_grad", "vmap", "double", "hooks")),
    Row("transformed_thread", "57_scripted_and_transformed.py", ["thread"], says=["yes, but 8 ops ran on threads that are not recorded"],
        summary=["not recorded: ops on threads that are not recorded"]),
    Row("bn_bias_adam", "bn_bias_adam.py", broken="noise is judged as difference"),
    Row("bn_bias_sgd", "bn_bias_sgd.py", broken="noise is judged as difference"),
    Row("conv_bias_before_batchnorm", "conv_bias_before_batchnorm.py", broken="noise is judged as difference"),
    Row("running_mean_of_zero", "running_mean_of_zero.py", broken="noise is judged as difference"),
    Row("noise_rule_gan_betas", "noise_rule_gan_betas.py", broken="noise is judged as difference"),
    Row("clip_norm_order", "clip_norm_order.py", broken="eager's rounding is judged as difference"),
    Row("clip_sgd", "clip_sgd.py", broken="eager's rounding is judged as difference"),
    Row("cancelling_loss", "cancelling_loss.py", broken="noise is judged as difference"),
    Row("two_optimizers_one_parameter", "two_optimizers_one_parameter.py", broken="two states of one name"),
    Row("zeros_shared", "zeros_shared.py", also=[("replay", "TRACE", "--verify", "--no-fuse")], broken="exit code 5"),
    Row("mining_mask", "mining_mask.py", broken="exit code 5"),
    Row("compare_memory_plan", "compare_memory_plan.py", also=[("compare", "TRACE", "--backends", "reference,cpu")], broken="compare ends with exit code 5"),
]

if __name__ == "__main__":
    print(*(row.name for row in ROWS if not row.broken), sep="\n")
