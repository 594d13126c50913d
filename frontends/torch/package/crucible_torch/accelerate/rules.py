"""How the numbers of a recorded call are computed for the next one, from what is known before it: a rule for each slot
of the program (core/graph/program.hpp), found in the observed calls and counted only where it gave every recorded
number bit for bit in every one of them.

A rule is a formula of the optimizer's class (formulas.py) or, where none fits, a short expression of the numbers there
are (search.py). The names of slots do not say which parameters an op belongs to, and numbers that agreed in all
observed calls are one slot: where several formulas fit, all are computed, and a call in which they differ has no
numbers by rule; it is observed again, and then they can be told apart. So is a call in which a condition of the
optimizer's Python, or a number that was the same in all observed calls by chance, is another one."""

import functools
import math
import re

from crucible_torch.accelerate import search
from crucible_torch.accelerate.expressions import (FUNCTIONS, Argument, Count, Expression, Group, Source, State,
                                                   Writer, as_slot, bits, number)
from crucible_torch.accelerate.formulas import FAMILIES, REFUSED
from crucible_torch.accelerate.snapshot import Snapshot, baked
from crucible_torch.accelerate.sources import Sources

__all__ = ["NoRule", "Rules", "Snapshot", "baked", "find"]

_MOST_GUESSES = 8  # expressions of one length that all fit
# Numbers that the lowering computes from recorded ones (map_number() in frontends/aten): "NAME of (SLOT)".
_DERIVED = {
    "minus the learning rate": ("0 + -1 * x",),
    "rounded": ("bf16(x)", "f16(x)"),
    "1 - weight": ("f32(1.0 - f32(x))", "1.0 - x"),
    "weight is below 0.5": ("1.0 if abs(x) < 0.5 else 0.0",),
}
_WEIGHT = re.compile(r"lerp_?\.weight\b|1 - beta1 of \(aten::_fused")  # of slots that are lerp's weight
_NOT_THERE = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
_LARGEST_COUNT = 1 << 24  # of a counter of 32 bits: one more is the same number


class NoRule(Exception):
    """A slot's numbers follow from nothing that is known before the call. `name` and `values` are the slot's (or an
    optimizer's class and no values: it is refused whole), `reason` is a sentence for the report."""

    def __init__(self, name, values, reason):
        self.name, self.values, self.reason = name, list(values), reason
        shown = ", ".join(map(repr, self.values[:4])) + (", ..." if len(self.values) > 4 else "")
        super().__init__(f'slot "{name}" ({shown}): {reason}' if self.values else f"{name}: {reason}")


def find(slots, snapshots, left=(), frees=False):
    """The rules of the slots: `slots` has (name, is_integer, numbers of the observed calls) for each, in the program's
    order; `snapshots` what Snapshot.take() saw before each of those calls. `left`, where it is known, has the numbers
    that left each call's tensors (.item()), for the reason alone.

    `frees`: all numbers of optimizers' ops are slots, but for 0, 1 and -1, whether they differed or not
    (aten::lower_live): a learning rate may move then though it did not (Rules.free).

    The slots must be those of the lowered program, before passes that compute some of them from counters
    (follow_counters) or take two that agreed for one (merge_slots).

    Errors: NoRule, for the first slot that has none, or for an optimizer that has none."""
    _check(slots, snapshots)
    sources = Sources(snapshots, frees)
    return Rules(slots, sources, *_Finder(sources, left).find(slots))


def _check(slots, snapshots):
    for i, optimizer in enumerate(snapshots[0].optimizers if snapshots else ()):
        if optimizer.family in REFUSED:
            raise NoRule(f"torch.optim.{optimizer.family}", (), REFUSED[optimizer.family])
        for snapshot in snapshots[1:]:
            others = snapshot.optimizers
            if len(others) != len(snapshots[0].optimizers) or others[i].family != optimizer.family or [
                    group.shapes for group in others[i].groups
            ] != [group.shapes for group in optimizer.groups]:
                raise NoRule(f"optimizer[{i}]", (), "its groups of parameters changed between the observed calls")
    for name, _, values in slots:
        if len(values) != len(snapshots):
            raise NoRule(name, values, f"it has {len(values)} numbers for {len(snapshots)} observed calls")


