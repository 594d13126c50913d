# A GAN with two critic steps per round and fakes made under no_grad: nothing is recorded ("no iteration was recorded
# whole")
import torch; torch.manual_seed(0)
import torch.nn as nn, torch.nn.functional as F
C = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
A = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
oc = torch.optim.RMSprop(C.parameters(), lr=1e-3); oa = torch.optim.RMSprop(A.parameters(), lr=1e-3)
for i in range(40):
    for _ in range(2):
        oc.zero_grad()
        with torch.no_grad(): made = A(torch.randn(16, 4))
        l = F.relu(1 - C(torch.randn(16, 2))).mean() + F.relu(1 + C(made)).mean(); l.backward(); oc.step()
    oa.zero_grad(); g = F.softplus(-C(A(torch.randn(16, 4)))).mean(); g.backward(); oa.step()
