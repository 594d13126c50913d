"""Deep Q-learning (DQN) on a small world, eagerly and with `crucible.accelerate`.

The world: a cart on a line is pushed left or right and shall stay near the middle. There are a replay buffer, a target
network that is updated by hand between calls, and epsilon-greedy acting. The lines of Crucible are marked: one for
acting (a module, without gradients), one for learning (a function with its optimizer). Without arguments both ways
run from one seed, and a table compares them:

    python accelerate_rl.py
    python accelerate_rl.py --eager --steps 100
"""

import argparse
import random
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

HIDDEN, BATCH, BUFFER, DISCOUNT, TAU, LEARNING_STARTS = 64, 32, 2000, 0.97, 0.02, 64
EPISODE = 100


class Cart:
    """State: place and speed. Action 0 pushes left, 1 right. The reward is higher nearer to the middle."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.reset()

    def reset(self):
        self.place, self.speed, self.age = self.random.uniform(-1, 1), 0.0, 0
        return self.state()

    def state(self):
        return [self.place, self.speed]

    def step(self, action):
        self.speed += (0.1 if action else -0.1) + self.random.gauss(0, 0.01)
        self.place += 0.2 * self.speed
        self.age += 1
        is_over = abs(self.place) > 2 or self.age >= EPISODE
        return self.state(), 1.0 - abs(self.place), is_over


class Memory:
    """The last BUFFER transitions, in tensors."""

    def __init__(self):
        self.states, self.nexts = torch.zeros(BUFFER, 2), torch.zeros(BUFFER, 2)
        self.actions, self.rewards, self.ends = torch.zeros(BUFFER, 1).long(), torch.zeros(BUFFER), torch.zeros(BUFFER)
        self.count = 0

    def add(self, state, action, reward, following, is_over):
        k = self.count % BUFFER
        self.states[k], self.nexts[k] = torch.tensor(state), torch.tensor(following)
        self.actions[k], self.rewards[k], self.ends[k] = action, reward, float(is_over)
        self.count += 1

    def sample(self, choice):
        rows = torch.tensor([choice.randrange(min(self.count, BUFFER)) for _ in range(BATCH)])
        return self.states[rows], self.actions[rows], self.rewards[rows], self.nexts[rows], self.ends[rows]


def network():
    return nn.Sequential(nn.Linear(2, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 2))


def learn(steps, seed, accelerated):
    """(losses, seconds of each step: acting and learning together, report or None)."""
    torch.manual_seed(seed)
    q, target = network(), network()
    target.load_state_dict(q.state_dict())
    optimizer = torch.optim.AdamW(q.parameters(), lr=1e-3)

    def train_step(states, actions, rewards, nexts, ends):
        with torch.no_grad():
            wanted = rewards + DISCOUNT * (1 - ends) * target(nexts).max(1).values
        optimizer.zero_grad()
        loss = F.smooth_l1_loss(q(states).gather(1, actions).squeeze(1), wanted)
        loss.backward()
        optimizer.step()
        return loss.detach()

    act = q
    if accelerated:
        import crucible                             # <-- Crucible
        act = crucible.accelerate(q)                  # <-- Crucible: acting
        train_step = crucible.accelerate(train_step)  # <-- Crucible: learning

    world, memory, choice = Cart(seed), Memory(), random.Random(seed)
    state, losses, seconds, returns = world.state(), [], [], []
    for number in range(steps + LEARNING_STARTS):
        epsilon = max(0.05, 1 - number / (steps / 2 + 1))
        began = time.perf_counter()
        if choice.random() < epsilon:
            action = choice.randrange(2)
        else:
            with torch.no_grad():
                action = int(act(torch.tensor([state])).argmax())
        acting = time.perf_counter() - began
        following, reward, is_over = world.step(action)
        memory.add(state, action, reward, following, is_over)
        returns.append(reward)
        state = world.reset() if is_over else following
        if number < LEARNING_STARTS:
            continue
        batch = memory.sample(choice)
        began = time.perf_counter()
        losses.append(train_step(*batch))
        seconds.append(acting + time.perf_counter() - began)
        if accelerated and number < 160:
            train_step.wait(), act.wait()  # for the table's sake: a loop of hours goes on while something is compiled
        with torch.no_grad():  # the target network follows slowly: by hand, between the calls
            for old, new in zip(target.parameters(), q.parameters()):
                old.lerp_(new, TAU)
    print(f"{'accelerated' if accelerated else 'eager'}: mean reward of the last 200 steps "
          f"{sum(returns[-200:]) / len(returns[-200:]):.3f}")
    report = f"{act.report()}\n{train_step.report()}" if accelerated else None
    return [loss.item() for loss in losses], seconds, report


def main():
    from accelerate_table import compare, show

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1000, help="steps of learning to run (default 1000)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the parameters and of the world (default 0)")
    parser.add_argument("--eager", action="store_true", help="only eagerly, without Crucible")
    args = parser.parse_args()
    eager = learn(args.steps, args.seed, False)
    if args.eager:
        return show("loss", eager)
    compare("loss", eager, learn(args.steps, args.seed, True))


if __name__ == "__main__":
    main()
