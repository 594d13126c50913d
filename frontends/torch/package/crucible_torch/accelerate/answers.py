"""Where each part of what a call returns comes from: a run computes it, it is what the call was given, or it is a view of one of
these. A view shares memory in compiled calls as it does in eager. And what observed calls are given in the place of arguments."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable

import torch

from crucible_torch.accelerate.observed import owner_of, storage_of
from crucible_torch.accelerate.structure import SIMPLE, Answer, Refusal, is_same_value, objects_among, whole

LARGEST = 1 << 27  # elements of memory in which views are looked for: one more byte each, while a call is observed


@dataclasses.dataclass(frozen=True)
class View:
    """Part of another tensor's memory, which begins so many elements behind the other's beginning."""

    of: tuple[str, Any]  # the other's own origin, "output", "argument" or "same"
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

    def __eq__(self, other: Any) -> bool:
        return (isinstance(other, View) and self.of[0] == other.of[0] and
                (self.of[1] is other.of[1] or isinstance(self.of[1], int) and self.of[1] == other.of[1]) and
                (self.sizes, self.strides, self.offset) == (other.sizes, other.strides, other.offset))

    def take(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.detach().as_strided(self.sizes, self.strides, tensor.storage_offset() + self.offset)


def view_of(tensor: torch.Tensor, base: torch.Tensor, of: tuple[str, Any]) -> View:
    return View(of, tuple(tensor.shape), tuple(tensor.stride()), tensor.storage_offset() - base.storage_offset())


class Memories:
    """Which elements of memory belong to which tensor. Costs a pass over the memory of tensors that share it, in the calls that are
    observed."""

    def __init__(self) -> None:
        self._bases: dict[int, list[tuple[torch.Tensor, tuple[str, Any]]]] = {}  # by storage

    def add(self, tensor: torch.Tensor, origin: tuple[str, Any]) -> None:
        if tensor.layout == torch.strided and tensor.numel():
            self._bases.setdefault(tensor.untyped_storage().data_ptr(), []).append((tensor, origin))

    def find(self, tensor: torch.Tensor) -> View | None:
        """The view of a tensor that was added which this is; None where no element is shared. Errors: Refusal, where some are and
        others are not."""
        if not tensor.numel():
            return None
        bases = self._bases.get(tensor.untyped_storage().data_ptr(), [])
        is_shared = False
        for base, origin in bases:
            share = _share(tensor, base)
            if share == 1.0:
                return view_of(tensor, base, origin)
            is_shared |= share > 0.0
        if is_shared:
            raise Refusal("shares part of its memory")
        return None


def _share(tensor: torch.Tensor, base: torch.Tensor) -> float:
    """The share of a tensor's elements that are the other's too; both lie in one storage."""
    elements = tensor.untyped_storage().nbytes() // tensor.element_size()
    if tensor.dtype != base.dtype or elements > LARGEST:
        return 0.5  # unknown
    with torch.no_grad():
        owned = torch.zeros(elements, dtype=torch.bool)
        owned.as_strided(base.shape, base.stride(), base.storage_offset()).fill_(True)
        part = owned.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
        return 1.0 if bool(part.all()) else 0.5 if bool(part.any()) else 0.0


def _given(leaves: tuple[Any, ...], call: Any) -> Memories:
    """Memory that is not the call's own."""
    given = Memories()
    for k, leaf in enumerate(leaves):
        if isinstance(leaf, torch.Tensor):
            given.add(leaf, ("argument", k))
    for _, tensor in call.seen.tensors:
        given.add(tensor, ("same", tensor))
    for parameter in call.grads.parameters:
        if parameter.grad is not None:
            given.add(parameter.grad, ("gradient", None))
    return given


