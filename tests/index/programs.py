"""Random PyTorch training steps out of fills, marks, places, masks, views and slices: programs.py PACKAGE FOLDER FIRST
COUNT [--print]

Program SEED becomes FOLDER/SEED.crtrace, recorded in this process, and its source FOLDER/SEED.py. Statements are tried
out as they are drawn, so that each program runs. Sizes of what masks list do not depend on data that changes; nothing
that is not continuous is asked of numbers that were rounded: so what replays is what eager gave, within rounding.
replay_index.cpp compares them.
"""

import argparse
import gc
import os
import random
import sys

ITERATIONS, WARMUP = 3, 2
ROWS, COLUMNS, PLACES = 6, 4, 5

PRELUDE = f"""
import torch
torch.manual_seed(SEED)
weight = torch.nn.Parameter(torch.rand({COLUMNS}, {COLUMNS}) - 0.5)
bias = torch.nn.Parameter(torch.rand({COLUMNS}) - 0.5)
optimizer = torch.optim.SGD([weight, bias], lr=0.0625)
table = torch.rand(16, {ROWS}, {COLUMNS}) - 0.5
places = torch.stack([torch.randperm({ROWS})[:{PLACES}] for _ in range(16)])
doubled = torch.randint(0, {ROWS}, (16, {PLACES}))
columns = torch.randint(0, {COLUMNS}, ({ROWS}, {COLUMNS}))
labels = torch.randint(0, 3, ({ROWS},))
running = torch.zeros({ROWS}, {COLUMNS})
"""

HEAD = [
    "data = table[step % 16]",
    "index = places[step % 16]",
    "twice = doubled[step % 16]",
    "x = (data @ weight + bias).tanh()",
]

