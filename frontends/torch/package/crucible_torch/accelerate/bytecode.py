"""Whether a call may be answered without running its Python: `check` follows a function's bytecode, and that of every
function that it may call, and lists what a replay would leave out - stores into what lives longer than the call,
calls whose effects are not known, values that leave torch. What is read from objects outside is taken as it is now:
visible.py watches it. Nothing of the user's is run.

`machine.py` follows the instructions, `objects.py`, `calls.py` and `modules.py` say what they mean, `known.py` has
the tables.
"""

import builtins
import dataclasses
import functools
import inspect
import os
import sys
import types

import torch

from .binding import bind
from .calls import Calls
from .classes import is_user_class, own_dict
from .counters import Counting
from .known import MATHEMATICS
from .machine import Frame, Scope
from .modules import Modules
from .objects import Objects
from .operands import Operands, sources
from .puts import Putting
from .reads import can_stand_in
from .stored import Storing
from .values import Box, Direct, Fresh, FreshObject, Known, Outside, Plain, Tensor, Union, join, known

KINDS = ("refused", "value leaves", "number decides", "scheduler", "scaler")
IMPORTED = ("torch", "math", "cmath", "operator", "typing", "itertools", "functools", "collections", "contextlib")
MOST_REFUSALS = 40
MOST_STEPS = 300_000  # instructions, some seconds
MOST_FRAMES = 20_000
MOST_ROUNDS = 12
MOST_DEPTH = 60


@dataclasses.dataclass(frozen=True, order=True)
class Refusal:
    """Why a call needs its Python, where, and what to change.

    `kind`: "refused" (never without Python); "value leaves" (a tensor's value becomes a Python value: a value guard
    or a segment); "number decides" (a number that may move decides what runs: it is guarded by value); "scheduler"
    and "scaler" (calls that the caller can do itself).
    """

    file: str
    line: int
    what: str
    advice: str
    kind: str = "refused"

    def __str__(self):
        where = f"{self.file}:{self.line}: " if self.file else ""
        return f"{where}{self.what}: {self.advice}"


class Enough(Exception):
    """There are refusals enough, or it takes too long: what was found is the answer."""


class Reach:
    """What following a function found of it: visible.py walks from here."""

    def __init__(self):
        self.codes = set()
        self.names = set()  # attributes that are read
        self.functions = {}  # id: (function, path), the user's
        self.globals = {}  # id of a globals dict: (dict, prefix of its paths, names that are read)
        self.classes = {}  # id: class whose instances are made in the call
        self.modules = {}  # id: (Python module, names that are read)
        self.counters = {}  # (id of a dict or cell, key): Counter, a number that the function counts up
        self.stored = {}  # the same: Stored, where the function stores tensors
        self.puts = {}  # (id of a dict, key): Put, what the function sets to values that are guarded
        self.sets_gradients = False  # whether it says which parameters take a gradient
        self.rates = []  # Refusal: where hyperparameters of optimizers are read, which schedulers set
        # Arguments by their paths: those that are operands of ops somewhere, and those that are more than that.
        self.operands, self.deciding = set(), set()
        self.is_decided_by_numbers = False  # a number that may move picks what runs
        self.whole = {}  # id: object all of whose attributes are read
        self.environment = set()  # names of the environment that are read


