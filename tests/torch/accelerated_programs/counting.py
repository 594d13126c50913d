"""Steps of a trainer that count: what is counted up behind a compiled call, and what else is done with the count."""

import torch
import torch.nn.functional as F

from accelerated_programs.register import NS, cls_batch, mlp, program


class Trainer:
    """Its step is one of the functions below; the numbers are compared with eager's like weights."""

    def __init__(self, step):
        self.model = mlp()
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1, momentum=0.9)
        self.steps = 0
        self.stats = {"calls": 0, "rows": 0}
        self.is_begun = False
        self.mean = torch.zeros(())
        self.step = step.__get__(self)

    def train(self, x, y):
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def state_dict(self):
        counts = torch.tensor([self.steps, self.stats["calls"], self.stats["rows"], int(self.is_begun)])
        return {**self.model.state_dict(), "counts": counts, "mean": self.mean}


def trainer(step=None, *, eager=""):
    if step is None:
        return lambda function: trainer(function, eager=eager)

    def make():
        one = Trainer(step)
        return NS(step=one.step, net=one, batch=cls_batch())

    make.__name__ = step.__name__
    program(make, eager=eager)
    return step


@trainer
def counts_an_attribute(self, x, y):
    loss = self.train(x, y)
    self.steps += 1
    return loss


@trainer
def counts_rows(self, x, y):
    self.steps += x.size(0)
    self.stats["rows"] += len(x)
    self.stats["calls"] += 1
    return self.train(x, y)


@trainer
def counts_in_a_loop(self, x, y):
    for _ in range(3):
        self.steps += 1
    return self.train(x, y)


@trainer
def counts_down(self, x, y):
    self.steps = 1 + self.steps
    self.stats["calls"] -= 2
    return self.train(x, y)


@trainer
def sets_what_is_set(self, x, y):
    self.is_begun = True
    return self.train(x, y)


@trainer
def adds_to_a_buffer(self, x, y):
    loss = self.train(x, y)
    self.mean += loss
    return loss


@trainer
def decides_by_the_count(self, x, y):
    self.steps += 1
    if self.steps % 10 == 0:
        self.stats["calls"] += 1
    return self.train(x, y)


@trainer
def returns_the_count(self, x, y):
    self.steps += 1
    return self.train(x, y), self.steps


@trainer(eager="computes with a tensor and a number that it reads from a tensor or keeps (self.steps)")
def computes_with_the_count(self, x, y):
    self.steps += 1
    return self.train(x, y) * float(self.steps)


@trainer(eager="calls torch.full with a number that it reads from a tensor or keeps (self.steps)")
def gives_the_count_to_torch(self, x, y):
    self.steps += 1
    return self.train(x, y) + torch.full((), self.steps / 7)


@trainer
def binds_a_buffer_anew(self, x, y):
    loss = self.train(x, y)
    self.mean = 0.9 * self.mean + 0.1 * loss
    return loss


@trainer(eager="is not the same in one call")
def switches_each_time(self, x, y):
    self.is_begun = not self.is_begun
    return self.train(x, y)


@trainer
def doubles(self, x, y):
    self.steps = 2 * self.steps % 1000 + 1
    return self.train(x, y)


@trainer(eager="makes text of a tensor's value or of a number that it keeps")
def names_a_result_by_the_count(self, x, y):
    self.steps += 1
    return {f"loss {self.steps}": self.train(x, y)}


@trainer(eager="calls range with a number that it reads from a tensor or keeps (self.steps)")
def repeats_by_the_count(self, x, y):
    for _ in range(self.steps % 3):
        x = x * 1.001
    self.steps += 1
    return self.train(x, y)
