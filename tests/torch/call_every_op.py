"""Calls every ATen operator that is not composite with arguments made up from its schema; what an operator refuses is
left out.

Run under `crucible record` with one iteration. Two runs make the same calls with the same values.
"""

import warnings

import torch

# They read or write beyond their tensors when the arguments make no sense. (Backward formulas count on their forward's
# shapes; the cases of the lowering and the training steps of other tests call them as they are meant.)
DANGEROUS = ("_convert_indices", "_slow_conv2d", "slow_conv3d", "reflection_pad3d", "backward")
FOREIGN = ("cuda", "cudnn", "miopen", "mps", "xnnpack", "quantized_lstm", "fbgemm", "nnpack", "vulkan", "_triton")


def value_of(kind, pattern, keep):
    """A value for an argument type; `keep` makes a tensor of the pattern."""
    text = str(kind)
    if text.startswith("Optional["):
        return value_of(kind.getElementType(), pattern, keep)
    if text == "Tensor":
        return keep()
    if text == "List[Tensor]":
        return [keep(), keep()]
    if text == "List[Optional[Tensor]]":
        return [torch.tensor([0, 1])]
    if text in ("int", "SymInt"):
        return pattern["int"]
    if text in ("List[int]", "List[SymInt]"):
        return list(pattern["ints"])
    simple = {
        "float": 0.5, "number": 0.5 if pattern["dtype"].is_floating_point else 1, "bool": True, "str": "none",
        "List[float]": [2.0, 2.0], "List[number]": [1.5, 2], "List[bool]": [True, True, True],
        "Device": torch.device("cpu"), "Generator": pattern["generator"]
    }
    if text in simple:
        return simple[text]
    raise TypeError(text)


def named_values():
    """Types that schemas write as int have names that tell them: dtype, layout, memory_format."""
    return {
        "dtype": torch.float64, "layout": torch.strided, "memory_format": torch.contiguous_format, "pin_memory": False,
        "non_blocking": False, "device": torch.device("cpu"), "reduction": 1, "rounding_mode": "trunc",
        "approximate": "tanh", "mode": None, "reduce": "sum", "side": "left", "norm_type": 2.0
    }


def patterns():
    generator = torch.Generator().manual_seed(7)
    shapes = [((4, 4), [2, 2]), ((2, 3, 8, 8), [2, 2]), ((3,), [3]), ((1, 2, 3, 8, 8), [2, 2, 2]), ((2, 3, 8), [2]),
              ((), [])]
    for dtype in (torch.float32, torch.int64, torch.bool, torch.complex64):
        for shape, ints in shapes if dtype == torch.float32 else shapes[:1]:
            base = (torch.rand(shape, generator=generator) + 0.5).mul(2).to(dtype)
            for optional in (False, True):
                yield {
                    "dtype": dtype, "base": base, "ints": ints, "int": 1, "optional": optional, "generator": generator
                }


def arguments_of(schema, pattern):
    values = {}
    named = named_values()
    for argument in schema.arguments:
        if argument.has_default_value() and not pattern["optional"]:
            continue
        value = named[argument.name] if argument.name in named else value_of(argument.type, pattern,
                                                                             lambda: pattern["base"].clone())
        values[argument.name] = value
    return values


def operators():
    for full in sorted(torch._C._dispatch_get_all_op_names()):
        name, _, overload = full.removeprefix("aten::").partition(".")
        if not full.startswith("aten::") or any(word in name for word in DANGEROUS + FOREIGN):
            continue
        if torch._C._dispatch_has_kernel_for_dispatch_key(full, "CompositeImplicitAutograd"):
            continue
        try:
            yield full, getattr(getattr(torch.ops.aten, name), overload or "default")
        except AttributeError:
            continue


def call(operator, pattern):
    try:
        operator(**arguments_of(operator._schema, pattern))
    except (RuntimeError, TypeError, ValueError, IndexError, KeyError, NotImplementedError):
        return False
    return True


def main():
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    made = list(patterns())
    chosen = list(operators())
    import crucible

    with torch.no_grad():
        for step in range(4):
            if step in (0, 2, 3):
                torch.ones(1).neg()
            if step == 2:
                for _, operator in chosen:
                    called = 0
                    for pattern in made:
                        called += call(operator, pattern)
                        if called == 3:
                            break
            crucible.step()


if __name__ == "__main__":
    main()
