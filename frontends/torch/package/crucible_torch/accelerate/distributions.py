"""What ops that draw make of words of 32 bits: one answer for each, in torch's ops, that takes the op's arguments behind
what gives it words (philox.Philox). An answer that gives NotImplemented has drawn nothing: the op is torch's then."""

from __future__ import annotations

import math
from typing import Any, Callable

import torch

aten = torch.ops.aten
_DIGITS = {torch.float64: 53, torch.float32: 24, torch.float16: 11, torch.bfloat16: 8}
_LARGEST = {
    torch.bool: 1, torch.uint8: (1 << 8) - 1, torch.int8: (1 << 7) - 1, torch.int16: (1 << 15) - 1,
    torch.int32: (1 << 31) - 1, torch.int64: (1 << 63) - 1
}
_TINY = {torch.float32: 2.0**-25, torch.float64: 2.0**-54}

ANSWERS: dict[Any, Callable[..., Any]] = {}


def _answers(*operators: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:

    def keep(answer: Callable[..., Any]) -> Callable[..., Any]:
        ANSWERS.update(dict.fromkeys(operators, answer))
        return answer

    return keep


# Elements, each of one shape and computed in f32, or in f64 for f64

def _computed_in(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32


def _words(mode: Any, shape: Any, device: Any, wanted: int) -> list[torch.Tensor]:
    return [word.view(shape) for word in mode.words(math.prod(shape), device, wanted)]


def uniform(mode: Any, shape: Any, dtype: torch.dtype, device: Any) -> torch.Tensor:
    """In [0, 1), a multiple of 2^-24 (f64 of 2^-53, f16 of 2^-11, bf16 of 2^-8), in f32 or f64."""
    digits = _DIGITS[dtype]
    if digits == 53:
        first, second = _words(mode, shape, device, 2)
        return ((first >> 5) * (1 << 26) + (second >> 6)).to(torch.float64) * 2.0**-53
    first, = _words(mode, shape, device, 1)
    return (first >> 32 - digits).to(torch.float32) * 2.0**-digits


def _above_zero(words: list[torch.Tensor], kind: torch.dtype) -> torch.Tensor:
    """In (0, 1]: of 32 bits rounded to f32, or of 53 bits."""
    if kind == torch.float64:
        return (((words[0] >> 5) * (1 << 26) + (words[1] >> 6)) + 1).to(kind) * 2.0**-53
    return (words[0] + 1).to(kind) * 2.0**-32


def normal(mode: Any, shape: Any, dtype: torch.dtype, device: Any) -> torch.Tensor:
    """Of Box and Muller: the first two words are the radius and the angle (f64: the first two and the last two)."""
    kind = _computed_in(dtype)
    if kind == torch.float64:
        words = _words(mode, shape, device, 4)
        angle = ((words[2] >> 5) * (1 << 26) + (words[3] >> 6)).to(kind) * (2.0**-53 * 2 * math.pi)
    else:
        words = _words(mode, shape, device, 2)
        angle = (words[1] >> 8).to(kind) * (2.0**-24 * 2 * math.pi)
    return torch.sqrt(torch.log(_above_zero(words, kind)) * -2.0) * torch.cos(angle)


def exponential(mode: Any, shape: Any, dtype: torch.dtype, device: Any) -> torch.Tensor:
    """Of rate 1, never 0."""
    kind = _computed_in(dtype)
    words = _words(mode, shape, device, 2 if kind == torch.float64 else 1)
    return torch.clamp_min(-torch.log(_above_zero(words, kind)), _TINY[kind])


def below(mode: Any, shape: Any, device: Any, low: int, count: int) -> torch.Tensor:
    """Whole numbers from `low`, `count` of them: the two words, as a fraction of 2^64, times the count. More than 2^31
    numbers are a remainder of 63 bits, all 2^64 are the words themselves."""
    first, second = _words(mode, shape, device, 2)
    if count <= 1 << 31:
        number = (first * count + (second * count >> 32)) >> 32
    elif count < 1 << 63:
        number = ((first << 31) ^ (second >> 1)) % count
    elif count == 1 << 63:
        number = (first << 31) ^ (second >> 1)
    elif count == 1 << 64:
        return (first << 32) | second
    else:
        raise ValueError(count)
    return number + low if low else number


def is_below(mode: Any, shape: Any, device: Any, p: Any) -> torch.Tensor:
    """Bools, true with the probability p, a number or a tensor: to a multiple of 2^-32."""
    word, = _words(mode, shape, device, 1)
    if isinstance(p, torch.Tensor):
        return word.to(torch.float64) * 2.0**-32 < p.to(torch.float64)
    return word < round(p * 2.0**32)


# Ops

def _device(tensor_or_none: Any) -> torch.device:
    return torch.get_default_device() if tensor_or_none is None else torch.device(tensor_or_none)


def _made(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return values.to(dtype)


def _is_real(dtype: Any) -> bool:
    return dtype in _DIGITS


def _kinds(dtype: Any, layout: Any) -> torch.dtype | None:
    if layout not in (None, torch.strided):
        return None
    dtype = torch.get_default_dtype() if dtype is None else dtype
    return dtype if _is_real(dtype) else None


@_answers(aten.uniform_.default)
def _uniform_(mode: Any, self: torch.Tensor, low: float = 0.0, high: float = 1.0, *, generator: Any = None) -> Any:
    if not _is_real(self.dtype) or not low <= high:
        return NotImplemented
    values = uniform(mode, self.shape, self.dtype, self.device)
    if (low, high) != (0.0, 1.0):
        values = values * (high - low) + low
    return self.copy_(values)


@_answers(aten.normal_.default)
def _normal_(mode: Any, self: torch.Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Any = None) -> Any:
    if not _is_real(self.dtype) or not std >= 0:
        return NotImplemented
    values = normal(mode, self.shape, self.dtype, self.device)
    return self.copy_(values if (mean, std) == (0.0, 1.0) else values * std + mean)


@_answers(aten.exponential_.default)
def _exponential_(mode: Any, self: torch.Tensor, lambd: float = 1.0, *, generator: Any = None) -> Any:
    if not _is_real(self.dtype) or not lambd > 0:
        return NotImplemented
    values = exponential(mode, self.shape, self.dtype, self.device)
    return self.copy_(values if lambd == 1.0 else values / lambd)


@_answers(aten.cauchy_.default)
def _cauchy_(mode: Any, self: torch.Tensor, median: float = 0.0, sigma: float = 1.0, *, generator: Any = None) -> Any:
    if not _is_real(self.dtype) or not sigma > 0:
        return NotImplemented
    values = torch.tan((uniform(mode, self.shape, _computed_in(self.dtype), self.device) - 0.5) * math.pi)
    return self.copy_(values * sigma + median)


@_answers(aten.log_normal_.default)
def _log_normal_(mode: Any, self: torch.Tensor, mean: float = 1.0, std: float = 2.0, *, generator: Any = None) -> Any:
    if not _is_real(self.dtype) or not std > 0:
        return NotImplemented
    return self.copy_(torch.exp(normal(mode, self.shape, self.dtype, self.device) * std + mean))


@_answers(aten.geometric_.default)
def _geometric_(mode: Any, self: torch.Tensor, p: float, *, generator: Any = None) -> Any:
    if self.is_complex() or not 0 < p < 1:
        return NotImplemented
    values = exponential(mode, self.shape, torch.float64 if self.dtype == torch.float64 else torch.float32, self.device)
    return self.copy_(torch.ceil(values / -math.log1p(-p)))


@_answers(aten.bernoulli_.float)
def _bernoulli_(mode: Any, self: torch.Tensor, p: float = 0.5, *, generator: Any = None) -> Any:
    if not 0 <= p <= 1:
        return NotImplemented
    return self.copy_(is_below(mode, self.shape, self.device, p))


@_answers(aten.bernoulli_.Tensor)
def _bernoulli_tensor_(mode: Any, self: torch.Tensor, p: torch.Tensor, *, generator: Any = None) -> Any:
    if not p.is_floating_point():
        return NotImplemented
    return self.copy_(is_below(mode, self.shape, self.device, p))


@_answers(aten.bernoulli.default)
def _bernoulli(mode: Any, self: torch.Tensor, *, generator: Any = None) -> Any:
    return is_below(mode, self.shape, self.device, self).to(self.dtype)


@_answers(aten.bernoulli.p)
def _bernoulli_p(mode: Any, self: torch.Tensor, p: float, *, generator: Any = None) -> Any:
    if not 0 <= p <= 1:
        return NotImplemented
    return is_below(mode, self.shape, self.device, p).to(self.dtype)


@_answers(aten.native_dropout.default)
def _native_dropout(mode: Any, input: torch.Tensor, p: float, train: bool | None) -> Any:
    if train is False or not 0 <= p < 1 or not _is_real(input.dtype):
        return NotImplemented
    mask = is_below(mode, input.shape, input.device, 1.0 - p)
    return input * mask * (1.0 / (1.0 - p)), mask


@_answers(aten.rand.default)
def _rand(mode: Any, size: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, **rest: Any) -> Any:
    kind = _kinds(dtype, layout)
    if kind is None:
        return NotImplemented
    return _made(uniform(mode, size, kind, _device(device)), kind)


@_answers(aten.randn.default)
def _randn(mode: Any, size: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, **rest: Any) -> Any:
    kind = _kinds(dtype, layout)
    if kind is None:
        return NotImplemented
    return _made(normal(mode, size, kind, _device(device)), kind)


def _like(self: torch.Tensor, dtype: Any, device: Any, memory_format: Any) -> torch.Tensor:
    memory_format = torch.preserve_format if memory_format is None else memory_format
    return torch.empty_like(self, dtype=dtype, device=device, memory_format=memory_format)


@_answers(aten.rand_like.default)
def _rand_like(mode: Any, self: torch.Tensor, *, dtype: Any = None, layout: Any = None, device: Any = None,
               pin_memory: Any = None, memory_format: Any = None) -> Any:
    if _kinds(dtype or self.dtype, layout) is None:
        return NotImplemented
    return _uniform_(mode, _like(self, dtype, device, memory_format))


@_answers(aten.randn_like.default)
def _randn_like(mode: Any, self: torch.Tensor, *, dtype: Any = None, layout: Any = None, device: Any = None,
                pin_memory: Any = None, memory_format: Any = None) -> Any:
    if _kinds(dtype or self.dtype, layout) is None:
        return NotImplemented
    return _normal_(mode, _like(self, dtype, device, memory_format))


@_answers(aten.normal.float_float)
def _normal_of(mode: Any, mean: float, std: float, size: Any, *, dtype: Any = None, layout: Any = None,
               device: Any = None, **rest: Any) -> Any:
    kind = _kinds(dtype, layout)
    if kind is None or not std >= 0:
        return NotImplemented
    return _made(normal(mode, size, kind, _device(device)) * std + mean, kind)


@_answers(aten.normal.Tensor_float, aten.normal.float_Tensor, aten.normal.Tensor_Tensor)
def _normal_of_tensors(mode: Any, mean: Any, std: Any = 1.0, *, generator: Any = None) -> Any:
    tensors = [value for value in (mean, std) if isinstance(value, torch.Tensor)]
    kind = tensors[0].dtype
    if not all(_is_real(tensor.dtype) for tensor in tensors) or not isinstance(std, torch.Tensor) and not std >= 0:
        return NotImplemented
    shape = torch.broadcast_shapes(*(tensor.shape for tensor in tensors))
    return _made(normal(mode, shape, kind, tensors[0].device) * std + mean, kind)


def _whole(mode: Any, shape: Any, low: int, high: int, dtype: Any, device: Any) -> Any:
    if not low < high or high - low > 1 << 63:
        return None
    return below(mode, shape, device, low, high - low)


@_answers(aten.randint.default)
def _randint(mode: Any, high: int, size: Any, **options: Any) -> Any:
    return _randint_low(mode, 0, high, size, **options)


@_answers(aten.randint.low)
def _randint_low(mode: Any, low: int, high: int, size: Any, *, dtype: Any = None, layout: Any = None,
                 device: Any = None, **rest: Any) -> Any:
    dtype = torch.int64 if dtype is None else dtype
    if layout not in (None, torch.strided) or dtype.is_complex:
        return NotImplemented
    values = _whole(mode, size, low, high, dtype, _device(device))
    return NotImplemented if values is None else values.to(dtype)


@_answers(aten.randint_like.default)
def _randint_like(mode: Any, self: torch.Tensor, high: int, **options: Any) -> Any:
    return _randint_like_low(mode, self, 0, high, **options)


@_answers(aten.randint_like.low_dtype)
def _randint_like_low(mode: Any, self: torch.Tensor, low: int, high: int, *, dtype: Any = None, layout: Any = None,
                      device: Any = None, pin_memory: Any = None, memory_format: Any = None) -> Any:
    if layout not in (None, torch.strided) or (dtype or self.dtype).is_complex:
        return NotImplemented
    values = _whole(mode, self.shape, low, high, dtype, self.device if device is None else torch.device(device))
    return NotImplemented if values is None else _like(self, dtype, device, memory_format).copy_(values)


@_answers(aten.random_.default)
def _random_(mode: Any, self: torch.Tensor, *, generator: Any = None) -> Any:
    count = (1 << _DIGITS[self.dtype]) + 1 if _is_real(self.dtype) else _LARGEST.get(self.dtype, -1) + 1
    return self.copy_(below(mode, self.shape, self.device, 0, count)) if count else NotImplemented


@_answers(aten.random_.to)
def _random_to_(mode: Any, self: torch.Tensor, to: int, *, generator: Any = None) -> Any:
    return _random_from_(mode, self, 0, to)


@_answers(aten.random_.__getattr__("from"))
def _random_from_(mode: Any, self: torch.Tensor, low: int, to: int | None, *, generator: Any = None) -> Any:
    if self.dtype not in _LARGEST and not _is_real(self.dtype):
        return NotImplemented
    if to is None and self.dtype == torch.int64 and low == -1 << 63:
        return self.copy_(below(mode, self.shape, self.device, 0, 1 << 64))
    if to is None:
        to = (1 << _DIGITS[self.dtype]) + 1 if _is_real(self.dtype) else _LARGEST[self.dtype] + 1
    values = _whole(mode, self.shape, low, to, self.dtype, self.device)
    return NotImplemented if values is None else self.copy_(values)


@_answers(aten.randperm.default)
def _randperm(mode: Any, n: int, *, dtype: Any = None, layout: Any = None, device: Any = None, **rest: Any) -> Any:
    if layout not in (None, torch.strided) or n < 0:
        return NotImplemented
    first, second = mode.words(n, _device(device), 2)
    return torch.sort((first << 31) ^ (second >> 1), stable=True).indices.to(dtype or torch.int64)


@_answers(aten.multinomial.default)
def _multinomial(mode: Any, self: torch.Tensor, num_samples: int, replacement: bool = False, *,
                 generator: Any = None) -> Any:
    """The category of which p / e is the largest, e an exponential of its own (without replacement the largest ones,
    with replacement the largest of anew drawn ones)."""
    if self.dim() not in (1, 2) or not _is_real(self.dtype) or num_samples < 1 or self.numel() == 0:
        return NotImplemented
    is_valid = (self.min() >= 0) & (self.max() < float("inf")) & (self.sum(-1) > 0).all()
    if not replacement:
        is_valid = is_valid & (num_samples <= self.size(-1))
    if not is_valid:  # torch says what is wrong
        return NotImplemented
    p = self.to(_computed_in(self.dtype))
    if replacement and num_samples > 1:
        p = p.unsqueeze(-2)
        shape = (*p.shape[:-2], num_samples, p.shape[-1])
        return torch.argmax(p / exponential(mode, shape, p.dtype, p.device), -1)
    chances = p / exponential(mode, p.shape, p.dtype, p.device)
    if num_samples == 1:
        return torch.argmax(chances, -1, keepdim=True)
    return torch.topk(chances, num_samples).indices
