"""Steps that store tensors in what lives longer than the call: a state that the next call reads, a loss for others to see."""

import itertools

import torch
import torch.nn.functional as F
from torch import nn

from accelerated_programs.register import NS, mlp, program

HIDDEN = 16


class Recurrent(nn.Module):
    """`store` and `find` say where its state lies from call to call."""

    def __init__(self, cell):
        super().__init__()
        self.recurrent = cell(8, HIDDEN, num_layers=2, batch_first=True)
        self.head = nn.Linear(HIDDEN, 4)
        self.state = None

    def forward(self, x):
        out, state = self.recurrent(x, self.state)
        self.state = tuple(part.detach() for part in state) if isinstance(state, tuple) else state.detach()
        return self.head(out)


def sequences(rows=3):
    return torch.randn(rows, 5, 8), torch.randn(rows, 5, 4)


def optimizer_of(model):
    return torch.optim.Adam(model.parameters(), lr=1e-3)


def trained(optimizer, loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


def with_state(model, find):
    """What is compared: parameters, and what the steps have stored."""

    def state_dict():
        found = find()
        parts = found if isinstance(found, tuple) else (found,)
        return {**model.state_dict(), **{f"stored {k}": part for k, part in enumerate(parts) if part is not None}}

    return NS(state_dict=state_dict)


@program
def state_of_an_lstm():
    model = Recurrent(nn.LSTM)
    optimizer = optimizer_of(model)
    return NS(step=lambda x, y: trained(optimizer, F.mse_loss(model(x), y)), net=with_state(model, lambda: model.state),
              batch=sequences)


@program
def state_that_begins_anew():
    model, count = Recurrent(nn.GRU), itertools.count()
    optimizer = optimizer_of(model)

    def batch():
        if next(count) % 12 == 11:
            model.state = None
        return sequences()

    return NS(step=lambda x, y: trained(optimizer, F.mse_loss(model(x), y)), net=with_state(model, lambda: model.state),
              batch=batch, calls=60)


@program
def state_that_fits_the_rows():
    model, count = Recurrent(nn.GRU), itertools.count()
    optimizer = optimizer_of(model)

    def step(x, y):
        if model.state is not None and model.state.shape[1] != x.shape[0]:
            model.state = None
        return trained(optimizer, F.mse_loss(model(x), y))

    return NS(step=step, net=with_state(model, lambda: model.state),
              batch=lambda: sequences(2 if next(count) % 10 == 9 else 3), calls=80)


@program
def state_in_an_outer_variable():
    model, head = nn.GRUCell(8, HIDDEN), nn.Linear(HIDDEN, 4)
    both, state = nn.ModuleList([model, head]), torch.zeros(3, HIDDEN)
    optimizer = optimizer_of(both)

    def step(x, y):
        nonlocal state
        hidden = state
        for at in range(x.shape[1]):
            hidden = model(x[:, at], hidden)
        state = hidden.detach()
        return trained(optimizer, F.mse_loss(head(hidden), y[:, -1]))

    return NS(step=step, net=with_state(both, lambda: state), batch=sequences)


@program
def state_in_a_dict():
    model, memory = nn.GRUCell(8, HIDDEN), {"hidden": torch.zeros(3, HIDDEN), "cell": None}
    optimizer = optimizer_of(model)

    def step(x, y):
        hidden = model(x[:, 0], memory["hidden"])
        memory["hidden"] = hidden.detach()
        memory["cell"] = hidden.detach() * 1 if memory.get("cell") is None else 0.5 * memory["cell"] + hidden.detach()
        return trained(optimizer, hidden.square().mean())

    return NS(step=step, net=with_state(model, lambda: (memory["hidden"], memory["cell"])), batch=sequences)


@program
def state_in_a_buffer():

    class Smoothed(nn.Module):

        def __init__(self):
            super().__init__()
            self.inner = mlp(8, 16, 4)
            self.register_buffer("mean", None)
            self.register_buffer("scale", torch.ones(4))

        def forward(self, x):
            out = self.inner(x)
            now = out.detach().mean((0, 1))
            self.mean = now if self.mean is None else 0.9 * self.mean + 0.1 * now
            self.scale = 0.9 * self.scale + 0.1 * now.abs()
            return (out - self.mean) / self.scale

    model = Smoothed()
    optimizer = optimizer_of(model)
    return NS(step=lambda x, y: trained(optimizer, F.mse_loss(model(x), y)), net=model, batch=sequences)


@program
def state_that_is_handed_on():
    model = Recurrent(nn.LSTM)
    optimizer = optimizer_of(model)
    last = [(torch.zeros(2, 3, HIDDEN), torch.zeros(2, 3, HIDDEN))]

    def step(x, y, state):
        out, state = model.recurrent(x, state)
        return trained(optimizer, F.mse_loss(model.head(out), y)), tuple(part.detach() for part in state)

    def noted(accelerated):
        """What a loop does with a step: the state that it gives is the next one's."""

        def call(*batch):
            loss, last[0] = accelerated(*batch)
            return loss, last[0]

        return call

    return NS(step=step, net=model, batch=lambda: (*sequences(), last[0]), around=noted)


@program
def last_loss_in_an_attribute():

    class Trainer:

        def __init__(self):
            self.model = mlp()
            self.optimizer = optimizer_of(self.model)
            self.loss, self.value, self.out = None, 0.0, None

        def step(self, x, y):
            self.out = self.model(x)
            self.loss = trained(self.optimizer, F.cross_entropy(self.out, y))
            self.value = self.loss.item()
            return self.loss

    made = Trainer()
    seen = with_state(made.model, lambda: (made.loss, torch.tensor(made.value), made.out.detach()))
    return NS(step=made.step, net=seen, batch=lambda: (torch.randn(32, 16), torch.randint(0, 4, (32,))))


@program
def argument_of_the_call_before():

    class Differences:
        before, older = None, None

        def __init__(self):
            self.model = mlp(8, 16, 4)
            self.before = self.older = torch.zeros(3, 8)
            self.optimizer = optimizer_of(self.model)

        def step(self, x):
            change = x - 2 * self.before + self.older
            self.older, self.before = self.before, x
            return trained(self.optimizer, self.model(change).square().mean())

    made = Differences()
    return NS(step=made.step, net=with_state(made.model, lambda: (made.before, made.older)),
              batch=lambda: (torch.randn(3, 8),))


@program
def left_out_where_it_is_nan():
    model, count = Recurrent(nn.GRU), itertools.count()
    optimizer = optimizer_of(model)

    def step(x, y):
        before = model.state
        loss = F.mse_loss(model(x), y)
        if torch.isnan(loss):
            model.state = before
            return loss.detach()
        return trained(optimizer, loss)

    def batch():
        x, y = sequences()
        return x, y * float("nan") if next(count) % 9 == 8 else y

    return NS(step=step, net=with_state(model, lambda: model.state), batch=batch, calls=80)


@program
def state_that_is_detached_when_it_is_read():
    model = nn.GRUCell(8, HIDDEN)
    optimizer, state = optimizer_of(model), torch.zeros(3, HIDDEN)

    def step(x, y):
        nonlocal state
        state = model(x[:, 0], state.detach())
        return trained(optimizer, state.square().mean())

    return NS(step=step, net=with_state(model, lambda: state), batch=sequences)


@program(eager="state is a tensor whose graph may still be used")
def state_whose_graph_is_used():
    model = nn.ParameterList([torch.ones(3, HIDDEN)])
    optimizer, state = optimizer_of(model), torch.zeros(3, HIDDEN)

    def step():
        nonlocal state
        state = state + model[0]  # keeps nothing for its backward, which runs through all calls
        return trained(optimizer, state.mean())

    return NS(step=step, net=with_state(model, lambda: state), batch=lambda: ())


@program(eager="a view of an argument")
def view_of_an_argument():
    model, last = mlp(8, 16, 4), {"row": torch.zeros(8)}
    optimizer = optimizer_of(model)

    def step(x, y):
        row = last["row"]
        last["row"] = x[0, 0]
        return trained(optimizer, (model(x) - row.mean()).square().mean())

    return NS(step=step, net=with_state(model, lambda: last["row"]), batch=sequences)


@program(eager="writes into memory['hidden']")
def written_where_it_lies():
    model, memory = nn.GRUCell(8, HIDDEN), {"hidden": torch.zeros(3, HIDDEN)}
    optimizer = optimizer_of(model)

    def step(x, y):
        memory["hidden"].mul_(0.5)
        hidden = model(x[:, 0], memory["hidden"].clone())
        memory["hidden"] = hidden.detach()
        return trained(optimizer, hidden.square().mean())

    return NS(step=step, net=with_state(model, lambda: memory["hidden"]), batch=sequences)


@program(eager="goes through memory, in which it stores")
def dict_that_is_gone_through():
    model, memory = nn.GRUCell(8, HIDDEN), {"hidden": torch.zeros(3, HIDDEN), "other": torch.ones(3, HIDDEN)}
    optimizer = optimizer_of(model)

    def step(x, y):
        hidden = model(x[:, 0], sum(memory.values()))
        memory["hidden"] = hidden.detach()
        return trained(optimizer, hidden.square().mean())

    return NS(step=step, net=with_state(model, lambda: memory["hidden"]), batch=sequences)


@program(eager="goes through stats, in which it stores")
def counts_that_are_added():
    model, stats = mlp(8, 16, 4), {"calls": 0, "rows": 0}
    optimizer = optimizer_of(model)

    def step(x, y):
        stats["calls"] += 1
        return trained(optimizer, model(x).square().mean() * sum(stats.values()))

    return NS(step=step, net=model, batch=sequences)


class Kept:
    """A trainer that keeps numbers; they are compared with eager's like weights."""

    def __init__(self, step):
        self.model, self.target = mlp(8, 16, 4), mlp(8, 16, 4)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.count, self.mean, self.best, self.waits = 0, 0.0, float("inf"), 0
        self.step = step.__get__(self)

    def loss(self, x, y):
        return F.mse_loss(self.model(x), y)

    def state_dict(self):
        numbers = torch.tensor([self.count, self.mean, self.best, self.waits])
        return {**nn.ModuleList([self.model, self.target]).state_dict(), "numbers": numbers}


def keeper(step):

    def make():
        one = Kept(step)
        return NS(step=one.step, net=one, batch=sequences, calls=60)

    make.__name__ = step.__name__
    program(make)
    return step


@keeper
def gradients_of_several_calls(self, x, y):
    loss = self.loss(x, y) / 4
    loss.backward()
    self.count += 1
    if self.count % 4 == 0:
        self.optimizer.step()
        self.optimizer.zero_grad()
    return loss.detach()


@keeper
def target_that_follows_at_times(self, x, y):
    with torch.no_grad():
        wanted = self.target(x)
    loss = trained(self.optimizer, F.mse_loss(self.model(x), y + 0.1 * wanted))
    self.count = (self.count + 1) % 5
    if self.count == 0:
        with torch.no_grad():
            for slow, fast in zip(self.target.parameters(), self.model.parameters()):
                slow.copy_(fast)
    return loss


@keeper
def mean_of_losses(self, x, y):
    loss = trained(self.optimizer, self.loss(x, y))
    self.mean = 0.9 * self.mean + 0.1 * loss.item()
    self.count += 1
    return {"loss": loss, "mean": self.mean, "unbiased": self.mean / (1 - 0.9**self.count)}


@keeper
def best_loss_and_patience(self, x, y):
    loss = trained(self.optimizer, self.loss(x, y))
    value = loss.item()
    if value < self.best - 1e-6:
        self.best, self.waits = value, 0
    else:
        self.waits += 1
    return loss, self.waits >= 3


@program
def number_in_an_outer_variable():
    model, rows, seen = mlp(8, 16, 4), 0, 0.0
    optimizer = optimizer_of(model)

    def step(x, y):
        nonlocal rows, seen
        loss = trained(optimizer, F.mse_loss(model(x), y))
        rows += x.shape[0]
        seen += loss.item() * x.shape[0]
        return loss, seen / rows

    return NS(step=step, net=with_state(model, lambda: torch.tensor([rows, seen])), batch=sequences)


@program(eager="is of another kind in each call")
def state_that_grows():
    model = nn.Linear(8, HIDDEN)
    cache = NS(keys=None)

    @torch.no_grad()
    def step(x):
        key = model(x)
        cache.keys = key if cache.keys is None else torch.cat([cache.keys, key])
        return cache.keys.mean(0)

    return NS(step=step, net=with_state(model, lambda: cache.keys), batch=lambda: (torch.randn(1, 8),), calls=60)
