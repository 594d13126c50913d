"""Models as people write them, each with its training step."""

import dataclasses

import torch
import torch.nn.functional as F
from torch import nn

from accelerated_programs.register import NS, cls_batch, mlp, program


@program
def lstm_lm():

    class LM(nn.Module):

        def __init__(s):
            super().__init__()
            s.emb = nn.Embedding(50, 32)
            s.rnn = nn.LSTM(32, 64, 2, batch_first=True, dropout=0.2)
            s.fc = nn.Linear(64, 50)

        def forward(s, x, h=None):
            y, h = s.rnn(s.emb(x), h)
            return (s.fc(y), h)

    m = LM()
    o = torch.optim.SGD(m.parameters(), 0.5)

    def step(x, y):
        o.zero_grad()
        out, _ = m(x)
        l = F.cross_entropy(out.view(-1, 50), y.view(-1))
        l.backward()
        nn.utils.clip_grad_norm_(m.parameters(), 0.25)
        o.step()
        return l.detach()

    return NS(step=step, net=m, batch=lambda: (torch.randint(0, 50, (8, 12)), torch.randint(0, 50, (8, 12))))


@program
def lstm_carried():
    m = nn.LSTM(8, 16, batch_first=True)
    fc = nn.Linear(16, 1)
    o = torch.optim.Adam([*m.parameters(), *fc.parameters()])

    def step(x, y, h, c):
        o.zero_grad()
        out, (h2, c2) = m(x, (h, c))
        l = F.mse_loss(fc(out), y)
        l.backward()
        o.step()
        return (l.detach(), h2.detach(), c2.detach())

    return NS(
        step=step,
        net=m,
        batch=lambda: (torch.randn(4, 6, 8), torch.randn(4, 6, 1), torch.zeros(1, 4, 16), torch.zeros(1, 4, 16)),
    )


@program
def transformer_encoder():

    class M(nn.Module):

        def __init__(s):
            super().__init__()
            s.emb = nn.Embedding(100, 32)
            s.pos = nn.Parameter(torch.zeros(1, 16, 32))
            l = nn.TransformerEncoderLayer(32, 4, 64, 0.1, batch_first=True, norm_first=True)
            s.enc = nn.TransformerEncoder(l, 2, enable_nested_tensor=False)
            s.head = nn.Linear(32, 100)

        def forward(s, x):
            mask = nn.Transformer.generate_square_subsequent_mask(x.size(1))
            return s.head(s.enc(s.emb(x) + s.pos[:, : x.size(1)], mask=mask, is_causal=True))

    m = M()
    o = torch.optim.SGD(m.parameters(), 0.02)
    sch = torch.optim.lr_scheduler.CosineAnnealingLR(o, 100)

    def step(x, y):
        o.zero_grad()
        l = F.cross_entropy(m(x).flatten(0, 1), y.flatten())
        l.backward()
        o.step()
        sch.step()
        return l.detach()

    return NS(step=step, net=m, batch=lambda: (torch.randint(0, 100, (4, 16)), torch.randint(0, 100, (4, 16))))


