"""Tensors that the function stores in what lives longer than the call, for a later call to read or for others to look at:
the state of a recurrent net (`self.state = state.detach()`), an outer variable, an entry of a dict. In a compiled call they
are results that are stored behind its run, and what lies there when it begins enters like an argument: sizes and types are
compared, not which tensor it is. `Storing` is part of bytecode.py's checker, `Carried` of variant.py."""

import torch
from torch.utils import _pytree as pytree

from .counters import Counter
from .observed import Differs
from .operands import sources
from .structure import SIMPLE, Refusal, whole
from .tape import Traced, plain
from .values import (Fresh, Known, Method, Number, Plain, Tensor, Tuple, has_number, has_tensor, is_simple, is_tensor,
                     join, options)

CONTAINERS = (tuple, list, dict)
PLAIN = (torch.Tensor, torch.nn.Parameter)
EMPTY = object()
NUMBERS = (int, float)
STRIDES = {"stride", "is_contiguous"}
_GRAPH = "is a tensor whose graph may still be used"


class Stored(Counter):
    """Where tensors are stored. `is_read`: the function reads what lies there; `value`: what it may have stored; `is_number`:
    numbers lie there, which are followed as those that are read from tensors (tape.py)."""

    def __init__(self, holder, key, path):
        super().__init__(holder, key, path)
        self.is_read, self.value, self.is_number = False, None, False

    def read(self):
        """What lies there; EMPTY where nothing does."""
        if self.key is None:
            try:
                return self.holder.cell_contents
            except ValueError:
                return EMPTY
        return self.holder.get(self.key, EMPTY)

    def write(self, value):
        """EMPTY: nothing lies there any more."""
        if value is EMPTY:
            if self.key is not None:
                self.holder.pop(self.key, None)
            elif self.read() is not EMPTY:
                del self.holder.cell_contents
        elif self.key is None:
            self.holder.cell_contents = value
        else:
            self.holder[self.key] = value


def _can_lie(obj):
    """Whether it is tensors and simple values in plain containers."""
    if type(obj) in CONTAINERS or isinstance(obj, tuple) and hasattr(obj, "_fields"):
        return all(map(_can_lie, obj.values() if isinstance(obj, dict) else obj))
    return type(obj) in PLAIN or is_simple(obj)


def _has_tensors(obj):
    return any(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(obj))


def _can_store(value, depth=4):
    """The same of what the function stores. What it really is, observed calls tell."""
    for option in options(value):
        inner = option.items if isinstance(option, Tuple) else [option.elements or Plain()] if isinstance(
            option, Fresh) and option.kind in ("list", "tuple", "dict") else None
        if inner is not None:
            if not depth or not all(_can_store(each, depth - 1) for each in inner):
                return False
        elif not (is_tensor(option) or isinstance(option, Method) and is_tensor(option.owner)
                  or isinstance(option, (Plain, Number)) or isinstance(option, Known) and is_simple(option.obj)):
            return False
    return not sources(value)


def _can_be_number(value):
    """Whether it is a number that is followed, or the same in each call."""
    return not sources(value) and all(
        isinstance(option, Number) or type(option) is Plain or isinstance(option, Known) and
        type(option.obj) in NUMBERS for option in options(value))


def _has_tensor(value):
    """Whether there may be a tensor in it."""
    return has_tensor(value) or any(
        _has_tensor(each) for option in options(value)
        for each in (option.items if isinstance(option, Tuple) else
                     [option.elements] if isinstance(option, Fresh) and option.elements is not None else ()))


def _meant(obj, path):
    """The value of what lies there: tensors of such a kind, not these."""
    if isinstance(obj, torch.Tensor):
        return Tensor(outside=True)
    if isinstance(obj, tuple) and not is_simple(obj):
        return Tuple([_meant(item, f"{path}[{at}]") for at, item in enumerate(obj)])
    return Known(obj, path)


