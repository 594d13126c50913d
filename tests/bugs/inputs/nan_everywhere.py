# NaN by every invalid operation, in every float type, converted, compared, sorted, reduced and turned into integers
# (infinities and what has no place too). Eager's numbers are the right ones and every backend has the same bits; the
# sign and payload of a NaN count for nothing.
import sys

import torch
import torch.nn.functional as F

which = sys.argv[1] if len(sys.argv) > 1 else "f32"
dtype = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "f64": torch.float64}[which]


class Bad(torch.nn.Module):
    def forward(self, x):
        inf, minus, zero, five = x[0], x[1], x[2], x[3]
        bad = torch.stack([
            inf - inf, inf * 0,
            minus.sqrt(), -(inf - inf),
            torch.maximum(zero, inf * 0),
            minus.log(), (inf * 0).abs(), zero / zero, inf % five,
            inf.sin(),
            minus.acos() * inf.cos()
        ])
        wild = torch.stack([inf, -inf, inf * 0, five * 3e3, -five * 3e3, five * five, -five / 4, five * 60.0])
        out = {"bad": bad, "sum": bad.sum(), "mixed": torch.cat([bad, wild])}
        for to in (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int64, torch.int32, torch.int16,
                   torch.int8, torch.uint8, torch.bool):
            out[f"to {to}"] = wild.to(to)
            out[f"bad to {to}"] = bad.to(to)
        far = torch.stack([inf, -inf, inf * 0, five * 1e9, -five *
                           1e9]).double() * 1e10 if dtype != torch.float16 else wild.double() * 1e12
        for to in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8):
            out[f"far to {to}"] = far.to(to)
        m = out["mixed"]
        out["sort"], out["sort_at"] = m.sort(stable=True)
        out["down"], out["down_at"] = m.sort(stable=True, descending=True)
        out["max"], out["max_at"] = m.max(0)
        out["min"], out["min_at"] = m.min(0)
        out["argmax"], out["argmin"] = wild.argmax(), wild.argmin()
        out["fmax"], out["fmin"] = torch.fmax(bad[:8], wild), torch.fmin(bad[:8], wild)
        out["maximum"], out["minimum"] = torch.maximum(bad[:8], wild), torch.minimum(wild, bad[:8])
        out["clamp"] = m.clamp(-2, 2)
        out["where"] = torch.where(m > 0, m, torch.zeros_like(m))
        out["compared"] = torch.stack([m > 0, m < 0, m == m, m != m, m.isnan(), m.isinf()])
        out["softmax"] = F.softmax(torch.stack([inf, five, zero]), 0)
        out["all_masked"] = F.softmax(torch.stack([-inf, -inf]), 0)
        out["log_softmax"] = F.log_softmax(torch.stack([inf, five]), 0)
        out["cumsum"], out["cumprod"] = m.cumsum(0), wild.cumprod(0)
        out["norm"], out["mean"], out["var"] = m.norm(), m.mean(), m.var()
        out["numbers"] = m.nan_to_num(1, 2, -2)
        out["relu"], out["sign"], out["floor"] = m.relu(), m.sign(), m.floor()
        out["atan2"] = torch.atan2(bad[:8], wild)
        return out


bad = Bad()
with torch.no_grad():
    for step in range(6):
        bad(torch.tensor([float("inf"), -1.0, 0.0, 5.0 + step], dtype=dtype))
