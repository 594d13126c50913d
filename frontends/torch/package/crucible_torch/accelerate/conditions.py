"""Functions of torch that look at tensors' values by themselves: they raise for some of them, or take sizes from them.
While a call is observed, each is followed by a condition that its values have met: a compiled call in which they do not
is eager, with eager's own error."""

from __future__ import annotations

from typing import Any, Callable, Iterator

import torch
from torch.utils import _pytree as pytree

PLAIN = (torch.Tensor, torch.nn.Parameter)
MOST_VALUES = 4096  # that are compared one by one
Decide = Callable[[Callable[[], torch.Tensor]], None]


def _between_zero_and_one(decide: Decide, _result: Any, given: torch.Tensor, *_: Any, **__: Any) -> None:
    decide(lambda: ((given >= 0) & (given <= 1)).all())


def _is_finite(decide: Decide, result: Any, *_: Any, **__: Any) -> None:
    for tensor in pytree.tree_leaves(result):
        if isinstance(tensor, torch.Tensor) and tensor.is_floating_point() and tensor.numel():
            decide(lambda tensor=tensor: tensor.isfinite().all())


def _has_classes(decide: Decide, result: torch.Tensor, given: torch.Tensor, *classes: Any, **named: Any) -> None:
    if (classes or tuple(named.values()) or (-1, ))[0] == -1 and given.numel():
        most = result.shape[-1] - 1
        decide(lambda: given.max() == most)


def _same(decide: Decide, tensors: tuple[Any, ...]) -> None:
    """Whole numbers that C++ reads one by one."""
    for tensor in tensors:
        if isinstance(tensor, torch.Tensor) and tensor.numel() <= MOST_VALUES:
            values = tensor.tolist()
            decide(lambda tensor=tensor, values=values: (tensor == torch.tensor(values)).all())


def _same_lengths(decide: Decide, _result: Any, *arguments: Any, **named: Any) -> None:
    _same(decide, (*arguments[2:4], *(named[name] for name in ("input_lengths", "target_lengths") if name in named)))


def _same_sections(decide: Decide, _result: Any, *arguments: Any, **named: Any) -> None:
    _same(decide, (*arguments[1:2], *(named.get(name) for name in ("indices_or_sections",
                                                                   "tensor_indices_or_sections"))))


def _same_batches(decide: Decide, result: Any, *_: Any, **__: Any) -> None:
    _same(decide, result[1:2])


_FINITE = ("eigh", "eigvalsh", "eig", "eigvals", "svd", "svdvals")
CONDITIONS: list[tuple[Any, str, Callable[..., None]]] = [
    (torch._C._nn, "binary_cross_entropy", _between_zero_and_one),
    (torch._C._nn, "one_hot", _has_classes),
    (torch.nn.functional, "one_hot", _has_classes),
    (torch, "ctc_loss", _same_lengths),
    (torch, "tensor_split", _same_sections),
    (torch.Tensor, "tensor_split", _same_sections),
    (torch._VF, "_pack_padded_sequence", _same_batches),
    *((torch.linalg, name, _is_finite) for name in _FINITE),
    *((owner, "svd", _is_finite) for owner in (torch, torch.Tensor)),
]


def followed(now: Callable[[], Any]) -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    """What stands in the place of each: (owner, name, function). `now` gives the reads.Reading of this thread, or None."""
    for owner, name, condition in CONDITIONS:
        if (original := getattr(owner, name, None)) is not None:
            yield owner, name, _with_condition(original, condition, now)


def _with_condition(original: Callable[..., Any], condition: Callable[..., None],
                    now: Callable[[], Any]) -> Callable[..., Any]:

    def function(*arguments: Any, **named: Any) -> Any:
        result, reading = original(*arguments, **named), now()
        if reading is not None:
            if torch._C._functorch.maybe_current_level() is not None:
                reading.tape.note(f"calls {original.__name__} under a transform of torch.func, which looks at values")
            elif all(type(each) in PLAIN for each in pytree.tree_leaves((result, arguments))
                     if isinstance(each, torch.Tensor)):
                condition(lambda truth: _decide(reading, truth), result, *arguments, **named)
        return result

    return function


def _decide(reading: Any, truth: Callable[[], torch.Tensor]) -> None:
    with torch.no_grad():
        found = truth()
    bool(reading.number(found, found.item()))
