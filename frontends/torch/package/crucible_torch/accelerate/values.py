"""What bytecode.py knows of a value while it follows a function: the object itself, where it was made, or only its
kind.

A `Known` object is one that guards watch (visible.py), so what is read from it holds for the next call too. A `Fresh`
one was made inside the call: writing into it leaves no trace behind. Everything that torch computes is a `Tensor`
here, which may be a tensor or anything else that torch's functions return.
"""

import torch

SIMPLE = (type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device, torch.Size, torch.layout,
          torch.memory_format, type(...), type(NotImplemented), range, slice)


class Value:
    """The base of all; also the mark for an empty place on the stack (NULL)."""

    def key(self):
        return type(self).__name__


class Null(Value):
    """An empty place on the stack."""


class Known(Value):
    """An object outside of the call. `moves`: numbers in it may differ in the next call (arguments, param_groups)."""

    def __init__(self, obj, path, moves=False):
        self.obj, self.path, self.moves = obj, path, moves

    def key(self):
        return "known", id(self.obj), self.moves


class Plain(Value):
    """A number, string, size, dtype or the like; `source`: the argument or hyperparameter that it was computed from, the
    first of `sources`."""

    def __init__(self, source=None, sources=()):
        self.source = source
        self.sources = frozenset(sources or (() if source is None else (source,)))

    def key(self):
        return "plain", self.source, self.sources


class Tensor(Value):
    """A result of torch; `outside`: perhaps a tensor that lives longer than the call. `fixed`: where the tensors were
    made that it was computed from, if those are filled with numbers that guards compare (torch.arange): it has the same
    elements in the next call. None for any other.
    """

    def __init__(self, outside=False, fixed=None):
        self.outside, self.fixed = outside, fixed

    def key(self):
        return "tensor", self.outside, self.fixed


class Number(Value):
    """A number that the call reads from a tensor, what Python computes from such, or a list of them. It may be carried,
    computed with, asked whether it is true, and returned (tape.py): nothing else.
    """


class Direct(Known):
    """A function in whose place observed calls have one that follows numbers (reads.py)."""

    def key(self):
        return "direct", id(self.obj)


class Outside(Value):
    """Something of which nothing is known; `what` names it."""

    def __init__(self, what):
        self.what = what

    def key(self):
        return "outside", self.what


class Missing(Outside):
    """An attribute that is not there: reading it raises AttributeError."""

    def key(self):
        return "missing", self.what


class Absent(Value):
    """Among the values of a keyword argument: it may not be given at all."""


class Fresh(Value):
    """A container made inside the call, at `site`; `elements`: whatever was put into it. Of a dict, `keys` has what was
    put in under keys that are known, `others` what was under any other, and `maybe` those of `keys` that need not be
    there.
    """

    def __init__(self, kind, site):
        self.kind, self.site, self.elements = kind, site, None
        self.keys, self.maybe, self.others = {}, set(), None
        self.sure = set()  # were put in when it was made
        self.first = ()  # of a tuple, the elements that it begins with

    def key(self):
        return "fresh", self.kind, self.site


class Building(Value):
    """A list on the stack that becomes a tuple: `items`, and any number of `rest`."""

    def __init__(self, items, rest=None):
        self.items, self.rest = tuple(items), rest

    def key(self):
        return "building", self.rest and self.rest.key(), *(item.key() for item in self.items)


class FreshObject(Value):
    """An instance of a user's class made inside the call."""

    def __init__(self, cls, site):
        self.cls, self.site, self.attributes = cls, site, {}
        self.mapping = Fresh("dict", (site, "mapping")) if issubclass(cls, dict) else None

    def key(self):
        return "object", id(self.cls), self.site


class Tuple(Value):
    """A tuple whose elements are known one by one."""

    def __init__(self, items):
        self.items = tuple(items)

    def key(self):
        return "tuple", *(item.key() for item in self.items)


