"""The programs of this folder and what a person expects of each recording: python rows.py lists the names."""

import dataclasses
import typing


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    file: str = ""                          # in inputs/; by default NAME.py
    arguments: typing.Sequence[str] = ()    # of the script
    record: typing.Sequence[str] = ()       # further options of `crucible record`
    iterations: int = 4                     # that must be in the file
    kind: str = "optimizer"                 # what ended them
    trains: bool = True                     # each iteration has a loss
    ops: int = 0                            # of each iteration; 0: as many as in the first, unless there are variants
    variants: int = 1                       # at least so many lists of ops and sizes; where several, also strict: equal
                                            # bits on the CPU, an OpenCL device and the reference interpreter
    most: int = 0                           # at most so many variants; 0: whatever their number
    seams: int = 0                          # changes between iterations that nothing recorded
    starts: str = ""                        # how the first op of each iteration is called
    absent: typing.Sequence[str] = ()       # ops that must be in none: they made the data
    summary: typing.Sequence[str] = ()      # words that the summary of `record` must have
    states: typing.Sequence[str] = ()       # names among the final states
    says: typing.Sequence[str] = ()         # words behind the verdict
    lacks: str = ""                         # words of what `record` says is not recorded
    refused: str = ""                       # in place of a verdict: words of the refusal
    content: bool = False                   # recorded again, by a fresh interpreter, it must have the same content
    fresh: bool = False                     # every time an interpreter of its own (tests/warm): it starts more of them


@dataclasses.dataclass(frozen=True)
class Program(Row):
    """One whose iterations differ, or that has states of its own kind: a line of the table of ci/loops."""
    record: typing.Sequence[str] = ("--iterations", "8")
    iterations: int = 8
    steps: int = 1  # of optimizers, in each


KINDS = ("modules", "nested", "stream", "named", "dataclass", "numbers", "in_place", "batch_sampler", "split", "subclass",
         "pinned", "zipped")
MADE = ("aten::stack", "aten::randperm", "aten::flip", "aten::random_", "aten::copy_", "aten::clone")

ROWS = [
    Row("dataset_augment", absent=("aten::flip", "aten::stack")),
    Row("dataset_of_varying_length", absent=("aten::zeros", "aten::copy_", "aten::stack")),
    Row("epoch_boundary", absent=("aten::randperm", "aten::stack"), ops=17),
    *(Row(f"loader_{kind}", "loader_kinds.py", [kind], record=["--iterations", "10"], iterations=10, absent=MADE,
          ops=18, content=kind == "modules") for kind in KINDS),
    Row("loader_of_policy", says=["made data of what the recorded program computes (first at loader_of_policy.py:"]),
    Row("loader_inference", kind="module", trains=False, absent=("aten::mul", "aten::stack")),
    Row("input_by_hand", absent=("aten::randn", "aten::randint.low"), ops=17),
    Row("prefetch_tensor"),
    Row("one_worker", "loader_workers.py", ["1"], content=True, absent=MADE),
    Row("two_workers", "loader_workers.py", ["2"], record=["--iterations", "10"], iterations=10, content=True,
        absent=MADE),
    Row("two_workers_one_content", content=True, absent=MADE),
    Row("workers_that_stay", "loader_workers.py", ["2", "fork", "file_system", "persistent"], absent=MADE,
        record=["--iterations", "10"], iterations=10),
    Row("workers_spawned", "loader_workers.py", ["1", "spawn"], absent=MADE, fresh=True),
    Row("workers_of_a_server", "loader_workers.py", ["1", "forkserver", "file_system"], absent=MADE,
        fresh=True),
    Row("gru_no_optimizer", kind="period"),
    Row("module_before_optimizer", summary=["4 calls of a module before the program trained had been recorded first"]),
    Row("delayed_actor"),
    Row("critic_steps_no_grad"),
    Row("step_after_evaluation", record=["--iterations", "8"], iterations=8,
        summary=["2 evaluations between iterations"]),
    Row("evaluation_first", record=["--iterations", "9"], iterations=9, absent=("aten::argmax",),
        summary=["2 evaluations between iterations left out"]),
    Row("sam_two_steps"),
    Row("two_optimizers_one_parameter",
        states=["exp_avg of parameter 0.0", "exp_avg of parameter 0.0 in Adam#2"]),
    Row("roi_adaptive", refused="sampling_ratio is not above 0: call it with sampling_ratio=2"),
    Row("nms_chain", refused="hangs on a longer chain of decisions"),
    Row("eval_between", record=["--iterations", "8"], iterations=8,
        summary=["2 evaluations between iterations left out"]),
    Program("accumulation_padded", variants=2),
    Program("validation_each_epoch", variants=3, summary=["1 evaluation between iterations left out"]),
    Program("averaged_weights", variants=4, seams=5, summary=["3 evaluations between iterations left out"],
            lacks="final bytes of a state that was changed where nothing was recorded"),
    Program("graph_sage", variants=7),
    Program("detector", variants=7),
    Program("moe_routing", variants=3),
    Program("triplet_mining", variants=5),
    Program("neural_ode", variants=6),
    Program("ppo", variants=5, says=["what Python did in between is not replayed"]),
    Program("dqn", variants=6, most=7),
    Program("buffer_filled_again", variants=2, most=2),
    Program("replay_buffer", variants=2, most=4),
    Program("replay_of_arrays"),
    Program("layer_drop", variants=2, most=2),
    Program("reinforce", variants=4, says=["what Python did in between is not replayed"]),
    Program("radam_switch", variants=4),
    Program("vae_branch", variants=2),
    Program("fourier_operator"),
    Program("complex_numbers"),
    Program("complex_doubles", "complex_numbers.py", ["double"]),
    Program("packed_lstm", variants=5),
    Program("lora_gpt", variants=2),
    Program("diffusion_unet"),
    Program("lbfgs", variants=2),
    Program("gan", steps=3),
    Program("kept_losses", variants=4),
    Program("best_kept", variants=2),
    Program("thawed_layers", variants=2),
    Program("folds", variants=2),
    Program("random_tasks", variants=2, summary=["does not repeat: each was taken for an iteration"]),
]

if __name__ == "__main__":
    print("\n".join(row.name for row in ROWS))
