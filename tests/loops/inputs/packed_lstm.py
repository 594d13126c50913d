# An LSTM over packed sequences of different lengths.
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

torch.manual_seed(0)
lstm, head = nn.LSTM(4, 8, batch_first=True, bidirectional=True), nn.Linear(16, 2)
optimizer = torch.optim.Adam([*lstm.parameters(), *head.parameters()], lr=0.01)
for step in range(11):
    lengths = torch.randint(2, 5, (5,))
    rows = pad_sequence([torch.randn(int(n), 4) for n in lengths], batch_first=True)
    packed = pack_padded_sequence(rows, lengths, batch_first=True, enforce_sorted=False)
    out, sizes = pad_packed_sequence(lstm(packed)[0], batch_first=True)
    mask = torch.arange(out.shape[1]).unsqueeze(0) < sizes.unsqueeze(1)
    loss = head(out)[mask].square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