# Floats of ROWS x COLUMNS in {a} and {b}; {n} is new. A list is the lines of one statement. {k}: a small number, {i} a
# row, {j} a column, {c}: one of few numbers.
FLOATS = [
    ["{n} = torch.zeros(6, 4)"],
    ["{n} = torch.ones(6, 4)"],
    ["{n} = torch.full((6, 4), {c})"],
    ["{n} = {a}.new_zeros(6, 4)"],
    ["{n} = torch.zeros_like({a})"],
    ["{n} = torch.ones_like({a}) * {c}"],
    ["{n} = torch.empty_like({a}).fill_({c})"],
    ["{n} = torch.linspace(0, 1, 24).view(6, 4)"],
    ["{n} = torch.arange(24.).reshape(6, 4) / 24"],
    ["{n} = torch.eye(6, 4)"],
    ["{n} = torch.arange(6.)[:, None] * {a} / 6"],
    ["{n} = {a}.clone()", "{n}[:, {j}] = {c}"],
    ["{n} = {a}.clone()", "{n}[{i}] = {c}"],
    ["{n} = {a}.clone()", "{n}[1:4] = {b}[2:5]"],
    ["{n} = {a}.clone()", "{n}[::2, 1:] = {c}"],
    ["{n} = torch.zeros(6, 4)", "{n}[index] = {a}[index]"],
    ["{n} = {a}.clone()", "{n}[index] = {c}"],
    ["{n} = {a}.clone()", "{n}[twice] = {c}"],
    ["{n} = {a}.clone()", "{n}[index, 1] = {b}[index, 2]"],
    ["{n} = {a}.clone()", "{n}[index] += {b}[:5]"],
    ["{n} = {a}.index_put((twice,), {b}[:5], accumulate=True)"],
    ["{n} = torch.zeros(6, 4).index_put_((index,), {a}[:5])"],
    ["{n} = torch.zeros(6, 4).index_add_(0, twice, {a}[:5], alpha=0.5)"],
    ["{n} = {a}.index_add(0, twice, {b}[1:])"],
    ["{n} = {a}.index_copy(0, index, {b}[1:])"],
    ["{n} = {a}.index_fill(0, index, {c})"],
    ["{n} = {a}.index_fill(1, columns[0, :2], {c})"],
    ["{n} = {a}.masked_fill({m}, {c})"],
    ["{n} = {a}.masked_scatter({m}, {b})"],
    ["{n} = {a}.clone()", "{n}[{m}] = {c}"],
    ["{n} = torch.where({m}, {a}, {b})"],
    ["{n} = torch.where({m}, {a}, torch.zeros_like({a}))"],
    ["{n} = {a}.scatter(1, columns, {b})"],
    ["{n} = torch.zeros(6, 4).scatter_(1, columns, {c})"],
    ["{n} = {a}.scatter_add(1, columns, {b})"],
    ["{n} = torch.zeros(6, 4).scatter_add_(1, columns, {a})"],
    ["{n} = {a}.scatter_reduce(1, columns, {b}, 'sum')"],
    ["{n} = {a}.scatter_reduce(1, columns, {b}, 'mean', include_self=False)"],
    ["{n} = {a}.detach().scatter_reduce(1, columns, data, 'amax')"],
    ["{n} = {a}.flip(0)"],
    ["{n} = {a}.flip(0, 1)"],
    ["{n} = {a}.roll({k}, 0)"],
    ["{n} = {a}.roll((1, {k}), (0, 1))"],
    ["{n} = torch.gather({a}, 1, columns)"],
    ["{n} = torch.take({a}, columns + 4 * labels[:, None])"],
    ["{n} = {a}[torch.arange(5, -1, -1)]"],
    ["{n} = {a}.index_select(0, torch.cat([index, index[:1]]))"],
    ["{n} = {a}.cumsum(0)"],
    ["{n} = {a}.cumsum(1) / 4"],
    ["{n} = {a}.sort(0).values"],
    ["{n} = {a}.sort(1, descending=True).values"],
    ["{n} = {a}.triu()"],
    ["{n} = {a}.tril(1)"],
    ["{n} = torch.cat([{a}[2:], torch.zeros(2, 4)])"],
    ["{n} = torch.stack([{a}[:3], {b}[3:]]).view(6, 4)"],
    ["{n} = torch.nn.functional.pad({a}[:, 1:], (1, 0))"],
    ["{n} = {a} + {b}"],
    ["{n} = {a} * {b}"],
    ["{n} = {a} - {b} * {c}"],
    ["{n} = torch.maximum({a}, {b} * 1.5)"],
    ["{n} = {a}.tanh()"],
    ["{n} = ({a} * 0.5).sin()"],
    ["{n} = {a} @ weight"],
    ["{n} = torch.nn.functional.one_hot(labels, 4).float()"],
    ["{n} = torch.zeros(6, 4)", "{n}[torch.arange(6), labels] = 1."],
    # views of one buffer that are written
    ["{n} = {a}.clone()", "{n}.view(-1)[{i}] = {c}"],
    ["{n} = {a}.clone()", "{n}.t()[1].zero_()"],
    ["{n} = {a}.clone()", "{n}.diagonal().fill_({c})"],
    ["{n} = {a}.clone()", "{n}.narrow(0, 1, 3).mul_(0.5)"],
    ["{n} = {a}.clone()", "{n}[1:5].copy_({b}[:4])"],
    ["{n} = {a}.clone()", "{n}[0], {n}[1] = {n}[1].clone(), {n}[0].clone()"],
    ["{n} = {a}.clone().zero_()", "{n}[2:] += {b}[:4]"],
    ["{n} = {a}.clone()", "{n}.view(3, 8)[1] = {b}.view(3, 8)[2]"],
    ["{n} = torch.zeros(2, 6, 4)", "{n}[1] = {a}", "{n}[0, 1:] = {b}[1:]", "{n} = {n}.sum(0)"],
    ["{n} = torch.zeros(24)", "{n}[::4] = {a}[:, 0]", "{n} = {n}.view(6, 4)"],
    ["{n} = {a}.unsqueeze(0).expand(2, 6, 4).clone()", "{n}[0] = 0.", "{n} = {n}.mean(0)"],
    # what is marked, as a list
    ["rows, cols = torch.where({m})", "{n} = torch.zeros(6, 4)", "{n}[rows, cols] = {a}[rows, cols]"],
    ["{n} = torch.zeros(6, 4)", "{n}[{m}.nonzero()[:, 0]] = {c}"],
    ["{n} = torch.zeros(6, 4).masked_scatter({m}, {a}[{m}])"],
    [
        "far = (labels[:, None] == labels) & ~torch.eye(6, dtype=torch.bool)",
        "{n} = {a} + {a}[torch.where(far)[0]].mean()"
    ],
    ["near = torch.zeros(6, 6, dtype=torch.bool)", "near[torch.arange(6), labels] = True", "{n} = near.float() @ {a}"],
    ["flat = torch.zeros(10)", "flat[index] = {a}[index, 0]", "flat[twice + 2] += 0.5", "{n} = {a} * flat[:6, None]"],
    ["out = torch.zeros(6)", "part = {a}.clone()", "part[:, 0] = 0.", "{n} = {a} + (out + part[:, 1])[:, None]"],
    [
        "ones = torch.ones(6)", "count = torch.zeros(3).scatter_add_(0, labels, ones)",
        "{n} = {a} / count.clamp(min=1.)[labels][:, None]"
    ],
]
# {a} and {b} of the program; masks of 6 x 4 out of what does not change, so that lists of them have one size.
MASKS = [["{n} = columns > 1"], ["{n} = torch.arange(24).view(6, 4) % {k} == 0"],
         ["{n} = torch.eye(6, 4, dtype=torch.bool)"], ["{n} = ~torch.eye(6, 4, dtype=torch.bool)"],
         ["{n} = labels[:, None] == torch.arange(4)"], ["{n} = {m} & (columns != {j})"],
         ["{n} = {m} | torch.zeros(6, 4, dtype=torch.bool)"],
         ["{n} = torch.zeros(6, 4, dtype=torch.bool)", "{n}[labels] = True"],
         ["{n} = torch.ones(6, 4, dtype=torch.bool).tril()"], ["{n} = {m}.flip(0)"],
         ["{n} = {m}.clone()", "{n}[:, {j}] = False"], ["{n} = {m}.logical_not()"],]