def read(result: Any, before: Answer | None, call: Any, variant: Any, leaves: tuple[Any, ...]) -> Answer:
    """The origins of what an observed call has returned and stored. `leaves`: what it was given. Errors: Refusal."""
    answer = Answer(result)
    held = [id(obj) for obj in [*answer.objects, *(before.objects if before is not None else [])]]
    if len(set(held)) < len(held):
        raise Refusal(f"the function returns a {type(answer.objects[0]).__name__} that lives longer than the call, or "
                      "twice; return its tensors")
    if any(obj is each for obj in answer.objects for each in variant.given_objects):
        raise Refusal("the function returns an object that it is given; return its tensors")
    by_identity = {id(tensor): tensor for _, tensor in call.seen.tensors}
    given, computed = _given(leaves, call), Memories()
    places = ([None] * len(answer.leaves)
              if not variant.carried else variant.carried.by_leaves(len(answer.leaves)))
    made_here: set[int] = set()
    views: dict[int, View] = {}
    loose: set[int] = set()  # outputs with gaps between their elements, which a run gives without
    entries = list(zip(variant.numbers.leaves, answer.leaves, places))
    fresh = [(leaf, place) for number, leaf, place in entries
             if number is None and isinstance(leaf, torch.Tensor) and id(leaf) not in by_identity and
             not any(leaf is argument for argument in leaves) and owner_of(leaf, call.seen) is None]
    # The larger ones first: the others are parts of these.
    for leaf, place in sorted(fresh, key=lambda one: -one[0].numel()):
        if id(leaf) in made_here or id(leaf) in views:
            continue
        does = "returns" if place is None else f"stores in {place.path}"
        if type(leaf) is not torch.Tensor or not leaf.device.type == "cpu" or leaf.layout != torch.strided:
            raise Refusal(f"the function {does} a tensor that is no plain one of the processor's memory")
        if leaf.requires_grad and not call.roots.are_used_up(leaf):
            raise Refusal(f"the function {does} a tensor whose graph may still be used; " + (
                "return it detached, or run backward inside the function" if place is None else "store it detached"))
        try:
            view = given.find(leaf) or computed.find(leaf)
        except Refusal:
            view = View(("part", None), (), (), 0)
        if view is not None and view.of[0] == "output" and view.of[1] in loose:
            view = View(("part", None), (), (), 0)
        if view is None:
            if not torch.ops.aten.is_non_overlapping_and_dense(leaf):
                loose.add(id(leaf))
            made_here.add(id(leaf))
            computed.add(leaf, ("output", id(leaf)))
        elif place is not None or view.of[0] in ("part", "gradient") or view.of[0] == "argument" and \
                view.of[1] in variant.turned:
            raise Refusal(f"the function {does} a view of " +
                          {"gradient": "a gradient", "part": "part of another result, of an argument or of a parameter"
                           }.get(view.of[0], "an argument, of a parameter or of another result") +
                          f"; {'return' if place is None else 'store'} a copy")
        else:
            views[id(leaf)] = view
    numbers: dict[int, int] = {}  # of outputs, in the order in which they are returned
    for leaf in answer.leaves:
        if id(leaf) in made_here:
            numbers.setdefault(id(leaf), len(numbers))
    for number, leaf, place in entries:
        does = "returns" if place is None else f"stores in {place.path}"
        if number is not None:
            answer.origins.append(("number", number))
        elif not isinstance(leaf, (torch.Tensor, *SIMPLE)) and any(leaf is each for each in objects_among(leaves)):
            answer.origins.append(("same", leaf))
        elif not isinstance(leaf, torch.Tensor):
            if not isinstance(leaf, SIMPLE):
                raise Refusal(f"the function {does} a {type(leaf).__name__}; return tensors, numbers and texts in "
                              "tuples, lists and dicts")
            answer.origins.append(("same", leaf))
        elif any(leaf is argument for argument in leaves):
            answer.origins.append(("argument", next(k for k, each in enumerate(leaves) if each is leaf)))
        elif id(leaf) in by_identity:
            answer.origins.append(("same", leaf))
        elif id(leaf) not in made_here and id(leaf) not in views:
            answer.origins.append(("gradient", owner_of(leaf, call.seen)))
        elif id(leaf) in views:
            view = views[id(leaf)]
            of = ("output", numbers[view.of[1]]) if view.of[0] == "output" else view.of
            answer.origins.append(("view", dataclasses.replace(view, of=of)))
        else:
            answer.origins.append(("output", numbers[id(leaf)]))
    answer.has_views = bool(views)
    return answer


def difference(before: Answer, answer: Answer) -> str | None:
    """Why two calls that were observed are not of one variant; None where they are. Errors: Refusal, where no call can be
    compiled."""
    if before.spec != answer.spec or [kind for kind, _ in before.origins] != [kind for kind, _ in answer.origins]:
        return "it returns something else in one call than in another"
    for (kind, old), (_, new) in zip(before.origins, answer.origins):
        if kind == "gradient" and old is not new:
            return "it returns another gradient in one call than in another"
        if kind == "view" and old != new:
            return "it returns another view in one call than in another"
        if kind == "same" and old is not new and not (isinstance(old, SIMPLE) and is_same_value(old, new)):
            raise Refusal(f"the function returns a number or text that changes from call to call ({old!r}, then "
                          f"{new!r}); return the tensor, and call .item() on it outside")
    return None


def lent(leaves: tuple[Any, ...], made: set[int]) -> tuple[Any, ...]:
    """What an observed call is given: copies in the place of tensors that are part of larger memory, whose size is another
    one in each call, and of what an observed call made (`made`: its memory), for calls depend on nothing but what they
    are given."""
    copies: dict[int, Any] = {}
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor) and id(leaf) not in copies:
            copy = whole(leaf)
            if copy is leaf and (storage_of(leaf) in made or leaf.requires_grad):
                copy = leaf.detach().clone()
            copies[id(leaf)] = copy.requires_grad_() if leaf.requires_grad else copy
    return tuple([copies.get(id(leaf), leaf) for leaf in leaves])


def look_for_shared(seen: Any, leaves: tuple[Any, ...], name: Callable[[int], str]) -> None:
    """Errors: Refusal, where what is given lies in memory that the function reaches by itself. `name`: of a leaf, in words."""
    by_storage = {storage_of(tensor): path for path, tensor in seen.tensors}
    for k, leaf in enumerate(leaves):
        if isinstance(leaf, torch.Tensor) and storage_of(leaf) in by_storage:
            raise Refusal(f"{name(k)} shares memory with {by_storage[storage_of(leaf)]}, which the function reaches by "
                          "itself; pass a copy")


def with_own_arguments(result: Any, given: tuple[Any, ...], leaves: tuple[Any, ...]) -> Any:
    """The result with the caller's own tensors, and views of them, in the place of copies that were given to the function."""
    copies = [(copy, leaf) for copy, leaf in zip(given, leaves) if copy is not leaf]
    if not copies:
        return result
    answer, by_id = Answer(result), {id(copy): leaf for copy, leaf in copies}
    memories, is_any = Memories(), False
    for copy, leaf in copies:
        if copy.stride() == leaf.stride():
            memories.add(copy, ("same", leaf))
    for each in answer.leaves:
        own = by_id.get(id(each), each)
        if own is each and isinstance(each, torch.Tensor) and not each.requires_grad:
            try:
                view = memories.find(each)
            except Refusal:
                view = None
            own = each if view is None else view.take(view.of[1])
        is_any |= own is not each
        answer.origins.append(("same", own))
    return answer.build([], ()) if is_any else result
