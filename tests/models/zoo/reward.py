"""Learning from rewards: one step of deep Q-learning."""

import torch
from torch.nn import functional as F

from zoo.common import model


@model("dqn")
def dqn():
    """Replay memory, epsilon-greedy action, target network that follows slowly: data-dependent indices and copies in
    place."""
    def network():
        return torch.nn.Sequential(torch.nn.Linear(4, 32), torch.nn.ReLU(), torch.nn.Linear(32, 32), torch.nn.ReLU(),
                                   torch.nn.Linear(32, 2))

    policy, target = network(), network()
    target.load_state_dict(policy.state_dict())
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-3, amsgrad=True)
    size = 64
    memory = {"state": torch.randn(size, 4), "action": torch.randint(0, 2, (size, 1)), "next": torch.randn(size, 4),
              "reward": torch.randn(size), "done": torch.rand(size) < 0.1}
    state, at = torch.randn(4), 0

    def step():
        nonlocal state, at
        with torch.no_grad():
            greedy = policy(state.unsqueeze(0)).max(1).indices.item()
        action = int(torch.randint(0, 2, ()).item()) if torch.rand(()).item() < 0.2 else greedy
        following = state * 0.9 + torch.randn(4) * 0.1
        place = at % size
        memory["state"][place] = state
        memory["action"][place] = action
        memory["next"][place] = following
        memory["reward"][place] = following.abs().sum()
        memory["done"][place] = at % 10 == 9
        state, at = following, at + 1
        chosen = torch.randperm(size)[:16]
        values = policy(memory["state"][chosen]).gather(1, memory["action"][chosen]).squeeze(1)
        with torch.no_grad():
            best = target(memory["next"][chosen]).max(1).values.masked_fill(memory["done"][chosen], 0.0)
        loss = F.smooth_l1_loss(values, memory["reward"][chosen] + 0.99 * best)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_value_(policy.parameters(), 100)
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(target.parameters(), policy.parameters()):
                slow.mul_(0.995).add_(fast, alpha=0.005)
        return loss

    return policy, step