class _Rule:
    """Of one slot: the expression, the same in words, and whether it was guessed. `others` are (expression, words) of
    what must give the same number, `alike` in words formulas that do because their sources are equal."""

    def __init__(self, expression, words, others=(), guessed=False):
        self.expression, self.words, self.others, self.guessed = expression, words, list(others), guessed
        self.alike = []

    @property
    def fitting(self):
        return [self.words, *(words for _, words in self.others), *self.alike]


class _Finder:

    def __init__(self, sources, left):
        self.sources, self.left = sources, left
        self.candidates = []  # of the optimizers' own classes
        self.likely = []  # of classes that are not torch's: as if they were like torch's
        self.still = []  # formulas that gave one number in all observed calls though they depend on what differed
        self.conditions = []  # (expression, its truth in all observed calls)
        self.pairs = {}  # sources that were equal and must stay so
        for i, g, family, own in sources.families():
            found = sources.bind(i, g, family, family.gives)
            (self.candidates if own else self.likely).extend(found)
            if own:
                self.still += [candidate for candidate in found if self._is_still(candidate.expression)
                               and not (sources.frees and abs(candidate.expression.values[0]) not in (0, 1))]
                for candidate in sources.bind(i, g, family, family.conditions):
                    truths = set(candidate.expression.values)
                    if len(truths) == 1 and None not in truths and self._depends(candidate.expression):
                        self.conditions.append((candidate, truths.pop()))

    def find(self, slots):
        rules = [self._rule(*slot) for slot in slots]
        return rules, self.still, self.conditions, self.pairs

    @staticmethod
    def _depends(expression):
        return any(source.moves for source in expression.sources)

    def _is_still(self, expression):
        values = expression.values
        return self._depends(expression) and None not in values and len(set(map(bits, values))) == 1

    @functools.cached_property
    def _tables(self):
        tables = {}
        for own, candidates in ((True, self.candidates), (False, self.likely)):
            for is_integer in (False, True):
                table = tables[own, is_integer] = {}
                for candidate in candidates:
                    numbers = search.vector(candidate.expression, is_integer)
                    if numbers is not None:
                        table.setdefault(numbers, []).append(candidate)
        return tables

    @functools.cached_property
    def _others(self):
        """Numbers of optimizers of other classes than torch's, whose formulas nobody knows: where they were equal to
        those of a formula that fits, they may be behind the same slot."""
        return [
            source for (i, g), group in self.sources.groups.items()
            if self.sources.snapshots[0].optimizers[i].family is None for source in group.values()
        ]

    @functools.cached_property
    def _search(self):
        numbers = [source for group in self.sources.groups.values() for source in group.values()]
        for sets in self.sources.states.values():
            for states in sets:
                for key, state in states.items():
                    if key == "step":
                        numbers += [Count(state, k) for k in range(1, self.sources.steps + 1)]
                    numbers.append(state)
        return search.Search(numbers + self.sources.arguments, len(self.sources.snapshots))

    def _rule(self, name, is_integer, values):
        values = [as_slot(value, is_integer) for value in values]
        if None in values:
            raise NoRule(name, values, "its numbers are not of the slot's type")
        wanted = tuple(map(bits, values))
        rule = self._derived(name, wanted, is_integer) or self._by_class(wanted, is_integer)
        if rule is None and self.sources.frees and len(set(wanted)) == 1:
            rule = _Rule(Expression(_literal(values[0]), {}), repr(values[0]))  # it did not differ, and follows nothing
        if rule is None:
            rule = self._guessed(name, values, wanted, is_integer)
        if rule is None:
            raise NoRule(name, values, self._reason(values))
        return rule

    def _by_class(self, wanted, is_integer):
        found = self._tables[True, is_integer].get(wanted)
        if not found:
            return None
        first, *others = found
        rule = _Rule(first.expression, f"{first.expression.words(brief=True)} of {first.where}")
        for other in others:
            words = f"{other.expression.words(brief=True)} of {other.where}"
            if self._stays_equal(first, other):
                rule.alike.append(words)
            else:
                rule.others.append((other.expression, words))
        for argument in self.sources.arguments:  # a number handed over, in place of what the optimizer has
            expression = Expression("a", {"a": argument})
            if search.vector(expression, is_integer) == wanted:
                rule.others.append((expression, argument.path))
        for source in first.expression.sources:
            self._keep_equal((source, other) for other in self._others if source.moves and
                             tuple(map(bits, source.values)) == tuple(map(bits, other.values)))
        return rule

    def _stays_equal(self, one, other):
        """Whether it is enough that the sources are equal: the same formula of other parameters."""
        pairs = list(zip(one.expression.sources, other.expression.sources))
        if one.formula != other.formula or any(
                tuple(map(bits, a.values)) != tuple(map(bits, b.values)) for a, b in pairs):
            return False
        self._keep_equal(pairs)
        return True

    def _keep_equal(self, pairs):
        self.pairs.update({(a.words(), b.words()): (a, b) for a, b in pairs if a is not b})

    def _derived(self, name, wanted, is_integer):
        function, has_base, _ = name.partition(" of (")
        for text in _DERIVED.get(function, ()) if has_base else ():
            bases = [candidate.expression for candidate in self.candidates] + self._search.single()
            found = [Expression(text, {"x": base}) for base in bases if self._depends(base)]
            found = [expression for expression in found if search.vector(expression, is_integer) == wanted]
            if found:
                first, *others = found
                return _Rule(first, first.words(), _worded(others))
        return None

    def _guessed(self, name, values, wanted, is_integer):
        likely = [candidate.expression for candidate in self._tables[False, is_integer].get(wanted, ())
                  if self._depends(candidate.expression)]
        likely = list({expression.words(): expression for expression in likely}.values())
        found = likely or self._search.find(wanted, is_integer)
        if not found:
            return None
        if len(found) > _MOST_GUESSES:
            raise NoRule(name, values, f"{len(found)} expressions gave them, {found[0].words()} among them: more "
                         "calls with other numbers would tell them apart")
        for expression in found:
            for source in self._leaves(expression):
                self._keep_equal((source, other) for other in self._search.equal_to.get(source, ())
                                 if self._depends(other))
        first, *others = found
        return _Rule(first, first.words(), _worded(others), True)

    @staticmethod
    def _leaves(expression):
        parts, found = [expression], []
        while parts:
            part = parts.pop()
            if isinstance(part, Source | Count):
                found.append(part)
            if isinstance(part, Expression):
                parts += [inner for inner in part.parts.values() if isinstance(inner, Source | Expression)]
        return found

    def _reason(self, values):
        if self.left and len(self.left) == len(values):
            for said, sign in (("", 1), ("minus ", -1)):
                if all(any(sign * value == number for number in left) for value, left in zip(values, self.left)):
                    return (f"it is {said}what a tensor's values gave Python (.item(), float() or tolist() of a tensor): "
                            "that is not known before the call")
        for optimizer in self.sources.snapshots[0].optimizers:
            family = FAMILIES.get(optimizer.family)
            if family is not None and family.values:
                return (f"torch.optim.{optimizer.family} reads {family.values}: what comes from tensors' values is not "
                        "known before the call")
        classes = sorted({f"torch.optim.{optimizer.family}" for optimizer in self.sources.snapshots[0].optimizers
                          if optimizer.family})
        formulas = f"no formula of {' or '.join(classes)} and " if classes else ""
        return (f"{formulas}no short expression of param_groups, step counts and arguments gave them in every observed "
                "call; a number that comes from a tensor's values (.item()) or from elsewhere has no rule: pass it as "
                "an argument, or keep it in a tensor")


