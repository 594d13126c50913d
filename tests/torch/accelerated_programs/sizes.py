"""Steps in which tensors' values decide how large others are, which of torch's own ways is gone, or whether torch raises:
they are one thing in the calls that are observed, and another later."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.linalg import inv as inverse_of

from accelerated_programs.register import NS, mlp, program

FIRST, LATER = [0, 1, 2, 1, 0, 2], [0, 1, 1, 1, 0, 0]


def of_values(compute, first=FIRST, later=LATER):
    """compute(x, y), where y is `first` for 12 calls, and every other time after them."""
    w, calls = nn.Linear(4, 4), [0]

    @torch.no_grad()
    def step(x, y):
        return compute(w(x), y)

    def batch():
        calls[0] += 1
        return torch.randn(6, 4), torch.tensor(first if calls[0] < 12 or calls[0] % 2 else later)

    return NS(step=step, net=w, batch=batch, calls=36)


def _each(name, compute, first=FIRST, later=LATER):

    def made():
        return of_values(compute, first, later)

    made.__name__ = name
    program(made)


for _name, _compute in {
        "picked_by_a_mask": lambda x, y: x[y > 0].sum(0),
        "picked_by_two_masks": lambda x, y: x[y > 0][:, x.sum(0) > -99].sum(),
        "selected_by_a_mask": lambda x, y: x[:, 0].masked_select(y > 0).mean(),
        "picked_by_nonzero": lambda x, y: x[y.nonzero()[:, 0]].mean(0),
        "picked_by_where": lambda x, y: x[torch.where(y == 1)[0]].mean(0),
        "unique": lambda x, y: (torch.unique(y), x.sum()),
        "unique_neighbours": lambda x, y: torch.unique_consecutive(y) * x.sum(),
        "unique_rows": lambda x, y: torch.unique(y[:, None].expand(6, 2), dim=0) * x.sum(),
        "counted_into_bins": lambda x, y: torch.bincount(y) * x.sum(),
        "repeated": lambda x, y: torch.repeat_interleave(x, y, dim=0).sum(0),
        "columns_of_one_hot": lambda x, y: F.one_hot(y).float().sum(0) + x.sum(),
        "split_by_a_tensor": lambda x, y: torch.tensor_split(x, y[2:3])[0].sum(0),
}.items():
    _each(_name, _compute)
    _each(_name + "_turned", _compute, LATER, FIRST)


@program
def labels_that_are_dropped():
    m = mlp()
    o = torch.optim.SGD(m.parameters(), 0.1)
    calls = [0]

    def step(x, y):
        keep = y != -100
        o.zero_grad()
        loss = F.cross_entropy(m(x)[keep], y[keep])
        loss.backward()
        o.step()
        return loss.detach()

    def batch():
        calls[0] += 1
        y = torch.randint(0, 4, (8,))
        if calls[0] > 12 and calls[0] % 2:
            y[0] = -100
        return torch.randn(8, 16), y

    return NS(step=step, net=m, batch=batch, calls=36)


@program
def states_that_are_not_final():
    q, target = mlp(), mlp()
    o = torch.optim.SGD(q.parameters(), 0.1)
    calls = [0]

    def step(s, a, r, done, after):
        value = q(s).gather(1, a[:, None])[:, 0]
        best = torch.zeros(len(s))
        with torch.no_grad():
            best[~done] = target(after[~done]).max(1).values
        loss = F.smooth_l1_loss(value, r + 0.9 * best)
        o.zero_grad()
        loss.backward()
        o.step()
        return loss.detach()

    def batch():
        calls[0] += 1
        done = torch.zeros(8, dtype=torch.bool)
        done[1] = calls[0] > 12 and calls[0] % 2 == 0
        return torch.randn(8, 16), torch.randint(0, 4, (8,)), torch.randn(8), done, torch.randn(8, 16)

    return NS(step=step, net=nn.ModuleList([q, target]), batch=batch, calls=36)


@program
def lengths_of_packed_sequences():
    gru, head = nn.GRU(8, 12, batch_first=True), nn.Linear(12, 3)
    net = nn.ModuleList([gru, head])
    o = torch.optim.SGD(net.parameters(), 0.1)
    calls = [0]

    def step(x, lengths, y):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        loss = F.cross_entropy(head(gru(packed)[1][0]), y)
        o.zero_grad()
        loss.backward()
        o.step()
        return loss.detach()

    def batch():
        calls[0] += 1
        lengths = [6, 5, 3, 2] if calls[0] < 12 or calls[0] % 2 else [[6, 3, 4, 1], [5, 5, 4, 2]][calls[0] // 2 % 2]
        return torch.randn(4, 6, 8), torch.tensor(lengths), torch.randint(0, 3, (4,))

    return NS(step=step, net=net, batch=batch, calls=40)


@program
def lengths_of_ctc():
    m = nn.Linear(16, 6)
    o = torch.optim.SGD(m.parameters(), 0.1)
    calls = [0]

    def step(x, t, given, wanted):
        loss = F.ctc_loss(m(x).log_softmax(-1), t, given, wanted)
        o.zero_grad()
        loss.backward()
        o.step()
        return loss.detach()

    def batch():
        calls[0] += 1
        is_first = calls[0] < 12 or calls[0] % 2
        return (torch.randn(12, 3, 16), torch.randint(1, 6, (3, 4)),
                torch.tensor([12, 12, 12] if is_first else [12, 9, 10]),
                torch.tensor([4, 4, 4] if is_first else [4, 2, 3]))

    return NS(step=step, net=m, batch=batch, calls=36)


@program
def mask_that_is_causal_at_first():
    m = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True), 1,
                              enable_nested_tensor=False)
    o = torch.optim.SGD(m.parameters(), 1e-3)
    calls = [0]

    def step(x, mask):
        loss = m(x, mask=mask).square().mean()
        o.zero_grad()
        loss.backward()
        o.step()
        return loss.detach()

    def batch():
        calls[0] += 1
        mask = torch.triu(torch.full((6, 6), float("-inf")), 1)
        if calls[0] > 12 and calls[0] % 2:
            mask = torch.zeros(6, 6)
            mask[0, 3] = float("-inf")
        return torch.randn(4, 6, 16), mask

    return NS(step=step, net=m, batch=batch, calls=36)


@program(eager="looks at the mask's values")
def padding_on_the_left_at_first():
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    m = nn.TransformerEncoder(layer, 2).eval()
    calls = [0]

    @torch.no_grad()
    def step(x, padding):
        return m(x, src_key_padding_mask=padding)

    def batch():
        calls[0] += 1
        padding = torch.zeros(4, 6, dtype=torch.bool)
        padding[:, 0 if calls[0] < 12 else 5] = True
        return torch.randn(4, 6, 16), padding

    return NS(step=step, net=m, batch=batch)


def that_raises(name, compute, bad):
    """compute(w, x), whose 20th x is bad(x), for which torch raises."""

    def made():
        w, calls = nn.Linear(4, 4), [0]

        @torch.no_grad()
        def step(x):
            return compute(w, x)

        def batch():
            calls[0] += 1
            x = torch.rand(4, 4)
            x = 0.2 * x @ x.T + 0.3 * torch.eye(4)
            return (bad(x) if calls[0] == 20 else x,)

        return NS(step=step, net=w, batch=batch)

    made.__name__ = name
    program(made)


that_raises("probability_that_is_none", lambda w, x: F.binary_cross_entropy(x, x.round()), lambda x: x * float("nan"))
that_raises("matrix_that_is_not_positive", lambda w, x: torch.linalg.cholesky(x), lambda x: -x)
that_raises("matrix_that_has_no_inverse", lambda w, x: torch.linalg.inv(x), lambda x: x * 0)
that_raises("equations_without_a_solution", lambda w, x: torch.linalg.solve(x, w.weight), lambda x: x * 0)
that_raises("inverse_by_a_name_of_its_own", lambda w, x: inverse_of(x), lambda x: x * 0)
that_raises("inverse_by_a_method", lambda w, x: x.inverse(), lambda x: x * 0)
that_raises("whole_numbers_by_zero", lambda w, x: torch.arange(4, 8) // (x[0] * 1000).long(), lambda x: x * 0)
that_raises("rest_of_whole_numbers_by_zero", lambda w, x: torch.arange(4, 8) % (x[0] * 1000).long(), lambda x: x * 0)
that_raises("eigenvalues_of_nothing", lambda w, x: torch.linalg.eigvalsh(x), lambda x: x * float("nan"))
that_raises("pivot_that_is_zero", lambda w, x: torch.linalg.lu_factor(x)[0], lambda x: x * 0)
