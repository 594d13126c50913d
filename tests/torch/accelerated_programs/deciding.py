"""Steps that tensors' values decide, one way and then another, with what was written before the decision."""

import itertools

import torch
import torch.nn.functional as F
from torch import nn

from accelerated_programs.register import NS, cls_batch, mlp, program


def now_and_then(every, odd):
    """Batches of which every so many is an odd one."""
    numbers = itertools.count()

    def batch():
        x, y = cls_batch()()
        return (odd(x), y) if next(numbers) % every == every - 1 else (x, y)

    return batch


def far(x):
    return x * 50


def not_a_number(x):
    return torch.full_like(x, float("nan"))


@program
def large_gradients_are_dropped():
    net = mlp()
    optimizer = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9)

    def step(x, y):
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        if norm > 20:
            optimizer.zero_grad()
            return None
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    return NS(step=step, net=net, batch=now_and_then(7, far), calls=80)


@program
def gradients_that_are_there_are_added_to_before_the_decision():
    net = mlp()
    optimizer = torch.optim.SGD(net.parameters(), 0.05)

    def step(x, y):
        loss = F.cross_entropy(net(x), y) / 8
        loss.backward()
        if net[0].weight.grad.abs().max() > 0.1:
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
        return loss.detach()

    return NS(step=step, net=net, batch=now_and_then(9, far), calls=80)


@program
def running_statistics_are_written_before_the_decision():
    net = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = torch.optim.SGD(net.parameters(), 0.02)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        if not torch.isfinite(loss):
            return float("nan")
        loss.backward()
        optimizer.step()
        return loss.item()

    return NS(step=step, net=net, batch=now_and_then(6, lambda x: x), calls=40)


@program
def random_numbers_are_drawn_before_the_decision():
    net = nn.Sequential(nn.Linear(16, 32), nn.Dropout(0.2), nn.ReLU(), nn.Linear(32, 4))
    optimizer = torch.optim.Adam(net.parameters())

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        if loss.isnan():
            return None
        (loss + 0.01 * torch.randn(())).backward()
        optimizer.step()
        return {"loss": loss.item(), "rows": len(x)}

    return NS(step=step, net=net, batch=now_and_then(5, not_a_number), calls=80)


@program
def counted_by_what_is_decided():
    net = mlp()
    optimizer = torch.optim.SGD(net.parameters(), 0.05)
    counts = {"made": 0, "skipped": 0}

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        if loss > 5:
            counts["skipped"] += 1
            return loss.detach()
        loss.backward()
        optimizer.step()
        counts["made"] += 1
        return loss.detach()

    def state_dict():
        return {**net.state_dict(), "counts": torch.tensor(list(counts.values()))}

    return NS(step=step, net=NS(state_dict=state_dict), batch=now_and_then(4, far), calls=80)


@program
def a_schedule_that_a_value_decides():
    net = mlp()
    optimizer = torch.optim.SGD(net.parameters(), 0.05)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        if loss > 5:
            scheduler.step()
        return loss.detach()

    return NS(step=step, net=net, batch=now_and_then(4, far), calls=80)