def _worded(expressions):
    return [(expression, expression.words()) for expression in expressions]


class Rules:
    """Computes the numbers of the slots for the next call.

    sources: paths of the numbers that differed between the observed calls and that the rules follow: guards need not
    compare them, unless the function's own Python looks at them elsewhere, such as in a branch.
    free: paths of learning rates that the rules follow whether they differed or not: guards need not compare them where
    the function reads no param_groups by itself.
    idle: paths in param_groups that differed and changed no number of the program: nor those.
    guessed: names of slots whose rule is of no optimizer's class.
    ambiguous: (name, all that fit, in words) of slots with several; a call in which they differ has no numbers.
    text: the generated function that computes them.

    Threads: one call at a time."""

    def __init__(self, slots, sources, rules, still, conditions, pairs):
        self._slots, self._rules = list(slots), rules
        self._reasons = []
        self._states = []  # sets of parameters that kept the same counts: lists of State
        writer = Writer()
        lines = writer.lines
        for candidate, truth in conditions:
            test = writer.write(candidate.expression)
            self._check(lines, f"not {test}" if truth else test,
                        f"{candidate.expression.words(brief=True)} of {candidate.where} was {truth} in the observed calls")
        for candidate in still:
            value = candidate.expression.values[0]
            self._check(lines, _differ(writer.write(candidate.expression), _literal(value)),
                        f"{candidate.expression.words(brief=True)} of {candidate.where} was {value!r} in all observed "
                        "calls and is a constant of the program")
        for a, b in pairs.values():
            self._check(lines, _differ(writer.write(a), writer.write(b)),
                        f"{a.words()} and {b.words()} were equal in all observed calls")
        results = [self._write_slot(writer, slot, rule) for slot, rule in zip(slots, rules)]
        used = {source.path: source for part in self._parts(rules, still, conditions, pairs) for source in part.sources}
        self._follow_counts(writer, used)
        lines.append(f"return [{', '.join(results)}]")
        self._lines = lines
        self.text, self._values = self._compile("None")
        self._last = [math.nan] * len(self._states)
        self.sources = frozenset(path for path, source in used.items() if source.varied)
        self.free = frozenset(path for path, source in used.items() if getattr(source, "is_free", False))
        self.idle = frozenset(
            source.path for (i, _), group in sources.groups.items() for source in group.values()
            if source.varied and source.path not in self.sources and sources.snapshots[0].optimizers[i].family)
        self.guessed = [slot[0] for slot, rule in zip(slots, rules) if rule.guessed]
        self.ambiguous = [(slot[0], rule.fitting) for slot, rule in zip(slots, rules) if rule.fitting[1:]]

    @staticmethod
    def _parts(rules, still, conditions, pairs):
        for rule in rules:
            yield from (rule.expression, *(other for other, _ in rule.others))
        yield from (candidate.expression for candidate in still)
        yield from (candidate.expression for candidate, _ in conditions)
        for pair in pairs.values():
            yield from pair

    def _check(self, lines, test, reason):
        self._reasons.append(reason)
        lines.append((test, len(self._reasons) - 1))

    def _write_slot(self, writer, slot, rule):
        name, is_integer, values = slot
        lines, result = writer.lines, writer.write(rule.expression)
        for other, said in rule.others:
            self._check(lines, _differ(result, writer.write(other)),
                        f'{rule.words} and {said}, which both gave "{name}" in the observed calls, differ')
        if is_integer:
            self._check(lines, f"type({result}) is not int or not -{1 << 63} <= {result} < {1 << 63}",
                        f'"{name}" is a whole number of 64 bits')
        elif rule.guessed and all(type(value) is float for value in rule.expression.values):
            self._check(lines, f"type({result}) is not float", f'"{name}" was a real number in the observed calls')
        else:
            lines.append(f"if type({result}) is not float: {result} = real({result})")
        self._check_weight(writer, slot, rule, result)
        return result

    def _check_weight(self, writer, slot, rule, result):
        """lerp computes in one of two ways, which the program was made for (interpolate() in frontends/aten)."""
        name = slot[0]
        if not _WEIGHT.search(name):
            return
        expression = rule.expression
        if name.startswith(("1 - weight of", "rounded of")):
            expression = expression.parts["x"] if "x" in expression.parts else expression
            result = writer.write(expression)
        elif not name.startswith(("aten::", "1 - beta1 of")):
            return
        sides = {abs(value) < 0.5 for value in expression.values}
        if len(sides) == 1:
            sign = ">=" if sides.pop() else "<"
            self._check(writer.lines, f"not abs({result}) {'<' if sign == '>=' else '>='} 0.5",
                        f'"{name}" was on the other side of 0.5 in the observed calls')

    def _follow_counts(self, writer, used):
        """Counts that were equal are read once. That they still are is seen to at first, whenever that one did not rise
        as it does in a call, and after recheck()."""
        sets = {}
        for source in used.values():
            if isinstance(source, State):
                sets.setdefault((source.optimizer, source.group, source.members), []).append(source)
        for states in sets.values():
            counts = [state for state in states if state.key == "step"]
            for state in counts:
                name = writer.write(state)
                if state.dtype is not None:
                    self._check(writer.lines, f"{name} >= {_LARGEST_COUNT}", f"{state.path} does not rise any more")
            if len(states[0].members) == 1:
                continue
            index = len(self._states)
            self._states.append(states)
            test = f"not agree(O, {index})"
            if counts:
                name = writer.write(counts[0])
                test = f"{name} != L[{index}] and {test}"
            self._check(writer.lines, test, f"{states[0].path}: its parameters had one value in the observed calls")
            if counts:
                rises = {after - before for before, after in zip(counts[0].values, counts[0].values[1:])}
                writer.lines.append(f"L[{index}] = {name} + {int(min(rises, default=1)) or 1}")

    def _compile(self, returned):
        """The generated function and its text; `returned` is what it gives where a check fails."""
        body = [f"if {line[0]}: return {returned.format(line[1])}" if isinstance(line, tuple) else line
                for line in self._lines]
        text = "def values(O, A, L):\n" + "".join(f"    {line}\n" for line in body)
        scope = FUNCTIONS | {"number": number, "real": _real, "REASONS": self._reasons, "agree": self._agree}
        exec(compile(text, "<rules>", "exec"), scope)
        return text, scope["values"]

    @functools.cached_property
    def _why_not(self):
        return self._compile("REASONS[{}]")[1]

    def _agree(self, optimizers, index):
        for state in self._states[index]:
            optimizer = optimizers[state.optimizer]
            parameters = optimizer.param_groups[state.group]["params"]
            first, *others = (optimizer.state[parameters[k]][state.key] for k in state.members)
            if state.is_tensor:
                first = first.item()
                if any(other.item() != first for other in others):
                    return False
            elif any(other != first for other in others):
                return False
        return True

    def values(self, optimizers, arguments):
        """The numbers for the next call, in the slots' order, as eager's Python would compute them; None where that is
        not known: why_not() says why. Call it before the call runs, with the optimizers in their order and the
        arguments as for Snapshot.take()."""
        try:
            return self._values(optimizers, arguments, self._last)
        except _NOT_THERE:
            return None

    def valid(self, optimizers, arguments):
        """Whether there are numbers for the next call."""
        return self.values(optimizers, arguments) is not None

    def why_not(self, optimizers, arguments):
        """Why there are no numbers for the next call, in words; None where there are."""
        try:
            found = self._why_not(optimizers, arguments, [math.nan] * len(self._last))
        except _NOT_THERE as error:
            return f"a number that the rules read is not there any more, or no number: {error!r}"
        return found if isinstance(found, str) else None

    def recheck(self):
        """Says that something else than a call with these rules' numbers ran, such as an eager call or another variant:
        the next values() compares all counts that it takes for one."""
        self._last[:] = [math.nan] * len(self._last)

    def baked(self, optimizers):
        """The paths of the numbers in param_groups that guards must compare: baked() without sources and idle."""
        return baked(optimizers) - self.sources - self.idle

    def in_words(self):
        """One line for each slot."""
        return [f'slot "{slot[0]}" = {rule.words}' + (" (guessed)" if rule.guessed else "")
                for slot, rule in zip(self._slots, self._rules)]


def _real(value):
    found = as_slot(number(value), False)
    if found is None:
        raise ValueError(f"{value!r} is no double")
    return found


def _literal(value):
    if isinstance(value, int):
        return repr(value)
    value = float(value)
    return repr(value) if math.isfinite(value) else f"float({str(value)!r})"


def _differ(a, b):
    """Zeros of other signs or types are other numbers."""
    return f"{a} != {b} or not {a} and repr({a}) != repr({b})"
