# Python numbers that are a truth value in one step, whole in the next and real in others, beside tensors of each type:
# where the type of what is computed does not depend on it, the program is one (kind: 11b_number_changes_kind.py).
# `kinds_of_numbers.py compare`: beside whole numbers it does, and the iterations are two variants.
import sys

import torch

COMPARE = "compare" in sys.argv


class Numbers(torch.nn.Module):
    @torch.no_grad()
    def forward(self, x, half, n, number, flag):
        if COMPARE:
            return n < number
        filled, weight = n.clone().fill_(number), number + 0  # not every op takes a truth value
        return {
            "times": x * number, "plus": number + x, "minus": weight - x, "over": x / number, "power": x**weight,
            "double": x.double() * number, "half": half * number, "less": x < number, "most": x.clamp(max=weight),
            "alpha": torch.add(x, x, alpha=weight), "where": torch.where(x > 0, x, number),
            "masked": x.masked_fill(x > 0, number), "full": torch.full(
                (2,), number, dtype=torch.float32), "filled": filled, "quotient": n / number, "flag": x * flag,
            "whole": n * flag, "equal": n == flag, "chosen": torch.where(n > 3, n,
                                                                         flag), "added": torch.add(n, flag, alpha=2),
            "lerp": torch.lerp(x, x * 2,
                               weight), "scatter": x.scatter(0, torch.tensor([0, 1]),
                                                             number), "addcmul": torch.addcmul(x, x, x, value=weight)
        }


model = Numbers()
for step in range(6):
    number = [1, 0.5, 3, 0.25, True, 2.5][step]
    x = torch.tensor([0.3, -1.7, 2.5, 1e-3]) * (step + 1)
    model(x, x.half(), torch.tensor([2, -5, 7, 16777217]), number, [True, 2, 3, False, 1, True][step])
