# Everything that adds to a product in f16 and bf16: the sum is rounded once (2048 + 1 + 1 = 2050 in f16, 256 + 1 + 1 =
# 258 in bf16; rounding the product first gives 2048 and 256). Numbers are such that each right result is exact. Not
# `addr`, whose eager kernel rounds twice: a replay gives 2050.
import torch
import torch.nn.functional as F


def transposed(images, one):
    return F.conv_transpose2d(images.unsqueeze(-1), torch.ones(2, 1, 1, 1, dtype=images.dtype), one)


# Of f16, and of bf16 on processors without AVX-512, eager has another kernel, which rounds twice.
ROUNDS_TRANSPOSED_ONCE = transposed(torch.tensor([[[256.0], [1.0]]], dtype=torch.bfloat16),
                                    torch.ones(1, dtype=torch.bfloat16)).item() == 258


class Sums(torch.nn.Module):
    def forward(self, x, one):
        rows, images = x.unsqueeze(0), x.reshape(1, 2, 1)  # 2048 and 1; an image of two channels
        column, ones = torch.ones(2, 1, dtype=x.dtype), torch.ones(2, dtype=x.dtype)
        out = {
            "addmm": torch.addmm(one, rows, column), "addmm_scaled": torch.addmm(one * 4, rows * 2, column, beta=0.25,
                                                                                 alpha=0.5),
            "addmm_full": torch.addmm(one.expand(3, 4).contiguous(), rows.expand(3, 2),
                                      ones.unsqueeze(1).expand(2, 4)), "linear": F.linear(rows, column.t(), one),
            "linear_relu": F.relu(F.linear(rows, column.t(),
                                           one)), "linear_gelu": F.gelu(F.linear(rows, column.t(), one),
                                                                        approximate="tanh"),
            "linear_wide": F.linear(rows.expand(5, 2), ones.expand(17, 2),
                                    one.expand(17)), "linear_batched": F.linear(rows.expand(3, 5, 2),
                                                                                ones.expand(17, 2), one.expand(17)),
            "baddbmm": torch.baddbmm(one.reshape(1, 1, 1), rows.unsqueeze(0),
                                     column.unsqueeze(0)), "addmv": torch.addmv(one, rows, ones),
            "conv1d": F.conv1d(images, torch.ones(1, 2, 1, dtype=x.dtype),
                               one), "conv2d": F.conv2d(images.unsqueeze(-1), torch.ones(3, 2, 1, 1, dtype=x.dtype),
                                                        one.expand(3)),
            "conv3d": F.conv3d(images.unsqueeze(-1).unsqueeze(-1), torch.ones(1, 2, 1, 1, 1, dtype=x.dtype),
                               one), "conv_grouped": F.conv2d(
                                   torch.cat([images, images], 1).unsqueeze(-1), torch.ones(2, 2, 1, 1, dtype=x.dtype),
                                   one.expand(2),
                                   groups=2), "bilinear": F.bilinear(rows, torch.ones(1, 1, dtype=x.dtype),
                                                                     torch.ones(1, 2, 1, dtype=x.dtype), one),
        }
        if x.dtype == torch.bfloat16 and ROUNDS_TRANSPOSED_ONCE:
            out["transposed"] = transposed(images, one)
        return out


class Both(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.sums = Sums()

    def forward(self, half, brain):
        return self.sums(half, half.new_ones(1)), self.sums(brain, brain.new_ones(1))


both = Both()
with torch.no_grad():
    for step in range(6):
        both(torch.tensor([2048.0, 1.0], dtype=torch.float16), torch.tensor([256.0, 1.0], dtype=torch.bfloat16))
