# The training step after an evaluation is passed over without being counted as lost: step 4 is missing and step 5
# stands in its place
import torch; torch.manual_seed(0)
m = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 1))
opt = torch.optim.SGD(m.parameters(), lr=.1)
for i in range(16):
    l = m(torch.randn(8, 4)).pow(2).mean(); opt.zero_grad(); l.backward(); opt.step()
    if i % 4 == 3:
        m.eval()
        with torch.no_grad(): print("validation", m(torch.randn(8, 4)).pow(2).mean().item())
        m.train()