class Drawer:
    """Draws the lines of one program; runs each statement at once to see that it can be."""

    def __init__(self, seed, torch):
        self.random, self.torch, self.seed, self.count = random.Random(seed), torch, seed, 0
        self.floats, self.masks, self.lines = ["x", "data"], ["mask"], []
        self.space = {}
        exec(PRELUDE.replace("SEED", str(seed)), self.space)
        self.space["step"] = 0
        for line in HEAD + ["mask = columns > 1"]:
            exec(line, self.space)

    def draw(self):
        for _ in range(self.random.randint(2, 14)):
            self.statement(*((MASKS, self.masks) if self.random.random() < 0.2 else (FLOATS, self.floats)))
        used = self.random.sample(self.floats, min(len(self.floats), self.random.randint(1, 4)))
        body = HEAD + ["mask = columns > 1"] + self.lines
        if self.random.random() < 0.15:
            body = ["torch.set_grad_enabled(False)"
                   ] + body + [f"running.mul_(0.5).add_({' + '.join(used)})", "torch.set_grad_enabled(True)"]
            return body
        body.append(f"loss = ({' + '.join(used)}).pow(2).mean() + x.mean()")
        if self.random.random() < 0.5:
            body += ["with torch.no_grad():", f"    running.mul_(0.5).add_({self.random.choice(self.floats)})"]
        if self.random.random() < 0.2:
            body += ["with torch.no_grad():", f"    running[index] = {self.random.choice(self.floats)}[index]"]
        return body + ["optimizer.zero_grad()", "loss.backward()", "optimizer.step()"]

    def statement(self, templates, pool):
        for _ in range(5):
            new = f"v{self.count}" if self.random.random() < 0.85 or len(pool) < 3 else self.random.choice(pool[2:])
            pick = lambda: self.random.choice(self.floats[-5:])
            words = {
                "n": new, "a": pick(), "b": pick(), "m": self.random.choice(self.masks), "k": self.random.randint(2, 4),
                "i": self.random.randint(0, 5), "j": self.random.randint(0, 3),
                "c": self.random.choice(["0.", "0.5", "1.", "-1."])
            }
            if new in (words["a"], words["b"], words["m"]):
                continue
            lines = [line.format(**words) for line in self.random.choice(templates)]
            try:
                for line in lines:
                    exec(line, self.space)
            except Exception:  # a write that autograd refuses, mostly
                continue
            made = self.space[new]
            if tuple(made.shape) != (ROWS, COLUMNS) or (made.is_floating_point() and not bool(
                (made.detach().abs() < 50).all())):
                continue
            self.lines += lines
            if new not in pool:
                pool.append(new)
                self.count += 1
            return


def source_of(seed, torch):
    """Prelude and body of a program whose steps run, backward pass included."""
    for attempt in range(20):
        body = Drawer(seed * 100 + attempt, torch).draw()
        space = {}
        exec(PRELUDE.replace("SEED", str(seed)), space)
        code = compile("\n".join(body), f"program {seed}", "exec")
        try:
            for step in range(ITERATIONS):
                space["step"] = step
                exec(code, space)
        except Exception:
            torch.set_grad_enabled(True)
            continue
        if all(bool(space[name].detach().isfinite().all()) for name in ("weight", "bias", "running")):
            return PRELUDE.replace("SEED", str(seed)), body
    return None


def record(seed, folder, torch, crucible):
    found = source_of(seed, torch)
    if found is None:
        return False
    prelude, body = found
    path = os.path.join(folder, str(seed))
    with open(path + ".py", "w", encoding="ascii") as file:
        file.write(prelude + f"for step in range({ITERATIONS + WARMUP + 1}):\n" +
                   "".join(f"    {line}\n" for line in body))
    space = {}
    exec(prelude, space)
    code = compile("\n".join(body), path + ".py", "exec")
    with crucible.record(path + ".crtrace", iterations=ITERATIONS, warmup=WARMUP, end_of_iteration="step"):
        for step in range(ITERATIONS + WARMUP + 1):
            space["step"] = step
            exec(code, space)
            crucible.step()
    return True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("package")
    parser.add_argument("folder")
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--print", action="store_true", help="only print the sources")
    arguments = parser.parse_args()
    sys.path.insert(0, arguments.package)
    import torch

    torch.set_num_threads(1)
    if arguments.print:
        for seed in range(arguments.first, arguments.first + arguments.count):
            print("\n".join([source_of(seed, torch)[0], *source_of(seed, torch)[1]]))
        return
    import crucible
    import torch._dynamo  # as the first optimizer does

    gc.freeze()  # each recording collects what is left of the last one: not of torch, too
    left_out = [
        seed for seed in range(arguments.first, arguments.first + arguments.count)
        if not record(seed, arguments.folder, torch, crucible)
    ]
    print(f"{arguments.count - len(left_out)} programs recorded, seeds {left_out} gave none")


if __name__ == "__main__":
    main()
