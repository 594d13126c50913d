"""From what was compiled to what a call runs: each place of the program bound to the tensor that is to lie there, results
and gradients to what holds them, draws to the ops that make them, moving numbers to their rules."""

from __future__ import annotations

from typing import Any

import torch

from crucible_torch.accelerate import draws, rules
from crucible_torch.accelerate.observe import PREFIX
from crucible_torch.accelerate.observed import Differs, optimizers_of, trained
from crucible_torch.accelerate.snapshot import argument_path
from crucible_torch.accelerate.structure import Refusal, is_same_value


def row_by_row(shape: Any) -> tuple[int, ...]:
    return tuple(torch.empty(tuple(shape), device="meta").stride())


def layout(shape: Any, strides: tuple[int, ...]) -> tuple[list[int], list[int]]:
    """(Strides of what a program writes, which is row by row; eager's, where those are others and hold each element
    once)."""
    like = torch.empty_strided(tuple(shape), tuple(strides), device="meta")
    if like.is_contiguous():
        return list(strides), []
    is_dense = torch.ops.aten.is_non_overlapping_and_dense(like)
    return list(row_by_row(shape)), list(strides) if is_dense else []


class Binding:
    """Mixed into variant.Variant."""

    def _bind(self, program: Any) -> None:
        changed = self.guards.check()
        if changed is not None:
            raise Differs(f"it changed while the calls were compiled: {changed}")
        info = program.info()
        self.info = {key: info[key] for key in ("arena_bytes", "steps", "compiled", "from_store")}
        for text in info["left_out"]:
            if text.startswith(PREFIX):
                raise Refusal(f"a result cannot be computed: {text.removeprefix(PREFIX)}")
        seen = self.visible
        parameters = trained(seen)
        inputs: list[tuple[int, int]] = []
        results: dict[int, int] = {}
        reads: dict[int, int] = {}
        gradients: dict[int, int] = {}
        present: dict[int, int] = {}  # that are there when a call begins, and used
        self._written, self._written_places, self._written_grads = [], [], []
        for place, (kind, name, _, _, is_written, is_draw) in enumerate(info["places"]):
            label = name.removeprefix(PREFIX)
            if is_draw or not name.startswith(PREFIX):
                continue
            if label == "philox":
                program.bind(place, self.drawing.source.table)
            elif label.startswith("arg"):
                if is_written:
                    raise Refusal(f"the function writes into {self.given_as(int(label[3:]))}; write into a copy")
                inputs.append((int(label[3:]), place))
            elif label.startswith("read"):
                reads[int(label[4:])] = place
            elif label.startswith("out"):
                results[int(label[3:])] = place
            elif label.startswith("grad"):
                gradients[int(label[4:])] = place
            elif label.startswith("g"):
                present[int(label[1:])] = place
                if is_written:  # where it lies, though it may be cleared in the end
                    self._written_grads.append(parameters[int(label[1:])])
            else:
                tensor = seen.tensors[int(label[1:])][1]
                program.bind(place, tensor)
                if is_written:
                    self._written.append(tensor)
                    self._written_places.append(place)
        program.set_inputs([place for _, place in inputs])
        self._input_leaves = [leaf for leaf, _ in inputs]
        self._returned = 0
        for (kind, what), leaf in zip(self._answer.origins, self._answer.leaves):
            if kind != "output" or what < self._returned:  # the same once more
                continue
            if what not in results:
                raise Refusal("a result of the function is not computed by recorded ops")
            program.add_output(results[what], list(leaf.shape), *layout(leaf.shape, leaf.stride()), leaf.dtype, None)
            self._returned += 1
        self._bind_reads(program, reads)
        for k, (parameter, kind) in enumerate(zip(parameters, self._kinds)):
            if kind == "new":
                if k not in gradients:
                    raise Refusal("a gradient of the function is not computed by recorded ops")
                program.add_output(gradients[k], list(parameter.shape), *layout(parameter.shape, self._layouts[k][1]),
                                   parameter.dtype, parameter)
            if kind == "written" and k not in present:
                raise Refusal("a gradient is written in a way that was not recorded")
            if kind == "written" and not any(each is parameter for each in self._written_grads):
                self._written_grads.append(parameter)
            if kind != "kept" or not self._entry[k] or k in present:
                program.add_grad(parameter, self._entry[k], kind == "cleared", present.get(k, -1),
                                 list(self._layouts[k][0]))
        if self.numbers.deciding_reads:
            program.decide_by([self._returned + k for k in self.numbers.deciding_reads])
        self._bind_draws(program, info)
        try:
            self._rules = rules.find(info["slots"], self._snapshots, frees=True)
        except rules.NoRule as none:
            raise Refusal("a number changes from call to call and what it is computed from is not known: "
                          f"{none}") from None
        standing = self.given.settle(self._snapshots, lambda name: argument_path((name, )) in self._rules.sources,
                                     self.reach.operands)
        if standing:
            raise Refusal(standing)
        self._program = program
        moving = self._rules.sources | self._rules.idle
        if not self.reach.rates:
            moving |= self._rules.free
        if self.reach.is_decided_by_numbers:
            moving = frozenset()
        self._optimizers = optimizers_of(seen)
        self._schedulers = [scheduler for _, scheduler in seen.schedulers]
        self._counting = list(zip(self._counters(), self._amounts or []))
        self._scalers = [scaler for _, scaler in seen.scalers]
        before, now = self._snapshots[-1].numbers, rules.Snapshot.take(self._optimizers, {}).numbers
        for path, number in before.items():
            if ".param_groups[" in path and path not in moving and not is_same_value(now.get(path), number):
                raise Differs(f"{path} changed while the calls were compiled")
        self.guards = seen.guards(frozenset(moving))
        self._answer.leaves = self._answer.objects = []

    def _bind_reads(self, program: Any, reads: dict[int, int]) -> None:
        """What is read from tensors comes behind the results."""
        for k, (shape, dtype) in enumerate(self.numbers.shapes):
            if k not in reads:
                raise Refusal("a number that the function reads from a tensor is not computed by recorded ops")
            program.add_output(reads[k], list(shape), *layout(shape, row_by_row(shape)), dtype, None)

    def _bind_draws(self, program: Any, info: dict[str, Any]) -> None:
        self._draws = []
        if self._sets_random and info["draws"]:
            raise Refusal("the call draws random numbers and sets them back, as a checkpoint does whose function draws; "
                          "leave the checkpoint out")
        for name, arguments, output, place, shape in info["draws"]:
            if self.drawing is not None:
                raise Refusal(f"{name} draws by itself: with rng='philox' there is no answer for it, or it was given a "
                              "generator, or the function seeds torch's; draw otherwise, or use rng='torch'")
            draw, is_same = draws.make_draw(name, arguments, output, shape)
            self._draws.append((draw, place, is_same))
        if self._draws:
            state = torch.get_rng_state()
            for draw, place, is_same in self._draws:
                if place >= 0 and is_same:
                    program.bind(place, draw())
            torch.set_rng_state(state)
