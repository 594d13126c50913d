"""Iterators and containers that a call makes: zip, map, list, dict and the like. Part of bytecode.py's checker."""

import collections
import itertools

from . import known as tables
from .values import (Absent, Fresh, Iterator, Known, Null, Outside, Plain, Tensor, Tuple, at_key, constants, join,
                     join_all, known, options, source)


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
            if plain_dict:
                self.merge(frame, made, value)
                continue
            element = self.element(frame, value)
            if element is None:
                continue
            if kind == "dict":
                pair = self.unpack(frame, element, 2)
                self.put(made, *pair)
            else:
                self.grow(made, element)
        self.build(made, [(Plain() if key == "**" else Known(key, "constant"), value)
                          for key, value in keywords.items()])
        return made

    # Dicts that the call makes.

    def put(self, made, key, value):
        """made[key] = value."""
        keys = constants(key)
        for option in options(made):
            if not isinstance(option, Fresh):
                continue
            if option.kind != "dict" or keys is None:
                self.grow(option, value)
                continue
            option.elements = self._merge(option.elements, value)
            for each in keys:
                if each not in option.keys and each not in option.sure:
                    self._doubt(option, each)
                option.keys[each] = self._merge(option.keys.get(each), value)

    def _doubt(self, made, key):
        if key not in made.maybe:
            made.maybe.add(key)
            self.note_growth()

    def taken_out(self, made, key):
        """What made[key] gives: (value or None, whether the key may be missing)."""
        keys = constants(key)
        if keys is None:
            return made.elements, True
        result, may_miss = None, False
        for each in keys:
            if each in made.keys:
                result = join(result, made.keys[each])
            may_miss |= each not in made.keys or each in made.maybe
            if may_miss or each not in made.keys:
                result = join(result, made.others)
        return result, may_miss

    def removed(self, made, key):
        """del made[key]; None: any key."""
        keys = constants(key) if key is not None else None
        for each in list(made.keys) if keys is None else keys:
            if each in made.keys:
                self._doubt(made, each)

    def merge(self, frame, made, value):
        """made.update(value), for a dict that nobody has looked at yet."""
        sure = None
        for option in options(value):
            entries, others = self._entries(frame, option)
            for key, entry in entries.items():
                given = self.given(entry)
                made.keys[key] = self._merge(made.keys.get(key), given)
                made.elements = self._merge(made.elements, given)
            if others is not None:
                made.others = self._merge(made.others, others)
                made.elements = self._merge(made.elements, others)
            present = {key for key, entry in entries.items() if not self.may_be_absent(entry)}
            sure = present if sure is None else sure & present
        for key in made.keys:
            if key not in (sure or ()) and key not in made.sure:
                self._doubt(made, key)

    @staticmethod
    def may_be_absent(value):
        return any(isinstance(option, Absent) for option in options(value))

    @staticmethod
    def given(value):
        """A keyword's value where it is given."""
        return join_all([option for option in options(value) if not isinstance(option, Absent)])

    def build(self, made, pairs):
        """Puts what a dict is made with."""
        for key, value in pairs:
            keys = constants(key)
            if keys is not None and len(keys) == 1 and not self.may_be_absent(value):
                made.sure.add(keys[0])
            self.put(made, key, self.given(value))

    def _entries(self, frame, option):
        """({key: value, which has an Absent where it need not be there}, values of other keys or None) of a dict."""
        if isinstance(option, Fresh) and option.kind == "dict":
            return {key: join(value, Absent()) if key in option.maybe else value
                    for key, value in option.keys.items()}, option.others
        if isinstance(option, Known) and isinstance(option.obj, dict) and all(type(key) is str for key in option.obj):
            return {key: self.count_at(option.obj, key) or
                    known(dict.__getitem__(option.obj, key), at_key(option.path, key), option.moves)
                    for key in option.obj}, None
        if isinstance(option, Null):
            return {}, None
        if isinstance(option, Known) and isinstance(option.obj, collections.UserDict) and (names := constants(
                self.element(frame, option) or Plain())) is not None:
            return {name: self.subscript(frame, option, Known(name, "constant"), (0, "**", name))
                    for name in names}, None
        return {}, self.dict_values(frame, option)

    def keywords_of(self, frame, value):
        """The keyword arguments of f(**value), by name; "**" has those of other names."""
        made = Fresh("dict", ())
        version = self._version
        self.merge(frame, made, value)
        self._version = version  # only looked at
        entries, others = self._entries(frame, made)
        found = {key: entry for key, entry in entries.items() if isinstance(key, str)}
        return found if others is None else {**found, "**": others}

    def _dict_method(self, frame, owner, name, arguments, keywords):
        """Methods of dicts that know their keys; None for any other."""
        elements = owner.elements or Plain()
        if name == "update":
            for value in arguments[:1]:
                plain = all(isinstance(o, Fresh) and o.kind == "dict" or isinstance(o, Known) and isinstance(
                    o.obj, dict) for o in options(value))
                if not plain:
                    pair = self.unpack(frame, self.element(frame, value) or Plain(), 2)
                    self.put(owner, pair[0], pair[1])
                    continue
                for option in options(value):
                    entries, others = self._entries(frame, option)
                    for key, entry in entries.items():
                        self.put(owner, Known(key, "constant"), self.given(entry))
                    if others is not None:
                        self.put(owner, Plain(), others)
            for key, value in keywords.items():
                self.put(owner, Plain() if key == "**" else Known(key, "constant"), value)
            return Known(None, "constant")
        if name == "setdefault" and arguments:
            self.put(owner, arguments[0], arguments[1] if len(arguments) > 1 else Known(None, "constant"))
            return self.taken_out(owner, arguments[0])[0]
        if name in ("get", "pop") and arguments:
            found, may_miss = self.taken_out(owner, arguments[0])
            if name == "pop":
                self.removed(owner, arguments[0])
            default = arguments[1] if len(arguments) > 1 else Known(None, "constant") if name == "get" else None
            return (join(found, default) if may_miss else found) or Plain()
        if name in ("popitem", "clear"):
            self.removed(owner, None)
            return Tuple([Plain(), elements]) if name == "popitem" else Known(None, "constant")
        if name in ("items", "keys", "values"):
            keys = self.keys_of(owner)
            if keys is None and owner.elements is None:
                return Tuple(())
            return Iterator({"items": Tuple([keys or Plain(), elements]), "keys": keys or Plain(),
                             "values": elements}[name])
        if name in ("copy", "__copy__"):
            return owner
        return None

    @staticmethod
    def keys_of(made):
        """Any key of a dict that the call makes; None where it has none."""
        keys = [Known(key, "constant") for key in made.keys]
        if made.others is not None or len(keys) > 16:
            return Plain()
        return join_all(keys) if keys else None

    def _mapping_method(self, frame, owner, name, arguments, keywords, site):
        """A method of dict's on an object of a class derived from it."""
        made = owner.mapping
        if name == "__init__":
            return self._dict_method(frame, made, "update", arguments, keywords)
        if name == "__setitem__" and len(arguments) == 2:
            self.put(made, arguments[0], arguments[1])
            return Known(None, "constant")
        if name == "__delitem__" and arguments:
            self.removed(made, arguments[0])
            return Known(None, "constant")
        if name == "__getitem__" and arguments:
            return self.taken_out(made, arguments[0])[0] or Plain()
        if name in ("__len__", "__contains__"):
            return Plain()
        if name == "__iter__":
            return Iterator(self.keys_of(made) or Plain())
        return self._fresh_method(frame, made, name, arguments, keywords, site)

    def _fresh_method(self, frame, owner, name, arguments, keywords, site):
        if isinstance(owner, Iterator) or owner.kind == "namespace":
            if name in ("save_for_backward", "mark_non_differentiable", "set_materialize_grads", "mark_dirty",
                        "saved_tensors", "__next__"):
                return Tensor()
            self._unknown(frame, f"{self.name(owner)}.{name}")
            return Outside(f"{name}()")
        elements = owner.elements or Plain()
        if owner.kind == "dict" and (found := self._dict_method(frame, owner, name, arguments, keywords)) is not None:
            return found
        if name in tables.ADDING_METHODS:
            values = arguments[1:] if name == "insert" else arguments
            for value in [*values, *keywords.values()]:
                whole = name in ("extend", "update", "extendleft")
                added = self.element(frame, value) if whole else value
                if added is not None:
                    self.grow(owner, added)
            return Known(None, "constant")
        if name in ("get", "pop", "popleft"):
            return join_all([elements, *arguments[1:]])
        if name == "popitem":
            return Tuple([Plain(), elements])
        if name in ("copy", "union", "intersection", "difference"):
            return owner
        if name == "sort" and "key" in keywords:
            self.call(frame, keywords["key"], [elements], {}, site)
        if name in tables.CHANGING_METHODS or name in tables.PURE_METHODS:
            return Plain()
        self._unknown(frame, f"{self.name(owner)}.{name}")
        return Outside(f"{name}()")
