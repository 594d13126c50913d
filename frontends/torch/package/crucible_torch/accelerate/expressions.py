"""Numbers that are known before a call, and expressions of them: where a number is read from, what it was in each
observed call, how it is written in generated Python and in words. Rules (rules.py) are such expressions; nothing here
knows an optimizer."""

import ast
import ctypes
import functools
import math
import numbers
import re
import struct

_NAME = re.compile(r"\b[A-Za-z_][A-Za-z_0-9]*\b")
_LONGEST = 24  # of an intermediate that is spelled out
_SIMPLE = re.compile(r"[A-Za-z_][\w.\[\]']*|[\d.]+\Z")


def f32(x):
    """x rounded to 32 bits, as a tensor of torch.float32 holds it."""
    return ctypes.c_float(x).value


def f16(x):
    """x rounded to torch.float16."""
    try:
        return struct.unpack("<e", struct.pack("<e", x))[0]
    except OverflowError:
        return math.copysign(math.inf, x)


def bf16(x):
    """x rounded to torch.bfloat16, by way of 32 bits as torch does it."""
    (word,) = struct.unpack("<I", struct.pack("<f", f32(x)))
    if word & 0x7fffffff <= 0x7f800000:  # no NaN
        word += 0x7fff + (word >> 16 & 1)
    return struct.unpack("<f", struct.pack("<I", word & 0xffff0000))[0]


FUNCTIONS = {"min": min, "max": max, "abs": abs, "f32": f32, "f16": f16, "bf16": bf16}
_GLOBALS = FUNCTIONS | {"__builtins__": {}}