class Checker(Operands, Objects, Calls, Modules, Counting, Storing, Putting):
    """One check: follows frames, each once per round, until a round finds nothing new about what is made inside the
    call.
    """

    def __init__(self, taken=None, places=None):
        self.places = places or {}  # what is new in each call, by its id
        self.taken = taken  # Taken, or None where it is not known which ways calls go
        self.written = set()  # where tensors were made whose elements do not stay what they were
        self.reach = Reach()
        self.refusals = {}
        self.trusted_modules = {}
        self._boxes, self._fresh, self._objects = {}, {}, {}
        self._version = 0
        self._results, self._active = {}, []
        self._put_values = {}  # of reach.puts: what is stored there
        self._copies = {}  # what libraries' functions gave that copy and change nothing
        self._home = None
        self._steps = self._refused = 0
        self.tracks = False  # whether a number is among the arguments

    # What frames ask.

    def refuse(self, code, line, what, advice, kind="refused"):
        if self.keep_counted(what):
            return  # it is more than a counter: that shows in the next round
        refusal = Refusal(code.co_filename if code is not None else "", line, what, advice, kind)
        if refusal not in self.refusals:
            self.refusals[refusal] = None
            self._refused += kind == "refused"
            if self._refused >= MOST_REFUSALS:
                raise Enough

    def count_step(self):
        """Called for each instruction that is followed."""
        self._steps += 1
        if self._steps == MOST_STEPS:
            self.refuse(None, 0, "is too large to be followed", "accelerate a smaller part")
            raise Enough

    def note_code(self, code, names):
        if code not in self.reach.codes:
            self.reach.codes.add(code)
            self.reach.names.update(names)

    def note_rate(self, frame, path):
        """A hyperparameter is read, which a step of a scheduler in the same call may have set."""
        code, line = (frame.code, frame.line) if frame is not None else (None, 0)
        self.reach.rates.append(Refusal(code.co_filename if code is not None else "", line,
                                        f"reads {path} and steps a scheduler", "read it behind the call"))

    def note_class(self, cls):
        self.reach.classes[id(cls)] = cls

    def note_module(self, module, name):
        self.reach.modules.setdefault(id(module), (module, set()))[1].add(name)

    def box(self, name, site):
        return self._boxes.setdefault((site, name), Box(name, site=site))

    def fresh(self, kind, site):
        return self._fresh.setdefault((kind, site), Fresh(kind, site))

    def fresh_object(self, cls, site):
        return self._objects.setdefault((id(cls), site), FreshObject(cls, site))

    def note_growth(self):
        """Something new is known: one more round."""
        self._version += 1

    def _merge(self, before, value):
        after = join(before, value)
        if before is None or after.key() != before.key():
            self._version += 1
        return after

    def grow(self, made, value):
        """Something is put into a container; into a dict under a key that is not known."""
        for option in made.options.values() if isinstance(made, Union) else (made,):
            if isinstance(option, Fresh) and option is not value:
                option.elements = self._merge(option.elements, value)
                if option.kind == "dict":
                    option.others = self._merge(option.others, value)

    def grow_box(self, box, value):
        box.value = self._merge(box.value, value)

    def grow_attribute(self, made, name, value):
        made.attributes[name] = self._merge(made.attributes.get(name), value)

    def unbox(self, box, frame):
        if box.real is None:
            return box.value if box.value is not None else Plain()
        if (count := self.count_at(box.real, None)) is not None:
            return count
        try:
            return known(box.real.cell_contents, box.path)
        except ValueError:
            return Outside(box.name)

    def global_value(self, frame, name):
        scope = frame.scope
        if name in scope.names:
            self.reach.globals.setdefault(id(scope.names), (scope.names, scope.prefix, set()))[2].add(name)
            found = scope.names[name]
            if isinstance(found, types.BuiltinFunctionType) and found in MATHEMATICS and can_stand_in(
                    frame.code) and scope.builtins is vars(builtins):
                return Direct(found, scope.prefix + name)
            return self.count_at(scope.names, name) or known(found, scope.prefix + name)
        self.reach.globals.setdefault(id(scope.names), (scope.names, scope.prefix, set()))[2].add(name)
        if name in scope.builtins:
            return Known(scope.builtins[name], name)
        return Outside(name)

    def imported(self, frame, name, with_names):
        root = name.partition(".")[0]
        if root not in IMPORTED or name not in sys.modules:
            frame.refuse(f"imports {name}", "import it at the top of the file")
            return Outside(name)
        return Known(sys.modules[name if with_names else root], name if with_names else root)

    # Following functions.

    def follow(self, frame, function, arguments, keywords, site):
        """The result of a function that was made inside the call."""
        return self._follow(frame, function.code, function.scope, function.boxes, arguments, keywords,
                            function.defaults, function.keyword_defaults, function.code.co_name, site, function.key())

    def follow_known(self, frame, function, path, arguments, keywords, site):
        """The result of a user's function that was there before the call."""
        if hasattr(function, "_torchdynamo_orig_callable"):
            frame.refuse(f"calls {path}, which is compiled by torch",
                         "pass the function as it was before torch.compile")
            return Tensor()
        if id(function) not in self.places:
            self.reach.functions.setdefault(id(function), (function, path))
        code = function.__code__
        boxes = {
            name: Box(name, real=cell, path=name)
            for name, cell in zip(code.co_freevars, function.__closure__ or ())
        }
        defaults = tuple(
            known(item, f"{path}.__defaults__[{at}]") for at, item in enumerate(function.__defaults__ or ()))
        named = {
            name: known(item, f"{path}.__kwdefaults__[{name!r}]")
            for name, item in (function.__kwdefaults__ or {}).items()
        }
        return self._follow(frame, code, self.scope_of(function), boxes, arguments, keywords, defaults, named, path,
                            site, id(function))

    def scope_of(self, function):
        builtins = function.__globals__.get("__builtins__", {})
        builtins = vars(builtins) if isinstance(builtins, types.ModuleType) else builtins
        if self._home is None:
            self._home = function.__globals__
        prefix = "" if function.__globals__ is self._home else f"{function.__globals__.get('__name__', '?')}."
        return Scope(function.__globals__, builtins, prefix, function.__module__)

    def _follow(self, frame, code, scope, boxes, arguments, keywords, defaults, named, path, site, identity):
        coroutine = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
        if code.co_flags & coroutine or code.co_flags & inspect.CO_GENERATOR and not self._active:
            (frame or _Nowhere(self, code)).refuse(f"calls {path}, a generator or coroutine",
                                                   "return the values, or write a loop")
            return Outside(f"{path}()")
        bound = bind(code, arguments, keywords, defaults, named, self, (code, path))
        if bound is None:
            (frame or _Nowhere(self, code)).refuse(f"calls {path} with arguments that cannot be followed",
                                                   "pass the arguments one by one")
            return Outside(f"{path}()")
        key = identity, code, tuple(sorted((name, value.key()) for name, value in bound.items()))
        if key in self._results:
            return self._results[key]
        if key in self._active or len(self._active) >= MOST_DEPTH:
            (frame or _Nowhere(self, code)).refuse(f"calls {path}, which calls itself", "write it as a loop")
            return Outside(f"{path}()")
        if len(self._results) >= MOST_FRAMES:
            (frame or _Nowhere(self, code)).refuse("calls too many functions to be followed",
                                                   "accelerate a smaller part")
            return Outside(f"{path}()")
        self._active.append(key)
        try:
            result = Frame(self, code, scope, boxes, bound, key).run()
        finally:
            self._active.pop()
        self._results[key] = result if result is not None else Plain()
        return self._results[key]

    def run(self, function, arguments, keywords):
        """Follows `function` until nothing new is found."""
        for _ in range(MOST_ROUNDS):
            before, self._results = self._version, {}
            self.refusals, self._refused = {}, 0
            nowhere = _Nowhere(self, None)
            result = self.call(nowhere, known(function, name_of(function)), arguments, keywords, ())
            self.decide(result)
            self.keep_counted(sources(result))
            self.returned(nowhere, result)
            if self._version == before:
                return
        self.refuse(None, 0, "keeps finding other values in its containers", "split the function")


