"""Iterators and containers that a call makes: zip, map, list, dict and the like. Part of bytecode.py's checker."""

import collections
import itertools

from . import known as tables
from .values import Fresh, Iterator, Known, Plain, Tuple, join_all, options, source


class Containers:
    """Mixed into calls.Calls."""

    def _iterator(self, frame, cls, arguments, keywords, site):
        if cls in (map, filter, itertools.starmap) and arguments:
            elements = [self.element(frame, value) for value in arguments[1:]]
            if any(element is None for element in elements):
                return Iterator(Plain())
            if cls is itertools.starmap:
                elements = self.spread(frame, elements[0])
            if cls is filter and isinstance(arguments[0], Known) and arguments[0].obj is None:
                frame.truth(elements[0])
                return Iterator(elements[0])
            result = self.call(frame, arguments[0], elements, {}, site)
            if cls is filter:
                frame.truth(result)
            return Iterator(elements[0] if cls is filter else result)
        elements = [self.element(frame, value) or Plain() for value in arguments]
        if cls is enumerate:
            return Iterator(Tuple([Plain(), *elements[:1]]))
        if cls is zip or cls in (itertools.product, itertools.zip_longest):
            return Iterator(Tuple(elements))
        if cls is itertools.repeat:
            return Iterator(arguments[0] if arguments else Plain())
        if cls is itertools.chain.from_iterable:
            return Iterator(self.element(frame, elements[0]) or Plain())
        if cls in (itertools.islice, reversed):
            return Iterator(elements[0] if elements else Plain())
        if cls is itertools.count:
            return Iterator(Plain(source(*arguments)))
        if cls in (itertools.combinations, itertools.permutations, getattr(itertools, "pairwise", None)):
            made = self.fresh("tuple", site)
            self.grow(made, elements[0])
            return Iterator(made)
        self._functions_among(frame, arguments, keywords, site)
        return Iterator(join_all(elements))

    def _container(self, frame, cls, arguments, keywords, site):
        if cls is tuple and len(arguments) == 1 and isinstance(arguments[0], Tuple):
            return arguments[0]
        kind = tables.FRESH_TYPES[cls]
        made = self.fresh(kind, site)
        if cls is collections.defaultdict:
            if arguments and not (isinstance(arguments[0], Known) and arguments[0].obj in (None, int, float, str)):
                made_later = self.call(frame, arguments[0], [], {}, (*site, "default"))
                self.grow(made, made_later)
            arguments = arguments[1:]
        for value in arguments[:1]:
            plain_dict = kind == "dict" and all(
                isinstance(o, Fresh) and o.kind == "dict" or isinstance(o, Known) and isinstance(o.obj, dict)
                for o in options(value))
            element = self.dict_values(value) if plain_dict else self.element(frame, value)
            if element is None:
                continue
            if kind == "dict" and not plain_dict:
                pair = self.unpack(frame, element, 2)
                element = pair[1]
            self.grow(made, element)
        for value in keywords.values():
            self.grow(made, value)
        return made
