# Sequences of different lengths through a recurrent layer: packed before it and padded after it.
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

torch.manual_seed(0)
lstm, head = torch.nn.LSTM(4, 6, batch_first=True, bidirectional=True), torch.nn.Linear(12, 3)
opt = torch.optim.SGD([*lstm.parameters(), *head.parameters()], lr=0.1)
lengths = torch.tensor([3, 7, 5, 1])
for step in range(8):
    x = torch.randn(4, 7, 4)
    packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    out, _ = pad_packed_sequence(lstm(packed)[0], batch_first=True)
    loss = torch.nn.functional.cross_entropy(head(out).flatten(0, 1), torch.randint(0, 3, (28,)))
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(loss.item())