@program
def nanogpt():

    class CausalSelfAttention(nn.Module):

        def __init__(s, c):
            super().__init__()
            s.c_attn = nn.Linear(c.n_embd, 3 * c.n_embd, bias=c.bias)
            s.c_proj = nn.Linear(c.n_embd, c.n_embd, bias=c.bias)
            s.n_head = c.n_head
            s.n_embd = c.n_embd
            s.dropout = c.dropout
            s.flash = hasattr(F, "scaled_dot_product_attention")
            s.resid_dropout = nn.Dropout(c.dropout)

        def forward(s, x):
            B, T, C = x.size()
            q, k, v = s.c_attn(x).split(s.n_embd, dim=2)
            k = k.view(B, T, s.n_head, C // s.n_head).transpose(1, 2)
            q = q.view(B, T, s.n_head, C // s.n_head).transpose(1, 2)
            v = v.view(B, T, s.n_head, C // s.n_head).transpose(1, 2)
            if s.flash:
                y = F.scaled_dot_product_attention(
                    q, k, v, attn_mask=None, dropout_p=s.dropout if s.training else 0, is_causal=True
                )
            y = y.transpose(1, 2).contiguous().view(B, T, C)
            return s.resid_dropout(s.c_proj(y))

    class LayerNorm(nn.Module):

        def __init__(s, n, bias):
            super().__init__()
            s.weight = nn.Parameter(torch.ones(n))
            s.bias = nn.Parameter(torch.zeros(n)) if bias else None

        def forward(s, x):
            return F.layer_norm(x, s.weight.shape, s.weight, s.bias, 1e-05)

    class Block(nn.Module):

        def __init__(s, c):
            super().__init__()
            s.ln_1 = LayerNorm(c.n_embd, c.bias)
            s.attn = CausalSelfAttention(c)
            s.ln_2 = LayerNorm(c.n_embd, c.bias)
            s.fc = nn.Linear(c.n_embd, 4 * c.n_embd)
            s.gelu = nn.GELU()
            s.pr = nn.Linear(4 * c.n_embd, c.n_embd)

        def forward(s, x):
            x = x + s.attn(s.ln_1(x))
            return x + s.pr(s.gelu(s.fc(s.ln_2(x))))

    @dataclasses.dataclass
    class C:
        n_embd: int = 32
        n_head: int = 4
        bias: bool = False
        dropout: float = 0.1
        block_size: int = 16
        vocab: int = 65

    class GPT(nn.Module):

        def __init__(s, c):
            super().__init__()
            s.config = c
            s.transformer = nn.ModuleDict(
                dict(
                    wte=nn.Embedding(c.vocab, c.n_embd),
                    wpe=nn.Embedding(c.block_size, c.n_embd),
                    drop=nn.Dropout(c.dropout),
                    h=nn.ModuleList([Block(c) for _ in range(2)]),
                    ln_f=LayerNorm(c.n_embd, c.bias),
                )
            )
            s.lm_head = nn.Linear(c.n_embd, c.vocab, bias=False)
            s.transformer.wte.weight = s.lm_head.weight

        def forward(s, idx, targets=None):
            device = idx.device
            b, t = idx.size()
            assert (
                t <= s.config.block_size
            ), f"Cannot forward sequence of length {t}, block size is only {s.config.block_size}"
            pos = torch.arange(0, t, dtype=torch.long, device=device)
            x = s.transformer.drop(s.transformer.wte(idx) + s.transformer.wpe(pos))
            for block in s.transformer.h:
                x = block(x)
            x = s.transformer.ln_f(x)
            if targets is not None:
                logits = s.lm_head(x)
                loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)
            else:
                logits = s.lm_head(x[:, [-1], :])
                loss = None
            return (logits, loss)

    m = GPT(C())
    pd = {n: p for n, p in m.named_parameters()}
    o = torch.optim.AdamW(
        [
            {"params": [p for p in pd.values() if p.dim() >= 2], "weight_decay": 0.1},
            {"params": [p for p in pd.values() if p.dim() < 2], "weight_decay": 0.0},
        ],
        lr=0.001,
        betas=(0.9, 0.95),
    )

    def step(xs, ys):
        for k in range(2):
            logits, loss = m(xs[k], ys[k])
            loss = loss / 2
            loss.backward()
        nn.utils.clip_grad_norm_(m.parameters(), 1.0)
        o.step()
        o.zero_grad(set_to_none=True)
        return loss.detach()

    return NS(step=step, net=m, batch=lambda: (torch.randint(0, 65, (2, 4, 16)), torch.randint(0, 65, (2, 4, 16))))


@program
def batchnorm_cnn():
    m = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(0.3),
        nn.Linear(16, 4),
    )
    o = torch.optim.SGD(m.parameters(), 0.1, momentum=0.9, weight_decay=0.0005)
    sch = torch.optim.lr_scheduler.OneCycleLR(o, 0.1, total_steps=200)

    def step(x, y):
        m.train()
        o.zero_grad()
        l = F.cross_entropy(m(x), y)
        l.backward()
        o.step()
        sch.step()
        return l.detach()

    return NS(step=step, net=m, batch=lambda: (torch.randn(8, 3, 16, 16), torch.randint(0, 4, (8,))))


@program
def graph_conv():
    w1, w2 = (nn.Linear(8, 16), nn.Linear(16, 3))
    o = torch.optim.Adam([*w1.parameters(), *w2.parameters()], 0.01)

    def agg(x, src, dst):
        return torch.zeros(x.size(0), x.size(1)).index_add_(0, dst, x[src])

    def step(x, src, dst, y):
        o.zero_grad()
        h = F.relu(w1(agg(x, src, dst)))
        l = F.cross_entropy(w2(agg(h, src, dst)), y)
        l.backward()
        o.step()
        return l.detach()

    return NS(
        step=step,
        net=nn.ModuleList([w1, w2]),
        batch=lambda: (
            torch.randn(20, 8),
            torch.randint(0, 20, (60,)),
            torch.randint(0, 20, (60,)),
            torch.randint(0, 3, (20,)),
        ),
    )


@program
def unet():

    class U(nn.Module):

        def __init__(s):
            super().__init__()
            c = lambda i, o: nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.GroupNorm(4, o), nn.SiLU())
            s.d1, s.d2, s.m, s.u2, s.u1 = (c(1, 8), c(8, 16), c(16, 16), c(32, 8), c(16, 8))
            s.out = nn.Conv2d(8, 1, 1)
            s.pool = nn.MaxPool2d(2)
            s.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)

        def forward(s, x):
            a = s.d1(x)
            b = s.d2(s.pool(a))
            c = s.m(s.pool(b))
            c = s.u2(torch.cat([s.up(c), b], 1))
            return s.out(s.u1(torch.cat([s.up(c), a], 1)))

    m = U()
    o = torch.optim.AdamW(m.parameters(), 0.001)

    def step(x, y):
        o.zero_grad()
        l = F.mse_loss(m(x), y)
        l.backward()
        o.step()
        return l.detach()

    return NS(step=step, net=m, batch=lambda: (torch.randn(2, 1, 16, 16), torch.randn(2, 1, 16, 16)))


