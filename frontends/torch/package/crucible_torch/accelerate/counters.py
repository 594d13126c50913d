"""Numbers that the function counts up in what lives longer than the call: `self.steps += 1`, a global, an outer variable,
an entry of a dict. A compiled call counts them up behind its run by what observed calls did. That is right only where
nothing else depends on the number: whatever uses it for more than counting is refused. Part of bytecode.py's checker."""

import types

import torch

from .classes import holder_of, own_special_of, static
from .values import Known, Plain, has_tensor, is_simple, options

ADVICE = "return the value and store it behind the call"
_ADDS = ("+", "+=", "-", "-=", "")  # without a sign before Python 3.11


class Counter:
    """Where a number lies. `holder`: a dict of attributes, of globals or of the user's, or a cell, whose `key` is None."""

    def __init__(self, holder, key, path):
        self.holder, self.key, self.path = holder, key, path

    def read(self):
        """The number now; None where there is none."""
        if self.key is None:
            try:
                return self.holder.cell_contents
            except ValueError:
                return None
        return self.holder.get(self.key)

    def add(self, amount):
        if self.key is None:
            self.holder.cell_contents += amount
        else:
            self.holder[self.key] += amount


class Count(Plain):
    """A counter's number, plus what was added to it so far."""

    def __init__(self, counter):
        super().__init__(counter.path)
        self.counter = counter

    def key(self):
        return "count", id(self.counter)


def counted(left, right, sign):
    """The counter of which `left sign right` is a number, or None. What is added is the same in each call of a variant: a
    constant, or something of sizes."""
    for number, other, signs in ((left, right, _ADDS), (right, left, ("+", "+="))):
        is_fixed = isinstance(other, Known) and type(other.obj) is int or type(other) is Plain and not other.source
        if isinstance(number, Count) and sign in signs and is_fixed:
            return number.counter
    return None


class Counting:
    """Mixed into bytecode.Checker. `reach.counters`: {(id of the holder, key): Counter}."""

    def count_at(self, holder, key):
        """The value of what is read there if the function counts it up, or stores tensors there; None otherwise."""
        counter = self.reach.counters.get((id(holder), key))
        if counter is not None:
            return Count(counter)
        stored = self.stored_at(holder, key)
        return stored if stored is not None else self.put_at(holder, key)

    def outlasts(self, holder, key, path, value, there):
        """Whether a store of `value` where `there` lies has an effect that a compiled call would leave out: it neither counts
        up, nor puts back what is there, nor is one of stored.py. A counter that is seen for the first time is known in the
        next round, when its number is read."""
        place = id(holder), key
        if place in self.reach.counters:
            counter = self.reach.counters[place]
            if all(isinstance(option, Count) and option.counter is counter for option in options(value)):
                return False
            if self.can_put(holder, key, path, value, there):
                del self.reach.counters[place]  # it is set, too
                return False
            self.keep_number(holder, key, path)
        if place in self.reach.puts:
            if self.can_put(holder, key, path, value, there):
                return False
            self.forget_put(place)
            if type(there) in (int, float):
                self.keep_number(holder, key, path)
            return not self.keeps(holder, key, path, value, there)
        if place not in self.reach.stored and self.is_there(value, there):
            return False
        if id(holder) in self.places:  # of an object that is another one in each call
            return True
        if place not in self.reach.stored and type(there) is not int and self.can_put(holder, key, path, value, there):
            return False
        if self.keeps(holder, key, path, value, there):
            return False
        if place in self.reach.stored or type(there) is not int or not isinstance(value, (Plain, Known)):
            return True
        self.reach.counters[place] = Counter(holder, key, path)
        self._version += 1
        return False

    def attribute_holder(self, owner, name):
        """The dict that a plain store of this attribute writes to, where it writes to one that has it."""
        obj = owner.obj if isinstance(owner, Known) else None
        if self.stores_by_itself(obj) or static(obj, name)[0] != "instance":
            return None
        setter = next((vars(base)[name] for base in type(obj).__mro__ if name in vars(base)), None)
        own = holder_of(obj, name)
        return own if isinstance(own, dict) and name in own and not hasattr(type(setter), "__set__") else None

    @staticmethod
    def stores_by_itself(obj):
        """Whether a store to an attribute is more than that, as far as is known."""
        return obj is None or isinstance(obj, (type, types.ModuleType, torch.Tensor)) or own_special_of(
            type(obj), "__setattr__") is not None

    @staticmethod
    def is_there(value, there):
        """Whether a store changes nothing: what an operation in place has given (`buffer += 1`), or the same value. What is
        there is watched, as its name is read."""
        if not isinstance(value, Known) or value.moves:
            return False
        return value.obj is there or is_simple(there) and type(value.obj) is type(there) and value.obj == there

    def is_counter(self, path):
        return any(counter.path == path for counter in self.reach.counters.values())

    def refuse_counters(self, frame, values, what):
        """What a counter may not be used for."""
        for value in values:
            for option in options(value):
                if isinstance(option, Plain) and option.source and self.is_counter(option.source):
                    frame.refuse(f"counts {option.source} up and {what}", "pass it as a tensor, or count outside")


def in_place(left, sign):
    """What `left sign right` gives where it changes a tensor in place that lives longer than the call; None otherwise."""
    if sign in ("+=", "-=", "*=", "/=", "//=", "%=", "**=", "&=", "|=", "^=", "<<=", ">>=") and isinstance(
            left, Known) and type(left.obj) in (torch.Tensor, torch.nn.Parameter) and has_tensor(left):
        return left
    return None
