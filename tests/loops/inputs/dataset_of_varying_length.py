# The usual Dataset: __getitem__ makes a tensor of a word and pads it (makemore's CharDataset). With num_workers=0
# these ops are part of the iteration, so iterations differ in size although the model sees one shape: replay exits 3
# "differ at op 1". crucible record -o d.crtrace -- python dataset_of_varying_length.py [WORKERS] ; crucible replay
# d.crtrace --verify
import sys, torch, torch.nn as nn
from torch.utils.data import DataLoader, Dataset
words = ["emma", "olivia", "ava", "isabella", "sophia", "mia", "charlotte", "amelia"] * 40
class Names(Dataset):
    def __len__(self): return len(words)
    def __getitem__(self, i):
        ids = torch.tensor([ord(c) - 96 for c in words[i]])
        x = torch.zeros(12, dtype=torch.long); x[1:1 + len(ids)] = ids
        return x
torch.manual_seed(0)
net = nn.Sequential(nn.Embedding(27, 16), nn.Linear(16, 27))
opt = torch.optim.AdamW(net.parameters())
for x in DataLoader(Names(), batch_size=8, shuffle=True, num_workers=int(sys.argv[1]) if len(sys.argv) > 1 else 0):
    opt.zero_grad()
    loss = nn.functional.cross_entropy(net(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())
    loss.backward()
    opt.step()
