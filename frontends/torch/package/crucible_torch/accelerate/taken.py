"""Which instructions a call has run: a branch that is decided by what guards compare goes the same way in every later
call, so the way that was not taken needs no verdict (machine.py)."""

import abc
import os
import sys
import types

from . import known as tables
from .values import Bound, Function, Known

OWN_FOLDERS = tuple(
    os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), name) + os.sep
    for name in ("crucible", "crucible_torch"))


def _is_own(code):
    return code.co_filename.startswith(OWN_FOLDERS)


def _is_left_out(code):
    """Code of torch's and our own, which is not followed."""
    return tables.in_torch(code) or _is_own(code)


def _code_of(value):
    """The code that calling it runs first; None where that is not known."""
    while isinstance(value, Bound):
        value = value.function
    if isinstance(value, Function):
        return value.code
    obj = value.obj if isinstance(value, Known) else None
    if isinstance(obj, type):
        obj = obj.__init__ if type(obj) in (type, abc.ABCMeta) else None
    return getattr(obj.__func__ if isinstance(obj, types.MethodType) else obj, "__code__", None)


class Taken:
    """The offsets of the instructions that ran while it was entered, by code; of several times, those of all.

    Costs some hundred nanoseconds for each instruction of the user's code. Where somebody else traces (a debugger, a
    measurement of coverage) nothing is noted, and `wanted` ends. Threads: only the one that enters it.
    """

    def __init__(self):
        self.offsets = {}  # code: set of offsets
        self.wanted = True
        self.has_grown = False
        self._local = {}  # code: _kind_of(code)

    def __enter__(self):
        self.has_grown = False
        if sys.gettrace() is not None:
            self.wanted, self.offsets = False, {}
        if self.wanted:
            self._before = {code: len(offsets) for code, offsets in self.offsets.items()}
            sys.settrace(self._entered)
        return self

    def __exit__(self, *_):
        if self.wanted:
            if sys.gettrace() != self._entered:  # somebody set another one meanwhile: what ran is not all known
                self.wanted, self.offsets = False, {}
                return
            sys.settrace(None)
            self._local = {}
            self.has_grown = self._before != {code: len(offsets) for code, offsets in self.offsets.items()}

    def _entered(self, frame, event, _):
        code = frame.f_code
        kind = self._local.get(code)
        if kind is None:
            kind = self._local[code] = self._kind_of(code)
        local, is_standard = kind
        if local is None:
            return None
        if is_standard and frame.f_back is not None and _is_own(frame.f_back.f_code):
            return None  # what the recorder asks of Python's library is no way of the call's
        if code not in self.offsets:
            self.offsets[code] = set()
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        local(frame, "opcode", None)
        return local

    def _kind_of(self, code):
        """(What notes its instructions, None where it is not followed; whether it is Python's library's)."""
        if _is_left_out(code):
            return None, False
        offsets = self.offsets

        def local(frame, event, _):
            if event == "opcode":
                offsets[code].add(frame.f_lasti)
            return local

        return local, tables.in_standard_library(code)

    def ways(self, code, ways, instructions, index_of, behind):
        """Those of a branch's `ways`, [(offset or None for `behind`, ...)], that were gone; all of them where the code
        never ran."""
        if len(ways) < 2 or code not in self.offsets:
            return ways
        gone = [way for way in ways if self.ran(code, instructions, behind if way[0] is None else index_of[way[0]])]
        return gone or ways

    def that_ran(self, functions):
        """Of several functions that may be called those whose code ran. Which one it is, guarded values decide, as they do at a
        branch."""
        if len(functions) < 2:
            return functions
        return [each for each in functions if self.has_run(_code_of(each))] or functions

    def has_run(self, code):
        """Whether any of the code ran; True as well where that is not known."""
        return not self.offsets or not isinstance(code, types.CodeType) or code in self.offsets or _is_left_out(code)

    def ran(self, code, instructions, index):
        """Whether the instruction of that index ran, or the code never did."""
        offsets = self.offsets.get(code)
        if offsets is None:
            return True
        while index < len(instructions):
            if instructions[index].offset in offsets:
                return True
            if instructions[index].opname != "EXTENDED_ARG":
                return False
            index += 1
        return False