class _Nowhere:
    """The frame of whoever calls the function."""

    def __init__(self, checker, code):
        self.checker, self.code, self.line, self.site, self.boxes, self.arguments = checker, code, 0, ("call",), {}, {}
        if code is not None:
            self.line = code.co_firstlineno

    def refuse(self, what, advice, kind="refused"):
        self.checker.refuse(self.code, self.line, what, advice, kind)

    def truth(self, value):
        return self.checker.truth(value)


def name_of(function):
    """The name that paths give to the function itself."""
    inner = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    if isinstance(inner, types.MethodType):
        return f"self.{inner.__name__}"
    if isinstance(inner, torch.nn.Module):
        return "model"
    return getattr(inner, "__name__", type(inner).__name__)


def argument_paths(function, arguments):
    """The paths of positional arguments: `argument x`, by number where the function's code is not at hand."""
    inner, before = (function.__func__, 1) if isinstance(function, types.MethodType) else (function, 0)
    code = getattr(inner, "__code__", None)
    names = code.co_varnames[before:code.co_argcount] if code is not None else ()
    return [f"argument {names[at] if at < len(names) else at}" for at in range(len(arguments))]


def follow(function, arguments=(), keywords=None, taken=None, places=None):
    """(list of Refusal, Reach) of a call `function(*arguments, **keywords)`; the arguments are what such a call is
    given. `taken`: which ways such calls went (taken.Taken): the verdict holds for calls that go those ways.
    `places`: what is new in each call, by its id (given.places).
    """
    checker = Checker(taken, places)
    for obj in (places or {}).values():
        if own_dict(obj) is not None and is_user_class(type(obj)):
            checker.note_class(type(obj))
    paths = argument_paths(function, arguments)
    given = [known(value, path, moves=True) for value, path in zip(arguments, paths)]
    named = {name: known(value, f"argument {name}", moves=True) for name, value in (keywords or {}).items()}
    checker.tracks = any(isinstance(value, Plain) for value in (*given, *named.values()))
    code = getattr(function, "__code__", None)
    try:
        checker.run(function, given, named)
    except Enough:
        pass
    except RecursionError:
        checker.refuse(code, 0, "calls functions too deeply to be followed", "accelerate a smaller part")
    except Exception as error:  # a shape of code that was not thought of: never a crash of the user's program
        if os.environ.get("CRUCIBLE_ACCELERATE_RAISE"):
            raise
        checker.refuse(code, 0, f"cannot be followed ({type(error).__name__}: {error})",
                       "report this, and run it without accelerate")
    return sorted(checker.refusals, key=lambda each: (each.file, each.line)), checker.reach


def check(function, *arguments, **keywords):
    """Why a call `function(*arguments, **keywords)` needs its Python: a list of Refusal, empty where a replay does
    all that it does.

    Ends at MOST_REFUSALS of the kind "refused". Follows Python's bytecode with what is there now (globals, closures,
    attributes); runs none of it. Errors: none; what cannot be followed is a refusal. Threads: any, with nobody
    changing the function's objects meanwhile.
    """
    return follow(function, arguments, keywords)[0]


__all__ = ["Reach", "Refusal", "check", "follow"]
