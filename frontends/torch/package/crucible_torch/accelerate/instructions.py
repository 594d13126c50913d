"""What single instructions of Python 3.10 to 3.13 do with the stack and the variables of a frame (machine.py), which
values.py's values stand for. Each `op_NAME` takes the instruction, the variables and the stack, and changes them.
"""

import dis
import sys

from . import counters
from .values import (Box, Building, Function, Known, Null, Outside, Plain, Rest, Slice, Super, Tensor, Tuple,
                     has_tensor, join, join_all, source)

NULL = Null()
VERSION = sys.version_info[:2]
_INSTRUCTIONS = {}  # code: what instructions_of says of it


def instructions_of(code):
    """(instructions, {offset: index}, exception handlers) of a code object."""
    if code not in _INSTRUCTIONS:
        found = list(dis.get_instructions(code))
        handlers = dis._parse_exception_table(code) if hasattr(dis, "_parse_exception_table") else []
        _INSTRUCTIONS[code] = found, {item.offset: index for index, item in enumerate(found)}, handlers
    return _INSTRUCTIONS[code]


class Operations:
    """Mixed into machine.Frame."""

    # Names.

    def op_LOAD_CONST(self, item, variables, stack):
        stack.append(Known(item.argval, "constant"))

    def op_LOAD_ASSERTION_ERROR(self, item, variables, stack):
        stack.append(Known(AssertionError, "AssertionError"))

    def op_LOAD_SMALL_INT(self, item, variables, stack):
        stack.append(Known(item.argval, "constant"))

    def op_LOAD_FAST(self, item, variables, stack):
        for name in item.argval if isinstance(item.argval, tuple) else (item.argval,):
            stack.append(self.boxes[name] if name in self.boxes else variables.get(name) or Plain())

    op_LOAD_FAST_CHECK = op_LOAD_FAST_LOAD_FAST = op_LOAD_FAST_BORROW = op_LOAD_FAST

    def op_LOAD_FAST_AND_CLEAR(self, item, variables, stack):
        stack.append(variables.get(item.argval) or Plain())

    def op_STORE_FAST(self, item, variables, stack):
        for name in item.argval if isinstance(item.argval, tuple) else (item.argval,):
            variables[name] = stack.pop()

    op_STORE_FAST_STORE_FAST = op_STORE_FAST_MAYBE_NULL = op_STORE_FAST

    def op_STORE_FAST_LOAD_FAST(self, item, variables, stack):
        variables[item.argval[0]] = stack.pop()
        stack.append(variables.get(item.argval[1]) or Plain())

    def op_LOAD_GLOBAL(self, item, variables, stack):
        if item.opname == "LOAD_GLOBAL" and item.arg & 1 and (3, 11) <= VERSION < (3, 13):
            stack.append(NULL)
        stack.append(self.checker.global_value(self, item.argval))
        if item.arg & 1 and VERSION >= (3, 13):
            stack.append(NULL)

    def op_LOAD_NAME(self, item, variables, stack):
        stack.append(self.checker.global_value(self, item.argval))

    def op_STORE_GLOBAL(self, item, variables, stack):
        value, names = stack.pop(), self.scope.names
        path = self.scope.prefix + item.argval
        if self.checker.outlasts(names, item.argval, path, value, names.get(item.argval)):
            self.refuse(f"stores the global {item.argval}", counters.ADVICE)

    op_STORE_NAME = op_STORE_GLOBAL

    def op_DELETE_GLOBAL(self, item, variables, stack):
        self.refuse(f"deletes the global {item.argval}", "delete it behind the call")

    op_DELETE_NAME = op_DELETE_GLOBAL

    def op_LOAD_CLOSURE(self, item, variables, stack):
        stack.append(self.boxes.get(item.argval) or Plain())

    def op_LOAD_DEREF(self, item, variables, stack):
        box = self.boxes.get(item.argval)
        stack.append(self.checker.unbox(box, self) if box is not None else Outside(item.argval))

    op_LOAD_CLASSDEREF = op_LOAD_DEREF

    def op_LOAD_FROM_DICT_OR_DEREF(self, item, variables, stack):
        stack.pop()
        self.op_LOAD_DEREF(item, variables, stack)

    def op_STORE_DEREF(self, item, variables, stack):
        value, box = stack.pop(), self.boxes.get(item.argval)
        if box is None:
            self.refuse(f"stores the outer variable {item.argval}", counters.ADVICE)
        elif box.real is None:
            self.checker.grow_box(box, value)
        else:
            there = counters.Counter(box.real, None, item.argval).read()
            if self.checker.outlasts(box.real, None, item.argval, value, there):
                self.refuse(f"stores the outer variable {item.argval}", counters.ADVICE)

    def op_DELETE_DEREF(self, item, variables, stack):
        if (box := self.boxes.get(item.argval)) is None or box.real is not None:
            self.refuse(f"deletes the outer variable {item.argval}", "delete it behind the call")

    def op_PUSH_NULL(self, item, variables, stack):
        stack.append(NULL)

    # Attributes, elements, operators.

    def op_LOAD_ATTR(self, item, variables, stack):
        owner = stack.pop()
        value = self.checker.attribute(self, owner, item.argval)
        if VERSION >= (3, 12) and item.arg & 1:
            stack.extend([NULL, value] if VERSION < (3, 13) else [value, NULL])
        else:
            stack.append(value)

    def op_LOAD_METHOD(self, item, variables, stack):
        stack.extend([NULL, self.checker.attribute(self, stack.pop(), item.argval)])

    def op_LOAD_SUPER_ATTR(self, item, variables, stack):
        owner, cls = stack.pop(), stack.pop()
        stack.pop()
        value = Super(cls.obj, owner) if isinstance(cls, Known) and isinstance(cls.obj, type) else Outside("super()")
        stack.append(self.checker.attribute(self, value, item.argval))
        if item.arg & 1:
            stack[-1:] = [NULL, stack[-1]] if VERSION < (3, 13) else [stack[-1], NULL]

    def op_STORE_ATTR(self, item, variables, stack):
        owner, value = stack.pop(), stack.pop()
        self.checker.store_attribute(self, owner, item.argval, value)

    def op_DELETE_ATTR(self, item, variables, stack):
        self.checker.store_attribute(self, stack.pop(), item.argval, None)

    def op_BINARY_SUBSCR(self, item, variables, stack):
        key, owner = stack.pop(), stack.pop()
        stack.append(self.checker.subscript(self, owner, key, item.offset))

    def op_BINARY_SLICE(self, item, variables, stack):
        end, start, owner = stack.pop(), stack.pop(), stack.pop()
        self.checker.no_number(self, "slices by", start, end)
        stack.append(self.checker.subscript(self, owner, Slice(source(start, end)), item.offset))

    def op_STORE_SUBSCR(self, item, variables, stack):
        key, owner, value = stack.pop(), stack.pop(), stack.pop()
        self.checker.store_element(self, owner, key, value)

    def op_STORE_SLICE(self, item, variables, stack):
        end, start, owner, value = stack.pop(), stack.pop(), stack.pop(), stack.pop()
        self.checker.no_number(self, "slices by", start, end)
        self.checker.store_element(self, owner, Plain(source(start, end)), value)

    def op_DELETE_SUBSCR(self, item, variables, stack):
        key, owner = stack.pop(), stack.pop()
        self.checker.store_element(self, owner, key, None)

    def op_BINARY_OP(self, item, variables, stack):
        right, left = stack.pop(), stack.pop()
        if item.argrepr == "[]":  # 3.14
            stack.append(self.checker.subscript(self, left, right, item.offset))
        else:
            stack.append(self.checker.operate(self, item.argrepr, left, right, item.offset))

    def op_COMPARE_OP(self, item, variables, stack):
        right, left = stack.pop(), stack.pop()
        stack.append(self.checker.compare(self, item.argval, left, right))

    def op_IS_OP(self, item, variables, stack):
        right, left = stack.pop(), stack.pop()
        answer = self.checker.is_same(left, right)
        if answer is None:
            self.checker.no_number(self, "compares by `is`", left, right)
        stack.append(Plain() if answer is None else Known(answer != bool(item.arg), "constant"))

    def op_CONTAINS_OP(self, item, variables, stack):
        owner, key = stack.pop(), stack.pop()
        answer = self.checker.contains(self, owner, key)
        stack.append(Plain(source(key)) if answer is None else Known(answer != bool(item.arg), "constant"))

    def op_TO_BOOL(self, item, variables, stack):
        value = stack.pop()
        answer = self.truth(value)
        stack.append(Plain() if answer is None else Known(answer, "constant"))

    # Making things.

    def _fresh(self, kind, item, values):
        made = self.checker.fresh(kind, (*self.site, item.offset))
        for value in values:
            self.checker.grow(made, value)
        return made

    def _take(self, stack, count):
        taken = stack[len(stack) - count:]
        del stack[len(stack) - count:]
        return taken

    def op_BUILD_TUPLE(self, item, variables, stack):
        stack.append(Tuple(self._take(stack, item.arg)))

    def op_BUILD_LIST(self, item, variables, stack):
        values = self._take(stack, item.arg)
        stack.append(Building(values) if self._becomes_tuple(item) else self._fresh("list", item, values))

    def _becomes_tuple(self, item):
        """Whether a list is only made for the tuple of f(a, *b)."""
        instructions, index_of, _ = instructions_of(self.code)
        depth = 1
        for each in instructions[index_of[item.offset] + 1:]:
            if depth == 1 and (each.opname == "LIST_TO_TUPLE" or each.opname == "CALL_INTRINSIC_1" and each.arg == 6):
                return True
            if each.opname.startswith(("STORE_", "RETURN", "JUMP", "POP_JUMP", "FOR_ITER", "RAISE", "YIELD")):
                return False
            depth += dis.stack_effect(each.opcode, each.arg if each.opcode >= dis.HAVE_ARGUMENT else None, jump=False)
            if depth < 1:
                return False
        return False

    def _built(self, stack, at, value, is_many):
        """Adds to a list that becomes a tuple."""
        made = stack[at]
        given = self.checker.spread(self, value) if is_many else [value]
        if made.rest is not None or any(isinstance(each, Rest) for each in given):
            rest = [each.element if isinstance(each, Rest) else each for each in given]
            stack[at] = Building(made.items, join_all([*([made.rest] if made.rest is not None else []), *rest]))
        else:
            stack[at] = Building([*made.items, *given])

    def op_BUILD_SET(self, item, variables, stack):
        values = self._take(stack, item.arg)
        self.checker.keyed(self, *values)
        stack.append(self._fresh("set", item, values))

    def op_BUILD_MAP(self, item, variables, stack):
        values = self._take(stack, 2 * item.arg)
        self.checker.keyed(self, *values[0::2])
        stack.append(self._dict(item, zip(values[0::2], values[1::2])))

    def op_BUILD_CONST_KEY_MAP(self, item, variables, stack):
        keys = [Known(key, "constant") for key in stack.pop().obj]
        stack.append(self._dict(item, zip(keys, self._take(stack, item.arg))))

    def _dict(self, item, pairs):
        made = self.checker.fresh("dict", (*self.site, item.offset))
        self.checker.build(made, pairs)
        return made

    def op_BUILD_STRING(self, item, variables, stack):
        stack.append(self.checker.joined(self._take(stack, item.arg)))

    def op_FORMAT_VALUE(self, item, variables, stack):
        has_form = item.arg & 4
        if has_form:
            stack.pop()
        self._format(stack, None if has_form else item.arg & 3)

    def op_FORMAT_SIMPLE(self, item, variables, stack):
        self._format(stack, 0)

    def op_CONVERT_VALUE(self, item, variables, stack):
        self._format(stack, item.arg)

    def op_FORMAT_WITH_SPEC(self, item, variables, stack):
        stack.pop()
        self._format(stack, None)

    def _format(self, stack, conversion):
        """`conversion`: str, repr or ascii by its number; None where it has a form of its own."""
        value = stack.pop()
        self.checker.shown(self, value)
        if has_tensor(value):
            self.refuse("makes text of a tensor", "make it behind the call", "value leaves")
        stack.append(Plain(source(value)) if conversion is None else self.checker.text(value, conversion))

    def op_LIST_APPEND(self, item, variables, stack):
        value = stack.pop()
        if isinstance(stack[-item.arg], Building):
            self._built(stack, -item.arg, value, False)
        else:
            self.checker.grow(stack[-item.arg], value)

    def op_SET_ADD(self, item, variables, stack):
        self.checker.keyed(self, stack[-1])
        self.op_LIST_APPEND(item, variables, stack)

    def op_MAP_ADD(self, item, variables, stack):
        value = stack.pop()
        key = stack.pop()
        self.checker.keyed(self, key)
        self.checker.put(stack[-item.arg], key, value)

    def op_LIST_EXTEND(self, item, variables, stack):
        value = stack.pop()
        if isinstance(stack[-item.arg], Building):
            self._built(stack, -item.arg, value, True)
        elif (element := self.checker.element(self, value)) is not None:
            self.checker.grow(stack[-item.arg], element)

    op_SET_UPDATE = op_LIST_EXTEND

    def op_DICT_MERGE(self, item, variables, stack):
        value = stack.pop()
        self.checker.merge(self, stack[-item.arg], value)

    op_DICT_UPDATE = op_DICT_MERGE

    def op_LIST_TO_TUPLE(self, item, variables, stack):
        made = stack[-1]
        if not isinstance(made, Building):
            return  # a list made in the call does for the tuple
        if made.rest is None:
            stack[-1] = Tuple(made.items)
            return
        stack[-1] = self.checker.fresh("tuple", (*self.site, item.offset, made.key()))
        stack[-1].first = made.items
        for value in (*made.items, made.rest):
            self.checker.grow(stack[-1], value)

    def op_UNPACK_SEQUENCE(self, item, variables, stack):
        stack.extend(reversed(self.checker.unpack(self, stack.pop(), item.arg)))

    def op_UNPACK_EX(self, item, variables, stack):
        element = self.checker.element(self, stack.pop()) or Plain()
        before, after = item.arg & 0xFF, item.arg >> 8
        rest = self._fresh("list", item, [element])
        stack.extend([element] * after + [rest] + [element] * before)

    def op_MATCH_KEYS(self, item, variables, stack):
        stack.append(Tensor(outside=True))

    def op_MAKE_FUNCTION(self, item, variables, stack):
        if VERSION < (3, 11):
            stack.pop()
        code = stack.pop().obj
        flags = item.arg if VERSION < (3, 13) and item.arg else 0
        made = Function(code, self.scope, {})
        for flag in (8, 4, 2, 1):
            if flags & flag:
                self._set_function(made, flag, stack.pop())
        stack.append(made)

    def op_SET_FUNCTION_ATTRIBUTE(self, item, variables, stack):
        made = stack.pop()
        self._set_function(made, item.arg, stack.pop())
        stack.append(made)

    def _set_function(self, made, flag, value):
        if flag == 8 and isinstance(value, Tuple):
            made.boxes = {name: box for name, box in zip(made.code.co_freevars, value.items) if isinstance(box, Box)}
        elif flag == 1:
            made.defaults = tuple(self.checker.unpack(self, value, None))
        elif flag == 2:
            made.keyword_defaults = {"*": self.checker.dict_values(self, value)}

    def op_LOAD_BUILD_CLASS(self, item, variables, stack):
        self.refuse("makes a class", "write the class outside of the function")
        stack.append(Outside("a class"))

    def op_IMPORT_NAME(self, item, variables, stack):
        names = stack.pop()
        stack.pop()
        stack.append(self.checker.imported(self, item.argval, isinstance(names, Known) and bool(names.obj)))

    def op_IMPORT_FROM(self, item, variables, stack):
        stack.append(self.checker.attribute(self, stack[-1], item.argval))

    def op_IMPORT_STAR(self, item, variables, stack):
        stack.pop()
        self.refuse("imports every name of a module", "import the names that are meant")

    # The stack itself.

    def op_COPY(self, item, variables, stack):
        stack.append(stack[-item.arg])

    def op_SWAP(self, item, variables, stack):
        stack[-1], stack[-item.arg] = stack[-item.arg], stack[-1]

    def op_DUP_TOP(self, item, variables, stack):
        stack.append(stack[-1])

    def op_DUP_TOP_TWO(self, item, variables, stack):
        stack.extend(stack[-2:])

    def op_ROT_TWO(self, item, variables, stack):
        count = {"ROT_TWO": 2, "ROT_THREE": 3, "ROT_FOUR": 4}.get(item.opname, item.arg)
        stack.insert(len(stack) - count, stack.pop())

    op_ROT_THREE = op_ROT_FOUR = op_ROT_N = op_ROT_TWO

    def op_PUSH_EXC_INFO(self, item, variables, stack):
        stack.insert(len(stack) - 1, Plain())

    def op_END_FOR(self, item, variables, stack):
        del stack[-2 if VERSION < (3, 13) else -1:]

    op_POP_ITER = op_END_FOR

    def op_GET_ITER(self, item, variables, stack):
        stack.append(self.checker.iterated(self, stack.pop()))

    def op_BEFORE_WITH(self, item, variables, stack):
        given = self.checker.enter(self, stack.pop())
        stack.extend([Tensor(), given])  # its exit, which is called at the end, and what it gave

    def op_RETURN_GENERATOR(self, item, variables, stack):
        stack.append(Plain())

    def op_YIELD_VALUE(self, item, variables, stack):
        self.yields = join(self.yields, stack.pop())
        stack.append(Plain())

    def op_CALL_INTRINSIC_1(self, item, variables, stack):
        if item.arg == 5 and isinstance(stack[-1], Known):  # unary plus
            stack[-1] = Plain()
        elif item.arg == 6:
            self.op_LIST_TO_TUPLE(item, variables, stack)

    def op_CALL_INTRINSIC_2(self, item, variables, stack):
        stack.pop()

    # Calls.

    def op_KW_NAMES(self, item, variables, stack):
        pass  # the call looks back at it

    def _keyword_names(self, item):
        instructions, index_of, _ = instructions_of(self.code)
        before = index_of[item.offset] - 1
        while instructions[before].opname in ("PRECALL", "CACHE", "EXTENDED_ARG"):
            before -= 1
        return self.code.co_consts[instructions[before].arg] if instructions[before].opname == "KW_NAMES" else ()

    def _call(self, item, stack, arguments, keywords):
        second, first = stack.pop(), stack.pop()
        if isinstance(first, Null):
            target = second
        elif isinstance(second, Null):
            target = first
        else:
            target, arguments = first, [second, *arguments]
        stack.append(self.checker.call(self, target, arguments, keywords, (*self.site, item.offset)))

    def op_CALL(self, item, variables, stack):
        names = self._keyword_names(item) if VERSION < (3, 13) else ()
        values = self._take(stack, item.arg)
        split = len(values) - len(names)
        self._call(item, stack, values[:split], dict(zip(names, values[split:])))

    def op_CALL_METHOD(self, item, variables, stack):  # 3.10
        self._call(item, stack, self._take(stack, item.arg), {})

    def op_CALL_FUNCTION(self, item, variables, stack):  # 3.10
        values = self._take(stack, item.arg)
        stack.append(self.checker.call(self, stack.pop(), values, {}, (*self.site, item.offset)))

    def op_CALL_FUNCTION_KW(self, item, variables, stack):  # 3.10
        names = stack.pop().obj
        values = self._take(stack, item.arg)
        split = len(values) - len(names)
        stack.append(
            self.checker.call(self, stack.pop(), values[:split], dict(zip(names, values[split:])),
                              (*self.site, item.offset)))

    def op_CALL_KW(self, item, variables, stack):
        names = stack.pop().obj
        values = self._take(stack, item.arg)
        split = len(values) - len(names)
        self._call(item, stack, values[:split], dict(zip(names, values[split:])))

    def op_CALL_FUNCTION_EX(self, item, variables, stack):
        keywords = stack.pop() if item.arg is None or item.arg & 1 else None
        values = stack.pop()
        if VERSION >= (3, 11):
            target = stack.pop()
            if isinstance(target, Null):
                target = stack.pop()
            elif stack and isinstance(stack[-1], Null):
                stack.pop()
        else:
            target = stack.pop()
        given = self.checker.spread(self, values)
        named = self.checker.keywords_of(self, keywords) if keywords is not None else {}
        stack.append(self.checker.call(self, target, given, named, (*self.site, item.offset)))
