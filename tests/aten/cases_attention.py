"""Cases of attention: dtypes, masks that hide every key, different lengths."""

import torch

from case_support import BF16, F32, F64, aten, case

forward_op = aten._scaled_dot_product_flash_attention_for_cpu.default
backward_op = aten._scaled_dot_product_flash_attention_for_cpu_backward.default


def hiding(d):
    """An added mask under which one query sees no key and the others see some."""
    def make():
        mask = torch.zeros(5, 7)
        mask[2] = -float("inf")
        mask[3, 2:] = -float("inf")
        return mask
    return d.keep(make)


for variant, dtype, causal, make_mask, key_heads in (
        ("f64", F64, True, None, 4), ("bf16", BF16, True, None, 4), ("bf16 full", BF16, False, None, 4),
        ("hidden row", F32, False, hiding, 4), ("longer keys", F64, True, None, 4)):
    def operands(d, dtype=dtype, make_mask=make_mask, key_heads=key_heads):
        q = d.f(2, 4, 5, 8, dtype=dtype)
        k, v = (d.f(2, key_heads, 7, 8, dtype=dtype) for _ in range(2))
        return q, k, v, make_mask(d) if make_mask else None

    def forward(d, operands=operands, causal=causal):
        q, k, v, mask = operands(d)
        return forward_op(q, k, v, 0.0, causal, attn_mask=mask)

    def backward(d, operands=operands, causal=causal):
        q, k, v, mask = operands(d)
        y, log_sum = forward_op(q, k, v, 0.0, causal, attn_mask=mask, scale=0.3)
        g = d.f(2, 4, 5, 8, dtype=q.dtype)
        return backward_op(g, q, k, v, y, log_sum, 0.0, causal, attn_mask=mask, scale=0.3)

    case("_scaled_dot_product_flash_attention_for_cpu", variant)(forward)
    if dtype != BF16:  # the framework's gradient rounds in between; the program does so elsewhere
        case("_scaled_dot_product_flash_attention_for_cpu_backward", variant)(backward)


# Whole layers, as inference takes them
def layer_operands(d, dtype=F32):
    n = 16
    shapes = [(3 * n, n), (3 * n,), (n, n), (n,)], [(n,), (n,), (n,), (n,)], [(32, n), (32,), (n, 32), (n,)]
    attention, norms, ffn = ([0.3 * d.f(*s, dtype=dtype) for s in group] for group in shapes)
    return attention, norms, ffn


def key_mask(d):
    return d.keep(lambda: torch.tensor([[False] * 5, [False] * 3 + [True] * 2]))


def look_ahead_mask(d):
    return d.keep(lambda: torch.ones(5, 5).triu(1).bool())


for variant, dtype, gelu, first, make_mask, kind in (("f32", F32, False, False, None,
                                                      None), ("gelu, norm first", F32, True, True, None,
                                                              None), ("f64, padding", F64, False, False, key_mask, 1),
                                                     ("look ahead", F32, True, False, look_ahead_mask,
                                                      0), ("f64", F64, True, True, None, None)):
    @case("_transformer_encoder_layer_fwd", variant)
    def layer(d, dtype=dtype, gelu=gelu, first=first, make_mask=make_mask, kind=kind):
        x = d.f(2, 5, 16, dtype=dtype)
        attention, norms, ffn = layer_operands(d, dtype)
        mask = make_mask(d) if make_mask else None
        return aten._transformer_encoder_layer_fwd(x, 16, 4, *attention, gelu, first, 1e-5, *norms, *ffn, mask, kind)

    @case("_native_multi_head_attention", variant)
    def self_attention(d, dtype=dtype, first=first, make_mask=make_mask, kind=kind):
        x = d.f(2, 5, 16, dtype=dtype)
        attention, _, _ = layer_operands(d, dtype)
        mask = make_mask(d) if make_mask else None
        return list(aten._native_multi_head_attention(x, x, x, 16, 4, *attention, mask, True, first, kind))


@case("_native_multi_head_attention", "of three tensors")
def cross_attention(d):
    attention, _, _ = layer_operands(d)
    return list(aten._native_multi_head_attention(d.f(2, 5, 16), d.f(2, 5, 16), d.f(2, 5, 16), 16, 4, *attention))


@case("_transform_bias_rescale_qkv")
def scaled_heads(d):
    return list(aten._transform_bias_rescale_qkv(d.f(2, 5, 48), d.f(48), 4))


@case("_masked_softmax")
def masked_softmax(d):
    scores = d.f(2, 3, 5, 5)
    wide = d.keep(lambda: torch.rand(2, 3, 5, 5) < 0.3)
    return [
        aten._masked_softmax(scores, wide, -1, 2),
        aten._masked_softmax(scores, key_mask(d), -1, 1),
        aten._masked_softmax(scores, look_ahead_mask(d), -1, 0)
    ]


@case("_masked_softmax_backward")
def masked_softmax_backward(d):
    mask = d.keep(lambda: torch.rand(2, 3, 5, 5) < 0.3)
    y = aten._masked_softmax(d.f(2, 3, 5, 5), mask, -1, 2)
    return aten._masked_softmax_backward(d.f(2, 3, 5, 5), y, mask, -1)


@case("_nested_tensor_from_mask")
def from_mask(d):
    nested = aten._nested_tensor_from_mask(d.f(2, 5, 16),
                                           d.keep(lambda: ~torch.tensor([[False] * 5, [False] * 3 + [True] * 2])))
    return aten.to_padded_tensor(nested, 0.5)


@case("to_padded_tensor", "behind a layer")
def padded_layer(d):
    attention, norms, ffn = layer_operands(d)
    nested = aten._nested_tensor_from_mask(
        d.f(2, 5, 16), d.keep(lambda: ~torch.tensor([[False] * 4 + [True], [False] * 2 + [True] * 3])))
    after = aten._transformer_encoder_layer_fwd(nested, 16, 4, *attention, False, False, 1e-5, *norms, *ffn)
    return aten.to_padded_tensor(after, 0.0, [2, 5, 16])
