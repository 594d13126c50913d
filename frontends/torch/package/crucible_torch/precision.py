"""The framework's switches that change how precisely a device computes, for the file."""

from __future__ import annotations

from typing import Any

# Name in the file, and where the framework keeps it.
SWITCHES = (
    ("cudnn.benchmark", "backends.cudnn.benchmark"),
    ("cudnn.deterministic", "backends.cudnn.deterministic"),
    ("cuda.matmul.allow_fp16_reduced_precision_reduction",
     "backends.cuda.matmul.allow_fp16_reduced_precision_reduction"),
    ("cuda.matmul.allow_bf16_reduced_precision_reduction",
     "backends.cuda.matmul.allow_bf16_reduced_precision_reduction"),
    ("cuda.matmul.allow_fp16_accumulation", "backends.cuda.matmul.allow_fp16_accumulation"),
)


def _named(torch: Any, path: str) -> Any:
    value = torch
    for name in path.split("."):
        value = getattr(value, name)
    return value


def _kinds(torch: Any) -> dict[str, str]:
    """"tf32" or what the framework says instead, for products, convolutions and recurrent layers on CUDA."""
    ask = getattr(torch._C, "_get_fp32_precision_getter", None)
    if ask is not None:
        return {kind: ask("cuda", kind) for kind in ("matmul", "conv", "rnn")}
    # before 2.9
    products, others = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    return {kind: "tf32" if on else "none" for kind, on in (("matmul", products), ("conv", others), ("rnn", others))}


def precision_of(torch: Any) -> str:
    """Of all devices: which of them the program uses shows in its tensors."""
    found = {}
    try:
        found.update({f"cuda.{kind}": value for kind, value in _kinds(torch).items()})
        found["float32_matmul_precision"] = torch.get_float32_matmul_precision()
    except (AttributeError, RuntimeError):  # both interfaces in one program: the framework refuses to say
        pass
    for name, path in SWITCHES:
        try:
            found[name] = int(_named(torch, path))
        except (AttributeError, RuntimeError, TypeError):
            continue
    return ", ".join(f"{name}={value}" for name, value in found.items())


def settings_not_followed(torch: Any, recorder: Any) -> set[str]:
    """What the program has switched on for the whole process and changes numbers: a replay does not follow it."""
    found = set()
    if recorder.flushes_denormals():
        found.add("torch.set_flush_denormal(True): the replay keeps denormal numbers")
    precision = torch.get_float32_matmul_precision()
    if precision != "highest":
        found.add(f'torch.set_float32_matmul_precision("{precision}"): products of f32 may have been computed with fewer bits; '
                  "the replay computes them in f32")
    return found
