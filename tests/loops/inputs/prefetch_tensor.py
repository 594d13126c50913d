# A loop that prefetches its next batch (as accelerate's DataLoaderShard does), batch made by torch.tensor
import torch, random
torch.manual_seed(0); R = random.Random(0)
m = torch.nn.Linear(4, 3); opt = torch.optim.SGD(m.parameters(), lr=.1)
def batch():
    x = [[R.random() for _ in range(4)] for _ in range(8)]
    return torch.tensor(x), torch.tensor([R.randrange(3) for _ in range(8)])
nxt = batch()
for i in range(8):
    x, y = nxt
    nxt = batch()
    l = torch.nn.functional.cross_entropy(m(x), y)
    opt.zero_grad(); l.backward(); opt.step(); print(l.item())
