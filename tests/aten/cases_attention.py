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
