"""Expressions of the numbers known before a call that gave recorded ones, where no formula of torch.optim did: shorter
ones first, and of those of one length all. What is found so was guessed from few calls; Rules.guessed says of which
slots."""

import itertools

from crucible_torch.accelerate.expressions import Expression, as_slot, bits

_MOST_BASES = 32  # numbers that are combined with each other
_UNARY = ("1 - a", "a ** 0.5", "1 / a")
_PAIRS = ("a * b", "a + b", "a / b", "a - b", "a ** b")
_COMMUTES = ("a * b", "a + b")
_OF_PAIRS = ("-p", "1 - p", "(1 - p) ** 0.5")
_CORRECTED = ("a / (1 - b ** c)", "-(a / (1 - b ** c))")
LEAST_CALLS = 3  # for expressions of more than one number: two calls show too little


def vector(expression, is_integer):
    """What identifies a slot's numbers: their bits in each observed call, or None where a call has none."""
    numbers = [None if value is None else as_slot(value, is_integer) for value in expression.values]
    return None if None in numbers else tuple(map(bits, numbers))


class Search:
    """Over `sources` (of which at least one must differ between calls), `counts` being expressions among them. Those
    with the same numbers in every call are one: `equal_to` has the others, which must stay equal."""

    def __init__(self, sources, calls):
        self.equal_to = {}
        self._calls = calls
        first = {}
        for source in sources:
            key = tuple((type(value), bits(value)) for value in source.values)
            if key in first:
                self.equal_to.setdefault(first[key], []).append(source)
            else:
                first[key] = source
        bases = list(first.values())
        self._varied = [base for base in bases if len({bits(value) for value in base.values}) > 1]
        constant = [base for base in bases if base not in self._varied]
        self._bases = (self._varied + constant)[:_MOST_BASES]
        self._constant = [base for base in self._bases if base not in self._varied]
        self._tables, self._lengths = {}, {}

    def find(self, wanted, is_integer):
        """The expressions of the first length at which there are some."""
        for length in range(4):
            found = self._table(length, is_integer).get(wanted)
            if found:
                return found
        return []

    def single(self):
        """Numbers as they are, and their negatives."""
        return self._levels(0)

    def _table(self, length, is_integer):
        key = length, is_integer
        if key not in self._tables:
            table = self._tables[key] = {}
            for expression in self._levels(length):
                numbers = vector(expression, is_integer)
                if numbers is not None and len(set(numbers)) > 1:
                    table.setdefault(numbers, []).append(expression)
        return self._tables[key]

    def _levels(self, length):
        if length not in self._lengths:
            self._lengths[length] = self._made(length)
        return self._lengths[length]

    def _made(self, length):
        if length == 0:
            return [Expression(text, {"a": base}) for text in ("a", "-a") for base in self._varied]
        if length == 1:
            return [Expression(text, {"a": base}) for text in _UNARY for base in self._varied]
        if self._calls < LEAST_CALLS:
            return []
        if length == 2:
            return [
                Expression(text, {"a": a, "b": b})
                for text in _PAIRS
                for i, a in enumerate(self._bases)
                for j, b in enumerate(self._bases)
                if (a in self._varied or b in self._varied) and not (text in _COMMUTES and j < i)
            ]
        found = [Expression(text, {"p": pair}) for text in _OF_PAIRS for pair in self._levels(2)]
        roots = [base for base in self._constant if all(0 < value < 1 for value in base.values)]
        for a, b, c in itertools.product(self._bases, roots, self._varied):
            found += [Expression(text, {"a": a, "b": b, "c": c}) for text in _CORRECTED if a is not c]
        return found
