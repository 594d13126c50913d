"""Which variables of a function a call gives which values (values.py)."""

import inspect

from .values import Known, Plain, Rest, Tuple, join


def bind(code, arguments, keywords, defaults, keyword_defaults, checker, site):
    """{variable: value} of a call, or None where the arguments do not fit. `"*"` and `"**"` in keywords stand for
    any.
    """
    keywords = dict(keywords)
    anything = keywords.pop("**", None)
    count = code.co_argcount
    names = code.co_varnames[:count]
    only_named = code.co_varnames[count:count + code.co_kwonlyargcount]
    bound, rest = {}, []
    for at, value in enumerate(arguments):
        if isinstance(value, Rest):  # as many as there are
            rest.append(value.element)
            for name in names[at:]:
                bound[name] = join(bound.get(name), value.element)
            break
        if at < count:
            bound[names[at]] = value
        else:
            rest.append(value)
    first_default = count - len(defaults)
    for at, name in enumerate(names):
        default = defaults[at - first_default] if at >= first_default else None
        if name in keywords:
            value = keywords.pop(name)
            bound[name] = join(bound.get(name), checker.given(value))
            if checker.may_be_absent(value):
                bound[name] = join(join(bound[name], default), anything)
        if name not in bound:
            bound[name] = join(default, anything)
            if bound[name] is None:
                return None
    for name in only_named:
        default = join(join(keyword_defaults.get(name), keyword_defaults.get("*")), anything)
        value = keywords.pop(name, None)
        if value is None:
            value = default
        elif checker.may_be_absent(value):
            value = join(checker.given(value), default)
        if value is None:
            return None
        bound[name] = value
    at = count + code.co_kwonlyargcount
    if code.co_flags & inspect.CO_VARARGS:
        packed = Tuple(rest)
        if arguments and isinstance(arguments[-1], Rest):
            packed = checker.fresh("tuple", (*site, "*", *(value.key() for value in rest)))
            for value in rest:
                checker.grow(packed, value)
        bound[code.co_varnames[at]] = packed
        at += 1
    elif rest and not (arguments and isinstance(arguments[-1], Rest)):
        return None
    if code.co_flags & inspect.CO_VARKEYWORDS:
        given = tuple(sorted((name, value.key()) for name, value in keywords.items()))
        made = checker.fresh("dict", (*site, "**", given, anything.key() if anything is not None else None))
        checker.build(made, [(Known(name, "constant"), value) for name, value in keywords.items()])
        if anything is not None:
            checker.put(made, Plain(), anything)
        bound[code.co_varnames[at]] = made
    elif keywords:
        return None
    return bound