class Storing:
    """Mixed into bytecode.Checker. `reach.stored`: {(id of the holder, key): Stored}."""

    def stored_at(self, holder, key):
        """The value of what is read there if the function stores tensors there; None otherwise."""
        place = self.reach.stored.get((id(holder), key))
        if place is None:
            return None
        if not place.is_read:
            place.is_read = True
            self.note_growth()
        if place.is_number:
            return Number()
        there = place.read()
        return join(place.value, _meant(there, place.path) if there is not EMPTY else None) or Plain()

    def keeps(self, holder, key, path, value, there):
        """Whether a store there is one of these."""
        place = self.reach.stored.get((id(holder), key))
        if place is not None and place.is_number:
            return _can_be_number(value)
        is_kept = type(there) is float or type(there) is int and has_number(value)
        if place is None and is_kept and _can_be_number(value):
            self.keep_number(holder, key, path)
            return True
        if place is None:
            is_of_tensors = _has_tensors(there) or _has_tensor(value) or has_number(value)
            if not is_of_tensors or not _can_lie(there) or not _can_store(value):
                return False
            place = self.reach.stored[id(holder), key] = Stored(holder, key, path)
            self.note_growth()
        if not _can_store(value) or place.is_read and has_number(value):
            return False
        place.value = self._merge(place.value, value)
        return True

    def keep_number(self, holder, key, path):
        """A number lies there that is more than counted up."""
        self.reach.counters.pop((id(holder), key), None)
        place = self.reach.stored[id(holder), key] = Stored(holder, key, path)
        place.is_number = True
        self.note_growth()

    def keep_counted(self, what):
        """Whether counters are why something is refused, or among what is returned; they are followed from now on."""
        found = [counter for counter in self.reach.counters.values() if counter.path in what]
        for counter in found:
            self.keep_number(counter.holder, counter.key, counter.path)
        return bool(found)

    def number_words(self):
        """Which numbers a refusal speaks of."""
        paths = [place.path for place in self.reach.stored.values() if place.is_number]
        return "a number that it reads from a tensor" + (f" or keeps ({', '.join(paths[:3])})" if paths else "")

    def refuse_stored(self, frame, holder, path):
        """Reads of a dict as a whole, in which the function stores or counts."""
        if any(at == id(holder) for places in (self.reach.stored, self.reach.counters) for at, _ in places):
            self.refuse(frame.code if frame is not None else None, frame.line if frame is not None else 0,
                        f"goes through {path}, in which it stores", "read its elements one by one")