class Iterator(Value):
    """An iterator made inside the call."""

    def __init__(self, element):
        self.element = element

    def key(self):
        return "iterator", self.element.key() if self.element else None


class Sequence(Value):
    """An iterator over few elements that are known one by one, of which `at` were taken: the body of a loop over it is
    followed for each of them.
    """

    def __init__(self, items, at=0):
        self.items, self.at = tuple(items), at

    def key(self):
        return "sequence", self.at, *(item.key() for item in self.items)


class Rest(Value):
    """The last of some arguments: any number of them, each `element`."""

    def __init__(self, element):
        self.element = element

    def key(self):
        return "rest", self.element.key()


class Slice(Plain):
    """A slice: what is picked by it is a new container. `real`: the slice itself, where it is known."""

    def __init__(self, source=None, real=None, sources=()):
        super().__init__(source, sources)
        self.real = real

    def key(self):
        return "slice", self.source, self.sources, str(self.real)


class Box(Value):
    """A cell: `real` for one of a function that was there before the call, otherwise its values so far."""

    def __init__(self, name, real=None, path="", site=()):
        self.name, self.real, self.path, self.value, self.site = name, real, path, None, site

    def key(self):
        return "box", id(self.real) if self.real is not None else self.site, self.name


class Function(Value):
    """A function made inside the call."""

    def __init__(self, code, scope, boxes, defaults=(), keyword_defaults=None):
        self.code, self.scope, self.boxes = code, scope, boxes
        self.defaults, self.keyword_defaults = defaults, keyword_defaults or {}

    def key(self):
        return "function", self.code, *(box.key() for box in self.boxes.values())


class Bound(Value):
    """A user's function bound to an object that was made inside the call, or to a class."""

    def __init__(self, function, owner):
        self.function, self.owner = function, owner

    def key(self):
        return "bound", self.function.key(), self.owner.key()


class Method(Value):
    """An attribute of something; most are called, the others are data."""

    def __init__(self, owner, name):
        self.owner, self.name = owner, name

    def key(self):
        return "method", self.owner.key(), self.name


class Super(Value):
    """`super()` of a class and an object."""

    def __init__(self, cls, owner):
        self.cls, self.owner = cls, owner

    def key(self):
        return "super", id(self.cls), self.owner.key()


class Union(Value):
    """One of several."""

    def __init__(self, options):
        self.options = options  # {key: value}

    def key(self):
        return "union", frozenset(self.options)


MOST_OPTIONS = 2000
MOST_MADE = 48  # of values that are made in the call: a loop can nest them without end
ANYTHING = Outside("one of many values")
FEW_OPTIONS = 16


def join(first, second):
    """What may be either; None stands for nothing so far."""
    if first is None or second is None or first is second:
        return second if first is None else first
    if first.key() == second.key():
        return first
    if first is ANYTHING or second is ANYTHING:
        return ANYTHING
    options = {}
    for value in (first, second):
        options.update(value.options if isinstance(value, Union) else {value.key(): value})
    if len(options) > MOST_OPTIONS or len(options) > MOST_MADE and \
            sum(not isinstance(option, Known) for option in options.values()) > MOST_MADE:
        return ANYTHING
    return Union(options) if len(options) > 1 else next(iter(options.values()))


def join_all(values):
    result = None
    for value in values:
        result = join(result, value)
    return result if result is not None else Plain()


def options(value):
    """The values that it may be."""
    return list(value.options.values()) if isinstance(value, Union) else [value]


def at_key(path, key):
    """The path of what lies there; of a tensor as a key its kind and sizes, for people."""
    return f"{path}[{type(key).__name__} {tuple(key.shape)}]" if isinstance(key, torch.Tensor) else f"{path}[{key!r}]"


def is_simple(obj):
    """A value without parts that change: compared by value, and folded where a branch asks for it."""
    return isinstance(obj, SIMPLE) and type(obj) in SIMPLE or type(obj) is tuple and all(
        is_simple(item) for item in obj)


