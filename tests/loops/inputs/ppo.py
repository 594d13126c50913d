# PPO on a pole that falls: episodes of different length, several epochs over each batch of experience.
import torch
from torch import nn

torch.manual_seed(0)


class Pole:
    def reset(self):
        self.at, self.steps = torch.rand(2) * 0.1, 0
        return self.at.clone()

    def step(self, action):
        push = 0.1 if action else -0.1
        self.at = torch.stack([self.at[0] + 0.1 * self.at[1], self.at[1] + 0.3 * self.at[0] + push])
        self.steps += 1
        return self.at.clone(), 1.0, bool(self.at.abs().max() > 0.5) or self.steps > 20


policy = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
value = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam([*policy.parameters(), *value.parameters()], lr=0.01)
pole = Pole()
for update in range(6):
    seen, actions, rewards, chances = [], [], [], []
    for episode in range(2):
        state, over, sum_of = pole.reset(), False, []
        while not over:
            with torch.no_grad():
                spread = torch.distributions.Categorical(logits=policy(state))
                action = spread.sample()
            seen.append(state), actions.append(action), chances.append(spread.log_prob(action))
            state, reward, over = pole.step(action.item())
            sum_of.append(reward)
        total, back = 0.0, []
        for reward in reversed(sum_of):
            total = reward + 0.9 * total
            back.append(total)
        rewards += reversed(back)
    seen, actions, chances = torch.stack(seen), torch.stack(actions), torch.stack(chances)
    rewards = torch.tensor(rewards)
    advantage = rewards - value(seen).squeeze(1).detach()
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-6)
    for epoch in range(2):
        spread = torch.distributions.Categorical(logits=policy(seen))
        ratio = (spread.log_prob(actions) - chances).exp()
        loss = -torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
        loss = loss + 0.5 * (value(seen).squeeze(1) - rewards).square().mean() - 0.01 * spread.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
        optimizer.step()