class Carried:
    """What the calls of one variant store and find stored. Errors of all: none."""

    def __init__(self, places, names):
        self._places = [place for place in places if place.is_read and not place.is_number]  # what lies there enters
        self._numbers = [place for place in places if place.is_read and place.is_number]
        self._unread = [place for place in places if not place.is_read]
        self._kinds = None  # of the numbers
        self._asks_for_strides = bool(names & STRIDES)
        self._asks_for_graphs = bool(names & {"requires_grad", "grad_fn", "is_leaf"})
        self._spec = self._own = self._known = self._stores = None
        self._lent, self._graphs = [], {}
        self._apart = set()  # leaves that may have a graph, which no gradient reaches
        self.problem = None  # of the last observed call

    def every(self):
        return [*self._places, *self._numbers, *self._unread]

    def __bool__(self):
        return bool(self._places or self._numbers or self._unread)

    def numbers(self):
        """Those that lie there now."""
        return [place.read() for place in self._numbers]

    def entering(self, is_observed=False):
        """(Leaves of what lies there now, how they lie in containers); as a compiled call is given them, or as they are for
        who observes one."""
        found, spec = [], []
        for place in self._places:
            value = place.read()
            if type(value) is torch.Tensor or value is None:
                found.append(value)
                spec.append(None)
                continue
            leaves, kind = pytree.tree_flatten(value)
            found += leaves
            spec.append(kind)
        if not is_observed:
            found = [self._as_given(k, leaf) for k, leaf in enumerate(found)]
        return tuple(found), spec

    def _as_given(self, number, leaf):
        if isinstance(leaf, torch.Tensor):
            leaf = leaf.detach() if leaf.requires_grad and number in self._apart else leaf
            return leaf if self._asks_for_strides else whole(leaf)
        return leaf

    def note(self, leaves, found, given, spec, free):
        """Before an observed call with these arguments, which finds `found` and is given copies of it. Whether it is like
        those before it. Errors: Refusal."""
        from .._accelerate import signature

        graphs = {k: leaf for k, leaf in enumerate(given) if isinstance(leaf, torch.Tensor) and leaf.requires_grad}
        found, given = (tuple([leaf.detach() if k in graphs else leaf for k, leaf in enumerate(each)])
                        for each in (found, given))
        reason, before = (_GRAPH, 0) if graphs and self._asks_for_graphs else (None, 0)
        for before in () if reason else ((), leaves):
            key, before = signature((*before, *found), free if before else {}), len(before)
            if type(key) is tuple:
                reason, number = key[1], key[0] - before
                break
        if reason is not None:
            self._spec = spec
            raise Refusal(f"{self.path_of(next(iter(graphs)) if reason == _GRAPH else number)} {reason}; store it detached, "
                          "in memory of its own")
        own, key, kinds = signature(given, {}), signature((*leaves, *given), free), list(map(type, self.numbers()))
        if any(kind not in NUMBERS for kind in kinds):
            raise Refusal(f"{self.paths()} is no number any more; count outside")
        self._graphs = graphs
        if self._known is None:
            self._spec, self._own, self._known, self._kinds = spec, own, key, kinds
        return self._known == key and self._spec == spec and self._kinds == kinds

    def other(self, leaves, free):
        """Why what lies there now is of another variant; None where it is not."""
        from .._accelerate import signature

        found, spec = self.entering()
        is_alike = spec == self._spec and self._kinds == list(map(type, self.numbers()))
        if is_alike and signature((*leaves, *found), free) == self._known:
            return None
        return f"{self.paths()} is of another kind than when it was compiled"

    def paths(self):
        """Where what enters lies, in words."""
        return " or ".join(place.path for place in [*self._places, *self._numbers][:3])

    def fits(self):
        """Whether what lies there is alike in what observed calls knew of it."""
        if self._known is None or not self._places and not self._numbers:
            return True
        from .._accelerate import signature

        found, spec = self.entering(is_observed=True)
        found = [leaf if not isinstance(leaf, torch.Tensor) else whole(leaf.detach()) for leaf in found]
        return spec == self._spec and signature(tuple(found), {}) == self._own and self._kinds == list(
            map(type, self.numbers()))

    def path_of(self, at):
        """Of the at-th leaf that enters."""
        for place, kind in zip(self._places, self._spec):
            at -= 1 if kind is None else kind.num_leaves
            if at < 0:
                return place.path
        return "what the function stores"

    def lend(self, given, spec, tape):
        """Lays what an observed call is given where it reads it."""
        for place in self._numbers:
            place.write(tape.kept_number(place.read()))
        at, self._lent = iter(given), []
        for place, kind in zip(self._places, spec):
            value = place.read()
            leaves = pytree.tree_leaves(value) if kind is not None else [value]
            own = [next(at) for _ in leaves]
            if any(a is not b for a, b in zip(leaves, own)):
                place.write(own[0] if kind is None else pytree.tree_unflatten(own, kind))
                self._lent.append((place, value, place.read()))

    def take_back(self, others):
        """Behind such a call. `others`: by the ids of what it was lent and given copies of, whose place they take."""
        for place, value, copy in self._lent:
            if place.read() is copy:
                place.write(value)
        for place in self._numbers:
            place.write(plain(place.read()))
        for number, leaf in self._graphs.items():
            if leaf.grad is not None:
                self.problem = Refusal(f"{self.path_of(number)} {_GRAPH}; store it detached")
        self._apart |= self._graphs.keys()
        for place in self.stored_places() if others else ():
            value = place.read()
            if any(id(leaf) in others for leaf in pytree.tree_leaves(value)):
                place.write(pytree.tree_map(lambda leaf: others.get(id(leaf), leaf), value))

    def before(self):
        """What lies everywhere."""
        return [place.read() for place in self.every()]

    def note_stores(self, before):
        """What an observed call that began with before() has stored, place by place. Numbers that were followed are plain
        ones again where they lie; what is wrong is in `problem`."""
        values = [place.read() for place in self.every()]
        stores = [value is not old for value, old in zip(values, before)]
        if self._stores is not None and self._stores != stores:
            self.problem = Differs("it stores something in one call and not in another")
        self._stores = stores
        stored, containers = self.stored_values(), []
        for place, value in zip(self.stored_places(), stored):
            leaves = pytree.tree_leaves(value)
            if any(isinstance(leaf, Traced) for leaf in leaves):
                place.write(pytree.tree_map(plain, value))
            if not all(isinstance(leaf, (*PLAIN, *SIMPLE, Traced)) for leaf in leaves):
                self.problem = Refusal(f"{place.path} is no tensor any more, nor tensors in a tuple, a list or a dict; "
                                       "return the value and store it behind the call")
            containers += _mutable(value)
        if len({id(each) for each in containers}) < len(containers):
            self.problem = Refusal("the function stores one list or dict twice; return it and store it behind the call")
        return stored

    def by_leaves(self, count):
        """For each of so many leaves of a result and of what was stored behind it the place; None for the result's."""
        found = [place for place, value in zip(self.stored_places(), self.stored_values())
                 for _ in pytree.tree_leaves(value)]
        return [None] * (count - len(found)) + found

    def stored_places(self):
        return [place for place, is_stored in zip(self.every(), self._stores or []) if is_stored]

    def stored_values(self):
        """What lies now where a call stores."""
        return [place.read() for place in self.stored_places()]

    def store(self, values):
        for place, value in zip(self.stored_places(), values):
            place.write(value)


def _mutable(value):
    if isinstance(value, (list, dict)):
        return [value, *(found for each in (value.values() if isinstance(value, dict) else value)
                         for found in _mutable(each))]
    return [found for each in value for found in _mutable(each)] if isinstance(value, tuple) else []
