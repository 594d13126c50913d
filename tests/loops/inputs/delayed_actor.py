# DDPG/TD3/SAC: the actor acts without gradients in every step, the critic learns in every step, the actor in every
# second one. crucible record -o d.crtrace -- python delayed_actor.py  ->  nothing recorded: "no iteration was
# recorded whole: the program ended"
import torch
import torch.nn as nn

torch.manual_seed(0)
actor = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 1))
target = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 1))
critic = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
opt_q, opt_a = torch.optim.Adam(critic.parameters()), torch.optim.Adam(actor.parameters())
replay = torch.randn(500, 5)
for step in range(200):
    with torch.no_grad():
        act = actor(torch.randn(1, 3))
    batch = replay[torch.randint(0, 500, (32,))]
    obs, reward, nxt = batch[:, :3], batch[:, 3:4], torch.roll(batch[:, :3], 1, 0)
    with torch.no_grad():
        goal = reward + 0.9 * critic(torch.cat([nxt, target(nxt)], 1))
    loss = nn.functional.mse_loss(critic(torch.cat([obs, actor(obs).detach()], 1)), goal)
    opt_q.zero_grad()
    loss.backward()
    opt_q.step()
    if step % 2 == 0:
        loss_a = -critic(torch.cat([obs, actor(obs)], 1)).mean()
        opt_a.zero_grad()
        loss_a.backward()
        opt_a.step()
        for p, t in zip(actor.parameters(), target.parameters()):
            t.data.mul_(0.99).add_(p.data, alpha=0.01)
print("done")