def is_tensor(value):
    return isinstance(value, Tensor) or isinstance(value, Known) and isinstance(value.obj, torch.Tensor)


def has_tensor(value):
    """Whether it may be a tensor, or an attribute of one that is data."""
    return any(is_tensor(option) or isinstance(option, Method) and is_tensor(option.owner) for option in options(value))


def is_number(value):
    """Whether it may be a number that was read, or an attribute of one."""
    return any(isinstance(option, Number) or isinstance(option, Method) and is_number(option.owner)
               for option in options(value))


def has_number(value):
    """Whether a number that was read may be in it."""
    waiting, seen = [value], set()
    while waiting:
        for option in options(waiting.pop()):
            if isinstance(option, Number):
                return True
            if id(option) not in seen:
                seen.add(id(option))
                waiting.extend(each for each in _within(option) if each is not None)
    return False


def _within(value):
    if isinstance(value, Tuple):
        return value.items
    if isinstance(value, Fresh):
        return [value.elements]
    if isinstance(value, FreshObject):
        return value.attributes.values()
    if isinstance(value, Function):
        return [*(box.value for box in value.boxes.values()), *value.defaults, *value.keyword_defaults.values()]
    if isinstance(value, Bound):
        return [value.function, value.owner]
    if isinstance(value, (Iterator, Rest)):
        return [value.element]
    return [value.owner] if isinstance(value, Method) else ()


def source(*values):
    """The argument or hyperparameter that one of them was computed from, or None."""
    for value in values:
        for option in options(value):
            if isinstance(option, Plain) and option.source:
                return option.source
            if isinstance(option, Tuple) and (found := source(*option.items)):
                return found
    return None


def constant(value):
    """(True, object) where it is one simple object that is the same in the next call; (False, None) otherwise."""
    if isinstance(value, Known) and is_simple(value.obj):
        return True, value.obj
    if isinstance(value, Tuple):
        parts = [constant(item) for item in value.items]
        if all(known for known, _ in parts):
            return True, tuple(part for _, part in parts)
    return False, None


def constants(value):
    """The objects that it may be, where all of them are simple and the same in the next call; None otherwise."""
    found = [constant(option) for option in options(value)]
    if len(found) > FEW_OPTIONS or not all(is_constant for is_constant, _ in found):
        return None
    return [obj for _, obj in found]


def fixed(*values):
    """Where tensors with elements that are the same in the next call were made, which the values are computed from;
    None where one of them may be something else.
    """
    sites = frozenset()
    for value in values:
        for option in options(value):
            if isinstance(option, Tensor) and option.fixed is not None:
                sites |= option.fixed
            elif isinstance(option, Tuple):
                inner = fixed(*option.items)
                if inner is None:
                    return None
                sites |= inner
            elif isinstance(option, (Plain, Null)):
                if getattr(option, "source", None):
                    return None
            elif not (isinstance(option, Known) and is_simple(option.obj)):
                return None
    return sites


def known(obj, path, moves=False):
    """The value of an object outside of the call; a number that may differ in the next call is no constant."""
    if moves and type(obj) in (int, float):
        return Plain(path)
    return Known(obj, path, moves and isinstance(obj, (list, tuple, dict)))  # what objects hold is watched


def holds_rates(value):
    """Whether it is what an optimizer keeps its hyperparameters in, or a part of that."""
    return isinstance(value, Known) and value.moves and ".param_groups" in value.path


def known_all(found, path_of, moves=False):
    """The values of many objects: one by one, or only their kind where they are many of one."""
    found = list(found)
    if len(found) > FEW_OPTIONS:
        if all(isinstance(item, torch.Tensor) for item in found):
            return [Tensor(outside=True)]
        if all(is_simple(item) and not isinstance(item, tuple) for item in found):
            return [Plain(path_of(0) if moves and any(type(item) in (int, float) for item in found) else None)]
    return [known(item, path_of(at), moves) for at, item in enumerate(found)]
