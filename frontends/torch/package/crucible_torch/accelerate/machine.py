"""Follows the instructions of one code object with values.py's values in place of objects: both ways at a branch that
is not decided by what is guarded, until nothing new is found. What a call, an attribute or a store means is the
checker's (bytecode.py, calls.py).
"""

import re

from .instructions import NULL, VERSION, Operations, instructions_of
from .values import (Iterator, Known, Plain, Sequence, Slice, Tensor, constant, has_tensor, is_number, join, join_all,
                     options, source)

_JUMP_IF = re.compile(r"POP_JUMP_(?:FORWARD_|BACKWARD_)?IF_(TRUE|FALSE|NONE|NOT_NONE)$")

# name: (values taken, values given); what is given is plain.
_PLAIN = {
    "UNARY_NOT": (1, 1),
    "GET_LEN": (0, 1),
    "MATCH_MAPPING": (0, 1),
    "MATCH_SEQUENCE": (0, 1),
    "CHECK_EXC_MATCH": (1, 1),
    "WITH_EXCEPT_START": (0, 1),
    "LOAD_COMMON_CONSTANT": (0, 1),
    "POP_TOP": (1, 0),
    "PRINT_EXPR": (1, 0),
    "POP_EXCEPT": (1, 0),
    "SETUP_ANNOTATIONS": (0, 0),
    "JUMP_IF_NOT_EXC_MATCH": (2, 0),
    "MATCH_CLASS": (3, 1),
    "DELETE_FAST": (0, 0),
    "BUILD_SLICE": (0, 0),
}
_NOTHING = {
    "CACHE", "NOP", "RESUME", "EXTENDED_ARG", "PRECALL", "COPY_FREE_VARS", "MAKE_CELL", "GEN_START", "POP_BLOCK",
    "NOT_TAKEN"
}
_STOPS = {"RERAISE", "RAISE_VARARGS"}
_GENERATORS = {
    "SEND", "GET_AWAITABLE", "GET_AITER", "GET_ANEXT", "BEFORE_ASYNC_WITH", "END_ASYNC_FOR", "ASYNC_GEN_WRAP",
    "GET_YIELD_FROM_ITER", "YIELD_FROM"
}


class Scope:
    """Where a function's names that are not its own come from."""

    def __init__(self, names, builtins, prefix, module):
        self.names, self.builtins, self.prefix, self.module = names, builtins, prefix, module


