"""Values that are found out while a function is followed, because all that they are computed from is the same in the next
call: texts and numbers of constants, and tensors that are filled with them. Part of bytecode.py's checker.
"""

import builtins
import operator

from . import known as tables
from .values import (Fresh, Known, Method, Plain, Rest, Tensor, Tuple, constant, constants, fixed, is_simple,
                     join_all, options, source)

MOST_LETTERS = 4096
LARGEST = 1 << 62
OPERATORS = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "&": operator.and_, "|": operator.or_, "^": operator.xor
}
FOLDED = frozenset({
    builtins.str, builtins.int, builtins.float, builtins.bool, builtins.abs, builtins.repr, builtins.round,
    builtins.ord, builtins.chr, builtins.divmod
})
TEXTS = (str, int, float, bool, type(None))
# Functions and methods of torch whose result is filled with numbers alone; those whose result is computed from their
# arguments and nothing else; and others that only read their arguments.
MAKES = frozenset({
    "arange", "zeros", "ones", "full", "eye", "linspace", "logspace", "tensor", "scalar_tensor", "tril_indices",
    "triu_indices", "new_zeros", "new_ones", "new_full", "new_tensor", "zeros_like", "ones_like", "full_like"
})
COMPUTES = frozenset({
    "abs", "add", "all", "amax", "amin", "any", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "bool",
    "broadcast_to", "cat", "chunk", "clamp", "clone", "contiguous", "cos", "cumprod", "cumsum", "detach", "diff",
    "div", "double", "einsum", "eq", "exp", "expand", "expand_as", "flatten", "flip", "float", "floor", "ge", "gt",
    "half", "index_select", "int", "isfinite", "isinf", "isnan", "le", "log", "logical_and", "logical_not",
    "logical_or", "long", "lt", "masked_fill", "max", "maximum", "mean", "meshgrid", "min", "minimum", "mul", "ne",
    "neg", "outer", "permute", "pow", "prod", "repeat", "repeat_interleave", "reshape", "roll", "select", "sin",
    "split", "sqrt", "squeeze", "stack", "sub", "sum", "t", "to", "transpose", "tril", "triu", "type", "type_as",
    "unfold", "unsqueeze", "view", "view_as", "where"
})
READS = frozenset({
    "Embedding", "Linear", "addcmul", "addmm", "argmax", "argmin", "atan2", "backward", "baddbmm",
    "binary_cross_entropy_with_logits", "bmm", "bucketize", "conv1d", "conv2d", "conv3d", "cross_entropy",
    "embedding", "erf", "gather", "gelu", "grid_sample", "index_add", "interpolate", "is_tensor", "l1_loss",
    "layer_norm", "linear", "log_softmax", "matmul", "mse_loss", "nll_loss", "norm", "numel", "one_hot", "pad",
    "relu", "rms_norm", "rsqrt", "scaled_dot_product_attention", "scatter", "searchsorted", "sigmoid", "silu",
    "size", "smooth_l1_loss", "softmax", "sort", "square", "tanh", "topk"
})


class Folding:
    """Mixed into calls.Calls."""

    # Python's numbers and texts.

    def fold(self, function, values):
        """The result of a pure function of constants, as a value; None where it is not known."""
        parts = [constant(value) for value in values]
        if not all(is_constant for is_constant, _ in parts):
            return None
        try:
            result = function(*(obj for _, obj in parts))
        except Exception:  # it raises in the call too: nothing comes behind it
            return None
        return Known(result, "constant") if self._is_small(result) else None

    @staticmethod
    def _is_small(result):
        if isinstance(result, (str, bytes, tuple)) and len(result) > MOST_LETTERS:
            return False
        return is_simple(result) and not (type(result) is int and abs(result) > LARGEST)

    def fold_operator(self, sign, left, right):
        """The value of an operator on constants; None where it is not known."""
        function = OPERATORS.get(sign.rstrip("=") if sign not in ("=", "") else sign)
        if function is None or sign.startswith("*") and any(
                isinstance(option, Known) and isinstance(option.obj, (str, bytes, tuple)) for value in (left, right)
                for option in options(value)):
            return None
        return self.fold(function, (left, right))

    def text(self, value, conversion):
        """The text of a constant in an f-string; a Plain where it is not known."""
        found = constants(value)
        if found is None or not all(type(obj) in TEXTS for obj in found):
            return Plain(source(value))
        make = {0: format, 1: str, 2: repr, 3: ascii}[conversion]
        return join_all([Known(make(obj), "constant") for obj in found])

    def joined(self, parts):
        """The text of an f-string."""
        texts = [""]
        for part in parts:
            found = constants(part)
            if found is None or not all(type(obj) is str for obj in found) or len(found) * len(texts) > 16:
                return Plain(source(*parts))
            texts = [before + behind for before in texts for behind in found]
        if any(len(text) > MOST_LETTERS for text in texts):
            return Plain()
        return join_all([Known(text, "constant") for text in texts])

    def length(self, value):
        """The length of what does not change in the call, as a value; None where it is not known."""
        if isinstance(value, Tuple) and not any(isinstance(item, Rest) for item in value.items):
            return Known(len(value.items), "constant")
        if isinstance(value, Known) and not value.moves and type(value.obj) in (list, tuple, dict, set, frozenset, str):
            return Known(len(value.obj), "constant")
        return None

    # Tensors.

    def made_of(self, name, arguments, keywords, site):
        """What a function or method of torch's gives, a Tensor."""
        values = [*arguments, *keywords.values()]
        sites = None
        if name in MAKES:
            like = name.startswith("new_") or name.endswith("_like")
            sites = fixed(*(values[1:] if like else values))
            if sites is not None:
                place = (name, site)
                sites = sites | {place} if place not in self.written else None
        elif name in COMPUTES:
            sites = fixed(*values)
        if sites is not None and "generator" not in keywords and not sites & self.written:
            return Tensor(fixed=sites)
        return Tensor()

    def note_use(self, name, arguments, keywords):
        """A function of torch's that may write into what it is given: that is fixed no more."""
        writes = name.endswith("_") and not name.endswith("__") or name.startswith("__i") or "out" in keywords or \
            "inplace" in keywords
        if writes or name not in COMPUTES and name not in tables.TENSOR_PLAIN and name not in READS:
            self.wrote(*arguments, *keywords.values())

    def wrote(self, *values):
        """Elements of these were, or may have been, written."""
        for value in values:
            for option in options(value):
                if isinstance(option, Tensor) and option.fixed:
                    if not option.fixed <= self.written:
                        self.written |= option.fixed
                        self.note_growth()
                elif isinstance(option, Tuple):
                    self.wrote(*option.items)
                elif isinstance(option, Method):
                    self.wrote(option.owner)
                elif isinstance(option, Fresh) and option.elements is not None:
                    self.wrote(option.elements)