@functools.cache
def _compiled(text):
    tree = ast.parse(text, mode="eval")
    names = sorted({node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - set(FUNCTIONS))
    return compile(tree, "<rule>", "eval"), tuple(names)


def is_number(value):
    """Whether a value counts as a number here: of Python or NumPy, whole or real. Truth values are switches, and what
    is in a tensor is not known before the call."""
    kind = type(value)
    if kind is float or kind is int:
        return True
    return kind.__module__ == "numpy" and getattr(getattr(value, "dtype", None), "kind", "") in "fiu" and isinstance(
        value, numbers.Real)


def number(value):
    """`value` where it counts as a number. Errors: TypeError where it does not."""
    if not is_number(value):
        raise TypeError(f"{type(value).__name__} is no number")
    return value


def bits(value):
    """What makes two numbers the same: type class and bits. -0.0 is not 0.0, and 1 is not 1.0."""
    if type(value) is int:
        return value
    return struct.pack("<d", float(value))


def as_slot(value, is_integer):
    """`value` as a slot of that type holds it, or None where it does not hold it."""
    if is_integer:
        return value if type(value) is int and -(1 << 63) <= value < 1 << 63 else None
    try:
        real = float(value)
    except (TypeError, OverflowError, ValueError):
        return None
    return None if type(value) is int and int(real) != value else real


class Source:
    """A number that is there before a call. `values`: what it was before each observed call."""

    def __init__(self, path, values):
        self.path, self.values = path, tuple(values)

    @functools.cached_property
    def varied(self):
        return len({bits(value) for value in self.values}) > 1

    @property
    def moves(self):
        """Whether it may be another one in the next call though no guard compares it."""
        return self.varied

    @property
    def sources(self):
        return (self,)

    def words(self, brief=False):
        return (brief and self.brief) or self.path

    brief = ""


class Group(Source):
    """A number of an optimizer's param_groups."""

    def __init__(self, path, values, optimizer, group, key, index, frees=False):
        super().__init__(path, values)
        self.optimizer, self.group, self.key, self.index = optimizer, group, key, index
        # A learning rate may move though it did not, where all that ops get of it are slots.
        self.is_free = frees and key == "lr"
        self.brief = key if index is None else f"{'beta' if key == 'betas' else key}{index + 1}"

    @property
    def moves(self):
        return self.varied or self.is_free


class State(Source):
    """A number that an optimizer keeps for each parameter: `members` are those of the group that always had the same
    one, `is_tensor` whether it is kept in a tensor, of `dtype`."""

    def __init__(self, path, values, optimizer, group, key, members, is_tensor, dtype):
        super().__init__(path, values)
        self.optimizer, self.group, self.key, self.members = optimizer, group, key, tuple(members)
        self.is_tensor, self.dtype, self.brief = is_tensor, dtype, key

    moves = True  # the program writes it


class Argument(Source):
    """A number among the call's arguments: the keys that lead to it, first the argument's name."""

    def __init__(self, path, values, keys):
        super().__init__(path, values)
        self.keys = tuple(keys)


class Expression:
    """A piece of Python over named parts, which are sources, expressions or plain numbers."""

    def __init__(self, text, parts):
        self.text = text
        self.code, names = _compiled(text)
        self.parts = {name: parts[name] for name in names}

    @functools.cached_property
    def sources(self):
        found = []
        for part in self.parts.values():
            if isinstance(part, (Source, Expression)):
                found += [source for source in part.sources if source not in found]
        return tuple(found)

    @functools.cached_property
    def values(self):
        """In each observed call; None where it raises or is no number."""
        count = max((len(source.values) for source in self.sources), default=0)
        return tuple(self._value(i) for i in range(count))

    def _value(self, i):
        names = {}
        for name, part in self.parts.items():
            value = part.values[i] if isinstance(part, (Source, Expression)) else part
            if value is None:
                return None
            names[name] = value
        try:
            value = eval(self.code, _GLOBALS, names)  # of formulas.py and search.py alone
        except (ArithmeticError, TypeError, ValueError, RuntimeError):
            return None
        return value if type(value) is bool or is_number(value) else None

    name = ""  # of an intermediate

    def words(self, brief=False):
        """As a person reads it; `brief`: numbers of an optimizer by their keys alone, long intermediates by name."""

        def said(match):
            part = self.parts.get(match.group(0))
            if part is None:
                return match.group(0)
            if isinstance(part, Source):
                return part.words(brief)
            if isinstance(part, Expression):
                inner = part.words(brief)
                if brief and part.name and len(inner) > _LONGEST:
                    return part.name
                return inner if self.text == match.group(0) or _SIMPLE.fullmatch(inner) else f"({inner})"
            return repr(part)

        return _NAME.sub(said, self.text)


class Count(Expression):
    """The step count that the k-th optimizer.step() of the call uses: what the state holds before the call, and k."""

    def __init__(self, state, k):
        super().__init__("held + k", {"held": state, "k": k})

    def words(self, brief=False):
        state, k = self.parts["held"], self.parts["k"]
        said = state.words(brief)
        return said if k == 1 else f"({said} + {k - 1})"


class Writer:
    """Writes expressions as lines of a Python function over `O` (the optimizers) and `A` (the arguments); what is used
    twice is read and computed once."""

    def __init__(self):
        self.lines = []
        self._names = {}
        self._count = 0

    def _assign(self, key, text):
        if key in self._names:
            return self._names[key]
        self._count += 1
        name = self._names[key] = f"v{self._count}"
        self.lines.append(f"{name} = {text}")
        return name

    def write(self, part):
        """The name, or the literal, that holds it from here on."""
        if isinstance(part, Expression):
            return self._assign(("x", self._substituted(part)), self._substituted(part))
        if isinstance(part, Source):
            return self._read(part)
        return repr(part)

    def _substituted(self, expression):
        names = {name: self.write(part) for name, part in expression.parts.items()}
        return _NAME.sub(lambda match: names.get(match.group(0), match.group(0)), expression.text)

    def group(self, optimizer, group):
        return self._assign(("g", optimizer, group), f"O[{optimizer}].param_groups[{group}]")

    def _read(self, source):
        key = ("s", source.path)
        if key in self._names:
            return self._names[key]
        if isinstance(source, Group):
            group = self.group(source.optimizer, source.group)
            whole = f"{group}[{source.key!r}]"
            if source.index is not None:
                whole = f"{self._assign(('t', source.optimizer, source.group, source.key), whole)}[{source.index}]"
        elif isinstance(source, Argument):
            whole = "A" + "".join(f"[{part!r}]" for part in source.keys)
        else:
            group = self.group(source.optimizer, source.group)
            table = self._assign(("o", source.optimizer), f"O[{source.optimizer}].state.get")
            whole = f"{table}({group}['params'][{source.members[0]}])[{source.key!r}]"
            if source.is_tensor:
                whole = f"{whole}.item()"
        name = self._assign(key, whole)
        if not (isinstance(source, State) and source.is_tensor):
            self.lines.append(f"if type({name}) is not float: {name} = number({name})")
        return name