class Frame(Operations):
    """One code object with the kinds of its arguments."""

    def __init__(self, checker, code, scope, boxes, arguments, label):
        self.checker, self.code, self.scope, self.label = checker, code, scope, label
        self.boxes = dict(boxes)
        self.line = code.co_firstlineno
        self.result = self.yields = None
        self.site = (code, label)
        for name in code.co_cellvars:
            self.boxes[name] = checker.box(name, (*self.site, name))
            if name in arguments:
                checker.grow_box(self.boxes[name], arguments[name])
        self.arguments = arguments

    def refuse(self, what, advice, kind="refused"):
        self.checker.refuse(self.code, self.line, what, advice, kind)

    def run(self):
        """The value that it returns; None where it never does."""
        instructions, index_of, handlers = instructions_of(self.code)
        names = {
            item.argval
            for item in instructions if item.opname in ("LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR", "LOAD_SUPER_ATTR",
                                                        "DELETE_ATTR", "IMPORT_FROM")
        }
        self.checker.note_code(self.code, names)
        own = {name: value for name, value in self.arguments.items() if name not in self.code.co_cellvars}
        states = {(0, ()): (own, [])}  # by instruction and how far loops have come that are followed one by one
        waiting = [(0, ())]
        budget = 200 * len(instructions) + 2000
        while waiting:
            budget -= 1
            self.checker.count_step()
            if budget < 0:
                self.refuse("does too many different things to be followed", "split it into smaller functions")
                break
            place = waiting.pop()
            index = place[0]
            item = instructions[index]
            variables, stack = dict(states[place][0]), list(states[place][1])
            self.line = _line(item) or self.line
            for start, end, target, depth, lasti in ((h.start, h.end, h.target, h.depth, h.lasti) for h in handlers):
                if start <= item.offset < end and self._ran(index_of[target]):
                    raised = stack[:depth] + ([Plain()] if lasti else []) + [Plain()]
                    self._reach(states, waiting, index_of[target], variables, raised)
            tested = instructions[index - 1] if index and item.opname.endswith("NONE") else None
            found = self.step(item, variables, stack)
            if self.checker.tracks:
                self.checker.note_uses(self, item, states[place][1], [after for _, after in found])
            for offset, after in found:
                at = index + 1 if offset is None else index_of[offset]
                if at < len(instructions):
                    is_none = item.opname.endswith("IF_NONE") == (offset is not None)
                    self._reach(states, waiting, at, self._narrowed(variables, tested, is_none), after)
        if self.yields is not None or self.code.co_name == "<genexpr>":
            return Iterator(self.yields or Plain())
        return self.result

    @staticmethod
    def _narrowed(variables, tested, is_none):
        """The variables behind a branch on `name is None`."""
        if tested is None or not tested.opname.startswith("LOAD_FAST") or tested.argval not in variables:
            return variables
        value = variables[tested.argval]
        left = [option for option in options(value) if not isinstance(option, Known) or (option.obj is None) == is_none]
        return {**variables, tested.argval: join_all(left)} if left else variables

    @staticmethod
    def _reach(states, waiting, index, variables, stack):
        place = index, tuple([value.at for value in stack if isinstance(value, Sequence)])
        if place not in states:
            states[place] = dict(variables), list(stack)
            waiting.append(place)
            return
        old_variables, old_stack = states[place]
        changed = False
        for name, value in variables.items():
            merged = join(old_variables.get(name), value)
            if name not in old_variables or merged.key() != old_variables[name].key():
                old_variables[name], changed = merged, True
        for at in range(min(len(old_stack), len(stack))):
            merged = join(old_stack[at], stack[at])
            if merged.key() != old_stack[at].key():
                old_stack[at], changed = merged, True
        if changed and place not in waiting:
            waiting.append(place)

    def step(self, item, variables, stack):
        """Does one instruction; [(offset of the next or None for the one behind, stack there)]."""
        name = item.opname
        if name in _NOTHING:
            return [(None, stack)]
        if name in _STOPS:
            return []
        jump = _JUMP_IF.match(name)
        if jump:
            return self._branch(item, stack.pop(), jump.group(1), stack, stack)
        if name in ("JUMP_IF_TRUE_OR_POP", "JUMP_IF_FALSE_OR_POP"):
            kept, dropped = list(stack), stack[:-1]
            return self._branch(item, stack[-1], "TRUE" if "TRUE" in name else "FALSE", kept, dropped)
        if name.startswith("JUMP_"):
            if name == "JUMP_IF_NOT_EXC_MATCH":
                del stack[-2:]
                return [(None, list(stack)), (item.argval, list(stack))]
            return [(item.argval, stack)]
        if name == "FOR_ITER" and isinstance(stack[-1], Sequence) and stack[-1].at < len(stack[-1].items):
            loop = stack.pop()
            return [(None, [*stack, Sequence(loop.items, loop.at + 1), loop.items[loop.at]])]
        if name == "FOR_ITER":
            element = self.checker.element(self, stack[-1])
            ended = stack[:-1] if VERSION < (3, 12) else [*stack, NULL]
            ways = [(item.argval, ended)] + ([(None, [*stack, element])] if element is not None else [])
            return ways if source(stack[-1]) else self._gone(item, ways)
        if name in ("SETUP_FINALLY", "SETUP_WITH", "SETUP_ASYNC_WITH"):  # 3.10
            if name != "SETUP_FINALLY":
                manager = stack.pop()
                given = self.checker.enter(self, manager)
                stack.append(Tensor())
            raised = [*stack, *(Plain() for _ in range(6))]
            return [(item.argval, raised), (None, stack if name == "SETUP_FINALLY" else [*stack, given])]
        if name in ("RETURN_VALUE", "RETURN_CONST"):
            value = Known(item.argval, "constant") if name == "RETURN_CONST" else stack.pop()
            self.result = join(self.result, value)
            return []
        if name in _GENERATORS:
            self.refuse("is a generator or coroutine", "return the values, or write a loop")
            return []
        if name in _PLAIN:
            taken, given = _PLAIN[name]
            if name == "UNARY_NOT":
                stack.append(self._not(stack.pop()))
            elif name == "BUILD_SLICE":
                parts = self._take(stack, item.arg)
                self.checker.no_number(self, "slices by", *parts)
                known = [constant(part) for part in parts]
                is_known = all(is_constant for is_constant, _ in known)
                stack.append(Slice(source(*parts), slice(*[part for _, part in known]) if is_known else None))
            else:
                if name.startswith("MATCH_CLASS"):
                    self.checker.no_number(self, "matches", *stack[-3:])
                del stack[len(stack) - taken:]
                stack.extend(Plain() for _ in range(given))
            return [(None, stack)]
        method = getattr(self, "op_" + name, None)
        if method is not None:
            method(item, variables, stack)
        elif name.startswith(("BINARY_", "INPLACE_")):
            right, left = stack.pop(), stack.pop()
            stack.append(self.checker.operate(self, "=" if name.startswith("INPLACE") else "", left, right,
                                              item.offset))
        elif name.startswith("UNARY_"):
            stack.append(self.checker.operate(self, "", stack.pop(), Plain(), item.offset))
        else:
            self.refuse(f"does {name}, which is not known", "write it in another way")
            return []
        return [(None, stack)]

    def _not(self, value):
        answer = self.truth(value)
        return Known(not answer, "constant") if answer is not None else Plain(source(value))

    def truth(self, value):
        """True or False where what is guarded decides it; None otherwise, which is noted when a tensor or a moving
        number does.
        """
        answer = self.checker.truth(value)
        self.checker.ask(self, value)
        if answer is None:
            if has_tensor(value) or is_number(value):
                return None  # the way that was taken is looked at in each call
            if moving := source(value):
                self.refuse(f"branches on {moving}", "pass a bool or a string for what is decided", "number decides")
        return answer

    def _gone(self, item, ways):
        """Those of the ways that calls have gone, where it is known; what decides must be guarded."""
        taken = self.checker.taken
        if taken is None:
            return ways
        instructions, index_of, _ = instructions_of(self.code)
        return taken.ways(self.code, ways, instructions, index_of, index_of[item.offset] + 1)

    def _ran(self, index):
        taken = self.checker.taken
        return taken is None or taken.ran(self.code, instructions_of(self.code)[0], index)

    def _branch(self, item, value, way, jumped, fallen):
        if way in ("NONE", "NOT_NONE"):
            answer = self.checker.is_none(value)
            taken = answer if way == "NONE" or answer is None else not answer
        else:
            answer = self.truth(value)
            taken = answer if way == "TRUE" or answer is None else not answer
        ways = [(item.argval, list(jumped))] if taken is not False else []
        ways += [(None, list(fallen))] if taken is not True else []
        return ways if source(value) else self._gone(item, ways)


def _line(item):
    positions = getattr(item, "positions", None)
    return (positions.lineno if positions else None) or (item.starts_line if type(item.starts_line) is int else None)