@program
def gru_cell_loop():
    cell = nn.GRUCell(8, 16)
    fc = nn.Linear(16, 2)
    o = torch.optim.Adam([*cell.parameters(), *fc.parameters()])

    def step(x, y):
        h = torch.zeros(x.size(0), 16)
        outs = []
        for t in range(x.size(1)):
            h = cell(x[:, t], h)
            outs.append(fc(h))
        l = F.mse_loss(torch.stack(outs, 1), y)
        o.zero_grad()
        l.backward()
        o.step()
        return l.detach()

    return NS(step=step, net=nn.ModuleList([cell, fc]), batch=lambda: (torch.randn(4, 5, 8), torch.randn(4, 5, 2)))


@program
def packed_seq():
    r = nn.GRU(8, 16, batch_first=True)
    fc = nn.Linear(16, 2)
    o = torch.optim.Adam([*r.parameters(), *fc.parameters()])

    def step(x, lengths, y):
        p = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        _, h = r(p)
        l = F.cross_entropy(fc(h[-1]), y)
        o.zero_grad()
        l.backward()
        o.step()
        return l.detach()

    return NS(
        step=step, net=r, batch=lambda: (torch.randn(4, 6, 8), torch.tensor([6, 4, 3, 2]), torch.randint(0, 2, (4,)))
    )


@program
def moe():

    class MoE(nn.Module):

        def __init__(s):
            super().__init__()
            s.g = nn.Linear(16, 4)
            s.e = nn.ModuleList([nn.Linear(16, 8) for _ in range(4)])
            s.o = nn.Linear(8, 4)

        def forward(s, x):
            w = s.g(x).softmax(-1)
            y = sum((w[:, i : i + 1] * e(x) for i, e in enumerate(s.e)))
            return s.o(y)

    m = MoE()
    o = torch.optim.Adam(m.parameters())

    def step(x, y):
        o.zero_grad()
        l = F.cross_entropy(m(x), y)
        l.backward()
        o.step()
        return l.detach()

    return NS(step=step, net=m, batch=cls_batch())


@program(eager="the observed calls are not alike")
def moe_routed():

    class MoE(nn.Module):

        def __init__(s):
            super().__init__()
            s.g = nn.Linear(16, 4)
            s.e = nn.ModuleList([nn.Linear(16, 8) for _ in range(4)])
            s.o = nn.Linear(8, 4)

        def forward(s, x):
            idx = s.g(x).argmax(-1)
            y = torch.zeros(x.size(0), 8)
            for i, e in enumerate(s.e):
                sel = idx == i
                if sel.any():
                    y[sel] = e(x[sel])
            return s.o(y)

    m = MoE()
    o = torch.optim.Adam(m.parameters())

    def step(x, y):
        o.zero_grad()
        l = F.cross_entropy(m(x), y)
        l.backward()
        o.step()
        return l.detach()

    return NS(step=step, net=m, batch=cls_batch())


