# augmentation in Dataset.__getitem__ (num_workers=0): the loader's own ops are part of the iteration and vary
import torch, torchvision.transforms.v2 as T; torch.manual_seed(0)
tf=T.RandomHorizontalFlip()
X=torch.randn(64,3,8,8)
m=torch.nn.Linear(192,3)
opt=torch.optim.SGD(m.parameters(),lr=.1)
class D(torch.utils.data.Dataset):
    def __len__(s): return 64
    def __getitem__(s,i): return tf(X[i]),i%3
for x,y in torch.utils.data.DataLoader(D(),8):
    l=torch.nn.functional.cross_entropy(m(x.flatten(1)),y); opt.zero_grad(); l.backward(); opt.step(); print(l.item())
