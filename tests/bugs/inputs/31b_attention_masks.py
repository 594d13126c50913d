# Attention and encoder layers in inference, with look-ahead and padding masks, GELU, norms first, f64, and attention
# whose weights are wanted for each head: PyTorch takes its fused path for some and not for others.
import torch
import torch.nn as nn
torch.manual_seed(0)
enc = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, activation='gelu', norm_first=True, batch_first=True),
                            2, norm=nn.LayerNorm(16), enable_nested_tensor=False).eval()
enc2 = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dtype=torch.float64), 1,
                             enable_nested_tensor=False).eval()
mha = nn.MultiheadAttention(16, 4, batch_first=True).eval()


class M(nn.Module):

    def __init__(self):
        super().__init__()
        self.a = enc
        self.b = enc2
        self.c = mha

    def forward(self, x, pad):
        m = nn.Transformer.generate_square_subsequent_mask(5)
        w = self.c(x, x, x, need_weights=True, average_attn_weights=False)
        u = self.c(x, x, x, key_padding_mask=pad, need_weights=False)
        return (self.a(x, mask=m), self.a(x, src_key_padding_mask=pad), self.b(x.double()), w[0], w[1], u[0],
                self.a(x, mask=m, src_key_padding_mask=pad))
m = M()
with torch.inference_mode():
    for i in range(6):
        m(torch.randn(2, 5, 16), torch.tensor([[False] * 5, [False] * 3 + [True] * 2]))