@program
def einops_like_conv1d():
    m = nn.Sequential(
        nn.Conv1d(4, 8, 3, padding=1),
        nn.BatchNorm1d(8),
        nn.GELU(),
        nn.Conv1d(8, 8, 3, stride=2),
        nn.Flatten(),
        nn.LazyLinear(3),
    )
    m(torch.zeros(2, 4, 16))
    o = torch.optim.SGD(m.parameters(), 0.02)

    def step(x, y):
        o.zero_grad()
        l = F.cross_entropy(m(x), y)
        l.backward()
        o.step()
        return l.detach()

    return NS(step=step, net=m, batch=lambda: (torch.randn(6, 4, 16), torch.randint(0, 3, (6,))))


@program
def multi_task_heads():

    class M(nn.Module):

        def __init__(s):
            super().__init__()
            s.trunk = mlp(o=32)
            s.heads = nn.ModuleDict({"a": nn.Linear(32, 3), "b": nn.Linear(32, 1)})
            s.log_vars = nn.ParameterDict({k: nn.Parameter(torch.zeros(())) for k in ("a", "b")})

        def forward(s, x):
            h = s.trunk(x)
            return {k: head(h) for k, head in s.heads.items()}

    m = M()
    o = torch.optim.Adam(m.parameters())
    losses = {"a": F.cross_entropy, "b": lambda p, y: F.mse_loss(p.squeeze(-1), y)}

    def step(x, targets):
        out = m(x)
        parts = {k: losses[k](out[k], targets[k]) for k in out}
        l = sum((torch.exp(-m.log_vars[k]) * v + m.log_vars[k] for k, v in parts.items()))
        o.zero_grad()
        l.backward()
        o.step()
        return (l.detach(), {k: v.detach() for k, v in parts.items()})

    return NS(
        step=step, net=m, batch=lambda: (torch.randn(16, 16), {"a": torch.randint(0, 3, (16,)), "b": torch.randn(16)})
    )


@program
def mha_padding_mask():
    a = nn.MultiheadAttention(16, 4, dropout=0.1, batch_first=True)
    f = nn.Linear(16, 2)
    o = torch.optim.SGD([*a.parameters(), *f.parameters()], 0.02)

    def step(x, pad, y):
        h, w = a(x, x, x, key_padding_mask=pad, need_weights=False)
        l = F.cross_entropy(f(h.mean(1)), y)
        o.zero_grad()
        l.backward()
        o.step()
        return l.detach()

    return NS(
        step=step,
        net=nn.ModuleList([a, f]),
        batch=lambda: (
            torch.randn(4, 6, 16),
            torch.arange(6)[None] >= torch.randint(3, 7, (4, 1)),
            torch.randint(0, 2, (4,)),
        ),
    )


@program
def embedding_bag_sparse():
    e = nn.EmbeddingBag(100, 8, mode="mean")
    f = nn.Linear(8, 3)
    o = torch.optim.Adagrad([*e.parameters(), *f.parameters()], 0.1)

    def step(t, off, y):
        o.zero_grad()
        l = F.cross_entropy(f(e(t, off)), y)
        l.backward()
        o.step()
        return l.detach()

    return NS(
        step=step,
        net=nn.ModuleList([e, f]),
        batch=lambda: (torch.randint(0, 100, (30,)), torch.arange(0, 30, 5), torch.randint(0, 3, (6,))),
    )


@program
def triplet_hard():
    m = mlp(o=8)
    o = torch.optim.SGD(m.parameters(), 0.02)

    def step(x, y):
        e = m(x)
        d = torch.cdist(e, e)
        same = y[:, None] == y[None]
        hp = (d * same).max(1).values
        hn = (d + 1000000.0 * same).min(1).values
        l = F.relu(hp - hn + 0.2).mean()
        o.zero_grad()
        l.backward()
        o.step()
        return l.detach()

    return NS(step=step, net=m, batch=cls_batch())
